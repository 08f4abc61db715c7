//! Navigation of a live session.

use super::*;
use crate::agent::hooks::{BeforeTreeAnswer, HookSummary, SessionBeforeTree};
use crate::agent::testing::entries_of;
use crate::compaction::branch_summary::PREAMBLE;
use crate::compaction::summary::CompactionError;

/// Two spans, and the ids of the path.
async fn two_spans(
    place: &Place,
    more: impl IntoIterator<Item = Step>,
    change: impl FnOnce(&mut HarnessOptions),
) -> (Arc<AgentHarness>, Arc<Scripted>, Vec<EntryId>) {
    let steps = [Step::text("one"), Step::text("two")].into_iter().chain(more);
    let (harness, provider) = place.harness(steps, change);
    harness.prompt("first").await.expect("a run");
    harness.prompt("second").await.expect("a run");
    let ids = harness
        .with_session(|session| session.tree().path(session.leaf()).into_iter().map(|index| session.tree().id(index)).collect());
    (harness, provider, ids)
}

fn made(by: SummaryBy) -> NavigateOptions {
    NavigateOptions { summary: NavigateSummary::Made { by, instructions: Some("BRIEFLY".into()) } }
}

/// The summary that the path ends with.
fn last_summary(place: &Place) -> crate::session::entry::BranchSummary {
    match entries_of(place).pop().map(|entry| entry.kind) {
        Some(EntryKind::BranchSummary(summary)) => summary,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_leaf_moves_and_the_prompt_comes_back_to_be_edited() {
    let place = Place::new();
    let (harness, provider, ids) = two_spans(&place, [Step::text("again")], |_| {}).await;
    harness.set_thinking_level("high").expect("written");
    let mut events = harness.subscribe();
    let moved = harness.navigate(&ids[2], NavigateOptions::default()).await.expect("moved");
    assert_eq!((moved.leaf_id.as_ref(), moved.editor_text.as_deref()), (Some(&ids[1]), Some("second")));
    assert_eq!(names(&mut events), ["navigation"]);
    assert_eq!(harness.thinking_level(), "high", "a live session keeps it");
    harness.prompt("second, better").await.expect("a run");
    let sent: Vec<_> = provider.requests()[2].messages.iter().map(short_message).collect();
    assert_eq!(sent, ["user first", "assistant one", "user second, better"]);
    assert_eq!(path_state(&place.session()).expect("state").thinking_level, "off", "a resumed one follows the path");
}

#[tokio::test]
async fn a_branch_that_is_left_is_summarized_by_the_model_or_without_it() {
    let place = Place::new();
    let (harness, provider, ids) = two_spans(&place, [Step::text("WHAT HAPPENED")], |_| {}).await;
    let moved = harness.navigate(&ids[1], made(SummaryBy::Model)).await.expect("moved");
    let summary = last_summary(&place);
    assert_eq!(summary.summary, format!("{PREAMBLE}WHAT HAPPENED"));
    assert_eq!((summary.from_id.as_ref(), moved.leaf_id), (Some(&ids[3]), moved.summary_id));
    let asked = provider.requests()[2].messages[0].text();
    assert!(asked.contains("BRIEFLY") && asked.contains("second") && !asked.contains("[User]: first"), "{asked}");

    let place = Place::new();
    let (harness, provider, ids) = two_spans(&place, [], |_| {}).await;
    harness.navigate(&ids[1], made(SummaryBy::Extractive)).await.expect("moved");
    assert!(last_summary(&place).summary.contains("second"));
    assert_eq!(provider.requests().len(), 2);
}

#[tokio::test]
async fn a_given_summary_is_stored_as_it_is() {
    let place = Place::new();
    let (harness, _, ids) = two_spans(&place, [], |_| {}).await;
    let options = NavigateOptions { summary: NavigateSummary::Given(" mine ".into()) };
    harness.navigate(&ids[1], options).await.expect("moved");
    let summary = last_summary(&place);
    assert_eq!((summary.summary.as_str(), summary.from_hook), (" mine ", None));
}

#[tokio::test]
async fn the_leaf_stays_when_the_summary_fails_or_is_aborted() {
    let refused = ProviderError::Refused { address: "x".into(), status: 400, detail: "no".into() };
    let place = Place::new();
    let (harness, provider, ids) = two_spans(&place, [Step::Refuse(refused), Step::Hang(Reply::new())], |_| {}).await;
    let before = place.lines();
    let failed = harness.navigate(&ids[1], made(SummaryBy::Model)).await;
    assert!(matches!(failed, Err(AgentError::Compaction(CompactionError::Summary(_)))), "{failed:?}");
    let (aborted, ()) = tokio::join!(harness.navigate(&ids[1], made(SummaryBy::Model)), async {
        while provider.requests().len() < 4 {
            tokio::task::yield_now().await;
        }
        harness.abort();
    });
    assert!(matches!(aborted, Err(AgentError::Aborted)), "{aborted:?}");
    let none = harness.navigate(&EntryId::from("nothing"), NavigateOptions::default()).await;
    assert!(matches!(none, Err(AgentError::NoSuchEntry(_))));
    assert_eq!(place.lines(), before);
    assert_eq!(harness.with_session(|session| session.leaf_id()).as_ref(), ids.last());
}

#[tokio::test]
async fn the_leaf_itself_as_target_does_nothing() {
    let place = Place::new();
    let (harness, _, ids) = two_spans(&place, [], |_| {}).await;
    let before = place.lines();
    let stayed = harness.navigate(&ids[3], made(SummaryBy::Model)).await.expect("nothing to do");
    assert!(!stayed.moved);
    assert_eq!(place.lines(), before);
}

struct Answering(BeforeTreeAnswer, Seen<SessionBeforeTree>);

#[async_trait]
impl Hooks for Answering {
    async fn session_before_tree(&self, event: &SessionBeforeTree) -> Result<BeforeTreeAnswer, HookError> {
        self.1.add(event.clone());
        Ok(self.0.clone())
    }
}

#[tokio::test]
async fn a_hook_cancels_a_navigation_or_gives_summary_instructions_and_label() {
    let seen = Seen::new();
    let place = Place::new();
    let answer = BeforeTreeAnswer { cancel: true, ..BeforeTreeAnswer::default() };
    let (harness, _, ids) =
        two_spans(&place, [], |options| options.hooks = vec![Arc::new(Answering(answer, seen.clone()))]).await;
    let before = place.lines();
    assert!(matches!(harness.navigate(&ids[1], NavigateOptions::default()).await, Err(AgentError::CancelledByHook)));
    assert_eq!(place.lines(), before);
    let preparation = &seen.all()[0].preparation;
    assert_eq!((preparation.entries_to_summarize.len(), preparation.common_ancestor_id.as_ref()), (2, Some(&ids[1])));

    let place = Place::new();
    let summary = Some(HookSummary { summary: "by hand".into(), details: None });
    let answer = BeforeTreeAnswer { summary, label: Some("L".into()), ..BeforeTreeAnswer::default() };
    let (harness, _, ids) =
        two_spans(&place, [], |options| options.hooks = vec![Arc::new(Answering(answer, seen.clone()))]).await;
    harness.navigate(&ids[1], NavigateOptions::default()).await.expect("moved");
    let entries = entries_of(&place);
    let [.., summary, label] = entries.as_slice() else { panic!() };
    let EntryKind::BranchSummary(text) = &summary.kind else { panic!("{summary:?}") };
    let EntryKind::Label(label) = &label.kind else { panic!("{label:?}") };
    assert_eq!((text.summary.as_str(), text.from_hook), ("by hand", Some(true)));
    assert_eq!((label.target_id.as_ref(), label.label.as_deref()), (Some(&summary.id), Some("L")));

    let place = Place::new();
    let answer = BeforeTreeAnswer { custom_instructions: Some("OTHERWISE".into()), ..BeforeTreeAnswer::default() };
    let (harness, provider, ids) =
        two_spans(&place, [Step::text("S")], |options| options.hooks = vec![Arc::new(Answering(answer, seen.clone()))]).await;
    harness.navigate(&ids[1], made(SummaryBy::Model)).await.expect("moved");
    assert!(provider.requests()[2].messages[0].text().contains("OTHERWISE"));
}
