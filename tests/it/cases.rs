//! Faults that people met in tools of this kind, one test each, with the right value.

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

// Losing or fusing data on write.

#[test]
fn append_after_an_unterminated_tail_loses_entries() {
    for (tail, whole) in [("{\"type\":\"message\"", 0), (&a("a9", "a1")[..], 1)] {
        let before = format!("{}{tail}", file(&[u("u1", ""), a("a1", "u1")]));
        let place = Place::with(&before);
        let mut session = place.open();
        assert_eq!(session.tree().len(), 2 + whole);
        assert_eq!(place.bytes(), before.as_bytes(), "reading changes nothing");
        place.fork(&session, ForkWhat::All);
        assert_eq!(place.bytes(), before.as_bytes(), "forking neither");
        append(&mut session, &["u2", "a2"]);
        append(&mut session, &["u3"]);
        assert!(place.bytes().starts_with(format!("{before}\n{{").as_bytes()));
        let expect: Vec<_> = ["u1", "a1", "a9", "u2", "a2", "u3"].into_iter().filter(|id| *id != "a9" || whole == 1).collect();
        assert_eq!(context(&session), expect);
        assert_eq!(context(&place.open()), expect);
        assert_eq!(place.open().read().damage().len(), 1 - whole);
    }
}

#[test]
fn disk_full_leaves_a_torn_record_next_append_fuses_with_it() {
    let place = Place::of(&[u("u1", "")]);
    let mut session = place.open();
    append(&mut session, &["u2"]);
    let before = place.bytes();
    let calls = place.fs.calls();
    append(&mut session, &["x"]);
    // The write is the call before the sync and the look at the length.
    let write = place.fs.calls() - calls - 2;
    let (len, leaf) = (place.bytes().len(), session.leaf_id());
    place.fs.fail_at(write, Fault::ShortWrite);
    let error = session.append(vec![user(&"y".repeat(12_000))], Durability::Synced).expect_err("the disk is full");
    assert!(matches!(error, StorageError::WriteFailed { .. }), "{error:?}");
    assert_eq!((place.bytes().len(), session.leaf_id()), (len, leaf));
    assert!(place.bytes().starts_with(&before));
    append(&mut session, &["z"]);
    assert_eq!(context(&place.open()), ["u1", "u2", "x", "z"]);
    assert_eq!(place.open().read().damage(), []);
}

#[test]
fn opening_a_non_session_file_wipes_it() {
    let log = "{\"type\":\"event\"}\n".repeat(1000);
    let place = Place::with(&log);
    assert!(matches!(place.repo.open(Path::new(FILE)), Err(StorageError::NotASession(_))));
    let header = Default::default();
    let created = JsonlStorage::create(place.repo.fs().clone(), Path::new(FILE), &header);
    assert!(matches!(created, Err(StorageError::Exists(_))));
    assert_eq!(place.bytes(), log.as_bytes());
}

#[test]
fn empty_or_header_less_file_then_gets_entries_with_no_header() {
    let place = Place::with("");
    assert!(matches!(place.repo.open(Path::new(FILE)), Err(StorageError::EmptyFile(_))));
    let header = pi_sessions::session::entry::Header { version: 3, id: "s1".to_owned(), ..Default::default() };
    JsonlStorage::create(place.repo.fs().clone(), Path::new(FILE), &header).expect("a 0-byte file may be initialized");
    append(&mut place.open(), &["u1"]);
    let first = place.bytes();
    assert!(first.starts_with(br#"{"type":"session","version":3,"id":"s1""#));
    assert_eq!(context(&place.open()), ["u1"]);
    // A live session whose file is emptied is not written behind nothing.
    let mut session = place.open();
    place.fs.take(Path::new(FILE));
    place.fs.put(Path::new(FILE), b"");
    let error = session.append(vec![user("u2")], Durability::Synced).expect_err("another file");
    assert!(matches!(error, StorageError::Replaced(_)), "{error:?}");
    assert_eq!(place.bytes(), b"");
}

const V1: &str = concat!(
    r#"{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}"#,
    "\n",
    r#"{"type":"message","timestamp":"t","message":{"role":"user","content":"u1"}}"#,
    "\n",
);

#[test]
fn migrated_v1_file_gets_duplicate_ids() {
    let place = Place::with(V1);
    let mut session = place.open();
    let id = session.leaf_id();
    session.set_model("p", "m").expect("a model");
    append(&mut session, &["a1"]);
    assert_eq!(session.tree().len(), 3);
    let again = place.open();
    assert_eq!((again.tree().len(), again.header().version), (3, 3));
    assert!(again.tree().iter_all().all(|index| !again.tree().is_shadowed(index)));
    assert_eq!(Some(again.tree().id(again.tree().path(again.leaf())[0])), id, "the id is that of the reading before");
    assert_eq!(place.fs.get(Path::new(&format!("{FILE}.bak"))).expect("a backup"), V1.as_bytes());
}

#[test]
fn a_v1_chain_goes_on_over_lines_that_are_no_entries() {
    let reply =
        |text: &str| format!(r#"{{"type":"message","timestamp":"t","message":{{"role":"assistant","content":"{text}"}}}}"#);
    for odd in ["{\"torn", "{\"type\":\"message\" no JSON}", "{\"no\":\"type\"}", H, "", "\0\0", "[]", "7"] {
        let bytes = format!("{V1}{odd}\n{}\n{}\n", reply("a1"), r#"{"type":"future","timestamp":"t","x":[1.0, 2]}"#);
        let place = Place::with(&bytes);
        let session = place.open();
        assert_eq!(context(&session), ["u1", "a1"], "{odd}");
        assert_eq!(session.tree().path(session.leaf()).len(), 3);
        let offset = V1.len() as u64;
        assert!(session.read().damage().iter().all(|damage| (damage.line, damage.byte_offset) == (3, offset)), "{odd}");
        assert_eq!(session.read().damage().len(), usize::from(!odd.is_empty()), "{odd}");
        append(&mut place.open(), &["u2"]);
        let again = place.open();
        assert_eq!((context(&again), again.read().damage()), (vec!["u1".into(), "a1".into(), "u2".into()], &[][..]), "{odd}");
    }
}

#[test]
fn a_v1_compaction_keeps_what_it_named_by_place() {
    let user = |text: &str| format!(r#"{{"type":"message","timestamp":"t","message":{{"role":"user","content":"{text}"}}}}"#);
    let compaction = r#"{"type":"compaction","timestamp":"t","summary":"s","firstKeptEntryIndex":3,"tokensBefore":9}"#;
    let bytes = format!("{V1}{}\n{{\"torn\n\n{}\n{compaction}\n{}\n", user("u2"), user("u3"), user("u4"));
    let place = Place::with(bytes);
    assert_eq!(context(&place.open()), ["K:s", "u3", "u4"]);
    append(&mut place.open(), &["u5"]);
    assert_eq!(context(&place.open()), ["K:s", "u3", "u4", "u5"]);
}

#[test]
fn nothing_is_saved_until_the_first_assistant_message() {
    let place = Place::new();
    let mut session = place.repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect("a session");
    let path = session.read().path().expect("a file").to_owned();
    assert!(place.fs.get(&path).is_some(), "the header at once");
    append(&mut session, &["u1"]);
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!((listing.sessions[0].first_message.as_deref(), listing.sessions[0].message_count), (Some("u1"), 1));
    assert_eq!(place.repo.find_exact(&session.header().id).expect("the root"), Some(path));
}

#[test]
fn fork_returns_a_path_that_is_not_on_disk() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1")]);
    let source = place.open();
    let mut fork = place.fork(&source, ForkWhat::Path(Some(at(&source, "u1"))));
    let bytes = place.fs.get(&fork.path).expect("the fork is on disk");
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 2);
    append(&mut fork.session, &["u2"]);
    assert!(place.fs.get(&fork.path).expect("the fork").starts_with(&bytes), "later appends add lines");
}

#[test]
fn exclusive_create_collides() {
    let place = Place::of(&[u("u1", "")]);
    let before = place.bytes();
    let error = JsonlStorage::create(place.repo.fs().clone(), Path::new(FILE), &Default::default()).expect_err("it is there");
    assert!(matches!(error, StorageError::Exists(path) if path == Path::new(FILE)));
    assert_eq!(place.bytes(), before);
    let id = SessionId::new("s1").expect("an id");
    let twice = place.repo.create(NewSession { cwd: "/elsewhere".to_owned(), id: Some(id), ..NewSession::default() });
    assert!(matches!(twice, Err(StorageError::Exists(path)) if path == Path::new(FILE)));
}

#[test]
fn nul_blocks_after_a_power_cut_hide_the_whole_session() {
    let padded = format!("{}{}", u("u1", ""), "\0".repeat(9_000));
    let bytes = format!("{}{}", file(&[padded, a("a1", "u1"), u("u2", "a1")]), "\0".repeat(140_000));
    let place = Place::with(bytes);
    let mut session = place.open();
    assert_eq!(context(&session), ["u1", "a1", "u2"]);
    assert_eq!(kinds(session.read().damage()), [(DamageKind::NulPadding, 2), (DamageKind::NulPadding, 5)]);
    append(&mut session, &["a2"]);
    assert_eq!(context(&place.open()), ["u1", "a1", "u2", "a2"]);
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!((listing.sessions.len(), listing.sessions[0].damaged_lines), (1, 2));
}

#[test]
fn disk_full_leaves_0_byte_parts_whole_session_will_not_open() {
    let place = Place::of(&[u("u1", "")]);
    place.fs.put(Path::new("/root/--p--/empty.jsonl"), b"");
    place.fs.put(Path::new("/root/--p--/torn.jsonl"), b"{\"type\":\"sess");
    place.fs.put(Path::new("/root/--p--/part.json"), b"");
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!(listing.sessions.len(), 1);
    let skipped: Vec<_> = listing.skipped.iter().map(|skipped| skipped.path.to_string_lossy().into_owned()).collect();
    assert_eq!(skipped, ["/root/--p--/empty.jsonl", "/root/--p--/torn.jsonl"]);
    assert!(matches!(listing.skipped[0].reason, StorageError::EmptyFile(_)));
}

#[test]
fn stray_tail_such_as_ole_or_an_extra_blank_line_freezes_the_viewer() {
    for (tail, damage) in [("ole\":\n", 1), ("\n\n", 0), ("  \r\n\n", 0)] {
        let place = Place::with(format!("{}{tail}", file(&[u("u1", "")])));
        let mut session = place.open();
        assert_eq!((context(&session).len(), session.read().damage().len()), (1, damage));
        append(&mut session, &["u2"]);
        let again = place.open();
        assert_eq!((context(&again), again.read().damage().len()), (vec!["u1".to_owned(), "u2".to_owned()], damage));
    }
}

#[test]
fn same_torn_tail_class_in_four_other_tools() {
    // At most one record is lost at each crash, however often it comes.
    let place = Place::of(&[u("u1", "")]);
    for round in 0..5 {
        place.fs.push(Path::new(FILE), br#"{"type":"message","id":"lost"#);
        append(&mut place.open(), &[&round.to_string()]);
    }
    let session = place.open();
    assert_eq!(context(&session), ["u1", "0", "1", "2", "3", "4"]);
    assert_eq!(session.read().damage().len(), 5);
}

#[test]
fn u_2028_inside_a_string_splits_the_record() {
    let odd = "a\u{2028}b\u{2029}c\u{85}d";
    let place = Place::of(&[u(odd, "")]);
    let mut session = place.open();
    assert_eq!(context(&session), [odd]);
    append(&mut session, &[odd]);
    assert_eq!((context(&place.open()), place.open().read().damage()), (vec![odd.to_owned(), odd.to_owned()], &[][..]));
}

#[test]
fn update_while_active_left_only_a_small_tmp_file() {
    let place = Place::of(&[u("u1", "")]);
    let stale = PathBuf::from("/root/--p--/.2026-01-01T00-00-00-000Z_s9.jsonl.0.tmp");
    place.fs.put(&stale, b"{\"type\":\"sess");
    place.fs.put(Path::new("/root/--p--/.theirs.0.tmp"), b"not ours");
    assert_eq!(place.repo.files().expect("the root").len(), 1, "it is never listed");
    place.repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect("a session");
    assert_eq!(place.fs.get(&stale), None, "it is cleaned up");
    assert!(place.fs.get(Path::new("/root/--p--/.theirs.0.tmp")).is_some());
}

#[test]
fn newer_compaction_rewrote_older_ones_to_save_space() {
    let place = Place::of(&[u("u1", ""), k("k1", "u1", "u1"), u("u2", "k1")]);
    let before = place.bytes();
    let mut session = place.open();
    let kept = Some(EntryId::from("u2"));
    let second = Compaction { summary: "k2".to_owned(), first_kept_entry_id: kept, ..Compaction::default() };
    session.append(vec![EntryKind::Compaction(second)], Durability::Synced).expect("an append");
    assert_eq!(context(&session), ["K:k2", "u2"]);
    session.navigate(at(&session, "k1"), None).expect("a navigation");
    assert_eq!(context(&session), ["K:k1", "u1"]);
    assert!(place.bytes().starts_with(&before));
}

#[test]
fn older_binary_drops_fields_or_records_it_does_not_know_when_it_rewrites() {
    let odd = [
        r#"{ "type":"message" , "x":1.50,"id":"u1","parentId":null,"timestamp":"t","message":{"role":"user","content":"\ud83d","y":[ ]} }"#,
        r#"{"type":"future_thing","id":"f1","parentId":"u1","timestamp":"t","payload":{"b":1,"a":1e400}}"#,
        r#"{"type":"message","id":"u2","parentId":"f1","timestamp":"t","message":{"role":"user","content":"u2"}}"#,
    ];
    let place = Place::of(&odd.map(str::to_owned));
    let mut session = place.open();
    session.set_name("n").expect("a name");
    let holds_all = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        odd.iter().all(|line| text.lines().any(|other| other == *line))
    };
    assert!(holds_all(&place.bytes()));
    let fork = place.fork(&session, ForkWhat::Path(session.leaf()));
    assert!(holds_all(&place.fs.get(&fork.path).expect("the fork")));
    assert_eq!(path(&fork.session)[..3], ["u1", "f1", "u2"]);
    let moved = place.repo.relocate(Path::new(FILE), "/q").expect("a move");
    assert!(holds_all(&place.fs.get(&moved.path).expect("the session")));
    let old = Place::with(file(&odd.map(str::to_owned)).replace("\"version\":3", "\"version\":2"));
    append(&mut old.open(), &["u3"]);
    assert!(holds_all(&old.bytes()), "version 2 differs in one role");
}

#[test]
fn an_upgrade_of_version_2_renames_a_role_and_nothing_else() {
    let hook = r#"{"type":"message", "z":1.0,"id":"h1","parentId":null,"timestamp":"t","message":{"y":[1, 2],"role":"hookMessage","customType":"c","content":"hi"}}"#;
    let other = "{\"type\":\"future\",\"id\":\"f1\", \"parentId\":\"h1\",\"bad\":\"\u{fffd}\"}";
    let mut bytes = file(&[hook.to_owned(), other.to_owned()]).replace("\"version\":3", "\"version\":2").into_bytes();
    let at_bad = bytes.windows(3).position(|window| window == "\u{fffd}".as_bytes()).expect("the place");
    bytes.splice(at_bad..at_bad + 3, [0xff]);
    let place = Place::with(&bytes);
    append(&mut place.open(), &["u1"]);
    let after = place.bytes();
    let lines: Vec<_> = after.split(|byte| *byte == b'\n').collect();
    let value: Value = serde_json::from_slice(lines[1]).expect("JSON");
    assert_eq!((&value["message"]["role"], &value["message"]["y"]), (&json!("custom"), &json!([1, 2])));
    assert!(String::from_utf8_lossy(lines[1]).contains("\"z\":1.0"));
    assert!(lines[2].contains(&0xff), "bytes that are no UTF-8 stay");
    assert_eq!(context(&place.open()), ["hi", "u1"]);
}

// Tree, leaf and concurrency.

#[test]
fn two_processes_continue_one_session() {
    let place = Place::of(&[u("u1", "")]);
    let owner = OwnerLock::take(place.repo.fs(), Path::new(FILE), "pid 7").expect("a free lock");
    let second = OwnerLock::take(place.repo.fs(), Path::new(FILE), "pid 8");
    assert!(matches!(second, Err(StorageError::Busy { owner, .. }) if owner == "pid 7"));
    append(&mut place.open(), &["u2"]);
    drop(owner);
    OwnerLock::take(place.repo.fs(), Path::new(FILE), "pid 8").expect("a free lock");
}

#[test]
fn a_rename_from_a_stale_client_moves_the_leaf_and_hides_the_transcript() {
    let place = Place::of(&[u("u1", "")]);
    let mut stale = place.open();
    stale.hold();
    let texts: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    append(&mut place.open(), &texts.iter().map(String::as_str).collect::<Vec<_>>());
    stale.set_name("renamed").expect("a name");
    let again = place.open();
    assert_eq!(context(&again).len(), 51);
    assert_eq!(again.tree().stray_tail(), again.tree().iter_all().next_back());
}

#[test]
fn a_killed_process_writes_its_exit_entry_under_an_old_leaf() {
    let place = Place::of(&[u("u1", "")]);
    let mut stale = place.open();
    stale.hold();
    append(&mut place.open(), &["u2", "u3"]);
    let exit = EntryKind::Custom(Custom { custom_type: "exit".to_owned(), ..Custom::default() });
    stale.append(vec![exit], Durability::Synced).expect("an append");
    assert_eq!(context(&place.open()), ["u1", "u2", "u3"]);
}

#[test]
fn same_file_opened_twice_in_one_process() {
    let place = Place::of(&[u("u1", "")]);
    let (mut one, mut two) = (place.open(), place.open());
    append(&mut one, &["one"]);
    append(&mut two, &["two"]);
    append(&mut one, &["three"]);
    assert_eq!(context(&place.open()), ["u1", "one", "two", "three"]);
    assert_eq!(place.open().tree().len(), 4);
}

#[test]
fn live_view_never_sees_entries_added_by_another_process() {
    let place = Place::of(&[u("u1", "")]);
    let mut view = place.open();
    append(&mut place.open(), &["u2"]);
    view.refresh().expect("a refresh");
    assert_eq!(context(&view), ["u1", "u2"]);
    let torn = a("a2", &path(&view)[1]);
    place.fs.push(Path::new(FILE), &torn.as_bytes()[..50]);
    view.refresh().expect("a refresh");
    assert_eq!((context(&view).len(), view.read().damage().len()), (2, 1), "half of it is told");
    place.fs.push(Path::new(FILE), &torn.as_bytes()[50..]);
    view.refresh().expect("a refresh");
    assert_eq!((context(&view).len(), view.read().damage().len()), (3, 0), "and taken back when the rest comes");
}

#[test]
fn parent_id_cycle_takes_all_cpu_and_memory() {
    for lines in [
        vec![u("x", "y"), u("y", "x")],
        vec![u("x", "x")],
        vec![u("a", ""), u("b", "a"), u("a", "b")],
        vec![u("a", "b"), u("b", "a"), lab("l", "b", "a", "x"), k("k", "l", "a")],
    ] {
        let place = Place::of(&lines);
        let mut session = place.open();
        assert!(!context(&session).is_empty());
        assert!(session.tree().iter().any(|index| session.tree().is_in_cycle(index)));
        place.fork(&session, ForkWhat::Path(session.leaf()));
        place.fork(&session, ForkWhat::All);
        session.tree().branch_count();
        let first = session.tree().iter().next().expect("an entry");
        session.navigate(first, None).expect("a navigation");
        append(&mut session, &["more"]);
        place.repo.list(&|_| {}).expect("the root");
    }
}

#[test]
fn deep_linear_session_overflows_the_stack() {
    let ids: Vec<_> = (0..30_000).map(|number| format!("{number:08x}")).collect();
    let mut parent = "";
    let mut lines = Vec::new();
    for id in &ids {
        lines.push(u(id, parent));
        parent = id;
    }
    let place = Place::of(&lines);
    let session = place.open();
    assert_eq!(context(&session).len(), ids.len());
    let fork = place.fork(&session, ForkWhat::Path(session.leaf()));
    assert_eq!(fork.session.tree().len(), ids.len());
    assert_eq!(session.left_behind(session.leaf(), None).len(), ids.len());
    // Nesting inside one line.
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = line("custom", "d", "", json!({"customType": "c", "data": "NESTED"})).replace("\"NESTED\"", &nested);
    let place = Place::of(&[deep.clone(), u("u1", "d")]);
    let session = place.open();
    assert_eq!(session.read().line(at(&session, "d")).expect("a line"), deep.as_bytes());
    assert!(session.read().entry(at(&session, "d")).expect("a line").is_some());
    assert_eq!(context(&session), ["u1"]);
}

#[test]
fn bookkeeping_entries_create_side_forks_and_80_percent_of_history_disappears() {
    let custom = |id: &str, parent: &str| line("custom", id, parent, json!({"customType": "event", "data": 1}));
    let place =
        Place::of(&[u("u1", ""), custom("c1", "u1"), a("a1", "u1"), custom("c2", "c1"), u("u2", "a1"), custom("c3", "c2")]);
    assert_eq!(context(&place.open()), ["u1", "a1", "u2"]);
}

#[test]
fn parent_id_never_written_to_disk_history_cut_at_the_gap() {
    let place = Place::of(&[u("u1", ""), u("u2", "gone"), a("a2", "u2")]);
    let session = place.open();
    assert_eq!(context(&session), ["u2", "a2"]);
    assert!(session.tree().is_orphan(at(&session, "u2")));
    assert_eq!(session.tree().parent_id(at(&session, "u2")), Some("gone".into()));
    let roots: Vec<_> = session.tree().children().roots().iter().map(|index| session.tree().id(*index).to_string()).collect();
    assert_eq!(roots, ["u1", "u2"], "nothing is out of reach");
}

#[test]
fn id_reused_by_another_record_type() {
    let place =
        Place::of(&[u("u1", ""), line("custom", "x", "u1", json!({"customType": "snapshot"})), u("x", "u1"), a("a1", "x")]);
    let session = place.open();
    assert_eq!(context(&session), ["u1", "x", "a1"], "the later line wins");
    assert_eq!(session.tree().len(), 4);
}

#[test]
fn leaf_pointer_rows_nearly_1_to_1_with_messages() {
    let leaf = |id: &str, parent: &str, target: Value| line("leaf", id, parent, json!({"targetId": target}));
    // As the old harness writes them: they hang from the old leaf.
    let place = Place::of(&[
        u("u1", ""),
        leaf("l1", "u1", json!("u1")),
        a("a1", "u1"),
        leaf("l2", "a1", json!("a1")),
        leaf("l3", "l2", json!("u1")),
    ]);
    assert_eq!(context(&place.open()), ["u1"]);
    // A message that Pi hangs from a `leaf` entry of ours follows what that hangs from.
    let mut session = place.open();
    session.navigate(at(&session, "a1"), None).expect("a navigation");
    let pointer = session.tree().id(session.tree().iter_all().next_back().expect("the leaf entry"));
    place.fs.push(Path::new(FILE), format!("{}\n", u("pi", pointer.as_str())).as_bytes());
    assert_eq!(context(&place.open()), ["u1", "a1", "pi"]);
    let reset = Place::of(&[u("u1", ""), leaf("l1", "", Value::Null)]);
    assert_eq!((reset.open().leaf(), context(&reset.open()).len()), (None, 0));
    assert_eq!(context(&Place::of(&[u("u1", ""), leaf("l1", "u1", json!("nothing"))]).open()), ["u1"]);
}

#[test]
fn branch_summary_from_id_always_equals_parent_id() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), u("u2", "a1"), a("a2", "u2")]);
    let mut session = place.open();
    let summary = SummaryText { summary: "s".to_owned(), ..SummaryText::default() };
    let made = session.navigate(at(&session, "a1"), Some(summary)).expect("a navigation").summary_id.expect("a summary");
    let line = session.read().line(at(&session, made.as_str())).expect("a line");
    let value: Value = serde_json::from_slice(&line).expect("JSON");
    assert_eq!((&value["fromId"], &value["parentId"]), (&json!("a2"), &json!("a1")));
    let old = Place::of(&[u("u1", ""), line_of_summary("u1", "u1"), u("u2", "b")]);
    assert_eq!(context(&old.open()), ["u1", "B:s", "u2"], "the old form is read");
}

fn line_of_summary(parent: &str, from: &str) -> String {
    line("branch_summary", "b", parent, json!({"fromId": from, "summary": "s"}))
}

#[test]
fn summary_covers_shared_history_or_all_entries() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), k("k1", "a1", "a1"), u("u2", "k1"), u("u3", "a1")]);
    let session = place.open();
    let left: Vec<_> = session.left_behind(Some(at(&session, "u2")), Some(at(&session, "u3"))).into_iter().collect();
    assert_eq!(left, [at(&session, "k1"), at(&session, "u2")]);
    assert_eq!(session.left_behind(Some(at(&session, "u2")), Some(at(&session, "a1"))), left);
    assert_eq!(session.left_behind(Some(at(&session, "u2")), None).len(), 4);
}

#[test]
fn model_after_tree_differs_from_after_resume() {
    let change = line("model_change", "m", "a1", json!({"provider": "p", "modelId": "new"}));
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), change, u("u2", "m")]);
    let mut session = place.open();
    let model = |session: &Session| session.project(session.leaf(), &[]).expect("a context").model.map(|model| model.model_id);
    assert_eq!(model(&session), Some(Some("new".to_owned())));
    session.navigate(at(&session, "a1"), None).expect("a navigation");
    assert_eq!(model(&place.open()), model(&session), "a resume follows the path");
    assert_ne!(model(&session), Some(Some("new".to_owned())));
}

// Fork and clone.

#[test]
fn labels_removed_on_fork_children_keep_the_removed_label_as_parent() {
    let change = line("model_change", "m", "l1", json!({"provider": "p", "modelId": "x"}));
    let place = Place::of(&[
        u("side", ""),
        u("u1", ""),
        lab("l0", "side", "u1", "from elsewhere"),
        lab("l1", "u1", "side", "of what is not copied"),
        change,
        lab("l2", "m", "l1", "a label of that label"),
        u("u2", "l2"),
        k("k1", "u2", "l1"),
        lab("l3", "k1", "u2", "kept"),
    ]);
    let source = place.open();
    let fork = place.fork(&source, ForkWhat::Path(source.leaf()));
    assert_eq!(path(&fork.session)[..5], ["u1", "m", "u2", "k1", "l3"]);
    assert_eq!(fork.session.tree().path(fork.session.leaf()).len(), fork.session.tree().len(), "all of it is reachable");
    assert_eq!(labels(&fork.session), [("u1".to_owned(), "from elsewhere".to_owned()), ("u2".to_owned(), "kept".to_owned())]);
    assert_eq!(context(&fork.session), ["K:k1", "u2"], "what followed the first kept entry is kept");
    let bytes = place.fs.get(&fork.path).expect("the fork");
    assert!(String::from_utf8_lossy(&bytes).contains(&u("u1", "")));
}

#[test]
fn fork_at_the_first_message_writes_two_different_ids() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1")]);
    let source = place.open();
    let fork = place.fork(&source, ForkWhat::Before(at(&source, "u1")));
    assert!(fork.path.to_string_lossy().ends_with(&format!("_{}.jsonl", fork.id)));
    assert_eq!((fork.session.header().id.as_str(), fork.session.tree().len()), (fork.id.as_str(), 0));
    assert_eq!(fork.session.header().parent_session.as_deref(), Some(FILE));
    assert_eq!(fork.editor_text.as_deref(), Some("u1"));
    assert_eq!(place.repo.find_parent(fork.session.header()).expect("the root"), Some(FILE.into()));
    let error = place.repo.fork(&source, &ForkOptions { what: ForkWhat::Before(at(&source, "a1")), cwd: None });
    assert!(matches!(error, Err(StorageError::NotAUserMessage(_))));
}

#[test]
fn after_fork_the_parent_file_stays_active() {
    let place = Place::of(&[u("u1", "")]);
    let before = place.bytes();
    let source = place.open();
    append(&mut place.fork(&source, ForkWhat::All).session, &["u2"]);
    assert_eq!(place.bytes(), before);
}

#[test]
fn fork_copies_messages_from_after_the_fork_point() {
    let lines = [u("u1", ""), a("a1", "u1"), u("u2", "a1"), a("a2", "u2"), u("steer", "a2"), a("a3", "steer")];
    let place = Place::of(&lines);
    let source = place.open();
    let fork = place.fork(&source, ForkWhat::Path(Some(at(&source, "a1"))));
    let bytes = String::from_utf8(place.fs.get(&fork.path).expect("the fork")).expect("UTF-8");
    assert_eq!(bytes.lines().skip(1).collect::<Vec<_>>(), lines[..2], "the exact path, with its timestamps");
}

#[test]
fn fork_before_a_later_compaction_yields_the_compacted_state() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), u("u2", "a1"), k("k1", "u2", "u2"), u("u3", "k1")]);
    let source = place.open();
    assert_eq!(context(&source), ["K:k1", "u2", "u3"]);
    let fork = place.fork(&source, ForkWhat::Path(Some(at(&source, "a1"))));
    assert_eq!(context(&fork.session), ["u1", "a1"]);
}

#[test]
fn a_fork_at_a_leaf_entry_is_one_of_where_it_moved_the_leaf() {
    let pointer = line("leaf", "l1", "a2", json!({"targetId": "a1"}));
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), a("a2", "a1"), pointer]);
    let source = place.open();
    let fork = place.fork(&source, ForkWhat::Path(Some(at(&source, "l1"))));
    assert_eq!(path(&fork.session), ["u1", "a1"]);
}

#[test]
fn id_from_another_project_made_a_broken_path() {
    let place = Place::of(&[u("u1", "")]);
    assert_eq!(place.repo.find_exact("s1").expect("the root"), Some(FILE.into()));
    assert_eq!(place.repo.find_exact("s2").expect("the root"), None);
    assert_eq!(place.repo.find_exact("../../x").expect("the root"), None);
}

#[test]
fn parent_marked_closed_although_creating_the_child_failed() {
    let place = Place::of(&[u("u1", "")]);
    let before = place.bytes();
    let source = place.open();
    place.fs.fail_at(2, Fault::Refusal);
    let failed = place.repo.fork(&source, &ForkOptions { what: ForkWhat::All, cwd: Some("/read-only".to_owned()) });
    assert!(failed.is_err());
    place.fs.heal();
    assert_eq!(place.bytes(), before);
    assert_eq!(place.fs.names(), [PathBuf::from(FILE)]);
}

#[test]
fn fork_copies_the_name_list_shows_identical_rows_with_no_link() {
    let named = line("session_info", "n1", "u1", json!({"name": "n"}));
    let place = Place::of(&[u("u1", ""), named]);
    let source = place.open();
    (0..3).for_each(|_| drop(place.fork(&source, ForkWhat::Path(source.leaf()))));
    let listing = place.repo.list(&|_| {}).expect("the root");
    let forks: Vec<_> = listing.sessions.iter().filter(|session| session.parent_session.as_deref() == Some(FILE)).collect();
    assert_eq!((listing.sessions.len(), forks.len()), (4, 3));
    assert!(forks.iter().all(|fork| fork.name.as_deref() == Some("n")));
}

// Context.

#[test]
fn an_old_compaction_inside_a_later_kept_range_renders_between_call_and_result() {
    let place = Place::of(&[
        u("u1", ""),
        tc("c1", "u1", "x"),
        k("k1", "c1", "c1"),
        tr("r1", "k1", "x"),
        u("u2", "r1"),
        k("k2", "u2", "c1"),
    ]);
    assert_eq!(context(&place.open()), ["K:k2", "", "r1", "u2"]);
    let roles: Vec<_> = request(&place.open()).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::ToolResult, Role::User]);
}

#[test]
fn orphan_tool_result_after_chained_compactions() {
    let place = Place::of(&[u("u1", ""), tc("c1", "u1", "x"), tr("r1", "c1", "x"), u("u2", "r1"), k("k1", "u2", "r1")]);
    let roles: Vec<_> = request(&place.open()).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, [Role::User, Role::User]);
}

#[test]
fn crash_during_a_tool_leaves_a_call_without_result() {
    let place = Place::of(&[u("u1", ""), tc("c1", "u1", "x")]);
    let before = place.bytes();
    append(&mut place.open(), &["u2"]);
    let request = request(&place.open());
    assert_eq!(
        request.iter().map(|(role, _)| *role).collect::<Vec<_>>(),
        [Role::User, Role::Assistant, Role::ToolResult, Role::User]
    );
    assert!(request[2].1.contains("interrupted"), "{}", request[2].1);
    assert!(place.bytes().starts_with(&before));
    assert_eq!(place.open().tree().len(), 3, "the result is made for the request alone");
}

#[test]
fn after_compaction_the_request_has_no_input() {
    let place = Place::of(&[u("u1", ""), tc("c1", "u1", "x"), tr("r1", "c1", "x"), k("k1", "r1", "k1")]);
    assert_eq!(request(&place.open()).len(), 1);
}

// Listing, picking, resuming.

#[test]
fn list_reads_a_giant_line_in_blocks() {
    let giant = line("custom", "c1", "u1", json!({"customType": "page", "data": "x".repeat(3_000_000)}));
    let place = Place::of(&[u("u1", ""), giant, a("a1", "c1")]);
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!((listing.sessions[0].message_count, listing.sessions[0].first_message.as_deref()), (2, Some("u1")));
    assert_eq!(context(&place.open()), ["u1", "a1"]);
}

#[test]
fn empty_session_for_newer_files() {
    let first = line("model_change", "m", "", json!({"provider": "p", "modelId": "x"}));
    let second = line("thinking_level_change", "t", "m", json!({"thinkingLevel": "high"}));
    let place = Place::of(&[first, second, u("u1", "t"), a("a1", "u1")]);
    let session = place.repo.list(&|_| {}).expect("the root").sessions.remove(0);
    assert_eq!((session.first_message.as_deref(), session.message_count), (Some("u1"), 2));
}

#[test]
fn progress_says_22_list_shows_19() {
    let place = Place::of(&[u("u1", "")]);
    place.fs.put(Path::new("/root/--p--/empty.jsonl"), b"");
    place.fs.put(Path::new("/root/--p--/corrupt.jsonl"), b"{{{\n");
    let seen = std::sync::Mutex::new(Vec::new());
    let listing = place.repo.list(&|progress| seen.lock().expect("no panic").push(progress)).expect("the root");
    assert_eq!((listing.sessions.len(), listing.skipped.len()), (1, 2));
    let seen = seen.into_inner().expect("no panic");
    assert!(seen.iter().all(|progress| progress.total == 3));
    assert_eq!(seen.iter().map(|progress| progress.done).max(), Some(3));
}

#[test]
fn order_by_file_mtime_is_wrong() {
    let place = Place::new();
    let write = |name: &str, time: u64, created: &str| {
        let header = H.replace("s1", name).replace("2026-01-01T00", created);
        let said = line("message", "u1", "", json!({"message": {"role": "user", "content": "x", "timestamp": time}}));
        place.fs.put(Path::new(&format!("/root/--p--/{name}.jsonl")), format!("{header}\n{said}\n").as_bytes());
    };
    write("old", 1_000, "2026-03-01T00");
    write("new", 3_000, "2026-01-01T00");
    write("middle", 2_000, "2026-02-01T00");
    // A title line later on is no activity.
    let mut old = place.repo.open(Path::new("/root/--p--/old.jsonl")).expect("a session");
    old.append(
        vec![EntryKind::SessionInfo(SessionInfo { name: Some("n".to_owned()), ..SessionInfo::default() })],
        Durability::Synced,
    )
    .expect("a name");
    let ids: Vec<_> = place.repo.list(&|_| {}).expect("the root").sessions.into_iter().map(|session| session.id).collect();
    assert_eq!(ids, ["new", "middle", "old"]);
    assert_eq!(place.repo.latest("/p").expect("the root").map(|session| session.id).as_deref(), Some("new"));
}

#[test]
fn picker_lists_only_an_empty_stub_though_export_of_the_same_file_works() {
    // Files of a flat folder inside an ordinary root are read too.
    let place = Place::of(&[u("u1", "")]);
    place.fs.put(Path::new("/root/flat.jsonl"), file(&[u("u1", "")]).as_bytes());
    place.fs.put(Path::new("/root/other/2025_x.jsonl"), file(&[u("u1", "")]).as_bytes());
    assert_eq!(place.repo.list(&|_| {}).expect("the root").sessions.len(), 3);
}

// Paths and identity.

#[test]
fn two_cwds_share_one_folder() {
    let place = Place::new();
    for cwd in ["/a/b-c", "/a-b/c"] {
        let mut session = place.repo.create(NewSession { cwd: cwd.to_owned(), ..NewSession::default() }).expect("a session");
        append(&mut session, &[cwd]);
    }
    assert_eq!(place.repo.folder_for("/a/b-c"), place.repo.folder_for("/a-b/c"));
    for cwd in ["/a/b-c", "/a-b/c"] {
        let latest = place.repo.latest(cwd).expect("the root").expect("a session");
        assert_eq!((latest.cwd.as_str(), latest.first_message.as_deref()), (cwd, Some(cwd)));
    }
}

#[test]
fn wrong_encoder() {
    for (cwd, expect) in [
        ("/home/me/a.b-c", "--home-me-a.b-c--"),
        ("C:\\code\\x", "--C--code-x--"),
        ("\\\\server\\x", "---server-x--"),
        ("/", "----"),
        ("rel", "--rel--"),
        ("/\u{e9} \u{1f600}", "--\u{e9} \u{1f600}--"),
    ] {
        assert_eq!(folder_name(cwd), expect);
    }
    let long = folder_name(&format!("/{}", "é/".repeat(300)));
    assert!(long.len() <= 255 && long.starts_with("--") && long.ends_with("--"));
    assert_ne!(long, folder_name(&format!("/{}x", "é/".repeat(300))));
}

#[test]
fn case_differences() {
    let repo = Place::new().repo;
    assert!(repo.same_cwd("d:\\code", "D:\\code\\"));
    assert!(repo.same_cwd("/mnt/c/Users", "/mnt/c/users"));
    assert!(!repo.same_cwd("/home/Me", "/home/me"));
    assert!(!repo.same_cwd("/mnt/cx/Users", "/mnt/cx/users"));
}

#[test]
fn project_moved_or_renamed() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1")]);
    let before = place.bytes();
    let moved = place.repo.relocate(Path::new(FILE), "/proj2").expect("a move");
    assert_eq!(moved.path, Path::new("/root/--proj2--/2026-01-01T00-00-00-000Z_s1.jsonl"));
    let session = place.repo.open(&moved.path).expect("the session");
    assert_eq!(
        (session.header().cwd.as_str(), context(&session), session.read().damage()),
        ("/proj2", vec!["u1".into(), "a1".into()], &[][..])
    );
    assert_eq!(
        place.fs.get(&moved.path).expect("the file"),
        String::from_utf8_lossy(&before).replacen("\"/p\"", "\"/proj2\"", 1).as_bytes()
    );
    assert_eq!(place.fs.get(&moved.backup).expect("a backup"), before);
    assert_eq!(place.fs.get(Path::new(FILE)), None);
    assert_eq!(place.repo.find_exact("s1").expect("the root"), Some(moved.path.clone()));
    // In its folder it is rewritten; backups are never written over.
    let second = place.repo.relocate(&moved.path, "/proj2").expect("a move");
    assert_eq!((&second.path, second.backup.to_string_lossy().ends_with(".jsonl.bak.1")), (&moved.path, true));
}

#[test]
fn a_move_changes_not_one_byte_beside_the_cwd() {
    let tail = "{\"torn\n\n\0\0\n";
    for first in [
        format!("\u{feff}\n \n{H}\r\n"),
        format!("  {H} {}\n", u("fused", "")),
        format!("\0\0{H}\0\0\n"),
        H.to_owned(),
        format!("{H}{{\"type\":\"mess\n"),
    ] {
        let bytes = format!("{first}{tail}{}", u("u1", ""));
        let bytes = if first == H { H.to_owned() } else { bytes };
        let place = Place::with(&bytes);
        let seen = place.open().tree().len();
        let moved = place.repo.relocate(Path::new(FILE), "/q").expect("a move");
        let after = place.fs.get(&moved.path).expect("the file");
        assert_eq!(after, bytes.replacen("\"/p\"", "\"/q\"", 1).as_bytes());
        assert_eq!(place.repo.open(&moved.path).expect("a session").tree().len(), seen);
    }
}

#[test]
fn session_id_used_as_a_path() {
    for id in ["../../x", "/etc/passwd", "a\0b", "", ".hidden"] {
        assert!(SessionId::new(id).is_err());
        let place = Place::with(file(&[u("u1", "")]).replace("\"s1\"", &json!(id).to_string()));
        place.fs.put(Path::new("/root/--p--/odd.jsonl"), &place.bytes());
        let moved = place.repo.relocate(Path::new("/root/--p--/odd.jsonl"), "/q").expect("a move");
        assert_eq!(moved.path, Path::new("/root/--q--/odd.jsonl"), "no path is made from an id that is none");
        let session = place.open();
        let fork = place.fork(&session, ForkWhat::All);
        assert_eq!(fork.path.parent(), Path::new(FILE).parent());
    }
}

// Encoding and versions.

#[test]
fn lone_surrogate_bricks_the_session() {
    let odd =
        r#"{"type":"message","id":"u1","parentId":null,"timestamp":"t","message":{"role":"user","content":"abc\ud83d..."}}"#;
    let place = Place::of(&[odd.to_owned(), a("a1", "u1")]);
    let session = place.open();
    assert_eq!((context(&session), session.read().damage()), (vec!["abc\u{fffd}...".to_owned(), "a1".to_owned()], &[][..]));
    assert_eq!(session.read().line(at(&session, "u1")).expect("a line"), odd.as_bytes());
}

#[test]
fn utf_8_bom_at_start() {
    let place = Place::with(format!("\u{feff}{}", file(&[u("u1", "")])));
    append(&mut place.open(), &["u2"]);
    assert_eq!(context(&place.open()), ["u1", "u2"]);
    assert!(place.bytes().starts_with("\u{feff}{".as_bytes()));
}

#[test]
fn newer_version_opened_and_continued_silently() {
    let bytes = file(&[u("u1", "")]).replace("\"version\":3", "\"version\":4");
    let place = Place::with(&bytes);
    let mut session = place.open();
    assert_eq!(context(&session), ["u1"]);
    let is_refused = |error: &StorageError| matches!(error, StorageError::UnsupportedVersion { version: 4, .. });
    assert!(is_refused(&session.append(vec![user("u2")], Durability::Synced).expect_err("it is newer")));
    assert!(is_refused(&session.set_name("n").expect_err("it is newer")));
    assert!(is_refused(&session.set_label(at(&session, "u1"), Some("l")).expect_err("it is newer")));
    let fork = place.repo.fork(&session, &ForkOptions { what: ForkWhat::All, cwd: None });
    assert!(is_refused(&fork.expect_err("it is newer")));
    assert!(is_refused(&place.repo.relocate(Path::new(FILE), "/q").expect_err("it is newer")));
    assert_eq!(place.bytes(), bytes.as_bytes());
    assert_eq!(place.fs.names(), [PathBuf::from(FILE)]);
}

#[test]
fn v3_and_v4_files_in_one_release() {
    let place = Place::of(&[u("u1", "")]);
    let other = b"{\"kind\":\"header\",\"version\":4,\"seq\":0,\"id\":\"x\"}\n";
    place.fs.put(Path::new("/root/--p--/v4.jsonl"), other);
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!(listing.sessions.len(), 1);
    assert!(matches!(listing.skipped[0].reason, StorageError::Format4(_)));
    assert!(matches!(place.repo.relocate(Path::new("/root/--p--/v4.jsonl"), "/q"), Err(StorageError::Format4(_))));
    assert_eq!(place.fs.get(Path::new("/root/--p--/v4.jsonl")).expect("the file"), other);
}

#[test]
fn header_without_version_rejected() {
    let place = Place::with(V1);
    let session = place.open();
    assert_eq!((session.header().version, context(&session)), (1, vec!["u1".to_owned()]));
    let first = session.leaf_id().expect("an entry");
    assert_eq!((place.open().leaf_id(), first.as_str().len()), (Some(first.clone()), 8), "the id is the same at each reading");
    assert_eq!(place.bytes(), V1.as_bytes(), "reading upgrades nothing");
    let fork = place.fork(&session, ForkWhat::All);
    assert_eq!((fork.session.header().version, fork.session.leaf_id()), (3, Some(first)));
}

// Delete and privacy.

#[test]
fn delete_leaves_sidecar_files() {
    let place = Place::with(V1);
    append(&mut place.open(), &["u2"]);
    place.fs.put(&Path::new(FILE).with_extension("unsaved.jsonl"), b"{}\n");
    place.fs.put(Path::new("/root/--p--/.2026-01-01T00-00-00-000Z_s1.jsonl.lock"), b"pid 7");
    place.fs.put(Path::new("/root/--p--/2026-01-01T00-00-00-000Z_s12.jsonl.bak"), b"another's");
    assert_eq!(place.repo.delete(Path::new(FILE)).expect("a delete").len(), 3);
    assert_eq!(place.fs.names(), [PathBuf::from("/root/--p--/2026-01-01T00-00-00-000Z_s12.jsonl.bak")]);
}

#[test]
fn deleting_a_session_that_is_open_elsewhere() {
    let place = Place::of(&[u("u1", "")]);
    let _owner = OwnerLock::take(place.repo.fs(), Path::new(FILE), "pid 7").expect("a free lock");
    assert!(matches!(place.repo.delete(Path::new(FILE)), Err(StorageError::Busy { .. })));
    assert!(place.fs.get(Path::new(FILE)).is_some());
}
