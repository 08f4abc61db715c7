//! What entries call each other by: ids, parents and targets.
//!
//! # Invariants
//! - Of lines with one id the last keeps it, as for every reader; the others get new ones.
//! - Parents form no ring, not even where an entry is hung on an earlier one that hangs from it.

use super::*;
use crate::session::entry::EntryId;
use crate::storage::jsonl::stable_hash;

/// Why an entry lost its place.
#[derive(Clone, Copy, Debug)]
enum Loose {
    /// Its parent is not in the file.
    Orphan,
    /// It names no parent, and not that it has none.
    Unplaced,
    /// It was the first of a ring.
    Ring,
}

impl Draft<'_> {
    /// Mends ids, parents and targets, in this order: each step needs the one before.
    pub(super) fn mend_links(&mut self, mut rows: Vec<Row>, session_id: &str) -> Result<(), StorageError> {
        let mut taken: HashSet<String> = rows.iter().map(|row| row.id.clone()).collect();
        taken.extend(rows.iter().filter_map(|row| row.parent.clone()));
        let mut new_id = |piece: usize| {
            let mut ids = (0..).map(|salt| format!("{:08x}", stable_hash(session_id, piece as u64, salt) >> 32));
            ids.find(|id| taken.insert(id.clone())).unwrap_or_default()
        };
        self.give_ids(&mut rows, &mut new_id);
        let mut rows = self.part_duplicates(rows, &mut new_id)?;
        self.mend_parents(&mut rows)?;
        self.mend_targets(&rows)?;
        self.settle(&rows)
    }

    /// A line that names its id or parent twice may be read otherwise once it stands alone; then both names become one.
    fn settle(&mut self, rows: &[Row]) -> Result<(), StorageError> {
        for row in rows {
            if self.pieces[row.piece].is_copied().is_some() {
                continue;
            }
            let text = self.text(row.piece)?;
            let parent = row.parent.as_deref();
            let is_settled = match whole_head(&well_formed(&text)) {
                Head::Entry(head) => head.id == row.id && head.parent_id.as_deref() == parent,
                Head::Header | Head::NoId | Head::NotAnEntry => true,
            };
            if !is_settled {
                self.edit(row.piece, Edit::Set("id", row.id.clone()));
                self.edit(row.piece, Edit::parent(parent));
            }
        }
        Ok(())
    }

    /// Entries without an id get one, and a place behind the entry before them where they name none.
    fn give_ids(&mut self, rows: &mut [Row], new_id: &mut impl FnMut(usize) -> String) {
        for at in 0..rows.len() {
            let (piece, lacks) = (rows[at].piece, rows[at].lacks);
            if matches!(lacks, Lacks::Nothing | Lacks::Parent) {
                continue;
            }
            let id = new_id(piece);
            self.edit(piece, Edit::Set("id", id.clone()));
            let mut message = format!("an entry without an id gets {id}");
            if lacks == Lacks::IdAndParent {
                let parent = at.checked_sub(1).map(|before| rows[before].id.clone());
                self.edit(piece, Edit::parent(parent.as_deref()));
                if let Some(parent) = &parent {
                    message.push_str(&format!(" and hangs from {parent}"));
                }
                rows[at].parent = parent;
            }
            self.add(self.pieces[piece].line, RepairKind::GiveId, message);
            rows[at].id = id;
        }
        // Of lines with one id the last has it, also where it is empty.
        let Some(named) = rows.iter().rfind(|row| row.is_named_empty).map(|row| row.id.clone()) else { return };
        for row in rows.iter_mut().filter(|row| row.parent.as_deref() == Some("")) {
            self.edit(row.piece, Edit::parent(Some(&named)));
            let message = format!("the parent had an empty id; this entry hangs from {named}");
            self.add(self.pieces[row.piece].line, RepairKind::Rehang, message);
            row.parent = Some(named.clone());
        }
    }

    /// Of lines with one id the last keeps it. Returns the rows that stay.
    fn part_duplicates(&mut self, rows: Vec<Row>, new_id: &mut impl FnMut(usize) -> String) -> Result<Vec<Row>, StorageError> {
        let last: HashMap<String, (usize, usize)> = rows.iter().map(|row| (row.id.clone(), (row.piece, row.len))).collect();
        let mut kept = Vec::with_capacity(rows.len());
        for mut row in rows {
            let (last, last_len) = last.get(&row.id).copied().unwrap_or((row.piece, row.len));
            if last != row.piece {
                let (line, last_line) = (self.pieces[row.piece].line, self.pieces[last].line);
                if row.len == last_len && self.text(row.piece)? == self.text(last)? {
                    self.pieces[row.piece].is_dropped = true;
                    let message = format!("line {last_line} says the same, word for word; this one is left out");
                    self.add(line, RepairKind::DropRepeated, message);
                    continue;
                }
                let id = new_id(row.piece);
                let old = std::mem::replace(&mut row.id, id.clone());
                let message = format!("line {last_line} has the same id, {old}; this entry gets {id}");
                self.edit(row.piece, Edit::Set("id", id));
                self.edit(row.piece, Edit::Set("repairedId", old));
                self.add(line, RepairKind::ChangeId, message);
            }
            kept.push(row);
        }
        Ok(kept)
    }

    /// Entries whose parent is gone or not named, and the first of each ring, hang from the nearest earlier entry that does
    /// not hang from them.
    fn mend_parents(&mut self, rows: &mut [Row]) -> Result<(), StorageError> {
        let by_id: HashMap<&str, usize> = rows.iter().enumerate().map(|(at, row)| (row.id.as_str(), at)).collect();
        let (mut parents, mut loose) = (Vec::with_capacity(rows.len()), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            let parent = row.parent.as_deref().and_then(|parent| by_id.get(parent).copied());
            if row.parent.is_some() && parent.is_none() {
                loose.push((at, Loose::Orphan));
            } else if row.lacks == Lacks::Parent && at > 0 {
                loose.push((at, Loose::Unplaced));
            }
            parents.push(parent);
        }
        drop(by_id);
        loose.extend(cut_rings(&mut parents).into_iter().map(|at| (at, Loose::Ring)));
        loose.sort_by_key(|(at, _)| *at);
        let places = nearest_earlier(&parents, loose.iter().map(|(at, _)| *at));
        for ((at, why), place) in loose.into_iter().zip(places) {
            let parent = place.map(|place| rows[place].id.clone());
            let row = &mut rows[at];
            let piece = row.piece;
            let old = match (std::mem::replace(&mut row.parent, parent.clone()), why) {
                // Something that is no id may stand there.
                (None, Loose::Unplaced) => odd_parent(&self.text(piece)?),
                (old, Loose::Orphan | Loose::Ring | Loose::Unplaced) => Some(old.unwrap_or_default()),
            };
            self.edit(piece, Edit::parent(parent.as_deref()));
            if let Some(old) = &old {
                self.edit(piece, Edit::Set("repairedParentId", old.clone()));
            }
            let old = old.unwrap_or_default();
            let now = parent.map_or("it hangs from nothing".to_owned(), |parent| format!("it hangs from {parent}"));
            let line = self.pieces[piece].line;
            match why {
                Loose::Orphan => self.add(line, RepairKind::Rehang, format!("the parent {old} is not in the file; {now}")),
                Loose::Unplaced => self.add(line, RepairKind::Rehang, format!("no parent is named; {now}")),
                Loose::Ring => self.add(line, RepairKind::CutRing, format!("the parents form a ring by way of {old}; {now}")),
            }
        }
        Ok(())
    }

    /// What an entry names besides its parent.
    fn mend_targets(&mut self, rows: &[Row]) -> Result<(), StorageError> {
        let ids: HashSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let is_gone = |id: &Option<EntryId>| id.as_ref().is_some_and(|id| !ids.contains(id.as_str()));
        for row in rows.iter().filter(|row| row.names_others) {
            let Some(entry) = decode_entry(&self.text(row.piece)?) else { continue };
            let wire_type = entry.kind.wire_type().to_owned();
            let line = self.pieces[row.piece].line;
            let target = match &entry.kind {
                kind if kind.is_unreadable() => None,
                EntryKind::Leaf(leaf) if is_gone(&leaf.target_id) => leaf.target_id.clone(),
                EntryKind::Label(label) if label.target_id.is_none() || is_gone(&label.target_id) => label.target_id.clone(),
                EntryKind::ContextEdit(edit) if edit.target_id.is_none() || is_gone(&edit.target_id) => edit.target_id.clone(),
                EntryKind::Compaction(compaction) if is_gone(&compaction.first_kept_entry_id) => {
                    let old = compaction.first_kept_entry_id.clone().unwrap_or_else(|| EntryId::from(""));
                    self.edit(row.piece, Edit::Set("firstKeptEntryId", row.id.clone()));
                    self.edit(row.piece, Edit::Set("repairedFirstKeptEntryId", old.to_string()));
                    let message = format!("the first kept entry {old} is not in the file; nothing before the summary is kept");
                    self.add(line, RepairKind::KeepNothing, message);
                    continue;
                }
                EntryKind::Unknown { wire_type, .. } => match EntryType::from_wire(wire_type.as_bytes()) {
                    EntryType::Leaf | EntryType::ContextEdit => None,
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
                    | EntryType::Unknown => continue,
                },
                EntryKind::Leaf(_)
                | EntryKind::Label(_)
                | EntryKind::ContextEdit(_)
                | EntryKind::Compaction(_)
                | EntryKind::Message(_)
                | EntryKind::BranchSummary(_)
                | EntryKind::ModelChange(_)
                | EntryKind::ThinkingLevelChange(_)
                | EntryKind::ActiveToolsChange(_)
                | EntryKind::Custom(_)
                | EntryKind::CustomMessage(_)
                | EntryKind::SessionInfo(_)
                | EntryKind::Usage(_) => continue,
            };
            let message = match target {
                Some(target) => format!("the target {target} of this {wire_type} is not in the file; a custom entry holds it"),
                None if entry.kind.is_unreadable() => {
                    format!("nothing can be read of this {wire_type}: its payload is not Pi's; a custom entry holds it")
                }
                None => format!("this {wire_type} does nothing: its payload is not Pi's; a custom entry holds it"),
            };
            self.add(line, RepairKind::KeepAsCustom, message);
            // All bytes are those of JSON by now.
            let wrapping = Wrapping { id: row.id.clone(), parent: row.parent.clone(), wire_type, keeps: Keeps::Json };
            self.edit(row.piece, Edit::Wrap(Box::new(wrapping)));
        }
        Ok(())
    }
}

/// What stands where an entry should name its parent, if anything does.
fn odd_parent(record: &[u8]) -> Option<String> {
    let text = well_formed(record);
    let value = Members::of(&text).find(|(key, _)| key == "parentId").map(|(_, value)| value);
    value.filter(|value| *value != "null").map(str::to_owned)
}

/// Cuts each ring at its first entry and returns these entries.
fn cut_rings(parents: &mut [Option<usize>]) -> Vec<usize> {
    let mut cut = Vec::new();
    // The walk that met an entry, from 1.
    let mut met = vec![0; parents.len()];
    for start in 0..parents.len() {
        let mut next = Some(start);
        while let Some(at) = next.filter(|at| met[*at] == 0) {
            met[at] = start + 1;
            next = parents[at];
        }
        let Some(end) = next.filter(|at| met[*at] == start + 1) else { continue };
        let mut first = end;
        let mut next = parents[end];
        while let Some(at) = next.filter(|at| *at != end) {
            first = first.min(at);
            next = parents[at];
        }
        parents[first] = None;
        cut.push(first);
    }
    cut
}

/// For each of `loose` (roots, in order) the nearest earlier entry that is not below it, once those before it hang.
/// Entries below one root that stand side by side are passed over at once, so that this takes about linear time.
fn nearest_earlier(parents: &[Option<usize>], loose: impl Iterator<Item = usize>) -> Vec<Option<usize>> {
    let mut up: Vec<usize> = parents.iter().enumerate().map(|(at, parent)| parent.unwrap_or(at)).collect();
    let root_of = |up: &mut Vec<usize>, mut at: usize| {
        while up[at] != at {
            up[at] = up[up[at]];
            at = up[at];
        }
        at
    };
    // From here to the entry all have one root.
    let mut run: Vec<usize> = (0..parents.len()).collect();
    let mut places = Vec::new();
    for root in loose {
        let mut start = root;
        while start > 0 && root_of(&mut up, start - 1) == root {
            start = run[start - 1];
        }
        if start < root {
            run[root - 1] = start;
        }
        let place = start.checked_sub(1);
        up[root] = place.unwrap_or(root);
        places.push(place);
    }
    places
}
