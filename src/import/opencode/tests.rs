//! What becomes of sessions of opencode.

use crate::import::opencode::Opencode;
use crate::import::{ImportFormat, ImportedSession, SourceFile};

/// An export of `info` and of messages: `role more parts`, with ids in order.
fn check(info: &str, messages: &[(&str, &str, &str)], expect: &str) -> ImportedSession {
    let messages: Vec<_> = messages
        .iter()
        .enumerate()
        .map(|(at, (role, more, parts))| {
            let more = if more.is_empty() { String::new() } else { format!(",{more}") };
            format!(
                r#"{{"info":{{"id":"m{at}","role":"{role}","sessionID":"s","time":{{"created":1{at}000}},"providerID":"anthropic","modelID":"x"{more}}},"parts":[{parts}]}}"#
            )
        })
        .collect();
    let info = if info.is_empty() { String::new() } else { format!(",{info}") };
    let export = format!(r#"{{"info":{{"id":"ses_1","directory":"/d"{info}}},"messages":[{}]}}"#, messages.join(","));
    crate::import::tests::check(&Opencode, "/o/export.json", &[&export], expect)
}

#[test]
fn each_step_of_an_answer_is_a_message_with_its_own_usage_and_cost() {
    let steps = r#"{"type":"step-start"},{"type":"reasoning","text":"hm","metadata":{"anthropic":{"signature":"s"}}},
        {"type":"tool","callID":"c1","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"a","time":{"start":1,"end":2},"attachments":[{"type":"file","mime":"image/png","url":"data:image/png;base64,AA=="}]}},
        {"type":"tool","callID":"c2","tool":"read","state":{"status":"error","input":{},"error":"gone"}},
        {"type":"step-finish","cost":0.5,"tokens":{"input":1,"output":2,"reasoning":3,"cache":{"read":4,"write":5}}},
        {"type":"step-start"},{"type":"text","text":"done"},{"type":"step-finish","cost":0.25,"tokens":{"input":7,"output":1}},{"type":"patch","hash":"h"}"#;
    let session = check(
        "",
        &[("user", "", r#"{"type":"text","text":"list"}"#), ("assistant", r#""tokens":{"input":99}"#, steps)],
        r#"
        1 <- user list
        2 <1 model anthropic/x
        3 <2 assistant thinking hm s | call bash c1 {"command":"ls"} | call read c2 {} (x, toolUse, 15 tokens)
        4 <3 result of bash c1: a | image/png
        5 <4 result of read c2 failed: gone
        6 <5 assistant done (x, stop, 8 tokens)
        7 <6 kept part:patch
        "#,
    );
    let Some(crate::session::message::Message::Assistant(answer)) = session.entries[2].message() else { panic!("an answer") };
    assert_eq!(answer.usage.as_ref().and_then(|usage| usage.cost.as_ref()).map(|cost| cost.total), Some(0.5));
}

#[test]
fn a_summary_is_a_compaction_that_keeps_what_it_was_told_to() {
    check(
        r#""title":"Long""#,
        &[
            ("user", "", r#"{"type":"text","text":"one"}"#),
            ("user", "", r#"{"type":"text","text":"two"}"#),
            ("user", "", r#"{"type":"compaction","auto":true,"tail_start_id":"m1"}"#),
            ("assistant", r#""summary":true"#, r#"{"type":"text","text":"we talked"}"#),
            ("assistant", r#""summary":true"#, ""),
        ],
        "
        1 <- user one
        2 <1 user two
        3 <2 kept part:compaction
        4 <3 compaction from 2: we talked
        5 <4 kept emptySummary
        6 <5 name Long
        ",
    );
}

#[test]
fn what_was_taken_back_is_a_branch_that_was_left() {
    check(
        r#""revert":{"messageID":"m1"}"#,
        &[("user", "", r#"{"type":"text","text":"one"}"#), ("user", "", r#"{"type":"text","text":"two"}"#)],
        "
        1 <- user one
        2 <1 user two
        3 <1 leaf 1
        ",
    );
}

#[test]
fn an_answer_that_was_stopped_says_so() {
    check(
        "",
        &[
            ("user", "", r#"{"type":"text","text":"one"},{"type":"file","mime":"application/pdf","url":"file:///a.pdf"}"#),
            (
                "assistant",
                r#""error":{"name":"MessageAbortedError","data":{"message":"stopped"}}"#,
                r#"{"type":"text","text":"I"}"#,
            ),
            ("assistant", r#""error":{"name":"APIError","data":{"message":"529"}}"#, ""),
        ],
        "
        1 <- user one | [application/pdf: left out by the import, kept in the entry behind this message]
        2 <1 kept part:file
        3 <2 model anthropic/x
        4 <3 assistant I (x, aborted, 0 tokens)
        5 <4 assistant  (x, error, 0 tokens)
        ",
    );
}

#[test]
fn the_files_of_the_storage_come_in_any_order() {
    let part = r#"{"id":"p2","messageID":"m1","sessionID":"ses_1","type":"text","text":"two"}"#;
    let files = [
        part,
        r#"{"id":"p1","messageID":"m1","sessionID":"ses_1","type":"text","text":"one"}"#,
        r#"{"id":"p9","messageID":"m9","sessionID":"ses_1","type":"text","text":"lost"}"#,
        r#"{"id":"m2","sessionID":"ses_1","role":"user","time":{"created":2000}}"#,
        r#"{"id":"m1","sessionID":"ses_1","role":"user","time":{"created":1000}}"#,
        "{\"id\":\"p3\", cut",
        r#"{"id":"ses_1","title":"Files","directory":"/d","time":{"created":500,"updated":1}}"#,
    ];
    let files = files.map(|text| SourceFile { path: "f.json", bytes: text.as_bytes() });
    let session = Opencode.read(&files).remove(0);
    crate::import::tests::assert_sound(&session);
    assert_eq!((session.counts.user, session.counts.custom, session.damage.len()), (1, 1, 1));
    assert_eq!(session.entries[0].message().map(|message| message.text()).as_deref(), Some("one\ntwo"));
    assert_eq!((session.cwd.as_str(), session.created_ms, session.name.as_deref()), ("/d", Some(500), Some("Files")));
}

#[test]
fn an_output_that_was_pruned_stays_in_the_session_and_not_in_the_context() {
    let pruned = r#"{"type":"tool","callID":"c1","tool":"bash","state":{"status":"completed","input":{},"output":"long","time":{"start":1,"end":2,"compacted":3}}}"#;
    let session = check(
        "",
        &[("user", "", r#"{"type":"text","text":"one"}"#), ("assistant", "", pruned)],
        "
        1 <- user one
        2 <1 model anthropic/x
        3 <2 assistant call bash c1 {} (x, toolUse, 0 tokens)
        4 <3 result of bash c1: long
        5 <4 context_edit
        ",
    );
    let crate::session::entry::EntryKind::ContextEdit(edit) = &session.entries[4].kind else { panic!("an edit") };
    assert_eq!(edit.target_id.as_ref(), Some(&session.entries[3].id));
}
