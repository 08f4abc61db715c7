//! Does with the bytes of a session file everything that can be done without asking, and checks what holds for any bytes:
//! the body of the fuzz target (`tests/fuzz`), of the tests on changed files and of the run over the kept inputs.
//!
//! # Invariants
//! - It panics only when something is wrong with the library.
//! - It reads nothing but `bytes`: the same bytes, the same run.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use pi_sessions::Session;
use pi_sessions::compaction::branch_summary;
use pi_sessions::compaction::extractive;
use pi_sessions::compaction::plan::{CompactionInput, CompactionPlan};
use pi_sessions::session::context::{ProjectedMessage, Reason};
use pi_sessions::session::entry::{EntryKind, EntryType, MessageEntry};
use pi_sessions::session::json::{Fields, Json, well_formed};
use pi_sessions::session::message::{Message, Role};
use pi_sessions::session::outline::Scope;
use pi_sessions::session::request::{RequestOptions, build_request};
use pi_sessions::session::tree::EntryIndex;
use pi_sessions::storage::check::{FaultKind, Severity, check_file};
use pi_sessions::storage::fork::{ForkOptions, ForkWhat};
use pi_sessions::storage::fs::Fs;
use pi_sessions::storage::handle::Reading;
use pi_sessions::storage::jsonl::JsonlStorage;
use pi_sessions::storage::reference::read_labels;
use pi_sessions::storage::repair::{IfHeld, repair_file};
use pi_sessions::storage::repo::{Layout, Repo};
use pi_sessions::storage::{Durability, SessionRead, StorageError};
use serde_json::json;

use crate::support::fault_fs::FaultFs;
use crate::support::fixed::{CountedIds, SteppingClock};
use crate::support::slow_reader::{SlowSession, read_slowly};

/// Where the session is.
pub const FILE: &str = "/root/--p--/2026_s1.jsonl";

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// What only reads.
    Reads,
    /// Also what lists, forks, appends, compacts and repairs.
    All,
}

/// A root with one session of these bytes.
pub fn repo_with(bytes: &[u8]) -> (FaultFs, Repo) {
    let fs = FaultFs::default();
    fs.put(Path::new(FILE), bytes);
    let repo = repo(&fs);
    (fs, repo)
}

/// The root in `fs`.
pub fn repo(fs: &FaultFs) -> Repo {
    let ids = Arc::new(CountedIds::default());
    Repo::new(Arc::new(fs.clone()), Arc::new(SteppingClock::default()), ids, "/root".into(), Layout::Nested)
}

/// A message with a text.
pub fn message(role: &str, text: &str) -> EntryKind {
    let value = json!({"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1});
    EntryKind::Message(MessageEntry { message: Message::from_json(Json::of(&value).expect("JSON")), extra: Default::default() })
}

/// Does everything, and panics where the library is wrong.
pub fn exercise(bytes: &[u8], effort: Effort) {
    let (fs, repo) = repo_with(bytes);
    let Ok(session) = repo.open(Path::new(FILE)) else {
        assert_eq!(fs.get(Path::new(FILE)).as_deref(), Some(bytes), "what is no session stays as it is");
        return;
    };
    let tree = session.tree();
    for index in tree.iter_all() {
        session.read().line(index).expect("a line");
        session.read().entry(index).expect("a line");
        tree.place_of(index);
    }
    tree.branch_count();
    tree.children();
    let labels = read_labels(session.read()).expect("labels");
    session.outline(&labels, Scope::All).expect("rows");
    let leaves = match effort {
        Effort::Reads => vec![tree.leaf()],
        Effort::All => leaves(&session),
    };
    for leaf in leaves {
        context(&session, leaf);
        compaction(&session, leaf);
        branch_summary::collect(tree, tree.leaf(), leaf);
    }
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let faults = check_file(&shared, Path::new(FILE)).expect("a session");
    assert_eq!(fs.get(Path::new(FILE)).as_deref(), Some(bytes), "reading writes nothing");
    assert!(faults.iter().all(|fault| fault.line <= 1 + bytes.iter().filter(|byte| **byte == b'\n').count() as u64));
    if effort == Effort::Reads {
        return;
    }
    let slow = read_slowly(bytes).filter(|slow| slow.header["version"] == 3);
    if let Some(slow) = slow.filter(|_| is_for_the_slow_reader(bytes)) {
        for piece in [usize::MAX, 1 + bytes.len() / 3] {
            fs.read_at_most(piece);
            let storage = JsonlStorage::open(Arc::new(fs.clone()), Path::new(FILE)).expect("a session");
            same(&format!("{piece} bytes at once"), &storage, &slow);
        }
        fs.read_at_most(usize::MAX);
    }
    writes(bytes, session, &repo);
    repairs(bytes);
}

/// The leaf, no leaf, and a few entries from all over the file.
fn leaves(session: &Session) -> Vec<Option<EntryIndex>> {
    let tree = session.tree();
    let step = tree.len() / 3 + 1;
    [None, tree.leaf()].into_iter().chain(tree.iter_all().step_by(step).map(Some)).collect()
}

fn context(session: &Session, leaf: Option<EntryIndex>) {
    let path = session.tree().path(leaf);
    let distinct: HashSet<_> = path.iter().collect();
    assert_eq!(distinct.len(), path.len(), "a path goes through an entry once");
    let projection = session.project(leaf, &[]).expect("a context");
    let on_path = |projected: &ProjectedMessage| projected.source.is_none_or(|source| distinct.contains(&source));
    assert!(projection.messages.iter().all(on_path), "a context is of its path");
    for options in [RequestOptions::default(), RequestOptions { micro_compaction: true, truncation: true }] {
        let request = build_request(projection.messages.clone(), options);
        assert_paired(&request.messages);
    }
}

/// Each call is followed by its result, and nothing else is a result.
pub fn assert_paired(messages: &[ProjectedMessage]) {
    let mut open: Vec<&str> = Vec::new();
    for projected in messages {
        match &projected.message {
            Message::ToolResult(result) => {
                let call = open.iter().position(|id| *id == result.tool_call_id);
                open.swap_remove(call.unwrap_or_else(|| panic!("a result without an open call before it: {messages:?}")));
            }
            other => {
                assert!(open.is_empty(), "a call without a result: {messages:?}");
                if let Message::Assistant(assistant) = other {
                    assert!(!assistant.is_failed(), "a failed answer is sent: {messages:?}");
                    open = assistant.tool_calls().map(|call| call.id.as_str()).collect();
                }
            }
        }
    }
    assert!(open.is_empty(), "a call without a result at the end: {messages:?}");
}

const KEEP_TOKENS: [u64; 4] = [0, 1, 60, 20_000];

fn plans(session: &Session, leaf: Option<EntryIndex>) -> Vec<CompactionPlan> {
    let input = CompactionInput::read(session.tree(), leaf, &Reading(session.read()), &[], None).expect("a context");
    KEEP_TOKENS.into_iter().filter_map(|keep| input.plan(keep).ok()).collect()
}

fn compaction(session: &Session, leaf: Option<EntryIndex>) {
    let path = session.tree().path(leaf);
    let projection = session.project(leaf, &[]).expect("a context");
    for plan in plans(session, leaf) {
        let parts: Vec<_> = [plan.history_entries(), plan.turn_prefix_entries(), plan.kept_entries()].concat();
        assert!(path.ends_with(&parts), "the parts of a plan are the end of the path");
        let first = |index: &EntryIndex| projection.messages.iter().find(|projected| projected.source == Some(*index));
        let begins = plan.kept_entries().iter().find_map(first).map(|projected| &projected.message);
        assert!(!matches!(begins, Some(Message::ToolResult(_))), "what is kept begins with a result");
        let _ = extractive::compact(&plan, None);
    }
}

fn writes(bytes: &[u8], mut session: Session, repo: &Repo) {
    repo.list(&|_| {}).expect("the root");
    let (count, leaf) = (session.tree().len(), session.tree().leaf());
    let is_newer = session.header().version > 3;
    for what in [ForkWhat::All, ForkWhat::Path(leaf)] {
        match repo.fork(&session, &ForkOptions { what, cwd: Some("/q".to_owned()) }) {
            Ok(fork) if what == ForkWhat::All => assert_eq!(fork.session.tree().len(), count),
            Ok(_) => {}
            Err(error) => assert!(is_newer && matches!(error, StorageError::UnsupportedVersion { .. }), "{error:?}"),
        }
    }
    let ids = |session: &Session| session.tree().iter_all().map(|index| session.tree().id(index)).collect::<Vec<_>>();
    let made = match session.append(vec![message("user", "more")], Durability::Synced) {
        Ok(made) => made,
        Err(error) => {
            assert!(is_newer, "{error:?}");
            return;
        }
    };
    let again = repo.open(Path::new(FILE)).expect("a session");
    assert_eq!(again.tree().len(), count + 1, "{}", String::from_utf8_lossy(bytes));
    assert!(again.tree().find(made[0].as_str()).is_some());
    assert_eq!(ids(&again), ids(&session));
    assert_eq!(again.leaf(), session.leaf());

    let Some(plan) = plans(&session, session.leaf()).pop() else { return };
    let Ok(result) = extractive::compact(&plan, None) else { return };
    let draft = result.into_compaction(&"none".into(), 1);
    session.append(vec![EntryKind::Compaction(draft)], Durability::Synced).expect("a compaction");
    let projection = session.project(session.leaf(), &[]).expect("a context");
    let governs = projection.path.iter().filter(|(_, reason)| *reason == Reason::GoverningCompaction).count();
    assert_eq!(governs, 1, "the compaction governs");
    let again = repo.open(Path::new(FILE)).expect("a session");
    assert_eq!(again.project(again.leaf(), &[]).expect("a context").messages, projection.messages);
}

/// What a repair leaves is sound, has every entry that could be read, and needs no other. Whether there was one to do.
pub fn repairs(bytes: &[u8]) -> bool {
    let (faults, repo) = repo_with(bytes);
    let Some(before) = repo.open(Path::new(FILE)).ok().filter(|session| session.header().version <= 3) else { return false };
    let fs: Arc<dyn Fs> = Arc::new(faults.clone());
    let is_damaged = || {
        let faults = check_file(&fs, Path::new(FILE)).expect("a session");
        // Pi opens no file with the mark, so a repair takes it out, too.
        faults.into_iter().find(|fault| fault.severity() == Severity::Damage || fault.kind == FaultKind::ByteOrderMark)
    };
    let was_damaged = is_damaged();
    let done = repair_file(&fs, Path::new(FILE), IfHeld::Refuse).expect("a repair");
    // Reading an old version mends some of its lines.
    if before.header().version == 3 || was_damaged.is_some() {
        assert_eq!(was_damaged.is_some(), done.backup.is_some(), "{was_damaged:?} {:?}", done.actions);
    }
    assert_eq!(is_damaged(), None, "{:?}", done.actions);
    match &done.backup {
        Some(backup) => assert_eq!(faults.get(backup).as_deref(), Some(bytes), "the backup is the file as it was"),
        None => assert_eq!(faults.get(Path::new(FILE)).as_deref(), Some(bytes), "without a backup nothing changed"),
    }
    let after = repo.open(Path::new(FILE)).expect("a session");
    // An empty id is none; the entry gets one.
    let ids = |session: &Session| -> HashSet<_> {
        session.tree().iter_all().map(|index| session.tree().id(index)).filter(|id| !id.as_str().is_empty()).collect()
    };
    assert!(ids(&before).is_subset(&ids(&after)), "{:?}", done.actions);
    let messages = |session: &Session| -> HashSet<String> {
        let entries = session.tree().iter_all().filter_map(|index| session.read().entry(index).expect("a line"));
        let readable = entries.filter(|entry| !entry.kind.is_unreadable());
        readable.filter_map(|entry| entry.message().map(|message| format!("{message:?}"))).collect()
    };
    assert!(messages(&before).is_subset(&messages(&after)), "{:?}", done.actions);
    let again = repair_file(&fs, Path::new(FILE), IfHeld::Refuse).expect("a session");
    assert_eq!((again.actions, again.backup), (vec![], None));
    done.backup.is_some()
}

/// Whether both readers must agree. They need not where brackets close around what is no JSON, which opening does not
/// look at, where an object names a key twice, of which the fast reader takes the first, and where values are nested deeper
/// than the slow one goes, or numbers larger.
fn is_for_the_slow_reader(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').all(|line| {
        let text = well_formed(line);
        let depth = text.matches(['[', '{']).count();
        // Records of a fused line are found anywhere in it, so each brace may begin one.
        let starts = text.match_indices('{').map(|(at, _)| at);
        depth < 100 && starts.take(64).all(|at| closing(&text[at..]).is_none_or(|len| is_plain_object(&text[at..at + len])))
    })
}

/// Where the bracket closes that `text` begins with, by quotes and brackets alone.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut is_escaped) = (0u32, false, false);
    for (at, byte) in text.bytes().enumerate() {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            // As the fast reader does, also where no string is: no JSON has a backslash there.
            b'\\' => is_escaped = !was_escaped,
            b'"' if !was_escaped => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string && depth == 1 => return Some(at + 1),
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Whether `text` is an object of JSON that names no key twice, nor its message, and has no number that is none of 64 bits.
fn is_plain_object(text: &str) -> bool {
    let has_twins = |fields: &Fields<'_>| {
        let mut keys = HashSet::new();
        !fields.iter().all(|(key, _)| keys.insert(key.to_owned()))
    };
    let Ok(fields) = Fields::parse(text) else { return false };
    if serde_json::from_str::<serde_json::Value>(text).is_err() {
        return false;
    }
    let message = fields.get::<Json>("message");
    let inner = message.as_ref().and_then(Json::fields);
    !has_twins(&fields) && !inner.is_some_and(|inner| has_twins(&inner))
}

/// What the fast reader found, in the words of the slow one.
pub fn same(what: &str, storage: &JsonlStorage, slow: &SlowSession) {
    let tree = storage.tree();
    assert_eq!(tree.len(), slow.entries.len(), "{what}: entries");
    for (index, entry) in tree.iter_all().zip(&slow.entries) {
        let head = (
            tree.id(index).to_string(),
            tree.parent_id(index).map(|id| id.to_string()),
            tree.entry_type(index),
            tree.role(index),
            storage.line_number(index),
        );
        let entry_type = EntryType::from_wire(entry.text("type").unwrap_or_default().as_bytes());
        let role = || Role::from_wire(entry.value["message"]["role"].as_str().unwrap_or_default());
        let expect = (
            entry.text("id").unwrap_or_default().to_owned(),
            entry.text("parentId").map(str::to_owned),
            entry_type,
            (entry_type == EntryType::Message).then(role),
            entry.line,
        );
        assert_eq!(head, expect, "{what}");
        assert!(storage.line(index).expect("a line") == entry.bytes, "{what}: the bytes of line {}", entry.line);
    }
    let damage: Vec<_> = storage.damage().iter().map(|damage| (damage.kind.as_str(), damage.line, damage.byte_offset)).collect();
    let sorted = |mut damage: Vec<_>| {
        damage.sort();
        damage
    };
    assert_eq!(sorted(damage), sorted(slow.damage.clone()), "{what}: damage");
    assert_eq!(tree.leaf().map(|leaf| tree.id(leaf).to_string()), slow.leaf, "{what}: leaf");
}
