//! Commands that are killed or run beside each other, as real processes: `import`, `export` and `repair`.
//!
//! # Invariants
//! - The moments of the kills are spread by what a command printed before, and by a number of spins behind that.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::support::told;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pi-sessions"));
        command.env_clear().env("HOME", self.path("home")).env("PI_SESSIONS_ROOT", self.path("root"));
        command.current_dir("/").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("the command")
    }

    /// What a command that succeeds prints, as JSON.
    fn json(&self, words: &[&str]) -> Vec<Value> {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// All names of the root.
    fn names(&self) -> Vec<String> {
        let folders = fs::read_dir(self.path("root")).into_iter().flatten();
        let items = folders.flat_map(|folder| fs::read_dir(folder.expect("an item").path()).expect("a folder"));
        items.map(|item| item.expect("an item").file_name().to_string_lossy().into_owned()).collect()
    }
}

fn spin(times: usize) {
    for _ in 0..times {
        std::hint::spin_loop();
    }
}

/// Sessions of another program to import, each with an id of its own.
fn sources(folder: &Path, count: usize) {
    fs::create_dir_all(folder).expect("a folder");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/import/claude-tools/input.jsonl");
    let text = fs::read_to_string(fixture).expect("the fixture");
    for number in 0..count {
        let text = text.replace("5d0c1a52-0f6e-4d0b-9a3e-1f2b7c8d9e01", &format!("5d0c1a52-0f6e-4d0b-9a3e-{number:012x}"));
        fs::write(folder.join(format!("{number:03}.jsonl")), text).expect("room");
    }
}

#[test]
fn an_import_that_is_killed_leaves_whole_sessions_and_the_next_one_brings_the_rest() {
    const SOURCES: usize = 12;
    const KILLS: usize = 24;
    let place = Place::new();
    let from = place.path("from");
    sources(&from, SOURCES);
    let from = from.to_string_lossy().into_owned();
    let whole = place.json(&["import", &from, "--json"]);
    assert_eq!(whole.len(), SOURCES);
    let entries = whole[0]["counts"]["entries"].as_u64().expect("a number");
    assert!(entries > 3);
    let mut kept = BTreeSet::new();
    // On a busy machine many a kill comes too late.
    for kill in 0..KILLS * 20 {
        if kill >= KILLS && kept.len() > 3 {
            break;
        }
        let place = Place::new();
        let mut child = place.command(&["import", &from, "--json"]).spawn().expect("the command");
        // From the moment on that so many sessions are there, or begun.
        while place.names().len() < kill % SOURCES && child.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        spin(kill % KILLS * 3_000);
        child.kill().expect("a child");
        child.wait().expect("an end");

        let listed = place.json(&["list", "--all", "--empty", "--json"]);
        let context = format!("kill {kill}: {:?}", place.names());
        let sessions = listed.iter().map(|session| session["path"].as_str().expect("a path").to_owned());
        let sessions: BTreeSet<_> = sessions.collect();
        assert!(sessions.iter().all(|path| path.ends_with(".jsonl") && !path.contains("/.2026")), "{context}");
        for path in &sessions {
            let text = fs::read_to_string(path).expect("text");
            assert_eq!(text.lines().count() as u64, entries + 1, "{context}: {path} is whole");
        }
        kept.insert(sessions.len());
        // Exit code 3 were damage.
        assert!(place.run(&["check"]).status.success(), "{context}");
        let again = place.json(&["import", &from, "--json"]);
        let count = |status: &str| again.iter().filter(|session| session["status"] == status).count();
        assert_eq!((count("exists"), count("imported")), (sessions.len(), SOURCES - sessions.len()), "{context}");
        assert_eq!(place.json(&["list", "--all", "--json"]).len(), SOURCES, "{context}");
        let names = place.names();
        assert!(!names.iter().any(|name| name.ends_with(".tmp")), "what the kill left is gone: {names:?}");
    }
    assert!(kept.len() > 3, "the kills were at different moments: {kept:?}");
}

/// A session of many entries, which its maker knows by heart.
fn big_session(path: &Path, lines: usize) {
    let mut text = String::from(
        "{\"type\":\"session\",\"version\":3,\"id\":\"big\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/\"}\n",
    );
    for number in 0..lines {
        let parent = number.checked_sub(1).map_or("null".to_owned(), |before| format!("\"{before:08x}\""));
        let content = format!("[{number} {}]", "word ".repeat(40));
        text.push_str(&format!(
            "{{\"type\":\"message\",\"id\":\"{number:08x}\",\"parentId\":{parent},\"timestamp\":\"2026-01-01T00:00:00.000Z\",\
             \"message\":{{\"role\":\"user\",\"content\":\"{content}\",\"timestamp\":1}}}}\n"
        ));
    }
    fs::write(path, text).expect("room");
}

#[test]
fn an_export_that_is_killed_leaves_the_old_file_or_none_or_a_whole_one() {
    let place = Place::new();
    let (session, out) = (place.path("big.jsonl"), place.path("out.html"));
    big_session(&session, 3_000);
    let words = ["export", &session.to_string_lossy(), "--all", "-o", &out.to_string_lossy()].map(str::to_owned);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    assert!(place.run(&words).status.success());
    let whole = fs::read(&out).expect("the page");
    let (mut unfinished, mut at_work) = (0, 0);
    // On a busy machine many a kill comes too late.
    for kill in 0..400 {
        if kill >= 16 && unfinished > 3 && at_work > 3 {
            break;
        }
        let old: Option<&[u8]> = if kill % 2 == 0 { None } else { Some(b"old") };
        match old {
            None => fs::remove_file(&out).unwrap_or_default(),
            Some(old) => fs::write(&out, old).expect("room"),
        }
        let mut child = place.command(&words).spawn().expect("the command");
        let temporary = || {
            let items = fs::read_dir(place.0.path()).expect("a folder").map(|item| item.expect("an item").path());
            items.filter(|path| path.to_string_lossy().ends_with(".tmp")).collect::<Vec<_>>()
        };
        // From the moment on that it writes.
        while temporary().is_empty() && child.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        spin(kill % 16 * 100_000);
        let _ = child.kill();
        child.wait().expect("an end");
        let now = fs::read(&out).ok();
        assert!(now.as_deref() == old || now.as_deref() == Some(&whole), "kill {kill}: half a page");
        unfinished += usize::from(now.as_deref() == old);
        at_work += temporary().len();
    }
    assert!(unfinished > 3 && at_work > 3, "the kills came while it wrote: {unfinished} {at_work}");
    assert!(place.run(&words).status.success());
    assert_eq!(fs::read(&out).expect("the page"), whole);
    let items = fs::read_dir(place.0.path()).expect("a folder").map(|item| item.expect("an item").file_name());
    let left: Vec<_> = items.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.contains(".tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The ids in a session file and its backups.
fn ids_around(session: &Path) -> BTreeSet<String> {
    let items = fs::read_dir(session.parent().expect("a folder")).expect("a folder").map(|item| item.expect("an item").path());
    let of_session = items.filter(|path| path.to_string_lossy().contains(".jsonl") && !path.to_string_lossy().contains("/."));
    of_session.flat_map(|path| ids_in(&path)).collect()
}

fn ids_in(path: &Path) -> Vec<String> {
    let text = String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned();
    let lines = text.lines().skip(1).filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|entry| entry["id"].as_str().map(str::to_owned)).collect()
}

fn damage(session: &Path) {
    let mut file = fs::File::options().append(true).open(session).expect("the session");
    file.write_all(b"{\"type\":\"mess\n").expect("room");
}

/// Runs `repair` again and again beside `others`, with a new torn line before each, and returns how many were made.
fn repairs_beside(place: &Place, session: &Path, is_done: &AtomicBool) -> usize {
    let mut made = 0;
    while !is_done.load(Ordering::Relaxed) || made == 0 {
        damage(session);
        let output = place.run(&["repair", "--json", &session.to_string_lossy()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => made += 1,
            code => assert!(code == Some(1) && said.contains("\"busy\""), "{said}"),
        }
    }
    made
}

#[test]
fn what_is_appended_beside_repairs_is_kept() {
    let place = Place::new();
    let session = place.path("root/big.jsonl");
    fs::create_dir_all(place.path("root")).expect("a folder");
    big_session(&session, 300);
    let name = session.to_string_lossy().into_owned();
    let is_done = AtomicBool::new(false);
    let append = |who: usize| {
        let mut acknowledged = Vec::new();
        for number in 0..40 {
            let mut child = place.command(&["append", "--json", &name]).stdin(Stdio::piped()).spawn().expect("the command");
            let line = format!("{{\"role\":\"user\",\"content\":\"[{who} {number}]\"}}\n");
            child.stdin.take().expect("a pipe").write_all(line.as_bytes()).expect("it reads");
            let output = child.wait_with_output().expect("an end");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            acknowledged.push(told["id"].as_str().expect("an id").to_owned());
        }
        acknowledged
    };
    let (acknowledged, made) = std::thread::scope(|scope| {
        let repairs = scope.spawn(|| repairs_beside(&place, &session, &is_done));
        let writers = [0, 1].map(|who| scope.spawn(move || append(who)));
        let acknowledged: Vec<_> = writers.map(|writer| writer.join().expect("no panic")).concat();
        is_done.store(true, Ordering::Relaxed);
        (acknowledged, repairs.join().expect("no panic"))
    });
    let ids: BTreeSet<_> = ids_in(&session).into_iter().collect();
    let lost: Vec<_> = acknowledged.iter().filter(|id| !ids.contains(*id)).collect();
    assert!(lost.is_empty(), "{lost:?}, in backups: {}", lost.iter().filter(|id| ids_around(&session).contains(**id)).count());
    assert_eq!(ids.len(), 300 + acknowledged.len());
    place.run(&["repair", &name]);
    assert!(place.run(&["check", &name]).status.success());
    told(&format!("{made} repairs beside {} appends", acknowledged.len()));
}

#[test]
fn of_repairs_at_once_one_is_made_and_the_others_say_so() {
    let place = Place::new();
    let session = place.path("root/big.jsonl");
    fs::create_dir_all(place.path("root")).expect("a folder");
    let name = session.to_string_lossy().into_owned();
    for _ in 0..5 {
        big_session(&session, 400);
        damage(&session);
        let before = fs::read(&session).expect("the session");
        let children: Vec<_> =
            (0..4).map(|_| place.command(&["repair", "--json", &name]).spawn().expect("the command")).collect();
        let outputs: Vec<_> = children.into_iter().map(|child| child.wait_with_output().expect("an end")).collect();
        let mut backups = Vec::new();
        for output in outputs {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => {
                    let last = String::from_utf8_lossy(&output.stdout).lines().last().map(str::to_owned).expect("a line");
                    let done: Value = serde_json::from_str(&last).expect("JSON");
                    backups.extend(done["backup"].as_str().map(PathBuf::from));
                }
                code => assert!(code == Some(1) && said.contains("\"busy\""), "{said}"),
            }
        }
        let [backup] = &backups[..] else { panic!("one of them mends it: {backups:?}") };
        assert!(fs::read(backup).expect("the backup") == before);
        assert_eq!(ids_in(&session).len(), 400);
        assert!(place.run(&["check", &name]).status.success());
    }
}

#[test]
fn a_repair_that_is_killed_leaves_the_old_file_or_the_mended_one() {
    let place = Place::new();
    let session = place.path("root/big.jsonl");
    fs::create_dir_all(place.path("root")).expect("a folder");
    let name = session.to_string_lossy().into_owned();
    let mut ends = [0, 0];
    for kill in 0..12 {
        big_session(&session, 1_000);
        damage(&session);
        let before = fs::read(&session).expect("the session");
        let mut child = place.command(&["repair", &name]).spawn().expect("the command");
        // Half of the kills come when it writes.
        let is_temporary = |name: &String| name.ends_with(".tmp");
        let names = || fs::read_dir(place.path("root")).expect("a folder").map(|item| item.expect("an item").file_name());
        while kill % 2 == 0
            && !names().any(|name| is_temporary(&name.to_string_lossy().into_owned()))
            && child.try_wait().expect("a child").is_none()
        {
            std::thread::yield_now();
        }
        spin(kill * 20_000);
        child.kill().expect("a child");
        child.wait().expect("an end");
        let mut stdout = Vec::new();
        child.stdout.take().expect("a pipe").read_to_end(&mut stdout).expect("the rest");
        let now = fs::read(&session).expect("the session");
        let is_mended = now != before;
        ends[usize::from(is_mended)] += 1;
        assert!(!is_mended || now[..] == before[..now.len()] && now.len() + 14 == before.len(), "kill {kill}: half a file");
        assert_eq!(place.json(&["list", "--all", "--json"]).len(), 1, "kill {kill}");
        let again = place.run(&["repair", &name]);
        assert!(again.status.success(), "kill {kill}: nobody holds it: {}", String::from_utf8_lossy(&again.stderr));
        assert!(place.run(&["check", &name]).status.success());
    }
    told(&format!("old and mended after a kill: {ends:?}"));
}
