//! A provider that plays given steps and keeps what it was asked, for tests.
//!
//! # Invariants
//! - Each request takes the next step, in order.
//! - No network, no clock; [`Step::Hang`] waits for the abort alone.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Stop};
use super::openai_completions::{self, Dialect};
use super::playback::{Ending, play};
use super::{EventStream, Exchange, Model, Prices, Provider, ProviderError, Request};
use crate::session::json::{Extra, Json};
use crate::session::message::{AssistantMessage, Block, Content, ToolCall, Usage};

/// The name of this protocol in messages.
pub const API: &str = "scripted";

/// What one request gets.
#[derive(Clone, Debug)]
pub enum Step {
    /// An answer.
    Reply(Reply),
    /// This very message.
    Message(Box<AssistantMessage>),
    /// No answer begins.
    Refuse(ProviderError),
    /// An answer begins, with this content, and breaks off.
    Break(Reply, ProviderError),
    /// An answer begins, with this content, and goes on only when it is aborted.
    Hang(Reply),
}

impl Step {
    /// An answer of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Reply(Reply::new().text(text))
    }

    /// An answer of one tool call.
    pub fn call(name: impl Into<String>, arguments: Json) -> Self {
        Self::Reply(Reply::new().call(name, arguments))
    }
}

/// The content of an answer.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    blocks: Vec<Block>,
    usage: Usage,
    is_cut: bool,
}

impl Reply {
    /// An answer without content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::text(text));
        self
    }

    /// Adds thinking.
    #[must_use]
    pub fn thinking(mut self, thinking: impl Into<String>) -> Self {
        self.blocks.push(Block::Thinking { thinking: thinking.into(), signature: None, extra: Extra::default() });
        self
    }

    /// Adds a call of the tool `name`. Its id is `call_N`, counting the calls of the provider from 1.
    #[must_use]
    pub fn call(mut self, name: impl Into<String>, arguments: Json) -> Self {
        let call = ToolCall { id: String::new(), name: name.into(), arguments, extra: Extra::default() };
        self.blocks.push(Block::ToolCall(call));
        self
    }

    /// Sets the tokens of the request and of the answer.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Usage { input, output, ..Usage::default() };
        self
    }

    /// Makes the answer end for its length.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.is_cut = true;
        self
    }
}

/// A provider with a script.
#[derive(Debug)]
pub struct Scripted {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    steps: VecDeque<Step>,
    played: usize,
    calls: usize,
    requests: Vec<Request>,
    payloads: Vec<Json>,
}

impl Scripted {
    /// Plays `steps` in order; then every request fails with [`ProviderError::Exhausted`].
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { state: Mutex::new(State { steps: steps.into_iter().collect(), ..State::default() }) }
    }

    /// The model to name in requests: `scripted/test`, with a window of 100,000 tokens.
    pub fn model() -> Model {
        Model {
            provider: "scripted".to_owned(),
            id: "test".to_owned(),
            api: API.to_owned(),
            context_window: 100_000,
            max_tokens: None,
            prices: Prices::default(),
        }
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// The payloads so far, in the form of chat completions, as [`Exchange::before_payload`] gave them back.
    pub fn payloads(&self) -> Vec<Json> {
        self.state().payloads.clone()
    }

    /// How many steps are left.
    pub fn steps_left(&self) -> usize {
        self.state().steps.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Provider for Scripted {
    fn api(&self) -> &'static str {
        API
    }

    async fn stream(
        &self,
        request: &Request,
        exchange: &dyn Exchange,
        abort: &CancellationToken,
    ) -> Result<EventStream, ProviderError> {
        let payload = exchange.before_payload(openai_completions::payload(request, Dialect::Compatible)).await;
        let step = {
            let mut state = self.state();
            state.requests.push(request.clone());
            state.payloads.push(payload);
            let played = state.played;
            let step = state.steps.pop_front().ok_or(ProviderError::Exhausted { played })?;
            state.played += 1;
            state.numbered(step)
        };
        if let Step::Refuse(error) = step {
            return Err(error);
        }
        exchange.after_response(200, &[]).await;
        let mut empty = Answer::new(API, request);
        let (content, ending) = match step {
            Step::Refuse(error) => return Err(error),
            Step::Message(message) => (message.content.clone(), Ending::Done(message)),
            Step::Reply(reply) => {
                empty.usage = reply.usage;
                let stop = if reply.is_cut { Stop::Length } else { Stop::Ended };
                let mut message = empty.clone().finish(stop);
                if !reply.is_cut && reply.blocks.iter().any(|block| block.as_tool_call().is_some()) {
                    message.stop_reason = Some("toolUse".to_owned());
                }
                message.content = Some(Content::Blocks(reply.blocks));
                (message.content.clone(), Ending::Done(Box::new(message)))
            }
            Step::Break(reply, error) => {
                empty.usage = reply.usage;
                (Some(Content::Blocks(reply.blocks)), Ending::Failed(error))
            }
            Step::Hang(reply) => {
                empty.usage = reply.usage;
                (Some(Content::Blocks(reply.blocks)), Ending::Hang)
            }
        };
        Ok(play(empty, content.as_ref(), ending, abort.clone()))
    }
}

impl State {
    /// `step` with ids for its calls.
    fn numbered(&mut self, mut step: Step) -> Step {
        let blocks = match &mut step {
            Step::Reply(reply) | Step::Break(reply, _) | Step::Hang(reply) => reply.blocks.as_mut_slice(),
            Step::Message(_) | Step::Refuse(_) => &mut [],
        };
        for block in blocks {
            if let Block::ToolCall(call) = block {
                self.calls += 1;
                call.id = format!("call_{}", self.calls);
            }
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::llm::{NoExchange, StreamEvent, StreamFailure};
    use crate::session::message::Message;

    async fn last(provider: &Scripted, abort: &CancellationToken) -> Result<StreamEvent, StreamFailure> {
        let request = Request::new(Scripted::model(), vec![Message::user("u", 1)], 3);
        let stream = provider.stream(&request, &NoExchange, abort).await.expect("a stream");
        stream.collect::<Vec<_>>().await.pop().expect("an end")
    }

    fn stopped(end: Result<StreamEvent, StreamFailure>) -> (String, String) {
        let message = match end {
            Ok(StreamEvent::Done(message)) => message,
            Ok(other) => panic!("{other:?}"),
            Err(failure) => failure.partial,
        };
        (message.stop_reason.clone().unwrap(), Json::of(&message.content).unwrap().as_str().to_owned())
    }

    #[tokio::test]
    async fn steps_are_played_in_order_and_requests_are_kept() {
        let broken = ProviderError::Cut { address: "x".into(), detail: "y".into() };
        let provider = Scripted::new([
            Step::Reply(Reply::new().text("a").call("ls", Json::empty_object()).call("ls", Json::empty_object())),
            Step::Reply(Reply::new().call("ls", Json::empty_object()).cut()),
            Step::Break(Reply::new().text("half way"), broken.clone()),
            Step::Refuse(broken.clone()),
        ]);
        let abort = CancellationToken::new();
        let call = |n: u8| format!(r#"{{"type":"toolCall","id":"call_{n}","name":"ls","arguments":{{}}}}"#);
        let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
        assert_eq!(
            stopped(last(&provider, &abort).await),
            ("toolUse".into(), format!("[{},{},{}]", text("a"), call(1), call(2)))
        );
        assert_eq!(stopped(last(&provider, &abort).await), ("length".into(), format!("[{}]", call(3))));
        assert_eq!(stopped(last(&provider, &abort).await), ("error".into(), format!("[{}]", text("half way"))));
        let request = Request::new(Scripted::model(), Vec::new(), 3);
        for error in [broken, ProviderError::Exhausted { played: 4 }] {
            assert_eq!(provider.stream(&request, &NoExchange, &abort).await.err(), Some(error));
        }
        assert_eq!((provider.requests().len(), provider.payloads().len(), provider.steps_left()), (5, 5, 0));
    }

    #[tokio::test]
    async fn a_hang_ends_with_the_abort() {
        let provider = Scripted::new([Step::Hang(Reply::new().text("so far"))]);
        let abort = CancellationToken::new();
        let request = Request::new(Scripted::model(), Vec::new(), 3);
        let mut stream = provider.stream(&request, &NoExchange, &abort).await.expect("a stream");
        for _ in 0..3 {
            stream.next().await.unwrap().expect("words");
        }
        assert!(futures::poll!(stream.next()).is_pending());
        abort.cancel();
        let end = stream.next().await.unwrap();
        assert_eq!(stopped(end), ("aborted".into(), r#"[{"type":"text","text":"so far"}]"#.into()));
    }
}
