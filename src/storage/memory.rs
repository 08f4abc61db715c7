//! One session in memory: for tests, and for programs that keep none on disk.
//!
//! # Invariants
//! - It behaves like [`JsonlStorage`](crate::storage::jsonl::JsonlStorage) without a file: the same suite checks both.

use std::path::Path;

use crate::session::entry::{Entry, Header};
use crate::session::tree::{EntryIndex, SessionTree};
use crate::storage::jsonl::{decode_line, encode_line, header_line, push_line};
use crate::storage::{Damage, Durability, Prepare, SessionRead, SessionStorage, StorageError};

/// A session that lives as long as this value.
#[derive(Clone, Debug)]
pub struct MemoryStorage {
    header: Header,
    header_line: Vec<u8>,
    tree: SessionTree,
    lines: Vec<Vec<u8>>,
}

impl MemoryStorage {
    /// A session without entries.
    pub fn new(header: Header) -> Self {
        let header_line = header_line(&header);
        Self { header, header_line, tree: SessionTree::default(), lines: Vec::new() }
    }
}

impl SessionRead for MemoryStorage {
    fn header(&self) -> &Header {
        &self.header
    }

    fn tree(&self) -> &SessionTree {
        &self.tree
    }

    fn damage(&self) -> &[Damage] {
        &[]
    }

    fn path(&self) -> Option<&Path> {
        None
    }

    fn len_bytes(&self) -> u64 {
        let lines = self.lines.iter().map(|line| line.len() as u64 + 1);
        self.header_line.len() as u64 + 1 + lines.sum::<u64>()
    }

    fn line_number(&self, _index: EntryIndex) -> u64 {
        0
    }

    fn byte_offset(&self, _index: EntryIndex) -> u64 {
        0
    }

    fn header_line(&self) -> &[u8] {
        &self.header_line
    }

    fn line(&self, index: EntryIndex) -> Result<Vec<u8>, StorageError> {
        Ok(self.lines[index.get()].clone())
    }

    fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, StorageError> {
        Ok(decode_line(&self.lines[index.get()], &self.tree, index))
    }
}

impl SessionStorage for MemoryStorage {
    fn append(&mut self, prepare: &mut Prepare<'_>, _durability: Durability) -> Result<Vec<EntryIndex>, StorageError> {
        let entries = prepare(&*self)?;
        let mut indices = Vec::with_capacity(entries.len());
        for entry in &entries {
            let line = encode_line(entry);
            push_line(&mut self.tree, &line)?;
            self.lines.push(line);
            indices.extend(self.tree.find(entry.id.as_str()));
        }
        Ok(indices)
    }

    fn refresh(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    fn as_read(&self) -> &dyn SessionRead {
        self
    }
}
