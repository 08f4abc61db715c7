//! What sessions hold and cost, kept between two reports, so that a report reads only what was written since the last one.
//!
//! # Invariants
//! - What is kept gives what reading the file gives; the files are the truth, and a store that cannot be used is done
//!   without.
//! - As in the listing cache, a file that was changed about when it was last read is not trusted.
//! - What is kept of a session has its tree and its entries' parts in a report, some 50 bytes an entry, and of the texts
//!   only the names of session, models and tools.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::{OptionalExtension, TransactionBehavior, params};

use super::record::{FileKey, decode_tree, encode_tree};
use super::{ListingCache, Settled, key};
use crate::session::bytes::{Reader, Writer, checksum};
use crate::session::entry::Header;
use crate::session::usage_report::{SessionUsage, SessionUsageFold};
use crate::storage::StorageError;
use crate::storage::fs::{Fs, OpenFor};
use crate::storage::jsonl::{ResumePoint, visit_appended, visit_resumable};
use crate::storage::list::{ListProgress, read_all};
use crate::storage::repo::{Repo, SessionFile};
use crate::storage::store::{Store, StoreFormat, Unusable};

const FORMAT: StoreFormat =
    StoreFormat { name: "usage", version: 1, tables: "CREATE TABLE session (path BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID;" };

/// How much is held back before it is written.
const PENDING_BYTES: usize = 8 * 1024 * 1024;

/// The store of a root, while sessions are read.
pub(in crate::storage) struct UsageStore<'a> {
    repo: &'a Repo,
    /// `None` once it turned out to be of no use.
    store: Option<Store>,
    started_ms: i64,
    pending: Vec<(&'a SessionFile, Kept)>,
    pending_bytes: usize,
    /// How many files it knows, with the pending ones.
    known: usize,
}

/// What is kept of a session's file; whether it is settled is known at the end.
struct Kept {
    key: FileKey,
    session: Vec<u8>,
}

impl<'a> UsageStore<'a> {
    /// The store of the repo's root. Without a cache, or with one that cannot be used, it knows nothing.
    pub fn open(repo: &'a Repo, cache: Option<&ListingCache>) -> Self {
        let open = |cache: &ListingCache| Store::open(&**repo.fs(), &cache.folder, repo.root(), FORMAT).ok();
        let started_ms = repo.clock.now_ms();
        Self { repo, store: cache.and_then(open), started_ms, pending: Vec::new(), pending_bytes: 0, known: 0 }
    }

    /// What is kept of these files.
    fn load(&mut self, files: &[SessionFile]) -> Vec<Option<Vec<u8>>> {
        let Some(store) = &mut self.store else { return vec![None; files.len()] };
        let loaded = load(store, files);
        match loaded {
            Ok(loaded) => {
                self.known += loaded.iter().flatten().count();
                loaded
            }
            Err(unusable) => {
                self.give_up(unusable);
                vec![None; files.len()]
            }
        }
    }

    /// Reads these files, as far as what is kept of them does not tell.
    pub fn read(
        &mut self,
        files: &'a [SessionFile],
        progress: &(dyn Fn(ListProgress) + Sync),
    ) -> Vec<Result<SessionUsage, StorageError>> {
        let fs = &**self.repo.fs();
        let kept: Vec<_> = files.iter().zip(self.load(files)).collect();
        let read = read_all(&kept, &|(file, kept)| read_usage(fs, file, kept.as_deref()), progress);
        let mut usages = Vec::with_capacity(files.len());
        for ((file, kept), (usage, fresh)) in kept.into_iter().zip(read) {
            usages.push(usage);
            let Some(fresh) = fresh.filter(|_| self.store.is_some()) else { continue };
            self.known += usize::from(kept.is_none());
            self.pending_bytes += fresh.session.len();
            self.pending.push((file, fresh));
        }
        if self.pending_bytes > PENDING_BYTES {
            self.flush();
        }
        usages
    }

    fn flush(&mut self) {
        let settled = Settled::between(self.started_ms, self.repo.clock.now_ms());
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        if let Some(store) = self.store.as_mut().filter(|_| !pending.is_empty())
            && let Err(unusable) = write(store, &pending, settled)
        {
            self.give_up(unusable);
        }
    }

    /// Writes what is left, and forgets the files that are not among these any more, which are all of the root.
    pub fn finish(mut self, files: &[SessionFile]) {
        self.flush();
        let known = self.known;
        if let Some(store) = &mut self.store
            && let Err(unusable) = forget(store, files, known)
        {
            self.give_up(unusable);
        }
    }

    /// Writes what is left.
    pub fn finish_one(mut self) {
        self.flush();
    }

    fn give_up(&mut self, unusable: Unusable) {
        if let Some(mut store) = self.store.take()
            && unusable == Unusable::Damaged
        {
            // The next report fills it anew.
            let _ = store.reset();
        }
    }
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn load(store: &mut Store, files: &[SessionFile]) -> Result<Vec<Option<Vec<u8>>>, Unusable> {
    let transaction = store.connection.transaction()?;
    let mut select = transaction.prepare("SELECT data FROM session WHERE path = ?1")?;
    let mut one = |file: &SessionFile| select.query_row([path_bytes(&file.path)], |row| row.get(0)).optional();
    Ok(files.iter().map(&mut one).collect::<Result<_, _>>()?)
}

fn write(store: &mut Store, pending: &[(&SessionFile, Kept)], settled: Settled) -> Result<(), Unusable> {
    let transaction = store.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut put = transaction.prepare("INSERT OR REPLACE INTO session (path, data) VALUES (?1, ?2)")?;
    for (file, kept) in pending {
        let key = FileKey { is_settled: settled.is_settled(&file.meta), ..kept.key };
        let mut out = Writer(vec![0; 8]);
        key.encode(&mut out);
        out.0.extend_from_slice(&kept.session);
        let sum = checksum(&out.0[8..]).to_le_bytes();
        out.0[..8].copy_from_slice(&sum);
        put.execute(params![path_bytes(&file.path), out.0])?;
    }
    drop(put);
    Ok(transaction.commit()?)
}

fn forget(store: &mut Store, files: &[SessionFile], known: usize) -> Result<(), Unusable> {
    let rows: i64 = store.connection.query_row("SELECT count(*) FROM session", [], |row| row.get(0))?;
    if usize::try_from(rows).is_ok_and(|rows| rows <= known) {
        return Ok(());
    }
    let there: HashSet<&[u8]> = files.iter().map(|file| path_bytes(&file.path)).collect();
    let transaction = store.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut select = transaction.prepare("SELECT path FROM session")?;
    let paths: Vec<Vec<u8>> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for path in paths.iter().filter(|path| !there.contains(&***path)) {
        transaction.execute("DELETE FROM session WHERE path = ?1", [path])?;
    }
    drop(select);
    Ok(transaction.commit()?)
}

/// A session of which something is kept.
struct Before {
    header: Header,
    fold: SessionUsageFold,
    tree: Vec<u8>,
    point: Option<ResumePoint>,
}

/// Reads a file for a report, as far as what is kept of it does not tell; what to keep of it, if that is something else.
fn read_usage(fs: &dyn Fs, file: &SessionFile, kept: Option<&[u8]>) -> (Result<SessionUsage, StorageError>, Option<Kept>) {
    let mut before = kept.and_then(decode);
    if let Some((_, session)) = before.take_if(|(known, _)| known.is_of(&file.meta))
        && let Some(tree) = decode_tree(&session.tree)
    {
        return (Ok(session.fold.finish(&session.header, &tree)), None);
    }
    let grown = before.filter(|(known, _)| known.identity == file.meta.identity).map(|(_, session)| session);
    match read(fs, file, grown) {
        Ok((usage, session)) => (Ok(usage), Some(Kept { key: key(file), session })),
        Err(error) => (Err(error), None),
    }
}

fn read(fs: &dyn Fs, file: &SessionFile, before: Option<Before>) -> Result<(SessionUsage, Vec<u8>), StorageError> {
    let path = &file.path;
    let open = fs.open(path, OpenFor::Read).map_err(|source| StorageError::io("open", path, source))?;
    if let Some(Before { header, mut fold, tree, point: Some(point) }) = before
        && file.meta.len > point.len
        && let Some(tree) = decode_tree(&tree).filter(|tree| fold.resume(tree))
        && let Some(pass) = visit_appended(&*open, path, point, tree, &mut |visited| fold.add(visited.entry().as_ref()))?
    {
        let session = encode(&header, &fold, &encode_tree(&pass.tree), pass.resume);
        return Ok((fold.finish(&header, &pass.tree), session));
    }
    let mut fold = SessionUsageFold::default();
    let pass = visit_resumable(&*open, path, &mut |visited| fold.add(visited.entry().as_ref()))?;
    let session = encode(&pass.header, &fold, &encode_tree(&pass.tree), pass.resume);
    Ok((fold.finish(&pass.header, &pass.tree), session))
}

fn encode(header: &Header, fold: &SessionUsageFold, tree: &[u8], point: Option<ResumePoint>) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(header.id.as_bytes());
    out.bytes(header.cwd.as_bytes());
    out.0.push(u8::from(point.is_some()));
    for number in point.map(ResumePoint::to_numbers).into_iter().flatten() {
        out.number(number);
    }
    out.bytes(tree);
    out.bytes(&fold.encode());
    out.0
}

/// What tells whether the file is the same, and what is kept of the session in it; `None` for other bytes.
fn decode(bytes: &[u8]) -> Option<(FileKey, Before)> {
    let (sum, rest) = bytes.split_first_chunk::<8>()?;
    if checksum(rest).to_le_bytes() != *sum {
        return None;
    }
    let mut input = Reader(rest);
    let key = FileKey::decode(&mut input)?;
    let header = Header { id: input.text()?, cwd: input.text()?, ..Header::default() };
    let point = if input.flag()? {
        let mut numbers = [0; 6];
        for number in &mut numbers {
            *number = input.number()?;
        }
        Some(ResumePoint::from_numbers(numbers)?)
    } else {
        None
    };
    let tree = input.bytes()?.to_owned();
    let fold = SessionUsageFold::decode(input.bytes()?)?;
    Some((key, Before { header, fold, tree, point }))
}
