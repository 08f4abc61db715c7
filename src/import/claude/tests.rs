//! What becomes of lines of Claude Code.

use crate::import::ImportedSession;
use crate::import::claude::Claude;

const ID: &str = "5d0c1a52-0f6e-4d0b-9a3e-1f2b7c8d9e01";

/// Lines without what is the same in all of them: `uuid parent rest`.
fn check(lines: &[(&str, &str, &str)], expect: &str) -> ImportedSession {
    let lines: Vec<_> = lines
        .iter()
        .map(|(uuid, parent, rest)| {
            let parent = if parent.is_empty() { "null".to_owned() } else { format!("{parent:?}") };
            format!(r#"{{"uuid":"{uuid}","parentUuid":{parent},"timestamp":"2026-01-01T00:00:00.000Z",{rest}}}"#)
        })
        .collect();
    check_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>(), expect)
}

fn check_lines(lines: &[&str], expect: &str) -> ImportedSession {
    crate::import::tests::check(&Claude, &format!("/p/{ID}.jsonl"), lines, expect)
}

fn user(text: &str) -> String {
    format!(r#""type":"user","message":{{"role":"user","content":"{text}"}}"#)
}

fn answer(id: &str, block: &str) -> String {
    format!(
        r#""type":"assistant","message":{{"id":"{id}","role":"assistant","model":"claude-x","content":[{block}],"stop_reason":null,"usage":{{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3}}}}"#
    )
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn call(id: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"ls"}}}}"#)
}

fn result(id: &str, text: &str) -> String {
    format!(
        r#""type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"{text}"}}]}}"#
    )
}

#[test]
fn the_lines_of_one_answer_are_one_message_with_all_results_behind_it() {
    check(
        &[
            ("u1", "", &user("list")),
            ("a1", "u1", &answer("m1", &text("I look"))),
            ("a2", "a1", &answer("m1", &call("c1"))),
            // The result hangs from the line of its call, and the next line of the answer too.
            ("r1", "a2", &result("c1", "one")),
            ("a3", "a2", &answer("m1", &call("c2"))),
            ("r2", "a3", &result("c2", "two")),
            // What comes next names one of the results; both are on its path.
            ("a4", "r1", &answer("m2", &text("two files"))),
        ],
        r#"
        1 <- user list
        2 <1 model anthropic/claude-x
        3 <2 assistant I look | call Bash c1 {"command":"ls"} | call Bash c2 {"command":"ls"} (claude-x, toolUse, 6 tokens)
        4 <3 result of Bash c1: one
        5 <4 result of Bash c2: two
        6 <5 assistant two files (claude-x, stop, 6 tokens)
        "#,
    );
}

#[test]
fn a_line_that_repeats_or_prolongs_an_answer_adds_no_block() {
    check(
        &[
            ("u1", "", &user("hi")),
            ("a1", "u1", &answer("m1", &text("Hel"))),
            ("a2", "a1", &answer("m1", &text("Hello"))),
            ("a3", "a2", &answer("m1", &call("c1"))),
            ("a4", "a3", &answer("m1", &call("c1"))),
        ],
        r#"
        1 <- user hi
        2 <1 model anthropic/claude-x
        3 <2 assistant Hello | call Bash c1 {"command":"ls"} (claude-x, toolUse, 6 tokens)
        copies block: 2
        "#,
    );
}

#[test]
fn a_prompt_that_was_edited_is_a_branch() {
    check(
        &[
            ("u1", "", &user("one")),
            ("a1", "u1", &answer("m1", &text("1"))),
            ("u2", "a1", &user("two")),
            ("a2", "u2", &answer("m2", &text("2"))),
            ("u3", "a1", &user("three")),
            // The same answer again on the other branch is another message.
            ("a3", "u3", &answer("m2", &text("2"))),
        ],
        r#"
        1 <- user one
        2 <1 model anthropic/claude-x
        3 <2 assistant 1 (claude-x, stop, 6 tokens)
        4 <3 user two
        5 <4 assistant 2 (claude-x, stop, 6 tokens)
        6 <3 user three
        7 <6 assistant 2 (claude-x, stop, 6 tokens)
        "#,
    );
}

#[test]
fn a_compaction_hangs_behind_what_it_compacts() {
    let boundary = r#""type":"system","subtype":"compact_boundary","logicalParentUuid":"a1","compactMetadata":{"preTokens":9,"preservedSegment":{"headUuid":"u2"}}"#;
    let summary = format!(r#"{},"isCompactSummary":true"#, user("we talked"));
    check(
        &[
            ("u1", "", &user("one")),
            ("u2", "u1", &user("two")),
            ("a1", "u2", &answer("m1", &text("1"))),
            ("b1", "", boundary),
            ("s1", "b1", &summary),
            ("u3", "s1", &user("on")),
        ],
        r#"
        1 <- user one
        2 <1 user two
        3 <2 model anthropic/claude-x
        4 <3 assistant 1 (claude-x, stop, 6 tokens)
        5 <4 compaction from 2: we talked
        6 <5 user on
        "#,
    );
    // Without its summary it would hide everything; without a boundary the summary is enough.
    check(
        &[("u1", "", &user("one")), ("b1", "", boundary)],
        "
        1 <- user one
        2 <1 kept system:compact_boundary
        ",
    );
    check(
        &[("u1", "", &user("one")), ("s1", "", &summary)],
        "
        1 <- user one
        2 <1 compaction from 2: we talked
        ",
    );
}

#[test]
fn what_has_no_place_stays_in_the_chain_and_begins_no_branch() {
    check_lines(
        &[
            r#"{"type":"queue-operation","operation":"enqueue","sessionId":"s"}"#,
            r#"{"type":"user","uuid":"u1","parentUuid":null,"message":{"role":"user","content":"one"}}"#,
            r#"{"type":"progress","uuid":"p1","parentUuid":"u1","data":{"type":"hook_progress"}}"#,
            r#"{"type":"file-history-snapshot","messageId":"u1"}"#,
            r#"{"type":"user","uuid":"u2","parentUuid":"u1","isMeta":true,"message":{"role":"user","content":"a reminder"}}"#,
            r#"{"type":"user","uuid":"u2","parentUuid":"u1","isMeta":true,"message":{"role":"user","content":"a reminder"}}"#,
            r#"{"type":"user","uuid":"u3","parentUuid":"u2","message":{"role":"user","content":[{"type":"text","text":"see"},{"type":"document","source":{"data":"AA=="}}]}}"#,
            r#"{"type":"ai-title","aiTitle":"Later overruled","sessionId":"s"}"#,
            r#"{"type":"custom-title","customTitle":" Mine ","sessionId":"s"}"#,
            r#"{"type":"user","uuid":"u4","parentUuid":"u3","message":{"role":"us"#,
        ],
        "
        1 <- kept queue-operation
        2 <1 user one
        3 <2 kept progress:hook_progress
        4 <3 kept file-history-snapshot
        5 <4 injected a reminder
        6 <5 user see | [document: left out by the import, kept in the entry behind this message]
        7 <6 kept block:document
        8 <7 name Mine
        copies ai-title: 1
        copies custom-title: 1
        copies line: 1
        damage 10: this line is cut off or not JSON
        ",
    );
}

#[test]
fn a_result_without_a_call_is_kept_and_not_sent() {
    check(
        &[
            ("u1", "", &user("one")),
            ("a1", "u1", &answer("m1", &call("c1"))),
            ("r1", "a1", &result("c1", "1")),
            ("r2", "r1", &result("c1", "again")),
            ("r3", "r2", &result("c9", "of nothing")),
            ("u2", "u1", &user("beside")),
            ("r4", "u2", &result("c1", "on the other branch")),
        ],
        r#"
        1 <- user one
        2 <1 model anthropic/claude-x
        3 <2 assistant call Bash c1 {"command":"ls"} (claude-x, toolUse, 6 tokens)
        4 <3 result of Bash c1: 1
        5 <4 kept secondToolResult
        6 <5 kept toolResultWithoutCall
        7 <2 user beside
        8 <7 kept toolResultWithoutCall
        "#,
    );
}

#[test]
fn side_chains_are_off_the_path_unless_they_are_the_file() {
    let side = format!(r#"{},"isSidechain":true,"agentId":"a7","sessionId":"s1""#, user("count"));
    check(
        &[("u1", "", &user("one")), ("x1", "", &side)],
        "
        1 <- user one
        2 <- user count
        3 <1 leaf 1
        ",
    );
    let session = check(&[("x1", "", &side)], "1 <- user count");
    assert_eq!(session.source_id.as_deref(), Some("agent-a7"));
    assert_eq!(session.source_parent.as_deref(), Some("s1"));
}

#[test]
fn errors_of_the_service_are_failed_answers_of_the_model_in_force() {
    let error = r#""type":"assistant","isApiErrorMessage":true,"message":{"id":"e","model":"<synthetic>","content":[{"type":"text","text":"API Error: 529"}]}"#;
    check(
        &[("u1", "", &user("one")), ("a1", "u1", &answer("m1", &text("1"))), ("e1", "a1", error)],
        "
        1 <- user one
        2 <1 model anthropic/claude-x
        3 <2 assistant 1 (claude-x, stop, 6 tokens)
        4 <3 assistant API Error: 529 (claude-x, error, 0 tokens)
        ",
    );
}

#[test]
fn parents_come_before_children_and_cycles_end() {
    check(
        &[("u2", "u1", &user("two")), ("u1", "", &user("one")), ("u3", "u4", &user("three")), ("u4", "u3", &user("four"))],
        "
        1 <- user one
        2 <1 user two
        3 <2 user three
        4 <3 user four
        ",
    );
}

#[test]
fn the_header_has_the_id_of_the_file_and_the_first_folder() {
    let first = format!(r#"{},"cwd":"/home/dev","sessionId":"other","forkedFrom":{{"sessionId":"first"}}"#, user("one"));
    let session = check(&[("u1", "", &first)], "1 <- user one");
    assert_eq!(session.id.map(|id| id.to_string()).as_deref(), Some(ID));
    assert_eq!((session.cwd.as_str(), session.created_ms), ("/home/dev", Some(1_767_225_600_000)));
    assert_eq!(session.source_parent.as_deref(), Some("first"));
}
