//! Where sessions are kept.

use std::io;
use std::path::PathBuf;

pub mod fs;
pub mod jsonl;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
