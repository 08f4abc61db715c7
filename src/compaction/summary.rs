//! Requests for summaries, summaries, and why there is none.
//!
//! # Invariants
//! - A request holds everything that its summary may tell: messages of the active path, the summary before them, and
//!   what the user asked for.

use crate::compaction::cut::NoCut;
use crate::session::context::ProjectedMessage;
use crate::session::json::Json;
use crate::session::message::{Cost, Usage};

/// What a summary is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryTask {
    /// It stands for the messages that a compaction takes out of the context.
    History,
    /// It stands for the beginning of a span whose end stays.
    TurnPrefix,
    /// It tells of a branch that is left.
    Branch,
}

/// A summary to be written.
#[derive(Clone, Copy, Debug)]
pub struct SummaryRequest<'a> {
    /// What it is for.
    pub task: SummaryTask,
    /// The messages to summarize, in order.
    pub messages: &'a [ProjectedMessage],
    /// The summary that stands for what came before them, to be brought up to date.
    pub previous_summary: Option<&'a str>,
    /// What the user wants of the summary.
    pub instructions: Option<&'a str>,
}

/// A summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The text.
    pub text: String,
    /// What it cost, over all requests that were needed; `None` where nothing was reported.
    pub usage: Option<Usage>,
}

/// Why a summarizer gave no summary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SummaryError {
    /// It may work at another time: the network, a limit, a server that is busy.
    #[error("the summary failed for now: {0}")]
    Transient(String),
    /// It will not work again either: the key, the model, the request.
    #[error("the summary failed: {0}")]
    Permanent(String),
    /// The text was too long for the model's window.
    #[error("the text to summarize is too long for the model: {0}")]
    Overflow(String),
    /// It was stopped.
    #[error("the summary was stopped")]
    Aborted,
}

/// Why a compaction or a branch summary did not come about. The session is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// There is nothing to compact.
    #[error(transparent)]
    NoCut(#[from] NoCut),
    /// The summarizer failed.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// The summary has no words.
    #[error("the summary is empty")]
    EmptySummary,
    /// The summary takes as much room as what it would replace.
    #[error("the summary would not shrink the context: {summary_tokens} tokens for {replaced_tokens}")]
    NotSmaller {
        /// The estimated tokens of the summary.
        summary_tokens: u64,
        /// The estimated tokens of what it would replace.
        replaced_tokens: u64,
    },
}

/// The sum of what two requests cost.
pub fn add_usage(a: Option<Usage>, b: Option<Usage>) -> Option<Usage> {
    let (mut sum, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (a, b) => return a.or(b),
    };
    sum.total_tokens = match (sum.total_tokens, b.total_tokens) {
        (None, None) => None,
        _ => Some(sum.context_tokens().saturating_add(b.context_tokens())),
    };
    sum.input = sum.input.saturating_add(b.input);
    sum.output = sum.output.saturating_add(b.output);
    sum.cache_read = sum.cache_read.saturating_add(b.cache_read);
    sum.cache_write = sum.cache_write.saturating_add(b.cache_write);
    sum.cost = match (sum.cost, b.cost) {
        (Some(a), Some(b)) => Some(Cost {
            input: a.input + b.input,
            output: a.output + b.output,
            cache_read: a.cache_read + b.cache_read,
            cache_write: a.cache_write + b.cache_write,
            total: a.total + b.total,
            extra: a.extra,
        }),
        (a, b) => a.or(b),
    };
    // Counts that only some providers give, such as `reasoning`.
    for (name, count) in b.extra.iter() {
        let total = match (sum.extra.get(name).map(Json::to::<u64>), count.to::<u64>()) {
            (None, _) => Some(count.clone()),
            (Some(Some(have)), Some(count)) => Json::of(&have.saturating_add(count)).ok(),
            (Some(_), _) => None,
        };
        if let Some(total) = total {
            sum.extra.set(name, total);
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_several_requests_add_up() {
        let usage = |json: &str| serde_json::from_str::<Usage>(json).expect(json);
        let one =
            usage(r#"{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,"cost":{"total":0.5},"reasoning":1}"#);
        let two = usage(r#"{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"cost":{"total":0.25},"reasoning":2}"#);
        let sum = add_usage(Some(one.clone()), Some(two)).expect("a sum");
        assert_eq!((sum.input, sum.output, sum.total_tokens), (2, 3, Some(12)));
        assert_eq!(sum.cost.as_ref().map(|cost| cost.total), Some(0.75));
        assert_eq!(sum.extra.get("reasoning").map(Json::as_str), Some("3"));
        assert_eq!(add_usage(None, Some(one.clone())), Some(one));
        assert_eq!(add_usage(None, None), None);
    }
}
