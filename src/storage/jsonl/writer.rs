//! Appends batches of entries to a session file.
//!
//! ```text
//! lock the file -> is it still the file at the path? -> read what others appended -> make the entries
//!   -> one write of whole lines -> sync -> into the tree -> unlock
//! ```
//!
//! # Cost
//! An append of one entry to an open session makes six calls:
//! ```text
//! lock             two programs must not look and write at the same time
//! stat the path    whether it is the open file still, and as long as it was; which file is open cannot change. Not its
//!                  times: who asks Linux for those makes the next write dearer
//! read 65 bytes    whether it is still the same bytes, and no more: times are too coarse to tell a change right after our
//!                  own write
//! write
//! seek             where the write landed, should a program without a lock have written before it
//! unlock
//! ```
//! New ids and the time of day need no call. In a burst of appends the path, which costs most of these, is not looked at
//! each time (see [`Burst`]).
//!
//! # Invariants
//! - Bytes before the known end are never changed. If the file does not end with a newline, one comes first.
//! - An entry enters the tree only after its line is written, and synced where that was asked for.
//! - A write that stores a part is taken back, unless somebody wrote behind it; then a newline closes it.
//! - A file that is gone is written again, but not when the session was moved: it would be there twice.
//! - After a failed sync nothing more is written (see [`StorageError::Poisoned`]).
//!
//! # Crash
//! A crash leaves a prefix of the batch: whole lines and at most one torn one, which the next append closes with a
//! newline and `recovery` reports. Entries before are untouched.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::session::entry::{Entry, FORMAT_VERSION, SessionId};
use crate::session::tree::EntryIndex;
use crate::storage::fs::{FileKind, Fs, FsFile, OpenFor};
use crate::storage::jsonl::reader::{Source, Tail};
use crate::storage::jsonl::{ANCHOR_BYTES, JsonlStorage, codec, migrate, rewrite};
use crate::storage::repo::file_name;
use crate::storage::{Durability, Prepare, StorageError};

/// How often a file that changes under the hands is looked at again.
const MAX_ATTEMPTS: usize = 16;

/// How long a look at the path holds, in a burst of appends.
const LOOK_HOLDS: Duration = Duration::from_millis(1);

/// How many appends within [`LOOK_HOLDS`] are no burst yet.
const APPENDS_WITH_A_LOOK: u32 = 8;

/// Where the system has no inodes: every file has this one.
const NO_IDENTITY: (u64, u64) = (0, 0);

/// What the file at the path is, compared with the one that is open.
enum Standing {
    /// The same, perhaps longer, and read to its end.
    Current,
    /// Another file took its place and was read; a lock is on the old one.
    Reopened,
    /// There is none.
    Missing,
}

/// A burst of appends: in it a look at the path holds for a moment.
///
/// - Programs of ours that take a file away from its path hold its lock, and wait in it until each look from before has
///   ended (see [`FileLock::outwait_looks`]). So whoever has the lock, and a look that holds, has the file of the path.
/// - A program that takes no lock may take the file away within that moment. What is appended then goes where it would
///   have gone just before.
#[derive(Debug, Default)]
pub(super) struct Burst {
    /// When the first append of this moment looked at the path. The last look is not older.
    first_look: Option<Instant>,
    looks: u32,
}

impl Burst {
    /// Whether the last look holds still at this time, which is one under the lock.
    fn look_holds(&self, now: Instant) -> bool {
        self.looks >= APPENDS_WITH_A_LOOK && self.is_of_this_moment(now)
    }

    /// Notes that the open file was found at the path by a look that began at this time, under the lock.
    fn looked(&mut self, now: Instant) {
        if !self.is_of_this_moment(now) {
            *self = Self { first_look: Some(now), looks: 0 };
        }
        self.looks += 1;
    }

    fn is_of_this_moment(&self, now: Instant) -> bool {
        self.first_look.is_some_and(|first| now.duration_since(first) < LOOK_HOLDS)
    }
}

impl JsonlStorage {
    pub(super) fn append_batch(
        &mut self,
        prepare: &mut Prepare<'_>,
        durability: Durability,
    ) -> Result<Vec<EntryIndex>, StorageError> {
        if self.poisoned {
            return Err(StorageError::Poisoned(self.path.clone()));
        }
        if self.index.header.version > FORMAT_VERSION {
            return Err(StorageError::UnsupportedVersion { version: self.index.header.version, path: self.path.clone() });
        }
        for _ in 0..MAX_ATTEMPTS {
            self.open_for_append()?;
            let file = self.file.clone();
            let lock = FileLock::take(file.clone(), &self.path)?;
            let now = Instant::now();
            if !(lock.is_held && self.burst.look_holds(now) && self.is_unchanged()?) {
                match self.standing()? {
                    Standing::Current => self.burst.looked(now),
                    Standing::Reopened => continue,
                    Standing::Missing => {
                        self.write_again()?;
                        continue;
                    }
                }
            }
            if matches!(self.index.source, Source::Migrated(_)) {
                match self.upgrade(&lock) {
                    // It grew while it was copied.
                    Ok(()) | Err(StorageError::Replaced(_)) => continue,
                    Err(error) => return Err(error),
                }
            }
            let entries = prepare(&*self)?;
            return self.write_batch(&*file, &entries, durability);
        }
        Err(StorageError::Replaced(self.path.clone()))
    }

    /// Reads what others appended before the lock was taken, for who is about to take the file away from its path.
    pub(super) fn catch_up_with_lock(&mut self, _lock: &FileLock) -> Result<(), StorageError> {
        match self.standing()? {
            Standing::Current => Ok(()),
            Standing::Reopened | Standing::Missing => Err(StorageError::Replaced(self.path.clone())),
        }
    }

    /// Reads what others appended, without a lock and without writing.
    pub(super) fn catch_up(&mut self) -> Result<(), StorageError> {
        // When the file is gone what was read stays readable, and the next append writes it again.
        self.standing().map(drop)
    }

    fn open_for_append(&mut self) -> Result<(), StorageError> {
        if self.appendable {
            return Ok(());
        }
        match self.fs.open(&self.path, OpenFor::Append) {
            Ok(file) => {
                if identity(&*file) != self.identity {
                    self.adopt(file)?;
                } else {
                    self.file = file;
                }
                self.appendable = true;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write_again(),
            Err(error) => Err(StorageError::io("append to", &self.path, error)),
        }
    }

    /// Whether the open file ends where it did, with the same bytes.
    fn is_unchanged(&self) -> Result<bool, StorageError> {
        let len = self.anchor.len;
        let mut bytes = [0; ANCHOR_BYTES + 1];
        // One byte more would be there if it had grown.
        let read = self.file.read_at(&mut bytes[..=len], self.index.len - len as u64);
        let read = read.map_err(|source| StorageError::io("read", &self.path, source))?;
        Ok(read == len && bytes[..len] == self.anchor.bytes[..len])
    }

    /// Compares the file at the path with the open one and reads what is new.
    fn standing(&mut self) -> Result<Standing, StorageError> {
        let at_path = match self.fs.metadata_without_times(&self.path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Standing::Missing),
            Err(error) => return Err(StorageError::io("read", &self.path, error)),
        };
        if Some(at_path.identity) != self.identity {
            if at_path.kind != FileKind::File {
                return Err(StorageError::Replaced(self.path.clone()));
            }
            let how = if self.appendable { OpenFor::Append } else { OpenFor::Read };
            let file = self.fs.open(&self.path, how).map_err(|source| StorageError::io("open", &self.path, source))?;
            self.adopt(file)?;
            return Ok(Standing::Reopened);
        }
        // It is the open file that is at the path, so its length is known by now.
        let len = match at_path.identity {
            NO_IDENTITY => self.file.metadata().map_err(|source| StorageError::io("read", &self.path, source))?.len,
            _ => at_path.len,
        };
        let known_len = self.index.len;
        if len >= known_len && self.read_anchor()? == self.anchor && self.index.extend(&*self.file, &self.path, len)? {
            // Where nothing came, it was compared a moment ago.
            if len > known_len {
                self.anchor = self.read_anchor()?;
            }
        } else {
            self.adopt(self.file.clone())?;
        }
        Ok(Standing::Current)
    }

    /// Reads `file` in place of the open one, if it is this session.
    fn adopt(&mut self, file: Arc<dyn FsFile>) -> Result<(), StorageError> {
        let other = Self::of_file(self.fs.clone(), &self.path, file, self.appendable).map_err(|error| match error {
            StorageError::NotASession(path) | StorageError::EmptyFile(path) => StorageError::Replaced(path),
            other => other,
        })?;
        if other.index.header.id != self.index.header.id {
            return Err(StorageError::Replaced(self.path.clone()));
        }
        *self = Self { poisoned: self.poisoned, root: self.root.take(), ..other };
        Ok(())
    }

    /// The file is gone: writes the whole session again under its name, never over a file.
    fn write_again(&mut self) -> Result<(), StorageError> {
        if let Some(to) = self.moved_to() {
            return Err(StorageError::Moved { path: self.path.clone(), to });
        }
        // What others appended to the file before it went is in the open one still.
        let len = self.file.metadata().map_err(|source| StorageError::io("read", &self.path, source))?.len;
        if !self.index.extend(&*self.file, &self.path, len)? {
            self.adopt(self.file.clone())?;
        }
        let result =
            rewrite::create_file(&*self.fs, &self.path, &mut |file| self.copy_all(&mut |bytes| rewrite::write_all(file, bytes)));
        match result {
            // Somebody was faster; it is compared with this session at the next look.
            Ok(()) | Err(StorageError::Exists(_)) => {}
            Err(error) => return Err(error),
        }
        let file = self.fs.open(&self.path, OpenFor::Append);
        let file = file.map_err(|source| StorageError::io("append to", &self.path, source))?;
        self.adopt(file)?;
        self.appendable = true;
        Ok(())
    }

    /// Where the session went when it was moved to the folder of another cwd: such folders lie side by side, or in the root
    /// that it was opened for. The file keeps its name if that is one of ours.
    fn moved_to(&self) -> Option<PathBuf> {
        let folder = rewrite::folder_of(&self.path);
        let header = &self.index.header;
        let given = SessionId::new(header.id.clone()).ok().map(|id| file_name(&header.timestamp, &id));
        let names: Vec<PathBuf> = self.path.file_name().map(PathBuf::from).into_iter().chain(given.map(PathBuf::from)).collect();
        let is_it = |path: &PathBuf| {
            self.fs.metadata(path).is_ok_and(|meta| meta.kind == FileKind::File)
                && Self::read_header(&*self.fs, path).is_ok_and(|other| other.id == header.id)
        };
        let around = folder.parent().into_iter().chain(self.root.as_deref());
        around
            .flat_map(|around| {
                let below = self.fs.read_dir(around).unwrap_or_default().into_iter();
                let below = below.filter(|(_, kind)| matches!(kind, FileKind::Folder | FileKind::Link)).map(|(path, _)| path);
                below.chain([around.to_owned()])
            })
            .filter(|other| other != folder)
            .flat_map(|other| names.iter().map(move |name| other.join(name)))
            .find(is_it)
    }

    /// Rewrites a version 1 or 2 file as version 3; the old bytes stay in a backup.
    fn upgrade(&mut self, lock: &FileLock) -> Result<(), StorageError> {
        let Source::Migrated(lines) = &self.index.source else { return Ok(()) };
        let header = migrate::upgraded_header(&self.index.header_line);
        rewrite::replace_file(&*self.fs, &self.path, lock, self.index.len, &mut |file| {
            rewrite::write_all(file, &header)?;
            rewrite::write_all(file, lines)
        })?;
        let file = self.fs.open(&self.path, OpenFor::Append);
        self.adopt(file.map_err(|source| StorageError::io("append to", &self.path, source))?)
    }

    fn write_batch(
        &mut self,
        file: &dyn FsFile,
        entries: &[Entry],
        durability: Durability,
    ) -> Result<Vec<EntryIndex>, StorageError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let newline_first = self.index.tail != Tail::Newline;
        let mut batch = Vec::with_capacity(1024);
        batch.extend(newline_first.then_some(b'\n'));
        entries.iter().for_each(|entry| codec::encode_entry_behind(&mut batch, entry));

        let old_len = self.index.len;
        append_or_roll_back(file, &batch, old_len)
            .map_err(|source| StorageError::WriteFailed { path: self.path.clone(), source })?;
        if durability == Durability::Synced
            && let Err(source) = file.sync_data()
        {
            return Err(self.unsure(source));
        }

        let end = file.appended_end().map_err(|source| self.unsure(source))?;
        if end == old_len + batch.len() as u64 {
            if newline_first {
                self.index.add_newline();
            }
            let mut lines = &batch[usize::from(newline_first)..];
            let mut places = Vec::with_capacity(entries.len());
            for entry in entries {
                let line_end = memchr::memchr(b'\n', lines).map_or(lines.len(), |newline| newline + 1);
                places.extend(self.index.add_written(entry, &lines[..line_end])?);
                lines = &lines[line_end..];
            }
            self.anchor = self.anchor.behind(&batch);
            if places.len() == entries.len() {
                return Ok(places);
            }
        } else {
            // A program that takes no lock wrote between our look and our write.
            self.standing().map_err(|error| self.unsure(io::Error::other(error)))?;
        }
        let find =
            |entry: &Entry| self.index.tree.find(entry.id.as_str()).ok_or_else(|| StorageError::Replaced(self.path.clone()));
        entries.iter().map(find).collect()
    }

    /// The write was made and what became of it cannot be told: nothing more is written until the file is opened again.
    fn unsure(&mut self, source: io::Error) -> StorageError {
        self.poisoned = true;
        StorageError::SyncFailed { path: self.path.clone(), source }
    }
}

pub(super) fn identity(file: &dyn FsFile) -> Option<(u64, u64)> {
    file.metadata().ok().map(|meta| meta.identity)
}

/// Writes all of `bytes` at the end of a file of `old_len` bytes, or nothing.
pub(super) fn append_or_roll_back(file: &dyn FsFile, bytes: &[u8], old_len: u64) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        // One write takes all of it, but for a full disk or a size limit: then the second one tells the reason.
        match file.append(&bytes[written..]) {
            Ok(0) => return Err(roll_back(file, old_len, written, io::ErrorKind::WriteZero.into())),
            Ok(len) => written += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(roll_back(file, old_len, written, error)),
        }
    }
    Ok(())
}

/// Takes a part of a write back; where somebody wrote behind it, a newline keeps it from fusing with what comes.
fn roll_back(file: &dyn FsFile, old_len: u64, written: usize, error: io::Error) -> io::Error {
    if written > 0 {
        let ends_with_ours = file.metadata().is_ok_and(|meta| meta.len == old_len + written as u64);
        if !(ends_with_ours && file.set_len(old_len).is_ok()) {
            // Nothing better can be done; the reader tells the torn line.
            let _ = file.append(b"\n");
        }
    }
    error
}

/// The lock of a file, freed when this is dropped.
pub(crate) struct FileLock {
    pub(super) file: Arc<dyn FsFile>,
    /// Some network file systems have no locks.
    is_held: bool,
}

impl FileLock {
    pub(crate) fn take(file: Arc<dyn FsFile>, path: &Path) -> Result<Self, StorageError> {
        loop {
            match file.lock() {
                Ok(()) => return Ok(Self { file, is_held: true }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // There appends are as safe as `O_APPEND` makes them.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(Self { file, is_held: false }),
                Err(error) => return Err(StorageError::io("lock", path, error)),
            }
        }
    }

    /// Waits until no look at the path holds that another program made before this lock was taken (see [`Burst`]). Who
    /// takes the file away from its path calls this before.
    pub(crate) fn outwait_looks(&self) {
        let start = Instant::now();
        while let Some(left) = LOOK_HOLDS.checked_sub(start.elapsed()) {
            std::thread::park_timeout(left);
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // The system frees it at the latest when the file is closed.
        let _ = self.file.unlock();
    }
}

/// Writes entries that could not be appended to a file beside the session, `NAME.unsaved.jsonl`, and returns its path.
/// An older file of that name is appended to.
///
/// # Errors
/// When that cannot be written either.
pub fn write_unsaved(fs: &dyn Fs, session_path: &Path, entries: &[Entry]) -> Result<PathBuf, StorageError> {
    let path = session_path.with_extension("unsaved.jsonl");
    let io = |source| StorageError::io("write", &path, source);
    let file = fs.open(&path, OpenFor::CreateOrOpen).map_err(io)?;
    let bytes: Vec<u8> = entries.iter().flat_map(codec::encode_entry).collect();
    let len = file.metadata().map_err(io)?.len;
    let written = append_or_roll_back(&*file, &bytes, len).and_then(|()| file.sync_data());
    written.map_err(|source| {
        if len == 0 {
            // Nothing is in it.
            let _ = fs.remove_file(&path);
        }
        io(source)
    })?;
    Ok(path)
}

/// As [`write_unsaved`], to a new private file in another folder, such as that for temporary files: others may write
/// there, so no file that is there is touched.
///
/// # Errors
/// When that cannot be written either; then there is no such file.
pub fn write_unsaved_in(fs: &dyn Fs, folder: &Path, session_path: &Path, entries: &[Entry]) -> Result<PathBuf, StorageError> {
    let name = session_path.file_stem().unwrap_or_default().to_string_lossy();
    let bytes: Vec<u8> = entries.iter().flat_map(codec::encode_entry).collect();
    for number in 0..1_000 {
        let end = if number == 0 { String::new() } else { format!(".{number}") };
        let path = folder.join(format!("{name}{end}.unsaved.jsonl"));
        let file = match fs.open(&path, OpenFor::CreateNew) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(source) => return Err(StorageError::io("write", &path, source)),
        };
        return match append_or_roll_back(&*file, &bytes, 0).and_then(|()| file.sync_data()) {
            Ok(()) => Ok(path),
            Err(source) => {
                let _ = fs.remove_file(&path);
                Err(StorageError::io("write", &path, source))
            }
        };
    }
    Err(StorageError::Exists(folder.join(format!("{name}.unsaved.jsonl"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_holds_only_in_a_burst_and_only_for_a_moment() {
        let start = Instant::now();
        let mut burst = Burst::default();
        for number in 0..APPENDS_WITH_A_LOOK {
            assert!(!burst.look_holds(start), "{number}");
            burst.looked(start);
        }
        assert!(burst.look_holds(start));
        assert!(burst.look_holds(start + LOOK_HOLDS - Duration::from_nanos(1)));
        assert!(!burst.look_holds(start + LOOK_HOLDS));
        burst.looked(start + LOOK_HOLDS);
        assert!(!burst.look_holds(start + LOOK_HOLDS), "a new moment begins with looks");
    }

    #[test]
    fn many_looks_do_not_make_the_first_one_younger() {
        let start = Instant::now();
        let half = LOOK_HOLDS / 2;
        let mut burst = Burst::default();
        burst.looked(start);
        (0..APPENDS_WITH_A_LOOK).for_each(|_| burst.looked(start + half));
        assert!(burst.look_holds(start + half));
        assert!(!burst.look_holds(start + LOOK_HOLDS));
    }
}
