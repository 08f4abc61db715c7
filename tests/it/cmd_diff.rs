//! `diff`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

/// The demo with one more turn on the active branch, which touches files.
fn demo() -> TestEnv {
    let env = TestEnv::new();
    let more = r#"{"type":"message","id":"a5","parentId":"n1","timestamp":"2026-11-30T09:40:00.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Line one.\n\u001b[31mLine two."},{"type":"toolCall","id":"c5","name":"edit","arguments":{"path":"src/login.rs"}},{"type":"toolCall","id":"c6","name":"edit","arguments":{"path":"src/login.rs"}},{"type":"toolCall","id":"c7","name":"read","arguments":{"path":"test.rs"}}],"api":"openai-completions","provider":"mock","model":"mock-2","usage":{"input":10,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":11,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.5}},"stopReason":"toolUse","timestamp":1796031600000}}
{"type":"message","id":"r5","parentId":"a5","timestamp":"2026-11-30T09:40:01.000Z","message":{"role":"toolResult","toolCallId":"c5","toolName":"edit","content":[{"type":"text","text":"edited\nin two places"}],"isError":false,"timestamp":1796031601000}}"#;
    env.session("demo", &format!("{}\n{more}", DEMO.trim()));
    env
}

#[test]
fn two_branches_are_compared() {
    assert_snapshot!(demo().run("diff demo a3"), @r#"
$ pi-sessions diff demo a3
shared  5 entries, 4 messages
part at a2  assistant: The function is empty.

--- A a3
 2 entries, 2 messages, 1 turn, 0 tool calls, 165 tokens, $0.0000

+++ B r5
 6 entries, 4 messages, 2 turns, 3 tool calls, 189 tokens, $0.5000
 src/login.rs | 2 edits
 test.rs      | 1 read
 2 files touched, 1 modified

@@ u2 2026-11-30T09:00:06.000Z @@
- user: Write it

@@ a3 2026-11-30T09:00:07.000Z @@
- assistant: Written.

@@ u3 2026-11-30T09:30:00.000Z @@
+ user: Write a test first

@@ a4 2026-11-30T09:30:01.000Z @@
+ assistant: Here is a test.

@@ l1 2026-11-30T09:31:00.000Z @@
+ label: diagnosis

@@ n1 2026-11-30T09:32:00.000Z @@
+ session_info: Login bug

@@ a5 2026-11-30T09:40:00.000Z @@
+ assistant: Line one.
+ Line two.
+ calls edit, edit, read

@@ r5 2026-11-30T09:40:01.000Z @@
+ toolResult edit: edited in two places
"#);
    assert_snapshot!(demo().run("diff demo a3 a4 --json"), @r#"
$ pi-sessions diff demo a3 a4 --json
{"sharedEntries":5,"sharedMessages":4,"partedAt":"a2","a":{"leafId":"a3","messages":2,"prompts":1,"turns":1,"toolCalls":0,"compactions":0,"tokens":{"input":160,"output":5,"cacheRead":0,"cacheWrite":0,"total":165},"cost":0.0,"files":[],"entries":[{"id":"u2","parentId":"a2","type":"message","role":"user","timestamp":"2026-11-30T09:00:06.000Z","text":"Write it"},{"id":"a3","parentId":"u2","type":"message","role":"assistant","timestamp":"2026-11-30T09:00:07.000Z","text":"Written."}]},"b":{"leafId":"a4","messages":2,"prompts":1,"turns":1,"toolCalls":0,"compactions":0,"tokens":{"input":170,"output":8,"cacheRead":0,"cacheWrite":0,"total":178},"cost":0.0,"files":[],"entries":[{"id":"u3","parentId":"a2","type":"message","role":"user","timestamp":"2026-11-30T09:30:00.000Z","text":"Write a test first"},{"id":"a4","parentId":"u3","type":"message","role":"assistant","timestamp":"2026-11-30T09:30:01.000Z","text":"Here is a test."}]}}
"#);
}

#[test]
fn the_sums_stand_alone_if_asked() {
    assert_snapshot!(demo().run("diff demo @leaf u2 --stat"), @r#"
$ pi-sessions diff demo @leaf u2 --stat
shared  5 entries, 4 messages
part at a2  assistant: The function is empty.

--- A r5
 6 entries, 4 messages, 2 turns, 3 tool calls, 189 tokens, $0.5000
 src/login.rs | 2 edits
 test.rs      | 1 read
 2 files touched, 1 modified

+++ B u2
 1 entry, 1 message, 0 turns, 0 tool calls, 0 tokens, $0.0000
"#);
    assert!(demo().run("diff demo @leaf u2 --stat --json").stdout.contains(r#""entries":null"#));
}

#[test]
fn a_branch_that_the_other_goes_on_from_has_nothing_of_its_own() {
    assert_snapshot!(demo().run("diff demo a2 u2"), @r#"
$ pi-sessions diff demo a2 u2
shared  5 entries, 4 messages
part at a2  assistant: The function is empty.

--- A a2
 nothing of its own: the other branch goes on from it, or is the same

+++ B u2
 1 entry, 1 message, 0 turns, 0 tool calls, 0 tokens, $0.0000

@@ u2 2026-11-30T09:00:06.000Z @@
+ user: Write it
"#);
    assert_snapshot!(demo().run("diff demo a2 nothing"), @r#"
$ pi-sessions diff demo a2 nothing
--- stderr
error: there is no entry "nothing"
Hint: t1 (user: Fix the login bug)
Hint: t2 (user: Write a test first)
--- exit code 2
"#);
}

#[test]
fn branches_without_a_common_root_share_nothing() {
    let env = TestEnv::new();
    env.session(
        "two",
        r#"{"type":"message","id":"u1","parentId":null,"timestamp":"2026-11-30T09:00:00.000Z","message":{"role":"user","content":"one","timestamp":1}}
{"type":"message","id":"u2","parentId":null,"timestamp":"2026-11-30T09:00:01.000Z","message":{"role":"user","content":"two","timestamp":2}}"#,
    );
    assert_snapshot!(env.run("diff two u1"), @r#"
$ pi-sessions diff two u1
shared  nothing

--- A u1
 1 entry, 1 message, 0 turns, 0 tool calls, 0 tokens, $0.0000

+++ B u2
 1 entry, 1 message, 0 turns, 0 tool calls, 0 tokens, $0.0000

@@ u1 2026-11-30T09:00:00.000Z @@
- user: one

@@ u2 2026-11-30T09:00:01.000Z @@
+ user: two
"#);
}
