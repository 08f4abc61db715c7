//! The listing cache: summaries that are kept, so that a list reads only what was written since the last one.
//!
//! ```text
//! root's files, by stat ----+
//!                           +--> same path, length, time and inode: the kept summary
//! store: records -----------+    longer: the bytes behind what was read, added to the kept sums
//!   (a batch a folder,           anything else: the whole file
//!    and what changed since)
//! ```
//!
//! # Invariants
//! - [`Repo::list_cached`] gives what [`Repo::list`] gives. The files are the truth: without a usable store it is a list
//!   that reads everything.
//! - A file that was changed about when it was last read is not trusted: a later change may not show in its time.
//! - The records of a folder lie in one batch, so that a list loads few values. What changed since lies beside it, so that
//!   a change writes little; when that is much, or a file is gone, the batch is written anew.
//! - A kept summary is taken out of its batch, or looked at there, when it is clear where in the list it stands.
//! - What a list writes to the store is one transaction. Of two lists at once, the later one's reading of a file stays.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::storage::StorageError;
use crate::storage::cores::map_on_all_cores;
use crate::storage::fs::{FileMeta, Fs, OpenFor};
use crate::storage::jsonl::{Pass, ResumePoint, visit_appended, visit_resumable};
use crate::storage::list::{
    ListProgress, Listing, SessionSummary, Sessions, SessionsIn, Skipped, SummaryFold, SummaryRef, read_all,
};
use crate::storage::repo::{Repo, SessionFile, Walk, split_path};
use crate::storage::store::{Store, StoreFormat, Unusable};
use record::{Batch, FileKey, FileRecord, Found, Passed, Place, encode_records};

mod record;
pub(super) mod usage;

const FORMAT: StoreFormat = StoreFormat {
    name: "list",
    version: 3,
    tables: "
        CREATE TABLE folder (id INTEGER PRIMARY KEY, path BLOB UNIQUE, records BLOB);
        CREATE TABLE changed (folder BLOB, name BLOB, record BLOB, PRIMARY KEY (folder, name)) WITHOUT ROWID;
        CREATE TABLE tree (folder BLOB, name BLOB, len INTEGER, data BLOB, PRIMARY KEY (folder, name)) WITHOUT ROWID;
    ",
};

/// A folder's batch is written anew when beside it lie more records than this, and more than a sixteenth of it.
const MAX_CHANGED: usize = 64;

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

fn folder_bytes(path: &Path) -> &[u8] {
    split_path(path).0
}

fn name_bytes(path: &Path) -> &[u8] {
    split_path(path).1
}

/// What the cache knows of a file.
#[derive(Debug)]
enum Known {
    /// The record in a folder's batch is that of the file as it is. It is taken out when it is clear where it goes.
    Kept {
        modified_ms: i64,
        folder: usize,
        place: Place,
    },
    /// The summary, but for its path.
    Summary(Box<SessionSummary>),
    NoSession(Box<StorageError>),
    /// The file is gone, or what was known of it was taken.
    Gone,
    /// It has to be read; the record tells from where on.
    Unread(Option<Box<FileRecord>>),
}

/// A file to read.
struct Unread<'a> {
    file: &'a SessionFile,
    /// Its position among the files.
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
        self.list_in_place(cache, progress).map(Sessions::into_listing)
    }

    /// As [`Repo::list_cached`], with the summaries left where they are kept.
    pub(super) fn list_in_place(
        &self,
        cache: &ListingCache,
        progress: &(dyn Fn(ListProgress) + Sync),
    ) -> Result<Sessions, StorageError> {
        let started_ms = self.clock.now_ms();
        let fs = &**self.fs();
        let (walk, loaded) = std::thread::scope(|scope| {
            let loading = scope.spawn(|| load(fs, &cache.folder, self.root()));
            let walk = self.walk();
            (walk, loading.join().unwrap_or(Err(Unusable::Unavailable)))
        });
        let Walk { files, runs, skipped: folders_skipped } = walk?;
        let Ok((mut store, mut kept)) = loaded else {
            return Ok(Sessions(SessionsIn::Memory(self.list_files(files, folders_skipped, progress))));
        };

        let folders = by_folder(&files, runs, &mut kept);
        // What is left is of folders that are gone.
        let gone: Vec<Vec<u8>> = kept.into_keys().collect();

        let recalled = map_on_all_cores(&folders, 1, &|folder| folder.recall(&files));
        let (known, states): (Vec<Vec<Known>>, Vec<FolderState>) = recalled.into_iter().unzip();
        let mut known = in_order_of_files(&folders, known);
        let mut unread = Vec::new();
        for (at, known) in known.iter_mut().enumerate() {
            if let Known::Unread(record) = known {
                let file = &files[at];
                let before = record.take().and_then(|record| before(&store, file, *record));
                unread.push(Unread { file, at, before });
            }
        }
        let mut readings: Vec<_> = read_all(&unread, &|unread| read(fs, unread), progress);
        for (unread, reading) in unread.iter().zip(&mut readings) {
            known[unread.at] = match std::mem::replace(&mut reading.result, Err(StorageError::NotFound(PathBuf::new()))) {
                Ok(summary) => Known::Summary(Box::new(summary)),
                // Deleted since the folder was read.
                Err(StorageError::NotFound(_)) => Known::Gone,
                Err(reason) => Known::NoSession(Box::new(reason)),
            };
        }
        if !unread.is_empty() || !gone.is_empty() || states.iter().any(|state| state.is_stale) {
            let settled = Settled::between(started_ms, self.clock.now_ms());
            let mut fresh = Fresh::default();
            for (unread, reading) in unread.iter().zip(readings) {
                let Some((mut record, tree)) = reading.record else { continue };
                record.key.is_settled = settled.is_settled(&unread.file.meta);
                let (folder, name) = split_path(&unread.file.path);
                fresh.entry(folder).or_default().insert(name, (record, tree));
            }
            if remember(&mut store, &files, folders.iter().zip(&states), &gone, &fresh) == Err(Unusable::Damaged) {
                let _ = store.reset();
            }
        }
        drop((unread, folders));
        let batches = states.into_iter().map(|state| state.batch).collect();
        Ok(Sessions(SessionsIn::Cache(CachedSessions::new(files, known, batches, folders_skipped))))
    }
}

/// What is known of each file, from what is known of the members of each folder.
fn in_order_of_files(folders: &[Folder<'_>], known: Vec<Vec<Known>>) -> Vec<Known> {
    let mut runs: Vec<_> =
        folders.iter().enumerate().flat_map(|(at, folder)| folder.runs.iter().map(move |run| (run.clone(), at))).collect();
    runs.sort_unstable_by_key(|(run, _)| run.start);
    let mut all = Vec::with_capacity(known.iter().map(Vec::len).sum());
    let mut known: Vec<_> = known.into_iter().map(Vec::into_iter).collect();
    for (run, folder) in runs {
        all.extend(known[folder].by_ref().take(run.len()));
    }
    all
}

/// How many are worth a thread to sort them.
const MANY: usize = 10_000;

/// How many bytes come from memory at once.
const CACHE_LINE: usize = 64;

/// How many summaries one thread makes at a time.
const SUMMARIES_A_THREAD: usize = 256;

/// Sessions whose summaries are in the batches of their folders, where they are not of files that were read.
#[derive(Debug)]
pub(super) struct CachedSessions {
    files: Vec<SessionFile>,
    /// What is known of each file.
    known: Vec<Known>,
    /// Those of the folders, where they have one.
    batches: Vec<Option<Batch>>,
    /// The positions of the sessions among the files, newest activity first.
    order: Vec<(Reverse<i64>, usize)>,
    skipped: Vec<Skipped>,
}

impl CachedSessions {
    fn new(files: Vec<SessionFile>, mut known: Vec<Known>, batches: Vec<Option<Batch>>, folders_skipped: Vec<Skipped>) -> Self {
        let mut order = Vec::with_capacity(known.len());
        let mut skipped = folders_skipped;
        // Files are in the order of their paths.
        for (at, known) in known.iter_mut().enumerate() {
            match known {
                Known::Kept { modified_ms, .. } => order.push((Reverse(*modified_ms), at)),
                Known::Summary(summary) => order.push((Reverse(summary.modified_ms), at)),
                reason @ Known::NoSession(_) => {
                    if let Known::NoSession(reason) = std::mem::replace(reason, Known::Gone) {
                        skipped.push(Skipped { path: files[at].path.clone(), reason: *reason });
                    }
                }
                Known::Gone | Known::Unread(_) => {}
            }
        }
        // Half of them on another core; what is left are two runs.
        let half = order.len() / 2;
        let (one, other) = order.split_at_mut(half);
        std::thread::scope(|scope| {
            if one.len() > MANY {
                scope.spawn(|| one.sort_unstable());
            }
            other.sort_unstable();
        });
        order.sort();
        Self { files, known, batches, order, skipped }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    pub(super) fn each_in(&self, range: Range<usize>, each: &mut dyn FnMut(&SummaryRef<'_>)) {
        let order = self.order.get(range).unwrap_or_default();
        touch(&self.files, &self.known, &self.batches, order);
        for &(_, at) in order {
            let file = &self.files[at];
            match &self.known[at] {
                Known::Kept { folder, place, .. } => {
                    let fold = self.batches[*folder].as_ref().and_then(|batch| batch.session(*place));
                    fold.into_iter().for_each(|fold| each(&fold.finish(&*file.path, &file.meta)));
                }
                Known::Summary(summary) => each(&SummaryRef { path: &file.path, ..summary.borrowed() }),
                Known::NoSession(_) | Known::Gone | Known::Unread(_) => {}
            }
        }
    }

    pub(super) fn into_listing(self) -> Listing {
        let Self { mut files, mut known, batches, order, skipped } = self;
        let make = |at: usize| match &known[at] {
            Known::Kept { folder, place, .. } => {
                let record = batches[*folder].as_ref().and_then(|batch| batch.record(*place));
                match record.map(|record| record.found) {
                    Some(Found::Session(fold, _)) => fold.finish(PathBuf::new(), &files[at].meta),
                    Some(Found::Empty | Found::NotASession | Found::Format4) | None => SessionSummary::default(),
                }
            }
            Known::Summary(_) | Known::NoSession(_) | Known::Gone | Known::Unread(_) => SessionSummary::default(),
        };
        let parts: Vec<_> = order.chunks(SUMMARIES_A_THREAD).collect();
        let parts = map_on_all_cores(&parts, 1, &|part: &&[(Reverse<i64>, usize)]| {
            touch(&files, &known, &batches, part);
            part.iter().map(|&(_, at)| make(at)).collect::<Vec<_>>()
        });
        let mut sessions = Vec::with_capacity(order.len());
        parts.into_iter().for_each(|part| sessions.extend(part));
        for (session, (_, at)) in sessions.iter_mut().zip(order) {
            if let Known::Summary(summary) = &mut known[at] {
                *session = std::mem::take(summary);
            }
            session.path = std::mem::take(&mut files[at].path);
        }
        Listing { sessions, skipped }
    }
}

/// Asks memory for what some sessions are made of. Neighbours in a list lie far apart, and to wait for one after another
/// would be half of what their lines cost; asked for together, they come together.
fn touch(files: &[SessionFile], known: &[Known], batches: &[Option<Batch>], order: &[(Reverse<i64>, usize)]) {
    let mut sum = 0;
    for &(_, at) in order {
        let is_kept = matches!(known[at], Known::Kept { .. });
        sum ^= u64::from(is_kept) ^ files[at].meta.len;
    }
    for &(_, at) in order {
        if let Known::Kept { folder, place, .. } = &known[at] {
            sum ^= batches[*folder].as_ref().map_or(0, |batch| batch.touch(*place));
        }
        let path = files[at].path.as_os_str().as_encoded_bytes();
        sum ^= path.iter().step_by(CACHE_LINE).fold(0, |sum, byte| sum ^ u64::from(*byte));
    }
    std::hint::black_box(sum);
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
    fn between(from_ms: i64, to_ms: i64) -> Self {
        Self { from_ns: to_ns(from_ms) - SLACK_NS, to_ns: to_ns(to_ms) + SLACK_NS }
    }

    fn is_settled(self, meta: &FileMeta) -> bool {
        !(self.from_ns..=self.to_ns).contains(&meta.modified_ns)
    }
}

/// What the store has of a folder.
#[derive(Default)]
struct Kept {
    /// `None` if there is none, or a damaged one.
    batch: Option<Batch>,
    /// Whether the batch is damaged.
    is_damaged: bool,
    /// Records of single files, by name, which stand for those in the batch.
    changed: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The files of one folder.
struct Folder<'a> {
    path: &'a [u8],
    /// Its position among the folders.
    index: usize,
    /// Positions among the files, ascending.
    runs: Vec<Range<usize>>,
    /// Taken, and so freed, by who recalls it.
    kept: Mutex<Kept>,
}

/// How what is kept of a folder is to what is there.
struct FolderState {
    /// The batch, from which what is known is taken.
    batch: Option<Batch>,
    /// How many records are in it.
    records: usize,
    /// How many lie beside it.
    changed: usize,
    /// Whether there are records of files that are gone, or of none that can be read.
    is_stale: bool,
}

/// Groups files by folder, and takes what is kept of these.
fn by_folder<'a>(files: &'a [SessionFile], runs: Vec<Range<usize>>, kept: &mut HashMap<Vec<u8>, Kept>) -> Vec<Folder<'a>> {
    let mut folders: BTreeMap<&[u8], Vec<Range<usize>>> = BTreeMap::new();
    for run in runs {
        folders.entry(folder_bytes(&files[run.start].path)).or_default().push(run);
    }
    let folder = |(index, (path, runs))| Folder { path, index, runs, kept: Mutex::new(kept.remove(path).unwrap_or_default()) };
    folders.into_iter().enumerate().map(folder).collect()
}

impl Folder<'_> {
    fn members(&self) -> impl Iterator<Item = usize> {
        self.runs.iter().cloned().flatten()
    }

    /// What is known of each member.
    fn recall(&self, files: &[SessionFile]) -> (Vec<Known>, FolderState) {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        // A damaged batch knows nothing, and is written anew.
        let mut state = FolderState { batch: kept.batch, records: 0, changed: kept.changed.len(), is_stale: kept.is_damaged };
        let batch = state.batch.as_ref();
        let records = batch.into_iter().flat_map(Batch::passed);
        let mut records = records.inspect(|_| state.records += 1).peekable();
        let mut changed = kept.changed.iter().peekable();
        let known = self
            .members()
            .map(|at| {
                let file = &files[at];
                // Behind the folder and a separator.
                let name = file.path.as_os_str().as_encoded_bytes().get(self.path.len() + 1..).unwrap_or_default();
                while records.next_if(|(other, _)| *other < name).is_some() {
                    state.is_stale = true;
                }
                let passed = records.next_if(|(other, _)| *other == name).map(|(_, passed)| passed);
                while changed.next_if(|(other, _)| ***other < *name).is_some() {
                    state.is_stale = true;
                }
                let later = changed.next_if(|(other, _)| ***other == *name);
                let later = later.and_then(|(_, bytes)| Batch::read(bytes)?.records().next().map(|(_, record)| record));
                match (later, passed) {
                    (None, Some(Passed { key, place, activity_ms: Some(modified_ms) })) if key.is_of(&file.meta) => {
                        Known::Kept { modified_ms, folder: self.index, place }
                    }
                    (later, passed) => recall(file, later.or_else(|| batch?.record(passed?.place))),
                }
            })
            .collect();
        let is_over = records.next().is_none() && changed.next().is_none();
        drop(records);
        state.is_stale |= !is_over;
        (known, state)
    }
}

fn recall(file: &SessionFile, record: Option<FileRecord>) -> Known {
    match record {
        Some(record) if record.key.is_of(&file.meta) => match record.found {
            Found::Session(fold, _) => Known::Summary(Box::new(fold.finish(PathBuf::new(), &file.meta))),
            Found::Empty => Known::NoSession(Box::new(StorageError::EmptyFile(file.path.clone()))),
            Found::NotASession => Known::NoSession(Box::new(StorageError::NotASession(file.path.clone()))),
            Found::Format4 => Known::NoSession(Box::new(StorageError::Format4(file.path.clone()))),
        },
        record => Known::Unread(record.map(Box::new)),
    }
}

/// The store of a root, and what is in it, by folder.
fn load(fs: &dyn Fs, folder: &Path, root: &Path) -> Result<(Store, HashMap<Vec<u8>, Kept>), Unusable> {
    let mut store = Store::open(fs, folder, root, FORMAT)?;
    match load_kept(&mut store) {
        Ok(kept) => Ok((store, kept)),
        Err(Unusable::Damaged) => {
            store.reset()?;
            Ok((store, HashMap::new()))
        }
        Err(Unusable::Unavailable) => Err(Unusable::Unavailable),
    }
}

fn load_kept(store: &mut Store) -> Result<HashMap<Vec<u8>, Kept>, Unusable> {
    // Both tables as of one moment.
    let transaction = store.connection.transaction()?;
    let mut kept: HashMap<Vec<u8>, Kept> = HashMap::new();
    let mut select = transaction.prepare("SELECT path, records FROM folder")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        // Not copied as it is: with many sessions this is most of what is in memory.
        let batch = row.get_ref(1)?.as_blob().ok().and_then(Batch::read);
        kept.insert(row.get(0)?, Kept { is_damaged: batch.is_none(), batch, changed: BTreeMap::new() });
    }
    let mut select = transaction.prepare("SELECT folder, name, record FROM changed")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        kept.entry(row.get(0)?).or_default().changed.insert(row.get(1)?, row.get(2)?);
    }
    Ok(kept)
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
    tree.ok().map(|tree| (Box::new(fold), point, tree))
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
            let record = FileRecord { key: key(file), found: Found::Session(fold.clone(), pass.resume) };
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

/// What was read, by folder and name: the record, and the tree.
type Fresh<'a> = HashMap<&'a [u8], BTreeMap<&'a [u8], (FileRecord, Vec<u8>)>>;

/// Writes down what was read, and forgets what is gone.
fn remember<'a>(
    store: &mut Store,
    files: &[SessionFile],
    folders: impl Iterator<Item = (&'a Folder<'a>, &'a FolderState)>,
    gone: &[Vec<u8>],
    fresh: &Fresh<'_>,
) -> Result<(), Unusable> {
    let transaction = store.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for folder in gone {
        transaction.execute("DELETE FROM folder WHERE path = ?1", [folder])?;
        transaction.execute("DELETE FROM changed WHERE folder = ?1", [folder])?;
        transaction.execute("DELETE FROM tree WHERE folder = ?1", [folder])?;
    }
    let mut put_tree = transaction.prepare("INSERT OR REPLACE INTO tree (folder, name, len, data) VALUES (?1, ?2, ?3, ?4)")?;
    let mut drop_tree = transaction.prepare("DELETE FROM tree WHERE folder = ?1 AND name = ?2")?;
    let mut put_changed = transaction.prepare("INSERT OR REPLACE INTO changed (folder, name, record) VALUES (?1, ?2, ?3)")?;
    let none = BTreeMap::new();
    for (folder, state) in folders {
        let fresh = fresh.get(folder.path).unwrap_or(&none);
        for (name, (record, tree)) in fresh {
            match &record.found {
                Found::Session(_, Some(point)) => {
                    put_tree.execute(params![folder.path, name, i64::try_from(point.len).unwrap_or(i64::MAX), tree])?;
                }
                Found::Session(_, None) | Found::Empty | Found::NotASession | Found::Format4 => {
                    drop_tree.execute(params![folder.path, name])?;
                }
            }
        }
        if state.is_stale || state.changed + fresh.len() > MAX_CHANGED.max(state.records / 16) {
            let names: HashSet<&[u8]> = folder.members().map(|at| name_bytes(&files[at].path)).collect();
            for gone in rewrite(&transaction, folder.path, &names, fresh)? {
                drop_tree.execute(params![folder.path, gone])?;
            }
            continue;
        }
        for (name, (record, _)) in fresh {
            put_changed.execute(params![folder.path, name, encode_records([(*name, record)].into_iter())])?;
        }
    }
    drop((put_tree, drop_tree, put_changed));
    Ok(transaction.commit()?)
}

/// Writes the batch of a folder anew, with what lies beside it and what is fresh. Returns the names that are gone.
fn rewrite(
    connection: &Connection,
    folder: &[u8],
    names: &HashSet<&[u8]>,
    fresh: &BTreeMap<&[u8], (FileRecord, Vec<u8>)>,
) -> Result<HashSet<Vec<u8>>, Unusable> {
    // Another process may have written since it was loaded.
    let batch: Option<Vec<u8>> =
        connection.query_row("SELECT records FROM folder WHERE path = ?1", [folder], |row| row.get(0)).optional()?;
    let mut select = connection.prepare("SELECT record FROM changed WHERE folder = ?1")?;
    let changed: Vec<Vec<u8>> = select.query_map([folder], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut records: BTreeMap<Vec<u8>, FileRecord> = BTreeMap::new();
    let mut gone = HashSet::new();
    for batch in batch.iter().chain(&changed).filter_map(|bytes| Batch::read(bytes)) {
        for (name, record) in batch.records() {
            if names.contains(name) {
                records.insert(name.to_owned(), record);
            } else {
                gone.insert(name.to_owned());
            }
        }
    }
    records.extend(fresh.iter().map(|(name, (record, _))| (name.to_vec(), record.clone())));
    let batch = encode_records(records.iter().map(|(name, record)| (&**name, record)));
    connection.execute("DELETE FROM changed WHERE folder = ?1", [folder])?;
    connection.execute(
        "INSERT INTO folder (path, records) VALUES (?1, ?2) ON CONFLICT (path) DO UPDATE SET records = excluded.records",
        params![folder, batch],
    )?;
    Ok(gone)
}
