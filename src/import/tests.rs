//! Tests of what the formats have in common, and the outline of a session that their own tests compare.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::session::entry::EntryId;

/// A session in few words: its entries in order, each with the number of its parent, and what was counted.
fn outline(session: &ImportedSession) -> String {
    let numbers: HashMap<&EntryId, usize> = session.entries.iter().enumerate().map(|(at, entry)| (&entry.id, at + 1)).collect();
    let number = |id: Option<&EntryId>| id.and_then(|id| numbers.get(id)).map_or_else(|| "-".to_owned(), usize::to_string);
    let mut lines = Vec::new();
    for (at, entry) in session.entries.iter().enumerate() {
        let what = match &entry.kind {
            EntryKind::Message(payload) => message_outline(&payload.message),
            EntryKind::CustomMessage(payload) => {
                format!("injected {}", payload.content.as_ref().map(Content::joined_text).unwrap_or_default())
            }
            EntryKind::Compaction(payload) => {
                format!("compaction from {}: {}", number(payload.first_kept_entry_id.as_ref()), payload.summary)
            }
            EntryKind::ModelChange(payload) => format!("model {}/{}", payload.provider, payload.model_id),
            EntryKind::ThinkingLevelChange(payload) => format!("level {}", payload.thinking_level),
            EntryKind::Custom(payload) => {
                let data = payload.data.as_ref().and_then(Json::fields);
                format!("kept {}", data.and_then(|data| data.get::<String>("kind")).unwrap_or_default())
            }
            EntryKind::Leaf(payload) => format!("leaf {}", number(payload.target_id.as_ref())),
            EntryKind::SessionInfo(payload) => format!("name {}", payload.name.as_deref().unwrap_or_default()),
            EntryKind::Usage(payload) => format!("usage {}", payload.usage.as_ref().map_or(0, |usage| usage.sum())),
            EntryKind::BranchSummary(_)
            | EntryKind::ActiveToolsChange(_)
            | EntryKind::ContextEdit(_)
            | EntryKind::Label(_)
            | EntryKind::Unknown { .. } => entry.kind.wire_type().to_owned(),
        };
        lines.push(format!("{} <{} {what}", at + 1, number(entry.parent_id.as_ref())));
    }
    lines.extend(session.copies.iter().map(|(kind, count)| format!("copies {kind}: {count}")));
    lines.extend(session.damage.iter().map(|damage| format!("damage {}: {}", damage.line, damage.message)));
    lines.join("\n")
}

fn message_outline(message: &Message) -> String {
    let blocks = |content: Option<&Content>| match content {
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Blocks(blocks)) => blocks.iter().map(block_outline).collect::<Vec<_>>().join(" | "),
        None => "nothing".to_owned(),
    };
    let content = blocks(message.content());
    match message {
        Message::Assistant(message) => {
            let tokens = message.usage.as_ref().map_or(0, |usage| usage.sum());
            let model = message.model.as_deref().unwrap_or_default();
            format!("assistant {content} ({model}, {}, {tokens} tokens)", message.stop_reason.as_deref().unwrap_or_default())
        }
        Message::ToolResult(message) => {
            let failed = if message.is_error == Some(true) { " failed" } else { "" };
            format!("result of {} {}{failed}: {content}", message.tool_name, message.tool_call_id)
        }
        other => format!("{} {content}", other.role().as_wire()),
    }
}

fn block_outline(block: &Block) -> String {
    match block {
        Block::Text { text, .. } => text.clone(),
        Block::Thinking { thinking, signature, .. } => {
            format!("thinking {thinking} {}", signature.as_deref().unwrap_or_default())
        }
        Block::Image { mime_type, .. } => mime_type.clone(),
        Block::ToolCall(call) => format!("call {} {} {}", call.name, call.id, call.arguments.as_str()),
        Block::Unknown(json) => json.as_str().to_owned(),
    }
}

/// The rules that every imported session keeps.
pub(super) fn assert_sound(session: &ImportedSession) {
    let mut above: HashMap<&EntryId, Option<&EntryId>> = HashMap::new();
    let ids: HashSet<_> = session.entries.iter().map(|entry| &entry.id).collect();
    assert_eq!(ids.len(), session.entries.len(), "ids are unique");
    for entry in &session.entries {
        assert!(entry.parent_id.as_ref().is_none_or(|parent| ids.contains(parent)), "parents exist");
        above.insert(&entry.id, entry.parent_id.as_ref());
    }
    let by_id: HashMap<_, _> = session.entries.iter().map(|entry| (&entry.id, entry)).collect();
    for entry in &session.entries {
        let mut path = Vec::new();
        let mut at = Some(&entry.id);
        while let Some(id) = at {
            path.push(by_id[id]);
            assert!(path.len() <= session.entries.len(), "nothing is its own ancestor");
            at = above[id];
        }
        match entry.message() {
            Some(Message::Assistant(message)) => {
                let usage = message.usage.as_ref().expect("usage");
                assert!(usage.cost.is_some() && usage.total_tokens.is_some(), "usage with cost");
                assert!(matches!(message.content, Some(Content::Blocks(_))), "content in blocks");
                let rest = [&message.api, &message.provider, &message.model, &message.stop_reason];
                assert!(rest.iter().all(|value| value.is_some()) && message.timestamp.is_some(), "what Pi needs");
            }
            // Pi's own files are taken as they are.
            Some(Message::ToolResult(result)) if session.format != "pi" => {
                let calls = path.iter().filter_map(|entry| match entry.message() {
                    Some(Message::Assistant(message)) => Some(message),
                    _ => None,
                });
                let is_called = calls.flat_map(|message| message.tool_calls()).any(|call| call.id == result.tool_call_id);
                assert!(is_called, "a result has its call on the path");
            }
            _ => {}
        }
    }
    assert_eq!(session.counts, EntryCounts::of(&session.entries));
    // A name that comes as a leftover is not one of them, so `custom` entries of a file of Pi may be more.
    let kept: u64 = session.leftovers.values().sum();
    assert!(session.counts.custom >= kept, "leftovers are kept");
}

/// Reads a file of lines and compares the outline of what comes out, which is sound.
pub(super) fn check(format: &dyn ImportFormat, path: &str, lines: &[&str], expect: &str) -> ImportedSession {
    let text = lines.join("\n");
    let mut sessions = format.read(&[SourceFile { path, bytes: text.as_bytes() }]);
    assert_eq!(sessions.len(), 1);
    let session = sessions.remove(0);
    assert_sound(&session);
    let expect: Vec<_> = expect.trim().lines().map(str::trim).collect();
    assert_eq!(outline(&session), expect.join("\n"), "\n{}", outline(&session));
    session
}

#[test]
fn the_format_is_known_by_the_content() {
    let check = |text: &str, expect: Option<&str>| {
        assert_eq!(detect(text.as_bytes()).map(ImportFormat::name), expect, "{text}");
    };
    check(r#"{"type":"session","version":3,"id":"a","timestamp":"t","cwd":"/"}"#, Some("pi"));
    check("\u{feff}{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"message\":{}}", Some("pi"));
    check(r#"{"type":"user","uuid":"a","parentUuid":null,"message":{}}"#, Some("claude"));
    check("{\"cut\n{\"type\":\"summary\",\"summary\":\"s\",\"leafUuid\":\"x\"}", Some("claude"));
    check(r#"{"timestamp":"t","type":"session_meta","payload":{"id":"a"}}"#, Some("codex"));
    check(r#"{"id":"a","timestamp":"t","instructions":null}"#, Some("codex"));
    check("{\n  \"info\": {\"id\": \"ses_1\"},\n  \"messages\": []\n}", Some("opencode"));
    check(r#"{"id":"ses_1","title":"t","time":{"created":1}}"#, Some("opencode"));
    for other in ["", "\n\n", "no json", "[1,2]", "{}", r#"{"type":"event"}"#, r#"{"name":"package","version":"1.0"}"#] {
        check(other, None);
    }
}

#[test]
fn files_of_one_session_are_read_together() {
    let paths = [
        "a/session/p/ses_1.json",
        "a/message/ses_1/msg_1.json",
        "a/message/ses_2/msg_2.json",
        "a/part/msg_1/prt_1.json",
        "a/part/ses_2/msg_2/prt_2.json",
        "a/part/msg_9/prt_9.json",
        "a/rollout-1.jsonl",
        "a/notes.txt",
        "export.json",
    ];
    let groups = [vec![paths[0], paths[1], paths[3]], vec![paths[2], paths[4]], vec![paths[6]], vec![paths[8]], vec![paths[5]]];
    assert_eq!(group_files(&paths), groups);
    assert_eq!(opencode::storage_folder("/x/storage/session/p/ses_1.json"), Some("/x/storage/"));
    assert_eq!(opencode::storage_folder("/x/other/p/ses_1.json"), None);
}

/// Lines that look like those of some format, with anything in them.
fn any_lines() -> impl Strategy<Value = String> {
    let word = || {
        prop::sample::select(vec![
            "user",
            "assistant",
            "system",
            "message",
            "response_item",
            "event_msg",
            "compacted",
            "turn_context",
            "session_meta",
            "summary",
            "attachment",
            "compact_boundary",
            "tool_result",
            "tool_use",
            "text",
            "thinking",
            "image",
            "function_call",
            "function_call_output",
            "reasoning",
            "token_count",
            "thread_rolled_back",
            "session",
            "compaction",
            "leaf",
            "label",
            "tool",
            "step-finish",
            "a",
            "b",
            "c",
            "d",
        ])
    };
    let key = || {
        prop::sample::select(vec![
            "type",
            "uuid",
            "parentUuid",
            "id",
            "parentId",
            "message",
            "content",
            "role",
            "payload",
            "call_id",
            "tool_use_id",
            "isSidechain",
            "isCompactSummary",
            "subtype",
            "timestamp",
            "usage",
            "model",
            "summary",
            "leafUuid",
            "text",
            "num_turns",
            "targetId",
            "firstKeptEntryId",
            "firstKeptEntryIndex",
            "info",
            "messages",
            "parts",
            "tool",
            "callID",
            "state",
            "tokens",
            "output",
            "arguments",
            "name",
            "messageID",
            "sessionID",
            "time",
            "created",
            "title",
            "version",
            "attachment",
            "prompt",
        ])
    };
    let leaf = prop_oneof![
        6 => word().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 24, 6, move |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            5 => prop::collection::btree_map(key(), inner, 1..7)
                .prop_map(|map| Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
        ]
    });
    let line = prop_oneof![9 => value.prop_map(|value| value.to_string()), 1 => "\\PC{0,12}"];
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn whatever_stands_in_a_file_every_format_makes_sound_sessions(text in any_lines(), cut in any::<prop::sample::Index>()) {
        let bytes = &text.as_bytes()[..cut.index(text.len() + 1)];
        detect(bytes);
        for format in FORMATS {
            for session in format.read(&[SourceFile { path: "/x/y.jsonl", bytes }]) {
                assert_sound(&session);
            }
        }
    }
}

#[test]
fn long_chains_and_deep_nesting_end() {
    let chain: String = (0..20_000)
        .map(|at| {
            format!("{{\"type\":\"user\",\"uuid\":\"{}\",\"parentUuid\":\"{at}\",\"message\":{{\"content\":\"x\"}}}}\n", at + 1)
        })
        .collect();
    let deep =
        format!("{{\"type\":\"user\",\"uuid\":\"d\",\"message\":{{\"content\":{}{}}}}}", "[".repeat(50_000), "]".repeat(50_000));
    let text = chain + &deep;
    for format in FORMATS {
        for session in format.read(&[SourceFile { path: "/x/y.jsonl", bytes: text.as_bytes() }]) {
            assert_eq!(session.format, format.name());
        }
    }
    assert_eq!(claude::Claude.read(&[SourceFile { path: "y", bytes: text.as_bytes() }])[0].counts.user, 20_000);
}
