//! One pass over a session file that looks at each entry while its bytes are at hand.
//!
//! # Invariants
//! - Entries come in file order, each once, also those that a later line of the same id shadows.
//! - What a visitor does not ask for is not parsed.

use std::borrow::Cow;
use std::path::Path;

use crate::session::entry::{Entry, EntryType};
use crate::session::message::Role;
use crate::storage::StorageError;
use crate::storage::fs::{FsFile, read_exact_at};
use crate::storage::jsonl::codec::{self, LineHead};
use crate::storage::jsonl::reader::{Bytes, Index, LineVisitor};
use crate::storage::jsonl::{PREVIEWED_BYTES, read_clipped};

/// An entry during a pass over its file.
#[derive(Clone, Copy)]
pub(crate) struct VisitedEntry<'a> {
    head: &'a LineHead<'a>,
    bytes: Bytes<'a>,
    file: &'a dyn FsFile,
}

impl VisitedEntry<'_> {
    /// The wire type.
    pub(crate) fn entry_type(&self) -> EntryType {
        self.head.entry_type
    }

    /// The role of a `message`.
    pub(crate) fn role(&self) -> Option<Role> {
        self.head.role
    }

    /// Reads the whole entry; `None` when its record is no JSON or cannot be read.
    pub(crate) fn entry(&self) -> Option<Entry> {
        codec::decode_entry(&self.record()?)
    }

    /// Reads the entry for a look at it; of a long record the strings may be cut, see
    /// [`SessionRead::preview`](crate::storage::SessionRead::preview).
    pub(crate) fn preview(&self) -> Option<Entry> {
        match self.bytes.whole {
            None if self.bytes.len > PREVIEWED_BYTES => {
                codec::decode_entry(&read_clipped(self.file, self.bytes.offset, self.bytes.len).ok()?)
            }
            Some(_) | None => self.entry(),
        }
    }

    /// The bytes of the record; `None` when they cannot be read.
    pub(crate) fn record(&self) -> Option<Cow<'_, [u8]>> {
        match self.bytes.whole {
            Some(record) => Some(Cow::Borrowed(record)),
            None => {
                let mut record = vec![0; usize::try_from(self.bytes.len).ok()?];
                read_exact_at(self.file, &mut record, self.bytes.offset).ok()?;
                Some(Cow::Owned(record))
            }
        }
    }

    /// Reads the entry from its record.
    #[cfg(feature = "search")]
    pub(crate) fn decode(record: &[u8]) -> Option<Entry> {
        codec::decode_entry(record)
    }

    /// Where the record begins in the file (of an old version: in the migrated lines).
    #[cfg(feature = "search")]
    pub(crate) fn offset(&self) -> u64 {
        self.bytes.offset
    }

    /// Where the record's line begins.
    #[cfg(feature = "search")]
    pub(crate) fn line_start(&self) -> u64 {
        self.bytes.line_start
    }

    /// The `timestamp` of the message, if it is a number and stands at the end of the record as Pi writes it: nothing but
    /// plain strings, numbers and words behind it. `None` does not mean that there is none. An object that follows the
    /// message and ends with a `timestamp` of its own is taken for it; nobody writes such a line.
    pub(crate) fn message_time_at_end(&self) -> Option<i64> {
        const KEY: &[u8] = b",\"timestamp\":";
        let end = self.bytes.end;
        let end = &end[end.len().saturating_sub(512)..];
        let at = memchr::memmem::rfind(end, KEY)? + KEY.len();
        let digits = end[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let rest = &end[at + digits..];
        // Brackets behind it could close an object in which it stands, such as a tool's details.
        let is_last_of_message = matches!(rest.first(), Some(b',' | b'}'))
            && rest.ends_with(b"}}")
            && !rest[..rest.len() - 2].iter().any(|byte| matches!(byte, b'{' | b'}' | b'[' | b']' | b'\\'));
        (digits > 0 && is_last_of_message).then(|| std::str::from_utf8(&end[at..at + digits]).ok()?.parse().ok())?
    }
}

/// Reads a file and calls `visit` for each entry. A version 1 or 2 file is visited as it reads in version 3.
pub(crate) fn visit_file(
    file: &dyn FsFile,
    path: &Path,
    visit: &mut dyn FnMut(&VisitedEntry<'_>),
) -> Result<Visited, StorageError> {
    let index = Index::open_with(file, path, &mut Visitor { file, visit })?;
    Ok(Visited { header: index.header, tree: index.tree, damage: index.damage })
}

/// What a pass leaves.
#[derive(Debug)]
pub(crate) struct Visited {
    pub header: crate::session::entry::Header,
    pub tree: crate::session::tree::SessionTree,
    pub damage: Vec<crate::storage::Damage>,
}

pub(super) struct Visitor<'a> {
    pub file: &'a dyn FsFile,
    pub visit: &'a mut dyn FnMut(&VisitedEntry<'_>),
}

impl LineVisitor for Visitor<'_> {
    fn entry(&mut self, head: &LineHead<'_>, bytes: Bytes<'_>) {
        (self.visit)(&VisitedEntry { head, bytes, file: self.file });
    }
}
