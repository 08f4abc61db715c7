//! Plays recorded answers again, for example those of a session, tool calls included.
//!
//! # Invariants
//! - Each request takes the next answer, whatever it asks; answers that failed or were aborted are passed over.
//! - What is played is marked as made by the replay (`api` and `provider`), with the recorded token counts, at no cost and
//!   without the recorded `responseId`: it is a new answer, not a second copy of the old one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::openai_completions::{self, Dialect};
use super::playback::{Ending, play};
use super::{EventStream, Exchange, Model, Prices, Provider, ProviderError, Request};
use crate::session::json::Extra;
use crate::session::message::{AssistantMessage, Cost, Usage};

/// The name of this protocol in messages and in the configuration.
pub const API: &str = "replay";

/// Answers to play.
#[derive(Debug)]
pub struct Replay {
    rest: Mutex<(VecDeque<AssistantMessage>, usize)>,
}

impl Replay {
    /// Plays `answers` in order.
    pub fn new(answers: Vec<AssistantMessage>) -> Self {
        Self { rest: Mutex::new((answers.into_iter().filter(|answer| !answer.is_failed()).collect(), 0)) }
    }

    /// The model to name in requests: `replay/NAME`.
    pub fn model(name: impl Into<String>) -> Model {
        Model {
            provider: "replay".to_owned(),
            id: name.into(),
            api: API.to_owned(),
            context_window: 200_000,
            max_tokens: None,
            prices: Prices::default(),
        }
    }

    fn take(&self) -> Result<AssistantMessage, ProviderError> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let (answers, played) = &mut *rest;
        let answer = answers.pop_front().ok_or(ProviderError::Exhausted { played: *played })?;
        *played += 1;
        Ok(answer)
    }
}

#[async_trait]
impl Provider for Replay {
    fn api(&self) -> &'static str {
        API
    }

    /// The payload that `exchange` sees has the form of chat completions; changing it changes nothing.
    async fn stream(
        &self,
        request: &Request,
        exchange: &dyn Exchange,
        abort: &CancellationToken,
    ) -> Result<EventStream, ProviderError> {
        exchange.before_payload(openai_completions::payload(request, Dialect::Compatible)).await;
        let recorded = self.take()?;
        exchange.after_response(200, &[]).await;
        let usage = recorded.usage.unwrap_or_default();
        let message = AssistantMessage {
            content: recorded.content,
            api: Some(API.to_owned()),
            provider: Some(request.model.provider.clone()),
            model: Some(request.model.id.clone()),
            usage: Some(Usage { total_tokens: Some(usage.context_tokens()), cost: Some(Cost::default()), ..usage }),
            stop_reason: recorded.stop_reason.or_else(|| Some("stop".to_owned())),
            error_message: None,
            timestamp: Some(request.now_ms),
            extra: Extra::default(),
        };
        let content = message.content.clone();
        Ok(play(Answer::new(API, request), content.as_ref(), Ending::Done(Box::new(message)), abort.clone()))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::llm::{NoExchange, StreamEvent};
    use crate::session::json::Json;
    use crate::session::message::Message;

    fn recorded(json: &str) -> AssistantMessage {
        match Message::from_json(Json::parse(json).unwrap()) {
            Message::Assistant(message) => *message,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn answers_come_back_in_order_and_then_the_end_is_told() {
        let replay = Replay::new(vec![
            recorded(
                r#"{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"ls","arguments":{}}],"usage":{"input":5,"output":2,"cost":{"total":1}},"stopReason":"toolUse","responseId":"r"}"#,
            ),
            recorded(r#"{"role":"assistant","content":[],"stopReason":"error","errorMessage":"x"}"#),
            recorded(r#"{"role":"assistant","content":"bye","stopReason":"stop"}"#),
        ]);
        let request = Request::new(Replay::model("s1"), Vec::new(), 9);
        let mut played = Vec::new();
        for _ in 0..2 {
            let stream = replay.stream(&request, &NoExchange, &CancellationToken::new()).await.unwrap();
            match stream.collect::<Vec<_>>().await.pop() {
                Some(Ok(StreamEvent::Done(message))) => {
                    played.push(Json::of(&Message::Assistant(message)).unwrap().as_str().to_owned());
                }
                other => panic!("{other:?}"),
            }
        }
        let zero = r#""cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}"#;
        let by = r#""api":"replay","provider":"replay","model":"s1""#;
        assert_eq!(
            played,
            [
                format!(
                    r#"{{"role":"assistant","content":[{{"type":"toolCall","id":"c1","name":"ls","arguments":{{}}}}],{by},"usage":{{"input":5,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":7,{zero}}},"stopReason":"toolUse","timestamp":9}}"#
                ),
                format!(
                    r#"{{"role":"assistant","content":"bye",{by},"usage":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,{zero}}},"stopReason":"stop","timestamp":9}}"#
                ),
            ]
        );
        let end = replay.stream(&request, &NoExchange, &CancellationToken::new()).await.err().expect("the end");
        assert_eq!(end.to_string(), "the recording has no further answer after 2");
    }
}
