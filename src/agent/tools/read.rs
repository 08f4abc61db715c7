//! The tool `read`: a text file, or a part of it.
//!
//! # Invariants
//! - Any file may be read; nothing is changed.
//! - What does not fit says how to read on.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::output::beginning_of;
use super::{Env, Tool, ToolInvocation, ToolOutput, declaration};
use crate::llm::ToolDeclaration;
use crate::session::json::well_formed;

/// Reads files.
#[derive(Debug)]
pub struct Read {
    env: Arc<Env>,
}

impl Read {
    /// Reads the files that `env` reaches.
    pub fn new(env: Arc<Env>) -> Self {
        Self { env }
    }
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[async_trait]
impl Tool for Read {
    fn declaration(&self) -> ToolDeclaration {
        declaration(
            "read",
            "Reads a text file. Long files are cut; use offset and limit to read on.",
            r#"{"type":"object","properties":{"path":{"type":"string","description":"The file, relative to the working folder or absolute"},"offset":{"type":"integer","minimum":1,"description":"The first line to read, from 1"},"limit":{"type":"integer","minimum":1,"description":"The most lines to read"}},"required":["path"]}"#,
        )
    }

    async fn run(&self, call: ToolInvocation<'_>) -> ToolOutput {
        let Arguments { path, offset, limit } = match call.arguments() {
            Ok(arguments) => arguments,
            Err(output) => return output,
        };
        let bytes = match self.env.read(&self.env.absolute(&path)).await {
            Ok(bytes) => bytes,
            Err(error) => return ToolOutput::error(format!("cannot read {path}: {error}")),
        };
        if memchr::memchr(0, &bytes).is_some() {
            return ToolOutput::error(format!("{path} is not a text file ({} bytes)", bytes.len()));
        }
        let text = well_formed(&bytes);
        let first = offset.unwrap_or(1).max(1);
        let total = text.lines().count();
        if first > total.max(1) {
            return ToolOutput::error(format!("{path} has {total} lines, so none from line {first} on"));
        }
        let start: usize = text.split_inclusive('\n').take(first - 1).map(str::len).sum();
        let wanted = &text[start..];
        let wanted_len = limit.map_or(wanted.len(), |limit| wanted.split_inclusive('\n').take(limit).map(str::len).sum());
        let (lines, shown) = beginning_of(&wanted[..wanted_len]);
        let mut shown = shown.to_owned();
        let next = first + lines;
        if lines == 0 && !wanted.is_empty() {
            let len = wanted.lines().next().map_or(0, str::len);
            shown.push_str(&format!("\n[line {first} of {path} has {len} bytes and is cut here]"));
        } else if next <= total {
            shown.push_str(&format!("\n[lines {first} to {} of {total}; go on with offset {next}]", next - 1));
        }
        ToolOutput::text(shown)
    }
}
