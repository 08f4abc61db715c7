//! `completions`: scripts that complete commands in a shell.
//!
//! # Invariants
//! - Works with a broken configuration.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Outcome;
use crate::cli::args::Cli;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;

const EXAMPLES: &str = "\
Examples:
  pi-sessions completions bash > ~/.local/share/bash-completion/completions/pi-sessions
  pi-sessions completions fish > ~/.config/fish/completions/pi-sessions.fish";

/// Prints a script that completes commands in a shell
///
/// In bash, zsh and fish sessions and entries are completed too, by id, name, label and turn.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let script = match args.shell {
        Shell::Bash => include_str!("../completions/bash.sh").into(),
        Shell::Zsh => include_str!("../completions/zsh.sh").into(),
        Shell::Fish => include_str!("../completions/fish.sh").into(),
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut Cli::command(), "pi-sessions", &mut script);
            script
        }
    };
    invocation.ui.bytes(&script)?;
    Ok(Outcome::Done)
}
