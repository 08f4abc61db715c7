//! What an agent tells of its work while it goes on.
//!
//! # Invariants
//! - Every subscriber gets every event that comes after its subscription, in one order; none is lost.
//! - `*_start` and `*_end` come in pairs, but for an operation whose future was dropped.
//!
//! # Order
//! ```text
//! agent_start
//!   turn_start
//!     message_start, message_end                      for each prompt, steering and follow-up message
//!     message_start, message_update*, message_end     the answer
//!     tool_execution_start, update*, end              for each call; those of parallel calls mix
//!     message_start, message_end                      for each result, in the order of the calls
//!   turn_end, save_point
//!   ...
//! agent_end
//! ```
//! Compactions stand between turns, retries and warnings wherever they happen.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::EndReason;
use crate::agent::tools::ToolOutput;
use crate::llm::StreamEvent;
use crate::session::entry::EntryId;
use crate::session::json::Json;
use crate::session::message::{AssistantMessage, Message};
use crate::storage::handle::Navigation;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum AgentEvent {
    /// A run begins.
    AgentStart,
    /// A turn begins.
    TurnStart {
        /// Its number in the run, from 1.
        turn: u32,
    },
    /// A message begins. An answer is still empty.
    MessageStart {
        /// The message so far.
        message: Message,
    },
    /// More of the answer.
    MessageUpdate {
        /// The new piece.
        update: StreamEvent,
    },
    /// A message is complete.
    MessageEnd {
        /// The message.
        message: Message,
    },
    /// A tool begins to work.
    ToolExecutionStart {
        /// The id of the call.
        call_id: String,
        /// The tool's name.
        tool_name: String,
        /// What it was called with.
        arguments: Json,
    },
    /// A tool has something to show before it is done.
    ToolExecutionUpdate {
        /// The id of the call.
        call_id: String,
        /// The tool's name.
        tool_name: String,
        /// More of its output.
        text: String,
    },
    /// A tool is done.
    ToolExecutionEnd {
        /// The id of the call.
        call_id: String,
        /// The tool's name.
        tool_name: String,
        /// What it gave, after the hooks.
        output: ToolOutput,
    },
    /// A turn is over; its entries are not written yet.
    TurnEnd {
        /// Its number in the run, from 1.
        turn: u32,
        /// The answer.
        answer: Arc<AssistantMessage>,
        /// The results of its calls, in order.
        results: Arc<Vec<Message>>,
    },
    /// The pending entries were written.
    SavePoint {
        /// The new entries, in order.
        entry_ids: Vec<EntryId>,
    },
    /// A run is over.
    AgentEnd {
        /// Why.
        reason: EndReason,
    },
    /// A compaction begins.
    CompactionStart {
        /// Why.
        cause: CompactionCause,
        /// The tokens of the context.
        tokens_before: u64,
    },
    /// A compaction was written.
    CompactionEnd {
        /// Why it was made.
        cause: CompactionCause,
        /// What it did.
        compaction: CompactionDone,
    },
    /// A compaction did not come about; the session is as it was.
    CompactionFailed {
        /// Why it was to be made.
        cause: CompactionCause,
        /// What stopped it.
        error: String,
    },
    /// The leaf moved.
    Navigated {
        /// From where to where.
        navigation: Navigation,
    },
    /// A request failed for now and will be sent again.
    Retry {
        /// How often it was sent so far.
        tries: u32,
        /// The wait before the next try, in milliseconds.
        delay_ms: u64,
        /// What went wrong.
        error: String,
    },
    /// Something that the user should know.
    Warning(Warning),
}

impl AgentEvent {
    /// The name of the event, as programs see it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AgentStart => "agent_start",
            Self::TurnStart { .. } => "turn_start",
            Self::MessageStart { .. } => "message_start",
            Self::MessageUpdate { .. } => "message_update",
            Self::MessageEnd { .. } => "message_end",
            Self::ToolExecutionStart { .. } => "tool_execution_start",
            Self::ToolExecutionUpdate { .. } => "tool_execution_update",
            Self::ToolExecutionEnd { .. } => "tool_execution_end",
            Self::TurnEnd { .. } => "turn_end",
            Self::SavePoint { .. } => "save_point",
            Self::AgentEnd { .. } => "agent_end",
            Self::CompactionStart { .. } => "compaction_start",
            Self::CompactionEnd { .. } => "compaction_end",
            Self::CompactionFailed { .. } => "compaction_failed",
            Self::Navigated { .. } => "navigation",
            Self::Retry { .. } => "retry",
            Self::Warning(_) => "warning",
        }
    }
}

/// Why a compaction is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionCause {
    /// The user asked for it.
    Command,
    /// The context grew over the limit.
    Threshold,
    /// A provider refused the context as too large.
    Overflow,
}

impl CompactionCause {
    /// The name, as programs see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Threshold => "threshold",
            Self::Overflow => "overflow",
        }
    }
}

/// A compaction that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionDone {
    /// Its entry.
    pub id: EntryId,
    /// The first entry that stays; the compaction itself where nothing does.
    pub first_kept_entry_id: EntryId,
    /// The tokens of the context before.
    pub tokens_before: u64,
    /// The tokens of the context after, estimated.
    pub tokens_after: u64,
    /// The summary.
    pub summary: String,
    /// Whether the model failed and the summary was made without one.
    pub is_fallback: bool,
}

/// Something that the user should know. Nothing was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Entries could not be written; they stay in memory and are written as soon as that works.
    #[error("{entries} entries could not be written and wait in memory to be written with what comes next: {error}")]
    NotWritten {
        /// How many.
        entries: usize,
        /// What stopped it.
        error: String,
    },
    /// Entries that could not be written to the session are in this file.
    #[error("what could not be written to the session is in {path}", path = .0.display())]
    Unsaved(PathBuf),
    /// A hook failed, so it changed nothing.
    #[error("the hook {hook} failed and was passed over: {error}")]
    HookFailed {
        /// Its name in the table of hooks.
        hook: &'static str,
        /// What went wrong.
        error: String,
    },
    /// The run reached its most turns.
    #[error("the run was stopped after {0} turns")]
    MaxTurns(u32),
    /// The context is over the limit and cannot be compacted; long tool results are sent without their middle.
    #[error("the context holds about {tokens} tokens, over the limit of {limit_tokens}; long tool results are sent shortened")]
    OverLimit {
        /// The tokens of the context, estimated.
        tokens: u64,
        /// The most that it may hold.
        limit_tokens: u64,
    },
    /// The model failed to summarize, and the summary was made without one.
    #[error("the model gave no summary, so it was made without one: {0}")]
    SummaryFallback(String),
    /// A hook asked for a model that is not configured.
    #[error("there is no model {provider}/{model_id}, so the model stays")]
    UnknownModel {
        /// The provider's name.
        provider: String,
        /// The model's id.
        model_id: String,
    },
}

/// The events of one subscription.
#[derive(Debug)]
pub struct Events(UnboundedReceiver<Arc<AgentEvent>>);

impl Events {
    /// Waits for the next event; `None` when the agent is gone.
    pub async fn next(&mut self) -> Option<Arc<AgentEvent>> {
        self.0.recv().await
    }

    /// The next event, if it is there.
    pub fn try_next(&mut self) -> Option<Arc<AgentEvent>> {
        self.0.try_recv().ok()
    }
}

/// Where events go.
#[derive(Debug, Default)]
pub(crate) struct EventSink(Mutex<Vec<UnboundedSender<Arc<AgentEvent>>>>);

impl EventSink {
    pub fn subscribe(&self) -> Events {
        let (sender, receiver) = unbounded_channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Events(receiver)
    }

    /// Gives an event to all; who is gone is forgotten. One lock, so all see one order.
    pub fn emit(&self, event: AgentEvent) {
        let event = Arc::new(event);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|sender| sender.send(event.clone()).is_ok());
    }

    pub fn warn(&self, warning: Warning) {
        self.emit(AgentEvent::Warning(warning));
    }
}
