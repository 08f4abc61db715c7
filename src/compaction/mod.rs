//! Compaction and branch summaries: what of a context is replaced by a summary, and who writes it.
//!
//! # Invariants
//! - Only the active path is ever read: entries of other branches reach no summary.
//! - Nothing here writes to a session. A compaction is planned, summarized and checked; the caller appends the result
//!   if the leaf is still [`CompactionPlan::leaf`](plan::CompactionPlan::leaf).
//! - Everything but [`summarize`] is synchronous and pure.
//!
//! # The steps
//! ```text
//! CompactionInput::read   the context as the model sees it, with what earlier compactions left
//!   .plan(keep_tokens)    where to cut, and the tokens of each part: a dry run ends here
//! CompactionPlan          -> one or two SummaryRequests -> a Summarizer, or extractive::extract -> Summaries
//!   .finish(..)           joins and checks them
//! CompactionResult        .into_compaction(id, now): the entry's payload
//! ```

pub mod branch_summary;
pub mod cut;
pub mod extractive;
pub mod files;
pub mod plan;
pub mod prompt;
#[cfg(feature = "models")]
pub mod summarize;
pub mod summary;
pub mod tokens;

#[cfg(test)]
mod test_session;
