//! Goes on with a pass over a session file where an earlier one ended, and passes over a part of a file.
//!
//! # Invariants
//! - A pass that goes on visits what a pass over the whole file would have visited behind the point, and its tree and
//!   damage are those of the whole file.
//! - Bytes before the point are not read again, but for an unended last line and the few bytes that show that the file
//!   is the same.
//!
//! # Crash
//! A torn last line is part of no point: it is looked at again when more bytes came.

use std::hash::Hasher;
use std::ops::Range;
use std::path::Path;

use crate::session::entry::{FORMAT_VERSION, Header};
use crate::session::tree::SessionTree;
use crate::storage::StorageError;
use crate::storage::fs::{FsFile, read_exact_at};
use crate::storage::jsonl::ANCHOR_BYTES;
use crate::storage::jsonl::reader::{FirstLine, Found, Index, Source, Tail, scan_part};
use crate::storage::jsonl::visit::{VisitedEntry, Visitor};
use crate::storage::list::damaged_lines;

/// Where a later pass over a file goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResumePoint {
    /// How much of the file was read: its length then.
    pub len: u64,
    /// A hash of the last bytes before.
    anchor: u64,
    tail: Tail,
    tail_start: u64,
    newlines: u64,
    /// Damaged lines before `tail_start`.
    damaged_lines: u64,
}

impl ResumePoint {
    /// The point as numbers, to be kept.
    pub(crate) fn to_numbers(self) -> [u64; 6] {
        let tail = match self.tail {
            Tail::Newline => 0,
            Tail::Record => 1,
            Tail::Fragment => 2,
        };
        [self.len, self.anchor, tail, self.tail_start, self.newlines, self.damaged_lines]
    }

    /// What [`ResumePoint::to_numbers`] was called on; `None` for other numbers.
    pub(crate) fn from_numbers(numbers: [u64; 6]) -> Option<Self> {
        let [len, anchor, tail, tail_start, newlines, damaged_lines] = numbers;
        let tail = match tail {
            0 => Tail::Newline,
            1 => Tail::Record,
            2 => Tail::Fragment,
            _ => return None,
        };
        let is_possible = tail_start <= len && newlines <= len;
        is_possible.then_some(Self { len, anchor, tail, tail_start, newlines, damaged_lines })
    }

    fn of(index: &Index, file: &dyn FsFile, path: &Path, damaged_before: u64) -> Result<Option<Self>, StorageError> {
        let is_resumable = match (&index.source, index.tail) {
            (Source::Migrated(_), _) => false,
            (Source::File, Tail::Newline | Tail::Record) => true,
            (Source::File, Tail::Fragment) => index.can_reopen_fragment(),
        };
        if !is_resumable {
            return Ok(None);
        }
        let before_tail = index.damage.iter().filter(|damage| damage.byte_offset < index.tail_start);
        Ok(Some(Self {
            len: index.len,
            anchor: anchor(file, path, index.len)?,
            tail: index.tail,
            tail_start: index.tail_start,
            newlines: index.newlines,
            damaged_lines: damaged_before + damaged_lines(before_tail),
        }))
    }
}

/// A hash of the last bytes before `len`.
pub(crate) fn anchor(file: &dyn FsFile, path: &Path, len: u64) -> Result<u64, StorageError> {
    let start = len.saturating_sub(ANCHOR_BYTES as u64);
    let mut bytes = [0; ANCHOR_BYTES];
    let bytes = &mut bytes[..(len - start) as usize];
    read_exact_at(file, bytes, start).map_err(|source| StorageError::io("read", path, source))?;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    Ok(hasher.finish())
}

/// What a pass leaves.
#[derive(Debug)]
pub(crate) struct Pass {
    /// The header; empty after a pass that went on.
    pub header: Header,
    /// The tree of the whole file.
    pub tree: SessionTree,
    /// How many lines of the whole file are damaged, as a list counts them.
    pub damaged_lines: u64,
    /// Where the next pass goes on; `None` if it has to begin anew.
    pub resume: Option<ResumePoint>,
}

impl Pass {
    fn of(index: Index, file: &dyn FsFile, path: &Path, damaged_before: u64) -> Result<Self, StorageError> {
        let resume = ResumePoint::of(&index, file, path, damaged_before)?;
        let damaged_lines = damaged_before + damaged_lines(&index.damage);
        Ok(Self { header: index.header, tree: index.tree, damaged_lines, resume })
    }
}

/// Visits all entries of a file, and says where to go on when bytes were appended.
pub(crate) fn visit_resumable(
    file: &dyn FsFile,
    path: &Path,
    visit: &mut dyn FnMut(&VisitedEntry<'_>),
) -> Result<Pass, StorageError> {
    let index = Index::open_with(file, path, &mut Visitor { file, visit })?;
    Pass::of(index, file, path, 0)
}

/// Visits the entries that were appended since `point`. `tree` holds what was there; of its types only those that matter
/// for walks and branches need be true. `None` when the file is not the one of then with something behind it.
pub(crate) fn visit_appended(
    file: &dyn FsFile,
    path: &Path,
    point: ResumePoint,
    tree: SessionTree,
    visit: &mut dyn FnMut(&VisitedEntry<'_>),
) -> Result<Option<Pass>, StorageError> {
    let len = file.metadata().map_err(|source| StorageError::io("read", path, source))?.len;
    if len < point.len || anchor(file, path, point.len)? != point.anchor {
        return Ok(None);
    }
    let mut index = Index {
        header: Header { version: FORMAT_VERSION, ..Header::default() },
        header_line: Vec::new(),
        header_span: 0..0,
        header_number: 0,
        old_starts: Vec::new(),
        tree,
        spans: Vec::new(),
        damage: Vec::new(),
        source: Source::File,
        len: point.len,
        tail: point.tail,
        tail_start: point.tail_start,
        newlines: point.newlines,
    };
    if len == point.len || !index.extend_with(file, path, len, &mut Visitor { file, visit })? {
        return Ok(None);
    }
    Pass::of(index, file, path, point.damaged_lines).map(Some)
}

/// Visits the entries whose lines begin in `range`, which is 0 or a line's beginning at its start, in a file of version
/// 3 or above. Returns where the line begins that has no newline yet, or the end of the range.
pub(crate) fn visit_range(
    file: &dyn FsFile,
    path: &Path,
    range: Range<u64>,
    visit: &mut dyn FnMut(&VisitedEntry<'_>),
) -> Result<u64, StorageError> {
    let io = |source| StorageError::io("read", path, source);
    let mut visitor = Visitor { file, visit };
    let mut from = range.start;
    if from == 0 {
        let first = FirstLine::read(file, range.end).map_err(io)?;
        let Some(first) = first else { return Err(StorageError::EmptyFile(path.to_owned())) };
        first.header(path)?;
        let behind = first.records.get(1..).unwrap_or_default();
        Found::default().visit_records(&first.bytes, behind, first.start, first.line, &mut visitor);
        if !first.ends_with_newline {
            return Ok(first.start);
        }
        from = first.end;
    }
    let found = scan_part(file, from, range.end, range.end, &mut visitor).map_err(io)?;
    Ok(found.tail.map_or(range.end, |(_, start)| start))
}
