//! Long lines and long files cost no more memory and no more calls than what is asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pi_sessions::Session;
use pi_sessions::session::entry::EntryKind;
use pi_sessions::session::message::Message;
use pi_sessions::storage::check::check_file;
use pi_sessions::storage::fs::Fs;
use pi_sessions::storage::jsonl::JsonlStorage;
use pi_sessions::storage::list::summarize;
use pi_sessions::storage::repair::{IfHeld, repair_file};
use pi_sessions::storage::repo::SessionFile;
use pi_sessions::storage::{DamageKind, Durability, SessionRead, SystemClock};

use crate::support::counting_fs::CountingFs;
use crate::support::fixed::CountedIds;

const HEADER: &str =
    "{\"type\":\"session\",\"version\":3,\"id\":\"s1\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/p\"}\n";
/// More than is ever held of a line that is no record.
const LONG: usize = 9_000_000;
/// What is read at once, and a little.
const BLOCK: usize = 300_000;

fn user(id: u32, text: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":null,\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":\
         {{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"timestamp\":{id}}}}}"
    )
}

fn file(lines: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    std::fs::write(&path, format!("{HEADER}{lines}")).expect("room");
    (folder, path)
}

fn open(fs: &CountingFs, path: &Path) -> JsonlStorage {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    JsonlStorage::open(fs, path).expect("a session")
}

fn longest_read(fs: &CountingFs) -> usize {
    fs.take_calls().iter().filter(|(name, _)| *name == "read").map(|(_, len)| *len).max().unwrap_or_default()
}

#[test]
fn an_append_makes_six_calls() {
    let (_folder, path) = file("");
    let fs = CountingFs::default();
    let mut session = Session::new(Box::new(open(&fs, &path)), Arc::new(SystemClock), Arc::new(CountedIds::default()));
    let mut append = |durability| session.append(vec![EntryKind::message(Message::user("x", 1))], durability).expect("room");
    append(Durability::Unsynced);
    fs.take_calls();
    append(Durability::Unsynced);
    let calls = fs.take_calls();
    let written = calls.iter().find(|(name, _)| *name == "write").expect("a write").1;
    assert_eq!(calls, [("lock", 0), ("stat", 0), ("read", 64), ("write", written), ("fstat", 0), ("unlock", 0)]);
    append(Durability::Synced);
    let names: Vec<_> = fs.take_calls().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["lock", "stat", "read", "write", "sync", "fstat", "unlock"]);
}

#[test]
fn a_long_line_that_is_no_record_is_never_held() {
    for start in ["", "{", "{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"x\":\"", "\0"] {
        let (_folder, path) = file(&format!("{}\n{start}{}", user(1, "hi"), "y {}".repeat(LONG / 4)));
        let fs = CountingFs::default();
        let storage = open(&fs, &path);
        assert_eq!(storage.tree().len(), 1, "{start:?}");
        assert_eq!(storage.damage().len(), 1, "{start:?}");
        let faults = check_file(&(Arc::new(fs.clone()) as Arc<dyn Fs>), &path).expect("a session");
        assert!(faults.iter().any(|fault| fault.line == 3), "{start:?}: {faults:?}");
        assert!(longest_read(&fs) < BLOCK, "{start:?}");
    }
}

#[test]
fn of_a_long_fused_line_the_records_are_recovered() {
    let half = format!("{{\"type\":\"message\",\"id\":\"a\",\"par{}", "z".repeat(LONG));
    let long = user(3, &"w".repeat(LONG));
    let (_folder, path) = file(&format!("{half}{}{long}\n{}", user(2, "second"), user(4, "last")));
    let fs = CountingFs::default();
    let storage = open(&fs, &path);
    let ids: Vec<_> = storage.tree().iter().map(|index| storage.tree().id(index).to_string()).collect();
    assert_eq!(ids, ["00000002", "00000003", "00000004"]);
    let damage: Vec<_> = storage.damage().iter().map(|damage| (damage.kind, damage.line)).collect();
    assert_eq!(damage, [(DamageKind::Fused, 2)]);
    assert!(longest_read(&fs) < BLOCK);
    let index = storage.tree().find("00000003").expect("it was recovered");
    assert_eq!(storage.line(index).expect("a line"), long.as_bytes());
}

#[test]
fn a_long_record_with_its_keys_in_another_order_is_read_in_little_memory() {
    let line = user(1, &"v".repeat(LONG)).replace("{\"type\":\"message\",\"id\":\"00000001\",", "{\"id\":\"00000001\",");
    let line = format!("{},\"type\":\"message\"}}", &line[..line.len() - 1]);
    let (_folder, path) = file(&line);
    let fs = CountingFs::default();
    let storage = open(&fs, &path);
    assert_eq!((storage.tree().len(), storage.damage()), (1, &[][..]));
    assert!(longest_read(&fs) < BLOCK);
}

#[test]
fn a_look_at_a_long_record_reads_it_in_blocks_and_cuts_its_text() {
    let text = "caf\u{e9} \\\"x\\\" ".repeat(200_000);
    let (_folder, path) = file(&user(1, &text));
    let fs = CountingFs::default();
    let storage = open(&fs, &path);
    let index = storage.tree().find("00000001").expect("the entry");
    let preview = storage.preview(index).expect("readable").expect("an entry");
    let file = SessionFile { path: path.clone(), meta: fs.metadata(&path).expect("a file") };
    let summary = summarize(&fs, &file).expect("a session");
    assert!(longest_read(&fs) < BLOCK);
    let whole = storage.entry(index).expect("readable").expect("an entry");
    let texts = [&whole, &preview].map(|entry| entry.message().expect("a message").text());
    assert!(texts[0].starts_with(&texts[1]) && (50_000..66_000).contains(&texts[1].len()), "{}", texts[1].len());
    assert_eq!((&preview.id, preview.message().and_then(Message::timestamp)), (&whole.id, Some(1)));
    let first = summary.first_message.expect("a message");
    assert!(first.len() > 10 && texts[0].starts_with(first.as_str()));
    assert_eq!((summary.message_count, summary.modified_ms), (1, 1));
}

#[test]
fn a_repair_holds_no_more_than_a_block_and_a_line() {
    const LINE: usize = 100_000;
    let lines = |edit: &dyn Fn(u32, String) -> String| -> String {
        (0..100).map(|id| edit(id, user(id, &"u".repeat(LINE))) + "\n").collect()
    };
    // A torn line before much that is sound, and damage in every line.
    let torn = format!("{{\"type\":\"mess\n{}", lines(&|_, line| line));
    let orphans = lines(&|id, line| line.replacen("\"parentId\":null", &format!("\"parentId\":\"gone{id}\""), 1));
    for (text, changes) in [(torn, 1), (orphans, 100)] {
        let (_folder, path) = file(&text);
        let counting = CountingFs::default();
        let fs: Arc<dyn Fs> = Arc::new(counting.clone());
        let repaired = repair_file(&fs, &path, IfHeld::Refuse).expect("a session");
        assert_eq!(repaired.actions.len(), changes);
        let calls = counting.take_calls();
        let longest = |name| calls.iter().filter(|call| call.0 == name).map(|call| call.1).max().expect("some");
        assert!(longest("read") <= 1 << 20 && longest("write") <= 1 << 20, "{} {}", longest("read"), longest("write"));
        assert_eq!(open(&counting, &path).tree().len(), 100);
    }
}
