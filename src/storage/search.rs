//! Searches the sessions of a root, on every branch.
//!
//! ```text
//! with the index:     words -> blocks of files that may match -+
//! what it lacks:      what was appended, new files ------------+-> records that may match -> entries -> matches
//! without the index:  all files -------------------------------+   (a look at raw bytes)     (parsed)
//! ```
//!
//! # Invariants
//! - A match is found in the entry itself, read from its file. The index and the look at raw bytes only say where there
//!   is none, so [`Repo::search_indexed`] and [`Repo::search_scan`] give the same answer.
//! - Newest first: by the message's own time, else the entry's; ties by path, then the later place in the file first.
//! - In memory are one block and one record of each file that is being read, and as many hits as are asked for.
//! - A file that is no session has no hits; one that cannot be read is told.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::session::entry::{EntryId, EntryType, FORMAT_VERSION, Header};
use crate::session::message::Role;
use crate::storage::StorageError;
use crate::storage::cores::map_on_all_cores;
use crate::storage::fs::{Fs, FsFile, OpenFor};
use crate::storage::jsonl::{JsonlStorage, VisitedEntry, visit_file, visit_range};
use crate::storage::list::{Skipped, message_time};
use crate::storage::repo::{Repo, SessionFile};

mod fulltext;
mod query;
mod snippet;
mod text;
mod words;

pub use fulltext::SearchIndex;
pub use query::{Query, QueryError};
pub use snippet::Snippet;

/// How much is read at once when raw bytes are looked at.
const BLOCK_BYTES: usize = 256 * 1024;
/// Longer than what a prefilter looks for.
const OVERLAP_BYTES: usize = 512;

/// What is searched, and how much is wanted.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Only sessions of this cwd.
    pub cwd: Option<String>,
    /// Only messages of this role; then no names and labels.
    pub role: Option<Role>,
    /// Only what is at least as new, in Unix milliseconds.
    pub since_ms: Option<i64>,
    /// At most so many hits, the newest.
    pub limit: Option<usize>,
}

/// An entry that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The session's file.
    pub path: PathBuf,
    /// The session's id, unchecked.
    pub session_id: String,
    /// The entry.
    pub entry_id: EntryId,
    /// What it is: a `message`, a `label` or a `session_info`.
    pub entry_type: EntryType,
    /// The role of a message.
    pub role: Option<Role>,
    /// When, in Unix milliseconds; `None` where the file does not tell.
    pub timestamp_ms: Option<i64>,
    /// The text around the first match.
    pub snippet: Snippet,
}

/// What a search found.
#[derive(Debug, Default)]
pub struct SearchResults {
    /// The hits, newest first.
    pub hits: Vec<SearchHit>,
    /// Files that could not be read.
    pub skipped: Vec<Skipped>,
    /// Whether an index was used; without it every file was read.
    pub is_indexed: bool,
}

impl Repo {
    /// Searches by reading every file. `O(bytes of all files)`, on all cores. `progress` tells how far it is.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn search_scan(
        &self,
        query: &Query,
        options: &SearchOptions,
        progress: &(dyn Fn(SearchProgress) + Sync),
    ) -> Result<SearchResults, StorageError> {
        let files = self.files()?;
        Ok(Search::new(self, query, options).all(&files, progress))
    }
}

/// How far a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchProgress {
    /// What it is at.
    pub step: SearchStep,
    /// Bytes that were read.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// What a search does with many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStep {
    /// It adds to the index.
    Index,
    /// It reads every file.
    Read,
}

/// A search that is going on.
struct Search<'a> {
    repo: &'a Repo,
    query: &'a Query,
    options: &'a SearchOptions,
    prefilter: Option<regex::bytes::Regex>,
    best: Mutex<BinaryHeap<Reverse<Ranked>>>,
    same_cwd: Mutex<HashMap<String, bool>>,
}

/// A hit with its place in the order; the greatest is the first.
#[derive(PartialEq, Eq)]
struct Ranked {
    rank: Rank,
    hit: SearchHit,
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

/// Later, then an earlier path, then further behind in the file.
type Rank = (Option<i64>, Reverse<PathBuf>, u64);

impl<'a> Search<'a> {
    fn new(repo: &'a Repo, query: &'a Query, options: &'a SearchOptions) -> Self {
        Self { repo, query, options, prefilter: query.prefilter(), best: Mutex::default(), same_cwd: Mutex::default() }
    }

    /// Reads every file.
    fn all(self, files: &[SessionFile], progress: &(dyn Fn(SearchProgress) + Sync)) -> SearchResults {
        let total_bytes = files.iter().map(|file| file.meta.len).sum();
        let done = AtomicU64::new(0);
        let results = map_on_all_cores(files, 1, &|file| {
            let result = self.whole_file(file);
            let done_bytes = done.fetch_add(file.meta.len, Ordering::Relaxed) + file.meta.len;
            progress(SearchProgress { step: SearchStep::Read, done_bytes, total_bytes });
            result
        });
        self.finish(files.iter().zip(results))
    }

    fn finish<'f>(self, results: impl Iterator<Item = (&'f SessionFile, Result<(), StorageError>)>) -> SearchResults {
        let mut skipped: Vec<Skipped> = Vec::new();
        for (file, result) in results {
            match result {
                Ok(()) => {}
                Err(
                    StorageError::NotFound(_)
                    | StorageError::EmptyFile(_)
                    | StorageError::NotASession(_)
                    | StorageError::Format4(_),
                ) => {}
                Err(reason) => skipped.push(Skipped { path: file.path.clone(), reason }),
            }
        }
        let best = self.best.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Ascending in the reversed order is the greatest first.
        SearchResults {
            hits: best.into_sorted_vec().into_iter().map(|ranked| ranked.0.hit).collect(),
            skipped,
            is_indexed: false,
        }
    }

    /// Whether nothing older than this time, and nothing of it, can be among the hits any more.
    fn is_settled_before(&self, newest: Option<i64>) -> bool {
        if self.options.since_ms.is_some_and(|since| newest < Some(since)) {
            return true;
        }
        let best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = self.options.limit.is_some_and(|limit| best.len() >= limit);
        is_full && best.peek().is_none_or(|worst| worst.0.rank.0 > newest)
    }

    fn is_wanted_cwd(&self, cwd: &str) -> bool {
        let Some(wanted) = &self.options.cwd else { return true };
        let mut known = self.same_cwd.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.get(cwd) {
            return *same;
        }
        let same = self.repo.same_cwd(cwd, wanted);
        known.insert(cwd.to_owned(), same);
        same
    }

    fn fs(&self) -> &dyn Fs {
        &**self.repo.fs()
    }

    fn whole_file(&self, file: &SessionFile) -> Result<(), StorageError> {
        let open = self.open(&file.path)?;
        if !self.may_hold(&*open, &file.path)? {
            return Ok(());
        }
        let header = JsonlStorage::header_of_open(&*open, &file.path)?;
        if !self.is_wanted_cwd(&header.cwd) {
            return Ok(());
        }
        if header.version < FORMAT_VERSION {
            visit_file(&*open, &file.path, &mut |visited| self.visit(&file.path, &header, visited)).map(drop)
        } else {
            let len = open.metadata().map_err(|source| StorageError::io("read", &file.path, source))?.len;
            self.range(&*open, &file.path, &header, 0..len)
        }
    }

    /// Searches parts of a file of version 3.
    fn parts(&self, path: &Path, parts: &[Range<u64>]) -> Result<(), StorageError> {
        let open = self.open(path)?;
        let header = JsonlStorage::header_of_open(&*open, path)?;
        if !self.is_wanted_cwd(&header.cwd) {
            return Ok(());
        }
        parts.iter().try_for_each(|part| self.range(&*open, path, &header, part.clone()))
    }

    fn range(&self, file: &dyn FsFile, path: &Path, header: &Header, range: Range<u64>) -> Result<(), StorageError> {
        visit_range(file, path, range, &mut |visited| self.visit(path, header, visited)).map(drop)
    }

    fn open(&self, path: &Path) -> Result<std::sync::Arc<dyn FsFile>, StorageError> {
        self.fs().open(path, OpenFor::Read).map_err(|source| StorageError::io("open", path, source))
    }

    /// Whether the raw bytes of a file hold what every match needs.
    fn may_hold(&self, file: &dyn FsFile, path: &Path) -> Result<bool, StorageError> {
        let Some(prefilter) = &self.prefilter else { return Ok(true) };
        let mut buffer = vec![0; OVERLAP_BYTES + BLOCK_BYTES];
        let (mut kept, mut position) = (0, 0);
        loop {
            let len = match file.read_at(&mut buffer[kept..], position) {
                Ok(0) => return Ok(false),
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(StorageError::io("read", path, source)),
            };
            let end = kept + len;
            if prefilter.is_match(&buffer[..end]) {
                return Ok(true);
            }
            let from = end.saturating_sub(OVERLAP_BYTES);
            buffer.copy_within(from..end, 0);
            kept = end - from;
            position += len as u64;
        }
    }

    fn visit(&self, path: &Path, header: &Header, visited: &VisitedEntry<'_>) {
        if !text::is_searched(visited.entry_type(), visited.role()) {
            return;
        }
        if self.options.role.is_some_and(|role| visited.role() != Some(role)) {
            return;
        }
        let Some(record) = visited.record() else { return };
        if self.prefilter.as_ref().is_some_and(|prefilter| !prefilter.is_match(&record)) {
            return;
        }
        let Some(entry) = VisitedEntry::decode(&record) else { return };
        let timestamp_ms = message_time(&entry);
        if self.options.since_ms.is_some_and(|since| timestamp_ms < Some(since)) {
            return;
        }
        let texts = text::texts(&entry);
        let places = self.query.find(&texts);
        if !places.is_empty() {
            self.keep(path, header, visited, entry.id, timestamp_ms, || Snippet::around(&texts, &places));
        }
    }

    /// Keeps a hit if it is among the wanted ones so far.
    fn keep(
        &self,
        path: &Path,
        header: &Header,
        visited: &VisitedEntry<'_>,
        entry_id: EntryId,
        timestamp_ms: Option<i64>,
        snippet: impl FnOnce() -> Snippet,
    ) {
        let rank: Rank = (timestamp_ms, Reverse(path.to_owned()), visited.offset());
        let limit = self.options.limit.unwrap_or(usize::MAX);
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if best.len() >= limit {
            if best.peek().is_none_or(|worst| rank < worst.0.rank) {
                return;
            }
            best.pop();
        }
        let hit = SearchHit {
            path: path.to_owned(),
            session_id: header.id.clone(),
            snippet: snippet(),
            entry_id,
            entry_type: visited.entry_type(),
            role: visited.role(),
            timestamp_ms,
        };
        best.push(Reverse(Ranked { rank, hit }));
    }
}
