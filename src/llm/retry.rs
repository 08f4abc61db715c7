//! When a request that failed for a passing reason is sent again.
//!
//! # Invariants
//! - [`next_delay`] is a pure function; no chance takes part, so a failure plays out the same each time.
//! - Only transient errors are retried. What a server asked for (`retry-after`) is kept even when it is more than the
//!   time limit, but not when it is more than [`RetryPolicy::longest_wait`]: then the caller is told at once.

use std::future::Future;
use std::time::Duration;

use chrono::DateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Exchange, ProviderError, StreamOptions};

/// How often, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is sent, the first time included. 0 is as 1.
    pub tries: u32,
    /// No try begins later than this after the first; waits that the server asked for do not count.
    pub total: Duration,
    /// The wait after the first try; it doubles after each further one.
    pub first_delay: Duration,
    /// The longest of these waits.
    pub longest_delay: Duration,
    /// The longest wait that a server may ask for.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    /// 4 tries within 20 seconds, after waits of 1, 2 and 4 seconds; `retry-after` up to 5 minutes.
    fn default() -> Self {
        Self {
            tries: 4,
            total: Duration::from_secs(20),
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_secs(30),
            longest_wait: Duration::from_secs(300),
        }
    }
}

impl RetryPolicy {
    /// Sends once.
    pub const NEVER: Self = Self {
        tries: 1,
        total: Duration::ZERO,
        first_delay: Duration::ZERO,
        longest_delay: Duration::ZERO,
        longest_wait: Duration::ZERO,
    };

    /// The policy in force for a request: a number of retries set there replaces both limits.
    pub(crate) fn with(self, options: &StreamOptions) -> Self {
        match options.max_retries {
            Some(retries) => Self { tries: retries.saturating_add(1), total: Duration::MAX, ..self },
            None => self,
        }
    }
}

/// How long to wait before the next try, after `tries` tries and `elapsed` time (without the waits that servers asked
/// for); `None` when there is no next one.
pub fn next_delay(tries: u32, elapsed: Duration, error: &ProviderError, policy: &RetryPolicy) -> Option<Duration> {
    if !error.is_transient() || tries >= policy.tries {
        return None;
    }
    if let Some(asked) = error.retry_after() {
        return (asked <= policy.longest_wait).then_some(asked);
    }
    let doublings = tries.saturating_sub(1).min(31);
    let delay = policy.first_delay.saturating_mul(1 << doublings).min(policy.longest_delay);
    (elapsed.saturating_add(delay) <= policy.total).then_some(delay)
}

/// Calls `attempt` until it succeeds or the policy ends it.
pub(crate) async fn retried<T, F>(
    policy: &RetryPolicy,
    exchange: &dyn Exchange,
    abort: &CancellationToken,
    mut attempt: impl FnMut() -> F,
) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    let start = Instant::now();
    let mut asked = Duration::ZERO;
    let mut tries = 0;
    loop {
        let error = match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        tries += 1;
        let Some(delay) = next_delay(tries, start.elapsed().saturating_sub(asked), &error, policy) else { return Err(error) };
        if error.retry_after().is_some() {
            asked = asked.saturating_add(delay);
        }
        exchange.before_retry(tries, delay, &error).await;
        tokio::select! {
            biased;
            () = abort.cancelled() => return Err(ProviderError::Aborted),
            () = tokio::time::sleep(delay) => {}
        }
    }
}

/// Reads a `retry-after` header: seconds, or a date. A date is counted from the server's own `date`, else from `now_ms`.
pub(crate) fn retry_after_ms(value: &str, date: Option<&str>, now_ms: i64) -> Option<u64> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        // A cast of a float saturates; NaN and negative numbers become 0.
        return Some((seconds * 1000.0) as u64);
    }
    let http_date = |text: &str| DateTime::parse_from_rfc2822(text.trim()).ok().map(|date| date.timestamp_millis());
    let from = date.and_then(http_date).unwrap_or(now_ms);
    http_date(value).map(|until| u64::try_from(until.saturating_sub(from)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::NoExchange;

    fn busy(retry_after_ms: Option<u64>) -> ProviderError {
        ProviderError::Busy { address: "http://h".into(), status: 503, detail: "x".into(), retry_after_ms }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_and_end_after_four_tries() {
        let policy = RetryPolicy::default();
        let delays = (1..=4).map(|tries| next_delay(tries, Duration::ZERO, &busy(None), &policy)).collect::<Vec<_>>();
        assert_eq!(delays, [Some(SECOND), Some(2 * SECOND), Some(4 * SECOND), None]);
    }

    #[test]
    fn no_try_begins_after_the_time_limit() {
        let policy = RetryPolicy::default();
        assert_eq!(next_delay(1, 19 * SECOND, &busy(None), &policy), Some(SECOND));
        assert_eq!(next_delay(1, 19 * SECOND + Duration::from_millis(1), &busy(None), &policy), None);
    }

    #[test]
    fn what_the_server_asks_for_goes_before_the_time_limit() {
        let policy = RetryPolicy::default();
        assert_eq!(next_delay(1, 19 * SECOND, &busy(Some(60_000)), &policy), Some(60 * SECOND));
        assert_eq!(next_delay(1, Duration::ZERO, &busy(Some(301_000)), &policy), None);
        assert_eq!(next_delay(4, Duration::ZERO, &busy(Some(1)), &policy), None);
    }

    #[test]
    fn lasting_errors_are_not_tried_again() {
        let refused = ProviderError::Refused { address: String::new(), status: 400, detail: String::new() };
        assert_eq!(next_delay(1, Duration::ZERO, &refused, &RetryPolicy::default()), None);
        assert_eq!(next_delay(1, Duration::ZERO, &ProviderError::Aborted, &RetryPolicy::default()), None);
    }

    #[test]
    fn a_number_of_retries_replaces_tries_and_time_limit() {
        let options = StreamOptions { max_retries: Some(9), ..StreamOptions::default() };
        let policy = RetryPolicy::default().with(&options);
        assert_eq!(next_delay(9, 100 * SECOND, &busy(None), &policy), Some(30 * SECOND));
        assert_eq!(next_delay(10, SECOND, &busy(None), &policy), None);
        let none = RetryPolicy::default().with(&StreamOptions { max_retries: Some(0), ..StreamOptions::default() });
        assert_eq!(next_delay(1, Duration::ZERO, &busy(None), &none), None);
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_date() {
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        let now = 1_445_412_480_000; // the same moment
        assert_eq!(retry_after_ms("3", None, 0), Some(3_000));
        assert_eq!(retry_after_ms(" 0.5 ", None, 0), Some(500));
        assert_eq!(retry_after_ms("-3", None, 0), Some(0));
        assert_eq!(retry_after_ms(date, None, now - 4_000), Some(4_000));
        assert_eq!(retry_after_ms(date, Some("Wed, 21 Oct 2015 07:27:58 GMT"), 0), Some(2_000));
        assert_eq!(retry_after_ms(date, None, now + 4_000), Some(0));
        assert_eq!(retry_after_ms("soon", None, 0), None);
    }

    #[tokio::test]
    async fn waits_that_the_server_asked_for_do_not_use_up_the_time() {
        let policy = RetryPolicy { total: Duration::from_millis(150), first_delay: Duration::ZERO, ..RetryPolicy::default() };
        let (tries, abort) = (std::cell::Cell::new(0), CancellationToken::new());
        let call = retried(&policy, &NoExchange, &abort, || async {
            tries.set(tries.get() + 1);
            Err::<(), _>(busy((tries.get() == 1).then_some(200)))
        });
        assert_eq!(call.await, Err(busy(None)));
        assert_eq!(tries.get(), 4);
    }

    #[tokio::test]
    async fn an_abort_ends_the_wait() {
        let policy = RetryPolicy {
            first_delay: Duration::from_secs(3600),
            total: Duration::MAX,
            longest_delay: Duration::MAX,
            ..RetryPolicy::default()
        };
        let abort = CancellationToken::new();
        let call = retried(&policy, &NoExchange, &abort, || async {
            abort.cancel();
            Err::<(), _>(busy(None))
        });
        assert_eq!(call.await, Err(ProviderError::Aborted));
    }
}
