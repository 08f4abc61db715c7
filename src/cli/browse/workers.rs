//! The threads that answer the browser's questions.
//!
//! # Invariants
//! - What is quick does not wait for what is slow: lists, sessions, searches and costs have a thread each.
//! - Every request is answered once, also when the answering panics.
//! - Of pages only the latest one that was asked for is made.

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
    lists: Sender<Asked>,
    looks: Sender<Asked>,
    sessions: Sender<Asked>,
    searches: Sender<Asked>,
    costs: Sender<Asked>,
    answers: Receiver<Answer>,
    latest: Arc<Latest>,
    /// How many requests are not answered yet.
    open: usize,
    /// How many of them change something.
    changing: usize,
}

/// A request. Pages have numbers, from 1.
struct Asked {
    request: Request,
    page: u64,
}

/// What was asked for last.
#[derive(Debug, Default)]
struct Latest {
    /// The ticket of a session.
    session: AtomicU64,
    /// The number of a page.
    page: AtomicU64,
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
        let latest = Arc::new(Latest::default());
        let start = |name: &str| -> std::io::Result<Sender<Asked>> {
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
        let mut page = 0;
        let to = match &request {
            Request::FirstLook { .. } => &self.looks,
            Request::List => &self.lists,
            Request::Open { ticket, .. } => {
                self.latest.session.fetch_max(*ticket, Ordering::Relaxed);
                &self.sessions
            }
            Request::Page(..) => {
                page = self.latest.page.fetch_add(1, Ordering::Relaxed) + 1;
                &self.sessions
            }
            Request::Watch(..) | Request::Rows(..) | Request::Texts(..) | Request::Find(..) | Request::Act(_) => &self.sessions,
            Request::Search { .. } => &self.searches,
            Request::Cost(..) => &self.costs,
        };
        let is_change = matches!(request, Request::Act(_));
        // A thread lives as long as its sender.
        if to.send(Asked { request, page }).is_ok() {
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

fn work(desk: &Desk, requests: &Receiver<Asked>, answer: &Sender<Answer>, latest: &Latest) {
    while let Ok(Asked { request, page }) = requests.recv() {
        let is_stale = |ticket| ticket < latest.session.load(Ordering::Relaxed);
        // Whoever does not listen any more does not need it.
        let progress = |reply| drop(answer.send(Answer { reply, is_last: false, is_change: false }));
        let is_change = matches!(request, Request::Act(_));
        let is_old_page = matches!(request, Request::Page(..)) && page < latest.page.load(Ordering::Relaxed);
        let work = AssertUnwindSafe(|| if is_old_page { Reply::Dropped } else { desk.answer(request, &is_stale, &progress) });
        let reply = std::panic::catch_unwind(work).unwrap_or_else(|panic| {
            let what = crate::cli::panic_message(&*panic);
            Reply::Failed(crate::cli::text::one_line(&format!("this is a bug in pi-sessions, please report it: {what}")))
        });
        if answer.send(Answer { reply, is_last: true, is_change }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::browse::event::PageOf;
    use crate::cli::system_trash::SystemTrash;
    use crate::session::entry::EntryKind;
    use crate::session::message::Message;
    use crate::session::outline::Scope;
    use crate::storage::fs::StdFs;
    use crate::storage::repo::{Layout, NewSession, Repo};
    use crate::storage::{Durability, RandomIds, SystemClock};

    #[test]
    fn of_pages_that_wait_the_last_is_made_and_all_are_answered() {
        let root = tempfile::tempdir().expect("a folder");
        let repo = Repo::new(Arc::new(StdFs), Arc::new(SystemClock), Arc::new(RandomIds), root.path().into(), Layout::Flat);
        let mut session = repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect("a session");
        let prompts = (0..3).map(|number| EntryKind::message(Message::user(format!("prompt {number}"), 5)));
        session.append(prompts.collect(), Durability::Unsynced).expect("an append");
        let path = session.read().path().expect("a file").to_owned();
        let desk = Desk::new(repo, "/p".to_owned(), root.path().into(), None, Arc::new(SystemTrash));
        let open = desk.answer(Request::Open { path, scope: Scope::default(), ticket: 0 }, &|_| false, &|_| ());
        let Reply::Opened(open, ..) = open else { panic!("{open:?}") };

        let (ask, requests) = channel();
        let (answer, answers) = channel();
        for (number, entry) in open.session.tree().iter_all().enumerate() {
            let request = Request::Page(open.clone(), PageOf { entry, unfolded: false });
            ask.send(Asked { request, page: number as u64 + 1 }).expect("somebody listens");
        }
        ask.send(Asked { request: Request::Find(open.clone(), "prompt".to_owned()), page: 0 }).expect("somebody listens");
        drop(ask);
        let latest = Latest { page: AtomicU64::new(3), ..Latest::default() };
        work(&desk, &requests, &answer, &latest);
        drop(answer);

        let replies: Vec<_> = answers.iter().map(|answer| answer.reply).collect();
        assert!(matches!(replies[..], [Reply::Dropped, Reply::Dropped, Reply::Page(..), Reply::Found(..)]), "{replies:?}");
        let last = open.session.tree().leaf();
        assert!(matches!(&replies[2], Reply::Page(_, of, _) if Some(of.entry) == last));
    }
}
