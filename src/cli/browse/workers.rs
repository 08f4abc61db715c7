//! The threads that answer the browser's questions.
//!
//! # Invariants
//! - What is quick does not wait for what is slow: lists, sessions, searches and costs have a thread each.
//! - Every request is answered once, also when the answering panics.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use crate::cli::browse::desk::Desk;
use crate::cli::browse::event::{Reply, Request};

/// The threads.
pub struct Workers {
    lists: Sender<Request>,
    looks: Sender<Request>,
    sessions: Sender<Request>,
    searches: Sender<Request>,
    costs: Sender<Request>,
    answers: Receiver<Answer>,
    latest: Arc<AtomicU64>,
    /// How many requests are not answered yet.
    open: usize,
    /// How many of them change something.
    changing: usize,
}

/// A reply, and whether it is the last to its request.
struct Answer {
    reply: Reply,
    is_last: bool,
    is_change: bool,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Workers {
    /// Starts the threads. They end when this is dropped and they have answered.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn start(desk: &Desk) -> std::io::Result<Self> {
        let (answer, answers) = channel();
        let latest = Arc::new(AtomicU64::new(0));
        let start = |name: &str| -> std::io::Result<Sender<Request>> {
            let (sender, requests) = channel();
            let (desk, answer, latest) = (desk.clone(), answer.clone(), latest.clone());
            let work = move || work(&desk, &requests, &answer, &latest);
            std::thread::Builder::new().name(format!("browse {name}")).spawn(work)?;
            Ok(sender)
        };
        Ok(Self {
            lists: start("list")?,
            looks: start("look")?,
            sessions: start("session")?,
            searches: start("search")?,
            costs: start("cost")?,
            answers,
            latest,
            open: 0,
            changing: 0,
        })
    }

    /// Asks.
    pub fn ask(&mut self, request: Request) {
        let to = match &request {
            Request::FirstLook { .. } => &self.looks,
            Request::List => &self.lists,
            Request::Open { ticket, .. } => {
                self.latest.fetch_max(*ticket, Ordering::Relaxed);
                &self.sessions
            }
            Request::Watch(..)
            | Request::Rows(..)
            | Request::Texts(..)
            | Request::Page(..)
            | Request::Find(..)
            | Request::Act(_) => &self.sessions,
            Request::Search { .. } => &self.searches,
            Request::Cost(..) => &self.costs,
        };
        let is_change = matches!(request, Request::Act(_));
        // A thread lives as long as its sender.
        if to.send(request).is_ok() {
            self.open += 1;
            self.changing += usize::from(is_change);
        }
    }

    /// Whether something is not answered yet.
    pub fn is_busy(&self) -> bool {
        self.open > 0
    }

    /// Whether a change is asked for and not made yet.
    pub fn is_changing(&self) -> bool {
        self.changing > 0
    }

    /// The next answer, if there is one.
    pub fn next(&mut self) -> Option<Reply> {
        match self.answers.try_recv() {
            Ok(answer) => Some(self.take(answer)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Waits for the next answer.
    pub fn wait(&mut self, time: Duration) -> Option<Reply> {
        match self.answers.recv_timeout(time) {
            Ok(answer) => Some(self.take(answer)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn take(&mut self, answer: Answer) -> Reply {
        self.open -= usize::from(answer.is_last);
        self.changing -= usize::from(answer.is_change);
        answer.reply
    }
}

fn work(desk: &Desk, requests: &Receiver<Request>, answer: &Sender<Answer>, latest: &AtomicU64) {
    while let Ok(request) = requests.recv() {
        let is_stale = |ticket| ticket < latest.load(Ordering::Relaxed);
        // Whoever does not listen any more does not need it.
        let progress = |reply| drop(answer.send(Answer { reply, is_last: false, is_change: false }));
        let is_change = matches!(request, Request::Act(_));
        let work = AssertUnwindSafe(|| desk.answer(request, &is_stale, &progress));
        let reply = std::panic::catch_unwind(work).unwrap_or_else(|panic| {
            let what = crate::cli::panic_message(&*panic);
            Reply::Failed(crate::cli::text::one_line(&format!("this is a bug in pi-sessions, please report it: {what}")))
        });
        if answer.send(Answer { reply, is_last: true, is_change }).is_err() {
            return;
        }
    }
}
