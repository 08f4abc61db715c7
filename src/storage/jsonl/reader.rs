//! Opens a session file: one pass over it, no bodies.
//!
//! Opening costs about what counting lines costs. A file of many megabytes is read by two threads, each its own part.
//! What stays in memory is a position and the tree's row for each entry, about 40 bytes.
//!
//! # Invariants
//! - Reading never writes, and reads each byte once (a line whose head has an unusual form twice, and one of more than
//!   8 MiB that is no record a few times: no such line is held).
//! - Entries are in file order; each is one line, or one record of a fused line.
//! - What [`Index::extend`] adds is what opening the longer file would have given.
//!
//! # Crash
//! A torn last line is [`Tail::Fragment`] until more bytes come: then it is looked at again, because another process
//! may have been writing it.

use std::io;
use std::ops::Range;
use std::path::Path;

use crate::session::entry::{Entry, EntryId, EntryKind, EntryType, Header};
use crate::session::json::well_formed;
use crate::session::message::Role;
use crate::session::tree::{EntryHead, EntryIndex, SessionTree};
use crate::storage::fs::{FsFile, read_exact_at};
use crate::storage::jsonl::codec::{Head, LineHead, decode_header, read_head, read_head_behind, read_head_slowly};
use crate::storage::jsonl::long_line::examine_long;
use crate::storage::jsonl::migrate;
use crate::storage::jsonl::read_clipped;
use crate::storage::jsonl::recovery::{Ids, examine};
use crate::storage::jsonl::scan::{Line, LineScanner};
use crate::storage::{Damage, DamageKind, StorageError};

/// How much is read at once.
const BLOCK_BYTES: usize = 256 * 1024;
/// Up to this length a line that runs over the end of a block is moved to the front of the next.
const KEPT_BYTES: usize = 64 * 1024;
/// How much of a longer line's beginning and end is kept.
const EDGE_BYTES: usize = 512;
/// A line of an unusual form that is longer than this is not held whole.
const HELD_BYTES: u64 = 8 * 1024 * 1024;
/// From this length on a file is read by two threads.
const PARALLEL_BYTES: u64 = 8 * 1024 * 1024;
/// A header longer than this is none.
const MAX_HEADER_BYTES: usize = 16 * 1024 * 1024;

/// Where an entry's record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Position of the first byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u32,
    /// The line, counted from 1.
    pub line: u32,
}

/// Where the bytes of the spans are.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// In the file.
    File,
    /// In memory: the migrated lines of a version 1 or 2 file.
    Migrated(Vec<u8>),
}

/// How the file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// With a newline.
    Newline,
    /// With a whole record and no newline.
    Record,
    /// With something that is no whole record, or with blanks.
    Fragment,
}

/// What opening a file gives.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The first line.
    pub header: Header,
    /// The bytes of the header's record.
    pub header_line: Vec<u8>,
    /// Where that record is in the file.
    pub header_span: Range<u64>,
    /// The number of the header's line, from 1.
    pub header_number: u64,
    /// The entries' heads.
    pub tree: SessionTree,
    /// Where each entry is, by its position in the tree.
    pub spans: Vec<Span>,
    /// Where each entry's record begins in a version 1 or 2 file, whose spans are of the migrated lines.
    pub old_starts: Vec<u64>,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Where the bytes are.
    pub source: Source,
    /// How much of the file has been read: its length.
    pub len: u64,
    /// How it ends.
    pub tail: Tail,
    /// Where the line begins that has no newline yet; `len` if the file ends with one.
    pub(super) tail_start: u64,
    /// How many newlines there were.
    pub(super) newlines: u64,
}

impl Index {
    /// Reads a file. `path` is for errors.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, or is no session.
    pub fn open(file: &dyn FsFile, path: &Path) -> Result<Self, StorageError> {
        Self::open_by(file, path, None::<&mut ()>)
    }

    /// As [`Index::open`], in one thread, with a visitor.
    pub fn open_with<V: LineVisitor>(file: &dyn FsFile, path: &Path, visitor: &mut V) -> Result<Self, StorageError> {
        Self::open_by(file, path, Some(visitor))
    }

    fn open_by<V: LineVisitor>(file: &dyn FsFile, path: &Path, mut visitor: Option<&mut V>) -> Result<Self, StorageError> {
        let io = |source| StorageError::io("read", path, source);
        let len = file.metadata().map_err(io)?.len;
        let first = FirstLine::read(file, len).map_err(io)?;
        let Some(first) = first else { return Err(StorageError::EmptyFile(path.to_owned())) };
        let (header, record) = first.header(path)?;
        let mut index = Self {
            header,
            header_line: first.bytes[record.clone()].to_vec(),
            header_span: first.start + record.start as u64..first.start + record.end as u64,
            header_number: first.line + 1,
            tree: SessionTree::default(),
            spans: Vec::new(),
            old_starts: Vec::new(),
            damage: Vec::new(),
            source: Source::File,
            len: first.end,
            tail: Tail::Newline,
            tail_start: first.end,
            newlines: first.newlines,
        };
        if index.header.version < 3 {
            let mut bytes = vec![0; usize::try_from(len).map_err(|_| StorageError::TooLong(path.to_owned()))?];
            read_exact_at(file, &mut bytes, 0).map_err(io)?;
            migrate::read_old(&mut index, &bytes)?;
            (index.len, index.tail_start) = (len, len);
            if let (Some(visitor), Source::Migrated(lines)) = (visitor, &index.source) {
                index.visit_migrated(lines, visitor);
            }
            return Ok(index);
        }
        // More records in the header's line are entries of a fused line.
        let mut found = Found::default();
        let behind = first.records.get(1..).unwrap_or_default();
        match &mut visitor {
            Some(visitor) => found.visit_records(&first.bytes, behind, first.start, first.line, *visitor),
            None => found.visit_records(&first.bytes, behind, first.start, first.line, &mut ()),
        }
        if let Some(kind) = first.damage {
            index.damage.push(Damage { kind, line: first.line + 1, byte_offset: first.start });
        }
        index.add(found, 0)?;
        if !first.ends_with_newline {
            index.tail = if first.damage.is_none() { Tail::Record } else { Tail::Fragment };
            index.tail_start = first.start;
            index.len = len;
            return Ok(index);
        }
        match visitor {
            Some(visitor) => index.scan_with(file, path, len, visitor)?,
            None => index.scan_to(file, path, len)?,
        }
        Ok(index)
    }

    /// Reads what was appended since; the file must not have changed otherwise. `false` when that cannot be told apart
    /// from a change, so that the file has to be opened again.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn extend(&mut self, file: &dyn FsFile, path: &Path, len: u64) -> Result<bool, StorageError> {
        if len == self.len {
            return Ok(true);
        }
        if !self.reopen_tail(file, path, len)? {
            return Ok(false);
        }
        self.scan_to(file, path, len)?;
        Ok(true)
    }

    /// As [`Index::extend`], in one thread, with a visitor for what is new.
    ///
    /// # Errors
    /// When the file cannot be read.
    #[cfg(feature = "search")]
    pub fn extend_with<V: LineVisitor>(
        &mut self,
        file: &dyn FsFile,
        path: &Path,
        len: u64,
        visitor: &mut V,
    ) -> Result<bool, StorageError> {
        if len == self.len {
            return Ok(true);
        }
        if !self.reopen_tail(file, path, len)? {
            return Ok(false);
        }
        self.scan_with(file, path, len, visitor)?;
        Ok(true)
    }

    /// Whether what is known of an unended last line still holds now that the file has `len` bytes, or could be taken back.
    fn reopen_tail(&mut self, file: &dyn FsFile, path: &Path, len: u64) -> Result<bool, StorageError> {
        let io = |source| StorageError::io("read", path, source);
        if !matches!(self.source, Source::File) || len < self.len {
            return Ok(false);
        }
        match self.tail {
            Tail::Newline => {}
            Tail::Record => {
                let mut next = [0];
                read_exact_at(file, &mut next, self.len).map_err(io)?;
                if next != *b"\n" {
                    return Ok(false);
                }
                self.newlines += 1;
                self.len += 1;
                self.tail_start = self.len;
                self.tail = Tail::Newline;
            }
            Tail::Fragment => {
                if !self.can_reopen_fragment() {
                    return Ok(false);
                }
                self.damage.retain(|damage| damage.byte_offset < self.tail_start);
                self.len = self.tail_start;
                self.tail = Tail::Newline;
            }
        }
        Ok(true)
    }

    /// Whether the fragment at the end can be read again. Records of a fused one are in the tree already.
    pub(super) fn can_reopen_fragment(&self) -> bool {
        let holds_records = self.spans.last().is_some_and(|span| span.start >= self.tail_start);
        !holds_records && self.tail_start >= self.header_span.end
    }

    /// Reads from `self.len`, where a line begins, to `len`.
    fn scan_to(&mut self, file: &dyn FsFile, path: &Path, len: u64) -> Result<(), StorageError> {
        let from = self.len;
        let io = |source| StorageError::io("read", path, source);
        let several_cores = || std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        // When a part cannot be read, nothing of the others may stay; a file that is just being opened is given up as a whole.
        if len - from < PARALLEL_BYTES || !self.tree.is_empty() || !several_cores() {
            return self.add_parts(vec![scan_part(file, from, len, len, &mut ()).map_err(io)?], len);
        }
        // This thread has the smaller part, and adds it to the tree while the other one is still reading.
        let middle = from + (len - from) / 20 * 9;
        std::thread::scope(|scope| {
            let second = scope.spawn(|| scan_part(file, middle, len, len, &mut ()));
            self.add_parts(vec![scan_part(file, from, middle, len, &mut ()).map_err(io)?], len)?;
            let second = second.join().unwrap_or_else(|_| Err(io::Error::other("a reading thread stopped")));
            self.add_parts(vec![second.map_err(io)?], len)
        })
    }

    /// As [`Index::scan_to`], in one thread, with a visitor.
    fn scan_with<V: LineVisitor>(
        &mut self,
        file: &dyn FsFile,
        path: &Path,
        len: u64,
        visitor: &mut V,
    ) -> Result<(), StorageError> {
        let part = scan_part(file, self.len, len, len, visitor);
        self.add_parts(vec![part.map_err(|source| StorageError::io("read", path, source))?], len)
    }

    /// Calls the visitor for the entries of a version 1 or 2 file.
    fn visit_migrated<V: LineVisitor>(&self, lines: &[u8], visitor: &mut V) {
        for span in &self.spans {
            let record = &lines[span.start as usize..span.start as usize + span.len as usize];
            if let Some(head) = read_head(record) {
                visitor.entry(&head, Bytes::of(record, span.start, span.start));
            } else if let Head::Entry(head) = read_head_slowly(&well_formed(record)) {
                visitor.entry(&head, Bytes::of(record, span.start, span.start));
            }
        }
    }

    fn add_parts(&mut self, parts: Vec<Found>, len: u64) -> Result<(), StorageError> {
        self.len = len;
        self.tail_start = len;
        self.tail = Tail::Newline;
        for part in parts {
            let lines_before = self.newlines;
            self.newlines += part.newlines;
            if let Some((tail, start)) = part.tail {
                (self.tail, self.tail_start) = (tail, start);
            }
            self.add(part, lines_before)?;
        }
        Ok(())
    }

    /// Adds what a part of the file holds, whose first line has `lines_before` lines before it.
    pub(super) fn add(&mut self, found: Found, lines_before: u64) -> Result<(), StorageError> {
        self.spans.reserve(found.entries.len());
        self.tree.reserve(found.entries.len());
        for entry in found.entries {
            let head = EntryHead {
                id: entry.id.as_str(),
                parent_id: entry.parent.as_ref().map(EntryId::as_str),
                entry_type: entry.entry_type,
                role: entry.role,
                leaf_target: entry.leaf_target.as_ref().map(|target| (**target).as_ref().map(EntryId::as_str)),
            };
            self.add_entry(head, entry.start, entry.len, lines_before + entry.line + 1)?;
        }
        self.damage.extend(found.damage.into_iter().map(|damage| Damage { line: damage.line + lines_before + 1, ..damage }));
        Ok(())
    }

    /// Adds the entry of a record in line `line`, unless it is too long.
    fn add_entry(&mut self, head: EntryHead<'_>, start: u64, len: u64, line: u64) -> Result<Option<EntryIndex>, StorageError> {
        let span = match (u32::try_from(len), u32::try_from(line)) {
            (Ok(len), Ok(line)) => Span { start, len, line },
            (Err(_), _) | (_, Err(_)) => {
                self.damage.push(Damage { kind: DamageKind::TooLong, line, byte_offset: start });
                return Ok(None);
            }
        };
        let index = self.tree.push(head).map_err(StorageError::TooManyEntries)?;
        self.spans.push(span);
        Ok(Some(index))
    }

    /// Adds an entry that was just written at the file's end, and tells where it is if that is known. `line_bytes` has its
    /// newline.
    pub(super) fn add_written(&mut self, entry: &Entry, line_bytes: &[u8]) -> Result<Option<EntryIndex>, StorageError> {
        let (start, before) = (self.len, self.newlines);
        let record = &line_bytes[..line_bytes.len() - 1];
        self.newlines += 1;
        self.len = start + line_bytes.len() as u64;
        self.tail_start = self.len;
        self.tail = Tail::Newline;
        if let Some(head) = head_as_read(entry) {
            debug_assert!(whole_head(record).is_none_or(|read| read.as_entry_head() == head), "{record:?}");
            return self.add_entry(head, start, record.len() as u64, before + 1);
        }
        let mut found = Found::default();
        match whole_head(record) {
            Some(head) => found.push(&head, start, record.len() as u64, 0),
            None => found.take_line(record, start, 0),
        }
        self.add(found, before)?;
        Ok(None)
    }

    /// Notes that a newline was written behind an unterminated last line.
    pub(super) fn add_newline(&mut self) {
        self.newlines += 1;
        self.len += 1;
        self.tail_start = self.len;
        self.tail = Tail::Newline;
    }
}

/// What a reader finds at the head of the entry's line, where that can be told without reading it: what has no place in
/// our types is written as it came.
fn head_as_read(entry: &Entry) -> Option<EntryHead<'_>> {
    match &entry.kind {
        EntryKind::Message(payload) if payload.message.role() == Role::Unknown => None,
        EntryKind::Leaf(_) | EntryKind::Unknown { .. } => None,
        EntryKind::Message(_)
        | EntryKind::Compaction(_)
        | EntryKind::BranchSummary(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Custom(_)
        | EntryKind::CustomMessage(_)
        | EntryKind::Label(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Usage(_) => Some(EntryHead::of(entry)),
    }
}

/// The head of a line that is one whole record in Pi's order.
fn whole_head(record: &[u8]) -> Option<LineHead<'_>> {
    let mut scanner = LineScanner::new(0);
    scanner.feed(record, &mut |_| {});
    let line = scanner.finish()?;
    (line.whole && line.start == 0).then(|| read_head(record).or_else(|| read_head_behind(record, record))).flatten()
}

/// Reads the header alone.
pub(super) fn read_header(file: &dyn FsFile, path: &Path) -> Result<Header, StorageError> {
    let io = |source| StorageError::io("read", path, source);
    let len = file.metadata().map_err(io)?.len;
    match FirstLine::read(file, len).map_err(io)? {
        Some(first) => first.header(path).map(|(header, _)| header),
        None => Err(StorageError::EmptyFile(path.to_owned())),
    }
}

/// The first line that is not blank.
pub(super) struct FirstLine {
    pub(super) bytes: Vec<u8>,
    /// Where it begins, behind a byte order mark.
    pub(super) start: u64,
    /// Where the next line begins.
    pub(super) end: u64,
    /// Newlines up to `end`.
    newlines: u64,
    /// Its number, from 0.
    pub(super) line: u64,
    pub(super) ends_with_newline: bool,
    pub(super) records: Vec<Range<usize>>,
    damage: Option<DamageKind>,
}

impl FirstLine {
    /// Reads it; `None` when there is nothing but blanks.
    pub(super) fn read(file: &dyn FsFile, len: u64) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let mut size = 4096;
        loop {
            let wanted = usize::try_from(len).unwrap_or(usize::MAX).min(size);
            let have = bytes.len();
            bytes.resize(wanted, 0);
            read_exact_at(file, &mut bytes[have..], have as u64)?;
            let bom = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
            let (mut start, mut newlines) = (bom, 0);
            while let Some(newline) = memchr::memchr(b'\n', &bytes[start..]) {
                newlines += 1;
                let line = &bytes[start..start + newline];
                if !line.iter().all(u8::is_ascii_whitespace) {
                    let end = start + newline + 1;
                    return Ok(Some(Self::of(line.to_vec(), start as u64, end as u64, newlines, true)));
                }
                start += newline + 1;
            }
            if wanted as u64 == len {
                let line = bytes[start..].to_vec();
                let blank = line.iter().all(u8::is_ascii_whitespace);
                return Ok((!blank).then(|| Self::of(line, start as u64, len, newlines, false)));
            }
            if wanted > MAX_HEADER_BYTES {
                // Nothing is taken from a line that is not there whole, or what follows it would be lost in silence.
                return Ok(Some(Self::of(Vec::new(), start as u64, len, newlines, false)));
            }
            size = size.saturating_mul(8);
        }
    }

    fn of(bytes: Vec<u8>, start: u64, end: u64, newlines: u64, ends_with_newline: bool) -> Self {
        let examined = examine(&bytes, Ids::Present);
        let line = newlines - u64::from(ends_with_newline);
        Self { bytes, start, end, newlines, line, ends_with_newline, records: examined.records, damage: examined.damage }
    }

    /// The header and where its record is in `bytes`, if this is one.
    pub(super) fn header(&self, path: &Path) -> Result<(Header, Range<usize>), StorageError> {
        let record = self.records.first();
        if let Some(record) = record
            && let Some(header) = decode_header(&self.bytes[record.clone()])
        {
            return Ok((header, record.clone()));
        }
        let text = well_formed(record.map_or(&[], |record| &self.bytes[record.clone()]));
        let fields = crate::session::json::Fields::parse(&text).ok();
        // Format 4 of the harness 0.84 to 0.99 has `kind` where this one has `type`.
        let is_format_4 = fields.is_some_and(|fields| fields.has("kind") && !fields.has("type"));
        Err(match is_format_4 {
            true => StorageError::Format4(path.to_owned()),
            false => StorageError::NotASession(path.to_owned()),
        })
    }
}

/// What is called for each entry of a part while its bytes are at hand.
pub(super) trait LineVisitor {
    /// Looks at one entry. `record` is the whole record, or `None` when it is longer than is kept; then `start` and
    /// `end` are its first and last bytes.
    fn entry(&mut self, head: &LineHead<'_>, record: Bytes<'_>);
}

impl LineVisitor for () {
    fn entry(&mut self, _: &LineHead<'_>, _: Bytes<'_>) {}
}

/// The bytes of a record that are at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    /// The whole record, if it is short enough.
    pub whole: Option<&'a [u8]>,
    /// Its first bytes.
    pub start: &'a [u8],
    /// Its last bytes.
    pub end: &'a [u8],
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length.
    pub len: u64,
    /// Where its line begins in the file.
    #[cfg_attr(not(feature = "search"), expect(dead_code, reason = "only a search asks"))]
    pub line_start: u64,
}

impl<'a> Bytes<'a> {
    fn of(record: &'a [u8], offset: u64, line_start: u64) -> Self {
        Self { whole: Some(record), start: record, end: record, offset, len: record.len() as u64, line_start }
    }
}

/// What a part of a file holds. Line numbers count from the part's first line, from 0.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub entries: Vec<FoundEntry>,
    pub damage: Vec<Damage>,
    pub newlines: u64,
    /// How the part ends and where its last line begins, if that has no newline.
    pub tail: Option<(Tail, u64)>,
}

/// The head of an entry, without borrows.
#[derive(Debug)]
pub(super) struct FoundEntry {
    start: u64,
    len: u64,
    line: u64,
    id: EntryId,
    parent: Option<EntryId>,
    entry_type: EntryType,
    role: Option<Role>,
    leaf_target: Option<Box<Option<EntryId>>>,
}

impl Found {
    fn push(&mut self, head: &LineHead<'_>, start: u64, len: u64, line: u64) {
        self.entries.push(FoundEntry {
            start,
            len,
            line,
            id: EntryId::from(&*head.id),
            parent: head.parent_id.as_deref().map(EntryId::from),
            entry_type: head.entry_type,
            role: head.role,
            leaf_target: head.leaf_target.as_ref().map(|target| Box::new(target.as_deref().map(EntryId::from))),
        });
    }

    /// Takes a line of any form, whose bytes are all at hand.
    pub(super) fn take_line(&mut self, bytes: &[u8], start: u64, line: u64) {
        let examined = examine(bytes, Ids::Present);
        self.visit_records(bytes, &examined.records, start, line, &mut ());
        if let Some(kind) = examined.damage {
            self.damage.push(Damage { kind, line, byte_offset: start });
        }
    }

    /// As [`Found::take_line`], for a line that is too long to be held.
    fn take_long_line<V: LineVisitor>(&mut self, file: &dyn FsFile, line: Line, number: u64, visitor: &mut V) -> io::Result<()> {
        let examined = examine_long(file, line.start..line.end)?;
        for range in examined.records {
            let len = range.end - range.start;
            let clipped = read_clipped(file, range.start, len)?;
            let kind = match read_head_slowly(&well_formed(&clipped)) {
                Head::Entry(head) => {
                    let mut edges = [vec![0; len.min(EDGE_BYTES as u64) as usize], vec![0; len.min(EDGE_BYTES as u64) as usize]];
                    read_exact_at(file, &mut edges[0], range.start)?;
                    let end_at = range.end - edges[1].len() as u64;
                    read_exact_at(file, &mut edges[1], end_at)?;
                    let [start, end] = &edges;
                    visitor.entry(&head, Bytes { whole: None, start, end, offset: range.start, len, line_start: line.start });
                    self.push(&head, range.start, len, number);
                    continue;
                }
                Head::Header => DamageKind::SecondHeader,
                Head::NoId => DamageKind::MissingId,
                Head::NotAnEntry => DamageKind::NotAnEntry,
            };
            self.damage.push(Damage { kind, line: number, byte_offset: line.start });
        }
        if let Some(kind) = examined.damage {
            self.damage.push(Damage { kind, line: number, byte_offset: line.start });
        }
        Ok(())
    }

    pub(super) fn visit_records<V: LineVisitor>(
        &mut self,
        bytes: &[u8],
        records: &[Range<usize>],
        start: u64,
        line: u64,
        visitor: &mut V,
    ) {
        for range in records {
            let record = &bytes[range.clone()];
            let text = well_formed(record);
            let at = start + range.start as u64;
            let kind = match read_head_slowly(&text) {
                Head::Entry(head) => {
                    visitor.entry(&head, Bytes::of(record, at, start));
                    self.push(&head, at, record.len() as u64, line);
                    continue;
                }
                Head::Header => DamageKind::SecondHeader,
                Head::NoId => DamageKind::MissingId,
                Head::NotAnEntry => DamageKind::NotAnEntry,
            };
            self.damage.push(Damage { kind, line, byte_offset: start });
        }
    }
}

/// Reads the lines that begin in `from..to`, to their ends. `from` is 0, a line's beginning, or any place: then the
/// first line is the one that begins behind the next newline, unless a newline stands right before `from`.
pub(super) fn scan_part<V: LineVisitor>(
    file: &dyn FsFile,
    from: u64,
    to: u64,
    file_len: u64,
    visitor: &mut V,
) -> io::Result<Found> {
    let mut found = Found::default();
    let mut buffer = vec![0u8; BLOCK_BYTES + KEPT_BYTES];
    let Some(first) = line_beginning(file, from, to, &mut buffer)? else { return Ok(found) };
    let mut scanner = LineScanner::new(first);
    // `buffer[..kept]` are the last bytes of the line that is not ended yet, `position` is what is read next.
    let (mut kept, mut position) = (0usize, first);
    let mut long_start: Vec<u8> = Vec::new();
    let mut done = false;
    while !done && position < file_len {
        let room = usize::try_from(file_len - position).unwrap_or(usize::MAX).min(BLOCK_BYTES);
        let len = match file.read_at(&mut buffer[kept..kept + room], position) {
            // The file was cut while it was read; what is left of it ends here.
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let base = position - kept as u64;
        let bytes = &buffer[..kept + len];
        let mut failed = None;
        scanner.feed(&bytes[kept..], &mut |line| {
            if line.start >= to || done {
                done = true;
                return;
            }
            let number = found.newlines;
            found.newlines += 1;
            let result = take_scanned(&mut found, file, line, number, bytes, base, &long_start, visitor);
            long_start.clear();
            failed = failed.take().or(result.err());
        });
        if let Some(error) = failed {
            return Err(error);
        }
        position += len as u64;
        let open = scanner.line_start();
        if open >= to {
            break;
        }
        // Move the open line to the front, or keep its edges if it is long.
        let in_buffer = open.saturating_sub(base) as usize;
        if open < base && !long_start.is_empty() || bytes.len() - in_buffer > KEPT_BYTES {
            if long_start.is_empty() {
                long_start.extend_from_slice(&bytes[in_buffer..in_buffer + EDGE_BYTES]);
            }
            let end = bytes.len();
            buffer.copy_within(end - EDGE_BYTES..end, 0);
            kept = EDGE_BYTES;
        } else {
            let end = bytes.len();
            buffer.copy_within(in_buffer..end, 0);
            kept = end - in_buffer;
        }
    }
    if !done
        && let Some(line) = scanner.finish()
        && line.start < to
    {
        let records_before = found.entries.len();
        let number = found.newlines;
        let base = position - kept as u64;
        take_scanned(&mut found, file, line, number, &buffer[..kept], base, &long_start, visitor)?;
        let is_record = found.entries.len() == records_before + 1
            && found.entries.last().is_some_and(|entry| entry.start == line.start && entry.start + entry.len == line.end);
        found.tail = Some((if is_record { Tail::Record } else { Tail::Fragment }, line.start));
    }
    Ok(found)
}

/// The first place in `from..to` where a line begins.
fn line_beginning(file: &dyn FsFile, from: u64, to: u64, buffer: &mut [u8]) -> io::Result<Option<u64>> {
    let Some(mut position) = from.checked_sub(1) else { return Ok(Some(0)) };
    // Mostly a line begins right there, and then nothing is read twice.
    let mut before = [0];
    if file.read_at(&mut before, position).is_ok_and(|len| len == 1) && before == *b"\n" {
        return Ok((from < to).then_some(from));
    }
    while position < to {
        let len = match file.read_at(&mut buffer[..BLOCK_BYTES], position) {
            Ok(0) => return Ok(None),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if let Some(newline) = memchr::memchr(b'\n', &buffer[..len]) {
            let first = position + newline as u64 + 1;
            return Ok((first < to).then_some(first));
        }
        position += len as u64;
    }
    Ok(None)
}

/// Takes a line that the scanner found: the usual ones by their heads, the others whole.
#[expect(clippy::too_many_arguments, reason = "the state of one loop, which is this function's only caller")]
fn take_scanned<V: LineVisitor>(
    found: &mut Found,
    file: &dyn FsFile,
    line: Line,
    number: u64,
    buffer: &[u8],
    base: u64,
    long_start: &[u8],
    visitor: &mut V,
) -> io::Result<()> {
    let at_hand = line.start.checked_sub(base).map(|start| &buffer[start as usize..(line.end - base) as usize]);
    let bytes = match at_hand {
        Some(whole) => Bytes::of(whole, line.start, line.start),
        None => {
            let end = &buffer[..(line.end - base) as usize];
            let end = &end[end.len().saturating_sub(EDGE_BYTES)..];
            Bytes { whole: None, start: long_start, end, offset: line.start, len: line.end - line.start, line_start: line.start }
        }
    };
    if line.whole
        && let Some(head) = read_head(bytes.start).or_else(|| read_head_behind(bytes.start, bytes.end))
    {
        visitor.entry(&head, bytes);
        found.push(&head, line.start, bytes.len, number);
        return Ok(());
    }
    let read;
    let whole = match at_hand {
        Some(whole) => whole,
        None if bytes.len > HELD_BYTES => return found.take_long_line(file, line, number, visitor),
        None => {
            let mut all = vec![0; usize::try_from(line.end - line.start).map_err(io::Error::other)?];
            read_exact_at(file, &mut all, line.start)?;
            read = all;
            &read
        }
    };
    let examined = examine(whole, Ids::Present);
    found.visit_records(whole, &examined.records, line.start, number, visitor);
    if let Some(kind) = examined.damage {
        found.damage.push(Damage { kind, line: number, byte_offset: line.start });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::fs::{Fs as _, OpenFor, StdFs};
    use crate::storage::testing;

    const MESSY: &[u8] = b"{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"t\",\"cwd\":\"/\"}\n\
        {\"type\":\"message\",\"id\":\"00000001\",\"parentId\":null,\"timestamp\":\"t\",\"message\":{\"role\":\"user\",\"content\":\"a \\\" } \\\\\"}}\r\n\
        \n  \n{\"type\":\"message\",\"id\":\"0000{\"type\":\"label\",\"id\":\"00000002\",\"parentId\":\"00000001\",\"timestamp\":\"t\"}\n\
        {\"id\":\"00000003\",\"type\":\"custom\",\"parentId\":\"00000001\"}\n\0\0\0\n\
        {\"type\":\"custom_message\",\"customType\":\"c\",\"content\":\"d\",\"id\":\"e\",\"parentId\":null,\"timestamp\":\"t\"}\n\
        {\"type\":\"message\",\"id\":\"00000004\",\"par";
    const PI: &[u8] = include_bytes!("../../../fixtures/pi/v3-tool-calls/input.jsonl");

    /// All that an index knows of its entries.
    fn known(index: &Index) -> String {
        let tree = &index.tree;
        let rows: Vec<_> =
            tree.iter_all().map(|row| (tree.id(row), tree.parent_id(row), tree.entry_type(row), tree.role(row))).collect();
        format!(
            "{rows:?} {:?} {:?} {} {:?} {} {} {:?}",
            index.spans,
            index.damage,
            index.len,
            index.tail,
            index.tail_start,
            index.newlines,
            tree.leaf()
        )
    }

    #[test]
    fn two_parts_give_what_one_gives_wherever_they_meet() {
        for bytes in [MESSY, PI] {
            let (_folder, path) = testing::file("s.jsonl", bytes);
            let file = StdFs.open(&path, OpenFor::Read).expect("a file");
            let whole = Index::open(&*file, &path).expect("a session");
            let len = bytes.len() as u64;
            let header_end = memchr::memchr(b'\n', bytes).expect("a header") as u64 + 1;
            let (_header, header_path) = testing::file("s.jsonl", &bytes[..header_end as usize]);
            let header_only = StdFs.open(&header_path, OpenFor::Read).expect("a file");
            let header_only = Index::open(&*header_only, &header_path).expect("a session");
            // In the longer file at every place near a newline, and at some others.
            let near_newline = |at: u64| bytes[(at as usize - 2)..(at as usize + 2).min(bytes.len())].contains(&b'\n');
            let middles = (header_end..=len).filter(|at| bytes.len() < 1500 || at % 101 == 0 || near_newline(*at));
            for middle in middles {
                let mut index = header_only.clone();
                let parts = [(header_end, middle), (middle, len)]
                    .map(|(from, to)| scan_part(&*file, from, to, len, &mut ()).expect("a readable file"));
                index.add_parts(parts.into(), len).expect("room");
                assert_eq!(known(&index), known(&whole), "in two at {middle}");
            }
        }
    }

    #[test]
    fn a_written_line_is_known_as_one_that_is_read() {
        for line in MESSY.split(|byte| *byte == b'\n').chain(PI.split(|byte| *byte == b'\n')) {
            let Some(head) = whole_head(line) else { continue };
            let mut slowly = Found::default();
            slowly.take_line(line, 7, 0);
            let mut fast = Found::default();
            fast.push(&head, 7, line.len() as u64, 0);
            assert_eq!(format!("{fast:?}"), format!("{slowly:?}"));
        }
        let heads = PI.split(|byte| *byte == b'\n').filter(|line| whole_head(line).is_some()).count();
        assert!(heads > 5, "{heads} heads");
    }
}
