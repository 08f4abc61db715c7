//! An open session: entries are appended, the leaf is moved, names and labels are set, the context is built.
//!
//! # Invariants
//! - New entries form a chain from the leaf; their ids are new in the file, and the leaf never moves to an entry that is
//!   not on disk.
//! - A handle that follows the file takes the leaf under the lock of each append, as a one-shot command
//!   should. One that [holds](Session::hold) its own leaf goes on from there whatever others append, so that of two
//!   long-lived programs the later one becomes a branch.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::session::context::{ContextExtension, EntrySource, Projection, project};
use crate::session::entry::{
    BranchSummary, Entry, EntryId, EntryKind, EntryType, Header, Label, Leaf, ModelChange, SessionInfo, format_timestamp,
};
use crate::session::json::{Json, well_formed};
use crate::session::labels::Labels;
use crate::session::message::{Content, Role};
use crate::session::outline::{Row, Scope, outline, says_something};
use crate::session::tree::{EntryIndex, SessionTree};
use crate::storage::jsonl::names_a_root;
use crate::storage::{Clock, Durability, IdSource, SessionRead, SessionStorage, StorageError};

/// How many ids of a batch are compared one by one.
const COMPARED_IDS: usize = 32;

/// What `fromId` says when there was no leaf.
const FROM_ROOT: &str = "root";

/// A session that is open.
pub struct Session {
    storage: Box<dyn SessionStorage>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    position: Position,
}

/// Which leaf a handle goes on from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Position {
    /// The file's.
    Follow,
    /// Its own.
    Hold(Option<EntryId>),
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.header().id).field("position", &self.position).finish_non_exhaustive()
    }
}

/// A summary to leave where a branch begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SummaryText {
    /// The text, stored as it is.
    pub summary: String,
    /// `readFiles`, `modifiedFiles` and so on.
    pub details: Option<Json>,
    /// What making it cost.
    pub usage: Option<crate::session::message::Usage>,
    /// Whether a hook supplied it.
    pub from_hook: Option<bool>,
}

/// What a navigation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Navigation {
    /// The leaf now; `None` before the first entry. With a summary it is the summary's entry.
    pub leaf_id: Option<EntryId>,
    /// The leaf that was left.
    pub from_id: Option<EntryId>,
    /// The branch summary, if one was written.
    pub summary_id: Option<EntryId>,
    /// The text of the message that was gone back to, to edit and send again.
    pub editor_text: Option<String>,
    /// Whether anything was written.
    pub moved: bool,
}

/// Where a navigation to an entry leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The leaf after it.
    pub leaf: Option<EntryIndex>,
    /// The text of a user or custom message, which is not on the path then.
    pub editor_text: Option<String>,
}

/// Why a path does not begin where a conversation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathCut {
    /// The parent of its first entry is not in the file.
    MissingParent,
    /// Its first entry has no word of a parent, though others come before it.
    UnnamedParent,
    /// Its parents form a ring.
    Ring,
}

/// Entries that are being made, under the lock of the session.
pub struct Batch<'a> {
    /// The session, up to date.
    pub session: &'a dyn SessionRead,
    leaf: Option<EntryId>,
    timestamp: String,
    ids: &'a dyn IdSource,
    entries: Vec<Entry>,
    /// The ids of the first entries; of all but the last few, so that short batches need no set.
    taken: HashSet<EntryId>,
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("leaf", &self.leaf).field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl<'a> Batch<'a> {
    fn new(session: &'a dyn SessionRead, leaf: Option<EntryId>, timestamp: String, ids: &'a dyn IdSource) -> Self {
        Self { session, leaf, timestamp, ids, entries: Vec::new(), taken: HashSet::new() }
    }
}

impl Batch<'_> {
    /// Where the next entry hangs.
    pub fn leaf(&self) -> Option<&EntryId> {
        self.leaf.as_ref()
    }

    /// Hangs the next entry elsewhere.
    pub fn set_leaf(&mut self, leaf: Option<EntryId>) {
        self.leaf = leaf;
    }

    /// Adds an entry behind the last one and returns its id.
    pub fn push(&mut self, kind: EntryKind) -> EntryId {
        self.push_with(|_| kind)
    }

    /// Adds an entry whose payload names its own id, as a compaction does that keeps nothing.
    pub fn push_with(&mut self, kind: impl FnOnce(&EntryId) -> EntryKind) -> EntryId {
        let id = self.new_id();
        let kind = kind(&id);
        self.push_as(id.clone(), kind);
        id
    }

    /// Adds an entry of another session as it is, with its own id, parent and time; the next one hangs from it.
    ///
    /// # Errors
    /// When the session, or this batch, has an entry of that id.
    pub fn push_entry(&mut self, entry: Entry) -> Result<(), StorageError> {
        if self.has(&entry.id) {
            return Err(StorageError::EntryExists(entry.id));
        }
        self.leaf = Some(entry.id.clone());
        self.entries.push(entry);
        Ok(())
    }

    /// As [`Batch::push`], with an id from [`Batch::new_id`].
    pub(super) fn push_as(&mut self, id: EntryId, kind: EntryKind) {
        self.entries.push(Entry { id: id.clone(), parent_id: self.leaf.take(), timestamp: self.timestamp.clone(), kind });
        self.leaf = Some(id);
    }

    /// 8 lowercase hex digits that no entry has. To be pushed before the next one is made.
    pub(super) fn new_id(&mut self) -> EntryId {
        loop {
            let id = EntryId::of_bits(self.ids.entry_bits());
            if !self.has(&id) {
                return id;
            }
        }
    }

    /// Whether the session or this batch has an entry of this id.
    fn has(&mut self, id: &EntryId) -> bool {
        if self.entries.len() - self.taken.len() > COMPARED_IDS {
            self.taken.extend(self.entries[self.taken.len()..].iter().map(|entry| entry.id.clone()));
        }
        self.session.tree().find(id.as_str()).is_some()
            || self.taken.contains(id)
            || self.entries[self.taken.len()..].iter().any(|entry| entry.id == *id)
    }
}

impl Session {
    /// Takes an open storage; the handle follows the file's leaf.
    pub fn new(storage: Box<dyn SessionStorage>, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self { storage, clock, ids, position: Position::Follow }
    }

    /// From now on the handle keeps its own leaf, which begins as the file's.
    pub fn hold(&mut self) {
        self.position = Position::Hold(self.leaf_id());
    }

    /// The session for reading.
    pub fn read(&self) -> &dyn SessionRead {
        self.storage.as_read()
    }

    /// The header.
    pub fn header(&self) -> &Header {
        self.storage.header()
    }

    /// The tree.
    pub fn tree(&self) -> &SessionTree {
        self.storage.tree()
    }

    /// The clock that this session's entries are stamped by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Where the next entry will hang; `None` before the first.
    pub fn leaf(&self) -> Option<EntryIndex> {
        match &self.position {
            Position::Follow => self.tree().leaf(),
            Position::Hold(leaf) => held_leaf(self.tree(), leaf.as_ref()),
        }
    }

    /// The id of [`Session::leaf`].
    pub fn leaf_id(&self) -> Option<EntryId> {
        self.leaf().map(|index| self.tree().id(index))
    }

    /// Reads what others appended. A held leaf stays.
    ///
    /// # Errors
    /// When the file cannot be read, or is not this session any more.
    pub fn refresh(&mut self) -> Result<(), StorageError> {
        self.storage.refresh()
    }

    /// Appends a chain of entries from the leaf, in one write, and moves the leaf behind it.
    ///
    /// # Errors
    /// When the file cannot be written; then the session is as it was (see [`SessionStorage::append`]).
    pub fn append(&mut self, mut kinds: Vec<EntryKind>, durability: Durability) -> Result<Vec<EntryId>, StorageError> {
        self.append_with(
            &mut |batch| {
                std::mem::take(&mut kinds).into_iter().for_each(|kind| drop(batch.push(kind)));
                Ok(())
            },
            durability,
        )
    }

    /// Appends what `build` makes, which it does under the lock of the session, up to date. It is called once, or not at all
    /// when the session cannot be locked or read.
    ///
    /// # Errors
    /// Of `build`; when the file cannot be written. Then the session is as it was (see [`SessionStorage::append`]).
    pub fn append_with(
        &mut self,
        build: &mut dyn FnMut(&mut Batch<'_>) -> Result<(), StorageError>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StorageError> {
        let (clock, ids) = (self.clock.clone(), self.ids.clone());
        let position = self.position.clone();
        let mut made = Vec::new();
        let mut last_leaf = None;
        self.storage.append(
            &mut |session| {
                let leaf = match &position {
                    Position::Follow => session.tree().leaf(),
                    Position::Hold(leaf) => held_leaf(session.tree(), leaf.as_ref()),
                };
                let leaf = leaf.map(|index| session.tree().id(index));
                let timestamp = format_timestamp(clock.now_ms());
                let mut batch = Batch::new(session, leaf, timestamp, &*ids);
                build(&mut batch)?;
                made = batch.entries.iter().map(|entry| entry.id.clone()).collect();
                // A `leaf` entry moves the leaf elsewhere; every other entry of a chain is the leaf.
                last_leaf = match batch.entries.last() {
                    Some(Entry { kind: EntryKind::Leaf(leaf), .. }) => leaf.target_id.clone(),
                    Some(_) | None => batch.leaf,
                };
                Ok(batch.entries)
            },
            durability,
        )?;
        if let Position::Hold(leaf) = &mut self.position {
            *leaf = last_leaf;
        }
        Ok(made)
    }

    /// The entries that appending `kinds` would make now, for what cannot be appended. Nothing is written.
    pub fn draft(&self, kinds: Vec<EntryKind>) -> Vec<Entry> {
        let timestamp = format_timestamp(self.clock.now_ms());
        let (session, leaf) = (self.read(), self.leaf_id());
        let mut batch = Batch::new(session, leaf, timestamp, &*self.ids);
        kinds.into_iter().for_each(|kind| drop(batch.push(kind)));
        batch.entries
    }

    /// Where a navigation to `target` leads: to the parent of a user or custom message, whose text comes back to be
    /// edited, and to any other entry itself. A `leaf` entry means where it moved the leaf.
    ///
    /// # Errors
    /// When the entry cannot be read.
    pub fn destination(&self, target: EntryIndex) -> Result<Destination, StorageError> {
        let Some(target) = self.tree().place_of(target) else { return Ok(Destination { leaf: None, editor_text: None }) };
        let is_prompt = match self.tree().entry_type(target) {
            EntryType::CustomMessage => true,
            EntryType::Message => matches!(self.tree().role(target), Some(Role::User | Role::Custom)),
            EntryType::Compaction
            | EntryType::BranchSummary
            | EntryType::Leaf
            | EntryType::ModelChange
            | EntryType::ThinkingLevelChange
            | EntryType::ActiveToolsChange
            | EntryType::ContextEdit
            | EntryType::Custom
            | EntryType::Label
            | EntryType::SessionInfo
            | EntryType::Usage
            | EntryType::Unknown => false,
        };
        if !is_prompt {
            return Ok(Destination { leaf: Some(target), editor_text: None });
        }
        let text = self.read().entry(target)?.and_then(|entry| prompt_text(&entry)).unwrap_or_default();
        Ok(Destination { leaf: self.tree().parent(target), editor_text: Some(text) })
    }

    /// Where and why the path to `at` does not reach back to a beginning; `None` for one that does. `O(path length)`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn path_cut(&self, at: Option<EntryIndex>) -> Result<Option<(EntryIndex, PathCut)>, StorageError> {
        let tree = self.tree();
        let Some(first) = at.and_then(|at| tree.ancestors(at).last()) else { return Ok(None) };
        let cut = if tree.is_orphan(first) {
            Some(PathCut::MissingParent)
        } else if tree.parent(first).is_some() {
            Some(PathCut::Ring)
        } else {
            let is_cut = tree.iter_all().next() != Some(first) && !names_a_root(&well_formed(&self.read().line(first)?));
            is_cut.then_some(PathCut::UnnamedParent)
        };
        Ok(cut.map(|cut| (first, cut)))
    }

    /// The entries that a navigation from `old` to `new` leaves behind: those of the old path that the new one does not
    /// share, from the oldest on.
    pub fn left_behind(&self, old: Option<EntryIndex>, new: Option<EntryIndex>) -> Vec<EntryIndex> {
        let tree = self.tree();
        let Some(old) = old else { return Vec::new() };
        let shared = new.and_then(|new| tree.common_ancestor(old, new));
        let mut left: Vec<_> = tree.ancestors(old).take_while(|index| Some(*index) != shared).collect();
        left.reverse();
        left
    }

    /// Moves the leaf to where `target` leads, with a branch summary or, where there is none or nothing is left behind,
    /// with a `leaf` entry. Navigating to the leaf itself does nothing, unless it is a user or custom message.
    ///
    /// # Errors
    /// When the session cannot be written; then the leaf is where it was.
    pub fn navigate(&mut self, target: EntryIndex, summary: Option<SummaryText>) -> Result<Navigation, StorageError> {
        let destination = self.destination(target)?;
        let old = self.leaf();
        let from_id = self.leaf_id();
        let id_of = |index: Option<EntryIndex>| index.map(|index| self.tree().id(index));
        let target_id = id_of(destination.leaf);
        if destination.leaf == old {
            let moved = false;
            return Ok(Navigation { leaf_id: target_id, from_id, summary_id: None, editor_text: destination.editor_text, moved });
        }
        let summary = summary.filter(|_| !self.left_behind(old, destination.leaf).is_empty());
        let is_summary = summary.is_some();
        let made = self.append_with(
            &mut |batch| {
                let left = batch.leaf().cloned();
                // Both forms hang from the new leaf, so that a reader that takes the last line goes on there too.
                batch.set_leaf(target_id.clone());
                batch.push(match summary.clone() {
                    Some(text) => EntryKind::BranchSummary(BranchSummary {
                        from_id: Some(left.unwrap_or_else(|| EntryId::from(FROM_ROOT))),
                        summary: text.summary,
                        details: text.details,
                        usage: text.usage,
                        from_hook: text.from_hook,
                        ..BranchSummary::default()
                    }),
                    None => EntryKind::Leaf(Leaf { target_id: target_id.clone(), from_id: left, ..Leaf::default() }),
                });
                Ok(())
            },
            Durability::Synced,
        )?;
        let summary_id = made.into_iter().next().filter(|_| is_summary);
        let leaf_id = summary_id.clone().or(target_id);
        Ok(Navigation { leaf_id, from_id, summary_id, editor_text: destination.editor_text, moved: true })
    }

    /// Sets or clears the label of an entry; blank clears it too.
    ///
    /// # Errors
    /// When the session cannot be written.
    pub fn set_label(&mut self, target: EntryIndex, label: Option<&str>) -> Result<EntryId, StorageError> {
        let label = label.map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned);
        let target_id = Some(self.tree().id(target));
        self.append_one(EntryKind::Label(Label { target_id, label, ..Label::default() }))
    }

    /// Sets the session's name; blank clears it.
    ///
    /// # Errors
    /// When the session cannot be written.
    pub fn set_name(&mut self, name: &str) -> Result<EntryId, StorageError> {
        self.append_one(EntryKind::SessionInfo(SessionInfo { name: Some(name.trim().to_owned()), ..SessionInfo::default() }))
    }

    /// Notes that another model is used from here on.
    ///
    /// # Errors
    /// When the session cannot be written.
    pub fn set_model(&mut self, provider: &str, model_id: &str) -> Result<EntryId, StorageError> {
        let change = ModelChange { provider: provider.to_owned(), model_id: model_id.to_owned(), ..ModelChange::default() };
        self.append_one(EntryKind::ModelChange(change))
    }

    fn append_one(&mut self, kind: EntryKind) -> Result<EntryId, StorageError> {
        let made = self.append(vec![kind], Durability::Synced)?;
        Ok(made.into_iter().next().expect("one entry was pushed, so one was made"))
    }

    /// The projection of the path to `leaf`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn project(&self, leaf: Option<EntryIndex>, extensions: &[&dyn ContextExtension]) -> Result<Projection, StorageError> {
        project(self.tree(), leaf, &Reading(self.read()), extensions)
    }

    /// The rows of the tree as people read it; `labels` are those of [`read_labels`](super::reference::read_labels).
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn outline(&self, labels: &Labels, scope: Scope) -> Result<Vec<Row>, StorageError> {
        let session = self.read();
        let mut says = |index| Ok(session.entry(index)?.as_ref().is_some_and(says_something));
        outline(session.tree(), labels, scope, &mut says)
    }
}

/// A session as the source of a projection.
#[derive(Clone, Copy)]
pub struct Reading<'a>(pub &'a dyn SessionRead);

impl fmt::Debug for Reading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reading").field(&self.0.header().id).finish()
    }
}

impl EntrySource for Reading<'_> {
    type Error = StorageError;

    fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, StorageError> {
        self.0.entry(index)
    }
}

/// As [`Reading`], for what needs no long text.
pub struct Previewing<'a>(pub &'a dyn SessionRead);

impl fmt::Debug for Previewing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Previewing").field(&self.0.header().id).finish()
    }
}

impl EntrySource for Previewing<'_> {
    type Error = StorageError;

    fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, StorageError> {
        self.0.preview(index)
    }
}

/// Where a handle goes on that holds `leaf`: where the file does if the file was changed and has that entry no more.
fn held_leaf(tree: &SessionTree, leaf: Option<&EntryId>) -> Option<EntryIndex> {
    tree.find(leaf?.as_str()).or_else(|| tree.leaf())
}

/// The text of a user or custom message, to edit.
fn prompt_text(entry: &Entry) -> Option<String> {
    match &entry.kind {
        EntryKind::Message(payload) => payload.message.content().map(Content::concatenated_text),
        EntryKind::CustomMessage(payload) => payload.content.as_ref().map(Content::concatenated_text),
        EntryKind::Compaction(_)
        | EntryKind::BranchSummary(_)
        | EntryKind::Leaf(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Custom(_)
        | EntryKind::Label(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Usage(_)
        | EntryKind::Unknown { .. } => None,
    }
}
