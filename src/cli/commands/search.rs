//! `search`: finds what was said, in the sessions of a folder or of all.
//!
//! # Invariants
//! - What is found does not depend on whether there is an index.
//! - The command below a hit finds that session and that entry.
//! - Without a terminal all hits are shown, ids are whole and times are dates.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::commands::list::short_id_len;
use crate::cli::error::CliError;
use crate::cli::folder::absolute;
use crate::cli::invocation::Invocation;
use crate::cli::moment::Moment;
use crate::cli::refer::CommandNames;
use crate::cli::text::{cut, cut_start, lines, one_line, operand, pad, quote, width};
use crate::cli::ui::{Look, Ui};
use crate::cli::view::{age, count, path_text};
use crate::session::entry::{EntryType, SessionId, format_timestamp};
use crate::session::message::Role;
use crate::storage::list::SessionSummary;
use crate::storage::search::{
    Query, QueryError, SearchHit, SearchIndex, SearchOptions, SearchProgress, SearchResults, SearchStep, Snippet,
};

/// How many hits a terminal gets.
const TERMINAL_HITS: usize = 20;
/// With less room a name or folder tells nothing.
const TITLE_COLUMNS: usize = 8;

const EXAMPLES: &str = "\
Examples:
  pi-sessions search 'login bug' --since 1w
  pi-sessions search '\"parser error\" OR lex*' --all --role assistant
  pi-sessions search --regex 'TODO.*[0-9]+' --json | jq -r .entryId";

/// Finds what was said in the sessions of this folder, on every branch
///
/// Searches what users and models said, tool calls and their results, commands, names and labels; the newest hit comes
/// first, with the command that goes on from there.
///
/// All words of QUERY have to be in one entry: parser error. Words in double quotes stand side by side: "parser error".
/// A star ends the beginning of a word: pars*. OR between words takes either side. Upper and lower case are the same.
///
/// An index of the words is kept in the platform's cache folder.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SearchArgs {
    /// What to look for
    #[arg(value_name = "QUERY")]
    query: String,
    /// Sessions of all folders
    #[arg(long, conflicts_with = "cwd")]
    all: bool,
    /// Sessions of another folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Only messages of this role: user, assistant, toolResult or bashExecution
    #[arg(long, value_name = "ROLE", hide_possible_values = true)]
    role: Option<SearchedRole>,
    /// QUERY is a regular expression, in which upper and lower case differ; reads every file
    #[arg(long)]
    regex: bool,
    /// Only what is as new as this: 30m, 2h, 3d or 1w ago, or a date such as 2026-11-30 (UTC)
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// At most N hits, the newest (default: 20 on a terminal, else all)
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Read every file, without the index
    #[arg(long)]
    no_index: bool,
}

/// A role that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SearchedRole {
    User,
    Assistant,
    #[value(name = "toolResult", aliases = ["tool", "tool-result"])]
    ToolResult,
    #[value(name = "bashExecution", aliases = ["bash", "bash-execution"])]
    BashExecution,
}

impl SearchedRole {
    fn role(self) -> Role {
        match self {
            Self::User => Role::User,
            Self::Assistant => Role::Assistant,
            Self::ToolResult => Role::ToolResult,
            Self::BashExecution => Role::BashExecution,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    path: String,
    session_id: &'a str,
    entry_id: &'a str,
    role: Option<&'a str>,
    timestamp: Option<String>,
    snippet: &'a str,
}

impl<'a> View<'a> {
    fn of(hit: &'a SearchHit) -> Self {
        Self {
            path: path_text(&hit.path),
            session_id: &hit.session_id,
            entry_id: hit.entry_id.as_str(),
            role: hit.role.map(Role::as_wire),
            timestamp: hit.timestamp_ms.map(format_timestamp),
            snippet: &hit.snippet.text,
        }
    }
}

pub(super) fn run(args: &SearchArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let query = query(args)?;
    let repo = invocation.repo()?;
    let cwd = args.cwd.as_ref().map(|cwd| absolute(&invocation.surroundings.cwd, cwd));
    let here = cwd.map_or_else(|| invocation.here(), |cwd| path_text(&cwd));
    let is_short = !invocation.ui.is_json() && invocation.ui.columns().is_some();
    let limit = args.limit.or(is_short.then_some(TERMINAL_HITS));
    let options = SearchOptions {
        cwd: (!args.all).then(|| here.clone()),
        role: args.role.map(SearchedRole::role),
        since_ms: args.since.map(|since| since.at_ms(invocation.now_ms())),
        // One more tells whether there are more.
        limit: limit.map(|limit| limit.saturating_add(1)),
    };
    let SearchResults { mut hits, skipped, is_indexed } = {
        let index = invocation.cache_dir()?.filter(|_| !args.no_index).map(SearchIndex::new);
        let progress = invocation.ui.progress();
        let show = |far: SearchProgress| {
            let what = match far.step {
                SearchStep::Index => "indexing",
                SearchStep::Read => "searching",
            };
            progress.show_size(what, far.done_bytes, far.total_bytes);
        };
        match index {
            Some(index) => repo.search_indexed(&index, &query, &options, &show)?,
            None => repo.search_scan(&query, &options, &show)?,
        }
    };
    let has_more = limit.is_some_and(|limit| hits.len() > limit);
    hits.truncate(limit.unwrap_or(hits.len()));

    if invocation.ui.is_json() {
        for hit in &hits {
            invocation.ui.json(&View::of(hit))?;
        }
    } else if !hits.is_empty() {
        let sessions = {
            let progress = invocation.ui.progress();
            repo.sessions(&|step| progress.show("reading sessions", step.done as u64, step.total as u64))?.sessions
        };
        print(&hits, &sessions, invocation)?;
    }

    let ui = &mut *invocation.ui;
    if ui.is_verbose() && !is_indexed && !args.no_index && !args.regex {
        ui.note("the index is switched off or cannot be used, so every file was read");
    }
    for skip in &skipped {
        ui.warn(&format!("not searched: {}", CliError::reason(&skip.reason)));
    }
    if has_more {
        ui.note(&format!("there are more than these {} (--limit N shows more)", count(hits.len() as u64, "hit", "hits")));
    }
    if hits.is_empty() && !has_more {
        match args.all {
            true => ui.note("nothing was found"),
            false => ui.note(&format!("nothing was found in this folder's sessions (--all searches all folders): {here}")),
        }
    }
    Ok(Outcome::Done)
}

fn query(args: &SearchArgs) -> Result<Query, CliError> {
    let text = &args.query;
    let parsed = if args.regex { Query::regex(text) } else { Query::words(text) };
    parsed.map_err(|error| match error {
        QueryError::NoWords => CliError::usage(format!("there is no letter, digit or symbol to look for in {text:?}"))
            .hint("to look for signs: pi-sessions search --regex '=>'"),
        QueryError::Regex(error) => {
            let (what, at) = regex_fault(&error.to_string());
            // In a pattern of several lines the place counts from the line's beginning.
            let at = at.filter(|_| !text.contains('\n')).map_or_else(String::new, |at| format!(" at character {at}"));
            CliError::usage(format!("the regular expression is wrong{at}, {what}: {text}"))
        }
    })
}

/// What is wrong with a regular expression and at which character, from the report that shows the place with carets.
fn regex_fault(report: &str) -> (String, Option<usize>) {
    const INDENT: usize = 4;
    let last = report.lines().last().unwrap_or_default();
    let what = last.strip_prefix("error: ").unwrap_or(last);
    let is_marks = |line: &&str| line.contains('^') && line.chars().all(|char| matches!(char, '^' | ' '));
    // The line of the pattern may look like marks, too, and stands before.
    let marks = report.lines().rfind(is_marks).and_then(|line| line.find('^'));
    (what.to_owned(), marks.and_then(|at| (at + 1).checked_sub(INDENT)))
}

/// What stands in the header line of a hit, and the command below.
struct Row {
    id: String,
    entry: String,
    role: String,
    age: String,
    title: (String, Look),
    command: String,
}

fn print(hits: &[SearchHit], sessions: &[SessionSummary], invocation: &mut Invocation<'_>) -> Result<(), CliError> {
    let columns = invocation.ui.columns();
    let now_ms = invocation.now_ms();
    let id_len = columns.map_or(usize::MAX, |_| short_id_len(sessions));
    let mut by_path: HashMap<&Path, &SessionSummary> = HashMap::new();
    let mut ids: HashMap<&str, usize> = HashMap::new();
    for session in sessions {
        by_path.insert(&session.path, session);
        *ids.entry(&session.id).or_default() += 1;
    }
    let names = CommandNames::of(invocation)?;
    let row = |hit: &SearchHit| {
        let id: String = hit.session_id.chars().take(id_len).collect();
        let is_found = SessionId::new(hit.session_id.as_str()).is_ok() && ids.get(hit.session_id.as_str()) == Some(&1);
        let session = if is_found && names.are_ids() { id.clone() } else { quote(&hit.path.to_string_lossy()) };
        let summary = by_path.get(&*hit.path);
        let name = summary.and_then(|summary| summary.name.as_deref());
        Row {
            id: one_line(&id),
            entry: one_line(hit.entry_id.as_str()),
            role: match (hit.entry_type, hit.role) {
                (EntryType::SessionInfo, _) => "name".to_owned(),
                (_, Some(role)) => role.as_wire().to_owned(),
                (other, None) => other.as_wire().to_owned(),
            },
            age: hit.timestamp_ms.map_or_else(|| "no time".to_owned(), |time| age(time, now_ms, columns.is_some())),
            title: match name {
                Some(name) => (one_line(name), Look::Name),
                None => (one_line(summary.map_or("", |summary| &summary.cwd)), Look::Dim),
            },
            // A name or a label is no place to go on from.
            command: one_line(&match hit.entry_type == EntryType::Message {
                true => format!("pi-sessions goto {session} {}", operand(hit.entry_id.as_str())),
                false => format!("pi-sessions resume {session}"),
            }),
        }
    };
    let rows: Vec<_> = hits.iter().map(row).collect();
    let widest = |cell: fn(&Row) -> &str| rows.iter().map(|row| width(cell(row))).max().unwrap_or(0);
    let id_columns = widest(|row| &row.id);
    let entry_columns = widest(|row| &row.entry);
    let role_columns = widest(|row| &row.role);
    let age_columns = widest(|row| &row.age);
    let ui = &mut *invocation.ui;
    for (hit, row) in hits.iter().zip(&rows) {
        let rest =
            format!("  {}  {}  {}  ", pad(&row.entry, entry_columns), pad(&row.role, role_columns), pad(&row.age, age_columns));
        let left = columns.map(|columns| columns.saturating_sub(id_columns + width(&rest)));
        let (title, look) = &row.title;
        let title = if left.is_some_and(|left| left < TITLE_COLUMNS) { "".into() } else { cut(title, left) };
        let fill = " ".repeat(id_columns - width(&row.id));
        let line = format!("{}{fill}{rest}{}", ui.paint(Look::Id, &row.id), ui.paint(*look, &title));
        ui.line(line.trim_end())?;
        let snippet = snippet_line(&hit.snippet, columns.map(|columns| columns.saturating_sub(2)), ui);
        ui.line(&format!("  {snippet}"))?;
        let command = ui.paint(Look::Dim, &row.command);
        ui.line(&format!("  {command}"))?;
    }
    Ok(())
}

/// A snippet on one line with its matches marked, by colour or by `«»`.
fn snippet_line(snippet: &Snippet, columns: Option<usize>, ui: &Ui) -> String {
    let is_colored = ui.out_is_colored();
    let mut pieces = Vec::new();
    let mut behind = 0;
    for range in &snippet.highlights {
        pieces.push((clean(snippet.text.get(behind..range.start).unwrap_or_default()), false));
        let hit = clean(snippet.text.get(range.clone()).unwrap_or_default());
        pieces.push((if is_colored { hit } else { format!("«{hit}»") }, true));
        behind = range.end;
    }
    pieces.push((clean(snippet.text.get(behind..).unwrap_or_default()), false));
    pieces.retain(|(piece, _)| !piece.is_empty());
    if let Some(columns) = columns {
        pieces = fit(pieces, columns);
    }
    pieces.iter().map(|(piece, is_hit)| if *is_hit { ui.paint(Look::Hit, piece) } else { piece.clone() }).collect()
}

/// A piece of a line, fit for a terminal, with the blanks at its ends.
fn clean(piece: &str) -> String {
    let piece = lines(piece);
    let inner = one_line(&piece);
    let blank = |is_there: bool| if is_there { " " } else { "" };
    match inner.is_empty() {
        true => blank(!piece.is_empty()).to_owned(),
        false => {
            format!("{}{inner}{}", blank(piece.starts_with(char::is_whitespace)), blank(piece.ends_with(char::is_whitespace)))
        }
    }
}

/// The pieces cut to `columns`, so that the first match shows.
fn fit(mut pieces: Vec<(String, bool)>, columns: usize) -> Vec<(String, bool)> {
    let width_of = |pieces: &[(String, bool)]| pieces.iter().map(|(piece, _)| width(piece)).sum::<usize>();
    let lead = pieces.iter().position(|(_, is_hit)| *is_hit).unwrap_or(0);
    if lead > 0 && width_of(&pieces[..=lead]) > columns {
        // A third is for what stands before.
        let first = &mut pieces[0].0;
        *first = cut_start(first, columns / 3);
    }
    let mut left = columns;
    let mut kept = Vec::new();
    let mut rest = width_of(&pieces);
    for (piece, is_hit) in pieces {
        let own = width(&piece);
        if rest <= left || own < left {
            left -= own;
            rest -= own;
            kept.push((piece, is_hit));
            continue;
        }
        if left > 0 {
            kept.push((cut(&piece, Some(left.min(own.saturating_sub(1)))).into_owned(), is_hit));
        }
        break;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_still_shows_the_match() {
        let shown = |pieces: &[(&str, bool)], columns| {
            let pieces = pieces.iter().map(|(piece, is_hit)| ((*piece).to_owned(), *is_hit)).collect();
            fit(pieces, columns)
                .iter()
                .map(|(piece, is_hit)| if *is_hit { format!("[{piece}]") } else { piece.clone() })
                .collect::<String>()
        };
        let line = [("before the ", false), ("match", true), (" and behind", false)];
        assert_eq!(shown(&line, 27), "before the [match] and behind");
        assert_eq!(shown(&line, 26), "before the [match] and behi…");
        assert_eq!(shown(&line, 17), "before the [match]…");
        assert_eq!(shown(&line, 15), "…the [match] and…");
        assert_eq!(shown(&[("日本語日本語", false), ("一致", true)], 12), "…語[一致]");
        assert_eq!(shown(&[("a long match", true), ("x", false)], 6), "[a lon…]");
        assert_eq!(shown(&line, 0), "");
    }

    #[test]
    fn a_wrong_pattern_is_located() {
        for (pattern, what, at) in [
            ("a(b", "unclosed group", Some(2)),
            ("日本[", "unclosed character class", Some(3)),
            ("*", "repetition operator missing expression", Some(1)),
        ] {
            let Err(QueryError::Regex(error)) = Query::regex(pattern) else { panic!("{pattern} is no pattern") };
            assert_eq!(regex_fault(&error.to_string()), (what.to_owned(), at), "{pattern}");
        }
        let Err(QueryError::Regex(error)) = Query::regex("(a{1000}){1000}") else { panic!("it is too large") };
        assert_eq!(regex_fault(&error.to_string()).1, None);
    }
}
