//! A disk that is really full: of bytes, and of files.
//!
//! The disk is a small tmpfs in a mount namespace of its own. Where that cannot be had, which is told, a limit of the file
//! size stands in for it (see also `processes` and `chat_kills`).

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::told;

const DISK: &str = "PI_SESSIONS_TEST_DISK";
const LIMITED: &str = "PI_SESSIONS_TEST_LIMITED";

struct Disk {
    path: PathBuf,
    /// Whether other files of the disk take no room from the session.
    is_limited: bool,
}

impl Disk {
    fn run(&self, words: &[&str], input: &str) -> Output {
        self.run_with(words, input, &self.path)
    }

    /// As [`Disk::run`], with another folder for temporary files.
    fn run_with(&self, words: &[&str], input: &str, temporary: &Path) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pi-sessions"));
        command.env_clear().env("HOME", self.path.join("home")).env("PI_SESSIONS_ROOT", self.path.join("root"));
        command.env("TMPDIR", temporary);
        command.current_dir("/").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command");
        // It may end without reading.
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        child.wait_with_output().expect("an end")
    }

    fn done(&self, words: &[&str], input: &str) -> String {
        let output = self.run(words, input);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// A command that the disk stops says where, why and what helps.
    fn fails(&self, words: &[&str], input: &str) {
        let output = self.run(words, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        let why = if self.is_limited { "File too large" } else { "No space left on device" };
        assert!(said.contains(&*self.path.to_string_lossy()) && said.contains(why), "{words:?}: {said}");
        assert!(self.is_limited || said.contains("make room"), "{words:?}: {said}");
    }

    /// Fills what is left.
    fn fill(&self) {
        let mut file = fs::File::options().create(true).append(true).open(self.path.join("ballast")).expect("a file");
        for len in [65_536, 4_096, 512, 1] {
            while file.write_all(&vec![b'x'; len]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.path.join("ballast")).expect("a file");
    }

    /// All names below the root.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in fs::read_dir(self.path.join("root")).into_iter().flatten() {
            let items = fs::read_dir(folder.expect("an item").path()).expect("a folder");
            names.extend(items.map(|item| item.expect("an item").file_name().to_string_lossy().into_owned()));
        }
        names.sort();
        names
    }
}

fn message(text: &str) -> String {
    format!("{}\n", serde_json::json!({"role": "user", "content": text}))
}

fn texts(path: &str) -> Vec<String> {
    let text = fs::read_to_string(path).expect("text");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a whole line"));
    lines.filter_map(|entry| entry["message"]["content"].as_str().map(str::to_owned)).collect()
}

/// Runs this module's `inside` on a small disk; false where there is none to be had.
fn on_a_small_disk(test: &str, options: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!("mount -t tmpfs -o {options} tmpfs \"${DISK}\" && exec \"$0\" \"$@\"");
    for namespace in ["-m", "-Urm"] {
        let can = Command::new("unshare").args([namespace, "sh", "-c", &script, "true"]).env(DISK, folder.path()).output();
        if !can.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let mut command = Command::new("unshare");
        command.args([namespace, "sh", "-c", &script]).arg(std::env::current_exe().expect("this binary"));
        command.args(["--exact", test, "--nocapture"]).env(DISK, folder.path());
        let output = command.output().expect("a child");
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && told.contains("was inside"), "{told}");
        return true;
    }
    let _ = writeln!(std::io::stderr(), "note: {test}: no small disk can be mounted here");
    false
}

#[expect(clippy::disallowed_methods, reason = "how a child is told its task")]
fn disk() -> Option<Disk> {
    let path = PathBuf::from(std::env::var_os(DISK)?);
    told("was inside");
    Some(Disk { path, is_limited: std::env::var_os(LIMITED).is_some() })
}

#[test]
fn inside_a_full_disk() {
    let Some(disk) = disk() else { return };
    let path = disk.done(&["new", "--cwd", "/"], "");
    let path = path.trim();
    // What can be freed again.
    fs::write(disk.path.join("ballast"), vec![b'x'; 80_000]).expect("room");
    let mut acknowledged = Vec::new();
    loop {
        let text = format!("[{} {}]", acknowledged.len(), "x".repeat(12_000));
        let output = disk.run(&["append", path], &message(&text));
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains(path), "the file is named: {said}");
            break;
        }
        acknowledged.push(text);
    }
    assert!(acknowledged.len() > 3, "{}", acknowledged.len());
    assert_eq!(texts(path), acknowledged, "nothing is there by half");
    if disk.is_limited {
        return;
    }
    disk.fill();
    let before = (fs::read(path).expect("the file"), disk.names());
    let again = message(&"y".repeat(9_000));
    disk.fails(&["append", path], &again);
    disk.fails(&["new", "--cwd", "/"], "");
    disk.fails(&["fork", path], "");
    disk.fails(&["fork", path, "--all"], "");
    disk.fails(&["move", path, "--cwd", "/tmp"], "");
    let imported = disk.run(&["import", path, "--cwd", "/tmp"], "");
    assert!(!imported.status.success() && String::from_utf8_lossy(&imported.stderr).contains("No space left on device"));
    let out = disk.path.join("out.html");
    assert!(!disk.run(&["export", path, "-o", &out.to_string_lossy()], "").status.success());
    assert!(!out.exists(), "half a page is none");
    disk.done(&["list", "--all"], "");
    disk.done(&["check", path], "");
    disk.done(&["search", "nothing"], "");
    assert_eq!((fs::read(path).expect("the file"), disk.names()), before, "what failed left nothing");

    // A chat may write small entries that have room; what was said is refused.
    let prompt = "a long prompt ".repeat(1_000);
    let chat = ["chat", path, "-p", &prompt, "--cwd", "/"];
    disk.fails(&chat, "");
    let said = String::from_utf8_lossy(&disk.run(&chat, "").stderr).into_owned();
    assert!(said.contains("could not be written anywhere and are lost"), "{said}");
    assert_eq!(texts(path), acknowledged);
    assert_eq!(disk.names(), before.1, "no empty file for what was not written");

    // Where there is room for temporary files, what was said goes there, each time to a file of its own.
    let elsewhere = tempfile::tempdir().expect("a folder");
    for count in 1..=2 {
        let said = String::from_utf8_lossy(&disk.run_with(&chat, "", elsewhere.path()).stderr).into_owned();
        let files: Vec<_> = fs::read_dir(elsewhere.path()).expect("a folder").map(|item| item.expect("an item").path()).collect();
        assert_eq!(files.len(), count, "{said}");
        for file in &files {
            let held = fs::read_to_string(file).expect("text");
            assert!(held.contains(&prompt) && held.ends_with('\n'), "{held}");
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                assert_eq!(fs::metadata(file).expect("a file").permissions().mode() & 0o777, 0o600);
            }
        }
        assert!(files.iter().any(|file| said.contains(&*file.to_string_lossy())), "{said}");
        assert!(said.contains("make room"), "{said}");
    }
    assert_eq!(texts(path), acknowledged);

    // A session that has to be mended.
    disk.make_room();
    let folder = Path::new(path).parent().expect("a folder");
    let damaged = folder.join("2026-01-01T00-00-00-000Z_damaged.jsonl");
    fs::write(&damaged, &before.0[..20_000]).expect("room");
    disk.fill();
    let (held, names) = (fs::read(&damaged).expect("the file"), disk.names());
    let damaged_name = damaged.to_string_lossy().into_owned();
    disk.fails(&["repair", &damaged_name], "");
    assert!((fs::read(&damaged).expect("the file"), disk.names()) == (held, names), "{:?}", disk.names());

    disk.make_room();
    fs::remove_file(&damaged).expect("a file");
    disk.done(&["append", path], &message("[there is room]"));
    acknowledged.push("[there is room]".to_owned());
    assert_eq!(texts(path), acknowledged);
}

#[test]
fn a_full_disk_costs_nothing_that_was_acknowledged() {
    if on_a_small_disk("full_disk::inside_a_full_disk", "size=1m") {
        return;
    }
    #[cfg(unix)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().expect("this binary"));
        command.args(["--exact", "full_disk::inside_a_full_disk"]).env(DISK, folder.path()).env(LIMITED, "1");
        let output = command.output().expect("a child");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn inside_a_disk_without_inodes() {
    let Some(disk) = disk() else { return };
    let path = disk.done(&["new", "--cwd", "/"], "");
    let path = path.trim();
    disk.done(&["append", path], &message("[one]"));
    let mut files = 0;
    while fs::File::create_new(disk.path.join(format!("file-{files}"))).is_ok() {
        files += 1;
    }
    assert!(files > 3, "{files}");
    let before = (fs::read(path).expect("the file"), disk.names());
    disk.fails(&["new", "--cwd", "/"], "");
    disk.fails(&["fork", path], "");
    disk.fails(&["move", path, "--cwd", "/tmp"], "");
    disk.fails(&["chat", path, "-p", "hi", "--cwd", "/"], "");
    disk.done(&["list", "--all"], "");
    disk.done(&["search", "nothing"], "");
    assert!((fs::read(path).expect("the file"), disk.names()) == before, "what failed left nothing: {:?}", disk.names());
    // An append needs no new file.
    disk.done(&["append", path], &message("[two]"));
    assert_eq!(texts(path), ["[one]", "[two]"]);
    for file in 0..files {
        fs::remove_file(disk.path.join(format!("file-{file}"))).expect("a file");
    }
    disk.done(&["fork", path], "");
}

#[test]
fn a_disk_without_inodes_costs_nothing() {
    on_a_small_disk("full_disk::inside_a_disk_without_inodes", "size=1m,nr_inodes=30");
}

#[test]
fn inside_a_disk_that_can_only_be_read() {
    let Some(disk) = disk() else { return };
    let path = disk.done(&["new", "--cwd", "/"], "");
    let path = path.trim();
    disk.done(&["append", path], &message("[one]"));
    disk.done(&["list", "--all"], "");
    let mount = |options: &str| Command::new("mount").args(["-o", options]).arg(&disk.path).output().expect("mount").status;
    if !mount("remount,ro").success() {
        told("cannot be remounted");
        return;
    }
    let before = (fs::read(path).expect("the file"), disk.names());
    for words in
        [&["new", "--cwd", "/"][..], &["fork", path], &["move", path, "--cwd", "/tmp"], &["append", path], &["name", path, "n"]]
    {
        let output = disk.run(words, &message("[two]"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("Read-only file system") && said.contains("can only be read"), "{words:?}: {said}");
    }
    for words in [&["list", "--all"][..], &["show", path], &["context", path], &["search", "one", "--all"], &["check", path]] {
        disk.done(words, "");
    }
    assert_eq!((fs::read(path).expect("the file"), disk.names()), before);
    assert!(mount("remount,rw").success());
    disk.done(&["append", path], &message("[two]"));
    assert_eq!(texts(path), ["[one]", "[two]"]);
}

#[test]
fn a_disk_that_can_only_be_read_is_read() {
    on_a_small_disk("full_disk::inside_a_disk_that_can_only_be_read", "size=1m");
}
