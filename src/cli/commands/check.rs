//! `check`: every fault of a session, with file, line and byte.
//!
//! # Invariants
//! - Nothing is written.
//! - Standard output has the faults and nothing else, so that a clean file gives none.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::find_session;
use crate::cli::text::{one_line, quote};
use crate::cli::ui::Look;
use crate::cli::view::{count, path_text};
use crate::storage::StorageError;
use crate::storage::check::{Fault, Severity, check_file};

const EXAMPLES: &str = "\
Examples:
  pi-sessions check
  pi-sessions check 019ad3c5 --json";

/// Looks for faults in sessions, by default in all
///
/// Each fault has file, line, and byte from the start of the file. Exit code 3 means damage; a note is none.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// The sessions: path, id, name, beginning of an id or @last (default: all)
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    path: String,
    line: u64,
    byte_offset: u64,
    severity: &'a str,
    kind: &'a str,
    message: &'a str,
}

pub(super) fn run(args: &CheckArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let repo = invocation.repo()?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for reference in &args.sessions {
        let path = find_session(invocation, Some(reference))?;
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let is_all = args.sessions.is_empty();
    if is_all {
        paths = repo.files()?.into_iter().map(|file| file.path).collect();
    }

    let (mut damaged, mut notes, mut strangers) = (0u64, 0u64, 0u64);
    let mut damaged_paths: Vec<&PathBuf> = Vec::new();
    let progress = invocation.ui.progress();
    for (at, path) in paths.iter().enumerate() {
        progress.show("checking sessions", at as u64, paths.len() as u64);
        let faults = match check_file(repo.fs(), path) {
            Ok(faults) => faults,
            // Other files may lie among the sessions.
            Err(error @ (StorageError::NotASession(_) | StorageError::EmptyFile(_) | StorageError::Format4(_))) if is_all => {
                invocation.ui.note(&format!("left out: {}", CliError::reason(&error)));
                strangers += 1;
                continue;
            }
            // Deleted since the folder was read.
            Err(StorageError::NotFound(_)) if is_all => continue,
            Err(error) => return Err(error.into()),
        };
        if faults.iter().any(|fault| fault.severity() == Severity::Damage) {
            damaged_paths.push(path);
        }
        for fault in &faults {
            match fault.severity() {
                Severity::Damage => damaged += 1,
                Severity::Note => notes += 1,
            }
            print(fault, invocation)?;
        }
    }
    drop(progress);
    let checked = count(paths.len() as u64 - strangers, "session", "sessions");
    let damage = if damaged > 0 { format!("damage in {}", count(damaged, "place", "places")) } else { "no damage".to_owned() };
    invocation.ui.done(&format!("checked {checked}: {damage}, {}", count(notes, "note", "notes")));
    match damaged_paths.as_slice() {
        [] => {}
        [path] => {
            let path = quote(&path_text(path));
            invocation.ui.note(&format!("this mends what can be mended and keeps the old bytes: pi-sessions repair {path}"));
        }
        several => {
            let what = count(several.len() as u64, "session", "sessions");
            invocation.ui.note(&format!("{what} are damaged; pi-sessions repair SESSION mends one and keeps the old bytes"));
        }
    }
    Ok(if damaged > 0 { Outcome::DamageFound } else { Outcome::Done })
}

fn print(fault: &Fault, invocation: &mut Invocation<'_>) -> Result<(), CliError> {
    let ui = &mut *invocation.ui;
    let severity = fault.severity();
    if ui.is_json() {
        return ui.json(&View {
            path: path_text(&fault.path),
            line: fault.line,
            byte_offset: fault.byte_offset,
            severity: severity.as_str(),
            kind: fault.kind.as_str(),
            message: &fault.message,
        });
    }
    let look = match severity {
        Severity::Damage => Look::Bad,
        Severity::Note => Look::Dim,
    };
    let severity = ui.paint(look, severity.as_str());
    let place = format!("{}:{}", one_line(&path_text(&fault.path)), fault.line);
    ui.line(&format!("{place}: {severity}: {} (byte {})", one_line(&fault.message), fault.byte_offset))
}
