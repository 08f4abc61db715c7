//! `stats`: what sessions hold and cost, as a whole or in groups.
//!
//! # Invariants
//! - What forks copied counts once, for the session that was there first, also where that one is not shown.
//! - A session that is named alone counts whole, as in `show`.
//! - In JSON and CSV every key stands in every line, and numbers are plain.

use serde::Serialize;

use crate::cli::Outcome;
use crate::cli::error::CliError;
use crate::cli::folder::SameFolder;
use crate::cli::invocation::Invocation;
use crate::cli::moment::Moment;
use crate::cli::refer::find_session;
use crate::cli::text::{cut, one_line, pad, width};
use crate::cli::ui::{Look, Ui};
use crate::cli::view::{TokensView, count, grouped};
use crate::session::usage_report::{Group, GroupBy, Totals, Usage, UsageReport, Wanted};
use crate::storage::list::Skipped;
use crate::storage::usage::session_usage;

const EXAMPLES: &str = "\
Examples:
  pi-sessions stats --all --since 30d --by model
  pi-sessions stats @last --by tool --csv";

/// Adds up tokens, cost, messages, tool calls and time, in all or in groups
///
/// Takes the sessions of this folder, or one. Counts the entries of all branches, and the calls that made summaries. What forks copied counts once, for the session
/// that it was copied from; a session that is named alone counts whole. Active time is the sum of the gaps below five
/// minutes between consecutive messages. A turn is a message of a model with the results of its calls. Days are UTC.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct StatsArgs {
    /// One session: path, id, name, beginning of an id or @last (default: the sessions of this folder)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Sessions of all folders
    #[arg(long, conflicts_with = "session")]
    all: bool,
    /// Only entries from a time on: a date, a time as in the files, or how long ago, as in 90m, 24h, 7d or 2w
    #[arg(long, value_name = "T", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// Print a line for each day, model, project, session or tool
    #[arg(long, value_name = "WHAT")]
    by: Option<By>,
    /// Print comma-separated values, a line of names first
    #[arg(long)]
    csv: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Days, UTC
    Day,
    /// Providers and their models
    Model,
    /// Folders
    Project,
    /// Sessions
    Session,
    /// Tools: their calls, failures and results
    Tool,
}

impl By {
    fn group_by(self) -> GroupBy {
        match self {
            Self::Day => GroupBy::Day,
            Self::Model => GroupBy::Model,
            Self::Project => GroupBy::Project,
            Self::Session => GroupBy::Session,
            Self::Tool => GroupBy::Tool,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Model => "model",
            Self::Project => "project",
            Self::Session => "session",
            Self::Tool => "tool",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    by: Option<&'a str>,
    key: Option<&'a str>,
    name: Option<&'a str>,
    sessions: u64,
    messages: u64,
    prompts: u64,
    turns: u64,
    tool_calls: u64,
    tool_failures: u64,
    compactions: u64,
    branches: u64,
    tokens: TokensView,
    cost: f64,
    active_ms: i64,
}

impl<'a> View<'a> {
    fn of(by: Option<By>, group: Option<&'a Group>, totals: &Totals) -> Self {
        Self {
            by: by.map(By::name),
            key: group.map(|group| group.key.as_str()),
            name: group.and_then(|group| group.name.as_deref()),
            sessions: totals.sessions,
            messages: totals.messages,
            prompts: totals.prompts,
            turns: totals.turns,
            tool_calls: totals.tool_calls,
            tool_failures: totals.tool_failures,
            compactions: totals.compactions,
            branches: totals.branches,
            tokens: TokensView::of(totals.tokens),
            cost: totals.cost,
            active_ms: totals.active_ms,
        }
    }
}

pub(super) fn run(args: &StatsArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    if args.csv && invocation.ui.is_json() {
        return Err(CliError::usage("--csv and --json are two forms of the same; give one of them"));
    }
    let since_ms = args.since.map(|since| since.at_ms(invocation.now_ms()));
    let mut report = UsageReport::new(args.by.map(By::group_by), since_ms);
    let skipped = match &args.session {
        Some(session) => {
            let path = find_session(invocation, Some(session))?;
            let repo = invocation.repo()?;
            report.add(&session_usage(&**repo.fs(), &path)?, Wanted::Counted);
            Vec::new()
        }
        None => add_all(args.all, &mut report, invocation)?,
    };
    let usage = report.finish();
    let ui = &mut *invocation.ui;
    match (args.by, args.csv, ui.is_json()) {
        (None, false, true) => ui.json(&View::of(None, None, &usage.total))?,
        (Some(_), false, true) => {
            for group in &usage.groups {
                ui.json(&View::of(args.by, Some(group), &group.totals))?;
            }
        }
        (by, true, _) => print_csv(by, &usage, ui)?,
        (Some(by), false, false) => print_table(by, &usage, ui)?,
        (None, false, false) => print_total(&usage.total, ui)?,
    }
    tell(&usage, &skipped, ui);
    Ok(Outcome::Done)
}

fn add_all(all: bool, report: &mut UsageReport, invocation: &mut Invocation<'_>) -> Result<Vec<Skipped>, CliError> {
    let repo = invocation.repo()?;
    let here = invocation.here();
    let mut same = SameFolder::new(&repo, &here);
    let progress = invocation.ui.progress();
    let skipped = repo.add_usage(
        report,
        &mut |session| if all || same.is(&session.cwd) { Wanted::Counted } else { Wanted::OnlySeen },
        &|step| progress.show("reading sessions", step.done as u64, step.total as u64),
    )?;
    Ok(skipped)
}

/// What is not in the numbers.
fn tell(usage: &Usage, skipped: &[Skipped], ui: &mut Ui) {
    if ui.is_verbose() {
        for skip in skipped {
            ui.note(&format!("left out: {}", CliError::reason(&skip.reason)));
        }
    } else if !skipped.is_empty() {
        let files = count(skipped.len() as u64, "file is no session and was", "files are no sessions and were");
        ui.note(&format!("{files} left out (-v tells why)"));
    }
    if usage.copies > 0 {
        let entries =
            count(usage.copies, "entry is a copy that a fork made and counts", "entries are copies that forks made and count");
        ui.note(&format!("{entries} once"));
    }
    if usage.total.sessions == 0 {
        ui.note("there is nothing to count (--all takes the sessions of all folders)");
    }
}

fn print_total(totals: &Totals, ui: &mut Ui) -> Result<(), CliError> {
    let tokens = totals.tokens;
    let rows = [
        ("sessions", grouped(totals.sessions)),
        (
            "messages",
            format!(
                "{} ({}, {})",
                grouped(totals.messages),
                count(totals.prompts, "prompt", "prompts"),
                count(totals.turns, "turn", "turns")
            ),
        ),
        ("tool calls", format!("{} ({} failed)", grouped(totals.tool_calls), grouped(totals.tool_failures))),
        ("compactions", grouped(totals.compactions)),
        ("branches", grouped(totals.branches)),
        (
            "tokens",
            format!(
                "{} (input {}, output {}, cache read {}, cache write {})",
                grouped(tokens.total()),
                grouped(tokens.input),
                grouped(tokens.output),
                grouped(tokens.cache_read),
                grouped(tokens.cache_write)
            ),
        ),
        ("cost", dollars(totals.cost)),
        ("active", span_text(totals.active_ms)),
    ];
    for (key, value) in rows {
        let key = ui.paint(Look::Dim, &format!("{key:<11}"));
        ui.line(&format!("{key}  {value}"))?;
    }
    Ok(())
}

/// A column of numbers. The columns with the highest `drop` go first where a terminal is narrow.
struct Column {
    head: &'static str,
    drop: u8,
    cell: fn(&Totals) -> String,
}

const COLUMNS: [Column; 13] = [
    Column { head: "SESSIONS", drop: 5, cell: |totals| grouped(totals.sessions) },
    Column { head: "MSGS", drop: 4, cell: |totals| grouped(totals.messages) },
    Column { head: "PROMPTS", drop: 8, cell: |totals| grouped(totals.prompts) },
    Column { head: "TURNS", drop: 3, cell: |totals| grouped(totals.turns) },
    Column { head: "CALLS", drop: 6, cell: |totals| grouped(totals.tool_calls) },
    Column { head: "FAILED", drop: 7, cell: |totals| grouped(totals.tool_failures) },
    Column { head: "COMPACTIONS", drop: 11, cell: |totals| grouped(totals.compactions) },
    Column { head: "BRANCHES", drop: 10, cell: |totals| grouped(totals.branches) },
    Column { head: "INPUT", drop: 2, cell: |totals| grouped(totals.tokens.input) },
    Column { head: "OUTPUT", drop: 2, cell: |totals| grouped(totals.tokens.output) },
    Column { head: "CACHE READ", drop: 9, cell: |totals| grouped(totals.tokens.cache_read) },
    Column { head: "CACHE WRITE", drop: 9, cell: |totals| grouped(totals.tokens.cache_write) },
    Column { head: "ACTIVE", drop: 1, cell: |totals| span_text(totals.active_ms) },
];

/// The columns of a report by tool.
const TOOL_HEADS: [&str; 4] = ["SESSIONS", "CALLS", "FAILED", "MSGS"];

/// The widest name of a group on a terminal.
const KEY_COLUMNS: usize = 36;
/// The widest bar, and the narrowest that is worth it.
const BAR_COLUMNS: usize = 20;
const MIN_BAR_COLUMNS: usize = 6;
/// Columns with a `drop` up to this one are worth more than bars.
const KEPT_BEFORE_BARS: u8 = 3;

fn print_table(by: By, usage: &Usage, ui: &mut Ui) -> Result<(), CliError> {
    if usage.groups.is_empty() {
        return Ok(());
    }
    let terminal = ui.columns();
    // The total of all entries says nothing about tools, of which only calls and results are shown.
    let with_total = by != By::Tool;
    let keys: Vec<String> = usage.groups.iter().map(|group| key_text(group, terminal.is_some())).collect();
    let totals: Vec<&Totals> = usage.groups.iter().map(|group| &group.totals).chain(with_total.then_some(&usage.total)).collect();
    let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    keys.extend(with_total.then_some("total"));

    let head = by.name().to_uppercase();
    let key_columns = keys.iter().map(|key| width(key)).max().unwrap_or(0).max(width(&head));
    let mut columns: Vec<(&Column, Vec<String>, usize)> = COLUMNS
        .iter()
        .filter(|column| by != By::Tool || TOOL_HEADS.contains(&column.head))
        .map(|column| {
            let cells: Vec<String> = totals.iter().map(|totals| (column.cell)(totals)).collect();
            let columns = cells.iter().map(|cell| cell.len()).max().unwrap_or(0).max(column.head.len());
            (column, cells, columns)
        })
        .collect();
    let costs: Vec<String> = totals.iter().map(|totals| dollars(totals.cost)).collect();
    let cost_columns = costs.iter().map(String::len).max().unwrap_or(0).max(4);
    let used = |columns: &[(&Column, Vec<String>, usize)]| {
        key_columns + 2 + cost_columns + columns.iter().map(|(_, _, columns)| columns + 2).sum::<usize>()
    };
    // Columns that say little give way to the bars, too.
    let for_bars = |drop: u8| if drop > KEPT_BEFORE_BARS { MIN_BAR_COLUMNS + 2 } else { 0 };
    while let (Some(terminal), Some(drop)) = (terminal, columns.iter().map(|(column, _, _)| column.drop).max()) {
        if used(&columns) + for_bars(drop) <= terminal {
            break;
        }
        columns.retain(|(column, _, _)| column.drop != drop);
    }
    let bar_columns = terminal.map_or(0, |terminal| terminal.saturating_sub(used(&columns) + 2).min(BAR_COLUMNS));
    let weights = weights(by, &usage.groups);

    let mut line = pad(&head, key_columns);
    for (column, _, columns) in &columns {
        line.push_str(&format!("  {:>columns$}", column.head));
    }
    line.push_str(&format!("  {:>cost_columns$}", "COST"));
    let line = ui.paint(Look::Dim, &cut(&line, terminal));
    ui.line(&line)?;
    for (row, key) in keys.iter().enumerate() {
        let mut line = pad(key, key_columns);
        for (_, cells, columns) in &columns {
            line.push_str(&format!("  {:>columns$}", cells[row]));
        }
        line.push_str(&format!("  {:>cost_columns$}", costs[row]));
        if let Some(weight) = weights.get(row).filter(|_| bar_columns >= MIN_BAR_COLUMNS) {
            line.push_str(&format!("  {}", ui.paint(Look::Active, &bar(*weight, bar_columns))));
        }
        ui.line(line.trim_end())?;
    }
    Ok(())
}

/// What a group is called in a table.
fn key_text(group: &Group, on_terminal: bool) -> String {
    let key = one_line(&group.key);
    let text = match &group.name {
        Some(name) => format!("{key}  {}", one_line(name)),
        None => key,
    };
    if on_terminal { cut(&text, Some(KEY_COLUMNS)).into_owned() } else { text }
}

/// How long the bar of each group is, from 0 to 1: by cost, or by tokens where nothing cost anything; by calls of tools.
fn weights(by: By, groups: &[Group]) -> Vec<f64> {
    let has_cost = groups.iter().any(|group| group.totals.cost > 0.0);
    let weight = |group: &Group| match by {
        By::Tool => group.totals.tool_calls as f64,
        By::Day | By::Model | By::Project | By::Session if has_cost => group.totals.cost,
        By::Day | By::Model | By::Project | By::Session => group.totals.tokens.total() as f64,
    };
    let largest = groups.iter().map(weight).fold(0.0, f64::max);
    groups.iter().map(|group| if largest > 0.0 { (weight(group) / largest).clamp(0.0, 1.0) } else { 0.0 }).collect()
}

/// A bar of at most `columns` columns, in eighths of a column.
fn bar(weight: f64, columns: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (weight * columns as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

fn print_csv(by: Option<By>, usage: &Usage, ui: &mut Ui) -> Result<(), CliError> {
    ui.line(
        "by,key,name,sessions,messages,prompts,turns,toolCalls,toolFailures,compactions,branches,input,output,cacheRead,\
         cacheWrite,total,cost,activeMs",
    )?;
    let total = Group { key: String::new(), name: None, totals: usage.total };
    let groups = if by.is_some() { usage.groups.as_slice() } else { std::slice::from_ref(&total) };
    for Group { key, name, totals } in groups {
        let tokens = totals.tokens;
        let numbers = [
            totals.sessions,
            totals.messages,
            totals.prompts,
            totals.turns,
            totals.tool_calls,
            totals.tool_failures,
            totals.compactions,
            totals.branches,
            tokens.input,
            tokens.output,
            tokens.cache_read,
            tokens.cache_write,
            tokens.total(),
        ];
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let (by, key, name) = (by.map_or("", By::name), csv_cell(key), csv_cell(name.as_deref().unwrap_or("")));
        ui.line(&format!("{by},{key},{name},{},{},{}", numbers.join(","), totals.cost, totals.active_ms))?;
    }
    Ok(())
}

/// A cell of text. What a spreadsheet would take for a formula gets a quote in front.
fn csv_cell(text: &str) -> String {
    let mut text = one_line(text);
    if text.starts_with(['=', '+', '-', '@']) {
        text.insert(0, '\'');
    }
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn dollars(cost: f64) -> String {
    format!("${cost:.4}")
}

/// A span of time for people.
fn span_text(ms: i64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}
