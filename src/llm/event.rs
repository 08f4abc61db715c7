//! What comes back from a provider while an answer is made.
//!
//! # Invariants
//! - `index` is the place of the block in the finished message; blocks begin in order.

use std::pin::Pin;

use futures::Stream;

use super::ProviderError;
use crate::session::message::AssistantMessage;

/// The events of one answer. Nothing follows [`StreamEvent::Done`] or a failure.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, StreamFailure>> + Send>>;

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The answer begins.
    Start,
    /// More text.
    TextDelta {
        /// The block it belongs to.
        index: usize,
        /// The new part.
        text: String,
    },
    /// More thinking.
    ThinkingDelta {
        /// The block it belongs to.
        index: usize,
        /// The new part.
        text: String,
    },
    /// A tool call begins.
    ToolCallStart {
        /// The block of the call.
        index: usize,
        /// The id of the call.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments, as JSON text.
    ToolCallDelta {
        /// The block of the call.
        index: usize,
        /// The new part.
        text: String,
    },
    /// The answer is complete.
    Done(Box<AssistantMessage>),
}

/// An answer that broke off.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct StreamFailure {
    /// Why.
    pub error: ProviderError,
    /// What had come by then, ready to be stored: `stopReason` is `error` or `aborted`, `errorMessage` is set.
    pub partial: Box<AssistantMessage>,
}
