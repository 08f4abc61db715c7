//! What hooks can do in a run, in Rust and as programs.

use super::*;
use crate::agent::hook_program::HookProgram;
use crate::agent::hooks::*;
use crate::agent::tools::WritePaths;
use crate::agent::{ModelSource, tools};
use crate::llm::Secret;
use crate::session::message::{Content, CustomMessage};

/// Uses every hook of a run.
struct Everything(Seen<String>);

#[async_trait]
impl Hooks for Everything {
    async fn before_agent_start(&self, event: &BeforeAgentStart) -> Result<AgentStartAnswer, HookError> {
        self.0.add(format!("start {}", event.prompt));
        let note =
            CustomMessage { custom_type: "note".into(), content: Some(Content::Text("NOTE".into())), ..CustomMessage::default() };
        Ok(AgentStartAnswer { messages: vec![Message::Custom(note)], system_prompt: Some("SYSTEM".into()) })
    }
    async fn context(&self, event: &ContextEvent) -> Result<ContextAnswer, HookError> {
        let mut messages = event.messages.clone();
        messages.insert(0, Message::user("FIRST", 1));
        Ok(ContextAnswer { messages: Some(messages) })
    }
    async fn before_provider_request(&self, _event: &BeforeProviderRequest) -> Result<ProviderRequestAnswer, HookError> {
        let headers = vec![("x-trace".to_owned(), Secret::new("1"))];
        Ok(ProviderRequestAnswer { headers, timeout_ms: Some(5), max_retries: Some(2) })
    }
    async fn before_provider_payload(&self, _event: &ProviderPayload) -> Result<PayloadAnswer, HookError> {
        Ok(PayloadAnswer { payload: Json::parse("{\"mine\":true}").ok() })
    }
    async fn after_provider_response(&self, event: &ProviderResponse) -> Result<(), HookError> {
        self.0.add(format!("status {}", event.status));
        Ok(())
    }
    async fn tool_call(&self, event: &ToolCallEvent) -> Result<ToolCallAnswer, HookError> {
        Ok(ToolCallAnswer { block: event.tool_name == "rm", reason: Some("too dangerous".into()) })
    }
    async fn tool_result(&self, event: &ToolResultEvent) -> Result<ToolResultAnswer, HookError> {
        assert_eq!(event.content.joined_text(), "ok");
        let content = Some(Content::text_block("CHANGED"));
        Ok(ToolResultAnswer { content, is_error: Some(true), ..ToolResultAnswer::default() })
    }
    async fn prepare_next_turn(&self, event: &TurnEvent) -> Result<NextTurnAnswer, HookError> {
        let model = Some(ModelName { provider: "scripted".into(), model_id: "other".into() });
        let messages = if event.turn == 1 { vec![Message::user("BETWEEN", 1)] } else { Vec::new() };
        Ok(NextTurnAnswer { messages, model, thinking_level: Some("high".into()) })
    }
    async fn should_stop_after_turn(&self, event: &TurnEvent) -> Result<StopAnswer, HookError> {
        Ok(StopAnswer { stop: event.turn == 2 })
    }
}

struct Other(Arc<Scripted>);

impl ModelSource for Other {
    fn find(&self, _provider: &str, model_id: &str) -> Option<ServedModel> {
        let model = Model { id: model_id.to_owned(), ..Scripted::model() };
        Some(ServedModel { provider: self.0.clone(), model })
    }
}

#[tokio::test]
async fn each_hook_of_a_run_has_its_power() {
    let place = Place::new();
    let seen = Seen::new();
    let reply = Reply::new().call("probe", Json::empty_object()).call("rm", Json::empty_object());
    let other = Arc::new(Scripted::new([call("probe"), Step::text("never")]));
    let (harness, provider) = place.harness([Step::Reply(reply)], |options| {
        options.tools = vec![Probe::looking("probe", || {}), Probe::looking("rm", || panic!("it was blocked"))];
        options.hooks = vec![Arc::new(Everything(seen.clone()))];
        options.models = Some(Arc::new(Other(other.clone())));
    });
    assert_eq!(harness.prompt("hi").await.expect("a run").reason, EndReason::Stopped);
    assert_eq!(seen.all(), strings(&["start hi", "status 200", "status 200"]));
    let request = &provider.requests()[0];
    assert_eq!(request.system_prompt.as_deref(), Some("SYSTEM"));
    assert_eq!(request.messages.iter().map(short_message).collect::<Vec<_>>(), ["user FIRST", "user hi", "user NOTE"]);
    assert_eq!((request.options.timeout_ms, request.options.max_retries), (Some(5), Some(2)));
    assert_eq!(request.options.headers, [("x-trace".to_owned(), Secret::new("1"))]);
    assert_eq!(provider.payloads()[0].as_str(), "{\"mine\":true}");
    assert_eq!((other.requests()[0].model.id.as_str(), other.requests()[0].thinking_level.as_str()), ("other", "high"));
    let expect = [
        "session",
        "user hi",
        "custom note",
        "assistant",
        "toolResult CHANGED",
        "toolResult this call was blocked: too dangerous",
        "model other",
        "thinking high",
        "user BETWEEN",
        "assistant",
        "toolResult CHANGED",
    ];
    assert_eq!(place.lines(), expect);
}

#[tokio::test]
async fn results_that_all_terminate_end_the_run() {
    struct Ends(usize);
    #[async_trait]
    impl Hooks for Ends {
        async fn tool_result(&self, event: &ToolResultEvent) -> Result<ToolResultAnswer, HookError> {
            let terminate = Some(self.0 == 2 || event.tool_name == "a");
            Ok(ToolResultAnswer { terminate, ..ToolResultAnswer::default() })
        }
    }
    for (ending, reason) in [(1, EndReason::Done), (2, EndReason::Stopped)] {
        let place = Place::new();
        let both = Reply::new().call("a", Json::empty_object()).call("b", Json::empty_object());
        let (harness, _) = place.harness([Step::Reply(both), Step::text("done")], |options| {
            options.tools = vec![Probe::looking("a", || {}), Probe::looking("b", || {})];
            options.hooks = vec![Arc::new(Ends(ending))];
        });
        assert_eq!(harness.prompt("hi").await.expect("a run").reason, reason);
    }
}

/// A run of one call of `probe` with a program for every hook; the warnings and the lines of the file.
async fn with_program(kinds: &[HookKind], script: &str) -> (Vec<String>, Vec<String>, Arc<Scripted>) {
    let place = Place::new();
    let (harness, provider) = place.harness([call("probe"), Step::text("done")], |options| {
        let env = Arc::new(tools::Env::new(place.folder.path(), place.folder.path().join("out"), WritePaths::InsideCwd));
        let command = strings(&["sh", "-c", script]);
        let limit = std::time::Duration::from_millis(if script.contains("sleep") { 50 } else { 30_000 });
        options.hooks = vec![Arc::new(HookProgram::new(kinds.iter().copied(), command, env).with_limit(limit))];
        options.tools = vec![Probe::looking("probe", || {})];
    });
    let mut events = harness.subscribe();
    harness.prompt("hi").await.expect("a run");
    (warnings(&mut events), place.lines(), provider)
}

#[tokio::test]
async fn a_program_gets_the_event_as_json_with_its_type_first() {
    let (warned, lines, _) = with_program(
        &[HookKind::ToolCall],
        r#"read line; case "$line" in '{"type":"tool_call","toolCallId":"call_1","toolName":"probe","input":{}}') echo '{"block":true,"reason":"seen"}';; *) exit 3;; esac"#,
    )
    .await;
    assert_eq!((warned, lines[3].as_str()), (Vec::new(), "toolResult this call was blocked: seen"));
}

#[tokio::test]
async fn a_program_changes_what_it_answers_and_nothing_else() {
    for kind in HookKind::ALL {
        let (warned, lines, _) = with_program(&[kind], "cat >/dev/null").await;
        let expect = ["session", "user hi", "assistant", "toolResult ok", "assistant done"];
        assert_eq!((warned, lines), (Vec::new(), strings(&expect)), "{kind:?}");
    }
    let changed = [
        (HookKind::ToolResult, r#"echo '{"content":[{"type":"text","text":"X"}],"isError":true}'"#, 3, "toolResult X"),
        (HookKind::ShouldStopAfterTurn, r#"echo '{"stop":true}'"#, 3, "toolResult ok"),
        (
            HookKind::PrepareNextTurn,
            r#"grep -q '"turn":1,' && echo '{"messages":[{"role":"user","content":"M"}],"thinkingLevel":"low"}'; true"#,
            5,
            "user M",
        ),
        (HookKind::BeforeAgentStart, r#"echo '{"messages":[{"role":"custom","customType":"c","content":"C"}]}'"#, 2, "custom c"),
    ];
    for (kind, script, at, expect) in changed {
        let (warned, lines, _) = with_program(&[kind], script).await;
        assert_eq!((warned, lines[at].as_str()), (Vec::new(), expect), "{kind:?}");
    }
    let script =
        r#"echo '{"streamOptions":{"headers":{"x-a":"b"},"timeoutMs":7},"messages":[{"role":"user","content":"ONLY"}]}'"#;
    let (warned, _, provider) = with_program(&[HookKind::Context, HookKind::BeforeProviderRequest], script).await;
    let request = &provider.requests()[0];
    assert_eq!(warned, Vec::<String>::new());
    assert_eq!((request.messages.len(), request.options.timeout_ms, request.options.headers.len()), (1, Some(7), 1));
}

#[tokio::test]
async fn a_program_that_fails_or_is_late_blocks_a_call_and_is_passed_over_elsewhere() {
    for (script, expect) in [
        ("echo oh no >&2; exit 3", "sh: ended with exit code 3: oh no"),
        ("sleep 10", "sh: did not answer within 50 ms"),
        ("echo '{broken'", "sh: its answer is no JSON"),
        ("echo '[]'", "sh: its answer is no JSON object"),
        ("echo '{\"block\":1,\"isError\":1}'", "of its answer: invalid type"),
    ] {
        let (warned, lines, _) = with_program(&[HookKind::ToolCall], script).await;
        assert!(warned.is_empty() && lines[3].contains(expect), "{script}: {warned:?} {}", lines[3]);
        assert!(lines[3].starts_with("toolResult this call was blocked: the tool_call hook failed"));
        let (warned, lines, _) = with_program(&[HookKind::ToolResult], script).await;
        assert_eq!(lines[3], "toolResult ok");
        assert!(warned.len() == 1 && warned[0].contains(expect) && warned[0].contains("tool_result"), "{script}: {warned:?}");
    }
    let env = Arc::new(tools::Env::new("/", "/tmp", WritePaths::InsideCwd));
    let missing = HookProgram::new([HookKind::Context], strings(&["/nowhere/to/be/found"]), env);
    assert!(missing.context(&ContextEvent { messages: Vec::new() }).await.is_err());
}

#[tokio::test]
async fn hooks_see_what_those_before_them_left_and_a_failure_stops_nobody() {
    struct Adds(&'static str);
    #[async_trait]
    impl Hooks for Adds {
        async fn tool_result(&self, event: &ToolResultEvent) -> Result<ToolResultAnswer, HookError> {
            let content = Some(Content::text_block(event.content.joined_text() + self.0));
            match self.0 {
                "" => Err(HookError("broken".into())),
                _ => Ok(ToolResultAnswer { content, ..ToolResultAnswer::default() }),
            }
        }
    }
    let place = Place::new();
    let (harness, _) = place.harness([call("probe"), Step::text("done")], |options| {
        options.tools = vec![Probe::looking("probe", || {})];
        options.hooks = vec![Arc::new(Adds("1")), Arc::new(Adds("")), Arc::new(Adds("2"))];
    });
    let mut events = harness.subscribe();
    harness.prompt("hi").await.expect("a run");
    assert_eq!(place.lines()[3], "toolResult ok12");
    assert_eq!(warnings(&mut events), ["the hook tool_result failed and was passed over: broken"]);
}

#[test]
fn names_lead_to_hooks_and_header_values_are_not_shown() {
    assert!(HookKind::ALL.into_iter().all(|kind| HookKind::from_name(kind.as_str()) == Some(kind)));
    let stream_options =
        crate::llm::StreamOptions { headers: vec![("x-key".into(), Secret::new("hush-hush"))], ..Default::default() };
    let model = ModelName { provider: "p".into(), model_id: "m".into() };
    let event = BeforeProviderRequest { model, session_id: None, stream_options };
    let expect = r#"{"model":{"provider":"p","modelId":"m"},"sessionId":null,"streamOptions":{"headers":{"x-key":null},"timeoutMs":null,"maxRetries":null}}"#;
    assert_eq!(Json::of(&event).expect("JSON").as_str(), expect);
}

#[tokio::test]
async fn an_abort_does_not_wait_for_a_hook() {
    struct Hangs(Arc<Notify>);
    #[async_trait]
    impl Hooks for Hangs {
        async fn tool_call(&self, _event: &ToolCallEvent) -> Result<ToolCallAnswer, HookError> {
            self.0.notify_one();
            std::future::pending().await
        }
    }
    let place = Place::new();
    let asked = Arc::new(Notify::new());
    let (harness, _) = place.harness([call("probe")], |options| {
        options.tools = vec![Probe::looking("probe", || panic!("it was not allowed"))];
        options.hooks = vec![Arc::new(Hangs(asked.clone()))];
    });
    let (outcome, ()) = tokio::join!(harness.prompt("hi"), async {
        asked.notified().await;
        harness.abort();
    });
    assert_eq!(outcome.expect("a run").reason, EndReason::Aborted);
    assert!(place.lines()[3].contains("the user aborted the run before the tool_call hook had answered"));
}

#[tokio::test]
async fn a_hook_that_asks_for_a_model_that_is_not_there_is_told() {
    struct Asks;
    #[async_trait]
    impl Hooks for Asks {
        async fn prepare_next_turn(&self, _event: &TurnEvent) -> Result<NextTurnAnswer, HookError> {
            let model = Some(ModelName { provider: "no".into(), model_id: "such".into() });
            let messages = vec![Message::user("later", 1), Message::System(Default::default())];
            Ok(NextTurnAnswer { model, messages, ..NextTurnAnswer::default() })
        }
        async fn should_stop_after_turn(&self, _event: &TurnEvent) -> Result<StopAnswer, HookError> {
            Ok(StopAnswer { stop: true })
        }
    }
    let place = Place::new();
    let (harness, provider) = place.harness([Step::text("a"), Step::text("b")], |options| options.hooks = vec![Arc::new(Asks)]);
    let mut events = harness.subscribe();
    harness.prompt("one").await.expect("a run");
    let expect = [
        "the hook prepare_next_turn failed and was passed over: a message of role system cannot be added",
        "there is no model no/such, so the model stays",
    ];
    assert_eq!(warnings(&mut events), expect);
    harness.prompt("two").await.expect("a run");
    let sent: Vec<_> = provider.requests()[1].messages.iter().map(short_message).collect();
    assert_eq!(sent, ["user one", "assistant a", "user later", "user two"], "what had no turn goes with the next prompt");
}

#[tokio::test]
async fn retries_of_a_provider_are_told() {
    struct Flaky(Scripted);
    #[async_trait]
    impl crate::llm::Provider for Flaky {
        fn api(&self) -> &'static str {
            self.0.api()
        }
        async fn stream(
            &self,
            request: &crate::llm::Request,
            exchange: &dyn crate::llm::Exchange,
            abort: &tokio_util::sync::CancellationToken,
        ) -> Result<crate::llm::EventStream, ProviderError> {
            let busy = ProviderError::Busy { address: "x".into(), status: 529, detail: "full".into(), retry_after_ms: None };
            exchange.before_retry(1, std::time::Duration::from_millis(7), &busy).await;
            self.0.stream(request, exchange, abort).await
        }
    }
    let place = Place::new();
    let (harness, _) = place.harness([], |options| {
        options.served.provider = Arc::new(Flaky(Scripted::new([Step::text("done")])));
    });
    let mut events = harness.subscribe();
    harness.prompt("hi").await.expect("a run");
    let told = std::iter::from_fn(|| events.try_next()).find_map(|event| match &*event {
        AgentEvent::Retry { tries, delay_ms, error } => Some((*tries, *delay_ms, error.clone())),
        _ => None,
    });
    assert_eq!(told, Some((1, 7, "x cannot answer now (status 529): full".to_owned())));
}
