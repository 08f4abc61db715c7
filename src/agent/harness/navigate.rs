//! Navigation of a live session: the leaf moves, with or without a summary of what is left.
//!
//! # Invariants
//! - The leaf stays where it was when the summary fails or is cancelled.
//! - Model and thinking level stay in a live session, whatever the new path says.

use tokio_util::sync::CancellationToken;

use super::super::AgentError;
use super::super::activity::Activity;
use super::super::event::{AgentEvent, Warning};
use super::super::hooks::{HookKind, HookSummary, SessionBeforeTree, TreePreparation};
use super::{AgentHarness, SummaryBy};
use crate::compaction::branch_summary::BranchPlan;
use crate::compaction::summarize::ExtractiveSummarizer;
use crate::compaction::summary::{CompactionError, SummaryError};
use crate::session::entry::{BranchSummary, EntryId};
use crate::session::tree::EntryIndex;
use crate::storage::handle::{Navigation, Reading, SummaryText};

/// How the leaf is moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NavigateOptions {
    /// Whether a summary of what is left stands where the new branch begins.
    pub summary: NavigateSummary,
}

/// The summary of what a navigation leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NavigateSummary {
    /// None.
    #[default]
    No,
    /// One that is made.
    Made {
        /// Who makes it.
        by: SummaryBy,
        /// What the user wants of it.
        instructions: Option<String>,
    },
    /// This one, stored as it is.
    Given(String),
}

/// What a navigation is going to do.
struct Plan {
    target: EntryIndex,
    old_leaf: Option<EntryId>,
    branch: Option<BranchPlan>,
    event: SessionBeforeTree,
    moves: bool,
}

impl AgentHarness {
    /// Moves the leaf to where `target` leads: before a user or custom message, whose text comes back to be edited, or to
    /// any other entry itself.
    ///
    /// # Errors
    /// When something else is going on, there is no such entry, the summary fails, a hook or the user cancels it, or the
    /// session cannot be written. The leaf is then where it was.
    pub async fn navigate(&self, target: &EntryId, options: NavigateOptions) -> Result<Navigation, AgentError> {
        let operation = self.core.status.begin(Activity::Navigating)?;
        self.settle();
        self.flush_pending()?;
        let navigation = self.carry_out_navigation(target, options.summary, &operation.abort).await;
        self.write_what_came_meanwhile();
        navigation
    }

    async fn carry_out_navigation(
        &self,
        target: &EntryId,
        wanted: NavigateSummary,
        abort: &CancellationToken,
    ) -> Result<Navigation, AgentError> {
        let plan = self.plan_navigation(target, &wanted)?;
        let mut summary = None;
        let mut label = None;
        if plan.moves {
            let mut given: Option<HookSummary> = None;
            let mut instructions = plan.event.preparation.custom_instructions.clone();
            if self.core.hooks.takes(HookKind::SessionBeforeTree) {
                let answer = self.core.hooks.session_before_tree(&plan.event).await;
                if answer.cancel {
                    return Err(AgentError::CancelledByHook);
                }
                given = answer.summary;
                label = answer.label;
                instructions = answer.custom_instructions.or(instructions);
            }
            summary = match (given, wanted, &plan.branch) {
                (Some(given), _, _) => {
                    let (summary, details) = (given.summary, given.details);
                    Some(SummaryText { summary, details, usage: None, from_hook: Some(true) })
                }
                (None, NavigateSummary::Given(summary), _) => Some(SummaryText { summary, ..SummaryText::default() }),
                (None, NavigateSummary::Made { by, .. }, Some(branch)) => {
                    let made = self.summarized_branch(branch, by, instructions.as_deref(), abort).await?;
                    Some(SummaryText { summary: made.summary, details: made.details, usage: made.usage, from_hook: None })
                }
                (None, NavigateSummary::Made { .. }, None) | (None, NavigateSummary::No, _) => None,
            };
            if summary.as_ref().is_some_and(|summary| summary.summary.trim().is_empty()) {
                return Err(CompactionError::EmptySummary.into());
            }
        }
        if abort.is_cancelled() {
            return Err(AgentError::Aborted);
        }
        let navigation = {
            let mut store = self.store();
            if store.session.leaf_id() != plan.old_leaf {
                return Err(AgentError::StaleLeaf);
            }
            let navigation = store.session.navigate(plan.target, summary)?;
            let labelled = navigation.summary_id.as_ref().or(navigation.leaf_id.as_ref());
            if let (Some(label), Some(labelled)) = (&label, labelled)
                && let Some(index) = store.session.tree().find(labelled.as_str())
            {
                store.session.set_label(index, Some(label))?;
            }
            navigation
        };
        if navigation.moved {
            self.core.events.emit(AgentEvent::Navigated { navigation: navigation.clone() });
        }
        Ok(navigation)
    }

    fn plan_navigation(&self, target_id: &EntryId, wanted: &NavigateSummary) -> Result<Plan, AgentError> {
        let store = self.store();
        let session = &store.session;
        let tree = session.tree();
        let target = tree.find(target_id.as_str()).ok_or_else(|| AgentError::NoSuchEntry(target_id.clone()))?;
        let destination = session.destination(target)?;
        let old = session.leaf();
        let source = Reading(session.read());
        let branch = BranchPlan::read(tree, old, destination.leaf, &source, &self.extensions())?;
        let mut entries_to_summarize = Vec::new();
        if self.core.hooks.takes(HookKind::SessionBeforeTree) {
            for index in session.left_behind(old, destination.leaf) {
                entries_to_summarize.extend(session.read().entry(index)?);
            }
        }
        let shared = old.zip(destination.leaf).and_then(|(old, new)| tree.common_ancestor(old, new));
        let custom_instructions = match wanted {
            NavigateSummary::Made { instructions, .. } => instructions.clone().filter(|text| !text.trim().is_empty()),
            NavigateSummary::No | NavigateSummary::Given(_) => None,
        };
        let preparation = TreePreparation {
            target_id: target_id.clone(),
            old_leaf_id: session.leaf_id(),
            common_ancestor_id: shared.map(|index| tree.id(index)),
            entries_to_summarize,
            user_wants_summary: *wanted != NavigateSummary::No,
            custom_instructions,
        };
        let moves = destination.leaf != old;
        Ok(Plan { target, old_leaf: session.leaf_id(), branch, event: SessionBeforeTree { preparation }, moves })
    }

    async fn summarized_branch(
        &self,
        branch: &BranchPlan,
        by: SummaryBy,
        instructions: Option<&str>,
        abort: &CancellationToken,
    ) -> Result<BranchSummary, AgentError> {
        match branch.summarize(&*self.summarizer(by), instructions, abort).await {
            Ok(summary) => Ok(summary),
            Err(CompactionError::Summary(SummaryError::Aborted)) => Err(AgentError::Aborted),
            Err(error) if self.may_fall_back(by, &error) => {
                self.core.events.warn(Warning::SummaryFallback(error.to_string()));
                Ok(branch.summarize(&ExtractiveSummarizer, instructions, abort).await?)
            }
            Err(error) => Err(error.into()),
        }
    }
}
