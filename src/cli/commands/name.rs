//! `name`: shows, sets or clears the name of a session.
//!
//! # Invariants
//! - A session that somebody else holds can be named too: a name moves no leaf of theirs.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::NamedSessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{open_session, read_name};
use crate::cli::text::one_line;
use crate::session::labels::SessionName;

const EXAMPLES: &str = "\
Examples:
  pi-sessions name @last \"Refactor auth\"
  pi-sessions name 019ad3c5 --clear";

/// Shows, sets or clears the name of a session
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct NameArgs {
    #[command(flatten)]
    session: NamedSessionArg,
    /// The new name
    #[arg(value_name = "NAME", conflicts_with = "clear")]
    name: Option<String>,
    /// Clear the name
    #[arg(long)]
    clear: bool,
}

#[derive(Serialize)]
struct View<'a> {
    id: &'a str,
    name: Option<&'a str>,
}

pub(super) fn run(args: &NameArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let mut session = open_session(invocation, Some(&args.session.session))?;
    let wanted = if args.clear { Some("") } else { args.name.as_deref() };
    let mut name = SessionName::default();
    match wanted {
        Some(wanted) => {
            session.set_name(wanted)?;
            name.set(Some(wanted));
        }
        None => name = read_name(&session)?,
    }
    let id = session.header().id.clone();
    let ui = &mut *invocation.ui;
    match (wanted, name.get()) {
        (Some(_), Some(name)) => ui.done(&format!("named {name:?}: {id}")),
        (Some(_), None) => ui.done(&format!("cleared the name of {id}")),
        (None, None) => ui.note(&format!("there is no name for {id}")),
        (None, Some(_)) => {}
    }
    if ui.is_json() {
        ui.json(&View { id: &id, name: name.get() })?;
    } else if let (None, Some(name)) = (wanted, name.get()) {
        ui.line(&one_line(name))?;
    }
    Ok(Outcome::Done)
}
