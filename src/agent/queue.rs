//! Messages that wait for their turn: steering, follow-ups, and what goes with the next prompt.
//!
//! # Invariants
//! - First in, first out, in each of the queues.
//! - What is taken is gone: a message is sent once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::session::message::Message;

/// How many messages of a queue are sent at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueMode {
    /// One, and the next one after the model has answered.
    #[default]
    OneAtATime,
    /// All that wait.
    All,
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Queue {
    messages: Mutex<VecDeque<Message>>,
    mode: QueueMode,
}

impl Queue {
    pub fn new(mode: QueueMode) -> Self {
        Self { messages: Mutex::default(), mode }
    }

    pub fn push(&self, message: Message) {
        self.lock().push_back(message);
    }

    /// Takes what is sent now.
    pub fn take(&self) -> Vec<Message> {
        match self.mode {
            QueueMode::OneAtATime => self.lock().pop_front().into_iter().collect(),
            QueueMode::All => self.take_all(),
        }
    }

    /// Takes everything, to give it back to the user.
    pub fn take_all(&self) -> Vec<Message> {
        self.lock().drain(..).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The three queues of an agent.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Sent before the next request of a run.
    pub steering: Queue,
    /// Sent when the run would end.
    pub follow_up: Queue,
    /// Sent before the next prompt.
    pub next_turn: Queue,
}

/// The modes of the three queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueModes {
    /// Of steering messages.
    pub steering: QueueMode,
    /// Of follow-ups.
    pub follow_up: QueueMode,
    /// Of what goes with the next prompt.
    pub next_turn: QueueMode,
}

impl Default for QueueModes {
    fn default() -> Self {
        Self { steering: QueueMode::OneAtATime, follow_up: QueueMode::OneAtATime, next_turn: QueueMode::All }
    }
}

impl Queues {
    pub fn new(modes: QueueModes) -> Self {
        Self {
            steering: Queue::new(modes.steering),
            follow_up: Queue::new(modes.follow_up),
            next_turn: Queue::new(modes.next_turn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_decide_how_many_leave_at_once() {
        for (mode, sizes) in [(QueueMode::OneAtATime, [1, 1, 0]), (QueueMode::All, [2, 0, 0])] {
            let queue = Queue::new(mode);
            queue.push(Message::user("a", 1));
            queue.push(Message::user("b", 1));
            assert_eq!([queue.take().len(), queue.take().len(), queue.take().len()], sizes, "{mode:?}");
            assert!(queue.is_empty());
        }
    }
}
