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
use crate::session::tree::EntryIndex;
use crate::storage::handle::Session;
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

/// What setting a label came to.
pub(in crate::cli) struct Labelled {
    /// The label; `None` where it was cleared.
    pub label: Option<String>,
    /// What one should know about it.
    pub notes: Vec<String>,
}

/// Sets the label of an entry; a blank one clears it.
///
/// # Errors
/// Where no command would find the label, and when the session cannot be written; then nothing is changed.
pub(in crate::cli) fn set_label(session: &mut Session, target: EntryIndex, wanted: &str) -> Result<Labelled, CliError> {
    let wanted = wanted.trim();
    let mut notes = Vec::new();
    if !wanted.is_empty() {
        match label_trouble(session, wanted, target)? {
            None => {}
            Some(LabelTrouble::NeverFound) => {
                return Err(CliError::usage(format!("no command would find the label {wanted:?}: something else has this name"))
                    .hint("take a word that is no id and does not begin with @"));
            }
            Some(LabelTrouble::Hides(other)) => {
                let other = session.tree().id(other);
                notes.push(format!("{wanted:?} meant another entry so far, and means this one now: {other}"));
            }
        }
    }
    session.set_label(target, Some(wanted))?;
    let label = Some(wanted.to_owned()).filter(|label| !label.is_empty());
    if let Some(label) = &label
        && read_labels(session.read())?.find(label).filter(|id| session.tree().find(id.as_str()).is_some()).count() > 1
    {
        notes.push("another entry has this label too, so that it names neither of them".to_owned());
    }
    Ok(Labelled { label, notes })
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
    let label = match wanted {
        Some(wanted) => {
            let labelled = set_label(&mut session, target, wanted)?;
            labelled.notes.iter().for_each(|note| invocation.ui.note(note));
            labelled.label
        }
        None => read_labels(session.read())?.get(target_id.as_str()).map(str::to_owned),
    };
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
