//! Lists the sessions of a folder: one pass over each file, several files at once.
//!
//! # Invariants
//! - The files are the truth. [`Repo::list`] remembers nothing between two listings; what is remembered elsewhere gives
//!   the same summaries.
//! - A file that is no session is skipped and told, with the reason; it hides no other.
//! - At most one block of each file that is being read is in memory, and one summary for each file.
//! - The order is that of real activity: the latest time of a user or assistant message, else the header's, else the
//!   file's; ties by path. Neither a rename nor `touch` moves a session up.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::session::entry::{Entry, EntryType, Header, parse_timestamp_ms};
use crate::session::labels::SessionName;
use crate::session::message::{Content, Role};
use crate::storage::cores::map_on_all_cores;
use crate::storage::fs::{FileMeta, Fs, OpenFor};
use crate::storage::jsonl::{VisitedEntry, visit_file};
use crate::storage::repo::{Repo, SessionFile, id_in_file_name};
use crate::storage::{Damage, DamageKind, StorageError};

/// The longest first message that is kept, in bytes.
const FIRST_MESSAGE_BYTES: usize = 4_000;

/// A text that may share its bytes with those of other sessions: of many sessions few are ever shown, and a copy of each
/// text would be most of the work of a list.
pub type SharedText = arcstr::Substr;

/// What a list shows of one session. It may borrow its path and texts, see [`SummaryRef`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionSummary<P = PathBuf, T = SharedText> {
    /// The file.
    pub path: P,
    /// The session's id, unchecked.
    pub id: T,
    /// The folder that it works in.
    pub cwd: T,
    /// Its name.
    pub name: Option<T>,
    /// The file that it was forked from.
    pub parent_session: Option<T>,
    /// When it was created, ISO 8601 as in the header.
    pub created: T,
    /// The latest real activity, in Unix milliseconds.
    pub modified_ms: i64,
    /// How many `message` entries it has, on all branches.
    pub message_count: u64,
    /// The text of the first user message, at most 4,000 bytes of it.
    pub first_message: Option<T>,
    /// The size of the file.
    pub size_bytes: u64,
    /// How many ends of conversation its tree has.
    pub branches: u64,
    /// Whether there is a user or assistant message.
    pub has_conversation: bool,
    /// Lines that could not be read as they should.
    pub damaged_lines: u64,
}

/// A summary that is looked at where it is kept.
pub type SummaryRef<'a> = SessionSummary<&'a Path, &'a str>;

impl SessionSummary {
    /// The same, borrowed.
    pub fn borrowed(&self) -> SummaryRef<'_> {
        SessionSummary {
            path: &self.path,
            id: &self.id,
            cwd: &self.cwd,
            name: self.name.as_deref(),
            parent_session: self.parent_session.as_deref(),
            created: &self.created,
            modified_ms: self.modified_ms,
            message_count: self.message_count,
            first_message: self.first_message.as_deref(),
            size_bytes: self.size_bytes,
            branches: self.branches,
            has_conversation: self.has_conversation,
            damaged_lines: self.damaged_lines,
        }
    }
}

/// A file that is in the folder and is no session, or a folder that cannot be read.
#[derive(Debug)]
pub struct Skipped {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub reason: StorageError,
}

/// The sessions of a folder.
#[derive(Debug, Default)]
pub struct Listing {
    /// The sessions, newest activity first.
    pub sessions: Vec<SessionSummary>,
    /// What was left out.
    pub skipped: Vec<Skipped>,
}

/// A [`Listing`] whose summaries are left where they are kept, for who looks at each of many once.
#[derive(Debug)]
pub struct Sessions(pub(super) SessionsIn);

/// Where summaries are kept.
#[derive(Debug)]
pub(super) enum SessionsIn {
    Memory(Listing),
    #[cfg(feature = "search")]
    Cache(super::index::CachedSessions),
}

impl Sessions {
    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            SessionsIn::Memory(listing) => listing.sessions.len(),
            #[cfg(feature = "search")]
            SessionsIn::Cache(cached) => cached.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` for those at some positions from 0, newest activity first. Each look costs the reading of a record.
    pub fn each_in(&self, range: Range<usize>, each: &mut dyn FnMut(&SummaryRef<'_>)) {
        match &self.0 {
            SessionsIn::Memory(listing) => {
                listing.sessions.get(range).unwrap_or_default().iter().for_each(|session| each(&session.borrowed()));
            }
            #[cfg(feature = "search")]
            SessionsIn::Cache(cached) => cached.each_in(range, each),
        }
    }

    /// What was left out.
    pub fn skipped(&self) -> &[Skipped] {
        match &self.0 {
            SessionsIn::Memory(listing) => &listing.skipped,
            #[cfg(feature = "search")]
            SessionsIn::Cache(cached) => cached.skipped(),
        }
    }

    /// The summaries themselves.
    pub fn into_listing(self) -> Listing {
        match self.0 {
            SessionsIn::Memory(listing) => listing,
            #[cfg(feature = "search")]
            SessionsIn::Cache(cached) => cached.into_listing(),
        }
    }
}

/// How far a listing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListProgress {
    /// Files that were read.
    pub done: usize,
    /// Files in all.
    pub total: usize,
}

impl Repo {
    /// Lists all sessions of the root. `O(bytes of all files)`, on all cores.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn list(&self, progress: &(dyn Fn(ListProgress) + Sync)) -> Result<Listing, StorageError> {
        let (files, skipped) = self.files_and_skipped()?;
        Ok(self.list_files(files, skipped, progress))
    }

    /// What [`Repo::list`] gives, by way of the listing cache where the repo was given one.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn sessions(&self, progress: &(dyn Fn(ListProgress) + Sync)) -> Result<Listing, StorageError> {
        self.sessions_in_place(progress).map(Sessions::into_listing)
    }

    /// As [`Repo::sessions`], with the summaries left where they are kept.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn sessions_in_place(&self, progress: &(dyn Fn(ListProgress) + Sync)) -> Result<Sessions, StorageError> {
        #[cfg(feature = "search")]
        if let Some(cache) = &self.cache {
            return self.list_in_place(cache, progress);
        }
        self.list(progress).map(|listing| Sessions(SessionsIn::Memory(listing)))
    }

    /// The summary of the session in `path`, whose id is `id`, and its forks: the sessions of the root whose parent it is, by
    /// that path or by the id in its name; sorted. `O(files)` without a cache, else a listing.
    ///
    /// # Errors
    /// When the root or the file cannot be read; when it is no session.
    pub fn summary_and_forks(&self, path: &Path, id: &str) -> Result<(SessionSummary, Vec<PathBuf>), StorageError> {
        let real = self.fs().canonicalize(path).ok();
        let is_parent = |parent: &str| {
            let parent = Path::new(parent);
            parent == path || Some(parent) == real.as_deref() || id_in_file_name(parent) == Some(id)
        };
        let summarize = || {
            let meta = self.fs().metadata(path).map_err(|source| StorageError::io("read", path, source))?;
            summarize(&**self.fs(), &SessionFile { path: path.to_owned(), meta })
        };
        #[cfg(feature = "search")]
        if self.cache.is_some() {
            let sessions = self.sessions(&|_| {})?.sessions;
            let is_fork = |session: &&SessionSummary| session.parent_session.as_deref().is_some_and(is_parent);
            let mut forks: Vec<_> = sessions.iter().filter(is_fork).map(|session| session.path.clone()).collect();
            forks.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
            let summary = sessions.into_iter().find(|session| session.path == path);
            return Ok((summary.map_or_else(summarize, Ok)?, forks));
        }
        let files = self.files()?;
        let parents = map_on_all_cores(&files, 16, &|file| self.header_of(&file.path).and_then(|header| header.parent_session));
        let forks = files.into_iter().zip(parents).filter(|(_, parent)| parent.as_deref().is_some_and(is_parent));
        let forks = forks.map(|(file, _)| file.path).collect();
        Ok((summarize()?, forks))
    }

    /// The list of these files, read whole; `skipped` are the folders that could not be read.
    pub(super) fn list_files(
        &self,
        files: Vec<SessionFile>,
        skipped: Vec<Skipped>,
        progress: &(dyn Fn(ListProgress) + Sync),
    ) -> Listing {
        let results = read_all(&files, &|file| summarize(&**self.fs(), file), progress);
        let mut listing = Listing { skipped, ..Listing::default() };
        for (file, result) in files.into_iter().zip(results) {
            match result {
                Ok(summary) => listing.sessions.push(summary),
                // Deleted since the folder was read.
                Err(StorageError::NotFound(_)) => {}
                Err(reason) => listing.skipped.push(Skipped { path: file.path, reason }),
            }
        }
        sort_by_activity(&mut listing.sessions);
        listing
    }

    /// The most recent session of a cwd that has a message; see [`Repo::same_cwd`] for what counts as the same.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn latest(&self, cwd: &str) -> Result<Option<SessionSummary>, StorageError> {
        let all = self.sessions(&|_| {})?.sessions;
        Ok(all.into_iter().find(|session| session.has_conversation && self.same_cwd(&session.cwd, cwd)))
    }

    /// Whether two folders are the same, as they are written or without links. On Windows, and on its drives under
    /// `/mnt`, upper and lower case are the same.
    pub fn same_cwd(&self, a: &str, b: &str) -> bool {
        let fold = |path: &str| if is_windows_path(path) { path.to_lowercase() } else { path.to_owned() };
        let trim = |path: &str| fold(path.trim_end_matches(['/', '\\'])).to_owned();
        let real = |path: &str| self.fs().canonicalize(Path::new(path)).ok();
        trim(a) == trim(b) || real(a).is_some_and(|a| Some(a) == real(b))
    }
}

fn is_windows_path(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_drive = bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.get(1) == Some(&b':');
    let is_mount = path.strip_prefix("/mnt/").is_some_and(|rest| {
        let rest = rest.as_bytes();
        rest.first().is_some_and(u8::is_ascii_alphabetic) && matches!(rest.get(1), None | Some(b'/'))
    });
    is_drive || is_mount
}

/// Newest activity first; ties by path.
pub fn sort_by_activity(sessions: &mut [SessionSummary]) {
    // Summaries are large, so their order is found first, and each is moved once.
    let mut order: Vec<(i64, usize)> = sessions.iter().enumerate().map(|(at, session)| (session.modified_ms, at)).collect();
    order.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| sessions[a.1].path.cmp(&sessions[b.1].path)));
    for to in 0..order.len() {
        // What stood at a place before this one was swapped to where that place's own went.
        let mut from = order[to].1;
        while from < to {
            from = order[from].1;
        }
        sessions.swap(to, from);
    }
}

/// Calls `read` for every item, on all cores, and gives the results in the order of the items.
pub(super) fn read_all<T: Sync, R: Send>(
    items: &[T],
    read: &(dyn Fn(&T) -> R + Sync),
    progress: &(dyn Fn(ListProgress) + Sync),
) -> Vec<R> {
    let done = AtomicUsize::new(0);
    map_on_all_cores(items, 1, &|item| {
        let result = read(item);
        progress(ListProgress { done: done.fetch_add(1, Ordering::Relaxed) + 1, total: items.len() });
        result
    })
}

/// Reads one file for a list.
///
/// # Errors
/// When the file cannot be read or is no session.
pub fn summarize(fs: &dyn Fs, file: &SessionFile) -> Result<SessionSummary, StorageError> {
    let open = fs.open(&file.path, OpenFor::Read).map_err(|source| StorageError::io("open", &file.path, source))?;
    let mut fold = SummaryFold::default();
    let visited = visit_file(&*open, &file.path, &mut |visited| fold.add(visited))?;
    fold.add_header(visited.header);
    fold.branches = visited.tree.branch_count() as u64;
    fold.damaged_lines = damaged_lines(&visited.damage);
    Ok(fold.finish(file.path.clone(), &file.meta))
}

/// How many lines of a file count as damaged in a list.
pub(super) fn damaged_lines<'a>(damage: impl IntoIterator<Item = &'a Damage>) -> u64 {
    damage.into_iter().filter(|damage| damage.kind != DamageKind::SecondHeader).count() as u64
}

/// What a pass over a file adds up to; all that a summary says and `stat` does not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SummaryFold<T = SharedText> {
    pub id: T,
    pub cwd: T,
    pub parent_session: Option<T>,
    pub created: T,
    pub name: Option<T>,
    pub message_count: u64,
    pub first_message: Option<T>,
    pub activity_ms: Option<i64>,
    pub has_conversation: bool,
    pub branches: u64,
    pub damaged_lines: u64,
}

#[cfg(feature = "search")]
impl<T> SummaryFold<T> {
    /// The same with other texts.
    pub(super) fn map<U>(self, mut text: impl FnMut(T) -> U) -> SummaryFold<U> {
        SummaryFold {
            id: text(self.id),
            cwd: text(self.cwd),
            parent_session: self.parent_session.map(&mut text),
            created: text(self.created),
            name: self.name.map(&mut text),
            message_count: self.message_count,
            first_message: self.first_message.map(&mut text),
            activity_ms: self.activity_ms,
            has_conversation: self.has_conversation,
            branches: self.branches,
            damaged_lines: self.damaged_lines,
        }
    }
}

impl SummaryFold {
    pub(super) fn add_header(&mut self, header: Header) {
        self.id = header.id.into();
        self.cwd = header.cwd.into();
        self.parent_session = header.parent_session.map(Into::into);
        self.created = header.timestamp.into();
    }

    pub(super) fn add(&mut self, visited: &VisitedEntry<'_>) {
        match visited.entry_type() {
            EntryType::Message => self.add_message(visited),
            EntryType::SessionInfo => {
                if let Some(entry) = visited.entry() {
                    let mut name = SessionName::default();
                    name.add(&entry);
                    self.name = name.into_inner().map(Into::into);
                }
            }
            EntryType::Compaction
            | EntryType::BranchSummary
            | EntryType::Leaf
            | EntryType::ModelChange
            | EntryType::ThinkingLevelChange
            | EntryType::ActiveToolsChange
            | EntryType::ContextEdit
            | EntryType::Custom
            | EntryType::CustomMessage
            | EntryType::Label
            | EntryType::Usage
            | EntryType::Unknown => {}
        }
    }

    fn add_message(&mut self, visited: &VisitedEntry<'_>) {
        self.message_count += 1;
        let is_user = visited.role() == Some(Role::User);
        if !is_user && visited.role() != Some(Role::Assistant) {
            return;
        }
        self.has_conversation = true;
        // The time stands near the end of the line; only where it does not is the line read.
        let mut entry = None;
        let time = visited.message_time_at_end().or_else(|| {
            entry = visited.preview();
            entry.as_ref().and_then(message_time)
        });
        self.activity_ms = self.activity_ms.max(time);
        if is_user && self.first_message.is_none() {
            let entry = entry.or_else(|| visited.preview());
            let text = entry.as_ref().and_then(Entry::message).and_then(|message| message.content().map(Content::joined_text));
            self.first_message = text.map(|text| cut_to_bytes(text).into());
        }
    }
}

impl<T: AsRef<str>> SummaryFold<T> {
    pub(super) fn finish<P>(self, path: P, meta: &FileMeta) -> SessionSummary<P, T> {
        let modified_ms = self.activity_ms.or_else(|| parse_timestamp_ms(self.created.as_ref()));
        SessionSummary {
            path,
            id: self.id,
            cwd: self.cwd,
            name: self.name,
            parent_session: self.parent_session,
            created: self.created,
            modified_ms: modified_ms.unwrap_or_else(|| i64::try_from(meta.modified_ns / 1_000_000).unwrap_or_default()),
            message_count: self.message_count,
            first_message: self.first_message,
            size_bytes: meta.len,
            branches: self.branches,
            has_conversation: self.has_conversation,
            damaged_lines: self.damaged_lines,
        }
    }
}

/// When a message was made: its own time, else its entry's.
pub(super) fn message_time(entry: &Entry) -> Option<i64> {
    entry.message().and_then(crate::session::message::Message::timestamp).or_else(|| entry.timestamp_ms())
}

fn cut_to_bytes(mut text: String) -> String {
    let mut len = text.len().min(FIRST_MESSAGE_BYTES);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    text.truncate(len);
    text
}
