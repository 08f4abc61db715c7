//! The tool `write`: a whole file.
//!
//! # Invariants
//! - Nothing outside the cwd is written, unless that is allowed (see [`Env::writable`]).

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::{Env, Execution, Tool, ToolInvocation, ToolOutput, declaration};
use crate::llm::ToolDeclaration;

/// Writes files.
#[derive(Debug)]
pub struct Write {
    env: Arc<Env>,
}

impl Write {
    /// Writes the files that `env` allows.
    pub fn new(env: Arc<Env>) -> Self {
        Self { env }
    }
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    content: String,
}

#[async_trait]
impl Tool for Write {
    fn declaration(&self) -> ToolDeclaration {
        declaration(
            "write",
            "Writes a file, replacing it if it exists; missing folders are created.",
            r#"{"type":"object","properties":{"path":{"type":"string","description":"The file, relative to the working folder or absolute"},"content":{"type":"string","description":"The whole content"}},"required":["path","content"]}"#,
        )
    }

    fn execution(&self) -> Execution {
        Execution::Sequential
    }

    async fn run(&self, call: ToolInvocation<'_>) -> ToolOutput {
        let Arguments { path, content } = match call.arguments() {
            Ok(arguments) => arguments,
            Err(output) => return output,
        };
        let written = match self.env.writable(&path).await {
            Ok(target) => self.env.write(&target, content.as_bytes()).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => ToolOutput::text(format!("wrote {} bytes to {path}", content.len())),
            Err(error) => ToolOutput::error(format!("cannot write {path}: {error}")),
        }
    }
}
