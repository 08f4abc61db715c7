//! Server-sent events of a response, with a time limit for each wait and an end on request.
//!
//! # Invariants
//! - The time limit counts from byte to byte: a comment line, as servers send to keep a connection open, is life.
//! - After an error nothing more is read.

use std::pin::Pin;
use std::time::Duration;

use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures::{Stream, StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::http::causes;

/// Why no further event comes.
#[derive(Debug, PartialEq)]
pub(crate) enum SseError {
    /// The caller ended it.
    Aborted,
    /// Nothing came in time.
    TimedOut,
    /// The connection broke.
    Cut(String),
    /// What came is no event stream.
    NotEvents(String),
}

/// The events of one response.
pub(crate) type SseStream = Pin<Box<dyn Stream<Item = Result<Event, SseError>> + Send>>;

/// Reads `bytes` as events.
pub(crate) fn events<B, E>(
    bytes: impl Stream<Item = Result<B, E>> + Send + 'static,
    timeout: Duration,
    abort: CancellationToken,
) -> SseStream
where
    B: AsRef<[u8]> + Send + 'static,
    E: std::error::Error + Send + 'static,
{
    let guarded = stream::unfold(Some(bytes.boxed()), move |bytes| {
        let abort = abort.clone();
        async move {
            let mut bytes = bytes?;
            let next = tokio::select! {
                biased;
                () = abort.cancelled() => Err(SseError::Aborted),
                next = tokio::time::timeout(timeout, bytes.next()) => match next {
                    Err(_) => Err(SseError::TimedOut),
                    Ok(None) => return None,
                    Ok(Some(Err(error))) => Err(SseError::Cut(causes(&error))),
                    Ok(Some(Ok(bytes))) => Ok(bytes),
                },
            };
            let rest = next.is_ok().then_some(bytes);
            Some((next, rest))
        }
    });
    let events = guarded.eventsource().map(|event| {
        event.map_err(|error| match error {
            EventStreamError::Transport(error) => error,
            EventStreamError::Utf8(_) => SseError::NotEvents("bytes that are not UTF-8".to_owned()),
            EventStreamError::Parser(_) => SseError::NotEvents("a line that is no field".to_owned()),
        })
    });
    Box::pin(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(chunks: Vec<Result<&'static str, std::io::Error>>) -> Vec<Result<(String, String), SseError>> {
        let events = events(stream::iter(chunks), Duration::from_secs(60), CancellationToken::new());
        events.map(|event| event.map(|event| (event.event, event.data))).collect().await
    }

    fn event(name: &str, data: &str) -> Result<(String, String), SseError> {
        Ok((name.to_owned(), data.to_owned()))
    }

    #[tokio::test]
    async fn events_are_put_together_from_pieces() {
        let chunks =
            vec![Ok(": hello\n\nda"), Ok("ta: {\"a\":"), Ok("1}\r\n\r\nevent: x\ndata: 1\ndata: 2\n\nda"), Ok("ta: cut")];
        assert_eq!(read(chunks).await, [event("message", "{\"a\":1}"), event("x", "1\n2")]);
    }

    #[tokio::test]
    async fn a_broken_connection_is_an_error_after_the_events_before_it() {
        let chunks = vec![Ok("data: 1\n\n"), Err(std::io::Error::other("reset"))];
        assert_eq!(read(chunks).await, [event("message", "1"), Err(SseError::Cut("reset".into()))]);
    }

    #[tokio::test]
    async fn silence_and_aborts_end_the_stream() {
        let silent = || stream::pending::<Result<&'static str, std::io::Error>>();
        let timed_out = events(silent(), Duration::from_millis(1), CancellationToken::new()).collect::<Vec<_>>().await;
        assert_eq!(timed_out, [Err(SseError::TimedOut)]);
        let abort = CancellationToken::new();
        abort.cancel();
        let aborted = events(silent(), Duration::from_secs(60), abort).collect::<Vec<_>>().await;
        assert_eq!(aborted, [Err(SseError::Aborted)]);
    }
}
