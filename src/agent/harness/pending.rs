//! The session and the entries that wait to be written to it.
//!
//! # Invariants
//! - Entries are written in the order they came, all that wait in one write.
//! - What could not be written stays on the list.
//! - The context holds what waits, so a failed write changes nothing for the model.

use super::FlushPolicy;
use crate::session::context::{ContextExtension, ProjectedMessage};
use crate::session::entry::{CustomMessageEntry, Entry, EntryId, EntryKind, MessageEntry};
use crate::session::message::{CustomMessage, Message};
use crate::session::request::interrupted_result;
use crate::storage::handle::Session;
use crate::storage::{Durability, StorageError};

/// A session and what waits to be written to it.
pub(super) struct Store {
    pub session: Session,
    pending: Vec<EntryKind>,
    policy: FlushPolicy,
}

impl Store {
    pub fn new(session: Session, policy: FlushPolicy) -> Self {
        Self { session, pending: Vec::new(), policy }
    }

    pub fn policy(&self) -> FlushPolicy {
        self.policy
    }

    pub fn durability(&self) -> Durability {
        match self.policy {
            FlushPolicy::Turn | FlushPolicy::Entry => Durability::Synced,
            FlushPolicy::Off => Durability::Unsynced,
        }
    }

    /// How many entries wait.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    pub fn push(&mut self, kind: EntryKind) {
        self.pending.push(kind);
    }

    /// Writes what waits; nothing where nothing does.
    pub fn flush(&mut self) -> Result<Vec<EntryId>, StorageError> {
        if self.pending.is_empty() {
            return Ok(Vec::new());
        }
        let (pending, durability) = (&self.pending, self.durability());
        let made = self.session.append_with(
            &mut |batch| {
                pending.iter().for_each(|kind| drop(batch.push(kind.clone())));
                Ok(())
            },
            durability,
        )?;
        self.pending.clear();
        Ok(made)
    }

    /// What waits, as entries that hang from the leaf.
    pub fn draft(&self) -> Vec<Entry> {
        self.session.draft(self.pending.clone())
    }

    /// Gives open calls among what waits an error result.
    pub fn settle(&mut self, now_ms: i64) {
        let mut open: Vec<(String, String)> = Vec::new();
        for kind in &self.pending {
            match kind {
                EntryKind::Message(MessageEntry { message: Message::Assistant(answer), .. }) if !answer.is_failed() => {
                    open.extend(answer.tool_calls().map(|call| (call.id.clone(), call.name.clone())));
                }
                EntryKind::Message(MessageEntry { message: Message::ToolResult(result), .. }) => {
                    open.retain(|(id, _)| *id != result.tool_call_id);
                }
                _ => {}
            }
        }
        for (id, name) in open {
            self.push(EntryKind::message(interrupted_result(&id, &name, Some(now_ms))));
        }
    }

    /// The context: that of the session, and what waits.
    pub fn context(&self, extensions: &[&dyn ContextExtension]) -> Result<Vec<ProjectedMessage>, StorageError> {
        let mut messages = self.session.project(self.session.leaf(), extensions)?.messages;
        messages.extend(self.waiting().map(|message| ProjectedMessage { message, source: None }));
        Ok(messages)
    }

    /// The messages that wait.
    pub fn waiting(&self) -> impl Iterator<Item = Message> {
        self.pending.iter().filter_map(|kind| match kind {
            EntryKind::Message(entry) => Some(entry.message.clone()),
            EntryKind::CustomMessage(entry) => Some(Message::Custom(CustomMessage {
                custom_type: entry.custom_type.clone(),
                content: entry.content.clone(),
                display: entry.display,
                details: entry.details.clone(),
                ..CustomMessage::default()
            })),
            _ => None,
        })
    }
}

/// The entry of a message: those of applications have a type of their own.
pub(super) fn entry_of(message: Message) -> EntryKind {
    match message {
        Message::Custom(custom) => EntryKind::CustomMessage(CustomMessageEntry {
            custom_type: custom.custom_type,
            content: custom.content,
            display: Some(custom.display.unwrap_or(true)),
            details: custom.details,
            extra: custom.extra,
        }),
        message => EntryKind::message(message),
    }
}
