//! The embedded store of what can be had again from session files: one SQLite file for each root and purpose.
//!
//! # Invariants
//! - A store can be deleted at any moment. One that is damaged, or of another version, is emptied and filled anew; one
//!   that cannot be used is done without. Neither is an error of what was asked.
//! - Several processes may use a store at once. Nobody waits long for another: who finds it busy does without.
//! - The file is private from the moment it exists: it holds words of sessions.
//!
//! # Crash
//! Changes go through a write-ahead log whose frames carry checksums, so a crash leaves the state before or after a
//! transaction.
//!
//! # Why SQLite
//! A damaged file gives an error, where stores in Rust were seen to panic; processes share it; and its full-text index is
//! kept up to date in place.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::session::hash::fnv1a;
use crate::storage::fs::{Fs, OpenFor};

/// How long a writer waits for another.
const WAIT: Duration = Duration::from_millis(250);

/// What a store holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreFormat {
    /// What its file is called.
    pub name: &'static str,
    /// Goes up when the tables or what is in them changes.
    pub version: i32,
    /// Makes the tables.
    pub tables: &'static str,
}

/// Why a store was of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// What is in it is wrong; it has to be emptied.
    Damaged,
    /// It is busy, or cannot be read or written.
    Unavailable,
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::ReadOnly
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::OutOfMemory
                | ErrorCode::FileLockingProtocolFailed,
            ) => Self::Unavailable,
            _ => Self::Damaged,
        }
    }
}

/// An open store.
#[derive(Debug)]
pub(super) struct Store {
    pub connection: Connection,
    format: StoreFormat,
}

impl Store {
    /// Opens the store of a root in a cache folder, empty if there was none that can be used.
    pub fn open(fs: &dyn Fs, folder: &Path, root: &Path, format: StoreFormat) -> Result<Self, Unusable> {
        let path = file_of(folder, root, format.name, "sqlite");
        if fs.metadata(&path).is_err() {
            fs.create_dir_all(folder).map_err(|_| Unusable::Unavailable)?;
            // Made here to be private. Who made it first is welcome.
            drop(fs.open(&path, OpenFor::CreateNew));
        }
        let mut store = Self::connect(&path, format)?;
        match store.prepare() {
            Ok(()) => return Ok(store),
            Err(Unusable::Unavailable) => return Err(Unusable::Unavailable),
            Err(Unusable::Damaged) => {}
        }
        if store.reset().is_ok() {
            return Ok(store);
        }
        // Not even SQLite's own way to empty a file worked on it.
        drop(store);
        for companion in ["", "-wal", "-shm", "-journal"] {
            let mut name = path.clone().into_os_string();
            name.push(companion);
            drop(fs.remove_file(&PathBuf::from(name)));
        }
        drop(fs.open(&path, OpenFor::CreateNew));
        let mut store = Self::connect(&path, format)?;
        store.prepare()?;
        Ok(store)
    }

    fn connect(path: &Path, format: StoreFormat) -> Result<Self, Unusable> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(WAIT)?;
        Ok(Self { connection, format })
    }

    /// Makes the tables where the file is empty or of another version.
    fn prepare(&mut self) -> Result<(), Unusable> {
        let version: i32 = self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        self.connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;")?;
        if version == self.format.version {
            return Ok(());
        }
        if version != 0 {
            return Err(Unusable::Damaged);
        }
        self.connection.execute_batch("PRAGMA page_size = 16384")?;
        self.connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been first.
        let version: i32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version == 0 {
            transaction.execute_batch(self.format.tables)?;
            transaction.pragma_update(None, "user_version", self.format.version)?;
        }
        Ok(transaction.commit()?)
    }

    /// Empties the store, whatever is in its file.
    pub fn reset(&mut self) -> Result<(), Unusable> {
        self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
        let emptied = self.connection.execute_batch("VACUUM");
        self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
        emptied?;
        self.prepare()
    }
}

/// The file of a root and purpose in a cache folder.
pub(super) fn file_of(folder: &Path, root: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join(format!("{name}-{:016x}.{ending}", fnv1a(root.as_os_str().as_encoded_bytes().iter().copied())))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::storage::fs::StdFs;

    #[test]
    fn what_was_written_stays_when_several_make_a_store_at_once() {
        const FORMAT: StoreFormat = StoreFormat { name: "t", version: 1, tables: "CREATE TABLE t (number INTEGER);" };
        for round in 0..20 {
            let folder = tempfile::tempdir().expect("a folder");
            let open = || Store::open(&StdFs, folder.path(), Path::new("/root"), FORMAT);
            let barrier = Barrier::new(4);
            let write = || {
                barrier.wait();
                // Who finds it busy does without.
                let store = open().ok()?;
                store.connection.execute("INSERT INTO t VALUES (1)", []).ok()
            };
            let written: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
                threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).sum()
            });
            let store = open().expect("nobody else has it");
            let rows: i64 = store.connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("a number");
            assert_eq!((rows, written > 0), (written as i64, true), "{round}");
        }
    }
}
