//! Model providers: one trait, one file per wire protocol.
//!
//! A [`Provider`] takes a [`Request`] and gives an [`EventStream`]: pieces of the answer as they come, and at the end the
//! whole answer as a message in Pi's shape. [`OpenAiCompletions`](openai_completions::OpenAiCompletions) and
//! [`AnthropicMessages`](anthropic_messages::AnthropicMessages) speak over HTTP; [`Offline`](offline::Offline) answers
//! without a network, [`Replay`](replay::Replay) repeats recorded answers and [`Scripted`](scripted::Scripted) plays what
//! a test gives it.
//!
//! To add a protocol: one file with its wire form and a `Decode` for its events; `talk` does the sending, the retries,
//! the timeouts and the aborts for all of them.
//!
//! # Invariants
//! - No clock is read here: the time of an answer is [`Request::now_ms`]. Only waiting uses the monotonic clock.
//! - An event stream ends with exactly one of [`StreamEvent::Done`] and a [`StreamFailure`].
//! - No key and no header value of a request is in an error, in a `Debug` text or in a message.

mod answer;
pub mod anthropic_messages;
mod call_ids;
mod error;
mod event;
mod http;
pub mod offline;
pub mod openai_completions;
mod playback;
pub mod replay;
mod request;
pub mod retry;
pub mod scripted;
mod secret;
mod sse;
mod talk;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use error::ProviderError;
pub use event::{EventStream, StreamEvent, StreamFailure};
pub use request::{Exchange, Model, NoExchange, Prices, Request, StreamOptions, ToolDeclaration, WireTarget};
pub use secret::Secret;

/// Something that answers requests with a model.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The wire protocol, as messages name it in `api`.
    fn api(&self) -> &'static str;

    /// Sends `request` and gives the answer as it comes.
    ///
    /// Returns once the answer has begun; everything that can be retried without repeating a part of an answer is
    /// retried before. `exchange` may change the payload and sees each response. `abort` ends the call and, later, the
    /// stream.
    ///
    /// # Errors
    /// When no answer began; nothing was produced then. [`Request::failed_message`] gives the message to store.
    async fn stream(
        &self,
        request: &Request,
        exchange: &dyn Exchange,
        abort: &CancellationToken,
    ) -> Result<EventStream, ProviderError>;
}
