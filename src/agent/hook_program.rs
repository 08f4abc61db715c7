//! A hook that is a program: the event as JSON on its standard input, the answer as JSON on its standard output.
//!
//! # Invariants
//! - The event is one line, `type` first. Nothing on standard output is no change.
//! - A program that ends with another exit code than 0, prints something else than a JSON object, or takes longer than the
//!   limit has failed; what it may still run is killed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use super::hooks::{
    AgentStartAnswer, BeforeAgentStart, BeforeCompactAnswer, BeforeProviderRequest, BeforeTreeAnswer, ContextAnswer,
    ContextEvent, HookError, HookKind, HookSummary, Hooks, ModelName, NextTurnAnswer, PayloadAnswer, ProviderPayload,
    ProviderRequestAnswer, ProviderResponse, SessionBeforeCompact, SessionBeforeTree, StopAnswer, ToolCallAnswer, ToolCallEvent,
    ToolResultAnswer, ToolResultEvent, TurnEvent,
};
use super::tools::Env;
use crate::llm::Secret;
use crate::session::json::{Fields, Json, well_formed};
use crate::session::message::Message;

/// How long a program may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A program that is asked at some points.
#[derive(Clone, Debug)]
pub struct HookProgram {
    kinds: HashSet<HookKind>,
    /// The program and its arguments.
    command: Vec<String>,
    env: Arc<Env>,
    limit: Duration,
}

impl HookProgram {
    /// Asks `command`, a program and its arguments, for the hooks in `kinds`. It runs in the folder of `env`.
    pub fn new(kinds: impl IntoIterator<Item = HookKind>, command: Vec<String>, env: Arc<Env>) -> Self {
        Self { kinds: kinds.into_iter().collect(), command, env, limit: TIME_LIMIT }
    }

    /// Sets another time limit.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the program; `None` when it printed nothing.
    async fn ask<E: Serialize>(&self, kind: HookKind, event: &E) -> Result<Option<Answer>, HookError> {
        if !self.kinds.contains(&kind) {
            return Ok(None);
        }
        let name = self.command.first().cloned().unwrap_or_default();
        let failed = |what: &dyn std::fmt::Display| HookError(format!("{name}: {what}"));
        // The type goes in front of the text: flattening would not keep raw JSON.
        let text = Json::of(event).map_err(|error| failed(&error))?;
        let fields = text.as_str().strip_prefix('{').unwrap_or("}");
        let comma = if fields == "}" { "" } else { "," };
        let line = format!("{{\"type\":\"{}\"{comma}{fields}\n", kind.as_str());
        let output = self.env.run_program(&self.command, line.into_bytes(), self.limit).await.map_err(|error| failed(&error))?;
        let text = well_formed(&output);
        if text.trim().is_empty() {
            return Ok(None);
        }
        let answer = Json::parse(text.trim()).map_err(|error| failed(&format!("its answer is no JSON: {error}")))?;
        if answer.is_null() {
            return Ok(None);
        }
        match answer.fields().is_some() {
            true => Ok(Some(Answer(answer))),
            false => Err(failed(&"its answer is no JSON object")),
        }
    }
}

/// The object that a program printed.
struct Answer(Json);

impl Answer {
    fn fields(&self) -> Fields<'_> {
        self.0.fields().unwrap_or_default()
    }

    /// A field, absent or null where it says nothing.
    fn get<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, HookError> {
        let fields = self.fields();
        match fields.text(name) {
            None | Some("null") => Ok(None),
            Some(text) => {
                serde_json::from_str(text).map(Some).map_err(|error| HookError(format!("{name} of its answer: {error}")))
            }
        }
    }

    fn json(&self, name: &str) -> Option<Json> {
        self.fields().text(name).filter(|text| *text != "null").and_then(|text| Json::parse(text).ok())
    }

    fn is_true(&self, name: &str) -> Result<bool, HookError> {
        Ok(self.get(name)?.unwrap_or(false))
    }

    fn messages(&self) -> Result<Option<Vec<Message>>, HookError> {
        let messages: Option<Vec<Json>> = self.get("messages")?;
        let messages: Option<Vec<_>> = messages.map(|messages| messages.into_iter().map(Message::from_json).collect());
        match messages.iter().flatten().any(|message| matches!(message, Message::Unknown(_))) {
            true => Err(HookError("messages of its answer: one is no message".to_owned())),
            false => Ok(messages),
        }
    }
}

#[async_trait]
impl Hooks for HookProgram {
    fn takes(&self, kind: HookKind) -> bool {
        self.kinds.contains(&kind)
    }

    async fn before_agent_start(&self, event: &BeforeAgentStart) -> Result<AgentStartAnswer, HookError> {
        let Some(answer) = self.ask(HookKind::BeforeAgentStart, event).await? else { return Ok(Default::default()) };
        Ok(AgentStartAnswer { messages: answer.messages()?.unwrap_or_default(), system_prompt: answer.get("systemPrompt")? })
    }

    async fn context(&self, event: &ContextEvent) -> Result<ContextAnswer, HookError> {
        let Some(answer) = self.ask(HookKind::Context, event).await? else { return Ok(Default::default()) };
        Ok(ContextAnswer { messages: answer.messages()? })
    }

    async fn before_provider_request(&self, event: &BeforeProviderRequest) -> Result<ProviderRequestAnswer, HookError> {
        let kind = HookKind::BeforeProviderRequest;
        let Some(answer) = self.ask(kind, event).await? else { return Ok(Default::default()) };
        let Some(options) = answer.json("streamOptions").map(Answer) else { return Ok(Default::default()) };
        let headers = options.json("headers");
        let headers = headers.as_ref().and_then(Json::fields).unwrap_or_default();
        let headers = headers.iter().filter_map(|(name, value)| {
            serde_json::from_str::<String>(value).ok().map(|value| (name.to_owned(), Secret::new(value)))
        });
        Ok(ProviderRequestAnswer {
            headers: headers.collect(),
            timeout_ms: options.get("timeoutMs")?,
            max_retries: options.get("maxRetries")?,
        })
    }

    async fn before_provider_payload(&self, event: &ProviderPayload) -> Result<PayloadAnswer, HookError> {
        let kind = HookKind::BeforeProviderPayload;
        let Some(answer) = self.ask(kind, event).await? else { return Ok(Default::default()) };
        Ok(PayloadAnswer { payload: answer.json("payload") })
    }

    async fn after_provider_response(&self, event: &ProviderResponse) -> Result<(), HookError> {
        self.ask(HookKind::AfterProviderResponse, event).await.map(drop)
    }

    async fn tool_call(&self, event: &ToolCallEvent) -> Result<ToolCallAnswer, HookError> {
        let Some(answer) = self.ask(HookKind::ToolCall, event).await? else { return Ok(Default::default()) };
        Ok(ToolCallAnswer { block: answer.is_true("block")?, reason: answer.get("reason")? })
    }

    async fn tool_result(&self, event: &ToolResultEvent) -> Result<ToolResultAnswer, HookError> {
        let Some(answer) = self.ask(HookKind::ToolResult, event).await? else { return Ok(Default::default()) };
        Ok(ToolResultAnswer {
            content: answer.get("content")?,
            details: answer.json("details"),
            is_error: answer.get("isError")?,
            terminate: answer.get("terminate")?,
        })
    }

    async fn session_before_compact(&self, event: &SessionBeforeCompact) -> Result<BeforeCompactAnswer, HookError> {
        let kind = HookKind::SessionBeforeCompact;
        let Some(answer) = self.ask(kind, event).await? else { return Ok(Default::default()) };
        Ok(BeforeCompactAnswer { cancel: answer.is_true("cancel")?, compaction: summary(&answer, "compaction")? })
    }

    async fn session_before_tree(&self, event: &SessionBeforeTree) -> Result<BeforeTreeAnswer, HookError> {
        let kind = HookKind::SessionBeforeTree;
        let Some(answer) = self.ask(kind, event).await? else { return Ok(Default::default()) };
        Ok(BeforeTreeAnswer {
            cancel: answer.is_true("cancel")?,
            summary: summary(&answer, "summary")?,
            custom_instructions: answer.get("customInstructions")?,
            label: answer.get("label")?,
        })
    }

    async fn prepare_next_turn(&self, event: &TurnEvent) -> Result<NextTurnAnswer, HookError> {
        let kind = HookKind::PrepareNextTurn;
        let Some(answer) = self.ask(kind, event).await? else { return Ok(Default::default()) };
        let model = match answer.json("model") {
            Some(json) => match json.to::<String>() {
                Some(name) => {
                    let parts = name.split_once('/');
                    let (provider, model_id) = parts.ok_or_else(|| HookError("model is not PROVIDER/MODEL".to_owned()))?;
                    Some(ModelName { provider: provider.to_owned(), model_id: model_id.to_owned() })
                }
                None => answer.get("model")?,
            },
            None => None,
        };
        let messages = answer.messages()?.unwrap_or_default();
        Ok(NextTurnAnswer { messages, model, thinking_level: answer.get("thinkingLevel")? })
    }

    async fn should_stop_after_turn(&self, event: &TurnEvent) -> Result<StopAnswer, HookError> {
        let kind = HookKind::ShouldStopAfterTurn;
        let Some(answer) = self.ask(kind, event).await? else { return Ok(Default::default()) };
        Ok(StopAnswer { stop: answer.is_true("stop")? })
    }
}

/// A summary, as an object or as its text alone.
fn summary(answer: &Answer, name: &str) -> Result<Option<HookSummary>, HookError> {
    match answer.json(name).and_then(|json| json.to::<String>()) {
        Some(summary) => Ok(Some(HookSummary { summary, details: None })),
        None => answer.get(name),
    }
}
