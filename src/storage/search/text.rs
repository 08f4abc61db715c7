//! What of an entry is searched: what users and models said, tool calls and their results, commands, names and labels.
//!
//! # Invariants
//! - A text is what a person would read: no JSON escapes are left in it.
//! - What is not searched (thinking, images, summaries, system prompts, details of tools) gives no text.

use crate::session::entry::{Entry, EntryKind, EntryType};
use crate::session::json::Json;
use crate::session::message::{Block, Content, Message, Role};

/// Whether entries of this type and role have texts at all.
pub(super) fn is_searched(entry_type: EntryType, role: Option<Role>) -> bool {
    match entry_type {
        EntryType::Message => match role {
            Some(Role::User | Role::Assistant | Role::ToolResult | Role::BashExecution) => true,
            Some(Role::Custom | Role::System | Role::BranchSummary | Role::CompactionSummary | Role::Unknown) | None => false,
        },
        EntryType::Label | EntryType::SessionInfo => true,
        EntryType::Compaction
        | EntryType::BranchSummary
        | EntryType::Leaf
        | EntryType::ModelChange
        | EntryType::ThinkingLevelChange
        | EntryType::ActiveToolsChange
        | EntryType::ContextEdit
        | EntryType::Custom
        | EntryType::CustomMessage
        | EntryType::Usage
        | EntryType::Unknown => false,
    }
}

/// The texts of an entry, in order.
pub(super) fn texts(entry: &Entry) -> Vec<String> {
    match &entry.kind {
        EntryKind::Message(entry) => message_texts(&entry.message),
        EntryKind::Label(label) => label.label.iter().cloned().collect(),
        EntryKind::SessionInfo(info) => info.name.iter().cloned().collect(),
        EntryKind::Compaction(_)
        | EntryKind::BranchSummary(_)
        | EntryKind::Leaf(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Custom(_)
        | EntryKind::CustomMessage(_)
        | EntryKind::Usage(_)
        | EntryKind::Unknown { .. } => Vec::new(),
    }
}

fn message_texts(message: &Message) -> Vec<String> {
    match message {
        Message::User(_) | Message::Assistant(_) | Message::ToolResult(_) => match message.content() {
            Some(Content::Text(text)) => vec![text.clone()],
            Some(Content::Blocks(blocks)) => blocks.iter().flat_map(block_texts).collect(),
            None => Vec::new(),
        },
        Message::BashExecution(run) => vec![run.command.clone(), run.output.clone()],
        Message::Custom(_)
        | Message::System(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_)
        | Message::Unknown(_) => Vec::new(),
    }
}

fn block_texts(block: &Block) -> Vec<String> {
    match block {
        Block::Text { text, .. } => vec![text.clone()],
        Block::ToolCall(call) => vec![call.name.clone(), readable(&call.arguments)],
        Block::Thinking { .. } | Block::Image { .. } | Block::Unknown(_) => Vec::new(),
    }
}

/// JSON with the escapes in its strings resolved.
fn readable(json: &Json) -> String {
    let mut rest = json.as_str();
    let mut out = String::with_capacity(rest.len());
    while let Some(quote) = rest.find('"') {
        out.push_str(&rest[..=quote]);
        let len = string_len(&rest.as_bytes()[quote + 1..]);
        let (inner, behind) = rest[quote + 1..].split_at(len);
        if inner.contains('\\') {
            let text: Option<String> = serde_json::from_str(&format!("\"{inner}\"")).ok();
            out.push_str(text.as_deref().unwrap_or(inner));
        } else {
            out.push_str(inner);
        }
        let closing = behind.len().min(1);
        out.push_str(&behind[..closing]);
        rest = &behind[closing..];
    }
    out.push_str(rest);
    out
}

/// How long a string is before its closing quote.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::entry::EntryId;
    use crate::session::json::Fields;

    fn check(payload: &str, expect: &[&str]) {
        let kind = EntryKind::read(Fields::parse(payload).expect(payload));
        let entry = Entry { id: EntryId::from("a"), parent_id: None, timestamp: String::new(), kind };
        assert_eq!(texts(&entry), expect, "{payload}");
    }

    #[test]
    fn what_is_said_called_and_named_is_searched() {
        check(r#"{"type":"message","message":{"role":"user","content":"a\nb"}}"#, &["a\nb"]);
        check(
            r#"{"type":"message","message":{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","data":"x","mimeType":"y"},{"type":"text","text":"b"}]}}"#,
            &["a", "b"],
        );
        check(
            r#"{"type":"message","message":{"role":"assistant","content":[{"type":"thinking","thinking":"no"},{"type":"toolCall","id":"c","name":"bash","arguments":{"command":"echo \"x\\n\"","n":[1,"\u00e9"]}}]}}"#,
            &["bash", "{\"command\":\"echo \"x\\n\"\",\"n\":[1,\"é\"]}"],
        );
        check(
            r#"{"type":"message","message":{"role":"toolResult","toolCallId":"c","toolName":"bash","content":[{"type":"text","text":"r"}],"isError":false}}"#,
            &["r"],
        );
        check(r#"{"type":"message","message":{"role":"bashExecution","command":"ls","output":"o"}}"#, &["ls", "o"]);
        check(r#"{"type":"session_info","name":"n"}"#, &["n"]);
        check(r#"{"type":"label","targetId":"a","label":"l"}"#, &["l"]);
        check(r#"{"type":"label","targetId":"a"}"#, &[]);
        check(r#"{"type":"compaction","summary":"s"}"#, &[]);
    }
}
