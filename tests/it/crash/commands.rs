//! Deaths and errors at each call of whole commands.
//!
//! What a command acknowledged is what it left in files when it ended with exit code 0.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pi_sessions::cli::surroundings::{Input, Output, Surroundings};
use pi_sessions::storage::fs::Fs;
use pi_sessions::storage::trash::{Trash, TrashedFile};
use pi_sessions::storage::{IdSource, StorageError};

use super::{FILE, Lines, PowerCut, ROOT, TORN, V1, V3, World, sessions, sweep};
use crate::support::fixed::{CountedIds, SteppingClock};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A system without a trash.
struct NoTrash;

impl Trash for NoTrash {
    fn put(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn items(&self) -> io::Result<Vec<TrashedFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn take(&self, _: &TrashedFile, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Runs a command in the world; the exit code, and what was said.
fn run(world: &World, words: &[&str], input: &str) -> (u8, String) {
    run_with(world, words, input, 0)
}

/// As [`run`], after `used` sessions were given ids.
fn run_with(world: &World, words: &[&str], input: &str, used: usize) -> (u8, String) {
    let fs: Arc<dyn Fs> = Arc::new(world.fs.clone());
    let said = Buffer::default();
    let ids = CountedIds::default();
    (0..used).for_each(|_| drop(ids.session_id()));
    let surroundings = Surroundings {
        env: BTreeMap::from([("PI_SESSIONS_ROOT".into(), ROOT.into())]),
        cwd: "/p".into(),
        home: Some("/home".into()),
        config_dir: None,
        data_dir: None,
        cache_dir: None,
        temp_dir: "/temp".into(),
        fs,
        clock: Arc::new(SteppingClock::default()),
        ids: Arc::new(ids),
        stdin: Input { reader: Box::new(io::Cursor::new(input.to_owned().into_bytes())), is_terminal: false, is_process: false },
        stdout: Output { writer: Box::new(said.clone()), columns: None },
        stderr: Output { writer: Box::new(said.clone()), columns: None },
        trash: Arc::new(NoTrash),
        wait: Arc::new(|_| false),
        process: "pid 7 on here".to_owned(),
    };
    let words = std::iter::once("pi-sessions").chain(words.iter().copied()).map(str::to_owned);
    let code = pi_sessions::cli::run(words, surroundings);
    let said = String::from_utf8_lossy(&said.0.lock().expect("no panic")).into_owned();
    let is_gone = world.fs.get(Path::new(FILE)).is_none();
    assert!(code < 2 || code == 2 && is_gone, "exit code {code}: {said}");
    (code, said)
}

/// What stands in the files of the world now, as far as the process saw it.
fn standing(world: &World) -> Lines {
    let now = World::new(world.fs.after_crash(PowerCut::KeepsAll));
    let mut lines = Lines::new();
    for (_, found) in sessions(&now).into_values().flatten() {
        for (id, held) in found {
            lines.entry(id).or_default().extend(held);
        }
    }
    lines
}

/// The words of a command, and its standard input.
type Line<'a> = (&'a [&'a str], &'a str);

fn sweep_command(bytes: &str, line: Line<'_>) {
    let (words, input) = line;
    sweep(&|| World::with(bytes), &|world| {
        let before = standing(world);
        if words[0] == "delete" {
            world.deleted.push("s1".to_owned());
        }
        let (mut code, mut said) = run(world, words, input);
        if code != 0 && world.retries && !world.fs.is_dead() {
            let names = world.fs.names().into_iter().filter(|path| path.starts_with("/p"));
            for path in names {
                assert_whole(&path, &world.fs.get(&path).expect("a file"), words);
            }
            world.fs.heal();
            (code, said) = run_with(world, words, input, 9);
            // The first time may have got to the end, but for its word.
            let is_done = world.fs.get(Path::new(FILE)).is_none() || said.contains("there is nothing to compact");
            assert!(code == 0 || is_done, "{words:?} again: {said}");
        }
        if code != 0 {
            return Err(StorageError::NotFound(said.into()).into());
        }
        if words[0] == "delete" {
            world.acknowledged.clear();
        }
        let after = standing(world);
        if words[0] != "delete" {
            assert!(before.keys().all(|id| after.contains_key(id)), "{words:?}");
        }
        for (id, lines) in after {
            world.acknowledged.insert(id, lines);
        }
        Ok(())
    });
}

/// A file that a command writes for its user is there whole or not at all.
fn assert_whole(path: &Path, bytes: &[u8], words: &[&str]) {
    let is_temporary = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let text = String::from_utf8_lossy(bytes);
    let is_whole = match path.extension().and_then(|end| end.to_str()) {
        Some("json") => serde_json::from_str::<serde_json::Value>(&text).is_ok(),
        Some("md") => text.contains("</modified-files>") || text.contains("## Critical Context"),
        _ => text.ends_with('\n'),
    };
    assert!(is_temporary || is_whole, "{words:?} left {}: {text}", path.display());
}

fn long() -> String {
    V3.replace("[one]", &format!("[{}]", "one two three ".repeat(400)))
}

#[test]
fn commands_that_append_survive_every_fault() {
    let message = r#"{"role":"user","content":"[first]"}"#.to_owned() + "\n" + r#"{"role":"user","content":"[second]"}"#;
    let lines: [Line<'_>; 6] = [
        (&["append", FILE], &message),
        (&["name", FILE, "[a name]"], ""),
        (&["label", FILE, "aaaaaaa2", "[x]"], ""),
        (&["model", FILE, "mock/[m]"], ""),
        (&["goto", FILE, "aaaaaaa2"], ""),
        (&["goto", FILE, "aaaaaaa1", "--summary", "[left]"], ""),
    ];
    for line in lines {
        sweep_command(V3, line);
    }
    sweep_command(&format!("{V3}{TORN}"), lines[0]);
    sweep_command(V1, lines[0]);
}

#[test]
fn commands_that_make_a_session_survive_every_fault() {
    sweep_command(V3, (&["new", "--name", "[n]", "--cwd", "/p"], ""));
    sweep_command(V3, (&["fork", FILE, "--name", "[n]"], ""));
    sweep_command(V3, (&["fork", FILE, "--all"], ""));
}

#[test]
fn commands_that_move_and_delete_survive_every_fault() {
    sweep_command(V3, (&["move", FILE, "--cwd", "/q"], ""));
    sweep_command(V3, (&["delete", FILE, "--permanent", "--yes"], ""));
}

#[test]
fn compact_survives_every_fault() {
    sweep_command(&long(), (&["compact", FILE, "--offline", "--keep", "0", "--out", "/p/out"], ""));
}

/// Files for the user, by name, in an image.
fn outputs(world: &World) -> Vec<PathBuf> {
    world.fs.names().into_iter().filter(|path| path.starts_with("/p")).collect()
}

#[test]
fn the_files_of_compact_are_whole_in_every_image() {
    let mut images = 0;
    for at in 1.. {
        let world = World::with(&long());
        world.fs.fail_at(at, crate::support::fault_fs::Fault::Death);
        run(&world, &["compact", FILE, "--offline", "--keep", "0", "--dry-run", "--out", "/p/out"], "");
        for cut in PowerCut::all() {
            let after = World::new(world.fs.after_crash(cut));
            for path in outputs(&after) {
                assert_whole(&path, &after.fs.get(&path).expect("a file"), &["compact"]);
                images += 1;
            }
        }
        if !world.fs.is_dead() {
            break;
        }
    }
    assert!(images > 50, "{images}");
}

#[test]
fn an_import_leaves_all_of_a_session_or_nothing_at_every_death() {
    let make = || {
        let world = World::with(V3);
        world.fs.put(Path::new("/in/a.jsonl"), include_bytes!("../../../fixtures/import/claude-tools/input.jsonl"));
        world
    };
    let import = |world: &World| run(world, &["import", "/in"], "");
    let imported = |world: &World| {
        let names = world.fs.names().into_iter().filter(|path| path.starts_with(ROOT) && path != Path::new(FILE));
        let is_listed = |path: &PathBuf| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'));
        let files = names.filter(|path| is_listed(path) && path.extension().is_some_and(|end| end == "jsonl"));
        files.map(|path| world.fs.get(&path).expect("a file").split(|byte| *byte == b'\n').count()).collect::<Vec<_>>()
    };
    let world = make();
    assert_eq!(import(&world).0, 0);
    let whole = imported(&world);
    assert!(whole.len() == 1 && whole[0] > 3, "{whole:?}");
    let (mut images, mut absent) = (0, 0);
    for at in 1.. {
        let world = make();
        world.fs.fail_at(at, crate::support::fault_fs::Fault::Death);
        import(&world);
        for cut in PowerCut::all() {
            let after = World::new(world.fs.after_crash(cut));
            let found = imported(&after);
            assert!(found.is_empty() || found == whole, "death at call {at}, {cut:?}: {found:?}");
            absent += usize::from(found.is_empty());
            images += 1;
            let (code, said) = import(&after);
            assert_eq!((code, imported(&after)), (0, whole.clone()), "death at call {at}, {cut:?}: {said}");
        }
        if !world.fs.is_dead() {
            break;
        }
    }
    assert!(images > 50 && absent > 10 && absent < images, "{images} {absent}");
}
