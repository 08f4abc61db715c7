//! Tools: what a model may do. `read`, `write`, `edit` and `bash` are built in.
//!
//! To add one: a file with a type that is a [`Tool`], and a line in [`builtin`].
//!
//! # Invariants
//! - A tool never fails a run: what goes wrong is an output that says so.
//! - The files and processes of tools are reached through [`Env`] alone.

mod bash;
mod edit;
mod env;
mod output;
mod process;
mod read;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::llm::ToolDeclaration;
use crate::session::json::Json;
use crate::session::message::Content;

pub use bash::Bash;
pub use edit::Edit;
pub use env::{Env, WritePaths};
pub use output::{MAX_BYTES, MAX_LINES};
pub use read::Read;
pub use write::Write;

/// Whether a tool may run beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// The calls of one answer run at the same time.
    #[default]
    Parallel,
    /// An answer that calls it has all its calls run one after the other, in order.
    Sequential,
}

/// One call of a tool.
#[derive(Clone, Copy)]
pub struct ToolInvocation<'a> {
    /// The id of the call.
    pub call_id: &'a str,
    /// What the model gave: an object.
    pub arguments: &'a Json,
    /// Cancelled when the run is aborted. A tool that does not end soon after is dropped.
    pub abort: &'a CancellationToken,
    /// Takes output that is worth showing before the tool is done.
    pub update: &'a (dyn Fn(&str) + Send + Sync),
}

impl std::fmt::Debug for ToolInvocation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolInvocation")
            .field("call_id", &self.call_id)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

impl ToolInvocation<'_> {
    /// The arguments as a `T`.
    ///
    /// # Errors
    /// What is wrong with them, as an output for the model.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, ToolOutput> {
        serde_json::from_str(self.arguments.as_str())
            .map_err(|error| ToolOutput::error(format!("the arguments cannot be used: {error}")))
    }
}

/// What a tool gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// What the model sees.
    pub content: Content,
    /// What is kept for display.
    pub details: Option<Json>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Whether the run may end here; it does when every result of the batch says so.
    pub terminate: bool,
}

impl ToolOutput {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Content::text_block(text), ..Self::default() }
    }

    /// A failure, in words for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: Content::text_block(text), is_error: true, ..Self::default() }
    }

    /// Adds what is kept for display.
    #[must_use]
    pub fn with_details(mut self, details: Json) -> Self {
        self.details = Some(details);
        self
    }
}

/// Something that a model may call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Its name, description and arguments, for the model.
    fn declaration(&self) -> ToolDeclaration;

    /// Whether it may run beside others.
    fn execution(&self) -> Execution {
        Execution::Parallel
    }

    /// Does it.
    async fn run(&self, call: ToolInvocation<'_>) -> ToolOutput;
}

/// The names of the built-in tools, in the order of [`builtin`].
pub const BUILTIN_NAMES: [&str; 4] = ["read", "write", "edit", "bash"];

/// The built-in tools.
pub fn builtin(env: &Arc<Env>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Read::new(env.clone())),
        Arc::new(Write::new(env.clone())),
        Arc::new(Edit::new(env.clone())),
        Arc::new(Bash::new(env.clone())),
    ]
}

/// A declaration from a schema that is written out in the source.
fn declaration(name: &str, description: &str, schema: &str) -> ToolDeclaration {
    let parameters = Json::parse(schema).unwrap_or_else(|_| Json::empty_object());
    ToolDeclaration { name: name.to_owned(), description: description.to_owned(), parameters }
}

#[cfg(test)]
mod tests;
