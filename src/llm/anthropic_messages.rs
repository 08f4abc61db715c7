//! The Messages protocol of Anthropic, and of servers that are compatible with it.
//!
//! # Invariants
//! - Conversion is pure: the same request gives the same bytes, and a longer conversation begins with the same messages
//!   (but for the mark of the cache, which is on the last user message).
//! - `max_tokens` is larger than the thinking budget, which is at least [`SMALLEST_BUDGET`].

mod decode;
mod wire;

use async_trait::async_trait;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use self::decode::Blocks;
pub use self::wire::wire_messages;
use super::answer::Answer;
use super::http::Endpoint;
use super::retry::RetryPolicy;
use super::talk::converse;
use super::{EventStream, Exchange, Provider, ProviderError, Request, Secret, WireTarget};
use crate::session::json::Json;

/// The name of this protocol in messages and in the configuration.
pub const API: &str = "anthropic-messages";

/// The version of the protocol that this file speaks.
const VERSION: &str = "2023-06-01";

/// The most tokens of an answer where nothing else is said; the protocol wants a number.
const DEFAULT_MAX_TOKENS: u64 = 8192;

/// The smallest thinking budget that the protocol knows.
pub const SMALLEST_BUDGET: u64 = 1024;

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct AnthropicOptions {
    /// What stands before `/v1/messages`, such as `https://api.anthropic.com`.
    pub base_url: String,
    /// The key, if the server wants one; sent as `x-api-key`.
    pub api_key: Option<Secret>,
    /// Further headers of each request, such as `anthropic-beta`.
    pub headers: Vec<(String, Secret)>,
    /// How failures are retried.
    pub retry: RetryPolicy,
}

impl AnthropicOptions {
    /// A server without a key.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self { base_url: base_url.into(), api_key: None, headers: Vec::new(), retry: RetryPolicy::default() }
    }
}

/// A server that speaks this protocol.
#[derive(Clone, Debug)]
pub struct AnthropicMessages {
    endpoint: Endpoint,
}

impl AnthropicMessages {
    /// The server that `options` tells of. Nothing is sent yet.
    ///
    /// # Errors
    /// When the base URL cannot be used.
    pub fn new(options: AnthropicOptions) -> Result<Self, ProviderError> {
        let mut headers = vec![("anthropic-version".to_owned(), Secret::new(VERSION))];
        headers.extend(options.api_key.filter(|key| !key.is_empty()).map(|key| ("x-api-key".to_owned(), key)));
        headers.extend(options.headers);
        Ok(Self { endpoint: Endpoint::new(&options.base_url, "/v1/messages", headers, options.retry)? })
    }
}

#[async_trait]
impl Provider for AnthropicMessages {
    fn api(&self) -> &'static str {
        API
    }

    async fn stream(
        &self,
        request: &Request,
        exchange: &dyn Exchange,
        abort: &CancellationToken,
    ) -> Result<EventStream, ProviderError> {
        let empty = || (Answer::new(API, request), Blocks::default());
        converse(&self.endpoint, request, payload(request), empty, exchange, abort).await
    }
}

/// The body of a request.
pub fn payload(request: &Request) -> Json {
    let target = WireTarget::of(&request.model);
    let wire = wire::convert(request.system_prompt.as_deref(), &request.messages, &target);
    let given = request.max_tokens.or(request.model.max_tokens).filter(|tokens| *tokens > 0);
    let wanted = budget(&request.thinking_level).filter(|_| wire.may_think());
    let (max_tokens, budget) = match (given, wanted) {
        (None, wanted) => (DEFAULT_MAX_TOKENS + wanted.unwrap_or(0), wanted),
        // A quarter is left for the answer itself.
        (Some(max), wanted) => (max, wanted.map(|tokens| tokens.min(max - max / 4))),
    };
    let body = Body {
        model: &request.model.id,
        max_tokens,
        system: wire.system,
        messages: Json::of(&wire.messages).expect("the keys are strings"),
        tools: request.tools.iter().map(Tool::of).collect(),
        thinking: budget
            .filter(|tokens| (SMALLEST_BUDGET..max_tokens).contains(tokens))
            .map(|budget_tokens| Thinking { kind: "enabled", budget_tokens }),
        stream: true,
    };
    Json::of(&body).expect("the keys are strings")
}

/// The tokens that a thinking level allows.
fn budget(level: &str) -> Option<u64> {
    match level {
        "minimal" => Some(SMALLEST_BUDGET),
        "low" => Some(4096),
        "medium" => Some(10_240),
        "high" => Some(20_480),
        "xhigh" => Some(32_768),
        _ => None,
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Json>,
    messages: Json,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    stream: bool,
}

#[derive(Serialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: &'static str,
    budget_tokens: u64,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Json,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a super::ToolDeclaration) -> Self {
        Self { name: &tool.name, description: &tool.description, input_schema: &tool.parameters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{Model, Prices, ToolDeclaration};
    use crate::session::message::Message;

    fn request(level: &str, model_max: Option<u64>) -> Request {
        let model = Model {
            provider: "p".into(),
            id: "m".into(),
            api: API.into(),
            context_window: 1000,
            max_tokens: model_max,
            prices: Prices::default(),
        };
        Request { thinking_level: level.into(), ..Request::new(model, vec![Message::user("hi", 1)], 0) }
    }

    fn limits(request: &Request) -> (u64, Option<u64>) {
        let payload = payload(request);
        let fields = payload.fields().unwrap();
        let budget = fields.get::<Json>("thinking").map(|thinking| thinking.fields().unwrap().get("budget_tokens").unwrap());
        (fields.get("max_tokens").unwrap(), budget)
    }

    #[test]
    fn the_payload_holds_what_the_protocol_wants() {
        let request = Request {
            system_prompt: Some("be kind".into()),
            tools: vec![ToolDeclaration { name: "read".into(), description: "Reads.".into(), parameters: Json::empty_object() }],
            ..request("off", Some(50))
        };
        assert_eq!(
            payload(&request).as_str(),
            concat!(
                r#"{"model":"m","max_tokens":50,"system":[{"type":"text","text":"be kind","cache_control":{"type":"ephemeral"}}],"#,
                r#""messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}],"#,
                r#""tools":[{"name":"read","description":"Reads.","input_schema":{}}],"stream":true}"#
            )
        );
    }

    #[test]
    fn the_thinking_budget_always_leaves_room_for_the_answer() {
        assert_eq!(limits(&request("off", None)), (8192, None));
        assert_eq!(limits(&request("high", None)), (28_672, Some(20_480)));
        assert_eq!(limits(&request("high", Some(64_000))), (64_000, Some(20_480)));
        assert_eq!(limits(&request("high", Some(8000))), (8000, Some(6000)));
        assert_eq!(limits(&request("high", Some(1200))), (1200, None));
        assert_eq!(limits(&request("sideways", Some(1200))), (1200, None));
    }

    #[test]
    fn a_tool_loop_that_began_without_thinking_goes_on_without() {
        let mut request = request("low", Some(10_000));
        let call = r#"{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"r","arguments":{}}]}"#;
        let result = r#"{"role":"toolResult","toolCallId":"1","content":"x"}"#;
        request.messages.extend([call, result].map(|text| Message::from_json(Json::parse(text).unwrap())));
        assert_eq!(limits(&request), (10_000, None));
        request.messages.push(Message::user("next", 2));
        assert_eq!(limits(&request), (10_000, None), "the result and the text are one message");
        request.messages.push(Message::from_json(Json::parse(r#"{"role":"assistant","content":"done"}"#).unwrap()));
        request.messages.push(Message::user("next", 2));
        assert_eq!(limits(&request), (10_000, Some(4096)));
    }
}
