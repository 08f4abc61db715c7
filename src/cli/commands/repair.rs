//! `repair`: a mended copy takes the place of a damaged session, and the old bytes stay beside it.
//!
//! # Invariants
//! - A dry run prints the plan that the real run carries out, and writes nothing.
//! - Nobody else holds the session, unless `--force` is given.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::NamedSessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{CommandNames, find_session};
use crate::cli::text::{one_line, quote};
use crate::cli::ui::Look;
use crate::cli::view::{count, path_text};
use crate::storage::StorageError;
use crate::storage::repair::{IfHeld, RepairAction, Repaired, plan_repair, repair_file};

const EXAMPLES: &str = "\
Examples:
  pi-sessions repair 019ad3c5 --dry-run
  pi-sessions repair ./session.jsonl --json";

/// Mends a damaged session and keeps the old bytes beside it
///
/// Nothing that can be read is lost: lines that were cut off go, records that share a line part, entries whose parent is
/// gone hang from the one before them. Each change is told with its line. A sound session is left alone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RepairArgs {
    #[command(flatten)]
    session: NamedSessionArg,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Repair although another program holds the session
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct ActionView<'a> {
    line: u64,
    action: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct DoneView {
    path: String,
    backup: Option<String>,
}

pub(super) fn run(args: &RepairArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let path = find_session(invocation, Some(&args.session.session))?;
    let repo = invocation.repo()?;
    let names = CommandNames::of(invocation)?;
    let repaired = match (args.dry_run, args.force) {
        (true, _) => Repaired { actions: plan_repair(repo.fs(), &path)?.actions().to_vec(), backup: None },
        (false, true) => repair_file(repo.fs(), &path, IfHeld::GoOn)?,
        (false, false) => repair_file(repo.fs(), &path, IfHeld::Refuse).map_err(|error| {
            let is_held = matches!(error, StorageError::Busy { .. });
            let error = CliError::from(error);
            let typed = args.session.session.as_str();
            let is_found = names.are_ids() && !typed.starts_with('-');
            let name = if is_found { quote(typed) } else { quote(&path.to_string_lossy()) };
            match is_held {
                true => error
                    .hint(format!("work on a copy: pi-sessions fork {name} --all"))
                    .hint(format!("do it all the same: pi-sessions repair {name} --force")),
                false => error,
            }
        })?,
    };
    let ui = &mut *invocation.ui;
    for action in &repaired.actions {
        if ui.is_json() {
            ui.json(&ActionView { line: action.line, action: action.kind.as_str(), message: &action.message })?;
        } else {
            let kind = ui.paint(Look::Dim, action.kind.as_str());
            ui.line(&format!("line {}: {} ({kind})", action.line, one_line(&action.message)))?;
        }
    }
    if ui.is_json() {
        ui.json(&DoneView { path: path_text(&path), backup: repaired.backup.as_deref().map(path_text) })?;
    }
    let shown = one_line(&path_text(&path));
    ui.done(&match (&repaired.backup, repaired.actions.as_slice()) {
        (Some(backup), actions) => format!("{} in {shown}; the old file is {}", done(actions), one_line(&path_text(backup))),
        (None, []) => format!("the session is sound, nothing was changed: {shown}"),
        (None, actions) => format!("a repair would make {}; nothing was changed: {shown}", done(actions)),
    });
    Ok(Outcome::Done)
}

fn done(actions: &[RepairAction]) -> String {
    count(actions.len() as u64, "change", "changes")
}
