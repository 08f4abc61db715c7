//! Where sessions are kept: traits for one session and for a folder of them, JSONL files, and memory.
//!
//! # Invariants
//! - Storage is blocking code. It draws time and ids from a given [`Clock`] and [`IdSource`] and touches files through
//!   a given [`fs::Fs`].
//! - Damage is a value beside the session, never an error, and never a reason to lose the rest.

use std::fmt::Debug;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use crate::session::entry::{Entry, EntryId, Header, InvalidSessionId};
use crate::session::incoming::IncomingError;
use crate::session::tree::{EntryIndex, SessionTree, TreeFull};

pub mod check;
pub(crate) mod cores;
pub mod fork;
pub mod fs;
pub mod handle;
pub mod incoming;
#[cfg(feature = "search")]
pub mod index;
pub mod jsonl;
pub mod list;
pub mod lock;
pub mod memory;
#[cfg(feature = "search")]
pub mod newest;
pub mod prune;
pub mod reference;
pub mod repair;
pub mod repo;
#[cfg(feature = "search")]
pub mod search;
#[cfg(feature = "search")]
mod store;
#[cfg(test)]
mod testing;
pub mod trash;
pub mod usage;

/// A session that can be read.
pub trait SessionRead: Send + Sync {
    /// The header.
    fn header(&self) -> &Header;

    /// The tree.
    fn tree(&self) -> &SessionTree;

    /// What could not be read when the session was opened, in file order.
    fn damage(&self) -> &[Damage];

    /// The file, if there is one.
    fn path(&self) -> Option<&Path>;

    /// The size of the session in bytes.
    fn len_bytes(&self) -> u64;

    /// The number of the line that an entry stands in, from 1; 0 where there are no lines.
    fn line_number(&self, index: EntryIndex) -> u64;

    /// Where the record of an entry begins, in bytes from the start of the file; 0 where there is none.
    fn byte_offset(&self, index: EntryIndex) -> u64;

    /// The line of the header as it stands in the file (of an old version, as it was), without its newline.
    fn header_line(&self) -> &[u8];

    /// The bytes of an entry's record, without a newline: as they stand in the file, or migrated to version 3.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn line(&self, index: EntryIndex) -> Result<Vec<u8>, StorageError>;

    /// As [`SessionRead::line`], in place of what is in `buffer`: many lines need one allocation.
    ///
    /// # Errors
    /// When the file cannot be read; then what is in `buffer` means nothing.
    fn line_into(&self, index: EntryIndex, buffer: &mut Vec<u8>) -> Result<(), StorageError> {
        *buffer = self.line(index)?;
        Ok(())
    }

    /// Reads an entry; `None` when its record is no JSON, so that there is no payload.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, StorageError>;

    /// As [`SessionRead::entry`], for a look at it and for its numbers: of a record of more than 1 MiB the strings may be
    /// cut to 64 KiB each. So it costs little memory, however long the record is.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn preview(&self, index: EntryIndex) -> Result<Option<Entry>, StorageError> {
        self.entry(index)
    }
}

/// Makes the entries of an append, once the session is locked and up to date.
pub type Prepare<'a> = dyn FnMut(&dyn SessionRead) -> Result<Vec<Entry>, StorageError> + 'a;

/// A session that can be read and appended to.
pub trait SessionStorage: SessionRead {
    /// Appends entries in one write. `prepare` is called once, under the lock, after what other processes appended has been
    /// read, or not at all when that fails. Returns where the entries are.
    ///
    /// # Errors
    /// Of `prepare`; or when the session cannot be written: then nothing of it is in the tree, and but for
    /// [`StorageError::SyncFailed`] nothing is on disk.
    fn append(&mut self, prepare: &mut Prepare<'_>, durability: Durability) -> Result<Vec<EntryIndex>, StorageError>;

    /// Reads what other processes appended.
    ///
    /// # Errors
    /// When the file cannot be read, or is not this session any more.
    fn refresh(&mut self) -> Result<(), StorageError>;

    /// This session for reading.
    fn as_read(&self) -> &dyn SessionRead;
}

/// How sure a write is when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It survives a power cut.
    Synced,
    /// It survives the end of the process.
    Unsynced,
}

/// Where the time comes from.
pub trait Clock: Send + Sync + Debug {
    /// Unix milliseconds.
    fn now_ms(&self) -> i64;
}

/// Where ids come from.
pub trait IdSource: Send + Sync + Debug {
    /// 32 random bits for an entry's id.
    fn entry_bits(&self) -> u32;

    /// A new session id: a UUID of version 7.
    fn session_id(&self) -> String;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one owner of the time of day")]
    fn now_ms(&self) -> i64 {
        chrono::Utc::now().timestamp_millis()
    }
}

/// Random ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn entry_bits(&self) -> u32 {
        // An id must be new in its file, which is checked, and no secret. Each state has other keys, from a seed that the
        // system gave this thread once, so this asks the system for nothing.
        RandomState::new().hash_one(()) as u32
    }

    fn session_id(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }
}

/// Why a session could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system refused one step.
    #[error("cannot {doing} {path}", path = path.display())]
    Io {
        /// The step, as in "append to" or "lock".
        doing: &'static str,
        /// The session file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no such file.
    #[error("there is no file {path}", path = .0.display())]
    NotFound(PathBuf),
    /// The file has no bytes.
    #[error("the file is empty: {path}", path = .0.display())]
    EmptyFile(PathBuf),
    /// The file has bytes, and its first line is no session header. It was left alone.
    #[error("not a session, its first line is no session header: {path}", path = .0.display())]
    NotASession(PathBuf),
    /// The file is in format 4 of the harness 0.84 to 0.99. It was left alone.
    #[error("format 4 of the harness 0.84 to 0.99, which this program does not read: {path}", path = .0.display())]
    Format4(PathBuf),
    /// The file is of a newer version, so it can be read and not changed.
    #[error("{what}, so this session can be read and not changed: {path}", what = newer_version(*version), path = path.display())]
    UnsupportedVersion {
        /// The version of the file.
        version: u64,
        /// The file.
        path: PathBuf,
    },
    /// A session file of this name exists.
    #[error("there is a file already: {path}", path = .0.display())]
    Exists(PathBuf),
    /// The file at the path is another session now. Nothing was written.
    #[error("another file took the place of this session: {path}", path = .0.display())]
    Replaced(PathBuf),
    /// The session has gone to another folder since it was opened. Nothing was written.
    #[error("the session was moved to {to}, so nothing is written at {path}", to = to.display(), path = path.display())]
    Moved {
        /// Where it was opened.
        path: PathBuf,
        /// Where it is now.
        to: PathBuf,
    },
    /// The write stored only a part, or nothing. It was taken back; the session is as it was.
    #[error("cannot append to {path}", path = path.display())]
    WriteFailed {
        /// The session file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system could not say that the write is on disk. Whether it is, is unknown; reopen to learn it.
    #[error("cannot sync {path}; whether the last write is on disk is unknown", path = path.display())]
    SyncFailed {
        /// The session file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An earlier sync failed, so what is on disk is unknown; reopen to learn it.
    #[error("{path} must be reopened after a failed sync", path = .0.display())]
    Poisoned(PathBuf),
    /// Somebody else holds the session.
    #[error("the session is in use by {owner}: {path}", path = path.display())]
    Busy {
        /// Who, as people read it.
        owner: String,
        /// The session file.
        path: PathBuf,
    },
    /// The file is longer than this machine can address.
    #[error("too long to be read: {path}", path = .0.display())]
    TooLong(PathBuf),
    /// More entries than can be counted.
    #[error(transparent)]
    TooManyEntries(TreeFull),
    /// A session id that cannot be one.
    #[error(transparent)]
    InvalidId(#[from] InvalidSessionId),
    /// There is an entry of this id already.
    #[error("there is an entry {0} already")]
    EntryExists(EntryId),
    /// A line that was to be appended is refused. Nothing was written.
    #[error(transparent)]
    Incoming(#[from] IncomingError),
    /// An entry that an operation names does not exist.
    #[error("there is no entry {0}")]
    NoSuchEntry(EntryId),
    /// A session file that is a link is not rewritten, moved or deleted through the link.
    #[error("a link to a session is not changed through the link: {path}", path = .0.display())]
    IsALink(PathBuf),
    /// The operation needs a user message.
    #[error("{0} is not a user message")]
    NotAUserMessage(EntryId),
}

/// What is said of a version that is not written.
fn newer_version(version: u64) -> String {
    match version {
        // What the header's reader makes of a version that is no number.
        u64::MAX => "the version is no number".to_owned(),
        version => format!("version {version} is newer than {}", crate::session::entry::FORMAT_VERSION),
    }
}

impl StorageError {
    /// An I/O error with what was tried.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound(path.to_owned()),
            _ => Self::Io { doing, path: path.to_owned(), source },
        }
    }
}

/// Bytes of a file that cannot be read as they should. A value beside the session, never a reason to lose the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What is wrong.
    pub kind: DamageKind,
    /// The line in the file, counted from 1.
    pub line: u64,
    /// Where the line begins, in bytes from the start of the file.
    pub byte_offset: u64,
}

/// What can be wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DamageKind {
    /// A record that was cut; nothing of it can be used.
    Torn,
    /// Two records in one line, or a part of one and another; the whole ones are used.
    Fused,
    /// NUL bytes around a record, or nothing else; the record is used.
    NulPadding,
    /// A raw control character in a string; the record is used.
    ControlCharacter,
    /// Something else than an object.
    NotARecord,
    /// An object without a `type`.
    NotAnEntry,
    /// An entry without an id: it has no place in the tree.
    MissingId,
    /// A second header; it is left out.
    SecondHeader,
    /// A line, or a file, that is longer than can be addressed.
    TooLong,
}

impl DamageKind {
    /// The name in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Torn => "tornLine",
            Self::Fused => "fusedLine",
            Self::NulPadding => "nulBytes",
            Self::ControlCharacter => "controlCharacter",
            Self::NotARecord => "notARecord",
            Self::NotAnEntry => "notAnEntry",
            Self::MissingId => "missingId",
            Self::SecondHeader => "secondHeader",
            Self::TooLong => "tooLong",
        }
    }

    /// A sentence for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Torn => "the record is cut off; nothing of it can be used",
            Self::Fused => "two records in one line, or a part of one and another; the whole ones are used",
            Self::NulPadding => "NUL bytes, as a power cut leaves them; a record beside them is used",
            Self::ControlCharacter => "a raw control character inside a string; the record is used",
            Self::NotARecord => "this is not a JSON object",
            Self::NotAnEntry => "an object without a type",
            Self::MissingId => "an entry without an id, which has no place in the tree",
            Self::SecondHeader => "a second header, which is left out",
            Self::TooLong => "longer than can be addressed",
        }
    }
}
