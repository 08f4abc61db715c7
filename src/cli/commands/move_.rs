//! `move`: a session follows its project to another folder.
//!
//! # Invariants
//! - The old bytes stay beside the file as a backup, and the message says where.
//! - A session that works there already is left alone.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::NamedSessionArg;
use crate::cli::error::CliError;
use crate::cli::folder::absolute;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{CommandNames, find_session};
use crate::cli::text::{one_line, quote};
use crate::cli::view::path_text;
use crate::storage::StorageError;
use crate::storage::jsonl::JsonlStorage;

const EXAMPLES: &str = "\
Examples:
  pi-sessions move @last --cwd ~/new-place
  pi-sessions move 019ad3c5 --cwd .";

/// Gives a session another folder to work in, and moves its file there
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct MoveArgs {
    #[command(flatten)]
    session: NamedSessionArg,
    /// The folder that the session is to work in; it need not exist
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: std::path::PathBuf,
}

#[derive(Serialize)]
struct View<'a> {
    id: &'a str,
    path: String,
    cwd: &'a str,
}

pub(super) fn run(args: &MoveArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let path = find_session(invocation, Some(&args.session.session))?;
    let cwd = absolute(&invocation.surroundings.cwd, &args.cwd).to_string_lossy().into_owned();
    let repo = invocation.repo()?;
    let header = JsonlStorage::read_header(&**repo.fs(), &path)?;
    let is_there = header.cwd == cwd && path.parent() == Some(&*repo.folder_for(&cwd));
    let name = CommandNames::of(invocation)?.name(&path, &header.id);
    let ui = &mut *invocation.ui;
    let (id, path) = if is_there {
        ui.done(&format!("{} works there already: {cwd}", header.id));
        (header.id, path)
    } else {
        let moved = repo.relocate(&path, &cwd).map_err(|error| {
            let is_held = matches!(error, StorageError::Busy { .. });
            let error = CliError::from(error);
            let copy = format!("work on a copy there: pi-sessions fork {name} --all --cwd {}", quote(&cwd));
            if is_held { error.hint(copy) } else { error }
        })?;
        ui.done(&format!("moved {} to {}; the old file is {}", moved.id, moved.cwd, moved.backup.display()));
        (moved.id, moved.path)
    };
    let path = path_text(&path);
    if ui.is_json() {
        ui.json(&View { id: &id, path, cwd: &cwd })?
    } else {
        ui.line(&one_line(&path))?
    }
    Ok(Outcome::Done)
}
