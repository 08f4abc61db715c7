//! `chat` and `resume`: prompts, sessions, tools, models over the network, and what a person types.

use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::cli::{CWD, DEMO, Run, TestEnv};
use crate::support::model_server::{Answer, ModelServer, anthropic_events, openai_events};

/// A place to chat in, with a folder that exists.
fn env() -> TestEnv {
    let env = TestEnv::new();
    let cwd = env.path().join("project");
    fs::create_dir_all(&cwd).expect("a folder");
    env.cwd(cwd)
}

/// A configuration with one server.
fn configure(env: &TestEnv, api: &str, url: &str, more: &str) {
    let text = format!(
        "[requests]\nmax_retries = 2\n{more}\n[providers.mock]\napi = \"{api}\"\nbase_url = \"{url}\"\napi_key = \"hush-key\"\n\
         [[providers.mock.models]]\nid = \"m1\"\ncontext_window = 100000\nprices = {{ input = 1, output = 2 }}\n"
    );
    env.write("config/config.toml", &text);
}

/// The session files, in the order of their names.
fn sessions(env: &TestEnv) -> Vec<PathBuf> {
    let Ok(folders) = fs::read_dir(env.root()) else { return Vec::new() };
    let folders = folders.map(|item| item.expect("an item").path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).expect("a folder").map(|item| item.expect("an item").path()));
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    files
}

/// The messages in the only session: `role text` or `role(tool) text`.
fn messages(env: &TestEnv) -> Vec<String> {
    let files = sessions(env);
    assert_eq!(files.len(), 1, "{files:?}");
    let text = fs::read_to_string(&files[0]).expect("the session");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["type"] == "message").map(|line| told(&line["message"])).collect()
}

fn told(message: &Value) -> String {
    let blocks = message["content"].as_array().cloned().unwrap_or_default();
    let text = blocks.iter().map(|block| match block["type"].as_str() {
        Some("toolCall") => format!("<{}>", block["name"].as_str().unwrap_or_default()),
        _ => block["text"].as_str().unwrap_or_default().to_owned(),
    });
    format!("{}: {}", message["role"].as_str().unwrap_or_default(), text.collect::<Vec<_>>().join(" "))
}

fn openai(text: &str) -> Answer {
    let chunk = format!(
        r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":500,"completion_tokens":9,"total_tokens":509}}}}"#
    );
    Answer::Events(openai_events(&[&chunk]))
}

fn openai_call(id: &str, name: &str, arguments: &str) -> Answer {
    let arguments = arguments.replace('"', "\\\"");
    let chunk = format!(
        r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"{id}","type":"function","function":{{"name":"{name}","arguments":"{arguments}"}}}}]}},"finish_reason":"tool_calls"}}]}}"#
    );
    Answer::Events(openai_events(&[&chunk]))
}

fn anthropic(text: &str) -> Answer {
    Answer::Events(anthropic_events(&[
        r#"{"type":"message_start","message":{"id":"r1","usage":{"input_tokens":400,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        &format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#),
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#,
        r#"{"type":"message_stop"}"#,
    ]))
}

#[test]
fn a_fresh_machine_has_a_turn_and_keeps_it() {
    let env = env();
    assert_snapshot!(env.pipe("chat", "hello\n"), @r#"
$ pi-sessions chat
This is the built-in offline model; no provider is configured. You said: hello
--- stderr
note: to go on: pi-sessions resume 019ad3c5-0000-7000-8000-000000000001
"#);
    assert_eq!(
        messages(&env),
        ["user: hello", "assistant: This is the built-in offline model; no provider is configured. You said: hello"]
    );
    assert_snapshot!(env.run("resume -p again"), @r#"
$ pi-sessions resume -p again
This is the built-in offline model; no provider is configured. You said: again
--- stderr
note: to go on: pi-sessions resume 019ad3c5-0000-7000-8000-000000000001
"#);
    assert_eq!(messages(&env).len(), 4);
}

#[test]
fn nothing_said_leaves_nothing() {
    let env = env();
    assert_snapshot!(env.pipe("chat", " \n\n"), @r#"
$ pi-sessions chat
--- stderr
note: there is nothing to say
"#);
    assert_snapshot!(env.answer("chat", "\n\n/help\n/tree\n/model\n"), @r#"
$ pi-sessions chat
--- stderr
note: a new session with offline/echo; /help tells the commands
> > > /tree             draws the session as a tree, the active path marked
/goto ENTRY       goes back (or elsewhere): ENTRY is tN for the N-th message of yours, a label, an id, @prev;
                  behind it: summarize [WHAT MATTERS], to leave a summary of what you come from
/compact [WHAT]   summarizes older messages to make room; WHAT tells what matters
/fork [ENTRY]     goes on in a new session, copied up to here or to ENTRY
/name [NAME]      shows or sets the name of the session
/model [MODEL]    shows or changes the model: PROVIDER/MODEL
/context          shows how full the window is
/skill NAME [...] sends the instructions of a skill, and what you add
/continue         lets the model go on, after an error or a stop
/help             shows this
exit, quit        leave (also Ctrl-D)

Lines that you type while the model works are sent with its next request. Ctrl-C stops it, twice leaves.
A line that ends with \ goes on in the next line.
> note: nothing was said yet
> note: the model is offline/echo
>
"#);
    assert!(sessions(&env).is_empty());
}

#[test]
fn tools_of_the_offline_model_work_in_the_folder() {
    let env = env();
    let run = env.pipe("chat", "write a.txt some text\n");
    assert_eq!(run.code, 0, "{run}");
    assert_eq!(fs::read_to_string(env.path().join("project/a.txt")).expect("the file"), "some text");
    assert_snapshot!(env.run("chat -c -p 'read a.txt'"), @r#"
$ pi-sessions chat -c -p 'read a.txt'
Offline model: the tools are done.
- read gave: some text
--- stderr
* read a.txt (1 line)
note: to go on: pi-sessions resume 019ad3c5-0000-7000-8000-000000000001
"#);
    let run = env.run("chat -c -p 'write ../b.txt x'");
    assert!(run.stderr.contains("failed") && !env.path().join("b.txt").exists(), "{run}");
}

#[test]
fn the_tools_and_the_turns_are_as_configured() {
    let env = env();
    env.write("config/config.toml", "max_turns = 1\n[tools]\nallowed = [\"read\"]\n");
    let run = env.run("chat -p 'write a.txt x'");
    assert!(run.stdout.contains("You said: write a.txt x") && !env.path().join("project/a.txt").exists(), "{run}");
    let run = env.run("chat -p 'read a.txt'");
    assert!(run.stderr.contains("warning: the run was stopped after 1 turns"), "{run}");
}

#[test]
fn events_are_objects_one_a_line() {
    let env = env();
    env.write("project/a.txt", "text\n");
    let run = env.run("chat --json -p 'read a.txt'");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run}");
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let types = events.iter().map(|event| event["type"].as_str().expect("a type")).filter(|it| *it != "message_update");
    let types: Vec<_> = types.collect();
    assert_eq!(
        types,
        [
            "session",
            "agent_start",
            "turn_start",
            "message_start",
            "message_end",
            "save_point",
            "message_start",
            "message_end",
            "tool_execution_start",
            "tool_execution_end",
            "message_start",
            "message_end",
            "turn_end",
            "save_point",
            "turn_start",
            "message_start",
            "message_end",
            "turn_end",
            "save_point",
            "agent_end",
        ]
    );
    assert!(run.stdout.lines().all(|line| line.starts_with(r#"{"type":"#)), "{run}");
    assert_eq!(env.answer("chat --json", "").code, 2);
}

#[test]
fn both_wire_formats_answer_through_the_whole_command() {
    for (api, answer, path) in [
        ("openai-completions", openai("Hello from the server"), "/v1/chat/completions"),
        ("anthropic-messages", anthropic("Hello from the server"), "/v1/v1/messages"),
    ] {
        let env = env();
        let server = ModelServer::start([answer]);
        configure(&env, api, &format!("{}/v1", server.url), "");
        let run = env.run("chat -p hi");
        assert_eq!((run.code, run.stdout.as_str()), (0, "Hello from the server\n"), "{run}");
        let received = server.received();
        assert_eq!(received[0].path, path);
        assert!(received[0].head.contains("hush-key"), "{}", received[0].head);
        let text = fs::read_to_string(&sessions(&env)[0]).expect("the session");
        assert!(text.contains(&format!(r#""api":"{api}","provider":"mock","model":"m1""#)) && !text.contains("hush"), "{text}");
        assert!(!text.contains(r#""total":0}"#), "the prices count: {text}");
    }
}

#[test]
fn a_provider_file_is_used_and_its_key_is_never_shown() {
    let env = env();
    let server = ModelServer::start([Answer::json(401, r#"{"error":{"message":"no such key hush-file"}}"#), openai("yes")]);
    let text = format!(r#"{{"baseURL":"{}/v1","apiKey":"hush-file","model":"m","contextWindow":9000}}"#, server.url);
    env.write("project/provider.json", &text);
    let run = env.run("chat -p hi");
    assert!(run.code == 1 && run.stderr.contains("refused the key") && run.stderr.contains(&server.url), "{run}");
    assert!(!format!("{run}").contains("hush"), "{run}");
    assert_eq!(env.run("resume -p again").stdout, "yes\n");
    assert_eq!(server.received()[1].head.matches("bearer hush-file").count(), 1);
}

#[test]
fn transient_errors_are_tried_again_and_told() {
    let env = env();
    let busy = |status| Answer::json_with(status, ("retry-after", "0"), r#"{"error":{"message":"later"}}"#);
    let server = ModelServer::start([busy(429), busy(503), openai("at last"), busy(503), busy(503), busy(503)]);
    configure(&env, "openai-completions", &server.url, "");
    let run = env.run("chat -p hi");
    assert_eq!((run.code, run.stdout.as_str()), (0, "at last\n"), "{run}");
    assert!(run.stderr.contains("try 2 in") && run.stderr.contains("try 3 in"), "{run}");
    let run = env.run("resume -p more --json");
    assert_eq!(run.code, 1, "{run}");
    let error: Value = serde_json::from_str(run.stderr.lines().last().expect("an error")).expect("JSON");
    assert_eq!(error["error"]["kind"], "provider", "{run}");
    assert!(error["error"]["message"].as_str().expect("text").contains(&server.url), "{run}");
    // What was said is kept, and so is that it failed.
    assert_eq!(messages(&env)[2..], ["user: more", "assistant: "]);
}

#[test]
fn an_overflow_leads_to_one_compaction_and_one_retry() {
    for api in ["openai-completions", "anthropic-messages"] {
        let env = env();
        let say = |text: &str| if api == "openai-completions" { openai(text) } else { anthropic(text) };
        let overflow = || {
            Answer::json(
                400,
                r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: maximum context length"}}"#,
            )
        };
        let long = "word ".repeat(3000);
        let server = ModelServer::start([
            say("one"),
            say("two"),
            overflow(),
            say("The summary of it all"),
            say("three"),
            overflow(),
            say("The second summary"),
            overflow(),
        ]);
        configure(&env, api, &server.url, "");
        let first = env.pipe("chat", &long);
        assert_eq!(first.stdout, "one\n", "{first}");
        assert_eq!(env.pipe("chat -c", &long).stdout, "two\n");
        let run = env.run("chat -c -p third");
        assert_eq!(run.stdout, "three\n", "{api} {run}");
        assert!(run.stderr.contains("compacted the context from about"), "{run}");
        let received = server.received();
        assert_eq!(received.len(), 5);
        assert!(received[4].body.contains("The summary of it all") && received[4].body.contains("third"));
        assert!(received[4].body.len() < received[2].body.len());
        let text = fs::read_to_string(&sessions(&env)[0]).expect("the session");
        assert_eq!(text.matches(r#""type":"compaction""#).count(), 1);
        // Compacted once and tried once more; then the error is the answer's.
        let run = env.run("chat -c -p fourth");
        assert!(run.code == 1 && run.stderr.contains("does not fit into the model's window"), "{run}");
        assert!(run.stderr.contains("compact"), "{run}");
    }
}

#[test]
fn a_session_is_held_while_it_is_talked_in() {
    let env = env();
    let path = env.session_of("demo", &env.path().join("project").to_string_lossy(), DEMO);
    let fs: std::sync::Arc<dyn pi_sessions::storage::fs::Fs> = std::sync::Arc::new(pi_sessions::storage::fs::StdFs);
    let owner = pi_sessions::storage::lock::OwnerLock::take(&fs, &path, "pid 1 on elsewhere since noon").expect("nobody has it");
    let run = env.run("chat demo -p hi");
    assert_eq!(run.code, 1, "{run}");
    for words in ["in use by pid 1 on elsewhere since noon", "pi-sessions chat demo --fork", "pi-sessions chat demo --force"] {
        assert!(run.stderr.contains(words), "{run}");
    }
    let run = env.run("compact demo --keep 0");
    assert!(run.code == 1 && run.stderr.contains("pi-sessions compact demo --force"), "{run}");
    let run = env.run("goto demo t1 --summarize");
    assert!(run.code == 1 && run.stderr.contains("in use by pid 1 on elsewhere"), "{run}");
    assert_eq!(std::fs::read_to_string(&path).expect("the session").lines().count(), 12);
    assert_eq!(env.run("chat demo --fork -p hi").code, 0);
    assert_eq!(env.run("chat demo --force -p hi").code, 0);
    drop(owner);
    assert_eq!(env.run("chat demo -p hi").code, 0);
}

#[test]
fn a_folder_that_is_gone_is_told_with_what_helps() {
    let env = env();
    env.session("demo", DEMO);
    assert_eq!(CWD, "/home/me/project");
    assert_snapshot!(env.run("chat demo -p hi"), @r#"
$ pi-sessions chat demo -p hi
--- stderr
error: the session's folder does not exist: /home/me/project
Hint: work in another one this time: pi-sessions chat demo --cwd DIR
Hint: go on in a copy that works in another one: pi-sessions chat demo --fork --cwd DIR
Hint: the project has moved: pi-sessions move demo --cwd DIR
--- exit code 1
"#);
    let run = env.run("chat demo -p 'write here.txt x' --cwd .");
    assert_eq!(run.code, 0, "{run}");
    assert!(env.path().join("project/here.txt").exists());
    for args in ["chat demo -p hi --cwd nowhere", "chat -p hi --cwd nowhere"] {
        let run = env.run(args);
        assert_eq!(run.code, 2, "{run}");
    }
    let run = env.run("chat demo --fork --cwd . -p 'write forked.txt x'");
    assert!(run.code == 0 && env.path().join("project/forked.txt").exists(), "{run}");
}

#[test]
fn the_folder_of_a_session_from_elsewhere_is_told() {
    let env = env();
    let other = env.path().join("other");
    fs::create_dir_all(&other).expect("a folder");
    env.session_of("there", &other.to_string_lossy(), DEMO);
    let told = "note: the tools work in the session's folder, not in this one: [TMP]/other\n";
    let run = env.run("chat there -p 'write here.txt x'");
    assert!(run.code == 0 && run.stderr.contains(told) && other.join("here.txt").exists(), "{run}");
    // Not where it was asked for, and not at home.
    let run = env.run("chat there -p hi --cwd .");
    assert!(run.code == 0 && !run.stderr.contains("the tools work in"), "{run}");
    let run = env.cwd(other).run("chat there -p hi");
    assert!(run.code == 0 && !run.stderr.contains("the tools work in"), "{run}");
}

#[test]
fn commands_that_are_printed_find_a_session_of_another_root() {
    let env = env();
    let path = env.session("demo", DEMO);
    let root = env.root().to_string_lossy().into_owned();
    let elsewhere = TestEnv::new();
    let torn = env.session("torn", &format!("{DEMO}\n{{\"torn"));
    for (words, session) in [(vec!["chat", "demo", "-p", "hi"], &path), (vec!["context", "torn"], &torn)] {
        let named = session.to_string_lossy();
        let words: Vec<_> = ["--root", &root].into_iter().chain(words).collect();
        let stderr = elsewhere.run_words(&words).stderr;
        let commands: Vec<_> = stderr.split("pi-sessions ").skip(1).collect();
        assert!(!commands.is_empty() && commands.iter().all(|command| command.contains(&*named)), "{stderr}");
    }
}

#[test]
fn models_are_chosen_by_name_and_noted() {
    let env = env();
    let server = ModelServer::start([openai("one"), openai("two")]);
    configure(&env, "openai-completions", &server.url, "");
    assert_eq!(env.run("chat -p hi").stdout, "one\n");
    let run = env.run("chat -c -p hi --model nothing");
    assert!(run.code == 2 && run.stderr.contains("the models are mock/m1, offline/echo"), "{run}");
    assert!(env.run("chat -c -p hi --model offline").stdout.contains("built-in offline model"));
    let text = fs::read_to_string(&sessions(&env)[0]).expect("the session");
    assert!(text.contains(r#""type":"model_change""#) && text.contains(r#""modelId":"echo""#), "{text}");
    // The built-in model is nobody's choice: the configured one goes on.
    assert_eq!(env.run("chat -c -p hi").stdout, "two\n");
    env.write("config/config.toml", "");
    let run = env.run("chat -c -p hi");
    assert!(run.stderr.contains("the session's model mock/m1 is not configured, so offline/echo goes on"), "{run}");
}

#[test]
fn a_recorded_session_plays_again() {
    let env = env();
    env.session("demo", DEMO);
    env.write("project/login.rs", "fn login() {}\n");
    let run = env.run("chat -p 'Fix it' --model replay:demo");
    assert_eq!(run.stdout, "The function is empty.\n", "{run}");
    assert!(run.stderr.contains("* read login.rs (1 line)"), "{run}");
    assert_eq!(env.run("chat -p x --model replay:nothing").code, 2);
}

#[test]
fn hook_programs_take_part() {
    let env = env();
    let hook = env.write("hook.sh", "#!/bin/sh\ngrep -q tool_call && echo '{\"block\":true,\"reason\":\"not today\"}'\n");
    env.write("config/config.toml", &format!("[hooks]\ntool_call = [\"sh\", \"{}\"]\n", hook.display()));
    let run = env.run("chat -p 'run touch x'");
    assert!(run.stderr.contains("not today") && !env.path().join("project/x").exists(), "{run}");
}

#[test]
fn thinking_is_asked_for_and_noted() {
    let env = env();
    env.write("config/config.toml", "thinking = \"low\"\n");
    assert_eq!(env.run("chat -p hi").code, 0);
    assert_eq!(env.run("chat -c -p hi --thinking high").code, 0);
    let text = fs::read_to_string(&sessions(&env)[0]).expect("the session");
    let levels: Vec<_> = text.match_indices("\"thinkingLevel\":\"").map(|(at, word)| &text[at + word.len()..][..3]).collect();
    assert_eq!(levels, ["low", "hig"]);
    assert_eq!(env.run("chat -c -p hi --thinking much").code, 2);
}

/// What a person types in a chat, and sees.
fn typed(env: &TestEnv, args: &str, lines: &[&str]) -> Run {
    let mut run = env.answer(args, &lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    // The offline model counts the prompt, and in it stands the temporary folder.
    let counts = run.stderr.split("[about ").enumerate().map(|(at, part)| match at {
        0 => part.to_owned(),
        _ => format!("[about N{}", &part[part.find(" of ").expect("a count")..]),
    });
    run.stderr = counts.collect();
    run
}

#[test]
fn a_person_talks_goes_back_forks_and_leaves() {
    let env = env().terminal(100);
    let lines = [
        "first",
        "",
        "second",
        "/goto t2 summarize briefly",
        "another second",
        "/goto nowhere",
        "/nonsense",
        "/name My chat",
        "/context",
        "/tree",
        "/fork",
        "in the fork",
        "exit",
        "never said",
    ];
    assert_snapshot!(typed(&env, "chat", &lines));
    let files = sessions(&env);
    assert_eq!(files.len(), 2);
    let source = fs::read_to_string(&files[0]).expect("the session");
    assert!(!source.contains("in the fork") && fs::read_to_string(&files[1]).expect("the fork").contains("in the fork"));
}

#[test]
fn resume_offers_the_sessions_of_the_folder() {
    let env = env().terminal(100);
    for text in ["one", "two"] {
        assert_eq!(env.pipe("chat", text).code, 0);
    }
    assert_snapshot!(typed(&env, "resume", &["7", "1", "quit"]), @r#"
$ pi-sessions resume
--- stderr
  1  two  (just now, 2 messages)
  2  one  (just now, 2 messages)
Which one (number, nothing for none)? ␛[2mnote:␛[0m this is no number from 1 to 2
Which one (number, nothing for none)? ␛[2mnote:␛[0m going on with 019ad3c5-0000-7000-8000-000000000002: 2 messages, offline/echo; /help tells the commands
␛[2myou: two␛[0m
␛[2manswer: This is the built-in offline model; no provider is configured. You said: two␛[0m
> ␛[2mnote:␛[0m to go on: pi-sessions resume 019ad3c5-0000-7000-8000-000000000002
"#);
    assert_eq!(typed(&env, "resume", &[""]).code, 1);
    // A copy is made of the one that is picked, too.
    let run = typed(&env, "chat --fork", &["2", "quit"]);
    assert!(run.code == 0 && run.stderr.contains("this is a copy of 019ad3c5-0000-7000-8000-000000000001"), "{run}");
    assert!(run.stderr.contains("you: one"), "{run}");
    assert_eq!(env.run("chat --fork -p x").code, 2);
    let other = TestEnv::new();
    assert_eq!(other.run("resume -p x").code, 2);
}

#[test]
fn an_error_ends_the_round_and_not_the_chat() {
    let env = env();
    let server = ModelServer::start([Answer::json(400, r#"{"error":{"message":"no"}}"#), openai("fine")]);
    configure(&env, "openai-completions", &server.url, "");
    let run = typed(&env, "chat", &["one", "two", "exit"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.stderr.contains("refused the request") && run.stdout.contains("fine"), "{run}");
}

#[test]
fn hostile_text_reaches_no_terminal() {
    let env = env();
    let server = ModelServer::start([
        openai(r"a\u001b]0;title\u0007b\u001b[31m"),
        openai_call("c1", "bash", r#"{"command":"printf '\\033[2J'"}"#),
        openai("end"),
    ]);
    configure(&env, "openai-completions", &server.url, "");
    for run in [typed(&env, "chat", &["x"]), env.run("chat -c -p x")] {
        assert!(!run.stdout.contains('\u{1b}') && !run.stderr.contains('\u{1b}'), "{run}");
    }
}

#[test]
fn a_session_of_a_newer_version_is_refused_before_anything_is_said() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let text = fs::read_to_string(&path).expect("the session").replace(r#""version":3"#, r#""version":9"#);
    fs::write(&path, &text).expect("a file");
    let run = env.run_words(&["chat", "demo", "-p", "hello"]);
    assert!(run.code == 1 && run.stdout.is_empty() && run.stderr.contains("version 9 is newer than 3"), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&path).expect("the session"), text);
}
