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
    assert_snapshot!(env.run("compact long --dry-run --keep 300"), @"");
    assert_snapshot!(env.run("compact long --dry-run --keep 300 --json"), @"");
    assert_snapshot!(env.run("compact long --dry-run"), @"");
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
    assert!(run.code == 1 && run.stderr.contains("nothing to compact"), "{run}");
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
    assert_snapshot!(env.run("goto demo t1 --summarize --instructions 'the test' --json"), @"");
    let run = env.run("context demo");
    assert!(run.stdout.contains("=== branchSummary"), "{run}");
    let lines = fs::read_to_string(&path).expect("the session").lines().count();
    let server = ModelServer::start([Answer::json(400, r#"{"error":{"message":"no"}}"#)]);
    configure(&env, &server.url, "");
    let run = env.run("goto demo a3 --summarize");
    assert_eq!(run.code, 1, "{run}");
    assert_eq!(fs::read_to_string(&path).expect("the session").lines().count(), lines);
    assert_eq!(env.run("goto demo a3 --summarize --summary x").code, 2);
    assert_eq!(env.run("goto demo a3 --instructions x").code, 2);
}
