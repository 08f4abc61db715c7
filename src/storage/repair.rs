//! Mends a session file: a copy without damage takes its place, and the old bytes stay as a backup.
//!
//! What is done is decided first, as a [`RepairPlan`], from the bytes alone:
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
//! - `O(file length)` time and memory. Nothing here recurses.
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
use crate::storage::fs::{FileKind, Fs};
use crate::storage::jsonl::rewrite::write_all;
use crate::storage::jsonl::{
    Head, Ids, JsonlStorage, Members, examine, read_head, read_head_behind, read_head_slowly, replace_member, upgraded_header,
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
    /// An entry whose parent is not in the file hangs from an earlier one.
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
    original: Vec<u8>,
    pieces: Vec<Piece>,
}

/// What stands in the mended file: lines of the original, and lines that were changed.
#[derive(Clone, Debug)]
struct Piece {
    /// The line that it comes from.
    line: u64,
    /// Its line in the original, with the newline.
    raw: Range<usize>,
    /// The record in that line.
    record: Range<usize>,
    /// The record in its place, where it is not copied with its line.
    text: Option<Vec<u8>>,
    is_dropped: bool,
}

/// An entry of the file: what it is called and where it hangs.
#[derive(Clone, Debug)]
struct Row {
    piece: usize,
    /// Empty for an entry without an id, until it gets one.
    id: String,
    parent: Option<String>,
    lacks: Lacks,
}

/// What an entry has no word of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    Nothing,
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
        let mut plan = Self { actions: Vec::new(), original: Vec::new(), pieces: Vec::new() };
        let rows = match session.header().version < 2 {
            true => plan.take_chain(session)?,
            false => {
                session.copy_bytes(0, session.len_bytes(), &mut |bytes| {
                    plan.original.extend_from_slice(bytes);
                    Ok(())
                })?;
                plan.take_lines()
            }
        };
        if session.header().id.is_empty() {
            plan.give_session_id(path);
        }
        plan.mend_links(rows, &session.header().id);
        plan.actions.sort_by_key(|action| action.line);
        plan.actions.dedup();
        if let (true, Some(first)) = (session.header().version < 2 && !plan.actions.is_empty(), plan.pieces.first()) {
            let message = "a session of version 1, where entries have no ids, becomes one of version 3".to_owned();
            plan.actions.insert(0, RepairAction { line: first.line, kind: RepairKind::Upgrade, message });
        }
        Ok(plan)
    }

    /// What is done, in the order of the lines. Nothing for a sound file.
    pub fn actions(&self) -> &[RepairAction] {
        &self.actions
    }

    /// Gives the mended file, part by part.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn FnMut(&[u8]) -> Result<(), StorageError>) -> Result<(), StorageError> {
        let mut copied = 0..0;
        for piece in self.pieces.iter().filter(|piece| !piece.is_dropped) {
            match &piece.text {
                None if piece.raw.start == copied.end => copied.end = piece.raw.end,
                None => {
                    out(&self.original[std::mem::replace(&mut copied, piece.raw.clone())])?;
                }
                Some(text) => {
                    out(&self.original[std::mem::replace(&mut copied, 0..0)])?;
                    out(text)?;
                    out(b"\n")?;
                }
            }
        }
        out(&self.original[copied])
    }

    fn add(&mut self, line: u64, kind: RepairKind, message: impl Into<String>) {
        self.actions.push(RepairAction { line, kind, message: message.into() });
    }

    fn bytes(&self, piece: usize) -> &[u8] {
        let piece = &self.pieces[piece];
        piece.text.as_deref().unwrap_or(&self.original[piece.record.clone()])
    }

    /// The entries of version 1 as a chain of version 3, and what became of the lines that are none.
    fn take_chain(&mut self, session: &JsonlStorage) -> Result<Vec<Row>, StorageError> {
        let (header, _) = session.header_place();
        let piece = self.push_text(header, session.header_line().to_vec());
        self.mend_text(piece);
        let mut text = upgraded_header(self.bytes(piece));
        text.pop();
        self.pieces[piece].text = Some(text);
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
            let piece = self.push_text(line, text);
            rows.extend(self.take_record(piece));
        }
        Ok(rows)
    }

    fn push_text(&mut self, line: u64, text: Vec<u8>) -> usize {
        self.pieces.push(Piece { line, raw: 0..0, record: 0..0, text: Some(text), is_dropped: false });
        self.pieces.len() - 1
    }

    /// The entries of a file that has ids.
    fn take_lines(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut start = if self.original.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut raw_start = 0;
        let (mut number, mut has_header) = (0, false);
        while raw_start < self.original.len() {
            let newline = memchr::memchr(b'\n', &self.original[start..]);
            let end = newline.map_or(self.original.len(), |at| start + at);
            let raw = raw_start..newline.map_or(end, |_| end + 1);
            number += 1;
            let line = &self.original[start..end];
            let is_blank =
                line.iter().all(u8::is_ascii_whitespace) && (!has_header || examine(line, Ids::Present).damage.is_none());
            let examined = if is_blank { Default::default() } else { examine(line, Ids::Present) };
            let count = examined.records.len();
            if is_blank {
                self.pieces.push(Piece { line: number, raw: raw.clone(), record: start..end, text: None, is_dropped: false });
            }
            if let Some(kind) = examined.damage.filter(|kind| *kind != DamageKind::ControlCharacter) {
                self.tell(number, kind, count);
            }
            let stands_alone = examined.damage.is_none_or(|kind| kind == DamageKind::ControlCharacter);
            for range in examined.records {
                let record = range.start + start..range.end + start;
                let text = (!stands_alone).then(|| self.original[record.clone()].to_vec());
                self.pieces.push(Piece { line: number, raw: raw.clone(), record, text, is_dropped: false });
                let piece = self.pieces.len() - 1;
                if std::mem::replace(&mut has_header, true) {
                    rows.extend(self.take_record(piece));
                } else {
                    self.mend_text(piece);
                }
            }
            (raw_start, start) = (raw.end, raw.end);
        }
        rows
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
    fn take_record(&mut self, piece: usize) -> Option<Row> {
        let line = self.pieces[piece].line;
        // As a reader does, which finds the id at the end of a whole line even if its middle is no JSON.
        let is_whole = self.is_whole_line(&self.pieces[piece]);
        let is_json = self.mend_text(piece);
        let text = well_formed(self.bytes(piece)).into_owned();
        let kind = match if is_whole { whole_head(&text) } else { read_head_slowly(&text) } {
            Head::Entry(head) => {
                let (id, parent) = (head.id.into_owned(), head.parent_id.map(Cow::into_owned));
                if !is_json {
                    let data = quote(&String::from_utf8_lossy(self.bytes(piece)));
                    self.wrap(piece, &id, parent.as_deref(), head.entry_type.as_wire(), &text, &data);
                    self.add(line, RepairKind::KeepAsCustom, "the record is no JSON; a custom entry holds its text");
                }
                return Some(Row { piece, id, parent, lacks: Lacks::Nothing });
            }
            Head::NoId if is_json => {
                let parent = Members::of(&text).find(|(key, _)| key == "parentId").map(|(_, value)| value);
                let parent = parent.and_then(|parent| serde_json::from_str::<Option<String>>(parent).ok());
                let lacks = if parent.is_some() { Lacks::Id } else { Lacks::IdAndParent };
                return Some(Row { piece, id: String::new(), parent: parent.flatten(), lacks });
            }
            Head::Header => DamageKind::SecondHeader,
            Head::NoId | Head::NotAnEntry if is_json => DamageKind::NotAnEntry,
            Head::NoId | Head::NotAnEntry => DamageKind::NotARecord,
        };
        self.pieces[piece].is_dropped = true;
        self.tell(line, kind, 1);
        None
    }

    /// Whether a piece is a line of nothing but one record.
    fn is_whole_line(&self, piece: &Piece) -> bool {
        let behind = &self.original[piece.record.end..piece.raw.end];
        let is_alone = piece.record.start == piece.raw.start && matches!(behind, [] | b"\n");
        piece.text.is_none() && is_alone && self.original[piece.record.clone()].iter().all(|byte| *byte >= 0x20)
    }

    /// Makes a record JSON for a strict reader; false when that cannot be.
    fn mend_text(&mut self, piece: usize) -> bool {
        let bytes = self.bytes(piece);
        let is_utf8 = std::str::from_utf8(bytes).is_ok();
        let text = String::from_utf8_lossy(bytes);
        let mut mended = None;
        let is_plain = is_json(&text);
        if !is_plain {
            let mut escaped = escape_controls(&text);
            // What stands between values is no part of any.
            escaped.retain(|char| char >= ' ' || matches!(char, '\t' | '\r'));
            if !is_json(&escaped) {
                return false;
            }
            mended = Some(escaped);
        } else if !is_utf8 {
            mended = Some(text.into_owned());
        }
        let line = self.pieces[piece].line;
        if let Some(text) = mended {
            self.pieces[piece].text = Some(text.into_bytes());
        }
        if !is_utf8 {
            self.add(line, RepairKind::ReplaceBadBytes, "bytes that are not UTF-8 become U+FFFD");
        }
        if !is_plain {
            self.tell(line, DamageKind::ControlCharacter, 1);
        }
        true
    }

    /// Puts a `custom` entry in the place of one. `text` is the entry's, for its time; `data` is what is kept, as JSON.
    fn wrap(&mut self, piece: usize, id: &str, parent: Option<&str>, wire_type: &str, text: &str, data: &str) {
        let timestamp = Members::of(text).find(|(key, _)| key == "timestamp").map(|(_, value)| value);
        let timestamp = timestamp.and_then(|value| serde_json::from_str::<String>(value).ok()).unwrap_or_default();
        let parent = parent.map_or_else(|| "null".to_owned(), quote);
        let line = format!(
            r#"{{"type":"custom","id":{},"parentId":{parent},"timestamp":{},"customType":{},"data":{data}}}"#,
            quote(id),
            quote(&timestamp),
            quote(&format!("repaired:{wire_type}")),
        );
        self.pieces[piece].text = Some(line.into_bytes().into_iter().filter(|byte| *byte >= 0x20).collect());
    }

    fn give_session_id(&mut self, path: &Path) {
        // Blank lines may come before the header.
        let Some(piece) = (0..self.pieces.len()).find(|piece| self.bytes(*piece).starts_with(b"{")) else { return };
        let id = id_in_file_name(path).map_or_else(
            || format!("repaired-{:016x}", crate::storage::jsonl::stable_hash(&path.to_string_lossy(), 0, 0)),
            str::to_owned,
        );
        self.pieces[piece].text = Some(replace_member(self.bytes(piece), "id", &id));
        self.add(self.pieces[piece].line, RepairKind::GiveSessionId, format!("the header has no id; it gets {id}"));
    }
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
    for _ in 0..16 {
        let session = open(fs, path)?;
        let plan = RepairPlan::of(&session)?;
        if plan.actions.is_empty() {
            return Ok(Repaired { actions: plan.actions, backup: None });
        }
        match session.replace_with(&mut |file| plan.write(&mut |bytes| write_all(file, bytes))) {
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
