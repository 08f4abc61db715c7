//! The loop: turns with the model until there is nothing more to do.
//!
//! ```text
//! each turn: make room -> store what the user said -> ask -> run the calls -> turn end: one write
//!            -> prepare_next_turn -> should_stop_after_turn -> steering, or follow-ups, or the end
//! ```
//!
//! # Invariants
//! - What the user said is stored before the request that carries it.
//! - An answer and the results of its calls are added together, before the turn's end; an answer that failed has no
//!   results, for no provider gets its calls.
//! - `agent_end` is told whatever happens, unless the future is dropped.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::event::{AgentEvent, Warning};
use super::hooks::{ContextEvent, HookKind, ModelName, TurnEvent};
use super::sending::Core;
use super::{AgentError, EndReason, RunOutcome, ServedModel, tool_batch};
use crate::llm::{ProviderError, Request, StreamEvent, StreamFailure};
use crate::session::context::ProjectedMessage;
use crate::session::message::{AssistantMessage, Message};
use crate::session::request::{RequestOptions, build_request, into_messages};

/// Where the messages of a run come from and go to.
#[async_trait]
pub(crate) trait Transcript: Send + Sync {
    /// The context as it is now, messages included that are not stored yet.
    fn context(&self) -> Result<Vec<ProjectedMessage>, AgentError>;

    /// Takes what the user said. It is stored when this returns.
    fn add_prompts(&self, messages: &[Message]) -> Result<(), AgentError>;

    /// Takes an answer or a result.
    fn add(&self, message: &Message);

    /// Stores what was added. An error ends the run; what can be tried again later is none.
    fn flush(&self) -> Result<(), AgentError>;

    /// Another model is used from here on.
    fn set_model(&self, model: ServedModel);

    /// Another thinking level is used from here on.
    fn set_thinking_level(&self, level: String);

    /// Called before `next` is added: gets the context below its limit, if that is needed and possible.
    async fn make_room(&self, next: &[Message], run: &Run<'_>) -> RequestOptions;

    /// Called after a provider refused a request as too large; `None` where trying again makes no sense.
    async fn make_room_after_overflow(&self, sent: RequestOptions, run: &Run<'_>) -> Option<RequestOptions>;
}

/// One run.
pub(crate) struct Run<'a> {
    pub core: &'a Core,
    pub transcript: &'a dyn Transcript,
    pub abort: &'a CancellationToken,
    pub system_prompt: String,
}

/// What a request came to.
struct Answered {
    message: AssistantMessage,
    error: Option<ProviderError>,
}

impl Run<'_> {
    /// Goes on until there is nothing more to do, beginning with `first`.
    pub async fn go(&self, first: Vec<Message>) -> Result<RunOutcome, AgentError> {
        self.core.events.emit(AgentEvent::AgentStart);
        let mut messages = Vec::new();
        let ended = self.turns(first, &mut messages).await;
        let ended = match ended {
            Ok(reason) => self.transcript.flush().map(|()| reason),
            // It failed to store something just now.
            Err(error) => Err(error),
        };
        let reason = match &ended {
            Ok(reason) => reason.clone(),
            Err(error) => EndReason::Broken(error.to_string()),
        };
        self.core.events.emit(AgentEvent::AgentEnd { reason });
        ended.map(|reason| RunOutcome { reason, messages })
    }

    async fn turns(&self, first: Vec<Message>, said: &mut Vec<Message>) -> Result<EndReason, AgentError> {
        let (core, events) = (self.core, &self.core.events);
        let mut incoming = first;
        let mut turn = 0;
        loop {
            if turn == core.max_turns {
                events.warn(Warning::MaxTurns(turn));
                self.keep_for_later(incoming);
                return Ok(EndReason::MaxTurns(turn));
            }
            turn += 1;
            events.emit(AgentEvent::TurnStart { turn });
            incoming.extend(core.queues.steering.take());
            let options = self.transcript.make_room(&incoming, self).await;
            for message in &incoming {
                self.tell(message);
            }
            said.extend_from_slice(&incoming);
            self.transcript.add_prompts(&incoming)?;
            incoming.clear();

            let Answered { message, error } = self.answer(options).await?;
            let answer = Arc::new(message);
            let message = Message::Assistant(Box::new((*answer).clone()));
            self.transcript.add(&message);
            said.push(message.clone());
            let batch = match &error {
                Some(_) => tool_batch::Batch { results: Vec::new(), terminates: false },
                None => tool_batch::run(core, &answer, self.abort).await,
            };
            for result in &batch.results {
                self.tell(result);
                self.transcript.add(result);
            }
            said.extend_from_slice(&batch.results);
            let has_calls = !batch.results.is_empty();
            let results = Arc::new(batch.results);
            events.emit(AgentEvent::TurnEnd { turn, answer, results: results.clone() });
            self.transcript.flush()?;
            match error {
                Some(ProviderError::Aborted) => return Ok(EndReason::Aborted),
                Some(error) => return Ok(EndReason::Failed(error)),
                None if self.abort.is_cancelled() => return Ok(EndReason::Aborted),
                None => {}
            }

            let is_stopped = self.between_turns(turn, message, &results, &mut incoming).await;
            if is_stopped || batch.terminates {
                self.keep_for_later(incoming);
                return Ok(EndReason::Stopped);
            }
            if !has_calls && incoming.is_empty() && core.queues.steering.is_empty() {
                incoming = core.queues.follow_up.take();
                if incoming.is_empty() {
                    return Ok(EndReason::Done);
                }
            }
        }
    }

    /// Asks the hooks about the next turn: what they add goes to `incoming`. True when the run ends here.
    async fn between_turns(&self, turn: u32, message: Message, results: &[Message], incoming: &mut Vec<Message>) -> bool {
        let hooks = &self.core.hooks;
        if !hooks.takes(HookKind::PrepareNextTurn) && !hooks.takes(HookKind::ShouldStopAfterTurn) {
            return false;
        }
        let event = TurnEvent { turn, message, tool_results: results.to_vec() };
        let next = hooks.prepare_next_turn(&event).await;
        incoming.extend(next.messages);
        let live = self.core.live().clone();
        let is_other = |name: &&ModelName| {
            let model = &live.served.model;
            (&name.provider, &name.model_id) != (&model.provider, &model.id)
        };
        if let Some(model) = next.model.as_ref().filter(is_other).and_then(|name| self.core.find_model(name)) {
            self.transcript.set_model(model);
        }
        if let Some(level) = next.thinking_level.filter(|level| *level != live.thinking_level) {
            self.transcript.set_thinking_level(level);
        }
        hooks.should_stop_after_turn(&event).await
    }

    /// What was to be sent, and now has no turn, goes with the next prompt.
    fn keep_for_later(&self, messages: Vec<Message>) {
        messages.into_iter().for_each(|message| self.core.queues.next_turn.push(message));
    }

    fn tell(&self, message: &Message) {
        self.core.events.emit(AgentEvent::MessageStart { message: message.clone() });
        self.core.events.emit(AgentEvent::MessageEnd { message: message.clone() });
    }

    /// Asks, and once more after an overflow that could be helped.
    async fn answer(&self, options: RequestOptions) -> Result<Answered, AgentError> {
        let mut retry = match self.ask(options).await? {
            Ok(answered) => return Ok(answered),
            Err(refused) => refused,
        };
        if retry.error.is_overflow()
            && let Some(options) = self.transcript.make_room_after_overflow(options, self).await
        {
            match self.ask(options).await? {
                Ok(answered) => return Ok(answered),
                Err(refused) => retry = refused,
            }
        }
        let message = retry.request.failed_message(&retry.error);
        self.tell(&Message::Assistant(Box::new(message.clone())));
        Ok(Answered { message, error: Some(retry.error) })
    }

    /// Sends one request. The inner error is one before anything of an answer came.
    async fn ask(&self, options: RequestOptions) -> Result<Result<Answered, Refused>, AgentError> {
        let mut context = self.transcript.context()?;
        if self.core.hooks.takes(HookKind::Context) {
            let messages = self.core.hooks.context(ContextEvent { messages: into_messages(context) }).await;
            context = messages.into_iter().map(|message| ProjectedMessage { message, source: None }).collect();
        }
        let live = self.core.live().clone();
        let messages = into_messages(build_request(context, options).messages);
        let mut request = Request::new(live.served.model, messages, self.core.clock.now_ms());
        request.system_prompt = Some(self.system_prompt.clone()).filter(|prompt| !prompt.is_empty());
        request.tools = self.core.declarations();
        request.thinking_level = live.thinking_level;
        let (request, stream) = self.core.send(&*live.served.provider, request, self.abort).await;
        let mut stream = match stream {
            Ok(stream) => stream,
            Err(error) => return Ok(Err(Refused { request, error })),
        };
        let events = &self.core.events;
        let begin = |has_started: &mut bool| {
            if std::mem::replace(has_started, true) {
                return;
            }
            let empty = AssistantMessage {
                content: Some(Default::default()),
                api: Some(request.model.api.clone()),
                provider: Some(request.model.provider.clone()),
                model: Some(request.model.id.clone()),
                timestamp: Some(request.now_ms),
                ..AssistantMessage::default()
            };
            events.emit(AgentEvent::MessageStart { message: Message::Assistant(Box::new(empty)) });
        };
        let mut has_started = false;
        let answered = loop {
            match stream.next().await {
                // The answer begins with its first piece: an error that comes before it is as if none had begun.
                Some(Ok(StreamEvent::Start)) => {}
                Some(Ok(StreamEvent::Done(message))) => {
                    begin(&mut has_started);
                    break Answered { message: *message, error: None };
                }
                Some(Ok(update)) => {
                    begin(&mut has_started);
                    events.emit(AgentEvent::MessageUpdate { update });
                }
                Some(Err(StreamFailure { error, .. })) if error.is_overflow() && !has_started => {
                    return Ok(Err(Refused { request, error }));
                }
                Some(Err(StreamFailure { error, partial })) => {
                    begin(&mut has_started);
                    break Answered { message: *partial, error: Some(error) };
                }
                // A stream that ends without its last event.
                None => {
                    begin(&mut has_started);
                    let address = request.model.provider.clone();
                    let error = ProviderError::Cut { address, detail: "the answer ended too early".to_owned() };
                    break Answered { message: request.failed_message(&error), error: Some(error) };
                }
            }
        };
        events.emit(AgentEvent::MessageEnd { message: Message::Assistant(Box::new(answered.message.clone())) });
        Ok(Ok(answered))
    }
}

/// A request that no answer began to.
struct Refused {
    request: Request,
    error: ProviderError,
}
