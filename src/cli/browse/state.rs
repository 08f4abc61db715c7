//! What the browser shows and knows, and how it changes.
//!
//! # Invariants
//! - Nothing here reads files, the clock or the terminal: an event comes in, effects go out.
//! - What is in sight is asked for once; an answer that came too late changes nothing.
//! - No change is made to a session without a key that says so, and none is deleted without a yes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::browse::dialog::Dialog;
use crate::cli::browse::event::{Effect, Event, PageOf, Request, Told};
use crate::cli::browse::layout::Layout;
use crate::cli::browse::open_session::OpenSession;
use crate::cli::browse::page::Page;
use crate::cli::browse::scroll::Scroll;
use crate::cli::browse::session_list::{Hits, SessionList};
use crate::cli::browse::tree_pane::TreePane;
use crate::session::entry::EntryId;
use crate::session::outline::Scope;
use crate::session::tree::EntryIndex;

/// A list that took so many milliseconds is read again after so many times that.
const REST_FACTOR: u64 = 20;
/// How often the list is read again at most, in milliseconds.
const MIN_REST_MS: u64 = 3_000;
/// How many costs are asked for at once.
const COSTS_AT_ONCE: usize = 8;

/// A part of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// The sessions.
    #[default]
    List,
    /// The tree of the selected one.
    Tree,
    /// The text of the selected entry.
    Page,
}

/// How the browser began.
#[derive(Clone, Debug, Default)]
pub struct StateOptions {
    /// Whether a session is picked: one begins to type at once, and resuming ends it.
    pub is_picker: bool,
    /// Whether sessions of all folders are shown at first.
    pub all_folders: bool,
    /// The session that is selected at first.
    pub select: Option<PathBuf>,
    /// Whether another folder to work in than a session's own was named.
    pub is_elsewhere: bool,
    /// The folder of the command, for people.
    pub here: String,
    /// Where a session is exported to, if nothing else is said.
    pub export_folder: String,
    /// Unix milliseconds.
    pub now_ms: i64,
}

/// How far the list is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// Nothing is there.
    #[default]
    Begun,
    /// Files read, and in all.
    Reading(usize, usize),
    /// It is there; so many files are no sessions.
    Done(usize),
    /// It failed.
    Failed,
}

/// What a session that cannot be shown is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unopened {
    /// Its file.
    pub path: PathBuf,
    /// Why, and what helps.
    pub problem: String,
}

/// The browser.
#[derive(Debug, Default)]
pub struct State {
    /// How it began.
    pub options: StateOptions,
    /// The sessions.
    pub list: SessionList,
    /// How far the list is.
    pub listing: Listing,
    /// What a search for words found; it takes the place of the list.
    pub hits: Option<Hits>,
    /// The tree.
    pub tree: TreePane,
    /// What the tree shows.
    pub scope: Scope,
    /// The text of the selected entry.
    pub page: Page,
    /// Which page it is.
    pub page_of: Option<(u64, PageOf)>,
    /// What is in sight of the page.
    pub page_scroll: Scroll,
    /// The page in lines of so many columns.
    pub page_lines: (u16, Vec<Vec<crate::cli::browse::tone::Piece>>),
    /// Whether tool calls are shown whole.
    pub unfolded: bool,
    /// A session that cannot be shown.
    pub unopened: Option<Unopened>,
    /// Where keys go.
    pub focus: Pane,
    /// Whether its pane has the whole screen.
    pub is_zoomed: bool,
    /// What is asked.
    pub dialog: Option<Dialog>,
    /// What is told.
    pub told: Option<Told>,
    /// What is waited for.
    pub working: Option<String>,
    /// The columns and rows of the screen.
    pub size: (u16, u16),
    /// Unix milliseconds.
    pub now_ms: i64,
    /// Whether it has ended.
    pub has_ended: bool,
    /// What was deleted, the latest last.
    pub(super) deleted: Vec<(PathBuf, String)>,
    /// The session that is wanted in the tree.
    pub(super) wanted: Option<PathBuf>,
    /// The entry that is wanted in it.
    pub(super) wanted_entry: Option<EntryId>,
    /// Whether all folders are shown because this one seems to have no sessions.
    pub(super) all_for_now: bool,
    /// Whether the leaf is gone to when the session is there again.
    pub(super) follow_leaf: bool,
    /// Whether the selected session is resumed as soon as it is open.
    pub(super) resume_when_open: bool,
    pub(super) ticket: u64,
    /// What was asked for and is not answered.
    pub(super) asked: Asked,
    /// When the list was read last, and how long that took.
    pub(super) listed: Option<(i64, u64)>,
    /// A session to select when the list has it.
    pub(super) to_select: Option<PathBuf>,
}

/// What was asked for and is not answered.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub list: bool,
    /// Something changed since the list was asked for.
    pub list_again: bool,
    pub open: Option<PathBuf>,
    pub watch: bool,
    pub texts: HashSet<EntryIndex>,
    pub page: Option<(u64, PageOf)>,
    pub costs: HashSet<(PathBuf, u64)>,
}

impl State {
    /// A browser that shows nothing yet, and what it wants first.
    pub fn new(options: StateOptions, size: (u16, u16)) -> (Self, Vec<Effect>) {
        let mut state = Self { now_ms: options.now_ms, size, scope: Scope::Spoken, ..Self::default() };
        state.list.set_all_folders(options.all_folders);
        if options.is_picker {
            state.dialog = Some(Dialog::Line(super::dialog::Asked::Narrow, super::line_edit::LineEdit::default()));
        }
        state.to_select.clone_from(&options.select);
        let all = options.all_folders;
        state.options = options;
        // The list comes after it: together each would take longer.
        (state, vec![Effect::Ask(Request::FirstLook { all })])
    }

    /// Takes an event in.
    pub fn update(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Key(key) => self.key(&key, &mut effects),
            Event::Paste(text) => self.paste(&text),
            Event::Resize(columns, rows) => self.size = (columns, rows),
            Event::Tick(now_ms) => self.tick(now_ms, &mut effects),
            Event::Reply(reply) => self.reply(reply, &mut effects),
            Event::CameBack(told) => {
                // Where nothing was done, one stays where one was.
                self.follow_leaf = matches!(told, Told::Done(_));
                self.told = Some(told);
                // Much may have happened meanwhile.
                self.reload(&mut effects);
            }
        }
        self.want_what_is_in_sight(&mut effects);
        effects
    }

    /// How the screen is divided.
    pub fn layout(&self) -> Layout {
        Layout::of(self.size, self.focus, self.is_zoomed)
    }

    /// The session that the keys are about: that of the tree, or the selected one of the list.
    pub fn current_path(&self) -> Option<&Path> {
        match self.focus {
            Pane::List => self.selected_path(),
            Pane::Tree | Pane::Page => self.tree.session().map(|session| &*session.path).or_else(|| self.selected_path()),
        }
    }

    /// The session that is selected at the left.
    pub fn selected_path(&self) -> Option<&Path> {
        match &self.hits {
            Some(hits) => hits.hits.get(hits.scroll.selected()).map(|hit| &*hit.path),
            None => self.list.selected().map(|item| &*item.path),
        }
    }

    /// What a session is called.
    pub fn title_of(&self, path: &Path) -> String {
        match self.list.find_path(path) {
            Some(item) => item.title.clone(),
            None => crate::cli::text::one_line(&path.file_name().unwrap_or_default().to_string_lossy()),
        }
    }

    /// The session of the tree, if it is the one that is selected.
    pub(super) fn shown_session(&self) -> Option<Arc<OpenSession>> {
        self.tree.session().cloned()
    }

    /// Time goes on.
    fn tick(&mut self, now_ms: i64, effects: &mut Vec<Effect>) {
        self.now_ms = now_ms;
        if let Some(session) = self.tree.session().filter(|_| !self.asked.watch && self.asked.open.is_none()) {
            self.asked.watch = true;
            effects.push(Effect::Ask(Request::Watch(session.clone(), self.scope)));
        }
        let is_due = self.listed.is_some_and(|(at, took)| {
            let rest = took.saturating_mul(REST_FACTOR).max(MIN_REST_MS);
            now_ms.saturating_sub(at) >= i64::try_from(rest).unwrap_or(i64::MAX)
        });
        if is_due && !self.asked.list {
            self.ask_list(effects);
        }
    }

    pub(super) fn ask_list(&mut self, effects: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.asked.list, true) {
            self.asked.list_again = true;
        } else {
            effects.push(Effect::Ask(Request::List));
        }
    }

    /// A list came; where it may be of before a change, another one is asked for.
    pub(super) fn list_came(&mut self, took_ms: u64, effects: &mut Vec<Effect>) {
        self.asked.list = false;
        self.listed = Some((self.now_ms, took_ms));
        if std::mem::take(&mut self.asked.list_again) {
            self.ask_list(effects);
        }
    }

    /// Reads everything again.
    pub(super) fn reload(&mut self, effects: &mut Vec<Effect>) {
        self.ask_list(effects);
        if let Some(path) = self.tree.session().map(|session| session.path.clone()) {
            self.ask_open(path, effects);
        }
    }

    pub(super) fn ask_open(&mut self, path: PathBuf, effects: &mut Vec<Effect>) {
        self.ticket += 1;
        self.asked.open = Some(path.clone());
        effects.push(Effect::Ask(Request::Open { path, scope: self.scope, ticket: self.ticket }));
    }

    /// Asks for what is to be seen and is not there.
    fn want_what_is_in_sight(&mut self, effects: &mut Vec<Effect>) {
        let layout = self.layout();
        self.follow_selection(effects);
        let Some(session) = self.shown_session() else {
            self.want_costs(layout, effects);
            return;
        };
        // A page more on both sides, so that what comes next is there.
        let height = usize::from(layout.tree_rows().max(8));
        let len = self.tree.shown().len();
        let from = self.tree.scroll.selected().saturating_sub(height * 2);
        let to = (self.tree.scroll.selected() + height * 2).min(len);
        let missing: Vec<_> = (from..to)
            .filter_map(|place| self.tree.entry_at(place))
            .filter(|entry| !self.tree.texts.contains_key(entry) && !self.asked.texts.contains(entry))
            .collect();
        if !missing.is_empty() {
            self.asked.texts.extend(missing.iter().copied());
            effects.push(Effect::Ask(Request::Texts(session.clone(), missing)));
        }
        match self.tree.selected() {
            Some(entry) => {
                let page = (session.serial, PageOf { entry, unfolded: self.unfolded });
                if self.page_of != Some(page) && self.asked.page != Some(page) {
                    self.asked.page = Some(page);
                    effects.push(Effect::Ask(Request::Page(session, page.1)));
                }
            }
            None => {
                self.page = Page::default();
                self.page_of = None;
                self.page_lines = (0, Vec::new());
            }
        }
        self.break_page(layout.page_columns());
        self.want_costs(layout, effects);
    }

    /// Opens what is selected at the left.
    fn follow_selection(&mut self, effects: &mut Vec<Effect>) {
        let selected = self.selected_path().map(Path::to_owned);
        if selected == self.wanted {
            return;
        }
        self.wanted.clone_from(&selected);
        self.unopened = None;
        self.resume_when_open = false;
        let Some(path) = selected else {
            self.tree.clear();
            self.page = Page::default();
            self.page_of = None;
            self.page_lines = (0, Vec::new());
            return;
        };
        if self.tree.session().is_some_and(|session| session.path == path) {
            return;
        }
        self.ask_open(path, effects);
    }

    fn want_costs(&mut self, layout: Layout, effects: &mut Vec<Effect>) {
        let rows = usize::from(layout.list_rows());
        let top = self.list.scroll.selected().saturating_sub(rows);
        for place in top..(top + rows * 2).min(self.list.len()) {
            if self.asked.costs.len() >= COSTS_AT_ONCE {
                return;
            }
            let Some(item) = self.list.at(place) else { return };
            let known = self.list.costs.get(&item.path).is_some_and(|(size, _)| *size == item.size_bytes);
            let key = (item.path.clone(), item.size_bytes);
            if !known && self.asked.costs.insert(key.clone()) {
                effects.push(Effect::Ask(Request::Cost(key.0, key.1)));
            }
        }
    }

    /// Breaks the page to the width of its pane.
    pub(super) fn break_page(&mut self, columns: u16) {
        if self.page_lines.0 == columns || columns == 0 {
            return;
        }
        let lines = self.page.lines.iter().flat_map(|line| super::prose::broken(line, usize::from(columns))).collect();
        self.page_lines = (columns, lines);
        let len = self.page_lines.1.len();
        self.page_scroll.to(self.page_scroll.selected(), len);
    }

    /// Tells something, with what went wrong before anything else.
    pub(super) fn tell(&mut self, told: impl Into<String>) {
        self.told = Some(Told::Done(told.into()));
    }

    pub(super) fn problem(&mut self, problem: impl Into<String>) {
        self.told = Some(Told::Problem(problem.into()));
    }
}
