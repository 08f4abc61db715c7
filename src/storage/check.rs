//! Every fault of one session file, with its place.
//!
//! # Invariants
//! - Reading only. Every byte of the file is looked at: opening sees the lines, then each record is read once.
//! - `O(file length)` time; memory for a few numbers an entry and one record at a time. Nothing here recurses.
//! - Faults come in the order of the file. A clean file has none.
//! - *Damage* is what cannot be read as it was meant; a *note* costs nothing today. See [`FaultKind::severity`].

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::session::entry::{Entry, EntryId, EntryKind, EntryType, FORMAT_VERSION};
use crate::session::json::well_formed;
use crate::session::tree::{Children, EntryIndex, Seen};
use crate::storage::fs::{FileKind, Fs};
use crate::storage::jsonl::rewrite::folder_of;
use crate::storage::jsonl::{JsonlStorage, decode_line, names_a_root};
use crate::storage::repo::{folder_name, id_in_file_name};
use crate::storage::{DamageKind, SessionRead, StorageError, newer_version};

mod calls;

use calls::CallFold;

/// One thing that is wrong with a session file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1; the header's for what is wrong with the file.
    pub line: u64,
    /// Where the line or record begins, in bytes from the start of the file.
    pub byte_offset: u64,
    /// What is wrong.
    pub kind: FaultKind,
    /// A sentence for people.
    pub message: String,
}

impl Fault {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.kind.severity()
    }
}

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something cannot be read, reached or found as it was meant.
    Damage,
    /// Nothing is lost.
    Note,
}

impl Severity {
    /// The name in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Note => "note",
        }
    }
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// What opening found in a line.
    Line(DamageKind),
    /// Bytes that are not UTF-8.
    BadUtf8,
    /// A record whose brackets close and whose body is no JSON.
    BadJson,
    /// An entry of the conversation whose payload is none of its type.
    UnreadablePayload,
    /// An id that a later line has too.
    DuplicateId,
    /// A parent that is not in the file, or that is not named at all.
    MissingParent,
    /// Parents that form a ring.
    Cycle,
    /// A `leaf` whose target is not in the file.
    DanglingLeaf,
    /// A `label` whose target is not in the file.
    DanglingLabel,
    /// A `context_edit` whose target is not in the file.
    DanglingContextEdit,
    /// A `firstKeptEntryId` that is not in the file.
    DanglingFirstKept,
    /// The file is of a version that is read and never written.
    NewerVersion,
    /// The header's line begins with a byte order mark, which Pi does not read over.
    ByteOrderMark,
    /// Others may read or write the file.
    LoosePermissions,
    /// The cwd is no folder of this machine.
    CwdGone,
    /// The file lies in the folder of another cwd.
    CwdDiffers,
    /// The id in the file's name is not the header's.
    FileNameDiffers,
    /// A tool call that some branch goes on without a result of.
    OpenCall,
    /// A `fromId` that is not in the file.
    DanglingFrom,
    /// The last line names or labels something and hangs elsewhere than the leaf.
    StrayTail,
}

impl FaultKind {
    /// How bad it is.
    pub fn severity(self) -> Severity {
        match self {
            Self::Line(_)
            | Self::BadUtf8
            | Self::BadJson
            | Self::UnreadablePayload
            | Self::DuplicateId
            | Self::MissingParent
            | Self::Cycle
            | Self::DanglingLeaf
            | Self::DanglingLabel
            | Self::DanglingContextEdit
            | Self::DanglingFirstKept => Severity::Damage,
            Self::NewerVersion
            | Self::ByteOrderMark
            | Self::LoosePermissions
            | Self::CwdGone
            | Self::CwdDiffers
            | Self::FileNameDiffers
            | Self::OpenCall
            | Self::DanglingFrom
            | Self::StrayTail => Severity::Note,
        }
    }

    /// The name in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Line(kind) => kind.as_str(),
            Self::BadUtf8 => "badUtf8",
            Self::BadJson => "badJson",
            Self::UnreadablePayload => "unreadablePayload",
            Self::DuplicateId => "duplicateId",
            Self::MissingParent => "missingParent",
            Self::Cycle => "cycle",
            Self::DanglingLeaf => "danglingLeaf",
            Self::DanglingLabel => "danglingLabel",
            Self::DanglingContextEdit => "danglingContextEdit",
            Self::DanglingFirstKept => "danglingFirstKeptEntryId",
            Self::NewerVersion => "newerVersion",
            Self::ByteOrderMark => "byteOrderMark",
            Self::LoosePermissions => "loosePermissions",
            Self::CwdGone => "cwdGone",
            Self::CwdDiffers => "cwdDiffers",
            Self::FileNameDiffers => "fileNameDiffers",
            Self::OpenCall => "openCall",
            Self::DanglingFrom => "danglingFromId",
            Self::StrayTail => "strayTail",
        }
    }
}

/// Checks a session file. A clean one has no faults.
///
/// # Errors
/// When the file cannot be read, is empty, is no session, or is of format 4: then there is nothing to check.
pub fn check_file(fs: &Arc<dyn Fs>, path: &Path) -> Result<Vec<Fault>, StorageError> {
    let session = JsonlStorage::open(fs.clone(), path)?;
    let mut check = Check { session: &session, path, faults: Vec::new() };
    check.file(&**fs)?;
    let unplaced = check.lines()?;
    check.tree(&unplaced);
    let mut faults = check.faults;
    faults.sort_by_key(|fault| (fault.line, fault.byte_offset, fault.kind));
    Ok(faults)
}

/// A record longer than this is not held as bytes and as an entry at once: what an entry names stands in short strings.
const MAX_HELD_TWICE: usize = 1024 * 1024;

struct Check<'a> {
    session: &'a JsonlStorage,
    path: &'a Path,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn add(&mut self, line: u64, byte_offset: u64, kind: FaultKind, message: String) {
        self.faults.push(Fault { path: self.path.to_owned(), line, byte_offset, kind, message });
    }

    fn at(&mut self, index: EntryIndex, kind: FaultKind, message: String) {
        self.add(self.session.line_number(index), self.session.byte_offset(index), kind, message);
    }

    /// The header, and what is around the file.
    fn file(&mut self, fs: &dyn Fs) -> Result<(), StorageError> {
        let (line, offset) = self.session.header_place();
        let header = self.session.header().clone();
        if header.id.is_empty() {
            self.add(line, offset, FaultKind::Line(DamageKind::MissingId), "the header has no id".to_owned());
        }
        if header.version > FORMAT_VERSION {
            let message = format!("{}: this session can be read and not changed", newer_version(header.version));
            self.add(line, offset, FaultKind::NewerVersion, message);
        }
        if self.session.begins_with_mark()? {
            let message = "the file begins with a byte order mark, and Pi does not open it; repair takes the mark out".to_owned();
            self.add(line, offset, FaultKind::ByteOrderMark, message);
        }
        if let Ok(meta) = fs.metadata(self.path)
            && meta.mode & 0o077 != 0
        {
            let message = format!("others may open this file: its mode is {:04o}, not 0600", meta.mode);
            self.add(line, offset, FaultKind::LoosePermissions, message);
        }
        let cwd = header.cwd.as_str();
        if !fs.metadata(Path::new(cwd)).is_ok_and(|meta| meta.kind == FileKind::Folder) {
            let message = if cwd.is_empty() { "the header has no cwd".to_owned() } else { format!("there is no folder {cwd}") };
            self.add(line, offset, FaultKind::CwdGone, message);
        }
        let folder = folder_of(self.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Only a folder that is named for a cwd can be that of another one.
        let is_of_a_cwd = folder.len() > 4 && folder.starts_with("--") && folder.ends_with("--");
        if is_of_a_cwd && !folder.eq_ignore_ascii_case(&folder_name(cwd)) {
            let message = format!("the file lies in the folder of another cwd than {cwd}");
            self.add(line, offset, FaultKind::CwdDiffers, message);
        }
        if let Some(id) = id_in_file_name(self.path)
            && id != header.id
        {
            let message = format!("the id in the file's name is {id}, in the header {}", header.id);
            self.add(line, offset, FaultKind::FileNameDiffers, message);
        }
        Ok(())
    }

    /// The lines one by one: what opening found, the bodies, and what they name. Returns the entries that have no word of
    /// a parent, though others come before them.
    fn lines(&mut self) -> Result<HashSet<EntryIndex>, StorageError> {
        let tree = self.session.tree();
        let first = tree.iter_all().next();
        let mut unplaced = HashSet::new();
        let mut told = HashSet::new();
        for damage in self.session.damage() {
            told.insert((damage.line, FaultKind::Line(damage.kind)));
            self.add(damage.line, damage.byte_offset, FaultKind::Line(damage.kind), damage.kind.describe().to_owned());
        }
        let (line, offset) = self.session.header_place();
        if let Some((kind, message)) = text_fault(self.session.header_line())
            && !told.contains(&(line, kind))
        {
            self.add(line, offset, kind, message);
        }
        let mut calls = CallFold::default();
        for index in tree.iter_all() {
            let bytes = self.session.line(index)?;
            if Some(index) != first && tree.parent_id(index).is_none() && !names_a_root(&well_formed(&bytes)) {
                unplaced.insert(index);
            }
            if tree.id(index).as_str().is_empty() {
                let message = "the id is empty, and for Pi what hangs from this entry hangs from nothing".to_owned();
                self.at(index, FaultKind::Line(DamageKind::MissingId), message);
            }
            if let Some((kind, message)) = text_fault(&self.session.raw_line(index)?)
                && !told.contains(&(self.session.line_number(index), kind))
            {
                self.at(index, kind, message);
            }
            let entry = match bytes.len() > MAX_HELD_TWICE {
                true => {
                    drop(bytes);
                    self.session.preview(index)?
                }
                false => decode_line(&bytes, self.session.tree(), index),
            };
            if let Some(entry) = entry {
                self.references(index, &entry);
                calls.add(index, &entry);
            }
        }
        let children = self.session.tree().children();
        for (index, id) in calls.open_calls(self.session, &children)? {
            self.at(index, FaultKind::OpenCall, format!("the call {id} has no result where the conversation goes on"));
        }
        Ok(unplaced)
    }

    /// The ids that an entry names, besides its parent.
    fn references(&mut self, index: EntryIndex, entry: &Entry) {
        if entry.kind.is_unreadable() {
            let message = format!("nothing can be read of this {}: its payload is not Pi's", entry.kind.wire_type());
            self.at(index, FaultKind::UnreadablePayload, message);
        }
        let tree = self.session.tree();
        let is_gone = |id: Option<&EntryId>| id.filter(|id| tree.find(id.as_str()).is_none()).cloned();
        let (mut target, mut from) = (None, None);
        match &entry.kind {
            EntryKind::Leaf(leaf) => {
                target = is_gone(leaf.target_id.as_ref()).map(|id| (FaultKind::DanglingLeaf, Some(id)));
                from = is_gone(leaf.from_id.as_ref());
            }
            EntryKind::Label(label) => {
                let gone = label.target_id.is_none() || is_gone(label.target_id.as_ref()).is_some();
                target = gone.then(|| (FaultKind::DanglingLabel, label.target_id.clone()));
            }
            EntryKind::ContextEdit(edit) => {
                let gone = edit.target_id.is_none() || is_gone(edit.target_id.as_ref()).is_some();
                target = gone.then(|| (FaultKind::DanglingContextEdit, edit.target_id.clone()));
            }
            EntryKind::Compaction(compaction) => {
                let first_kept = is_gone(compaction.first_kept_entry_id.as_ref());
                target = first_kept.map(|id| (FaultKind::DanglingFirstKept, Some(id)));
            }
            EntryKind::BranchSummary(summary) => from = is_gone(summary.from_id.as_ref()),
            EntryKind::Unknown { wire_type, .. } => {
                let kind = match EntryType::from_wire(wire_type.as_bytes()) {
                    EntryType::Leaf => Some(FaultKind::DanglingLeaf),
                    EntryType::ContextEdit => Some(FaultKind::DanglingContextEdit),
                    EntryType::Message
                    | EntryType::Compaction
                    | EntryType::BranchSummary
                    | EntryType::ModelChange
                    | EntryType::ThinkingLevelChange
                    | EntryType::ActiveToolsChange
                    | EntryType::Custom
                    | EntryType::CustomMessage
                    | EntryType::Label
                    | EntryType::SessionInfo
                    | EntryType::Usage
                    | EntryType::Unknown => None,
                };
                target = kind.map(|kind| (kind, None));
            }
            EntryKind::Message(_)
            | EntryKind::ModelChange(_)
            | EntryKind::ThinkingLevelChange(_)
            | EntryKind::ActiveToolsChange(_)
            | EntryKind::Custom(_)
            | EntryKind::CustomMessage(_)
            | EntryKind::SessionInfo(_)
            | EntryKind::Usage(_) => {}
        }
        if let Some((kind, id)) = target {
            let wire_type = entry.kind.wire_type();
            let message = match (kind, id) {
                (FaultKind::DanglingFirstKept, Some(id)) => format!("the first kept entry is not in the file: {id}"),
                (_, Some(id)) => format!("the target of this {wire_type} is not in the file: {id}"),
                (_, None) => format!("this {wire_type} does nothing: its payload is not Pi's"),
            };
            self.at(index, kind, message);
        }
        if let Some(id) = from.filter(|id| id.as_str() != "root") {
            self.at(index, FaultKind::DanglingFrom, format!("the entry that was left is not in the file: {id}"));
        }
    }

    /// Ids, parents and the leaf. `unplaced` have no word of a parent.
    fn tree(&mut self, unplaced: &HashSet<EntryIndex>) {
        let tree = self.session.tree();
        let children = tree.children();
        let mut counted = Seen::new(tree.len());
        for index in tree.iter_all() {
            if tree.is_shadowed(index)
                && let Some(later) = tree.find(tree.id(index).as_str())
            {
                let message =
                    format!("line {} has the same id, {}, and hides this one", self.session.line_number(later), tree.id(index));
                self.at(index, FaultKind::DuplicateId, message);
            } else if let Some(parent) = tree.parent_id(index).filter(|_| tree.is_orphan(index)) {
                let below = count_below(&children, index, &mut counted);
                let message = format!(
                    "the parent is not in the file, so {} cut off from what was before: {parent}",
                    counted_entries(below, "is", "are")
                );
                self.at(index, FaultKind::MissingParent, message);
            } else if unplaced.contains(&index) {
                let below = count_below(&children, index, &mut counted);
                let message =
                    format!("no parent is named, so {} cut off from what was before", counted_entries(below, "is", "are"));
                self.at(index, FaultKind::MissingParent, message);
            }
        }
        self.cycles(&children, &mut counted);
        if let Some(last) = tree.stray_tail() {
            let leaf = tree.leaf().map_or("the start".to_owned(), |leaf| tree.id(leaf).to_string());
            let message = format!(
                "this {} hangs elsewhere than the leaf, {leaf}; Pi would go on from here, as `goto {}` does",
                tree.entry_type(last).as_wire(),
                tree.id(last)
            );
            self.at(last, FaultKind::StrayTail, message);
        }
    }

    /// One fault for each ring of parents, at its first line.
    fn cycles(&mut self, children: &Children, counted: &mut Seen) {
        let tree = self.session.tree();
        // What hangs from a root is in no ring, and neither is what a walk has met already.
        let mut met = Seen::new(tree.len());
        let mut stack = children.roots().to_vec();
        while let Some(index) = stack.pop() {
            if met.insert(index) {
                stack.extend(children.of_entry(index));
            }
        }
        for start in tree.iter() {
            let mut walk = Vec::new();
            let mut next = Some(start);
            while let Some(index) = next.filter(|index| met.insert(*index)) {
                walk.push(index);
                next = tree.parent(index);
            }
            // The walk ended at an entry of its own, or of an earlier walk.
            let Some(from) = next.and_then(|end| walk.iter().position(|index| *index == end)) else { continue };
            let ring = &walk[from..];
            let Some(first) = ring.iter().min().copied() else { continue };
            let below = count_below(children, first, counted);
            let message = match ring.len() {
                1 => format!("the entry is its own parent; {} no way to a root", counted_entries(below, "has", "have")),
                len => format!(
                    "the parents of {len} entries form a ring; {} no way to a root",
                    counted_entries(below, "has", "have")
                ),
            };
            self.at(first, FaultKind::Cycle, message);
        }
    }
}

/// "1 entry is", "2 entries are".
fn counted_entries(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 entry {one}") } else { format!("{count} entries {many}") }
}

/// How many entries hang from `index`, itself included. `seen` holds those that were counted for others, which nothing
/// below `index` is.
fn count_below(children: &Children, index: EntryIndex, seen: &mut Seen) -> usize {
    let (mut stack, mut count) = (vec![index], 0);
    while let Some(index) = stack.pop() {
        if seen.insert(index) {
            count += 1;
            stack.extend(children.of_entry(index));
        }
    }
    count
}

/// What keeps a strict reader from a record, if anything does.
fn text_fault(record: &[u8]) -> Option<(FaultKind, String)> {
    let Ok(text) = std::str::from_utf8(record) else {
        return Some((FaultKind::BadUtf8, "bytes that are not UTF-8; they read as U+FFFD".to_owned()));
    };
    if serde_json::from_str::<&RawValue>(text).is_ok() {
        return None;
    }
    let text = crate::session::json::well_formed(record);
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(_) => {
            let kind = DamageKind::ControlCharacter;
            Some((FaultKind::Line(kind), kind.describe().to_owned()))
        }
        Err(error) => Some((FaultKind::BadJson, format!("the record is no JSON, from its byte {} on", error.column()))),
    }
}

#[cfg(test)]
mod tests;
