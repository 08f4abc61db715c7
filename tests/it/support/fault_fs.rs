//! A file system in memory that remembers what was not synced, and fails or dies where it is told to.
//!
//! # Invariants
//! - Every call is counted. A run without faults tells how many there are; then a run can be made for each of them.
//! - A write is safe when its file was synced after it, a name when its folder was. [`FaultFs::after_crash`] gives the
//!   file system as a power cut could leave it: each unsafe write kept, dropped, cut or zeroed, of the unsafe changes of
//!   each folder the first few.
//! - There are no links to folders, and locks are for one thread: waiting for one that is held is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pi_sessions::storage::fs::{FileKind, FileMeta, Fs, FsFile, OpenFor};

/// What happens at a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It and all calls behind it fail, as for a process that was killed.
    Death,
    /// It fails. A write takes nothing.
    Refusal,
    /// A write takes half of its bytes, and the next one nothing: the disk is full. Other calls fail.
    ShortWrite,
    /// It fails for want of space, whatever it is.
    NoSpace,
    /// It fails because of a signal.
    Interrupted,
    /// From it on the disk is full, until it is healed: nothing is made and nothing written.
    FullFrom,
    /// From it on nothing can be changed, until it is healed. A write that meets it takes half of its bytes.
    ReadOnlyFrom,
    /// Before it, a program that takes no lock appends these bytes to this file.
    Intruder(PathBuf, Vec<u8>),
}

impl Fault {
    /// Each error, once.
    pub fn errors() -> [Self; 6] {
        [Self::Refusal, Self::ShortWrite, Self::NoSpace, Self::Interrupted, Self::FullFrom, Self::ReadOnlyFrom]
    }
}

/// What a call is to a disk that is full or cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// It reads, or locks.
    Look,
    /// It makes a file, a folder or a name.
    Make,
    /// It changes what is there and needs no space.
    Change,
    /// It writes.
    Append,
}

/// What is the matter with the whole disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Health {
    #[default]
    Well,
    Full,
    ReadOnly,
}

/// What a power cut does to an unsafe write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Dropped,
    Cut,
    Zeroed,
}

/// How a power cut decides.
#[derive(Clone, Copy, Debug)]
pub enum PowerCut {
    /// Nothing is lost, as when only the process dies.
    KeepsAll,
    /// All that is not safe is lost.
    DropsAll,
    /// All unsafe writes are zeroed, all names kept.
    ZeroesAll,
    /// All unsafe writes are cut in the middle, all names kept.
    CutsAll,
    /// Each thing has its own fate.
    Random(u64),
}

impl PowerCut {
    /// A few of each kind.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::KeepsAll, Self::DropsAll, Self::ZeroesAll, Self::CutsAll].into_iter().chain((1..5).map(Self::Random))
    }

    fn fate(&mut self) -> Fate {
        match self {
            Self::KeepsAll => Fate::Kept,
            Self::DropsAll => Fate::Dropped,
            Self::ZeroesAll => Fate::Zeroed,
            Self::CutsAll => Fate::Cut,
            Self::Random(state) => [Fate::Kept, Fate::Dropped, Fate::Cut, Fate::Zeroed][random(state) as usize % 4],
        }
    }

    /// How many of `len` changes of a folder are kept.
    fn kept(&mut self, len: usize) -> usize {
        match self {
            Self::KeepsAll | Self::ZeroesAll | Self::CutsAll => len,
            Self::DropsAll => 0,
            Self::Random(state) => random(state) as usize % (len + 1),
        }
    }
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[derive(Clone, Debug)]
enum Write {
    At(usize, Vec<u8>),
    SetLen(usize),
}

impl Write {
    fn apply(&self, data: &mut Vec<u8>) {
        match self {
            Self::At(offset, bytes) => {
                data.resize(data.len().max(offset + bytes.len()), 0);
                data[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Self::SetLen(len) => data.resize(*len, 0),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Content {
    data: Vec<u8>,
    safe: Vec<u8>,
    not_safe: Vec<Write>,
    mode: u32,
    modified: i128,
    lock: Option<u64>,
    locked_at: Option<Instant>,
}

#[derive(Clone, Debug)]
enum Change {
    Add(PathBuf, usize),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl Change {
    fn folder(&self) -> &Path {
        let path = match self {
            Self::Add(path, _) | Self::Remove(path) | Self::Rename(path, _) => path,
        };
        path.parent().unwrap_or(Path::new("/"))
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Add(path, file) => drop(names.insert(path.clone(), *file)),
            Self::Remove(path) => drop(names.remove(path)),
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    safe_names: BTreeMap<PathBuf, usize>,
    not_safe: Vec<Change>,
    folders: BTreeSet<PathBuf>,
    calls: usize,
    faults: Vec<(usize, Fault)>,
    is_dead: bool,
    is_full: bool,
    health: Health,
    time: i128,
    handles: u64,
    read_at_most: Option<usize>,
    has_no_links: bool,
    taken_away: Vec<Option<Duration>>,
}

/// The file system; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct FaultFs(Arc<Mutex<State>>);

/// What a call may do.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Go,
    Half,
}

impl State {
    /// Counts a call and lets a fault happen.
    fn call(&mut self, call: Call) -> io::Result<Verdict> {
        self.calls += 1;
        if self.is_dead {
            return Err(io::Error::other("dead"));
        }
        if call == Call::Append && std::mem::take(&mut self.is_full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match (self.health, call) {
            (Health::Full, Call::Make | Call::Append) => return Err(io::ErrorKind::StorageFull.into()),
            (Health::ReadOnly, Call::Make | Call::Append | Call::Change) => {
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            (Health::Well, _) | (Health::Full | Health::ReadOnly, Call::Look) | (Health::Full, Call::Change) => {}
        }
        let calls = self.calls;
        let Some(at) = self.faults.iter().position(|(at, _)| *at == calls) else { return Ok(Verdict::Go) };
        match (self.faults.remove(at).1, call) {
            (Fault::Death, _) => {
                self.is_dead = true;
                Err(io::Error::other("dead"))
            }
            (Fault::ShortWrite, Call::Append) => {
                self.is_full = true;
                Ok(Verdict::Half)
            }
            (Fault::Refusal, Call::Append) | (Fault::NoSpace, _) => Err(io::ErrorKind::StorageFull.into()),
            (Fault::Refusal | Fault::ShortWrite, _) => Err(io::ErrorKind::PermissionDenied.into()),
            (Fault::Interrupted, _) => Err(io::ErrorKind::Interrupted.into()),
            (Fault::FullFrom, Call::Make | Call::Append) => {
                self.health = Health::Full;
                Err(io::ErrorKind::StorageFull.into())
            }
            (Fault::FullFrom, Call::Look | Call::Change) => {
                self.health = Health::Full;
                Ok(Verdict::Go)
            }
            (Fault::ReadOnlyFrom, Call::Look) => {
                self.health = Health::ReadOnly;
                Ok(Verdict::Go)
            }
            (Fault::ReadOnlyFrom, Call::Append) => {
                self.health = Health::ReadOnly;
                Ok(Verdict::Half)
            }
            (Fault::ReadOnlyFrom, Call::Make | Call::Change) => {
                self.health = Health::ReadOnly;
                Err(io::ErrorKind::ReadOnlyFilesystem.into())
            }
            (Fault::Intruder(path, bytes), _) => {
                if let Some(file) = self.names.get(&path).copied() {
                    self.append(file, &bytes);
                }
                Ok(Verdict::Go)
            }
        }
    }

    fn append(&mut self, file: usize, bytes: &[u8]) {
        self.time += 1;
        let time = self.time;
        let content = &mut self.files[file];
        let write = Write::At(content.data.len(), bytes.to_vec());
        write.apply(&mut content.data);
        content.not_safe.push(write);
        content.modified = time;
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.not_safe.push(change);
    }

    /// A name of a file is about to go.
    fn note_taken_away(&mut self, path: &Path) {
        if let Some(file) = self.names.get(path)
            && path.extension().is_some_and(|extension| extension == "jsonl")
        {
            let content = &self.files[*file];
            self.taken_away.push(content.lock.and(content.locked_at).map(|since| since.elapsed()));
        }
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn meta(&self, file: usize) -> FileMeta {
        let content = &self.files[file];
        FileMeta {
            len: content.data.len() as u64,
            modified_ns: content.modified,
            changed_ns: content.modified,
            identity: (1, file as u64 + 1),
            mode: content.mode,
            kind: FileKind::File,
        }
    }

    fn meta_at(&self, path: &Path) -> io::Result<FileMeta> {
        if self.folders.contains(path) {
            return Ok(FileMeta { len: 0, modified_ns: 0, changed_ns: 0, identity: (2, 0), mode: 0o700, kind: FileKind::Folder });
        }
        self.find(path).map(|file| self.meta(file))
    }
}

impl FaultFs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a fault happen at the `at`-th call from now, counted from 1, besides those that were asked for before.
    pub fn fail_at(&self, at: usize, fault: Fault) {
        let mut state = self.state();
        let at = state.calls + at;
        state.faults.push((at, fault));
    }

    /// No fault from now on.
    pub fn heal(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.is_full = false;
        state.health = Health::Well;
    }

    /// How many calls there were.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Whether it died.
    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// Puts a safe file there, without a call.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        state.folders.extend(path.parent().into_iter().flat_map(Path::ancestors).map(Path::to_owned));
        state.time += 1;
        let modified = state.time;
        let file = state.files.len();
        state.files.push(Content { data: bytes.to_vec(), safe: bytes.to_vec(), mode: 0o600, modified, ..Content::default() });
        state.names.insert(path.to_owned(), file);
        state.safe_names.insert(path.to_owned(), file);
    }

    /// Takes a file away, without a call, as its owner would.
    pub fn take(&self, path: &Path) {
        let mut state = self.state();
        state.names.remove(path);
        state.safe_names.remove(path);
    }

    /// Appends to a file without a call, as a program that takes no lock.
    pub fn push(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        let file = state.names[path];
        state.append(file, bytes);
    }

    /// From now on no file gets a second name, as on FAT.
    pub fn refuse_links(&self) {
        self.state().has_no_links = true;
    }

    /// From now on a read gives at most so many bytes.
    pub fn read_at_most(&self, len: usize) {
        self.state().read_at_most = Some(len);
    }

    /// Of each session file that lost its name: for how long its lock had been held, if it was.
    pub fn taken_away(&self) -> Vec<Option<Duration>> {
        self.state().taken_away.clone()
    }

    /// The bytes of a file.
    pub fn get(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(path).map(|file| state.files[*file].data.clone())
    }

    /// All files.
    pub fn names(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    /// Every file with its bytes.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        state.names.iter().map(|(path, file)| (path.clone(), state.files[*file].data.clone())).collect()
    }

    /// The file system as a power cut leaves it now.
    pub fn after_crash(&self, mut cut: PowerCut) -> Self {
        let state = self.state();
        let mut files = Vec::new();
        for content in &state.files {
            let mut data = content.safe.clone();
            for write in &content.not_safe {
                match (cut.fate(), write) {
                    (Fate::Kept, write) => write.apply(&mut data),
                    (Fate::Dropped, _) => {}
                    (Fate::Cut, Write::At(offset, bytes)) => {
                        Write::At(*offset, bytes[..bytes.len() / 2].to_vec()).apply(&mut data);
                    }
                    (Fate::Zeroed, Write::At(offset, bytes)) => Write::At(*offset, vec![0; bytes.len()]).apply(&mut data),
                    (Fate::Cut | Fate::Zeroed, write @ Write::SetLen(_)) => write.apply(&mut data),
                }
            }
            files.push(Content {
                safe: data.clone(),
                data,
                mode: content.mode,
                modified: content.modified,
                ..Content::default()
            });
        }
        let mut names = state.safe_names.clone();
        let folders: BTreeSet<_> = state.not_safe.iter().map(|change| change.folder().to_owned()).collect();
        for folder in folders {
            let changes: Vec<_> = state.not_safe.iter().filter(|change| change.folder() == folder).collect();
            changes[..cut.kept(changes.len())].iter().for_each(|change| change.apply(&mut names));
        }
        let folders = state.folders.clone();
        let (time, has_no_links) = (state.time, state.has_no_links);
        let safe_names = names.clone();
        Self(Arc::new(Mutex::new(State { files, safe_names, names, folders, time, has_no_links, ..State::default() })))
    }
}

impl Fs for FaultFs {
    fn open(&self, path: &Path, how: OpenFor) -> io::Result<Arc<dyn FsFile>> {
        let mut state = self.state();
        let found = state.names.get(path).copied();
        let makes = found.is_none() && matches!(how, OpenFor::CreateNew | OpenFor::CreateOrOpen);
        let call = if makes { Call::Make } else { Call::Look };
        state.call(call)?;
        let file = match (how, found) {
            (OpenFor::CreateNew, Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (OpenFor::Read | OpenFor::Append | OpenFor::CreateOrOpen, Some(file)) => file,
            (OpenFor::Read | OpenFor::Append, None) => return Err(io::ErrorKind::NotFound.into()),
            (OpenFor::CreateNew | OpenFor::CreateOrOpen, None) => {
                if !path.parent().is_some_and(|folder| state.folders.contains(folder)) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                state.time += 1;
                let content = Content { mode: 0o600, modified: state.time, ..Content::default() };
                state.files.push(content);
                let file = state.files.len() - 1;
                state.change(Change::Add(path.to_owned(), file));
                file
            }
        };
        state.handles += 1;
        let can_append = how != OpenFor::Read;
        Ok(Arc::new(FaultFile { fs: self.clone(), file, handle: state.handles, can_append }))
    }

    fn metadata(&self, path: &Path) -> io::Result<FileMeta> {
        let mut state = self.state();
        state.call(Call::Look)?;
        state.meta_at(path)
    }

    fn link_metadata(&self, path: &Path) -> io::Result<FileMeta> {
        self.metadata(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<(PathBuf, FileKind)>> {
        let mut state = self.state();
        state.call(Call::Look)?;
        if !state.folders.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let is_in = |name: &&PathBuf| name.parent() == Some(path);
        let files = state.names.keys().filter(is_in).map(|name| (name.clone(), FileKind::File));
        Ok(files.chain(state.folders.iter().filter(is_in).map(|name| (name.clone(), FileKind::Folder))).collect())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let call = if state.folders.contains(path) { Call::Look } else { Call::Make };
        state.call(call)?;
        state.folders.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call(Call::Make)?;
        state.find(from)?;
        assert_eq!(from.parent(), to.parent(), "a rename is atomic, so that it belongs to one folder");
        state.note_taken_away(to);
        state.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call(Call::Make)?;
        let file = state.find(from)?;
        if state.has_no_links {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.change(Change::Add(to.to_owned(), file));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call(Call::Change)?;
        state.find(path)?;
        state.note_taken_away(path);
        state.change(Change::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call(Call::Change)?;
        let changes = std::mem::take(&mut state.not_safe);
        let (safe, not_safe): (Vec<_>, _) = changes.into_iter().partition(|change| change.folder() == path);
        safe.iter().for_each(|change| change.apply(&mut state.safe_names));
        state.not_safe = not_safe;
        Ok(())
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.metadata(path).map(|_| path.to_owned())
    }
}

#[derive(Debug)]
struct FaultFile {
    fs: FaultFs,
    file: usize,
    handle: u64,
    can_append: bool,
}

impl FsFile for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.fs.state();
        state.call(Call::Look)?;
        let data = &state.files[self.file].data;
        let rest = &data[data.len().min(offset as usize)..];
        let len = rest.len().min(buffer.len()).min(state.read_at_most.unwrap_or(usize::MAX));
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        assert!(self.can_append, "a file that is open for reading is not written");
        let mut state = self.fs.state();
        let len = if state.call(Call::Append)? == Verdict::Half { bytes.len() / 2 } else { bytes.len() };
        state.append(self.file, &bytes[..len]);
        Ok(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.fs.state();
        state.call(Call::Change)?;
        let content = &mut state.files[self.file];
        content.safe.clone_from(&content.data);
        content.not_safe.clear();
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.fs.state();
        state.call(Call::Change)?;
        state.time += 1;
        let time = state.time;
        let content = &mut state.files[self.file];
        let write = Write::SetLen(len as usize);
        write.apply(&mut content.data);
        content.not_safe.push(write);
        content.modified = time;
        Ok(())
    }

    fn metadata(&self) -> io::Result<FileMeta> {
        let mut state = self.fs.state();
        state.call(Call::Look)?;
        Ok(state.meta(self.file))
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let mut state = self.fs.state();
        state.call(Call::Change)?;
        state.files[self.file].mode = mode;
        Ok(())
    }

    fn lock(&self) -> io::Result<()> {
        match self.try_lock() {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::ErrorKind::Deadlock.into()),
            Err(error) => Err(error),
        }
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.fs.state();
        state.call(Call::Look)?;
        let lock = &mut state.files[self.file].lock;
        let is_free = lock.is_none_or(|holder| holder == self.handle);
        if is_free {
            *lock = Some(self.handle);
            state.files[self.file].locked_at = Some(Instant::now());
        }
        Ok(is_free)
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        let mut state = self.fs.state();
        state.call(Call::Look)?;
        Ok(state.files[self.file].lock.is_none_or(|holder| holder == self.handle))
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.fs.state();
        state.files[self.file].lock.take_if(|holder| *holder == self.handle);
        Ok(())
    }
}

impl Drop for FaultFile {
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}
