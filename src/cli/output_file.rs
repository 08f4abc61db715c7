//! A file that a command writes for its user.
//!
//! # Invariants
//! - The file is there whole, or as it was: it is written beside its place, synced and renamed. What a death leaves beside
//!   it is removed by the next run.
//! - New files are private.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use crate::storage::fs::{FileKind, Fs, FsFile, OpenFor};
use crate::storage::jsonl::rewrite::put_file;

/// Writes a file with what `fill` writes; a file of that name is replaced. A pipe or a device is written to as it is.
///
/// # Errors
/// What the system says, or `fill`; then a file that was there is there unchanged.
pub(super) fn write_file<E: From<io::Error>>(
    fs: &dyn Fs,
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let old = match fs.metadata(path) {
        Ok(meta) => Some(meta),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    match old.map(|meta| meta.kind) {
        Some(FileKind::Folder) => return Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
        Some(FileKind::Other) => return fill_file(fs.open(path, OpenFor::Append)?, fill),
        Some(FileKind::File | FileKind::Link) | None => {}
    }
    // Through a link to a file the file is replaced, and the link stays.
    let path = if old.is_some() { fs.canonicalize(path)? } else { path.to_owned() };
    put_file(fs, &path, old.map(|old| old.mode), |file| fill_file(file, fill))
}

fn fill_file<E: From<io::Error>>(file: Arc<dyn FsFile>, fill: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), E> {
    let mut out = BufWriter::with_capacity(1 << 16, Appending(file));
    fill(&mut out)?;
    Ok(out.flush()?)
}

struct Appending(Arc<dyn FsFile>);

impl Write for Appending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
