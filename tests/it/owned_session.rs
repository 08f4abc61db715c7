//! A chat that is at its prompt owns its session: what others may do meanwhile, what they may not, and what its death
//! leaves.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;

use crate::support::cli::TestEnv;

fn command(env: &TestEnv) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pi-sessions"));
    command.env_clear().env("HOME", env.home()).env("PI_SESSIONS_ROOT", env.root()).env("PATH", "/usr/bin:/bin");
    command.current_dir(env.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A chat that is typed into.
struct Chat {
    child: Child,
    path: PathBuf,
    /// The other end of its terminal.
    typed: fs::File,
    notes: BufReader<ChildStderr>,
}

impl Chat {
    /// Starts one and waits until it has the session.
    fn start(env: &TestEnv, path: &Path) -> Self {
        let terminal = nix::pty::openpty(None, None).expect("a terminal");
        let mut command = command(env);
        command.env("TERM", "dumb").arg("chat").arg(path).stdin(terminal.slave).stdout(Stdio::null());
        let mut child = command.spawn().expect("the command");
        let notes = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut chat = Self { child, path: path.to_owned(), typed: fs::File::from(terminal.master), notes };
        let mut line = String::new();
        while !line.starts_with("note: going on with") {
            line.clear();
            assert!(chat.notes.read_line(&mut line).expect("text") > 0, "it ended");
        }
        chat
    }

    /// Says something and waits until the answer is on disk.
    fn say(&mut self, text: &str) {
        writeln!(self.typed, "{text}").expect("it reads");
        let is_answer =
            |entry: &Value| entry["message"]["role"] == "assistant" && entry["message"]["content"].to_string().contains(text);
        while !entries(&self.path).iter().any(is_answer) {
            assert!(self.child.try_wait().expect("a child").is_none(), "it ended");
            std::thread::yield_now();
        }
    }

    /// Leaves it.
    fn end(mut self) {
        writeln!(self.typed, "/quit").expect("it reads");
        let notes: Vec<_> = self.notes.lines().map_while(Result::ok).collect();
        assert!(self.child.wait().expect("an end").success(), "{notes:?}");
    }
}

fn run(env: &TestEnv, words: &[&str]) -> Output {
    command(env).args(words).output().expect("the command")
}

fn done(env: &TestEnv, words: &[&str]) -> String {
    let output = run(env, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn append(env: &TestEnv, path: &str, text: &str) -> String {
    let mut child = command(env).args(["append", "--json", path]).stdin(Stdio::piped()).spawn().expect("the command");
    let line = serde_json::json!({"role": "user", "content": text});
    writeln!(child.stdin.take().expect("a pipe"), "{line}").expect("it reads");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    told["id"].as_str().expect("an id").to_owned()
}

fn entries(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a whole line"))
        .filter(|it: &Value| it["type"] != "session")
        .collect()
}

/// A session with something said in it.
fn session(env: &TestEnv) -> PathBuf {
    let mut chat = Command::new(env!("CARGO_BIN_EXE_pi-sessions"));
    chat.env_clear().env("HOME", env.home()).env("PI_SESSIONS_ROOT", env.root()).current_dir(env.path());
    let output = chat.args(["chat", "--json", "-p", "first"]).output().expect("the command");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let first: Value = serde_json::from_slice(output.stdout.split(|byte| *byte == b'\n').next().expect("a line")).expect("JSON");
    PathBuf::from(first["path"].as_str().expect("a path"))
}

/// What others are told while process `pid` owns the session.
fn refused(env: &TestEnv, words: &[&str], pid: u32, offers: &[&str]) {
    let output = run(env, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
    let names = [format!("pid {pid} on "), " since 2".to_owned()];
    assert!(names.iter().all(|name| said.contains(name.as_str())), "{words:?}: {said}");
    assert!(offers.iter().all(|offer| said.contains(offer)), "{words:?} offers {offers:?}: {said}");
}

#[test]
fn others_work_beside_a_chat_and_nothing_is_lost() {
    let env = TestEnv::new();
    let path = session(&env);
    let name = path.to_string_lossy().into_owned();
    let mut chat = Chat::start(&env, &path);
    chat.say("second");
    let before = entries(&path);
    let target = before[0]["id"].as_str().expect("an id").to_owned();

    done(&env, &["name", &name, "renamed"]);
    done(&env, &["label", &name, &target, "a label"]);
    let theirs = append(&env, &name, "theirs");
    let fork: Value = serde_json::from_str(&done(&env, &["fork", &name, "--json"])).expect("JSON");
    assert_eq!(entries(Path::new(fork["path"].as_str().expect("a path"))).last().expect("entries")["id"], theirs.as_str());
    for words in [&["show"][..], &["tree"], &["path"], &["context"], &["check"], &["export"]] {
        done(&env, &[words, &[&name]].concat());
    }

    let held = fs::read(&path).expect("the file");
    let pid = chat.child.id();
    let both = ["--fork", "--force"];
    refused(&env, &["chat", &name, "-p", "x"], pid, &both);
    refused(&env, &["goto", &name, &target], pid, &["fork", "--force"]);
    refused(&env, &["compact", &name, "--offline", "--keep", "0"], pid, &["fork", "--force"]);
    refused(&env, &["repair", &name], pid, &["fork", "--force"]);
    refused(&env, &["move", &name, "--cwd", "/elsewhere"], pid, &["fork"]);
    refused(&env, &["delete", &name, "--yes", "--permanent"], pid, &[]);
    assert_eq!(fs::read(&path).expect("the file"), held, "who is refused changes nothing");

    chat.say("third");
    chat.end();
    let after = entries(&path);
    for entry in before.iter().map(|entry| &entry["id"]).chain([&Value::from(theirs.as_str())]) {
        assert!(after.iter().any(|it| it["id"] == *entry), "{entry}");
    }
    let said = |text: &str| after.iter().position(|it| it["message"]["content"].to_string().contains(text)).expect("it is there");
    // The chat keeps its own leaf, so what was appended meanwhile is a branch beside what it said then.
    let own = after.iter().rfind(|it| it["message"]["role"] == "user").expect("a prompt");
    assert_eq!(own["id"], after[said("third")]["id"]);
    assert_eq!(own["parentId"], before.last().expect("an entry")["id"]);
    let show: Value = serde_json::from_str(&done(&env, &["show", &name, "--json"])).expect("JSON");
    assert_eq!((&show["name"], &show["leafId"]), (&Value::from("renamed"), &after.last().expect("an entry")["id"]));
    assert_eq!(show["branches"], 2);
    let tree = done(&env, &["tree", &name, "--all", "--json"]);
    assert!(tree.contains(r#""label":"a label""#) && tree.contains(&theirs), "{tree}");
    assert!(run(&env, &["check", &name]).status.success());
    // Its mark is gone, so what was refused goes on.
    done(&env, &["goto", &name, &target]);
}

#[test]
fn the_mark_of_a_killed_chat_is_taken_over() {
    let env = TestEnv::new();
    let path = session(&env);
    let name = path.to_string_lossy().into_owned();
    for (round, words) in [
        &["chat", "-p", "again"][..],
        &["goto", "t1"],
        &["compact", "--offline", "--keep", "0"],
        &["repair"],
        &["move", "--cwd", "/elsewhere"],
    ]
    .into_iter()
    .enumerate()
    {
        append(&env, &name, &"long ".repeat(2_000));
        let mut chat = Chat::start(&env, &path);
        chat.say(&format!("round {round}"));
        let said = entries(&path).len();
        chat.child.kill().expect("it is at its prompt");
        chat.child.wait().expect("an end");
        let lock = path.with_file_name(format!(".{}.lock", path.file_name().expect("a name").to_string_lossy()));
        assert!(lock.exists(), "the mark stays, and means nothing");
        done(&env, &[&words[..1], &[name.as_str()], &words[1..]].concat());
        if words[0] != "move" {
            assert!(entries(&path).len() >= said, "{words:?}");
            // `goto` only looks whether there is an owner.
            assert!(words[0] == "goto" || !lock.exists(), "{words:?} took the mark over and removed it");
        }
    }
    assert!(!path.exists());
}

#[test]
fn a_chat_that_is_stopped_keeps_its_session_and_holds_nobody_up() {
    let env = TestEnv::new();
    let path = session(&env);
    let name = path.to_string_lossy().into_owned();
    let mut chat = Chat::start(&env, &path);
    let signal = |signal: &str| {
        let id = chat.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
    };
    signal("-STOP");
    let theirs = append(&env, &name, "theirs");
    done(&env, &["list", "--all"]);
    refused(&env, &["delete", &name, "--yes", "--permanent"], chat.child.id(), &[]);
    refused(&env, &["chat", &name, "-p", "x"], chat.child.id(), &["--fork"]);
    signal("-CONT");
    chat.say("second");
    chat.end();
    assert!(entries(&path).iter().any(|entry| entry["id"] == theirs.as_str()));
}
