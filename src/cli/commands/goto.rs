//! `goto`: moves the leaf.
//!
//! # Invariants
//! - Nobody else holds the session, unless `--force` is given.

use serde::Serialize;

use crate::agent::harness::{NavigateOptions, NavigateSummary};
use crate::cli::Outcome;
use crate::cli::args::NamedSessionArg;
use crate::cli::chat::conversation::Ended;
use crate::cli::chat::summarizing::{self, Access};
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{command_name, find_named_entry, open_session, refuse_owned};
use crate::cli::text::{lines, operand};
use crate::session::tree::EntryIndex;
use crate::storage::handle::{Navigation, Session, SummaryText};

const EXAMPLES: &str = "\
Examples:
  pi-sessions goto @last t3
  pi-sessions goto @last @prev
  pi-sessions goto @last t3 --summarize --instructions 'Which tests failed'
  pi-sessions goto 019ad3c5 before-refactor --summary \"The other way needs a lock\"";

/// Moves the leaf: the next entry hangs from there
///
/// A user or custom message as ENTRY moves the leaf to its parent and prints its text, to edit and send again. Nothing
/// of the branch that is left is lost.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct GotoArgs {
    #[command(flatten)]
    session: NamedSessionArg,
    /// Where to go: an entry
    #[arg(value_name = "ENTRY")]
    entry: String,
    /// A summary of the branch that is left, kept where the new one begins
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
    /// Have a summary of the branch that is left written, by the session's model; without a network it is made of the
    /// entries themselves
    #[arg(long, conflicts_with = "summary")]
    summarize: bool,
    /// What the summary should keep
    #[arg(long, value_name = "TEXT", requires = "summarize")]
    instructions: Option<String>,
    /// Go there although another program holds the session
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View {
    leaf_id: Option<String>,
    from_id: Option<String>,
    summary_id: Option<String>,
    editor_text: Option<String>,
}

pub(super) fn run(args: &GotoArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    if args.summary.as_ref().is_some_and(|summary| summary.trim().is_empty()) {
        return Err(CliError::usage("a summary without text says nothing"));
    }
    let mut session = open_session(invocation, Some(&args.session.session))?;
    let target = find_named_entry(&session, &args.entry)?;
    if !args.force {
        let name = command_name(invocation, &session)?;
        refuse_owned(invocation, &session, &format!("pi-sessions goto --force {name} {}", operand(&args.entry)))?;
    }
    let gone = match args.summarize {
        true => match summarize(session, target, args.instructions.clone(), args.force, invocation)? {
            Some(gone) => gone,
            None => return Ok(Outcome::Interrupted),
        },
        false => {
            let summary = args.summary.clone().map(|summary| SummaryText { summary, ..SummaryText::default() });
            session.navigate(target, summary)?
        }
    };
    let name = |id: &Option<crate::session::entry::EntryId>| id.as_ref().map_or("the beginning".to_owned(), ToString::to_string);
    let ui = &mut *invocation.ui;
    match gone.moved {
        true => ui.done(&format!("moved the leaf from {} to {}", name(&gone.from_id), name(&gone.leaf_id))),
        false => ui.done(&format!("the leaf is there already: {}", name(&gone.leaf_id))),
    }
    if gone.moved && (args.summary.is_some() || args.summarize) && gone.summary_id.is_none() {
        ui.note("nothing is left behind, so no summary was written");
    }
    if ui.is_json() {
        ui.json(&View {
            leaf_id: gone.leaf_id.map(|id| id.to_string()),
            from_id: gone.from_id.map(|id| id.to_string()),
            summary_id: gone.summary_id.map(|id| id.to_string()),
            editor_text: gone.editor_text,
        })?;
    } else if let Some(text) = gone.editor_text {
        ui.line(lines(&text).trim_end_matches('\n'))?;
    }
    Ok(Outcome::Done)
}

/// Moves the leaf with a summary that is made; `None` where the user left.
pub(in crate::cli) fn summarize(
    session: Session,
    target: EntryIndex,
    instructions: Option<String>,
    is_forced: bool,
    invocation: &mut Invocation<'_>,
) -> Result<Option<Navigation>, CliError> {
    let target = session.tree().id(target);
    let name = command_name(invocation, &session)?;
    let force = format!("pi-sessions goto --summarize --force {name} {}", operand(target.as_str()));
    let access = if is_forced { Access::Force } else { Access::Hold(&force) };
    let mut conversation = summarizing::open(session, None, access, invocation)?;
    invocation.ui.status("summarizing what is left behind …");
    let by = conversation.harness.summary_by();
    let summary = NavigateSummary::Made { by, instructions };
    let harness = conversation.harness.clone();
    let work = async move { harness.navigate(&target, NavigateOptions { summary }).await };
    let gone = conversation.operate(work, invocation.ui);
    let closed = conversation.close(invocation.ui);
    let gone = gone?;
    closed?;
    Ok(match gone {
        Ended::By(gone) => Some(gone),
        Ended::Left => None,
    })
}
