//! `list`: the table of sessions.
//!
//! # Invariants
//! - Nothing is left out silently: what is hidden is counted in a note.
//! - An id that is shown in short resolves: no other session of the root begins with it.
//! - Without a terminal ids are whole, times are dates and nothing is cut.

use std::path::{Path, PathBuf};

use crate::cli::Outcome;
use crate::cli::error::CliError;
use crate::cli::folder::{SameFolder, absolute};
use crate::cli::invocation::Invocation;
use crate::cli::text::{cut, cut_start, one_line, one_line_start, pad, width};
use crate::cli::ui::Look;
use crate::cli::view::{PIPE_COLUMNS, SummaryView, age, count, path_text};
use crate::storage::list::{Listing, SessionSummary};
use crate::storage::repo::id_in_file_name;

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
    let Listing { mut sessions, skipped } = {
        let progress = invocation.ui.progress();
        repo.sessions(&|step| progress.show("reading sessions", step.done as u64, step.total as u64))?
    };
    // Without a terminal ids are whole, and nobody has to sort them all.
    let id_columns =
        if invocation.ui.columns().is_some() && !invocation.ui.is_json() { short_id_len(&sessions) } else { usize::MAX };

    let cwd = args.cwd.as_ref().map(|cwd| absolute(&invocation.surroundings.cwd, cwd));
    let here = cwd.map_or_else(|| invocation.here(), |cwd| path_text(&cwd));
    if !args.all {
        let mut same = SameFolder::new(&repo, &here);
        sessions.retain(|session| same.is(&session.cwd));
    }
    if args.named {
        sessions.retain(|session| session.name.is_some());
    }
    let before = sessions.len();
    if !args.empty {
        sessions.retain(|session| session.has_conversation);
    }
    let hidden = before - sessions.len();
    sort(&mut sessions, args.sort);
    let found = sessions.len();
    sessions.truncate(args.limit.unwrap_or(found));

    if invocation.ui.is_json() {
        invocation.ui.json_lines(&sessions, &|session, out| {
            serde_json::to_writer(out, &SummaryView::of(session)).expect("texts and numbers are JSON, and memory takes them");
        })?;
    } else {
        print_table(&sessions, id_columns, args.all, invocation)?;
    }

    let ui = &mut *invocation.ui;
    for skip in skipped.iter().filter(|_| ui.is_verbose()).collect::<Vec<_>>() {
        ui.note(&format!("left out: {}", CliError::reason(&skip.reason)));
    }
    if !skipped.is_empty() && !ui.is_verbose() {
        let files = count(skipped.len() as u64, "file is no session and was", "files are no sessions and were");
        ui.note(&format!("{files} left out (-v tells why)"));
    }
    let damaged = sessions.iter().filter(|session| session.damaged_lines > 0).count() as u64;
    if damaged > 0 {
        let what = count(damaged, "session has lines", "sessions have lines");
        ui.note(&format!("{what} that cannot be read as they should (pi-sessions check tells which)"));
    }
    if hidden > 0 {
        ui.note(&format!(
            "{} hidden (--empty shows them)",
            count(hidden as u64, "session without a message is", "sessions without a message are")
        ));
    }
    if sessions.len() < found {
        ui.note(&format!("{} of {} are shown (--limit)", sessions.len(), count(found as u64, "session", "sessions")));
    }
    if found == 0 && hidden == 0 {
        let what = if args.named { "no session with a name" } else { "no session" };
        match args.all {
            true => ui.note(&format!("{what} in {}", repo.root().display())),
            false => ui.note(&format!("{what} works in this folder (--all shows those of all folders): {here}")),
        }
    }
    // To free a hundred thousand sessions one by one takes longer than to print what is shown of them.
    std::mem::forget(sessions);
    Ok(Outcome::Done)
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

/// One row of the table, without its last column.
struct Row {
    id: String,
    age: String,
    messages: String,
    branches: String,
    cwd: Option<String>,
    title: String,
    look: Option<Look>,
    fork_of: Option<String>,
    damaged: &'static str,
}

impl Row {
    const HEAD: [&'static str; 6] = ["ID", "ACTIVITY", "MSGS", "BRANCHES", "FOLDER", "NAME OR FIRST MESSAGE"];

    fn of(session: &SessionSummary, id_len: usize, with_cwd: bool, now_ms: i64, on_terminal: bool) -> Self {
        let id = one_line(&session.id);
        let shorten = |id: &str| if on_terminal { id.chars().take(id_len).collect() } else { id.to_owned() };
        let parent = session.parent_session.as_deref();
        let (title, look) = match (&session.name, &session.first_message) {
            (Some(name), _) => (one_line(name), Some(Look::Name)),
            (None, Some(message)) => (one_line_start(message, 200), None),
            (None, None) => ("(no user message)".to_owned(), Some(Look::Dim)),
        };
        Self {
            id: shorten(&id),
            age: age(session.modified_ms, now_ms, on_terminal),
            messages: session.message_count.to_string(),
            branches: session.branches.to_string(),
            cwd: with_cwd.then(|| one_line(&session.cwd)),
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
    let rows: Vec<_> = sessions.iter().map(|session| Row::of(session, id_len, with_cwd, now_ms, columns.is_some())).collect();
    let [id, age, messages, branches, cwd, title] = Row::HEAD;
    let widest = |head: &str, cell: &dyn Fn(&Row) -> usize| rows.iter().map(cell).max().unwrap_or(0).max(width(head));
    let id_columns = widest(id, &|row| width(&row.id));
    let age_columns = widest(age, &|row| width(&row.age));
    let messages_columns = widest(messages, &|row| row.messages.len());
    let branches_columns = widest(branches, &|row| row.branches.len());
    // Long folders must not push the titles out of sight.
    let cwd_limit = columns.map_or(usize::MAX, |columns| (columns / 4).max(12));
    let cwd_columns = widest(cwd, &|row| row.cwd.as_deref().map_or(0, width)).min(cwd_limit);
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
    for row in &rows {
        let id = pad_painted(&row.id, id_columns, |text| ui.paint(Look::Id, text));
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
        line.push_str(&row.look.map_or_else(|| title.to_string(), |look| ui.paint(look, &title)));
        line.push_str(&ui.paint(Look::Dim, &fork));
        line.push_str(&ui.paint(Look::Warn, row.damaged));
        ui.line(line.trim_end())?;
    }
    Ok(())
}

/// `text` painted and filled with blanks to `columns`.
fn pad_painted(text: &str, columns: usize, paint: impl Fn(&str) -> String) -> String {
    format!("{}{}", paint(text), " ".repeat(columns.saturating_sub(width(text))))
}
