//! `delete`: moves sessions to the trash, or removes them.
//!
//! # Invariants
//! - All sessions are found before the first is deleted.
//! - Nothing is deleted without a yes: of a person, or `--yes`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::invocation::Invocation;
use crate::cli::refer::find_session;
use crate::cli::text::one_line;
use crate::cli::view::{count, path_text};
use crate::storage::StorageError;
use crate::storage::jsonl::JsonlStorage;

const EXAMPLES: &str = "\
Examples:
  pi-sessions delete 019ad3c5
  pi-sessions delete --yes --permanent old-one old-two";

/// Moves sessions to the trash
///
/// Backups and locks beside a file go along. Forks of a session stay as they are. Sessions that another program holds
/// are refused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DeleteArgs {
    /// The sessions: path, id, name, beginning of an id or @last
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    /// Remove them for good instead
    #[arg(long)]
    permanent: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
struct View<'a> {
    id: &'a str,
    path: String,
    trashed: bool,
}

pub(super) fn run(args: &DeleteArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let repo = invocation.repo()?;
    let mut doomed: Vec<(PathBuf, String)> = Vec::new();
    for reference in &args.sessions {
        let path = find_session(invocation, Some(reference))?;
        if doomed.iter().any(|(known, _)| *known == path) {
            continue;
        }
        let header = JsonlStorage::read_header(&**repo.fs(), &path)?;
        doomed.push((path, header.id));
    }
    if !args.yes && !confirm(&doomed, args.permanent, invocation)? {
        invocation.ui.done("nothing was deleted");
        return Ok(Outcome::Declined);
    }
    let trash = invocation.surroundings.trash.clone();
    for (path, id) in &doomed {
        if args.permanent {
            repo.delete(path)?;
        } else {
            repo.discard(path, &*trash).map_err(|error| {
                let is_of_trash = matches!(&error, StorageError::Io { doing: "move to the trash", .. });
                let error = CliError::from(error);
                if is_of_trash { error.hint("--permanent removes it without a trash") } else { error }
            })?;
        }
        let ui = &mut *invocation.ui;
        if ui.is_json() {
            ui.json(&View { id, path: path_text(path), trashed: !args.permanent })?;
        } else {
            let how = if args.permanent { "deleted" } else { "moved to the trash:" };
            ui.done(&format!("{how} {}", path.display()));
        }
    }
    Ok(Outcome::Done)
}

fn confirm(doomed: &[(PathBuf, String)], permanent: bool, invocation: &mut Invocation<'_>) -> Result<bool, CliError> {
    let ui = &mut *invocation.ui;
    if !ui.can_ask() {
        return Err(CliError::new(ErrorKind::Usage, "delete asks first, and there is no terminal to ask on")
            .hint("--yes deletes without asking"));
    }
    for (path, _) in doomed {
        ui.done(&one_line(&path_text(Path::new(path))));
    }
    let what = count(doomed.len() as u64, "session", "sessions");
    let question = if permanent { format!("Delete {what} for good?") } else { format!("Move {what} to the trash?") };
    ui.ask(&question)
}
