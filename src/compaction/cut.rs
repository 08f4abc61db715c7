//! Where a compaction cuts: what of a range of entries is summarized and what stays.
//!
//! # Invariants
//! - Pure, and `O(entries)`: every entry is looked at a fixed number of times.
//! - History, turn prefix and kept entries, in this order, are the range: nothing is lost or doubled.
//! - The first kept entry with a message is never a tool result, and no result is kept whose call is not: a cut
//!   never falls between a call and its result, nor between the results of parallel calls.
//! - There is always something before the cut that has messages; else there is no cut.
//!
//! # The rule
//! ```text
//! range     u  a(1,2) r1 r2  a  .  u  a(3) .  r3  a      . has no messages
//!           |----- history ------| |prefix||--- kept --|
//! ```
//! Walk back from the end until the budget is reached, take the first valid point at or after that entry, else the
//! last one before it. Entries without messages directly before it are kept too. A cut at an assistant message is
//! inside a span, a *split turn*: what is cut off from the span is its prefix, summarized apart. A span whose
//! beginning is not in the range was split before; the rest of it is history like any other.

use std::collections::HashMap;
use std::ops::Range;

use crate::session::message::Message;

/// What the cut needs to know of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutEntry<'a> {
    /// Its tokens in the context.
    tokens: u64,
    place: Place,
    calls: Vec<&'a str>,
    results: Vec<&'a str>,
}

/// What an entry is for a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// It has no messages.
    #[default]
    Silent,
    /// It is a compaction; none is kept for the sake of what follows it.
    Compaction,
    /// It begins a span: a user message, or what a provider gets as one.
    Begins,
    /// It goes on in a span, and the context may begin with it.
    GoesOn,
    /// It belongs to what stands before it.
    Bound,
}

impl<'a> CutEntry<'a> {
    /// An entry that gives `messages` of `tokens` together. Without messages it is silent.
    pub fn of(messages: impl IntoIterator<Item = &'a Message>, tokens: u64) -> Self {
        let mut entry = Self { tokens, ..Self::default() };
        for message in messages {
            let place = match message {
                Message::User(_) | Message::BashExecution(_) | Message::Custom(_) | Message::BranchSummary(_) => Place::Begins,
                Message::Assistant(assistant) => {
                    entry.calls.extend(assistant.tool_calls().map(|call| call.id.as_str()));
                    Place::GoesOn
                }
                Message::ToolResult(result) => {
                    entry.results.push(&result.tool_call_id);
                    Place::Bound
                }
                Message::System(_) | Message::CompactionSummary(_) | Message::Unknown(_) => Place::Bound,
            };
            if entry.place == Place::Silent {
                entry.place = place;
            }
        }
        entry
    }

    /// A compaction inside the range. An older one gives nothing to the context; the latest may hold `messages` that
    /// it retained, which no later compaction can keep.
    pub fn compaction(messages: impl IntoIterator<Item = &'a Message>, tokens: u64) -> Self {
        let mut entry = Self::of(messages, tokens);
        entry.place = if entry.place == Place::Silent { Place::Compaction } else { Place::Bound };
        entry
    }

    fn has_messages(&self) -> bool {
        !matches!(self.place, Place::Silent | Place::Compaction)
    }
}

/// A cut: three ranges of positions that follow each other and are the whole range together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutPoint {
    /// What is summarized.
    pub history: Range<usize>,
    /// The beginning of a span whose end is kept; summarized apart. Empty unless the cut splits a turn.
    pub turn_prefix: Range<usize>,
    /// What stays. Empty if nothing does: then the compaction names itself.
    pub kept: Range<usize>,
    /// The tokens of `history`.
    pub tokens_history: u64,
    /// The tokens of `turn_prefix`.
    pub tokens_turn_prefix: u64,
    /// The tokens of `kept`.
    pub tokens_kept: u64,
}

impl CutPoint {
    /// Whether the cut falls inside a span.
    pub fn is_split_turn(&self) -> bool {
        !self.turn_prefix.is_empty()
    }
}

/// Why there is no cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCut {
    /// Nothing in the range has messages.
    #[error("there is nothing to compact")]
    Empty,
    /// All of it is within what is to be kept.
    #[error("there is nothing to compact: all {tokens} tokens are within the {keep_tokens} to keep")]
    WithinBudget {
        /// The tokens of the range.
        tokens: u64,
        /// The tokens to keep.
        keep_tokens: u64,
    },
    /// The only points that do not tear a call from its result leave nothing to summarize.
    #[error("there is no point to cut at that leaves something to summarize")]
    NoPoint,
}

/// Finds the cut that keeps about `keep_tokens` of `range`; 0 keeps nothing.
///
/// # Errors
/// When there is no cut, and why.
pub fn find_cut(range: &[CutEntry<'_>], keep_tokens: u64) -> Result<CutPoint, NoCut> {
    let first_message = range.iter().position(CutEntry::has_messages).ok_or(NoCut::Empty)?;
    if keep_tokens == 0 {
        return Ok(cut_at(range, range.len(), range.len()));
    }

    let mut tokens = 0u64;
    let reached = range.iter().rposition(|entry| {
        tokens = tokens.saturating_add(entry.tokens);
        tokens >= keep_tokens
    });
    let reached = reached.ok_or(NoCut::WithinBudget { tokens, keep_tokens })?;

    let torn = torn_points(range);
    let is_valid = |at: &usize| !torn[*at] && matches!(range[*at].place, Place::Begins | Place::GoesOn);
    let point = (reached..range.len()).find(is_valid).or_else(|| (0..reached).rfind(is_valid)).ok_or(NoCut::NoPoint)?;
    if point <= first_message {
        return Err(NoCut::NoPoint);
    }

    let is_silent = |at: &usize| range[*at].place == Place::Silent;
    let first_kept = (0..point).rev().take_while(is_silent).last().unwrap_or(point);
    let prefix = match range[point].place {
        Place::GoesOn => (0..point).rfind(|at| !torn[*at] && range[*at].place == Place::Begins),
        Place::Silent | Place::Compaction | Place::Begins | Place::Bound => None,
    };
    Ok(cut_at(range, prefix.unwrap_or(first_kept), first_kept))
}

fn cut_at(range: &[CutEntry<'_>], prefix: usize, kept: usize) -> CutPoint {
    let tokens = |part: Range<usize>| range[part].iter().fold(0u64, |sum, entry| sum.saturating_add(entry.tokens));
    CutPoint {
        history: 0..prefix,
        turn_prefix: prefix..kept,
        kept: kept..range.len(),
        tokens_history: tokens(0..prefix),
        tokens_turn_prefix: tokens(prefix..kept),
        tokens_kept: tokens(kept..range.len()),
    }
}

/// For each position, whether a cut before it would tear a call from its result.
fn torn_points(range: &[CutEntry<'_>]) -> Vec<bool> {
    // One more at each point behind a call, one less behind its result; above zero, some pair spans the point.
    let mut steps = vec![0i64; range.len() + 1];
    // Providers reuse ids, so the latest call with an id is the one that is answered.
    let mut open = HashMap::new();
    for (at, entry) in range.iter().enumerate() {
        for result in &entry.results {
            if let Some(call) = open.remove(result) {
                steps[call + 1] += 1;
                steps[at + 1] -= 1;
            }
        }
        open.extend(entry.calls.iter().map(|call| (*call, at)));
    }
    let mut depth = 0;
    steps[..range.len()]
        .iter()
        .map(|step| {
            depth += step;
            depth > 0
        })
        .collect()
}

#[cfg(test)]
mod tests;
