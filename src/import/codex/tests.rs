//! What becomes of lines of Codex.

use crate::import::ImportedSession;
use crate::import::codex::Codex;

const META: &str = r#"{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"019cb7d0-1111-7222-8333-444455556666","cwd":"/home/dev"}}"#;

/// Lines of `type payload`, behind the first one.
fn check(lines: &[(&str, &str)], expect: &str) -> ImportedSession {
    let lines: Vec<_> =
        lines.iter().map(|(wire_type, payload)| format!(r#"{{"type":"{wire_type}","payload":{{{payload}}}}}"#)).collect();
    let lines: Vec<_> = std::iter::once(META).chain(lines.iter().map(String::as_str)).collect();
    crate::import::tests::check(&Codex, "/c/rollout-x.jsonl", &lines, &format!("1 <- kept session_meta\n{}", expect.trim()))
}

const ITEM: &str = "response_item";
const EVENT: &str = "event_msg";
const USER: &str = r#""type":"message","role":"user","content":[{"type":"input_text","text":"one"}]"#;
const ANSWER: &str = r#""type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]"#;

#[test]
fn the_items_between_results_are_one_answer() {
    let session = check(
        &[
            ("turn_context", r#""model":"gpt-x","effort":"ultra""#),
            (ITEM, USER),
            (ITEM, r#""type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e""#),
            (ITEM, r#""type":"function_call","name":"shell","arguments":"{\"command\":[\"ls\"]}","call_id":"c1""#),
            (ITEM, r#""type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"c2""#),
            (
                ITEM,
                r#""type":"function_call_output","call_id":"c1","output":"{\"output\":\"bad\",\"metadata\":{\"exit_code\":2}}""#,
            ),
            (ITEM, r#""type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"ok"}]"#),
            (ITEM, ANSWER),
        ],
        r#"
        2 <1 level xhigh
        3 <2 kept turn_context
        4 <3 user one
        5 <4 model openai/gpt-x
        6 <5 assistant thinking hm {"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e"} | call shell c1 {"command":["ls"]} | call apply_patch c2 {"input":"*** Begin"} (gpt-x, toolUse, 0 tokens)
        7 <6 result of shell c1 failed: bad
        8 <7 result of apply_patch c2: ok
        9 <8 assistant two (gpt-x, stop, 0 tokens)
        "#,
    );
    assert_eq!(session.cwd, "/home/dev");
}

#[test]
fn usage_goes_to_the_answer_before_it_and_counts_once() {
    let tokens = |total: u64, last: &str| {
        format!(r#""type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total}}},"last_token_usage":{last}}}"#)
    };
    let first = tokens(10, r#"{"input_tokens":10,"cached_input_tokens":4,"output_tokens":3}"#);
    let second = tokens(20, r#"{"input_tokens":5,"output_tokens":1}"#);
    let session = check(
        &[(ITEM, USER), (ITEM, ANSWER), (EVENT, &first), (EVENT, &first), (EVENT, &second)],
        "
        2 <1 user one
        3 <2 assistant two (unknown, stop, 13 tokens)
        4 <3 usage 6
        copies token_count: 1
        ",
    );
    let Some(crate::session::message::Message::Assistant(answer)) = session.entries[2].message() else { panic!("an answer") };
    let usage = answer.usage.as_ref().expect("usage");
    assert_eq!((usage.input, usage.cache_read, usage.output), (6, 4, 3));
}

#[test]
fn events_that_say_what_an_item_says_are_copies() {
    check(
        &[
            (EVENT, r#""type":"user_message","message":"one""#),
            (ITEM, USER),
            (EVENT, r#""type":"agent_message","message":"two""#),
            (ITEM, ANSWER),
            (EVENT, r#""type":"agent_message","message":"nowhere else""#),
        ],
        "
        2 <1 user one
        3 <2 assistant two (unknown, stop, 0 tokens)
        4 <3 kept event_msg:agent_message
        copies agent_message: 1
        copies user_message: 1
        ",
    );
}

#[test]
fn a_turn_that_was_taken_back_is_a_branch() {
    check(
        &[
            (ITEM, USER),
            (ITEM, ANSWER),
            (ITEM, r#""type":"message","role":"user","content":[{"type":"input_text","text":"wrong"}]"#),
            (ITEM, ANSWER),
            (EVENT, r#""type":"thread_rolled_back","num_turns":1"#),
            (ITEM, r#""type":"message","role":"user","content":[{"type":"input_text","text":"right"}]"#),
        ],
        "
        2 <1 user one
        3 <2 assistant two (unknown, stop, 0 tokens)
        4 <3 user wrong
        5 <4 assistant two (unknown, stop, 0 tokens)
        6 <3 kept event_msg:thread_rolled_back
        7 <6 user right
        ",
    );
    check(
        &[(ITEM, USER), (EVENT, r#""type":"thread_rolled_back","num_turns":99"#)],
        "
        2 <1 user one
        3 <1 kept event_msg:thread_rolled_back
        ",
    );
}

#[test]
fn a_summary_that_cannot_be_read_hides_nothing() {
    check(
        &[
            (ITEM, USER),
            ("compacted", r#""message":"","replacement_history":[{"type":"compaction","encrypted_content":"e"}]"#),
            ("compacted", r#""message":"we talked""#),
        ],
        "
        2 <1 user one
        3 <2 kept compacted
        4 <3 compaction from 4: we talked
        ",
    );
}

#[test]
fn what_codex_tells_its_model_is_no_prompt() {
    check(
        &[
            (ITEM, r#""type":"message","role":"developer","content":[{"type":"input_text","text":"sandbox"}]"#),
            (ITEM, r#""type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]"#),
            (ITEM, r#""type":"web_search_call","status":"completed","action":{"query":"q"}"#),
            (ITEM, r#""type":"message","role":"user","content":[{"type":"input_image","image_url":"https://x/y.png"}]"#),
            (EVENT, r#""type":"thread_name_updated","thread_name":"Search""#),
        ],
        "
        2 <1 kept response_item:message
        3 <2 injected <environment_context>x
        4 <3 kept response_item:web_search_call
        5 <4 user [image: left out by the import, kept in the entry behind this message]
        6 <5 kept block:input_image
        7 <6 name Search
        ",
    );
}

#[test]
fn the_first_versions_had_bare_items() {
    let session = crate::import::tests::check(
        &Codex,
        "/c/rollout-2025-08-05T11-00-00-0a1b2c3d-1111-4222-8333-444455556666.jsonl",
        &[
            r#"{"id":"0a1b2c3d-1111-4222-8333-444455556666","timestamp":"2025-08-05T11:00:00.000Z","instructions":null}"#,
            r#"{"record_type":"state"}"#,
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n<cwd>/home/old</cwd>"}]}"#,
            r#"{"type":"local_shell_call","id":"lsh_1","call_id":null,"action":{"type":"exec","command":["ls"]}}"#,
        ],
        r#"
        1 <- kept session_meta
        2 <1 kept response_item
        3 <2 injected <environment_context>
        <cwd>/home/old</cwd>
        4 <3 assistant call local_shell lsh_1 {"type":"exec","command":["ls"]} (unknown, toolUse, 0 tokens)
        "#,
    );
    assert_eq!(session.cwd, "/home/old");
    assert_eq!(session.id.map(|id| id.to_string()).as_deref(), Some("0a1b2c3d-1111-4222-8333-444455556666"));
}
