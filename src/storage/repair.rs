//! Mends a session file: a copy without damage takes its place, and the old bytes stay as a backup.
//!
//! What is done is decided first, as a [`RepairPlan`], from the bytes alone. A plan holds no lines: what changes in one is
//! kept as edits, and writing reads each line again and does them once more.
//! ```text
//! lines -> records (torn ones go, fused ones part) -> text (bad bytes, control characters) -> ids -> parents -> targets
//! ```
//!
//! # Invariants
//! - The plan is pure: the same bytes give the same plan, new ids included. A sound file gives an empty one, and so does
//!   what a plan wrote.
//! - No entry that can be read is lost, and a line that needs no mending keeps its bytes. What cannot be read stays in
//!   the backup.
//! - What an entry named before stands in it as `repairedId`, `repairedParentId` or `repairedFirstKeptEntryId`.
//! - `O(file length)` time. Memory: a few hundred bytes an entry and a few copies of the longest line, however long the
//!   file is; one of version 1 or 2 is held besides, as by every reader. Nothing here recurses.
//!
//! # Crash
//! The original is whole until the rename that puts the copy in its place (see [`rewrite`](super::jsonl::rewrite)).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::session::entry::{EntryKind, EntryType, FORMAT_VERSION};
use crate::session::json::{escape_controls, well_formed};
use crate::session::tree::EntryIndex;
use crate::storage::fs::{FileKind, Fs};
use crate::storage::jsonl::rewrite::write_all;
use crate::storage::jsonl::{
    Head, Ids, JsonlStorage, MARK, Members, clear_member, decode_entry, examine, names_a_root, read_head, read_head_behind,
    read_head_slowly, replace_member, upgraded_header,
};
use crate::storage::lock::OwnerLock;
use crate::storage::repo::id_in_file_name;
use crate::storage::{DamageKind, SessionRead, StorageError};

mod links;

/// One thing that a repair does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairAction {
    /// The line of the file as it is, counted from 1.
    pub line: u64,
    /// What is done.
    pub kind: RepairKind,
    /// A sentence for people.
    pub message: String,
}

/// What a repair can do with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepairKind {
    /// The header of an old version becomes one of this version, and the entries with it.
    Upgrade,
    /// The byte order mark before the header is left out.
    DropMark,
    /// The header gets an id.
    GiveSessionId,
    /// A line, or a part of one, of which nothing can be read as an entry is left out.
    DropLine,
    /// A second header is left out.
    DropHeader,
    /// A line that stands in the file again, word for word, is left out.
    DropRepeated,
    /// Each record of a fused line gets its own line.
    SplitLine,
    /// NUL bytes are left out.
    StripNuls,
    /// Raw control characters are escaped.
    EscapeControls,
    /// Bytes that are not UTF-8 become U+FFFD.
    ReplaceBadBytes,
    /// An entry gets an id.
    GiveId,
    /// An entry whose id a later line has too gets another.
    ChangeId,
    /// An entry whose parent is not in the file, or not named, hangs from an earlier one.
    Rehang,
    /// A ring of parents is cut here.
    CutRing,
    /// An entry that does nothing, or is no JSON, becomes a `custom` entry that holds it.
    KeepAsCustom,
    /// A compaction whose first kept entry is not in the file keeps nothing before itself.
    KeepNothing,
}

impl RepairKind {
    /// The name in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade",
            Self::DropMark => "dropByteOrderMark",
            Self::GiveSessionId => "giveSessionId",
            Self::DropLine => "dropLine",
            Self::DropHeader => "dropHeader",
            Self::DropRepeated => "dropRepeated",
            Self::SplitLine => "splitLine",
            Self::StripNuls => "stripNuls",
            Self::EscapeControls => "escapeControls",
            Self::ReplaceBadBytes => "replaceBadBytes",
            Self::GiveId => "giveId",
            Self::ChangeId => "changeId",
            Self::Rehang => "rehang",
            Self::CutRing => "cutRing",
            Self::KeepAsCustom => "keepAsCustom",
            Self::KeepNothing => "keepNothing",
        }
    }
}

/// What is to be done with a file. Without actions it is sound.
#[derive(Clone, Debug)]
pub struct RepairPlan {
    actions: Vec<RepairAction>,
    pieces: Vec<Piece>,
}

/// A plan that is being made for a session.
struct Draft<'a> {
    session: &'a JsonlStorage,
    actions: Vec<RepairAction>,
    pieces: Vec<Piece>,
    /// The piece that is the header.
    header: Option<usize>,
}

/// What stands in the mended file: lines of the original, and lines that were changed.
#[derive(Clone, Debug)]
struct Piece {
    /// The line that it comes from.
    line: u64,
    place: Place,
    /// What is done with its text, in this order.
    edits: Vec<Edit>,
    is_dropped: bool,
}

/// Where the text of a piece is.
#[derive(Clone, Debug)]
enum Place {
    /// The header of version 1.
    Header,
    /// An entry of version 1, as it was migrated.
    Entry(EntryIndex),
    /// A record in a line of the file.
    Line {
        /// The line, with the newline.
        raw: Range<u64>,
        record: Range<u64>,
        /// Whether the line can be copied as it is if nothing is done with the record.
        stands_alone: bool,
    },
}

/// A change of one line, by which the same bytes always become the same bytes.
#[derive(Clone, Debug)]
enum Edit {
    /// It becomes JSON for a strict reader.
    Mend,
    /// The header becomes one of the version that is written.
    Upgrade,
    /// A member gets this text.
    Set(&'static str, String),
    /// The parent becomes null.
    ClearParent,
    /// A `custom` entry that holds it takes its place.
    Wrap(Box<Wrapping>),
}

/// The `custom` entry that takes the place of another.
#[derive(Clone, Debug)]
struct Wrapping {
    id: String,
    parent: Option<String>,
    wire_type: String,
    keeps: Keeps,
}

/// How a `custom` entry holds another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// As the JSON that it is.
    Json,
    /// As text.
    Text,
}

impl Edit {
    fn parent(parent: Option<&str>) -> Self {
        parent.map_or(Self::ClearParent, |parent| Self::Set("parentId", parent.to_owned()))
    }

    fn apply(&self, line: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Mend => match mend(&line) {
                Mended::To { text, .. } => text,
                Mended::Sound | Mended::Hopeless => line,
            },
            Self::Upgrade => {
                let mut text = upgraded_header(&line);
                text.pop();
                text
            }
            Self::Set(key, value) => replace_member(&line, key, value),
            Self::ClearParent => clear_member(&line, "parentId"),
            Self::Wrap(wrapping) => wrapping.around(&line),
        }
    }
}

impl Wrapping {
    fn around(&self, line: &[u8]) -> Vec<u8> {
        let text = match self.keeps {
            Keeps::Json => String::from_utf8_lossy(line),
            Keeps::Text => well_formed(line),
        };
        let timestamp = Members::of(&text).find(|(key, _)| key == "timestamp").map(|(_, value)| value);
        let timestamp = timestamp.and_then(|value| serde_json::from_str::<String>(value).ok()).unwrap_or_default();
        let data = match self.keeps {
            Keeps::Json => String::from_utf8_lossy(line),
            Keeps::Text => Cow::Owned(quote(&String::from_utf8_lossy(line))),
        };
        let parent = self.parent.as_deref().map_or_else(|| "null".to_owned(), quote);
        let line = format!(
            r#"{{"type":"custom","id":{},"parentId":{parent},"timestamp":{},"customType":{},"data":{data}}}"#,
            quote(&self.id),
            quote(&timestamp),
            quote(&format!("repaired:{}", self.wire_type)),
        );
        line.into_bytes().into_iter().filter(|byte| *byte >= 0x20).collect()
    }
}

/// What [`mend`] makes of a record.
enum Mended {
    /// It is JSON.
    Sound,
    /// It becomes this, which is JSON.
    To { text: Vec<u8>, was_utf8: bool, was_plain: bool },
    /// It cannot become JSON.
    Hopeless,
}

/// Makes a record JSON for a strict reader.
fn mend(record: &[u8]) -> Mended {
    let was_utf8 = std::str::from_utf8(record).is_ok();
    let text = String::from_utf8_lossy(record);
    let was_plain = is_json(&text);
    if was_plain {
        return match was_utf8 {
            true => Mended::Sound,
            false => Mended::To { text: text.into_owned().into_bytes(), was_utf8, was_plain },
        };
    }
    let mut escaped = escape_controls(&text);
    // What stands between values is no part of any.
    escaped.retain(|char| char >= ' ' || matches!(char, '\t' | '\r'));
    match is_json(&escaped) {
        true => Mended::To { text: escaped.into_bytes(), was_utf8, was_plain },
        false => Mended::Hopeless,
    }
}

impl Piece {
    /// Whether its line is copied as it is.
    fn is_copied(&self) -> Option<&Range<u64>> {
        match &self.place {
            Place::Line { raw, stands_alone: true, .. } if self.edits.is_empty() => Some(raw),
            Place::Line { .. } | Place::Header | Place::Entry(_) => None,
        }
    }

    /// The record as it becomes, without a newline.
    fn text(&self, session: &JsonlStorage) -> Result<Vec<u8>, StorageError> {
        let text = match &self.place {
            Place::Header => session.header_line().to_vec(),
            Place::Entry(index) => session.line(*index)?,
            Place::Line { record, .. } => {
                let mut text = Vec::with_capacity(usize::try_from(record.end - record.start).unwrap_or_default());
                session.copy_bytes(record.start, record.end, &mut |bytes| {
                    text.extend_from_slice(bytes);
                    Ok(())
                })?;
                text
            }
        };
        Ok(self.edits.iter().fold(text, |text, edit| edit.apply(text)))
    }
}

/// An entry of the file: what it is called and where it hangs.
#[derive(Clone, Debug)]
struct Row {
    piece: usize,
    /// Empty for an entry without an id, until it gets one.
    id: String,
    parent: Option<String>,
    lacks: Lacks,
    /// Whether its id is there and empty, so that others may name it.
    is_named_empty: bool,
    /// How long its record is once its text is mended.
    len: usize,
    /// Whether it may name other entries than its parent, or says nothing that can be read.
    names_others: bool,
}

/// What an entry has no word of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    Nothing,
    Parent,
    Id,
    IdAndParent,
}

impl RepairPlan {
    /// Decides how a session is mended.
    ///
    /// # Errors
    /// When the file cannot be read, or a line of it is too long to be read.
    pub fn of(session: &JsonlStorage) -> Result<Self, StorageError> {
        let path = session.path().unwrap_or(Path::new(""));
        if session.damage().iter().any(|damage| damage.kind == DamageKind::TooLong) {
            return Err(StorageError::TooLong(path.to_owned()));
        }
        let mut draft = Draft { session, actions: Vec::new(), pieces: Vec::new(), header: None };
        if session.begins_with_mark()? {
            let line = session.header_place().0;
            draft.add(line, RepairKind::DropMark, "the byte order mark, with which Pi does not open the file, is left out");
        }
        let rows = match session.header().version < 2 {
            true => draft.take_chain()?,
            false => draft.take_lines()?,
        };
        if session.header().id.is_empty() {
            draft.give_session_id(path);
        }
        draft.mend_links(rows, &session.header().id)?;
        let Draft { mut actions, pieces, .. } = draft;
        actions.sort_by_key(|action| action.line);
        // What is done to several records of a line is told once.
        let (mut line, mut told) = (0, HashSet::new());
        actions.retain(|action| {
            if action.line != line {
                line = action.line;
                told.clear();
            }
            told.insert((action.kind, action.message.clone()))
        });
        if let (true, Some(first)) = (session.header().version < 2 && !actions.is_empty(), pieces.first()) {
            let message = "a session of version 1, where entries have no ids, becomes one of version 3".to_owned();
            actions.insert(0, RepairAction { line: first.line, kind: RepairKind::Upgrade, message });
        }
        Ok(Self { actions, pieces })
    }

    /// What is done, in the order of the lines. Nothing for a sound file.
    pub fn actions(&self) -> &[RepairAction] {
        &self.actions
    }

    /// Gives the mended file, part by part. `session` is what the plan was made of.
    ///
    /// # Errors
    /// Those of `out`; when the file cannot be read.
    pub fn write(
        &self,
        session: &JsonlStorage,
        out: &mut dyn FnMut(&[u8]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut copied = 0..0;
        for piece in self.pieces.iter().filter(|piece| !piece.is_dropped) {
            match piece.is_copied() {
                Some(raw) if raw.start == copied.end => copied.end = raw.end,
                Some(raw) => {
                    session.copy_bytes(copied.start, copied.end, out)?;
                    copied = raw.clone();
                }
                None => {
                    session.copy_bytes(copied.start, copied.end, out)?;
                    copied = 0..0;
                    out(&piece.text(session)?)?;
                    out(b"\n")?;
                }
            }
        }
        session.copy_bytes(copied.start, copied.end, out)
    }
}

impl Draft<'_> {
    fn add(&mut self, line: u64, kind: RepairKind, message: impl Into<String>) {
        self.actions.push(RepairAction { line, kind, message: message.into() });
    }

    fn text(&self, piece: usize) -> Result<Vec<u8>, StorageError> {
        self.pieces[piece].text(self.session)
    }

    fn edit(&mut self, piece: usize, edit: Edit) {
        self.pieces[piece].edits.push(edit);
    }

    fn push(&mut self, line: u64, place: Place) -> usize {
        self.pieces.push(Piece { line, place, edits: Vec::new(), is_dropped: false });
        self.pieces.len() - 1
    }

    /// The entries of version 1 as a chain of version 3, and what became of the lines that are none.
    fn take_chain(&mut self) -> Result<Vec<Row>, StorageError> {
        let session = self.session;
        let piece = self.push(session.header_place().0, Place::Header);
        self.header = Some(piece);
        self.mend_text(piece, session.header_line());
        self.edit(piece, Edit::Upgrade);
        for damage in session.damage() {
            self.tell(damage.line, damage.kind, 2);
        }
        let of_controls = session.damage().iter().filter(|damage| damage.kind == DamageKind::ControlCharacter);
        let told: HashSet<_> = of_controls.map(|damage| damage.line).collect();
        let mut rows = Vec::new();
        for index in session.tree().iter_all() {
            let (line, text) = (session.line_number(index), session.line(index)?);
            // Its text was mended when it was migrated, which is to be told.
            let raw = session.raw_line(index)?;
            if std::str::from_utf8(&raw).is_err() {
                self.add(line, RepairKind::ReplaceBadBytes, "bytes that are not UTF-8 become U+FFFD");
            }
            let is_mended = !is_json(&String::from_utf8_lossy(&raw)) && is_json(&String::from_utf8_lossy(&text));
            if is_mended && !told.contains(&line) {
                self.tell(line, DamageKind::ControlCharacter, 1);
            }
            let piece = self.push(line, Place::Entry(index));
            rows.extend(self.take_record(piece, &text, Stands::Migrated));
        }
        Ok(rows)
    }

    /// The entries of a file that has ids.
    fn take_lines(&mut self) -> Result<Vec<Row>, StorageError> {
        let session = self.session;
        let mut rows = Vec::new();
        let (mut number, mut start) = (0, 0);
        // The beginning of a line that goes on in the next block.
        let mut begun = Vec::new();
        session.copy_bytes(0, session.len_bytes(), &mut |block| {
            let mut rest = block;
            while let Some(newline) = memchr::memchr(b'\n', rest) {
                let (end, behind) = rest.split_at(newline + 1);
                rest = behind;
                let begins = std::mem::take(&mut begun);
                let line = if begins.is_empty() { Cow::Borrowed(end) } else { Cow::Owned([&begins, end].concat()) };
                number += 1;
                self.take_line(&line, number, start, &mut rows);
                start += line.len() as u64;
            }
            begun.extend_from_slice(rest);
            Ok(())
        })?;
        if !begun.is_empty() {
            self.take_line(&begun, number + 1, start, &mut rows);
        }
        Ok(rows)
    }

    /// The entries of one line, which begins at `start` and has its newline.
    fn take_line(&mut self, raw: &[u8], number: u64, start: u64, rows: &mut Vec<Row>) {
        let bom_len = if start == 0 && raw.starts_with(MARK) { MARK.len() } else { 0 };
        let line = &raw[bom_len..];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let range = start..start + raw.len() as u64;
        let line_start = start + bom_len as u64;
        let is_blank =
            line.iter().all(u8::is_ascii_whitespace) && (self.header.is_none() || examine(line, Ids::Present).damage.is_none());
        let examined = if is_blank { Default::default() } else { examine(line, Ids::Present) };
        let place = |record: &Range<usize>, stands_alone| Place::Line {
            // On a line of its own the mark is white space, and stays.
            raw: range.start + if is_blank { 0 } else { bom_len as u64 }..range.end,
            record: line_start + record.start as u64..line_start + record.end as u64,
            stands_alone,
        };
        if is_blank {
            self.push(number, place(&(0..line.len()), true));
        }
        if let Some(kind) = examined.damage.filter(|kind| *kind != DamageKind::ControlCharacter) {
            self.tell(number, kind, examined.records.len());
        }
        let stands_alone = examined.damage.is_none_or(|kind| kind == DamageKind::ControlCharacter);
        for range in examined.records {
            let piece = self.push(number, place(&range, stands_alone));
            let record = &line[range];
            if self.header.is_none() {
                self.header = Some(piece);
                self.mend_text(piece, record);
                continue;
            }
            let is_whole = stands_alone && bom_len == 0 && record.len() == line.len() && record.iter().all(|byte| *byte >= 0x20);
            rows.extend(self.take_record(piece, record, if is_whole { Stands::Whole } else { Stands::Within }));
        }
    }

    /// Tells what becomes of a damaged line that has this many records.
    fn tell(&mut self, line: u64, kind: DamageKind, records: usize) {
        let (kind, message) = match kind {
            DamageKind::Torn => (RepairKind::DropLine, "the record is cut off; the line is left out"),
            DamageKind::Fused if records > 1 => {
                (RepairKind::SplitLine, "several records in one line; each whole one gets its own line")
            }
            DamageKind::Fused => {
                (RepairKind::SplitLine, "a part of a record beside a whole one; the whole one gets its own line")
            }
            DamageKind::NulPadding => (RepairKind::StripNuls, "NUL bytes are left out"),
            DamageKind::ControlCharacter => (RepairKind::EscapeControls, "raw control characters are escaped"),
            DamageKind::NotARecord => (RepairKind::DropLine, "this is not a JSON object; the line is left out"),
            DamageKind::NotAnEntry => (RepairKind::DropLine, "an object without a type is no entry; it is left out"),
            DamageKind::MissingId => (RepairKind::DropLine, "an entry without an id that has no place; it is left out"),
            DamageKind::SecondHeader => (RepairKind::DropHeader, "a second header is left out"),
            DamageKind::TooLong => (RepairKind::DropLine, "longer than can be addressed; it is left out"),
        };
        self.add(line, kind, message);
    }

    /// Mends the text of a record and takes it as an entry; `None` when it is none, and then it goes.
    fn take_record(&mut self, piece: usize, record: &[u8], stands: Stands) -> Option<Row> {
        let line = self.pieces[piece].line;
        let mended = self.mend_text(piece, record);
        let is_json = mended.is_some();
        let record = mended.as_deref().unwrap_or(record);
        let text = well_formed(record);
        // As a reader does, which finds the id at the end of a whole line even if its middle is no JSON.
        let head = match stands {
            Stands::Whole => whole_head(&text),
            Stands::Within | Stands::Migrated => read_head_slowly(&text),
        };
        let row = Row {
            piece,
            id: String::new(),
            parent: None,
            lacks: Lacks::Nothing,
            is_named_empty: false,
            len: record.len(),
            names_others: true,
        };
        let kind = match head {
            Head::Entry(head) => {
                let (id, parent) = (head.id.into_owned(), head.parent_id.map(Cow::into_owned));
                let is_named_empty = id.is_empty();
                let lacks = match parent.is_none() && !names_a_root(&text) {
                    true if is_named_empty => Lacks::IdAndParent,
                    true => Lacks::Parent,
                    false if is_named_empty => Lacks::Id,
                    false => Lacks::Nothing,
                };
                let row = Row { lacks, is_named_empty, ..row };
                if is_json {
                    return Some(Row { id, parent, names_others: names_others(record), ..row });
                }
                let wire_type = head.entry_type.as_wire().to_owned();
                let wrapping = Wrapping { id: id.clone(), parent: parent.clone(), wire_type, keeps: Keeps::Text };
                let len = wrapping.around(record).len();
                self.edit(piece, Edit::Wrap(Box::new(wrapping)));
                self.add(line, RepairKind::KeepAsCustom, "the record is no JSON; a custom entry holds its text");
                return Some(Row { id, parent, len, names_others: false, ..row });
            }
            Head::NoId if is_json => {
                let parent = Members::of(&text).find(|(key, _)| key == "parentId").map(|(_, value)| value);
                let parent = parent.and_then(|parent| serde_json::from_str::<Option<String>>(parent).ok());
                let lacks = if parent.is_some() { Lacks::Id } else { Lacks::IdAndParent };
                return Some(Row { parent: parent.flatten(), lacks, ..row });
            }
            Head::Header => DamageKind::SecondHeader,
            Head::NoId | Head::NotAnEntry if is_json => DamageKind::NotAnEntry,
            Head::NoId | Head::NotAnEntry => DamageKind::NotARecord,
        };
        self.pieces[piece].is_dropped = true;
        self.tell(line, kind, 1);
        None
    }

    /// Makes a record JSON for a strict reader, and gives it; `None` when that cannot be.
    fn mend_text<'r>(&mut self, piece: usize, record: &'r [u8]) -> Option<Cow<'r, [u8]>> {
        let line = self.pieces[piece].line;
        match mend(record) {
            Mended::Sound => Some(Cow::Borrowed(record)),
            Mended::Hopeless => None,
            Mended::To { text, was_utf8, was_plain } => {
                self.edit(piece, Edit::Mend);
                if !was_utf8 {
                    self.add(line, RepairKind::ReplaceBadBytes, "bytes that are not UTF-8 become U+FFFD");
                }
                if !was_plain {
                    self.tell(line, DamageKind::ControlCharacter, 1);
                }
                Some(Cow::Owned(text))
            }
        }
    }

    fn give_session_id(&mut self, path: &Path) {
        let Some(piece) = self.header else { return };
        let id = id_in_file_name(path).map_or_else(
            || format!("repaired-{:016x}", crate::storage::jsonl::stable_hash(&path.to_string_lossy(), 0, 0)),
            str::to_owned,
        );
        self.add(self.pieces[piece].line, RepairKind::GiveSessionId, format!("the header has no id; it gets {id}"));
        self.edit(piece, Edit::Set("id", id));
    }
}

/// How a record stands in its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// The line is nothing but this record.
    Whole,
    /// There is something else in the line.
    Within,
    /// It was made from a line of version 1.
    Migrated,
}

/// Whether a record is an entry that may name others than its parent, in its payload, or whose payload is none.
fn names_others(record: &[u8]) -> bool {
    decode_entry(record).is_none_or(|entry| match entry.kind {
        EntryKind::Leaf(_)
        | EntryKind::Label(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Compaction(_)
        | EntryKind::Unknown { .. } => true,
        EntryKind::Message(payload) => payload.message.is_unreadable(),
        EntryKind::BranchSummary(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::Custom(_)
        | EntryKind::CustomMessage(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Usage(_) => false,
    })
}

/// The head of a line that is one record, as a reader takes it.
fn whole_head(text: &str) -> Head<'_> {
    let quick = read_head(text.as_bytes()).or_else(|| read_head_behind(text.as_bytes(), text.as_bytes()));
    quick.map_or_else(|| read_head_slowly(text), Head::Entry)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// What a repair did.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// What was decided and done.
    pub actions: Vec<RepairAction>,
    /// The old bytes; `None` when the file is sound and was left alone.
    pub backup: Option<PathBuf>,
}

/// What to do when somebody holds the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfHeld {
    /// Refuse.
    Refuse,
    /// Go on; the holder reads the mended file before it writes again.
    GoOn,
}

/// Decides how a session file would be mended, and changes nothing.
///
/// # Errors
/// [`StorageError::IsALink`], [`StorageError::UnsupportedVersion`] for a newer format; when the file cannot be read, is
/// empty or no session.
pub fn plan_repair(fs: &Arc<dyn Fs>, path: &Path) -> Result<RepairPlan, StorageError> {
    RepairPlan::of(&open(fs, path)?)
}

fn open(fs: &Arc<dyn Fs>, path: &Path) -> Result<JsonlStorage, StorageError> {
    let meta = fs.link_metadata(path).map_err(|source| StorageError::io("read", path, source))?;
    if meta.kind == FileKind::Link {
        return Err(StorageError::IsALink(path.to_owned()));
    }
    let session = JsonlStorage::open(fs.clone(), path)?;
    match session.header().version {
        version if version > FORMAT_VERSION => Err(StorageError::UnsupportedVersion { version, path: path.to_owned() }),
        _ => Ok(session),
    }
}

/// Mends a session file. The old bytes stay beside it as a backup; a sound file is left alone.
///
/// # Errors
/// As for [`plan_repair`]; [`StorageError::Busy`] while somebody holds the session; what the system says. Then the file
/// is as it was.
pub fn repair_file(fs: &Arc<dyn Fs>, path: &Path, if_held: IfHeld) -> Result<Repaired, StorageError> {
    // Asks whether it may be done before there is a lock file.
    open(fs, path)?;
    let _owner = match if_held {
        IfHeld::Refuse => Some(OwnerLock::take(fs, path, "repair")?),
        IfHeld::GoOn => None,
    };
    for attempt in 0..16 {
        let state = || fs.metadata(path).map_err(|source| StorageError::io("read", path, source));
        let (held, before, session) = if attempt < 3 {
            let before = state()?;
            (None, before, open(fs, path)?)
        } else {
            // Others append so often that it always grew. Now they wait.
            let session = open(fs, path)?;
            let held = session.lock()?;
            (Some(held), state()?, session.read_again()?)
        };
        let plan = RepairPlan::of(&session)?;
        if plan.actions.is_empty() {
            return Ok(Repaired { actions: plan.actions, backup: None });
        }
        match session.replace_with(held.as_ref(), &mut |file| {
            // Its lines are read once more, and must be those of the plan.
            if !fs.metadata(path).is_ok_and(|now| now == before) {
                return Err(StorageError::Replaced(path.to_owned()));
            }
            plan.write(&session, &mut |bytes| write_all(file, bytes))
        }) {
            Ok(backup) => return Ok(Repaired { actions: plan.actions, backup: Some(backup) }),
            // It grew while it was copied.
            Err(StorageError::Replaced(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StorageError::Replaced(path.to_owned()))
}

#[cfg(test)]
mod tests;
