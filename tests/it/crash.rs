//! Whatever step a write dies or fails at, what was acknowledged is there afterwards, and nothing by half.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pi_sessions::session::entry::{EntryKind, MessageEntry};
use pi_sessions::session::json::Json;
use pi_sessions::session::message::Message;
use pi_sessions::session::tree::EntryIndex;
use pi_sessions::storage::fork::{ForkOptions, ForkWhat};
use pi_sessions::storage::fs::Fs;
use pi_sessions::storage::handle::Session;
use pi_sessions::storage::jsonl::{JsonlStorage, write_unsaved, write_unsaved_in};
use pi_sessions::storage::repo::{Layout, NewSession, Repo};
use pi_sessions::storage::{Durability, SessionRead, StorageError};

use crate::support::fault_fs::{Fault, FaultFs, PowerCut};
use crate::support::fixed::{CountedIds, SteppingClock};
use crate::support::told;

const ROOT: &str = "/root";
const FILE: &str = "/root/--p--/2026-01-01T00-00-00-000Z_s1.jsonl";

const V3: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}
{"type":"message","id":"aaaaaaa1","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"[one]","timestamp":1}}
{"type":"message","id":"aaaaaaa2","parentId":"aaaaaaa1","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"assistant","content":[{"type":"text","text":"[two]"}],"timestamp":2}}
{"type":"message","id":"aaaaaaa3","parentId":"aaaaaaa2","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"[three]","timestamp":3}}
{"type":"label","id":"aaaaaaa4","parentId":"aaaaaaa3","timestamp":"2026-01-01T00:00:00.000Z","targetId":"aaaaaaa1","label":"[l]"}
"#;
const V2: &str = r#"{"type":"session","version":2,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}
{"type":"message","id":"aaaaaaa1","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"[one]","timestamp":1}}
{"type":"message","id":"aaaaaaa2","parentId":"aaaaaaa1","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"hookMessage","customType":"h","content":"[two]","display":true,"timestamp":2}}
"#;
const V1: &str = r#"{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p","provider":"p"}
{"type":"message","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"[one]","timestamp":1}}
{"type":"message","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"assistant","content":[{"type":"text","text":"[two]"}],"timestamp":2}}
"#;
const TORN: &str = r#"{"type":"message","id":"aaaaaaa9","parentId":"aaaa"#;

mod commands;
mod rewrites;

/// The lines of sessions by session id and entry id.
type Lines = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// A root in memory, what it must hold, and what it need not hold any more.
struct World {
    fs: FaultFs,
    repo: Repo,
    /// What was acknowledged, and what was there before.
    acknowledged: Lines,
    /// What a line may read instead, as a repair that may have been made writes it.
    mended: Lines,
    /// Sessions whose deletion was asked for.
    deleted: Vec<String>,
    /// Whether writes are tried again in the same handle after an error.
    retries: bool,
}

impl World {
    fn new(fs: FaultFs) -> Self {
        Self { repo: repo(&fs), fs, acknowledged: Lines::new(), mended: Lines::new(), deleted: Vec::new(), retries: false }
    }

    /// With a session file that is safe.
    fn with(bytes: &str) -> Self {
        let mut world = Self::new(FaultFs::default());
        world.fs.put(Path::new(FILE), bytes.as_bytes());
        let session = world.repo.open(Path::new(FILE)).expect("the session of the test");
        world.acknowledge(&session, session.tree().iter_all());
        world
    }

    fn acknowledge(&mut self, session: &Session, entries: impl IntoIterator<Item = EntryIndex>) {
        let lines = self.acknowledged.entry(session.header().id.clone()).or_default();
        for index in entries {
            if let Ok(line) = session.read().line(index) {
                lines.insert(session.tree().id(index).to_string(), line);
            }
        }
    }

    fn open(&self) -> Result<Session, StorageError> {
        self.repo.open(Path::new(FILE))
    }

    /// Appends messages and acknowledges them.
    fn append(&mut self, session: &mut Session, texts: &[&str]) -> Result<(), StorageError> {
        let kinds: Vec<_> = texts.iter().map(|text| user(text)).collect();
        let mut result = session.append(kinds.clone(), Durability::Synced);
        if let Err(error) = &result
            && self.retries
            && !self.fs.is_dead()
        {
            self.fs.heal();
            self.check_unwritten(session, texts, error);
            if matches!(error, StorageError::SyncFailed { .. }) {
                let error = session.append(kinds, Durability::Synced).expect_err("after a failed sync nothing is written");
                assert!(matches!(error, StorageError::Poisoned(_)), "{error:?}");
                return Err(error);
            }
            result = session.append(kinds, Durability::Synced);
            assert!(result.is_ok(), "the second time there is no fault: {result:?}");
        }
        let made = result?;
        let indices: Vec<_> = made.iter().filter_map(|id| session.tree().find(id.as_str())).collect();
        assert_eq!(indices.len(), texts.len());
        assert!(session.leaf() >= indices.last().copied(), "the leaf is ours, or what came behind it");
        self.acknowledge(session, indices);
        Ok(())
    }

    /// An append that failed left nothing in memory, and nothing on disk but when a sync failed.
    fn check_unwritten(&self, session: &Session, texts: &[&str], error: &StorageError) {
        let holds = |bytes: &[u8]| texts.iter().any(|text| memchr_find(bytes, text));
        let in_memory = session.tree().iter_all().filter_map(|index| session.read().line(index).ok());
        assert!(!in_memory.into_iter().any(|line| holds(&line)), "an unwritten entry is in the tree after {error:?}");
        // On a disk that cannot be changed any more nothing is taken back: whole lines of a batch may stay.
        let is_read_only = |source: &std::io::Error| source.kind() == std::io::ErrorKind::ReadOnlyFilesystem;
        let stays = matches!(error, StorageError::WriteFailed { source, .. } if is_read_only(source));
        if let Some(path) = session.read().path()
            && !matches!(error, StorageError::SyncFailed { .. })
            && !stays
        {
            assert!(!self.fs.get(path).is_some_and(|bytes| holds(&bytes)), "an unwritten entry is on disk after {error:?}");
        }
    }
}

fn memchr_find(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn repo(fs: &FaultFs) -> Repo {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    Repo::new(fs, Arc::new(SteppingClock::default()), Arc::new(CountedIds::default()), ROOT.into(), Layout::Nested)
}

fn user(text: &str) -> EntryKind {
    let message = Json::of(&serde_json::json!({"role": "user", "content": text, "timestamp": 5})).expect("JSON");
    EntryKind::Message(MessageEntry { message: Message::from_json(message), extra: Default::default() })
}

/// All session files of a world, by session id.
fn sessions(world: &World) -> BTreeMap<String, Vec<(PathBuf, Lines)>> {
    let fs: Arc<dyn Fs> = Arc::new(world.fs.clone());
    let mut sessions: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for file in world.repo.files().expect("the root can be read") {
        let storage = JsonlStorage::open(fs.clone(), &file.path).expect("a file under its own name is a session");
        let mut lines = BTreeMap::new();
        for index in storage.tree().iter_all() {
            let line = storage.line(index).expect("a line");
            let text = String::from_utf8(line.clone()).expect("UTF-8");
            let value: serde_json::Value = serde_json::from_str(&text).expect("an entry is whole");
            assert!(value["type"] != "message" || text.contains(']'), "{text}");
            lines.insert(storage.tree().id(index).to_string(), line);
        }
        let id = storage.header().id.clone();
        sessions.entry(id.clone()).or_default().push((file.path, BTreeMap::from([(id, lines)])));
    }
    sessions
}

/// All that was acknowledged is there, and another entry can be appended to it.
fn check(world: &mut World, what: &str) {
    let found = sessions(world);
    let is_line = |id: &str, entry: &str, held: Option<&Vec<u8>>, line: &Vec<u8>| {
        held == Some(line) || held.is_some() && held == world.mended.get(id).and_then(|lines| lines.get(entry))
    };
    for (id, lines) in &world.acknowledged {
        let files = found.get(id).map_or(&[][..], Vec::as_slice);
        if world.deleted.contains(id) && files.is_empty() {
            continue;
        }
        let holds_all =
            |(_, held): &(PathBuf, Lines)| lines.iter().all(|(entry, line)| is_line(id, entry, held[id].get(entry), line));
        assert!(files.iter().any(holds_all), "{what}: of {id} not all is there that was acknowledged: {files:?}");
    }
    for file in found.values().flatten() {
        let mut session = world.repo.open(&file.0).expect(what);
        let before = session.tree().len();
        session.append(vec![user("[after]")], Durability::Synced).expect(what);
        let again = world.repo.open(&file.0).expect(what);
        assert_eq!(again.tree().len(), before + 1, "{what}: an append after it");
    }
    let after = sessions(world);
    for (id, lines) in world.acknowledged.iter().filter(|(id, _)| found.contains_key(*id)) {
        let holds_all =
            |(_, held): &(PathBuf, Lines)| lines.iter().all(|(entry, line)| is_line(id, entry, held[id].get(entry), line));
        assert!(after[id].iter().any(holds_all), "{what}: of {id} not all is there after another append");
    }
    world.repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect(what);
    let is_temporary = |path: &&PathBuf| path.parent() == Path::new(FILE).parent() && path.to_string_lossy().ends_with(".tmp");
    let names = world.fs.names();
    assert_eq!(names.iter().find(is_temporary), None, "{what}: temporary files are cleaned up");
}

/// What a sweep tries, which may fail in any way.
type Work<'a> = dyn Fn(&mut World) -> Result<(), Box<dyn std::error::Error>> + 'a;

/// Runs `work` with a death and with each error at each of its calls.
fn sweep(make: &dyn Fn() -> World, work: &Work<'_>) {
    let mut world = make();
    let before = world.fs.calls();
    work(&mut world).expect("it goes well without a fault");
    let calls = world.fs.calls() - before;
    assert!(calls > 3, "{calls} calls");
    check(&mut world, "without a fault");
    // What is the same in every byte is looked at once.
    let mut seen = HashSet::new();
    let mut is_new = |world: &World| {
        let state = (world.fs.snapshot(), world.acknowledged.clone(), world.deleted.clone());
        seen.insert(state)
    };
    for at in 1..=calls {
        let mut world = make();
        world.fs.fail_at(at, Fault::Death);
        let _ = work(&mut world);
        assert!(world.fs.is_dead(), "call {at} of {calls}");
        for cut in PowerCut::all() {
            let mut after = World::new(world.fs.after_crash(cut));
            after.acknowledged.clone_from(&world.acknowledged);
            after.mended.clone_from(&world.mended);
            after.deleted.clone_from(&world.deleted);
            if is_new(&after) {
                check(&mut after, &format!("death at call {at} of {calls}, {cut:?}"));
            }
        }
        for fault in Fault::errors() {
            let mut world = make();
            world.retries = true;
            world.fs.fail_at(at, fault.clone());
            let result = work(&mut world);
            world.fs.heal();
            if is_new(&world) {
                check(&mut world, &format!("{fault:?} at call {at} of {calls}, {result:?}"));
            }
        }
    }
    let (images, errors) = (calls * PowerCut::all().count(), calls * Fault::errors().len());
    told(&format!("{calls} deaths, {images} images, {errors} errors, {} of them different", seen.len()));
}

#[test]
fn create_survives_every_fault() {
    sweep(&|| World::new(FaultFs::default()), &|world| {
        let mut session = world.repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() })?;
        world.acknowledge(&session, []);
        Ok(world.append(&mut session, &["[first]"])?)
    });
}

#[test]
fn appends_survive_every_fault() {
    sweep(&|| World::with(V3), &|world| {
        let mut session = world.open()?;
        world.append(&mut session, &["[a]"])?;
        world.append(&mut session, &["[b]"])?;
        Ok(world.append(&mut session, &["[c]", "[d]", "[e]"])?)
    });
}

#[test]
fn appends_after_a_torn_tail_survive_every_fault() {
    for tail in [TORN, &V3[..V3.len() - 1], "{}", " ", "\0\0\0"] {
        let bytes = if tail.len() > 100 { tail.to_owned() } else { format!("{V3}{tail}") };
        sweep(&|| World::with(&bytes), &|world| {
            let mut session = world.open()?;
            world.append(&mut session, &["[a]", "[b]"])?;
            let bytes = world.fs.get(Path::new(FILE)).unwrap_or_default();
            assert!(world.fs.is_dead() || memchr_find(&bytes, &format!("{tail}\n")), "what was there stays, and ends its line");
            Ok(world.append(&mut session, &["[c]"])?)
        });
    }
}

#[test]
fn upgrades_survive_every_fault() {
    for old in [V1, V2] {
        sweep(&|| World::with(old), &|world| {
            let mut session = world.open()?;
            world.append(&mut session, &["[a]"])?;
            Ok(world.append(&mut session, &["[b]", "[c]"])?)
        });
    }
}

#[test]
fn an_upgrade_keeps_the_old_bytes_whatever_happens() {
    for old in [V1, V2] {
        for at in 1.. {
            let world = World::with(old);
            world.fs.fail_at(at, Fault::Death);
            let _ = world.open().and_then(|mut session| session.append(vec![user("[a]")], Durability::Synced));
            for cut in PowerCut::all() {
                let after = world.fs.after_crash(cut);
                let names = after.names();
                let is_there = names.iter().any(|name| after.get(name).is_some_and(|bytes| bytes == old.as_bytes()));
                assert!(is_there, "call {at}, {cut:?}: {names:?}");
            }
            if !world.fs.is_dead() {
                break;
            }
        }
    }
}

#[test]
fn forks_survive_every_fault() {
    let whats: [fn(&Session) -> ForkWhat; 4] = [
        |session| ForkWhat::Path(session.leaf()),
        |session| ForkWhat::Before(session.tree().find("aaaaaaa3").expect("the entry")),
        |_| ForkWhat::Path(None),
        |_| ForkWhat::All,
    ];
    for what in whats {
        sweep(&|| World::with(V3), &|world| {
            let source = world.open()?;
            let mut fork = world.repo.fork(&source, &ForkOptions { what: what(&source), cwd: None })?;
            let copied: Vec<_> = fork.session.tree().iter_all().collect();
            world.acknowledge(&fork.session, copied);
            world.append(&mut fork.session, &["[a]"])?;
            assert_eq!(world.fs.get(Path::new(FILE)).expect("the source"), V3.as_bytes(), "the source is untouched");
            Ok(())
        });
    }
}

#[test]
fn moves_survive_every_fault() {
    for (bytes, cwd) in [(V3, "/q"), (V3, "/p"), (V1, "/q"), (V2, "/p")] {
        sweep(&|| World::with(bytes), &|world| {
            let moved = world.repo.relocate(Path::new(FILE), cwd)?;
            let mut session = world.repo.open(&moved.path)?;
            assert_eq!(session.header().cwd, cwd);
            assert!(session.read().damage().is_empty(), "{:?}", session.read().damage());
            Ok(world.append(&mut session, &["[a]"])?)
        });
    }
}

#[test]
fn without_hard_links_the_backup_is_a_copy() {
    for (bytes, cwd) in [(V3, "/q"), (V3, "/p"), (V1, "/q"), (V2, "/p")] {
        let world = || {
            let world = World::with(bytes);
            world.fs.refuse_links();
            world
        };
        sweep(&world, &|world| {
            let moved = world.repo.relocate(Path::new(FILE), cwd)?;
            assert_eq!(world.fs.get(&moved.backup).as_deref(), Some(bytes.as_bytes()));
            let mut session = world.repo.open(&moved.path)?;
            assert_eq!(session.header().cwd, cwd);
            Ok(world.append(&mut session, &["[a]"])?)
        });
    }
    for bytes in [V1, V2] {
        let mut world = World::with(bytes);
        world.fs.refuse_links();
        let mut session = world.open().expect("a session");
        world.append(&mut session, &["[a]"]).expect("an upgrade");
        assert_eq!(world.fs.get(Path::new(&format!("{FILE}.bak"))).as_deref(), Some(bytes.as_bytes()));
    }
}

#[test]
fn deletes_survive_every_fault() {
    sweep(&|| World::with(V3), &|world| {
        world.deleted.push("s1".to_owned());
        let removed = world.repo.delete(Path::new(FILE))?;
        assert_eq!(removed, [PathBuf::from(FILE)]);
        world.acknowledged.clear();
        assert!(sessions_named(world, "s1").is_empty());
        Ok(())
    });
}

fn sessions_named(world: &World, id: &str) -> Vec<PathBuf> {
    let files = world.repo.files().unwrap_or_default();
    let is_named = |path: &PathBuf| path.to_string_lossy().contains(&format!("_{id}."));
    files.into_iter().map(|file| file.path).filter(is_named).collect()
}

#[test]
fn a_removed_session_is_written_again_at_every_fault() {
    for bytes in [V3, V1] {
        sweep(&|| World::with(bytes), &|world| {
            let mut session = world.open()?;
            world.append(&mut session, &["[a]"])?;
            let acknowledged = world.acknowledged.clone();
            world.fs.take(Path::new(FILE));
            // What its owner threw away is not owed, until it is written again.
            world.acknowledged.clear();
            world.append(&mut session, &["[b]"])?;
            for (id, lines) in acknowledged {
                world.acknowledged.entry(id).or_default().extend(lines);
            }
            Ok(world.append(&mut session, &["[c]"])?)
        });
    }
}

#[test]
fn what_a_program_without_a_lock_appends_at_any_moment_stays() {
    let theirs = r#"{"type":"message","id":"bbbbbbb1","parentId":"aaaaaaa3","timestamp":"t","message":{"role":"user","content":"[theirs]"}}"#;
    for bytes in [V3.to_owned(), format!("{V3}{TORN}")] {
        for at in 1.. {
            let mut world = World::with(&bytes);
            world.fs.fail_at(at, Fault::Intruder(FILE.into(), format!("{theirs}\n").into_bytes()));
            let calls = world.fs.calls();
            let mut session = world.open().expect("a session");
            world.append(&mut session, &["[a]", "[b]"]).expect("no fault");
            world.append(&mut session, &["[c]"]).expect("no fault");
            if world.fs.calls() - calls < at {
                break;
            }
            // Theirs came behind the fragment without a newline of its own, so it is fused there; else it is a line.
            world.acknowledged.get_mut("s1").expect("the session").insert("bbbbbbb1".to_owned(), theirs.as_bytes().to_vec());
            session.refresh().expect("it can be read");
            assert!(session.tree().find("bbbbbbb1").is_some(), "call {at}: theirs is seen");
            check(&mut world, &format!("an intruder at call {at}"));
        }
    }
}

#[test]
fn a_part_of_a_write_with_something_behind_it_is_closed_and_never_cut() {
    let theirs = r#"{"type":"message","id":"bbbbbbb1","parentId":"aaaaaaa3","timestamp":"t","message":{"role":"user","content":"[theirs]"}}"#;
    let mut met = 0;
    for at in 1..40 {
        for gap in 1..4 {
            let mut world = World::with(V3);
            world.retries = true;
            let mut session = world.open().expect("a session");
            let calls = world.fs.calls();
            world.fs.fail_at(at, Fault::ShortWrite);
            world.fs.fail_at(at + gap, Fault::Intruder(FILE.into(), format!("\n{theirs}\n").into_bytes()));
            let result = session.append(vec![user("[a]")], Durability::Synced);
            world.fs.heal();
            met += usize::from(result.is_err());
            let bytes = world.fs.get(Path::new(FILE)).expect("the file");
            let is_there = memchr_find(&bytes, theirs);
            // Behind the write that fails it is looked at the length; who writes between that and the cut has no luck.
            assert!(is_there || gap != 2 || world.fs.calls() - calls < at + gap, "{at}: {}", String::from_utf8_lossy(&bytes));
            if matches!(result, Err(StorageError::SyncFailed { .. })) {
                session = world.open().expect("a session");
            }
            session.append(vec![user("[b]")], Durability::Synced).expect("no fault any more");
            let after = world.fs.get(Path::new(FILE)).expect("the file");
            assert!(!is_there || memchr_find(&after, theirs));
            if is_there {
                let again = world.open().expect("a session");
                assert!(again.tree().find("bbbbbbb1").is_some(), "{}", String::from_utf8_lossy(&after));
                check(&mut world, &format!("calls {at} and {gap} behind"));
            }
        }
    }
    assert!(met > 0);
}

#[test]
fn a_part_of_a_write_that_cannot_be_taken_back_is_closed() {
    let mut met = 0;
    for at in 1..40 {
        let world = World::with(V3);
        let mut session = world.open().expect("a session");
        world.fs.fail_at(at, Fault::ShortWrite);
        // The next write, the look at the length, and the cut.
        world.fs.fail_at(at + 3, Fault::Refusal);
        let result = session.append(vec![user("[a]")], Durability::Synced);
        let bytes = world.fs.get(Path::new(FILE)).expect("the file");
        if matches!(result, Err(StorageError::WriteFailed { .. })) && bytes.len() > V3.len() {
            met += 1;
            assert!(bytes.starts_with(V3.as_bytes()) && bytes.ends_with(b"\n"), "{}", String::from_utf8_lossy(&bytes));
        }
    }
    assert_eq!(met, 1);
}

#[test]
fn unsaved_entries_are_there_for_good_and_cost_no_earlier_ones() {
    let world = World::with(V3);
    let session = world.open().expect("a session");
    let entry = session.read().entry(session.leaf().expect("an entry")).expect("the file").expect("an entry");
    let path = PathBuf::from(FILE.replace(".jsonl", ".unsaved.jsonl"));
    let before = b"{\"type\":\"earlier\"}\n";
    world.fs.put(&path, before);
    for at in 1.. {
        let calls = world.fs.calls();
        world.fs.fail_at(at, Fault::NoSpace);
        let written = write_unsaved(&world.fs, Path::new(FILE), std::slice::from_ref(&entry));
        world.fs.heal();
        let bytes = world.fs.get(&path).expect("what was there stays");
        assert!(bytes.starts_with(before), "{at}: {written:?}");
        if written.is_ok() && world.fs.calls() - calls < at {
            assert_eq!(world.fs.after_crash(PowerCut::DropsAll).get(&path), Some(bytes));
            break;
        }
    }
    let (folder, mut refused) = (Path::new("/tmp"), 0);
    world.fs.put(&folder.join("somebody"), b"");
    for at in 1.. {
        let calls = world.fs.calls();
        world.fs.fail_at(at, Fault::NoSpace);
        let written = write_unsaved_in(&world.fs, folder, Path::new(FILE), std::slice::from_ref(&entry));
        world.fs.heal();
        match written {
            Ok(_) if world.fs.calls() - calls < at => break,
            Ok(path) => world.fs.take(&path),
            Err(_) => {
                refused += 1;
                assert_eq!(world.fs.names().iter().filter(|path| path.starts_with(folder)).count(), 1, "{at}");
            }
        }
    }
    assert!(refused > 1, "{refused}");
}

#[test]
fn an_upgrade_starts_over_when_the_file_grows_under_it() {
    let theirs = r#"{"type":"message","timestamp":"t","message":{"role":"user","content":"[theirs]"}}"#;
    let mut in_file = 0;
    for at in 1.. {
        let world = World::with(V1);
        let mut session = world.open().expect("a session");
        world.fs.fail_at(at, Fault::Intruder(FILE.into(), format!("{theirs}\n").into_bytes()));
        let calls = world.fs.calls();
        session.append(vec![user("[a]")], Durability::Synced).expect("no fault");
        if world.fs.calls() - calls < at {
            break;
        }
        let holds = |path: &str| world.fs.get(Path::new(path)).is_some_and(|bytes| memchr_find(&bytes, "[theirs]"));
        // Between the last look and the rename nothing helps against a program that takes no lock; then it is in the backup.
        assert!(holds(FILE) || holds(&format!("{FILE}.bak")), "call {at}: {:?}", world.fs.names());
        in_file += usize::from(holds(FILE));
    }
    assert!(in_file > 10, "{in_file}");
}
