//! `append`: messages or entries from standard input, as one batch.
//!
//! # Invariants
//! - All lines are checked before the first is written.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::SessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{open_session, wire_type};
use crate::cli::view::count;
use crate::session::entry::EntryId;
use crate::session::incoming::read_incoming;
use crate::storage::incoming::append_incoming;
use crate::storage::{Durability, StorageError};

const EXAMPLES: &str = "\
Examples:
  echo '{\"role\":\"user\",\"content\":\"hello\"}' | pi-sessions append @last
  pi-sessions path 019ad3c5 | pi-sessions append @last --json";

/// Appends messages or entries, JSON lines on standard input, and prints their ids
///
/// A line with a role is a message, one with a type an entry. Ids, parents and times of entries are replaced, and what
/// names an earlier line of the same batch follows. If one line is refused, nothing is written.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AppendArgs {
    #[command(flatten)]
    session: SessionArg,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    id: &'a str,
    parent_id: Option<&'a str>,
    r#type: &'a str,
}

pub(super) fn run(args: &AppendArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let mut session = open_session(invocation, args.session.session.as_deref())?;
    if invocation.ui.input_is_terminal() {
        invocation.ui.note("type JSON lines, and end them with Ctrl-D");
    }
    let input = invocation.ui.read_input()?;
    let batch = read_incoming(&input, invocation.now_ms()).map_err(StorageError::from)?;
    let ids = append_incoming(&mut session, &batch, Durability::Synced)?;
    let ui = &mut *invocation.ui;
    for id in &ids {
        if !ui.is_json() {
            ui.line(id.as_str())?;
            continue;
        }
        let index = session.tree().find(id.as_str()).ok_or_else(|| CliError::bug(format!("the new entry is not there: {id}")))?;
        let parent_id = session.tree().parent_id(index);
        let wire_type = wire_type(&session, index)?;
        ui.json(&View { id: id.as_str(), parent_id: parent_id.as_ref().map(EntryId::as_str), r#type: &wire_type })?;
    }
    match ids.len() as u64 {
        0 => ui.note("standard input has no lines, so nothing was appended"),
        appended => ui.done(&format!("appended {} to {}", count(appended, "entry", "entries"), session.header().id)),
    }
    Ok(Outcome::Done)
}
