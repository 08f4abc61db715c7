//! Faults that people met in tools of this kind, one test each, with the right value.

mod forks;
mod identity;
mod listing;
mod tree;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pi_sessions::session::entry::{Compaction, Custom, EntryId, EntryKind, MessageEntry, SessionId, SessionInfo};
use pi_sessions::session::json::Json;
use pi_sessions::session::labels::Labels;
use pi_sessions::session::message::{Content, Message, Role};
use pi_sessions::session::request::{RequestOptions, build_request};
use pi_sessions::session::tree::EntryIndex;
use pi_sessions::storage::fork::{ForkOptions, ForkWhat, Forked};
use pi_sessions::storage::handle::{Session, SummaryText};
use pi_sessions::storage::jsonl::JsonlStorage;
use pi_sessions::storage::lock::OwnerLock;
use pi_sessions::storage::repo::{Layout, NewSession, Repo, folder_name};
use pi_sessions::storage::{Damage, DamageKind, Durability, StorageError};
use serde_json::{Value, json};

use crate::support::fault_fs::{Fault, FaultFs};
use crate::support::fixed::{CountedIds, SteppingClock};

const V1: &str = concat!(
    r#"{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}"#,
    "\n",
    r#"{"type":"message","timestamp":"t","message":{"role":"user","content":"u1"}}"#,
    "\n",
);

const ROOT: &str = "/root";
const FILE: &str = "/root/--p--/2026-01-01T00-00-00-000Z_s1.jsonl";
const H: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}"#;

/// A root in memory with one session file.
struct Place {
    fs: FaultFs,
    repo: Repo,
}

impl Place {
    fn new() -> Self {
        let fs = FaultFs::default();
        let repo = Repo::new(
            Arc::new(fs.clone()),
            Arc::new(SteppingClock::default()),
            Arc::new(CountedIds::default()),
            ROOT.into(),
            Layout::Nested,
        );
        Self { fs, repo }
    }

    fn with(bytes: impl AsRef<[u8]>) -> Self {
        let place = Self::new();
        place.fs.put(Path::new(FILE), bytes.as_ref());
        place
    }

    /// With the header and these lines.
    fn of(lines: &[String]) -> Self {
        Self::with(file(lines))
    }

    fn open(&self) -> Session {
        self.repo.open(Path::new(FILE)).expect("a session")
    }

    fn bytes(&self) -> Vec<u8> {
        self.fs.get(Path::new(FILE)).expect("the file")
    }

    fn fork(&self, source: &Session, what: ForkWhat) -> Forked {
        self.repo.fork(source, &ForkOptions { what, cwd: None }).expect("a fork")
    }
}

fn file(lines: &[String]) -> String {
    [H.to_owned()].iter().chain(lines).map(|line| format!("{line}\n")).collect()
}

fn line(entry_type: &str, id: &str, parent: &str, payload: Value) -> String {
    let parent = if parent.is_empty() { Value::Null } else { json!(parent) };
    let rest = payload.to_string();
    let rest = rest[1..rest.len() - 1].to_owned();
    let comma = if rest.is_empty() { "" } else { "," };
    format!(r#"{{"type":"{entry_type}","id":"{id}","parentId":{parent},"timestamp":"2026-01-01T00:00:01.000Z"{comma}{rest}}}"#)
}

/// A user message whose text is its id.
fn u(id: &str, parent: &str) -> String {
    line("message", id, parent, json!({"message": {"role": "user", "content": id, "timestamp": 1}}))
}

/// An answer whose text is its id.
fn a(id: &str, parent: &str) -> String {
    line(
        "message",
        id,
        parent,
        json!({"message": {"role": "assistant", "content": [{"type": "text", "text": id}], "timestamp": 2}}),
    )
}

/// An answer with the tool call `call`.
fn tc(id: &str, parent: &str, call: &str) -> String {
    let block = json!({"type": "toolCall", "id": call, "name": "bash", "arguments": {}});
    line(
        "message",
        id,
        parent,
        json!({"message": {"role": "assistant", "content": [block], "stopReason": "toolUse", "timestamp": 3}}),
    )
}

/// The result of `call`.
fn tr(id: &str, parent: &str, call: &str) -> String {
    let content = json!([{"type": "text", "text": id}]);
    let message = json!({"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": content, "timestamp": 4});
    line("message", id, parent, json!({"message": message}))
}

fn lab(id: &str, parent: &str, target: &str, label: &str) -> String {
    line("label", id, parent, json!({"targetId": target, "label": label}))
}

fn k(id: &str, parent: &str, first: &str) -> String {
    line("compaction", id, parent, json!({"summary": id, "firstKeptEntryId": first, "tokensBefore": 1}))
}

fn user(text: &str) -> EntryKind {
    message(json!({"role": "user", "content": text, "timestamp": 5}))
}

fn message(value: Value) -> EntryKind {
    let message = Message::from_json(Json::of(&value).expect("JSON"));
    EntryKind::Message(MessageEntry { message, extra: Default::default() })
}

fn append(session: &mut Session, texts: &[&str]) -> EntryIndex {
    let made = session.append(texts.iter().map(|text| user(text)).collect(), Durability::Synced).expect("an append");
    session.tree().find(made.last().expect("an entry").as_str()).expect("what was appended")
}

fn at(session: &Session, id: &str) -> EntryIndex {
    session.tree().find(id).expect(id)
}

fn text(message: &Message) -> String {
    match message {
        Message::CompactionSummary(summary) => format!("K:{}", summary.summary),
        Message::BranchSummary(summary) => format!("B:{}", summary.summary),
        other => other.content().map(Content::joined_text).unwrap_or_default(),
    }
}

/// The texts of the context.
fn context(session: &Session) -> Vec<String> {
    let projection = session.project(session.leaf(), &[]).expect("a context");
    projection.messages.iter().map(|projected| text(&projected.message)).collect()
}

/// The roles and texts of the request.
fn request(session: &Session) -> Vec<(Role, String)> {
    let projection = session.project(session.leaf(), &[]).expect("a context");
    let request = build_request(projection.messages, RequestOptions::default());
    request.messages.iter().map(|projected| (projected.message.role(), text(&projected.message))).collect()
}

fn labels(session: &Session) -> Vec<(String, String)> {
    let mut labels = Labels::default();
    for index in session.tree().iter_all() {
        if let Some(entry) = session.read().entry(index).expect("a line") {
            labels.add(&entry);
        }
    }
    labels.iter().map(|(target, label)| (target.to_string(), label.to_owned())).collect()
}

fn kinds(damage: &[Damage]) -> Vec<(DamageKind, u64)> {
    damage.iter().map(|damage| (damage.kind, damage.line)).collect()
}

/// The ids on the path.
fn path(session: &Session) -> Vec<String> {
    session.tree().path(session.leaf()).iter().map(|index| session.tree().id(*index).to_string()).collect()
}
