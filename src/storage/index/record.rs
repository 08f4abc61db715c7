//! What the listing cache keeps of each file, as bytes.
//!
//! # Invariants
//! - Decoding never fails hard: bytes that are not what was encoded give `None`, and a chunk's checksum finds them.
//! - A file's record holds what its summary says, what tells whether the file is still the same, and where to go on when
//!   bytes were appended.

use std::hash::Hasher;

use crate::session::entry::EntryType;
use crate::session::labels::SessionName;
use crate::session::tree::{EntryHead, SessionTree};
use crate::storage::fs::FileMeta;
use crate::storage::jsonl::ResumePoint;
use crate::storage::list::SummaryFold;

/// What is kept of one file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileRecord {
    pub key: FileKey,
    pub found: Found,
}

/// What tells a file from another, and from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileKey {
    pub len: u64,
    pub modified_ns: i128,
    pub changed_ns: i128,
    pub identity: (u64, u64),
    /// Whether a later change would show in the time.
    pub is_settled: bool,
}

impl FileKey {
    pub fn matches(&self, meta: &FileMeta) -> bool {
        (self.len, self.modified_ns, self.changed_ns) == (meta.len, meta.modified_ns, meta.changed_ns)
            && self.identity == meta.identity
    }
}

/// What a file turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// A session.
    Session(Box<SummaryFold>, Option<ResumePoint>),
    /// A file without bytes or with blanks.
    Empty,
    /// Something else.
    NotASession,
    /// A session in format 4.
    Format4,
}

/// Writes numbers and texts one after another.
#[derive(Debug, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn optional(&mut self, text: Option<&str>) {
        self.0.push(u8::from(text.is_some()));
        if let Some(text) = text {
            self.bytes(text.as_bytes());
        }
    }
}

/// Reads what a [`Writer`] wrote.
#[derive(Clone, Copy, Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.bytes()?).ok().map(str::to_owned)
    }

    fn optional(&mut self) -> Option<Option<String>> {
        if self.flag()? { self.text().map(Some) } else { Some(None) }
    }
}

impl FileRecord {
    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.number(self.key.len);
        out.0.extend_from_slice(&self.key.modified_ns.to_le_bytes());
        out.0.extend_from_slice(&self.key.changed_ns.to_le_bytes());
        out.number(self.key.identity.0);
        out.number(self.key.identity.1);
        out.0.push(u8::from(self.key.is_settled));
        match &self.found {
            Found::Session(fold, resume) => {
                out.0.push(0);
                encode_fold(&mut out, fold);
                out.0.push(u8::from(resume.is_some()));
                for number in resume.map(ResumePoint::to_numbers).into_iter().flatten() {
                    out.number(number);
                }
            }
            Found::Empty => out.0.push(1),
            Found::NotASession => out.0.push(2),
            Found::Format4 => out.0.push(3),
        }
        out.0
    }

    /// Reads what [`FileRecord::encode`] gave.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader(bytes);
        let key = FileKey {
            len: input.number()?,
            modified_ns: i128::from_le_bytes(input.array()?),
            changed_ns: i128::from_le_bytes(input.array()?),
            identity: (input.number()?, input.number()?),
            is_settled: input.flag()?,
        };
        let found = match input.byte()? {
            0 => {
                let fold = Box::new(decode_fold(&mut input)?);
                let resume = if input.flag()? {
                    let mut numbers = [0; 6];
                    for number in &mut numbers {
                        *number = input.number()?;
                    }
                    Some(ResumePoint::from_numbers(numbers)?)
                } else {
                    None
                };
                Found::Session(fold, resume)
            }
            1 => Found::Empty,
            2 => Found::NotASession,
            3 => Found::Format4,
            _ => return None,
        };
        input.0.is_empty().then_some(Self { key, found })
    }
}

fn encode_fold(out: &mut Writer, fold: &SummaryFold) {
    out.bytes(fold.id.as_bytes());
    out.bytes(fold.cwd.as_bytes());
    out.optional(fold.parent_session.as_deref());
    out.bytes(fold.created.as_bytes());
    out.optional(fold.name.get());
    out.optional(fold.first_message.as_deref());
    out.number(fold.message_count);
    out.0.push(u8::from(fold.activity_ms.is_some()));
    out.0.extend_from_slice(&fold.activity_ms.unwrap_or_default().to_le_bytes());
    out.0.push(u8::from(fold.has_conversation));
    out.number(fold.branches);
    out.number(fold.damaged_lines);
}

fn decode_fold(input: &mut Reader<'_>) -> Option<SummaryFold> {
    let (id, cwd, parent_session, created) = (input.text()?, input.text()?, input.optional()?, input.text()?);
    let mut name = SessionName::default();
    name.set(input.optional()?.as_deref());
    let first_message = input.optional()?;
    let message_count = input.number()?;
    let has_activity = input.flag()?;
    let activity_ms = i64::from_le_bytes(input.array()?);
    Some(SummaryFold {
        id,
        cwd,
        parent_session,
        created,
        name,
        message_count,
        first_message,
        activity_ms: has_activity.then_some(activity_ms),
        has_conversation: input.flag()?,
        branches: input.number()?,
        damaged_lines: input.number()?,
    })
}

/// Joins records, each with the name of its file, and puts a checksum before them.
pub(super) fn encode_chunk<'a>(records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut out = Writer(vec![0; 8]);
    for (name, record) in records {
        out.bytes(name);
        out.bytes(record);
    }
    let sum = checksum(&out.0[8..]).to_le_bytes();
    out.0[..8].copy_from_slice(&sum);
    out.0
}

/// The names and records of a chunk; `None` when it is damaged.
pub(super) fn decode_chunk(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let (sum, rest) = bytes.split_first_chunk::<8>()?;
    if checksum(rest).to_le_bytes() != *sum {
        return None;
    }
    let mut input = Reader(rest);
    let mut records = Vec::new();
    while !input.0.is_empty() {
        records.push((input.bytes()?, input.bytes()?));
    }
    Some(records)
}

/// A hash of eight bytes at a time: what it has to find are accidents, quickly.
fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

/// What of a tree is needed to go on counting its branches: ids, parents, and what speaks. About five bytes an entry.
pub(super) fn encode_tree(tree: &SessionTree) -> Vec<u8> {
    let mut out = Writer::default();
    let mut previous = None;
    for index in tree.iter_all() {
        let (id, parent) = (tree.id(index), tree.parent_id(index));
        let (id, parent) = (id.as_str().to_owned(), parent.map(|parent| parent.as_str().to_owned()));
        let follows = parent.is_some() && parent == previous;
        let kind = if follows { 0 } else { 1 + u8::from(parent.is_some()) };
        let (packed, packed_parent) = (packed(&id), parent.as_deref().and_then(packed));
        let flags =
            u8::from(tree.speaks(index)) | kind << 1 | u8::from(packed.is_some()) << 3 | u8::from(packed_parent.is_some()) << 4;
        out.0.push(flags);
        encode_id(&mut out, packed, &id);
        if let (2, Some(parent)) = (kind, &parent) {
            encode_id(&mut out, packed_parent, parent);
        }
        previous = Some(id);
    }
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&out.0);
    out.0.extend_from_slice(&hasher.finish().to_le_bytes());
    out.0
}

/// The tree of what [`encode_tree`] gave; right in walks and branches, and not in the types of its entries.
pub(super) fn decode_tree(bytes: &[u8]) -> Option<SessionTree> {
    let (rows, sum) = bytes.split_last_chunk::<8>()?;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(rows);
    if hasher.finish().to_le_bytes() != *sum {
        return None;
    }
    let mut input = Reader(rows);
    let mut tree = SessionTree::with_capacity(rows.len() / 5);
    let mut previous: Option<String> = None;
    while !input.0.is_empty() {
        let flags = input.byte()?;
        let id = decode_id(&mut input, flags & 8 != 0)?;
        let explicit;
        let parent = match flags >> 1 & 3 {
            0 => Some(previous.as_deref()?),
            1 => None,
            _ => {
                explicit = decode_id(&mut input, flags & 16 != 0)?;
                Some(explicit.as_str())
            }
        };
        let entry_type = if flags & 1 != 0 { EntryType::CustomMessage } else { EntryType::Unknown };
        tree.push(EntryHead { id: &id, parent_id: parent, entry_type, role: None, leaf_target: None }).ok()?;
        previous = Some(id);
    }
    Some(tree)
}

/// An id of 8 lowercase hex digits as a number.
fn packed(id: &str) -> Option<u32> {
    let is_hex = id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_hex { u32::from_str_radix(id, 16).ok() } else { None }
}

fn encode_id(out: &mut Writer, packed: Option<u32>, id: &str) {
    match packed {
        Some(number) => out.0.extend_from_slice(&number.to_le_bytes()),
        None => out.bytes(id.as_bytes()),
    }
}

fn decode_id(input: &mut Reader<'_>, is_packed: bool) -> Option<String> {
    if is_packed { input.array().map(|bytes| format!("{:08x}", u32::from_le_bytes(bytes))) } else { input.text() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(found: Found) -> FileRecord {
        let key = FileKey { len: 300, modified_ns: -5, changed_ns: 7, identity: (1, u64::MAX), is_settled: true };
        FileRecord { key, found }
    }

    fn session() -> Found {
        let mut fold = SummaryFold { id: "s".into(), cwd: "/日本".into(), message_count: 200, ..SummaryFold::default() };
        fold.name.set(Some("a name"));
        fold.activity_ms = Some(-1);
        Found::Session(Box::new(fold), ResumePoint::from_numbers([300, 7, 2, 290, 4, 1]))
    }

    #[test]
    fn records_come_back_as_they_were() {
        for found in [session(), Found::Empty, Found::NotASession, Found::Format4] {
            let record = record(found);
            let bytes = record.encode();
            assert_eq!(FileRecord::decode(&bytes), Some(record));
            for cut in 0..bytes.len() {
                assert_eq!(FileRecord::decode(&bytes[..cut]), None, "{cut}");
            }
        }
    }

    #[test]
    fn a_changed_chunk_is_known_as_damaged() {
        let record = record(session()).encode();
        let chunk = encode_chunk([(&b"a"[..], &record[..]), (&b"b"[..], &b""[..])].into_iter());
        assert_eq!(decode_chunk(&chunk), Some(vec![(&b"a"[..], &record[..]), (&b"b"[..], &b""[..])]));
        for at in 0..chunk.len() {
            let mut changed = chunk.clone();
            changed[at] ^= 0x10;
            assert_eq!(decode_chunk(&changed), None, "{at}");
            assert_eq!(decode_chunk(&chunk[..at]), None, "{at}");
        }
    }

    #[test]
    fn a_tree_comes_back_with_its_parents_and_branches() {
        let rows = [
            ("00000001", None, EntryType::CustomMessage),
            ("00000002", Some("00000001"), EntryType::CustomMessage),
            ("long id", Some("later"), EntryType::CustomMessage),
            ("later", Some("00000001"), EntryType::Custom),
            ("00000002", Some("long id"), EntryType::Compaction),
            ("00000003", Some("nowhere"), EntryType::BranchSummary),
        ];
        let mut tree = SessionTree::default();
        for (id, parent_id, entry_type) in rows {
            tree.push(EntryHead { id, parent_id, entry_type, role: None, leaf_target: None }).expect("there is room");
        }
        let bytes = encode_tree(&tree);
        let again = decode_tree(&bytes).expect("nothing is damaged");
        let shape = |tree: &SessionTree| -> Vec<_> {
            tree.iter_all()
                .map(|index| (tree.id(index), tree.parent_id(index), tree.is_shadowed(index), tree.speaks(index)))
                .collect()
        };
        assert_eq!(shape(&again), shape(&tree));
        assert_eq!(again.branch_count(), tree.branch_count());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(decode_tree(&changed).is_none(), "{at}");
        }
    }
}
