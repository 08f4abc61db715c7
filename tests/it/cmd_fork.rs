//! `fork`.

use std::fs;

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn a_fork_has_the_path_and_leaves_the_source() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let before = fs::read(&path).expect("the file");
    assert_snapshot!(env.run("fork demo"), @r#"
$ pi-sessions fork demo
[TMP]/data/sessions/--home-me-project--/2026-11-30T12-00-01-000Z_019ad3c5-0000-7000-8000-000000000001.jsonl
--- stderr
forked 9 entries from [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
"#);
    assert_eq!(fs::read(&path).expect("the file"), before);
    assert_eq!(env.run("path 019ad3c5").stdout, env.run("path demo").stdout);
}

#[test]
fn a_fork_before_a_message_gives_its_text() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("fork demo --before u2"), @r#"
$ pi-sessions fork demo --before u2
[TMP]/data/sessions/--home-me-project--/2026-11-30T12-00-01-000Z_019ad3c5-0000-7000-8000-000000000001.jsonl
--- stderr
forked 6 entries from [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
text to edit:
Write it
"#);
    assert_snapshot!(env.run("fork demo --before u2 --json --name 'Again'"), @r#"
$ pi-sessions fork demo --before u2 --json --name 'Again'
{"id":"019ad3c5-0000-7000-8000-000000000002","path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T12-00-02-000Z_019ad3c5-0000-7000-8000-000000000002.jsonl","parentSession":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl","editorText":"Write it"}
--- stderr
forked 7 entries from [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
"#);
    assert_snapshot!(env.run("fork demo --before a2"), @r#"
$ pi-sessions fork demo --before a2
--- stderr
error: a2 is not a user message
--- exit code 2
"#);
}

#[test]
fn a_fork_goes_to_the_folder_that_is_given() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("fork demo --at a3 --cwd ../copy"), @r#"
$ pi-sessions fork demo --at a3 --cwd ../copy
[TMP]/data/sessions/--home-me-copy--/2026-11-30T12-00-01-000Z_019ad3c5-0000-7000-8000-000000000001.jsonl
--- stderr
forked 8 entries from [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
"#);
    assert_snapshot!(env.run("fork demo --all --json"), @r#"
$ pi-sessions fork demo --all --json
{"id":"019ad3c5-0000-7000-8000-000000000002","path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T12-00-02-000Z_019ad3c5-0000-7000-8000-000000000002.jsonl","parentSession":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl","editorText":null}
--- stderr
forked 11 entries from [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
"#);
    assert_eq!(env.run("fork demo --all --at a3").code, 2);
}
