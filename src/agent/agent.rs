//! The agent that keeps its transcript in memory.
//!
//! # Invariants
//! - Nothing touches a disk; the transcript is gone with the agent.
//! - It is not compacted: a context that is too large makes the request fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::activity::Activity;
use super::event::Events;
use super::hooks::{BeforeAgentStart, HookKind, Hooks};
use super::prompt::SystemPrompt;
use super::queue::QueueModes;
use super::sending::{Core, CoreParts, Live};
use super::tools::Tool;
use super::turn::{Run, Transcript};
use super::{AgentError, ModelSource, Prompt, RunOutcome, ServedModel};
use crate::llm::{Model, Provider, StreamOptions};
use crate::session::context::ProjectedMessage;
use crate::session::message::Message;
use crate::session::request::{RequestOptions, build_request};
use crate::storage::{Clock, SystemClock};

/// The most turns of one run, unless configured.
pub const DEFAULT_MAX_TURNS: u32 = 50;

/// What an [`Agent`] is made of.
pub struct AgentOptions {
    /// The model and who serves it.
    pub served: ServedModel,
    /// `off`, `minimal`, `low`, `medium`, `high` or `xhigh`.
    pub thinking_level: String,
    /// The system prompt; the tools are added to it.
    pub prompt: SystemPrompt,
    /// What the model may call.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Who takes part.
    pub hooks: Vec<Arc<dyn Hooks>>,
    /// Where hooks find other models.
    pub models: Option<Arc<dyn ModelSource>>,
    /// How requests are sent.
    pub stream: StreamOptions,
    /// How requests are made smaller.
    pub request: RequestOptions,
    /// How many queued messages are sent at once.
    pub queue_modes: QueueModes,
    /// The most turns of one run.
    pub max_turns: u32,
    /// The time of messages.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentOptions")
            .field("served", &self.served)
            .field("thinking_level", &self.thinking_level)
            .finish_non_exhaustive()
    }
}

impl AgentOptions {
    /// An agent without tools and hooks.
    pub fn new(provider: Arc<dyn Provider>, model: Model) -> Self {
        Self {
            served: ServedModel { provider, model },
            thinking_level: "off".to_owned(),
            prompt: SystemPrompt::default(),
            tools: Vec::new(),
            hooks: Vec::new(),
            models: None,
            stream: StreamOptions::default(),
            request: RequestOptions::default(),
            queue_modes: QueueModes::default(),
            max_turns: DEFAULT_MAX_TURNS,
            clock: Arc::new(SystemClock),
        }
    }
}

/// An agent in memory.
pub struct Agent {
    core: Core,
    request: RequestOptions,
    messages: Mutex<Vec<Message>>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("activity", &self.core.status.activity()).finish_non_exhaustive()
    }
}

impl Agent {
    /// An agent with an empty transcript.
    pub fn new(options: AgentOptions) -> Self {
        let core = Core::new(CoreParts {
            live: Live { served: options.served, thinking_level: options.thinking_level, active_tools: None },
            tools: options.tools,
            hooks: options.hooks,
            models: options.models,
            prompt: options.prompt,
            stream: options.stream,
            queue_modes: options.queue_modes,
            max_turns: options.max_turns,
            session_id: None,
            clock: options.clock,
        });
        Self { core, request: options.request, messages: Mutex::default() }
    }

    /// Says something and runs until the model has nothing more to do. Dropping the future ends the run.
    ///
    /// # Errors
    /// When something else is going on. A request that fails is an outcome.
    pub async fn prompt(&self, prompt: impl Into<Prompt> + Send) -> Result<RunOutcome, AgentError> {
        let operation = self.core.status.begin(Activity::Running)?;
        let (first, system_prompt) = begin_run(&self.core, Some(prompt.into())).await;
        Run { core: &self.core, transcript: self, abort: &operation.abort, system_prompt }.go(first).await
    }

    /// Goes on without a new prompt: after an abort, an error, or with what waits in the queues.
    ///
    /// # Errors
    /// [`AgentError::NothingToContinue`], or when something else is going on.
    pub async fn continue_run(&self) -> Result<RunOutcome, AgentError> {
        let operation = self.core.status.begin(Activity::Running)?;
        let queued = queued_or_open(&self.core, self)?;
        let (mut first, system_prompt) = begin_run(&self.core, None).await;
        first.extend(queued);
        Run { core: &self.core, transcript: self, abort: &operation.abort, system_prompt }.go(first).await
    }

    /// Forgets the transcript and what waits in the queues.
    ///
    /// # Errors
    /// When something is going on.
    pub fn reset(&self) -> Result<(), AgentError> {
        let _operation = self.core.status.begin(Activity::Running)?;
        self.lock().clear();
        for queue in [&self.core.queues.steering, &self.core.queues.follow_up, &self.core.queues.next_turn] {
            queue.take_all();
        }
        Ok(())
    }

    /// Sends a message before the next request of the run that is going on, or with the next one.
    pub fn steer(&self, prompt: impl Into<Prompt>) {
        self.core.queues.steering.push(self.core.user(prompt.into()));
    }

    /// Sends a message when the run would end.
    pub fn follow_up(&self, prompt: impl Into<Prompt>) {
        self.core.queues.follow_up.push(self.core.user(prompt.into()));
    }

    /// Sends a message before the next prompt.
    pub fn next_turn(&self, prompt: impl Into<Prompt>) {
        self.core.queues.next_turn.push(self.core.user(prompt.into()));
    }

    /// Everything that happens from now on.
    pub fn subscribe(&self) -> Events {
        self.core.events.subscribe()
    }

    /// Ends the run that is going on, if there is one.
    pub fn abort(&self) {
        self.core.status.abort();
    }

    /// Waits until nothing is going on.
    pub async fn wait_for_idle(&self) {
        self.core.status.idle().await;
    }

    /// What is going on.
    pub fn activity(&self) -> Activity {
        self.core.status.activity()
    }

    /// The transcript.
    pub fn messages(&self) -> Vec<Message> {
        self.lock().clone()
    }

    /// Uses another model from the next request on.
    pub fn set_model(&self, served: ServedModel) {
        self.core.live().served = served;
    }

    /// Uses another thinking level from the next request on.
    pub fn set_thinking_level(&self, level: impl Into<String>) {
        self.core.live().thinking_level = level.into();
    }

    /// Lets the model call these tools alone, from the next request on.
    ///
    /// # Errors
    /// When there is no tool of one of these names.
    pub fn set_active_tools(&self, names: Vec<String>) -> Result<(), AgentError> {
        self.core.check_tools(&names)?;
        self.core.live().active_tools = Some(names);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Transcript for Agent {
    fn context(&self) -> Result<Vec<ProjectedMessage>, AgentError> {
        Ok(self.lock().iter().map(|message| ProjectedMessage { message: message.clone(), source: None }).collect())
    }

    fn add_prompts(&self, messages: &[Message]) -> Result<(), AgentError> {
        self.lock().extend_from_slice(messages);
        Ok(())
    }

    fn add(&self, message: &Message) {
        self.lock().push(message.clone());
    }

    fn flush(&self) -> Result<(), AgentError> {
        Ok(())
    }

    fn set_model(&self, model: ServedModel) {
        Agent::set_model(self, model);
    }

    fn set_thinking_level(&self, level: String) {
        Agent::set_thinking_level(self, level);
    }

    async fn make_room(&self, _next: &[Message], _run: &Run<'_>) -> RequestOptions {
        self.request
    }

    async fn make_room_after_overflow(&self, _sent: RequestOptions, _run: &Run<'_>) -> Option<RequestOptions> {
        None
    }
}

/// The messages that a run begins with, and its system prompt: what waited for a prompt, the prompt, what hooks add.
pub(super) async fn begin_run(core: &Core, prompt: Option<Prompt>) -> (Vec<Message>, String) {
    let text = prompt.as_ref().map(|prompt| prompt.0.joined_text()).unwrap_or_default();
    let mut first = match &prompt {
        Some(_) => core.queues.next_turn.take(),
        None => Vec::new(),
    };
    first.extend(prompt.map(|prompt| core.user(prompt)));
    let mut system_prompt = core.prompt.text(&core.declarations());
    if core.hooks.takes(HookKind::BeforeAgentStart) {
        let event = BeforeAgentStart { prompt: text, system_prompt: system_prompt.clone() };
        let answer = core.hooks.before_agent_start(event).await;
        first.extend(answer.messages);
        system_prompt = answer.system_prompt.unwrap_or(system_prompt);
    }
    (first, system_prompt)
}

/// What a run without a prompt begins with: nothing where the context is open (steering is taken by the run itself),
/// else a follow-up.
///
/// # Errors
/// [`AgentError::NothingToContinue`] where there is neither.
pub(super) fn queued_or_open(core: &Core, transcript: &dyn Transcript) -> Result<Vec<Message>, AgentError> {
    let context = build_request(transcript.context()?, RequestOptions::default());
    let last = context.messages.last().map(|projected| &projected.message);
    let is_open = matches!(last, Some(Message::User(_) | Message::ToolResult(_)));
    if is_open || !core.queues.steering.is_empty() {
        return Ok(Vec::new());
    }
    let follow_up = core.queues.follow_up.take();
    if follow_up.is_empty() { Err(AgentError::NothingToContinue) } else { Ok(follow_up) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Probe, call, names, short_message};
    use super::super::{EndReason, Prompt};
    use super::*;
    use crate::llm::scripted::{Reply, Scripted, Step};

    fn agent(steps: impl IntoIterator<Item = Step>) -> (Agent, Arc<Scripted>) {
        let provider = Arc::new(Scripted::new(steps));
        let mut options = AgentOptions::new(provider.clone(), Scripted::model());
        options.tools = vec![Probe::looking("probe", || {})];
        options.prompt = SystemPrompt::of("BASE");
        (Agent::new(options), provider)
    }

    fn said(agent: &Agent) -> Vec<String> {
        agent.messages().iter().map(short_message).collect()
    }

    #[tokio::test]
    async fn it_keeps_a_transcript_and_forgets_it() {
        let (agent, provider) = agent([call("probe"), Step::text("done"), Step::text("more"), Step::text("anew")]);
        let mut events = agent.subscribe();
        agent.follow_up("and then");
        assert_eq!(agent.prompt("hi").await.expect("a run").reason, EndReason::Done);
        assert_eq!(said(&agent), ["user hi", "assistant", "toolResult ok", "assistant done", "user and then", "assistant more"]);
        let names = names(&mut events);
        assert_eq!(
            (names.first().map(String::as_str), names.last().map(String::as_str)),
            (Some("agent_start"), Some("agent_end"))
        );
        assert!(!names.iter().any(|name| name == "save_point"));
        agent.reset().expect("idle");
        agent.set_thinking_level("high");
        agent.set_active_tools(Vec::new()).expect("none");
        agent.prompt(Prompt::from("again")).await.expect("a run");
        let last = provider.requests().pop().expect("a request");
        assert_eq!((last.messages.len(), last.tools.len(), last.thinking_level.as_str()), (1, 0, "high"));
        assert!(provider.requests()[0].system_prompt.as_deref().is_some_and(|prompt| prompt.starts_with("BASE\n\nYour tools:")));
    }

    #[tokio::test]
    async fn it_is_aborted_and_goes_on() {
        let (agent, _) = agent([Step::Hang(Reply::new()), Step::text("done")]);
        assert!(matches!(agent.continue_run().await, Err(AgentError::NothingToContinue)));
        let mut events = agent.subscribe();
        let (outcome, ()) = tokio::join!(agent.prompt("hi"), async {
            while events.next().await.is_some_and(|event| event.name() != "message_end") {}
            assert_eq!(agent.activity(), Activity::Running);
            assert!(matches!(agent.reset(), Err(AgentError::Busy(Activity::Running))));
            agent.abort();
            agent.wait_for_idle().await;
        });
        assert_eq!(outcome.expect("a run").reason, EndReason::Aborted);
        assert_eq!(agent.continue_run().await.expect("a run").answer_text(), "done");
        assert_eq!(said(&agent), ["user hi", "assistant", "assistant done"]);
    }

    #[tokio::test]
    async fn an_overflow_is_a_failed_request() {
        let overflow = crate::llm::ProviderError::Overflow { detail: "long".into() };
        let (agent, _) = agent([Step::Refuse(overflow.clone())]);
        assert_eq!(agent.prompt("hi").await.expect("a run").reason, EndReason::Failed(overflow));
    }
}
