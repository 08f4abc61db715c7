//! `diff`: what two branches share, and what each has of its own.
//!
//! # Invariants
//! - Of every line of text it is seen, also without colours, which side it belongs to: `-` is A, `+` is B.
//! - A side is cut nowhere but in the results of tools, of which people see the first line.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::NamedSessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{find_entry, open_session};
use crate::cli::text::{cut, lines, one_line, pad, short, width};
use crate::cli::ui::{Look, Ui};
use crate::cli::view::{PIPE_COLUMNS, TokensView, count, entry_line, grouped};
use crate::session::entry::Entry;
use crate::session::message::{Message, Role};
use crate::session::parting::{FileTouches, Parting, Side};
use crate::session::tree::EntryIndex;
use crate::storage::StorageError;
use crate::storage::handle::Session;
use crate::storage::reference::{entry_text, resolve_entry};

const EXAMPLES: &str = "\
Examples:
  pi-sessions diff @last @prev
  pi-sessions diff 019ad3c5 first-try second-try --stat";

/// Compares two branches: where they part, what each cost and touched, and what was said
///
/// A branch is named by its last entry. The lines of A begin with -, those of B with +.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    #[command(flatten)]
    session: NamedSessionArg,
    /// The one branch: an entry
    #[arg(value_name = "A")]
    a: String,
    /// The other: an entry (default: the leaf)
    #[arg(value_name = "B")]
    b: Option<String>,
    /// Leave the texts out
    #[arg(long)]
    stat: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View {
    shared_entries: usize,
    shared_messages: u64,
    parted_at: Option<String>,
    a: SideView,
    b: SideView,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SideView {
    leaf_id: Option<String>,
    messages: u64,
    prompts: u64,
    turns: u64,
    tool_calls: u64,
    compactions: u64,
    tokens: TokensView,
    cost: f64,
    files: Vec<FileView>,
    entries: Option<Vec<EntryView>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileView {
    path: String,
    reads: u64,
    edits: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryView {
    id: String,
    parent_id: Option<String>,
    r#type: String,
    role: Option<&'static str>,
    timestamp: String,
    text: String,
}

/// One side, read.
struct Branch {
    leaf_id: Option<String>,
    entries: Vec<Entry>,
    side: Side,
}

impl Branch {
    fn of(session: &Session, leaf: Option<EntryIndex>, own: &[EntryIndex]) -> Result<Self, StorageError> {
        let entries = read(session, own)?;
        let side = Side::of(&entries);
        Ok(Self { leaf_id: leaf.map(|leaf| session.tree().id(leaf).to_string()), entries, side })
    }

    fn view(&self, stat: bool) -> SideView {
        let stats = &self.side.stats;
        let file = |(path, touches): (&String, &FileTouches)| FileView {
            path: path.clone(),
            reads: touches.reads,
            edits: touches.edits,
        };
        let entry = |entry: &Entry| EntryView {
            id: entry.id.to_string(),
            parent_id: entry.parent_id.as_ref().map(ToString::to_string),
            r#type: entry.kind.wire_type().to_owned(),
            role: entry.message().map(|message| message.role().as_wire()),
            timestamp: entry.timestamp.clone(),
            text: entry_text(entry),
        };
        SideView {
            leaf_id: self.leaf_id.clone(),
            messages: stats.messages,
            prompts: stats.user_messages,
            turns: stats.assistant_messages,
            tool_calls: stats.tool_calls,
            compactions: stats.compactions,
            tokens: TokensView::of(stats.tokens),
            cost: stats.cost,
            files: self.side.files.iter().map(file).collect(),
            entries: (!stat).then(|| self.entries.iter().map(entry).collect()),
        }
    }
}

pub(super) fn run(args: &DiffArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let session = open_session(invocation, Some(&args.session.session))?;
    let tree = session.tree();
    // An entry that moved the leaf means where it moved it.
    let a = tree.place_of(resolve_entry(&session, &args.a)?);
    let b = find_entry(&session, args.b.as_deref())?.and_then(|b| tree.place_of(b));
    let parting = Parting::of(tree, a, b);
    let (a, b) = (Branch::of(&session, a, &parting.a)?, Branch::of(&session, b, &parting.b)?);
    let shared = Side::of(&read(&session, &parting.shared)?);
    let ui = &mut *invocation.ui;
    if ui.is_json() {
        ui.json(&View {
            shared_entries: parting.shared.len(),
            shared_messages: shared.stats.messages,
            parted_at: parting.shared.last().map(|last| tree.id(*last).to_string()),
            a: a.view(args.stat),
            b: b.view(args.stat),
        })?;
        return Ok(Outcome::Done);
    }
    print_shared(&session, &parting, &shared, ui)?;
    for (mark, branch) in [("-", &a), ("+", &b)] {
        print_stat(mark, branch, ui)?;
    }
    if !args.stat {
        for (mark, branch) in [("-", &a), ("+", &b)] {
            print_texts(mark, branch, ui)?;
        }
    }
    Ok(Outcome::Done)
}

fn read(session: &Session, part: &[EntryIndex]) -> Result<Vec<Entry>, StorageError> {
    // An entry that cannot be read was told when the session was opened.
    part.iter().filter_map(|index| session.read().entry(*index).transpose()).collect()
}

fn print_shared(session: &Session, parting: &Parting, shared: &Side, ui: &mut Ui) -> Result<(), CliError> {
    let Some(last) = parting.shared.last() else { return ui.line("shared  nothing") };
    let entries = count(parting.shared.len() as u64, "entry", "entries");
    ui.line(&format!("shared  {entries}, {}", count(shared.stats.messages, "message", "messages")))?;
    let text = session.read().entry(*last)?.map(|entry| entry_line(&entry)).unwrap_or_default();
    let id = one_line(session.tree().id(*last).as_str());
    let columns = ui.columns().unwrap_or(PIPE_COLUMNS).saturating_sub(width(&id) + 10);
    ui.line(&format!("part at {}  {}", ui.paint(Look::Id, &id), short(&text, columns)))
}

fn look(mark: &str) -> Look {
    if mark == "-" { Look::Bad } else { Look::Active }
}

/// The sums of a side, then a line for each file, as `git diff --stat` has.
fn print_stat(mark: &str, branch: &Branch, ui: &mut Ui) -> Result<(), CliError> {
    let Side { stats, files } = &branch.side;
    let leaf = branch.leaf_id.as_deref().map_or_else(|| "the root".to_owned(), one_line);
    let name = if mark == "-" { "A" } else { "B" };
    ui.line("")?;
    ui.line(&format!("{} {}", ui.paint(look(mark), &format!("{mark}{mark}{mark} {name}")), ui.paint(Look::Id, &leaf)))?;
    if branch.entries.is_empty() {
        return ui.line(" nothing of its own: the other branch goes on from it, or is the same");
    }
    let sums = [
        count(branch.entries.len() as u64, "entry", "entries"),
        count(stats.messages, "message", "messages"),
        count(stats.assistant_messages, "turn", "turns"),
        count(stats.tool_calls, "tool call", "tool calls"),
        format!("{} tokens", grouped(stats.tokens.total())),
        format!("${:.4}", stats.cost),
    ];
    ui.line(&format!(" {}", sums.join(", ")))?;
    let columns = ui.columns().map_or(usize::MAX, |columns| columns / 2);
    let names: Vec<String> = files.keys().map(|name| cut(&one_line(name), Some(columns)).into_owned()).collect();
    let name_columns = names.iter().map(|name| width(name)).max().unwrap_or(0);
    for (name, touches) in names.iter().zip(files.values()) {
        let what = [
            (touches.edits > 0).then(|| count(touches.edits, "edit", "edits")),
            (touches.reads > 0).then(|| count(touches.reads, "read", "reads")),
        ];
        let what = what.into_iter().flatten().collect::<Vec<_>>().join(", ");
        ui.line(&format!(" {} | {what}", pad(name, name_columns)))?;
    }
    if !files.is_empty() {
        let edited = files.values().filter(|touches| touches.edits > 0).count() as u64;
        let touched = count(files.len() as u64, "file touched", "files touched");
        ui.line(&format!(" {touched}, {} modified", grouped(edited)))?;
    }
    Ok(())
}

fn print_texts(mark: &str, branch: &Branch, ui: &mut Ui) -> Result<(), CliError> {
    for entry in &branch.entries {
        ui.line("")?;
        ui.line(&ui.paint(Look::Dim, &format!("@@ {} {} @@", one_line(entry.id.as_str()), one_line(&entry.timestamp))))?;
        let text = entry_line(entry);
        let is_result = entry.message().is_some_and(|message| message.role() == Role::ToolResult);
        if is_result {
            let line = short(&text, ui.columns().unwrap_or(PIPE_COLUMNS).saturating_sub(2));
            ui.line(&ui.paint(look(mark), &format!("{mark} {line}")))?;
            continue;
        }
        for line in lines(&text).lines() {
            ui.line(&ui.paint(look(mark), &format!("{mark} {line}")))?;
        }
        let calls = match entry.message() {
            Some(Message::Assistant(message)) if !entry_text(entry).trim().is_empty() => {
                message.tool_calls().map(|call| one_line(&call.name)).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        };
        if !calls.is_empty() {
            ui.line(&ui.paint(look(mark), &format!("{mark} calls {}", calls.join(", "))))?;
        }
    }
    Ok(())
}
