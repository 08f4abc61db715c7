//! What an entry says, as lines for the pane below the tree.
//!
//! # Invariants
//! - Text comes out fit for a terminal, without tabs and line ends.
//! - Tool calls, their results and what the model thought take one line each, unless they are unfolded.
//! - A page has at most [`MAX_LINES`] lines, and says where it was cut.

use crate::cli::browse::prose::{code_lines, plain_lines, prose_lines};
use crate::cli::browse::tone::{Piece, Tone, piece};
use crate::cli::text::one_line_start;
use crate::cli::view::{count, grouped, size};
use crate::export::{CallView, Part, Sign, dollars};
use crate::session::entry::{Entry, EntryKind};
use crate::session::json::Json;
use crate::session::message::{AssistantMessage, Block, Content, Message, ToolCall, ToolResultMessage};
use crate::session::stats::usage_of;
use crate::storage::reference::entry_text;

/// The most lines of a page.
const MAX_LINES: usize = 5_000;
/// The columns of a line that stands for more.
const SUMMARY_COLUMNS: usize = 200;

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What the entry is, in a few words.
    pub title: Vec<Piece>,
    /// The lines, before they are broken to the width of the pane.
    pub lines: Vec<Vec<Piece>>,
    /// Whether something is in one line that could be shown whole.
    pub has_folded: bool,
}

/// The page of an entry. `results` are the results of its calls, `raw` its line.
pub fn page(entry: &Entry, results: &[ToolResultMessage], cwd: &str, raw: &[u8], unfolded: bool) -> Page {
    let mut page = Page { title: title(entry), ..Page::default() };
    let mut writer = Writer { page: &mut page, results, cwd, unfolded };
    match &entry.kind {
        EntryKind::Message(payload) => writer.message(&payload.message, raw),
        EntryKind::Compaction(payload) => {
            let before = payload.tokens_before.as_ref().and_then(Json::to::<u64>).map(grouped);
            let what = before.map_or_else(|| "compacted".to_owned(), |before| format!("compacted from {before} tokens"));
            writer.push(vec![piece(Tone::Dim, format!("{what}; this stands for the older messages:"))]);
            writer.prose(&payload.summary);
        }
        EntryKind::BranchSummary(payload) => {
            writer.push(vec![piece(Tone::Dim, "a summary of a branch that was left:")]);
            writer.prose(&payload.summary);
        }
        EntryKind::CustomMessage(payload) => writer.content(payload.content.as_ref()),
        EntryKind::Leaf(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Custom(_)
        | EntryKind::Label(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Usage(_)
        | EntryKind::Unknown { .. } => {
            writer.folded(&one_line_start(entry.kind.wire_type(), 40), Tone::Strong, &entry_text(entry), "JSON");
            if unfolded {
                writer.raw(raw);
            }
        }
    }
    if page.lines.len() > MAX_LINES {
        let left = (page.lines.len() - MAX_LINES) as u64;
        page.lines.truncate(MAX_LINES);
        let more = format!("… {} more; pi-sessions export writes them all", count(left, "line", "lines"));
        page.lines.push(vec![piece(Tone::Dim, more)]);
    }
    page
}

/// The page of a line that cannot be read.
pub fn damaged_page() -> Page {
    let line = vec![piece(Tone::Bad, "this line cannot be read; pi-sessions check tells why")];
    Page { title: vec![piece(Tone::Bad, "damaged")], lines: vec![line], has_folded: false }
}

fn title(entry: &Entry) -> Vec<Piece> {
    let what = match entry.message() {
        Some(Message::ToolResult(result)) => format!("toolResult {}", one_line_start(&result.tool_name, 40)),
        Some(message) => message.role().as_wire().to_owned(),
        None => one_line_start(entry.kind.wire_type(), 40),
    };
    let mut pieces = vec![piece(Tone::Strong, what), piece(Tone::Id, format!(" {}", one_line_start(entry.id.as_str(), 40)))];
    if let Some(time) = entry.timestamp.get(..16) {
        pieces.push(piece(Tone::Dim, format!(" · {}", one_line_start(&time.replace('T', " "), 16))));
    }
    if let Some(Message::Assistant(message)) = entry.message()
        && let Some(model) = &message.model
    {
        pieces.push(piece(Tone::Dim, format!(" · {}", one_line_start(model, 40))));
    }
    if let Some(usage) = usage_of(entry).filter(|usage| usage.sum() > 0) {
        pieces.push(piece(Tone::Dim, format!(" · {} tokens", grouped(usage.sum()))));
        if let Some(cost) = usage.cost.as_ref().filter(|cost| cost.total > 0.0) {
            pieces.push(piece(Tone::Dim, format!(" · {}", dollars(cost.total))));
        }
    }
    pieces
}

struct Writer<'a> {
    page: &'a mut Page,
    results: &'a [ToolResultMessage],
    cwd: &'a str,
    unfolded: bool,
}

impl Writer<'_> {
    fn push(&mut self, line: Vec<Piece>) {
        self.page.lines.push(line);
    }

    fn prose(&mut self, text: &str) {
        self.page.lines.extend(prose_lines(text, MAX_LINES + 1));
    }

    fn plain(&mut self, text: &str) {
        self.page.lines.extend(plain_lines(text, MAX_LINES + 1));
    }

    fn code(&mut self, language: &str, text: &str) {
        self.page.lines.extend(code_lines(language, text, MAX_LINES + 1));
    }

    /// A line that stands for more.
    fn folded(&mut self, mark: &str, tone: Tone, text: &str, more: &str) {
        self.page.has_folded = true;
        let sign = if self.unfolded { "v " } else { "> " };
        let mut line = vec![piece(Tone::Dim, sign), piece(tone, mark)];
        line.push(piece(Tone::Plain, format!(" {}", one_line_start(text, SUMMARY_COLUMNS))));
        if !more.is_empty() {
            line.push(piece(Tone::Dim, format!("  ({more})")));
        }
        self.push(line);
    }

    fn message(&mut self, message: &Message, raw: &[u8]) {
        match message {
            Message::User(message) => self.content(message.content.as_ref()),
            Message::Assistant(message) => self.assistant(message),
            Message::ToolResult(message) => {
                if message.is_error == Some(true) {
                    self.push(vec![piece(Tone::Bad, "error:")]);
                }
                self.tool_content(message.content.as_ref(), "");
            }
            Message::BashExecution(run) => {
                self.code("bash", &format!("$ {}", run.command));
                self.plain(&run.output);
                if let Some(code) = run.exit_code.filter(|code| *code != 0) {
                    self.push(vec![piece(Tone::Bad, format!("exit code {code}"))]);
                }
            }
            Message::Custom(message) => self.content(message.content.as_ref()),
            Message::System(message) => self.content(message.content.as_ref()),
            Message::BranchSummary(message) => self.prose(&message.summary),
            Message::CompactionSummary(message) => self.prose(&message.summary),
            Message::Unknown(_) => self.raw(raw),
        }
    }

    fn content(&mut self, content: Option<&Content>) {
        for block in content.map(Content::to_blocks).unwrap_or_default() {
            self.block(&block);
        }
    }

    fn assistant(&mut self, message: &AssistantMessage) {
        self.content(message.content.as_ref());
        if message.is_failed() {
            let what = if message.stop_reason.as_deref() == Some("aborted") { "aborted" } else { "failed" };
            let why = one_line_start(message.error_message.as_deref().unwrap_or_default(), SUMMARY_COLUMNS);
            self.push(vec![piece(Tone::Bad, format!("{what}: {why}"))]);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Text { text, .. } => self.prose(text),
            Block::Thinking { thinking, .. } => {
                if !thinking.trim().is_empty() {
                    let first = thinking.trim().lines().next().unwrap_or_default();
                    self.folded("thought", Tone::Dim, first, &lines_text(thinking));
                    if self.unfolded {
                        let lines = plain_lines(thinking, MAX_LINES + 1);
                        self.page.lines.extend(
                            lines.into_iter().map(|line| line.into_iter().map(|part| piece(Tone::Dim, part.text)).collect()),
                        );
                    }
                }
            }
            Block::Image { data, mime_type, .. } => {
                let bytes = size(data.len() as u64 / 4 * 3);
                let what = format!("[image {}, {bytes}; export shows it]", one_line_start(mime_type, 40));
                self.push(vec![piece(Tone::Dim, what)]);
            }
            Block::ToolCall(call) => self.call(call),
            Block::Unknown(json) => self.raw(json.as_str().as_bytes()),
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let result = self.results.iter().find(|result| result.tool_call_id == call.id);
        let view = CallView::of(call, result, self.cwd);
        let text = result.and_then(|result| result.content.as_ref()).map(Content::joined_text);
        let is_error = result.is_some_and(|result| result.is_error == Some(true));
        let more = match &text {
            None => "no result".to_owned(),
            Some(text) if is_error => format!("error, {}", lines_text(text)),
            Some(text) => lines_text(text),
        };
        let tone = if is_error { Tone::Bad } else { Tone::Keyword };
        self.folded(&one_line_start(&call.name, 40), tone, &view.summary, &more);
        if !self.unfolded {
            return;
        }
        for part in &view.parts {
            match part {
                Part::Code { name, language, text } => {
                    if let Some(name) = name {
                        self.push(vec![piece(Tone::Dim, format!("  {}:", one_line_start(name, 40)))]);
                    }
                    self.code(language, text);
                }
                Part::Diff(lines) => {
                    for line in lines.iter().take(MAX_LINES + 1) {
                        let tone = match line.sign {
                            Sign::Same => Tone::Plain,
                            Sign::Added => Tone::Text,
                            Sign::Removed => Tone::Bad,
                        };
                        let text: String = plain_lines(&line.text, 1).into_iter().flatten().map(|part| part.text).collect();
                        self.push(vec![piece(tone, format!("  {} {text}", line.sign.as_char()))]);
                    }
                }
            }
        }
        if let Some(result) = result {
            self.push(vec![piece(Tone::Dim, "  result:")]);
            self.tool_content(result.content.as_ref(), view.result_language);
        }
    }

    fn tool_content(&mut self, content: Option<&Content>, language: &str) {
        for block in content.map(Content::to_blocks).unwrap_or_default() {
            match &block {
                Block::Text { text, .. } => self.code(language, text),
                other => self.block(other),
            }
        }
    }

    /// A line as JSON, a member a line.
    fn raw(&mut self, raw: &[u8]) {
        let text = String::from_utf8_lossy(raw);
        let pretty = serde_json::from_str::<serde_json::Value>(&text).and_then(|value| serde_json::to_string_pretty(&value));
        self.code("json", pretty.as_deref().unwrap_or(&text));
    }
}

fn lines_text(text: &str) -> String {
    count(text.lines().count() as u64, "line", "lines")
}
