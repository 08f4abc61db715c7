//! A session as JSON lines: the header, then entries, byte for byte.
//!
//! With all branches it is a copy of the session without its damaged lines; with the path alone, the path. The header of
//! an older version says version 3, as the entries are migrated.
//!
//! # Invariants
//! - Lines are the bytes of the file, but for secrets that were to be taken out.

use std::io::Write;

use crate::export::{ExportError, Format, Scope, View};

/// The format `jsonl`.
#[derive(Debug)]
pub(super) struct JsonLines;

impl Format for JsonLines {
    fn name(&self) -> &'static str {
        "jsonl"
    }

    fn extension(&self) -> &'static str {
        "jsonl"
    }

    fn default_scope(&self) -> Scope {
        Scope::All
    }

    fn write(&self, view: &View<'_>, out: &mut dyn Write) -> Result<(), ExportError> {
        out.write_all(&view.header_line()?)?;
        out.write_all(b"\n")?;
        for index in view.entries() {
            out.write_all(&view.line(index)?)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}
