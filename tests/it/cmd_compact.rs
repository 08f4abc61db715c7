//! `compact` and `goto --summarize`.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::cli::{DEMO, TestEnv};
use crate::support::model_server::{Answer, ModelServer, openai_events};

/// A session of ten exchanges, about 125 tokens each.
fn long_session(env: &TestEnv) -> std::path::PathBuf {
    let mut lines = String::new();
    let mut parent = "null".to_owned();
    for at in 1..=10 {
        let said = format!("Question {at}. {}", "word ".repeat(50));
        let time = format!("2026-11-30T09:{at:02}:00.000Z");
        lines.push_str(&format!(r#"{{"type":"message","id":"u{at}","parentId":{parent},"timestamp":"{time}","message":{{"role":"user","content":[{{"type":"text","text":"{said}"}}],"timestamp":1796029200000}}}}
{{"type":"message","id":"a{at}","parentId":"u{at}","timestamp":"{time}","message":{{"role":"assistant","content":[{{"type":"text","text":"Answer {at}. {}"}}],"api":"x","provider":"gone","model":"m","usage":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0}},"stopReason":"stop","timestamp":1796029200001}}}}
"#, "word ".repeat(40)));
        parent = format!("\"a{at}\"");
    }
    env.session("long", &lines)
}

#[test]
fn a_dry_run_shows_the_cut_and_changes_nothing() {
    let env = TestEnv::new();
    let path = long_session(&env);
    let before = fs::read(&path).expect("the session");
    assert_snapshot!(env.run("compact long --dry-run --keep 300"), @r#"
$ pi-sessions compact long --dry-run --keep 300
context now     about 1,804 tokens (estimate)
summarized      14 entries, about 833 tokens (estimate)
kept            6 entries, about 357 tokens (estimate)
kept from       u8 user: Question 8. word word word word word word word word word word w…
--- stderr
note: the session's model gone/m is not configured, so offline/echo goes on
note: nothing was changed
"#);
    assert_snapshot!(env.run("compact long --dry-run --keep 300 --json"), @r#"
$ pi-sessions compact long --dry-run --keep 300 --json
{"id":null,"firstKeptEntryId":"u8","tokensBefore":1804,"tokensAfter":null,"summary":null,"plan":{"isSplitTurn":false,"history":{"entries":14,"tokens":833},"turnPrefix":{"entries":0,"tokens":0},"kept":{"entries":6,"tokens":357},"previousSummaryTokens":0}}
--- stderr
note: the session's model gone/m is not configured, so offline/echo goes on
note: nothing was changed
"#);
    assert_snapshot!(env.run("compact long --dry-run"), @r#"
$ pi-sessions compact long --dry-run
--- stderr
note: the session's model gone/m is not configured, so offline/echo goes on
error: there is nothing to compact: all 1190 tokens are within the 20000 to keep
--- exit code 1
"#);
    assert_eq!(fs::read(&path).expect("the session"), before);
}

#[test]
fn the_contexts_and_the_summary_lie_in_a_folder() {
    let env = TestEnv::new();
    let path = long_session(&env);
    let out = env.path().join("out");
    let run = env.run(&format!("compact long --offline --dry-run --keep 300 --out '{}' --json", out.display()));
    assert_eq!(run.code, 0, "{run}");
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("the file");
    let dry: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let (before, after) = (read("context-before.json"), read("context-after.json"));
    let summary = read("compressed-summary.md");
    assert_eq!(dry["summary"].as_str().map(str::trim_end), Some(summary.trim_end()));
    assert!(fs::read_to_string(&path).expect("the session").lines().count() == 21);

    // The real one comes to the same contexts.
    let run = env.run(&format!("compact long --offline --keep 300 --out '{}' --json", out.display()));
    let done: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(done["firstKeptEntryId"], dry["firstKeptEntryId"]);
    assert_eq!((&done["tokensBefore"], &done["tokensAfter"]), (&dry["tokensBefore"], &dry["tokensAfter"]));
    assert_eq!(read("context-before.json"), before);
    let texts = |json: &str| {
        let json: Value = serde_json::from_str(json).expect("JSON");
        json["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .map(|it| format!("{}{}{}", it["role"], it["summary"], it["content"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(&read("context-after.json")), texts(&after));
    assert!(texts(&after).len() < texts(&before).len() && summary.contains("Question 1."), "{summary}");
    assert_eq!(fs::read_to_string(&path).expect("the session").lines().count(), 22);
}

#[test]
fn a_compaction_by_the_offline_model() {
    let env = TestEnv::new();
    long_session(&env);
    assert_snapshot!(env.run("compact long --keep 300 --instructions 'Keep the questions'"));
    let run = env.run("compact long --keep 300");
    assert!(run.code == 1 && run.stderr.contains("no point to cut"), "{run}");
    let run = env.run("compact long --keep 0 --json");
    let done: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(done["firstKeptEntryId"], done["id"], "{run}");
}

fn configure(env: &TestEnv, url: &str, more: &str) {
    let text = format!(
        "[requests]\nmax_retries = 0\n[compaction]\n{more}\n[providers.mock]\napi = \"openai-completions\"\nbase_url = \"{url}\"\n\
         [[providers.mock.models]]\nid = \"m1\"\ncontext_window = 100000\n"
    );
    env.write("config/config.toml", &text);
}

fn says(text: &str) -> Answer {
    let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#);
    Answer::Events(openai_events(&[&chunk]))
}

#[test]
fn nothing_is_asked_about_a_session_that_cannot_be_changed() {
    let env = TestEnv::new();
    let path = long_session(&env);
    let newer = fs::read_to_string(&path).expect("the session").replacen(r#""version":3"#, r#""version":9"#, 1);
    fs::write(&path, &newer).expect("a file");
    let server = ModelServer::start([says("## Goal\nfor nothing"), says("## Goal\nfor nothing")]);
    configure(&env, &server.url, "");
    for command in ["compact long --keep 300", "compact long --keep 300 --force", "goto long t1 --summarize"] {
        let run = env.run(command);
        assert!(run.code == 1 && run.stderr.contains("version 9 is newer than 3"), "{run}");
    }
    assert_eq!((server.received().len(), fs::read_to_string(&path).expect("the session")), (0, newer));
    assert_eq!(env.run("compact long --keep 300 --dry-run").code, 0, "a look is allowed");
}

#[test]
fn a_model_that_fails_leaves_the_session_as_it_was_unless_the_extractive_one_may_help() {
    let env = TestEnv::new();
    let path = long_session(&env);
    let before = fs::read(&path).expect("the session");
    let no = || Answer::json(400, r#"{"error":{"message":"no"}}"#);
    let server = ModelServer::start([no(), says("  "), no(), says("## Goal\\nBy the model")]);
    configure(&env, &server.url, "");
    let run = env.run("compact long --keep 300");
    assert!(run.code == 1 && run.stderr.contains("without a model: --offline"), "{run}");
    let run = env.run("compact long --keep 300");
    assert!(run.code == 1 && run.stderr.contains("the summary is empty"), "{run}");
    assert_eq!(fs::read(&path).expect("the session"), before);
    configure(&env, &server.url, "fallback_extractive = true");
    let run = env.run("compact long --keep 600");
    assert!(run.code == 0 && run.stderr.contains("made without one") && run.stdout.contains("Question 1."), "{run}");
    let run = env.run("compact long --keep 300 --instructions 'INCLUDE XYZ'");
    assert!(run.code == 0 && run.stdout.contains("By the model"), "{run}");
    assert!(server.received()[3].body.contains("INCLUDE XYZ"));
}

#[test]
fn a_branch_that_is_left_is_summarized() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    assert_snapshot!(env.run("goto demo t1 --summarize --instructions 'the test' --json"), @r#"
$ pi-sessions goto demo t1 --summarize --instructions 'the test' --json
{"leafId":"e0000001","fromId":"n1","summaryId":"e0000001","editorText":"Fix the login bug"}
--- stderr
note: the session's model mock/mock-2 is not configured, so offline/echo goes on
moved the leaf from n1 to e0000001
"#);
    let run = env.run("context demo");
    assert!(run.stdout.contains("went on from here on another branch"), "{run}");
    let lines = fs::read_to_string(&path).expect("the session").lines().count();
    let server = ModelServer::start([Answer::json(400, r#"{"error":{"message":"no"}}"#)]);
    configure(&env, &server.url, "");
    let run = env.run("goto demo a3 --summarize");
    assert_eq!(run.code, 1, "{run}");
    assert_eq!(fs::read_to_string(&path).expect("the session").lines().count(), lines);
    assert_eq!(env.run("goto demo a3 --summarize --summary x").code, 2);
    assert_eq!(env.run("goto demo a3 --instructions x").code, 2);
}
