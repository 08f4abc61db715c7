//! `name`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn a_name_is_shown_set_and_cleared() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("name demo"), @r#"
$ pi-sessions name demo
Login bug
"#);
    assert_snapshot!(env.run("name demo ' New name '"), @r#"
$ pi-sessions name demo ' New name '
--- stderr
named "New name": demo
"#);
    assert_snapshot!(env.run("name demo --json"), @r#"
$ pi-sessions name demo --json
{"id":"demo","name":"New name"}
"#);
    assert_snapshot!(env.run("name demo --clear"), @r#"
$ pi-sessions name demo --clear
--- stderr
cleared the name of demo
"#);
    assert_snapshot!(env.run("name demo"), @r#"
$ pi-sessions name demo
--- stderr
note: there is no name for demo
"#);
    assert_snapshot!(env.run("name demo --json"), @r#"
$ pi-sessions name demo --json
{"id":"demo","name":null}
--- stderr
note: there is no name for demo
"#);
    assert_eq!(env.run("name demo x --clear").code, 2);
}

#[test]
fn a_session_is_found_by_its_name() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_eq!(env.run("show 'Login bug' --json").stdout, env.run("show demo --json").stdout);
}

#[test]
fn a_newer_version_is_refused() {
    let env = TestEnv::new();
    let path = env.write("new.jsonl", "{\"type\":\"session\",\"version\":5,\"id\":\"n\",\"timestamp\":\"\",\"cwd\":\"/x\"}\n");
    assert_snapshot!(env.run(&format!("name {} x", path.display())), @r#"
$ pi-sessions name [TMP]/new.jsonl x
--- stderr
error: version 5 is newer than 3, so this session can be read and not changed: [TMP]/new.jsonl
Hint: a newer version of pi-sessions may know this format
--- exit code 1
"#);
    assert_snapshot!(env.run(&format!("name {} x --json", path.display())), @r#"
$ pi-sessions name [TMP]/new.jsonl x --json
--- stderr
{"error":{"kind":"unsupportedVersion","message":"version 5 is newer than 3, so this session can be read and not changed: [TMP]/new.jsonl","hints":["a newer version of pi-sessions may know this format"]}}
--- exit code 1
"#);
}
