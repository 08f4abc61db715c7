//! A compaction before and after its summary: what it would do, and what it comes to.
//!
//! # Invariants
//! - A plan is built from the context of one path alone, as the model sees it: `context_edit`s applied, nothing from
//!   before the last compaction but its summary.
//! - What is summarized and what is kept are all of that context, each message once.
//! - A result always has words and is estimated at less than what it replaces, on one scale.

use std::collections::HashMap;

use crate::compaction::cut::{CutEntry, CutPoint, NoCut, find_cut};
use crate::compaction::files::{self, FileLists};
use crate::compaction::prompt;
use crate::compaction::summary::{CompactionError, Summary, SummaryRequest, SummaryTask, add_usage};
use crate::compaction::tokens::{self, ContextTokens};
use crate::session::context::{ContextExtension, EntrySource, ProjectedMessage, Projection, Reason, project};
use crate::session::entry::{BranchSummary, Compaction, EntryId, EntryKind, EntryType};
use crate::session::json::Json;
use crate::session::message::{CompactionSummaryMessage, Message, Usage};
use crate::session::request::SystemReplay;
use crate::session::tree::{EntryIndex, SessionTree};

/// Between the summary of what was before a split turn and that of the turn's beginning.
const TURN_CONTEXT: &str = "\n\n---\n\n**Turn Context (split turn):**\n\n";
/// Stands for the history of a split turn that has none.
const NO_HISTORY: &str = "Nothing came before this turn.";

/// The context of a path, read for a compaction.
#[derive(Clone, Debug)]
pub struct CompactionInput {
    leaf: Option<EntryIndex>,
    /// What the context holds now.
    tokens: ContextTokens,
    overhead_tokens: u64,
    /// The path from the kept boundary of the latest compaction on.
    range: Vec<RangeEntry>,
    previous_summary: Option<String>,
    earlier_files: FileLists,
    system: SystemReplay,
}

/// An entry of the range and what it gives to the context.
#[derive(Clone, Debug)]
struct RangeEntry {
    index: EntryIndex,
    id: EntryId,
    is_compaction: bool,
    messages: Vec<ProjectedMessage>,
    /// The lists in the details of a branch summary.
    files: FileLists,
}

impl CompactionInput {
    /// Reads the context of the path to `leaf`. `overhead_tokens` is the estimate of the prompt and the tools that go
    /// with each request; `None` takes those that the session itself holds. `O(path length)`.
    ///
    /// # Errors
    /// When the source cannot read an entry.
    pub fn read<S: EntrySource>(
        tree: &SessionTree,
        leaf: Option<EntryIndex>,
        source: &S,
        extensions: &[&dyn ContextExtension],
        overhead_tokens: Option<u64>,
    ) -> Result<Self, S::Error> {
        let projection = project(tree, leaf, source, extensions)?;
        let mut system = SystemReplay::default();
        for projected in &projection.messages {
            if let Message::System(message) = &projected.message {
                system.apply(message);
            }
        }
        let overhead_tokens = overhead_tokens.unwrap_or_else(|| tokens::estimate_replay(&system));
        let tokens = tokens::context_tokens(tree, &projection, overhead_tokens);

        let Projection { messages, path, .. } = projection;
        let start = path.iter().position(|(_, reason)| *reason != Reason::Compacted).unwrap_or(path.len());
        let mut earlier_files = FileLists::default();
        let mut previous_from_hook = false;
        for (index, reason) in path.iter().filter(|(index, _)| tree.entry_type(*index) == EntryType::Compaction) {
            if let Some(EntryKind::Compaction(compaction)) = source.entry(*index)?.map(|entry| entry.kind) {
                earlier_files.add(&trusted_files(compaction.from_hook, compaction.details.as_ref()));
                previous_from_hook = *reason == Reason::GoverningCompaction && compaction.from_hook == Some(true);
            }
        }
        let mut range = Vec::with_capacity(path.len() - start);
        for (index, _) in &path[start..] {
            let files = match tree.entry_type(*index) == EntryType::BranchSummary {
                true => match source.entry(*index)?.map(|entry| entry.kind) {
                    Some(EntryKind::BranchSummary(BranchSummary { from_hook, details, .. })) => {
                        trusted_files(from_hook, details.as_ref())
                    }
                    Some(_) | None => FileLists::default(),
                },
                false => FileLists::default(),
            };
            let is_compaction = tree.entry_type(*index) == EntryType::Compaction;
            range.push(RangeEntry { index: *index, id: tree.id(*index), is_compaction, messages: Vec::new(), files });
        }

        // Messages to their entries. The latest compaction's own are its summary, which is to be brought up to date,
        // and the messages that it retained.
        let positions: HashMap<_, _> = range.iter().enumerate().map(|(at, entry)| (entry.index, at)).collect();
        let mut previous_summary = None;
        for projected in messages {
            let Some(at) = projected.source.and_then(|source| positions.get(&source)) else { continue };
            let entry = &mut range[*at];
            match projected.message {
                Message::System(_) => {}
                Message::CompactionSummary(message)
                    if entry.is_compaction && entry.messages.is_empty() && previous_summary.is_none() =>
                {
                    previous_summary = Some(message.summary);
                }
                _ => entry.messages.push(projected),
            }
        }
        let previous_summary = previous_summary.map(|summary| {
            // Its lists live on in `earlier_files` and come back at the end of the new summary.
            let (text, listed) = files::split_blocks(&summary);
            if previous_from_hook {
                return summary;
            }
            let mut files = listed;
            files.add(&earlier_files);
            earlier_files = files;
            text.to_owned()
        });
        let previous_summary = previous_summary.filter(|summary| !summary.trim().is_empty());
        Ok(Self { leaf, tokens, overhead_tokens, range, previous_summary, earlier_files, system })
    }

    /// What the context holds now.
    pub fn tokens(&self) -> ContextTokens {
        self.tokens
    }

    /// Plans a compaction that keeps about `keep_tokens` of the latest messages; 0 keeps nothing. Pure.
    ///
    /// # Errors
    /// When there is no cut, and why.
    pub fn plan(&self, keep_tokens: u64) -> Result<CompactionPlan, NoCut> {
        let raw: Vec<u64> = self.range.iter().map(|entry| estimate(&entry.messages)).collect();
        let cut_entries: Vec<_> = self
            .range
            .iter()
            .zip(&raw)
            .map(|(entry, raw)| {
                let messages = entry.messages.iter().map(|projected| &projected.message);
                let tokens = self.tokens.calibration.apply(*raw);
                match entry.is_compaction {
                    true => CutEntry::compaction(messages, tokens),
                    false => CutEntry::of(messages, tokens),
                }
            })
            .collect();
        let mut cut = find_cut(&cut_entries, keep_tokens)?;
        let messages = |part: &[RangeEntry]| -> Vec<_> { part.iter().flat_map(|entry| entry.messages.iter().cloned()).collect() };
        let mut turn_prefix = messages(&self.range[cut.turn_prefix.clone()]);
        if cut.is_split_turn() && prompt::conversation(&turn_prefix).is_empty() {
            // Nothing in it to tell, so the turn needs no summary of its own.
            cut.history.end = cut.turn_prefix.end;
            cut.tokens_history += cut.tokens_turn_prefix;
            (cut.turn_prefix.start, cut.tokens_turn_prefix) = (cut.turn_prefix.end, 0);
            turn_prefix.clear();
        }
        let history = messages(&self.range[cut.history.clone()]);
        let has_history = !prompt::conversation(&history).is_empty();
        if !has_history && turn_prefix.is_empty() {
            return Err(NoCut::Empty);
        }

        let mut files = self.earlier_files.clone();
        for entry in &self.range[..cut.kept.start] {
            files.add(&entry.files);
            files.add_messages(&entry.messages);
        }
        let previous_raw = self.previous_summary.as_deref().map_or(0, estimate_summary);
        let sum = |part: &[u64]| part.iter().fold(0u64, |sum, tokens| sum.saturating_add(*tokens));
        Ok(CompactionPlan {
            leaf: self.leaf,
            first_kept: self.range.get(cut.kept.start).map(|entry| (entry.index, entry.id.clone())),
            tokens: PlanTokens {
                before: self.tokens.total(),
                previous_summary: self.tokens.calibration.apply(previous_raw),
                history: cut.tokens_history,
                turn_prefix: cut.tokens_turn_prefix,
                kept: cut.tokens_kept,
            },
            replaced_raw: sum(&raw[..cut.kept.start]).saturating_add(previous_raw),
            staying_raw: sum(&raw[cut.kept.start..]).saturating_add(self.overhead_tokens),
            history,
            has_history,
            turn_prefix,
            entries: self.range.iter().map(|entry| entry.index).collect(),
            previous_summary: self.previous_summary.clone(),
            files,
            system: self.system.clone(),
            cut,
        })
    }
}

/// The lists in the details of an earlier summary; what a hook wrote there is its own.
pub(crate) fn trusted_files(from_hook: Option<bool>, details: Option<&Json>) -> FileLists {
    let mut lists = FileLists::default();
    if let Some(details) = details.filter(|_| from_hook != Some(true)) {
        lists.add_details(details);
    }
    lists
}

fn estimate(messages: &[ProjectedMessage]) -> u64 {
    messages.iter().fold(0, |sum, projected| sum.saturating_add(tokens::estimate_message(&projected.message)))
}

fn estimate_summary(summary: &str) -> u64 {
    let message = CompactionSummaryMessage { summary: summary.to_owned(), ..CompactionSummaryMessage::default() };
    tokens::estimate_message(&Message::CompactionSummary(message))
}

/// The tokens of the parts of a planned compaction. Parts are estimates, calibrated like the context's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanTokens {
    /// The whole context, prompt and tools included (`tokensBefore`).
    pub before: u64,
    /// The summary that is brought up to date.
    pub previous_summary: u64,
    /// The history to summarize.
    pub history: u64,
    /// The beginning of a split turn to summarize.
    pub turn_prefix: u64,
    /// What stays.
    pub kept: u64,
}

/// What a compaction would do.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionPlan {
    leaf: Option<EntryIndex>,
    cut: CutPoint,
    entries: Vec<EntryIndex>,
    first_kept: Option<(EntryIndex, EntryId)>,
    history: Vec<ProjectedMessage>,
    has_history: bool,
    turn_prefix: Vec<ProjectedMessage>,
    previous_summary: Option<String>,
    files: FileLists,
    tokens: PlanTokens,
    /// Estimates as they are, to compare the result with.
    replaced_raw: u64,
    staying_raw: u64,
    system: SystemReplay,
}

impl CompactionPlan {
    /// The leaf that the plan was made for; the result may be appended only while it is the leaf.
    pub fn leaf(&self) -> Option<EntryIndex> {
        self.leaf
    }

    /// The first entry that stays; `None` if nothing does, then the compaction names itself.
    pub fn first_kept(&self) -> Option<(EntryIndex, &EntryId)> {
        self.first_kept.as_ref().map(|(index, id)| (*index, id))
    }

    /// The messages to summarize, those of a split turn's beginning apart.
    pub fn history(&self) -> &[ProjectedMessage] {
        &self.history
    }

    /// The messages of the beginning of a turn whose end stays.
    pub fn turn_prefix(&self) -> &[ProjectedMessage] {
        &self.turn_prefix
    }

    /// The entries of the history, silent ones included.
    pub fn history_entries(&self) -> &[EntryIndex] {
        &self.entries[self.cut.history.clone()]
    }

    /// The entries of the beginning of a split turn.
    pub fn turn_prefix_entries(&self) -> &[EntryIndex] {
        &self.entries[self.cut.turn_prefix.clone()]
    }

    /// The entries that stay.
    pub fn kept_entries(&self) -> &[EntryIndex] {
        &self.entries[self.cut.kept.clone()]
    }

    /// Whether the cut falls inside a span.
    pub fn is_split_turn(&self) -> bool {
        self.cut.is_split_turn()
    }

    /// The summary of the latest compaction, without the lists of files.
    pub fn previous_summary(&self) -> Option<&str> {
        self.previous_summary.as_deref()
    }

    /// The files of everything that was summarized up to the cut.
    pub fn files(&self) -> &FileLists {
        &self.files
    }

    /// The tokens of the parts.
    pub fn tokens(&self) -> PlanTokens {
        self.tokens
    }

    /// The request for the summary of the history; `None` where there is none to summarize.
    pub fn history_request<'a>(&'a self, instructions: Option<&'a str>) -> Option<SummaryRequest<'a>> {
        self.has_history.then_some(SummaryRequest {
            task: SummaryTask::History,
            messages: &self.history,
            previous_summary: self.previous_summary.as_deref(),
            instructions,
        })
    }

    /// The request for the summary of a split turn's beginning; `None` where no turn is split.
    pub fn turn_prefix_request<'a>(&'a self, instructions: Option<&'a str>) -> Option<SummaryRequest<'a>> {
        (!self.turn_prefix.is_empty()).then_some(SummaryRequest {
            task: SummaryTask::TurnPrefix,
            messages: &self.turn_prefix,
            previous_summary: None,
            instructions,
        })
    }

    /// Joins the summaries of the two requests and checks the result.
    ///
    /// # Errors
    /// When a summary that was asked for is empty or missing, or the result would not shrink the context.
    pub fn finish(&self, history: Option<Summary>, turn_prefix: Option<Summary>) -> Result<CompactionResult, CompactionError> {
        let mut usage = None;
        let mut words_of = |summary: Option<Summary>| {
            let summary = summary.unwrap_or_default();
            usage = add_usage(usage.take(), summary.usage);
            let words = files::split_blocks(&summary.text).0.trim().to_owned();
            if words.is_empty() { Err(CompactionError::EmptySummary) } else { Ok(words) }
        };
        let mut text = match self.has_history {
            true => words_of(history)?,
            // A split turn without a history of its own: the previous summary stands as it is.
            false => self.previous_summary.clone().unwrap_or_else(|| NO_HISTORY.to_owned()),
        };
        if !self.turn_prefix.is_empty() {
            text.push_str(TURN_CONTEXT);
            text.push_str(&words_of(turn_prefix)?);
        }
        // In a small context long lists of files alone could outweigh what they come from.
        let list_chars =
            usize::try_from(self.replaced_raw.saturating_mul(3) / 4).unwrap_or(usize::MAX).clamp(200, files::LIST_CHARS);
        text.push_str(&self.files.to_blocks(list_chars));
        self.result(text, Some(self.files.to_details()), usage, false)
    }

    /// Takes a summary that a hook wrote, as it is.
    ///
    /// # Errors
    /// When it is empty or would not shrink the context.
    pub fn finish_from_hook(&self, summary: String, details: Option<Json>) -> Result<CompactionResult, CompactionError> {
        if summary.trim().is_empty() {
            return Err(CompactionError::EmptySummary);
        }
        self.result(summary, details, None, true)
    }

    fn result(
        &self,
        summary: String,
        details: Option<Json>,
        usage: Option<Usage>,
        from_hook: bool,
    ) -> Result<CompactionResult, CompactionError> {
        let summary_tokens = estimate_summary(&summary);
        if summary_tokens >= self.replaced_raw {
            return Err(CompactionError::NotSmaller { summary_tokens, replaced_tokens: self.replaced_raw });
        }
        // The context shrinks by the same share on the provider's scale as on that of the estimates.
        let before = self.staying_raw.saturating_add(self.replaced_raw);
        let after = self.staying_raw.saturating_add(summary_tokens);
        let scaled = u128::from(self.tokens.before) * u128::from(after) / u128::from(before.max(1));
        Ok(CompactionResult {
            summary,
            first_kept_entry_id: self.first_kept.as_ref().map(|(_, id)| id.clone()),
            tokens_before: self.tokens.before,
            tokens_after: u64::try_from(scaled).unwrap_or(u64::MAX),
            details,
            usage,
            from_hook,
            system: self.system.clone(),
        })
    }
}

/// A compaction that has its summary and may be appended.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionResult {
    /// The summary.
    pub summary: String,
    /// The first entry that stays; `None` names the compaction itself.
    pub first_kept_entry_id: Option<EntryId>,
    /// The tokens of the context before.
    pub tokens_before: u64,
    /// The tokens of the context after, estimated.
    pub tokens_after: u64,
    /// The lists of files, or what a hook gave.
    pub details: Option<Json>,
    /// What the summary cost.
    pub usage: Option<Usage>,
    /// Whether a hook wrote the summary.
    pub from_hook: bool,
    /// The state of the session's own prompt.
    system: SystemReplay,
}

impl CompactionResult {
    /// The payload of the entry that will have the id `own_id` and be written at `now_ms`, in Unix milliseconds.
    pub fn into_compaction(self, own_id: &EntryId, now_ms: i64) -> Compaction {
        Compaction {
            summary: self.summary,
            first_kept_entry_id: Some(self.first_kept_entry_id.unwrap_or_else(|| own_id.clone())),
            tokens_before: Json::of(&self.tokens_before).ok(),
            details: self.details,
            usage: self.usage,
            from_hook: self.from_hook.then_some(true),
            system_message: self.system.to_message(now_ms),
            ..Compaction::default()
        }
    }
}

#[cfg(test)]
mod tests;
