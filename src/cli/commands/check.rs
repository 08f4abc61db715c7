//! `check`: every fault of a session, with file, line and byte.
//!
//! # Invariants
//! - Nothing is written.

use crate::cli::Outcome;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;

const EXAMPLES: &str = "\
Examples:
  pi-sessions check
  pi-sessions check 019ad3c5 --json";

/// Looks for faults in sessions, by default in all
///
/// Exit code 3 means damage. Notes are no damage.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// The sessions: path, id, name, beginning of an id or @last (default: all)
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
}

pub(super) fn run(args: &CheckArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let _ = (args, invocation);
    Err(CliError::bug("check is not there yet"))
}
