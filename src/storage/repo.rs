//! A folder of sessions: where their files are, and how sessions are created, found, forked, moved and deleted.
//!
//! ```text
//! ROOT/--home-me-project--/2026-11-30T09-15-00-000Z_019ad3c5-....jsonl
//! ```
//!
//! # Invariants
//! - The folder's name is made from the cwd and never decoded: the header tells the cwd, because `/a/b-c` and `/a-b/c`
//!   share a folder.
//! - A path is built from an id only after the id went through [`SessionId::new`].
//! - What is returned as a path exists, and its folder is synced.
//! - The source of a fork is never changed; a session that is a link is never moved or deleted through the link.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::session::entry::{FORMAT_VERSION, Header, SessionId, format_timestamp};
use crate::session::hash::fnv1a;
use crate::session::json::{Extra, Json};
use crate::storage::cores::map_on_all_cores;
use crate::storage::fs::{FileKind, FileMeta, FolderItem, Fs, OpenFor};
use crate::storage::handle::{Batch, Session};
use crate::storage::jsonl::rewrite::{create_file, folder_of, write_all};
use crate::storage::jsonl::{FileLock, JsonlStorage};
use crate::storage::list::Skipped;
use crate::storage::lock::OwnerLock;
use crate::storage::memory::MemoryStorage;
use crate::storage::{Clock, Durability, IdSource, StorageError};

/// How session files lie in a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A folder for each cwd.
    Nested,
    /// All files in the root itself.
    Flat,
}

/// A folder of sessions, with what its operations need.
#[derive(Clone, Debug)]
pub struct Repo {
    pub(super) fs: Arc<dyn Fs>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn IdSource>,
    root: PathBuf,
    layout: Layout,
    /// Where summaries are kept between two lists, if anywhere.
    #[cfg(feature = "search")]
    pub(super) cache: Option<super::index::ListingCache>,
}

/// What a new session begins with.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// The folder that it works in; absolute.
    pub cwd: String,
    /// Its id; by default a new one.
    pub id: Option<SessionId>,
    /// When it was created, in Unix milliseconds; by default now.
    pub created_ms: Option<i64>,
    /// The file that it was forked from.
    pub parent_session: Option<String>,
    /// What an application keeps in the header.
    pub metadata: Option<Json>,
    /// Further keys of the header.
    pub extra: Extra,
}

/// Which session has which id, as of one look at the root.
#[derive(Clone, Debug, Default)]
pub struct KnownIds {
    by_id: HashMap<String, PathBuf>,
}

impl KnownIds {
    /// The file of the session with this id.
    pub fn find(&self, id: &str) -> Option<&Path> {
        self.by_id.get(id).map(PathBuf::as_path)
    }

    /// Forgets a file that is gone.
    pub fn forget(&mut self, path: &Path) {
        self.by_id.retain(|_, known| known != path);
    }
}

/// A file that may be a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    /// Its path.
    pub path: PathBuf,
    /// What `stat` tells.
    pub meta: FileMeta,
}

/// What is in a root.
#[derive(Debug)]
pub(super) struct Walk {
    /// The files, sorted by the bytes of their paths.
    pub files: Vec<SessionFile>,
    /// Where files of one folder follow each other. A folder may have several runs.
    #[cfg_attr(not(feature = "search"), expect(dead_code, reason = "the listing cache groups by folder"))]
    pub runs: Vec<Range<usize>>,
    /// The folders that cannot be read.
    pub skipped: Vec<Skipped>,
}

impl Repo {
    /// The sessions below `root`, which need not exist yet.
    pub fn new(fs: Arc<dyn Fs>, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>, root: PathBuf, layout: Layout) -> Self {
        Self {
            fs,
            clock,
            ids,
            root,
            layout,
            #[cfg(feature = "search")]
            cache: None,
        }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file system that the sessions are on.
    pub fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }

    /// The clock that what is written is stamped by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The folder for new sessions of a cwd.
    pub fn folder_for(&self, cwd: &str) -> PathBuf {
        match self.layout {
            Layout::Nested => self.root.join(folder_name(cwd)),
            Layout::Flat => self.root.clone(),
        }
    }

    /// The header and the path of a new session.
    pub(super) fn plan(&self, new: NewSession) -> Result<(Header, PathBuf), StorageError> {
        let id = match new.id {
            Some(id) => id,
            None => SessionId::new(self.ids.session_id())?,
        };
        let timestamp = format_timestamp(new.created_ms.unwrap_or_else(|| self.clock.now_ms()));
        let path = self.folder_for(&new.cwd).join(file_name(&timestamp, &id));
        let header = Header {
            version: FORMAT_VERSION,
            id: id.to_string(),
            timestamp,
            cwd: new.cwd,
            parent_session: new.parent_session,
            metadata: new.metadata,
            extra: new.extra,
        };
        Ok((header, path))
    }

    /// Creates a session: its file holds the header and is on disk when this returns.
    ///
    /// # Errors
    /// When a session of that id exists in the root, or the file cannot be written; then there is no file.
    pub fn create(&self, new: NewSession) -> Result<Session, StorageError> {
        let is_given = new.id.is_some();
        let (header, path) = self.plan(new)?;
        // A generated id is new; to look for it would open every file.
        if is_given && let Some(taken) = self.find_exact(&header.id)? {
            return Err(StorageError::Exists(taken));
        }
        let storage = JsonlStorage::create(self.fs.clone(), &path, &header)?;
        Ok(self.session(storage))
    }

    /// Creates a session that has entries from the beginning, those of `build`, and returns its file. A crash leaves all
    /// of it or no session. Many can be made in a row: what is in the root was looked at once, for `known`, which learns
    /// of the new one.
    ///
    /// # Errors
    /// As [`Repo::create`], and those of `build`; then there is no such session.
    pub fn create_among(
        &self,
        known: &mut KnownIds,
        new: NewSession,
        build: &mut dyn FnMut(&mut Batch<'_>) -> Result<(), StorageError>,
    ) -> Result<PathBuf, StorageError> {
        let (header, path) = self.plan(new)?;
        if let Some(taken) = known.find(&header.id) {
            return Err(StorageError::Exists(taken.to_owned()));
        }
        let id = header.id.clone();
        let mut draft = Session::new(Box::new(MemoryStorage::new(header)), self.clock.clone(), self.ids.clone());
        draft.append_with(build, Durability::Unsynced)?;
        let read = draft.read();
        create_file(&*self.fs, &path, &mut |file| {
            // Lines are gathered, so that a long session is not written a line at a time.
            let mut block = [read.header_line(), b"\n"].concat();
            for index in read.tree().iter_all() {
                block.extend_from_slice(&read.line(index)?);
                block.push(b'\n');
                if block.len() > 1 << 20 {
                    write_all(file, &block)?;
                    block.clear();
                }
            }
            write_all(file, &block)
        })?;
        known.by_id.insert(id, path.clone());
        Ok(path)
    }

    /// The ids of all sessions. `O(files)` without a cache, else a listing.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn known_ids(&self) -> Result<KnownIds, StorageError> {
        let mut known = KnownIds::default();
        for (id, path) in self.ids_and_paths()? {
            match known.by_id.entry(id) {
                Entry::Vacant(vacant) => drop(vacant.insert(path)),
                // As in `find_exact`: of several files the one that is named so.
                Entry::Occupied(mut other) => {
                    let is_named = |path: &Path, id: &str| id_in_file_name(path) == Some(id);
                    if is_named(&path, other.key()) && !is_named(other.get(), other.key()) {
                        other.insert(path);
                    }
                }
            }
        }
        Ok(known)
    }

    /// The id and the file of each session, by path.
    fn ids_and_paths(&self) -> Result<Vec<(String, PathBuf)>, StorageError> {
        #[cfg(feature = "search")]
        if self.cache.is_some() {
            let sessions = self.sessions(&|_| {})?.sessions;
            let mut ids: Vec<_> = sessions.into_iter().map(|session| (session.id.to_string(), session.path)).collect();
            ids.sort_by(|a, b| a.1.as_os_str().cmp(b.1.as_os_str()));
            return Ok(ids);
        }
        let files = self.files()?;
        let ids = map_on_all_cores(&files, 16, &|file| self.header_of(&file.path).map(|header| header.id));
        Ok(ids.into_iter().zip(files).filter_map(|(id, file)| Some((id?, file.path))).collect())
    }

    /// Opens a session file, in this root or elsewhere.
    ///
    /// # Errors
    /// See [`JsonlStorage::open`].
    pub fn open(&self, path: &Path) -> Result<Session, StorageError> {
        Ok(self.session(JsonlStorage::open(self.fs.clone(), path)?))
    }

    pub(super) fn session(&self, storage: JsonlStorage) -> Session {
        Session::new(Box::new(storage.of_root(&self.root)), self.clock.clone(), self.ids.clone())
    }

    /// The session files of the root, sorted by the bytes of their paths: those directly in it and those in its folders.
    /// Links are followed; each folder and each file comes once. A root that does not exist has none, nor has a folder in
    /// it that cannot be read.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn files(&self) -> Result<Vec<SessionFile>, StorageError> {
        self.files_and_skipped().map(|(files, _)| files)
    }

    /// As [`Repo::files`], with the folders that cannot be read.
    pub(super) fn files_and_skipped(&self) -> Result<(Vec<SessionFile>, Vec<Skipped>), StorageError> {
        self.walk().map(|walk| (walk.files, walk.skipped))
    }

    /// As [`Repo::files`], with what is known beside them.
    pub(super) fn walk(&self) -> Result<Walk, StorageError> {
        let (mut files, mut linked, mut skipped) = (Vec::<SessionFile>::new(), Vec::new(), Vec::new());
        let mut runs = Vec::new();
        // Each with its path without links, where that is known.
        let mut folders = vec![(self.root.clone(), None)];
        let mut seen = HashSet::new();
        // A root holds folders of files; what lies deeper is no session of it.
        for _depth in 0..2 {
            let (mut unread, mut failed) = (Vec::new(), Vec::new());
            for (folder, real) in std::mem::take(&mut folders) {
                match real.map_or_else(|| self.fs.canonicalize(&folder), Ok) {
                    Ok(real) if seen.insert(real.clone()) => unread.push((folder, real)),
                    Ok(_) => {}
                    Err(error) => failed.push((StorageError::io("read the folder", &folder, error), folder)),
                }
            }
            // So the paths of all files are in order without being sorted.
            let with_separator =
                |folder: &Path| [folder.as_os_str().as_encoded_bytes(), std::path::MAIN_SEPARATOR_STR.as_bytes()].concat();
            unread.sort_by_cached_key(|(folder, _)| with_separator(folder));
            let mut links = Vec::new();
            let mut read = map_on_all_cores(&unread, 1, &|(folder, _)| self.read_folder(folder));
            files.reserve(read.iter().flatten().map(|(files, _)| files.len()).sum());
            for ((folder, real), contents) in unread.into_iter().zip(&mut read) {
                match contents {
                    Ok((of_folder, others)) => {
                        let start = files.len();
                        files.append(of_folder);
                        runs.extend((start < files.len()).then_some(start..files.len()));
                        for FolderItem { path, kind, .. } in others.drain(..) {
                            match kind {
                                FileKind::Folder => {
                                    // Where this is no link, there is nothing to ask for.
                                    let real = path.file_name().map(|name| real.join(name));
                                    folders.push((path, real));
                                }
                                FileKind::File | FileKind::Link | FileKind::Other => links.push(path),
                            }
                        }
                    }
                    Err(reason) => failed.push((std::mem::replace(reason, StorageError::NotFound(PathBuf::new())), folder)),
                }
            }
            for (reason, folder) in failed {
                match reason {
                    StorageError::NotFound(_) => {}
                    reason if folder == self.root => return Err(reason),
                    reason => skipped.push(Skipped { path: folder, reason }),
                }
            }
            // A link to nothing is not there.
            let metas = map_on_all_cores(&links, 256, &|path| self.fs.metadata(path).ok());
            // Folders behind links come last: of the ways to one folder one without a link is taken if there is one.
            for (path, meta) in links.into_iter().zip(metas) {
                let Some(meta) = meta else { continue };
                match meta.kind {
                    FileKind::File if is_session_name(&path) => linked.push(SessionFile { path, meta }),
                    FileKind::Folder => folders.push((path, None)),
                    FileKind::File | FileKind::Link | FileKind::Other => {}
                }
            }
        }
        // So it is with the ways to one file.
        let has_links = !linked.is_empty();
        if has_links {
            linked.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
            let mut known: HashSet<(u64, u64)> = files.iter().map(|file| file.meta.identity).collect();
            files.extend(linked.into_iter().filter(|file| file.meta.identity == (0, 0) || known.insert(file.meta.identity)));
        }
        // Comparing paths part by part costs several times as much, and with many files even to look at each path shows.
        let path = |at: usize| files[at].path.as_os_str();
        if has_links || !runs.windows(2).all(|pair| path(pair[0].end - 1) < path(pair[1].start)) {
            files.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
            runs = files.chunk_by(|a, b| split_path(&a.path).0 == split_path(&b.path).0).fold(Vec::new(), |mut runs, run| {
                let start = runs.last().map_or(0, |run: &Range<usize>| run.end);
                runs.push(start..start + run.len());
                runs
            });
        }
        skipped.sort_by(|a: &Skipped, b| a.path.cmp(&b.path));
        Ok(Walk { files, runs, skipped })
    }

    /// What may be of interest in a folder: files that are named like sessions, sorted by name; and folders and links, also
    /// sorted by name.
    fn read_folder(&self, folder: &Path) -> Result<(Vec<SessionFile>, Vec<FolderItem>), StorageError> {
        let items = self.fs.read_dir_files(folder, &is_of_interest);
        let items = items.map_err(|source| StorageError::io("read the folder", folder, source))?;
        let (mut files, mut others) = (Vec::with_capacity(items.len()), Vec::new());
        for item in items {
            match (item.kind, item.meta) {
                (FileKind::File, Some(meta)) => files.push(SessionFile { path: item.path, meta }),
                (FileKind::File | FileKind::Folder | FileKind::Link | FileKind::Other, _) => others.push(item),
            }
        }
        sort_by_name(&mut files, folder, |file| &file.path);
        sort_by_name(&mut others, folder, |item| &item.path);
        Ok((files, others))
    }

    /// The file of the session with this id, by its header; the file's name tells where to look first.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn find_exact(&self, id: &str) -> Result<Option<PathBuf>, StorageError> {
        let files = self.files()?;
        let is_it = |file: &&SessionFile| self.header_of(&file.path).is_some_and(|header| header.id == id);
        if let Some(named) = files.iter().filter(|file| id_in_file_name(&file.path) == Some(id)).find(is_it) {
            return Ok(Some(named.path.clone()));
        }
        Ok(self.known_ids()?.find(id).map(Path::to_owned))
    }

    /// The header of a file; `None` when it is no session.
    pub fn header_of(&self, path: &Path) -> Option<Header> {
        JsonlStorage::read_header(&*self.fs, path).ok()
    }

    /// The file of a session's parent: the path in its header if it exists, else the session in this root whose id that
    /// path names.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn find_parent(&self, header: &Header) -> Result<Option<PathBuf>, StorageError> {
        let Some(parent) = &header.parent_session else { return Ok(None) };
        let path = Path::new(parent);
        if self.fs.metadata(path).is_ok_and(|meta| meta.kind == FileKind::File) {
            return Ok(Some(path.to_owned()));
        }
        match id_in_file_name(path) {
            Some(id) => self.find_exact(id),
            None => Ok(None),
        }
    }

    /// Deletes a session's file for good, with its companions (backups, lock, unsaved entries). Returns what was
    /// removed.
    ///
    /// # Errors
    /// [`StorageError::Busy`] while somebody holds it, [`StorageError::IsALink`] for a link; then nothing is removed.
    pub fn delete(&self, path: &Path) -> Result<Vec<PathBuf>, StorageError> {
        self.delete_by(path, &mut |path| self.fs.remove_file(path).map_err(|source| StorageError::io("delete", path, source)))
    }

    /// As [`Repo::delete`], but `remove` decides how, for a trash.
    ///
    /// # Errors
    /// As [`Repo::delete`], and those of `remove`.
    pub fn delete_by(
        &self,
        path: &Path,
        remove: &mut dyn FnMut(&Path) -> Result<(), StorageError>,
    ) -> Result<Vec<PathBuf>, StorageError> {
        self.refuse_link(path)?;
        let _owner = OwnerLock::take(&self.fs, path, "delete")?;
        // Who appends at this moment gets its entry written before the file goes, or finds that it is gone.
        let file = self.fs.open(path, OpenFor::Read).ok();
        let lock = file.and_then(|file| FileLock::take(file, path).ok());
        let companions = self.companions(path)?;
        lock.iter().for_each(FileLock::outwait_looks);
        remove(path)?;
        for companion in &companions {
            remove(companion)?;
        }
        let folder = folder_of(path);
        self.fs.sync_dir(folder).map_err(|source| StorageError::io("sync the folder", folder, source))?;
        Ok([path.to_owned()].into_iter().chain(companions).collect())
    }

    /// The files that belong to a session: backups and unsaved entries.
    fn companions(&self, path: &Path) -> Result<Vec<PathBuf>, StorageError> {
        let folder = folder_of(path);
        let items = self.fs.read_dir(folder).map_err(|source| StorageError::io("read the folder", folder, source))?;
        let mut companions: Vec<_> =
            items.into_iter().map(|(other, _)| other).filter(|other| is_companion(path, other)).collect();
        companions.sort();
        Ok(companions)
    }

    pub(super) fn refuse_link(&self, path: &Path) -> Result<(), StorageError> {
        let meta = self.fs.link_metadata(path).map_err(|source| StorageError::io("read", path, source))?;
        if meta.kind == FileKind::Link { Err(StorageError::IsALink(path.to_owned())) } else { Ok(()) }
    }
}

/// Sorts what is in one folder by the bytes of its paths.
fn sort_by_name<T>(items: &mut [T], folder: &Path, path: impl Fn(&T) -> &Path) {
    // All paths begin with the folder's.
    let skip = folder.as_os_str().len();
    fn name_of(path: &Path, skip: usize) -> &[u8] {
        path.as_os_str().as_encoded_bytes().get(skip..).unwrap_or_default()
    }
    let Some((first, rest)) = items.split_first() else { return };
    let first = name_of(path(first), skip);
    let shared = rest.iter().fold(first.len(), |shared, item| {
        let name = name_of(path(item), skip);
        first[..shared].iter().zip(name).position(|(a, b)| a != b).unwrap_or(shared.min(name.len()))
    });
    // The names of sessions begin with their times, so that eight bytes behind what all share put most in order. What is in
    // order is then only looked through.
    items.sort_by_cached_key(|item| {
        let name = name_of(path(item), skip).get(shared..).unwrap_or_default();
        let mut start = [0; 8];
        let len = name.len().min(8);
        start[..len].copy_from_slice(&name[..len]);
        u64::from_be_bytes(start)
    });
    items.sort_by(|a, b| name_of(path(a), skip).cmp(name_of(path(b), skip)));
}

/// The folder and the name of a file, as bytes. Taking a path apart by components costs a good deal more.
pub(super) fn split_path(path: &Path) -> (&[u8], &[u8]) {
    let bytes = path.as_os_str().as_encoded_bytes();
    let separator = if cfg!(windows) { memchr::memrchr2(b'/', b'\\', bytes) } else { memchr::memrchr(b'/', bytes) };
    separator.map_or((&[], bytes), |at| (&bytes[..at], &bytes[at + 1..]))
}

/// Whether what is named so in a folder may be of interest: folders, links, and files that are named like sessions.
pub(super) fn is_of_interest(path: &Path, kind: FileKind) -> bool {
    match kind {
        FileKind::File => is_session_name(path),
        FileKind::Folder | FileKind::Link => !is_hidden(path),
        FileKind::Other => false,
    }
}

fn is_hidden(path: &Path) -> bool {
    split_path(path).1.starts_with(b".")
}

/// Whether a file of the same folder belongs to a session: a backup, or entries that could not be saved.
pub(super) fn is_companion(session: &Path, other: &Path) -> bool {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let backup = format!("{}.bak", name(session));
    let name = name(other);
    other == session.with_extension("unsaved.jsonl")
        || name.strip_prefix(&backup).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(super) fn is_session_name(path: &Path) -> bool {
    let name = split_path(path).1;
    !name.starts_with(b".") && name.ends_with(b".jsonl") && !name.ends_with(b".unsaved.jsonl")
}

/// The name of the folder for sessions of a cwd, as Pi makes it: without one leading separator, `/`, `\` and `:`
/// replaced by `-`, between `--`. A name over 255 bytes is shortened and gets a hash of the whole.
pub fn folder_name(cwd: &str) -> String {
    let inner = cwd.strip_prefix(['/', '\\']).unwrap_or(cwd).replace(['/', '\\', ':'], "-");
    let name = format!("--{inner}--");
    if name.len() <= 255 {
        return name;
    }
    let hash = fnv1a(inner.bytes());
    let mut kept = 200;
    while !inner.is_char_boundary(kept) {
        kept -= 1;
    }
    format!("--{}-{hash:016x}--", &inner[..kept])
}

/// The name of a session's file.
pub fn file_name(timestamp: &str, id: &SessionId) -> String {
    format!("{}_{id}.jsonl", timestamp.replace([':', '.'], "-"))
}

/// The id in the name of a session's file; `None` where there is none that could be one.
pub fn id_in_file_name(path: &Path) -> Option<&str> {
    let (_, id) = path.file_name()?.to_str()?.strip_suffix(".jsonl")?.split_once('_')?;
    SessionId::new(id).is_ok().then_some(id)
}
