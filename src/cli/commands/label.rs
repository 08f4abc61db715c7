//! `label`: shows, sets or clears the labels of entries.
//!
//! # Invariants
//! - A session that somebody else holds can be labelled too: a label moves no leaf of theirs.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::NamedSessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{find_named_entry, open_session};
use crate::cli::text::{one_line, pad, width};
use crate::cli::ui::Look;
use crate::storage::reference::{LabelTrouble, label_trouble, read_labels};

const EXAMPLES: &str = "\
Examples:
  pi-sessions label @last @leaf before-refactor
  pi-sessions label @last before-refactor --clear";

/// Shows, sets or clears labels; a label names an entry
///
/// Without ENTRY all labels of the session are shown, without LABEL that of the entry.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct LabelArgs {
    #[command(flatten)]
    session: NamedSessionArg,
    /// The entry
    #[arg(value_name = "ENTRY", required_if_eq("clear", "true"))]
    entry: Option<String>,
    /// Its new label
    #[arg(value_name = "LABEL", conflicts_with = "clear")]
    label: Option<String>,
    /// Clear the entry's label
    #[arg(long)]
    clear: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    target_id: &'a str,
    label: Option<&'a str>,
}

pub(super) fn run(args: &LabelArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let mut session = open_session(invocation, Some(&args.session.session))?;
    let Some(entry) = &args.entry else {
        let labels = read_labels(session.read())?;
        let ui = &mut *invocation.ui;
        let columns = labels.iter().map(|(target, _)| width(&one_line(target.as_str()))).max().unwrap_or(0);
        for (target, label) in labels.iter() {
            if ui.is_json() {
                ui.json(&View { target_id: target.as_str(), label: Some(label) })?;
            } else {
                let id = ui.paint(Look::Id, &pad(&one_line(target.as_str()), columns));
                ui.line(&format!("{id}  {}", one_line(label)))?;
            }
        }
        if columns == 0 {
            ui.note("there are no labels");
        }
        return Ok(Outcome::Done);
    };
    let target = find_named_entry(&session, entry)?;
    let target_id = session.tree().id(target);
    let wanted = if args.clear { Some("") } else { args.label.as_deref() };
    if let Some(wanted) = wanted.filter(|wanted| !wanted.trim().is_empty()) {
        match label_trouble(&session, wanted, target)? {
            None => {}
            Some(LabelTrouble::NeverFound) => {
                let name = wanted.trim();
                return Err(CliError::usage(format!("no command would find the label {name:?}: something else has this name"))
                    .hint("take a word that is no id and does not begin with @"));
            }
            Some(LabelTrouble::Hides(other)) => {
                let other = session.tree().id(other);
                invocation.ui.note(&format!("{:?} meant another entry so far, and means this one now: {other}", wanted.trim()));
            }
        }
    }
    let label = match wanted {
        Some(wanted) => {
            session.set_label(target, Some(wanted))?;
            Some(wanted.trim().to_owned()).filter(|label| !label.is_empty())
        }
        None => read_labels(session.read())?.get(target_id.as_str()).map(str::to_owned),
    };
    if let (Some(_), Some(label)) = (wanted, &label)
        && read_labels(session.read())?.find(label).filter(|id| session.tree().find(id.as_str()).is_some()).count() > 1
    {
        invocation.ui.note("another entry has this label too, so that it names neither of them");
    }
    let ui = &mut *invocation.ui;
    match (wanted, &label) {
        (Some(_), Some(label)) => ui.done(&format!("labelled {label:?}: {target_id}")),
        (Some(_), None) => ui.done(&format!("cleared the label of {target_id}")),
        (None, None) => ui.note(&format!("there is no label on {target_id}")),
        (None, Some(_)) => {}
    }
    if ui.is_json() {
        ui.json(&View { target_id: target_id.as_str(), label: label.as_deref() })?;
    } else if let (None, Some(label)) = (wanted, &label) {
        ui.line(&one_line(label))?;
    }
    Ok(Outcome::Done)
}
