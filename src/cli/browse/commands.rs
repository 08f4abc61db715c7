//! What keys do.
//!
//! # Invariants
//! - While something is asked, keys are for the answer; `Esc` leaves it, and nothing was changed.

use std::path::{Path, PathBuf};

use crate::cli::browse::dialog::{Asked, Dialog};
use crate::cli::browse::event::{Act, Effect, Folder, OldFile, Outside, Request};
use crate::cli::browse::keys::{Command, Key, command};
use crate::cli::browse::line_edit::LineEdit;
use crate::cli::browse::session_list::Hits;
use crate::cli::browse::state::{Pane, State};
use crate::cli::browse::tree_pane::{next_scope, scope_name};
use crate::session::entry::EntryId;

impl State {
    pub(super) fn key(&mut self, key: &Key, effects: &mut Vec<Effect>) {
        self.told = None;
        match self.dialog.take() {
            Some(Dialog::Line(asked, line)) => self.key_in_line(key, asked, line, effects),
            Some(Dialog::Delete { path, title }) => match key.name() {
                "y" | "Y" => self.act(Act::Delete(path), effects),
                // Any other key is a no; a wrong key deletes nothing.
                _ => self.tell(format!("not deleted: {title}")),
            },
            Some(Dialog::Replace { file, act }) => match key.name() {
                "y" | "Y" => self.act(act, effects),
                _ => self.tell(format!("not written: {file}")),
            },
            Some(Dialog::Elsewhere { path, entry, .. }) => match key.name() {
                "y" | "Y" => effects.push(Effect::Outside(Outside::Resume(path, entry, Folder::Here))),
                _ => self.tell("not resumed"),
            },
            Some(Dialog::Help(top)) => match key.name() {
                "Down" | "j" => self.dialog = Some(Dialog::Help(top + 1)),
                "Up" | "k" => self.dialog = Some(Dialog::Help(top.saturating_sub(1))),
                "PgDn" | "Space" => self.dialog = Some(Dialog::Help(top + 10)),
                "PgUp" => self.dialog = Some(Dialog::Help(top.saturating_sub(10))),
                "Ctrl-C" => self.has_ended = true,
                _ => {}
            },
            None => match command(key, self.focus, self.hits.is_some()) {
                Some(command) => self.command(command, effects),
                None => self.tell(format!("{} does nothing here; ? shows all keys", key.name())),
            },
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        // Elsewhere pasted text would be taken for keys.
        if let Some(Dialog::Line(asked, line)) = &mut self.dialog {
            line.insert(text);
            if *asked == Asked::Narrow {
                let query = line.text().to_owned();
                self.list.narrow(&query);
            }
        }
    }

    fn key_in_line(&mut self, key: &Key, asked: Asked, mut line: LineEdit, effects: &mut Vec<Effect>) {
        match (key.name(), &asked) {
            ("Esc" | "Ctrl-C", Asked::Narrow) => {
                self.list.narrow("");
                self.has_ended |= key.name() == "Ctrl-C" && self.options.is_picker;
            }
            ("Esc" | "Ctrl-C", _) => {}
            ("Enter", Asked::Narrow) if self.has_none() => {
                self.list.narrow("");
                self.answer(Asked::FindEverywhere, line.text(), effects);
            }
            ("Enter", Asked::Narrow) if self.options.is_picker => self.resume(effects),
            ("Enter", _) => self.answer(asked, line.text(), effects),
            ("Tab", Asked::Narrow) => self.go_to_pane(Pane::Tree),
            ("Up" | "Ctrl-P", Asked::Narrow) => self.keep_line(asked, line, |state| state.move_by(-1)),
            ("Down" | "Ctrl-N", Asked::Narrow) => self.keep_line(asked, line, |state| state.move_by(1)),
            ("PgUp", Asked::Narrow) => self.keep_line(asked, line, |state| state.move_by(-state.page_step())),
            ("PgDn", Asked::Narrow) => self.keep_line(asked, line, |state| state.move_by(state.page_step())),
            _ => {
                let before = line.text().to_owned();
                line.key(key);
                if asked == Asked::Narrow && line.text() != before {
                    self.list.narrow(line.text());
                }
                self.dialog = Some(Dialog::Line(asked, line));
            }
        }
    }

    fn keep_line(&mut self, asked: Asked, line: LineEdit, act: impl FnOnce(&mut Self)) {
        self.dialog = Some(Dialog::Line(asked, line));
        act(self);
    }

    /// A line is typed to its end.
    fn answer(&mut self, asked: Asked, text: &str, effects: &mut Vec<Effect>) {
        let text = text.trim();
        match asked {
            Asked::Narrow => {
                let found = self.list.len();
                if !text.is_empty() {
                    self.tell(format!("{found} found; Esc shows all again"));
                }
            }
            Asked::Find => match self.tree.session() {
                Some(session) if !text.is_empty() => {
                    self.working = Some(format!("finding {text:?} in the session …"));
                    effects.push(Effect::Ask(Request::Find(session.clone(), text.to_owned())));
                }
                Some(_) => self.next_found(false),
                None => self.tell("no session is shown"),
            },
            Asked::FindEverywhere if text.is_empty() => {}
            Asked::FindEverywhere => self.search(text.to_owned(), effects),
            Asked::Label(path, entry) => self.act(Act::Label(path, entry, text.to_owned()), effects),
            Asked::Rename(path) => self.act(Act::Rename(path, text.to_owned()), effects),
            Asked::Export(_) if text.is_empty() => self.problem("a file to write to has no empty name"),
            Asked::Export(path) => self.act(Act::Export(path, text.to_owned(), OldFile::Ask), effects),
        }
    }

    fn search(&mut self, query: String, effects: &mut Vec<Effect>) {
        let all = self.list.all_folders;
        effects.push(Effect::Ask(Request::Search { query: query.clone(), all }));
        self.working = Some(format!("finding {query:?} …"));
        self.hits = Some(Hits { query, is_running: true, ..Hits::default() });
        self.focus = Pane::List;
    }

    fn act(&mut self, act: Act, effects: &mut Vec<Effect>) {
        effects.push(Effect::Ask(Request::Act(act)));
    }

    fn command(&mut self, command: Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Up => self.move_by(-1),
            Command::Down => self.move_by(1),
            Command::PageUp => self.move_by(-self.page_step()),
            Command::PageDown => self.move_by(self.page_step()),
            Command::Top => self.move_by(isize::MIN),
            Command::Bottom => self.move_by(isize::MAX),
            Command::NextPane => self.step_pane(1),
            Command::PreviousPane => self.step_pane(2),
            Command::Left => self.left(),
            Command::Right => self.right(),
            Command::Resume => self.resume(effects),
            Command::ShowHit => match self.hits.as_ref().filter(|hits| hits.hits.is_empty()) {
                Some(hits) if hits.is_running => self.tell("nothing was found yet"),
                Some(_) => self.tell("nothing was found; Esc shows the sessions again"),
                None => self.go_to_pane(Pane::Tree),
            },
            Command::Goto => {
                if let Some((path, entry)) = self.place() {
                    self.act(Act::Goto(path, entry), effects);
                }
            }
            Command::GotoWithSummary => {
                if let Some((path, entry)) = self.place()
                    && !self.is_read_only(&path)
                {
                    effects.push(Effect::Outside(Outside::GotoWithSummary(path, entry)));
                }
            }
            Command::Fork => self.fork(effects),
            Command::Label => {
                if let Some((path, entry)) = self.place() {
                    let old = self.tree.session().and_then(|session| session.labels.get(entry.as_str())).unwrap_or_default();
                    let line = LineEdit::new(old);
                    self.ask(Asked::Label(path, entry), line);
                }
            }
            Command::Rename => {
                if let Some(path) = self.session() {
                    let old = self.list.find_path(&path).filter(|item| item.is_named).map(|item| item.title.clone());
                    self.ask(Asked::Rename(path), LineEdit::new(&old.unwrap_or_default()));
                }
            }
            Command::Delete => {
                if let Some(path) = self.session() {
                    let title = self.title_of(&path);
                    self.dialog = Some(Dialog::Delete { path, title });
                }
            }
            Command::Undo => match self.deleted.pop() {
                Some((path, title)) => self.act(Act::Restore(path, title), effects),
                None => self.tell("nothing was deleted here yet"),
            },
            Command::Export => {
                if let Some(path) = self.session() {
                    let id = self.list.find_path(&path).map_or("session", |item| &item.id);
                    let file = Path::new(&self.options.export_folder).join(format!("{id}.html"));
                    let line = LineEdit::new(&file.to_string_lossy());
                    self.ask(Asked::Export(path), line);
                }
            }
            Command::CopyText => self.copy_text(effects),
            Command::CopyId => self.copy_id(effects),
            Command::Narrow => {
                self.hits = None;
                self.list.narrow("");
                self.ask(Asked::Narrow, LineEdit::default());
            }
            Command::Find => self.ask(Asked::Find, LineEdit::default()),
            Command::FindEverywhere => self.ask(Asked::FindEverywhere, LineEdit::default()),
            Command::NextFound => self.next_found(false),
            Command::PreviousFound => self.next_found(true),
            Command::TurnBack => self.turn(true),
            Command::TurnOn => self.turn(false),
            Command::Filter => {
                self.scope = next_scope(self.scope);
                self.tell(format!("the tree shows: {}", scope_name(self.scope)));
                if let Some(session) = self.shown_session() {
                    effects.push(Effect::Ask(Request::Rows(session, self.scope)));
                }
            }
            Command::AllFolders => {
                self.all_for_now = false;
                self.list.set_all_folders(!self.list.all_folders);
                if let Some(query) = self.hits.as_ref().map(|hits| hits.query.clone()) {
                    self.search(query, effects);
                }
            }
            Command::NamedOnly => self.list.set_named_only(!self.list.named_only),
            Command::Fold => {
                let folded = self.tree.fold_at(self.tree.scroll.selected());
                if !self.tree.fold(folded == Some(false)) {
                    self.tell("nothing to fold here: branches fold where they leave or begin");
                }
            }
            Command::FoldAll => self.tree.fold_all(),
            Command::Tools => {
                self.unfolded = !self.unfolded;
                self.tell(if self.unfolded { "tool calls are shown whole" } else { "tool calls are shown in one line" });
            }
            Command::Zoom => self.is_zoomed = !self.is_zoomed,
            Command::Reload => self.reload(effects),
            Command::Help => self.dialog = Some(Dialog::Help(0)),
            Command::Back => self.back(),
            Command::Quit => self.has_ended = true,
        }
    }

    fn ask(&mut self, asked: Asked, line: LineEdit) {
        self.dialog = Some(Dialog::Line(asked, line));
    }

    /// One step out.
    fn back(&mut self) {
        if self.is_zoomed {
            self.is_zoomed = false;
        } else if self.focus != Pane::List {
            self.focus = if self.focus == Pane::Page { Pane::Tree } else { Pane::List };
        } else if self.hits.take().is_some() {
            self.wanted_entry = None;
        } else if !self.list.query().is_empty() {
            self.list.narrow("");
        } else {
            self.has_ended = true;
        }
    }

    fn go_to_pane(&mut self, pane: Pane) {
        // Keys are for the session that was selected, also while it is not there yet.
        let is_other = self.tree.session().is_some_and(|shown| self.wanted.as_ref().is_some_and(|wanted| shown.path != *wanted));
        if pane != Pane::List && is_other {
            self.tree.clear();
            self.clear_page();
        }
        self.focus = pane;
    }

    /// Whether nothing matches what is typed.
    pub(super) fn has_none(&self) -> bool {
        self.list.len() == 0 && !self.list.query().is_empty()
    }

    /// Whether a session is of a newer version; then that is told.
    fn is_read_only(&mut self, path: &Path) -> bool {
        let session = self.tree.session().filter(|session| session.path == path && session.is_read_only).cloned();
        if let Some(session) = &session {
            self.warn_of(session);
        }
        session.is_some()
    }

    fn step_pane(&mut self, steps: usize) {
        let panes = [Pane::List, Pane::Tree, Pane::Page];
        let at = panes.iter().position(|pane| *pane == self.focus).unwrap_or(0);
        self.go_to_pane(panes[(at + steps) % panes.len()]);
    }

    fn page_step(&self) -> isize {
        let layout = self.layout();
        let rows = match self.focus {
            // A hit takes two rows.
            Pane::List if self.hits.is_some() => layout.list_rows() / 2,
            Pane::List => layout.list_rows(),
            Pane::Tree => layout.tree_rows(),
            Pane::Page => layout.page_rows(),
        };
        isize::from(i16::try_from(rows.saturating_sub(1).max(1)).unwrap_or(i16::MAX))
    }

    fn move_by(&mut self, steps: isize) {
        match (self.focus, &mut self.hits) {
            (Pane::List, Some(hits)) => {
                hits.scroll.by(steps, hits.hits.len());
                self.wanted_entry = hits.hits.get(hits.scroll.selected()).map(|hit| hit.entry.clone());
                self.go_to_wanted_entry();
            }
            (Pane::List, None) => {
                let len = self.list.len();
                self.list.scroll.by(steps, len);
            }
            (Pane::Tree, _) => {
                let len = self.tree.shown().len();
                self.tree.scroll.by(steps, len);
            }
            (Pane::Page, _) => {
                // The last rows stay in sight.
                let rows = usize::from(self.layout().page_rows());
                let len = self.page_lines.1.len().saturating_sub(rows) + 1;
                self.page_scroll.by(steps, len);
            }
        }
    }

    /// Goes to the entry that is wanted, if its session is there.
    pub(super) fn go_to_wanted_entry(&mut self) {
        let Some(session) = self.shown_session().filter(|session| Some(&*session.path) == self.selected_path()) else { return };
        let Some(id) = self.wanted_entry.take() else { return };
        if let Some(entry) = session.session.tree().find(id.as_str()) {
            self.tree.go_to_entry(entry);
        }
    }

    fn left(&mut self) {
        match self.focus {
            Pane::List => {}
            Pane::Tree if self.tree.fold(true) => {}
            Pane::Tree => self.go_to_pane(Pane::List),
            Pane::Page => self.go_to_pane(Pane::Tree),
        }
    }

    fn right(&mut self) {
        match self.focus {
            Pane::List => self.go_to_pane(Pane::Tree),
            Pane::Tree if self.tree.fold(false) => {}
            Pane::Tree => self.go_to_pane(Pane::Page),
            Pane::Page => {}
        }
    }

    /// The session that the keys are about. Where there is none, that is told.
    fn session(&mut self) -> Option<PathBuf> {
        let path = self.current_path().map(Path::to_owned);
        if path.is_none() {
            self.tell("no session is selected");
        }
        path
    }

    /// The entry that the keys are about. Where there is none, that is told.
    fn place(&mut self) -> Option<(PathBuf, EntryId)> {
        let place = self.tree.session().map(|session| session.path.clone()).zip(self.tree.selected_id());
        if place.is_none() {
            self.tell("no entry is selected");
        }
        place
    }

    pub(super) fn resume(&mut self, effects: &mut Vec<Effect>) {
        let Some(path) = self.session() else { return };
        if let Some(unopened) = self.unopened.as_ref().filter(|unopened| unopened.path == path) {
            let problem = unopened.problem.clone();
            return self.problem(problem);
        }
        if self.asked.open.as_ref() == Some(&path) && self.tree.session().is_none_or(|session| session.path != path) {
            // Whether it can be written, and whether its folder is there, is known then.
            self.resume_when_open = true;
            return self.tell("opening it");
        }
        let entry = match self.focus {
            Pane::List => None,
            // The leaf is where a session is resumed anyway.
            Pane::Tree | Pane::Page => {
                let leaf = self.tree.session().and_then(|session| session.session.leaf_id());
                self.tree.selected_id().filter(|id| Some(id) != leaf.as_ref())
            }
        };
        if self.is_read_only(&path) {
            return;
        }
        let session = self.tree.session().filter(|session| session.path == path && session.folder_is_gone);
        if let Some(session) = session.filter(|_| !self.options.is_elsewhere) {
            let gone = crate::cli::text::one_line(&session.session.header().cwd);
            self.dialog = Some(Dialog::Elsewhere { path, entry, gone });
            return;
        }
        effects.push(Effect::Outside(Outside::Resume(path, entry, Folder::Own)));
    }

    fn fork(&mut self, effects: &mut Vec<Effect>) {
        let shown = self.tree.session().map(|session| (session.path.clone(), session.session.leaf_id()));
        let place = match self.focus {
            Pane::List => {
                shown.filter(|(path, _)| Some(&**path) == self.selected_path()).and_then(|(path, leaf)| Some((path, leaf?)))
            }
            Pane::Tree | Pane::Page => self.place(),
        };
        match place {
            Some((path, entry)) => self.act(Act::Fork(path, entry), effects),
            None => self.tell("there is no entry to fork at"),
        }
    }

    fn next_found(&mut self, back: bool) {
        match &self.tree.found {
            None => self.tell("nothing was looked for in this session; / does"),
            Some(found) if found.entries.is_empty() => {
                let told = format!("{:?} is not in this session", found.query);
                self.tell(told);
            }
            Some(_) => {
                self.tree.next_found(back);
                self.tell_found();
            }
        }
    }

    pub(super) fn tell_found(&mut self) {
        let (Some(found), Some(here)) = (&self.tree.found, self.tree.selected()) else { return };
        let at = found.entries.iter().position(|entry| *entry >= here).map_or(found.entries.len(), |at| at + 1);
        let told = format!("{at} of {} with {:?}; n next, p previous", found.entries.len(), found.query);
        self.tell(told);
    }

    fn turn(&mut self, back: bool) {
        if !self.tree.turn(back) {
            self.tell(if back { "this is the first turn" } else { "this is the last turn here" });
        }
    }

    fn copy_text(&mut self, effects: &mut Vec<Effect>) {
        let text = match self.focus {
            Pane::List => self.session().map(|path| self.title_of(&path)),
            Pane::Tree | Pane::Page => {
                let lines = self.page.lines.iter().map(|line| line.iter().map(|part| &*part.text).collect::<String>());
                Some(lines.collect::<Vec<_>>().join("\n"))
            }
        };
        if let Some(text) = text {
            let lines = text.lines().count() as u64;
            effects.push(Effect::Copy(text));
            self.tell(format!("copied {}, if the terminal allows it", crate::cli::view::count(lines, "line", "lines")));
        }
    }

    fn copy_id(&mut self, effects: &mut Vec<Effect>) {
        let id = match self.focus {
            Pane::List => self.session().and_then(|path| self.list.find_path(&path).map(|item| item.id.clone())),
            Pane::Tree | Pane::Page => self.place().map(|(_, entry)| crate::cli::text::one_line(entry.as_str())),
        };
        if let Some(id) = id {
            effects.push(Effect::Copy(id.clone()));
            self.tell(format!("copied, if the terminal allows it: {id}"));
        }
    }
}
