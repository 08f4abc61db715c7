//! `fork`: a new session from a path of another.
//!
//! # Invariants
//! - The source is not changed.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::{CwdArg, SessionArg};
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{find_entry, find_named_entry, open_session, warn_cut_path};
use crate::cli::text::one_line;
use crate::cli::view::{count, path_text};
use crate::storage::fork::{ForkOptions, ForkWhat};

const EXAMPLES: &str = "\
Examples:
  pi-sessions fork @last --at t3 --name \"Another way\"
  pi-sessions fork 019ad3c5 --all --cwd ~/copy";

/// Makes a new session of a path and prints the new file's path
///
/// Lines are copied byte for byte; the source stays as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ForkArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The entry that the path ends with (default: the leaf)
    #[arg(long, value_name = "ENTRY", conflicts_with_all = ["before", "all"])]
    at: Option<String>,
    /// The user message that the path stops before; its text is returned, to edit and send again
    #[arg(long, value_name = "ENTRY", conflicts_with = "all")]
    before: Option<String>,
    /// Every branch
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    cwd: CwdArg,
    /// The new session's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    id: &'a str,
    path: String,
    parent_session: &'a str,
    editor_text: Option<&'a str>,
}

pub(super) fn run(args: &ForkArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let source = open_session(invocation, args.session.session.as_deref())?;
    let what = match (&args.before, args.all) {
        (Some(before), _) => ForkWhat::Before(find_named_entry(&source, before)?),
        (None, true) => ForkWhat::All,
        (None, false) => ForkWhat::Path(find_entry(&source, args.at.as_deref())?),
    };
    match what {
        ForkWhat::Path(at) => warn_cut_path(invocation, &source, at)?,
        ForkWhat::Before(target) => warn_cut_path(invocation, &source, Some(target))?,
        ForkWhat::All => {}
    }
    let cwd = args.cwd.absolute(&invocation.surroundings.cwd);
    let mut fork = invocation.repo()?.fork(&source, &ForkOptions { what, cwd })?;
    if let Some(name) = args.name.as_ref().filter(|name| !name.trim().is_empty()) {
        fork.session.set_name(name)?;
    }
    let ui = &mut *invocation.ui;
    let path = path_text(&fork.path);
    ui.done(&format!("forked {} from {}", count(fork.session.tree().len() as u64, "entry", "entries"), fork.parent_session));
    if ui.is_json() {
        let editor_text = fork.editor_text.as_deref();
        ui.json(&View { id: &fork.id, path, parent_session: &fork.parent_session, editor_text })?;
    } else {
        ui.line(&one_line(&path))?;
        if let Some(text) = &fork.editor_text {
            ui.aside(&format!("text to edit:\n{text}"));
        }
    }
    Ok(Outcome::Done)
}
