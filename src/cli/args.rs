//! The command line as a whole, and what several commands share.
//!
//! # Invariants
//! - Global options stand before or after the command.
//! - A doc comment here is the help that users read.

use std::path::{Path, PathBuf};

use crate::cli::commands::Command;
use crate::cli::folder::absolute;
use crate::cli::ui::ColorWhen;

/// How a session and an entry are named; stands below the help of the whole.
const NAMES: &str = "\
SESSION is a path (with a slash, or ending in .jsonl), an id, a name, the beginning of an id, or
@last: the latest session of this folder that has a message. Sessions of this folder come first.

ENTRY is @leaf, @prev (the leaf before the last goto), an id, a label, tN (the N-th user message of
the active path), or the beginning of an id; ~K behind it goes K steps towards the root.

Exit codes: 0 done, 1 it failed, 2 wrong usage or no such session or entry, 3 damage found by check,
130 interrupted, 255 a bug.";

/// Keeps sessions of coding agents: append-only JSONL trees in the format of Pi
#[derive(Debug, clap::Parser)]
#[command(name = "pi-sessions", version, after_long_help = NAMES, after_help = "pi-sessions --help tells how sessions and entries are named.")]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The folder that holds the sessions
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub root: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub color: ColorWhen,
    /// Tell more about what is done
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// A session that may be left out.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SessionArg {
    /// The session: path, id, name, beginning of an id or @last (default: the latest of this folder)
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
}

/// A session that has to be named.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NamedSessionArg {
    /// The session: path, id, name, beginning of an id or @last
    #[arg(value_name = "SESSION")]
    pub session: String,
}

/// The folder that a session works in.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CwdArg {
    /// The folder that the session works in; it need not exist
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
}

impl CwdArg {
    /// The folder that was named, absolute; links are not resolved.
    pub(super) fn absolute(&self, here: &Path) -> Option<String> {
        self.cwd.as_ref().map(|cwd| absolute(here, cwd).to_string_lossy().into_owned())
    }
}
