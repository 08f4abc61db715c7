//! What the formats have in common: content, usage and messages in Pi's shapes.
//!
//! # Invariants
//! - An assistant message has `api`, `provider`, `model`, `usage` with `cost`, `stopReason` and `timestamp`: without them
//!   Pi fails at opening.

use serde::Serialize;

use crate::session::entry::{SessionId, parse_timestamp_ms};
use crate::session::json::{Extra, Fields, Json};
use crate::session::message::{AssistantMessage, Block, Content, Cost, Message, ToolCall, Usage, UserMessage};

/// What stands where Pi needs a name and the source has none.
pub(super) const UNKNOWN: &str = "unknown";

/// A value as JSON; `None` never happens for what is used here.
pub(super) fn details_of<T: Serialize + ?Sized>(value: &T) -> Option<Json> {
    Json::of(value).ok()
}

/// The time in the field `key`: a date as text, or Unix milliseconds.
pub(super) fn time_ms(fields: &Fields<'_>, key: &str) -> Option<i64> {
    match fields.get::<String>(key) {
        Some(text) => parse_timestamp_ms(&text),
        None => fields.get::<f64>(key).filter(|ms| ms.abs() < 8.64e15).map(|ms| ms as i64),
    }
}

/// A count in the field `key`; 0 where there is none.
pub(super) fn count(fields: &Fields<'_>, key: &str) -> u64 {
    let number = fields.get::<f64>(key).unwrap_or(0.0);
    if (0.0..9_007_199_254_740_992.0).contains(&number) { number as u64 } else { 0 }
}

/// Usage with the sum as its total and no cost.
pub(super) fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Usage {
    let mut usage = Usage { input, output, cache_read, cache_write, cost: Some(Cost::default()), ..Usage::default() };
    usage.total_tokens = Some(usage.sum());
    usage
}

/// The parts of an assistant message that Pi needs.
pub(super) struct Answer {
    pub api: String,
    pub provider: String,
    pub model: String,
    pub content: Vec<Block>,
    pub usage: Option<Usage>,
    pub stop_reason: Option<&'static str>,
    pub error_message: Option<String>,
}

impl Answer {
    /// The message.
    pub(super) fn into_message(self, at_ms: i64) -> AssistantMessage {
        AssistantMessage {
            content: Some(Content::Blocks(self.content)),
            api: Some(self.api),
            provider: Some(self.provider),
            model: Some(self.model),
            usage: Some(self.usage.unwrap_or_else(|| usage(0, 0, 0, 0))),
            stop_reason: self.stop_reason.map(str::to_owned),
            error_message: self.error_message,
            timestamp: Some(at_ms),
            extra: Extra::default(),
        }
    }
}

/// Fills in what an assistant message lacks of what Pi needs, as `append` does.
pub(super) fn complete(message: &mut AssistantMessage, at_ms: i64) {
    let content = message.content.take().unwrap_or_default();
    message.content = Some(match content {
        Content::Text(_) => Content::Blocks(content.to_blocks()),
        Content::Blocks(blocks) => Content::Blocks(blocks),
    });
    let name = || Some(UNKNOWN.to_owned());
    message.api = message.api.take().or_else(name);
    message.provider = message.provider.take().or_else(name);
    message.model = message.model.take().or_else(name);
    let reported = message.usage.get_or_insert_with(|| usage(0, 0, 0, 0));
    reported.cost.get_or_insert_with(Cost::default);
    let sum = reported.sum();
    reported.total_tokens.get_or_insert(sum);
    if message.stop_reason.is_none() {
        let has_calls = message.tool_calls().next().is_some();
        message.stop_reason = Some(if has_calls { "toolUse" } else { "stop" }.to_owned());
    }
    message.timestamp.get_or_insert(at_ms);
}

/// A user message.
pub(super) fn user(content: Content, at_ms: i64) -> Message {
    Message::User(UserMessage { content: Some(content), timestamp: Some(at_ms), extra: Extra::default() })
}

/// A call; arguments that are no object become one, because Pi's tools look into it.
pub(super) fn tool_call(id: String, name: String, arguments: Option<Json>) -> Block {
    let arguments = match arguments {
        Some(json) if json.as_str().starts_with('{') => json,
        Some(json) if !json.is_null() => one_field("input", &json),
        Some(_) | None => Json::empty_object(),
    };
    Block::ToolCall(ToolCall { id, name, arguments, extra: Extra::default() })
}

/// An object of one field.
pub(super) fn one_field(key: &str, value: &Json) -> Json {
    let mut object = Extra::default();
    object.set(key, value.clone());
    details_of(&object).unwrap_or_else(Json::empty_object)
}

/// Thinking, with the signature that a provider needs to take it back.
pub(super) fn thinking(text: String, signature: Option<String>) -> Block {
    Block::Thinking { thinking: text, signature: signature.filter(|text| !text.is_empty()), extra: Extra::default() }
}

/// An image in a `data:` address.
pub(super) fn data_url_image(url: &str) -> Option<Block> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let mime_type = head.strip_suffix(";base64")?.split(';').next()?;
    if !mime_type.starts_with("image/") {
        return None;
    }
    Some(Block::Image { data: data.to_owned(), mime_type: mime_type.to_owned(), extra: Extra::default() })
}

/// A marker for something that a model cannot be shown again; the whole is kept beside it.
pub(super) fn marker(what: &str) -> Block {
    Block::text(format!("[{what}: left out by the import, kept in the entry behind this message]"))
}

/// The name of a file without its folder and its end.
pub(super) fn file_stem(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// An id of the source as the id of the session.
pub(super) fn session_id(id: Option<&String>) -> Option<SessionId> {
    SessionId::new(id?.clone()).ok()
}
