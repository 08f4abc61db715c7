//! Extractive summaries, from sessions written as words.

use super::*;
use crate::compaction::plan::CompactionInput;
use crate::compaction::test_session::{TestSession, payload};
use crate::session::context::ProjectedMessage;
use crate::session::entry::{EntryKind, EntryType};
use crate::session::json::Fields;

/// Summarizes messages given as words and looks for lines of the result; those that begin with `!` must not be there.
fn check(task: SummaryTask, previous: Option<&str>, words: &[&str], expect: &[&str]) {
    let text = summary(task, previous, words);
    for line in expect {
        let (line, wanted) = line.strip_prefix('!').map_or((*line, true), |line| (line, false));
        assert_eq!(text.lines().any(|known| known == line), wanted, "{line:?} in {text}");
    }
}

fn summary(task: SummaryTask, previous: Option<&str>, words: &[&str]) -> String {
    let mut messages: Vec<_> = words.iter().map(|word| message(word)).collect();
    // Room for everything.
    let filler = payload(&format!("r none {}", "x".repeat(9_000)));
    messages.push(message(&filler));
    extract(&SummaryRequest { task, messages: &messages, previous_summary: previous, instructions: None }).text
}

fn message(word: &str) -> ProjectedMessage {
    let json = payload(word);
    match EntryKind::read(Fields::parse(&json).expect(&json)) {
        EntryKind::Message(entry) => ProjectedMessage { message: entry.message, source: None },
        other => panic!("{other:?}"),
    }
}

const RUN: [&str; 8] = [
    "u Make the build faster. You must keep the tests.",
    r#"call 1 bash {"command":"cargo build"}"#,
    "err 1 error: linker not found",
    r#"call 2 write {"path":"build.rs","content":"x"}"#,
    "r 2 ok",
    "a I decided to use mold. Next I will measure it.",
    "u and the docs?",
    r#"call 3 read {"path":"docs.md"}"#,
];

#[test]
fn the_form_is_filled_from_the_messages() {
    check(
        SummaryTask::History,
        None,
        &RUN,
        &[
            "## Goal",
            "- Make the build faster. You must keep the tests.",
            "- and the docs?",
            "## Constraints & Preferences",
            "- You must keep the tests.",
            "## Progress",
            "### Done",
            "- [x] write `build.rs`",
            "### In Progress",
            "- [ ] and the docs?",
            "### Blocked",
            "- bash `cargo build`: error: linker not found",
            "## Key Decisions",
            "- I decided to use mold.",
            "## Next Steps",
            "1. Next I will measure it.",
            "## Critical Context",
            "- Last answer: I decided to use mold. Next I will measure it.",
        ],
    );
}

#[test]
fn what_works_again_is_not_blocked() {
    let words = [r#"call 1 bash {"command":"a"}"#, "err 1 broken", r#"call 2 bash {"command":"a"}"#, "r 2 fine"];
    check(SummaryTask::History, None, &words, &["!- bash `a`: broken", "- [x] bash `a`"]);
}

#[test]
fn the_beginning_of_a_turn_has_its_own_form() {
    check(
        SummaryTask::TurnPrefix,
        None,
        &RUN,
        &[
            "## Request",
            "## So Far",
            "- failed: bash `cargo build`: error: linker not found",
            "## Needed for the Rest",
            "!## Goal",
        ],
    );
}

#[test]
fn a_previous_summary_is_rolled_on() {
    let previous = summary(SummaryTask::History, None, &RUN);
    check(
        SummaryTask::History,
        Some(&previous),
        &["a the docs are done", "u ship it"],
        &[
            "- Make the build faster. You must keep the tests.",
            "- ship it",
            "- [x] write `build.rs`",
            "- [x] the docs are done",
            "- [ ] ship it",
            "!- [ ] and the docs?",
            "- Last answer: the docs are done",
            "!- Last answer: I decided to use mold. Next I will measure it.",
        ],
    );
}

#[test]
fn summaries_of_models_and_of_hooks_are_understood() {
    let by_model = "## Goal\nShip version 2\n\n## Progress\n### Done\n1. [x] wrote it\n\n---\n\n**Turn Context (split turn):**\n\n## Request\n- and test it";
    check(SummaryTask::History, Some(by_model), &["u x"], &["- Ship version 2", "- and test it", "- [x] wrote it"]);
    check(SummaryTask::History, Some("free\nwords"), &["u x"], &["- x", "- Earlier summary: free words"]);
}

#[test]
fn text_of_any_kind_stays_in_its_line() {
    check(
        SummaryTask::History,
        None,
        &["u # Heading\n\u{1b}[31m- [x] red\n---\n## Goal"],
        &["- # Heading [31m- [x] red --- ## Goal"],
    );
    check(SummaryTask::History, None, &["u   "], &["- (not stated)"]);
}

#[test]
fn small_parts_get_small_summaries() {
    let messages = RUN.map(message);
    let tokens: u64 = messages.iter().map(|projected| tokens::estimate_message(&projected.message)).sum();
    let request = SummaryRequest { task: SummaryTask::History, messages: &messages, previous_summary: None, instructions: None };
    let text = extract(&request).text;
    assert!(tokens::estimate_text(&text) < tokens, "{text}");
    assert!(text.starts_with("## Goal\n- Make the build faster."), "{text}");
}

/// Compacts again and again, as a long session would, also in a script whose characters are a token each.
#[test]
fn thirty_compactions_keep_the_first_goal_and_stay_small() {
    for filler in ["because of the very long story ", "因为故事很长，"] {
        let mut session = TestSession::of(&["u 1. First of all: rewrite the parser"]);
        let mut ceiling = 0;
        for round in 0..30 {
            for turn in 0..6 {
                session.add(&format!("u next request {round}.{turn}: you must {}", filler.repeat(30)));
                let path = format!("src/some/long/folder/file_{round}_{turn}.rs");
                session.add(&format!(r#"call {round}{turn} edit {{"path":"{path}","new":"{}"}}"#, "x".repeat(900)));
                session.add(&format!("{} {round}{turn} {}", ["r", "err"][turn % 2], filler.repeat(60)));
                session.add(&format!("a I decided {round}.{turn} {}. Next: {}", filler.repeat(20), filler.repeat(20)));
            }
            let Ok(input) = CompactionInput::read(&session.tree, session.leaf(), &session, &[], None);
            // Some of the cuts split a turn.
            let plan = input.plan(500 + 300 * round).expect("a plan");
            let result = compact(&plan, Some("watch the lexer")).expect("a result");
            assert_eq!(result, compact(&plan, Some("watch the lexer")).expect("a result"));
            assert!(result.tokens_after < result.tokens_before);
            let goal = result.summary.split("## Goal").nth(1).and_then(|goal| goal.split("## ").next()).unwrap_or_default();
            assert!(goal.contains("First of all: rewrite the parser"), "{round}: {}", result.summary);
            assert!(result.summary.contains("watch the lexer"));
            ceiling = ceiling.max(tokens::estimate_text(&result.summary));
            let id = session.next_id();
            session.add_kind(EntryKind::Compaction(result.into_compaction(&id, 7)));
        }
        // Two summaries where a turn is split, and the list of files.
        assert!(ceiling <= 2 * MAX_TOKENS + 1_100, "{ceiling}");
        let compactions = session.entries.iter().filter(|entry| entry.kind.entry_type() == EntryType::Compaction);
        assert_eq!(compactions.count(), 30);
    }
}
