//! Summaries by a model that follows a script.

use std::sync::Mutex;

use super::*;
use crate::compaction::plan::CompactionInput;
use crate::compaction::test_session::TestSession;

/// A model that notes what it is asked and answers with what the script gives for the n-th request, from 1.
struct ScriptedModel {
    asked: Mutex<Vec<SummaryPrompt>>,
    script: fn(usize, &SummaryPrompt) -> Result<String, SummaryError>,
}

#[async_trait]
impl SummaryModel for &ScriptedModel {
    async fn complete(&self, prompt: &SummaryPrompt, _: u64, _: &CancellationToken) -> Result<Summary, SummaryError> {
        let count = {
            let mut asked = self.asked.lock().expect("no panic while locked");
            asked.push(prompt.clone());
            asked.len()
        };
        let text = (self.script)(count, prompt)?;
        Ok(Summary { text, usage: Some(Usage { input: 10, output: 1, ..Usage::default() }) })
    }
}

impl ScriptedModel {
    fn new(script: fn(usize, &SummaryPrompt) -> Result<String, SummaryError>) -> Self {
        Self { asked: Mutex::default(), script }
    }

    /// The user messages of the requests so far.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic while locked").iter().map(|prompt| prompt.user.clone()).collect()
    }

    fn summarizer(&self, window_tokens: u64) -> ModelSummarizer<&Self> {
        let retry = SummaryRetry { max_attempts: 3, first_wait: Duration::ZERO };
        ModelSummarizer::new(self, SummaryLimits::for_window(window_tokens, 16_384), retry)
    }
}

fn numbered(count: usize, _: &SummaryPrompt) -> Result<String, SummaryError> {
    Ok(format!("SUMMARY {count}"))
}

fn plan(session: &TestSession, keep_tokens: u64) -> CompactionPlan {
    let Ok(input) = CompactionInput::read(&session.tree, session.leaf(), session, &[], None);
    input.plan(keep_tokens).expect("a plan")
}

/// The parts of a prompt: the conversation, the previous summary, the instructions.
fn parts(user: &str) -> (&str, Option<&str>, Option<&str>) {
    let (conversation, rest) = user.split_once("\n</conversation>").expect("a conversation");
    let previous = rest.split_once("<previous-summary>\n").and_then(|(_, rest)| rest.split_once("\n</previous-summary>"));
    let instructions = rest.split_once("also asks this of the summary: ");
    let conversation = conversation.strip_prefix("<conversation>\n").expect("it begins the prompt");
    (conversation, previous.map(|(summary, _)| summary), instructions.map(|(_, text)| text))
}

fn long_words(word: &str, tokens: usize) -> String {
    format!("{word} {}", "word ".repeat(tokens * 4 / 5))
}

#[tokio::test]
async fn both_parts_of_a_split_turn_are_asked_for_with_the_instructions() {
    let k = r#"{"type":"compaction","summary":"OLD","firstKeptEntryId":"00000001","tokensBefore":1}"#;
    let first = long_words("u first", 100);
    let session = TestSession::of(&["u gone", k, &first, "a done", "u second", "call 1 bash {}", "r 1 out", "a end"]);
    let model = ScriptedModel::new(numbered);
    let cancel = CancellationToken::new();
    let result = compact(&plan(&session, 1), &model.summarizer(100_000), Some("INCLUDE XYZ"), &cancel).await.expect("a result");
    assert_eq!(result.summary, "SUMMARY 1\n\n---\n\n**Turn Context (split turn):**\n\nSUMMARY 2");
    assert_eq!(result.usage.map(|usage| (usage.input, usage.output)), Some((20, 2)));
    let asked = model.asked();
    let [history, prefix] = [parts(&asked[0]), parts(&asked[1])];
    assert!(history.0.starts_with("[User]: first") && history.0.ends_with("[Assistant]: done"), "{}", history.0);
    assert_eq!((history.1, history.2), (Some("OLD"), Some("INCLUDE XYZ")));
    assert_eq!(prefix, ("[User]: second\n\n[Assistant tool calls]: bash({})\n\n[Tool result]: out", None, Some("INCLUDE XYZ")));
}

#[tokio::test]
async fn a_long_history_is_rolled_up_in_chunks() {
    let mut session = TestSession::default();
    for turn in 0..20 {
        session.add(&long_words(&format!("u question{turn}."), 200));
        session.add(&format!("a answer{turn}."));
    }
    // One message that alone is more than a chunk.
    session.add(&long_words("u huge.", 5_000));
    session.add("a end");
    let model = ScriptedModel::new(numbered);
    let summarizer = model.summarizer(4_000);
    let plan = plan(&session, 0);
    let result = compact(&plan, &summarizer, Some("XYZ"), &CancellationToken::new()).await.expect("a result");
    let asked = model.asked();
    assert!(asked.len() > 3, "{}", asked.len());
    assert_eq!(result.summary, format!("SUMMARY {}", asked.len()));
    for (at, user) in asked.iter().enumerate() {
        let (_, previous, instructions) = parts(user);
        let expect = (at > 0).then(|| format!("SUMMARY {at}"));
        assert_eq!((previous, instructions), (expect.as_deref(), Some("XYZ")));
        assert!(estimate_text(user) + 1_000 <= 4_000, "request {at} has {}", estimate_text(user));
    }
    // Nothing is lost or said twice.
    let chunks: String = asked.iter().map(|user| parts(user).0.replace("\n\n", "")).collect();
    assert_eq!(chunks, conversation(plan.history()).concat());
}

#[tokio::test]
async fn an_overflow_halves_the_chunks_and_ends() {
    fn small(count: usize, prompt: &SummaryPrompt) -> Result<String, SummaryError> {
        if estimate_text(&prompt.user) > 1_500 {
            Err(SummaryError::Overflow("too long".to_owned()))
        } else {
            numbered(count, prompt)
        }
    }
    let session = TestSession::of(&[&long_words("u long", 5_000), "a end"]);
    let plan = plan(&session, 0);
    let cancel = CancellationToken::new();
    let model = ScriptedModel::new(small);
    let result = compact(&plan, &model.summarizer(100_000), None, &cancel).await.expect("a result");
    assert!(result.summary.starts_with("SUMMARY "));
    let answered: String =
        model.asked().iter().filter(|user| estimate_text(user) <= 1_500).map(|user| parts(user).0.to_owned()).collect();
    assert_eq!(answered, conversation(plan.history()).join("\n\n").replace("\n\n", ""));

    let model = ScriptedModel::new(|_, _| Err(SummaryError::Overflow("always".to_owned())));
    let error = compact(&plan, &model.summarizer(100_000), None, &cancel).await;
    assert_eq!(error, Err(CompactionError::Summary(SummaryError::Overflow("always".to_owned()))));
    assert!(model.asked().len() < 12, "{}", model.asked().len());
}

#[tokio::test]
async fn a_previous_summary_that_leaves_no_room_is_text_itself() {
    let old = "old words ".repeat(1_500);
    let k = format!(r#"{{"type":"compaction","summary":"{old}","firstKeptEntryId":"00000001","tokensBefore":1}}"#);
    let session = TestSession::of(&["u gone", &k, "u new", "a new"]);
    let model = ScriptedModel::new(numbered);
    compact(&plan(&session, 0), &model.summarizer(4_000), None, &CancellationToken::new()).await.expect("a result");
    let asked = model.asked();
    let (first, previous, _) = parts(&asked[0]);
    assert!(first.starts_with("[Earlier summary]: old words") && previous.is_none());
    assert!(parts(&asked[asked.len() - 1]).0.ends_with("[Assistant]: new"));
}

#[tokio::test]
async fn errors_for_now_are_tried_again_and_others_are_not() {
    let session = TestSession::of(&[&long_words("u one", 100), "a two"]);
    let plan = plan(&session, 0);
    let check = async |script: fn(usize, &SummaryPrompt) -> Result<String, SummaryError>,
                       asked: usize,
                       expect: Result<&str, CompactionError>| {
        let model = ScriptedModel::new(script);
        let result = compact(&plan, &model.summarizer(100_000), None, &CancellationToken::new()).await;
        assert_eq!(result.as_ref().map(|result| result.summary.as_str()), expect.as_ref().copied());
        assert_eq!(model.asked().len(), asked);
    };
    let transient = || SummaryError::Transient("busy".to_owned());
    let permanent = || SummaryError::Permanent("no key".to_owned());
    check(
        |count, prompt| if count < 3 { Err(SummaryError::Transient("busy".to_owned())) } else { numbered(count, prompt) },
        3,
        Ok("SUMMARY 3"),
    )
    .await;
    check(|_, _| Err(SummaryError::Transient("busy".to_owned())), 3, Err(transient().into())).await;
    check(|_, _| Err(SummaryError::Permanent("no key".to_owned())), 1, Err(permanent().into())).await;
    check(|_, _| Ok(" \n".to_owned()), 1, Err(CompactionError::EmptySummary)).await;
}

#[tokio::test]
async fn cancelling_ends_a_model_that_hangs() {
    struct Hanging;
    #[async_trait]
    impl SummaryModel for Hanging {
        async fn complete(&self, _: &SummaryPrompt, _: u64, cancel: &CancellationToken) -> Result<Summary, SummaryError> {
            cancel.cancel();
            std::future::pending().await
        }
    }
    let session = TestSession::of(&[&long_words("u one", 100), "a two"]);
    let summarizer = ModelSummarizer::new(Hanging, SummaryLimits::for_window(100_000, 16_384), SummaryRetry::default());
    let cancel = CancellationToken::new();
    let aborted = Err(CompactionError::Summary(SummaryError::Aborted));
    assert_eq!(compact(&plan(&session, 0), &summarizer, None, &cancel).await, aborted);
    // The token is cancelled now.
    assert_eq!(compact(&plan(&session, 0), &ExtractiveSummarizer, None, &cancel).await, aborted);
}

#[tokio::test]
async fn the_extractive_summarizer_is_one_of_them() {
    let session = TestSession::of(&[&long_words("u one", 100), "a two"]);
    let plan = plan(&session, 0);
    let result = compact(&plan, &ExtractiveSummarizer, Some("XYZ"), &CancellationToken::new()).await;
    assert_eq!(result, extractive::compact(&plan, Some("XYZ")));
}

#[test]
fn answers_leave_room_for_what_they_answer() {
    let check = |window, reserve, expect| assert_eq!(SummaryLimits::for_window(window, reserve).max_answer_tokens, expect);
    check(200_000, 16_384, 13_104);
    check(8_000, 16_384, 2_000);
    check(0, 0, 1);
}

mod branches {
    use super::*;
    use crate::compaction::branch_summary::{BranchPlan, PREAMBLE};

    #[tokio::test]
    async fn the_newest_part_of_a_branch_is_summarized_within_the_window() {
        let mut session = TestSession::of(&["u root"]);
        for turn in 0..50 {
            session.add(&long_words(&format!("u question{turn}."), 100));
        }
        let root = session.tree.path(session.leaf()).first().copied();
        let Ok(plan) = BranchPlan::read(&session.tree, session.leaf(), root, &session, &[]);
        let plan = plan.expect("a branch");
        let model = ScriptedModel::new(|count, prompt| match estimate_text(&prompt.user) > 1_500 {
            true => Err(SummaryError::Overflow("too long".to_owned())),
            false => numbered(count, prompt),
        });
        let summary = plan.summarize(&model.summarizer(4_000), Some("XYZ"), &CancellationToken::new()).await.expect("a summary");
        assert_eq!(summary.summary, format!("{PREAMBLE}SUMMARY 2"));
        assert_eq!(summary.usage.map(|usage| usage.output), Some(1));
        let asked = model.asked();
        let (conversation, previous, instructions) = parts(&asked[1]);
        assert!(!conversation.contains("question0.") && conversation.contains("question49."), "{conversation}");
        assert_eq!((previous, instructions), (None, Some("XYZ")));
    }

    #[tokio::test]
    async fn a_message_that_alone_is_too_long_is_cut() {
        let session = TestSession::of(&["u root", "u old", &long_words("u huge.", 10_000)]);
        let root = session.tree.path(session.leaf()).first().copied();
        let Ok(plan) = BranchPlan::read(&session.tree, session.leaf(), root, &session, &[]);
        let model = ScriptedModel::new(numbered);
        let summarizer = model.summarizer(4_000);
        plan.expect("a branch").summarize(&summarizer, None, &CancellationToken::new()).await.expect("a summary");
        let asked = model.asked();
        assert!(parts(&asked[0]).0.starts_with("[User]: huge.") && estimate_text(&asked[0]) < 3_000);
    }
}
