//! `context`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

/// The demo session, compacted, and gone on with.
fn compacted() -> TestEnv {
    let env = TestEnv::new();
    let more = r#"
{"type":"compaction","id":"k1","parentId":"n1","timestamp":"2026-11-30T10:00:00.000Z","summary":"The login function was empty.","firstKeptEntryId":"u3","tokensBefore":178}
{"type":"message","id":"u4","parentId":"k1","timestamp":"2026-11-30T10:00:01.000Z","message":{"role":"user","content":"Go on","timestamp":1796032801000}}
"#;
    env.session("demo", &format!("{}{more}", DEMO.trim()));
    env
}

#[test]
fn the_context_as_text_is_what_the_model_would_see() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("context demo"), @r#"
$ pi-sessions context demo
=== user u1
Fix the login bug

=== assistant a1
[thinking] Look first.
[call] read {"path":"login.rs"}

=== toolResult read r1
fn login() {
    panic!()
}

=== assistant a2
The function is empty.

=== user u3
Write a test first

=== assistant a4
Here is a test.
"#);
    assert_snapshot!(env.run("context demo --at u2"), @r#"
$ pi-sessions context demo --at u2
=== user u1
Fix the login bug

=== assistant a1
[thinking] Look first.
[call] read {"path":"login.rs"}

=== toolResult read r1
fn login() {
    panic!()
}

=== assistant a2
The function is empty.

=== user u2
Write it
"#);
}

#[test]
fn a_compaction_stands_for_what_came_before() {
    assert_snapshot!(compacted().run("context demo"), @r#"
$ pi-sessions context demo
=== user k1
Earlier parts of this session were compacted. This summary stands for them:

<summary>
The login function was empty.
</summary>

=== user u3
Write a test first

=== assistant a4
Here is a test.

=== user u4
Go on
"#);
    assert_snapshot!(compacted().run("context demo --explain"), @r#"
$ pi-sessions context demo --explain
- m1       0  model_change: mock/mock-1  (replaced by the compaction's summary)
- u1       0  user: Fix the login bug  (replaced by the compaction's summary)
- a1       0  assistant: calls read  (replaced by the compaction's summary)
- r1       0  toolResult read: fn login() { panic!() }  (replaced by the compaction's summary)
- a2       0  assistant: The function is empty.  (replaced by the compaction's summary)
+ u3       5  user: Write a test first
+ a4       4  assistant: Here is a test.
- l1       0  label: diagnosis  (entries of this type are not shown to the model)
- n1       0  session_info: Login bug  (entries of this type are not shown to the model)
+ k1       8  compaction: The login function was empty.  (summary of what was compacted)
+ u4       2  user: Go on
--- stderr
note: 4 of 11 entries of the path are in the context, about 19 tokens
"#);
    assert_snapshot!(compacted().run("context demo --explain --json"), @r#"
$ pi-sessions context demo --explain --json
{"entryId":"m1","type":"model_change","role":null,"tokens":0,"included":false,"reason":"replaced by the compaction's summary"}
{"entryId":"u1","type":"message","role":"user","tokens":0,"included":false,"reason":"replaced by the compaction's summary"}
{"entryId":"a1","type":"message","role":"assistant","tokens":0,"included":false,"reason":"replaced by the compaction's summary"}
{"entryId":"r1","type":"message","role":"toolResult","tokens":0,"included":false,"reason":"replaced by the compaction's summary"}
{"entryId":"a2","type":"message","role":"assistant","tokens":0,"included":false,"reason":"replaced by the compaction's summary"}
{"entryId":"u3","type":"message","role":"user","tokens":5,"included":true,"reason":"on the path"}
{"entryId":"a4","type":"message","role":"assistant","tokens":4,"included":true,"reason":"on the path"}
{"entryId":"l1","type":"label","role":null,"tokens":0,"included":false,"reason":"entries of this type are not shown to the model"}
{"entryId":"n1","type":"session_info","role":null,"tokens":0,"included":false,"reason":"entries of this type are not shown to the model"}
{"entryId":"k1","type":"compaction","role":null,"tokens":8,"included":true,"reason":"summary of what was compacted"}
{"entryId":"u4","type":"message","role":"user","tokens":2,"included":true,"reason":"on the path"}
"#);
    assert_snapshot!(compacted().terminal(60).var("NO_COLOR", "1").run("context demo --explain").stdout, @r#"
- m1       0  model_chang…  (replaced by the compaction's summary)
- u1       0  user: Fix t…  (replaced by the compaction's summary)
- a1       0  assistant:…  (replaced by the compaction's summary)
- r1       0  toolResult…  (replaced by the compaction's summary)
- a2       0  assistant:…  (replaced by the compaction's summary)
+ u3       5  user: Write a test first
+ a4       4  assistant: Here is a test.
- l1       0  label: diag…  (entries of this type are not shown to the model)
- n1       0  session_inf…  (entries of this type are not shown to the model)
+ k1       8  compaction:…  (summary of what was compacted)
+ u4       2  user: Go on
"#);
}

#[test]
fn json_is_the_context_as_pi_builds_it() {
    assert_snapshot!(compacted().run("context demo --json"), @r#"
$ pi-sessions context demo --json
{"messages":[{"role":"compactionSummary","summary":"The login function was empty.","tokensBefore":178,"timestamp":1796032800000},{"role":"user","content":[{"type":"text","text":"Write a test first"}],"timestamp":1796031000000},{"role":"assistant","content":[{"type":"text","text":"Here is a test."}],"api":"openai-completions","provider":"mock","model":"mock-2","usage":{"input":170,"output":8,"cacheRead":0,"cacheWrite":0,"totalTokens":178,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1796031001000},{"role":"user","content":"Go on","timestamp":1796032801000}],"thinkingLevel":"off","model":{"provider":"mock","modelId":"mock-2"},"activeToolNames":null}
"#);
    assert_eq!(compacted().run("context demo --format pi").stdout, compacted().run("context demo --json").stdout);
    assert_eq!(compacted().run("context demo --json --format text").code, 2);
}

#[test]
fn the_wire_forms_are_what_providers_get() {
    assert_snapshot!(compacted().run("context demo --at a2 --format openai"), @r#"
$ pi-sessions context demo --at a2 --format openai
{"messages":[{"role":"user","content":"Fix the login bug"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"login.rs\"}"}}]},{"role":"tool","content":"fn login() {\n    panic!()\n}\n","tool_call_id":"c1"},{"role":"assistant","content":"The function is empty."}]}
"#);
    assert_snapshot!(compacted().run("context demo --at a2 --format anthropic --json"), @r#"
$ pi-sessions context demo --at a2 --format anthropic --json
{"system":null,"messages":[{"role":"user","content":[{"type":"text","text":"Fix the login bug"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"read","input":{"path":"login.rs"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"fn login() {\n    panic!()\n}\n"}],"is_error":false,"cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"text","text":"The function is empty."}]}]}
"#);
}

#[test]
fn an_empty_session_gives_an_empty_context() {
    let env = TestEnv::new();
    env.session("empty", "");
    assert_snapshot!(env.run("context empty --json"), @r#"
$ pi-sessions context empty --json
{"messages":[],"thinkingLevel":"off","model":null,"activeToolNames":null}
"#);
    assert_snapshot!(env.run("context empty"), @"$ pi-sessions context empty");
}

/// A session with one long result and four that follow.
fn long_results() -> TestEnv {
    let env = TestEnv::new();
    let mut lines = String::new();
    for at in 0..4 {
        let parent = if at == 0 { "null".to_owned() } else { format!("\"r{}\"", at - 1) };
        let text = "x".repeat(if at == 0 { 9000 } else { 5 });
        lines.push_str(&format!(
            r#"{{"type":"message","id":"a{at}","parentId":{parent},"message":{{"role":"assistant","content":[{{"type":"toolCall","id":"c{at}","name":"bash","arguments":{{}}}}],"stopReason":"toolUse"}}}}
{{"type":"message","id":"r{at}","parentId":"a{at}","message":{{"role":"toolResult","toolCallId":"c{at}","toolName":"bash","content":[{{"type":"text","text":"{text}"}}]}}}}
"#
        ));
    }
    env.session("long", &lines);
    env
}

#[test]
fn long_results_are_shortened_where_that_is_asked_for() {
    let env = long_results();
    assert_eq!(env.run("context long").stdout.matches('x').count(), 9015);
    assert!(env.run("context long --micro").stdout.contains("Previous: used bash"));
    let cut = env.run("context long --truncate").stdout;
    assert!(cut.matches('x').count() < 8100 && cut.contains("1000 characters cut"), "{cut}");
    env.write("config/config.toml", "[context]\nmicro_compaction = true\n");
    assert!(env.run("context long").stdout.contains("Previous: used bash"));
}

#[test]
fn hostile_text_moves_no_cursor() {
    let env = TestEnv::new();
    env.session(
        "evil",
        r#"{"type":"message","id":"u1","parentId":null,"message":{"role":"user","content":"one\n\u001b[2Jtwo\rthree"}}"#,
    );
    assert_snapshot!(env.run("context evil"), @r#"
$ pi-sessions context evil
=== user u1
one
two
three
"#);
}
