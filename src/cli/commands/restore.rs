//! `restore`: lists the sessions in the trash, and brings them back.
//!
//! # Invariants
//! - All sessions are found before the first is brought back.
//! - No file is written over.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::commands::list::short_id_len;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::{SameFolder, absolute};
use crate::cli::invocation::Invocation;
use crate::cli::session_table::{SessionRow, SessionTable};
use crate::cli::view::{count, path_text};
use crate::session::entry::format_timestamp;
use crate::storage::StorageError;
use crate::storage::list::SessionSummary;
use crate::storage::reference::{ReferenceError, pick_session};
use crate::storage::repo::Repo;
use crate::storage::trash::TrashedSession;

const EXAMPLES: &str = "\
Examples:
  pi-sessions restore
  pi-sessions restore @last";

/// Brings sessions back from the trash; without SESSION lists what is there
///
/// A session comes back to where it was, with the backups that went along. A file that is there already is never
/// written over. The list has the sessions of this folder, the one that was deleted last first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    /// The sessions: id, name, beginning of an id, the path where it was, or @last: the one that was deleted last
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// List the sessions of all folders and roots
    #[arg(long, conflicts_with_all = ["sessions", "to"])]
    all: bool,
    /// Bring them back to this folder instead
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, requires = "sessions")]
    to: Option<PathBuf>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TrashedView<'a> {
    path: String,
    id: &'a str,
    cwd: &'a str,
    name: Option<&'a str>,
    first_message: Option<&'a str>,
    message_count: u64,
    size_bytes: u64,
    deleted: Option<String>,
}

impl<'a> TrashedView<'a> {
    fn of(session: &'a TrashedSession) -> Self {
        let TrashedSession { summary, file, .. } = session;
        Self {
            path: path_text(&file.original),
            id: &summary.id,
            cwd: &summary.cwd,
            name: summary.name.as_deref(),
            first_message: summary.first_message.as_deref(),
            message_count: summary.message_count,
            size_bytes: summary.size_bytes,
            deleted: (file.deleted_ms > 0).then(|| format_timestamp(file.deleted_ms)),
        }
    }
}

#[derive(Serialize)]
struct RestoredView<'a> {
    id: &'a str,
    path: String,
}

pub(super) fn run(args: &RestoreArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let repo = invocation.repo()?;
    let trash = invocation.surroundings.trash.clone();
    let sessions = repo.trashed(&*trash).map_err(trash_error)?;
    if args.sessions.is_empty() {
        return list(sessions, args.all, &repo, invocation);
    }
    let mut wanted: Vec<&TrashedSession> = Vec::new();
    for reference in &args.sessions {
        let session = find(&sessions, reference, &repo, invocation)?;
        if !wanted.iter().any(|known| std::ptr::eq(*known, session)) {
            wanted.push(session);
        }
    }
    let to = args.to.as_ref().map(|to| absolute(&invocation.surroundings.cwd, to));
    for session in wanted {
        let path = repo.restore(session, to.as_deref(), &*trash).map_err(|error| {
            let is_taken = matches!(error, StorageError::Exists(_));
            let error = CliError::from(error);
            if is_taken { error.hint("--to DIR brings it back to another folder") } else { error }
        })?;
        let ui = &mut *invocation.ui;
        if ui.is_json() {
            ui.json(&RestoredView { id: &session.summary.id, path: path_text(&path) })?;
        } else {
            ui.done(&format!("brought back {}", path.display()));
        }
    }
    Ok(Outcome::Done)
}

fn trash_error(error: StorageError) -> CliError {
    let is_silent = matches!(&error, StorageError::Io { source, .. } if source.kind() == io::ErrorKind::Unsupported);
    let error = CliError::from(error);
    match is_silent {
        true => error.hint("open the trash of the desktop and put the session's file back from there"),
        false => error,
    }
}

/// The session that is meant; those of the root in force that work in this folder come first.
fn find<'a>(
    sessions: &'a [TrashedSession],
    reference: &str,
    repo: &Repo,
    invocation: &Invocation<'_>,
) -> Result<&'a TrashedSession, CliError> {
    let nothing = || {
        CliError::new(ErrorKind::NotFound, "there is no session in the trash")
            .hint("pi-sessions list --all shows what is not deleted")
    };
    let Some(latest) = sessions.first() else { return Err(nothing()) };
    if reference == "@last" {
        return Ok(latest);
    }
    // A name that went there twice is the latter; the former comes into reach when that is back.
    let mut latest: Vec<SessionSummary> = Vec::new();
    for session in sessions {
        if !latest.iter().any(|known| known.path == session.summary.path) {
            latest.push(session.summary.clone());
        }
    }
    let at = |path: &Path| sessions.iter().find(|session| session.summary.path == path);
    let is_path = reference.contains(std::path::is_separator) || reference.ends_with(".jsonl");
    if is_path {
        let path = absolute(&invocation.surroundings.cwd, Path::new(reference));
        return at(&path).ok_or_else(|| {
            CliError::new(ErrorKind::NotFound, format!("no session in the trash was at {}", path.display()))
                .hint("pi-sessions restore --all")
        });
    }
    let here = invocation.here();
    let is_here = |session: &SessionSummary| is_in(repo, session) && repo.same_cwd(&session.cwd, &here);
    let found = pick_session(&latest, &is_here, Some(reference)).map_err(|error| match error {
        ReferenceError::UnknownSession { text, .. } => {
            CliError::new(ErrorKind::NotFound, format!("there is no session {text:?} in the trash"))
                .hint("pi-sessions restore --all")
        }
        other => other.into(),
    })?;
    at(&found.path).ok_or_else(nothing)
}

/// Whether a session came from the root in force.
fn is_in(repo: &Repo, session: &SessionSummary) -> bool {
    let root = repo.fs().canonicalize(repo.root()).unwrap_or_else(|_| repo.root().to_owned());
    session.path.starts_with(&root) || session.path.starts_with(repo.root())
}

fn list(mut sessions: Vec<TrashedSession>, all: bool, repo: &Repo, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let summaries: Vec<_> = sessions.iter().map(|session| session.summary.clone()).collect();
    let id_len = short_id_len(&summaries);
    let found = sessions.len();
    if !all {
        let here = invocation.here();
        let mut same = SameFolder::new(repo, &here);
        sessions.retain(|session| is_in(repo, &session.summary) && same.is(&session.summary.cwd));
    }
    let now_ms = invocation.now_ms();
    let ui = &mut *invocation.ui;
    if ui.is_json() {
        for session in &sessions {
            ui.json(&TrashedView::of(session))?;
        }
    } else {
        let rows: Vec<_> = sessions
            .iter()
            .map(|session| SessionRow {
                session: &session.summary,
                time_ms: (session.file.deleted_ms > 0).then_some(session.file.deleted_ms),
                number: session.summary.message_count.to_string(),
                mark: "",
            })
            .collect();
        let table = SessionTable { time: "DELETED", number: "MSGS", id_len, with_cwd: all, now_ms };
        table.print(&rows, ui)?;
    }
    let hidden = found - sessions.len();
    if hidden > 0 {
        let what = count(hidden as u64, "session of another folder is", "sessions of other folders are");
        ui.note(&format!("{what} in the trash (--all shows them)"));
    } else if found == 0 {
        ui.note("there is no session in the trash");
    }
    Ok(Outcome::Done)
}
