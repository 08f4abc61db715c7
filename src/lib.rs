//! Coding-agent sessions as append-only JSONL trees, in the format of Pi: kept, read, branched, compacted and continued.
//!
//! A *session* is a file: a header line, then *entries*, each with an `id` and a `parentId`. The path from the *leaf* to
//! the root becomes the *context* that a model sees. Going back to an earlier entry starts a *branch*; a *compaction*
//! replaces older entries in the context and never on disk.
//!
//! # The picture
//! ```text
//!                      cli  (arguments, output, config)
//!                       |
//!                     agent  (the loop, hooks, tools, pending writes)
//!                    /  |   \
//!          compaction   |    \
//!            |     \    |     \
//!            |      \   |      \
//!            |       llm        storage  (files, locks, folders)
//!            |        |        /
//!            +---- session ---+   (values: entries, messages, tree, context)
//! ```
//! An arrow goes down only, and `tests/it/tidy.rs` checks every one of them.
//!
//! # The map
//! - [`session`]: values only. `entry`, `message` and `usage` are the file format, `json` keeps what nobody asks for as
//!   text, `tree` knows parents and the leaf, `context` projects a path to messages, `request` makes them fit a provider,
//!   `labels` and `stats` fold over entries, `incoming` checks and completes lines that a person or a program wants to
//!   append, `outline` lays the tree out in rows, `hash` makes lasting names, `bytes` writes what is kept between two
//!   runs, `usage_report` adds up many sessions in groups, `parting` compares two
//!   branches.
//! - [`storage`]: blocking code. `handle` is an open [`Session`], `repo` a folder of them with `list` and `fork`,
//!   `newest` a first look at it, `lock` the mark of an owner, `reference` finds sessions and entries by what people write, `incoming` appends what came in,
//!   `check` finds every fault, `repair` writes a mended copy, `usage` reads sessions for a report, `trash` brings back what was deleted, `prune` plans what has had its time, `fs` is the file
//!   system behind a trait, `memory` a session without a file, `testing` what
//!   the tests of this layer share. `jsonl` is one file:
//!   `scan` finds lines, `codec` reads their heads and bodies, `clip` cuts long strings out of a look at them, `reader` opens, `recovery` looks at damaged lines,
//!   `long_line` at such as are too long to be held,
//!   `migrate` reads old versions, `writer` appends, `rewrite` makes whole files, `edit` changes one member of a line,
//!   `visit` passes over a file, `follow` gives entries as they are appended, `resume` goes on where a pass ended. `cores` does one thing for many files. With the feature
//!   `search`: `store` is the embedded store of what can be had again, `index` the cache of lists and reports in it, `search` finds
//!   entries by their words, with a full-text index or without.
//! - `llm` (feature `models`): a trait for providers, and one file for each wire protocol.
//! - [`compaction`]: where to cut, what a summary is asked, and the summary that needs no model.
//! - `export` (feature `export`): a session as one HTML page, as Markdown or as JSON, with secrets taken out if asked.
//! - [`import`]: sessions of other programs as entries of ours; one file for each format, pure.
//! - `agent` (feature `models`): the loop between model and tools, and the harness that keeps it in a session.
//! - `cli` (feature `cli`): the command `pi-sessions`.
//!
//! # Invariants
//! - A line's bytes are the truth: they are kept, and copied on a fork and a rewrite. Nothing is parsed that nobody asked
//!   for, so opening costs about what counting lines costs.
//! - `session` and `compaction::cut` do no I/O, read no clock and draw no random numbers.
//! - The library prints nothing and reads no environment; time, ids and files come through traits.
//! - Damage is a value beside the session. No input makes anything panic.
//! - Nothing recurses over a tree or over nested JSON.
//!
//! # How to add
//! - An entry type: a variant of [`session::entry::EntryKind`]; the compiler lists every place to visit. Then a line in
//!   the round-trip test and a fixture.
//! - A format to import: one file in `import`, one line in its list, fixtures. One to export to: one file in `export` and
//!   one line in its list.
//! - A provider: one file in `llm`. A tool: one file in `agent::tools`. A command: one file in `cli::commands`, three
//!   lines in its `mod.rs`, and `tests/it/cmd_<name>.rs`. An argument whose value is called SESSION or ENTRY is completed
//!   by shells, and the examples of its help are run by a test.
//!
//! # Example
//! ```
//! use std::sync::Arc;
//!
//! use pi_sessions::session::entry::{EntryKind, Header};
//! use pi_sessions::session::message::Message;
//! use pi_sessions::storage::memory::MemoryStorage;
//! use pi_sessions::storage::{Durability, RandomIds, SystemClock};
//! use pi_sessions::Session;
//!
//! let storage = MemoryStorage::new(Header { version: 3, id: "tour".into(), ..Header::default() });
//! let mut session = Session::new(Box::new(storage), Arc::new(SystemClock), Arc::new(RandomIds));
//! session.append(vec![EntryKind::message(Message::user("first", 1))], Durability::Synced)?;
//! let second = session.append(vec![EntryKind::message(Message::user("second", 2))], Durability::Synced)?;
//!
//! // Going back to a user message moves the leaf before it and gives its text to edit.
//! let target = session.tree().find(second[0].as_str()).expect("it was appended");
//! let navigation = session.navigate(target, None)?;
//! assert_eq!(navigation.editor_text.as_deref(), Some("second"));
//! assert_eq!(session.project(session.leaf(), &[])?.messages.len(), 1);
//! # Ok::<(), pi_sessions::StorageError>(())
//! ```
//!
//! # A harness with a tool and a hook
//! The model here plays given steps; put a provider of [`llm`] in its place. What is said, and what the tool gave, is in
//! the session when [`prompt`](agent::AgentHarness::prompt) returns.
//!
//! ```
//! # #[cfg(feature = "models")] mod harness {
//! use std::sync::Arc;
//!
//! use pi_sessions::agent::hooks::{HookError, Hooks, ToolCallAnswer, ToolCallEvent};
//! use pi_sessions::agent::tools::{Tool, ToolInvocation, ToolOutput};
//! use pi_sessions::agent::{AgentHarness, HarnessOptions};
//! use pi_sessions::llm::ToolDeclaration;
//! use pi_sessions::llm::scripted::{Scripted, Step};
//! use pi_sessions::session::json::Json;
//! use pi_sessions::Session;
//!
//! struct Dice;
//!
//! #[async_trait::async_trait]
//! impl Tool for Dice {
//!     fn declaration(&self) -> ToolDeclaration {
//!         let parameters = Json::parse(r#"{"type":"object","properties":{"sides":{"type":"integer"}}}"#).expect("JSON");
//!         ToolDeclaration { name: "dice".into(), description: "Throws a dice".into(), parameters }
//!     }
//!     async fn run(&self, _call: ToolInvocation<'_>) -> ToolOutput {
//!         ToolOutput::text("4")
//!     }
//! }
//!
//! struct SixSidesOnly;
//!
//! #[async_trait::async_trait]
//! impl Hooks for SixSidesOnly {
//!     async fn tool_call(&self, event: &ToolCallEvent) -> Result<ToolCallAnswer, HookError> {
//!         let block = event.input.as_str() != r#"{"sides":6}"#;
//!         Ok(ToolCallAnswer { block, reason: block.then(|| "a dice has six sides".into()) })
//!     }
//! }
//!
//! pub async fn play(session: Session) -> Result<String, pi_sessions::agent::AgentError> {
//!     let sides = |json| Json::parse(json).expect("JSON");
//!     let steps = [Step::call("dice", sides(r#"{"sides":7}"#)), Step::call("dice", sides(r#"{"sides":6}"#)), Step::text("A four.")];
//!     let mut options = HarnessOptions::new(Arc::new(Scripted::new(steps)), Scripted::model());
//!     options.tools.push(Arc::new(Dice));
//!     options.hooks.push(Arc::new(SixSidesOnly));
//!     let harness = AgentHarness::new(session, options)?;
//!     let outcome = harness.prompt("Throw a dice.").await?;
//!     harness.close()?;
//!     Ok(outcome.answer_text())
//! }
//! # }
//! # #[cfg(feature = "models")] {
//! # use pi_sessions::storage::{RandomIds, SystemClock, memory::MemoryStorage};
//! # use std::sync::Arc;
//! # let header = pi_sessions::session::entry::Header { version: 3, id: "dice".into(), ..Default::default() };
//! # let storage = Box::new(MemoryStorage::new(header));
//! # let session = pi_sessions::Session::new(storage, Arc::new(SystemClock), Arc::new(RandomIds));
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
//! # assert_eq!(runtime.block_on(harness::play(session)).expect("it plays"), "A four.");
//! # }
//! ```
//!
//! # Three sizes
//! Everything (default); the library with models and without the command (`--no-default-features --features models`); the
//! session core alone (`--no-default-features`): no async runtime, no HTTP. The listing cache and search (feature
//! `search`) can be added to either.

#[cfg(feature = "models")]
pub mod agent;
#[cfg(feature = "cli")]
pub mod cli;
pub mod compaction;
#[cfg(feature = "export")]
pub mod export;
pub mod import;
#[cfg(feature = "models")]
pub mod llm;
pub mod session;
pub mod storage;

pub use storage::StorageError;
pub use storage::handle::Session;
pub use storage::repo::Repo;
