//! A file system that counts what is read from session files and writes down its calls, and a clock for which all files
//! are old.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pi_sessions::storage::fs::{FileKind, FileMeta, Fs, FsFile, OpenFor, StdFs};
use pi_sessions::storage::repo::{Layout, Repo};
use pi_sessions::storage::{Clock, RandomIds, SystemClock};

/// Bytes read, by path.
type Counts = Arc<Mutex<BTreeMap<PathBuf, u64>>>;

/// The calls that appends make, in order, and how many bytes were asked for.
type Calls = Arc<Mutex<Vec<(&'static str, usize)>>>;

/// A file that is not opened, and why.
type Refused = Arc<Mutex<Option<(PathBuf, io::ErrorKind)>>>;

#[derive(Clone, Debug, Default)]
pub struct CountingFs(Counts, Calls, Refused);

#[derive(Debug)]
struct CountingFile {
    inner: Arc<dyn FsFile>,
    path: PathBuf,
    counts: Counts,
    calls: Calls,
}

impl CountingFile {
    fn call(&self, name: &'static str, bytes: usize) {
        self.calls.lock().expect("no test panics while it counts").push((name, bytes));
    }
}

impl CountingFs {
    /// The calls since the last call of this.
    pub fn take_calls(&self) -> Vec<(&'static str, usize)> {
        std::mem::take(&mut *self.1.lock().expect("no test panics while it counts"))
    }

    /// Opens this file no more, or all of them again.
    pub fn refuse(&self, file: Option<(&Path, io::ErrorKind)>) {
        *self.2.lock().expect("no test panics while it counts") = file.map(|(path, kind)| (path.to_owned(), kind));
    }

    /// What was read since the last call.
    pub fn take(&self) -> BTreeMap<PathBuf, u64> {
        std::mem::take(&mut *self.0.lock().expect("no test panics while it counts"))
    }
}

impl Fs for CountingFs {
    fn open(&self, path: &Path, how: OpenFor) -> io::Result<Arc<dyn FsFile>> {
        let refused = self.2.lock().expect("no test panics while it counts").clone();
        if let Some((_, kind)) = refused.filter(|(refused, _)| refused == path) {
            return Err(kind.into());
        }
        Ok(Arc::new(CountingFile {
            inner: StdFs.open(path, how)?,
            path: path.to_owned(),
            counts: self.0.clone(),
            calls: self.1.clone(),
        }))
    }
    fn metadata(&self, path: &Path) -> io::Result<FileMeta> {
        self.1.lock().expect("no test panics while it counts").push(("stat", 0));
        StdFs.metadata(path)
    }
    fn link_metadata(&self, path: &Path) -> io::Result<FileMeta> {
        StdFs.link_metadata(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<(PathBuf, FileKind)>> {
        StdFs.read_dir(path)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        StdFs.create_dir_all(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        StdFs.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        StdFs.hard_link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        StdFs.remove_file(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.1.lock().expect("no test panics while it counts").push(("sync folder", 0));
        StdFs.sync_dir(path)
    }
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        StdFs.canonicalize(path)
    }
}

impl FsFile for CountingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call("read", buffer.len());
        let len = self.inner.read_at(buffer, offset)?;
        *self.counts.lock().expect("no test panics while it counts").entry(self.path.clone()).or_default() += len as u64;
        Ok(len)
    }
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.call("write", bytes.len());
        self.inner.append(bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.call("sync", 0);
        self.inner.sync_data()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn metadata(&self) -> io::Result<FileMeta> {
        self.call("fstat", 0);
        self.inner.metadata()
    }
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.inner.set_mode(mode)
    }
    fn lock(&self) -> io::Result<()> {
        self.call("lock", 0);
        self.inner.lock()
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        self.inner.try_lock_shared()
    }
    fn unlock(&self) -> io::Result<()> {
        self.call("unlock", 0);
        self.inner.unlock()
    }
}

/// A clock that is ahead, so that no file was changed just now.
#[derive(Debug)]
struct LaterClock;

impl Clock for LaterClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + 3_600_000
    }
}

/// A root whose files are old.
pub fn settled_repo(fs: Arc<dyn Fs>, root: &Path) -> Repo {
    Repo::new(fs, Arc::new(LaterClock), Arc::new(RandomIds), root.to_owned(), Layout::Nested)
}
