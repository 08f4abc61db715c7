//! `show`: what a session is and what it cost.
//!
//! # Invariants
//! - Counts, tokens and cost are of all branches.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::args::SessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{note_stray_tail, open_session, warn_cut_path};
use crate::cli::text::{one_line, one_line_start};
use crate::cli::ui::Look;
use crate::cli::view::{ModelView, SummaryView, TokensView, age, count, entry_line, grouped, model_text, path_text, size};
use crate::session::context::PathState;
use crate::session::entry::parse_timestamp_ms;
use crate::session::stats::SessionStats;
use crate::storage::StorageError;
use crate::storage::handle::{Previewing, Session};
use crate::storage::list::SessionSummary;
use crate::storage::repo::Repo;

const EXAMPLES: &str = "\
Examples:
  pi-sessions show @last
  pi-sessions show 019ad3c5 --json | jq .cost";

/// Describes a session: folder, model, leaf, counts, tokens, cost, parent and forks
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowArgs {
    #[command(flatten)]
    session: SessionArg,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    #[serde(flatten)]
    summary: SummaryView<'a>,
    /// Null when it is no number.
    version: Option<u64>,
    model: Option<ModelView<'a>>,
    thinking_level: &'a str,
    leaf_id: Option<String>,
    branches: u64,
    tokens: TokensView,
    cost: f64,
    forks: Vec<String>,
}

/// All that is shown.
struct Facts {
    summary: SessionSummary,
    stats: SessionStats,
    state: PathState,
    parent: Option<PathBuf>,
    forks: Vec<PathBuf>,
    cwd_exists: bool,
}

pub(super) fn run(args: &ShowArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let session = open_session(invocation, args.session.session.as_deref())?;
    let repo = invocation.repo()?;
    let facts = Facts::of(&session, &repo)?;
    if invocation.ui.is_json() {
        invocation.ui.json(&View {
            summary: SummaryView::of(&facts.summary.borrowed()),
            version: known_version(&session),
            model: facts.state.model.as_ref().map(|model| ModelView::of(Some(model))),
            thinking_level: &facts.state.thinking_level,
            leaf_id: session.leaf_id().map(|id| id.to_string()),
            branches: facts.summary.branches,
            tokens: TokensView::of(facts.stats.tokens),
            cost: facts.stats.cost,
            forks: facts.forks.iter().map(|path| path_text(path)).collect(),
        })?;
    } else {
        print(&facts, &session, invocation)?;
    }
    note_stray_tail(invocation, &session)?;
    warn_cut_path(invocation, &session, session.leaf())?;
    Ok(Outcome::Done)
}

impl Facts {
    fn of(session: &Session, repo: &Repo) -> Result<Self, StorageError> {
        let path = session.read().path().map(PathBuf::from).unwrap_or_default();
        let (summary, forks) = repo.summary_and_forks(&path, &session.header().id)?;
        let stats = repo.session_usage(&path)?.stats();
        let on_path = session.tree().path(session.leaf());
        let state = PathState::of(session.tree(), &on_path, &Previewing(session.read()))?;
        let parent = repo.find_parent(session.header())?;
        let cwd_exists = repo.fs().metadata(std::path::Path::new(&session.header().cwd)).is_ok();
        Ok(Self { summary, stats, state, parent, forks, cwd_exists })
    }
}

fn print(facts: &Facts, session: &Session, invocation: &mut Invocation<'_>) -> Result<(), CliError> {
    let now_ms = invocation.now_ms();
    let ui = &mut *invocation.ui;
    let on_terminal = ui.columns().is_some();
    let Facts { summary, stats, state, .. } = facts;
    let time = |time: &str| match parse_timestamp_ms(time).filter(|_| on_terminal) {
        Some(time_ms) => format!("{} ({})", one_line(time), age(time_ms, now_ms, true)),
        None => one_line(time),
    };
    let mut rows: Vec<(&str, String)> = Vec::new();
    let name = summary.name.as_deref().map(|name| ui.paint(Look::Name, &one_line(name)));
    rows.push(("name", name.unwrap_or_else(|| ui.paint(Look::Dim, "none"))));
    rows.push(("id", ui.paint(Look::Id, &one_line(&summary.id))));
    rows.push(("file", one_line(&path_text(&summary.path))));
    let gone = if facts.cwd_exists { String::new() } else { format!("  {}", ui.paint(Look::Warn, "(does not exist)")) };
    rows.push(("folder", format!("{}{gone}", one_line(&summary.cwd))));
    rows.push(("created", time(&summary.created)));
    rows.push(("activity", time(&crate::session::entry::format_timestamp(summary.modified_ms))));
    rows.push(("version", known_version(session).map_or_else(|| "no number".to_owned(), |version| version.to_string())));
    rows.push(("model", model_text(state.model.as_ref()).map_or_else(|| "none".to_owned(), |model| one_line(&model))));
    rows.push(("thinking", one_line(&state.thinking_level)));
    let leaf = match session.leaf() {
        Some(leaf) => {
            let entry = session.read().preview(leaf)?;
            let text = entry.map(|entry| entry_line(&entry)).unwrap_or_default();
            format!("{}  {}", ui.paint(Look::Id, &one_line(session.tree().id(leaf).as_str())), one_line_start(&text, 60))
        }
        None => "none; the next entry begins the tree".to_owned(),
    };
    rows.push(("leaf", leaf));
    let parts = format!(
        "{} ({} user, {} assistant, {})",
        grouped(stats.messages),
        grouped(stats.user_messages),
        grouped(stats.assistant_messages),
        count(stats.tool_results, "tool result", "tool results")
    );
    rows.push(("messages", parts));
    rows.push(("entries", grouped(session.tree().len() as u64)));
    rows.push(("compactions", grouped(stats.compactions)));
    rows.push(("branches", grouped(summary.branches)));
    let tokens = stats.tokens;
    let parts = format!(
        "{} (input {}, output {}, cache read {}, cache write {})",
        grouped(tokens.total()),
        grouped(tokens.input),
        grouped(tokens.output),
        grouped(tokens.cache_read),
        grouped(tokens.cache_write)
    );
    rows.push(("tokens", parts));
    rows.push(("cost", format!("${:.4}", stats.cost)));
    rows.push(("size", size(summary.size_bytes)));
    if let Some(parent) = &session.header().parent_session {
        let shown = facts.parent.as_ref().map_or_else(|| format!("{parent}  (not found)"), |path| path_text(path));
        rows.push(("parent", one_line(&shown)));
    }
    for fork in &facts.forks {
        rows.push(("fork", one_line(&path_text(fork))));
    }
    for (key, value) in rows {
        let key = ui.paint(Look::Dim, &format!("{key:<11}"));
        ui.line(&format!("{key}  {value}"))?;
    }
    Ok(())
}

fn known_version(session: &Session) -> Option<u64> {
    Some(session.header().version).filter(|version| *version != u64::MAX)
}
