//! Hooks: where an application takes part in the work of an agent.
//!
//! Implement [`Hooks`]; every method has a default that changes nothing. Several hooks are asked in order, each seeing
//! what those before it left. A hook that fails blocks the call for `tool_call`; elsewhere it is reported and passed over.
//! [`HookProgram`](super::hook_program::HookProgram) asks a program instead.
//!
//! # Invariants
//! - Events and answers are values; as JSON they have Pi's names, with `type` first.
//! - No header value is in an event.

use async_trait::async_trait;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};

use crate::llm::{Secret, StreamOptions};
use crate::session::entry::{Entry, EntryId};
use crate::session::json::Json;
use crate::session::message::{Content, Message};

/// A hook did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

/// The hooks, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookKind {
    /// `before_agent_start`
    BeforeAgentStart,
    /// `context`
    Context,
    /// `before_provider_request`
    BeforeProviderRequest,
    /// `before_provider_payload`
    BeforeProviderPayload,
    /// `after_provider_response`
    AfterProviderResponse,
    /// `tool_call`
    ToolCall,
    /// `tool_result`
    ToolResult,
    /// `session_before_compact`
    SessionBeforeCompact,
    /// `session_before_tree`
    SessionBeforeTree,
    /// `prepare_next_turn`
    PrepareNextTurn,
    /// `should_stop_after_turn`
    ShouldStopAfterTurn,
}

impl HookKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::BeforeAgentStart,
        Self::Context,
        Self::BeforeProviderRequest,
        Self::BeforeProviderPayload,
        Self::AfterProviderResponse,
        Self::ToolCall,
        Self::ToolResult,
        Self::SessionBeforeCompact,
        Self::SessionBeforeTree,
        Self::PrepareNextTurn,
        Self::ShouldStopAfterTurn,
    ];

    /// The name in the configuration and in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeAgentStart => "before_agent_start",
            Self::Context => "context",
            Self::BeforeProviderRequest => "before_provider_request",
            Self::BeforeProviderPayload => "before_provider_payload",
            Self::AfterProviderResponse => "after_provider_response",
            Self::ToolCall => "tool_call",
            Self::ToolResult => "tool_result",
            Self::SessionBeforeCompact => "session_before_compact",
            Self::SessionBeforeTree => "session_before_tree",
            Self::PrepareNextTurn => "prepare_next_turn",
            Self::ShouldStopAfterTurn => "should_stop_after_turn",
        }
    }

    /// The hook of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A run is about to begin.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAgentStart {
    /// What the user said; empty where a run goes on.
    pub prompt: String,
    /// The system prompt of the run.
    pub system_prompt: String,
}

/// What a hook makes of a run that begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentStartAnswer {
    /// Messages to add behind the prompt: `user` and `custom`.
    pub messages: Vec<Message>,
    /// Another system prompt.
    pub system_prompt: Option<String>,
}

/// The context of the next request, before it is converted for the provider.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextEvent {
    /// The messages.
    pub messages: Vec<Message>,
}

/// What a hook makes of a context, for this one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextAnswer {
    /// The messages to send instead.
    pub messages: Option<Vec<Message>>,
}

/// The names of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelName {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    #[serde(alias = "id")]
    pub model_id: String,
}

/// A request is about to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct BeforeProviderRequest {
    /// The model.
    pub model: ModelName,
    /// The session.
    pub session_id: Option<String>,
    /// How it is sent.
    pub stream_options: StreamOptions,
}

impl Serialize for BeforeProviderRequest {
    /// Headers are shown by name alone: their values are secrets.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Options<'a>(&'a StreamOptions);
        struct Names<'a>(&'a StreamOptions);
        impl Serialize for Names<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                for (name, _) in &self.0.headers {
                    map.serialize_entry(name, &())?;
                }
                map.end()
            }
        }
        impl Serialize for Options<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("headers", &Names(self.0))?;
                map.serialize_entry("timeoutMs", &self.0.timeout_ms)?;
                map.serialize_entry("maxRetries", &self.0.max_retries)?;
                map.end()
            }
        }
        let mut event = serializer.serialize_struct("BeforeProviderRequest", 3)?;
        event.serialize_field("model", &self.model)?;
        event.serialize_field("sessionId", &self.session_id)?;
        event.serialize_field("streamOptions", &Options(&self.stream_options))?;
        event.end()
    }
}

/// What a hook changes about how a request is sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderRequestAnswer {
    /// Headers to set; others stay.
    pub headers: Vec<(String, Secret)>,
    /// See [`timeout_ms`](field@StreamOptions::timeout_ms).
    pub timeout_ms: Option<u64>,
    /// See [`max_retries`](field@StreamOptions::max_retries).
    pub max_retries: Option<u32>,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProviderPayload {
    /// As the provider's protocol has it.
    pub payload: Json,
}

/// What a hook makes of a body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PayloadAnswer {
    /// The body to send instead.
    pub payload: Option<Json>,
}

/// A response began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProviderResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    #[serde(serialize_with = "as_object")]
    pub headers: Vec<(String, String)>,
}

fn as_object<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (name, value) in pairs {
        map.serialize_entry(name, value)?;
    }
    map.end()
}

/// A tool is about to be called.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallEvent {
    /// The id of the call.
    pub tool_call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// Its arguments.
    pub input: Json,
}

/// What a hook makes of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCallAnswer {
    /// Whether the tool is not called; the model gets an error instead.
    pub block: bool,
    /// Why, for the model.
    pub reason: Option<String>,
}

/// A tool is done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultEvent {
    /// The id of the call.
    pub tool_call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// Its arguments.
    pub input: Json,
    /// What the model will see.
    pub content: Content,
    /// What is kept for display.
    pub details: Option<Json>,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// What a hook changes about a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResultAnswer {
    /// Another content.
    pub content: Option<Content>,
    /// Other details.
    pub details: Option<Json>,
    /// Whether it is an error after all.
    pub is_error: Option<bool>,
    /// Whether the run may end here; it does when every result of the batch says so.
    pub terminate: Option<bool>,
}

/// What a compaction is about to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionPreparation {
    /// The first entry that stays; none where nothing does.
    pub first_kept_entry_id: Option<EntryId>,
    /// The messages of the history.
    pub messages_to_summarize: Vec<Message>,
    /// The messages of the beginning of a split turn.
    pub turn_prefix_messages: Vec<Message>,
    /// Whether a turn is split.
    pub is_split_turn: bool,
    /// The tokens of the context.
    pub tokens_before: u64,
    /// The summary that is brought up to date.
    pub previous_summary: Option<String>,
}

/// A compaction is about to be made.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionBeforeCompact {
    /// What it would do.
    pub preparation: CompactionPreparation,
    /// The entries of the path.
    pub branch_entries: Vec<Entry>,
    /// What the user wants of the summary.
    pub custom_instructions: Option<String>,
}

/// A summary that a hook wrote.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct HookSummary {
    /// The text, stored as it is.
    pub summary: String,
    /// What the application keeps with it.
    #[serde(default)]
    pub details: Option<Json>,
}

/// What a hook makes of a compaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BeforeCompactAnswer {
    /// Whether it is not made.
    pub cancel: bool,
    /// The summary to use.
    pub compaction: Option<HookSummary>,
}

/// What a navigation is about to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreePreparation {
    /// The entry that was asked for.
    pub target_id: EntryId,
    /// The leaf that is left.
    pub old_leaf_id: Option<EntryId>,
    /// The last entry that both paths share.
    pub common_ancestor_id: Option<EntryId>,
    /// The entries that are left behind.
    pub entries_to_summarize: Vec<Entry>,
    /// Whether the user wants a summary of them.
    pub user_wants_summary: bool,
    /// What the user wants of the summary.
    pub custom_instructions: Option<String>,
}

/// The leaf is about to move.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionBeforeTree {
    /// What the navigation would do.
    pub preparation: TreePreparation,
}

/// What a hook makes of a navigation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BeforeTreeAnswer {
    /// Whether the leaf stays.
    pub cancel: bool,
    /// The summary to leave, also where the user wants none.
    pub summary: Option<HookSummary>,
    /// Other instructions for the summary.
    pub custom_instructions: Option<String>,
    /// A label for the summary's entry, or for the new leaf where there is no summary.
    pub label: Option<String>,
}

/// A turn is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEvent {
    /// Its number in the run, from 1.
    pub turn: u32,
    /// The answer.
    pub message: Message,
    /// The results of its calls.
    pub tool_results: Vec<Message>,
}

/// What a hook wants of the next turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NextTurnAnswer {
    /// Messages to add before the next request: `user` and `custom`. Where there is none they go with the next prompt.
    pub messages: Vec<Message>,
    /// Another model.
    pub model: Option<ModelName>,
    /// Another thinking level.
    pub thinking_level: Option<String>,
}

/// Whether a run is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopAnswer {
    /// Whether it ends now.
    pub stop: bool,
}

/// What an application does at certain points. An error is as if the hook had not been there, but for `tool_call`.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// A run begins.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn before_agent_start(&self, event: &BeforeAgentStart) -> Result<AgentStartAnswer, HookError> {
        let _ = event;
        Ok(AgentStartAnswer::default())
    }

    /// A request is about to be built.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn context(&self, event: &ContextEvent) -> Result<ContextAnswer, HookError> {
        let _ = event;
        Ok(ContextAnswer::default())
    }

    /// A request is about to be sent.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn before_provider_request(&self, event: &BeforeProviderRequest) -> Result<ProviderRequestAnswer, HookError> {
        let _ = event;
        Ok(ProviderRequestAnswer::default())
    }

    /// The body of a request is made.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn before_provider_payload(&self, event: &ProviderPayload) -> Result<PayloadAnswer, HookError> {
        let _ = event;
        Ok(PayloadAnswer::default())
    }

    /// A response begins.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn after_provider_response(&self, event: &ProviderResponse) -> Result<(), HookError> {
        let _ = event;
        Ok(())
    }

    /// A tool is about to be called.
    ///
    /// # Errors
    /// The call is blocked, and the model is told so.
    async fn tool_call(&self, event: &ToolCallEvent) -> Result<ToolCallAnswer, HookError> {
        let _ = event;
        Ok(ToolCallAnswer::default())
    }

    /// A tool is done.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn tool_result(&self, event: &ToolResultEvent) -> Result<ToolResultAnswer, HookError> {
        let _ = event;
        Ok(ToolResultAnswer::default())
    }

    /// A compaction is planned.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn session_before_compact(&self, event: &SessionBeforeCompact) -> Result<BeforeCompactAnswer, HookError> {
        let _ = event;
        Ok(BeforeCompactAnswer::default())
    }

    /// The leaf is about to move.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn session_before_tree(&self, event: &SessionBeforeTree) -> Result<BeforeTreeAnswer, HookError> {
        let _ = event;
        Ok(BeforeTreeAnswer::default())
    }

    /// A turn is over and written.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn prepare_next_turn(&self, event: &TurnEvent) -> Result<NextTurnAnswer, HookError> {
        let _ = event;
        Ok(NextTurnAnswer::default())
    }

    /// Whether the run ends after this turn.
    ///
    /// # Errors
    /// Whatever the hook calls one.
    async fn should_stop_after_turn(&self, event: &TurnEvent) -> Result<StopAnswer, HookError> {
        let _ = event;
        Ok(StopAnswer::default())
    }

    /// Whether the hook takes part in `kind`; where it does not, its event is not even built.
    fn takes(&self, kind: HookKind) -> bool {
        let _ = kind;
        true
    }
}
