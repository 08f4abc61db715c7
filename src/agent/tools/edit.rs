//! The tool `edit`: one passage of a file, replaced by another.
//!
//! # Invariants
//! - The passage must stand in the file exactly once; else nothing is changed.
//! - Nothing outside the cwd is written, unless that is allowed (see [`Env::writable`]).
//! - Line ends of the file stay as they are, and so do bytes outside the passage.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::{Env, Execution, Tool, ToolInvocation, ToolOutput, declaration};
use crate::llm::ToolDeclaration;

/// Edits files.
#[derive(Debug)]
pub struct Edit {
    env: Arc<Env>,
}

impl Edit {
    /// Edits the files that `env` allows.
    pub fn new(env: Arc<Env>) -> Self {
        Self { env }
    }
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    #[serde(rename = "oldText", alias = "old_text", alias = "old_string")]
    old_text: String,
    #[serde(rename = "newText", alias = "new_text", alias = "new_string")]
    new_text: String,
}

#[async_trait]
impl Tool for Edit {
    fn declaration(&self) -> ToolDeclaration {
        declaration(
            "edit",
            "Replaces one passage of a text file. The old text must match exactly and stand in the file once.",
            r#"{"type":"object","properties":{"path":{"type":"string","description":"The file, relative to the working folder or absolute"},"oldText":{"type":"string","description":"The passage as it is, with enough around it to be found once"},"newText":{"type":"string","description":"What stands there instead"}},"required":["path","oldText","newText"]}"#,
        )
    }

    fn execution(&self) -> Execution {
        Execution::Sequential
    }

    async fn run(&self, call: ToolInvocation<'_>) -> ToolOutput {
        let Arguments { path, old_text, new_text } = match call.arguments() {
            Ok(arguments) => arguments,
            Err(output) => return output,
        };
        let failed = |error: &dyn std::fmt::Display| ToolOutput::error(format!("cannot edit {path}: {error}"));
        let target = match self.env.writable(&path).await {
            Ok(target) => target,
            Err(error) => return failed(&error),
        };
        let bytes = match self.env.read(&target).await {
            Ok(bytes) => bytes,
            Err(error) => return failed(&error),
        };
        let edited = match replaced(&bytes, &old_text, &new_text) {
            Ok(edited) => edited,
            Err(error) => return failed(&error),
        };
        match self.env.write(&target, &edited).await {
            Ok(()) => ToolOutput::text(format!("edited {path}")),
            Err(error) => failed(&error),
        }
    }
}

/// `bytes` with the passage replaced.
fn replaced(bytes: &[u8], old: &str, new: &str) -> Result<Vec<u8>, String> {
    if old.is_empty() {
        return Err("the old text is empty".to_owned());
    }
    if old == new {
        return Err("the new text is the old one".to_owned());
    }
    let as_it_is = (old.to_owned(), new.to_owned());
    // Models write plain line ends, whatever the file has.
    let with_cr = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    for (old, new) in [as_it_is, (with_cr(old), with_cr(new))] {
        let mut places = memchr::memmem::find_iter(bytes, old.as_bytes());
        let Some(at) = places.next() else { continue };
        // Also one that overlaps with the first makes it unclear which is meant.
        if memchr::memmem::find(&bytes[at + 1..], old.as_bytes()).is_some() {
            return Err("the old text stands in the file more than once".to_owned());
        }
        return Ok([&bytes[..at], new.as_bytes(), &bytes[at + old.len()..]].concat());
    }
    Err("the old text is not in the file".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_is_replaced_only_where_it_is_clear_which() {
        let check = |text: &str, old: &str, new: &str, expect: Result<&str, &str>| {
            let edited = replaced(text.as_bytes(), old, new).map(|bytes| String::from_utf8(bytes).expect("text"));
            assert_eq!(edited.as_deref().map_err(String::as_str), expect, "{text:?} {old:?}");
        };
        check("one two", "two", "2", Ok("one 2"));
        check("a a", "a", "b", Err("the old text stands in the file more than once"));
        check("aaa", "aa", "b", Err("the old text stands in the file more than once"));
        check("x", "y", "z", Err("the old text is not in the file"));
        check("x", "", "z", Err("the old text is empty"));
        check("x", "x", "x", Err("the new text is the old one"));
        check("a\r\nb\r\nc", "a\nb", "a\nB", Ok("a\r\nB\r\nc"));
    }
}
