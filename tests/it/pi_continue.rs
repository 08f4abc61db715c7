//! Real Pi goes on from sessions that this program wrote, and this program goes on from what Pi then wrote.
//!
//! `fixtures/pi-continue/<case>/`: `input.jsonl` was made by commands of this program, `request.json` is what Pi 1.6.0 sent
//! when it was asked to go on from it (the words around summaries and commands reduced to what they hold),
//! `continued.jsonl` is the file after Pi was done.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pi_sessions::Session;
use pi_sessions::session::message::{Content, Message};
use pi_sessions::session::request::{RequestOptions, build_request};
use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::jsonl::JsonlStorage;
use pi_sessions::storage::{RandomIds, SystemClock};
use serde_json::Value;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pi-continue");
    let mut cases: Vec<_> =
        fs::read_dir(folder).expect("the fixtures are there").map(|item| item.expect("an item").path()).collect();
    cases.sort();
    cases
}

fn open(path: &Path) -> Session {
    let storage = JsonlStorage::open(Arc::new(StdFs), path).expect("a fixture opens");
    assert!(pi_sessions::storage::SessionRead::damage(&storage).is_empty(), "{}", path.display());
    Session::new(Box::new(storage), Arc::new(SystemClock), Arc::new(RandomIds))
}

/// The request that this program would send, before a new prompt.
fn request(session: &Session) -> Vec<Message> {
    let context = session.project(session.leaf(), &[]).expect("a fixture is read").messages;
    build_request(context, RequestOptions::default()).messages.into_iter().map(|projected| projected.message).collect()
}

/// What Pi sent, without the system prompt.
fn pi_request(case: &Path) -> (String, Vec<Value>) {
    let text = fs::read_to_string(case.join("request.json")).expect("the request is there");
    let value: Value = serde_json::from_str(&text).expect("the request is JSON");
    let prompt = value["prompt"].as_str().expect("a prompt").to_owned();
    (prompt, value["messages"].as_array().expect("messages").clone())
}

/// Whether a message of ours is the one that Pi sent.
fn assert_is(own: &Message, pi: &Value, place: &str) {
    let role = match own {
        Message::ToolResult(_) => "tool",
        other => other.role().as_wire(),
    };
    assert_eq!(role, pi["role"], "{place}");
    let text = own.content().map(Content::concatenated_text).unwrap_or_default();
    if let Some(held) = pi["holds"].as_str() {
        assert!(text.contains(held), "{place}: {text}");
    } else if pi["addedByPi"] == true {
        // Each program answers an open call in words of its own.
        assert!(matches!(own, Message::ToolResult(result) if result.is_error == Some(true)), "{place}");
    } else {
        assert_eq!(text, pi["text"].as_str().unwrap_or_default(), "{place}");
    }
    if let Message::Assistant(message) = own {
        let calls: Vec<Value> = message
            .tool_calls()
            .map(|call| {
                let arguments: Value = serde_json::from_str(call.arguments.as_str()).expect("arguments are JSON");
                serde_json::json!({ "id": call.id, "name": call.name, "arguments": arguments })
            })
            .collect();
        assert_eq!(Value::from(calls), pi.get("calls").cloned().unwrap_or_else(|| Value::Array(Vec::new())), "{place}");
    }
    if let Message::ToolResult(result) = own {
        assert_eq!(result.tool_call_id, pi["answers"], "{place}");
    }
}

#[test]
fn pi_goes_on_with_exactly_the_messages_of_the_context() {
    let cases = cases();
    assert!(cases.len() >= 28, "{} cases", cases.len());
    for case in cases {
        let own = request(&open(&case.join("input.jsonl")));
        let (prompt, pi) = pi_request(&case);
        let (last, pi) = pi.split_last().expect("Pi sent its prompt");
        assert_eq!(last["text"], prompt.as_str(), "{}", case.display());
        assert_eq!(own.len(), pi.len(), "{}", case.display());
        for (at, (own, pi)) in own.iter().zip(pi).enumerate() {
            assert_is(own, pi, &format!("{} message {at}", case.display()));
        }
    }
}

#[test]
fn this_program_goes_on_from_what_pi_wrote() {
    for case in cases() {
        let before = request(&open(&case.join("input.jsonl")));
        let after = request(&open(&case.join("continued.jsonl")));
        let (prompt, _) = pi_request(&case);
        assert_eq!(after.len(), before.len() + 2, "{}", case.display());
        assert_eq!(after[..before.len()], before[..], "{}", case.display());
        assert_eq!(after[before.len()].text(), prompt, "{}", case.display());
        assert_eq!(after[before.len() + 1].role().as_wire(), "assistant", "{}", case.display());
    }
}

#[test]
fn pi_changed_no_byte_that_was_there() {
    for case in cases() {
        let before = fs::read(case.join("input.jsonl")).expect("the fixture is there");
        let after = fs::read(case.join("continued.jsonl")).expect("the fixture is there");
        assert!(after.starts_with(&before), "{}", case.display());
    }
}
