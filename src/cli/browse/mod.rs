//! The full-screen browser of sessions.
//!
//! ```text
//! terminal --events--> state --effects--> workers --requests--> desk --> library
//!    ^                   |  ^                                     |
//!    +------ view <------+  +--------------- replies -------------+
//! ```
//!
//! `state` is what is shown and how it changes (`commands` what keys do, `answers` what comes back), with its parts
//! `session_list`, `tree_pane`, `page`, `dialog`; `view` draws it; `desk` and `acts` read and change sessions, on the
//! threads of `workers`; `terminal` is the full screen.
//!
//! # Invariants
//! - `state` and `view` do no I/O, so that a test can press keys and look at the screen.
//! - Nothing waits on the screen: what takes time is asked of the workers.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use ratatui::Frame;

use crate::cli::Outcome;
use crate::cli::browse::desk::Desk;
use crate::cli::browse::event::{Effect, Event, Folder, Outside};
use crate::cli::browse::keys::Key;
use crate::cli::browse::state::{State, StateOptions};
use crate::cli::browse::terminal::FullScreen;
use crate::cli::browse::workers::Workers;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::text::one_line;
use crate::storage::Clock;
use crate::storage::repo::Repo;
use crate::storage::trash::Trash;

mod acts;
mod answers;
mod commands;
mod desk;
mod dialog;
mod event;
mod keys;
mod layout;
mod line_edit;
mod open_session;
mod page;
mod prose;
mod scroll;
mod session_list;
mod state;
mod terminal;
mod tone;
mod tree_pane;
mod view;
mod workers;

pub(in crate::cli) use event::{Folder as OutsideFolder, Outside as OutsideWork, Told};
pub(in crate::cli) use terminal::restore as restore_terminal;

/// How often time goes on: ages, and a look at what others changed.
const TICK: Duration = Duration::from_millis(1_000);
/// How long the terminal is waited for while an answer may come.
const GLANCE: Duration = Duration::from_millis(15);

/// What a browser is made of.
pub struct BrowserOptions {
    /// The sessions.
    pub repo: Repo,
    /// The folder of the command: its sessions are shown first.
    pub here: PathBuf,
    /// Where the index of words is kept, if anywhere.
    pub cache_dir: Option<PathBuf>,
    /// The trash.
    pub trash: Arc<dyn Trash>,
    /// Whether a session is picked: one types at once, and resuming ends the browser.
    pub is_picker: bool,
    /// Whether another folder to work in than a session's own was named.
    pub is_elsewhere: bool,
    /// Whether sessions of all folders are shown at first.
    pub all_folders: bool,
    /// The session that is selected at first.
    pub select: Option<PathBuf>,
    /// Whether there are colours.
    pub is_colored: bool,
    /// The columns and rows of the screen.
    pub size: (u16, u16),
}

impl fmt::Debug for BrowserOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserOptions").field("here", &self.here).field("size", &self.size).finish_non_exhaustive()
    }
}

/// A browser: what is shown, and who answers its questions. It knows no terminal, so a test can be one.
#[derive(Debug)]
pub struct Browser {
    state: State,
    workers: Workers,
    clock: Arc<dyn Clock>,
    is_colored: bool,
    outside: VecDeque<Outside>,
    copied: Vec<String>,
}

impl Browser {
    /// Opens a browser, which begins to read.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn open(options: BrowserOptions) -> io::Result<Self> {
        let BrowserOptions { repo, here, cache_dir, trash, is_picker, is_elsewhere, all_folders, select, is_colored, size } =
            options;
        let clock = repo.clock().clone();
        let here_text = here.to_string_lossy().into_owned();
        let state_options = StateOptions {
            is_picker,
            is_elsewhere,
            all_folders,
            select,
            here: one_line(&here_text),
            export_folder: one_line(&here_text),
            now_ms: clock.now_ms(),
        };
        let desk = Desk::new(repo, here_text, here, cache_dir, trash);
        let workers = Workers::start(&desk)?;
        let (state, effects) = State::new(state_options, size);
        let (outside, copied) = (VecDeque::new(), Vec::new());
        let mut browser = Self { state, workers, clock, is_colored, outside, copied };
        browser.perform(effects);
        Ok(browser)
    }

    /// Presses keys, by their names with blanks between them: `/ l o g Enter`.
    pub fn press(&mut self, keys: &str) {
        for key in keys.split_whitespace() {
            self.handle(Event::Key(Key::named(key)));
        }
    }

    /// Gives the screen another size.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.handle(Event::Resize(columns, rows));
    }

    /// Lets time go on: it is looked for what others changed.
    pub fn tick(&mut self) {
        self.handle(Event::Tick(self.clock.now_ms()));
    }

    /// Waits until every question is answered, those that the answers raise too.
    pub fn settle(&mut self) {
        while self.workers.is_busy() {
            if let Some(reply) = self.workers.wait(TICK) {
                self.handle(Event::Reply(reply));
            }
        }
    }

    /// Draws the screen.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        view::draw(&mut self.state, frame, self.is_colored);
    }

    /// Whether it has ended. A change that was asked for is made before, and where it fails, that is told first.
    pub fn has_ended(&self) -> bool {
        self.state.has_ended && !self.workers.is_changing()
    }

    /// What was copied last, if anything since this was asked.
    pub fn take_copied(&mut self) -> Option<String> {
        self.copied.pop()
    }

    /// What is to be done outside of the full screen, in words: `resume PATH [ENTRY] [here]` or `summarize PATH ENTRY`.
    pub fn take_outside(&mut self) -> Option<String> {
        self.outside.pop_front().map(|outside| match outside {
            Outside::Resume(path, entry, folder) => {
                let entry = entry.map(|entry| format!(" {entry}")).unwrap_or_default();
                let here = if folder == Folder::Here { " here" } else { "" };
                format!("resume {}{entry}{here}", path.display())
            }
            Outside::GotoWithSummary(path, entry) => format!("summarize {} {entry}", path.display()),
        })
    }

    /// Waits until every change that was asked for is made: what follows sees it, and is in nobody's way.
    fn finish_changes(&mut self) {
        while self.workers.is_changing() {
            if let Some(reply) = self.workers.wait(TICK) {
                self.handle(Event::Reply(reply));
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let effects = self.state.update(event);
        self.perform(effects);
    }

    /// Takes what was answered meanwhile; whether there was anything.
    fn take_replies(&mut self) -> bool {
        let mut any = false;
        while let Some(reply) = self.workers.next() {
            self.handle(Event::Reply(reply));
            any = true;
        }
        any
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask(request) => self.workers.ask(request),
                Effect::Outside(outside) => self.outside.push_back(outside),
                Effect::Copy(text) => self.copied.push(text),
            }
        }
    }
}

/// How the browser of a terminal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Ended {
    /// The user left.
    Left,
    /// What a session was picked for has ended so.
    Picked(Outcome),
}

/// Runs a browser on the terminal of this process. `outside` does what needs the terminal for itself.
///
/// # Errors
/// When the terminal cannot be used; it is as before then.
pub(in crate::cli) fn run(
    mut options: BrowserOptions,
    outside: &mut dyn FnMut(OutsideWork) -> Result<(Told, Outcome), CliError>,
) -> Result<Ended, CliError> {
    let is_picker = options.is_picker;
    let mut screen = FullScreen::enter(options.is_colored)?;
    options.size = screen.size();
    let no_threads = |error| CliError::new(ErrorKind::Io, "the system gives no threads").because(error);
    let mut browser = Browser::open(options).map_err(no_threads)?;
    let mut ticked = Instant::now();
    let mut is_changed = true;
    while !browser.has_ended() {
        is_changed |= browser.take_replies();
        if is_changed {
            screen.draw(|frame| browser.draw(frame))?;
        }
        let until_tick = TICK.saturating_sub(ticked.elapsed());
        let time = if browser.workers.is_busy() { GLANCE.min(until_tick) } else { until_tick };
        is_changed = false;
        // Keys that wait are taken before anything is drawn.
        let mut next = screen.next(time)?;
        while let Some(event) = next {
            is_changed = true;
            match browser.state.has_ended {
                false => browser.handle(event),
                // Who does not want to wait need not.
                true if matches!(&event, Event::Key(key) if key.name() == "Ctrl-C") => return Ok(Ended::Left),
                true => {}
            }
            if browser.state.has_ended || !browser.outside.is_empty() {
                break;
            }
            next = screen.next(Duration::ZERO)?;
        }
        if ticked.elapsed() >= TICK {
            ticked = Instant::now();
            is_changed = true;
            browser.tick();
        }
        for text in std::mem::take(&mut browser.copied) {
            screen.copy(&text)?;
        }
        while let Some(work) = browser.outside.pop_front() {
            browser.finish_changes();
            screen.leave();
            let is_resumed = matches!(work, Outside::Resume(..));
            let told = match outside(work) {
                Ok((_, outcome)) if is_picker && is_resumed => return Ok(Ended::Picked(outcome)),
                Ok((told, _)) => told,
                Err(error) => Told::Problem(desk::told(&error)),
            };
            screen.come_back()?;
            browser.handle(Event::CameBack(told));
            is_changed = true;
        }
    }
    Ok(Ended::Left)
}
