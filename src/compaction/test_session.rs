//! Sessions in memory for the tests of this folder.
//!
//! # Invariants
//! - Ids and timestamps are the same in each run.

use crate::session::context::EntrySource;
use crate::session::entry::{Entry, EntryId, EntryKind};
use crate::session::json::Fields;
use crate::session::message::Role;
use crate::session::tree::{EntryHead, EntryIndex, SessionTree};

/// A session whose entries are appended one behind the other; ids are `00000000`, `00000001`, ...
#[derive(Default)]
pub struct TestSession {
    pub tree: SessionTree,
    pub entries: Vec<Entry>,
}

impl EntrySource for TestSession {
    type Error = std::convert::Infallible;

    fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, Self::Error> {
        Ok(self.entries.get(index.get()).cloned())
    }
}

impl TestSession {
    /// A session of one path, from shorthand (see [`payload`]).
    pub fn of(words: &[&str]) -> Self {
        let mut session = Self::default();
        words.iter().for_each(|word| session.add(word));
        session
    }

    pub fn leaf(&self) -> Option<EntryIndex> {
        self.tree.leaf()
    }

    /// The id that the next entry gets.
    pub fn next_id(&self) -> EntryId {
        EntryId::new(format!("{:08x}", self.entries.len()))
    }

    /// Appends to the leaf, from shorthand or a payload as JSON.
    pub fn add(&mut self, word: &str) {
        let parent = self.leaf().map(|leaf| self.tree.id(leaf));
        self.add_to(parent, word);
    }

    /// Appends to the entry at position `parent`.
    pub fn add_at(&mut self, parent: usize, word: &str) {
        self.add_to(Some(self.entries[parent].id.clone()), word);
    }

    /// Appends a root.
    pub fn add_root(&mut self, word: &str) {
        self.add_to(None, word);
    }

    /// Appends a payload to the leaf.
    pub fn add_kind(&mut self, kind: EntryKind) {
        let parent = self.leaf().map(|leaf| self.tree.id(leaf));
        self.push(parent, kind);
    }

    fn add_to(&mut self, parent: Option<EntryId>, word: &str) {
        let json = payload(word);
        self.push(parent, EntryKind::read(Fields::parse(&json).expect(&json)));
    }

    fn push(&mut self, parent_id: Option<EntryId>, kind: EntryKind) {
        let id = self.next_id();
        let entry = Entry { id, parent_id, timestamp: "2026-01-01T00:00:00.000Z".to_owned(), kind };
        let role = entry.message().map(|message| message.role()).filter(|role| *role != Role::Unknown);
        self.tree
            .push(EntryHead {
                id: entry.id.as_str(),
                parent_id: entry.parent_id.as_ref().map(EntryId::as_str),
                entry_type: entry.kind.entry_type(),
                role,
                leaf_target: None,
            })
            .expect("room");
        self.entries.push(entry);
    }
}

/// The payload that a word stands for: `u TEXT`, `a TEXT`, `call ID TOOL JSON`, `r ID TEXT`, `err ID TEXT`, `name TEXT`;
/// anything that begins with `{` is a payload already.
pub fn payload(word: &str) -> String {
    let (kind, rest) = word.split_once(' ').unwrap_or((word, ""));
    let quote = |text: &str| serde_json::to_string(text).expect("text");
    let message = |message: String| format!(r#"{{"type":"message","message":{message}}}"#);
    let result = |rest: &str, is_error: bool| {
        let (id, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let (id, text) = (quote(id), quote(text));
        let content = format!(r#"[{{"type":"text","text":{text}}}]"#);
        message(format!(
            r#"{{"role":"toolResult","toolCallId":{id},"toolName":"bash","content":{content},"isError":{is_error}}}"#
        ))
    };
    match kind {
        "u" => message(format!(r#"{{"role":"user","content":{}}}"#, quote(rest))),
        "a" => message(format!(r#"{{"role":"assistant","content":[{{"type":"text","text":{}}}]}}"#, quote(rest))),
        "call" => {
            let mut parts = rest.splitn(3, ' ');
            let mut part = || parts.next().expect("three parts");
            let (id, name, arguments) = (quote(part()), quote(part()), part());
            message(format!(
                r#"{{"role":"assistant","content":[{{"type":"toolCall","id":{id},"name":{name},"arguments":{arguments}}}]}}"#
            ))
        }
        "r" => result(rest, false),
        "err" => result(rest, true),
        "name" => format!(r#"{{"type":"session_info","name":{}}}"#, quote(rest)),
        _ => word.to_owned(),
    }
}
