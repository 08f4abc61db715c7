//! `context`: what the model would see.
//!
//! # Invariants
//! - Nothing is written, and nothing of the program's own is added.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::SessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{find_entry, open_session, warn_cut_path, wire_type};
use crate::cli::text::{cut, lines, one_line, one_line_start, pad, width};
use crate::cli::ui::{Look, Ui};
use crate::cli::view::{ModelView, PIPE_COLUMNS, count, entry_line, grouped, size};
use crate::compaction::tokens::estimate_message;
use crate::llm::{WireTarget, anthropic_messages, openai_completions};
use crate::session::context::{Projection, Reason};
use crate::session::json::Json;
use crate::session::message::{Block, Message};
use crate::session::request::{Request, RequestOptions, build_request, into_messages};
use crate::storage::handle::Session;

const EXAMPLES: &str = "\
Examples:
  pi-sessions context --explain
  pi-sessions context 019ad3c5 --at t3 --format pi | jq .messages";

/// Shows what the model would see: the active path, compaction applied, as messages
///
/// Token counts are estimates.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ContextArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The entry that the path ends with (default: the leaf)
    #[arg(long, value_name = "ENTRY")]
    at: Option<String>,
    /// The form (default: text, with --json pi)
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Show each entry's tokens, and why it is in the context or not
    #[arg(long, conflicts_with_all = ["format", "micro", "truncate"])]
    explain: bool,
    /// Shorten older tool results to the name of their tool
    #[arg(long)]
    micro: bool,
    /// Take the middle out of long tool results
    #[arg(long)]
    truncate: bool,
}

/// In which form a context is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object, as Pi builds it
    Pi,
    /// The messages of a request to an OpenAI-compatible server, as JSON
    Openai,
    /// System prompt and messages of a request to Anthropic, as JSON
    Anthropic,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PiView<'a> {
    messages: Vec<&'a Message>,
    thinking_level: &'a str,
    model: Option<ModelView<'a>>,
    active_tool_names: Option<&'a [String]>,
}

impl<'a> PiView<'a> {
    /// The context that a path comes to.
    pub(super) fn of(projection: &'a Projection) -> Self {
        Self {
            messages: projection.messages.iter().map(|projected| &projected.message).collect(),
            thinking_level: &projection.thinking_level,
            model: projection.model.as_ref().map(|model| ModelView::of(Some(model))),
            active_tool_names: projection.active_tool_names.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct OpenaiView {
    messages: Json,
}

#[derive(Serialize)]
struct AnthropicView {
    system: Json,
    messages: Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainView<'a> {
    entry_id: &'a str,
    r#type: &'a str,
    role: Option<&'a str>,
    tokens: u64,
    included: bool,
    reason: &'a str,
}

pub(super) fn run(args: &ContextArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let session = open_session(invocation, args.session.session.as_deref())?;
    let at = find_entry(&session, args.at.as_deref())?;
    warn_cut_path(invocation, &session, at)?;
    let projection = session.project(at, &[])?;
    let context = invocation.settings()?.0.fields.context;
    let ui = &mut *invocation.ui;
    if args.explain {
        explain(&projection, &session, ui)?;
        return Ok(Outcome::Done);
    }
    let options = RequestOptions {
        micro_compaction: args.micro || context.micro_compaction == Some(true),
        truncation: args.truncate || context.truncation == Some(true),
    };
    if ui.is_json() && args.format == Some(Format::Text) {
        return Err(CliError::usage("--format text is no JSON, which --json asks for"));
    }
    match args.format.unwrap_or(if ui.is_json() { Format::Pi } else { Format::Text }) {
        Format::Pi => ui.json(&PiView::of(&projection))?,
        Format::Text => print(&build_request(projection.messages, options), &session, ui)?,
        Format::Openai => {
            let (prompt, messages, target) = request(projection, options);
            ui.json(&OpenaiView { messages: openai_completions::wire_messages(prompt.as_deref(), &messages, &target) })?;
        }
        Format::Anthropic => {
            let (prompt, messages, target) = request(projection, options);
            let (system, messages) = anthropic_messages::wire_messages(prompt.as_deref(), &messages, &target);
            ui.json(&AnthropicView { system, messages })?;
        }
    }
    Ok(Outcome::Done)
}

/// What goes into a request to the model that the path ends with.
fn request(projection: Projection, options: RequestOptions) -> (Option<String>, Vec<Message>, WireTarget) {
    let (provider, model) = match &projection.model {
        Some(model) => (model.provider.clone().unwrap_or_default(), model.model_id.clone().unwrap_or_default()),
        None => Default::default(),
    };
    let request = build_request(projection.messages, options);
    let target = WireTarget { provider, model };
    (request.system.prompt(), into_messages(request.messages), target)
}

/// The request as text: a heading for each message, then what it says.
fn print(request: &Request, session: &Session, ui: &mut Ui) -> Result<(), CliError> {
    if let Some(prompt) = request.system.prompt() {
        let heading = ui.paint(Look::Strong, "=== system");
        ui.line(&heading)?;
        ui.line(lines(&prompt).trim_end())?;
        ui.line("")?;
    }
    for projected in &request.messages {
        let (role, mark) = match &projected.message {
            Message::ToolResult(result) if result.is_error == Some(true) => {
                ("toolResult", format!(" {} (error)", result.tool_name))
            }
            Message::ToolResult(result) => ("toolResult", format!(" {}", result.tool_name)),
            other => (other.role().as_wire(), String::new()),
        };
        let heading = ui.paint(Look::Strong, &format!("=== {role}{}", one_line_mark(&mark)));
        let id = projected.source.map(|index| one_line(session.tree().id(index).as_str())).unwrap_or_default();
        let id = ui.paint(Look::Id, &id);
        ui.line(format!("{heading} {id}").trim_end())?;
        for block in projected.message.content().map(|content| content.to_blocks()).unwrap_or_default() {
            print_block(&block, ui)?;
        }
        ui.line("")?;
    }
    Ok(())
}

fn one_line_mark(mark: &str) -> String {
    if mark.is_empty() { String::new() } else { format!(" {}", one_line(mark)) }
}

fn print_block(block: &Block, ui: &mut Ui) -> Result<(), CliError> {
    let text = match block {
        Block::Text { text, .. } => lines(text).trim_end().to_owned(),
        Block::Thinking { thinking, .. } => {
            let thinking = format!("[thinking] {}", lines(thinking).trim_end());
            thinking.lines().map(|line| ui.paint(Look::Dim, line)).collect::<Vec<_>>().join("\n")
        }
        Block::Image { data, mime_type, .. } => {
            let bytes = data.len() as u64 / 4 * 3;
            format!("[image {}, {}]", one_line(mime_type), size(bytes))
        }
        Block::ToolCall(call) => {
            let name = ui.paint(Look::Name, &one_line(&call.name));
            format!("[call] {name} {}", lines(call.arguments.as_str()))
        }
        Block::Unknown(json) => format!("[unknown block] {}", lines(json.as_str())),
    };
    ui.line(&text)
}

/// One line for each entry of the path.
fn explain(projection: &Projection, session: &Session, ui: &mut Ui) -> Result<(), CliError> {
    let tree = session.tree();
    let mut tokens = vec![0u64; tree.len()];
    for projected in &projection.messages {
        if let Some(source) = projected.source {
            tokens[source.get()] += estimate_message(&projected.message);
        }
    }
    let rows: Vec<_> = projection.path.iter().map(|(index, reason)| (*index, *reason, tokens[index.get()])).collect();
    if ui.is_json() {
        for (index, reason, tokens) in rows {
            let id = tree.id(index);
            ui.json(&ExplainView {
                entry_id: id.as_str(),
                r#type: &wire_type(session, index)?,
                role: tree.role(index).map(|role| role.as_wire()),
                tokens,
                included: reason.is_included(),
                reason: reason.describe(),
            })?;
        }
        return Ok(());
    }
    let columns = ui.columns();
    let ids: Vec<_> = rows.iter().map(|(index, ..)| one_line(tree.id(*index).as_str())).collect();
    let id_columns = ids.iter().map(|id| width(id)).max().unwrap_or(0);
    let tokens_columns = rows.iter().map(|(.., tokens)| grouped(*tokens).len()).max().unwrap_or(0).max(6);
    for ((index, reason, tokens), id) in rows.iter().zip(&ids) {
        let entry = session.read().entry(*index)?;
        let text = entry.map(|entry| entry_line(&entry)).unwrap_or_default();
        let mark = if reason.is_included() { "+" } else { "-" };
        let why = match reason {
            Reason::Included => String::new(),
            other => format!("  ({})", other.describe()),
        };
        let used = 2 + id_columns + 2 + tokens_columns + 2;
        let left = columns.unwrap_or(PIPE_COLUMNS).saturating_sub(used + width(&why)).max(12);
        let text = one_line_start(&text, left);
        let text = cut(&text, Some(left));
        let line = format!("{mark} {}  {:>tokens_columns$}  {text}{why}", pad(id, id_columns), grouped(*tokens));
        let look = if reason.is_included() { None } else { Some(Look::Dim) };
        ui.line(&look.map_or(line.clone(), |look| ui.paint(look, &line)))?;
    }
    let total = rows.iter().fold(0u64, |sum, (.., tokens)| sum.saturating_add(*tokens));
    let included = rows.iter().filter(|(_, reason, _)| reason.is_included()).count() as u64;
    let entries = count(rows.len() as u64, "entry of the path is", "entries of the path are");
    ui.note(&format!("{included} of {entries} in the context, about {}", count(total, "token", "tokens")));
    Ok(())
}
