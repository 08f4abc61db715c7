//! Answers the questions of the browser: reads sessions, and changes them as the commands do.
//!
//! # Invariants
//! - Everything goes through the library; what is told is fit for a terminal.
//! - A change to a session that somebody holds is refused where the command refuses it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::cli::browse::event::{PageOf, Reply, Request};
use crate::cli::browse::open_session::OpenSession;
use crate::cli::browse::page::{Page, damaged_page, page};
use crate::cli::browse::session_list::{Hit, Item};
use crate::cli::browse::tone::{Piece, Tone, piece};
use crate::cli::browse::tree_pane::{RowKind, RowText};
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::SameFolder;
use crate::cli::refer::read_name;
use crate::cli::text::{lines, one_line, one_line_start};
use crate::cli::view::entry_line;
use crate::session::entry::{Entry, EntryKind, EntryType, FORMAT_VERSION};
use crate::session::message::{Message, Role, ToolResultMessage};
use crate::session::outline::{Row, Scope};
use crate::session::tree::EntryIndex;
use crate::storage::StorageError;
use crate::storage::list::SessionSummary;
use crate::storage::lock::OwnerLock;
use crate::storage::reference::read_labels;
use crate::storage::repo::Repo;
use crate::storage::search::{Query, SearchHit, SearchIndex, SearchOptions, SearchProgress};
use crate::storage::trash::Trash;
use crate::storage::usage::session_cost;

/// Characters of a row.
const ROW_COLUMNS: usize = 300;
/// Characters of a title.
const TITLE_COLUMNS: usize = 200;
/// How many sessions are shown before the list is there.
const FIRST_LOOK: usize = 60;
/// How many hits a search gives.
const MAX_HITS: usize = 200;

/// Who answers.
#[derive(Clone)]
pub struct Desk {
    /// The sessions.
    pub repo: Repo,
    /// The folder of the command.
    pub here: String,
    /// Where the index of words is kept, if anywhere.
    pub cache_dir: Option<PathBuf>,
    /// The folder that a file to write is relative to.
    pub cwd: PathBuf,
    /// The trash.
    pub trash: Arc<dyn Trash>,
    serials: Arc<AtomicU64>,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("here", &self.here).finish_non_exhaustive()
    }
}

impl Desk {
    /// A desk for these sessions.
    pub fn new(repo: Repo, here: String, cwd: PathBuf, cache_dir: Option<PathBuf>, trash: Arc<dyn Trash>) -> Self {
        Self { repo, here, cache_dir, cwd, trash, serials: Arc::default() }
    }

    /// Answers a request; `progress` gets what comes before the answer. `is_stale` tells whether nobody waits any more.
    pub fn answer(&self, request: Request, is_stale: &dyn Fn(u64) -> bool, progress: &(dyn Fn(Reply) + Sync)) -> Reply {
        match request {
            Request::FirstLook { all } => self.first_look(all),
            Request::List => self.list(progress),
            Request::Open { ticket, .. } if is_stale(ticket) => Reply::Dropped,
            Request::Open { path, scope, .. } => self.open(&path, scope),
            Request::Watch(session, scope) => match self.repo.fs().metadata(&session.path) {
                Ok(meta) if session.is_as(&meta) && self.owner(&session.path) == session.owner => Reply::Unchanged,
                Ok(_) | Err(_) => self.open(&session.path, scope),
            },
            Request::Rows(session, scope) => match self.rows(&session, scope) {
                Ok(rows) => Reply::Rows(session.serial, scope, rows),
                Err(error) => Reply::Failed(told(&error.into())),
            },
            Request::Texts(session, entries) => {
                let texts = entries.into_iter().map(|entry| (entry, row_text(&session, entry))).collect();
                Reply::Texts(session.serial, texts)
            }
            Request::Page(session, of) => Reply::Page(session.serial, of, page_of(&session, of)),
            Request::Find(session, query) => find(&session, query),
            Request::Search { query, all } => self.search(query, all, progress),
            Request::Cost(path, size) => Reply::Cost(path.clone(), size, self.cost(&path)),
            Request::Act(act) => {
                let result = self.act(&act).map_err(|error| told(&error));
                Reply::Acted(act, result)
            }
        }
    }

    fn first_look(&self, all: bool) -> Reply {
        let here = (!all).then_some(&*self.here);
        // What goes wrong the list tells too.
        let mut newest = self.repo.newest(here, FIRST_LOOK).unwrap_or_default();
        if newest.is_empty() {
            newest = self.repo.newest(None, FIRST_LOOK).unwrap_or_default();
        }
        Reply::FirstLook(self.items(newest))
    }

    fn list(&self, progress: &(dyn Fn(Reply) + Sync)) -> Reply {
        let started = Instant::now();
        let shown = AtomicU64::new(0);
        let listing = self.repo.sessions(&|step| {
            let hundredth = (step.done * 100 / step.total.max(1)) as u64;
            if step.total >= 200 && shown.fetch_max(hundredth, Ordering::Relaxed) < hundredth {
                progress(Reply::ListProgress(step.done, step.total));
            }
        });
        match listing {
            Ok(listing) => {
                let skipped = listing.skipped.len();
                let items = self.items(listing.sessions);
                let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                Reply::Listed { items, skipped, took_ms }
            }
            Err(error) => Reply::ListFailed(told(&error.into())),
        }
    }

    fn items(&self, sessions: Vec<SessionSummary>) -> Vec<Item> {
        let mut same = SameFolder::new(&self.repo, &self.here);
        sessions.into_iter().map(|session| item(session, &mut same)).collect()
    }

    fn owner(&self, path: &Path) -> Option<String> {
        OwnerLock::owner(&**self.repo.fs(), path).ok().flatten().map(|owner| one_line_start(&owner, TITLE_COLUMNS))
    }

    fn open(&self, path: &Path, scope: Scope) -> Reply {
        let failed = |error: StorageError| {
            let is_gone = matches!(error, StorageError::NotFound(_));
            Reply::OpenFailed { path: path.to_owned(), problem: told(&error.into()), is_gone }
        };
        match self.open_session(path) {
            Ok(session) => match self.rows(&session, scope) {
                Ok(rows) => Reply::Opened(Arc::new(session), scope, rows),
                Err(error) => failed(error),
            },
            Err(error) => failed(error),
        }
    }

    fn open_session(&self, path: &Path) -> Result<OpenSession, StorageError> {
        let fs = self.repo.fs();
        // Before it is read: what changes meanwhile shows as a change.
        let meta = fs.metadata(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => StorageError::NotFound(path.to_owned()),
            _ => StorageError::Io { doing: "read", path: path.to_owned(), source },
        })?;
        let session = self.repo.open(path)?;
        Ok(OpenSession {
            path: path.to_owned(),
            serial: self.serials.fetch_add(1, Ordering::Relaxed) + 1,
            meta,
            labels: read_labels(session.read())?,
            name: read_name(&session)?.get().map(|name| one_line_start(name, TITLE_COLUMNS)),
            children: session.tree().children(),
            owner: self.owner(path),
            is_read_only: session.header().version > FORMAT_VERSION,
            damaged_lines: session.read().damage().len(),
            folder_is_gone: fs.metadata(Path::new(&session.header().cwd)).is_err(),
            session,
        })
    }

    fn rows(&self, session: &OpenSession, scope: Scope) -> Result<Vec<Row>, StorageError> {
        session.session.outline(&session.labels, scope)
    }

    fn cost(&self, path: &Path) -> f64 {
        // A file that cannot be read costs nothing that we know of; opening it tells why.
        session_cost(&**self.repo.fs(), path).unwrap_or_default()
    }

    fn search(&self, query: String, all: bool, progress: &(dyn Fn(Reply) + Sync)) -> Reply {
        let parsed = match Query::words(&query) {
            Ok(parsed) => parsed,
            Err(_) => return Reply::Failed(format!("there is no letter or digit to look for in {query:?}")),
        };
        let cwd = (!all).then(|| self.here.clone());
        let options = SearchOptions { cwd, limit: Some(MAX_HITS + 1), ..SearchOptions::default() };
        let shown = AtomicU64::new(0);
        let tell = |step: SearchProgress| {
            let hundredth = step.done_bytes * 100 / step.total_bytes.max(1);
            if shown.fetch_max(hundredth, Ordering::Relaxed) < hundredth {
                progress(Reply::SearchProgress(step.done_bytes, step.total_bytes));
            }
        };
        let found = match &self.cache_dir {
            Some(folder) => self.repo.search_indexed(&SearchIndex::new(folder.clone()), &parsed, &options, &tell),
            None => self.repo.search_scan(&parsed, &options, &tell),
        };
        match found {
            Ok(mut results) => {
                let has_more = results.hits.len() > MAX_HITS;
                results.hits.truncate(MAX_HITS);
                let mut titles = HashMap::new();
                let hits = results.hits.iter().map(|hit| self.hit(hit, &mut titles)).collect();
                Reply::Searched { query, hits, has_more }
            }
            Err(error) => Reply::Failed(told(&error.into())),
        }
    }

    fn hit(&self, hit: &SearchHit, titles: &mut HashMap<PathBuf, String>) -> Hit {
        let title = titles.entry(hit.path.clone()).or_insert_with(|| {
            let folder = self.repo.header_of(&hit.path).map(|header| header.cwd).unwrap_or_default();
            let folder = Path::new(&folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
            one_line_start(&folder, TITLE_COLUMNS)
        });
        let who = match (hit.entry_type, hit.role) {
            (EntryType::SessionInfo, _) => "name",
            (_, Some(Role::ToolResult | Role::BashExecution)) => "tool",
            (_, Some(role)) => role.as_wire(),
            (other, None) => other.as_wire(),
        };
        Hit {
            path: hit.path.clone(),
            entry: hit.entry_id.clone(),
            head: format!("{who}:"),
            title: title.clone(),
            timestamp_ms: hit.timestamp_ms,
            snippet: snippet(&hit.snippet.text, &hit.snippet.highlights),
        }
    }
}

/// The text around a hit, the words marked by `«»` as well, so that they show without colours.
fn snippet(text: &str, highlights: &[std::ops::Range<usize>]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut behind = 0;
    let clean = |text: &str| lines(text).replace(['\n', '\t'], " ");
    for range in highlights {
        pieces.push(piece(Tone::Plain, clean(text.get(behind..range.start).unwrap_or_default())));
        pieces.push(piece(Tone::Hit, format!("«{}»", clean(text.get(range.clone()).unwrap_or_default()))));
        behind = range.end;
    }
    pieces.push(piece(Tone::Plain, clean(text.get(behind..).unwrap_or_default())));
    pieces.retain(|part| !part.text.is_empty());
    pieces
}

fn item(session: SessionSummary, same: &mut SameFolder<'_>) -> Item {
    let title = match (&session.name, &session.first_message) {
        (Some(name), _) => one_line_start(name, TITLE_COLUMNS),
        (None, Some(message)) => one_line_start(message, TITLE_COLUMNS),
        (None, None) => "(no user message)".to_owned(),
    };
    Item {
        is_here: same.is(&session.cwd),
        title: title.chars().take(TITLE_COLUMNS).collect(),
        is_named: session.name.is_some(),
        id: one_line(&session.id),
        folder: one_line(&session.cwd),
        modified_ms: session.modified_ms,
        messages: session.message_count,
        branches: session.branches,
        size_bytes: session.size_bytes,
        is_fork: session.parent_session.is_some(),
        is_empty: !session.has_conversation,
        path: session.path,
    }
}

/// What a row says.
fn row_text(session: &OpenSession, entry: EntryIndex) -> RowText {
    let Ok(Some(read)) = session.session.read().entry(entry) else {
        return RowText { text: "(the line is damaged)".to_owned(), kind: RowKind::Damaged };
    };
    let kind = match &read.kind {
        EntryKind::Message(payload) => match payload.message.role() {
            Role::User | Role::BashExecution => RowKind::User,
            Role::Assistant => RowKind::Assistant,
            Role::ToolResult => RowKind::Tool,
            Role::BranchSummary | Role::CompactionSummary => RowKind::Summary,
            Role::Custom | Role::System | Role::Unknown => RowKind::Other,
        },
        EntryKind::Compaction(_) | EntryKind::BranchSummary(_) => RowKind::Summary,
        EntryKind::Leaf(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Custom(_)
        | EntryKind::CustomMessage(_)
        | EntryKind::Label(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Usage(_)
        | EntryKind::Unknown { .. } => RowKind::Other,
    };
    RowText { text: one_line_start(&entry_line(&read), ROW_COLUMNS), kind }
}

fn page_of(session: &OpenSession, of: PageOf) -> Page {
    let read = session.session.read();
    let Ok(Some(entry)) = read.entry(of.entry) else { return damaged_page() };
    let raw = read.line(of.entry).unwrap_or_default();
    let results = results_of(session, of.entry, &entry);
    page(&entry, &results, &session.session.header().cwd, &raw, of.unfolded)
}

/// The results of an entry's calls: they follow it, one behind the other.
fn results_of(session: &OpenSession, index: EntryIndex, entry: &Entry) -> Vec<ToolResultMessage> {
    let wanted = match entry.message() {
        Some(Message::Assistant(message)) => message.tool_calls().count(),
        _ => 0,
    };
    let (read, tree) = (session.session.read(), session.session.tree());
    let mut results = Vec::new();
    let mut at = index;
    // Hostile parents may form a ring.
    for _ in 0..wanted.min(tree.len()) {
        let next = session.children.of_entry(at).iter().copied().find(|child| tree.role(*child) == Some(Role::ToolResult));
        let Some(next) = next else { break };
        if let Ok(Some(entry)) = read.entry(next)
            && let Some(Message::ToolResult(result)) = entry.message()
        {
            results.push(result.clone());
        }
        at = next;
    }
    results
}

/// The entries that hold the words, in upper or lower case, in what they say or their labels.
fn find(session: &OpenSession, query: String) -> Reply {
    let wanted = query.to_lowercase();
    let read = session.session.read();
    let holds = |index: &EntryIndex| {
        let label = session.labels.get(session.session.tree().id(*index).as_str());
        if label.is_some_and(|label| label.to_lowercase().contains(&wanted)) {
            return true;
        }
        let Ok(Some(entry)) = read.entry(*index) else { return false };
        let mut text = entry_line(&entry);
        if let Some(Message::Assistant(message)) = entry.message() {
            for call in message.tool_calls() {
                text.push('\n');
                text.push_str(call.arguments.as_str());
            }
        }
        text.to_lowercase().contains(&wanted)
    };
    let found = session.session.tree().iter().filter(holds).collect();
    Reply::Found(session.serial, query, found)
}

/// An error on one line, with the first thing that helps.
pub(super) fn told(error: &CliError) -> String {
    let what = one_line(&error.chain().join(": "));
    match (error.kind, error.hints().first()) {
        (ErrorKind::Bug, _) | (_, None) => what,
        (_, Some(hint)) => format!("{what} (hint: {})", one_line(hint)),
    }
}
