//! `append`: messages or entries from standard input, as one batch.
//!
//! # Invariants
//! - All lines are checked before the first is written.

use crate::cli::Outcome;
use crate::cli::args::SessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;

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

pub(super) fn run(args: &AppendArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let _ = (args, invocation);
    Err(CliError::bug("append is not there yet"))
}
