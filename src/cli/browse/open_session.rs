//! The session whose tree is shown, opened for reading.
//!
//! # Invariants
//! - Nothing is written through it: each change opens the session anew.

use std::fmt;
use std::path::PathBuf;

use crate::session::labels::Labels;
use crate::session::tree::Children;
use crate::storage::fs::FileMeta;
use crate::storage::handle::Session;

/// A session and what is shown of it as a whole.
pub struct OpenSession {
    /// The session.
    pub session: Session,
    /// Its file.
    pub path: PathBuf,
    /// Each time a session is opened it has another one, so that late answers are told from good ones.
    pub serial: u64,
    /// What the file was when it was opened.
    pub meta: FileMeta,
    /// Its labels.
    pub labels: Labels,
    /// Its name, fit for a terminal.
    pub name: Option<String>,
    /// The children of its entries.
    pub children: Children,
    /// Who holds it, if somebody does.
    pub owner: Option<String>,
    /// Whether its version is too new to be written.
    pub is_read_only: bool,
    /// How many lines cannot be read as they should.
    pub damaged_lines: usize,
    /// Whether the folder that it works in is gone.
    pub folder_is_gone: bool,
}

impl OpenSession {
    /// Whether a file is still what was opened.
    pub fn is_as(&self, meta: &FileMeta) -> bool {
        (meta.len, meta.modified_ns, meta.changed_ns, meta.identity)
            == (self.meta.len, self.meta.modified_ns, self.meta.changed_ns, self.meta.identity)
    }
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSession").field("path", &self.path).field("serial", &self.serial).finish_non_exhaustive()
    }
}
