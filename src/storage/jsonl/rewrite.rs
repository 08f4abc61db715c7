//! Whole files: new ones, and new ones in the place of old ones.
//!
//! # Invariants
//! - A file under its own name is whole: it is written under a temporary name, synced, and only then gets its name.
//! - No file is written over: a new name must be free, and what a rewrite replaces stays beside it as `.bak`, `.bak.1`
//!   and so on. A backup is never overwritten.
//! - The temporary name begins with a dot and ends with `.tmp`, so it is never listed. Its writer holds a lock on it;
//!   one that nobody holds was left by a crash and is removed.
//!
//! # Crash
//! A crash leaves a temporary file, or a file that has both names. The original is whole until the rename.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::StorageError;
use crate::storage::fs::{FileKind, FileMeta, Fs, FsFile, OpenFor};
use crate::storage::jsonl::FileLock;

/// What writes the content of a new file.
pub type Fill<'a> = dyn FnMut(&dyn FsFile) -> Result<(), StorageError> + 'a;

/// Writes all of `bytes` at the end of a file that nobody else writes.
///
/// # Errors
/// What the system says, as [`StorageError::WriteFailed`] without a path of its own.
pub(crate) fn write_all(file: &dyn FsFile, mut bytes: &[u8]) -> Result<(), StorageError> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(write_failed(io::ErrorKind::WriteZero.into())),
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(write_failed(error)),
        }
    }
    Ok(())
}

fn write_failed(source: io::Error) -> StorageError {
    StorageError::WriteFailed { path: PathBuf::new(), source }
}

/// Gives the error of a `Fill` the path that it could not write.
fn with_path(error: StorageError, path: &Path) -> StorageError {
    match error {
        StorageError::WriteFailed { path: empty, source } if empty.as_os_str().is_empty() => {
            StorageError::Io { doing: "write", path: path.to_owned(), source }
        }
        other => other,
    }
}

/// Creates a private file with the content that `fill` writes, durable and under its name when this returns. Creates the
/// folder if there is none. A 0-byte file of that name is replaced.
///
/// # Errors
/// [`StorageError::Exists`] when a file of that name has bytes; what the system or `fill` says. Then the file does not
/// exist.
pub fn create_file(fs: &dyn Fs, path: &Path, fill: &mut Fill<'_>) -> Result<(), StorageError> {
    let folder = folder_of(path);
    fs.create_dir_all(folder).map_err(|source| StorageError::io("create the folder", folder, source))?;
    let temporary = Temporary::write(fs, path, None, fill)?;
    let io = |source| StorageError::io("name", path, source);
    match fs.hard_link(&temporary.path, path) {
        Ok(()) => drop(temporary),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !fs.link_metadata(path).is_ok_and(|meta| meta.kind == FileKind::File && meta.len == 0) {
                return Err(StorageError::Exists(path.to_owned()));
            }
            temporary.rename_to(path).map_err(io)?;
        }
        // File systems without hard links: the name is free as far as can be told, so rename.
        Err(_) if is_free(fs, path) => temporary.rename_to(path).map_err(io)?,
        Err(error) => return Err(io(error)),
    }
    fs.sync_dir(folder).map_err(|source| {
        let _ = fs.remove_file(path);
        StorageError::io("sync the folder", folder, source)
    })
}

/// Puts a file that `fill` writes under a name, over a file that has it. `mode` are its permission bits.
///
/// # Errors
/// What the system or `fill` says; then what had the name is as it was.
pub fn put_file<E: From<io::Error>>(
    fs: &dyn Fs,
    path: &Path,
    mode: Option<u32>,
    fill: impl FnOnce(Arc<dyn FsFile>) -> Result<(), E>,
) -> Result<(), E> {
    remove_stale(fs, path);
    let temporary = Temporary::create(fs, path)?;
    fill(temporary.file.clone())?;
    if let Some(mode) = mode.filter(|mode| *mode != 0) {
        temporary.file.set_mode(mode)?;
    }
    temporary.file.sync_data()?;
    Ok(temporary.rename_to(path)?)
}

/// Whether it is certain that nothing has this name.
fn is_free(fs: &dyn Fs, path: &Path) -> bool {
    fs.link_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Puts the content that `fill` writes in the place of the file at `path`, whose lock is held and which was read to
/// `known_len`. The old bytes stay as a backup, whose path is returned.
///
/// # Errors
/// [`StorageError::Replaced`] when the original changed meanwhile, [`StorageError::IsALink`] for a link, and what the
/// system or `fill` says. Then the original is as it was.
pub(crate) fn replace_file(
    fs: &dyn Fs,
    path: &Path,
    lock: &FileLock,
    known_len: u64,
    fill: &mut Fill<'_>,
) -> Result<PathBuf, StorageError> {
    let io = |source| StorageError::io("rewrite", path, source);
    if fs.link_metadata(path).map_err(io)?.kind == FileKind::Link {
        return Err(StorageError::IsALink(path.to_owned()));
    }
    let before = lock.file.metadata().map_err(io)?;
    let temporary = Temporary::write(fs, path, Some(before.mode), fill)?;
    lock.outwait_looks();
    let after = fs.metadata(path).map_err(io)?;
    if after != before || after.len != known_len {
        return Err(StorageError::Replaced(path.to_owned()));
    }
    let backup = back_up(fs, path, path, &before)?;
    if let Err(source) = temporary.rename_to(path) {
        // Or appends would go on into the backup.
        let _ = fs.remove_file(&backup);
        return Err(io(source));
    }
    let folder = folder_of(path);
    fs.sync_dir(folder).map_err(|source| StorageError::io("sync the folder", folder, source))?;
    Ok(backup)
}

/// Renames the file at `old`, which is as `known` tells, to the first free backup name of `new`, which may be in another
/// folder.
///
/// # Errors
/// [`StorageError::Replaced`] when it changed meanwhile, and what the system says; then `old` is still there.
pub(crate) fn move_to_backup(fs: &dyn Fs, old: &Path, new: &Path, known: &FileMeta) -> Result<PathBuf, StorageError> {
    let backup = back_up(fs, old, new, known)?;
    if let Err(source) = fs.remove_file(old) {
        let _ = fs.remove_file(&backup);
        return Err(StorageError::io("move", old, source));
    }
    for folder in [folder_of(&backup), folder_of(old)] {
        fs.sync_dir(folder).map_err(|source| StorageError::io("sync the folder", folder, source))?;
    }
    Ok(backup)
}

/// Gives the file at `path`, which is as `known` tells, a second name: the first free backup name of `named`. Where that
/// cannot be, as on file systems without hard links or on another device, a copy gets the name.
fn back_up(fs: &dyn Fs, path: &Path, named: &Path, known: &FileMeta) -> Result<PathBuf, StorageError> {
    for backup in backup_names(named) {
        match fs.hard_link(path, &backup) {
            Ok(()) => return Ok(backup),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(StorageError::io("back up", path, error)),
            Err(_) if is_free(fs, &backup) => {
                copy_as_backup(fs, path, &backup, known)?;
                return Ok(backup);
            }
            Err(_) => {}
        }
    }
    Err(StorageError::Exists(named.to_owned()))
}

fn copy_as_backup(fs: &dyn Fs, path: &Path, backup: &Path, known: &FileMeta) -> Result<(), StorageError> {
    let io = |source| StorageError::io("back up", path, source);
    let original = fs.open(path, OpenFor::Read).map_err(io)?;
    create_file(fs, backup, &mut |file| {
        if known.mode != 0 {
            file.set_mode(known.mode).map_err(|source| StorageError::io("write", backup, source))?;
        }
        let mut block = vec![0; 1 << 20];
        let mut offset = 0;
        loop {
            match original.read_at(&mut block, offset) {
                Ok(0) => return Ok(()),
                Ok(len) => {
                    write_all(file, &block[..len])?;
                    offset += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io(error)),
            }
        }
    })?;
    // What was appended since would be in neither file.
    if fs.metadata(path).map_err(io)? == *known {
        return Ok(());
    }
    let _ = fs.remove_file(backup);
    Err(StorageError::Replaced(path.to_owned()))
}

/// `NAME.bak`, `NAME.bak.1`, and so on.
pub(crate) fn backup_names(path: &Path) -> impl Iterator<Item = PathBuf> {
    let named = |end: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    std::iter::once(named(".bak".to_owned())).chain((1..100_000).map(move |number| named(format!(".bak.{number}"))))
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

/// A file under a temporary name, removed when this is dropped.
struct Temporary<'a> {
    fs: &'a dyn Fs,
    path: PathBuf,
    /// Holds the lock that tells others that this file is not left over.
    file: Arc<dyn FsFile>,
    renamed: bool,
}

impl<'a> Temporary<'a> {
    /// Writes and syncs a file beside `path`.
    fn write(fs: &'a dyn Fs, path: &Path, mode: Option<u32>, fill: &mut Fill<'_>) -> Result<Self, StorageError> {
        remove_stale(fs, path);
        let io = |source| StorageError::io("write", path, source);
        let temporary = Self::create(fs, path).map_err(io)?;
        let file = &*temporary.file;
        if let Some(mode) = mode.filter(|mode| *mode != 0) {
            file.set_mode(mode).map_err(io)?;
        }
        fill(file).map_err(|error| with_path(error, path))?;
        file.sync_data().map_err(io)?;
        Ok(temporary)
    }

    fn create(fs: &'a dyn Fs, path: &Path) -> io::Result<Self> {
        for number in 0..1_000 {
            let temporary = temporary_name(path, number);
            match fs.open(&temporary, OpenFor::CreateNew) {
                Ok(file) => {
                    // Before the lock is taken somebody may think that this file is left over, and remove it. Where
                    // there are no locks, nobody can.
                    let _ = file.lock();
                    if is_at(fs, &*file, &temporary) {
                        return Ok(Self { fs, path: temporary, file, renamed: false });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Temporary<'_> {
    /// Gives the file the name `path`, over what has it.
    fn rename_to(mut self, path: &Path) -> io::Result<()> {
        self.fs.rename(&self.path, path)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // After a rename the temporary name may be another writer's.
        if !self.renamed {
            let _ = self.fs.remove_file(&self.path);
        }
    }
}

fn temporary_name(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{number}.tmp"));
    path.with_file_name(name)
}

/// Removes the temporary files that a crash left in the folder of a session: those that nobody holds.
fn remove_stale(fs: &dyn Fs, session: &Path) {
    let name = session.file_name().unwrap_or_default().to_string_lossy();
    for (path, kind) in fs.read_dir(folder_of(session)).unwrap_or_default() {
        if kind == FileKind::File
            && is_temporary(&path, &name)
            && let Ok(file) = fs.open(&path, OpenFor::Read)
            && file.try_lock().unwrap_or(false)
            && is_at(fs, &*file, &path)
        {
            let _ = fs.remove_file(&path);
        }
    }
}

/// Whether this is the temporary name of a session file, of a backup, or of the file `named`: `.NAME.jsonl.NUMBER.tmp`.
fn is_temporary(path: &Path, named: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parts = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp")).and_then(|name| name.rsplit_once('.'));
    parts.is_some_and(|(name, number)| {
        (name.ends_with(".jsonl") || name.contains(".jsonl.bak") || name == named)
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether the file at `path` is `file`.
fn is_at(fs: &dyn Fs, file: &dyn FsFile, path: &Path) -> bool {
    file.metadata().is_ok_and(|meta| fs.metadata(path).is_ok_and(|there| there.identity == meta.identity))
}
