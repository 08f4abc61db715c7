//! The tree of a session: which entry hangs from which, where the leaf is, and every walk over it.
//!
//! It holds what opening needs and no bodies: about 24 bytes an entry, ids in 8 of them where they are the usual
//! 8 hex digits.
//!
//! # Invariants
//! - Rows stand in file order and are never removed; of rows with one id the last counts and the others are
//!   *shadowed*: no walk meets them.
//! - Every walk is a loop and ends, whatever the parents are: cycles and self-parents stop it at the entry that was
//!   met before, a missing parent ends the path there. `O(path length)` time and one bit an entry of memory.
//! - The leaf is a fold over the rows in file order, so pushing rows one by one and all at once agree.
//!
//! # The leaf rule
//! ```text
//! leaf                                  -> its targetId (one that names nothing leaves the leaf where it is)
//! label, session_info, usage, custom    -> its own id, but only if it hangs from the leaf
//! everything else                       -> its own id
//! ```
//! The second line keeps a stale process that renames a session from hiding the conversation.

use std::collections::HashMap;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::session::entry::{Entry, EntryId, EntryKind, EntryType};
use crate::session::message::{Message, Role};

/// The position of an entry among the entries of its file, from 0. Damaged lines have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryIndex(u32);

impl EntryIndex {
    /// The position as a number.
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// What the tree needs to know of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead<'a> {
    /// The id.
    pub id: &'a str,
    /// The parent's id; `None` for a root.
    pub parent_id: Option<&'a str>,
    /// The wire type.
    pub entry_type: EntryType,
    /// The role, where the type is `message`.
    pub role: Option<Role>,
    /// The `targetId`, where the type is `leaf`; the inner `None` is a reset, the outer one moves nothing.
    pub leaf_target: Option<Option<&'a str>>,
}

impl<'a> EntryHead<'a> {
    /// What the tree needs to know of `entry`.
    pub fn of(entry: &'a Entry) -> Self {
        let leaf_target =
            if let EntryKind::Leaf(leaf) = &entry.kind { Some(leaf.target_id.as_ref().map(EntryId::as_str)) } else { None };
        Self {
            id: entry.id.as_str(),
            parent_id: entry.parent_id.as_ref().map(EntryId::as_str),
            entry_type: entry.kind.entry_type(),
            role: entry.message().map(Message::role),
            leaf_target,
        }
    }
}

/// The session has as many entries as can be counted: 4,294,967,293.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session has too many entries")]
pub struct TreeFull;

/// Parents and ids of all entries, and the leaf.
#[derive(Clone, Debug, Default)]
pub struct SessionTree {
    rows: Vec<Row>,
    /// Ids that are not 8 lowercase hex digits.
    long_ids: Vec<Box<str>>,
    by_id: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Rows whose parent was not there when they came, by the parent's id.
    orphans: HashMap<Box<str>, Vec<u32>>,
    /// The parent's id of each orphan.
    missing_parents: HashMap<u32, Box<str>>,
    /// For a shadowed row, the row that took its id.
    successors: HashMap<u32, u32>,
    /// For a row of type `leaf`, where it moved the leaf.
    leaf_targets: HashMap<u32, Option<EntryId>>,
    leaf: Option<EntryIndex>,
    /// The leaf before the last row that moved it by a `leaf` entry or that began a branch.
    previous_leaf: Option<EntryIndex>,
}

/// One entry. `parent` is a position, or one of the two marks.
#[derive(Clone, Copy, Debug)]
struct Row {
    id: PackedId,
    parent: u32,
    entry_type: EntryType,
    role: Option<Role>,
    shadowed: bool,
}

const ROOT: u32 = u32::MAX;
const MISSING: u32 = u32::MAX - 1;

/// 8 lowercase hex digits as a number below 2^32; anything else as 2^32 plus a position in `long_ids`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedId(u64);

/// The value of each lowercase hex digit, and `NO_HEX` for every other byte.
const HEX_VALUES: [u8; 256] = {
    let mut values = [NO_HEX; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    values
};
const NO_HEX: u8 = u8::MAX;

impl PackedId {
    fn of_hex(id: &str) -> Option<Self> {
        let digits: &[u8; 8] = id.as_bytes().try_into().ok()?;
        // All eight are looked up before any is judged: every id of a file comes through here, some of them often.
        let (mut value, mut seen) = (0u64, 0u8);
        for digit in digits {
            let digit = HEX_VALUES[usize::from(*digit)];
            seen |= digit;
            value = value << 4 | u64::from(digit & 0xf);
        }
        (seen <= 0xf).then_some(Self(value))
    }

    fn long(self) -> Option<usize> {
        self.0.checked_sub(1 << 32).map(|position| position as usize)
    }
}

impl SessionTree {
    /// A tree without entries, with room for `capacity` of them.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { rows: Vec::with_capacity(capacity), by_id: HashTable::with_capacity(capacity), ..Self::default() }
    }

    /// Makes room for `additional` entries more.
    pub fn reserve(&mut self, additional: usize) {
        self.rows.reserve(additional);
        let (rows, long_ids, hasher) = (&self.rows, &self.long_ids, &self.hasher);
        self.by_id.reserve(additional, |row| hash_of(hasher, rows[*row as usize].id, long_ids));
    }

    /// Adds the next entry of the file and moves the leaf. `O(1)`.
    ///
    /// # Errors
    /// When there is no room; the tree is as it was.
    pub fn push(&mut self, head: EntryHead<'_>) -> Result<EntryIndex, TreeFull> {
        let index = u32::try_from(self.rows.len()).ok().filter(|index| *index < MISSING).ok_or(TreeFull)?;
        let parent = self.resolve_parent(index, head.parent_id);
        let hangs_from_leaf = self.hangs_from_leaf(parent);
        let id = PackedId::of_hex(head.id).unwrap_or_else(|| {
            self.long_ids.push(head.id.into());
            PackedId((1 << 32) + self.long_ids.len() as u64 - 1)
        });
        self.rows.push(Row { id, parent, entry_type: head.entry_type, role: head.role, shadowed: false });
        self.insert_id(index, head.id);

        // This row may have taken the leaf's id.
        let old_leaf = self.leaf.map(|leaf| self.current(leaf.0));
        let own = Some(EntryIndex(index));
        self.leaf = match head.entry_type {
            EntryType::Leaf => {
                if let Some(target) = head.leaf_target {
                    self.leaf_targets.insert(index, target.map(EntryId::from));
                }
                match head.leaf_target {
                    None => old_leaf,
                    Some(None) => None,
                    Some(Some(target)) => match self.find(target) {
                        Some(target) => self.place_of(target),
                        None => old_leaf,
                    },
                }
            }
            EntryType::Label | EntryType::SessionInfo | EntryType::Usage | EntryType::Custom if !hangs_from_leaf => old_leaf,
            EntryType::Label
            | EntryType::SessionInfo
            | EntryType::Usage
            | EntryType::Custom
            | EntryType::Message
            | EntryType::Compaction
            | EntryType::BranchSummary
            | EntryType::ModelChange
            | EntryType::ThinkingLevelChange
            | EntryType::ActiveToolsChange
            | EntryType::ContextEdit
            | EntryType::CustomMessage
            | EntryType::Unknown => own,
        };
        // A navigation is a `leaf` entry, or an entry that hangs elsewhere than the leaf.
        if self.leaf != old_leaf && (head.entry_type == EntryType::Leaf || !hangs_from_leaf) {
            self.previous_leaf = old_leaf;
        }
        Ok(EntryIndex(index))
    }

    /// Whether an entry with this parent hangs from the leaf; a `leaf` entry stands for where it moved the leaf.
    fn hangs_from_leaf(&self, parent: u32) -> bool {
        match parent {
            ROOT => self.leaf.is_none(),
            MISSING => false,
            parent => {
                let parent = EntryIndex(parent);
                Some(parent) == self.leaf || (self.entry_type(parent) == EntryType::Leaf && self.place_of(parent) == self.leaf)
            }
        }
    }

    fn resolve_parent(&mut self, index: u32, parent_id: Option<&str>) -> u32 {
        let Some(parent_id) = parent_id else { return ROOT };
        // Most entries hang from the line before.
        if let Some(last) = self.rows.len().checked_sub(1)
            && !self.rows[last].shadowed
            && self.id_text(self.rows[last].id).is(parent_id)
        {
            return last as u32;
        }
        match self.find(parent_id) {
            Some(parent) => parent.0,
            None => {
                self.orphans.entry(parent_id.into()).or_default().push(index);
                self.missing_parents.insert(index, parent_id.into());
                MISSING
            }
        }
    }

    fn insert_id(&mut self, index: u32, id: &str) {
        let hash = self.hash(self.rows[index as usize].id, id);
        let (rows, long_ids, hasher) = (&self.rows, &self.long_ids, &self.hasher);
        let same = |other: &u32| same_id(rows[*other as usize].id, id, long_ids);
        let rehash = |other: &u32| hash_of(hasher, rows[*other as usize].id, long_ids);
        match self.by_id.entry(hash, same, rehash) {
            hashbrown::hash_table::Entry::Occupied(mut slot) => {
                let old = std::mem::replace(slot.get_mut(), index);
                self.rows[old as usize].shadowed = true;
                self.successors.insert(old, index);
            }
            hashbrown::hash_table::Entry::Vacant(slot) => {
                slot.insert(index);
            }
        }
        if !self.orphans.is_empty()
            && let Some(children) = self.orphans.remove(id)
        {
            for child in children {
                self.rows[child as usize].parent = index;
                self.missing_parents.remove(&child);
            }
        }
    }

    fn hash(&self, packed: PackedId, id: &str) -> u64 {
        if packed.long().is_some() { self.hasher.hash_one(id) } else { self.hasher.hash_one(packed.0) }
    }

    /// The entry with this id. `O(1)`.
    pub fn find(&self, id: &str) -> Option<EntryIndex> {
        let hash = match PackedId::of_hex(id) {
            Some(packed) => self.hasher.hash_one(packed.0),
            None => self.hasher.hash_one(id),
        };
        self.by_id.find(hash, |other| same_id(self.rows[*other as usize].id, id, &self.long_ids)).map(|index| EntryIndex(*index))
    }

    fn id_text(&self, id: PackedId) -> IdText<'_> {
        match id.long() {
            Some(position) => IdText::Long(&self.long_ids[position]),
            None => IdText::Hex(id),
        }
    }

    /// The id of an entry of this tree.
    pub fn id(&self, index: EntryIndex) -> EntryId {
        match self.id_text(self.rows[index.get()].id) {
            IdText::Long(id) => EntryId::from(id),
            IdText::Hex(id) => EntryId::of_bits(id.0 as u32),
        }
    }

    /// The wire type.
    pub fn entry_type(&self, index: EntryIndex) -> EntryType {
        self.rows[index.get()].entry_type
    }

    /// The role, where the type is `message`.
    pub fn role(&self, index: EntryIndex) -> Option<Role> {
        self.rows[index.get()].role
    }

    /// The parent as it stands in the file, also one that does not exist; `None` for a root.
    pub fn parent_id(&self, index: EntryIndex) -> Option<EntryId> {
        match self.rows[index.get()].parent {
            ROOT => None,
            MISSING => self.missing_parents.get(&index.0).map(|id| EntryId::from(&**id)),
            parent => Some(self.id(EntryIndex(parent))),
        }
    }

    /// The parent; `None` for a root and where the parent is missing.
    pub fn parent(&self, index: EntryIndex) -> Option<EntryIndex> {
        match self.rows[index.get()].parent {
            ROOT | MISSING => None,
            parent => Some(self.current(parent)),
        }
    }

    /// Whether the entry names a parent that is not in the file.
    pub fn is_orphan(&self, index: EntryIndex) -> bool {
        self.rows[index.get()].parent == MISSING
    }

    /// Whether a later line has the same id, so that no walk meets this entry.
    pub fn is_shadowed(&self, index: EntryIndex) -> bool {
        self.rows[index.get()].shadowed
    }

    /// The row that holds the id of `index` now. A successor is always a later row, so this ends.
    fn current(&self, index: u32) -> EntryIndex {
        let mut index = index;
        while self.rows[index as usize].shadowed {
            match self.successors.get(&index) {
                Some(successor) => index = *successor,
                None => break,
            }
        }
        EntryIndex(index)
    }

    /// Where an entry stands as a target: itself, or for a `leaf` entry where that moved the leaf; `None` after a reset.
    pub fn place_of(&self, index: EntryIndex) -> Option<EntryIndex> {
        let mut seen = Seen::new(self.rows.len());
        let mut place = index;
        while self.entry_type(place) == EntryType::Leaf && seen.insert(place) {
            match self.leaf_targets.get(&place.0) {
                Some(Some(target)) => match self.find(target.as_str()) {
                    Some(target) => place = target,
                    None => return Some(place),
                },
                Some(None) => return None,
                None => return Some(place),
            }
        }
        Some(place)
    }

    /// Where the next entry hangs; `None` before the first entry and after a reset.
    pub fn leaf(&self) -> Option<EntryIndex> {
        self.leaf
    }

    /// The leaf before the last navigation; `None` if there was none, or no navigation.
    pub fn previous_leaf(&self) -> Option<EntryIndex> {
        self.previous_leaf.map(|leaf| self.current(leaf.0))
    }

    /// The last line's entry, when it is one that names or labels or the like and hangs elsewhere than the leaf:
    /// then Pi would go on from there and this program from the leaf.
    pub fn stray_tail(&self) -> Option<EntryIndex> {
        let last = EntryIndex(u32::try_from(self.rows.len().checked_sub(1)?).ok()?);
        match self.entry_type(last) {
            EntryType::Label | EntryType::SessionInfo | EntryType::Usage | EntryType::Custom => {
                (self.leaf != Some(last)).then_some(last)
            }
            EntryType::Message
            | EntryType::Compaction
            | EntryType::BranchSummary
            | EntryType::Leaf
            | EntryType::ModelChange
            | EntryType::ThinkingLevelChange
            | EntryType::ActiveToolsChange
            | EntryType::ContextEdit
            | EntryType::CustomMessage
            | EntryType::Unknown => None,
        }
    }

    /// How many entries the file has, shadowed ones included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All entries that count, in file order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = EntryIndex> {
        self.rows.iter().enumerate().filter(|(_, row)| !row.shadowed).map(|(index, _)| EntryIndex(index as u32))
    }

    /// All entries, also shadowed ones, in file order.
    pub fn iter_all(&self) -> impl DoubleEndedIterator<Item = EntryIndex> {
        (0..self.rows.len()).map(|index| EntryIndex(index as u32))
    }

    /// `index`, its parent, and so on to the root.
    pub fn ancestors(&self, index: EntryIndex) -> Ancestors<'_> {
        Ancestors { tree: self, next: Some(index), seen: Seen::new(self.rows.len()) }
    }

    /// The entries from the root to `leaf`; none for `None`.
    pub fn path(&self, leaf: Option<EntryIndex>) -> Vec<EntryIndex> {
        let mut path: Vec<_> = leaf.map(|leaf| self.ancestors(leaf).collect()).unwrap_or_default();
        path.reverse();
        path
    }

    /// The last entry that the paths to `a` and `b` share.
    pub fn common_ancestor(&self, a: EntryIndex, b: EntryIndex) -> Option<EntryIndex> {
        let mut on_a = Seen::new(self.rows.len());
        self.ancestors(a).for_each(|index| {
            on_a.insert(index);
        });
        self.ancestors(b).find(|index| on_a.contains(*index))
    }

    /// Whether the parents of `index` form a ring, so that its path has no root.
    pub fn is_in_cycle(&self, index: EntryIndex) -> bool {
        let mut walk = self.ancestors(index);
        let mut last = index;
        for ancestor in walk.by_ref() {
            last = ancestor;
        }
        self.parent(last).is_some()
    }

    /// How many branches the conversation has: the number of its [ends](Self::branch_ends). `O(entries)`.
    pub fn branch_count(&self) -> usize {
        self.branch_ends().count()
    }

    /// The ends of the conversation's branches, in file order: its entries (messages but for `system` ones, messages of
    /// applications and summaries) that no other of them hangs from, directly or by way of other entries. `O(entries)`.
    pub fn branch_ends(&self) -> impl Iterator<Item = EntryIndex> {
        // What stands above an entry that speaks. Each walk ends where an earlier one went, so an entry is met once.
        let mut above = Seen::new(self.rows.len());
        for index in self.iter().filter(|index| self.speaks(*index)) {
            let mut next = self.parent(index);
            while let Some(ancestor) = next.filter(|ancestor| above.insert(*ancestor)) {
                next = self.parent(ancestor);
            }
        }
        self.iter().filter(move |index| self.speaks(*index) && !above.contains(*index))
    }

    /// Whether an entry is a part of the conversation, so that it can be the end of a branch.
    pub(crate) fn speaks(&self, index: EntryIndex) -> bool {
        match self.entry_type(index) {
            EntryType::Message => self.role(index) != Some(Role::System),
            EntryType::CustomMessage | EntryType::Compaction | EntryType::BranchSummary => true,
            EntryType::Leaf
            | EntryType::ModelChange
            | EntryType::ThinkingLevelChange
            | EntryType::ActiveToolsChange
            | EntryType::ContextEdit
            | EntryType::Custom
            | EntryType::Label
            | EntryType::SessionInfo
            | EntryType::Usage
            | EntryType::Unknown => false,
        }
    }

    /// The children of every entry. `O(entries)`.
    pub fn children(&self) -> Children {
        Children::of(self)
    }
}

/// The hash of an id in the tree; that of a packed one is of its number.
fn hash_of(hasher: &DefaultHashBuilder, packed: PackedId, long_ids: &[Box<str>]) -> u64 {
    match packed.long() {
        Some(position) => hasher.hash_one(&*long_ids[position]),
        None => hasher.hash_one(packed.0),
    }
}

fn same_id(packed: PackedId, id: &str, long_ids: &[Box<str>]) -> bool {
    match packed.long() {
        Some(position) => &*long_ids[position] == id,
        None => PackedId::of_hex(id) == Some(packed),
    }
}

enum IdText<'a> {
    Hex(PackedId),
    Long(&'a str),
}

impl IdText<'_> {
    fn is(&self, id: &str) -> bool {
        match self {
            Self::Hex(packed) => PackedId::of_hex(id) == Some(*packed),
            Self::Long(text) => *text == id,
        }
    }
}

/// A walk from an entry to its root. Ends at an entry that it met before.
#[derive(Debug)]
pub struct Ancestors<'a> {
    tree: &'a SessionTree,
    next: Option<EntryIndex>,
    seen: Seen,
}

impl Iterator for Ancestors<'_> {
    type Item = EntryIndex;

    fn next(&mut self) -> Option<EntryIndex> {
        let index = self.next.take()?;
        if !self.seen.insert(index) {
            return None;
        }
        self.next = self.tree.parent(index);
        Some(index)
    }
}

/// A set of entries: one bit each.
#[derive(Clone, Debug)]
pub struct Seen(Vec<u64>);

impl Seen {
    /// The empty set over the entries of a tree with `len` of them.
    pub fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    /// Adds an entry; false if it was there.
    pub fn insert(&mut self, index: EntryIndex) -> bool {
        let (word, bit) = (index.get() / 64, 1 << (index.get() % 64));
        let fresh = self.0[word] & bit == 0;
        self.0[word] |= bit;
        fresh
    }

    /// Whether the entry is in the set.
    pub fn contains(&self, index: EntryIndex) -> bool {
        self.0[index.get() / 64] & (1 << (index.get() % 64)) != 0
    }
}

/// The children of every entry, and the entries without a parent, each in file order.
#[derive(Clone, Debug)]
pub struct Children {
    roots: Vec<EntryIndex>,
    /// All children, grouped by parent.
    flat: Vec<EntryIndex>,
    /// Where the group of each entry begins; one more at the end.
    starts: Vec<u32>,
}

impl Children {
    fn of(tree: &SessionTree) -> Self {
        let mut starts = vec![0u32; tree.len() + 1];
        let mut roots = Vec::new();
        for index in tree.iter() {
            match tree.parent(index) {
                Some(parent) => starts[parent.get() + 1] += 1,
                None => roots.push(index),
            }
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut flat = vec![EntryIndex(0); starts.last().map_or(0, |total| *total as usize)];
        for index in tree.iter() {
            if let Some(parent) = tree.parent(index) {
                let slot = &mut next[parent.get()];
                flat[*slot as usize] = index;
                *slot += 1;
            }
        }
        Self { roots, flat, starts }
    }

    /// The entries that hang from nothing that is there: roots and orphans.
    pub fn roots(&self) -> &[EntryIndex] {
        &self.roots
    }

    /// The entries that hang from `index`.
    pub fn of_entry(&self, index: EntryIndex) -> &[EntryIndex] {
        &self.flat[self.starts[index.get()] as usize..self.starts[index.get() + 1] as usize]
    }
}

#[cfg(test)]
mod tests;
