//! Messages in the form of chat completions.
//!
//! # Invariants
//! - No message is without content, and none holds an empty text.
//! - Images of tool results follow, in one user message, the results of the turn: a `tool` message holds text alone.
//! - Thinking goes back, in the field that it came in, only to the model that made it.

use serde::Serialize;

use super::API;
use crate::llm::WireTarget;
use crate::llm::answer::arguments_object;
use crate::llm::call_ids::{CallIds, Origin};
use crate::session::json::Json;
use crate::session::message::{AssistantMessage, Block, Content, Message, ToolResultMessage};

/// The fields in which servers send thinking. Pi keeps the field's name as the block's signature.
pub(super) const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// The longest id of a call that OpenAI takes.
const LONGEST_CALL_ID: usize = 40;

#[derive(Default, Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Option<WireContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireContent<'a> {
    Text(String),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    arguments: String,
}

/// The `messages` of a request: the system prompt first, then `messages` as `target` takes them. `O(messages)`.
pub fn wire_messages(system: Option<&str>, messages: &[Message], target: &WireTarget) -> Json {
    let mut wire = Vec::with_capacity(messages.len() + 1);
    if let Some(system) = system.filter(|text| !text.is_empty()) {
        wire.push(text_message("system", system.to_owned()));
    }
    let mut ids = CallIds::new(LONGEST_CALL_ID);
    let mut images = Vec::new();
    for message in messages {
        if !matches!(message, Message::ToolResult(_)) {
            wire.extend(image_message(&mut images));
        }
        match message {
            Message::User(message) => wire.push(user(message.content.as_ref())),
            Message::Assistant(message) => wire.extend(assistant(message, target, &mut ids)),
            Message::ToolResult(message) => wire.push(tool_result(message, &ids, &mut images)),
            Message::BashExecution(_)
            | Message::Custom(_)
            | Message::System(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_)
            | Message::Unknown(_) => {}
        }
    }
    wire.extend(image_message(&mut images));
    Json::of(&wire).expect("the keys are strings")
}

fn text_message(role: &'static str, text: String) -> WireMessage<'static> {
    WireMessage { role, content: Some(WireContent::Text(text)), ..WireMessage::default() }
}

/// Text and images; text alone as a string, which every server takes.
fn user(content: Option<&Content>) -> WireMessage<'_> {
    let blocks = content.map(Content::blocks).unwrap_or_default();
    if !blocks.iter().any(|block| matches!(block, Block::Image { .. })) {
        let text = content.map(joined).filter(|text| !text.is_empty());
        return text_message("user", text.unwrap_or_else(|| "(no content)".to_owned()));
    }
    let parts = blocks.iter().filter_map(part).collect();
    WireMessage { role: "user", content: Some(WireContent::Parts(parts)), ..WireMessage::default() }
}

fn part(block: &Block) -> Option<WirePart<'_>> {
    match block {
        Block::Text { text, .. } if text.is_empty() => None,
        Block::Text { text, .. } => Some(WirePart::Text { text }),
        Block::Image { data, mime_type, .. } => {
            Some(WirePart::ImageUrl { image_url: ImageUrl { url: format!("data:{mime_type};base64,{data}") } })
        }
        Block::Thinking { .. } | Block::ToolCall(_) | Block::Unknown(_) => None,
    }
}

/// `None` for a message that holds nothing that can be sent.
fn assistant<'a>(message: &'a AssistantMessage, target: &WireTarget, ids: &mut CallIds) -> Option<WireMessage<'a>> {
    let text = message.content.as_ref().map(joined).filter(|text| !text.is_empty());
    let origin = match target.hosts(API, message) {
        true => Origin::Same,
        false => Origin::Other,
    };
    let tool_calls = message.tool_calls().map(|call| WireCall {
        id: ids.call(&call.id, origin),
        kind: "function",
        function: WireFunction { name: &call.name, arguments: arguments_object(&call.arguments).as_str().to_owned() },
    });
    let tool_calls = tool_calls.collect::<Vec<_>>();
    if text.is_none() && tool_calls.is_empty() {
        return None;
    }
    let thinking = |field: &str| {
        let blocks = message.content.as_ref().filter(|_| target.made(API, message)).map(Content::blocks).unwrap_or_default();
        let texts = blocks.iter().filter_map(|block| match block {
            Block::Thinking { thinking, signature, .. } => {
                (signature.as_deref() == Some(field) && !thinking.is_empty()).then_some(thinking.as_str())
            }
            Block::Text { .. } | Block::Image { .. } | Block::ToolCall(_) | Block::Unknown(_) => None,
        });
        Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
    };
    let [reasoning_content, reasoning, reasoning_text] = THINKING_FIELDS.map(thinking);
    let content = text.map(WireContent::Text);
    Some(WireMessage { role: "assistant", content, reasoning_content, reasoning, reasoning_text, tool_calls, tool_call_id: None })
}

fn tool_result<'a>(message: &'a ToolResultMessage, ids: &CallIds, images: &mut Vec<WirePart<'a>>) -> WireMessage<'a> {
    let blocks = message.content.as_ref().map(Content::blocks).unwrap_or_default();
    let shown = images.len();
    images.extend(blocks.iter().filter(|block| matches!(block, Block::Image { .. })).filter_map(part));
    let text = match message.content.as_ref().map(joined).filter(|text| !text.is_empty()) {
        Some(text) => text,
        None if images.len() > shown => "(the image follows)".to_owned(),
        None if message.is_error == Some(true) => "(failed without a message)".to_owned(),
        None => "(no output)".to_owned(),
    };
    WireMessage { tool_call_id: Some(ids.result(&message.tool_call_id)), ..text_message("tool", text) }
}

/// The images of the results before, as a message of their own.
fn image_message<'a>(images: &mut Vec<WirePart<'a>>) -> Option<WireMessage<'a>> {
    if images.is_empty() {
        return None;
    }
    let mut parts = vec![WirePart::Text { text: "Images from the tool results above:" }];
    parts.append(images);
    Some(WireMessage { role: "user", content: Some(WireContent::Parts(parts)), ..WireMessage::default() })
}

/// The texts that are not empty, joined by a line end.
fn joined(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => {
            blocks.iter().filter_map(Block::as_text).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `messages` are JSON lines; `expect` is the list, one message a line.
    fn check(messages: &[&str], expect: &[&str]) {
        let messages = messages.iter().map(|text| Message::from_json(Json::parse(text).expect(text))).collect::<Vec<_>>();
        let target = WireTarget { provider: "p".into(), model: "m".into() };
        let wire = wire_messages(None, &messages, &target).to::<Vec<Json>>().expect("a list");
        assert_eq!(wire.iter().map(Json::as_str).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn text_is_a_string_and_images_are_parts() {
        check(
            &[
                r#"{"role":"user","content":"a"}"#,
                r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"type":"text","text":"b"}]}"#,
                r#"{"role":"user","content":[{"type":"text","text":""},{"type":"image","data":"QUI=","mimeType":"image/jpeg"}]}"#,
                r#"{"role":"user","content":[]}"#,
            ],
            &[
                r#"{"role":"user","content":"a"}"#,
                r#"{"role":"user","content":"a\nb"}"#,
                r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,QUI="}}]}"#,
                r#"{"role":"user","content":"(no content)"}"#,
            ],
        );
    }

    #[test]
    fn calls_and_results_keep_each_other_under_ids_that_are_taken() {
        check(
            &[
                r#"{"role":"assistant","api":"other","content":[{"type":"toolCall","id":"a|b","name":"read","arguments":{"path":1.0}},{"type":"toolCall","id":"ok","name":"ls","arguments":"{bad"}]}"#,
                r#"{"role":"toolResult","toolCallId":"a|b","toolName":"read","content":[{"type":"text","text":"x"}],"isError":false}"#,
                r#"{"role":"toolResult","toolCallId":"ok","toolName":"ls","content":[],"isError":true}"#,
            ],
            &[
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"ab_e84def5928106820","type":"function","function":{"name":"read","arguments":"{\"path\":1.0}"}},{"id":"ok","type":"function","function":{"name":"ls","arguments":"{\"unreadable_arguments\":\"{bad\"}"}}]}"#,
                r#"{"role":"tool","content":"x","tool_call_id":"ab_e84def5928106820"}"#,
                r#"{"role":"tool","content":"(failed without a message)","tool_call_id":"ok"}"#,
            ],
        );
    }

    #[test]
    fn images_of_results_follow_after_the_last_result() {
        check(
            &[
                r#"{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"toolCall","id":"1","name":"r","arguments":{}},{"type":"toolCall","id":"2","name":"r","arguments":{}}]}"#,
                r#"{"role":"toolResult","toolCallId":"1","toolName":"r","content":[{"type":"image","data":"QQ==","mimeType":"image/png"}]}"#,
                r#"{"role":"toolResult","toolCallId":"2","toolName":"r","content":[{"type":"text","text":"x"}]}"#,
                r#"{"role":"user","content":"go"}"#,
            ],
            &[
                r#"{"role":"assistant","content":"t","tool_calls":[{"id":"1","type":"function","function":{"name":"r","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"r","arguments":"{}"}}]}"#,
                r#"{"role":"tool","content":"(the image follows)","tool_call_id":"1"}"#,
                r#"{"role":"tool","content":"x","tool_call_id":"2"}"#,
                r#"{"role":"user","content":[{"type":"text","text":"Images from the tool results above:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}]}"#,
                r#"{"role":"user","content":"go"}"#,
            ],
        );
    }

    #[test]
    fn thinking_goes_back_only_to_the_model_that_made_it() {
        let content = r#""content":[{"type":"thinking","thinking":"hm","thinkingSignature":"reasoning_content"},{"type":"text","text":"a"}]"#;
        let from = |api: &str, provider: &str, model: &str| {
            format!(r#"{{"role":"assistant",{content},"api":"{api}","provider":"{provider}","model":"{model}"}}"#)
        };
        check(
            &[&from(API, "p", "m"), &from(API, "p", "n"), &from(API, "q", "m"), &from("x", "p", "m")],
            &[
                r#"{"role":"assistant","content":"a","reasoning_content":"hm"}"#,
                r#"{"role":"assistant","content":"a"}"#,
                r#"{"role":"assistant","content":"a"}"#,
                r#"{"role":"assistant","content":"a"}"#,
            ],
        );
    }

    #[test]
    fn an_answer_without_anything_to_send_is_left_out() {
        check(
            &[
                r#"{"role":"user","content":"a"}"#,
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":""}]}"#,
            ],
            &[r#"{"role":"user","content":"a"}"#],
        );
    }

    #[test]
    fn arguments_of_any_depth_are_sent() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
        let message =
            format!(r#"{{"role":"assistant","content":[{{"type":"toolCall","id":"1","name":"r","arguments":{deep}}}]}}"#);
        let messages = [Message::from_json(Json::parse(&message).unwrap())];
        let wire = wire_messages(None, &messages, &WireTarget { provider: "p".into(), model: "m".into() });
        assert!(wire.as_str().len() > 100_000);
    }
}
