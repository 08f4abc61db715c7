//! What holds for every session, message and line, tried on random ones.

use std::collections::HashSet;

use pi_sessions::session::context::{ProjectedMessage, Projection, project};
use pi_sessions::session::entry::{Entry, EntryId, EntryKind};
use pi_sessions::session::json::{Fields, Json};
use pi_sessions::session::message::{Content, Message};
use pi_sessions::session::request::{RequestOptions, build_request};
use pi_sessions::session::tree::EntryIndex;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::json::difference;
use crate::support::plain_session::PlainSession;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}|\\PC", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// An object of some of `keys`, each with a value of the usual shape or with any other, and of some keys more.
fn any_object(keys: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = keys
        .into_iter()
        .map(|(key, usual)| {
            let value = prop_oneof![8 => usual, 1 => any_value()];
            prop::option::weighted(0.8, value).prop_map(move |value| value.map(|value| (key.to_owned(), value)))
        })
        .collect();
    let more = prop::collection::vec(("[a-z]{1,4}", any_value()), 0..3);
    (fields, more)
        .prop_map(|(fields, more)| Value::Object(fields.into_iter().flatten().chain(more).collect::<Map<_, _>>()))
        .boxed()
}

fn text() -> BoxedStrategy<Value> {
    "\\PC{0,8}".prop_map(Value::from).boxed()
}

fn one_of(words: &'static [&'static str]) -> BoxedStrategy<Value> {
    prop::sample::select(words).prop_map(Value::from).boxed()
}

fn flag() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(Value::from).boxed()
}

fn count() -> BoxedStrategy<Value> {
    any::<u32>().prop_map(Value::from).boxed()
}

fn usage() -> BoxedStrategy<Value> {
    let amount = || (0.0..9.0).prop_map(|amount: f64| Value::from(amount)).boxed();
    let cost = any_object(vec![
        ("input", amount()),
        ("output", amount()),
        ("cacheRead", amount()),
        ("cacheWrite", amount()),
        ("total", amount()),
    ]);
    any_object(vec![
        ("input", count()),
        ("output", count()),
        ("cacheRead", count()),
        ("cacheWrite", count()),
        ("totalTokens", count()),
        ("cost", cost),
    ])
}

fn content() -> BoxedStrategy<Value> {
    let block = any_object(vec![
        ("type", one_of(&["text", "thinking", "image", "toolCall", "future"])),
        ("text", text()),
        ("thinking", text()),
        ("thinkingSignature", text()),
        ("data", text()),
        ("mimeType", text()),
        ("id", text()),
        ("name", text()),
        ("arguments", any_value().boxed()),
    ]);
    prop_oneof![text(), prop::collection::vec(block, 0..3).prop_map(Value::from)].boxed()
}

fn message() -> BoxedStrategy<Value> {
    let roles = &[
        "user",
        "assistant",
        "toolResult",
        "bashExecution",
        "custom",
        "system",
        "branchSummary",
        "compactionSummary",
        "martian",
    ];
    any_object(vec![
        ("role", one_of(roles)),
        ("content", content()),
        ("timestamp", count()),
        ("api", text()),
        ("provider", text()),
        ("model", text()),
        ("usage", usage()),
        ("stopReason", text()),
        ("errorMessage", text()),
        ("toolCallId", text()),
        ("toolName", text()),
        ("details", any_value().boxed()),
        ("isError", flag()),
        ("command", text()),
        ("output", text()),
        ("exitCode", count()),
        ("cancelled", flag()),
        ("truncated", flag()),
        ("fullOutputPath", text()),
        ("excludeFromContext", flag()),
        ("customType", text()),
        ("display", flag()),
        ("summary", text()),
        ("fromId", text()),
        ("tokensBefore", count()),
        ("sections", any_value().boxed()),
    ])
}

/// The payload of an entry, whose `type` is always there: without it a line is no entry.
fn payload() -> BoxedStrategy<Value> {
    let types = &[
        "message",
        "compaction",
        "branch_summary",
        "leaf",
        "model_change",
        "thinking_level_change",
        "active_tools_change",
        "context_edit",
        "custom",
        "custom_message",
        "label",
        "session_info",
        "usage",
        "future_type",
    ];
    let replacement = prop_oneof![Just(Value::Null), any_object(vec![("content", content())])].boxed();
    let fields = any_object(vec![
        ("message", message()),
        ("summary", text()),
        ("firstKeptEntryId", text()),
        ("tokensBefore", count()),
        ("retainedTail", prop::collection::vec(message(), 0..2).prop_map(Value::from).boxed()),
        ("details", any_value().boxed()),
        ("usage", usage()),
        ("fromHook", flag()),
        ("systemMessage", message()),
        ("fromId", text()),
        ("targetId", text()),
        ("provider", text()),
        ("modelId", text()),
        ("thinkingLevel", text()),
        ("activeToolNames", prop::collection::vec(text(), 0..3).prop_map(Value::from).boxed()),
        ("replacement", replacement),
        ("customType", text()),
        ("data", any_value().boxed()),
        ("content", content()),
        ("display", flag()),
        ("label", text()),
        ("name", text()),
        ("kind", text()),
        ("model", text()),
        ("note", text()),
    ]);
    (one_of(types), fields)
        .prop_map(|(entry_type, mut fields)| {
            fields["type"] = entry_type;
            // Whoever reads a line takes it out before.
            fields.as_object_mut().expect("an object").remove("id");
            fields
        })
        .boxed()
}

/// Asserts that `written` has all that `read` has, and nothing else but the empty values that writing fills in. A null
/// that stands for an absent value may be gone.
fn assert_nothing_lost(read: &Value, written: &Value) -> Result<(), TestCaseError> {
    const NULL_IS_ABSENT: [&str; 4] = ["content", "label", "name", "targetId"];
    const FILLED_IN: [&str; 17] = [
        "toolName",
        "output",
        "customType",
        "arguments",
        "input",
        "cacheRead",
        "cacheWrite",
        "total",
        "kind",
        "provider",
        "model",
        "targetId",
        "content",
        "replacement",
        "role",
        "type",
        "id",
    ];
    let mut open = vec![(read, written)];
    while let Some((read, written)) = open.pop() {
        match (read, written) {
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => open.extend(a.iter().zip(b)),
            (Value::Object(a), Value::Object(b)) => {
                for (key, value) in a {
                    match b.get(key) {
                        Some(other) => open.push((value, other)),
                        None => prop_assert!(
                            value.is_null() && NULL_IS_ABSENT.contains(&key.as_str()),
                            "{key} of {read} is lost in {written}"
                        ),
                    }
                }
                for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                    let empty = *value == json!("") || value.as_f64() == Some(0.0) || *value == json!({}) || value.is_null();
                    prop_assert!(empty && FILLED_IN.contains(&key.as_str()), "{key} of {written} is not in {read}");
                }
            }
            _ => prop_assert_eq!(difference(written, read), None),
        }
    }
    Ok(())
}

/// Asserts that no object in `text`, as deep as objects of ours go, has a key twice.
fn assert_keys_once(text: &str) -> Result<(), TestCaseError> {
    let mut open = vec![Json::parse(text).expect("what is written is JSON")];
    while let Some(json) = open.pop() {
        if let Some(fields) = json.fields() {
            let mut seen = HashSet::new();
            for (key, value) in fields.iter() {
                prop_assert!(seen.insert(key.to_owned()), "{key} stands twice in {json:?}");
                open.push(Json::parse(value).expect("a value is JSON"));
            }
        } else if let Some(values) = json.to::<Vec<Json>>() {
            open.extend(values);
        }
    }
    Ok(())
}

fn read_entry(payload: &str) -> Entry {
    let kind = EntryKind::read(Fields::parse(payload).expect("an object"));
    Entry { id: EntryId::from("a"), parent_id: None, timestamp: String::new(), kind }
}

/// The words of a context message.
#[derive(Clone, Debug)]
enum Said {
    User,
    Calls { ids: Vec<u8>, failed: bool },
    Result(u8, usize),
    Other(&'static str),
}

fn said() -> impl Strategy<Value = Said> {
    let others = [
        r#"{"role":"custom","content":"c"}"#,
        r#"{"role":"bashExecution","command":"ls","output":""}"#,
        r#"{"role":"bashExecution","command":"ls","output":"","excludeFromContext":true}"#,
        r#"{"role":"branchSummary","summary":"s"}"#,
        r#"{"role":"compactionSummary","summary":"s"}"#,
        r#"{"role":"system","content":"s"}"#,
        r#"{"role":"martian"}"#,
    ];
    prop_oneof![
        1 => Just(Said::User),
        3 => (prop::collection::btree_set(0..4u8, 0..3), prop::bool::weighted(0.2))
            .prop_map(|(ids, failed)| Said::Calls { ids: ids.into_iter().collect(), failed }),
        4 => (0..4u8, prop_oneof![Just(0usize), Just(200), Just(9_000)]).prop_map(|(id, len)| Said::Result(id, len)),
        1 => prop::sample::select(others.to_vec()).prop_map(Said::Other),
    ]
}

fn projected(said: &Said) -> ProjectedMessage {
    let message = match said {
        Said::User => json!({"role": "user", "content": "u"}),
        Said::Calls { ids, failed } => {
            let calls: Vec<_> =
                ids.iter().map(|id| json!({"type": "toolCall", "id": id.to_string(), "name": "bash", "arguments": {}})).collect();
            json!({"role": "assistant", "content": calls, "stopReason": if *failed { "error" } else { "toolUse" }})
        }
        Said::Result(id, len) => {
            json!({"role": "toolResult", "toolCallId": id.to_string(), "toolName": "bash", "content": [{"type": "text", "text": "é".repeat(*len)}]})
        }
        Said::Other(text) => serde_json::from_str(text).expect("a message"),
    };
    ProjectedMessage { message: Message::from_json(Json::of(&message).expect("JSON")), source: None }
}

/// A line of a random session: which earlier line it hangs from, what it is, and which line it is about.
type Line = (prop::sample::Index, usize, prop::sample::Index);

const KINDS: [&str; 14] = [
    r#""message","message":{"role":"user","content":"AT"}"#,
    r#""message","message":{"role":"assistant","content":[],"provider":"p","model":"AT"}"#,
    r#""message","message":{"role":"toolResult","toolCallId":"1","content":[]}"#,
    r#""message","message":{"role":"system","content":"AT"}"#,
    r#""compaction","summary":"AT","firstKeptEntryId":"TARGET""#,
    r#""compaction","summary":"AT","retainedTail":[{"role":"user","content":"AT"}]"#,
    r#""branch_summary","summary":"AT","fromId":"TARGET""#,
    r#""context_edit","targetId":"TARGET","replacement":null"#,
    r#""context_edit","targetId":"TARGET","replacement":{"content":"AT"}"#,
    r#""leaf","targetId":"TARGET""#,
    r#""model_change","provider":"p","modelId":"AT""#,
    r#""thinking_level_change","thinkingLevel":"AT""#,
    r#""active_tools_change","activeToolNames":["AT"]"#,
    r#""label","targetId":"TARGET","label":"AT""#,
];

/// The text of line `at`.
fn line(at: usize, (parent, kind, target): &Line, len: usize) -> String {
    let parent = match at {
        0 => "null".to_owned(),
        _ => format!("\"e{}\"", parent.index(at)),
    };
    let payload = KINDS[*kind].replace("AT", &at.to_string()).replace("TARGET", &format!("e{}", target.index(len)));
    format!(r#"{{"id":"e{at}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z","type":{payload}}}"#)
}

fn context(session: &PlainSession, leaf: EntryIndex) -> Projection {
    match project(&session.tree, Some(leaf), session, &[]) {
        Ok(projection) => projection,
        Err(never) => match never {},
    }
}

proptest! {
    #[test]
    fn messages_come_back_as_they_were_read(value in message()) {
        let text = value.to_string();
        let message = Message::from_json(Json::parse(&text).expect("JSON"));
        let written = serde_json::to_string(&message).expect("a message can be written");
        assert_keys_once(&written)?;
        assert_nothing_lost(&value, &serde_json::from_str(&written).expect("JSON"))?;
        let again = serde_json::to_string(&Message::from_json(Json::parse(&written).expect("JSON"))).expect("a message");
        prop_assert_eq!(again, written);
    }

    #[test]
    fn entries_come_back_as_they_were_read(value in payload()) {
        let text = value.to_string();
        let written = serde_json::to_string(&read_entry(&text)).expect("an entry can be written");
        assert_keys_once(&written)?;
        let mut expect = value;
        let object = expect.as_object_mut().expect("an object");
        object.extend([("id".to_owned(), json!("a")), ("parentId".to_owned(), Value::Null), ("timestamp".to_owned(), json!(""))]);
        assert_nothing_lost(&expect, &serde_json::from_str(&written).expect("JSON"))?;
    }

    #[test]
    fn any_json_is_a_message_of_some_kind(value in any_value()) {
        let message = Message::from_json(Json::of(&value).expect("JSON"));
        prop_assert_eq!(difference(&json!(message), &value), None);
    }

    #[test]
    fn each_call_has_one_result_and_each_result_its_call(
        context in prop::collection::vec(said(), 0..14),
        micro_compaction: bool,
        truncation: bool,
    ) {
        let options = RequestOptions { micro_compaction, truncation };
        let request = build_request(context.iter().map(projected).collect(), options);
        let mut open: Vec<String> = Vec::new();
        let mut spoken = 0;
        for projected in &request.messages {
            match &projected.message {
                Message::ToolResult(result) => {
                    let call = open.iter().position(|id| *id == result.tool_call_id);
                    prop_assert!(call.is_some(), "a result without an open call before it: {:?}", request.messages);
                    open.swap_remove(call.expect("asserted"));
                }
                other => {
                    prop_assert!(open.is_empty(), "a call without a result: {:?}", request.messages);
                    spoken += 1;
                    match other {
                        Message::Assistant(assistant) => {
                            prop_assert!(!assistant.is_failed());
                            open = assistant.tool_calls().map(|call| call.id.clone()).collect();
                        }
                        Message::User(user) => prop_assert!(user.content != Some(Content::default())),
                        other => prop_assert!(false, "a provider does not know {other:?}"),
                    }
                }
            }
        }
        prop_assert!(open.is_empty(), "a call without a result at the end: {:?}", request.messages);

        // Nothing but results, failed answers and what no provider gets is left out.
        let expect = context.iter().filter(|said| match said {
            Said::User | Said::Calls { failed: false, .. } => true,
            Said::Calls { failed: true, .. } | Said::Result(..) => false,
            Said::Other(text) => !["system", "martian", "exclude"].iter().any(|word| text.contains(word)),
        });
        prop_assert_eq!(spoken, expect.count());

        // What is paired stays as it is.
        let again = build_request(request.messages.clone(), RequestOptions::default());
        prop_assert_eq!(again.messages, request.messages);
    }

    #[test]
    fn the_context_depends_only_on_the_path(
        lines in prop::collection::vec(any::<Line>().prop_map(|(parent, kind, target)| (parent, kind % KINDS.len(), target)), 1..24),
        leaf: prop::sample::Index,
    ) {
        let mut whole = PlainSession::default();
        for (at, spec) in lines.iter().enumerate() {
            whole.push(&line(at, spec, lines.len()));
        }
        let leaf = whole.tree.iter_all().nth(leaf.index(lines.len())).expect("an entry");
        let path = whole.tree.path(Some(leaf));
        let mut alone = PlainSession::default();
        for index in &path {
            alone.push(&line(index.get(), &lines[index.get()], lines.len()));
        }
        let (ours, theirs) = (context(&whole, leaf), context(&alone, alone.last().expect("the leaf")));
        prop_assert_eq!((&ours.model, &ours.thinking_level, &ours.active_tool_names), (&theirs.model, &theirs.thinking_level, &theirs.active_tool_names));
        let reasons = |context: &Projection| context.path.iter().map(|(_, reason)| *reason).collect::<Vec<_>>();
        prop_assert_eq!(reasons(&ours), reasons(&theirs));
        prop_assert_eq!(ours.into_messages(), theirs.into_messages());
    }
}
