//! Compaction of a live session: by command, before a prompt, between turns, after an overflow.
//!
//! # Invariants
//! - A compaction that fails, is refused or is cancelled leaves the session as it was.
//! - It is written only while the leaf is the one that was summarized.
//! - After one that was refused the next attempt waits for new tokens.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::super::activity::Activity;
use super::super::event::{AgentEvent, CompactionCause, CompactionDone, Warning};
use super::super::hooks::{CompactionPreparation, HookKind, SessionBeforeCompact};
use super::super::sending::Core;
use super::super::turn::Run;
use super::super::{AgentError, ServedModel};
use super::pending::Store;
use super::{AgentHarness, SummaryBy, described};
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionResult};
use crate::compaction::prompt::SummaryPrompt;
use crate::compaction::summarize::{
    ExtractiveSummarizer, ModelSummarizer, Summarizer, SummaryLimits, SummaryModel, SummaryRetry, compact,
};
use crate::compaction::summary::{CompactionError, Summary, SummaryError};
use crate::compaction::tokens::{self, CompactionSettings};
use crate::llm::{ProviderError, Request, StreamEvent, offline};
use crate::session::entry::{Entry, EntryId, EntryKind};
use crate::session::message::Message;
use crate::session::request::{RequestOptions, into_messages};
use crate::storage::StorageError;
use crate::storage::handle::Reading;

/// How a compaction by command is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactOptions {
    /// What the user wants of the summary.
    pub instructions: Option<String>,
    /// Tokens of the latest messages to keep, 0 for nothing; by default as configured.
    pub keep_tokens: Option<u64>,
    /// Who writes the summary; by default as configured.
    pub by: Option<SummaryBy>,
}

/// One compaction that is to be made.
struct Order<'a> {
    cause: CompactionCause,
    keep: Keep,
    instructions: Option<&'a str>,
    by: SummaryBy,
    overhead_tokens: u64,
}

/// How much a compaction keeps.
#[derive(Clone, Copy)]
enum Keep {
    Tokens(u64),
    /// That, but at most half of the context.
    AtMostHalf(u64),
}

/// How much a context may hold.
struct Limits {
    settings: CompactionSettings,
    /// The tokens of the model's window, as configured.
    window: u64,
    /// Whether the model refused what is configured.
    is_learned: bool,
}

impl AgentHarness {
    /// Compacts the context by the user's wish.
    ///
    /// # Errors
    /// When something else is going on, there is nothing to compact, the summary fails or would not shrink the context, a
    /// hook or the user cancels it, or the session cannot be written. The session is then as it was.
    pub async fn compact(&self, options: CompactOptions) -> Result<CompactionDone, AgentError> {
        let operation = self.core.status.begin(Activity::Compacting)?;
        self.settle();
        let order = Order {
            cause: CompactionCause::Command,
            keep: Keep::Tokens(options.keep_tokens.unwrap_or(self.compaction_settings().keep_recent_tokens)),
            instructions: options.instructions.as_deref().filter(|text| !text.trim().is_empty()),
            by: options.by.unwrap_or(self.compaction.by),
            overhead_tokens: self.overhead_tokens(&self.system_prompt()),
        };
        let done = self.make_compaction(&order, &operation.abort).await;
        self.write_what_came_meanwhile();
        done
    }

    /// Writes what was put on the list while an operation other than a run went on.
    pub(super) fn write_what_came_meanwhile(&self) {
        // What cannot be written stays on the list, and the user was told.
        let _ = self.flush_pending();
    }

    pub(super) fn compaction_settings(&self) -> CompactionSettings {
        let window = self.core.live().served.model.context_window;
        CompactionSettings::for_window(window, self.compaction.reserve_tokens, self.compaction.keep_recent_tokens)
    }

    fn overhead_tokens(&self, system_prompt: &str) -> u64 {
        let tools = self.core.declarations();
        let tools = tools.iter().flat_map(|tool| [tool.name.as_str(), tool.description.as_str(), tool.parameters.as_str()]);
        tokens::estimate_overhead(system_prompt, tools)
    }

    /// Compacts, if the context is due for it, and says how the next request is made.
    pub(super) async fn room_for(&self, next: &[Message], run: &Run<'_>) -> RequestOptions {
        if !self.compaction.auto {
            return self.request;
        }
        let overhead_tokens = self.overhead_tokens(&run.system_prompt);
        let Limits { settings, window, is_learned } = self.limits();
        // A session that cannot be read tells so when the context is built.
        let Ok((mut tokens, new_tokens)) = self.measure(next, overhead_tokens) else { return self.request };
        if settings.is_due(tokens, window, new_tokens) {
            let order = Order {
                cause: CompactionCause::Threshold,
                // What is configured to be kept may be more than the model takes.
                keep: if is_learned { Keep::AtMostHalf } else { Keep::Tokens }(settings.keep_recent_tokens),
                instructions: None,
                by: self.compaction.by,
                overhead_tokens,
            };
            let refused_at = match self.make_compaction(&order, run.abort).await {
                Ok(_) => None,
                Err(_) if run.abort.is_cancelled() => None,
                Err(_) => Some(tokens),
            };
            *self.refused_at.lock().unwrap_or_else(PoisonError::into_inner) = refused_at;
            if let Ok((now, _)) = self.measure(next, overhead_tokens) {
                tokens = now;
            }
        }
        let limit_tokens = settings.threshold_tokens(window);
        let is_over = tokens > limit_tokens;
        self.tell_whether_over(is_over, tokens, limit_tokens);
        RequestOptions { truncation: self.request.truncation || is_over, ..self.request }
    }

    /// Warns once while the context stays over its limit.
    fn tell_whether_over(&self, is_over: bool, tokens: u64, limit_tokens: u64) {
        let was_over = self.is_over_limit.swap(is_over, Ordering::Relaxed);
        if is_over && !was_over {
            self.core.events.warn(Warning::OverLimit { tokens, limit_tokens });
        }
    }

    /// The settings and the window of the model in use: not what is configured, where it refused less than that.
    fn limits(&self) -> Limits {
        let (settings, model) = (self.compaction_settings(), self.core.live().served.model.clone());
        let refused = self.refused_size.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let refused = refused.filter(|(id, _)| *id == model.id).map(|(_, tokens)| tokens.saturating_sub(1));
        let window = model.context_window;
        let configured = settings.threshold_tokens(window);
        let limit = configured.min(refused.unwrap_or(u64::MAX));
        let reserve_tokens = window.saturating_sub(limit);
        let settings = CompactionSettings { reserve_tokens, ..settings };
        Limits { settings, window, is_learned: limit < configured }
    }

    /// The tokens of the next request, and those that are new since the last compaction or the last refused attempt.
    fn measure(&self, next: &[Message], overhead_tokens: u64) -> Result<(u64, Option<u64>), StorageError> {
        let store = self.store();
        let projection = store.session.project(store.session.leaf(), &self.extensions())?;
        let counted = tokens::context_tokens(store.session.tree(), &projection, overhead_tokens);
        let waiting: Vec<_> = store.waiting().collect();
        let coming = waiting.iter().chain(next).map(tokens::estimate_message);
        let coming = counted.calibration.apply(coming.fold(0, u64::saturating_add));
        let total = counted.total().saturating_add(coming);
        let new_tokens = match *self.refused_at.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(refused_at) => Some(total.saturating_sub(refused_at)),
            None => tokens::new_tokens(&projection).map(|tokens| tokens.saturating_add(coming)),
        };
        Ok((total, new_tokens))
    }

    /// Compacts after a provider refused the context; where that is not possible the request is sent once more with long
    /// results shortened. `None` where trying again makes no sense.
    pub(super) async fn room_after_overflow(&self, sent: RequestOptions, run: &Run<'_>) -> Option<RequestOptions> {
        if !self.compaction.auto {
            return None;
        }
        let order = Order {
            cause: CompactionCause::Overflow,
            keep: Keep::AtMostHalf(self.compaction_settings().keep_recent_tokens),
            instructions: None,
            by: self.compaction.by,
            overhead_tokens: self.overhead_tokens(&run.system_prompt),
        };
        let tokens = self.measure(&[], order.overhead_tokens).map_or(0, |(tokens, _)| tokens);
        let model_id = self.core.live().served.model.id.clone();
        *self.refused_size.lock().unwrap_or_else(PoisonError::into_inner) = Some((model_id, tokens));
        match self.make_compaction(&order, run.abort).await {
            Ok(_) => Some(sent),
            Err(_) if run.abort.is_cancelled() || sent.truncation => None,
            Err(_) => {
                *self.refused_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(tokens);
                let Limits { settings, window, .. } = self.limits();
                self.tell_whether_over(true, tokens, settings.threshold_tokens(window));
                Some(RequestOptions { truncation: true, ..sent })
            }
        }
    }

    /// Plans, summarizes and writes one compaction, and tells of it.
    async fn make_compaction(&self, order: &Order<'_>, abort: &CancellationToken) -> Result<CompactionDone, AgentError> {
        let cause = order.cause;
        let (plan, leaf, entries) = self.plan(order)?;
        self.core.events.emit(AgentEvent::CompactionStart { cause, tokens_before: plan.tokens().before });
        match self.carry_out(order, &plan, leaf, entries, abort).await {
            Ok(compaction) => {
                self.core.events.emit(AgentEvent::CompactionEnd { cause, compaction: compaction.clone() });
                Ok(compaction)
            }
            Err(error) => {
                self.core.events.emit(AgentEvent::CompactionFailed { cause, error: described(&error) });
                Err(error)
            }
        }
    }

    /// The plan, the leaf that it is for, and the entries of the path for hooks.
    fn plan(&self, order: &Order<'_>) -> Result<(CompactionPlan, Option<EntryId>, Vec<Entry>), AgentError> {
        let mut store = self.store();
        // A compaction stands behind everything that it summarizes or keeps.
        self.flush_store(&mut store)?;
        let session = &store.session;
        let source = Reading(session.read());
        let overhead_tokens = Some(order.overhead_tokens);
        let input = CompactionInput::read(session.tree(), session.leaf(), &source, &self.extensions(), overhead_tokens)?;
        let plan = match order.keep {
            Keep::Tokens(tokens) => input.plan(tokens),
            Keep::AtMostHalf(tokens) => {
                // Few large messages may leave no cut at half; any that helps is better than none.
                let most = tokens.min(input.tokens().total() / 2).max(1);
                let halves = std::iter::successors(Some(most), |tokens| Some(tokens / 2).filter(|tokens| *tokens > 0));
                let mut plans = halves.map(|tokens| input.plan(tokens));
                let first = plans.next().unwrap_or_else(|| input.plan(most));
                if first.is_ok() { first } else { plans.find(Result::is_ok).unwrap_or(first) }
            }
        };
        let plan = plan.map_err(CompactionError::from)?;
        let mut entries = Vec::new();
        if self.core.hooks.takes(HookKind::SessionBeforeCompact) {
            for index in session.tree().path(session.leaf()) {
                entries.extend(session.read().entry(index)?);
            }
        }
        Ok((plan, session.leaf_id(), entries))
    }

    async fn carry_out(
        &self,
        order: &Order<'_>,
        plan: &CompactionPlan,
        leaf: Option<EntryId>,
        branch_entries: Vec<Entry>,
        abort: &CancellationToken,
    ) -> Result<CompactionDone, AgentError> {
        let mut given = None;
        if self.core.hooks.takes(HookKind::SessionBeforeCompact) {
            let preparation = CompactionPreparation {
                first_kept_entry_id: plan.first_kept().map(|(_, id)| id.clone()),
                messages_to_summarize: into_messages(plan.history().to_vec()),
                turn_prefix_messages: into_messages(plan.turn_prefix().to_vec()),
                is_split_turn: plan.is_split_turn(),
                tokens_before: plan.tokens().before,
                previous_summary: plan.previous_summary().map(str::to_owned),
            };
            let custom_instructions = order.instructions.map(str::to_owned);
            let event = SessionBeforeCompact { preparation, branch_entries, custom_instructions };
            let answer = self.core.hooks.session_before_compact(&event).await;
            if answer.cancel {
                return Err(AgentError::CancelledByHook);
            }
            given = answer.compaction;
        }
        let (result, is_fallback) = match given {
            Some(given) => (plan.finish_from_hook(given.summary, given.details)?, false),
            None => self.summarized(plan, order, abort).await?,
        };
        if abort.is_cancelled() {
            return Err(AgentError::Aborted);
        }
        let (tokens_before, tokens_after, summary) = (result.tokens_before, result.tokens_after, result.summary.clone());
        let first_kept = result.first_kept_entry_id.clone();
        let id = commit(&mut self.store(), leaf.as_ref(), &result, self.core.clock.now_ms())?;
        let first_kept_entry_id = first_kept.unwrap_or_else(|| id.clone());
        Ok(CompactionDone { id, first_kept_entry_id, tokens_before, tokens_after, summary, is_fallback })
    }

    /// The result with the summaries of the one who is to write them, and whether it fell back to the extractive one.
    async fn summarized(
        &self,
        plan: &CompactionPlan,
        order: &Order<'_>,
        abort: &CancellationToken,
    ) -> Result<(CompactionResult, bool), AgentError> {
        let instructions = order.instructions;
        let summarizer = self.summarizer(order.by);
        match compact(plan, &*summarizer, instructions, abort).await {
            Ok(result) => Ok((result, false)),
            Err(CompactionError::Summary(SummaryError::Aborted)) => Err(AgentError::Aborted),
            Err(error) if self.may_fall_back(order.by, &error) => {
                self.core.events.warn(Warning::SummaryFallback(error.to_string()));
                Ok((compact(plan, &ExtractiveSummarizer, instructions, abort).await?, true))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a summary that the model did not give is made without it.
    pub(super) fn may_fall_back(&self, by: SummaryBy, error: &CompactionError) -> bool {
        let is_models = match error {
            CompactionError::Summary(SummaryError::Aborted) | CompactionError::NoCut(_) => false,
            CompactionError::Summary(_) | CompactionError::EmptySummary | CompactionError::NotSmaller { .. } => true,
        };
        is_models && self.compaction.fallback_extractive && by == SummaryBy::Model && !self.is_offline()
    }

    fn summary_model(&self) -> ServedModel {
        self.compaction.summary_model.clone().unwrap_or_else(|| self.core.live().served.clone())
    }

    fn is_offline(&self) -> bool {
        self.summary_model().provider.api() == offline::API
    }

    /// Who writes a summary.
    pub(super) fn summarizer(&self, by: SummaryBy) -> Box<dyn Summarizer + '_> {
        if by == SummaryBy::Extractive || self.is_offline() {
            return Box::new(ExtractiveSummarizer);
        }
        let served = self.summary_model();
        let window = served.model.context_window;
        let settings = CompactionSettings::for_window(window, self.compaction.reserve_tokens, None);
        let mut limits = SummaryLimits::for_window(window, settings.reserve_tokens);
        if let Some(max_tokens) = served.model.max_tokens {
            limits.max_answer_tokens = limits.max_answer_tokens.min(max_tokens);
        }
        // The provider tries again by itself.
        let retry = SummaryRetry { max_attempts: 1, ..SummaryRetry::default() };
        Box::new(ModelSummarizer::new(Summarizing { core: &self.core, served }, limits, retry))
    }
}

/// Writes a compaction, if the leaf is still the one that was summarized.
pub(super) fn commit(
    store: &mut Store,
    leaf: Option<&EntryId>,
    result: &CompactionResult,
    now_ms: i64,
) -> Result<EntryId, AgentError> {
    if store.session.leaf_id().as_ref() != leaf {
        return Err(AgentError::StaleLeaf);
    }
    let durability = store.durability();
    let made = store.session.append_with(
        &mut |batch| {
            batch.push_with(|id| EntryKind::Compaction(result.clone().into_compaction(id, now_ms)));
            Ok(())
        },
        durability,
    )?;
    Ok(made.into_iter().next().expect("one entry was pushed, so one was made"))
}

/// A provider as the model that writes summaries.
struct Summarizing<'a> {
    core: &'a Core,
    served: ServedModel,
}

#[async_trait]
impl SummaryModel for Summarizing<'_> {
    async fn complete(
        &self,
        prompt: &SummaryPrompt,
        max_tokens: u64,
        cancel: &CancellationToken,
    ) -> Result<Summary, SummaryError> {
        let now_ms = self.core.clock.now_ms();
        let messages = vec![Message::user(prompt.user.clone(), now_ms)];
        let mut request = Request::new(self.served.model.clone(), messages, now_ms);
        request.system_prompt = Some(prompt.system.to_owned());
        request.max_tokens = Some(max_tokens);
        let (_, stream) = self.core.send(&*self.served.provider, request, cancel).await;
        let mut stream = stream.map_err(summary_error)?;
        while let Some(event) = stream.next().await {
            match event {
                Ok(StreamEvent::Done(message)) => {
                    let usage = message.usage.clone();
                    return Ok(Summary { text: Message::Assistant(message).text(), usage });
                }
                Ok(_) => {}
                Err(failure) => return Err(summary_error(failure.error)),
            }
        }
        Err(SummaryError::Transient("the answer ended too early".to_owned()))
    }
}

fn summary_error(error: ProviderError) -> SummaryError {
    match error {
        ProviderError::Aborted => SummaryError::Aborted,
        ProviderError::Overflow { detail } => SummaryError::Overflow(detail),
        error if error.is_transient() => SummaryError::Transient(error.to_string()),
        error => SummaryError::Permanent(error.to_string()),
    }
}
