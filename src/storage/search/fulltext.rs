//! The full-text index: which words are in which block of which file.
//!
//! A *block* is a run of lines of one file, about 64 KiB. The index knows the words of a block and not where they are;
//! the block is read from the file to see. So the index is small, and what it says needs not be exact.
//!
//! # Invariants
//! - Of a block that is in the index every word of every searched text is in the index, cut to [`KEY_BYTES`].
//! - What the index lacks (a file's end behind the last block, new and changed files, files of which a change may not show
//!   in the time) is searched in the files.
//! - A file's blocks lie end to end from its beginning, each begins and ends where a line does.
//! - One process at a time adds to an index; others meanwhile read what the index lacks.
//!
//! # Crash
//! Files are added in transactions of some megabytes, so a stop loses the work on the last of them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use hashbrown::HashSet;
use rusqlite::{Connection, TransactionBehavior, params};

use crate::session::entry::FORMAT_VERSION;
use crate::storage::StorageError;
use crate::storage::cores::map_on_all_cores;
use crate::storage::fs::{FileMeta, Fs, OpenFor};
use crate::storage::jsonl::{JsonlStorage, VisitedEntry, anchor, visit_file, visit_range};
use crate::storage::list::message_time;
use crate::storage::repo::{Repo, SessionFile};
use crate::storage::search::query::{Query, index_key};
use crate::storage::search::text;
use crate::storage::search::words::for_each_word;
use crate::storage::search::{Search, SearchOptions, SearchProgress, SearchResults, SearchStep};
use crate::storage::store::{Store, StoreFormat, Unusable, file_of};

/// About how long a block is.
const BLOCK_BYTES: u64 = 64 * 1024;
/// Up to this much that the index lacks is rather read at each search than added.
const LACK_BYTES: u64 = 4 * 1024 * 1024;
/// How much is added in one transaction.
const BATCH_BYTES: u64 = 64 * 1024 * 1024;
/// A file that was changed so short a time ago may change again without showing it.
const SLACK_NS: i128 = 2_000_000_000;
/// How many blocks are read before it is seen whether older ones can still matter.
const BLOCKS_AT_ONCE: usize = 64;

const FORMAT: StoreFormat = StoreFormat {
    name: "search",
    version: 3,
    tables: "
        CREATE TABLE file (
            id INTEGER PRIMARY KEY, path BLOB UNIQUE, len INTEGER, modified BLOB, device INTEGER, inode INTEGER,
            indexed_to INTEGER, anchor INTEGER, is_old INTEGER
        );
        CREATE TABLE block (id INTEGER PRIMARY KEY, file INTEGER, start INTEGER, end INTEGER, newest INTEGER);
        CREATE INDEX block_of_file ON block (file);
        CREATE VIRTUAL TABLE words USING fts5 (text, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
    ",
};

/// Where the full-text index is kept.
#[derive(Clone, Debug)]
pub struct SearchIndex {
    folder: PathBuf,
    add_from_bytes: u64,
    block_bytes: u64,
}

impl SearchIndex {
    /// An index in this folder, which need not exist yet. One folder does for all roots.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, add_from_bytes: LACK_BYTES, block_bytes: BLOCK_BYTES }
    }

    /// Adds to the index when it lacks more than so many bytes of all files, or 64 KiB of one. With less it is quicker to
    /// read what it lacks; 4 MiB unless set.
    pub fn adding_from(self, add_from_bytes: u64) -> Self {
        Self { add_from_bytes, ..self }
    }

    /// Makes blocks of about so many bytes; 64 KiB unless set. Smaller ones make the index larger and its answers finer.
    pub fn with_blocks_of(self, block_bytes: u64) -> Self {
        Self { block_bytes, ..self }
    }
}

/// What the index knows of a file.
#[derive(Clone, Debug)]
struct IndexedFile {
    id: i64,
    len: u64,
    /// Of the last change of the content, and of what `stat` tells.
    times: [u8; 32],
    identity: (u64, u64),
    /// Where the last block ends.
    indexed_to: u64,
    /// A hash of the bytes before.
    anchor: u64,
    /// Whether it is of an old version, so that its blocks are the whole file.
    is_old: bool,
}

/// What the index does for a file that is there now.
enum Coverage {
    /// It knows the file up to here.
    Upto(i64, u64),
    /// It knows the whole file, which is of an old version.
    Old(i64),
    None,
}

impl Repo {
    /// Searches with an index, which is made and kept up to date on the way. Gives what [`Repo::search_scan`] gives, and
    /// does as that where the index is of no use. `progress` tells how far it is.
    ///
    /// # Errors
    /// When the root cannot be read. An index that cannot be used is no error.
    pub fn search_indexed(
        &self,
        index: &SearchIndex,
        query: &Query,
        options: &SearchOptions,
        progress: &(dyn Fn(SearchProgress) + Sync),
    ) -> Result<SearchResults, StorageError> {
        let Some(expression) = query.index_expression() else { return self.search_scan(query, options, progress) };
        let files = self.files()?;
        let search = Search::new(self, query, options);
        // The clock of before the files were looked at would do better, but for what is later read of them.
        let now_ns = i128::from(self.clock.now_ms()) * 1_000_000;
        match candidates(self, index, &files, &expression, now_ns, progress) {
            Ok(candidates) => Ok(search.indexed(&files, candidates)),
            Err(_) => Ok(search.all(&files, progress)),
        }
    }
}

/// What has to be read.
#[derive(Debug, Default)]
struct Candidates {
    /// Files that the index does not know, or knows to match and cannot read in parts.
    whole: Vec<usize>,
    /// The ends of files that the index does not know.
    ends: Vec<(usize, u64)>,
    /// Blocks that may match: the newest time in them, the file, where. Newest first.
    blocks: Vec<(Option<i64>, usize, Range<u64>)>,
}

impl Search<'_> {
    fn indexed(self, files: &[SessionFile], candidates: Candidates) -> SearchResults {
        let mut results = Vec::new();
        let whole = map_on_all_cores(&candidates.whole, 1, &|at| self.whole_file(&files[*at]));
        results.extend(candidates.whole.iter().copied().zip(whole));
        let ends = map_on_all_cores(&candidates.ends, 1, &|(at, from)| {
            self.parts(&files[*at].path, std::slice::from_ref(&(*from..files[*at].meta.len)))
        });
        results.extend(candidates.ends.iter().map(|(at, _)| *at).zip(ends));
        for blocks in candidates.blocks.chunks(BLOCKS_AT_ONCE) {
            if blocks.first().is_some_and(|(newest, ..)| self.is_settled_before(*newest)) {
                break;
            }
            let mut by_file: BTreeMap<usize, Vec<Range<u64>>> = BTreeMap::new();
            for (_, at, range) in blocks {
                by_file.entry(*at).or_default().push(range.clone());
            }
            let by_file: Vec<_> = by_file.into_iter().collect();
            let read = map_on_all_cores(&by_file, 1, &|(at, ranges)| self.parts(&files[*at].path, ranges));
            results.extend(by_file.iter().map(|(at, _)| *at).zip(read));
        }
        // One file is told once.
        results.sort_by_key(|(at, result)| (*at, result.is_ok()));
        results.dedup_by_key(|(at, _)| *at);
        let results = self.finish(results.into_iter().map(|(at, result)| (&files[at], result)));
        SearchResults { is_indexed: true, ..results }
    }
}

/// Brings the index up to date as far as that is worth it, and looks the query up.
fn candidates(
    repo: &Repo,
    index: &SearchIndex,
    files: &[SessionFile],
    expression: &str,
    now_ns: i128,
    progress: &(dyn Fn(SearchProgress) + Sync),
) -> Result<Candidates, Unusable> {
    let fs = &**repo.fs();
    let mut store = Store::open(fs, &index.folder, repo.root(), FORMAT)?;
    let result =
        update(&mut store, repo, index, files, now_ns, progress).and_then(|()| look_up(&mut store, fs, files, expression));
    match result {
        Err(Unusable::Damaged) => {
            store.reset()?;
            update(&mut store, repo, index, files, now_ns, progress)?;
            look_up(&mut store, fs, files, expression)
        }
        other => other,
    }
}

/// All blocks that may match, and what the index does not know, as of one moment.
fn look_up(store: &mut Store, fs: &dyn Fs, files: &[SessionFile], expression: &str) -> Result<Candidates, Unusable> {
    let transaction = store.connection.transaction()?;
    let mut known = indexed_files(&transaction)?;
    let mut candidates = Candidates::default();
    let mut by_id = HashMap::new();
    for (at, file) in files.iter().enumerate() {
        match coverage(fs, file, known.remove(path_bytes(file))) {
            Coverage::Upto(id, to) => {
                by_id.insert(id, (at, to));
                if to < file.meta.len {
                    candidates.ends.push((at, to));
                }
            }
            Coverage::Old(id) => {
                by_id.insert(id, (at, u64::MAX));
            }
            Coverage::None => candidates.whole.push(at),
        }
    }
    let mut select = transaction.prepare(
        "SELECT block.file, block.start, block.end, block.newest FROM words JOIN block ON block.id = words.rowid WHERE words MATCH ?1",
    )?;
    let mut rows = select.query([expression])?;
    while let Some(row) = rows.next()? {
        let Some((at, known_to)) = by_id.get(&row.get(0)?).copied() else { continue };
        let range = unsigned(row.get(1)?)?..unsigned(row.get(2)?)?;
        if known_to == u64::MAX {
            candidates.whole.push(at);
        } else if range.end <= known_to {
            candidates.blocks.push((row.get(3)?, at, range));
        }
    }
    candidates.blocks.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.start.cmp(&b.2.start)));
    candidates.whole.sort_unstable();
    candidates.whole.dedup();
    Ok(candidates)
}

fn path_bytes(file: &SessionFile) -> &[u8] {
    file.path.as_os_str().as_encoded_bytes()
}

fn unsigned(value: i64) -> Result<u64, Unusable> {
    u64::try_from(value).map_err(|_| Unusable::Damaged)
}

fn indexed_files(connection: &Connection) -> Result<HashMap<Vec<u8>, IndexedFile>, Unusable> {
    let mut select = connection.prepare("SELECT path, id, len, modified, device, inode, indexed_to, anchor, is_old FROM file")?;
    let mut rows = select.query([])?;
    let mut files = HashMap::new();
    while let Some(row) = rows.next()? {
        let file = IndexedFile {
            id: row.get(1)?,
            len: unsigned(row.get(2)?)?,
            times: row.get(3)?,
            identity: (row.get::<_, i64>(4)?.cast_unsigned(), row.get::<_, i64>(5)?.cast_unsigned()),
            indexed_to: unsigned(row.get(6)?)?,
            anchor: row.get::<_, i64>(7)?.cast_unsigned(),
            is_old: row.get(8)?,
        };
        files.insert(row.get(0)?, file);
    }
    Ok(files)
}

/// How much of what the index knows of a file is still so.
fn coverage(fs: &dyn Fs, file: &SessionFile, known: Option<IndexedFile>) -> Coverage {
    let Some(known) = known else { return Coverage::None };
    let meta = &file.meta;
    if known.identity != meta.identity {
        return Coverage::None;
    }
    let is_unchanged = known.len == meta.len && known.times == times(meta);
    if known.is_old {
        return if is_unchanged { Coverage::Old(known.id) } else { Coverage::None };
    }
    let has_grown = || {
        let same = || {
            let open = fs.open(&file.path, OpenFor::Read).ok()?;
            Some(anchor(&*open, &file.path, known.indexed_to).ok()? == known.anchor)
        };
        meta.len > known.len && same() == Some(true)
    };
    if is_unchanged || has_grown() { Coverage::Upto(known.id, known.indexed_to) } else { Coverage::None }
}

/// What is to be added of a file.
struct Job<'a> {
    file: &'a SessionFile,
    /// The file in the index, if its blocks stay.
    id: Option<i64>,
    from: u64,
}

/// Adds what the index lacks, if it is enough to be worth it and nobody else is at it.
fn update(
    store: &mut Store,
    repo: &Repo,
    index: &SearchIndex,
    files: &[SessionFile],
    now_ns: i128,
    progress: &(dyn Fn(SearchProgress) + Sync),
) -> Result<(), Unusable> {
    let fs = &**repo.fs();
    if plan(&store.connection, fs, index, files, now_ns)?.is_none() {
        return Ok(());
    }
    let lock_path = file_of(&index.folder, repo.root(), FORMAT.name, "lock");
    let lock = fs.open(&lock_path, OpenFor::CreateOrOpen).map_err(|_| Unusable::Unavailable)?;
    if !lock.try_lock().map_err(|_| Unusable::Unavailable)? {
        return Ok(());
    }
    // Whoever held it may have done it.
    if let Some((jobs, gone)) = plan(&store.connection, fs, index, files, now_ns)? {
        forget(&mut store.connection, &gone)?;
        add(&mut store.connection, fs, &jobs, index.block_bytes, progress)?;
    }
    // The lock is freed when it is closed.
    Ok(())
}

/// What to add, and the ids of files to forget; `None` when it is not worth it.
type Plan<'a> = Option<(Vec<Job<'a>>, Vec<i64>)>;

fn plan<'a>(
    connection: &Connection,
    fs: &dyn Fs,
    index: &SearchIndex,
    files: &'a [SessionFile],
    now_ns: i128,
) -> Result<Plan<'a>, Unusable> {
    let mut known = indexed_files(connection)?;
    let mut jobs = Vec::new();
    let mut gone = Vec::new();
    let mut lacking = 0;
    for file in files {
        let known = known.remove(path_bytes(file));
        let id = known.as_ref().map(|known| known.id);
        let job = match coverage(fs, file, known) {
            Coverage::Upto(id, to) => Job { file, id: Some(id), from: to },
            Coverage::Old(_) => continue,
            Coverage::None => {
                gone.extend(id);
                Job { file, id: None, from: 0 }
            }
        };
        // A file that was changed just now is read until it rests.
        let is_settled = (file.meta.modified_ns - now_ns).abs() > SLACK_NS;
        if is_settled && job.from < file.meta.len {
            lacking += file.meta.len - job.from;
            jobs.push(job);
        }
    }
    // Files that are gone stay in the index until there is something to write anyway, unless they are many.
    gone.extend(known.into_values().map(|known| known.id));
    let is_worth_it = lacking > index.add_from_bytes
        || gone.len() > 100
        || jobs.iter().any(|job| job.file.meta.len - job.from > index.block_bytes);
    Ok(is_worth_it.then_some((jobs, gone)))
}

fn forget(connection: &mut Connection, gone: &[i64]) -> Result<(), Unusable> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for id in gone {
        transaction.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM block WHERE file = ?1)", [id])?;
        transaction.execute("DELETE FROM block WHERE file = ?1", [id])?;
        transaction.execute("DELETE FROM file WHERE id = ?1", [id])?;
    }
    Ok(transaction.commit()?)
}

/// What reading a file for the index gives, piece by piece.
enum Piece {
    Block {
        job: usize,
        block: Block,
    },
    /// All blocks of the job were sent.
    Done {
        job: usize,
        end: End,
    },
}

/// Where what is known of a file ends.
#[derive(Clone, Copy, Debug)]
struct End {
    indexed_to: u64,
    /// A hash of the bytes before.
    anchor: u64,
    /// Whether it is of an old version, or no session.
    is_old: bool,
}

#[derive(Debug, Default)]
struct Block {
    range: Range<u64>,
    newest: Option<i64>,
    words: String,
}

/// Reads files on all cores and writes what they hold.
fn add(
    connection: &mut Connection,
    fs: &dyn Fs,
    jobs: &[Job<'_>],
    block_bytes: u64,
    progress: &(dyn Fn(SearchProgress) + Sync),
) -> Result<(), Unusable> {
    let total_bytes = jobs.iter().map(|job| job.file.meta.len - job.from).sum();
    let next = AtomicUsize::new(0);
    let done_bytes = AtomicU64::new(0);
    let (sender, receiver) = sync_channel::<Piece>(256);
    let work = |sender: SyncSender<Piece>| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number) else { break };
            // A file that cannot be read is not in the index, and so is read, and told, at each search.
            let done = read_job(fs, job, block_bytes, &mut |block| sender.send(Piece::Block { job: number, block }).is_ok());
            if done.is_some_and(|end| sender.send(Piece::Done { job: number, end }).is_err()) {
                break;
            }
            let len = job.file.meta.len - job.from;
            progress(SearchProgress {
                step: SearchStep::Index,
                done_bytes: done_bytes.fetch_add(len, Ordering::Relaxed) + len,
                total_bytes,
            });
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(jobs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            scope.spawn(|| work(sender));
        }
        drop(sender);
        let mut ids: HashMap<usize, i64> = HashMap::new();
        let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut written = 0;
        // Leaving early drops the receiver, which ends the threads.
        for piece in receiver {
            match piece {
                Piece::Block { job, block } => {
                    let id = match ids.get(&job) {
                        Some(id) => *id,
                        None => begin(&transaction, &jobs[job])?,
                    };
                    ids.insert(job, id);
                    written += block.range.end - block.range.start;
                    write(&transaction, id, &block)?;
                }
                Piece::Done { job, end } => {
                    let id = match ids.remove(&job) {
                        Some(id) => id,
                        None => begin(&transaction, &jobs[job])?,
                    };
                    transaction.execute(
                        "UPDATE file SET indexed_to = ?2, anchor = ?3, is_old = ?4 WHERE id = ?1",
                        params![id, signed(end.indexed_to)?, end.anchor.cast_signed(), end.is_old],
                    )?;
                    if written > BATCH_BYTES {
                        transaction.commit()?;
                        transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                        written = 0;
                    }
                }
            }
        }
        Ok(transaction.commit()?)
    })
}

fn signed(value: u64) -> Result<i64, Unusable> {
    i64::try_from(value).map_err(|_| Unusable::Unavailable)
}

/// What tells a file from itself after a change, as it is stored.
fn times(meta: &FileMeta) -> [u8; 32] {
    let mut times = [0; 32];
    times[..16].copy_from_slice(&meta.modified_ns.to_le_bytes());
    times[16..].copy_from_slice(&meta.changed_ns.to_le_bytes());
    times
}

/// Makes a file ready to get blocks. Until all are there it counts as known up to where it was known before.
fn begin(connection: &Connection, job: &Job<'_>) -> Result<i64, Unusable> {
    let FileMeta { len, identity, .. } = job.file.meta;
    let modified = times(&job.file.meta);
    if let Some(id) = job.id {
        // What a stop left behind what is known.
        connection.execute(
            "DELETE FROM words WHERE rowid IN (SELECT id FROM block WHERE file = ?1 AND start >= ?2)",
            params![id, signed(job.from)?],
        )?;
        connection.execute("DELETE FROM block WHERE file = ?1 AND start >= ?2", params![id, signed(job.from)?])?;
        connection.execute("UPDATE file SET len = ?2, modified = ?3 WHERE id = ?1", params![id, signed(len)?, modified])?;
        return Ok(id);
    }
    let insert =
        "INSERT INTO file (path, len, modified, device, inode, indexed_to, anchor, is_old) VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0)";
    let (device, inode) = (identity.0.cast_signed(), identity.1.cast_signed());
    Ok(connection.prepare(insert)?.insert(params![path_bytes(job.file), signed(len)?, modified, device, inode])?)
}

fn write(connection: &Connection, file: i64, block: &Block) -> Result<(), Unusable> {
    let id = connection.prepare("INSERT INTO block (file, start, end, newest) VALUES (?1, ?2, ?3, ?4)")?.insert(params![
        file,
        signed(block.range.start)?,
        signed(block.range.end)?,
        block.newest
    ])?;
    connection.prepare("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?.execute(params![id, block.words])?;
    Ok(())
}

/// Cuts what is new of a file into blocks. `None` when it cannot be read.
fn read_job(fs: &dyn Fs, job: &Job<'_>, block_bytes: u64, send: &mut dyn FnMut(Block) -> bool) -> Option<End> {
    match read_blocks(fs, job, block_bytes, send) {
        Ok(end) => Some(end),
        // It has no words, and has not to be looked at again before it changes.
        Err(StorageError::EmptyFile(_) | StorageError::NotASession(_) | StorageError::Format4(_)) => {
            Some(End { indexed_to: 0, anchor: 0, is_old: true })
        }
        Err(_) => None,
    }
}

fn read_blocks(fs: &dyn Fs, job: &Job<'_>, block_bytes: u64, send: &mut dyn FnMut(Block) -> bool) -> Result<End, StorageError> {
    let path = &job.file.path;
    let open = fs.open(path, OpenFor::Read).map_err(|source| StorageError::io("open", path, source))?;
    let header = JsonlStorage::header_of_open(&*open, path)?;
    let mut blocks = Blocks { from: job.from, len: block_bytes, ..Blocks::default() };
    let is_old = header.version < FORMAT_VERSION;
    let indexed_to = if is_old {
        visit_file(&*open, path, &mut |visited| blocks.add(visited))?;
        job.file.meta.len
    } else {
        visit_range(&*open, path, job.from..job.file.meta.len, &mut |visited| {
            blocks.cut_before(visited.line_start(), send);
            blocks.add(visited);
        })?
    };
    blocks.finish(indexed_to, send);
    Ok(End { indexed_to, anchor: anchor(&*open, path, indexed_to)?, is_old })
}

/// Collects the words of the lines of a file, block by block.
#[derive(Debug, Default)]
struct Blocks {
    /// About how long a block is.
    len: u64,
    /// Where the block begins.
    from: u64,
    words: HashSet<Box<str>>,
    newest: Option<i64>,
}

impl Blocks {
    /// Ends the block where this line begins, if it is long enough.
    fn cut_before(&mut self, line_start: u64, send: &mut dyn FnMut(Block) -> bool) {
        if line_start >= self.from.saturating_add(self.len) {
            self.finish(line_start, send);
        }
    }

    fn finish(&mut self, end: u64, send: &mut dyn FnMut(Block) -> bool) {
        if !self.words.is_empty() {
            let mut words = String::new();
            for word in self.words.drain() {
                words.push_str(&word);
                words.push(' ');
            }
            send(Block { range: self.from..end, newest: self.newest, words });
        }
        self.from = end;
        self.newest = None;
    }

    fn add(&mut self, visited: &VisitedEntry<'_>) {
        if !text::is_searched(visited.entry_type(), visited.role()) {
            return;
        }
        let Some(entry) = visited.entry() else { return };
        self.newest = self.newest.max(message_time(&entry));
        for text in text::texts(&entry) {
            for_each_word(&text, &mut |_, word| {
                let key = index_key(word);
                if !self.words.contains(key) {
                    self.words.insert(key.into());
                }
            });
        }
    }
}
