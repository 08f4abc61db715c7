//! From context messages to the messages of a request: what a provider gets, in an order that it accepts.
//!
//! # Invariants
//! - A request holds `user`, `assistant` and `toolResult` messages only; the system prompt stands apart.
//! - Each result follows its call, each call has exactly one result, and the list never starts with a result.
//! - Assistant messages that failed or were aborted are left out, with the results of their calls.
//! - The words around commands and summaries are fixed; the command, its output and the summary stand whole inside.

use std::collections::HashMap;

use crate::session::context::ProjectedMessage;
use crate::session::json::{Extra, Fields, Json};
use crate::session::message::{BashExecution, Block, Content, Message, SystemMessage, ToolResultMessage, UserMessage};

/// Tool results that micro-compaction leaves whole, counted from the end.
pub const MICRO_KEPT_RESULTS: usize = 3;
/// Characters from which on micro-compaction shortens an older result.
pub const MICRO_MIN_CHARS: usize = 100;
/// Characters from which on truncation cuts a result.
pub const TRUNCATE_MIN_CHARS: usize = 8_000;
/// Characters that truncation keeps at each end.
pub const TRUNCATE_KEPT_CHARS: usize = 4_000;

/// Ways to make a request smaller. Both are off by default, and neither changes a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// Micro-compaction: older tool results become `Previous: used NAME`, except those of `read`.
    pub micro_compaction: bool,
    /// Truncation: long tool results lose their middle.
    pub truncation: bool,
}

/// The messages of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The system prompt and tools that the session itself holds (Pi 1.x), replayed.
    pub system: SystemReplay,
    /// The messages, each with the entry that it came from; a result that was added has the entry of its call.
    pub messages: Vec<ProjectedMessage>,
}

/// Builds the messages of a request. `O(messages)`.
pub fn build_request(context: Vec<ProjectedMessage>, options: RequestOptions) -> Request {
    let mut system = SystemReplay::default();
    let mut messages = Vec::with_capacity(context.len());
    for ProjectedMessage { message, source } in context {
        if let Message::System(message) = &message {
            system.apply(message);
        } else if let Some(message) = to_request_message(message) {
            messages.push(ProjectedMessage { message, source });
        }
    }
    let mut messages = pair_results(messages);
    if options.micro_compaction {
        compact_old_results(&mut messages);
    }
    if options.truncation {
        for result in results_mut(&mut messages) {
            truncate_result(result);
        }
    }
    Request { system, messages }
}

/// What a context message is for a provider, before pairing; `None` where a provider does not get it.
/// `system` messages stay as they are: they belong to the prompt.
pub fn to_request_message(message: Message) -> Option<Message> {
    match message {
        Message::User(_) | Message::Assistant(_) | Message::ToolResult(_) | Message::System(_) => Some(message),
        Message::BashExecution(run) if run.exclude_from_context == Some(true) => None,
        Message::BashExecution(run) => Some(user(Content::text_block(describe_execution(&run)), run.timestamp)),
        Message::Custom(custom) => {
            let content = match custom.content {
                Some(Content::Text(text)) => Content::text_block(text),
                Some(blocks) => blocks,
                None => Content::default(),
            };
            Some(user(content, custom.timestamp))
        }
        Message::BranchSummary(summary) => {
            Some(user(Content::text_block(describe_branch_summary(&summary.summary)), summary.timestamp))
        }
        Message::CompactionSummary(summary) => {
            Some(user(Content::text_block(describe_compaction(&summary.summary)), summary.timestamp))
        }
        Message::Unknown(_) => None,
    }
}

fn user(content: Content, timestamp: Option<i64>) -> Message {
    Message::User(UserMessage { content: Some(content), timestamp, extra: Extra::default() })
}

fn describe_compaction(summary: &str) -> String {
    format!("Earlier parts of this session were compacted. This summary stands for them:\n\n<summary>\n{summary}\n</summary>")
}

fn describe_branch_summary(summary: &str) -> String {
    format!(
        "The session went on from here on another branch, which was then left. This is a summary of that branch:\n\n\
         <summary>\n{summary}\n</summary>"
    )
}

fn describe_execution(run: &BashExecution) -> String {
    let mut text = format!("The user ran this command:\n```\n{}\n```\n", run.command);
    if run.output.is_empty() {
        text.push_str("It printed nothing.");
    } else {
        text.push_str(&format!("It printed:\n```\n{}\n```", run.output));
    }
    if run.cancelled == Some(true) {
        text.push_str("\nThe user stopped it.");
    } else if let Some(code) = run.exit_code.filter(|code| *code != 0) {
        text.push_str(&format!("\nIt ended with exit code {code}."));
    }
    if let (Some(true), Some(path)) = (run.truncated, &run.full_output_path) {
        text.push_str(&format!("\nThe output is cut here; all of it is in {path}"));
    }
    text
}

/// Puts each result behind its call, leaves out what has no partner and answers calls that have none.
fn pair_results(messages: Vec<ProjectedMessage>) -> Vec<ProjectedMessage> {
    /// A message that stays, and for an assistant message the results of its calls, in the order they came.
    struct Slot {
        message: ProjectedMessage,
        results: Vec<ProjectedMessage>,
    }
    /// Where a result belongs whose call is still open.
    enum Open {
        At(usize),
        /// The call was in a message that is left out; so is its result.
        Dropped,
    }
    let mut slots: Vec<Slot> = Vec::with_capacity(messages.len());
    let mut open: HashMap<String, Open> = HashMap::new();
    for projected in messages {
        match &projected.message {
            Message::Assistant(assistant) if assistant.is_failed() => {
                open.extend(assistant.tool_calls().map(|call| (call.id.clone(), Open::Dropped)));
            }
            Message::Assistant(assistant) => {
                open.extend(assistant.tool_calls().map(|call| (call.id.clone(), Open::At(slots.len()))));
                slots.push(Slot { message: projected, results: Vec::new() });
            }
            Message::ToolResult(result) => {
                if let Some(Open::At(slot)) = open.remove(&result.tool_call_id) {
                    slots[slot].results.push(projected);
                }
            }
            Message::User(_)
            | Message::BashExecution(_)
            | Message::Custom(_)
            | Message::System(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_)
            | Message::Unknown(_) => slots.push(Slot { message: projected, results: Vec::new() }),
        }
    }
    let mut paired = Vec::with_capacity(slots.len());
    for Slot { message, mut results } in slots {
        if let Message::Assistant(assistant) = &message.message {
            for call in assistant.tool_calls() {
                let answered = results.iter().any(|result| result_call_id(&result.message) == Some(call.id.as_str()));
                if !answered {
                    let interrupted = interrupted_result(&call.id, &call.name, assistant.timestamp);
                    results.push(ProjectedMessage { message: interrupted, source: message.source });
                }
            }
        }
        paired.push(message);
        paired.append(&mut results);
    }
    paired
}

fn result_call_id(message: &Message) -> Option<&str> {
    if let Message::ToolResult(result) = message { Some(&result.tool_call_id) } else { None }
}

/// The result of a call that never came back.
pub fn interrupted_result(call_id: &str, tool_name: &str, timestamp: Option<i64>) -> Message {
    let text = "This call was interrupted before its result was stored. It may have run, in part or whole.";
    Message::ToolResult(ToolResultMessage {
        tool_call_id: call_id.to_owned(),
        tool_name: tool_name.to_owned(),
        content: Some(Content::text_block(text)),
        is_error: Some(true),
        timestamp,
        ..ToolResultMessage::default()
    })
}

fn results_mut(messages: &mut [ProjectedMessage]) -> impl DoubleEndedIterator<Item = &mut ToolResultMessage> {
    messages
        .iter_mut()
        .filter_map(|projected| if let Message::ToolResult(result) = &mut projected.message { Some(result) } else { None })
}

fn compact_old_results(messages: &mut [ProjectedMessage]) {
    for result in results_mut(messages).rev().skip(MICRO_KEPT_RESULTS) {
        let chars = result.content.as_ref().map_or(0, |content| content.joined_text().chars().count());
        if chars > MICRO_MIN_CHARS && result.tool_name != "read" {
            result.content = Some(Content::text_block(format!("Previous: used {}", result.tool_name)));
        }
    }
}

fn truncate_result(result: &mut ToolResultMessage) {
    let Some(content) = &result.content else { return };
    let text = content.joined_text();
    let Some(cut) = cut_middle(&text) else { return };
    let others = content.blocks().iter().filter(|block| block.as_text().is_none()).cloned();
    result.content = Some(Content::Blocks([Block::text(cut)].into_iter().chain(others).collect()));
}

/// The first and the last characters of a long text around a line that says what was cut.
fn cut_middle(text: &str) -> Option<String> {
    let chars = text.chars().count();
    if chars <= TRUNCATE_MIN_CHARS {
        return None;
    }
    let at = |char: usize| text.char_indices().nth(char).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..at(TRUNCATE_KEPT_CHARS)], &text[at(chars - TRUNCATE_KEPT_CHARS)..]);
    Some(format!("{head}\n[{} characters cut from the middle of this result]\n{tail}", chars - 2 * TRUNCATE_KEPT_CHARS))
}

/// The system prompt that a session's `system` messages come to, replayed in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemReplay {
    /// The texts of the messages themselves.
    contents: Vec<String>,
    /// Named parts, in order of first appearance; one that was removed and comes again stands last.
    sections: Vec<(String, String)>,
    /// Tool declarations by name, in order.
    tools: Vec<(String, Json)>,
}

impl SystemReplay {
    /// Applies one message: its content is added, its sections patch those of the same name, `toolsRemoved` goes
    /// before `toolsAdded`.
    pub fn apply(&mut self, message: &SystemMessage) {
        let content = message.content.as_ref().map(Content::joined_text).unwrap_or_default();
        if !content.is_empty() {
            self.contents.push(content);
        }
        let sections = message.extra.get("sections");
        for (name, text) in sections.and_then(Json::fields).iter().flat_map(Fields::iter) {
            // A part that is neither a text nor null says nothing.
            let Ok(text) = serde_json::from_str::<Option<String>>(text) else { continue };
            let known = self.sections.iter().position(|(known, _)| known == name);
            match (known, text) {
                (Some(at), Some(text)) => self.sections[at].1 = text,
                (Some(at), None) => drop(self.sections.remove(at)),
                (None, Some(text)) => self.sections.push((name.to_owned(), text)),
                (None, None) => {}
            }
        }
        for tool in message.extra.get("toolsRemoved").and_then(Json::to::<Vec<Json>>).unwrap_or_default() {
            let name = tool_name(&tool);
            self.tools.retain(|(known, _)| Some(known) != name.as_ref());
        }
        for tool in message.extra.get("toolsAdded").and_then(Json::to::<Vec<Json>>).unwrap_or_default() {
            let Some(name) = tool_name(&tool) else { continue };
            match self.tools.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = tool,
                None => self.tools.push((name, tool)),
            }
        }
    }

    /// The prompt: contents, then sections, joined by blank lines; `None` where there is neither.
    pub fn prompt(&self) -> Option<String> {
        let sections = self.sections.iter().map(|(_, text)| text.as_str()).filter(|text| !text.is_empty());
        let parts: Vec<_> = self.contents.iter().map(String::as_str).chain(sections).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// The declarations of the tools.
    pub fn tools(&self) -> impl Iterator<Item = &Json> {
        self.tools.iter().map(|(_, tool)| tool)
    }

    /// One `system` message that holds the whole state; `None` where there is none. Compactions store it.
    pub fn to_message(&self, timestamp: i64) -> Option<SystemMessage> {
        if self.contents.is_empty() && self.sections.is_empty() && self.tools.is_empty() {
            return None;
        }
        let mut extra = Extra::default();
        if !self.sections.is_empty() {
            let mut object = Vec::new();
            for (name, text) in &self.sections {
                object.push(format!("{}:{}", serde_json::to_string(name).ok()?, serde_json::to_string(text).ok()?));
            }
            extra.set("sections", Json::parse(&format!("{{{}}}", object.join(","))).ok()?);
        }
        if !self.tools.is_empty() {
            extra.set("toolsAdded", Json::of(&self.tools().collect::<Vec<_>>()).ok()?);
        }
        let content = Some(Content::Text(self.contents.join("\n\n")));
        Some(SystemMessage { content, timestamp: Some(timestamp), extra })
    }
}

/// The name of a tool, from its declaration or from what removes it.
fn tool_name(tool: &Json) -> Option<String> {
    tool.fields()?.get("name")
}

/// The messages alone.
pub fn into_messages(messages: Vec<ProjectedMessage>) -> Vec<Message> {
    messages.into_iter().map(|projected| projected.message).collect()
}

#[cfg(test)]
mod tests;
