//! Sessions for other people and programs: one HTML page, Markdown, one JSON object, or JSON lines.
//!
//! # Invariants
//! - Formats see a session only through [`View`], which takes secrets out of every line, and of every id, before anything
//!   reads them. So no format can forget to.
//! - Nothing is loaded from anywhere: the caller gives the session, and a written page asks for nothing.
//! - Text of a session is never markup: each format escapes what it writes.
//!
//! # How to add a format
//! One file with a [`Format`], one line in [`FORMATS`].

use std::io::{self, Write};

use crate::session::entry::Header;
use crate::session::stats::SessionStats;
use crate::session::tree::{EntryIndex, SessionTree};

#[cfg(feature = "cli")]
pub(crate) use call::{CallView, Part, Sign};
#[cfg(feature = "cli")]
pub(crate) use colour::{Colour, colours};
#[cfg(feature = "cli")]
pub(crate) use plain::dollars;
pub use redact::{RedactOptions, Redactions};
pub use view::View;

mod call;
#[cfg(feature = "cli")]
mod colour;
mod escape;
mod html;
mod json;
mod jsonl;
mod markdown;
mod plain;
mod redact;
mod segments;
mod view;

/// Why an entry of the session could not be read.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Where an export gets the lines of a session from.
pub trait ExportSource {
    /// The bytes of an entry's record, without a newline, in version 3 of the format.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn line(&self, index: EntryIndex) -> Result<Vec<u8>, SourceError>;
}

/// A session to export.
#[derive(Clone, Copy)]
pub struct ExportInput<'a> {
    /// The header.
    pub header: &'a Header,
    /// The header's line as it stands in the file.
    pub header_line: &'a [u8],
    /// The tree.
    pub tree: &'a SessionTree,
    /// The end of the active path.
    pub leaf: Option<EntryIndex>,
    /// Where lines come from.
    pub source: &'a dyn ExportSource,
    /// Counts, tokens and cost of all branches.
    pub stats: &'a SessionStats,
    /// What could not be read, in the order of the file.
    pub damage: &'a [DamageNote],
}

/// A line that could not be read as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamageNote {
    /// The line in the file, counted from 1.
    pub line: u64,
    /// Where the line begins, in bytes from the start of the file.
    pub byte_offset: u64,
    /// What is wrong, as a sentence.
    pub text: String,
}

/// Which entries go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The active path.
    Path,
    /// All branches.
    All,
}

/// How to export.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Which entries; `None` is the format's own choice.
    pub scope: Option<Scope>,
    /// Takes secrets out; `None` leaves everything as it is.
    pub redact: Option<RedactOptions>,
}

/// What an export did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// How many entries went out.
    pub entries: usize,
    /// What was taken out; empty without `redact`.
    pub redactions: Redactions,
}

/// Why a session could not be exported. What was written so far is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The session could not be read.
    #[error("cannot read the session")]
    Source(#[source] SourceError),
    /// The output could not be written.
    #[error("cannot write the export")]
    Write(#[from] io::Error),
    /// A value could not be written as JSON.
    #[error("cannot write the export as JSON")]
    Json(#[from] serde_json::Error),
}

/// A form in which a session goes out.
pub trait Format: Sync {
    /// The name for `--format`.
    fn name(&self) -> &'static str;

    /// How file names of this format end, without the dot.
    fn extension(&self) -> &'static str;

    /// Which entries go out unless the caller says.
    fn default_scope(&self) -> Scope;

    /// Writes the session.
    ///
    /// # Errors
    /// When the session cannot be read or the output cannot be written.
    fn write(&self, view: &View<'_>, out: &mut dyn Write) -> Result<(), ExportError>;
}

/// All formats; the first is the default.
pub static FORMATS: [&dyn Format; 4] = [&html::Html, &markdown::Markdown, &json::JsonObject, &jsonl::JsonLines];

/// The format of this name.
pub fn find_format(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().find(|format| format.name() == name).copied()
}

/// Writes a session in a format. `O(bytes of the entries)`; lines are read as they are needed.
///
/// # Errors
/// When the session cannot be read or the output cannot be written.
pub fn export(
    input: ExportInput<'_>,
    format: &dyn Format,
    options: &ExportOptions,
    out: &mut dyn Write,
) -> Result<Exported, ExportError> {
    let scope = options.scope.unwrap_or(format.default_scope());
    let view = View::new(input, scope, options.redact.as_ref())?;
    format.write(&view, out)?;
    out.flush()?;
    Ok(Exported { entries: view.entry_count(), redactions: view.into_redactions() })
}

impl std::fmt::Debug for ExportInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExportInput").field("header", self.header).field("leaf", &self.leaf).finish_non_exhaustive()
    }
}
