//! `chat` as a process that is killed, or whose disk is full: what was said stays, and the session goes on.
//!
//! # Invariants
//! - A run has three turns: two with a tool, one with the answer. It asks a server of the test.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::cli::TestEnv;
use crate::support::model_server::{Answer, ModelServer, openai_events};

/// How often a run is killed.
const KILLS: usize = 110;

const PROMPT: &str = "Do it in three turns";

fn says(text: &str) -> Answer {
    let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#);
    Answer::Events(openai_events(&[&chunk]))
}

fn calls(id: &str, name: &str, arguments: &str) -> Answer {
    let arguments = arguments.replace('"', "\\\"");
    let call = format!(r#"{{"index":0,"id":"{id}","type":"function","function":{{"name":"{name}","arguments":"{arguments}"}}}}"#);
    let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}},"finish_reason":"tool_calls"}}]}}"#);
    Answer::Events(openai_events(&[&chunk]))
}

fn three_turns() -> [Answer; 3] {
    let text = "x".repeat(700);
    [
        calls("c1", "write", &format!(r#"{{"path":"a.txt","content":"{text}"}}"#)),
        calls("c2", "bash", r#"{"command":"echo one; cat a.txt"}"#),
        says("It is done."),
    ]
}

/// A place with a folder to work in that names `server` in its `provider.json`.
fn place(server: &ModelServer) -> TestEnv {
    let env = TestEnv::new();
    let project = env.path().join("project");
    ask(&env, server);
    env.cwd(project)
}

/// Lets the folder's model be that of another server.
fn ask(env: &TestEnv, server: &ModelServer) {
    let text = format!(r#"{{"baseURL":"{}","model":"m1","contextWindow":100000}}"#, server.url);
    env.write("project/provider.json", &text);
}

/// The command in the folder of the place.
fn command(env: &TestEnv, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", env.home()).env("PI_SESSIONS_ROOT", env.root()).env("PATH", "/usr/bin:/bin");
    command.current_dir(env.path().join("project"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const COMMAND: &str = env!("CARGO_BIN_EXE_pi-sessions");

/// The files of the place that end so.
fn files(env: &TestEnv, end: &str) -> Vec<PathBuf> {
    let Ok(folders) = fs::read_dir(env.root()) else { return Vec::new() };
    let files = folders.flat_map(|folder| fs::read_dir(folder.expect("an item").path()).expect("a folder"));
    files.map(|item| item.expect("an item").path()).filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

/// The entries of a file, every line of which must be whole.
fn entries(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("text");
    let whole = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(whole).filter(|line: &Value| line["type"] != "session").collect()
}

fn is_role(entry: &Value, role: &str) -> bool {
    entry["message"]["role"] == role
}

/// The ids of the calls, and of the results, in order.
fn calls_and_results(entries: &[Value]) -> (Vec<String>, Vec<String>) {
    let calls = entries.iter().filter(|entry| is_role(entry, "assistant"));
    let blocks = calls.flat_map(|entry| entry["message"]["content"].as_array().expect("blocks"));
    let calls = blocks.filter(|block| block["type"] == "toolCall").map(|block| block["id"].as_str().expect("an id").to_owned());
    let results = entries.iter().filter(|entry| is_role(entry, "toolResult"));
    let results = results.map(|entry| entry["message"]["toolCallId"].as_str().expect("an id").to_owned());
    (calls.collect(), results.collect())
}

/// The entries that the events say are on disk. The last line may be cut.
fn told_as_saved(events: &str) -> Vec<String> {
    let events = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let saved = events.filter(|event| event["type"] == "save_point");
    let ids = saved.flat_map(|event| event["entryIds"].as_array().expect("ids").clone());
    ids.map(|id| id.as_str().expect("an id").to_owned()).collect()
}

/// `resume` goes on from what is there; the request that it sends has each call with its result.
fn goes_on(env: &TestEnv, context: &str) {
    let server = ModelServer::start([says("And on it goes.")]);
    ask(env, &server);
    let run = env.run("resume -p 'Go on'");
    assert_eq!((run.code, run.stdout.as_str()), (0, "And on it goes.\n"), "{context}: {run}");
    let body: Value = serde_json::from_str(&server.received()[0].body).expect("JSON");
    let messages = body["messages"].as_array().expect("messages");
    let asked = messages.iter().flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default());
    let asked: Vec<_> = asked.map(|call| call["id"].clone()).collect();
    let answered: Vec<_> = messages.iter().filter(|it| it["role"] == "tool").map(|it| it["tool_call_id"].clone()).collect();
    assert_eq!(asked, answered, "{context}");
}

#[test]
fn a_run_that_is_killed_keeps_what_ended_and_goes_on() {
    let clean = {
        let server = ModelServer::start(three_turns());
        let env = place(&server);
        let output = command(&env, COMMAND).args(["chat", "--json", "-p", PROMPT]).output().expect("the command");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(entries(&files(&env, ".jsonl")[0]).len(), 6);
        output.stdout.len()
    };
    // How many of the kills found the session with so many entries.
    let mut found = [0; 7];
    for kill in 0..KILLS {
        let server = ModelServer::start(three_turns());
        let env = place(&server);
        let mut child = command(&env, COMMAND).args(["chat", "--json", "-p", PROMPT]).spawn().expect("the command");
        let mut events = vec![0; clean * kill / KILLS];
        let mut stdout = child.stdout.take().expect("a pipe");
        stdout.read_exact(&mut events).expect("it runs on until here");
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        // What it told before the end.
        stdout.read_to_end(&mut events).expect("the rest");
        let events = String::from_utf8_lossy(&events).into_owned();
        let requests = server.received().len();
        drop(server);

        let sessions = files(&env, ".jsonl");
        let context = format!("kill {kill}, {requests} requests");
        let Some(path) = sessions.first() else {
            assert_eq!(requests, 0, "{context}: nothing was sent before it was written");
            continue;
        };
        let entries = entries(path);
        found[entries.len()] += 1;
        let prompts = entries.iter().filter(|entry| is_role(entry, "user")).count();
        assert!(requests == 0 || prompts == 1, "{context}: the prompt is there before it is sent");
        let answers = entries.iter().filter(|entry| is_role(entry, "assistant")).count();
        assert!(answers + 1 >= requests, "{context}: a turn ends on disk before the next one begins");
        let ids: Vec<_> = entries.iter().map(|entry| entry["id"].as_str().expect("an id")).collect();
        for id in told_as_saved(&events) {
            assert!(ids.contains(&id.as_str()), "{context}: {id} was told to be saved");
        }
        let (calls, results) = calls_and_results(&entries);
        assert_eq!(calls, results, "{context}");
        if prompts > 0 {
            goes_on(&env, &context);
        }
    }
    let middles = found[1..6].iter().filter(|times| **times > 0).count();
    assert!(middles >= 2, "the kills were at different moments: {found:?}");
}

#[test]
#[cfg(unix)]
fn a_full_disk_loses_nothing_that_was_said() {
    let mut sizes = Vec::new();
    for blocks in 0..=16 {
        let server = ModelServer::start(three_turns());
        let env = place(&server);
        // A write beyond the limit fails as on a full disk, instead of ending the process.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let output = command(&env, "/bin/sh").args(["-c", &script, COMMAND, "chat", "-p", PROMPT]).output().expect("the command");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let context = format!("{blocks} blocks: {told}");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{context}");
        let requests = server.received().len();
        drop(server);
        let unsaved = files(&env, ".unsaved.jsonl");
        let session = files(&env, ".jsonl").into_iter().find(|path| !unsaved.contains(path));
        let Some(session) = session else {
            assert!(output.status.code() == Some(1) && requests == 0, "{context}");
            continue;
        };
        let size = fs::metadata(&session).expect("the session").len();
        let check = env.run(&format!("check '{}'", session.display()));
        if size == 0 {
            assert_eq!((output.status.code(), requests), (Some(1), 0), "{context}");
            continue;
        }
        assert_eq!(check.code, 0, "{context}: {check}");
        let kept = entries(&session);
        sizes.push(kept.len());
        let (calls, results) = calls_and_results(&kept);
        assert_eq!(calls, results, "{context}");
        let mut all = kept.clone();
        unsaved.iter().for_each(|path| all.extend(entries(path)));
        if output.status.success() {
            assert!(unsaved.is_empty() && kept.len() == 6, "{context}");
        } else {
            assert!(told.contains(".unsaved.jsonl") || told.contains("cannot"), "{context}");
            assert!(all.iter().any(|entry| is_role(entry, "user")), "{context}: what was said is somewhere");
            assert!(unsaved.iter().all(|path| told.contains(&*path.to_string_lossy())), "{context}: the file is named");
        }
        if kept.iter().any(|entry| is_role(entry, "user")) {
            assert!(requests > 0, "{context}");
            goes_on(&env, &context);
        } else {
            assert_eq!(requests, 0, "{context}: nothing is sent that was not written");
        }
    }
    sizes.dedup();
    assert!(sizes.len() >= 3, "the limits cut at different entries: {sizes:?}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_stops_the_turn_and_keeps_what_was_done() {
    use std::io::{BufRead as _, BufReader};

    let server = ModelServer::start([calls("c1", "bash", r#"{"command":"echo begun; sleep 60"}"#)]);
    let env = place(&server);
    let mut child = command(&env, COMMAND).args(["chat", "--json", "-p", PROMPT]).spawn().expect("the command");
    let mut events = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let is_at_work = |line: &String| line.contains("tool_execution_update");
    events.by_ref().map(|line| line.expect("text")).find(is_at_work).expect("the tool has begun");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
    let rest: Vec<_> = events.map(|line| line.expect("text")).collect();
    assert_eq!(child.wait().expect("an end").code(), Some(130), "{rest:?}");
    assert!(rest.last().is_some_and(|line| line.contains(r#""reason":"aborted""#)), "{rest:?}");
    drop(server);
    let (calls, results) = calls_and_results(&entries(&files(&env, ".jsonl")[0]));
    assert_eq!((calls.len(), calls == results), (1, true));
    goes_on(&env, "after Ctrl-C");
}
