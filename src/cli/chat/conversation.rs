//! A harness that is driven from the command line: something runs, what happens is shown, and Ctrl-C ends it.
//!
//! # Invariants
//! - When something has ended, everything that it told was shown.
//! - The first Ctrl-C aborts what runs, the second drops it; what was said is kept either way.
//! - Output that nobody reads any more ends what runs, in the same way.

use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::agent::tools::Env;
use crate::agent::{AgentError, AgentHarness, Events, RunOutcome};
use crate::cli::chat::lines::TypedLines;
use crate::cli::chat::printer::{Printer, Show};
use crate::cli::chat::setup::{InUse, Made, MakeOptions, Setup, agent_error};
use crate::cli::chat::slash;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::interrupt::Interrupts;
use crate::cli::ui::Ui;
use crate::storage::handle::Session;

/// A harness at work.
pub struct Conversation {
    runtime: Runtime,
    /// The harness.
    pub harness: Arc<AgentHarness>,
    /// The folder of its tools.
    pub env: Arc<Env>,
    /// How it is shown.
    pub printer: Printer,
    /// Lines that were typed while something ran and that wait for its end.
    pub later: VecDeque<String>,
    events: Events,
    is_typed_into: bool,
}

/// What a conversation is made of.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The session.
    pub session: Session,
    /// The model.
    pub in_use: InUse,
    /// The folder of the tools.
    pub cwd: &'a Path,
    /// What else it is made of.
    pub options: MakeOptions<'a>,
}

/// How something ended.
#[derive(Debug)]
pub enum Ended<T> {
    /// By itself, or because it was aborted.
    By(T),
    /// The user wants to leave.
    Left,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("harness", &self.harness).finish_non_exhaustive()
    }
}

impl Conversation {
    /// Opens a conversation. `is_typed_into`: what is typed on the terminal while something runs is for the model.
    pub fn open(setup: &Setup, parts: Parts<'_>, show: Show, is_typed_into: bool) -> Result<Self, CliError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let no_threads = |error| CliError::new(ErrorKind::Io, "the system gives no threads").because(error);
        let runtime = runtime.map_err(no_threads)?;
        let Parts { session, in_use, cwd, options } = parts;
        let Made { harness, env } = runtime.block_on(setup.make(session, in_use, cwd, options))?;
        let events = harness.subscribe();
        let printer = Printer::new(show);
        let (harness, later) = (Arc::new(harness), VecDeque::new());
        Ok(Self { runtime, harness, env, printer, later, events, is_typed_into })
    }

    /// Runs something to its end.
    pub fn drive<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
        ui: &mut Ui,
    ) -> Result<Ended<T>, CliError> {
        let Self { runtime, harness, printer, later, events, is_typed_into, .. } = self;
        let mut interrupts = Interrupts::listen();
        let mut typed = TypedLines::new(*is_typed_into);
        runtime.block_on(async {
            let mut task = tokio::spawn(work);
            let mut interrupted = false;
            let mut shown = Ok(());
            let ended = loop {
                tokio::select! {
                    biased;
                    Some(event) = events.next() => {
                        if shown.is_ok() {
                            shown = printer.event(&event, ui);
                            if shown.is_err() {
                                harness.abort();
                            }
                        }
                    }
                    ended = &mut task => break ended,
                    () = interrupts.next() => {
                        if interrupted {
                            task.abort();
                        } else {
                            harness.abort();
                            interrupted = true;
                        }
                    }
                    line = typed.next() => {
                        let line = line.trim();
                        if slash::is_command(line) {
                            ui.aside_dim(&format!("when this has ended: {line}"));
                            later.push_back(line.to_owned());
                        } else if !line.is_empty() {
                            harness.steer(line);
                            ui.aside_dim("queued for the next request");
                        }
                    }
                }
            };
            while let Some(event) = events.try_next() {
                if shown.is_ok() {
                    shown = printer.event(&event, ui);
                }
            }
            shown.and_then(|()| printer.end_line(ui))?;
            ui.clear_status();
            match ended {
                Ok(ended) => Ok(Ended::By(ended)),
                Err(error) if error.is_cancelled() => Ok(Ended::Left),
                Err(error) => {
                    let what = error.try_into_panic().map(|panic| crate::cli::panic_message(&*panic));
                    Err(CliError::bug(what.unwrap_or_else(|_| "a task was lost".to_owned())))
                }
            }
        })
    }

    /// As [`Conversation::drive`], for an operation of the harness.
    pub fn operate<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = Result<T, AgentError>> + Send + 'static,
        ui: &mut Ui,
    ) -> Result<Ended<T>, CliError> {
        match self.drive(work, ui)? {
            Ended::By(Ok(done)) => Ok(Ended::By(done)),
            Ended::By(Err(error)) => Err(agent_error(error)),
            Ended::Left => Ok(Ended::Left),
        }
    }

    /// Says something, and runs until the model has nothing more to do.
    pub fn prompt(&mut self, text: String, ui: &mut Ui) -> Result<Ended<RunOutcome>, CliError> {
        self.printer.expect_typed();
        let harness = self.harness.clone();
        self.operate(async move { harness.prompt(text).await }, ui)
    }

    /// The session's file, if anything was said in it.
    pub fn saved_path(&self) -> Option<PathBuf> {
        self.harness.with_session(|session| {
            let has_entries = !session.tree().is_empty();
            session.read().path().filter(|_| has_entries).map(Path::to_owned)
        })
    }

    /// Writes what waits and gives the session free. Tells what could not be written, and where it is.
    pub fn close(self, ui: &mut Ui) -> Result<(), CliError> {
        let closed = self.harness.close();
        self.runtime.shutdown_background();
        let closed = closed.map_err(agent_error)?;
        if closed.unsaved == 0 {
            return Ok(());
        }
        let entries = crate::cli::view::count(closed.unsaved as u64, "entry", "entries");
        let error = match &closed.unsaved_path {
            Some(path) => {
                let message = format!("{entries} could not be written to the session and went to {}", path.display());
                CliError::new(ErrorKind::Io, message)
            }
            None => {
                let error = CliError::new(ErrorKind::Io, format!("{entries} could not be written anywhere and are lost"));
                match closed.lost_because {
                    Some(why) => error.because(std::io::Error::other(why)),
                    None => error,
                }
            }
        };
        let _ = ui.flush();
        Err(error)
    }
}
