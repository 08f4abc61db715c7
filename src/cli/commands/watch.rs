//! `watch`: prints entries as they are appended.
//!
//! # Invariants
//! - Nothing is written, and no lock is held between two looks.
//! - With `--json` the lines of entries come as they stand in the file; all else is told beside them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::Outcome;
use crate::cli::args::NamedSessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::find_session;
use crate::cli::text::{one_line, short, width};
use crate::cli::ui::{Look, Ui};
use crate::cli::view::{PIPE_COLUMNS, entry_line};
use crate::session::entry::{Entry, format_timestamp};
use crate::storage::StorageError;
use crate::storage::jsonl::follow::{Followed, Follower};

const EXAMPLES: &str = "\
Examples:
  pi-sessions watch @last
  pi-sessions watch ./session.jsonl --lines 0 --json | jq -r .type";

/// How long to wait between two looks.
const INTERVAL: Duration = Duration::from_millis(250);

/// Follows a session: prints entries as they are appended
///
/// It ends with Ctrl-C. Whichever program appends is followed. A path may be that of a file that does not exist yet. A file that is cut or replaced is followed on; what was shown
/// is not shown again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct WatchArgs {
    #[command(flatten)]
    session: NamedSessionArg,
    /// Begin with the last N entries that are there
    #[arg(short = 'n', long, value_name = "N", default_value = "10")]
    lines: usize,
}

/// What a look found, to be printed.
enum Found {
    Entry(Box<Entry>, Vec<u8>),
    Note(String),
    Warning(String),
}

impl Found {
    fn of(followed: &Followed<'_>, path: &str) -> Self {
        match followed {
            Followed::Missing => Self::Note(format!("waiting for a file that is not there: {path}")),
            Followed::Replaced => Self::Note("the file was cut or replaced; what is new in it follows".to_owned()),
            Followed::Header(header) => Self::Note(format!("following session {} in {path}", header.id)),
            Followed::Entry(entry, line) => Self::Entry(Box::new((*entry).clone()), line.to_vec()),
            Followed::Damaged(line) => {
                Self::Warning(format!("a line is no entry: {}", short(&String::from_utf8_lossy(line), PIPE_COLUMNS)))
            }
        }
    }

    fn print(&self, ui: &mut Ui) -> Result<(), CliError> {
        match self {
            Self::Entry(_, line) if ui.is_json() => ui.record(line),
            Self::Entry(entry, _) => print_entry(entry, ui),
            Self::Note(text) => {
                ui.note(text);
                Ok(())
            }
            Self::Warning(text) => {
                ui.warn(text);
                Ok(())
            }
        }
    }
}

pub(super) fn run(args: &WatchArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let path = find_path(&args.session.session, invocation)?;
    let shown = path.to_string_lossy().into_owned();
    let mut follower = Follower::new(invocation.surroundings.fs.clone(), &path);

    // Of what is there at first only the end is of interest, and no more is kept.
    let mut last = VecDeque::new();
    let mut entries = 0;
    follower.poll(&mut |followed| {
        let found = Found::of(&followed, &shown);
        entries += usize::from(matches!(found, Found::Entry(..)));
        last.push_back(found);
        while entries > args.lines {
            let at = last.iter().position(|found| matches!(found, Found::Entry(..)));
            entries -= 1;
            drop(at.and_then(|at| last.remove(at)));
        }
    })?;
    for found in last {
        found.print(invocation.ui)?;
    }
    invocation.ui.flush()?;

    let mut failure: Option<String> = None;
    while (invocation.surroundings.wait)(INTERVAL) {
        let mut printed = Ok(());
        let polled = follower.poll(&mut |followed| {
            if printed.is_ok() {
                printed = Found::of(&followed, &shown).print(invocation.ui);
            }
        });
        printed?;
        tell_failure(polled, &mut failure, invocation.ui);
        invocation.ui.flush()?;
    }
    Ok(Outcome::Interrupted)
}

/// A look that failed may be followed by one that does not; what stays the same is told once.
fn tell_failure(polled: Result<(), StorageError>, last: &mut Option<String>, ui: &mut Ui) {
    let failure = polled.err().map(|error| CliError::reason(&error));
    if let Some(text) = failure.as_ref().filter(|_| failure != *last) {
        ui.warn(text);
    }
    *last = failure;
}

/// The file that is meant; a path need not exist.
fn find_path(reference: &str, invocation: &mut Invocation<'_>) -> Result<PathBuf, CliError> {
    let is_path = reference.contains(std::path::is_separator) || reference.ends_with(".jsonl");
    if is_path { Ok(invocation.surroundings.cwd.join(reference)) } else { find_session(invocation, Some(reference)) }
}

fn print_entry(entry: &Entry, ui: &mut Ui) -> Result<(), CliError> {
    // On a terminal the time of day is enough.
    let time = match (entry.timestamp_ms(), ui.columns()) {
        (Some(time_ms), Some(_)) => format_timestamp(time_ms).get(11..19).unwrap_or_default().to_owned(),
        _ => one_line(&entry.timestamp),
    };
    let id = one_line(entry.id.as_str());
    let columns = ui.columns().unwrap_or(PIPE_COLUMNS).saturating_sub(width(&time) + width(&id) + 4);
    let text = short(&entry_line(entry), columns.max(20));
    ui.line(&format!("{}  {}  {text}", ui.paint(Look::Dim, &time), ui.paint(Look::Id, &id)))
}
