//! Writing summaries with a model, or without one behind the same trait.
//!
//! # Invariants
//! - The user's instructions reach every request: each chunk, each roll, the beginning of a split turn.
//! - Text that does not fit the model's window is summarized in chunks, each with the summary of what came before;
//!   an answer that it did not fit after all halves the chunks. Both end: a chunk has a least size and always takes
//!   text away.
//! - Every wait ends when the token is cancelled.

use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::compaction::extractive;
use crate::compaction::plan::{CompactionPlan, CompactionResult};
use crate::compaction::prompt::{SummaryPrompt, conversation, summary_prompt};
use crate::compaction::summary::{CompactionError, Summary, SummaryError, SummaryRequest, SummaryTask, add_usage};
use crate::compaction::tokens::{estimate_text, fitting_prefix};
use crate::session::message::Usage;

/// The least tokens of a chunk; a model that takes no more cannot summarize.
const MIN_CHUNK_TOKENS: u64 = 256;

/// Writes summaries.
#[async_trait]
pub trait Summarizer: Send + Sync {
    /// Writes one summary.
    ///
    /// # Errors
    /// When there is none; whether another attempt makes sense is in the error.
    async fn summarize(&self, request: &SummaryRequest<'_>, cancel: &CancellationToken) -> Result<Summary, SummaryError>;
}

/// Compacts: asks for the summaries that the plan needs and joins them.
///
/// # Errors
/// When a summary fails or is empty, or the result would not shrink the context.
pub async fn compact(
    plan: &CompactionPlan,
    summarizer: &dyn Summarizer,
    instructions: Option<&str>,
    cancel: &CancellationToken,
) -> Result<CompactionResult, CompactionError> {
    let mut history = None;
    if let Some(request) = plan.history_request(instructions) {
        let summary = summarizer.summarize(&request, cancel).await?;
        if summary.text.trim().is_empty() {
            return Err(CompactionError::EmptySummary);
        }
        history = Some(summary);
    }
    let mut turn_prefix = None;
    if let Some(request) = plan.turn_prefix_request(instructions) {
        turn_prefix = Some(summarizer.summarize(&request, cancel).await?);
    }
    plan.finish(history, turn_prefix)
}

/// The summarizer without a model; see [`extractive`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtractiveSummarizer;

#[async_trait]
impl Summarizer for ExtractiveSummarizer {
    async fn summarize(&self, request: &SummaryRequest<'_>, cancel: &CancellationToken) -> Result<Summary, SummaryError> {
        if cancel.is_cancelled() { Err(SummaryError::Aborted) } else { Ok(extractive::extract(request)) }
    }
}

/// A model that can answer one prompt.
#[async_trait]
pub trait SummaryModel: Send + Sync {
    /// Answers `prompt` in at most `max_tokens`. A stop for length is an answer.
    ///
    /// # Errors
    /// When there is no answer, and of which kind.
    async fn complete(
        &self,
        prompt: &SummaryPrompt,
        max_tokens: u64,
        cancel: &CancellationToken,
    ) -> Result<Summary, SummaryError>;
}

/// How much a model takes and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryLimits {
    /// Tokens of the model's window.
    pub window_tokens: u64,
    /// The most tokens of an answer.
    pub max_answer_tokens: u64,
}

impl SummaryLimits {
    /// The limits for a window of which `reserve_tokens` are kept free: an answer takes at most four fifths of them,
    /// and a quarter of the window.
    pub fn for_window(window_tokens: u64, reserve_tokens: u64) -> Self {
        let max_answer_tokens = (reserve_tokens / 5 * 4).min(window_tokens / 4).max(1);
        Self { window_tokens, max_answer_tokens }
    }
}

/// How often a request that failed for now is sent, and how long between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryRetry {
    /// The most attempts; 1 where the model retries by itself.
    pub max_attempts: u32,
    /// The wait before the second attempt; it doubles with each.
    pub first_wait: Duration,
}

impl Default for SummaryRetry {
    fn default() -> Self {
        Self { max_attempts: 3, first_wait: Duration::from_secs(1) }
    }
}

/// The summarizer that asks a model.
#[derive(Clone, Debug)]
pub struct ModelSummarizer<M> {
    model: M,
    limits: SummaryLimits,
    retry: SummaryRetry,
}

impl<M: SummaryModel> ModelSummarizer<M> {
    /// Asks `model`.
    pub fn new(model: M, limits: SummaryLimits, retry: SummaryRetry) -> Self {
        Self { model, limits, retry }
    }

    /// Tokens that are left for the conversation in a request with this much else in it.
    fn room(&self, request: &SummaryRequest<'_>, previous_tokens: u64) -> u64 {
        let prompt = summary_prompt(request.task, "", Some(""), request.instructions);
        let taken = estimate_text(prompt.system) + estimate_text(&prompt.user) + previous_tokens + self.limits.max_answer_tokens;
        // An estimate that is a little low must not cost a request.
        let room = self.limits.window_tokens.saturating_sub(taken);
        (room - room / 10).max(MIN_CHUNK_TOKENS)
    }

    async fn ask(&self, prompt: &SummaryPrompt, cancel: &CancellationToken) -> Result<Summary, SummaryError> {
        let mut wait = self.retry.first_wait;
        let mut attempt = 1;
        loop {
            let answer = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(SummaryError::Aborted),
                answer = self.model.complete(prompt, self.limits.max_answer_tokens, cancel) => answer,
            };
            match answer {
                Err(SummaryError::Transient(_)) if attempt < self.retry.max_attempts => {}
                answer => return answer,
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(SummaryError::Aborted),
                () = tokio::time::sleep(wait) => {}
            }
            attempt += 1;
            wait = wait.saturating_mul(2);
        }
    }

    /// Summarizes chunk by chunk, each with the summary of what came before.
    async fn roll(&self, request: &SummaryRequest<'_>, cancel: &CancellationToken) -> Result<Summary, SummaryError> {
        let mut sections = conversation(request.messages);
        let mut previous = request.previous_summary.map(str::to_owned);
        let previous_tokens = previous.as_deref().map_or(0, estimate_text);
        if previous_tokens > self.limits.window_tokens / 4 {
            // It would leave no room beside it, so it is a part of the text.
            sections.insert(0, format!("[Earlier summary]: {}", previous.take().unwrap_or_default()));
        }
        let mut rest = ChunkedText::new(sections);
        let mut usage: Option<Usage> = None;
        let mut most = u64::MAX;
        loop {
            // A summary that was just written may be as long as an answer can be.
            let room = self.room(request, previous.as_deref().map_or(0, estimate_text)).min(most);
            let (chunk, position) = rest.peek(room);
            let prompt = summary_prompt(request.task, &chunk, previous.as_deref(), request.instructions);
            match self.ask(&prompt, cancel).await {
                Ok(summary) => {
                    usage = add_usage(usage, summary.usage);
                    rest.go_to(position);
                    // An empty one loses all that it was to stand for; the caller refuses it.
                    if rest.is_done() || summary.text.trim().is_empty() {
                        return Ok(Summary { text: summary.text, usage });
                    }
                    previous = Some(summary.text);
                }
                Err(error) => most = halved(estimate_text(&chunk).min(room), error)?,
            }
        }
    }

    /// Summarizes what fits of the latest messages; of a branch the end tells the most.
    async fn summarize_latest(&self, request: &SummaryRequest<'_>, cancel: &CancellationToken) -> Result<Summary, SummaryError> {
        let sections = conversation(request.messages);
        let mut room = self.room(request, 0);
        loop {
            let text = latest_sections(&sections, room);
            let prompt = summary_prompt(request.task, &text, request.previous_summary, request.instructions);
            match self.ask(&prompt, cancel).await {
                Ok(summary) => return Ok(summary),
                Err(error) => room = halved(estimate_text(&text).min(room), error)?,
            }
        }
    }
}

/// Half of a size that was too much, while that is worth a request; any other error stays.
fn halved(tokens: u64, error: SummaryError) -> Result<u64, SummaryError> {
    match error {
        SummaryError::Overflow(_) if tokens / 2 >= MIN_CHUNK_TOKENS / 2 => Ok(tokens / 2),
        SummaryError::Overflow(_) | SummaryError::Transient(_) | SummaryError::Permanent(_) | SummaryError::Aborted => Err(error),
    }
}

#[async_trait]
impl<M: SummaryModel> Summarizer for ModelSummarizer<M> {
    async fn summarize(&self, request: &SummaryRequest<'_>, cancel: &CancellationToken) -> Result<Summary, SummaryError> {
        match request.task {
            SummaryTask::History | SummaryTask::TurnPrefix => self.roll(request, cancel).await,
            SummaryTask::Branch => self.summarize_latest(request, cancel).await,
        }
    }
}

/// The latest sections that fit, in order; the latest alone is cut where it does not.
fn latest_sections(sections: &[String], tokens: u64) -> String {
    let mut left = tokens;
    let fitting = sections.iter().rev().take_while(|section| {
        let cost = estimate_text(section) + 1;
        let fits = cost <= left;
        left = left.saturating_sub(cost);
        fits
    });
    match (fitting.count(), sections.last()) {
        (0, Some(last)) => last[..fitting_prefix(last, tokens)].to_owned(),
        (count, _) => sections[sections.len() - count..].join("\n\n"),
    }
}

/// Sections that are handed out in chunks.
struct ChunkedText {
    sections: Vec<String>,
    next: Position,
}

/// A section and the byte in it where the rest begins.
#[derive(Clone, Copy)]
struct Position {
    section: usize,
    byte: usize,
}

impl ChunkedText {
    fn new(sections: Vec<String>) -> Self {
        Self { sections, next: Position { section: 0, byte: 0 } }
    }

    fn is_done(&self) -> bool {
        self.next.section >= self.sections.len()
    }

    fn go_to(&mut self, position: Position) {
        self.next = position;
    }

    /// As many sections as cost at most `tokens`, and where the text behind them begins. A section that alone costs
    /// more is split; a chunk always takes at least one character.
    fn peek(&self, tokens: u64) -> (String, Position) {
        let mut chunk = String::new();
        let mut left = tokens;
        let mut position = self.next;
        while let Some(section) = self.sections.get(position.section) {
            let text = &section[position.byte..];
            let cost = estimate_text(text) + 1;
            if cost > left {
                if chunk.is_empty() {
                    let end = fitting_prefix(text, tokens);
                    chunk.push_str(&text[..end]);
                    position.byte += end;
                    if end == text.len() {
                        position = Position { section: position.section + 1, byte: 0 };
                    }
                }
                break;
            }
            left -= cost;
            if !chunk.is_empty() {
                chunk.push_str("\n\n");
            }
            chunk.push_str(text);
            position = Position { section: position.section + 1, byte: 0 };
        }
        (chunk, position)
    }
}

#[cfg(test)]
mod tests;
