//! The agent: turns with a model and its tools, in memory or on a session's file.
//!
//! [`Agent`] keeps its transcript in memory. [`AgentHarness`] owns an open session: what is said goes to the file in one
//! write a turn, the context is compacted when it grows too large, and branches are left and found again. Both run the
//! same loop (`turn`), call the same [`tools`] and [`hooks`] and tell the same [events](event::AgentEvent).
//!
//! # Invariants
//! - One operation at a time: a run, a compaction, a navigation. A second one is refused as [`AgentError::Busy`].
//! - Nothing is spawned: an operation lives in the future that the caller awaits, and dropping that ends it.
//! - Files of tools are touched through [`tools::Env`] alone, time comes from the session's clock.

mod activity;
#[expect(clippy::module_inception, reason = "the noun of this file is the agent")]
mod agent;
pub mod event;
pub mod harness;
mod hook_chain;
pub mod hook_program;
pub mod hooks;
pub mod prompt;
mod queue;
mod sending;
pub mod skill;
#[cfg(test)]
mod testing;
mod tool_batch;
pub mod tools;
mod turn;

use std::sync::Arc;

use crate::compaction::summary::CompactionError;
use crate::llm::{Model, Provider, ProviderError};
use crate::session::entry::EntryId;
use crate::session::message::{Content, Message};
use crate::storage::StorageError;

pub use activity::Activity;
pub use agent::{Agent, AgentOptions};
pub use event::{AgentEvent, Events};
pub use harness::{AgentHarness, HarnessOptions};
pub use queue::{QueueMode, QueueModes};

/// What a person says: text, or text and images.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt(pub Content);

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self(Content::text_block(text))
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self(Content::text_block(text))
    }
}

impl From<Content> for Prompt {
    fn from(content: Content) -> Self {
        Self(content)
    }
}

/// A model and who serves it.
#[derive(Clone)]
pub struct ServedModel {
    /// Who is asked.
    pub provider: Arc<dyn Provider>,
    /// For what.
    pub model: Model,
}

impl std::fmt::Debug for ServedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedModel").field("model", &self.model).finish_non_exhaustive()
    }
}

/// Finds a model by its names, where a hook asks for another one.
pub trait ModelSource: Send + Sync {
    /// The model that is configured under these names.
    fn find(&self, provider: &str, model_id: &str) -> Option<ServedModel>;
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// Why it ended.
    pub reason: EndReason,
    /// The messages of the run, in order: prompts, answers and results.
    pub messages: Vec<Message>,
}

impl RunOutcome {
    /// The text of the last answer; empty where there is none.
    pub fn answer_text(&self) -> String {
        let is_answer = |message: &&Message| matches!(message, Message::Assistant(_));
        self.messages.iter().rev().find(is_answer).map(Message::text).unwrap_or_default()
    }
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EndReason {
    /// The model had nothing more to do.
    Done,
    /// A hook or the results of the tools ended it.
    Stopped,
    /// It reached the most turns of one run.
    MaxTurns(u32),
    /// It was aborted.
    Aborted,
    /// A request failed; the answer in the transcript says why.
    Failed(ProviderError),
    /// The session could not be read or written.
    Broken(String),
}

/// Why an operation of an agent did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Something else is going on.
    #[error("busy: {0}")]
    Busy(Activity),
    /// It was closed.
    #[error("the session was closed")]
    Closed,
    /// There is nothing that a model could go on from.
    #[error("there is nothing to go on from: the last message is an answer, or there is none")]
    NothingToContinue,
    /// The session cannot be read or written. What was said stays in memory and is written as soon as that works.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The session is as it was.
    #[error(transparent)]
    Compaction(#[from] CompactionError),
    /// Somebody moved the leaf while the summary was made; nothing was written.
    #[error("the leaf moved while the summary was made, so it was not written")]
    StaleLeaf,
    /// A hook said no.
    #[error("a hook cancelled it")]
    CancelledByHook,
    /// The user stopped it.
    #[error("it was aborted")]
    Aborted,
    /// An entry that does not exist.
    #[error("there is no entry {0}")]
    NoSuchEntry(EntryId),
    /// A tool that does not exist.
    #[error("there is no tool {0}")]
    NoSuchTool(String),
    /// A skill that does not exist.
    #[error("there is no skill {0}")]
    NoSuchSkill(String),
    /// A file beside the session cannot be read.
    #[error("cannot read {path}", path = path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
