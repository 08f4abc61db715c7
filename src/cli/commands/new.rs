//! `new`: creates a session.
//!
//! # Invariants
//! - The path is printed only when the file is on disk, with the name where one was given.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::CwdArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::text::one_line;
use crate::cli::view::path_text;
use crate::session::entry::SessionId;
use crate::storage::repo::NewSession;

const EXAMPLES: &str = "\
Examples:
  pi-sessions new --name \"Refactor auth\"
  pi-sessions new --cwd ~/project --json";

/// Creates a session and prints its path
///
/// The session works in the folder of --cwd, by default the current one. Its file holds a header, and the name if one
/// is given.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct NewArgs {
    /// The session's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    cwd: CwdArg,
    /// The session's id: letters, digits, '.', '_' and '-' (default: a new UUID)
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

#[derive(Serialize)]
struct View<'a> {
    id: &'a str,
    path: String,
}

pub(super) fn run(args: &NewArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let id = args.id.as_deref().map(SessionId::new).transpose().map_err(|error| CliError::usage(error.to_string()))?;
    let cwd = args.cwd.absolute(&invocation.surroundings.cwd).unwrap_or_else(|| invocation.here());
    let repo = invocation.repo()?;
    let mut session = repo.create(NewSession { cwd, id, ..NewSession::default() })?;
    if let Some(name) = args.name.as_ref().filter(|name| !name.trim().is_empty()) {
        session.set_name(name)?;
    }
    let path = session.read().path().map(path_text).unwrap_or_default();
    if invocation.ui.is_json() {
        invocation.ui.json(&View { id: &session.header().id, path })?;
    } else {
        invocation.ui.line(&one_line(&path))?;
    }
    Ok(Outcome::Done)
}
