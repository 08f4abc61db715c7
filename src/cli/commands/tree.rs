//! `tree`: the tree of a session as text.
//!
//! # Invariants
//! - The active path is told from the others without colours too: `*` is on it, `o` is not.
//! - With `--json` every entry has its line, whatever is folded for people.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::SessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{note_stray_tail, open_session};
use crate::cli::text::{cut, one_line, one_line_start, width};
use crate::cli::ui::{Look, Ui};
use crate::cli::view::{PIPE_COLUMNS, count, entry_line};
use crate::session::entry::EntryId;
use crate::session::labels::Labels;
use crate::session::outline::{Folded, Row, RowContent, Scope, Start, outline, says_something};
use crate::session::tree::EntryIndex;
use crate::storage::StorageError;
use crate::storage::handle::Session;
use crate::storage::reference::{entry_text, read_labels};

const EXAMPLES: &str = "\
Examples:
  pi-sessions tree | less
  pi-sessions tree 019ad3c5 --all";

/// Draws the tree, the active path marked, with labels and summaries
///
/// Entries marked * are on the active path, others have an o. What is left out is counted behind a ~; --all shows every
/// entry.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TreeArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Show every entry, and side branches whole
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    id: &'a str,
    parent_id: Option<&'a str>,
    r#type: &'a str,
    role: Option<&'a str>,
    timestamp: Option<&'a str>,
    text: Option<&'a str>,
    label: Option<&'a str>,
    depth: usize,
    on_path: bool,
    is_leaf: bool,
}

pub(super) fn run(args: &TreeArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let session = open_session(invocation, args.session.session.as_deref())?;
    draw(&session, args.all, invocation.ui)?;
    note_stray_tail(invocation, &session)?;
    Ok(Outcome::Done)
}

/// Draws the tree of a session.
pub(in crate::cli) fn draw(session: &Session, all: bool, ui: &mut Ui) -> Result<(), CliError> {
    let labels = read_labels(session.read())?;
    let scope = if all || ui.is_json() { Scope::All } else { Scope::Conversation };
    let mut says = |index| Ok::<_, StorageError>(session.read().entry(index)?.is_some_and(|entry| says_something(&entry)));
    let rows = outline(session.tree(), &labels, scope, &mut says)?;
    let drawing = Drawing { session, labels: &labels };
    for row in &rows {
        match row.content {
            RowContent::Entry(index) if ui.is_json() => drawing.print_json(row, index, ui)?,
            RowContent::Entry(index) => drawing.print_entry(row, index, ui)?,
            RowContent::Folded(folded) => print_fold(row, folded, ui)?,
        }
    }
    if session.tree().is_empty() {
        ui.note("the session has no entries");
    } else if session.leaf().is_none() {
        ui.note("the leaf is before the first entry: the next one begins another tree");
    }
    Ok(())
}

struct Drawing<'a> {
    session: &'a Session,
    labels: &'a Labels,
}

impl Drawing<'_> {
    fn print_json(&self, row: &Row, index: EntryIndex, ui: &mut Ui) -> Result<(), CliError> {
        let tree = self.session.tree();
        let entry = self.session.read().entry(index)?;
        let id = tree.id(index);
        let text = entry.as_ref().map(entry_text);
        ui.json(&View {
            id: id.as_str(),
            parent_id: tree.parent_id(index).as_ref().map(EntryId::as_str),
            r#type: entry.as_ref().map_or_else(|| tree.entry_type(index).as_wire(), |entry| entry.kind.wire_type()),
            role: tree.role(index).map(|role| role.as_wire()),
            timestamp: entry.as_ref().map(|entry| entry.timestamp.as_str()).filter(|timestamp| !timestamp.is_empty()),
            text: text.as_deref(),
            label: self.labels.get(id.as_str()),
            depth: row.depth(),
            on_path: row.on_path,
            is_leaf: row.is_leaf,
        })
    }

    fn print_entry(&self, row: &Row, index: EntryIndex, ui: &mut Ui) -> Result<(), CliError> {
        let tree = self.session.tree();
        let id = one_line(tree.id(index).as_str());
        let entry = self.session.read().entry(index)?;
        let text = entry.as_ref().map_or_else(|| "(the line is damaged)".to_owned(), entry_line);
        let mark = if row.on_path { "*" } else { "o" };
        let mut extras = Vec::new();
        if let Some(label) = self.labels.get(tree.id(index).as_str()) {
            extras.push((Look::Name, format!("[{}]", one_line(label))));
        }
        if row.is_leaf {
            extras.push((Look::Active, "(leaf)".to_owned()));
        }
        match row.start {
            Start::Orphan => {
                let parent = tree.parent_id(index).map(|id| one_line(id.as_str())).unwrap_or_default();
                extras.push((Look::Warn, format!("(its parent is missing: {parent})")));
            }
            Start::Ring => extras.push((Look::Warn, "(its parents form a ring)".to_owned())),
            Start::Nothing | Start::Branch | Start::Root => {}
        }
        let lines = row.lines();
        let extras_width: usize = extras.iter().map(|(_, extra)| width(extra) + 1).sum();
        let used = width(&lines) + 2 + width(&id) + 1 + extras_width;
        // Labels and the leaf are never cut off, so a little of the text always stays.
        let left = ui.columns().unwrap_or(PIPE_COLUMNS).saturating_sub(used).max(12);
        let text = one_line_start(&text, left);
        let text = cut(&text, Some(left));
        let mark = if row.on_path { ui.paint(Look::Active, mark) } else { mark.to_owned() };
        let text = if row.on_path { text.into_owned() } else { ui.paint(Look::Dim, &text) };
        let mut line = format!("{}{mark} {} {text}", ui.paint(Look::Dim, &lines), ui.paint(Look::Id, &id));
        for (look, extra) in extras {
            line.push(' ');
            line.push_str(&ui.paint(look, &extra));
        }
        ui.line(line.trim_end())
    }
}

fn print_fold(row: &Row, folded: Folded, ui: &mut Ui) -> Result<(), CliError> {
    let parts = [
        (folded.user_messages, "user message", "user messages"),
        (folded.tool_results, "tool result", "tool results"),
        (folded.branches, "branch", "branches"),
    ];
    let parts: Vec<_> =
        parts.iter().filter(|(many, ..)| *many > 0).map(|(many, one, more)| count(*many as u64, one, more)).collect();
    let entries = count(folded.entries as u64, "entry", "entries");
    let what = if parts.is_empty() { entries } else { format!("{entries} ({})", parts.join(", ")) };
    let line = ui.paint(Look::Dim, &format!("{}~ {what}", row.lines()));
    ui.line(&line)
}
