//! Sessions for the tests of this layer: in memory or in a file, with a clock that stands and ids that count.
//!
//! # Invariants
//! - The n-th new entry has the id `n` in 8 hex digits; it is the second 7 of 1970.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::session::entry::Header;
use crate::storage::fs::{Fs as _, OpenFor, StdFs};
use crate::storage::handle::Session;
use crate::storage::jsonl::JsonlStorage;
use crate::storage::memory::MemoryStorage;
use crate::storage::{Clock, IdSource, SessionStorage};

/// Stands.
#[derive(Debug)]
pub struct FixedClock;

impl Clock for FixedClock {
    fn now_ms(&self) -> i64 {
        7000
    }
}

/// Counts from 1.
#[derive(Debug, Default)]
pub struct CountingIds(AtomicU32);

impl IdSource for CountingIds {
    fn entry_bits(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn session_id(&self) -> String {
        format!("session-{}", self.entry_bits())
    }
}

/// A session over a storage.
pub fn session(storage: impl SessionStorage + 'static) -> Session {
    Session::new(Box::new(storage), Arc::new(FixedClock), Arc::new(CountingIds::default()))
}

/// An empty session in memory.
pub fn memory_session() -> Session {
    session(MemoryStorage::new(Header { version: 3, id: "s".into(), cwd: "/w".into(), ..Header::default() }))
}

/// A file with these bytes in a folder of its own, which lives as long as the guard.
pub fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    let file = StdFs.open(&path, OpenFor::CreateNew).expect("a new file");
    let mut rest = bytes;
    while !rest.is_empty() {
        rest = &rest[file.append(rest).expect("room")..];
    }
    (folder, path)
}

/// Opens a session file.
pub fn open(path: &Path) -> JsonlStorage {
    JsonlStorage::open(Arc::new(StdFs), path).unwrap_or_else(|error| panic!("{error}"))
}
