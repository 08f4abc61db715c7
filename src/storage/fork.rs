//! Forks a session, and moves one to another cwd.
//!
//! # Invariants
//! - The source of a fork is only read. A fork is under its name when it is whole, or not at all.
//! - Lines are copied byte for byte; only a `parentId` or `firstKeptEntryId` that named a label which is left out is
//!   exchanged, and nothing else of such a line.
//! - The id in the header, and in the file's name, are the same.
//!
//! # What a fork holds
//! ```text
//! the header (new id, new time, parentSession)
//! the entries of the path, or all of them, but for labels whose target is not copied
//! the labels from elsewhere that copied entries have in the source
//! ```

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::session::entry::{Entry, EntryId, EntryKind, EntryType, FORMAT_VERSION, Label, format_timestamp};
use crate::session::labels::Labels;
use crate::session::message::Role;
use crate::session::tree::{EntryIndex, Seen};
use crate::storage::handle::Session;
use crate::storage::jsonl::rewrite::{create_file, write_all};
use crate::storage::jsonl::{JsonlStorage, clear_member, encode_line, header_line, replace_member};
use crate::storage::lock::OwnerLock;
use crate::storage::repo::{NewSession, Repo, file_name, id_in_file_name};
use crate::storage::{SessionRead, StorageError};

/// Which entries a fork copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkWhat {
    /// The path to this entry; with `None` a header alone.
    Path(Option<EntryIndex>),
    /// The path to the parent of this user message.
    Before(EntryIndex),
    /// Every entry, on all branches.
    All,
}

/// What a fork is to be.
#[derive(Clone, Debug)]
pub struct ForkOptions {
    /// Which entries it copies.
    pub what: ForkWhat,
    /// The folder that it works in; by default the source's.
    pub cwd: Option<String>,
}

/// A new session, forked from another.
#[derive(Debug)]
pub struct Forked {
    /// The new session.
    pub session: Session,
    /// Its file.
    pub path: PathBuf,
    /// Its id.
    pub id: String,
    /// The source's file; absolute.
    pub parent_session: String,
    /// The text of the user message that the fork stands before, to edit and send again.
    pub editor_text: Option<String>,
}

/// A session that was moved to another cwd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its id, as before.
    pub id: String,
    /// Its file now.
    pub path: PathBuf,
    /// The folder that it works in now.
    pub cwd: String,
    /// Where the old bytes are.
    pub backup: PathBuf,
}

impl Repo {
    /// Creates a session from the path to an entry of `source`, or from all of it. `O(copied bytes)`.
    ///
    /// # Errors
    /// [`StorageError::NotAUserMessage`], [`StorageError::UnsupportedVersion`] for a newer format; when the source cannot
    /// be read or the fork cannot be written: then there is no file.
    pub fn fork(&self, source: &Session, options: &ForkOptions) -> Result<Forked, StorageError> {
        let read = source.read();
        let tree = read.tree();
        if read.header().version > FORMAT_VERSION {
            let path = read.path().map(Path::to_owned).unwrap_or_default();
            return Err(StorageError::UnsupportedVersion { version: read.header().version, path });
        }
        let (copied, editor_text) = match options.what {
            // A `leaf` entry means where it moved the leaf.
            ForkWhat::Path(leaf) => (tree.path(leaf.and_then(|leaf| tree.place_of(leaf))), None),
            ForkWhat::Before(prompt) => {
                if tree.role(prompt) != Some(Role::User) {
                    return Err(StorageError::NotAUserMessage(tree.id(prompt)));
                }
                let destination = source.destination(prompt)?;
                (tree.path(destination.leaf), destination.editor_text)
            }
            ForkWhat::All => (tree.iter_all().collect(), None),
        };
        let plan = ForkPlan::of(read, copied, options.what == ForkWhat::All)?;

        let source_path = read.path().map(Path::to_owned).unwrap_or_default();
        let absolute = self.fs().canonicalize(&source_path).unwrap_or(source_path);
        let parent_session = absolute.to_string_lossy().into_owned();
        let header = read.header();
        let (header, path) = self.plan(NewSession {
            cwd: options.cwd.clone().unwrap_or_else(|| header.cwd.clone()),
            id: None,
            created_ms: None,
            parent_session: Some(parent_session.clone()),
            metadata: header.metadata.clone(),
            extra: header.extra.clone(),
        })?;
        let label_lines = self.label_lines(&plan, read)?;
        create_file(&**self.fs(), &path, &mut |file| {
            // Lines are gathered, so that a long session is not written a line at a time.
            let mut block = header_line(&header);
            block.push(b'\n');
            for index in &plan.copied {
                block.extend_from_slice(&plan.line(read, *index)?);
                block.push(b'\n');
                if block.len() > 1 << 20 {
                    write_all(file, &block)?;
                    block.clear();
                }
            }
            block.extend_from_slice(&label_lines);
            write_all(file, &block)
        })?;
        let session = self.open(&path)?;
        Ok(Forked { session, path, id: header.id, parent_session, editor_text })
    }

    /// The label entries at the end of a fork: a chain from its leaf, one for each label from elsewhere.
    fn label_lines(&self, plan: &ForkPlan, source: &dyn SessionRead) -> Result<Vec<u8>, StorageError> {
        let timestamp = format_timestamp(self.clock.now_ms());
        let mut taken = HashSet::new();
        let mut parent_id = plan.leaf.clone();
        let mut lines = Vec::new();
        for (target, label) in &plan.labels {
            let id = loop {
                let id = EntryId::of_bits(self.ids.entry_bits());
                if source.tree().find(id.as_str()).is_none() && taken.insert(id.clone()) {
                    break id;
                }
            };
            let kind = EntryKind::Label(Label { target_id: Some(target.clone()), label: label.clone(), ..Label::default() });
            let entry = Entry { id: id.clone(), parent_id: parent_id.replace(id), timestamp: timestamp.clone(), kind };
            lines.extend_from_slice(&encode_line(&entry));
            lines.push(b'\n');
        }
        Ok(lines)
    }

    /// Gives a session another cwd: the header is rewritten and the file goes to the folder of that cwd. The old bytes
    /// stay beside it as a backup.
    ///
    /// # Errors
    /// [`StorageError::Busy`] while somebody holds it, [`StorageError::IsALink`], [`StorageError::UnsupportedVersion`],
    /// and what the system says. Then the session is where it was, whole.
    pub fn relocate(&self, path: &Path, cwd: &str) -> Result<Moved, StorageError> {
        self.refuse_link(path)?;
        let _owner = OwnerLock::take(self.fs(), path, "move")?;
        for _ in 0..16 {
            let storage = JsonlStorage::open(self.fs().clone(), path)?;
            match self.relocate_open(storage, path, cwd) {
                // It grew while it was copied.
                Err(StorageError::Replaced(_)) => {}
                other => return other,
            }
        }
        Err(StorageError::Replaced(path.to_owned()))
    }

    fn relocate_open(&self, mut storage: JsonlStorage, path: &Path, cwd: &str) -> Result<Moved, StorageError> {
        let version = storage.header().version;
        if version > FORMAT_VERSION {
            return Err(StorageError::UnsupportedVersion { version, path: path.to_owned() });
        }
        let id = storage.header().id.clone();
        let new_header = replace_member(storage.header_line(), "cwd", cwd);
        let folder = self.folder_for(cwd);
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        // A name that is none of this program's could meet another file; then the session gets one.
        let target = match id_in_file_name(path) {
            Some(_) => folder.join(&name),
            None => match crate::session::entry::SessionId::new(id.clone()) {
                Ok(id) => folder.join(file_name(&storage.header().timestamp, &id)),
                Err(_) => folder.join(&name),
            },
        };
        if self.is_same_file(path, &target) {
            let backup = storage.rewrite(&new_header)?;
            return Ok(Moved { id, path: path.to_owned(), cwd: cwd.to_owned(), backup });
        }
        let backup = storage.move_to(&new_header, &target)?;
        Ok(Moved { id, path: target, cwd: cwd.to_owned(), backup })
    }

    fn is_same_file(&self, a: &Path, b: &Path) -> bool {
        let identity = |path| self.fs().metadata(path).map(|meta| meta.identity).ok();
        a == b || identity(a).is_some() && identity(a) == identity(b)
    }
}

/// What a fork copies, decided before anything is written.
#[derive(Debug)]
struct ForkPlan {
    /// The entries, in the order of the file.
    copied: Vec<EntryIndex>,
    /// For entries whose parent was left out, the nearest kept ancestor.
    parents: HashMap<EntryIndex, Option<EntryId>>,
    /// For compactions whose first kept entry was left out, the next kept entry.
    first_kept: HashMap<EntryIndex, EntryId>,
    /// Labels to add at the end; `None` clears.
    labels: Vec<(EntryId, Option<String>)>,
    /// The last copied entry of the chain.
    leaf: Option<EntryId>,
}

impl ForkPlan {
    fn of(source: &dyn SessionRead, chosen: Vec<EntryIndex>, all: bool) -> Result<Self, StorageError> {
        let tree = source.tree();
        let mut kept = Seen::new(tree.len());
        for index in &chosen {
            kept.insert(*index);
        }
        let is_kept = |id: &EntryId, kept: &Seen| tree.find(id.as_str()).is_some_and(|index| kept.contains(index));
        // Labels whose target is not copied go, and then labels of these.
        let mut dropped = HashSet::new();
        let mut labels = Vec::new();
        for index in chosen.iter().filter(|_| !all) {
            labels.extend(label_target(source, *index)?.map(|target| (*index, target)));
        }
        loop {
            let before = dropped.len();
            dropped.extend(labels.iter().filter(|(_, target)| !is_kept(target, &kept)).map(|(index, _)| *index));
            if dropped.len() == before {
                break;
            }
            kept = Seen::new(tree.len());
            for index in chosen.iter().filter(|index| !dropped.contains(index)) {
                kept.insert(*index);
            }
        }
        let copied: Vec<_> = chosen.iter().filter(|index| !dropped.contains(index)).copied().collect();
        let mut plan = Self { copied, parents: HashMap::new(), first_kept: HashMap::new(), labels: Vec::new(), leaf: None };
        if !dropped.is_empty() {
            plan.bridge(source, &chosen, &dropped)?;
        }
        plan.labels = plan.missing_labels(source, &kept)?;
        plan.leaf = if all { tree.leaf() } else { plan.copied.last().copied() }.map(|index| tree.id(index));
        Ok(plan)
    }

    /// Finds new parents and first kept entries for those that named a label which is left out.
    fn bridge(
        &mut self,
        source: &dyn SessionRead,
        path: &[EntryIndex],
        dropped: &HashSet<EntryIndex>,
    ) -> Result<(), StorageError> {
        let tree = source.tree();
        let positions: HashMap<_, _> = path.iter().enumerate().map(|(at, index)| (*index, at)).collect();
        for (at, index) in path.iter().enumerate().filter(|(_, index)| !dropped.contains(index)) {
            if at > 0 && dropped.contains(&path[at - 1]) {
                let ancestor = path[..at].iter().rev().find(|index| !dropped.contains(index));
                self.parents.insert(*index, ancestor.map(|index| tree.id(*index)));
            }
            if tree.entry_type(*index) != EntryType::Compaction {
                continue;
            }
            let Some(Entry { kind: EntryKind::Compaction(compaction), .. }) = source.entry(*index)? else { continue };
            let first = compaction.first_kept_entry_id.and_then(|id| tree.find(id.as_str()));
            if let Some(first) = first.filter(|first| dropped.contains(first))
                && let Some(from) = positions.get(&first)
                && let Some(next) = path[*from..].iter().find(|index| !dropped.contains(index))
            {
                self.first_kept.insert(*index, tree.id(*next));
            }
        }
        Ok(())
    }

    /// The labels that copied entries show in the source and would not show by the copied lines alone.
    fn missing_labels(&self, source: &dyn SessionRead, kept: &Seen) -> Result<Vec<(EntryId, Option<String>)>, StorageError> {
        let tree = source.tree();
        let (mut shown, mut copied) = (Labels::default(), Labels::default());
        for index in tree.iter_all().filter(|index| tree.entry_type(*index) == EntryType::Label) {
            if let Some(entry) = source.entry(index)? {
                shown.add(&entry);
                if kept.contains(index) {
                    copied.add(&entry);
                }
            }
        }
        let is_copied = |id: &EntryId| tree.find(id.as_str()).is_some_and(|index| kept.contains(index));
        let set = shown.iter().filter(|(id, label)| is_copied(id) && copied.get(id.as_str()) != Some(label));
        let set = set.map(|(id, label)| (id.clone(), Some(label.to_owned())));
        let cleared = copied.iter().filter(|(id, _)| shown.get(id.as_str()).is_none()).map(|(id, _)| (id.clone(), None));
        Ok(set.chain(cleared).collect())
    }

    /// The line of a copied entry, as it stands in the source but for what was bridged.
    fn line(&self, source: &dyn SessionRead, index: EntryIndex) -> Result<Vec<u8>, StorageError> {
        let mut line = source.line(index)?;
        if let Some(parent) = self.parents.get(&index) {
            line = match parent {
                Some(parent) => replace_member(&line, "parentId", parent.as_str()),
                None => clear_member(&line, "parentId"),
            };
        }
        if let Some(first) = self.first_kept.get(&index) {
            line = replace_member(&line, "firstKeptEntryId", first.as_str());
        }
        Ok(line)
    }
}

/// The target of a label entry; `None` for other entries and for labels that name none.
fn label_target(source: &dyn SessionRead, index: EntryIndex) -> Result<Option<EntryId>, StorageError> {
    if source.tree().entry_type(index) != EntryType::Label {
        return Ok(None);
    }
    Ok(source.entry(index)?.and_then(|entry| if let EntryKind::Label(label) = entry.kind { label.target_id } else { None }))
}
