//! Messages: what users, models and tools said, in the shapes that Pi stores.
//!
//! # Invariants
//! - Reading is lenient: a message or block whose known fields have other shapes than Pi's is kept verbatim as
//!   `Unknown`; fields without a place of their own are kept in `extra`. Nothing is refused and nothing is lost.
//! - Writing gives Pi's keys and Pi's order (`role` first), then `extra`. A field that was absent stays absent, but for
//!   `toolName`, `output`, `customType`, counts and amounts, which are then written empty or as 0, and a `content` that
//!   was null, which is then absent. No key is written twice.

use serde::de::Deserializer;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::session::json::{Extra, Fields, Json};

pub use crate::session::usage::{Cost, Usage};

/// One message, by its `role`.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// What a person said (`user`).
    User(UserMessage),
    /// What a model answered (`assistant`).
    Assistant(Box<AssistantMessage>),
    /// What a tool call gave (`toolResult`).
    ToolResult(ToolResultMessage),
    /// A command that the user ran beside the conversation (`bashExecution`).
    BashExecution(BashExecution),
    /// A message of an application (`custom`); the model sees it as one of the user.
    Custom(CustomMessage),
    /// A part of the system prompt, replayed in order (`system`, Pi 1.x).
    System(SystemMessage),
    /// The summary of a branch that was left (`branchSummary`); only in contexts, never in files.
    BranchSummary(BranchSummaryMessage),
    /// The summary that stands for compacted entries (`compactionSummary`); only in contexts, never in files.
    CompactionSummary(CompactionSummaryMessage),
    /// A role that is none of Pi's, or known fields of another shape. Providers never get it.
    Unknown(Json),
}

/// The role of a message, spelled as in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `toolResult`
    ToolResult,
    /// `bashExecution`
    BashExecution,
    /// `custom` (and `hookMessage` of version 2)
    Custom,
    /// `system`
    System,
    /// `branchSummary`
    BranchSummary,
    /// `compactionSummary`
    CompactionSummary,
    /// Any other.
    Unknown,
}

impl Role {
    /// The role that is spelled `name` in files.
    pub fn from_wire(name: &str) -> Self {
        match name {
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "toolResult" => Self::ToolResult,
            "bashExecution" => Self::BashExecution,
            "custom" | "hookMessage" => Self::Custom,
            "system" => Self::System,
            "branchSummary" => Self::BranchSummary,
            "compactionSummary" => Self::CompactionSummary,
            _ => Self::Unknown,
        }
    }

    /// The spelling in files and in `--json`.
    pub fn as_wire(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::ToolResult => "toolResult",
            Self::BashExecution => "bashExecution",
            Self::Custom => "custom",
            Self::System => "system",
            Self::BranchSummary => "branchSummary",
            Self::CompactionSummary => "compactionSummary",
            Self::Unknown => "unknown",
        }
    }
}

/// The content of a message: a string, or a list of blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A plain string.
    Text(String),
    /// Blocks, in order.
    Blocks(Vec<Block>),
}

impl Content {
    /// One text block.
    pub fn text_block(text: impl Into<String>) -> Self {
        Self::Blocks(vec![Block::text(text)])
    }

    /// The text of all text blocks, joined by a line end.
    pub fn joined_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The text of all text blocks with nothing between them: what a person typed.
    pub fn concatenated_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks.iter().filter_map(Block::as_text).collect(),
        }
    }

    /// The blocks; a string is one text block, an empty string none.
    pub fn to_blocks(&self) -> Vec<Block> {
        match self {
            Self::Text(text) if text.is_empty() => Vec::new(),
            Self::Text(text) => vec![Block::text(text.clone())],
            Self::Blocks(blocks) => blocks.clone(),
        }
    }

    /// The blocks as they are; none where the content is a string.
    pub fn blocks(&self) -> &[Block] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl Content {
    /// Reads a value; `None` when it is neither a string nor an array.
    pub(crate) fn of_raw(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        if text.starts_with('"') {
            return serde_json::from_str(text).ok().map(Self::Text);
        }
        let blocks: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        Some(Self::Blocks(blocks.into_iter().map(Block::of_raw).collect()))
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Self::of_raw(raw).ok_or_else(|| serde::de::Error::custom("content is a string or an array"))
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Blocks(blocks) => blocks.serialize(serializer),
        }
    }
}

/// One block of a message's content.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Text (`text`).
    Text {
        /// The text.
        text: String,
        /// Further fields, such as `textSignature`.
        extra: Extra,
    },
    /// What a model thought (`thinking`).
    Thinking {
        /// The text.
        thinking: String,
        /// The provider's signature (`thinkingSignature`), needed to replay the block.
        signature: Option<String>,
        /// Further fields, such as `redacted`.
        extra: Extra,
    },
    /// An image (`image`).
    Image {
        /// The bytes in base64.
        data: String,
        /// The MIME type, such as `image/png`.
        mime_type: String,
        /// Further fields.
        extra: Extra,
    },
    /// A call of a tool (`toolCall`).
    ToolCall(ToolCall),
    /// A block of another type, or of another shape.
    Unknown(Json),
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), extra: Extra::default() }
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Thinking { .. } | Self::Image { .. } | Self::ToolCall(_) | Self::Unknown(_) => None,
        }
    }

    /// The call of a tool call block.
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match self {
            Self::ToolCall(call) => Some(call),
            Self::Text { .. } | Self::Thinking { .. } | Self::Image { .. } | Self::Unknown(_) => None,
        }
    }

    fn of_raw(raw: &RawValue) -> Self {
        Self::read(raw.get()).unwrap_or_else(|| Self::Unknown(Json::of_raw(raw)))
    }

    fn read(text: &str) -> Option<Self> {
        let mut fields = Fields::parse(text).ok()?;
        match fields.take::<String>("type")?.as_str() {
            "text" => Some(Self::Text { text: fields.take("text")?, extra: fields.rest() }),
            "thinking" => Some(Self::Thinking {
                thinking: fields.take("thinking")?,
                signature: fields.take("thinkingSignature"),
                extra: fields.rest(),
            }),
            "image" => {
                Some(Self::Image { data: fields.take("data")?, mime_type: fields.take("mimeType")?, extra: fields.rest() })
            }
            "toolCall" => Some(Self::ToolCall(ToolCall {
                id: fields.take("id")?,
                name: fields.take("name")?,
                arguments: fields.take_json("arguments").unwrap_or_else(Json::empty_object),
                extra: fields.rest(),
            })),
            _ => None,
        }
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Unknown(json) = self {
            return json.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Text { text, extra } => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
                extra.write(&mut map)?;
            }
            Self::Thinking { thinking, signature, extra } => {
                map.serialize_entry("type", "thinking")?;
                map.serialize_entry("thinking", thinking)?;
                put(&mut map, "thinkingSignature", signature.as_ref())?;
                extra.write(&mut map)?;
            }
            Self::Image { data, mime_type, extra } => {
                map.serialize_entry("type", "image")?;
                map.serialize_entry("data", data)?;
                map.serialize_entry("mimeType", mime_type)?;
                extra.write(&mut map)?;
            }
            Self::ToolCall(call) => {
                map.serialize_entry("type", "toolCall")?;
                map.serialize_entry("id", &call.id)?;
                map.serialize_entry("name", &call.name)?;
                map.serialize_entry("arguments", &call.arguments)?;
                call.extra.write(&mut map)?;
            }
            Self::Unknown(_) => {}
        }
        map.end()
    }
}

/// A call of a tool, as a model asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's id; its result names it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments: an object, unless the model got it wrong.
    pub arguments: Json,
    /// Further fields, such as `thoughtSignature`.
    pub extra: Extra,
}

/// What a person said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserMessage {
    /// Text and images; `None` where the file has none.
    pub content: Option<Content>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<i64>,
    /// Further fields.
    pub extra: Extra,
}

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssistantMessage {
    /// Text, thinking and tool calls; `None` where the file has none.
    pub content: Option<Content>,
    /// The wire protocol, such as `anthropic-messages`.
    pub api: Option<String>,
    /// The provider's name.
    pub provider: Option<String>,
    /// The model's id.
    pub model: Option<String>,
    /// Tokens and cost as the provider reported them.
    pub usage: Option<Usage>,
    /// Why the model stopped: `stop`, `length`, `toolUse`, `error`, `aborted`.
    pub stop_reason: Option<String>,
    /// What went wrong, where `stop_reason` is `error` or `aborted`.
    pub error_message: Option<String>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<i64>,
    /// Further fields, such as `responseId`.
    pub extra: Extra,
}

impl AssistantMessage {
    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().flat_map(Content::blocks).filter_map(Block::as_tool_call)
    }

    /// Whether the request failed or was aborted, so that the message goes to no provider.
    pub fn is_failed(&self) -> bool {
        matches!(self.stop_reason.as_deref(), Some("error" | "aborted"))
    }
}

/// What a tool call gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResultMessage {
    /// The id of the call.
    pub tool_call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// Text and images; `None` where the file has none.
    pub content: Option<Content>,
    /// What the tool keeps for display; the model does not see it.
    pub details: Option<Json>,
    /// Whether the tool failed.
    pub is_error: Option<bool>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<i64>,
    /// Further fields, such as `durationMs`.
    pub extra: Extra,
}

/// A command that the user ran beside the conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BashExecution {
    /// The command line.
    pub command: String,
    /// What it printed.
    pub output: String,
    /// The exit code; `None` if it was killed.
    pub exit_code: Option<i64>,
    /// Whether the user stopped it.
    pub cancelled: Option<bool>,
    /// Whether `output` was cut.
    pub truncated: Option<bool>,
    /// Where the whole output is.
    pub full_output_path: Option<String>,
    /// Whether the model must not see it.
    pub exclude_from_context: Option<bool>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<i64>,
    /// Further fields.
    pub extra: Extra,
}

/// A message of an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CustomMessage {
    /// The application's name for this kind.
    pub custom_type: String,
    /// Text and images; `None` where the file has none.
    pub content: Option<Content>,
    /// Whether people see it.
    pub display: Option<bool>,
    /// What the application keeps; the model does not see it.
    pub details: Option<Json>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<i64>,
    /// Further fields.
    pub extra: Extra,
}

/// A part of the system prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemMessage {
    /// The text; `None` where the file has none.
    pub content: Option<Content>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<i64>,
    /// `sections`, `toolsAdded`, `toolsRemoved` and whatever else there is.
    pub extra: Extra,
}

/// The summary of a branch that was left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BranchSummaryMessage {
    /// The summary.
    pub summary: String,
    /// The leaf that was left.
    pub from_id: Option<Json>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<i64>,
    /// Further fields.
    pub extra: Extra,
}

/// The summary that stands for compacted entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactionSummaryMessage {
    /// The summary.
    pub summary: String,
    /// Tokens of the context before the compaction.
    pub tokens_before: Option<Json>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<i64>,
    /// Further fields.
    pub extra: Extra,
}

impl Message {
    /// A user message of one text block.
    pub fn user(text: impl Into<String>, timestamp: i64) -> Self {
        Self::User(UserMessage { content: Some(Content::text_block(text)), timestamp: Some(timestamp), extra: Extra::default() })
    }

    /// The role.
    pub fn role(&self) -> Role {
        match self {
            Self::User(_) => Role::User,
            Self::Assistant(_) => Role::Assistant,
            Self::ToolResult(_) => Role::ToolResult,
            Self::BashExecution(_) => Role::BashExecution,
            Self::Custom(_) => Role::Custom,
            Self::System(_) => Role::System,
            Self::BranchSummary(_) => Role::BranchSummary,
            Self::CompactionSummary(_) => Role::CompactionSummary,
            Self::Unknown(_) => Role::Unknown,
        }
    }

    /// When, in Unix milliseconds; `None` where the file has none.
    pub fn timestamp(&self) -> Option<i64> {
        match self {
            Self::User(message) => message.timestamp,
            Self::Assistant(message) => message.timestamp,
            Self::ToolResult(message) => message.timestamp,
            Self::BashExecution(message) => message.timestamp,
            Self::Custom(message) => message.timestamp,
            Self::System(message) => message.timestamp,
            Self::BranchSummary(message) => message.timestamp,
            Self::CompactionSummary(message) => message.timestamp,
            Self::Unknown(json) => json.fields()?.get("timestamp"),
        }
    }

    /// The content, for the roles that have one.
    pub fn content(&self) -> Option<&Content> {
        match self {
            Self::User(message) => message.content.as_ref(),
            Self::Assistant(message) => message.content.as_ref(),
            Self::ToolResult(message) => message.content.as_ref(),
            Self::Custom(message) => message.content.as_ref(),
            Self::System(message) => message.content.as_ref(),
            Self::BashExecution(_) | Self::BranchSummary(_) | Self::CompactionSummary(_) | Self::Unknown(_) => None,
        }
    }

    /// The words of the message: text blocks joined, a command with its output, a summary. For display and search.
    pub fn text(&self) -> String {
        match self {
            Self::BashExecution(run) => format!("$ {}\n{}", run.command, run.output),
            Self::BranchSummary(message) => message.summary.clone(),
            Self::CompactionSummary(message) => message.summary.clone(),
            Self::User(_) | Self::Assistant(_) | Self::ToolResult(_) | Self::Custom(_) | Self::System(_) | Self::Unknown(_) => {
                self.content().map(Content::joined_text).unwrap_or_default()
            }
        }
    }

    /// Whether this is no message at all: no object, or one without a role, or of a role of Pi's in another shape.
    pub fn is_unreadable(&self) -> bool {
        let Self::Unknown(json) = self else { return false };
        let role = json.fields().and_then(|fields| fields.get::<String>("role"));
        role.is_none_or(|role| Role::from_wire(&role) != Role::Unknown)
    }

    /// Takes one JSON object as a message; never fails, see the module's invariants.
    pub fn from_json(json: Json) -> Self {
        Self::read(json.as_str()).unwrap_or(Self::Unknown(json))
    }

    /// As [`Message::from_json`], of a part of a text.
    pub(crate) fn of_raw(raw: &RawValue) -> Self {
        Self::read(raw.get()).unwrap_or_else(|| Self::Unknown(Json::of_raw(raw)))
    }

    fn read(text: &str) -> Option<Self> {
        let mut fields = Fields::parse(text).ok()?;
        let role = fields.take::<String>("role")?;
        let role = Role::from_wire(&role);
        // Content that is present must have Pi's shape, or the message is not Pi's.
        let has_content = matches!(role, Role::User | Role::Assistant | Role::ToolResult | Role::Custom | Role::System);
        let content = if has_content { take_content(&mut fields)? } else { None };
        let timestamp = fields.take("timestamp");
        Some(match role {
            Role::User => Self::User(UserMessage { content, timestamp, extra: fields.rest() }),
            Role::Assistant => Self::Assistant(Box::new(AssistantMessage {
                content,
                api: fields.take("api"),
                provider: fields.take("provider"),
                model: fields.take("model"),
                usage: fields.take("usage"),
                stop_reason: fields.take("stopReason"),
                error_message: fields.take("errorMessage"),
                timestamp,
                extra: fields.rest(),
            })),
            Role::ToolResult => Self::ToolResult(ToolResultMessage {
                tool_call_id: fields.take("toolCallId")?,
                tool_name: fields.take("toolName").unwrap_or_default(),
                content,
                details: fields.take_json("details"),
                is_error: fields.take("isError"),
                timestamp,
                extra: fields.rest(),
            }),
            Role::BashExecution => Self::BashExecution(BashExecution {
                command: fields.take("command")?,
                output: fields.take("output").unwrap_or_default(),
                exit_code: fields.take("exitCode"),
                cancelled: fields.take("cancelled"),
                truncated: fields.take("truncated"),
                full_output_path: fields.take("fullOutputPath"),
                exclude_from_context: fields.take("excludeFromContext"),
                timestamp,
                extra: fields.rest(),
            }),
            Role::Custom => Self::Custom(CustomMessage {
                custom_type: fields.take("customType").unwrap_or_default(),
                content,
                display: fields.take("display"),
                details: fields.take_json("details"),
                timestamp,
                extra: fields.rest(),
            }),
            Role::System => Self::System(SystemMessage { content, timestamp, extra: fields.rest() }),
            Role::BranchSummary => Self::BranchSummary(BranchSummaryMessage {
                summary: fields.take("summary")?,
                from_id: fields.take_json("fromId"),
                timestamp,
                extra: fields.rest(),
            }),
            Role::CompactionSummary => Self::CompactionSummary(CompactionSummaryMessage {
                summary: fields.take("summary")?,
                tokens_before: fields.take_json("tokensBefore"),
                timestamp,
                extra: fields.rest(),
            }),
            Role::Unknown => return None,
        })
    }
}

/// Takes the content out; the inner `None` is no content, the outer one is content of another shape.
fn take_content(fields: &mut Fields<'_>) -> Option<Option<Content>> {
    match fields.text("content") {
        Some("null") => fields.take("content"),
        Some(_) => fields.take_with("content", Content::of_raw).map(Some),
        None => Some(None),
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(Self::of_raw)
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Unknown(json) = self {
            return json.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", self.role().as_wire())?;
        match self {
            Self::User(message) => {
                put(&mut map, "content", message.content.as_ref())?;
                put(&mut map, "timestamp", message.timestamp)?;
                message.extra.write(&mut map)?;
            }
            Self::Assistant(message) => {
                put(&mut map, "content", message.content.as_ref())?;
                put(&mut map, "api", message.api.as_ref())?;
                put(&mut map, "provider", message.provider.as_ref())?;
                put(&mut map, "model", message.model.as_ref())?;
                put(&mut map, "usage", message.usage.as_ref())?;
                put(&mut map, "stopReason", message.stop_reason.as_ref())?;
                put(&mut map, "errorMessage", message.error_message.as_ref())?;
                put(&mut map, "timestamp", message.timestamp)?;
                message.extra.write(&mut map)?;
            }
            Self::ToolResult(message) => {
                map.serialize_entry("toolCallId", &message.tool_call_id)?;
                put_unless(&message.extra, &mut map, "toolName", &message.tool_name)?;
                put(&mut map, "content", message.content.as_ref())?;
                put(&mut map, "details", message.details.as_ref())?;
                put(&mut map, "isError", message.is_error)?;
                put(&mut map, "timestamp", message.timestamp)?;
                message.extra.write(&mut map)?;
            }
            Self::BashExecution(message) => {
                map.serialize_entry("command", &message.command)?;
                put_unless(&message.extra, &mut map, "output", &message.output)?;
                put(&mut map, "exitCode", message.exit_code)?;
                put(&mut map, "cancelled", message.cancelled)?;
                put(&mut map, "truncated", message.truncated)?;
                put(&mut map, "fullOutputPath", message.full_output_path.as_ref())?;
                put(&mut map, "excludeFromContext", message.exclude_from_context)?;
                put(&mut map, "timestamp", message.timestamp)?;
                message.extra.write(&mut map)?;
            }
            Self::Custom(message) => {
                put_unless(&message.extra, &mut map, "customType", &message.custom_type)?;
                put(&mut map, "content", message.content.as_ref())?;
                put(&mut map, "display", message.display)?;
                put(&mut map, "details", message.details.as_ref())?;
                put(&mut map, "timestamp", message.timestamp)?;
                message.extra.write(&mut map)?;
            }
            Self::System(message) => {
                put(&mut map, "content", message.content.as_ref())?;
                message.extra.write(&mut map)?;
                put(&mut map, "timestamp", message.timestamp)?;
            }
            Self::BranchSummary(message) => {
                map.serialize_entry("summary", &message.summary)?;
                put(&mut map, "fromId", message.from_id.as_ref())?;
                put(&mut map, "timestamp", message.timestamp)?;
                message.extra.write(&mut map)?;
            }
            Self::CompactionSummary(message) => {
                map.serialize_entry("summary", &message.summary)?;
                put(&mut map, "tokensBefore", message.tokens_before.as_ref())?;
                put(&mut map, "timestamp", message.timestamp)?;
                message.extra.write(&mut map)?;
            }
            Self::Unknown(_) => {}
        }
        map.end()
    }
}

/// Writes `key` if there is a value.
pub(crate) fn put<M: SerializeMap, T: Serialize>(map: &mut M, key: &str, value: Option<T>) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(key, &value),
        None => Ok(()),
    }
}

/// Writes `key`, unless `extra` holds it: there stands what was read, in a shape that has no place in a field.
pub(crate) fn put_unless<M: SerializeMap, T: Serialize>(extra: &Extra, map: &mut M, key: &str, value: T) -> Result<(), M::Error> {
    if extra.get(key).is_some() { Ok(()) } else { map.serialize_entry(key, &value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_of_another_shape_makes_a_message_none_of_ours() {
        let role = |text: &str| Message::from_json(Json::parse(text).expect(text)).role();
        assert_eq!(role(r#"{"role":"user","content":5}"#), Role::Unknown);
        assert_eq!(role(r#"{"role":"assistant","content":{}}"#), Role::Unknown);
        assert_eq!(role(r#"{"role":"user","content":null}"#), Role::User);
        assert_eq!(role(r#"{"role":"user"}"#), Role::User);
        // Roles without content have no shape of it.
        assert_eq!(role(r#"{"role":"bashExecution","command":"ls","content":5}"#), Role::BashExecution);
    }

    #[test]
    fn the_context_tokens_of_an_answer_are_its_total_or_the_sum() {
        let tokens = |text: &str| Json::parse(text).expect(text).to::<Usage>().expect(text).context_tokens();
        assert_eq!(tokens(r#"{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":99}"#), 99);
        assert_eq!(tokens(r#"{"input":1,"output":2,"cacheRead":3,"cacheWrite":4.0,"totalTokens":0}"#), 10);
        assert_eq!(tokens(r#"{"input":1,"output":-2,"cacheRead":1.5}"#), 1);
        assert_eq!(tokens(&format!(r#"{{"input":{0},"output":{0}}}"#, u64::MAX)), u64::MAX);
    }
}
