//! Cut points, from ranges written as words.

use proptest::prelude::*;

use super::*;
use crate::session::json::Json;

/// One message: `u`, `b`, `m` (custom), `s` (branch summary), `a` or `a1,2` (with calls), `r1`; `.` is no message.
fn message(word: &str) -> Option<Message> {
    let json = match word.split_at(1) {
        (".", _) => return None,
        ("u", _) => r#"{"role":"user","content":"u"}"#.to_owned(),
        ("b", _) => r#"{"role":"bashExecution","command":"c"}"#.to_owned(),
        ("m", _) => r#"{"role":"custom","content":"c"}"#.to_owned(),
        ("s", _) => r#"{"role":"branchSummary","summary":"s"}"#.to_owned(),
        ("a", calls) => {
            let calls = calls.split(',').filter(|id| !id.is_empty());
            let calls = calls.map(|id| format!(r#"{{"type":"toolCall","id":"{id}","name":"t","arguments":{{}}}}"#));
            format!(r#"{{"role":"assistant","content":[{}]}}"#, calls.collect::<Vec<_>>().join(","))
        }
        ("r", id) => format!(r#"{{"role":"toolResult","toolCallId":"{id}","content":[]}}"#),
        other => panic!("{other:?}"),
    };
    Some(Message::from_json(Json::parse(&json).expect(word)))
}

/// Cuts a range of words, each with its tokens (`u:5`, 1 where there are none; `K` is a compaction), and shows the
/// parts as `history|prefix|kept`.
fn check(range: &str, keep_tokens: u64, expect: &str) {
    let words: Vec<_> = range.split_whitespace().collect();
    let parsed: Vec<_> = words
        .iter()
        .map(|word| {
            let (kind, tokens) = word.split_once(':').unwrap_or((word, "1"));
            (kind, if kind == "K" { None } else { message(kind) }, tokens.parse().expect("tokens"))
        })
        .collect();
    let entries: Vec<_> = parsed
        .iter()
        .map(|(kind, message, tokens)| match message {
            _ if *kind == "K" => CutEntry::compaction([], 0),
            None => CutEntry::default(),
            Some(message) => CutEntry::of([message], *tokens),
        })
        .collect();
    let shown = match find_cut(&entries, keep_tokens) {
        Ok(cut) => [cut.history, cut.turn_prefix, cut.kept].map(|part| words[part].join(" ")).join("|"),
        Err(error) => format!("{error:?}").split(' ').next().unwrap_or_default().to_owned(),
    };
    assert_eq!(shown, expect, "{range} keep {keep_tokens}");
}

#[test]
fn the_first_valid_point_at_or_after_the_budget() {
    check("u a u a u a", 2, "u a u a||u a");
    check("u a u a:9 u a", 2, "u a u a:9||u a");
    check("u a u a u a1 r1:9 a", 2, "u a u a|u a1 r1:9|a");
    check("u a u a u:9 a", 5, "u a u a||u:9 a");
}

#[test]
fn else_the_last_valid_point_before_it() {
    check("u a u a1 r1:9", 5, "u a|u|a1 r1:9");
    check("u a u a1,2 r1 r2:9", 5, "u a|u|a1,2 r1 r2:9");
}

#[test]
fn batches_of_parallel_calls_stay_whole() {
    check("u a u a1,2 r1 m r2:2", 3, "u a|u|a1,2 r1 m r2:2");
    check("u a u a1,2 r1 b r2 a:2", 3, "u a|u a1,2 r1 b r2|a:2");
    // A call that was never answered holds nothing back.
    check("u a1,2 r1 u a", 2, "u a1,2 r1||u a");
    // An id that is used again is another call.
    check("u a1 r1 u a1 r1 u", 3, "u a1 r1|u|a1 r1 u");
}

#[test]
fn keep_last_four_does_not_split_a_call_from_its_result() {
    check("u a1 r1 a2 r2 a3 r3 a", 4, "|u a1 r1 a2 r2|a3 r3 a");
}

#[test]
fn silent_entries_directly_before_the_cut_are_kept() {
    check("u a . . u a", 2, "u a||. . u a");
    check("u a . K . u a", 2, "u a . K||. u a");
    check("u . a u . a", 1, "u . a|u|. a");
}

#[test]
fn a_cut_at_an_assistant_message_splits_the_turn() {
    check("u a u a1 r1 a", 1, "u a|u a1 r1|a");
    check("u a1 r1 a2 r2 a", 3, "|u a1 r1|a2 r2 a");
    check("u a m a1 r1 a", 1, "u a|m a1 r1|a");
    check("u a b a", 1, "u a|b|a");
    // The span began before the range: it was split before.
    check("a1 r1 a2 r2 a", 3, "a1 r1||a2 r2 a");
}

#[test]
fn points_that_begin_a_span_split_nothing() {
    for begin in ["u", "b", "m", "s"] {
        check(&format!("u a {begin} a"), 2, &format!("u a||{begin} a"));
    }
}

#[test]
fn keeping_nothing() {
    check("u a u a1", 0, "u a u a1||");
    check(". .", 0, "Empty");
}

#[test]
fn without_a_cut_there_is_a_reason() {
    check("", 5, "Empty");
    check(". K .", 5, "Empty");
    check("u a u a", 5, "WithinBudget");
    check("u:9 a", 5, "NoPoint");
    check(". . u:9 a", 5, "NoPoint");
    check("r1 r2:9", 5, "NoPoint");
    check("u:9", 5, "NoPoint");
}

#[test]
fn what_a_compaction_retained_is_never_kept() {
    let (user, other) = (message("u").expect("u"), message("u").expect("u"));
    let range = [CutEntry::compaction([&user], 9), CutEntry::of([&other], 9)];
    let cut = find_cut(&range, 5).expect("a cut");
    assert_eq!((cut.history, cut.kept), (0..1, 1..2));
    assert_eq!(find_cut(&range, 12), Ok(find_cut(&range, 5).expect("a cut")));
}

/// Ranges in which calls are answered late, in part, twice or never, and by ids that come again.
fn ranges() -> impl Strategy<Value = Vec<(String, u64)>> {
    let word = prop_oneof![
        Just("u".to_owned()),
        Just("b".to_owned()),
        Just("m".to_owned()),
        Just(".".to_owned()),
        proptest::collection::vec(0..6u8, 0..3)
            .prop_map(|ids| format!("a{}", ids.iter().map(u8::to_string).collect::<Vec<_>>().join(","))),
        (0..6u8).prop_map(|id| format!("r{id}")),
        (0..6u8).prop_map(|id| format!("r{id}")),
    ];
    proptest::collection::vec((word, 0..30u64), 0..40)
}

proptest! {
    #[test]
    fn cuts_are_whole_and_tear_nothing(words in ranges(), keep_tokens in 0..200u64) {
        let messages: Vec<_> = words.iter().map(|(word, _)| message(word)).collect();
        let entries: Vec<_> = messages
            .iter()
            .zip(&words)
            .map(|(message, (_, tokens))| message.as_ref().map(|message| CutEntry::of([message], *tokens)).unwrap_or_default())
            .collect();
        let total: u64 = entries.iter().map(|entry| entry.tokens).sum();
        // Where each result's call is, found the slow way: the latest one with the id that has no result yet.
        let mut pairs = Vec::new();
        let mut answered = std::collections::HashSet::new();
        for (at, entry) in entries.iter().enumerate() {
            for result in &entry.results {
                let call = (0..at).rfind(|call| entries[*call].calls.contains(result));
                if let Some(call) = call.filter(|call| answered.insert((*call, *result))) {
                    pairs.push((call, at));
                }
            }
        }
        let tears = |point: usize| pairs.iter().any(|(call, result)| *call < point && point <= *result);
        let may_begin = |at: usize| !tears(at) && matches!(words[at].0.as_bytes()[0], b'u' | b'b' | b'm' | b'a');

        match find_cut(&entries, keep_tokens) {
            Ok(cut) => {
                prop_assert_eq!((cut.history.start, cut.kept.end), (0, entries.len()));
                prop_assert_eq!((cut.history.end, cut.turn_prefix.end), (cut.turn_prefix.start, cut.kept.start));
                prop_assert_eq!(cut.tokens_history + cut.tokens_turn_prefix + cut.tokens_kept, total);
                prop_assert!(messages[..cut.kept.start].iter().any(Option::is_some));
                if keep_tokens == 0 {
                    prop_assert!(cut.kept.is_empty() && cut.turn_prefix.is_empty());
                } else {
                    let point = cut.kept.clone().find(|at| messages[*at].is_some()).expect("something is kept");
                    prop_assert!(may_begin(point), "{} at {}", words[point].0, point);
                    prop_assert_eq!(cut.is_split_turn(), !cut.turn_prefix.is_empty());
                    // Less than the budget is kept only where the entries up to the one that reached it could not begin.
                    let before = (0..point).rev().find(|at| cut.tokens_kept + entries[*at..point].iter().map(|entry| entry.tokens).sum::<u64>() >= keep_tokens);
                    if cut.tokens_kept < keep_tokens {
                        prop_assert!((before.expect("the budget is reached")..point).all(|at| !may_begin(at)));
                    }
                    // And more only where no later point keeps enough.
                    let later = (point + 1..entries.len()).find(|at| may_begin(*at));
                    if let Some(later) = later {
                        prop_assert!(entries[later..].iter().map(|entry| entry.tokens).sum::<u64>() < keep_tokens);
                    }
                    if cut.is_split_turn() {
                        prop_assert!(!tears(cut.turn_prefix.start));
                        prop_assert_eq!(words[point].0.as_bytes()[0], b'a');
                        prop_assert!(messages[cut.turn_prefix.clone()].iter().any(Option::is_some));
                    }
                }
            }
            Err(NoCut::Empty) => prop_assert!(messages.iter().all(Option::is_none)),
            Err(NoCut::WithinBudget { tokens, .. }) => prop_assert!(tokens == total && total < keep_tokens),
            Err(NoCut::NoPoint) => {
                let first = messages.iter().position(Option::is_some).expect("not empty");
                let enough = |at: usize| entries[at..].iter().map(|entry| entry.tokens).sum::<u64>() >= keep_tokens;
                // The last point that keeps enough, and any that keeps less, would leave nothing to summarize.
                let reached = (0..entries.len()).rfind(|at| enough(*at)).expect("the budget is reached");
                let point = (reached..entries.len()).find(|at| may_begin(*at)).or((0..reached).rfind(|at| may_begin(*at)));
                prop_assert!(point.is_none_or(|point| point <= first));
            }
        }
    }
}
