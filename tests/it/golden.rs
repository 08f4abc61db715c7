//! Files that Pi and its older harness wrote or read: we make of them what they do (`fixtures/README.md`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pi_sessions::session::context::{ModelRef, Projection, project};
use pi_sessions::session::entry::Entry;
use pi_sessions::session::labels::SessionName;
use pi_sessions::session::message::{Message, Role};
use pi_sessions::session::request::{RequestOptions, build_request, to_request_message};
use pi_sessions::session::stats::StatsFold;
use pi_sessions::session::tree::{EntryIndex, SessionTree};
use pi_sessions::storage::SessionRead;
use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::handle::Reading;
use pi_sessions::storage::jsonl::JsonlStorage;
use serde_json::{Value, json};

use crate::support::json::assert_same;

/// One fixture: a session file and what the reference makes of it.
struct Case {
    name: String,
    input: PathBuf,
    session: JsonlStorage,
    expect: Value,
}

impl Case {
    fn tree(&self) -> &SessionTree {
        self.session.tree()
    }

    /// Each line, of old versions as it reads in version 3, and its entry.
    fn entries(&self) -> Vec<(Vec<u8>, Entry)> {
        let read = |index| {
            let entry = self.session.entry(index).expect("a line").expect("an entry");
            (self.session.line(index).expect("a line"), entry)
        };
        self.tree().iter_all().map(read).collect()
    }
}

/// The cases of `fixtures/AREA` whose name begins with `prefix`.
fn cases(area: &str, prefix: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(area);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("the fixtures of the area")
        .map(|entry| entry.expect("a case").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect();
    paths.sort();
    let read = |path: &Path| std::fs::read(path).expect("a file of the case");
    paths
        .iter()
        .map(|path| {
            let input = path.join("input.jsonl");
            Case {
                name: path.file_name().expect("a case has a name").to_string_lossy().into_owned(),
                session: JsonlStorage::open(Arc::new(StdFs), &input).expect("a session"),
                input,
                expect: serde_json::from_slice(&read(&path.join("context.json"))).expect("what we expect is JSON"),
            }
        })
        .collect()
}

fn context_at(case: &Case, leaf: Option<EntryIndex>) -> Projection {
    project(case.tree(), leaf, &Reading(&case.session), &[]).expect("a context")
}

/// The context of Pi, and which messages a provider gets.
fn check_context(case: &Case, projection: &Projection) {
    let messages: Vec<_> = projection.messages.iter().map(|projected| projected.message.clone()).collect();
    let shown = |key: &str| format!("{}: {key}", case.name);
    assert_same(&shown("messages"), &json!(messages), &case.expect["messages"]);
    let model =
        projection.model.as_ref().map(|ModelRef { provider, model_id }| json!({"provider": provider, "modelId": model_id}));
    assert_same(&shown("model"), &json!(model), &case.expect["model"]);
    assert_same(&shown("thinkingLevel"), &json!(projection.thinking_level), &case.expect["thinkingLevel"]);

    let expect = case.expect["llm"].as_array().expect("llm is an array");
    let requests: Vec<_> = messages
        .into_iter()
        .filter_map(|message| to_request_message(message.clone()).map(|request| (message, request)))
        .collect();
    let order = |role: Role, timestamp: Option<i64>| format!("{} {timestamp:?}", role.as_wire());
    let ours: Vec<_> = requests.iter().map(|(_, request)| order(request.role(), request.timestamp())).collect();
    let theirs: Vec<_> = expect
        .iter()
        .map(|message| order(Role::from_wire(message["role"].as_str().unwrap_or_default()), message["timestamp"].as_i64()))
        .collect();
    assert_eq!(ours, theirs, "{}", shown("llm"));
    for (at, ((message, request), expect)) in requests.iter().zip(expect).enumerate() {
        let shown = shown(&format!("llm {at}"));
        let holds = |text: &str| assert!(request.text().contains(text), "{shown}: {text:?} stands whole in {:?}", request.text());
        match message {
            // The words around these are our own.
            Message::BashExecution(run) => {
                holds(&run.command);
                holds(&run.output);
            }
            Message::BranchSummary(message) => holds(&message.summary),
            Message::CompactionSummary(message) => holds(&message.summary),
            Message::User(_)
            | Message::Assistant(_)
            | Message::ToolResult(_)
            | Message::Custom(_)
            | Message::System(_)
            | Message::Unknown(_) => assert_same(&shown, &json!(request), expect),
        }
    }
}

/// Pi starts at the last line. Our leaf may stand elsewhere, by design: it follows `leaf` entries, and a stray name or
/// label does not move it. No case here is of that kind, which this asserts, so each is built at our own leaf.
fn check_pi(case: &Case) {
    assert_eq!(case.tree().leaf(), case.tree().iter_all().next_back(), "{}", case.name);
    check_context(case, &context_at(case, case.tree().leaf()));
}

#[test]
fn contexts_are_those_of_pi() {
    let cases = cases("context", "pi-");
    assert_eq!(cases.len(), 40);
    cases.iter().for_each(check_pi);
}

#[test]
fn the_system_prompt_is_that_of_pi() {
    for case in cases("context", "pi-").into_iter().chain(cases("pi", "v3-")) {
        let expect = std::fs::read(case.input.with_file_name("system.json")).expect("what we expect of the prompt");
        let expect: Value = serde_json::from_slice(&expect).expect("what we expect is JSON");
        let request = build_request(context_at(&case, case.tree().leaf()).messages, RequestOptions::default());
        assert_same(&case.name, &json!(request.system.prompt().unwrap_or_default()), &expect["prompt"]);
        // Pi takes the time of the first message.
        let timestamp = expect["message"]["timestamp"].as_i64().unwrap_or_default();
        let state = request.system.to_message(timestamp).map(Message::System);
        assert_same(&case.name, &json!(state), &expect["message"]);
    }
}

#[test]
fn files_written_by_pi_give_its_context() {
    let cases = cases("pi", "");
    assert_eq!(cases.len(), 4);
    cases.iter().for_each(check_pi);
}

#[test]
fn contexts_names_and_sums_are_those_of_the_harness() {
    let cases = cases("context", "harness-");
    assert_eq!(cases.len(), 40);
    for case in &cases {
        let leaf = case.tree().leaf();
        let projection = context_at(case, leaf);
        check_context(case, &projection);
        let shown = |key: &str| format!("{}: {key}", case.name);
        assert_same(&shown("activeToolNames"), &json!(projection.active_tool_names), &case.expect["activeToolNames"]);
        assert_same(&shown("leafId"), &json!(leaf.map(|leaf| case.tree().id(leaf))), &case.expect["leafId"]);

        let (mut name, mut stats) = (SessionName::default(), StatsFold::default());
        for (_, entry) in &case.entries() {
            name.add(entry);
            stats.add(entry);
        }
        assert_same(&shown("name"), &json!(name.get()), &case.expect["name"]);
        // The harness leaves out `usage` entries and the usage of tool results, and usage without a cost. No case has
        // any of these, so all its sums are ours.
        let stats = stats.stats();
        let sums = json!({
            "messageCount": stats.messages,
            "cachedTokens": stats.tokens.cache_read,
            "uncachedTokens": stats.tokens.input + stats.tokens.cache_write,
            "totalTokens": stats.tokens.total(),
            "costTotal": stats.cost,
        });
        assert_same(&shown("stats"), &sums, &case.expect["stats"]);
    }
}

/// Every line of every fixture comes back from its values as it was.
#[test]
fn entries_are_written_as_they_were_read() {
    for case in cases("context", "").into_iter().chain(cases("pi", "")) {
        for (line, entry) in case.entries() {
            let line: Value = serde_json::from_slice(&line).expect("a line");
            assert_same(&case.name, &json!(entry), &line);
        }
    }
}
