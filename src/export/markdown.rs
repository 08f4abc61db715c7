//! A session as Markdown that reads well in a pull request: a heading for each turn, tool calls folded.
//!
//! # Invariants
//! - Code stands in fences that are longer than any inside, and text of messages can end none of what stands around it:
//!   see [`quote`].
//! - Images are named, not held: hosts of Markdown show no `data:` addresses.

use std::io::Write;

use crate::export::call::{CallView, Part};
use crate::export::escape::escaped;
use crate::export::plain::{clean, count, dollars, one_line, time};
use crate::export::segments::segments;
use crate::export::{ExportError, Format, Scope, View};
use crate::session::entry::{Entry, EntryKind};
use crate::session::message::{AssistantMessage, Block, Content, Message, ToolCall, ToolResultMessage};
use crate::session::tree::EntryIndex;

mod quote;

use quote::{fenced, inline, nested};

/// The format `markdown`.
#[derive(Debug)]
pub(super) struct Markdown;

impl Format for Markdown {
    fn name(&self) -> &'static str {
        "markdown"
    }

    fn extension(&self) -> &'static str {
        "md"
    }

    fn default_scope(&self) -> Scope {
        Scope::Path
    }

    fn write(&self, view: &View<'_>, out: &mut dyn Write) -> Result<(), ExportError> {
        out.write_all(head(view)?.as_bytes())?;
        let mut document = Document { view, turns: 0, speaker: Speaker::Nobody };
        document.write_entries(view.path(), out)?;
        if view.scope() == Scope::All {
            let all = segments(view.tree(), view.leaf(), |index| view.is_on_path(index));
            for segment in all.iter().filter(|segment| !segment.on_path) {
                let from = segment.parent.and_then(|parent| all[parent].entries.last());
                let from = from.map(|index| format!(" from `{}`", one_line(&view.id(*index).to_string().replace('`', "'"), 80)));
                write!(out, "\n---\n\n## Branch{}\n", from.unwrap_or_default())?;
                document.speaker = Speaker::Nobody;
                document.write_entries(&segment.entries, out)?;
            }
        }
        if let Some(taken) = view.redactions() {
            write!(out, "\n---\n\nTaken out: {taken}.\n")?;
        }
        Ok(())
    }
}

/// The title and a table of what there is to know.
fn head(view: &View<'_>) -> Result<String, ExportError> {
    let (header, stats) = (view.header(), view.stats());
    let mut text = format!("# {}\n\n| Session | {} |\n|---|---|\n", inline(&one_line(&view.title()?, 200)), inline(&header.id));
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("| {name} | {} |\n", inline(&one_line(value, 400))));
        }
    };
    row("Folder", &header.cwd);
    row("Model", &view.model()?.unwrap_or_default());
    row("Started", &time(&header.timestamp));
    let calls = if stats.tool_calls == 1 { "call" } else { "calls" };
    row("Messages", &format!("{} ({} by the user), {} tool {calls}", stats.messages, stats.user_messages, stats.tool_calls));
    let tokens = stats.tokens;
    if tokens.total() > 0 {
        let cached = count(tokens.cache_read.saturating_add(tokens.cache_write));
        row("Tokens", &format!("{} input, {} output, {cached} cached", count(tokens.input), count(tokens.output)));
        row("Cost", &dollars(stats.cost));
    }
    let damage = view.damage();
    if !damage.is_empty() {
        text.push_str(&format!("\n> **Damaged lines: {}**\n", damage.len()));
        for note in damage {
            text.push_str(&format!("> - line {}, byte {}: {}\n", note.line, note.byte_offset, inline(&note.text)));
        }
    }
    Ok(text)
}

/// Whose heading the text stands under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Nobody,
    User,
    Assistant,
}

struct Document<'a> {
    view: &'a View<'a>,
    /// User messages so far.
    turns: usize,
    speaker: Speaker,
}

impl Document<'_> {
    fn write_entries(&mut self, entries: &[EntryIndex], out: &mut dyn Write) -> Result<(), ExportError> {
        let mut at = 0;
        while at < entries.len() {
            let entry = self.view.entry(entries[at])?;
            at += 1;
            let mut text = String::new();
            match entry {
                None => text.push_str("\n*A line that cannot be read*\n"),
                Some(entry) => match entry.message() {
                    Some(Message::Assistant(message)) => {
                        let mut results = Vec::new();
                        while at < entries.len()
                            && self.view.tree().role(entries[at]) == Some(crate::session::message::Role::ToolResult)
                        {
                            results.extend(self.view.entry(entries[at])?);
                            at += 1;
                        }
                        self.assistant(&mut text, message, &results);
                    }
                    _ => self.other(&mut text, &entry),
                },
            }
            if let Some(label) = self.view.label(entries[at - 1]).filter(|_| !text.is_empty()) {
                text.push_str(&format!("\n*Label: {}*\n", inline(&one_line(label, 80))));
            }
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn assistant(&mut self, text: &mut String, message: &AssistantMessage, results: &[Entry]) {
        if self.speaker != Speaker::Assistant {
            self.speaker = Speaker::Assistant;
            let model = message.model.as_deref().map(|model| format!(" · {}", inline(&one_line(model, 80)))).unwrap_or_default();
            text.push_str(&format!("\n### Assistant{model}\n"));
        }
        let mut results: Vec<_> = results.iter().filter_map(tool_result).map(Some).collect();
        for block in message.content.as_ref().map(Content::to_blocks).unwrap_or_default() {
            match &block {
                Block::ToolCall(call) => {
                    let answer = results.iter_mut().find(|result| result.is_some_and(|result| result.tool_call_id == call.id));
                    tool_call(text, call, answer.and_then(Option::take), &self.view.header().cwd);
                }
                Block::Text { .. } | Block::Thinking { .. } | Block::Image { .. } | Block::Unknown(_) => push_block(text, &block),
            }
        }
        for result in results.into_iter().flatten() {
            alone(text, result);
        }
        if message.is_failed() {
            let what = if message.stop_reason.as_deref() == Some("aborted") { "Aborted" } else { "Failed" };
            let why = inline(&one_line(message.error_message.as_deref().unwrap_or_default(), 1_000));
            text.push_str(&format!("\n**{what}** {why}\n"));
        }
    }

    fn other(&mut self, text: &mut String, entry: &Entry) {
        match &entry.kind {
            EntryKind::Message(payload) => self.message(text, &payload.message),
            EntryKind::CustomMessage(payload) if payload.display != Some(false) => {
                self.application(text, &payload.custom_type, payload.content.as_ref())
            }
            EntryKind::Compaction(payload) => self.summary(text, "Compaction: what the model goes on from", &payload.summary),
            EntryKind::BranchSummary(payload) => {
                self.summary(text, "Back from another branch: what happened there", &payload.summary)
            }
            EntryKind::ModelChange(change) => {
                text.push_str(&format!("\n*Model: {}/{}*\n", inline(&change.provider), inline(&change.model_id)));
            }
            EntryKind::ThinkingLevelChange(_)
            | EntryKind::CustomMessage(_)
            | EntryKind::Leaf(_)
            | EntryKind::ActiveToolsChange(_)
            | EntryKind::ContextEdit(_)
            | EntryKind::Custom(_)
            | EntryKind::Label(_)
            | EntryKind::SessionInfo(_)
            | EntryKind::Usage(_)
            | EntryKind::Unknown { .. } => {}
        }
    }

    fn message(&mut self, text: &mut String, message: &Message) {
        match message {
            Message::User(user) => {
                self.turns += 1;
                self.speaker = Speaker::User;
                let said = user.content.as_ref().map(Content::joined_text).unwrap_or_default();
                text.push_str(&format!("\n## {} · {}\n", self.turns, inline(&one_line(&said, 70))));
                for block in user.content.as_ref().map(Content::to_blocks).unwrap_or_default() {
                    let mut inside = String::new();
                    push_block(&mut inside, &block);
                    text.push('\n');
                    for line in inside.trim_matches('\n').lines() {
                        text.push_str(if line.is_empty() { ">" } else { "> " });
                        text.push_str(line);
                        text.push('\n');
                    }
                }
            }
            Message::Assistant(assistant) => self.assistant(text, assistant, &[]),
            Message::ToolResult(result) => alone(text, result),
            Message::BashExecution(run) => {
                let inside = format!("{}{}", fenced("bash", &run.command), fenced("", &clean(&run.output)));
                fold(text, &format!("<b>$</b> <code>{}</code>", escaped(&one_line(&run.command, 120))), &inside);
            }
            Message::Custom(custom) if custom.display != Some(false) => {
                self.application(text, &custom.custom_type, custom.content.as_ref())
            }
            Message::System(_) | Message::Custom(_) => {}
            Message::BranchSummary(message) => self.summary(text, "Back from another branch", &message.summary),
            Message::CompactionSummary(message) => self.summary(text, "Compaction", &message.summary),
            Message::Unknown(json) => fold(text, "A message of another kind", &fenced("json", json.as_str())),
        }
    }

    fn application(&mut self, text: &mut String, custom_type: &str, content: Option<&Content>) {
        self.speaker = Speaker::Nobody;
        text.push_str(&format!("\n### {}\n", inline(&one_line(custom_type, 80))));
        content.map(Content::to_blocks).unwrap_or_default().iter().for_each(|block| push_block(text, block));
    }

    fn summary(&mut self, text: &mut String, what: &str, summary: &str) {
        self.speaker = Speaker::Nobody;
        text.push_str("\n---\n");
        fold(text, &format!("<b>{what}</b>"), &nested(&clean(summary)));
    }
}

fn tool_result(entry: &Entry) -> Option<&ToolResultMessage> {
    match entry.message()? {
        Message::ToolResult(result) => Some(result),
        _ => None,
    }
}

fn push_block(text: &mut String, block: &Block) {
    match block {
        Block::Text { text: said, .. } if said.trim().is_empty() => {}
        Block::Text { text: said, .. } => text.push_str(&format!("\n{}\n", nested(&clean(said)))),
        Block::Thinking { thinking, .. } if thinking.trim().is_empty() => {}
        Block::Thinking { thinking, .. } => fold(text, "<i>Thinking</i>", &nested(&clean(thinking))),
        Block::Image { data, mime_type, .. } => {
            text.push_str(&format!("\n*Image ({}, {} bytes)*\n", inline(&one_line(mime_type, 60)), data.len() / 4 * 3));
        }
        Block::ToolCall(call) => tool_call(text, call, None, ""),
        Block::Unknown(json) => fold(text, "A block of another kind", &fenced("json", json.as_str())),
    }
}

/// A part that opens when it is asked for. `title` is HTML, `inside` Markdown.
fn fold(text: &mut String, title: &str, inside: &str) {
    text.push_str(&format!("\n<details><summary>{title}</summary>\n\n{}\n\n</details>\n", inside.trim_matches('\n')));
}

fn tool_call(text: &mut String, call: &ToolCall, result: Option<&ToolResultMessage>, cwd: &str) {
    let shown = CallView::of(call, result, cwd);
    let mut inside = String::new();
    for part in &shown.parts {
        match part {
            Part::Code { name, language, text } => {
                if let Some(name) = name {
                    inside.push_str(&format!("{}:\n\n", inline(&one_line(name, 60))));
                }
                inside.push_str(&fenced(language, &clean(text)));
            }
            Part::Diff(lines) => {
                let diff: String = lines.iter().map(|line| format!("{}{}\n", line.sign.as_char(), line.text)).collect();
                inside.push_str(&fenced("diff", &clean(&diff)));
            }
        }
        inside.push('\n');
    }
    let state = match result {
        None => " · no result",
        Some(result) if result.is_error == Some(true) => " · failed",
        Some(_) => "",
    };
    if let Some(result) = result {
        push_result(&mut inside, result, shown.result_language);
    }
    let title = format!("<b>{}</b> <code>{}</code>{state}", escaped(&one_line(&call.name, 60)), escaped(&shown.summary));
    fold(text, &title, &inside);
}

fn push_result(inside: &mut String, result: &ToolResultMessage, language: &str) {
    for block in result.content.as_ref().map(Content::to_blocks).unwrap_or_default() {
        match &block {
            Block::Text { text, .. } => inside.push_str(&format!("{}\n", fenced(language, &clean(text)))),
            Block::Thinking { .. } | Block::Image { .. } | Block::ToolCall(_) | Block::Unknown(_) => push_block(inside, &block),
        }
    }
}

/// A result that stands apart from its call.
fn alone(text: &mut String, result: &ToolResultMessage) {
    let mut inside = String::new();
    push_result(&mut inside, result, "");
    fold(text, &format!("Result of <b>{}</b>", escaped(&one_line(&result.tool_name, 60))), &inside);
}
