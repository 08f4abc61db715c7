//! What the listing cache keeps of each file, as bytes.
//!
//! # Invariants
//! - Decoding never fails hard: bytes that are not what was encoded give `None`, and a batch's checksum finds them.
//! - A file's record holds what its summary says, what tells whether the file is still the same, and where to go on when
//!   bytes were appended.
//! - The texts of a batch stand together behind its numbers, and are not copied one by one when they are read.

use std::hash::Hasher;
use std::ops::Range;

use arcstr::ArcStr;

use super::CACHE_LINE;
use crate::session::bytes::{Reader, Writer, checksum};
use crate::session::entry::EntryType;
use crate::session::tree::{EntryHead, SessionTree};
use crate::storage::fs::FileMeta;
use crate::storage::jsonl::ResumePoint;
use crate::storage::list::{SharedText, SummaryFold};

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
    /// Whether the file is as it was, and a change would have shown.
    pub fn is_of(&self, meta: &FileMeta) -> bool {
        self.is_settled
            && (self.len, self.modified_ns, self.changed_ns) == (meta.len, meta.modified_ns, meta.changed_ns)
            && self.identity == meta.identity
    }

    pub fn encode(&self, out: &mut Writer) {
        out.number(self.len);
        out.0.extend_from_slice(&self.modified_ns.to_le_bytes());
        out.0.extend_from_slice(&self.changed_ns.to_le_bytes());
        out.number(self.identity.0);
        out.number(self.identity.1);
        out.0.push(u8::from(self.is_settled));
    }

    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            len: input.number()?,
            modified_ns: i128::from_le_bytes(input.array()?),
            changed_ns: i128::from_le_bytes(input.array()?),
            identity: (input.number()?, input.number()?),
            is_settled: input.flag()?,
        })
    }
}

/// What a file turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found<T = SharedText> {
    /// A session.
    Session(SummaryFold<T>, Option<ResumePoint>),
    /// A file without bytes or with blanks.
    Empty,
    /// Something else.
    NotASession,
    /// A session in format 4.
    Format4,
}

/// Writes records: their numbers, and their texts behind them.
#[derive(Debug, Default)]
struct RecordWriter {
    numbers: Writer,
    texts: String,
}

impl RecordWriter {
    fn record(&mut self, record: &FileRecord) {
        let out = &mut self.numbers;
        record.key.encode(out);
        match &record.found {
            Found::Session(fold, resume) => {
                out.0.push(0);
                self.fold(fold);
                self.numbers.0.push(u8::from(resume.is_some()));
                for number in resume.map(ResumePoint::to_numbers).into_iter().flatten() {
                    self.numbers.number(number);
                }
            }
            Found::Empty => out.0.push(1),
            Found::NotASession => out.0.push(2),
            Found::Format4 => out.0.push(3),
        }
    }

    fn fold(&mut self, fold: &SummaryFold) {
        self.text(Some(&fold.id));
        self.text(Some(&fold.cwd));
        self.text(fold.parent_session.as_ref());
        self.text(Some(&fold.created));
        self.text(fold.name.as_ref());
        self.text(fold.first_message.as_ref());
        let out = &mut self.numbers;
        out.number(fold.message_count);
        out.0.push(u8::from(fold.activity_ms.is_some()));
        out.0.extend_from_slice(&fold.activity_ms.unwrap_or_default().to_le_bytes());
        out.0.push(u8::from(fold.has_conversation));
        out.number(fold.branches);
        out.number(fold.damaged_lines);
    }

    /// Its length and one, or 0 for none.
    fn text(&mut self, text: Option<&SharedText>) {
        self.numbers.number(text.map_or(0, |text| text.len() as u64 + 1));
        self.texts.push_str(text.map_or("", |text| text));
    }
}

/// Joins records, each with the name of its file, and puts a checksum before them.
pub(super) fn encode_records<'a>(records: impl Iterator<Item = (&'a [u8], &'a FileRecord)>) -> Vec<u8> {
    let mut out = RecordWriter::default();
    for (name, record) in records {
        out.numbers.bytes(name);
        out.record(record);
    }
    let mut bytes = vec![0; 8];
    bytes.extend_from_slice(&(out.numbers.0.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&out.numbers.0);
    bytes.extend_from_slice(out.texts.as_bytes());
    let sum = checksum(&bytes[8..]).to_le_bytes();
    bytes[..8].copy_from_slice(&sum);
    bytes
}

/// Records that were written together.
#[derive(Debug)]
pub(super) struct Batch {
    numbers: Vec<u8>,
    texts: ArcStr,
}

/// Where in a batch a record, or what follows it, begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    numbers: usize,
    texts: usize,
}

/// Walks over the names and records of a batch, in order.
#[derive(Debug)]
pub(super) struct Records<'a> {
    batch: &'a Batch,
    numbers: Reader<'a>,
    /// Where the next text begins.
    at: usize,
}

/// A record that was walked over and not taken out.
#[derive(Debug)]
pub(super) struct Passed {
    /// What tells the file.
    pub key: FileKey,
    /// Where the record is.
    pub place: Place,
    /// The latest activity of a session, where its messages tell it; `None` for what is no session, too.
    pub activity_ms: Option<i64>,
}

impl Batch {
    /// `None` when the bytes are not as they were written.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (sum, rest) = bytes.split_first_chunk::<8>()?;
        if checksum(rest).to_le_bytes() != *sum {
            return None;
        }
        let (len, rest) = rest.split_first_chunk::<8>()?;
        let (numbers, texts) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        Some(Self { numbers: numbers.to_owned(), texts: ArcStr::from(std::str::from_utf8(texts).ok()?) })
    }

    /// What is in it.
    pub fn records(&self) -> impl Iterator<Item = (&[u8], FileRecord)> {
        self.passed().filter_map(|(name, passed)| Some((name, self.record(passed.place)?)))
    }

    /// As [`Batch::records`], but none is taken out.
    pub fn passed(&self) -> Records<'_> {
        self.records_from(Place::default())
    }

    /// The record at a place that was passed.
    pub fn record(&self, place: Place) -> Option<FileRecord> {
        let mut records = self.records_from(place);
        let key = FileKey::decode(&mut records.numbers)?;
        let found = match records.found()? {
            Found::Session(fold, resume) => Found::Session(fold.map(|range| self.texts.substr(range)), resume),
            Found::Empty => Found::Empty,
            Found::NotASession => Found::NotASession,
            Found::Format4 => Found::Format4,
        };
        Some(FileRecord { key, found })
    }

    /// What is known of the session at a place that was passed.
    pub fn session(&self, place: Place) -> Option<SummaryFold<&str>> {
        let mut records = self.records_from(place);
        FileKey::decode(&mut records.numbers)?;
        match records.found()? {
            Found::Session(fold, _) => Some(fold.map(|range| self.texts.get(range).unwrap_or_default())),
            Found::Empty | Found::NotASession | Found::Format4 => None,
        }
    }

    /// Asks memory for the record at a place; what comes back is of no meaning.
    pub fn touch(&self, place: Place) -> u64 {
        let (numbers, texts) = (self.numbers.get(place.numbers..), self.texts.as_bytes().get(place.texts..));
        let lines = |bytes: Option<&[u8]>, count: usize| {
            let lines = bytes.unwrap_or_default().iter().step_by(CACHE_LINE).take(count);
            lines.fold(0, |sum, byte| sum ^ u64::from(*byte))
        };
        lines(numbers, 3) ^ lines(texts, 4)
    }

    fn records_from(&self, place: Place) -> Records<'_> {
        let numbers = Reader(self.numbers.get(place.numbers..).unwrap_or_default());
        Records { batch: self, numbers, at: place.texts }
    }
}

impl<'a> Records<'a> {
    fn text(&mut self) -> Option<Option<Range<usize>>> {
        let Some(len) = self.numbers.number()?.checked_sub(1) else { return Some(None) };
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        // Looked at here because to take out what is no text panics.
        if !self.batch.texts.is_char_boundary(end) {
            return None;
        }
        Some(Some(std::mem::replace(&mut self.at, end)..end))
    }

    fn found(&mut self) -> Option<Found<Range<usize>>> {
        Some(match self.numbers.byte()? {
            0 => {
                let fold = self.fold()?;
                let resume = if self.numbers.flag()? {
                    let mut numbers = [0; 6];
                    for number in &mut numbers {
                        *number = self.numbers.number()?;
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
        })
    }

    fn fold(&mut self) -> Option<SummaryFold<Range<usize>>> {
        let (id, cwd, parent_session) = (self.text()??, self.text()??, self.text()?);
        let (created, name, first_message) = (self.text()??, self.text()?, self.text()?);
        let input = &mut self.numbers;
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
}

impl<'a> Iterator for Records<'a> {
    type Item = (&'a [u8], Passed);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.numbers.bytes()?;
        let place = Place { numbers: self.batch.numbers.len() - self.numbers.0.len(), texts: self.at };
        let key = FileKey::decode(&mut self.numbers)?;
        let activity_ms = match self.found()? {
            Found::Session(fold, _) => fold.activity_ms,
            Found::Empty | Found::NotASession | Found::Format4 => None,
        };
        Some((name, Passed { key, place, activity_ms }))
    }
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
    use crate::storage::fs::FileKind;

    fn record(found: Found) -> FileRecord {
        let key = FileKey { len: 300, modified_ns: -5, changed_ns: 7, identity: (1, u64::MAX), is_settled: true };
        FileRecord { key, found }
    }

    fn session() -> Found {
        let fold = SummaryFold {
            id: "s".into(),
            cwd: "/日本".into(),
            name: Some("a name".into()),
            parent_session: Some("".into()),
            message_count: 200,
            activity_ms: Some(-1),
            ..SummaryFold::default()
        };
        Found::Session(fold, ResumePoint::from_numbers([300, 7, 2, 290, 4, 1]))
    }

    fn all() -> Vec<(&'static [u8], FileRecord)> {
        let found = [session(), Found::Empty, session(), Found::NotASession, Found::Format4];
        [&b"a"[..], b"", b"c\xff", b"d", b"e"].into_iter().zip(found.map(record)).collect()
    }

    #[test]
    fn a_key_is_of_a_file_of_which_nothing_changed() {
        let FileRecord { key, .. } = record(Found::Empty);
        let meta = FileMeta {
            len: key.len,
            modified_ns: key.modified_ns,
            changed_ns: key.changed_ns,
            identity: key.identity,
            mode: 0o600,
            kind: FileKind::File,
        };
        assert!(key.is_of(&meta));
        assert!(key.is_of(&FileMeta { mode: 0o644, ..meta }), "a mode says nothing of the content");
        let others = [
            FileMeta { len: 301, ..meta },
            FileMeta { modified_ns: 5, ..meta },
            FileMeta { changed_ns: 8, ..meta },
            FileMeta { identity: (2, u64::MAX), ..meta },
            FileMeta { identity: (1, 1), ..meta },
        ];
        others.iter().for_each(|other| assert!(!key.is_of(other), "{other:?}"));
        assert!(!FileKey { is_settled: false, ..key }.is_of(&meta), "a change may not have shown");
    }

    #[test]
    fn records_come_back_as_they_were() {
        let bytes = encode_records(all().iter().map(|(name, record)| (*name, record)));
        assert_eq!(Batch::read(&bytes).expect("nothing is damaged").records().collect::<Vec<_>>(), all());
        assert_eq!(Batch::read(&encode_records([].into_iter())).expect("nothing is damaged").records().count(), 0);
    }

    #[test]
    fn a_changed_batch_is_known_as_damaged() {
        let bytes = encode_records(all().iter().map(|(name, record)| (*name, record)));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(Batch::read(&changed).is_none(), "{at}");
            assert!(Batch::read(&bytes[..at]).is_none(), "{at}");
        }
    }

    #[test]
    fn a_batch_that_was_written_wrong_ends_early() {
        let bytes = encode_records(all().iter().map(|(name, record)| (*name, record)));
        for at in 8..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] = changed[at].wrapping_add(100);
            let sum = checksum(&changed[8..]).to_le_bytes();
            changed[..8].copy_from_slice(&sum);
            assert!(Batch::read(&changed).is_none_or(|batch| batch.records().count() <= bytes.len()), "{at}");
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
