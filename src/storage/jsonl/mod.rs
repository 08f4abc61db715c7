//! One session in one JSONL file.
//!
//! # Invariants
//! - Reading never writes and needs no right to write. Only an append, an upgrade and an explicit rewrite change a file.
//! - What is in the tree is in the file. Bytes before the file's known length are never changed by an append.
//! - A handle notices when its file was removed, replaced or shortened before it writes (see `writer`).
//!
//! # Format history
//! - Version 1: no ids, a chain in file order. Read, and upgraded by the first append.
//! - Version 2: ids; the role `custom` was called `hookMessage`. Read, and upgraded by the first append.
//! - Version 3: what is written. Above 3: read only.

mod clip;
mod codec;
mod edit;
pub mod follow;
mod long_line;
mod migrate;
mod reader;
mod recovery;
#[cfg(feature = "search")]
mod resume;
pub mod rewrite;
mod scan;
mod visit;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::session::entry::{Entry, FORMAT_VERSION, Header};
use crate::session::json::well_formed;
use crate::session::tree::{EntryIndex, SessionTree};
use crate::storage::fs::{Fs, FsFile, OpenFor, read_exact_at};
use crate::storage::{Damage, Durability, Prepare, SessionRead, SessionStorage, StorageError};
use reader::{Index, Source};
use writer::Burst;

/// A byte order mark in UTF-8.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

pub(crate) use codec::{Head, Members, decode_entry, names_a_root, read_head, read_head_behind, read_head_slowly};
pub(crate) use edit::{clear_member, replace_member};
pub(crate) use migrate::{hash as stable_hash, upgraded_header};
pub(crate) use recovery::{Ids, examine};
#[cfg(feature = "search")]
pub(crate) use resume::{Pass, ResumePoint, anchor, visit_appended, visit_range, visit_resumable};
pub(crate) use visit::{VisitedEntry, visit_file};
pub(crate) use writer::FileLock;
pub use writer::{write_unsaved, write_unsaved_in};

/// A record longer than this is not held whole where a preview will do.
const PREVIEWED_BYTES: u64 = 1024 * 1024;
/// How many bytes of each string such a preview has.
const PREVIEW_STRING_BYTES: usize = 64 * 1024;

/// How many bytes before the known end are compared to notice that a file was changed.
const ANCHOR_BYTES: usize = 64;

/// The last bytes before a known end, fewer in a short file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    bytes: [u8; ANCHOR_BYTES],
    len: usize,
}

impl Default for Anchor {
    fn default() -> Self {
        Self { bytes: [0; ANCHOR_BYTES], len: 0 }
    }
}

impl Anchor {
    /// The last bytes after `batch` came behind these.
    fn behind(self, batch: &[u8]) -> Self {
        let new = &batch[batch.len().saturating_sub(ANCHOR_BYTES)..];
        let old = &self.bytes[..self.len];
        let old = &old[old.len().saturating_sub(ANCHOR_BYTES - new.len())..];
        let mut anchor = Self { len: old.len() + new.len(), ..Self::default() };
        anchor.bytes[..old.len()].copy_from_slice(old);
        anchor.bytes[old.len()..anchor.len].copy_from_slice(new);
        anchor
    }
}

/// A session file, opened.
#[derive(Debug)]
pub struct JsonlStorage {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    file: Arc<dyn FsFile>,
    /// Which file that is. An open file stays what it is, so the system is asked once.
    identity: Option<(u64, u64)>,
    /// Whether `file` can be appended to; it is opened so at the first append.
    appendable: bool,
    index: Index,
    /// The last bytes before the known end.
    anchor: Anchor,
    burst: Burst,
    poisoned: bool,
    /// Where it goes when it is moved.
    root: Option<PathBuf>,
}

impl JsonlStorage {
    /// Opens a session file for reading; appending opens it for writing when it comes to it. `O(file length)`.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, is no session, or is of format 4.
    pub fn open(fs: Arc<dyn Fs>, path: &Path) -> Result<Self, StorageError> {
        let file = fs.open(path, OpenFor::Read).map_err(|source| StorageError::io("open", path, source))?;
        Self::of_file(fs, path, file, false)
    }

    /// The same as a session of a root: should its file be gone, it may have been moved to a folder there.
    #[must_use]
    pub fn of_root(self, root: &Path) -> Self {
        Self { root: Some(root.to_owned()), ..self }
    }

    /// Creates a session file with nothing but a header, and makes it durable. A 0-byte file is initialized.
    ///
    /// # Errors
    /// When a file of this name has bytes, or the file cannot be written; then it does not exist.
    pub fn create(fs: Arc<dyn Fs>, path: &Path, header: &Header) -> Result<Self, StorageError> {
        rewrite::create_file(&*fs, path, &mut |file| rewrite::write_all(file, &codec::encode_header(header)))?;
        Self::open(fs, path)
    }

    /// The header of a session file, without reading further.
    ///
    /// # Errors
    /// As for [`JsonlStorage::open`].
    pub fn read_header(fs: &dyn Fs, path: &Path) -> Result<Header, StorageError> {
        let file = fs.open(path, OpenFor::Read).map_err(|source| StorageError::io("open", path, source))?;
        reader::read_header(&*file, path)
    }

    /// The header of an open session file.
    #[cfg(feature = "search")]
    pub(crate) fn header_of_open(file: &dyn FsFile, path: &Path) -> Result<Header, StorageError> {
        reader::read_header(file, path)
    }

    fn of_file(fs: Arc<dyn Fs>, path: &Path, file: Arc<dyn FsFile>, appendable: bool) -> Result<Self, StorageError> {
        let index = Index::open(&*file, path)?;
        let identity = writer::identity(&*file);
        let (path, anchor, burst) = (path.to_owned(), Anchor::default(), Burst::default());
        let mut storage = Self { fs, path, file, identity, appendable, index, anchor, burst, poisoned: false, root: None };
        storage.anchor = storage.read_anchor()?;
        Ok(storage)
    }

    /// The last bytes before the known end, as they are in the file now.
    fn read_anchor(&self) -> Result<Anchor, StorageError> {
        let len = usize::try_from(self.index.len).map_or(ANCHOR_BYTES, |len| len.min(ANCHOR_BYTES));
        let mut anchor = Anchor { bytes: [0; ANCHOR_BYTES], len };
        read_exact_at(&*self.file, &mut anchor.bytes[..len], self.index.len - len as u64)
            .map_err(|source| StorageError::io("read", &self.path, source))?;
        Ok(anchor)
    }

    /// The number of the header's line, from 1, and where its record begins in the file.
    pub fn header_place(&self) -> (u64, u64) {
        (self.index.header_number, self.index.header_span.start)
    }

    /// Whether the file is of a version that is written.
    pub fn is_current_version(&self) -> bool {
        self.index.header.version == FORMAT_VERSION
    }

    /// The header line and all lines behind it as version 3, for a rewrite: damaged lines are in it as they are.
    fn copy_all(&self, out: &mut dyn FnMut(&[u8]) -> Result<(), StorageError>) -> Result<(), StorageError> {
        match &self.index.source {
            Source::Migrated(lines) => {
                out(&migrate::upgraded_header(&self.index.header_line))?;
                out(lines)
            }
            Source::File => self.copy_bytes(0, self.index.len, out),
        }
    }

    /// As [`JsonlStorage::copy_all`], with another record as the header and not a byte changed around it.
    fn copy_with_header(
        &self,
        header_line: &[u8],
        out: &mut dyn FnMut(&[u8]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        match &self.index.source {
            Source::Migrated(lines) => {
                out(&migrate::upgraded_header(header_line))?;
                out(lines)
            }
            Source::File => {
                let header = &self.index.header_span;
                self.copy_bytes(0, header.start, out)?;
                out(header_line)?;
                self.copy_bytes(header.end, self.index.len, out)
            }
        }
    }

    /// Writes the session anew in its place with another header. Returns the backup of the old bytes.
    pub(crate) fn rewrite(&mut self, header_line: &[u8]) -> Result<PathBuf, StorageError> {
        let lock = self.lock()?;
        self.catch_up_with_lock(&lock)?;
        rewrite::replace_file(&*self.fs, &self.path, &lock, self.index.len, &mut |file| {
            self.copy_with_header(header_line, &mut |bytes| rewrite::write_all(file, bytes))
        })
    }

    /// Takes the lock of the file, for which every writer of ours waits.
    pub(crate) fn lock(&self) -> Result<FileLock, StorageError> {
        FileLock::take(self.file.clone(), &self.path)
    }

    /// Reads the same file once more, as it is now.
    pub(crate) fn read_again(&self) -> Result<Self, StorageError> {
        Self::of_file(self.fs.clone(), &self.path, self.file.clone(), self.appendable)
    }

    /// Puts what `fill` writes in the place of the file as it was opened. Returns the backup of the old bytes. `held` is
    /// the lock of the file, if the caller has it.
    pub(crate) fn replace_with(&self, held: Option<&FileLock>, fill: &mut rewrite::Fill<'_>) -> Result<PathBuf, StorageError> {
        let own;
        let lock = match held {
            Some(lock) => lock,
            None => {
                own = self.lock()?;
                &own
            }
        };
        rewrite::replace_file(&*self.fs, &self.path, lock, self.index.len, fill)
    }

    /// Writes the session under another name with another header; the old file becomes a backup beside it, which is
    /// returned.
    pub(crate) fn move_to(&mut self, header_line: &[u8], target: &Path) -> Result<PathBuf, StorageError> {
        let lock = self.lock()?;
        self.catch_up_with_lock(&lock)?;
        let io = |source| StorageError::io("read", &self.path, source);
        let before = self.file.metadata().map_err(io)?;
        self.remove_left_over(header_line, target)?;
        rewrite::create_file(&*self.fs, target, &mut |file| {
            if before.mode != 0 {
                file.set_mode(before.mode).map_err(|source| StorageError::io("write", target, source))?;
            }
            self.copy_with_header(header_line, &mut |bytes| rewrite::write_all(file, bytes))
        })?;
        lock.outwait_looks();
        let moved = match self.fs.metadata(&self.path) {
            Ok(after) if after == before && after.len == self.index.len => {
                rewrite::move_to_backup(&*self.fs, &self.path, target, &before)
            }
            Ok(_) => Err(StorageError::Replaced(self.path.clone())),
            Err(source) => Err(io(source)),
        };
        moved.inspect_err(|_| {
            // While the old file is there the new one must not be: both have the same id.
            if self.fs.link_metadata(&self.path).is_ok() {
                let _ = self.fs.remove_file(target);
            }
        })
    }

    /// The record of an entry as it stands in the file, where [`SessionRead::line`] gives it migrated.
    pub(crate) fn raw_line(&self, index: EntryIndex) -> Result<Vec<u8>, StorageError> {
        if matches!(self.index.source, Source::File) {
            return self.line(index);
        }
        let (mut at, end) = (self.byte_offset(index), self.len_bytes());
        let mut line = Vec::new();
        let mut block = vec![0; 1 << 14];
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(block.len());
            read_exact_at(&*self.file, &mut block[..len], at).map_err(|source| StorageError::io("read", &self.path, source))?;
            let newline = memchr::memchr(b'\n', &block[..len]);
            line.extend_from_slice(&block[..newline.unwrap_or(len)]);
            if newline.is_some() {
                break;
            }
            at += len as u64;
        }
        line.truncate(scan::record_end(&line).unwrap_or(line.len()));
        Ok(line)
    }

    /// Removes the file at `target` if an earlier move wrote it and died: if all that it holds would be written there again.
    fn remove_left_over(&self, header_line: &[u8], target: &Path) -> Result<(), StorageError> {
        let Ok(file) = self.fs.open(target, OpenFor::Read) else { return Ok(()) };
        let _lock = writer::FileLock::take(file.clone(), target)?;
        let mut left = file.metadata().map_err(|source| StorageError::io("read", target, source))?.len;
        let (mut at, mut is_ours) = (0, left > 0);
        self.copy_with_header(header_line, &mut |bytes| {
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            let mut there = vec![0; if is_ours { len } else { 0 }];
            read_exact_at(&*file, &mut there, at).map_err(|source| StorageError::io("read", target, source))?;
            is_ours = is_ours && there == bytes[..len];
            at += len as u64;
            left -= len as u64;
            Ok(())
        })?;
        if is_ours && left == 0 {
            self.fs.remove_file(target).map_err(|source| StorageError::io("replace", target, source))?;
        }
        Ok(())
    }

    /// Whether the header's line begins with a UTF-8 byte order mark.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn begins_with_mark(&self) -> Result<bool, StorageError> {
        let mut start = Vec::new();
        if self.header_place().0 == 1 {
            self.copy_bytes(0, self.len_bytes().min(MARK.len() as u64), &mut |bytes| {
                start.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        Ok(start == MARK)
    }

    /// Copies a range of the file in blocks.
    pub(crate) fn copy_bytes(
        &self,
        from: u64,
        to: u64,
        out: &mut dyn FnMut(&[u8]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut block = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX).min(1 << 20)];
        let mut at = from;
        while at < to {
            let len = usize::try_from(to - at).unwrap_or(usize::MAX).min(block.len());
            read_exact_at(&*self.file, &mut block[..len], at).map_err(|source| StorageError::io("read", &self.path, source))?;
            out(&block[..len])?;
            at += len as u64;
        }
        Ok(())
    }
}

impl SessionRead for JsonlStorage {
    fn header(&self) -> &Header {
        &self.index.header
    }

    fn tree(&self) -> &SessionTree {
        &self.index.tree
    }

    fn damage(&self) -> &[Damage] {
        &self.index.damage
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn len_bytes(&self) -> u64 {
        match &self.index.source {
            Source::File => self.index.len,
            Source::Migrated(_) => self.file.metadata().map_or(self.index.len, |meta| meta.len),
        }
    }

    fn line_number(&self, index: EntryIndex) -> u64 {
        u64::from(self.index.spans[index.get()].line)
    }

    fn byte_offset(&self, index: EntryIndex) -> u64 {
        match &self.index.source {
            Source::File => self.index.spans[index.get()].start,
            Source::Migrated(_) => self.index.old_starts.get(index.get()).copied().unwrap_or_default(),
        }
    }

    fn header_line(&self) -> &[u8] {
        &self.index.header_line
    }

    fn line(&self, index: EntryIndex) -> Result<Vec<u8>, StorageError> {
        let mut line = vec![0; self.index.spans[index.get()].len as usize];
        self.line_into(index, &mut line)?;
        Ok(line)
    }

    fn line_into(&self, index: EntryIndex, buffer: &mut Vec<u8>) -> Result<(), StorageError> {
        let span = self.index.spans[index.get()];
        let len = span.len as usize;
        match &self.index.source {
            Source::Migrated(lines) => {
                buffer.clear();
                buffer.extend_from_slice(&lines[span.start as usize..span.start as usize + len]);
                Ok(())
            }
            Source::File => {
                // What is there is written over, so only a longer line needs zeros.
                buffer.truncate(len);
                buffer.resize(len, 0);
                read_exact_at(&*self.file, buffer, span.start).map_err(|source| StorageError::io("read", &self.path, source))
            }
        }
    }

    fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, StorageError> {
        Ok(decode_line(&self.line(index)?, &self.index.tree, index))
    }

    fn preview(&self, index: EntryIndex) -> Result<Option<Entry>, StorageError> {
        let span = self.index.spans[index.get()];
        if u64::from(span.len) <= PREVIEWED_BYTES || !matches!(self.index.source, Source::File) {
            return self.entry(index);
        }
        let line = read_clipped(&*self.file, span.start, u64::from(span.len))
            .map_err(|source| StorageError::io("read", &self.path, source))?;
        Ok(decode_line(&line, &self.index.tree, index))
    }
}

/// The record at `start` with its long strings cut.
fn read_clipped(file: &dyn FsFile, start: u64, len: u64) -> std::io::Result<Vec<u8>> {
    let mut clip = clip::Clip::new(PREVIEW_STRING_BYTES);
    let mut block = vec![0; 256 * 1024];
    let (mut at, end) = (start, start + len);
    while at < end {
        let part = usize::try_from(end - at).unwrap_or(usize::MAX).min(block.len());
        read_exact_at(file, &mut block[..part], at)?;
        clip.feed(&block[..part]);
        at += part as u64;
    }
    Ok(clip.into_copy())
}

/// Reads the record of an entry. The tree decides what its id and parent are, should a line name them twice.
pub(crate) fn decode_line(line: &[u8], tree: &SessionTree, index: EntryIndex) -> Option<Entry> {
    codec::decode_entry(line).map(|entry| Entry { id: tree.id(index), parent_id: tree.parent_id(index), ..entry })
}

/// Adds the entry in a line of [`encode_line`] to a tree, with what opening a file takes from it.
pub(crate) fn push_line(tree: &mut SessionTree, line: &[u8]) -> Result<(), StorageError> {
    if let Head::Entry(head) = codec::read_head_slowly(&well_formed(line)) {
        tree.push(head.as_entry_head()).map_err(StorageError::TooManyEntries)?;
    }
    Ok(())
}

/// The record of an entry, without a newline.
pub(crate) fn encode_line(entry: &Entry) -> Vec<u8> {
    let mut line = codec::encode_entry(entry);
    line.pop();
    line
}

/// The line of a header, without its newline.
pub(crate) fn header_line(header: &Header) -> Vec<u8> {
    let mut line = codec::encode_header(header);
    line.pop();
    line
}

impl SessionStorage for JsonlStorage {
    fn append(&mut self, prepare: &mut Prepare<'_>, durability: Durability) -> Result<Vec<EntryIndex>, StorageError> {
        self.append_batch(prepare, durability)
    }

    fn refresh(&mut self) -> Result<(), StorageError> {
        self.catch_up()
    }

    fn as_read(&self) -> &dyn SessionRead {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_is_the_last_bytes_of_all_that_was_written() {
        let text: Vec<u8> = (0..200).collect();
        for len in 0..text.len() {
            for batch in 0..=len {
                let anchor = |bytes: &[u8]| Anchor::default().behind(bytes);
                assert_eq!(anchor(&text[..len - batch]).behind(&text[len - batch..len]), anchor(&text[..len]));
            }
        }
        let anchor = Anchor::default().behind(&text);
        assert_eq!((&anchor.bytes[..], anchor.len), (&text[200 - ANCHOR_BYTES..], ANCHOR_BYTES));
    }
}
