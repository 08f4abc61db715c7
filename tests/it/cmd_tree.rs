//! `tree`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn the_active_path_is_marked_and_branches_leave_to_the_right() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("tree demo"), @r#"
$ pi-sessions tree demo
* u1 user: Fix the login bug
~ 2 entries (1 tool result)
* a2 assistant: The function is empty. [diagnosis]
├─o u2 user: Write it
│ o a3 assistant: Written.
* u3 user: Write a test first
* a4 assistant: Here is a test.
* n1 session_info: Login bug (leaf)
"#);
    assert_snapshot!(env.run("tree demo --all"), @r#"
$ pi-sessions tree demo --all
* m1 model_change: mock/mock-1
* u1 user: Fix the login bug
* a1 assistant: calls read
* r1 toolResult read: fn login() { panic!() }
* a2 assistant: The function is empty. [diagnosis]
├─o u2 user: Write it
│ o a3 assistant: Written.
* u3 user: Write a test first
* a4 assistant: Here is a test.
* l1 label: diagnosis
* n1 session_info: Login bug (leaf)
"#);
    assert_snapshot!(env.run("tree demo --json"), @r#"
$ pi-sessions tree demo --json
{"id":"m1","parentId":null,"type":"model_change","role":null,"timestamp":"2026-11-30T09:00:01.000Z","text":"mock/mock-1","label":null,"depth":0,"onPath":true,"isLeaf":false}
{"id":"u1","parentId":"m1","type":"message","role":"user","timestamp":"2026-11-30T09:00:02.000Z","text":"Fix the login bug","label":null,"depth":0,"onPath":true,"isLeaf":false}
{"id":"a1","parentId":"u1","type":"message","role":"assistant","timestamp":"2026-11-30T09:00:03.000Z","text":"","label":null,"depth":0,"onPath":true,"isLeaf":false}
{"id":"r1","parentId":"a1","type":"message","role":"toolResult","timestamp":"2026-11-30T09:00:04.000Z","text":"fn login() {\n    panic!()\n}\n","label":null,"depth":0,"onPath":true,"isLeaf":false}
{"id":"a2","parentId":"r1","type":"message","role":"assistant","timestamp":"2026-11-30T09:00:05.000Z","text":"The function is empty.","label":"diagnosis","depth":0,"onPath":true,"isLeaf":false}
{"id":"u2","parentId":"a2","type":"message","role":"user","timestamp":"2026-11-30T09:00:06.000Z","text":"Write it","label":null,"depth":1,"onPath":false,"isLeaf":false}
{"id":"a3","parentId":"u2","type":"message","role":"assistant","timestamp":"2026-11-30T09:00:07.000Z","text":"Written.","label":null,"depth":1,"onPath":false,"isLeaf":false}
{"id":"u3","parentId":"a2","type":"message","role":"user","timestamp":"2026-11-30T09:30:00.000Z","text":"Write a test first","label":null,"depth":0,"onPath":true,"isLeaf":false}
{"id":"a4","parentId":"u3","type":"message","role":"assistant","timestamp":"2026-11-30T09:30:01.000Z","text":"Here is a test.","label":null,"depth":0,"onPath":true,"isLeaf":false}
{"id":"l1","parentId":"a4","type":"label","role":null,"timestamp":"2026-11-30T09:31:00.000Z","text":"diagnosis","label":null,"depth":0,"onPath":true,"isLeaf":false}
{"id":"n1","parentId":"l1","type":"session_info","role":null,"timestamp":"2026-11-30T09:32:00.000Z","text":"Login bug","label":null,"depth":0,"onPath":true,"isLeaf":true}
"#);
}

#[test]
fn a_tree_fits_the_terminal() {
    let env = TestEnv::new().terminal(36);
    env.session("demo", DEMO);
    assert_snapshot!(env.run("tree demo"), @r#"
$ pi-sessions tree demo
␛[1m␛[32m*␛[0m ␛[33mu1␛[0m user: Fix the login bug
␛[2m~ 2 entries (1 tool result)␛[0m
␛[1m␛[32m*␛[0m ␛[33ma2␛[0m assistant: The fun… ␛[36m[diagnosis]␛[0m
␛[2m├─␛[0mo ␛[33mu2␛[0m ␛[2muser: Write it␛[0m
␛[2m│ ␛[0mo ␛[33ma3␛[0m ␛[2massistant: Written.␛[0m
␛[1m␛[32m*␛[0m ␛[33mu3␛[0m user: Write a test first
␛[1m␛[32m*␛[0m ␛[33ma4␛[0m assistant: Here is a test.
␛[1m␛[32m*␛[0m ␛[33mn1␛[0m session_info: Login bug ␛[1m␛[32m(leaf)␛[0m
"#);
}

#[test]
fn summaries_orphans_and_rings_are_shown() {
    let env = TestEnv::new();
    let odd = r#"
{"type":"branch_summary","id":"s1","parentId":"a2","fromId":"n1","summary":"A test was written."}
{"type":"message","id":"o1","parentId":"gone","message":{"role":"user","content":"lost"}}
{"type":"message","id":"x1","parentId":"x2","message":{"role":"user","content":"ring one"}}
{"type":"message","id":"x2","parentId":"x1","message":{"role":"user","content":"ring two"}}
{"type":"leaf","id":"f1","parentId":"s1","targetId":"s1"}
"#;
    env.session("demo", &format!("{}{odd}", DEMO.trim()));
    assert_snapshot!(env.run("tree demo"), @r#"
$ pi-sessions tree demo
* u1 user: Fix the login bug
~ 2 entries (1 tool result)
* a2 assistant: The function is empty. [diagnosis]
├─o u2 user: Write it
│ o a3 assistant: Written.
├─o u3 user: Write a test first
│ o a4 assistant: Here is a test.
* s1 branch_summary: A test was written. (leaf)
o o1 user: lost (its parent is missing: gone)
o x1 user: ring one (its parents form a ring)
o x2 user: ring two
"#);
}

#[test]
fn long_side_branches_are_folded() {
    let env = TestEnv::new();
    let mut lines = String::new();
    let mut parent = "null".to_owned();
    for at in 0..20 {
        lines.push_str(&format!(
            "{{\"type\":\"message\",\"id\":\"b{at:02}\",\"parentId\":{parent},\"message\":{{\"role\":\"user\",\"content\":\"aside {at}\"}}}}\n"
        ));
        parent = format!("\"b{at:02}\"");
    }
    lines.push_str(r#"{"type":"message","id":"u1","parentId":"b00","message":{"role":"user","content":"on the path"}}"#);
    env.session("long", &lines);
    assert_snapshot!(env.run("tree long"), @r#"
$ pi-sessions tree long
* b00 user: aside 0
├─o b01 user: aside 1
│ o b02 user: aside 2
│ o b03 user: aside 3
│ ~ 15 entries (15 user messages)
│ o b19 user: aside 19
* u1 user: on the path (leaf)
"#);
    assert_eq!(env.run("tree long --all").stdout.lines().count(), 21);
    assert_eq!(env.run("tree long --json").stdout.lines().count(), 21);
}

#[test]
fn an_empty_session_has_no_tree_and_a_reset_leaf_is_told() {
    let env = TestEnv::new();
    env.session("empty", "");
    assert_snapshot!(env.run("tree empty"), @r#"
$ pi-sessions tree empty
--- stderr
note: the session has no entries
"#);
    env.session(
        "reset",
        r#"
{"type":"message","id":"u1","parentId":null,"message":{"role":"user","content":"x"}}
{"type":"leaf","id":"f1","parentId":null,"targetId":null}
"#,
    );
    assert_snapshot!(env.run("tree reset"), @r#"
$ pi-sessions tree reset
o u1 user: x
--- stderr
note: the leaf is before the first entry: the next one begins another tree
"#);
}

#[test]
fn a_stale_rename_is_told() {
    let env = TestEnv::new();
    let stale = r#"{"type":"session_info","id":"n2","parentId":"a3","timestamp":"2026-11-30T09:40:00.000Z","name":"Renamed"}"#;
    env.session("demo", &format!("{}\n{stale}", DEMO.trim()));
    let run = env.run("tree demo");
    assert!(run.stderr.contains("pi-sessions goto demo n2"), "{run}");
}
