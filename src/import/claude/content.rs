//! Blocks, usage and stop reasons of Claude Code, in Pi's shapes.
//!
//! # Invariants
//! - A block without a place is named by its type, and is never dropped here.

use crate::import::blocks::{count, details_of, marker, thinking, tool_call, usage};
use crate::session::json::{Extra, Fields};
use crate::session::message::{Block, Usage};

/// The kind of a block that is no object.
pub(super) const UNREADABLE: &str = "block";

/// A block of content, or its kind and what stands for it.
pub(super) fn read_block(fields: &Fields<'_>) -> Result<Block, (String, Option<Block>)> {
    let wire_type = fields.get::<String>("type").unwrap_or_default();
    let block = match wire_type.as_str() {
        "text" => fields.get::<String>("text").map(Block::text),
        "thinking" => fields.get::<String>("thinking").map(|text| thinking(text, fields.get("signature"))),
        "redacted_thinking" => fields.get::<String>("data").map(|data| {
            let mut extra = Extra::default();
            if let Some(yes) = details_of(&true) {
                extra.set("redacted", yes);
            }
            Block::Thinking { thinking: "[Reasoning redacted]".to_owned(), signature: Some(data), extra }
        }),
        "tool_use" => {
            let name = fields.get::<String>("name").unwrap_or_default();
            fields.get::<String>("id").map(|id| tool_call(id, name, fields.get("input")))
        }
        "image" => fields.get::<Fields<'_>>("source").and_then(|source| {
            let (data, mime_type) = (source.get::<String>("data")?, source.get::<String>("media_type")?);
            Some(Block::Image { data, mime_type, extra: Extra::default() })
        }),
        "tool_reference" => fields.get::<String>("tool_name").map(|name| Block::text(format!("[tool {name}]"))),
        _ => None,
    };
    block.ok_or_else(|| {
        let name = if wire_type.is_empty() { UNREADABLE.to_owned() } else { format!("{UNREADABLE}:{wire_type}") };
        let is_shown = matches!(wire_type.as_str(), "image" | "document");
        (name, is_shown.then(|| marker(&wire_type)))
    })
}

pub(super) fn read_usage(fields: &Fields<'_>) -> Usage {
    let cached = (count(fields, "cache_read_input_tokens"), count(fields, "cache_creation_input_tokens"));
    usage(count(fields, "input_tokens"), count(fields, "output_tokens"), cached.0, cached.1)
}

pub(super) fn stop_reason(stop: Option<&str>, has_calls: bool) -> &'static str {
    match stop {
        Some("max_tokens" | "model_context_window_exceeded") => "length",
        _ if has_calls => "toolUse",
        _ => "stop",
    }
}

/// Whether `new` is `old` again, or the same text further on.
pub(super) fn is_part_of(old: &Block, new: &Block) -> bool {
    match (old, new) {
        (Block::ToolCall(old), Block::ToolCall(new)) => old.id == new.id,
        (Block::Text { text: old, .. }, Block::Text { text: new, .. }) => !old.is_empty() && new.starts_with(old.as_str()),
        (Block::Thinking { thinking: old, .. }, Block::Thinking { thinking: new, .. }) => {
            !old.is_empty() && new.starts_with(old.as_str())
        }
        (old, new) => old == new,
    }
}
