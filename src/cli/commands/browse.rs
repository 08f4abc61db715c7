//! `browse`: sessions and their trees on the full screen.
//!
//! # Invariants
//! - Without a terminal nothing is read, and the error names what prints the same.

use crate::cli::Outcome;
use crate::cli::browse::{BrowserOptions, Ended, OutsideFolder, OutsideWork, Told, run as run_browser};
use crate::cli::commands::chat::{TalkArgs, go_on};
use crate::cli::commands::goto::summarize;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{command_name, find_named_entry, find_session, open_session, refuse_owned};
use crate::cli::text::{one_line, operand};

const EXAMPLES: &str = "\
Examples:
  pi-sessions browse
  pi-sessions browse --all
  pi-sessions browse 019ad3c5";

/// Shows sessions and their trees on the full screen
///
/// At the left are the sessions of this folder, at the right the tree of the selected one, below what its entry says. The
/// keys stand at the bottom, and ? shows all of them: search, find a word said in any session, go back, fork, label,
/// rename, delete and undo, export, copy.
///
/// Enter goes on with the session in a chat, from the selected entry; when the chat ends, the browser is back. What
/// others write shows as it comes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BrowseArgs {
    /// The session to begin with: path, id, name, beginning of an id or @last
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Sessions of all folders
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: &BrowseArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    if !invocation.can_show_full_screen() || invocation.ui.is_json() {
        return Err(CliError::usage("browse needs a terminal with a full screen, to show and to type on")
            .hint("pi-sessions list --all")
            .hint("pi-sessions tree SESSION"));
    }
    let select = args.session.as_deref().map(|session| find_session(invocation, Some(session))).transpose()?;
    let options = BrowserOptions { all_folders: args.all, select, ..options(invocation)? };
    show(options, &TalkArgs::default(), invocation).map(|_| Outcome::Done)
}

/// Lets the user pick a session, and goes on with it.
pub(super) fn pick(talk: &TalkArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let options = BrowserOptions { is_picker: true, is_elsewhere: talk.has_folder(), ..options(invocation)? };
    Ok(match show(options, talk, invocation)? {
        Ended::Left => Outcome::Declined,
        Ended::Picked(outcome) => outcome,
    })
}

fn options(invocation: &mut Invocation<'_>) -> Result<BrowserOptions, CliError> {
    Ok(BrowserOptions {
        repo: invocation.repo()?,
        here: invocation.surroundings.cwd.clone(),
        cache_dir: invocation.cache_dir()?,
        trash: invocation.surroundings.trash.clone(),
        is_picker: false,
        is_elsewhere: false,
        all_folders: false,
        select: None,
        is_colored: invocation.ui.out_is_colored(),
        size: (0, 0),
    })
}

fn show(options: BrowserOptions, talk: &TalkArgs, invocation: &mut Invocation<'_>) -> Result<Ended, CliError> {
    invocation.ui.flush()?;
    let is_picker = options.is_picker;
    run_browser(options, &mut |work| {
        let done = match work {
            OutsideWork::Resume(path, entry, folder) => {
                if !is_picker {
                    invocation.ui.note("Ctrl-D leads back to the sessions");
                }
                let here = invocation.surroundings.cwd.clone();
                let talk = match folder {
                    OutsideFolder::Own => talk.clone(),
                    OutsideFolder::Here => talk.clone().in_folder(here),
                };
                let outcome = go_on(path, entry, &talk, invocation)?;
                (Told::Done("back from the chat; q leaves".to_owned()), outcome)
            }
            OutsideWork::GotoWithSummary(path, entry) => {
                let session = open_session(invocation, Some(&path.to_string_lossy()))?;
                let name = command_name(invocation, &session)?;
                let force = format!("pi-sessions goto --summarize --force {name} {}", operand(entry.as_str()));
                refuse_owned(invocation, &session, &force)?;
                let target = find_named_entry(&session, entry.as_str())?;
                let gone = summarize(session, target, None, false, invocation)?;
                (Told::Done(summary_text(gone.as_ref())), Outcome::Done)
            }
        };
        invocation.ui.flush()?;
        Ok(done)
    })
}

fn summary_text(gone: Option<&crate::storage::handle::Navigation>) -> String {
    let Some(gone) = gone else { return "the summary was stopped; nothing was moved".to_owned() };
    let leaf =
        gone.leaf_id.as_ref().map_or_else(|| "before the first entry".to_owned(), |id| format!("at {}", one_line(id.as_str())));
    match (gone.moved, &gone.summary_id) {
        (false, _) => format!("the leaf is {leaf} already"),
        (true, Some(_)) => format!("the leaf is {leaf}, a summary of what was left"),
        (true, None) => format!("the leaf is {leaf}; nothing was left behind, so there is no summary"),
    }
}
