//! The listing cache: summaries that are kept, so that a list reads only what was written since the last one.
//!
//! ```text
//! root's files, by stat ----+
//!                           +--> same path, length, time and inode: the kept summary
//! store: chunks of records -+    longer: the bytes behind what was read, added to the kept sums
//!                                anything else: the whole file
//! ```
//!
//! # Invariants
//! - [`Repo::list_cached`] gives what [`Repo::list`] gives. The files are the truth: without a usable store it is a list
//!   that reads everything.
//! - A file that was changed about when it was last read is not trusted: a later change may not show in its time.
//! - Records lie in chunks of the files whose names hash alike, so that a list loads few values and a change writes few.
//! - What a list writes to the store is one transaction. Of two lists at once, the later one's reading of a file stays.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{OptionalExtension, TransactionBehavior, params};

use crate::session::hash::fnv1a;
use crate::storage::StorageError;
use crate::storage::cores::map_on_all_cores;
use crate::storage::fs::{FileMeta, Fs, OpenFor};
use crate::storage::jsonl::{Pass, ResumePoint, visit_appended, visit_resumable};
use crate::storage::list::{ListProgress, Listing, SessionSummary, Skipped, SummaryFold, read_all, sort_by_activity};
use crate::storage::repo::{Repo, SessionFile, split_path};
use crate::storage::store::{Store, StoreFormat, Unusable};
use record::{FileKey, FileRecord, Found};

mod record;

/// How many chunks the records of one folder are spread over.
const CHUNKS_PER_FOLDER: u64 = 64;

const FORMAT: StoreFormat = StoreFormat {
    name: "list",
    version: 2,
    tables: "
        CREATE TABLE chunk (folder BLOB, number INTEGER, data BLOB, PRIMARY KEY (folder, number)) WITHOUT ROWID;
        CREATE TABLE tree (folder BLOB, name BLOB, len INTEGER, data BLOB, PRIMARY KEY (folder, name)) WITHOUT ROWID;
    ",
};

/// Where the summaries of sessions are kept between two lists.
#[derive(Clone, Debug)]
pub struct ListingCache {
    folder: PathBuf,
}

impl ListingCache {
    /// A cache in this folder, which need not exist yet. One folder does for all roots.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }
}

/// The folder of a file, and the number of the chunk that its record is in.
type ChunkKey = (Vec<u8>, u64);

fn chunk_key(path: &Path) -> ChunkKey {
    (folder_bytes(path).to_owned(), chunk_number(path))
}

fn chunk_number(path: &Path) -> u64 {
    fnv1a(name_bytes(path).iter().copied()) % CHUNKS_PER_FOLDER
}

fn folder_bytes(path: &Path) -> &[u8] {
    split_path(path).0
}

fn name_bytes(path: &Path) -> &[u8] {
    split_path(path).1
}

/// What the cache knows of a file.
enum Known {
    /// The summary, but for its path.
    Summary(SessionSummary),
    NoSession(StorageError),
    /// It has to be read; the record tells from where on.
    Unread(Option<Box<FileRecord>>),
}

/// A file to read.
struct Unread<'a> {
    file: &'a SessionFile,
    at: usize,
    /// What was added up before, how far, and the tree of then.
    before: Option<(Box<SummaryFold>, ResumePoint, Vec<u8>)>,
}

/// What reading a file gave.
struct Reading {
    result: Result<SessionSummary, StorageError>,
    /// What to keep of it, and its tree.
    record: Option<(FileRecord, Vec<u8>)>,
}

impl Repo {
    /// The same sessions with a cache, which [`Repo::sessions`] uses, and so whatever looks for a session.
    pub fn with_cache(mut self, cache: ListingCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Lists all sessions of the root as [`Repo::list`] does, and reads only what was written since the last list with
    /// this cache. `progress` counts the files that are read.
    ///
    /// # Errors
    /// When the root cannot be read. A cache that cannot be used is no error.
    pub fn list_cached(&self, cache: &ListingCache, progress: &(dyn Fn(ListProgress) + Sync)) -> Result<Listing, StorageError> {
        let started_ms = self.clock.now_ms();
        let fs = &**self.fs();
        let (files, loaded) = std::thread::scope(|scope| {
            let loading = scope.spawn(|| load(fs, &cache.folder, self.root()));
            let files = self.files_and_skipped();
            (files, loading.join().unwrap_or(Err(Unusable::Unavailable)))
        });
        let (mut files, folders_skipped) = files?;
        let Ok((mut store, mut chunks)) = loaded else { return Ok(self.list_files(files, folders_skipped, progress)) };

        let groups = group(&files, &mut chunks);
        // Chunks that hold a file that is gone are written anew.
        let mut stale: HashSet<ChunkKey> = chunks.into_keys().collect();

        let mut sessions = Vec::with_capacity(files.len());
        let mut known_at = Vec::with_capacity(files.len());
        let mut skipped = Vec::new();
        let mut unread = Vec::new();
        for (group, (known, has_strangers)) in groups.iter().zip(map_on_all_cores(&groups, 16, &|group| group.recall(&files))) {
            if has_strangers {
                stale.insert(group.key.clone());
            }
            for (at, known) in group.members.iter().zip(known) {
                match known {
                    Known::Summary(summary) => {
                        sessions.push(summary);
                        known_at.push(*at);
                    }
                    Known::NoSession(reason) => skipped.push((*at, reason)),
                    Known::Unread(record) => {
                        let file = &files[*at];
                        unread.push(Unread { file, at: *at, before: record.and_then(|record| before(&store, file, *record)) });
                    }
                }
            }
        }
        let mut readings: Vec<_> = read_all(&unread, &|unread| read(fs, unread), progress);
        for (unread, reading) in unread.iter().zip(&mut readings) {
            match std::mem::replace(&mut reading.result, Err(StorageError::NotFound(PathBuf::new()))) {
                Ok(summary) => sessions.push(summary),
                // Deleted since the folder was read.
                Err(StorageError::NotFound(_)) => {}
                Err(reason) => skipped.push((unread.at, reason)),
            }
        }
        if !unread.is_empty() || !stale.is_empty() {
            let settled = Settled { from_ns: to_ns(started_ms) - SLACK_NS, to_ns: to_ns(self.clock.now_ms()) + SLACK_NS };
            let read = unread.iter().zip(readings).filter_map(|(unread, reading)| Some((unread.file, reading.record?)));
            if remember(&mut store, &files, &groups, stale, read, settled) == Err(Unusable::Damaged) {
                let _ = store.reset();
            }
        }
        // With many sessions the paths are much of what is in memory, so they are not copied.
        for (session, at) in sessions.iter_mut().zip(known_at) {
            session.path = std::mem::take(&mut files[at].path);
        }
        skipped.sort_unstable_by_key(|(at, _)| *at);
        let skipped = skipped.into_iter().map(|(at, reason)| Skipped { path: files[at].path.clone(), reason });
        let skipped = folders_skipped.into_iter().chain(skipped).collect();
        sort_by_activity(&mut sessions);
        Ok(Listing { sessions, skipped })
    }
}

/// How near to the time of reading a change is too near to be told from one just after. The coarsest file systems count
/// in steps of two seconds.
const SLACK_NS: i128 = 2_000_000_000;

fn to_ns(ms: i64) -> i128 {
    i128::from(ms) * 1_000_000
}

/// When a list ran, with what a clock may be off.
#[derive(Clone, Copy)]
struct Settled {
    from_ns: i128,
    to_ns: i128,
}

impl Settled {
    fn is_settled(self, meta: &FileMeta) -> bool {
        !(self.from_ns..=self.to_ns).contains(&meta.modified_ns)
    }
}

/// The files whose records share a chunk.
struct Group {
    key: ChunkKey,
    /// Positions among the files, ascending.
    members: Vec<usize>,
    /// Taken, and so freed, by who recalls it.
    chunk: Mutex<Vec<u8>>,
}

/// Groups files by chunk, and takes the chunks that there are files for.
fn group(files: &[SessionFile], chunks: &mut HashMap<ChunkKey, Vec<u8>>) -> Vec<Group> {
    let mut folders: BTreeMap<&[u8], Vec<Vec<usize>>> = BTreeMap::new();
    let mut at = 0;
    // Neighbours are mostly of one folder, so there is no look at the map for each file.
    for run in files.chunk_by(|a, b| folder_bytes(&a.path) == folder_bytes(&b.path)) {
        let by_number = folders.entry(folder_bytes(&run[0].path)).or_insert_with(|| vec![Vec::new(); CHUNKS_PER_FOLDER as usize]);
        for file in run {
            by_number[chunk_number(&file.path) as usize].push(at);
            at += 1;
        }
    }
    let mut groups = Vec::new();
    for (folder, by_number) in folders {
        for (number, members) in by_number.into_iter().enumerate().filter(|(_, members)| !members.is_empty()) {
            let key = (folder.to_owned(), number as u64);
            groups.push(Group { chunk: Mutex::new(chunks.remove(&key).unwrap_or_default()), key, members });
        }
    }
    groups
}

impl Group {
    /// What the chunk knows of each member, and whether it holds records of others, which are gone.
    fn recall(&self, files: &[SessionFile]) -> (Vec<Known>, bool) {
        // A damaged chunk knows nothing, and is written anew because its files are read.
        let chunk = std::mem::take(&mut *self.chunk.lock().unwrap_or_else(PoisonError::into_inner));
        let records = record::decode_chunk(&chunk).unwrap_or_default();
        let mut found = 0;
        let mut next = records.iter().peekable();
        let known = self
            .members
            .iter()
            .map(|at| {
                let file = &files[*at];
                let name = name_bytes(&file.path);
                while next.next_if(|(other, _)| *other < name).is_some() {}
                let record = next.next_if(|(other, _)| *other == name).and_then(|(_, record)| FileRecord::decode(record));
                found += usize::from(record.is_some());
                recall(file, record)
            })
            .collect();
        (known, found < records.len())
    }
}

fn recall(file: &SessionFile, record: Option<FileRecord>) -> Known {
    match record {
        Some(record) if record.key.is_settled && record.key.matches(&file.meta) => match record.found {
            Found::Session(fold, _) => Known::Summary(fold.finish(PathBuf::new(), &file.meta)),
            Found::Empty => Known::NoSession(StorageError::EmptyFile(file.path.clone())),
            Found::NotASession => Known::NoSession(StorageError::NotASession(file.path.clone())),
            Found::Format4 => Known::NoSession(StorageError::Format4(file.path.clone())),
        },
        record => Known::Unread(record.map(Box::new)),
    }
}

/// The store of a root, and the chunks in it.
fn load(fs: &dyn Fs, folder: &Path, root: &Path) -> Result<(Store, HashMap<ChunkKey, Vec<u8>>), Unusable> {
    let mut store = Store::open(fs, folder, root, FORMAT)?;
    match load_chunks(&store) {
        Ok(chunks) => Ok((store, chunks)),
        Err(Unusable::Damaged) => {
            store.reset()?;
            Ok((store, HashMap::new()))
        }
        Err(Unusable::Unavailable) => Err(Unusable::Unavailable),
    }
}

fn load_chunks(store: &Store) -> Result<HashMap<ChunkKey, Vec<u8>>, Unusable> {
    let mut select = store.connection.prepare("SELECT folder, number, data FROM chunk")?;
    let mut rows = select.query([])?;
    let mut chunks = HashMap::new();
    while let Some(row) = rows.next()? {
        let number = u64::try_from(row.get::<_, i64>(1)?).map_err(|_| Unusable::Damaged)?;
        chunks.insert((row.get(0)?, number), row.get(2)?);
    }
    Ok(chunks)
}

/// Where reading can go on, if the file grew and its tree is there.
fn before(store: &Store, file: &SessionFile, record: FileRecord) -> Option<(Box<SummaryFold>, ResumePoint, Vec<u8>)> {
    let FileRecord { key, found: Found::Session(fold, Some(point)) } = record else { return None };
    if key.identity != file.meta.identity || file.meta.len <= point.len {
        return None;
    }
    let len = i64::try_from(point.len).ok()?;
    let tree = store.connection.query_row(
        "SELECT data FROM tree WHERE folder = ?1 AND name = ?2 AND len = ?3",
        params![folder_bytes(&file.path), name_bytes(&file.path), len],
        |row| row.get(0),
    );
    tree.ok().map(|tree| (fold, point, tree))
}

/// Reads a file, or what is new of it.
fn read(fs: &dyn Fs, unread: &Unread<'_>) -> Reading {
    let file = unread.file;
    match read_session(fs, unread) {
        Ok((fold, pass)) => {
            let mut tree = Vec::new();
            if pass.resume.is_some() {
                tree = record::encode_tree(&pass.tree);
            }
            let record = FileRecord { key: key(file), found: Found::Session(Box::new(fold.clone()), pass.resume) };
            Reading { result: Ok(fold.finish(file.path.clone(), &file.meta)), record: Some((record, tree)) }
        }
        Err(error) => {
            let found = match &error {
                StorageError::EmptyFile(_) => Some(Found::Empty),
                StorageError::NotASession(_) => Some(Found::NotASession),
                StorageError::Format4(_) => Some(Found::Format4),
                // What the system says may be otherwise the next time.
                _ => None,
            };
            Reading { result: Err(error), record: found.map(|found| (FileRecord { key: key(file), found }, Vec::new())) }
        }
    }
}

fn read_session(fs: &dyn Fs, unread: &Unread<'_>) -> Result<(SummaryFold, Pass), StorageError> {
    let path = &unread.file.path;
    let open = fs.open(path, OpenFor::Read).map_err(|source| StorageError::io("open", path, source))?;
    if let Some((before, point, tree)) = &unread.before
        && let Some(tree) = record::decode_tree(tree)
    {
        let mut fold = (**before).clone();
        if let Some(pass) = visit_appended(&*open, path, *point, tree, &mut |visited| fold.add(visited))? {
            return Ok((fold.with_sums(&pass), pass));
        }
    }
    let mut fold = SummaryFold::default();
    let mut pass = visit_resumable(&*open, path, &mut |visited| fold.add(visited))?;
    fold.add_header(std::mem::take(&mut pass.header));
    Ok((fold.with_sums(&pass), pass))
}

impl SummaryFold {
    fn with_sums(mut self, pass: &Pass) -> Self {
        self.branches = pass.tree.branch_count() as u64;
        self.damaged_lines = pass.damaged_lines;
        self
    }
}

/// The key of a file as it was when the list began; whether it is settled is known at the end.
fn key(file: &SessionFile) -> FileKey {
    let FileMeta { len, modified_ns, changed_ns, identity, .. } = file.meta;
    FileKey { len, modified_ns, changed_ns, identity, is_settled: false }
}

/// Writes the chunks anew that files were read for, and those that hold files that are gone.
fn remember<'a>(
    store: &mut Store,
    files: &[SessionFile],
    groups: &[Group],
    stale: HashSet<ChunkKey>,
    read: impl Iterator<Item = (&'a SessionFile, (FileRecord, Vec<u8>))>,
    settled: Settled,
) -> Result<(), Unusable> {
    let transaction = store.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut put_tree = transaction.prepare("INSERT OR REPLACE INTO tree (folder, name, len, data) VALUES (?1, ?2, ?3, ?4)")?;
    let mut drop_tree = transaction.prepare("DELETE FROM tree WHERE folder = ?1 AND name = ?2")?;
    let mut fresh: HashMap<ChunkKey, BTreeMap<Vec<u8>, Vec<u8>>> = stale.into_iter().map(|key| (key, BTreeMap::new())).collect();
    for (file, (mut record, tree)) in read {
        record.key.is_settled = settled.is_settled(&file.meta);
        let (folder, name) = (folder_bytes(&file.path), name_bytes(&file.path));
        match &record.found {
            Found::Session(_, Some(point)) => {
                put_tree.execute(params![folder, name, i64::try_from(point.len).unwrap_or(i64::MAX), tree])?;
            }
            Found::Session(_, None) | Found::Empty | Found::NotASession | Found::Format4 => {
                drop_tree.execute(params![folder, name])?;
            }
        }
        fresh.entry(chunk_key(&file.path)).or_default().insert(name.to_owned(), record.encode());
    }
    let members: HashMap<&ChunkKey, &[usize]> = groups.iter().map(|group| (&group.key, &*group.members)).collect();
    let mut get_chunk = transaction.prepare("SELECT data FROM chunk WHERE folder = ?1 AND number = ?2")?;
    let mut put_chunk = transaction.prepare("INSERT OR REPLACE INTO chunk (folder, number, data) VALUES (?1, ?2, ?3)")?;
    let mut drop_chunk = transaction.prepare("DELETE FROM chunk WHERE folder = ?1 AND number = ?2")?;
    for (key, mut records) in fresh {
        let number = i64::try_from(key.1).unwrap_or_default();
        let names: HashSet<&[u8]> =
            members.get(&key).copied().unwrap_or_default().iter().map(|at| name_bytes(&files[*at].path)).collect();
        // Another process may have written it since it was loaded.
        let old: Option<Vec<u8>> = get_chunk.query_row(params![key.0, number], |row| row.get(0)).optional()?;
        for (name, record) in old.as_deref().and_then(record::decode_chunk).unwrap_or_default() {
            if names.contains(name) {
                records.entry(name.to_owned()).or_insert_with(|| record.to_owned());
            } else {
                drop_tree.execute(params![key.0, name])?;
            }
        }
        if records.is_empty() {
            drop_chunk.execute(params![key.0, number])?;
        } else {
            let chunk = record::encode_chunk(records.iter().map(|(name, record)| (&**name, &**record)));
            put_chunk.execute(params![key.0, number, chunk])?;
        }
    }
    drop((put_tree, drop_tree, get_chunk, put_chunk, drop_chunk));
    Ok(transaction.commit()?)
}
