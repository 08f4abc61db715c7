//! Branch summaries, from sessions written as words.

use super::*;
use crate::compaction::test_session::TestSession;

/// `0 u root, 1 a root`, then `2 u old .. 4` on one branch and `5 u new, 6` on the other.
fn two_branches() -> TestSession {
    let mut session = TestSession::of(&["u root", "a root", "u old", "call 1 bash {}", "r 1 the fact"]);
    session.add_at(1, "u new");
    session.add("a new");
    session
}

fn at(session: &TestSession, position: usize) -> Option<EntryIndex> {
    session.tree.iter_all().nth(position)
}

/// Collects between two positions; `None` is before the first entry.
fn check(session: &TestSession, old_leaf: Option<usize>, new_leaf: Option<usize>, expect: &[usize]) {
    let index = |position: Option<usize>| position.and_then(|position| at(session, position));
    let left = collect(&session.tree, index(old_leaf), index(new_leaf));
    assert_eq!(left.iter().map(|index| index.get()).collect::<Vec<_>>(), expect, "{old_leaf:?} to {new_leaf:?}");
}

#[test]
fn what_is_left_ends_at_the_common_ancestor() {
    let session = two_branches();
    check(&session, Some(4), Some(6), &[2, 3, 4]);
    check(&session, Some(6), Some(3), &[5, 6]);
    check(&session, Some(4), Some(1), &[2, 3, 4]);
    check(&session, Some(4), Some(2), &[3, 4]);
    check(&session, Some(4), None, &[0, 1, 2, 3, 4]);
    // Going on, or nowhere, leaves nothing behind.
    check(&session, Some(1), Some(4), &[]);
    check(&session, Some(4), Some(4), &[]);
    check(&session, None, Some(4), &[]);
    check(&session, None, None, &[]);
}

#[test]
fn two_roots_share_nothing() {
    let mut session = TestSession::of(&["u one", "a one"]);
    session.add_root("u two");
    check(&session, Some(1), Some(2), &[0, 1]);
}

#[test]
fn compactions_on_the_way_neither_end_nor_hide_anything() {
    let k = r#"{"type":"compaction","summary":"K","firstKeptEntryId":"00000003","tokensBefore":1,"retainedTail":[{"role":"user","content":"again"}]}"#;
    let session = TestSession::of(&["u root", "u before", "a before", "u kept", k, "u after"]);
    check(&session, Some(5), Some(0), &[1, 2, 3, 4, 5]);
    let plan = read(&session, 5, 0).expect("a branch");
    let texts: Vec<_> = plan.messages().iter().map(|projected| projected.message.text()).collect();
    assert_eq!(texts, ["before", "before", "kept", "K", "after"]);
}

fn read(session: &TestSession, old_leaf: usize, new_leaf: usize) -> Option<BranchPlan> {
    let Ok(plan) = BranchPlan::read(&session.tree, at(session, old_leaf), at(session, new_leaf), session, &[]);
    plan
}

#[test]
fn results_are_told_and_edits_hold() {
    let mut session = TestSession::of(&["u root", "u secret", "call 1 bash {}", "r 1 the fact"]);
    session.add(r#"{"type":"context_edit","targetId":"00000001","replacement":null}"#);
    let plan = read(&session, 4, 0).expect("a branch");
    let text = prompt::conversation(plan.request(None).messages).join("\n");
    assert!(text.contains("[Tool result]: the fact") && !text.contains("secret"), "{text}");
}

#[test]
fn a_branch_without_messages_needs_no_summary() {
    let session = TestSession::of(&["u root", "name n", r#"{"type":"message","message":{"role":"assistant","content":[]}}"#]);
    assert_eq!(read(&session, 2, 0), None);
    assert_eq!(read(&session, 0, 2), None);
}

#[test]
fn a_made_summary_has_the_preamble_and_the_files() {
    let nested = r#"{"type":"branch_summary","fromId":"x","summary":"N","details":{"readFiles":["n.rs"],"modifiedFiles":[]}}"#;
    let hook = r#"{"type":"branch_summary","fromId":"x","summary":"H","fromHook":true,"details":{"readFiles":["hook.rs"]}}"#;
    let session = TestSession::of(&["u root", "u fix it", nested, hook, r#"call 1 edit {"path":"a.rs"}"#, "r 1 ok", "a fixed"]);
    let plan = read(&session, 6, 0).expect("a branch");
    let summary = plan.finish(Summary { text: "\nDONE\n".to_owned(), usage: None }).expect("a summary");
    let blocks = "\n\n<read-files>\nn.rs\n</read-files>\n\n<modified-files>\na.rs\n</modified-files>";
    assert_eq!(summary.summary, format!("{PREAMBLE}DONE{blocks}"));
    assert_eq!(summary.from_id, Some(EntryId::from("00000006")));
    let details = r#"{"readFiles":["n.rs"],"modifiedFiles":["a.rs"]}"#;
    assert_eq!(summary.details.as_ref().map(Json::as_str), Some(details));
    let blank = Summary { text: " ".to_owned(), usage: None };
    assert_eq!(plan.finish(blank), Err(CompactionError::EmptySummary));

    let extracted = plan.extract(Some("XYZ")).expect("a summary").summary;
    for part in [PREAMBLE, "## Goal\n- fix it", "edit `a.rs`", "XYZ", blocks] {
        assert!(extracted.contains(part), "{part} in {extracted}");
    }
}

#[test]
fn a_given_summary_is_stored_as_it_is() {
    let session = two_branches();
    let given = given_summary(&session.tree, at(&session, 4), " mine ".to_owned(), None, None);
    assert_eq!((given.summary.as_str(), given.from_id, given.from_hook), (" mine ", Some(EntryId::from("00000004")), None));
    let from_root = given_summary(&session.tree, None, "x".to_owned(), None, Some(true));
    assert_eq!((from_root.from_id, from_root.from_hook), (Some(EntryId::from("root")), Some(true)));
}
