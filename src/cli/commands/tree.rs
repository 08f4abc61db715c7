//! `tree`: the tree of a session as text.
//!
//! # Invariants
//! - The active path is told from the others without colours too.

use crate::cli::Outcome;
use crate::cli::args::SessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;

const EXAMPLES: &str = "\
Examples:
  pi-sessions tree | less
  pi-sessions tree 019ad3c5 --all";

/// Draws the tree, the active path marked, with labels and summaries
///
/// Long side branches are folded unless --all is given.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TreeArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Show side branches whole
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: &TreeArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let _ = (args, invocation);
    Err(CliError::bug("tree is not there yet"))
}
