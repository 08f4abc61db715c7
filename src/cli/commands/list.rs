//! `list`: the table of sessions.
//!
//! # Invariants
//! - Nothing is left out silently: what is hidden is counted in a note.
//! - An id that is shown in short resolves: no other session of the root begins with it.
//! - Without a terminal ids are whole, times are dates and nothing is cut.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::cli::Outcome;
use crate::cli::error::CliError;
use crate::cli::folder::{SameFolder, absolute};
use crate::cli::invocation::Invocation;
use crate::cli::text::{cut, cut_start, one_line, one_line_start, pad, width};
use crate::cli::ui::Look;
use crate::cli::view::{PIPE_COLUMNS, SummaryView, age, count, path_text};
use crate::storage::cores::map_on_all_cores;
use crate::storage::list::{Listing, SessionSummary, Sessions, Skipped, SummaryRef};
use crate::storage::repo::{Repo, id_in_file_name};

const EXAMPLES: &str = "\
Examples:
  pi-sessions list --all --limit 20
  pi-sessions list --json | jq -r .path";

/// Lists the sessions of this folder, the latest activity first
///
/// Shows id, age, messages, branches, and the name or the first message. Sessions in which nobody spoke yet are hidden
/// unless --empty is given.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ListArgs {
    /// Sessions of all folders
    #[arg(long, conflicts_with = "cwd")]
    all: bool,
    /// Sessions of another folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Only sessions with a name
    #[arg(long)]
    named: bool,
    /// Also sessions without a user or assistant message
    #[arg(long)]
    empty: bool,
    /// At most N sessions
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// What to sort by
    #[arg(long, value_name = "KEY", default_value = "modified")]
    sort: SortBy,
}

/// What a list is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SortBy {
    /// Latest activity first
    Modified,
    /// Newest first
    Created,
    /// By name, those without one last
    Name,
    /// Most messages first
    Messages,
    /// Largest first
    Size,
}

pub(super) fn run(args: &ListArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let repo = invocation.repo()?;
    let sessions = {
        let progress = invocation.ui.progress();
        repo.sessions_in_place(&|step| progress.show("reading sessions", step.done as u64, step.total as u64))?
    };
    // All of them as they come need not be taken out to be sorted or compared.
    if invocation.ui.is_json() && args.all && args.limit.is_none() && args.sort == SortBy::Modified {
        let counts = print_all(&sessions, args, invocation)?;
        tell(args, &counts, sessions.skipped(), &repo, "", invocation);
        // To free a hundred thousand of them takes longer than to print what is shown of some.
        std::mem::forget(sessions);
        return Ok(Outcome::Done);
    }
    let Listing { mut sessions, skipped } = sessions.into_listing();
    // Without a terminal ids are whole, and nobody has to sort them all.
    let id_columns =
        if invocation.ui.columns().is_some() && !invocation.ui.is_json() { short_id_len(&sessions) } else { usize::MAX };

    let cwd = args.cwd.as_ref().map(|cwd| absolute(&invocation.surroundings.cwd, cwd));
    let here = cwd.map_or_else(|| invocation.here(), |cwd| path_text(&cwd));
    if !args.all {
        let mut same = SameFolder::new(&repo, &here);
        sessions.retain(|session| same.is(&session.cwd));
    }
    let mut counts = Counts::default();
    sessions.retain(|session| counts.add(args, &session.borrowed()));
    sort(&mut sessions, args.sort);
    sessions.truncate(args.limit.unwrap_or(sessions.len()));
    counts.shown = sessions.len();
    counts.damaged = sessions.iter().filter(|session| session.damaged_lines > 0).count();

    if invocation.ui.is_json() {
        invocation.ui.json_lines(sessions.len(), &|range, out| {
            for session in &sessions[range] {
                SummaryView::of(&session.borrowed()).write_json_line(out);
            }
        })?;
    } else {
        print_table(&sessions, id_columns, args.all, invocation)?;
    }
    tell(args, &counts, &skipped, &repo, &here, invocation);
    // To free a hundred thousand sessions one by one takes longer than to print what is shown of them.
    std::mem::forget(sessions);
    Ok(Outcome::Done)
}

/// How many sessions of a list are what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Those that were asked for.
    found: usize,
    /// Of these, those that are shown.
    shown: usize,
    /// Of these, those with damaged lines.
    damaged: usize,
    /// Those that are left out because nobody spoke.
    hidden: usize,
}

impl Counts {
    /// Counts a session; whether it is one that was asked for.
    fn add(&mut self, args: &ListArgs, session: &SummaryRef<'_>) -> bool {
        if args.named && session.name.is_none() {
            return false;
        }
        if !args.empty && !session.has_conversation {
            self.hidden += 1;
            return false;
        }
        self.found += 1;
        self.shown += 1;
        self.damaged += usize::from(session.damaged_lines > 0);
        true
    }

    fn plus(self, other: Self) -> Self {
        Self {
            found: self.found + other.found,
            shown: self.shown + other.shown,
            damaged: self.damaged + other.damaged,
            hidden: self.hidden + other.hidden,
        }
    }
}

/// Prints all sessions as JSON, in their order.
fn print_all(sessions: &Sessions, args: &ListArgs, invocation: &mut Invocation<'_>) -> Result<Counts, CliError> {
    let counts = Mutex::new(Counts::default());
    invocation.ui.json_lines(sessions.len(), &|range, out| {
        let mut counts_here = Counts::default();
        sessions.each_in(range, &mut |session| {
            if counts_here.add(args, session) {
                SummaryView::of(session).write_json_line(out);
            }
        });
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts = counts.plus(counts_here);
    })?;
    Ok(counts.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Tells what is not in the list.
fn tell(args: &ListArgs, counts: &Counts, skipped: &[Skipped], repo: &Repo, here: &str, invocation: &mut Invocation<'_>) {
    let ui = &mut *invocation.ui;
    for skip in skipped.iter().filter(|_| ui.is_verbose()).collect::<Vec<_>>() {
        ui.note(&format!("left out: {}", CliError::reason(&skip.reason)));
    }
    if !skipped.is_empty() && !ui.is_verbose() {
        let files = count(skipped.len() as u64, "file is no session and was", "files are no sessions and were");
        ui.note(&format!("{files} left out (-v tells why)"));
    }
    if counts.damaged > 0 {
        let what = count(counts.damaged as u64, "session has lines", "sessions have lines");
        ui.note(&format!("{what} that cannot be read as they should (pi-sessions check tells which)"));
    }
    if counts.hidden > 0 {
        ui.note(&format!(
            "{} hidden (--empty shows them)",
            count(counts.hidden as u64, "session without a message is", "sessions without a message are")
        ));
    }
    if counts.shown < counts.found {
        ui.note(&format!("{} of {} are shown (--limit)", counts.shown, count(counts.found as u64, "session", "sessions")));
    }
    if counts.found == 0 && counts.hidden == 0 {
        let what = if args.named { "no session with a name" } else { "no session" };
        match args.all {
            true => ui.note(&format!("{what} in {}", repo.root().display())),
            false => ui.note(&format!("{what} works in this folder (--all shows those of all folders): {here}")),
        }
    }
}

fn sort(sessions: &mut [SessionSummary], by: SortBy) {
    // They come by latest activity, and stay so where the key is the same.
    match by {
        SortBy::Modified => {}
        SortBy::Created => sessions.sort_by(|a, b| b.created.cmp(&a.created)),
        SortBy::Name => {
            sessions.sort_by_key(|session| (session.name.is_none(), session.name.as_ref().map(|name| name.to_lowercase())))
        }
        SortBy::Messages => sessions.sort_by_key(|session| std::cmp::Reverse(session.message_count)),
        SortBy::Size => sessions.sort_by_key(|session| std::cmp::Reverse(session.size_bytes)),
    }
}

/// How many characters of an id tell each session from all others: 8 or more, and none ends in a dash.
pub(in crate::cli) fn short_id_len(sessions: &[SessionSummary]) -> usize {
    let mut ids: Vec<_> = sessions.iter().map(|session| session.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    let shared = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let needed = ids.windows(2).map(|pair| shared(pair[0], pair[1]) + 1).max().unwrap_or(0).max(8);
    // The dashes of a UUID stand behind 8, 13, 18 and 23 characters.
    if matches!(needed, 9 | 14 | 19 | 24) { needed + 1 } else { needed }
}

/// How much of a title is shown at least.
const MIN_TITLE_COLUMNS: usize = 10;

/// What marks a fork where its parent's id has no room.
const FORK_MARK: &str = "  (fork)";

/// What marks a session of which some lines cannot be read.
const DAMAGED_MARK: &str = "  (damaged)";

/// How many rows one thread makes at a time.
const ROWS_A_THREAD: usize = 256;

/// One row of the table, without its last column.
struct Row {
    id: String,
    id_columns: usize,
    age: String,
    age_columns: usize,
    messages: String,
    branches: String,
    cwd: Option<String>,
    cwd_columns: usize,
    title: String,
    look: Option<Look>,
    fork_of: Option<String>,
    damaged: &'static str,
}

impl Row {
    const HEAD: [&'static str; 6] = ["ID", "ACTIVITY", "MSGS", "BRANCHES", "FOLDER", "NAME OR FIRST MESSAGE"];

    fn of(session: &SessionSummary, id_len: usize, with_cwd: bool, now_ms: i64, on_terminal: bool) -> Self {
        let shorten = |id: &str| if on_terminal { id.chars().take(id_len).collect() } else { id.to_owned() };
        let (id, age) = (shorten(&one_line(&session.id)), age(session.modified_ms, now_ms, on_terminal));
        let cwd = with_cwd.then(|| one_line(&session.cwd));
        let parent = session.parent_session.as_deref();
        let (title, look) = match (&session.name, &session.first_message) {
            (Some(name), _) => (one_line(name), Some(Look::Name)),
            (None, Some(message)) => (one_line_start(message, 200), None),
            (None, None) => ("(no user message)".to_owned(), Some(Look::Dim)),
        };
        Self {
            id_columns: width(&id),
            id,
            age_columns: width(&age),
            age,
            messages: session.message_count.to_string(),
            branches: session.branches.to_string(),
            cwd_columns: cwd.as_deref().map_or(0, width),
            cwd,
            title,
            look,
            fork_of: parent
                .map(|parent| id_in_file_name(Path::new(parent)).map(shorten).unwrap_or_else(|| "a session".to_owned())),
            damaged: if session.damaged_lines > 0 { DAMAGED_MARK } else { "" },
        }
    }
}

fn print_table(
    sessions: &[SessionSummary],
    id_len: usize,
    with_cwd: bool,
    invocation: &mut Invocation<'_>,
) -> Result<(), CliError> {
    if sessions.is_empty() {
        return Ok(());
    }
    let columns = invocation.ui.columns();
    let now_ms = invocation.now_ms();
    let row = |session: &SessionSummary| Row::of(session, id_len, with_cwd, now_ms, columns.is_some());
    let rows = map_on_all_cores(sessions, ROWS_A_THREAD, &row);
    let [id, age, messages, branches, cwd, title] = Row::HEAD;
    let widest = |head: &str, cell: &dyn Fn(&Row) -> usize| rows.iter().map(cell).max().unwrap_or(0).max(width(head));
    let id_columns = widest(id, &|row| row.id_columns);
    let age_columns = widest(age, &|row| row.age_columns);
    let messages_columns = widest(messages, &|row| row.messages.len());
    let branches_columns = widest(branches, &|row| row.branches.len());
    // Long folders must not push the titles out of sight.
    let cwd_limit = columns.map_or(usize::MAX, |columns| (columns / 4).max(12));
    let cwd_columns = widest(cwd, &|row| row.cwd_columns).min(cwd_limit);
    // On a narrow terminal the titles and their marks matter more: first the branches go, then the folders.
    let marks = |row: &Row| width(row.damaged).max(if row.fork_of.is_some() { width(FORK_MARK) } else { 0 });
    let marks_columns = rows.iter().map(marks).max().unwrap_or(0);
    let optional = |is_shown: bool, columns: usize| if is_shown { columns + 2 } else { 0 };
    let used_with = |branches: bool, cwd: bool| {
        id_columns + age_columns + messages_columns + 6 + optional(branches, branches_columns) + optional(cwd, cwd_columns)
    };
    let fits = |used: usize| columns.is_none_or(|columns| used + MIN_TITLE_COLUMNS + marks_columns <= columns);
    let with_branches = columns.is_none_or(|columns| columns >= 60) && fits(used_with(true, with_cwd));
    let with_cwd = with_cwd && fits(used_with(with_branches, true));
    let used = used_with(with_branches, with_cwd);

    let ui = &mut *invocation.ui;
    let mut head = format!("{}  {}  {messages:>messages_columns$}  ", pad(id, id_columns), pad(age, age_columns));
    if with_branches {
        head.push_str(&format!("{branches:>branches_columns$}  "));
    }
    if with_cwd {
        head.push_str(&format!("{}  ", pad(cwd, cwd_columns)));
    }
    head.push_str(title);
    let head = ui.paint(Look::Dim, &cut(&head, columns));
    ui.line(&head)?;
    let paint = ui.painter();
    let line = |row: &Row| {
        let id = pad_painted(&row.id, id_columns, |text| paint(Look::Id, text));
        let mut line = format!("{id}  {}  {:>messages_columns$}  ", pad(&row.age, age_columns), row.messages);
        if with_branches {
            line.push_str(&format!("{:>branches_columns$}  ", row.branches));
        }
        if let Some(cwd) = row.cwd.as_ref().filter(|_| with_cwd) {
            line.push_str(&format!("{}  ", pad(&cut_start(cwd, cwd_columns), cwd_columns)));
        }
        // The parent's id is for who has the room.
        let has_room = columns.is_none_or(|columns| columns >= used + 60);
        let fork = match &row.fork_of {
            Some(parent) if has_room => format!("  (fork of {parent})"),
            // Of two marks the one that asks for something to be done.
            Some(_) if row.damaged.is_empty() || fits(used + width(FORK_MARK)) => FORK_MARK.to_owned(),
            Some(_) | None => String::new(),
        };
        let marked = width(&fork) + width(row.damaged);
        let left = columns.map(|columns| columns.saturating_sub(used + marked).max(MIN_TITLE_COLUMNS));
        let title = cut(&row.title, Some(left.unwrap_or(PIPE_COLUMNS)));
        line.push_str(&row.look.map_or_else(|| title.to_string(), |look| paint(look, &title)));
        line.push_str(&paint(Look::Dim, &fork));
        line.push_str(&paint(Look::Warn, row.damaged));
        line
    };
    ui.lines(rows.len(), &|range, out| {
        for row in &rows[range] {
            out.extend_from_slice(line(row).trim_end().as_bytes());
            out.push(b'\n');
        }
    })?;
    // As with the sessions.
    std::mem::forget(rows);
    Ok(())
}

/// `text` painted and filled with blanks to `columns`.
fn pad_painted(text: &str, columns: usize, paint: impl Fn(&str) -> String) -> String {
    format!("{}{}", paint(text), " ".repeat(columns.saturating_sub(width(text))))
}
