//! The built-in model that needs no network.
//!
//! It says what it is and repeats the last user message. A line `read PATH`, `run COMMAND` or `write PATH TEXT` of that
//! message becomes a call of the tool `read`, `bash` or `write`, if the tool is declared; the answer after the results
//! tells of them.
//!
//! # Invariants
//! - The same request gets the same answer.
//! - Usage is an estimate (characters / 4, rounded up) and costs nothing.

use async_trait::async_trait;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::openai_completions::{self, Dialect};
use super::playback::{Ending, play};
use super::{EventStream, Exchange, Model, Prices, Provider, ProviderError, Request};
use crate::session::json::{Extra, Json};
use crate::session::message::{AssistantMessage, Block, Content, Cost, Message, ToolCall, ToolResultMessage, Usage};

/// The name of this protocol in messages and in the configuration.
pub const API: &str = "offline";

/// How much of the user's text is repeated, in characters.
const ECHO_LIMIT: usize = 2000;

/// The offline model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

impl Offline {
    /// The model to name in requests: `offline/echo`.
    pub fn model() -> Model {
        Model {
            provider: "offline".to_owned(),
            id: "echo".to_owned(),
            api: API.to_owned(),
            context_window: 128_000,
            max_tokens: None,
            prices: Prices::default(),
        }
    }

    /// The answer to `request`.
    pub fn answer(request: &Request) -> AssistantMessage {
        let results = request.messages.iter().rev().map_while(|message| match message {
            Message::ToolResult(result) => Some(result),
            _ => None,
        });
        let mut results = results.collect::<Vec<_>>();
        results.reverse();
        let said = request.messages.iter().rev().find(|message| matches!(message, Message::User(_))).map(Message::text);
        let said = said.unwrap_or_default();
        let calls = match results.is_empty() {
            true => calls(&said, request),
            false => Vec::new(),
        };
        let text = match (results.is_empty(), calls.is_empty()) {
            (false, _) => told(&results),
            (true, false) => format!("Offline model: calling {}.", names(&calls)),
            (true, true) => {
                format!("This is the built-in offline model; no provider is configured. You said: {}", cut(&said, ECHO_LIMIT))
            }
        };
        let stop_reason = match calls.is_empty() {
            true => "stop",
            false => "toolUse",
        };
        let mut blocks = vec![Block::text(text)];
        blocks.extend(calls.into_iter().map(Block::ToolCall));
        AssistantMessage {
            usage: Some(usage(request, &blocks)),
            content: Some(Content::Blocks(blocks)),
            api: Some(API.to_owned()),
            provider: Some(request.model.provider.clone()),
            model: Some(request.model.id.clone()),
            stop_reason: Some(stop_reason.to_owned()),
            timestamp: Some(request.now_ms),
            ..AssistantMessage::default()
        }
    }
}

#[async_trait]
impl Provider for Offline {
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
        exchange.after_response(200, &[]).await;
        let message = Box::new(Self::answer(request));
        let content = message.content.clone();
        Ok(play(Answer::new(API, request), content.as_ref(), Ending::Done(message), abort.clone()))
    }
}

#[derive(Serialize)]
struct PathArguments<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

#[derive(Serialize)]
struct CommandArguments<'a> {
    command: &'a str,
}

/// The calls that the lines of `said` ask for.
fn calls(said: &str, request: &Request) -> Vec<ToolCall> {
    let asked = said.lines().filter_map(|line| {
        let (verb, rest) = line.trim().split_once(' ')?;
        let rest = rest.trim();
        let (name, arguments) = match verb {
            "read" => ("read", Json::of(&PathArguments { path: rest, content: None })),
            "run" => ("bash", Json::of(&CommandArguments { command: rest })),
            "write" => {
                let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
                ("write", Json::of(&PathArguments { path, content: Some(text) }))
            }
            _ => return None,
        };
        let is_declared = request.tools.iter().any(|tool| tool.name == name);
        (is_declared && !rest.is_empty()).then_some((name, arguments.ok()?))
    });
    // The number of messages grows with each turn, so no two calls of a session have one id.
    let turn = request.messages.len();
    let call = |(n, (name, arguments)): (usize, (&str, Json))| ToolCall {
        id: format!("offline_{turn}_{n}"),
        name: name.to_owned(),
        arguments,
        extra: Extra::default(),
    };
    asked.enumerate().map(call).collect()
}

fn names(calls: &[ToolCall]) -> String {
    calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// One line for each result.
fn told(results: &[&ToolResultMessage]) -> String {
    let mut text = "Offline model: the tools are done.".to_owned();
    for result in results {
        let output = result.content.as_ref().map(Content::joined_text).unwrap_or_default();
        let verb = match result.is_error {
            Some(true) => "failed",
            Some(false) | None => "gave",
        };
        let first = output.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        text.push_str(&format!("\n- {} {verb}: {}", result.tool_name, cut(first.trim(), 200)));
    }
    text
}

/// The first `limit` characters of `text`.
fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn usage(request: &Request, answer: &[Block]) -> Usage {
    let asked = openai_completions::payload(request, Dialect::Compatible);
    let answered = Json::of(answer).map(|json| json.as_str().chars().count()).unwrap_or_default();
    let tokens = |chars: usize| chars.div_ceil(4) as u64;
    let (input, output) = (tokens(asked.as_str().chars().count()), tokens(answered));
    Usage { input, output, total_tokens: Some(input + output), cost: Some(Cost::default()), ..Usage::default() }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::llm::{NoExchange, StreamEvent, ToolDeclaration};

    fn request(text: &str, tools: &[&str]) -> Request {
        let declare = |name: &&str| ToolDeclaration {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: Json::empty_object(),
        };
        let tools = tools.iter().map(declare).collect();
        Request { tools, ..Request::new(Offline::model(), vec![Message::user(text, 1)], 7) }
    }

    #[test]
    fn it_says_what_it_is_and_echoes() {
        let answer = Offline::answer(&request("hello there", &["read"]));
        let text = answer.content.as_ref().unwrap().joined_text();
        assert_eq!(text, "This is the built-in offline model; no provider is configured. You said: hello there");
        assert_eq!((answer.stop_reason.as_deref(), answer.timestamp), (Some("stop"), Some(7)));
        assert_eq!(answer.usage.unwrap().cost, Some(Cost::default()));
    }

    #[test]
    fn lines_become_parallel_calls_of_declared_tools() {
        let said = "please\nread a b.txt\nrun ls -l\nwrite x.txt some text\nwrite y.txt";
        let calls = |tools: &[&str]| {
            let answer = Offline::answer(&request(said, tools));
            answer.tool_calls().map(|call| format!("{} {} {}", call.id, call.name, call.arguments.as_str())).collect::<Vec<_>>()
        };
        assert_eq!(
            calls(&["read", "write", "bash"]),
            [
                r#"offline_1_0 read {"path":"a b.txt"}"#,
                r#"offline_1_1 bash {"command":"ls -l"}"#,
                r#"offline_1_2 write {"path":"x.txt","content":"some text"}"#,
                r#"offline_1_3 write {"path":"y.txt","content":""}"#,
            ]
        );
        assert_eq!(calls(&["bash"]), [r#"offline_1_0 bash {"command":"ls -l"}"#]);
    }

    #[test]
    fn after_results_it_tells_of_them_and_calls_nothing() {
        let mut request = request("read a", &["read"]);
        request.messages.push(Message::Assistant(Box::new(Offline::answer(&request))));
        for (is_error, text) in [(false, "\nfirst\nsecond"), (true, "no such file")] {
            request.messages.push(Message::ToolResult(ToolResultMessage {
                tool_name: "read".into(),
                content: Some(Content::text_block(text)),
                is_error: Some(is_error),
                ..ToolResultMessage::default()
            }));
        }
        let answer = Offline::answer(&request);
        let text = answer.content.as_ref().unwrap().joined_text();
        assert_eq!(text, "Offline model: the tools are done.\n- read gave: first\n- read failed: no such file");
        assert_eq!(answer.tool_calls().count(), 0);
    }

    #[tokio::test]
    async fn it_streams_word_by_word_and_ends_with_the_message() {
        let stream = Offline.stream(&request("read a", &["read"]), &NoExchange, &CancellationToken::new()).await.unwrap();
        let events = stream.map(Result::unwrap).collect::<Vec<_>>().await;
        let text = |text: &str| StreamEvent::TextDelta { index: 0, text: text.into() };
        assert_eq!(
            events[..events.len() - 1],
            [
                StreamEvent::Start,
                text("Offline "),
                text("model: "),
                text("calling "),
                text("read."),
                StreamEvent::ToolCallStart { index: 1, id: "offline_1_0".into(), name: "read".into() },
                StreamEvent::ToolCallDelta { index: 1, text: r#"{"path":"a"}"#.into() },
            ]
        );
        assert!(matches!(events.last(), Some(StreamEvent::Done(message)) if message.tool_calls().count() == 1));
    }

    #[tokio::test]
    async fn an_abort_leaves_the_words_so_far() {
        let abort = CancellationToken::new();
        let mut stream = Offline.stream(&request("hello", &[]), &NoExchange, &abort).await.unwrap();
        stream.next().await;
        stream.next().await;
        abort.cancel();
        let failure = stream.next().await.unwrap().expect_err("aborted");
        assert_eq!(failure.error, ProviderError::Aborted);
        assert_eq!(failure.partial.content.as_ref().unwrap().joined_text(), "This ");
        assert_eq!(failure.partial.stop_reason.as_deref(), Some("aborted"));
        assert!(stream.next().await.is_none());
    }
}
