//! `append`.

use std::fs;

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn lines_are_completed_and_appended_as_one_chain() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let input = r#"
{"role":"user","content":"Is it done?"}
{"role":"assistant","content":"Yes."}
{"type":"label","id":"x","targetId":"u1","label":"start"}
"#;
    assert_snapshot!(env.pipe("append demo", input), @r#"
$ pi-sessions append demo
e0000001
e0000002
e0000003
--- stderr
appended 3 entries to demo
"#);
    let text = fs::read_to_string(&path).expect("the file");
    assert_snapshot!(text.lines().skip(12).collect::<Vec<_>>().join("\n"), @r#"
{"type":"message","id":"e0000001","parentId":"n1","timestamp":"2026-11-30T12:00:01.000Z","message":{"role":"user","content":"Is it done?","timestamp":1796040001000}}
{"type":"message","id":"e0000002","parentId":"e0000001","timestamp":"2026-11-30T12:00:01.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Yes."}],"api":"unknown","provider":"unknown","model":"unknown","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1796040001000}}
{"type":"label","id":"e0000003","parentId":"e0000002","timestamp":"2026-11-30T12:00:01.000Z","targetId":"u1","label":"start"}
"#);
    assert_snapshot!(env.pipe("append demo --json", input), @r#"
$ pi-sessions append demo --json
{"id":"e0000004","parentId":"e0000003","type":"message"}
{"id":"e0000005","parentId":"e0000004","type":"message"}
{"id":"e0000006","parentId":"e0000005","type":"label"}
--- stderr
appended 3 entries to demo
"#);
}

#[test]
fn a_batch_with_a_bad_line_is_refused_as_a_whole() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let before = fs::read(&path).expect("the file");
    let good = r#"{"role":"user","content":"x"}"#;
    assert_snapshot!(env.pipe("append demo", &format!("{good}\n{{\"role\":\"martian\"}}\n")), @r#"
$ pi-sessions append demo
--- stderr
error: line 2: "martian" is no role; use user, assistant, toolResult, bashExecution, custom or system
--- exit code 1
"#);
    assert_snapshot!(env.pipe("append demo --json", &format!("{good}\n\nnonsense\n")), @r#"
$ pi-sessions append demo --json
--- stderr
{"error":{"kind":"io","message":"line 3: not a JSON object (expected ident at column 2); send one whole object in each line","hints":[]}}
--- exit code 1
"#);
    assert_snapshot!(env.pipe("append demo", "{\"type\":\"label\",\"targetId\":\"gone\",\"label\":\"l\"}\n"), @r#"
$ pi-sessions append demo
--- stderr
error: line 1: "targetId" names no entry of the session and no earlier line: gone
--- exit code 1
"#);
    assert_eq!(fs::read(&path).expect("the file"), before);
}

#[test]
fn without_lines_nothing_is_appended() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.pipe("append demo", "\n\n"), @r#"
$ pi-sessions append demo
--- stderr
note: standard input has no lines, so nothing was appended
"#);
    assert_snapshot!(env.pipe("append nothing", ""), @r#"
$ pi-sessions append nothing
--- stderr
error: there is no session "nothing"
Hint: demo (Login bug)
--- exit code 2
"#);
}

#[test]
fn the_latest_session_of_the_folder_is_meant_without_a_name() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    env.session_of("other", "/home/me/other", DEMO);
    assert_eq!(env.pipe("append", r#"{"role":"user","content":"x"}"#).code, 0);
    assert!(env.run("list --json").stdout.contains(r#""messageCount":9"#));
}

#[test]
fn a_path_can_be_piped_to_another_session() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    env.session("empty", "");
    let lines = env.run("path demo --at a2").stdout;
    assert_snapshot!(env.pipe("append empty --json", &lines), @r#"
$ pi-sessions append empty --json
{"id":"e0000001","parentId":null,"type":"model_change"}
{"id":"e0000002","parentId":"e0000001","type":"message"}
{"id":"e0000003","parentId":"e0000002","type":"message"}
{"id":"e0000004","parentId":"e0000003","type":"message"}
{"id":"e0000005","parentId":"e0000004","type":"message"}
--- stderr
appended 5 entries to empty
"#);
    let kept =
        |run: String| run.lines().map(|line| line.split(",\"timestamp\":").nth(1).map(str::to_owned)).collect::<Vec<_>>().len();
    assert_eq!(kept(env.run("path empty").stdout), 5);
}
