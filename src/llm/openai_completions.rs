//! The chat completions of OpenAI and of the many servers that are compatible with it.
//!
//! # Invariants
//! - Conversion is pure: the same request gives the same bytes, and a longer conversation begins with the same messages.
//! - Only api.openai.com gets what other servers may not know (see [`Dialect`]).

mod decode;
mod wire;

use async_trait::async_trait;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use self::decode::Chunks;
pub use self::wire::wire_messages;
use super::answer::Answer;
use super::http::Endpoint;
use super::retry::RetryPolicy;
use super::talk::converse;
use super::{EventStream, Exchange, Provider, ProviderError, Request, Secret, WireTarget};
use crate::session::json::Json;

/// The name of this protocol in messages and in the configuration.
pub const API: &str = "openai-completions";

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct OpenAiOptions {
    /// What stands before `/chat/completions`, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key, if the server wants one; sent as a bearer token.
    pub api_key: Option<Secret>,
    /// Further headers of each request.
    pub headers: Vec<(String, Secret)>,
    /// How failures are retried.
    pub retry: RetryPolicy,
}

impl OpenAiOptions {
    /// A server without a key.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self { base_url: base_url.into(), api_key: None, headers: Vec::new(), retry: RetryPolicy::default() }
    }
}

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// api.openai.com: `max_completion_tokens` and `prompt_cache_key`.
    OpenAi,
    /// Any other: `max_tokens`.
    Compatible,
}

impl Dialect {
    /// The dialect of the server at `base_url`.
    pub fn of(base_url: &str) -> Self {
        let host = reqwest::Url::parse(base_url.trim()).ok().and_then(|url| url.host_str().map(str::to_owned));
        match host.as_deref() {
            Some("api.openai.com") => Self::OpenAi,
            _ => Self::Compatible,
        }
    }
}

/// A server that speaks this protocol.
#[derive(Clone, Debug)]
pub struct OpenAiCompletions {
    endpoint: Endpoint,
    dialect: Dialect,
}

impl OpenAiCompletions {
    /// The server that `options` tells of. Nothing is sent yet.
    ///
    /// # Errors
    /// When the base URL cannot be used.
    pub fn new(options: OpenAiOptions) -> Result<Self, ProviderError> {
        let key = options.api_key.filter(|key| !key.is_empty());
        let mut headers = Vec::from_iter(key.map(|key| ("authorization".to_owned(), bearer(&key))));
        headers.extend(options.headers);
        let dialect = Dialect::of(&options.base_url);
        Ok(Self { endpoint: Endpoint::new(&options.base_url, "/chat/completions", headers, options.retry)?, dialect })
    }
}

fn bearer(key: &Secret) -> Secret {
    Secret::new(format!("Bearer {}", key.expose()))
}

#[async_trait]
impl Provider for OpenAiCompletions {
    fn api(&self) -> &'static str {
        API
    }

    async fn stream(
        &self,
        request: &Request,
        exchange: &dyn Exchange,
        abort: &CancellationToken,
    ) -> Result<EventStream, ProviderError> {
        let empty = || (Answer::new(API, request), Chunks::default());
        converse(&self.endpoint, request, payload(request, self.dialect), empty, exchange, abort).await
    }
}

/// The body of a request.
pub fn payload(request: &Request, dialect: Dialect) -> Json {
    let max_tokens = request.max_tokens.or(request.model.max_tokens);
    let (max_tokens, max_completion_tokens) = match dialect {
        Dialect::OpenAi => (None, max_tokens),
        Dialect::Compatible => (max_tokens, None),
    };
    let session_id = request.session_id.as_deref();
    let body = Body {
        model: &request.model.id,
        messages: wire_messages(request.system_prompt.as_deref(), &request.messages, &WireTarget::of(&request.model)),
        tools: request.tools.iter().map(|tool| Tool { kind: "function", function: Function::of(tool) }).collect(),
        max_tokens,
        max_completion_tokens,
        reasoning_effort: effort(&request.thinking_level),
        prompt_cache_key: session_id.filter(|_| dialect == Dialect::OpenAi),
        stream: true,
        stream_options: IncludeUsage { include_usage: true },
    };
    Json::of(&body).expect("the keys are strings")
}

/// The protocol's word for a thinking level.
fn effort(level: &str) -> Option<&'static str> {
    match level {
        "minimal" => Some("minimal"),
        "low" => Some("low"),
        "medium" => Some("medium"),
        "high" => Some("high"),
        "xhigh" => Some("xhigh"),
        _ => None,
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Json,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    stream: bool,
    stream_options: IncludeUsage,
}

#[derive(Serialize)]
struct IncludeUsage {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Json,
}

impl<'a> Function<'a> {
    fn of(tool: &'a super::ToolDeclaration) -> Self {
        Self { name: &tool.name, description: &tool.description, parameters: &tool.parameters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{Model, Prices, ToolDeclaration};
    use crate::session::message::Message;

    fn request() -> Request {
        let model = Model {
            provider: "p".into(),
            id: "m".into(),
            api: API.into(),
            context_window: 1000,
            max_tokens: Some(50),
            prices: Prices::default(),
        };
        Request::new(model, vec![Message::user("hi", 1)], 0)
    }

    #[test]
    fn the_payload_of_a_compatible_server_holds_only_what_all_know() {
        let text = payload(&request(), Dialect::of("http://127.0.0.1:1/v1"));
        assert_eq!(
            text.as_str(),
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":50,"stream":true,"stream_options":{"include_usage":true}}"#
        );
    }

    #[test]
    fn tools_thinking_and_the_session_are_passed() {
        let tools = vec![ToolDeclaration {
            name: "read".into(),
            description: "Reads.".into(),
            parameters: Json::parse(r#"{"type":"object"}"#).unwrap(),
        }];
        let request = Request {
            tools,
            thinking_level: "high".into(),
            session_id: Some("s".into()),
            max_tokens: Some(7),
            system_prompt: Some("be kind".into()),
            ..request()
        };
        let text = payload(&request, Dialect::of("https://api.openai.com/v1"));
        assert_eq!(
            text.as_str(),
            concat!(
                r#"{"model":"m","messages":[{"role":"system","content":"be kind"},{"role":"user","content":"hi"}],"#,
                r#""tools":[{"type":"function","function":{"name":"read","description":"Reads.","parameters":{"type":"object"}}}],"#,
                r#""max_completion_tokens":7,"reasoning_effort":"high","prompt_cache_key":"s","#,
                r#""stream":true,"stream_options":{"include_usage":true}}"#
            )
        );
    }
}
