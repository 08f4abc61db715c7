//! `model`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn a_model_is_shown_and_set() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("model demo"), @r#"
$ pi-sessions model demo
mock/mock-2
"#);
    assert_snapshot!(env.run("model demo openrouter/anthropic/claude"), @r#"
$ pi-sessions model demo openrouter/anthropic/claude
--- stderr
demo goes on with openrouter/anthropic/claude
"#);
    assert_snapshot!(env.run("model demo --json"), @r#"
$ pi-sessions model demo --json
{"provider":"openrouter","modelId":"anthropic/claude"}
"#);
    assert_snapshot!(env.run("model demo"), @r#"
$ pi-sessions model demo
openrouter/anthropic/claude
"#);
}

#[test]
fn a_session_without_a_model_has_none() {
    let env = TestEnv::new();
    env.session("empty", "");
    assert_snapshot!(env.run("model empty"), @r#"
$ pi-sessions model empty
--- stderr
note: no model is set in empty
"#);
    assert_snapshot!(env.run("model empty --json"), @r#"
$ pi-sessions model empty --json
{"provider":null,"modelId":null}
--- stderr
note: no model is set in empty
"#);
    assert_snapshot!(env.run("model empty gpt"), @r#"
$ pi-sessions model empty gpt
--- stderr
error: a model is named by PROVIDER/MODEL, not "gpt"
Hint: pi-sessions model @last anthropic/claude-sonnet-4-5
--- exit code 2
"#);
}
