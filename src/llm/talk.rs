//! One conversation with a server: send, read the events, begin again where that repeats nothing.
//!
//! # Invariants
//! - A request is sent again only while nothing of its answer was passed on.
//! - An answer whose end was announced is complete, even if the connection breaks after that.

use std::collections::VecDeque;
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Stop};
use super::error::{Complaint, classify, one_line};
use super::http::{Call, Endpoint, scrub};
use super::retry::retried;
use super::sse::{SseError, SseStream, events};
use super::{EventStream, Exchange, ProviderError, Request, Secret, StreamEvent, StreamFailure};
use crate::session::json::{Json, well_formed};

/// What an event says about the rest of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More comes.
    Going,
    /// The answer is complete and nothing comes that matters.
    Complete(Stop),
}

/// Why an event ends the answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    /// It cannot be read; says what is wrong.
    Malformed(&'static str),
    /// It is an error; the JSON text says which.
    Complaint(String),
    /// The answer is withheld, for this reason.
    Withheld(String),
}

/// The events of one wire protocol.
pub(crate) trait Decode: Send + 'static {
    /// Takes one event's data into `answer`.
    fn decode(&mut self, data: &str, answer: &mut Answer, out: &mut VecDeque<StreamEvent>) -> Result<Progress, Fault>;

    /// Why the model stopped, once that was said.
    fn stop(&self) -> Option<Stop>;
}

/// Sends `payload` and gives the answer, once it has begun.
pub(crate) async fn converse<D: Decode>(
    endpoint: &Endpoint,
    request: &Request,
    payload: Json,
    empty: impl Fn() -> (Answer, D),
    exchange: &dyn Exchange,
    abort: &CancellationToken,
) -> Result<EventStream, ProviderError> {
    if abort.is_cancelled() {
        return Err(ProviderError::Aborted);
    }
    let payload = exchange.before_payload(payload).await;
    // What is sent is well-formed, whatever a session or a hook holds.
    let body = well_formed(payload.as_str().as_bytes()).into_owned();
    let call = endpoint.call(body, &request.options, request.now_ms)?;
    let policy = endpoint.retry().with(&request.options);
    let reading = retried(&policy, exchange, abort, || async {
        let (answer, decoder) = empty();
        let response = call.send(exchange, abort).await?;
        let timeout = Duration::from_millis(call.timeout_ms());
        let mut reading = Reading::new(&call, events(response.bytes_stream(), timeout, abort.clone()), answer, decoder);
        reading.begin().await.map(|()| reading)
    })
    .await?;
    Ok(Box::pin(stream::unfold(Some(reading), |reading| async {
        let mut reading = reading?;
        let event = reading.next().await;
        let is_last = matches!(event, Err(_) | Ok(StreamEvent::Done(_)));
        Some((event, (!is_last).then_some(reading)))
    })))
}

/// An answer that is being read.
struct Reading<D> {
    address: String,
    secrets: Vec<Secret>,
    timeout_ms: u64,
    events: SseStream,
    decoder: D,
    answer: Answer,
    queue: VecDeque<StreamEvent>,
    end: Option<Result<Stop, ProviderError>>,
}

impl<D: Decode> Reading<D> {
    fn new(call: &Call<'_>, events: SseStream, answer: Answer, decoder: D) -> Self {
        Self {
            address: call.address().to_owned(),
            secrets: call.secrets().to_vec(),
            timeout_ms: call.timeout_ms(),
            events,
            decoder,
            answer,
            queue: VecDeque::from([StreamEvent::Start]),
            end: None,
        }
    }

    /// Reads until something of the answer is there.
    ///
    /// # Errors
    /// When the stream ends before that.
    async fn begin(&mut self) -> Result<(), ProviderError> {
        while self.answer.is_empty() && self.end.is_none() {
            self.read().await;
        }
        match &self.end {
            Some(Err(error)) if self.answer.is_empty() => Err(error.clone()),
            Some(_) | None => Ok(()),
        }
    }

    /// The next event.
    async fn next(&mut self) -> Result<StreamEvent, StreamFailure> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(event);
            }
            match &self.end {
                Some(Ok(stop)) => return Ok(StreamEvent::Done(Box::new(self.answer.clone().finish(*stop)))),
                Some(Err(error)) => return Err(self.answer.clone().fail(error.clone())),
                None => self.read().await,
            }
        }
    }

    /// Reads one server-sent event.
    async fn read(&mut self) {
        let event = match self.events.next().await {
            Some(Ok(event)) => event,
            Some(Err(SseError::Aborted)) => return self.end = Some(Err(ProviderError::Aborted)),
            broken => {
                self.end = Some(match self.decoder.stop() {
                    Some(stop) => Ok(stop),
                    None => Err(self.broken(broken.and_then(Result::err))),
                });
                return;
            }
        };
        let data = well_formed(event.data.as_bytes());
        // Some servers keep a connection open with empty events.
        if data.trim().is_empty() {
            return;
        }
        match self.decoder.decode(&data, &mut self.answer, &mut self.queue) {
            Ok(Progress::Going) => {}
            Ok(Progress::Complete(stop)) => self.end = Some(Ok(stop)),
            Err(fault) => self.end = Some(Err(self.fault(fault, &data))),
        }
    }

    fn broken(&self, error: Option<SseError>) -> ProviderError {
        let address = self.address.clone();
        match error {
            Some(SseError::TimedOut) => ProviderError::TimedOut { address, timeout_ms: self.timeout_ms },
            Some(SseError::Cut(detail)) => ProviderError::Cut { address, detail: scrub(&self.secrets, &detail) },
            Some(SseError::NotEvents(detail)) => ProviderError::Malformed { address, detail },
            Some(SseError::Aborted) => ProviderError::Aborted,
            None => ProviderError::Cut { address, detail: "the answer ended too early".to_owned() },
        }
    }

    fn fault(&self, fault: Fault, data: &str) -> ProviderError {
        let address = self.address.clone();
        match fault {
            Fault::Malformed(what) => {
                let data = one_line(&scrub(&self.secrets, data));
                ProviderError::Malformed { address, detail: format!("{what}: {data}") }
            }
            Fault::Complaint(body) => {
                classify(&address, &Complaint { body: scrub(&self.secrets, &body), ..Complaint::default() })
            }
            Fault::Withheld(reason) => ProviderError::Withheld { address, detail: one_line(&scrub(&self.secrets, &reason)) },
        }
    }
}
