//! Events as programs see them: one JSON object a line, `type` first.
//!
//! # Invariants
//! - Every event has a type of its own; the keys of one type are always the same.

use serde::Serialize;

use crate::agent::{AgentEvent, EndReason};
use crate::llm::StreamEvent;
use crate::session::json::Json;
use crate::session::message::{Content, Message};

/// An event, by the name of [`AgentEvent::name`]; `Session` comes first and tells where it happens.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum EventView<'a> {
    Session { id: &'a str, path: String, cwd: String, model: String, is_new: bool },
    AgentStart,
    TurnStart { turn: u32 },
    MessageStart { message: &'a Message },
    MessageUpdate { update: UpdateView<'a> },
    MessageEnd { message: &'a Message },
    ToolExecutionStart { tool_call_id: &'a str, tool_name: &'a str, args: &'a Json },
    ToolExecutionUpdate { tool_call_id: &'a str, tool_name: &'a str, text: &'a str },
    ToolExecutionEnd { tool_call_id: &'a str, tool_name: &'a str, result: ResultView<'a>, is_error: bool },
    TurnEnd { turn: u32, message: Message, tool_results: &'a [Message] },
    SavePoint { entry_ids: Vec<&'a str> },
    AgentEnd { reason: &'static str, error: Option<String> },
    CompactionStart { cause: &'static str, tokens_before: u64 },
    CompactionEnd { cause: &'static str, compaction: CompactionView<'a> },
    CompactionFailed { cause: &'static str, error: &'a str },
    Navigation { leaf_id: Option<&'a str>, from_id: Option<&'a str>, summary_id: Option<&'a str>, editor_text: Option<&'a str> },
    Retry { tries: u32, delay_ms: u64, error: &'a str },
    Warning { message: String },
}

/// A piece of an answer.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum UpdateView<'a> {
    Start,
    TextDelta { index: usize, text: &'a str },
    ThinkingDelta { index: usize, text: &'a str },
    ToolCallStart { index: usize, id: &'a str, name: &'a str },
    ToolCallDelta { index: usize, text: &'a str },
    Done,
}

/// What a tool gave.
#[derive(Debug, Serialize)]
pub struct ResultView<'a> {
    content: &'a Content,
    details: Option<&'a Json>,
}

/// A compaction that was written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionView<'a> {
    id: &'a str,
    first_kept_entry_id: &'a str,
    tokens_before: u64,
    tokens_after: u64,
    summary: &'a str,
    is_fallback: bool,
}

impl<'a> EventView<'a> {
    /// The view of an event.
    pub fn of(event: &'a AgentEvent) -> Self {
        match event {
            AgentEvent::AgentStart => Self::AgentStart,
            AgentEvent::TurnStart { turn } => Self::TurnStart { turn: *turn },
            AgentEvent::MessageStart { message } => Self::MessageStart { message },
            AgentEvent::MessageUpdate { update } => Self::MessageUpdate { update: UpdateView::of(update) },
            AgentEvent::MessageEnd { message } => Self::MessageEnd { message },
            AgentEvent::ToolExecutionStart { call_id, tool_name, arguments } => {
                Self::ToolExecutionStart { tool_call_id: call_id, tool_name, args: arguments }
            }
            AgentEvent::ToolExecutionUpdate { call_id, tool_name, text } => {
                Self::ToolExecutionUpdate { tool_call_id: call_id, tool_name, text }
            }
            AgentEvent::ToolExecutionEnd { call_id, tool_name, output } => Self::ToolExecutionEnd {
                tool_call_id: call_id,
                tool_name,
                result: ResultView { content: &output.content, details: output.details.as_ref() },
                is_error: output.is_error,
            },
            AgentEvent::TurnEnd { turn, answer, results } => Self::TurnEnd {
                turn: *turn,
                message: Message::Assistant(Box::new((**answer).clone())),
                tool_results: results.as_slice(),
            },
            AgentEvent::SavePoint { entry_ids } => {
                Self::SavePoint { entry_ids: entry_ids.iter().map(|id| id.as_str()).collect() }
            }
            AgentEvent::AgentEnd { reason } => Self::AgentEnd { reason: reason_name(reason), error: reason_error(reason) },
            AgentEvent::CompactionStart { cause, tokens_before } => {
                Self::CompactionStart { cause: cause.as_str(), tokens_before: *tokens_before }
            }
            AgentEvent::CompactionEnd { cause, compaction } => Self::CompactionEnd {
                cause: cause.as_str(),
                compaction: CompactionView {
                    id: compaction.id.as_str(),
                    first_kept_entry_id: compaction.first_kept_entry_id.as_str(),
                    tokens_before: compaction.tokens_before,
                    tokens_after: compaction.tokens_after,
                    summary: &compaction.summary,
                    is_fallback: compaction.is_fallback,
                },
            },
            AgentEvent::CompactionFailed { cause, error } => Self::CompactionFailed { cause: cause.as_str(), error },
            AgentEvent::Navigated { navigation } => Self::Navigation {
                leaf_id: navigation.leaf_id.as_ref().map(|id| id.as_str()),
                from_id: navigation.from_id.as_ref().map(|id| id.as_str()),
                summary_id: navigation.summary_id.as_ref().map(|id| id.as_str()),
                editor_text: navigation.editor_text.as_deref(),
            },
            AgentEvent::Retry { tries, delay_ms, error } => Self::Retry { tries: *tries, delay_ms: *delay_ms, error },
            AgentEvent::Warning(warning) => Self::Warning { message: warning.to_string() },
        }
    }
}

impl<'a> UpdateView<'a> {
    fn of(update: &'a StreamEvent) -> Self {
        match update {
            StreamEvent::Start => Self::Start,
            StreamEvent::TextDelta { index, text } => Self::TextDelta { index: *index, text },
            StreamEvent::ThinkingDelta { index, text } => Self::ThinkingDelta { index: *index, text },
            StreamEvent::ToolCallStart { index, id, name } => Self::ToolCallStart { index: *index, id, name },
            StreamEvent::ToolCallDelta { index, text } => Self::ToolCallDelta { index: *index, text },
            // The message comes with `message_end`.
            StreamEvent::Done(_) => Self::Done,
        }
    }
}

fn reason_name(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Done => "done",
        EndReason::Stopped => "stopped",
        EndReason::MaxTurns(_) => "max_turns",
        EndReason::Aborted => "aborted",
        EndReason::Failed(_) => "failed",
        EndReason::Broken(_) => "broken",
    }
}

fn reason_error(reason: &EndReason) -> Option<String> {
    match reason {
        EndReason::Failed(error) => Some(error.to_string()),
        EndReason::Broken(error) => Some(error.clone()),
        EndReason::Done | EndReason::Stopped | EndReason::MaxTurns(_) | EndReason::Aborted => None,
    }
}
