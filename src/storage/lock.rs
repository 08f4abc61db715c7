//! Who holds a session: the mark of a long-lived owner, such as a chat.
//!
//! The mark is an advisory lock on a file of its own beside the session, `.NAME.lock`, which says who holds it. Appends
//! do not ask for it: they lock the session's file for the moment of a write.
//!
//! # Invariants
//! - Whoever has the lock of the file at the path is the owner, whatever the file says.
//! - The file is removed while its lock is held, and who gets a lock checks that the file is still at the path. So two
//!   owners never exist.
//! - An owner's lock is exclusive. Who only looks takes a shared one for a moment, so a look is never mistaken for an
//!   owner.
//!
//! # Crash
//! The system frees the lock of a dead owner; the file that stays is taken over by the next one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crate::storage::StorageError;
use crate::storage::fs::{Fs, FsFile, OpenFor, open_regular, read_exact_at};

/// The longest mark that is read.
const MAX_MARK_BYTES: u64 = 4096;

/// How often an owner-to-be tries again because of those who look, each of whom is done after two calls.
const MAX_TRIES: usize = 10_000;

/// The lock of a session's owner. Dropping it gives the session free.
#[derive(Debug)]
pub struct OwnerLock {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    file: Arc<dyn FsFile>,
}

impl OwnerLock {
    /// Takes the ownership of the session at `session`. `mark` is what others are told: who, where, since when.
    ///
    /// # Errors
    /// [`StorageError::Busy`] with the owner's mark when there is one, and what the system says.
    pub fn take(fs: &Arc<dyn Fs>, session: &Path, mark: &str) -> Result<Self, StorageError> {
        let path = lock_path(session);
        let io = |source| StorageError::io("lock", &path, source);
        let mut tries = 0;
        loop {
            let file = open_regular(&**fs, &path, OpenFor::CreateOrOpen).map_err(io)?;
            if !file.try_lock().map_err(io)? {
                // A shared lock beside the one that was in the way shows that nobody owns the session.
                if tries < MAX_TRIES && file.try_lock_shared().map_err(io)? {
                    drop(file);
                    tries += 1;
                    thread::yield_now();
                    continue;
                }
                return Err(StorageError::Busy { owner: read_mark(&*file), path: session.to_owned() });
            }
            let here = fs.metadata(&path).map(|meta| meta.identity).ok();
            if here != Some(file.metadata().map_err(io)?.identity) {
                // The last owner removed the file between our two steps.
                continue;
            }
            file.set_len(0).map_err(io)?;
            // The mark is a courtesy: without it others still see that somebody holds the session.
            let _ = file.append(mark.as_bytes());
            return Ok(Self { fs: fs.clone(), path, file });
        }
    }

    /// Who holds the session, if anybody does.
    ///
    /// # Errors
    /// What the system says.
    pub fn owner(fs: &dyn Fs, session: &Path) -> Result<Option<String>, StorageError> {
        let path = lock_path(session);
        let io = |source| StorageError::io("lock", &path, source);
        let file = match open_regular(fs, &path, OpenFor::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        if file.try_lock_shared().map_err(io)? {
            file.unlock().map_err(io)?;
            return Ok(None);
        }
        Ok(Some(read_mark(&*file)))
    }

    /// Refuses a session that somebody holds.
    ///
    /// # Errors
    /// [`StorageError::Busy`] with the owner's mark when there is one, and what the system says.
    pub fn refuse(fs: &dyn Fs, session: &Path) -> Result<(), StorageError> {
        match Self::owner(fs, session)? {
            Some(owner) => Err(StorageError::Busy { owner, path: session.to_owned() }),
            None => Ok(()),
        }
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        let _ = self.fs.remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// The file that the owner of a session locks.
pub fn lock_path(session: &Path) -> PathBuf {
    let name = session.file_name().unwrap_or_default().to_string_lossy().into_owned();
    session.with_file_name(format!(".{name}.lock"))
}

fn read_mark(file: &dyn FsFile) -> String {
    let read = || -> io::Result<String> {
        let len = file.metadata()?.len.min(MAX_MARK_BYTES);
        let mut mark = vec![0; len as usize];
        read_exact_at(file, &mut mark, 0)?;
        Ok(String::from_utf8_lossy(&mark).into_owned())
    };
    match read() {
        Ok(mark) if !mark.trim().is_empty() => mark,
        Ok(_) | Err(_) => "another process".to_owned(),
    }
}
