//! Sessions of other programs, read as sessions of ours: one trait, and the list of formats.
//!
//! ```text
//! paths --group_files--> files of one session --ImportFormat::read--> ImportedSession --storage--> a session file
//! ```
//!
//! Bytes come in and values go out; who reads the files and writes the sessions is elsewhere.
//!
//! # Invariants
//! - Nothing is lost in silence: a line becomes entries, or is kept in a `custom` entry whose `customType` is
//!   `import:<format>` and counted by kind, or is a second copy of what is there and counted, or is reported as damage
//!   with its file and line.
//! - What comes out is a sound session: ids are unique, parents exist and nothing is its own ancestor, each tool result
//!   has its call on its path, and each assistant message has all that Pi needs.
//! - No input makes anything panic; memory is bounded by the files of one session.

use std::collections::BTreeMap;
use std::fmt;

use crate::session::entry::{Entry, EntryKind, SessionId};
use crate::session::json::{Fields, Json};
use crate::session::message::{Block, Content, Message};

mod blocks;
pub mod claude;
pub mod codex;
mod draft;
mod lines;
pub mod opencode;
pub mod pi;

/// A file that was read.
#[derive(Clone, Copy)]
pub struct SourceFile<'a> {
    /// Its path; named in reports, and its last parts may tell the session's id.
    pub path: &'a str,
    /// What it holds.
    pub bytes: &'a [u8],
}

impl fmt::Debug for SourceFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceFile").field("path", &self.path).field("len", &self.bytes.len()).finish()
    }
}

/// How another program keeps its sessions.
pub trait ImportFormat: Sync + fmt::Debug {
    /// The name, as in `--from` and in `import:<name>`.
    fn name(&self) -> &'static str;

    /// Whether an object at the beginning of a file, or the file as one object, is of this format.
    fn recognizes(&self, fields: &Fields<'_>) -> bool;

    /// Reads the sessions in the files that [`group_files`] put together.
    fn read(&self, files: &[SourceFile<'_>]) -> Vec<ImportedSession>;
}

/// The formats, in the order in which they are tried.
pub const FORMATS: [&dyn ImportFormat; 4] = [&pi::Pi, &codex::Codex, &opencode::Opencode, &claude::Claude];

/// The format of that name.
pub fn find_format(name: &str) -> Option<&'static dyn ImportFormat> {
    FORMATS.into_iter().find(|format| format.name() == name)
}

/// The format of a file, from its beginning; `None` when it is none of ours.
pub fn detect(bytes: &[u8]) -> Option<&'static dyn ImportFormat> {
    /// A file may begin with damaged lines, and with ones that say little.
    const LINES: usize = 64;
    let first = lines::first_objects(bytes, LINES);
    first.iter().find_map(|json| {
        let fields = json.fields()?;
        FORMATS.into_iter().find(|format| format.recognizes(&fields))
    })
}

/// Puts the paths of a folder together that make up one session each, in the order given: files of opencode by their
/// folders, every other file alone. Paths that can be none (neither `.json` nor `.jsonl`) are left out.
pub fn group_files<'a>(paths: &[&'a str]) -> Vec<Vec<&'a str>> {
    opencode::group(paths)
}

/// A session of another program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportedSession {
    /// The format's name.
    pub format: &'static str,
    /// The file, or the first of them.
    pub file: String,
    /// The id that the source has.
    pub source_id: Option<String>,
    /// The id to give to the session, so that a second import of it meets the first; `None` is a new one.
    pub id: Option<SessionId>,
    /// The id of the session that this one was forked from, or works for.
    pub source_parent: Option<String>,
    /// The folder that it worked in; empty when the source does not say.
    pub cwd: String,
    /// When it was created, in Unix milliseconds.
    pub created_ms: Option<i64>,
    /// Its name.
    pub name: Option<String>,
    /// What the header keeps of the source, as `metadata`.
    pub metadata: Option<Json>,
    /// The entries, ready to be written in this order; the last one makes the leaf what it was.
    pub entries: Vec<Entry>,
    /// What is in `entries`; read back, they must give the same.
    pub counts: EntryCounts,
    /// How many lines or parts had no place and are kept in `custom` entries, by kind.
    pub leftovers: BTreeMap<String, u64>,
    /// How many lines or parts say again what another one says, by kind; they are not kept.
    pub copies: BTreeMap<String, u64>,
    /// What could not be read.
    pub damage: Vec<ImportDamage>,
}

/// Bytes of a source that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportDamage {
    /// The file.
    pub file: String,
    /// The line, counted from 1; 0 is the file as a whole.
    pub line: u64,
    /// What is wrong, for people.
    pub message: String,
}

/// What a list of entries holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// All entries.
    pub entries: u64,
    /// User messages.
    pub user: u64,
    /// Assistant messages.
    pub assistant: u64,
    /// Tool results.
    pub tool_results: u64,
    /// Calls of tools, in assistant messages.
    pub tool_calls: u64,
    /// Blocks of thinking.
    pub thinking: u64,
    /// Images.
    pub images: u64,
    /// `custom_message` entries and messages of other roles.
    pub other_messages: u64,
    /// Compactions.
    pub compactions: u64,
    /// Changes of the model.
    pub model_changes: u64,
    /// `custom` entries.
    pub custom: u64,
    /// Entries of other types.
    pub other: u64,
}

impl EntryCounts {
    /// Counts entries.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut counts = Self::default();
        entries.into_iter().for_each(|entry| counts.add(entry));
        counts
    }

    /// Counts one more entry.
    pub fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        match &entry.kind {
            EntryKind::Message(payload) => self.add_message(&payload.message),
            EntryKind::CustomMessage(payload) => {
                self.other_messages += 1;
                self.add_content(payload.content.as_ref());
            }
            EntryKind::Compaction(_) => self.compactions += 1,
            EntryKind::ModelChange(_) => self.model_changes += 1,
            EntryKind::Custom(_) => self.custom += 1,
            EntryKind::BranchSummary(_)
            | EntryKind::Leaf(_)
            | EntryKind::ThinkingLevelChange(_)
            | EntryKind::ActiveToolsChange(_)
            | EntryKind::ContextEdit(_)
            | EntryKind::Label(_)
            | EntryKind::SessionInfo(_)
            | EntryKind::Usage(_)
            | EntryKind::Unknown { .. } => self.other += 1,
        }
    }

    fn add_message(&mut self, message: &Message) {
        match message {
            Message::User(_) => self.user += 1,
            Message::Assistant(_) => self.assistant += 1,
            Message::ToolResult(_) => self.tool_results += 1,
            Message::BashExecution(_)
            | Message::Custom(_)
            | Message::System(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_)
            | Message::Unknown(_) => self.other_messages += 1,
        }
        self.add_content(message.content());
    }

    fn add_content(&mut self, content: Option<&Content>) {
        for block in content.map(Content::blocks).unwrap_or_default() {
            match block {
                Block::ToolCall(_) => self.tool_calls += 1,
                Block::Thinking { .. } => self.thinking += 1,
                Block::Image { .. } => self.images += 1,
                Block::Text { .. } | Block::Unknown(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
