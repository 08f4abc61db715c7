//! Tool calls that have no result.
//!
//! A call is *open* when the conversation goes on without its result: when some branch comes to the next assistant
//! message, or to the end of the conversation, and no result of the call is on the way. Branches that hold nothing but
//! names, labels, moves of the leaf and the like do not count, unless there are no others. Calls of messages that failed
//! or were aborted have no results and need none.
//!
//! # Invariants
//! - `O(entries)` in all, however bushy the tree: between an assistant message and the next ones below it, the *ends* of
//!   branches are counted once, and those below the results of a call are summed up.
//! - Of calls and results a hash is kept, not the text.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::session::entry::{Entry, EntryType};
use crate::session::message::{Message, Role};
use crate::session::tree::{Children, EntryIndex, SessionTree};
use crate::storage::{SessionRead, StorageError};

/// Collects calls and results, in file order.
#[derive(Debug, Default)]
pub(super) struct CallFold {
    hasher: RandomState,
    /// Each call, and the hash of its id.
    calls: Vec<(EntryIndex, u64)>,
    /// The hash of the call's id, for each result.
    results: HashMap<EntryIndex, u64>,
}

/// The ends below the results of one call.
#[derive(Debug, Default)]
struct Answered {
    ends: u64,
    /// Behind the last entry below the last result, in the order of the walk.
    covered: usize,
}

impl CallFold {
    /// Takes the next entry.
    pub(super) fn add(&mut self, index: EntryIndex, entry: &Entry) {
        if let Some(Message::Assistant(message)) = entry.message()
            && !message.is_failed()
        {
            self.calls.extend(message.tool_calls().map(|call| (index, self.hasher.hash_one(&call.id))));
        }
        if let Some(Message::ToolResult(message)) = entry.message() {
            self.results.insert(index, self.hasher.hash_one(&message.tool_call_id));
        }
    }

    /// The calls that are open, with their ids, in file order.
    ///
    /// # Errors
    /// When an entry cannot be read again for the id.
    pub(super) fn open_calls(
        &self,
        session: &dyn SessionRead,
        children: &Children,
    ) -> Result<Vec<(EntryIndex, String)>, StorageError> {
        let tree = session.tree();
        let walk = Walk::of(tree, children);
        let mut answered: HashMap<(EntryIndex, u64), Answered> = HashMap::new();
        for (at, index) in walk.order.iter().enumerate() {
            let (Some(call), Some(owner)) = (self.results.get(index), walk.owner[index.get()]) else { continue };
            let sum = answered.entry((owner, *call)).or_default();
            // A second result below the first answers nothing new.
            if at >= sum.covered {
                sum.ends += u64::from(walk.ends[index.get()]);
                sum.covered = walk.behind[index.get()] as usize;
            }
        }
        let mut open = Vec::new();
        for (index, call) in &self.calls {
            // What no walk meets is reported as what it is: a duplicate or a ring.
            if walk.owner[index.get()].is_none() {
                continue;
            }
            let ends = answered.get(&(*index, *call)).map_or(0, |sum| sum.ends);
            if ends < u64::from(walk.ends[index.get()]) {
                open.push((*index, *call));
            }
        }
        open.dedup();
        open.into_iter().map(|(index, call)| Ok((index, self.id_of(session, index, call)?))).collect()
    }

    /// The id of the call that has this hash.
    fn id_of(&self, session: &dyn SessionRead, index: EntryIndex, hash: u64) -> Result<String, StorageError> {
        let entry = session.entry(index)?;
        let Some(Message::Assistant(message)) = entry.as_ref().and_then(Entry::message) else { return Ok(String::new()) };
        Ok(message
            .tool_calls()
            .find(|call| self.hasher.hash_one(&call.id) == hash)
            .map(|call| call.id.clone())
            .unwrap_or_default())
    }
}

/// A walk from the roots, parents before children, and what it finds for each entry.
struct Walk {
    order: Vec<EntryIndex>,
    /// The nearest assistant message on the path, the entry itself included; `None` also for what the walk does not meet.
    owner: Vec<Option<EntryIndex>>,
    /// The ends of branches from the entry on: next assistant messages, and last entries of the conversation.
    ends: Vec<u32>,
    /// Behind the last entry below it, as a place in `order`.
    behind: Vec<u32>,
}

impl Walk {
    fn of(tree: &SessionTree, children: &Children) -> Self {
        let mut order = Vec::with_capacity(tree.len());
        let mut owner = vec![None; tree.len()];
        let mut stack: Vec<_> = children.roots().iter().rev().copied().collect();
        while let Some(index) = stack.pop() {
            order.push(index);
            let above = tree.parent(index).and_then(|parent| owner[parent.get()]);
            owner[index.get()] = if is_assistant(tree, index) { Some(index) } else { above };
            stack.extend(children.of_entry(index).iter().rev());
        }
        let mut ends = vec![0u32; tree.len()];
        let mut behind = vec![0u32; tree.len()];
        for (at, index) in order.iter().enumerate().rev() {
            let own = at as u32 + 1;
            behind[index.get()] = behind[index.get()].max(own);
            if ends[index.get()] == 0 && speaks(tree, *index) {
                ends[index.get()] = 1;
            }
            if let Some(parent) = tree.parent(*index) {
                behind[parent.get()] = behind[parent.get()].max(behind[index.get()]);
                ends[parent.get()] += if is_assistant(tree, *index) { 1 } else { ends[index.get()] };
            }
        }
        Self { order, owner, ends, behind }
    }
}

fn is_assistant(tree: &SessionTree, index: EntryIndex) -> bool {
    tree.role(index) == Some(Role::Assistant)
}

/// Whether an entry is a part of the conversation.
fn speaks(tree: &SessionTree, index: EntryIndex) -> bool {
    match tree.entry_type(index) {
        EntryType::Message => tree.role(index) != Some(Role::System),
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
