//! Plans and results, from sessions written as words.

use super::*;
use crate::compaction::extractive;
use crate::compaction::test_session::TestSession;

fn read(session: &TestSession) -> CompactionInput {
    let Ok(input) = CompactionInput::read(&session.tree, session.leaf(), session, &[], None);
    input
}

fn plan(session: &TestSession, keep_tokens: u64) -> CompactionPlan {
    read(session).plan(keep_tokens).expect("a plan")
}

fn texts(messages: &[ProjectedMessage]) -> Vec<String> {
    messages.iter().map(|projected| projected.message.text()).collect()
}

fn summary(text: &str) -> Option<Summary> {
    Some(Summary { text: text.to_owned(), usage: None })
}

/// 40 characters, 10 tokens.
const LONG: &str = "0123456789012345678901234567890123456789";

fn long(word: &str) -> String {
    format!("{word}{LONG}")
}

/// A payload of a compaction that keeps from the entry at position `first` on.
fn compaction(summary: &str, first: usize, rest: &str) -> String {
    format!(r#"{{"type":"compaction","summary":"{summary}","firstKeptEntryId":"{first:08x}","tokensBefore":1{rest}}}"#)
}

#[test]
fn history_and_kept_entries() {
    let session = TestSession::of(&[&long("u one "), "a two", "name n", "u three", "a four"]);
    let plan = plan(&session, 3);
    assert_eq!(texts(plan.history()), [long("one "), "two".to_owned()]);
    assert_eq!(plan.first_kept().map(|(_, id)| id.as_str()), Some("00000002"));
    assert_eq!((plan.history_entries().len(), plan.turn_prefix_entries().len(), plan.kept_entries().len()), (2, 0, 3));
    let tokens = PlanTokens { before: 15, previous_summary: 0, history: 12, turn_prefix: 0, kept: 3 };
    assert_eq!(plan.tokens(), tokens);
    assert_eq!(plan.leaf(), session.leaf());
}

#[test]
fn the_next_compaction_begins_at_the_kept_boundary() {
    let k = compaction("OLD", 2, "");
    let session = TestSession::of(&["u gone", "a gone", "u kept", "a kept", &k, "u new", "a new", "u last", "a last"]);
    let plan = plan(&session, 2);
    assert_eq!(texts(plan.history()), ["kept", "kept", "new", "new"]);
    let request = plan.history_request(None).expect("a history");
    assert_eq!(request.previous_summary, Some("OLD"));
    assert_eq!(plan.tokens().previous_summary, 1);
}

#[test]
fn messages_that_a_compaction_retained_are_summarized() {
    let k = compaction("OLD", 1, r#","retainedTail":[{"role":"user","content":"tail"}]"#);
    let session = TestSession::of(&["u gone", "a gone", &k, "u new", "a new"]);
    let plan = plan(&session, 2);
    assert_eq!(texts(plan.history()), ["tail"]);
    assert_eq!((plan.previous_summary(), plan.first_kept().map(|(_, id)| id.as_str())), (Some("OLD"), Some("00000003")));
}

#[test]
fn abandoned_branches_stay_out() {
    let mut session = TestSession::of(&["u root", "a root", "u dead", "a dead"]);
    session.add_at(1, "u alive");
    session.add("a alive");
    let plan = plan(&session, 0);
    assert_eq!(texts(plan.history()), ["root", "root", "alive", "alive"]);
}

#[test]
fn edits_count_as_the_model_sees_them() {
    let edit = r#"{"type":"context_edit","targetId":"00000000","replacement":null}"#;
    let session = TestSession::of(&["u secret", "a seen", "u seen", edit]);
    assert_eq!(texts(plan(&session, 0).history()), ["seen", "seen"]);
}

#[test]
fn a_split_turn_has_two_parts() {
    let session = TestSession::of(&[&long("u first "), "a done", &long("u second "), "call 1 bash {}", "r 1 out", "a end"]);
    let plan = plan(&session, 1);
    assert!(plan.is_split_turn());
    assert_eq!(texts(plan.history()), [long("first "), "done".to_owned()]);
    assert_eq!(texts(plan.turn_prefix()), [long("second ").as_str(), "", "out"]);
    let result = plan.finish(summary(" HISTORY\n"), summary("\nPREFIX ")).expect("a result");
    assert_eq!(result.summary, "HISTORY\n\n---\n\n**Turn Context (split turn):**\n\nPREFIX");
    for (history, prefix) in [("", "x"), ("x", " \n"), ("x", "\n\n<read-files>\na\n</read-files>")] {
        assert_eq!(plan.finish(summary(history), summary(prefix)), Err(CompactionError::EmptySummary));
    }
    assert_eq!(plan.finish(summary("x"), None), Err(CompactionError::EmptySummary));
}

#[test]
fn instructions_reach_both_parts_of_a_split_turn() {
    let session = TestSession::of(&["u first", "a done", "u second", "call 1 bash {}", "r 1 out", "a end"]);
    let plan = plan(&session, 1);
    let requests = [plan.history_request(Some("XYZ")), plan.turn_prefix_request(Some("XYZ"))];
    assert_eq!(requests.map(|request| request.and_then(|request| request.instructions)), [Some("XYZ"), Some("XYZ")]);
}

#[test]
fn without_history_before_the_turn_the_previous_summary_stands() {
    let old = format!("OLD {LONG}");
    let k = compaction(&old, 2, "");
    let session = TestSession::of(&["u gone", "a gone", &long("u long "), "call 1 bash {}", "r 1 out", &k, "a end"]);
    let plan = plan(&session, 1);
    assert_eq!(plan.history_request(None).map(|request| request.task), None);
    let result = plan.finish(None, summary("P")).expect("a result");
    assert_eq!(result.summary, format!("{old}\n\n---\n\n**Turn Context (split turn):**\n\nP"));

    let session = TestSession::of(&[&long(&long("u long ")), "call 1 bash {}", "r 1 out", "a end"]);
    let result = self::plan(&session, 1).finish(None, summary("P")).expect("a result");
    assert_eq!(result.summary, "Nothing came before this turn.\n\n---\n\n**Turn Context (split turn):**\n\nP");
}

#[test]
fn keeping_nothing_names_the_compaction_itself() {
    let session = TestSession::of(&[&long("u one "), "a two"]);
    let plan = plan(&session, 0);
    assert_eq!((plan.first_kept(), plan.kept_entries()), (None, &[][..]));
    let compaction = plan.finish(summary("S"), None).expect("a result").into_compaction(&session.next_id(), 7);
    assert_eq!(compaction.first_kept_entry_id, Some(session.next_id()));
    assert_eq!((compaction.summary.as_str(), compaction.retained_tail, compaction.from_hook), ("S", None, None));
    assert_eq!(compaction.tokens_before, Json::of(&12).ok());
}

#[test]
fn a_result_that_does_not_shrink_is_refused() {
    let session = TestSession::of(&["u one", "a two", "u three", "a four"]);
    let error = CompactionError::NotSmaller { summary_tokens: 2, replaced_tokens: 2 };
    assert_eq!(plan(&session, 2).finish(summary("12345"), None), Err(error));
    assert!(plan(&session, 2).finish(summary("1234"), None).is_ok());
    assert_eq!(plan(&session, 2).finish_from_hook(" ".to_owned(), None), Err(CompactionError::EmptySummary));
}

#[test]
fn the_tokens_after_are_on_the_scale_of_those_before() {
    let answer = format!(
        r#"{{"type":"message","message":{{"role":"assistant","content":[{{"type":"text","text":"{LONG}"}}],"usage":{{"input":50,"output":10}}}}}}"#
    );
    let session = TestSession::of(&[&long("u "), &answer, &long("u "), &long("a ")]);
    // Estimates: four times 10, of which 20 become 1.
    let result = plan(&session, 20).finish(summary("1234"), None).expect("a result");
    assert_eq!((result.tokens_before, result.tokens_after), (80, 80 * 21 / 40));
}

#[test]
fn files_accumulate_over_compactions_but_not_those_of_hooks() {
    let files = |from_hook: &str| {
        let old = format!("OLD{}", r"\n\n<read-files>\nblock.rs\n</read-files>");
        let details = format!(r#","details":{{"readFiles":["old.rs","both.rs"],"modifiedFiles":["m.rs"]}}{from_hook}"#);
        let session = TestSession::of(&[
            "u gone",
            &compaction(&old, 1, &details),
            &long(&long(&long("u "))),
            r#"call 1 edit {"path":"both.rs"}"#,
            "r 1 ok",
            r#"call 2 read {"path":"new.rs"}"#,
            "r 2 ok",
            "u last",
            r#"call 3 read {"path":"kept.rs"}"#,
        ]);
        let plan = plan(&session, 7);
        let result = plan.finish(summary("S"), None).expect("a result");
        (plan.previous_summary().map(str::to_owned), result)
    };
    let (previous, result) = files("");
    assert_eq!(previous.as_deref(), Some("OLD"));
    let details = r#"{"readFiles":["block.rs","new.rs","old.rs"],"modifiedFiles":["both.rs","m.rs"]}"#;
    assert_eq!(result.details.as_ref().map(Json::as_str), Some(details));
    assert_eq!(
        result.summary,
        "S\n\n<read-files>\nblock.rs\nnew.rs\nold.rs\n</read-files>\n\n<modified-files>\nboth.rs\nm.rs\n</modified-files>"
    );
    let (previous, result) = files(r#","fromHook":true"#);
    assert!(previous.is_some_and(|previous| previous.ends_with("</read-files>")));
    let details = r#"{"readFiles":["new.rs"],"modifiedFiles":["both.rs"]}"#;
    assert_eq!(result.details.as_ref().map(Json::as_str), Some(details));
}

#[test]
fn the_replayed_prompt_is_stored() {
    let system = |content: &str| format!(r#"{{"type":"message","message":{{"role":"system","content":"{content}"}}}}"#);
    let session = TestSession::of(&[&system("base"), &long("u one "), "a two", &system("more"), "u three", "a four"]);
    let plan = plan(&session, 2);
    assert_eq!(texts(plan.history()), [long("one "), "two".to_owned()]);
    let compaction = plan.finish(summary("S"), None).expect("a result").into_compaction(&session.next_id(), 7);
    let system = compaction.system_message.expect("a system message");
    assert_eq!(system.content.map(|content| content.joined_text()).as_deref(), Some("base\n\nmore"));
    // The prompt is a part of the context that no compaction shrinks.
    assert_eq!(plan.tokens().before, 11 + 1 + 2 + 1 + 3);
}

#[test]
fn nothing_to_compact_has_a_reason() {
    let check = |words: &[&str], keep, expect| assert_eq!(read(&TestSession::of(words)).plan(keep).err(), Some(expect));
    check(&[], 10, NoCut::Empty);
    check(&["name n"], 0, NoCut::Empty);
    check(&["u one"], 10, NoCut::WithinBudget { tokens: 1, keep_tokens: 10 });
    check(&["u one", &compaction("OLD", 1, "")], 0, NoCut::Empty);
    // Messages that tell nothing are not worth a summary.
    check(&[r#"{"type":"message","message":{"role":"assistant","content":[]}}"#, "u one"], 1, NoCut::Empty);
}

#[test]
fn extractive_compactions_work_from_plan_to_context() {
    let mut session = TestSession::of(&[
        "u fix the parser in src/parse.rs so that the tests pass, you must not touch the lexer",
        r#"call 1 edit {"path":"src/parse.rs","old":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","new":"bbbbbbbbbbbbb"}"#,
        &format!("r 1 {}", LONG.repeat(20)),
        "a all done, the parser is fixed",
        "u thanks",
        "a you are welcome",
    ]);
    let result = extractive::compact(&plan(&session, 6), Some("KEEP XYZ")).expect("a result");
    assert!(result.tokens_after < result.tokens_before);
    for part in ["## Goal\n- fix the parser", "must not touch the lexer", "edit `src/parse.rs`", "KEEP XYZ", "<modified-files>"] {
        assert!(result.summary.contains(part), "{part} in {}", result.summary);
    }
    let id = session.next_id();
    session.add_kind(EntryKind::Compaction(result.into_compaction(&id, 7)));
    let Ok(context) = project(&session.tree, session.leaf(), &session, &[]);
    assert_eq!(texts(&context.messages)[1..], ["thanks", "you are welcome"]);
}
