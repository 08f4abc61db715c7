//! Both wire protocols against a server on loopback: answers, failures, retries and time limits.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use pi_sessions::llm::anthropic_messages::{AnthropicMessages, AnthropicOptions};
use pi_sessions::llm::openai_completions::{OpenAiCompletions, OpenAiOptions};
use pi_sessions::llm::retry::RetryPolicy;
use pi_sessions::llm::{
    Exchange, Model, NoExchange, Prices, Provider, ProviderError, Request, Secret, StreamEvent, StreamFailure, StreamOptions,
};
use pi_sessions::session::json::Json;
use pi_sessions::session::message::{AssistantMessage, Message};
use tokio_util::sync::CancellationToken;

use crate::support::model_server::{Answer, ModelServer, anthropic_events, openai_events};

const KEY: &str = "sk-very-secret-0123456789";

/// The default policy without its waits.
const AT_ONCE: RetryPolicy = RetryPolicy {
    tries: 4,
    total: Duration::from_secs(20),
    first_delay: Duration::ZERO,
    longest_delay: Duration::ZERO,
    longest_wait: Duration::from_secs(300),
};

#[derive(Clone, Copy, Debug)]
enum Protocol {
    OpenAi,
    Anthropic,
}

const BOTH: [Protocol; 2] = [Protocol::OpenAi, Protocol::Anthropic];

impl Protocol {
    fn provider(self, url: &str) -> Box<dyn Provider> {
        let (base_url, api_key, headers, retry) = (url.to_owned(), Some(Secret::new(KEY)), Vec::new(), AT_ONCE);
        match self {
            Self::OpenAi => {
                let options = OpenAiOptions { base_url: format!("{base_url}/v1"), api_key, headers, retry };
                Box::new(OpenAiCompletions::new(options).expect("a provider"))
            }
            Self::Anthropic => {
                let options = AnthropicOptions { base_url, api_key, headers, retry };
                Box::new(AnthropicMessages::new(options).expect("a provider"))
            }
        }
    }

    fn request(self) -> Request {
        let model = Model {
            provider: "local".into(),
            id: "mock-1".into(),
            api: self.provider("http://127.0.0.1:9").api().into(),
            context_window: 1000,
            max_tokens: None,
            prices: Prices { input: 1.0, output: 1.0, ..Prices::default() },
        };
        let options = StreamOptions { timeout_ms: Some(10_000), ..StreamOptions::default() };
        Request { options, ..Request::new(model, vec![Message::user("hi", 1)], 42) }
    }

    /// The events of an answer that says hello.
    fn hello(self) -> Vec<String> {
        match self {
            Self::OpenAi => openai_events(&[
                r#"{"id":"r1","choices":[{"delta":{"content":"Hel"}}]}"#,
                r#"{"choices":[{"delta":{"content":"lo"}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#,
            ]),
            Self::Anthropic => anthropic_events(&[
                r#"{"type":"message_start","message":{"id":"r1","usage":{"input_tokens":10,"output_tokens":1}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}"#,
                r#"{"type":"message_stop"}"#,
            ]),
        }
    }

    /// The number of events of [`Self::hello`] up to the first word.
    fn up_to_first_word(self) -> usize {
        match self {
            Self::OpenAi => 1,
            Self::Anthropic => 3,
        }
    }
}

/// How a call ended.
#[derive(Debug)]
enum Outcome {
    Done(Box<AssistantMessage>),
    Broke(StreamFailure),
    Refused(ProviderError),
}

impl Outcome {
    fn done(self) -> AssistantMessage {
        match self {
            Self::Done(message) => *message,
            other => panic!("not done: {other:?}"),
        }
    }

    fn refused(self) -> ProviderError {
        match self {
            Self::Refused(error) => error,
            other => panic!("not refused: {other:?}"),
        }
    }

    fn broke(self) -> StreamFailure {
        match self {
            Self::Broke(failure) => failure,
            other => panic!("did not break: {other:?}"),
        }
    }
}

async fn send(protocol: Protocol, url: &str, request: &Request) -> Outcome {
    send_with(protocol, url, request, &NoExchange, &CancellationToken::new()).await
}

async fn send_with(
    protocol: Protocol,
    url: &str,
    request: &Request,
    exchange: &dyn Exchange,
    abort: &CancellationToken,
) -> Outcome {
    let mut stream = match protocol.provider(url).stream(request, exchange, abort).await {
        Ok(stream) => stream,
        Err(error) => return Outcome::Refused(error),
    };
    let mut outcome = None;
    while let Some(event) = stream.next().await {
        assert!(outcome.is_none(), "nothing follows the end");
        outcome = match event {
            Ok(StreamEvent::Done(message)) => Some(Outcome::Done(message)),
            Ok(_) => None,
            Err(failure) => Some(Outcome::Broke(failure)),
        };
    }
    outcome.expect("an end")
}

fn text(message: &AssistantMessage) -> String {
    message.content.as_ref().expect("content").joined_text()
}

#[tokio::test]
async fn a_plain_turn_gives_the_message_and_the_server_what_it_wants() {
    for protocol in BOTH {
        let server = ModelServer::start([Answer::Events(protocol.hello())]);
        let message = send(protocol, &server.url, &protocol.request()).await.done();
        let json = Json::of(&Message::Assistant(Box::new(message))).expect("JSON");
        let api = protocol.request().model.api;
        let expected = format!(
            concat!(
                r#"{{"role":"assistant","content":[{{"type":"text","text":"Hello"}}],"api":"{}","provider":"local","model":"mock-1","#,
                r#""usage":{{"input":10,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":15,"#,
                r#""cost":{{"input":0.00001,"output":5e-6,"cacheRead":0,"cacheWrite":0,"total":0.000015000000000000002}}}},"#,
                r#""stopReason":"stop","timestamp":42,"responseId":"r1"}}"#
            ),
            api
        );
        assert_eq!(json.as_str(), expected);
        let received = server.received();
        let (path, key) = match protocol {
            Protocol::OpenAi => ("/v1/chat/completions", format!("authorization: bearer {KEY}")),
            Protocol::Anthropic => ("/v1/messages", format!("x-api-key: {KEY}")),
        };
        assert_eq!((received.len(), received[0].path.as_str()), (1, path));
        assert!(received[0].head.contains(&key), "{}", received[0].head);
        assert!(received[0].body.starts_with(r#"{"model":"mock-1","#), "{}", received[0].body);
    }
}

#[tokio::test]
async fn parallel_tool_calls_arrive_whole() {
    for protocol in BOTH {
        let events = match protocol {
            Protocol::OpenAi => openai_events(&[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\":"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"bash","arguments":"{oops"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"x\"}"}}]},"finish_reason":"tool_calls"}]}"#,
            ]),
            Protocol::Anthropic => anthropic_events(&[
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"read","input":{}}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"x\"}"}}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"bash","input":{}}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{oops"}}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}"#,
                r#"{"type":"message_stop"}"#,
            ]),
        };
        let server = ModelServer::start([Answer::Events(events)]);
        let message = send(protocol, &server.url, &protocol.request()).await.done();
        let calls = message.tool_calls().map(|call| format!("{} {} {}", call.id, call.name, call.arguments.as_str()));
        assert_eq!(calls.collect::<Vec<_>>(), [r#"a read {"path":"x"}"#, r#"b bash "{oops""#]);
        assert_eq!(message.stop_reason.as_deref(), Some("toolUse"));
    }
}

/// Keeps what it sees, and changes the payload.
#[derive(Default)]
struct Watcher {
    seen: Mutex<Vec<String>>,
}

#[async_trait]
impl Exchange for Watcher {
    async fn before_payload(&self, payload: Json) -> Json {
        Json::parse(&payload.as_str().replacen("mock-1", "mock-2", 1)).expect("JSON")
    }

    async fn after_response(&self, status: u16, headers: &[(String, String)]) {
        let kind = headers.iter().find(|(name, _)| name == "content-type").map_or("", |(_, value)| value);
        self.seen.lock().expect("no panic").push(format!("{status} {kind}"));
    }

    async fn before_retry(&self, tries: u32, delay: Duration, error: &ProviderError) {
        self.seen.lock().expect("no panic").push(format!("{tries} {delay:?} {}", error.is_transient()));
    }
}

#[tokio::test]
async fn passing_errors_are_retried_and_the_exchange_sees_it() {
    for protocol in BOTH {
        let busy = Answer::json(503, r#"{"error":{"message":"overloaded"}}"#);
        let wait = Answer::json_with(429, ("retry-after", "0.01"), r#"{"error":{"message":"slow down"}}"#);
        let server = ModelServer::start([busy, wait, Answer::Events(protocol.hello())]);
        let watcher = Watcher::default();
        let outcome = send_with(protocol, &server.url, &protocol.request(), &watcher, &CancellationToken::new()).await;
        assert_eq!(text(&outcome.done()), "Hello");
        assert_eq!(
            *watcher.seen.lock().expect("no panic"),
            ["503 application/json", "1 0ns true", "429 application/json", "2 10ms true", "200 text/event-stream"]
        );
        let received = server.received();
        assert!(received.len() == 3 && received.iter().all(|request| request.body.contains(r#""model":"mock-2""#)));
    }
}

#[tokio::test]
async fn four_tries_are_the_end() {
    for protocol in BOTH {
        let server = ModelServer::start(std::iter::repeat_n(Answer::json(502, "<html>bad\ngateway</html>"), 9));
        let error = send(protocol, &server.url, &protocol.request()).await.refused();
        assert_eq!(server.received().len(), 4);
        let address = match protocol {
            Protocol::OpenAi => format!("{}/v1", server.url),
            Protocol::Anthropic => server.url.clone(),
        };
        assert_eq!(error.to_string(), format!("{address} cannot answer now (status 502): <html>bad gateway</html>"));
    }
}

#[tokio::test]
async fn a_silent_server_is_left_after_the_time_limit() {
    for protocol in BOTH {
        let server = ModelServer::start([Answer::Silence, Answer::Hang(Vec::new())]);
        let mut request = protocol.request();
        request.options = StreamOptions { timeout_ms: Some(50), max_retries: Some(1), ..StreamOptions::default() };
        let error = send(protocol, &server.url, &request).await.refused();
        assert!(matches!(error, ProviderError::TimedOut { timeout_ms: 50, .. }), "{error:?}");
        assert_eq!(server.received().len(), 2);
        let message = request.failed_message(&error);
        assert_eq!(message.stop_reason.as_deref(), Some("error"));
        assert!(message.error_message.is_some_and(|text| text.ends_with("sent nothing for 50 ms")));
    }
}

#[tokio::test]
async fn silence_in_the_middle_keeps_what_came() {
    for protocol in BOTH {
        let mut events = protocol.hello();
        events.truncate(protocol.up_to_first_word());
        let server = ModelServer::start([Answer::Hang(events)]);
        let mut request = protocol.request();
        request.options.timeout_ms = Some(50);
        let failure = send(protocol, &server.url, &request).await.broke();
        assert!(matches!(failure.error, ProviderError::TimedOut { .. }), "{failure:?}");
        assert_eq!(text(&failure.partial), "Hel");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_middle_keeps_what_came() {
    for protocol in BOTH {
        let mut events = protocol.hello();
        events.truncate(protocol.up_to_first_word());
        // A clean end without an end mark is no better than a broken connection.
        for answer in [Answer::Cut(events.clone()), Answer::Events(events.clone())] {
            let server = ModelServer::start([answer]);
            let failure = send(protocol, &server.url, &protocol.request()).await.broke();
            assert!(matches!(failure.error, ProviderError::Cut { .. }), "{failure:?}");
            assert_eq!(text(&failure.partial), "Hel");
            assert_eq!(failure.partial.stop_reason.as_deref(), Some("error"));
            assert_eq!(failure.partial.error_message, Some(failure.error.to_string()));
            assert_eq!(server.received().len(), 1, "a part of an answer is not asked for again");
        }
    }
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_first_word_is_tried_again() {
    for protocol in BOTH {
        let mut begun = protocol.hello();
        begun.truncate(protocol.up_to_first_word() - 1);
        let script = [Answer::Cut(begun), Answer::Cut(Vec::new()), Answer::Events(protocol.hello())];
        let server = ModelServer::start(script);
        let message = send(protocol, &server.url, &protocol.request()).await.done();
        assert_eq!((text(&message).as_str(), server.received().len()), ("Hello", 3));
    }
}

#[tokio::test]
async fn an_empty_stream_is_no_answer_and_empty_events_are_none() {
    let protocol = Protocol::OpenAi;
    let mut events = protocol.hello();
    events.insert(1, "data:\n\n".to_owned());
    let server = ModelServer::start([Answer::Events(openai_events(&[])), Answer::Events(events)]);
    let message = send(protocol, &server.url, &protocol.request()).await.done();
    assert_eq!((text(&message).as_str(), server.received().len()), ("Hello", 2));
}

#[tokio::test]
async fn an_answer_that_was_announced_complete_survives_a_broken_connection() {
    for protocol in BOTH {
        let mut events = protocol.hello();
        events.pop();
        let server = ModelServer::start([Answer::Cut(events)]);
        assert_eq!(text(&send(protocol, &server.url, &protocol.request()).await.done()), "Hello");
    }
}

#[tokio::test]
async fn a_malformed_event_is_an_error_and_not_tried_again() {
    for protocol in BOTH {
        let mut events = protocol.hello();
        events.truncate(protocol.up_to_first_word());
        events.push(format!("data: {{\"half {KEY}\n\n"));
        let server = ModelServer::start([Answer::Events(events), Answer::Events(vec!["data: nonsense\n\n".into()])]);
        let failure = send(protocol, &server.url, &protocol.request()).await.broke();
        assert!(matches!(failure.error, ProviderError::Malformed { .. }), "{failure:?}");
        assert!(failure.error.to_string().ends_with(r#"an event that is no JSON object: {"half ***"#), "{failure}");
        assert_eq!(text(&failure.partial), "Hel");
        let error = send(protocol, &server.url, &protocol.request()).await.refused();
        assert!(matches!(error, ProviderError::Malformed { .. }), "{error:?}");
        assert_eq!(server.received().len(), 2);
    }
}

#[tokio::test]
async fn an_error_within_the_stream_is_told_by_its_kind() {
    for protocol in BOTH {
        let overloaded = "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"later\"}}\n\n";
        let mut late = protocol.hello();
        late.truncate(protocol.up_to_first_word());
        late.push(overloaded.to_owned());
        let server = ModelServer::start([Answer::Events(vec![overloaded.to_owned()]), Answer::Events(late)]);
        let failure = send(protocol, &server.url, &protocol.request()).await.broke();
        assert!(matches!(failure.error, ProviderError::Busy { status: 529, .. }), "{failure:?}");
        assert_eq!(server.received().len(), 2);
    }
}

#[tokio::test]
async fn an_overflow_is_recognised() {
    for protocol in BOTH {
        let body = match protocol {
            Protocol::OpenAi => r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
            Protocol::Anthropic => r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8"}}"#,
        };
        let server = ModelServer::start([Answer::json(400, body)]);
        let error = send(protocol, &server.url, &protocol.request()).await.refused();
        assert!(error.is_overflow(), "{error:?}");
    }
}

#[tokio::test]
async fn no_error_shows_the_key() {
    for protocol in BOTH {
        let body = format!(r#"{{"error":{{"message":"bad key {KEY} in Bearer {KEY}"}}}}"#);
        let script = [
            Answer::json(401, &body),
            Answer::json(400, &body),
            Answer::json_with(302, ("location", &format!("http://127.0.0.1:1/{KEY}?key={KEY}")), ""),
            Answer::json(200, &body),
            Answer::json(404, KEY),
        ];
        let steps = script.len();
        let server = ModelServer::start(script);
        let mut texts = vec![format!("{:?}", protocol.request())];
        let request =
            Request { options: StreamOptions { max_retries: Some(0), ..StreamOptions::default() }, ..protocol.request() };
        for _ in 0..steps {
            let error = send(protocol, &server.url, &request).await.refused();
            texts.push(format!("{error} {error:?}"));
        }
        assert!(texts.iter().all(|text| !text.contains("sk-very")), "{texts:#?}");
        assert!(texts[1].contains("refused the key (status 401): bad key *** in"), "{}", texts[1]);
        assert!(texts[3].contains("it redirects to http://127.0.0.1:1/***"), "{}", texts[3]);
        assert_eq!(server.received().len(), steps, "a redirect is not followed");
    }
}

#[tokio::test]
async fn an_address_without_a_server_is_named() {
    for protocol in BOTH {
        // The port was free a moment ago, and nothing listens there.
        let url = ModelServer::start([]).url.clone();
        let error = send(protocol, &url, &protocol.request()).await.refused();
        assert!(matches!(error, ProviderError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().starts_with(&format!("cannot reach {url}")), "{error}");
    }
}

#[tokio::test]
async fn an_abort_ends_waiting_and_reading() {
    for protocol in BOTH {
        let mut events = protocol.hello();
        events.truncate(protocol.up_to_first_word());
        let server = ModelServer::start([Answer::Hang(events)]);
        let abort = CancellationToken::new();
        let mut stream = protocol.provider(&server.url).stream(&protocol.request(), &NoExchange, &abort).await.expect("a stream");
        assert_eq!(stream.next().await, Some(Ok(StreamEvent::Start)));
        assert_eq!(stream.next().await, Some(Ok(StreamEvent::TextDelta { index: 0, text: "Hel".into() })));
        abort.cancel();
        let failure = stream.next().await.expect("an end").expect_err("aborted");
        assert_eq!((failure.error, failure.partial.stop_reason.as_deref()), (ProviderError::Aborted, Some("aborted")));
        assert!(stream.next().await.is_none());
        let error = send_with(protocol, &server.url, &protocol.request(), &NoExchange, &abort).await.refused();
        assert_eq!(error, ProviderError::Aborted);
        assert_eq!(server.received().len(), 1);
    }
}
