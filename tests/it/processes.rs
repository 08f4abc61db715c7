//! Real processes on real files: kills, a file size limit, two writers, and the owner's lock.
//!
//! A child is this test binary, run for [`child`] alone, which does nothing unless it is told what to do.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use pi_sessions::session::entry::{Entry, EntryKind, Header, MessageEntry};
use pi_sessions::session::json::Json;
use pi_sessions::session::message::Message;
use pi_sessions::storage::fs::{Fs, OpenFor, StdFs};
use pi_sessions::storage::handle::Session;
use pi_sessions::storage::jsonl::follow::{Followed, Follower};
use pi_sessions::storage::jsonl::{JsonlStorage, write_unsaved};
use pi_sessions::storage::lock::{OwnerLock, lock_path};
use pi_sessions::storage::repo::{Layout, Repo};
use pi_sessions::storage::{Durability, RandomIds, StorageError, SystemClock};

use crate::support::told;

const TASK: &str = "PI_SESSIONS_TEST_TASK";
const FILE: &str = "PI_SESSIONS_TEST_FILE";

fn std_fs() -> Arc<dyn Fs> {
    Arc::new(StdFs)
}

fn open(path: &Path) -> Session {
    let storage = JsonlStorage::open(std_fs(), path).expect("a session");
    Session::new(Box::new(storage), Arc::new(SystemClock), Arc::new(RandomIds))
}

fn create(path: &Path) -> Session {
    let header = Header { version: 3, id: "s1".to_owned(), cwd: "/p".to_owned(), ..Header::default() };
    JsonlStorage::create(std_fs(), path, &header).expect("a new session");
    open(path)
}

/// A message of about `len` bytes that tells where it ends.
fn message(text: &str, len: usize) -> EntryKind {
    let content = format!("[{text}{}]", "é".repeat(len / 2));
    let message = Json::of(&serde_json::json!({"role": "user", "content": content, "timestamp": 5})).expect("JSON");
    EntryKind::Message(MessageEntry { message: Message::from_json(message), extra: Default::default() })
}

fn text_of(entry: &Entry) -> String {
    entry.message().and_then(Message::content).map(pi_sessions::session::message::Content::joined_text).unwrap_or_default()
}

/// Every entry of the file is whole.
fn check_whole(path: &Path) -> Session {
    let session = open(path);
    for index in session.tree().iter_all() {
        let entry = session.read().entry(index).expect("a line").expect("an entry");
        let text = text_of(&entry);
        assert!(text.starts_with('[') && text.ends_with(']'), "{text}");
    }
    session
}

fn child_of(task: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", "processes::child", "--nocapture", "--test-threads=1"]);
    command.env(TASK, task).env(FILE, path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// The next line of a child that begins with `word`: the rest of it.
fn next_line(lines: &mut BufReader<ChildStdout>, word: &str) -> Option<String> {
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).expect("a pipe") == 0 {
            return None;
        }
        // A killed child may leave a part of a line.
        if let Some(rest) = line.strip_prefix(word).and_then(|rest| rest.strip_suffix('\n')) {
            return Some(rest.trim().to_owned());
        }
    }
}

fn spawn(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.spawn().expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("its output"));
    (child, lines)
}

fn say(word: &str, rest: &str) {
    let mut line = String::new();
    // On a line of its own, also behind what the test runner writes.
    let _ = write!(line, "\n{word} {rest}\n");
    let _ = std::io::stdout().write_all(line.as_bytes());
}

/// What a child does.
#[test]
#[expect(clippy::disallowed_methods, reason = "how a child is told its task")]
fn child() {
    let (Ok(task), Ok(file)) = (std::env::var(TASK), std::env::var(FILE)) else { return };
    let path = PathBuf::from(file);
    match task.as_str() {
        "append" => {
            let mut session = open(&path);
            for number in 0.. {
                let made = session.append(vec![message(&format!("{number}"), 1 << (number % 18))], Durability::Synced);
                say("ack", made.expect("an append")[0].as_str());
            }
        }
        "append 500" => append_500(&path, "child"),
        "append many" => append_many(&path, &format!("process {}", std::process::id()), &mut |id| say("ack", id)),
        "fill" => {
            let mut session = open(&path);
            let error = loop {
                match session.append(vec![message("", 12_000)], Durability::Synced) {
                    Ok(made) => say("ack", made[0].as_str()),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, StorageError::WriteFailed { .. }), "{error:?}");
            let last = session.leaf().expect("some were written");
            let unwritten =
                Entry { kind: message("unsaved", 10), ..session.read().entry(last).expect("a line").expect("an entry") };
            let unsaved = write_unsaved(&StdFs, &path, &[unwritten]).expect("another file is not too long");
            say("unsaved", &unsaved.to_string_lossy());
        }
        "own" => {
            let _lock = OwnerLock::take(&std_fs(), &path, "the child").expect("a free lock");
            say("ack", "");
            let _ = std::io::stdin().read(&mut [0]);
        }
        other => panic!("no task {other}"),
    }
}

fn append_500(path: &Path, who: &str) {
    let mut session = open(path);
    session.hold();
    for number in 0..500 {
        session.append(vec![message(&format!("{who} {number} "), number)], Durability::Unsynced).expect("an append");
    }
}

/// How many entries a writer of many appends.
const MANY: usize = 2_460;
/// How many entries are appended by commands that append one and end, in each of two loops.
const ONE_SHOTS: usize = 160;

/// Appends one or a few at a time, now and then synced; half of the writers keep a branch of their own.
fn append_many(path: &Path, who: &str, tell: &mut dyn FnMut(&str)) {
    let mut session = open(path);
    if who.len().is_multiple_of(2) {
        session.hold();
    }
    let mut number = 0;
    while number < MANY {
        let len = (1 + number % 3).min(MANY - number);
        let batch = (0..len).map(|at| message(&format!("{who} {} ", number + at), (number * 7) % 90)).collect();
        let durability = if number % 400 == 0 { Durability::Synced } else { Durability::Unsynced };
        session.append(batch, durability).expect("an append").iter().for_each(|id| tell(id.as_str()));
        number += len;
    }
}

/// Appends with commands that end after one entry.
fn append_by_commands(path: &Path, who: &str) -> Vec<String> {
    let append = |number| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pi-sessions"));
        command.env_clear().env("HOME", "/nowhere").args(["append", "--json"]).arg(path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command");
        let line = format!("{{\"role\":\"user\",\"content\":\"[{who} {number}]\"}}\n");
        child.stdin.take().expect("a pipe").write_all(line.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        told["id"].as_str().expect("an id").to_owned()
    };
    (0..ONE_SHOTS).map(append).collect()
}

/// Opens the session anew at each bell: what was there stays where it was, and no entry is there by half. Returns how
/// often.
fn read_anew(path: &Path, bell: &Receiver<()>) -> usize {
    let mut ids: Vec<String> = Vec::new();
    let mut times = 0;
    for () in bell {
        let session = open(path);
        let tree = session.tree();
        let mut now = tree.iter_all();
        for known in &ids {
            assert_eq!(now.next().map(|index| tree.id(index).to_string()).as_deref(), Some(known.as_str()));
        }
        for index in now {
            let text = text_of(&session.read().entry(index).expect("a line").expect("an entry"));
            assert!(text.starts_with('[') && text.ends_with(']'), "{text}");
            ids.push(tree.id(index).to_string());
        }
        times += 1;
    }
    times
}

/// Follows the session with a look at each bell; gives each entry once and whole.
fn follow(path: &Path, bell: &Receiver<()>) -> HashSet<String> {
    let mut follower = Follower::new(std_fs(), path);
    let mut seen = HashSet::new();
    // When nobody rings any more there is one more look.
    for () in bell.iter().chain([()]) {
        let poll = follower.poll(&mut |followed| match followed {
            Followed::Entry(entry, _) => {
                let text = text_of(entry);
                assert!(text.starts_with('[') && text.ends_with(']'), "{text}");
                assert!(seen.insert(entry.id.to_string()), "{} twice", entry.id);
            }
            Followed::Header(_) => {}
            Followed::Missing | Followed::Replaced | Followed::Damaged(_) => panic!("{followed:?}"),
        });
        poll.expect("it can be read");
    }
    seen
}

/// As [`follow`], with the command, until it gave so many.
fn watch(path: &Path, count: usize) -> HashSet<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pi-sessions"));
    command.env_clear().env("HOME", "/nowhere").args(["watch", "--json", "--lines", "100000"]).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let (mut child, lines) = spawn(command);
    let mut seen = HashSet::new();
    for line in lines.lines().take(count) {
        let entry: serde_json::Value = serde_json::from_str(&line.expect("text")).expect("a whole line");
        let id = entry["id"].as_str().expect("an id").to_owned();
        assert!(seen.insert(id), "{entry} twice");
    }
    child.kill().expect("it goes on");
    child.wait().expect("an end");
    seen
}

#[test]
fn eight_writers_and_four_readers_share_a_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    create(&path);
    let count = 8 * MANY + 2 * ONE_SHOTS;
    let rung = AtomicUsize::new(0);
    let (bells, ears): (Vec<_>, Vec<_>) = (0..3).map(|_| sync_channel(1)).unzip();
    // A reader that is at work still hears the next one.
    let ring = |id: String, bells: &[SyncSender<()>]| {
        if rung.fetch_add(1, Ordering::Relaxed).is_multiple_of(300) {
            bells.iter().for_each(|bell| {
                let _ = bell.try_send(());
            });
        }
        id
    };
    let mut acknowledged = Vec::new();
    let (times, followed) = std::thread::scope(|scope| {
        let [first, second, third] = <[_; 3]>::try_from(ears).expect("three");
        let path = &path;
        let readers = [first, second].map(|bell| scope.spawn(move || read_anew(path, &bell)));
        let followers = [scope.spawn(move || follow(path, &third)), scope.spawn(|| watch(path, count))];
        let ring = &ring;
        let mut writers = Vec::new();
        for _ in 0..4 {
            let bells = bells.clone();
            writers.push(scope.spawn(move || {
                let (mut child, mut lines) = spawn(child_of("append many", path));
                let ids = std::iter::from_fn(|| next_line(&mut lines, "ack")).map(|id| ring(id, &bells)).collect::<Vec<_>>();
                assert!(child.wait().expect("a child").success());
                ids
            }));
        }
        for number in 0..4 {
            let bells = bells.clone();
            writers.push(scope.spawn(move || {
                let mut ids = Vec::new();
                append_many(path, &format!("thread {}", 10_usize.pow(number)), &mut |id| ids.push(ring(id.to_owned(), &bells)));
                ids
            }));
        }
        for who in ["first", "second"] {
            writers.push(scope.spawn(move || append_by_commands(path, who)));
        }
        let results: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        // The readers end also when a writer did not get to its end.
        drop(bells);
        results.into_iter().for_each(|ids| acknowledged.extend(ids.expect("no panic")));
        let times = readers.map(|reader| reader.join().expect("no panic"));
        (times, followers.map(|follower| follower.join().expect("no panic")))
    });
    assert_eq!(acknowledged.len(), count);

    let text = std::fs::read_to_string(&path).expect("text");
    assert!(text.ends_with('\n'));
    let whole = |line| serde_json::from_str::<serde_json::Value>(line).expect("each line is whole");
    let entries: Vec<_> = text.lines().skip(1).map(whole).collect();
    let ids: HashSet<_> = entries.iter().map(|entry| entry["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!((entries.len(), ids.len()), (count, count), "each is there once");
    assert_eq!(acknowledged.into_iter().collect::<HashSet<_>>(), ids);
    assert!(followed.iter().all(|seen| *seen == ids));
    let parents = entries.iter().filter_map(|entry| entry["parentId"].as_str());
    assert_eq!(parents.filter(|parent| !ids.contains(*parent)).count(), 0, "no orphan");
    assert_eq!(check_whole(&path).read().damage(), []);
    told(&format!("{count} entries, opened {times:?} times meanwhile"));
}

#[test]
fn acknowledged_entries_survive_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    create(&path);
    let mut acknowledged = Vec::new();
    for round in 0..20 {
        let (mut child, mut lines) = spawn(child_of("append", &path));
        for _ in 0..=round {
            acknowledged.push(next_line(&mut lines, "ack").expect("the child goes on"));
        }
        child.kill().expect("a running child");
        child.wait().expect("a child");
        while let Some(id) = next_line(&mut lines, "ack") {
            acknowledged.push(id);
        }
        let session = check_whole(&path);
        let lost: Vec<_> = acknowledged.iter().filter(|id| session.tree().find(id).is_none()).collect();
        assert!(lost.is_empty(), "{lost:?}");
        // What was written after a kill hangs from what was there before.
        assert_eq!(session.tree().path(session.leaf()).len(), session.tree().len());
    }
    assert!(acknowledged.len() >= 210);
}

#[test]
#[cfg(unix)]
fn a_file_size_limit_costs_no_acknowledged_entry() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("2026-01-01_s1.jsonl");
    create(&path);
    let child = child_of("fill", &path);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\""]).arg(child.get_program()).args(child.get_args());
    command.env(TASK, "fill").env(FILE, &path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (mut child, mut lines) = spawn(command);
    let mut acknowledged = Vec::new();
    let mut all = String::new();
    lines.read_to_string(&mut all).expect("a pipe");
    acknowledged.extend(all.lines().filter_map(|line| line.strip_prefix("ack ")));
    assert!(child.wait().expect("a child").success(), "{all}");
    assert!(!acknowledged.is_empty() && acknowledged.len() < 20, "{all}");

    let mut session = check_whole(&path);
    assert_eq!(session.tree().iter().map(|index| session.tree().id(index).to_string()).collect::<Vec<_>>(), acknowledged);
    assert_eq!(session.read().damage(), [], "the part that was written is taken back");
    session.append(vec![message("again", 12_000)], Durability::Synced).expect("there is room again");
    assert_eq!(check_whole(&path).tree().len(), acknowledged.len() + 1);

    let unsaved = PathBuf::from(all.lines().find_map(|line| line.strip_prefix("unsaved ")).expect("the file of the unsaved"));
    assert!(std::fs::read_to_string(&unsaved).expect("the unsaved").contains("[unsaved"));
    let repo = Repo::new(std_fs(), Arc::new(SystemClock), Arc::new(RandomIds), folder.path().to_owned(), Layout::Flat);
    let listed: Vec<_> = repo.files().expect("the folder").into_iter().map(|file| file.path).collect();
    assert_eq!(listed, [path]);
}

#[test]
fn two_processes_append_to_one_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    create(&path).append(vec![message("root", 0)], Durability::Synced).expect("an append");
    let (mut child, mut lines) = spawn(child_of("append 500", &path));
    append_500(&path, "parent");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("a pipe");
    assert!(child.wait().expect("a child").success(), "{rest}");

    let session = check_whole(&path);
    assert_eq!((session.tree().len(), session.read().damage()), (1001, &[][..]));
    let ids: HashSet<_> = session.tree().iter().map(|index| session.tree().id(index)).collect();
    assert_eq!(ids.len(), 1001);
    // Who began later may hang from where the other was then; from there on each has its own chain.
    for who in ["parent", "child"] {
        let mut texts = Vec::new();
        let last = session.tree().iter().rfind(|index| {
            let entry = session.read().entry(*index).expect("a line").expect("an entry");
            text_of(&entry).starts_with(&format!("[{who} 499 "))
        });
        for index in session.tree().path(last) {
            let text = text_of(&session.read().entry(index).expect("a line").expect("an entry"));
            texts
                .extend(text.strip_prefix(&format!("[{who} ")).map(|rest| rest.split(' ').next().unwrap_or_default().to_owned()));
        }
        assert_eq!(texts, (0..500).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}

#[test]
fn threads_with_handles_of_their_own_append_to_one_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    create(&path);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut session = open(&path);
                for number in 0..50 {
                    session.append(vec![message(&format!("{number}"), 3_000)], Durability::Unsynced).expect("an append");
                }
            });
        }
    });
    let session = check_whole(&path);
    assert_eq!(session.tree().len(), 200);
    // Handles that follow take the leaf under the lock, so there is one chain.
    assert_eq!(session.tree().path(session.leaf()).len(), 200);
}

/// Appends short entries one after another until it is told to stop; returns how many.
fn burst(session: &mut Session, stop: &AtomicBool) -> usize {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        session.append(vec![message(&format!("burst {count}"), 0)], Durability::Unsynced).expect("an append");
        count += 1;
    }
    count
}

#[test]
fn a_burst_of_appends_goes_on_in_the_file_that_takes_the_place_of_the_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("2026-01-01_s1.jsonl");
    let mut session = create(&path);
    let repo = Repo::new(std_fs(), Arc::new(SystemClock), Arc::new(RandomIds), folder.path().to_owned(), Layout::Flat);
    let stop = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        let writer = scope.spawn(|| burst(&mut session, &stop));
        let replaced = (0..20).try_for_each(|number| repo.relocate(&path, &format!("/p{number}")).map(drop));
        stop.store(true, Ordering::Relaxed);
        replaced.expect("a rewrite in its place");
        writer.join().expect("the writer ends")
    });
    let session = check_whole(&path);
    assert_eq!(session.header().cwd, "/p19");
    assert_eq!(session.tree().len(), count);
    assert_eq!(session.tree().path(session.leaf()).len(), count, "one chain");
}

#[test]
fn a_session_has_one_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    create(&path);
    assert_eq!(OwnerLock::owner(&StdFs, &path).expect("a look"), None);
    let lock = OwnerLock::take(&std_fs(), &path, "chat of pid 7").expect("a free lock");
    assert_eq!(OwnerLock::owner(&StdFs, &path).expect("a look").as_deref(), Some("chat of pid 7"));
    match OwnerLock::take(&std_fs(), &path, "another") {
        Err(StorageError::Busy { owner, path: busy }) => assert_eq!((owner.as_str(), busy), ("chat of pid 7", path.clone())),
        other => panic!("{other:?}"),
    }
    assert_eq!(OwnerLock::owner(&StdFs, &path).expect("a look").as_deref(), Some("chat of pid 7"), "the mark stays");

    let repo = Repo::new(std_fs(), Arc::new(SystemClock), Arc::new(RandomIds), folder.path().to_owned(), Layout::Flat);
    let before = std::fs::read(&path).expect("the file");
    assert!(matches!(repo.delete(&path), Err(StorageError::Busy { .. })));
    assert!(matches!(repo.relocate(&path, "/q"), Err(StorageError::Busy { .. })));
    assert_eq!(std::fs::read(&path).expect("the file"), before);
    open(&path).append(vec![message("a", 1)], Durability::Synced).expect("appends go on");

    drop(lock);
    assert!(!lock_path(&path).exists(), "the mark goes with its owner");
    assert_eq!(OwnerLock::owner(&StdFs, &path).expect("a look"), None);
    drop(OwnerLock::take(&std_fs(), &path, "again").expect("a free lock"));
    repo.delete(&path).expect("nobody holds it");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[test]
fn the_lock_of_a_killed_owner_is_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    create(&path);
    let (mut child, mut lines) = spawn(child_of("own", &path));
    next_line(&mut lines, "ack").expect("the child has the lock");
    assert_eq!(OwnerLock::owner(&StdFs, &path).expect("a look").as_deref(), Some("the child"));
    assert!(matches!(OwnerLock::take(&std_fs(), &path, "me"), Err(StorageError::Busy { .. })));
    child.kill().expect("a running child");
    child.wait().expect("a child");
    assert_eq!(std::fs::read_to_string(lock_path(&path)).expect("the file stays"), "the child");
    assert_eq!(OwnerLock::owner(&StdFs, &path).expect("a look"), None, "a dead owner is none");
    let _lock = OwnerLock::take(&std_fs(), &path, "me").expect("a free lock");
    assert_eq!(OwnerLock::owner(&StdFs, &path).expect("a look").as_deref(), Some("me"));
}

#[test]
fn a_look_is_not_mistaken_for_an_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    // The mark of an owner that died, which everybody locks.
    std::fs::write(lock_path(&path), "dead").expect("a file");
    let look = StdFs.open(&lock_path(&path), OpenFor::Read).expect("a file");
    assert!(look.try_lock_shared().expect("locks"), "somebody looks");
    assert_eq!(OwnerLock::owner(&StdFs, &path).expect("a look"), None, "who looks is no owner");
    let (taken, waits) = std::thread::scope(|scope| {
        let taker = scope.spawn(|| OwnerLock::take(&std_fs(), &path, "me"));
        // The look ends when somebody waits for it, or gave up.
        let mut waits = 0;
        while !taker.is_finished() && waits < 100 {
            std::thread::yield_now();
            waits += 1;
        }
        drop(look);
        (taker.join().expect("no panic"), waits)
    });
    assert!(taken.is_ok(), "{taken:?} after {waits} looks");
    assert_eq!(OwnerLock::owner(&StdFs, &path).expect("a look").as_deref(), Some("me"));
}

#[test]
fn of_many_who_want_a_session_at_once_one_gets_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    let owners = std::sync::atomic::AtomicUsize::new(0);
    let taken = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    if let Ok(lock) = OwnerLock::take(&std_fs(), &path, "x") {
                        assert_eq!(owners.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "two owners");
                        taken.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        owners.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(lock);
                    }
                }
            });
        }
    });
    assert!(taken.into_inner() > 0);
}
