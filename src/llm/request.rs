//! What a provider is asked.
//!
//! # Invariants
//! - `messages` are request messages: `user`, `assistant` and `toolResult`, each result after its call. Other roles
//!   are passed over.
//! - Header values are secrets.

use std::time::Duration;

use async_trait::async_trait;

use super::{ProviderError, Secret};
use crate::session::json::Json;
use crate::session::message::{AssistantMessage, Content, Cost, Message, Usage};

/// A model and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The provider's name, as messages name it.
    pub provider: String,
    /// The model's id, as the provider spells it.
    pub id: String,
    /// The wire protocol.
    pub api: String,
    /// The size of the context window, in tokens.
    pub context_window: u64,
    /// The most tokens of one answer, if it is known.
    pub max_tokens: Option<u64>,
    /// What its tokens cost.
    pub prices: Prices,
}

/// Prices, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// Of the prompt.
    pub input: f64,
    /// Of the answer.
    pub output: f64,
    /// Of what was read from the provider's cache.
    pub cache_read: f64,
    /// Of what was written to the provider's cache.
    pub cache_write: f64,
}

impl Prices {
    /// The cost of `usage`.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let amount = |tokens: u64, price: f64| tokens as f64 * price / 1_000_000.0;
        let (input, output) = (amount(usage.input, self.input), amount(usage.output, self.output));
        let (cache_read, cache_write) = (amount(usage.cache_read, self.cache_read), amount(usage.cache_write, self.cache_write));
        let total = input + output + cache_read + cache_write;
        Cost { input, output, cache_read, cache_write, total, ..Cost::default() }
    }
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDeclaration {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Json,
}

/// How a request is sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamOptions {
    /// Further headers; they replace those of the same name.
    pub headers: Vec<(String, Secret)>,
    /// How long to wait for the beginning of a response, and then for each next piece of it, in milliseconds. Default
    /// [`StreamOptions::DEFAULT_TIMEOUT_MS`]; 0 waits for ever.
    pub timeout_ms: Option<u64>,
    /// How often a transient error is tried again; replaces the provider's own number of tries and time limit.
    pub max_retries: Option<u32>,
}

impl StreamOptions {
    /// Five minutes: local servers read a long prompt, and some models think, for minutes without sending a byte.
    pub const DEFAULT_TIMEOUT_MS: u64 = 300_000;

    /// The time limit in force, in milliseconds.
    pub(crate) fn timeout_ms(&self) -> u64 {
        match self.timeout_ms {
            Some(0) => u64::MAX,
            Some(timeout_ms) => timeout_ms,
            None => Self::DEFAULT_TIMEOUT_MS,
        }
    }
}

/// One request to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The model.
    pub model: Model,
    /// The system prompt.
    pub system_prompt: Option<String>,
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The tools that may be called.
    pub tools: Vec<ToolDeclaration>,
    /// `off`, `minimal`, `low`, `medium`, `high` or `xhigh`; any other word is as `off`.
    pub thinking_level: String,
    /// The most tokens of the answer; by default the model's.
    pub max_tokens: Option<u64>,
    /// The session, for the provider's cache.
    pub session_id: Option<String>,
    /// How to send it.
    pub options: StreamOptions,
    /// The time of the answer, in Unix milliseconds.
    pub now_ms: i64,
}

impl Request {
    /// A request of `messages` to `model`, without a system prompt, tools or thinking.
    pub fn new(model: Model, messages: Vec<Message>, now_ms: i64) -> Self {
        Self {
            model,
            system_prompt: None,
            messages,
            tools: Vec::new(),
            thinking_level: "off".to_owned(),
            max_tokens: None,
            session_id: None,
            options: StreamOptions::default(),
            now_ms,
        }
    }

    /// The message to store when `error` came before an answer began: no content, no usage, `stopReason` `error` or
    /// `aborted`.
    pub fn failed_message(&self, error: &ProviderError) -> AssistantMessage {
        AssistantMessage {
            content: Some(Content::default()),
            api: Some(self.model.api.clone()),
            provider: Some(self.model.provider.clone()),
            model: Some(self.model.id.clone()),
            usage: Some(Usage { total_tokens: Some(0), cost: Some(Cost::default()), ..Usage::default() }),
            stop_reason: Some(error.stop_reason().to_owned()),
            error_message: Some(error.to_string()),
            timestamp: Some(self.now_ms),
            ..AssistantMessage::default()
        }
    }
}

/// The model that messages are written for: what it made itself goes back to it whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireTarget {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
}

impl WireTarget {
    /// The target that `model` is.
    pub fn of(model: &Model) -> Self {
        Self { provider: model.provider.clone(), model: model.id.clone() }
    }

    /// Whether this model made `message`, over `api`.
    pub(crate) fn made(&self, api: &str, message: &AssistantMessage) -> bool {
        self.hosts(api, message) && message.model.as_deref() == Some(&self.model)
    }

    /// Whether a model of this provider made `message`, over `api`.
    pub(crate) fn hosts(&self, api: &str, message: &AssistantMessage) -> bool {
        message.api.as_deref() == Some(api) && message.provider.as_deref() == Some(&self.provider)
    }
}

/// What takes part in an exchange with a provider. Every method has a default that changes nothing.
#[async_trait]
pub trait Exchange: Send + Sync {
    /// Sees the payload before it is sent, once for all tries, and gives the one to send.
    async fn before_payload(&self, payload: Json) -> Json {
        payload
    }

    /// Sees the status and the headers of each response, those that are tried again too.
    async fn after_response(&self, status: u16, headers: &[(String, String)]) {
        let _ = (status, headers);
    }

    /// Sees the error of try number `tries` before the wait for the next one.
    async fn before_retry(&self, tries: u32, delay: Duration, error: &ProviderError) {
        let _ = (tries, delay, error);
    }
}

/// Takes no part.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExchange;

#[async_trait]
impl Exchange for NoExchange {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_tokens_times_price_per_million() {
        let prices = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        let usage = Usage { input: 1_000_000, output: 100_000, cache_read: 2_000_000, cache_write: 0, ..Usage::default() };
        let cost = prices.cost(&usage);
        assert_eq!((cost.input, cost.output, cost.cache_read, cost.cache_write), (3.0, 1.5, 0.6, 0.0));
        assert!((cost.total - 5.1).abs() < 1e-9);
    }

    #[test]
    fn debug_of_options_hides_header_values() {
        let options = StreamOptions { headers: vec![("x-key".into(), Secret::new("hush-hush"))], ..StreamOptions::default() };
        assert!(!format!("{options:?}").contains("hush"));
    }
}
