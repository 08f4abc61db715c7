//! Shows what happens in a run.
//!
//! # Invariants
//! - Text of models and tools is made fit for a terminal before it is shown.
//! - For programs standard output holds the events, or the last answer alone.

use std::collections::HashMap;

use crate::agent::AgentEvent;
use crate::agent::event::CompactionCause;
use crate::agent::tools::ToolOutput;
use crate::cli::chat::event_view::EventView;
use crate::cli::error::CliError;
use crate::cli::text::{cut, lines, one_line, short};
use crate::cli::ui::{Look, Ui};
use crate::cli::view::{PIPE_COLUMNS, count, grouped};
use crate::llm::StreamEvent;
use crate::session::json::Json;
use crate::session::message::Message;

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// To a person, as it comes.
    Live,
    /// Tools and notes beside the output; the answer is printed at the end by the caller.
    Answer,
    /// Every event as JSON.
    Events,
}

/// Shows events.
#[derive(Debug)]
pub struct Printer {
    show: Show,
    /// What is open in the line where text goes: nothing, text or thinking.
    open: Open,
    /// The calls that run, with what they are told by.
    calls: HashMap<String, String>,
    /// Messages of the user that need not be repeated, for the user typed them.
    typed: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Text,
    Thinking,
}

impl Printer {
    /// A printer.
    pub fn new(show: Show) -> Self {
        Self { show, open: Open::Nothing, calls: HashMap::new(), typed: 0 }
    }

    /// The next message of the user was typed here, so it is not repeated.
    pub fn expect_typed(&mut self) {
        self.typed = 1;
    }

    /// Shows an event.
    pub fn event(&mut self, event: &AgentEvent, ui: &mut Ui) -> Result<(), CliError> {
        match self.show {
            Show::Events => {
                ui.json(&EventView::of(event))?;
                // Programs read along.
                ui.flush()
            }
            Show::Live | Show::Answer => self.tell(event, ui),
        }
    }

    /// Ends the line that text is in.
    pub fn end_line(&mut self, ui: &mut Ui) -> Result<(), CliError> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => Ok(()),
            Open::Text | Open::Thinking => ui.line(""),
        }
    }

    fn tell(&mut self, event: &AgentEvent, ui: &mut Ui) -> Result<(), CliError> {
        match event {
            AgentEvent::MessageUpdate { update } if self.show == Show::Live => self.piece(update, ui)?,
            AgentEvent::MessageEnd { message: Message::User(_) } if self.typed > 0 => self.typed -= 1,
            AgentEvent::MessageEnd { message: message @ Message::User(_) } if self.show == Show::Live => {
                self.end_line(ui)?;
                let text = format!("> {}", lines(&message.text()).trim_end());
                let text = ui.paint(Look::Strong, &text);
                ui.line(&text)?;
            }
            AgentEvent::MessageEnd { message: Message::Assistant(_) } => self.end_line(ui)?,
            AgentEvent::ToolExecutionStart { call_id, tool_name, arguments } => {
                self.end_line(ui)?;
                let told = tool_line(tool_name, arguments);
                ui.status(&format!("… {told}"));
                self.calls.insert(call_id.clone(), told);
            }
            AgentEvent::ToolExecutionEnd { call_id, tool_name, output } => {
                let told = self.calls.remove(call_id).unwrap_or_else(|| one_line(tool_name));
                tool_done(&told, output, ui);
                if let Some(waiting) = self.calls.values().next() {
                    ui.status(&format!("… {waiting}"));
                }
            }
            AgentEvent::CompactionStart { tokens_before, .. } => {
                self.end_line(ui)?;
                ui.status(&format!("summarizing; the context holds about {} …", count(*tokens_before, "token", "tokens")));
            }
            AgentEvent::CompactionEnd { compaction, .. } => {
                ui.clear_status();
                ui.note(&format!(
                    "compacted the context from about {} to about {} (estimates)",
                    grouped(compaction.tokens_before),
                    count(compaction.tokens_after, "token", "tokens")
                ));
            }
            AgentEvent::CompactionFailed { cause, error } => {
                ui.clear_status();
                // What the user asked for fails with an error of its own.
                if *cause != CompactionCause::Command {
                    ui.warn(&format!("the context was not compacted: {error}"));
                }
            }
            AgentEvent::Retry { tries, delay_ms, error } => {
                self.end_line(ui)?;
                let seconds = delay_ms.div_ceil(1000);
                ui.note(&format!("{error}; try {} in {}", tries + 1, count(seconds, "second", "seconds")));
            }
            AgentEvent::Warning(warning) => {
                self.end_line(ui)?;
                ui.warn(&warning.to_string());
            }
            AgentEvent::AgentEnd { .. } => {
                self.end_line(ui)?;
                ui.clear_status();
                self.calls.clear();
            }
            AgentEvent::AgentStart
            | AgentEvent::TurnStart { .. }
            | AgentEvent::MessageStart { .. }
            | AgentEvent::MessageUpdate { .. }
            | AgentEvent::MessageEnd { .. }
            | AgentEvent::ToolExecutionUpdate { .. }
            | AgentEvent::TurnEnd { .. }
            | AgentEvent::SavePoint { .. }
            | AgentEvent::Navigated { .. } => {}
        }
        ui.flush()
    }

    fn piece(&mut self, update: &StreamEvent, ui: &mut Ui) -> Result<(), CliError> {
        let (text, kind) = match update {
            StreamEvent::TextDelta { text, .. } => (text, Open::Text),
            StreamEvent::ThinkingDelta { text, .. } => (text, Open::Thinking),
            StreamEvent::Start | StreamEvent::ToolCallStart { .. } | StreamEvent::ToolCallDelta { .. } | StreamEvent::Done(_) => {
                return Ok(());
            }
        };
        if self.open != kind {
            self.end_line(ui)?;
        }
        let text = lines(text);
        // Blank lines in front of an answer are noise.
        let text = if self.open == Open::Nothing { text.trim_start_matches('\n') } else { &text };
        if text.is_empty() {
            return Ok(());
        }
        self.open = kind;
        match kind {
            Open::Thinking => {
                let text = ui.paint(Look::Dim, text);
                ui.data(&text)
            }
            Open::Text | Open::Nothing => ui.data(text),
        }
    }
}

/// A call in one line: the tool, and what of its arguments tells most.
fn tool_line(name: &str, arguments: &Json) -> String {
    let field = |field: &str| arguments.fields().and_then(|fields| fields.get::<String>(field));
    let told = ["path", "command"].into_iter().find_map(field);
    let told = told.unwrap_or_else(|| if arguments.as_str() == "{}" { String::new() } else { arguments.as_str().to_owned() });
    short(format!("{name} {told}").trim_end(), 400)
}

/// A call that is done, in one line.
fn tool_done(told: &str, output: &ToolOutput, ui: &mut Ui) {
    let text = output.content.joined_text();
    let result = match output.is_error {
        true => {
            let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed");
            format!("failed: {}", short(first, 200))
        }
        false => match text.trim_end().lines().count() {
            0 => "done".to_owned(),
            many => count(many as u64, "line", "lines"),
        },
    };
    let columns = ui.columns().unwrap_or(PIPE_COLUMNS);
    let result = format!(" ({result})");
    let result = cut(&result, Some((columns / 2).max(20))).into_owned();
    let left = columns.saturating_sub(2 + crate::cli::text::width(&result)).max(10);
    ui.tool(&cut(told, Some(left)), &result, output.is_error);
}
