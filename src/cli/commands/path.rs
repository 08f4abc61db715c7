//! `path`: the entries from the root to the leaf, as they stand in the file.
//!
//! # Invariants
//! - A line is printed byte for byte; on a terminal control characters are shown as escapes.

use crate::cli::Outcome;
use crate::cli::args::SessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{find_entry, open_session, warn_cut_path};

const EXAMPLES: &str = "\
Examples:
  pi-sessions path | jq -r '.message.role // .type'
  pi-sessions path 019ad3c5 --at t3";

/// Prints the entries from the root to the leaf as JSON lines
///
/// The lines are those of the file, byte for byte, without the header. Lines of an old version are shown migrated.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PathArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The entry that the path ends with (default: the leaf)
    #[arg(long, value_name = "ENTRY")]
    at: Option<String>,
}

pub(super) fn run(args: &PathArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let session = open_session(invocation, args.session.session.as_deref())?;
    let at = find_entry(&session, args.at.as_deref())?;
    warn_cut_path(invocation, &session, at)?;
    let mut line = Vec::new();
    for index in session.tree().path(at) {
        session.read().line_into(index, &mut line)?;
        invocation.ui.record(&line)?;
    }
    Ok(Outcome::Done)
}
