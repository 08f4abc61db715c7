//! Messages in the form of the Messages protocol.
//!
//! # Invariants
//! - Roles take turns, beginning with `user`: neighbours of one role are merged, so all results of a turn are in the one
//!   message after it.
//! - No message is without content, and none holds an empty text.
//! - Thinking goes back, with its signature, only to the model that made it.

use serde::Serialize;

use super::API;
use crate::llm::WireTarget;
use crate::llm::answer::arguments_object;
use crate::llm::call_ids::{CallIds, Origin};
use crate::session::json::Json;
use crate::session::message::{AssistantMessage, Block, Content, Message, ToolResultMessage};

/// The longest id of a call that the protocol takes.
const LONGEST_CALL_ID: usize = 64;

/// A conversation in the form of the protocol.
pub(super) struct Wire<'a> {
    /// The system prompt.
    pub system: Option<Json>,
    /// The messages.
    pub messages: Vec<WireMessage<'a>>,
}

#[derive(Serialize)]
pub(super) struct WireMessage<'a> {
    role: &'static str,
    content: Vec<Marked<'a>>,
}

/// A block, and whether the provider's cache shall reach up to it.
#[derive(Serialize)]
struct Marked<'a> {
    #[serde(flatten)]
    block: WireBlock<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock<'a> {
    Text { text: &'a str },
    Image { source: ImageSource<'a> },
    Thinking { thinking: &'a str, signature: &'a str },
    RedactedThinking { data: &'a str },
    ToolUse { id: String, name: &'a str, input: Json },
    ToolResult { tool_use_id: String, content: Vec<WireBlock<'a>>, is_error: bool },
}

#[derive(Serialize)]
struct ImageSource<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

/// The `system` of a request (`null` without a prompt) and its `messages`, as `target` takes them. `O(messages)`.
pub fn wire_messages(system: Option<&str>, messages: &[Message], target: &WireTarget) -> (Json, Json) {
    let wire = convert(system, messages, target);
    let json = Json::of(&wire.messages).expect("the keys are strings");
    (wire.system.unwrap_or_else(|| Json::of(&()).expect("null is JSON")), json)
}

/// Converts a conversation.
pub(super) fn convert<'a>(system: Option<&str>, messages: &'a [Message], target: &WireTarget) -> Wire<'a> {
    let system = system.filter(|text| !text.is_empty()).map(|text| {
        let block = Marked { block: WireBlock::Text { text }, cache_control: Some(EPHEMERAL) };
        Json::of(&[block]).expect("the keys are strings")
    });
    let mut ids = CallIds::new(LONGEST_CALL_ID);
    let mut wire = Vec::<WireMessage<'a>>::new();
    for message in messages {
        let (role, blocks) = match message {
            Message::User(message) => ("user", content(message.content.as_ref(), "(no content)")),
            Message::Assistant(message) => ("assistant", assistant(message, target, &mut ids)),
            Message::ToolResult(message) => ("user", vec![tool_result(message, &ids)]),
            Message::BashExecution(_)
            | Message::Custom(_)
            | Message::System(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_)
            | Message::Unknown(_) => continue,
        };
        if blocks.is_empty() {
            continue;
        }
        if wire.is_empty() && role == "assistant" {
            let block = WireBlock::Text { text: "(the beginning is not shown)" };
            wire.push(WireMessage { role: "user", content: vec![Marked { block, cache_control: None }] });
        }
        let blocks = blocks.into_iter().map(|block| Marked { block, cache_control: None });
        match wire.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(blocks),
            None => wire.push(WireMessage { role, content: blocks.collect() }),
        }
    }
    let last_user = wire.iter_mut().rev().find(|message| message.role == "user");
    if let Some(block) = last_user.and_then(|message| message.content.last_mut()) {
        block.cache_control = Some(EPHEMERAL);
    }
    Wire { system, messages: wire }
}

impl Wire<'_> {
    /// Whether thinking can be switched on: within a tool loop the last assistant message must begin with thinking.
    pub fn may_think(&self) -> bool {
        let is_loop = self
            .messages
            .last()
            .is_some_and(|message| message.content.iter().any(|marked| matches!(marked.block, WireBlock::ToolResult { .. })));
        let assistant = self.messages.iter().rev().find(|message| message.role == "assistant");
        let thought = assistant
            .and_then(|message| message.content.first())
            .is_some_and(|marked| matches!(marked.block, WireBlock::Thinking { .. } | WireBlock::RedactedThinking { .. }));
        !is_loop || thought
    }
}

/// Texts and images; `placeholder` where there is nothing.
fn content<'a>(content: Option<&'a Content>, placeholder: &'static str) -> Vec<WireBlock<'a>> {
    let blocks = match content {
        Some(Content::Text(text)) => Vec::from_iter(text_block(text)),
        Some(Content::Blocks(blocks)) => blocks.iter().filter_map(plain_block).collect(),
        None => Vec::new(),
    };
    match blocks.is_empty() {
        true => vec![WireBlock::Text { text: placeholder }],
        false => blocks,
    }
}

/// White space alone is refused like the empty text.
fn text_block(text: &str) -> Option<WireBlock<'_>> {
    (!text.trim().is_empty()).then_some(WireBlock::Text { text })
}

fn plain_block(block: &Block) -> Option<WireBlock<'_>> {
    match block {
        Block::Text { text, .. } => text_block(text),
        Block::Image { data, mime_type, .. } => {
            Some(WireBlock::Image { source: ImageSource { kind: "base64", media_type: mime_type, data } })
        }
        Block::Thinking { .. } | Block::ToolCall(_) | Block::Unknown(_) => None,
    }
}

fn assistant<'a>(message: &'a AssistantMessage, target: &WireTarget, ids: &mut CallIds) -> Vec<WireBlock<'a>> {
    let is_own = target.made(API, message);
    let blocks = match &message.content {
        Some(Content::Text(text)) => return Vec::from_iter(text_block(text)),
        Some(Content::Blocks(blocks)) => blocks,
        None => return Vec::new(),
    };
    let wire = blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => text_block(text),
        Block::Thinking { thinking, signature, extra } => {
            // Without a signature it is refused.
            let signature = signature.as_deref().filter(|signature| is_own && !signature.is_empty())?;
            match extra.get("redacted").is_some_and(|redacted| redacted.as_str() == "true") {
                true => Some(WireBlock::RedactedThinking { data: signature }),
                false => Some(WireBlock::Thinking { thinking, signature }),
            }
        }
        Block::ToolCall(call) => Some(WireBlock::ToolUse {
            id: ids.call(&call.id, Origin::Other),
            name: &call.name,
            input: arguments_object(&call.arguments),
        }),
        Block::Image { .. } | Block::Unknown(_) => None,
    });
    let wire = wire.collect::<Vec<_>>();
    let is_thinking = |block: &WireBlock<'_>| matches!(block, WireBlock::Thinking { .. } | WireBlock::RedactedThinking { .. });
    // Thinking that came to no answer cannot stand alone.
    match wire.iter().all(is_thinking) {
        true => Vec::new(),
        false => wire,
    }
}

fn tool_result<'a>(message: &'a ToolResultMessage, ids: &CallIds) -> WireBlock<'a> {
    let is_error = message.is_error == Some(true);
    let placeholder = match is_error {
        true => "(failed without a message)",
        false => "(no output)",
    };
    let content = content(message.content.as_ref(), placeholder);
    WireBlock::ToolResult { tool_use_id: ids.result(&message.tool_call_id), content, is_error }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: &str = r#","cache_control":{"type":"ephemeral"}"#;

    /// `messages` are JSON lines; `expect` is the list, one message a line, `@` for the mark of the cache.
    fn check(messages: &[&str], expect: &[&str]) {
        let messages = messages.iter().map(|text| Message::from_json(Json::parse(text).expect(text))).collect::<Vec<_>>();
        let target = WireTarget { provider: "p".into(), model: "m".into() };
        let (system, wire) = wire_messages(None, &messages, &target);
        assert!(system.is_null());
        let wire = wire.to::<Vec<Json>>().expect("a list");
        assert_eq!(wire.iter().map(|json| json.as_str().replace(CACHE, "@")).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn results_of_one_turn_and_what_follows_are_one_user_message() {
        check(
            &[
                r#"{"role":"user","content":"a"}"#,
                r#"{"role":"assistant","content":[{"type":"text","text":""},{"type":"toolCall","id":"x:1","name":"read","arguments":{"n":1.0}},{"type":"toolCall","id":"2","name":"ls","arguments":"bad"}]}"#,
                r#"{"role":"toolResult","toolCallId":"x:1","content":[{"type":"text","text":"r"},{"type":"image","data":"QQ==","mimeType":"image/png"}]}"#,
                r#"{"role":"toolResult","toolCallId":"2","content":[{"type":"text","text":""}],"isError":true}"#,
                r#"{"role":"user","content":[{"type":"text","text":"go"},{"type":"text","text":" "}]}"#,
            ],
            &[
                r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#,
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"x1_352c4759534b12c4","name":"read","input":{"n":1.0}},{"type":"tool_use","id":"2","name":"ls","input":{"unreadable_arguments":"bad"}}]}"#,
                concat!(
                    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x1_352c4759534b12c4","content":[{"type":"text","text":"r"},"#,
                    r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}],"is_error":false},"#,
                    r#"{"type":"tool_result","tool_use_id":"2","content":[{"type":"text","text":"(failed without a message)"}],"is_error":true},"#,
                    r#"{"type":"text","text":"go"@}]}"#
                ),
            ],
        );
    }

    #[test]
    fn thinking_goes_back_only_to_the_model_that_made_it_and_only_signed() {
        let content = r#""content":[{"type":"thinking","thinking":"hm","thinkingSignature":"s"},{"type":"thinking","thinking":"","thinkingSignature":"d","redacted":true},{"type":"thinking","thinking":"unsigned"},{"type":"text","text":"a"}]"#;
        let from = |api: &str, model: &str| {
            format!(r#"{{"role":"assistant",{content},"api":"{api}","provider":"p","model":"{model}"}}"#)
        };
        let user = r#"{"role":"user","content":"u"}"#;
        check(
            &[user, &from(API, "m"), user, &from(API, "n"), user, &from("openai-completions", "m")],
            &[
                r#"{"role":"user","content":[{"type":"text","text":"u"}]}"#,
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"a"}]}"#,
                r#"{"role":"user","content":[{"type":"text","text":"u"}]}"#,
                r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#,
                r#"{"role":"user","content":[{"type":"text","text":"u"@}]}"#,
                r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#,
            ],
        );
    }

    #[test]
    fn nothing_is_sent_empty_and_the_user_begins() {
        check(
            &[
                r#"{"role":"assistant","content":"hello"}"#,
                r#"{"role":"user","content":""}"#,
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm"}]}"#,
                r#"{"role":"user","content":"b"}"#,
            ],
            &[
                r#"{"role":"user","content":[{"type":"text","text":"(the beginning is not shown)"}]}"#,
                r#"{"role":"assistant","content":[{"type":"text","text":"hello"}]}"#,
                r#"{"role":"user","content":[{"type":"text","text":"(no content)"},{"type":"text","text":"b"@}]}"#,
            ],
        );
    }

    #[test]
    fn deep_arguments_are_sent() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
        let message =
            format!(r#"{{"role":"assistant","content":[{{"type":"toolCall","id":"1","name":"r","arguments":{deep}}}]}}"#);
        let messages = [Message::from_json(Json::parse(&message).unwrap())];
        let (_, wire) = wire_messages(None, &messages, &WireTarget { provider: "p".into(), model: "m".into() });
        assert!(wire.as_str().contains("[[[["));
    }
}
