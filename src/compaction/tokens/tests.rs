//! Estimates, from texts and from contexts written as JSON.

use super::*;
use crate::session::context::ProjectedMessage;
use crate::session::json::Json;
use crate::session::tree::EntryHead;

fn text(text: &str, expect: u64) {
    assert_eq!(estimate_text(text), expect, "{text}");
}

#[test]
fn four_units_of_narrow_text_are_a_token() {
    text("", 0);
    text("a", 1);
    text("abcd", 1);
    text("abcde", 2);
    text("Grüße, мир", 3);
    // Two UTF-16 units each, but no pictographs.
    text("\u{1d49c}\u{1d49c}\u{1d49c}", 2);
}

#[test]
fn a_wide_character_is_a_token() {
    text(&"你好世界".repeat(25), 100);
    text("こんにちは、世界。", 9);
    text("カタカナ", 4);
    text("안녕하세요", 5);
    text("ＡＢＣ", 3);
    text("🙂🚀", 2);
    text("✅⭐", 2);
    text("𠮷", 1);
    text("abcd你", 2);
    text("ab你", 2);
}

fn message(json: &str, expect: u64) {
    assert_eq!(estimate_message(&Message::from_json(Json::parse(json).expect(json))), expect, "{json}");
}

#[test]
fn messages_cost_what_is_sent_of_them() {
    message(r#"{"role":"user","content":"abcde"}"#, 2);
    message(r#"{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":"cd"}]}"#, 1);
    message(r#"{"role":"user","content":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}"#, 1_200);
    message(r#"{"role":"toolResult","toolCallId":"1","content":[{"type":"text","text":"abcde"}],"details":"long long long"}"#, 2);
    message(r#"{"role":"bashExecution","command":"ls","output":"ab"}"#, 1);
    message(r#"{"role":"bashExecution","command":"ls","output":"abcdefgh","excludeFromContext":true}"#, 0);
    message(r#"{"role":"assistant","content":[{"type":"thinking","thinking":"abcd"},{"type":"text","text":"abcd"}]}"#, 2);
    message(r#"{"role":"assistant","content":[{"type":"text","text":"abcd"}],"stopReason":"aborted"}"#, 0);
    message(r#"{"role":"martian","content":"abcdefgh"}"#, 0);
}

#[test]
fn a_call_costs_its_name_and_compact_arguments() {
    let call = |arguments: &str| {
        format!(
            r#"{{"role":"assistant","content":[{{"type":"toolCall","id":"long id","name":"read","arguments":{arguments}}}]}}"#
        )
    };
    // read{"path":"a b \" c"}
    message(&call(r#"{"path":"a b \" c"}"#), 6);
    message(&call("{ \"path\" :\t\"a b \\\" c\" }"), 6);
}

#[test]
fn small_windows_shrink_the_defaults_only() {
    let check = |window, reserve, keep, expect: (u64, u64)| {
        let settings = CompactionSettings::for_window(window, reserve, keep);
        assert_eq!((settings.reserve_tokens, settings.keep_recent_tokens), expect, "{window}");
    };
    check(200_000, None, None, (16_384, 20_000));
    check(65_536, None, None, (16_384, 20_000));
    check(65_535, None, None, (16_383, 16_383));
    check(8_000, None, None, (2_000, 2_000));
    check(8_000, Some(500), None, (500, 2_000));
    check(8_000, None, Some(20_000), (2_000, 20_000));
}

#[test]
fn compaction_is_due_above_the_threshold_and_only_with_new_tokens() {
    let settings = CompactionSettings::for_window(100_000, None, None);
    assert!(!settings.is_due(83_616, 100_000, None));
    assert!(settings.is_due(83_617, 100_000, None));
    assert!(settings.is_due(90_000, 100_000, Some(1)));
    assert!(!settings.is_due(90_000, 100_000, Some(0)));
    assert!(CompactionSettings::for_window(100, Some(1_000), None).is_due(1, 100, None));
}

/// The context of a path given as `type json` lines in order, where a line without json is an entry without messages.
fn context(lines: &[(EntryType, &str)], overhead: u64) -> ContextTokens {
    let mut tree = SessionTree::default();
    let mut projection = Projection {
        messages: Vec::new(),
        path: Vec::new(),
        model: None,
        thinking_level: String::new(),
        active_tool_names: None,
    };
    let mut parent: Option<String> = None;
    for (at, (entry_type, json)) in lines.iter().enumerate() {
        let id = format!("{at:08x}");
        let head = EntryHead { id: &id, parent_id: parent.as_deref(), entry_type: *entry_type, role: None, leaf_target: None };
        let index = tree.push(head).expect("room");
        projection.path.push((index, Reason::Included));
        if !json.is_empty() {
            let message = Message::from_json(Json::parse(json).expect(json));
            projection.messages.push(ProjectedMessage { message, source: Some(index) });
        }
        parent = Some(id);
    }
    context_tokens(&tree, &projection, overhead)
}

const M: EntryType = EntryType::Message;
const USER: &str = r#"{"role":"user","content":"abcdefgh"}"#;
const ANSWER: &str = r#"{"role":"assistant","content":[],"usage":{"input":100,"output":20,"cacheRead":3,"cacheWrite":4}}"#;

fn counts(lines: &[(EntryType, &str)], reported: u64, estimated: u64) {
    let tokens = context(lines, 50);
    assert_eq!((tokens.reported, tokens.estimated), (reported, estimated));
    assert_eq!(tokens.total(), reported + estimated);
}

#[test]
fn reported_tokens_and_an_estimate_of_what_follows() {
    counts(&[(M, USER), (M, ANSWER), (M, USER)], 127, 2);
    let total = ANSWER.replace("\"input\"", "\"totalTokens\":99,\"input\"");
    counts(&[(M, USER), (M, &total), (M, USER)], 99, 2);
    counts(&[(M, &total), (M, ANSWER)], 127, 0);
}

#[test]
fn answers_that_failed_or_report_nothing_are_passed_over() {
    for stop_reason in ["aborted", "error"] {
        let failed = ANSWER.replace("\"content\"", &format!("\"stopReason\":\"{stop_reason}\",\"content\""));
        counts(&[(M, USER), (M, ANSWER), (M, USER), (M, &failed)], 127, 2);
    }
    let zero = r#"{"role":"assistant","content":[{"type":"text","text":"abcd"}],"usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0}}"#;
    counts(&[(M, USER), (M, zero)], 0, 53);
    counts(&[(M, USER), (M, ANSWER), (M, zero)], 127, 1);
}

#[test]
fn a_report_from_before_a_compaction_or_an_edit_does_not_count() {
    let summary = r#"{"role":"compactionSummary","summary":"abcd"}"#;
    counts(&[(M, USER), (M, ANSWER), (EntryType::Compaction, summary)], 0, 53);
    counts(&[(M, USER), (M, ANSWER), (EntryType::ContextEdit, "")], 0, 52);
    counts(&[(EntryType::ContextEdit, ""), (M, ANSWER), (M, USER)], 127, 2);
}

#[test]
fn everything_estimated_includes_the_prompt_and_the_tools() {
    counts(&[(M, USER)], 0, 52);
    assert_eq!(estimate_overhead("abcd", [r#"{ "name": "abc" }"#]), 1 + 4);
    // The session's own prompt is a part of the overhead, not of the messages.
    counts(&[(M, r#"{"role":"system","content":"abcdefgh"}"#), (M, USER)], 0, 52);
}

#[test]
fn two_huge_results_do_not_outweigh_the_report() {
    let huge =
        format!(r#"{{"role":"toolResult","toolCallId":"1","content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(3_300_000));
    let answer = ANSWER.replace("100", "17000");
    let tokens = context(&[(M, USER), (M, &huge), (M, &huge), (M, &answer), (M, USER)], 0);
    assert_eq!((tokens.total(), tokens.calibration), (17_029, Calibration::default()));
}

#[test]
fn reports_scale_estimates() {
    let long = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(8_000));
    let answer = ANSWER.replace("100", "4973");
    let tokens = context(&[(M, &long), (M, &answer), (M, USER)], 0);
    assert_eq!((tokens.reported, tokens.estimated), (5_000, 5));
    let check = |reported, estimated, expect: f64| assert_eq!(Calibration::of(reported, estimated).factor(), expect);
    check(3_000, 999, 1.0);
    check(2_500, 1_000, 2.5);
    check(9_000, 1_000, 4.0);
    check(400, 1_000, 0.5);
    check(100, 1_000, 1.0);
    check(0, 0, 1.0);
}
