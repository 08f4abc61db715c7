//! What agents in memory and on disk share: the model in use, the tools, the hooks, and how a request is sent.
//!
//! # Invariants
//! - Every request goes through the hooks of providers, those for summaries too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::activity::Status;
use super::event::{AgentEvent, EventSink, Warning};
use super::hook_chain::HookChain;
use super::hooks::{BeforeProviderRequest, HookKind, Hooks, ModelName, ProviderResponse};
use super::prompt::SystemPrompt;
use super::queue::{QueueModes, Queues};
use super::tools::Tool;
use super::{AgentError, ModelSource, Prompt, ServedModel};
use crate::llm::{EventStream, Exchange, Provider, ProviderError, Request, StreamOptions, ToolDeclaration};
use crate::session::json::Json;
use crate::session::message::{Message, UserMessage};
use crate::storage::Clock;

/// What can change while an agent lives.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub served: ServedModel,
    pub thinking_level: String,
    /// The names of the tools that the model may call; `None` is all.
    pub active_tools: Option<Vec<String>>,
}

/// What is needed to build a [`Core`].
pub(crate) struct CoreParts {
    pub live: Live,
    pub tools: Vec<Arc<dyn Tool>>,
    pub hooks: Vec<Arc<dyn Hooks>>,
    pub models: Option<Arc<dyn ModelSource>>,
    pub prompt: SystemPrompt,
    pub stream: StreamOptions,
    pub queue_modes: QueueModes,
    pub max_turns: u32,
    pub session_id: Option<String>,
    pub clock: Arc<dyn Clock>,
}

/// What every agent has.
pub(crate) struct Core {
    pub events: Arc<EventSink>,
    pub hooks: HookChain,
    pub queues: Queues,
    pub status: Arc<Status>,
    pub clock: Arc<dyn Clock>,
    pub tools: Vec<Arc<dyn Tool>>,
    pub models: Option<Arc<dyn ModelSource>>,
    pub prompt: SystemPrompt,
    pub max_turns: u32,
    pub session_id: Option<String>,
    stream: StreamOptions,
    live: Mutex<Live>,
}

impl Core {
    pub fn new(parts: CoreParts) -> Self {
        let (events, status) = (Arc::new(EventSink::default()), Arc::new(Status::default()));
        Self {
            hooks: HookChain::new(parts.hooks, events.clone(), status.clone()),
            events,
            queues: Queues::new(parts.queue_modes),
            status,
            clock: parts.clock,
            tools: parts.tools,
            models: parts.models,
            prompt: parts.prompt,
            max_turns: parts.max_turns,
            session_id: parts.session_id,
            stream: parts.stream,
            live: Mutex::new(parts.live),
        }
    }

    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools that the model may call now.
    pub fn active_tools(&self) -> Vec<Arc<dyn Tool>> {
        let active = self.live().active_tools.clone();
        let is_active = |name: &str| active.as_ref().is_none_or(|active| active.iter().any(|known| known == name));
        self.tools.iter().filter(|tool| is_active(&tool.declaration().name)).cloned().collect()
    }

    pub fn declarations(&self) -> Vec<ToolDeclaration> {
        self.active_tools().iter().map(|tool| tool.declaration()).collect()
    }

    /// Refuses names that no tool has.
    pub fn check_tools(&self, names: &[String]) -> Result<(), AgentError> {
        let is_known = |name: &String| self.tools.iter().any(|tool| tool.declaration().name == *name);
        match names.iter().find(|name| !is_known(name)) {
            Some(unknown) => Err(AgentError::NoSuchTool(unknown.clone())),
            None => Ok(()),
        }
    }

    /// The message of a prompt.
    pub fn user(&self, prompt: Prompt) -> Message {
        let timestamp = Some(self.clock.now_ms());
        Message::User(UserMessage { content: Some(prompt.0), timestamp, ..UserMessage::default() })
    }

    /// Sends a request.
    pub async fn send(
        &self,
        provider: &dyn Provider,
        mut request: Request,
        abort: &CancellationToken,
    ) -> (Request, Result<EventStream, ProviderError>) {
        request.session_id = self.session_id.clone();
        request.options = self.stream.clone();
        if abort.is_cancelled() {
            return (request, Err(ProviderError::Aborted));
        }
        if self.hooks.takes(HookKind::BeforeProviderRequest) {
            let model = ModelName { provider: request.model.provider.clone(), model_id: request.model.id.clone() };
            let session_id = request.session_id.clone();
            let event = BeforeProviderRequest { model, session_id, stream_options: request.options };
            request.options = self.hooks.before_provider_request(event).await.stream_options;
        }
        let stream = provider.stream(&request, &HookExchange(self), abort).await;
        (request, stream)
    }
}

/// Lets the hooks and the subscribers take part in an exchange with a provider.
struct HookExchange<'a>(&'a Core);

#[async_trait]
impl Exchange for HookExchange<'_> {
    async fn before_payload(&self, payload: Json) -> Json {
        self.0.hooks.before_provider_payload(payload).await
    }

    async fn after_response(&self, status: u16, headers: &[(String, String)]) {
        if self.0.hooks.takes(HookKind::AfterProviderResponse) {
            self.0.hooks.after_provider_response(&ProviderResponse { status, headers: headers.to_vec() }).await;
        }
    }

    async fn before_retry(&self, tries: u32, delay: Duration, error: &ProviderError) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.0.events.emit(AgentEvent::Retry { tries, delay_ms, error: error.to_string() });
    }
}

impl Core {
    /// The model that a hook asked for; a warning where there is none.
    pub fn find_model(&self, name: &ModelName) -> Option<ServedModel> {
        let found = self.models.as_ref().and_then(|models| models.find(&name.provider, &name.model_id));
        if found.is_none() {
            let ModelName { provider, model_id } = name.clone();
            self.events.warn(Warning::UnknownModel { provider, model_id });
        }
        found
    }
}
