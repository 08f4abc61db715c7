//! A session read line by line into memory: the simplest reader that can be right, to test the session layer with.
//!
//! # Invariants
//! - It takes whole lines of version 3 only; anything else is a mistake in the test and panics.

use pi_sessions::session::context::EntrySource;
use pi_sessions::session::entry::{Entry, EntryId, EntryKind, EntryType};
use pi_sessions::session::json::{Fields, Json};
use pi_sessions::session::message::Role;
use pi_sessions::session::tree::{EntryHead, EntryIndex, SessionTree};

/// A session in memory.
#[derive(Debug, Default)]
pub struct PlainSession {
    pub tree: SessionTree,
    pub entries: Vec<Entry>,
}

impl PlainSession {
    /// Adds the entry in `line`.
    pub fn push(&mut self, line: &str) -> EntryIndex {
        let mut fields = Fields::parse(line).expect(line);
        let entry_type = EntryType::from_wire(fields.get::<String>("type").unwrap_or_default().as_bytes());
        let role = fields.get::<Json>("message").and_then(|message| message.fields()?.get::<String>("role"));
        let leaf_target = fields.get::<Option<EntryId>>("targetId").filter(|_| entry_type == EntryType::Leaf);
        let entry = Entry {
            id: fields.take("id").expect(line),
            parent_id: fields.take::<Option<EntryId>>("parentId").flatten(),
            timestamp: fields.take("timestamp").unwrap_or_default(),
            kind: EntryKind::read(fields),
        };
        let head = EntryHead {
            id: entry.id.as_str(),
            parent_id: entry.parent_id.as_ref().map(EntryId::as_str),
            entry_type,
            role: role.filter(|_| entry_type == EntryType::Message).map(|role| Role::from_wire(&role)),
            leaf_target: leaf_target.as_ref().map(|target| target.as_ref().map(EntryId::as_str)),
        };
        let index = self.tree.push(head).expect("room");
        self.entries.push(entry);
        index
    }

    /// The last line's entry.
    pub fn last(&self) -> Option<EntryIndex> {
        self.tree.iter_all().next_back()
    }
}

impl EntrySource for PlainSession {
    type Error = std::convert::Infallible;

    fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, Self::Error> {
        Ok(self.entries.get(index.get()).cloned())
    }
}
