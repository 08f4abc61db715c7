//! What an agent is doing: one thing at a time.
//!
//! # Invariants
//! - Only an idle agent begins something, and who began it ends it: an [`Operation`] that is dropped makes it idle.
//! - The token of an operation is its own, so an abort never reaches the next one.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::AgentError;

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Nothing.
    Idle,
    /// Turns with the model.
    Running,
    /// The user's compaction.
    Compacting,
    /// A navigation.
    Navigating,
    /// Nothing ever again.
    Closed,
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "nothing is going on",
            Self::Running => "a turn is running",
            Self::Compacting => "a compaction is running",
            Self::Navigating => "a navigation is running",
            Self::Closed => "the session was closed",
        })
    }
}

/// The state of an agent.
#[derive(Debug)]
pub(crate) struct Status {
    activity: watch::Sender<Activity>,
    abort: Mutex<CancellationToken>,
}

impl Default for Status {
    fn default() -> Self {
        Self { activity: watch::Sender::new(Activity::Idle), abort: Mutex::default() }
    }
}

/// Something that goes on, until this is dropped.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    status: &'a Status,
    /// Cancelled when the user aborts the operation.
    pub abort: CancellationToken,
}

impl Status {
    /// Begins something.
    ///
    /// # Errors
    /// When something else is going on, or the agent was closed.
    pub fn begin(&self, activity: Activity) -> Result<Operation<'_>, AgentError> {
        let mut current = Activity::Idle;
        let abort = CancellationToken::new();
        self.activity.send_if_modified(|state| {
            current = *state;
            if *state != Activity::Idle {
                return false;
            }
            // Under the lock of the state, so an abort that comes now finds the token of this operation.
            *self.abort.lock().unwrap_or_else(PoisonError::into_inner) = abort.clone();
            *state = activity;
            true
        });
        match current {
            Activity::Idle => Ok(Operation { status: self, abort }),
            Activity::Closed => Err(AgentError::Closed),
            busy => Err(AgentError::Busy(busy)),
        }
    }

    /// Lets nothing begin any more, if nothing is going on.
    ///
    /// # Errors
    /// When something is going on, or it is closed already.
    pub fn close(&self) -> Result<(), AgentError> {
        let operation = self.begin(Activity::Closed)?;
        std::mem::forget(operation);
        Ok(())
    }

    pub fn activity(&self) -> Activity {
        *self.activity.borrow()
    }

    pub fn abort(&self) {
        self.token().cancel();
    }

    /// The token of what goes on, or went on last.
    pub fn token(&self) -> CancellationToken {
        self.abort.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until nothing is going on.
    pub async fn idle(&self) {
        let mut watching = self.activity.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = watching.wait_for(|activity| matches!(activity, Activity::Idle | Activity::Closed)).await;
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.status.activity.send_replace(Activity::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_operation_at_a_time_and_an_abort_is_for_the_current_one() {
        let status = Status::default();
        let run = status.begin(Activity::Running).expect("idle");
        assert!(matches!(status.begin(Activity::Compacting), Err(AgentError::Busy(Activity::Running))));
        assert!(matches!(status.close(), Err(AgentError::Busy(Activity::Running))));
        status.abort();
        assert!(run.abort.is_cancelled());
        let waiting = status.idle();
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(run);
        waiting.await;
        let next = status.begin(Activity::Navigating).expect("idle again");
        assert!(!next.abort.is_cancelled());
        drop(next);
        status.close().expect("idle");
        assert!(matches!(status.begin(Activity::Running), Err(AgentError::Closed)));
    }
}
