//! `goto`.

use std::fs;
use std::sync::Arc;

use insta::assert_snapshot;
use pi_sessions::storage::fs::{Fs, StdFs};
use pi_sessions::storage::lock::OwnerLock;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn a_user_message_is_gone_back_to_with_its_text() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    assert_snapshot!(env.run("goto demo u2"), @r#"
$ pi-sessions goto demo u2
Write it
--- stderr
moved the leaf from n1 to a2
"#);
    let text = fs::read_to_string(path).expect("the file");
    assert_snapshot!(text.lines().last().expect("a line"), @r#"{"type":"leaf","id":"e0000001","parentId":"a2","timestamp":"2026-11-30T12:00:01.000Z","targetId":"a2","fromId":"n1"}"#);
}

#[test]
fn any_other_entry_becomes_the_leaf() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("goto demo a3 --json"), @r#"
$ pi-sessions goto demo a3 --json
{"leafId":"a3","fromId":"n1","summaryId":null,"editorText":null}
--- stderr
moved the leaf from n1 to a3
"#);
    assert_snapshot!(env.run("goto demo @prev"), @r#"
$ pi-sessions goto demo @prev
--- stderr
moved the leaf from a3 to n1
"#);
    assert_snapshot!(env.run("goto demo @leaf"), @r#"
$ pi-sessions goto demo @leaf
--- stderr
the leaf is there already: n1
"#);
}

#[test]
fn a_given_summary_is_stored_as_it_is() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    assert_snapshot!(env.run("goto demo a2 --summary 'A test was written.' --json"), @r#"
$ pi-sessions goto demo a2 --summary 'A test was written.' --json
{"leafId":"e0000001","fromId":"n1","summaryId":"e0000001","editorText":null}
--- stderr
moved the leaf from n1 to e0000001
"#);
    let text = fs::read_to_string(path).expect("the file");
    assert_snapshot!(text.lines().last().expect("a line"), @r#"{"type":"branch_summary","id":"e0000001","parentId":"a2","timestamp":"2026-11-30T12:00:01.000Z","fromId":"n1","summary":"A test was written."}"#);
    assert_snapshot!(env.run("goto demo a3 --summary ' '"), @r#"
$ pi-sessions goto demo a3 --summary ' '
--- stderr
error: a summary without text says nothing
--- exit code 2
"#);
    assert_snapshot!(env.run("goto demo m1 --summary 'Back.'").code, @"0");
}

#[test]
fn the_beginning_can_be_gone_to() {
    let env = TestEnv::new();
    env.session("one", r#"{"type":"message","id":"u1","parentId":null,"message":{"role":"user","content":"x"}}"#);
    assert_snapshot!(env.run("goto one u1 --json"), @r#"
$ pi-sessions goto one u1 --json
{"leafId":null,"fromId":"u1","summaryId":null,"editorText":"x"}
--- stderr
moved the leaf from u1 to the beginning
"#);
    assert_snapshot!(env.run("goto one @leaf"), @r#"
$ pi-sessions goto one @leaf
--- stderr
error: the session has no leaf: it has no entries, or was reset to before the first
Hint: pi-sessions tree [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_one.jsonl
--- exit code 2
"#);
}

#[test]
fn a_session_that_somebody_holds_is_refused_without_force() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let fs: Arc<dyn Fs> = Arc::new(StdFs);
    let owner = OwnerLock::take(&fs, &path, "chat, process 7 on host, since 09:00").expect("a free lock");
    assert_snapshot!(env.run("goto demo a3"), @r#"
$ pi-sessions goto demo a3
--- stderr
error: the session is in use by chat, process 7 on host, since 09:00: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
Hint: end the other program first
Hint: work on a copy: pi-sessions fork demo
Hint: do it all the same: pi-sessions goto --force demo a3
--- exit code 1
"#);
    assert_snapshot!(env.run("goto demo a3 --json"), @r#"
$ pi-sessions goto demo a3 --json
--- stderr
{"error":{"kind":"busy","message":"the session is in use by chat, process 7 on host, since 09:00: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl","hints":["end the other program first","work on a copy: pi-sessions fork demo","do it all the same: pi-sessions goto --force demo a3"]}}
--- exit code 1
"#);
    assert_eq!(env.run("goto demo a3 --force").code, 0);
    drop(owner);
    assert_eq!(env.run("goto demo a2").code, 0);
}

#[test]
fn unknown_entries_and_sessions_are_wrong_usage() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("goto demo zzz"), @r#"
$ pi-sessions goto demo zzz
--- stderr
error: there is no entry "zzz"
Hint: t1 (user: Fix the login bug)
Hint: t2 (user: Write a test first)
--- exit code 2
"#);
    assert_snapshot!(env.run("goto zzz u1 --json"), @r#"
$ pi-sessions goto zzz u1 --json
--- stderr
{"error":{"kind":"notFound","message":"there is no session \"zzz\"","hints":["demo (Login bug)"]}}
--- exit code 2
"#);
}

#[test]
fn an_entry_that_is_not_there_gets_a_hint() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    for entry in ["t99", "@leaf~99"] {
        let run = env.run(&format!("goto demo {entry}"));
        assert_eq!(run.code, 2, "{}", run.stderr);
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(
            run.stderr.lines().any(|line| line.starts_with("Hint: pi-sessions tree ") && line.ends_with(&*name)),
            "{}",
            run.stderr
        );
    }
}
