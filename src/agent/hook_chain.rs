//! Asks several hooks as if they were one.
//!
//! # Invariants
//! - They are asked in order, and each sees what those before it left.
//! - A failure is reported and passed over, but for `tool_call`, where it blocks the call.
//! - An abort ends the wait for a hook; what it would have answered is nothing.

use std::sync::Arc;

use super::activity::Status;
use super::event::{EventSink, Warning};
use super::hooks::{
    AgentStartAnswer, BeforeAgentStart, BeforeCompactAnswer, BeforeProviderRequest, BeforeTreeAnswer, ContextEvent, HookError,
    HookKind, Hooks, NextTurnAnswer, ProviderPayload, ProviderResponse, SessionBeforeCompact, SessionBeforeTree, ToolCallAnswer,
    ToolCallEvent, ToolResultEvent, TurnEvent,
};
use crate::session::json::Json;
use crate::session::message::Message;

/// Why there is no answer.
enum Unheard {
    Failed(HookError),
    Aborted,
}

/// The hooks of an agent.
pub(crate) struct HookChain {
    hooks: Vec<Arc<dyn Hooks>>,
    events: Arc<EventSink>,
    status: Arc<Status>,
}

impl HookChain {
    pub fn new(hooks: Vec<Arc<dyn Hooks>>, events: Arc<EventSink>, status: Arc<Status>) -> Self {
        Self { hooks, events, status }
    }

    /// Whether anybody takes part, so that the event is worth building.
    pub fn takes(&self, kind: HookKind) -> bool {
        self.hooks.iter().any(|hook| hook.takes(kind))
    }

    fn of(&self, kind: HookKind) -> impl Iterator<Item = &Arc<dyn Hooks>> {
        self.hooks.iter().filter(move |hook| hook.takes(kind))
    }

    /// The answer, or its default after a report.
    async fn heard<T: Default>(&self, kind: HookKind, asked: impl Future<Output = Result<T, HookError>>) -> T {
        match self.asked(asked).await {
            Ok(answer) => answer,
            Err(Unheard::Aborted) => T::default(),
            Err(Unheard::Failed(HookError(error))) => {
                self.events.warn(Warning::HookFailed { hook: kind.as_str(), error });
                T::default()
            }
        }
    }

    /// The answer, if it comes before an abort.
    async fn asked<T>(&self, asked: impl Future<Output = Result<T, HookError>>) -> Result<T, Unheard> {
        let abort = self.status.token();
        tokio::select! {
            biased;
            answer = asked => answer.map_err(Unheard::Failed),
            () = abort.cancelled() => Err(Unheard::Aborted),
        }
    }

    /// Messages of the roles that may be added; a hook that gives others is told.
    fn addable(&self, kind: HookKind, messages: Vec<Message>) -> Vec<Message> {
        let (good, bad): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| matches!(message, Message::User(_) | Message::Custom(_)));
        if let Some(message) = bad.first() {
            let error = format!("a message of role {} cannot be added", message.role().as_wire());
            self.events.warn(Warning::HookFailed { hook: kind.as_str(), error });
        }
        good
    }

    pub async fn before_agent_start(&self, mut event: BeforeAgentStart) -> AgentStartAnswer {
        let kind = HookKind::BeforeAgentStart;
        let mut messages = Vec::new();
        for hook in self.of(kind) {
            let answer = self.heard(kind, hook.before_agent_start(&event)).await;
            messages.extend(self.addable(kind, answer.messages));
            if let Some(system_prompt) = answer.system_prompt {
                event.system_prompt = system_prompt;
            }
        }
        AgentStartAnswer { messages, system_prompt: Some(event.system_prompt) }
    }

    pub async fn context(&self, mut event: ContextEvent) -> Vec<Message> {
        for hook in self.of(HookKind::Context) {
            if let Some(messages) = self.heard(HookKind::Context, hook.context(&event)).await.messages {
                event.messages = messages;
            }
        }
        event.messages
    }

    pub async fn before_provider_request(&self, mut event: BeforeProviderRequest) -> BeforeProviderRequest {
        let kind = HookKind::BeforeProviderRequest;
        for hook in self.of(kind) {
            let answer = self.heard(kind, hook.before_provider_request(&event)).await;
            let options = &mut event.stream_options;
            for (name, value) in answer.headers {
                options.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
                options.headers.push((name, value));
            }
            options.timeout_ms = answer.timeout_ms.or(options.timeout_ms);
            options.max_retries = answer.max_retries.or(options.max_retries);
        }
        event
    }

    pub async fn before_provider_payload(&self, payload: Json) -> Json {
        let mut event = ProviderPayload { payload };
        for hook in self.of(HookKind::BeforeProviderPayload) {
            let answer = self.heard(HookKind::BeforeProviderPayload, hook.before_provider_payload(&event)).await;
            if let Some(payload) = answer.payload {
                event.payload = payload;
            }
        }
        event.payload
    }

    pub async fn after_provider_response(&self, event: &ProviderResponse) {
        for hook in self.of(HookKind::AfterProviderResponse) {
            self.heard(HookKind::AfterProviderResponse, hook.after_provider_response(event)).await;
        }
    }

    /// The first hook that blocks the call, or fails, decides.
    pub async fn tool_call(&self, event: &ToolCallEvent) -> ToolCallAnswer {
        for hook in self.of(HookKind::ToolCall) {
            let reason = match self.asked(hook.tool_call(event)).await {
                Ok(answer) if answer.block => return answer,
                Ok(_) => continue,
                Err(Unheard::Aborted) => "the user aborted the run before the tool_call hook had answered".to_owned(),
                Err(Unheard::Failed(error)) => format!("the tool_call hook failed: {error}"),
            };
            return ToolCallAnswer { block: true, reason: Some(reason) };
        }
        ToolCallAnswer::default()
    }

    /// The result as the hooks leave it, and whether it may end the run.
    pub async fn tool_result(&self, mut event: ToolResultEvent) -> (ToolResultEvent, Option<bool>) {
        let mut terminate = None;
        for hook in self.of(HookKind::ToolResult) {
            let answer = self.heard(HookKind::ToolResult, hook.tool_result(&event)).await;
            event.content = answer.content.unwrap_or(event.content);
            event.details = answer.details.or(event.details);
            event.is_error = answer.is_error.unwrap_or(event.is_error);
            terminate = answer.terminate.or(terminate);
        }
        (event, terminate)
    }

    /// The first hook that cancels or gives a summary decides.
    pub async fn session_before_compact(&self, event: &SessionBeforeCompact) -> BeforeCompactAnswer {
        let kind = HookKind::SessionBeforeCompact;
        for hook in self.of(kind) {
            let answer = self.heard(kind, hook.session_before_compact(event)).await;
            if answer.cancel || answer.compaction.is_some() {
                return answer;
            }
        }
        BeforeCompactAnswer::default()
    }

    /// The first hook that cancels decides; of the rest the last word on each point counts.
    pub async fn session_before_tree(&self, event: &SessionBeforeTree) -> BeforeTreeAnswer {
        let kind = HookKind::SessionBeforeTree;
        let mut all = BeforeTreeAnswer::default();
        for hook in self.of(kind) {
            let answer = self.heard(kind, hook.session_before_tree(event)).await;
            if answer.cancel {
                return answer;
            }
            all.summary = answer.summary.or(all.summary);
            all.custom_instructions = answer.custom_instructions.or(all.custom_instructions);
            all.label = answer.label.or(all.label);
        }
        all
    }

    pub async fn prepare_next_turn(&self, event: &TurnEvent) -> NextTurnAnswer {
        let kind = HookKind::PrepareNextTurn;
        let mut all = NextTurnAnswer::default();
        for hook in self.of(kind) {
            let answer = self.heard(kind, hook.prepare_next_turn(event)).await;
            all.messages.extend(self.addable(kind, answer.messages));
            all.model = answer.model.or(all.model);
            all.thinking_level = answer.thinking_level.or(all.thinking_level);
        }
        all
    }

    pub async fn should_stop_after_turn(&self, event: &TurnEvent) -> bool {
        for hook in self.of(HookKind::ShouldStopAfterTurn) {
            if self.heard(HookKind::ShouldStopAfterTurn, hook.should_stop_after_turn(event)).await.stop {
                return true;
            }
        }
        false
    }
}
