//! Compaction of a live session.

use super::*;
use crate::agent::event::CompactionCause;
use crate::agent::hooks::{BeforeCompactAnswer, HookSummary, SessionBeforeCompact};
use crate::agent::testing::entries_of;
use crate::compaction::summary::CompactionError;

/// 2,000 tokens of text.
fn long() -> String {
    "word ".repeat(1_600)
}

fn overflow() -> ProviderError {
    ProviderError::Overflow { detail: "too long".into() }
}

fn small(window: u64) -> Model {
    Model { context_window: window, ..Scripted::model() }
}

/// The compactions that were told, with what they kept.
fn compactions(events: &mut Events) -> Vec<String> {
    std::iter::from_fn(|| events.try_next())
        .filter_map(|event| match &*event {
            AgentEvent::CompactionStart { cause, .. } => Some(format!("start {}", cause.as_str())),
            AgentEvent::CompactionEnd { compaction, .. } => Some(format!("end fallback={}", compaction.is_fallback)),
            AgentEvent::CompactionFailed { error, .. } => Some(format!("failed: {error}")),
            AgentEvent::Warning(warning) => Some(format!("warning: {warning}")),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn the_user_compacts_and_the_summary_leads_the_next_request() {
    let place = Place::new();
    let steps = [Step::text("one"), Step::text("two"), Step::text("SUMMARY"), Step::text("PREFIX"), Step::text("three")];
    let (harness, provider) = place.harness(steps, |_| {});
    harness.prompt(long()).await.expect("a run");
    harness.prompt("short").await.expect("a run");
    let options = CompactOptions { instructions: Some("MIND THE GAP".into()), keep_tokens: Some(1), ..CompactOptions::default() };
    let done = harness.compact(options).await.expect("compacted");
    assert!(done.summary.starts_with("SUMMARY") && done.tokens_after < done.tokens_before, "{done:?}");
    let asked = [2, 3].map(|at| provider.requests()[at].messages[0].text());
    assert!(asked.iter().all(|asked| asked.contains("MIND THE GAP")), "a split turn, so two summaries");
    assert!(asked[0].contains("word word"));
    harness.prompt("next").await.expect("a run");
    let sent: Vec<_> = provider.requests()[4].messages.iter().map(short_message).collect();
    assert!(sent[0].contains("SUMMARY"), "{sent:?}");
    assert_eq!(sent.last().map(String::as_str), Some("user next"));
    assert!(sent.iter().all(|text| !text.contains("word word")));
}

#[tokio::test]
async fn a_compaction_that_keeps_nothing_names_itself() {
    let place = Place::new();
    let (harness, _) = place.harness([Step::text("one"), Step::text("SUMMARY")], |_| {});
    harness.prompt(long()).await.expect("a run");
    let done = harness.compact(CompactOptions { keep_tokens: Some(0), ..CompactOptions::default() }).await.expect("compacted");
    assert_eq!(done.id, done.first_kept_entry_id);
}

#[tokio::test]
async fn a_failed_summary_leaves_everything_usable() {
    let refused = ProviderError::Authentication { address: "x".into(), status: 401, detail: "no".into() };
    for (steps, fallback, expect) in [
        (vec![Step::Refuse(refused.clone())], false, Some("the summary failed: x refused the key (status 401): no")),
        (vec![Step::text("  ")], false, Some("the summary is empty")),
        (vec![Step::text(long() + &long())], false, Some("the summary would not shrink the context")),
        (vec![Step::Refuse(refused)], true, None),
    ] {
        let place = Place::new();
        let all = [Step::text("one")].into_iter().chain(steps).chain([Step::text("two")]);
        let (harness, _) = place.harness(all, |options| options.compaction.fallback_extractive = fallback);
        harness.prompt(long()).await.expect("a run");
        let before = place.lines();
        let mut events = harness.subscribe();
        let done = harness.compact(CompactOptions { keep_tokens: Some(0), ..CompactOptions::default() }).await;
        match expect {
            Some(expect) => {
                let error = done.expect_err("no summary").to_string();
                assert!(error.starts_with(expect), "{error}");
                assert_eq!(place.lines(), before);
                assert!(compactions(&mut events)[1].starts_with(&format!("failed: {expect}")));
            }
            None => {
                assert!(done.expect("the extractive one").is_fallback);
                assert_eq!(place.lines().last().map(String::as_str), Some("compaction"));
            }
        }
        assert_eq!(harness.prompt("next").await.expect("a run").answer_text(), "two");
    }
}

#[tokio::test]
async fn a_summary_can_be_aborted() {
    let place = Place::new();
    let (harness, provider) = place.harness([Step::text("one"), Step::Hang(Reply::new())], |_| {});
    harness.prompt(long()).await.expect("a run");
    let mut events = harness.subscribe();
    let (done, ()) = tokio::join!(harness.compact(CompactOptions { keep_tokens: Some(0), ..CompactOptions::default() }), async {
        while provider.requests().len() < 2 {
            events.next().await.expect("the start");
            tokio::task::yield_now().await;
        }
        harness.abort();
    });
    assert!(matches!(done, Err(AgentError::Aborted)), "{done:?}");
    assert_eq!((place.lines().len(), harness.activity()), (3, Activity::Idle));
}

#[tokio::test]
async fn a_result_for_another_leaf_is_refused() {
    let place = Place::new();
    let mut session = place.session();
    session.hold();
    session.append(vec![EntryKind::message(Message::user(long(), 1))], crate::storage::Durability::Synced).expect("written");
    let leaf = session.leaf_id();
    let source = Reading(session.read());
    let input =
        crate::compaction::plan::CompactionInput::read(session.tree(), session.leaf(), &source, &[], Some(0)).expect("read");
    let plan = input.plan(0).expect("a plan");
    let result = crate::compaction::extractive::compact(&plan, None).expect("a result");
    session.set_name("moves the leaf").expect("written");
    let mut store = Store::new(session, FlushPolicy::Turn);
    let refused = super::super::compact::commit(&mut store, leaf.as_ref(), &result, 1);
    assert!(matches!(refused, Err(AgentError::StaleLeaf)), "{refused:?}");
    assert_eq!(place.lines().last().map(String::as_str), Some("name moves the leaf"));
    let now = store.session.leaf_id();
    super::super::compact::commit(&mut store, now.as_ref(), &result, 1).expect("written");
}

#[tokio::test]
async fn the_context_is_compacted_between_turns_when_it_grows_too_large() {
    let place = Place::new();
    // The window is 8,000 tokens, a quarter of it is kept free.
    let steps = [call("probe"), call("probe"), call("probe"), Step::text("SUMMARY"), Step::text("done")];
    let (harness, provider) = place.harness(steps, |options| {
        options.served.model = small(8_000);
        options.tools = vec![Probe::parallel("probe", |_| async { ToolOutput::text(long()) })];
    });
    let mut events = harness.subscribe();
    assert_eq!(harness.prompt("hi").await.expect("a run").answer_text(), "done");
    assert_eq!(compactions(&mut events), ["start threshold", "end fallback=false"]);
    let types: Vec<_> = entries_of(&place).iter().map(|entry| entry.kind.wire_type().to_owned()).collect();
    let at = types.iter().position(|kind| kind == "compaction").expect("a compaction");
    assert_eq!(types.len(), at + 2, "one more answer behind it");
    let last = provider.requests().pop().expect("a request");
    assert!(last.messages[0].text().contains("SUMMARY"));
    assert!(last.messages.len() < 6, "{}", last.messages.len());
}

#[tokio::test]
async fn the_context_is_compacted_before_a_prompt() {
    let place = Place::new();
    let full = Step::Reply(Reply::new().text("one").usage(90_000, 10));
    let (harness, _) = place.harness([full, Step::text("SUMMARY"), Step::text("two")], |options| {
        options.compaction.keep_recent_tokens = Some(1);
    });
    harness.prompt(long()).await.expect("a run");
    harness.prompt("next").await.expect("a run");
    assert_eq!(place.lines()[3..], strings(&["compaction", "user next", "assistant two"]));
}

#[tokio::test]
async fn an_overflow_compacts_once_and_asks_once_more() {
    let place = Place::new();
    let steps = [Step::text("one"), Step::text("two"), Step::Refuse(overflow()), Step::text("SUMMARY"), Step::text("three")];
    let (harness, provider) = place.harness(steps, |_| {});
    harness.prompt(long()).await.expect("a run");
    harness.prompt(long()).await.expect("a run");
    let mut events = harness.subscribe();
    let outcome = harness.prompt(long()).await.expect("a run");
    assert_eq!((outcome.reason.clone(), outcome.answer_text()), (EndReason::Done, "three".to_owned()));
    assert_eq!(compactions(&mut events), ["start overflow", "end fallback=false"]);
    assert_eq!(provider.steps_left(), 0);
    let kinds: Vec<_> = place.lines().iter().map(|line| line.chars().take(9).collect::<String>()).collect();
    assert_eq!(kinds[5..], strings(&["user word", "compactio", "assistant"]));
    // Far less than what is configured to be kept was in the context; half of it stays.
    let retried = provider.requests().pop().expect("a request").messages;
    assert_eq!(retried.iter().map(|message| message.role().as_wire()).collect::<Vec<_>>(), ["user", "user", "assistant", "user"]);

    // With two large messages half of the context is less than the last one.
    let place = Place::new();
    let steps = [Step::text("one"), Step::Refuse(overflow()), Step::text("SUMMARY"), Step::text("two")];
    let (harness, _) = place.harness(steps, |_| {});
    harness.prompt(long()).await.expect("a run");
    assert_eq!(harness.prompt(long()).await.expect("a run").answer_text(), "two");

    // A second refusal in the same turn is the end of it.
    let place = Place::new();
    let steps = [Step::text("one"), Step::Refuse(overflow()), Step::text("SUMMARY"), Step::Refuse(overflow()), Step::text("x")];
    let (harness, provider) = place.harness(steps, |_| {});
    harness.prompt(long()).await.expect("a run");
    assert_eq!(harness.prompt(long()).await.expect("a run").reason, EndReason::Failed(overflow()));
    assert_eq!(provider.steps_left(), 1);
}

#[tokio::test]
async fn an_overflow_that_cannot_be_compacted_is_sent_shortened() {
    let place = Place::new();
    let big = "x".repeat(20_000);
    let steps = [call("probe"), Step::Refuse(overflow()), Step::text("done")];
    let (harness, provider) = place.harness(steps, |options| {
        options.tools = vec![Probe::parallel("probe", move |_| {
            let big = big.clone();
            async move { ToolOutput::text(big) }
        })];
        options.hooks = vec![Arc::new(Answering(BeforeCompactAnswer { cancel: true, compaction: None }))];
    });
    let mut events = harness.subscribe();
    assert_eq!(harness.prompt("hi").await.expect("a run").reason, EndReason::Done);
    let told = compactions(&mut events);
    assert_eq!(told[..2], strings(&["start overflow", "failed: a hook cancelled it"]));
    assert!(told[2].contains("sent shortened"), "{told:?}");
    let lengths: Vec<_> =
        provider.requests().iter().map(|request| request.messages.last().map(|last| last.text().len())).collect();
    assert!(lengths[1] == Some(20_000) && lengths[2].is_some_and(|len| len < 9_000), "{lengths:?}");
}

#[tokio::test]
async fn a_context_over_its_limit_without_a_summary_goes_out_shortened_and_is_told_once() {
    let place = Place::new();
    let big = "x".repeat(40_000);
    let steps = [call("probe"), call("probe"), Step::text("done")];
    let (harness, provider) = place.harness(steps, |options| {
        options.served.model = small(8_000);
        options.tools = vec![Probe::parallel("probe", move |_| {
            let big = big.clone();
            async move { ToolOutput::text(big) }
        })];
        options.hooks = vec![Arc::new(Answering(BeforeCompactAnswer { cancel: true, compaction: None }))];
    });
    let mut events = harness.subscribe();
    harness.prompt("hi").await.expect("a run");
    let told = compactions(&mut events);
    assert_eq!(told.iter().filter(|text| text.contains("over the limit")).count(), 1, "{told:?}");
    assert!(provider.requests()[1].messages.iter().all(|message| message.text().len() < 9_000));
}

/// Answers each compaction so.
struct Answering(BeforeCompactAnswer);

#[async_trait]
impl Hooks for Answering {
    async fn session_before_compact(&self, _event: &SessionBeforeCompact) -> Result<BeforeCompactAnswer, HookError> {
        Ok(self.0.clone())
    }
}

#[tokio::test]
async fn a_hook_cancels_a_compaction_or_supplies_it() {
    let given = HookSummary { summary: "by hand".into(), details: Some(Json::parse("{\"k\":1}").expect("JSON")) };
    for (answer, expect) in [
        (BeforeCompactAnswer { cancel: true, compaction: None }, None),
        (BeforeCompactAnswer { cancel: false, compaction: Some(given) }, Some("by hand")),
    ] {
        let place = Place::new();
        let (harness, provider) = place.harness([Step::text("one")], |options| {
            options.hooks = vec![Arc::new(Answering(answer))];
        });
        harness.prompt(long()).await.expect("a run");
        let done = harness.compact(CompactOptions { keep_tokens: Some(0), ..CompactOptions::default() }).await;
        assert_eq!(provider.requests().len(), 1, "nobody was asked for a summary");
        match expect {
            None => assert!(matches!(done, Err(AgentError::CancelledByHook))),
            Some(summary) => {
                assert_eq!(done.expect("compacted").summary, summary);
                let entries = entries_of(&place);
                let Some(EntryKind::Compaction(compaction)) = entries.last().map(|entry| &entry.kind) else { panic!() };
                assert_eq!((compaction.from_hook, compaction.summary.as_str()), (Some(true), "by hand"));
            }
        }
    }
}

#[tokio::test]
async fn there_is_nothing_to_compact_in_an_empty_session() {
    let place = Place::new();
    let (harness, _) = place.harness([], |_| {});
    let refused = harness.compact(CompactOptions::default()).await;
    assert!(matches!(refused, Err(AgentError::Compaction(CompactionError::NoCut(_)))), "{refused:?}");
    assert_eq!(CompactionCause::Command.as_str(), "command");
}

#[tokio::test]
async fn without_a_network_the_summary_is_extractive() {
    let place = Place::new();
    let provider: Arc<dyn crate::llm::Provider> = Arc::new(crate::llm::offline::Offline);
    let options = HarnessOptions::new(provider, crate::llm::offline::Offline::model());
    let harness = AgentHarness::new(place.session(), options).expect("a harness");
    harness.prompt(long()).await.expect("a run");
    let done = harness.compact(CompactOptions { keep_tokens: Some(0), ..CompactOptions::default() }).await.expect("compacted");
    assert!(done.summary.contains("Goal") && !done.is_fallback, "{}", done.summary);
}

#[tokio::test]
async fn what_a_model_refused_is_its_limit_from_then_on() {
    let place = Place::new();
    let steps = [
        Step::text("one"),
        Step::Refuse(overflow()),
        Step::text("SUMMARY"),
        Step::text("two"),
        Step::text("SUMMARY AGAIN"),
        Step::text("three"),
    ];
    let (harness, provider) = place.harness(steps, |_| {});
    harness.prompt(long()).await.expect("a run");
    harness.prompt(long()).await.expect("a run");
    let mut events = harness.subscribe();
    assert_eq!(harness.prompt(long()).await.expect("a run").answer_text(), "three");
    assert_eq!(compactions(&mut events), ["start threshold", "end fallback=false"], "before it is refused again");
    assert_eq!(provider.steps_left(), 0);
}
