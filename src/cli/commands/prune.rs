//! `prune`: removes sessions that nobody touched for long, or that are empty.
//!
//! # Invariants
//! - Nothing goes that was not shown before, and nothing without a yes: of a person, or `--yes`.
//! - A dry run shows the plan that the real run carries out.
//! - A session that changed since the plan was made stays.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::commands::list::short_id_len;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::{SameFolder, absolute};
use crate::cli::invocation::Invocation;
use crate::cli::moment::Moment;
use crate::cli::session_table::{SessionRow, SessionTable};
use crate::cli::view::{count, path_text, size};
use crate::session::entry::format_timestamp;
use crate::storage::list::SessionSummary;
use crate::storage::lock::OwnerLock;
use crate::storage::prune::{PruneOptions, Pruned, Stays, confirm, plan};
use crate::storage::repo::Repo;

const EXAMPLES: &str = "\
Examples:
  pi-sessions prune --older-than 90d --all --dry-run
  pi-sessions prune --empty --older-than 1d --yes";

/// Moves old or empty sessions to the trash
///
/// A session is as old as the latest activity in its family: its parents and all their forks. So nothing goes while a
/// fork of it is worked on. What goes is shown first, and then asked about. Sessions that another program holds stay,
/// with their families. Takes the sessions of this folder.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct PruneArgs {
    /// Sessions whose family was last active before this: 12h, 30d or 2w ago, or a date such as 2026-11-30 (UTC)
    #[arg(long, value_name = "T", value_parser = Moment::parse, group = "what")]
    older_than: Option<Moment>,
    /// Only sessions without a message; their family does not count
    #[arg(long, group = "what")]
    empty: bool,
    /// Sessions of all folders
    #[arg(long, conflicts_with = "cwd")]
    all: bool,
    /// Sessions of another folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Show what would go, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Remove them for good instead
    #[arg(long)]
    permanent: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    path: String,
    id: &'a str,
    cwd: &'a str,
    name: Option<&'a str>,
    modified: String,
    message_count: u64,
    size_bytes: u64,
    family: usize,
    removed: bool,
    trashed: bool,
    stays: Option<String>,
}

/// What became of a session of the plan.
enum Fate {
    Stays(String),
    Planned,
    Trashed,
    Deleted,
}

impl<'a> View<'a> {
    fn of(planned: &'a Pruned, fate: &Fate) -> Self {
        let session = &planned.session;
        Self {
            path: path_text(&session.path),
            id: &session.id,
            cwd: &session.cwd,
            name: session.name.as_deref(),
            modified: format_timestamp(session.modified_ms),
            message_count: session.message_count,
            size_bytes: session.size_bytes,
            family: planned.family,
            removed: matches!(fate, Fate::Trashed | Fate::Deleted),
            trashed: matches!(fate, Fate::Trashed),
            stays: match fate {
                Fate::Stays(why) => Some(why.clone()),
                Fate::Planned | Fate::Trashed | Fate::Deleted => None,
            },
        }
    }
}

pub(super) fn run(args: &PruneArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let repo = invocation.repo()?;
    let (sessions, mut plan) = make_plan(args, &repo, invocation)?;
    let now_ms = invocation.now_ms();
    let doomed: Vec<_> = plan.iter().filter(|planned| planned.stays.is_none()).collect();
    let columns = SessionTable { time: "ACTIVITY", number: "SIZE", id_len: short_id_len(&sessions), with_cwd: args.all, now_ms };
    let ui = &mut *invocation.ui;
    if !ui.is_json() {
        let rows: Vec<_> = doomed.iter().map(|planned| row(planned)).collect();
        columns.print(&rows, ui)?;
        for planned in &plan {
            if let Some(why) = stays(planned) {
                ui.note(&format!("stays, {why}: {}", planned.session.path.display()));
            }
        }
    }
    let what = count(doomed.len() as u64, "session", "sessions");
    let bytes = size(doomed.iter().map(|planned| planned.session.size_bytes).sum());
    if doomed.is_empty() || args.dry_run {
        print_plan(&plan, invocation)?;
        invocation.ui.done(&match doomed.is_empty() {
            true => "there is nothing to remove".to_owned(),
            false => format!("{what}, {bytes}; nothing was removed (--dry-run)"),
        });
        return Ok(Outcome::Done);
    }
    if !args.yes {
        let ui = &mut *invocation.ui;
        if !ui.can_ask() {
            return Err(CliError::new(ErrorKind::Usage, "prune asks first, and there is no terminal to ask on")
                .hint("--dry-run shows what would go, --yes removes it without asking"));
        }
        if ui.is_json() {
            doomed.iter().for_each(|planned| ui.done(&path_text(&planned.session.path)));
        }
        let question = match args.permanent {
            true => format!("Delete {what} ({bytes}) for good?"),
            false => format!("Move {what} ({bytes}) to the trash?"),
        };
        if !ui.ask(&question)? {
            ui.done("nothing was removed");
            return Ok(Outcome::Declined);
        }
        // The question may have waited for long.
        let (_, now) = make_plan(args, &repo, invocation)?;
        confirm(&mut plan, &now, options(args, now_ms));
    }
    carry_out(&plan, args.permanent, &repo, invocation)
}

fn options(args: &PruneArgs, now_ms: i64) -> PruneOptions {
    PruneOptions { before_ms: args.older_than.map(|time| time.at_ms(now_ms)), only_empty: args.empty }
}

/// All sessions, and what goes of them.
fn make_plan(
    args: &PruneArgs,
    repo: &Repo,
    invocation: &mut Invocation<'_>,
) -> Result<(Vec<SessionSummary>, Vec<Pruned>), CliError> {
    let sessions = {
        let progress = invocation.ui.progress();
        repo.sessions(&|step| progress.show("reading sessions", step.done as u64, step.total as u64))?.sessions
    };
    let cwd = args.cwd.as_ref().map(|cwd| path_text(&absolute(&invocation.surroundings.cwd, cwd)));
    let here = cwd.unwrap_or_else(|| invocation.here());
    let mut same = SameFolder::new(repo, &here);
    let plan = plan(
        &sessions,
        options(args, invocation.now_ms()),
        &mut |session| args.all || same.is(&session.cwd),
        // Where nobody can tell who holds it, removing it fails with the reason.
        &mut |session| OwnerLock::owner(&**repo.fs(), &session.path).ok().flatten(),
    );
    Ok((sessions, plan))
}

fn carry_out(plan: &[Pruned], permanent: bool, repo: &Repo, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let trash = invocation.surroundings.trash.clone();
    let (mut removed, mut failed, mut bytes) = (0u64, 0u64, 0u64);
    for planned in plan {
        let session = &planned.session;
        let fate = if let Some(why) = stays(planned) {
            if planned.stays == Some(Stays::Changed) {
                invocation.ui.warn(&format!("stays, {why}: {}", session.path.display()));
            }
            Fate::Stays(why)
        } else if !is_as_planned(repo, session) {
            invocation.ui.warn(&format!("stays, it changed meanwhile: {}", session.path.display()));
            Fate::Stays("it changed meanwhile".to_owned())
        } else {
            let result = if permanent { repo.delete(&session.path) } else { repo.discard(&session.path, &*trash) };
            match result {
                Ok(_) => {
                    (removed, bytes) = (removed + 1, bytes + session.size_bytes);
                    if permanent { Fate::Deleted } else { Fate::Trashed }
                }
                Err(error) => {
                    failed += 1;
                    let why = CliError::reason(&error);
                    invocation.ui.warn(&why);
                    Fate::Stays(why)
                }
            }
        };
        if invocation.ui.is_json() {
            invocation.ui.json(&View::of(planned, &fate))?;
        }
    }
    let what = count(removed, "session", "sessions");
    let ui = &mut *invocation.ui;
    match permanent {
        _ if removed == 0 => ui.done("nothing was removed"),
        true => ui.done(&format!("deleted {what}, {}", size(bytes))),
        false => ui.done(&format!("moved {what}, {}, to the trash (pi-sessions restore brings them back)", size(bytes))),
    }
    if failed > 0 {
        let what = count(failed, "session could", "sessions could");
        let error = CliError::new(ErrorKind::Io, format!("{what} not be removed"));
        return Err(if permanent { error } else { error.hint("--permanent removes them without a trash") });
    }
    Ok(Outcome::Done)
}

/// Whether the file is as long as when it was listed.
fn is_as_planned(repo: &Repo, session: &SessionSummary) -> bool {
    repo.fs().metadata(&session.path).is_ok_and(|meta| meta.len == session.size_bytes)
}

/// The plan as JSON, where nothing is carried out.
fn print_plan(plan: &[Pruned], invocation: &mut Invocation<'_>) -> Result<(), CliError> {
    if !invocation.ui.is_json() {
        return Ok(());
    }
    for planned in plan {
        let fate = stays(planned).map_or(Fate::Planned, Fate::Stays);
        invocation.ui.json(&View::of(planned, &fate))?;
    }
    Ok(())
}

fn stays(planned: &Pruned) -> Option<String> {
    planned.stays.as_ref().map(|stays| match stays {
        Stays::InUse(owner) => format!("in use by {owner}"),
        Stays::FamilyInUse => "a session of its family is in use".to_owned(),
        Stays::Damaged => "lines of it cannot be read".to_owned(),
        Stays::Changed => "it or its family changed meanwhile".to_owned(),
    })
}

fn row(planned: &Pruned) -> SessionRow<'_> {
    let session = &planned.session;
    SessionRow {
        session,
        time_ms: Some(session.modified_ms),
        number: size(session.size_bytes),
        mark: if session.parent_session.is_some() { "  (fork)" } else { "" },
    }
}
