//! What comes back from the background.
//!
//! # Invariants
//! - An answer about a session that is not shown any more, or was opened anew since, changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::browse::dialog::Dialog;
use crate::cli::browse::event::{Act, Acted, Effect, OldFile, Reply};
use crate::cli::browse::open_session::OpenSession;
use crate::cli::browse::page::Page;
use crate::cli::browse::session_list::Item;
use crate::cli::browse::state::{Listing, State, Unopened};
use crate::cli::browse::tree_pane::Found;
use crate::cli::view::{count, grouped, size};
use crate::session::outline::{Row, Scope};

impl State {
    pub(super) fn reply(&mut self, reply: Reply, effects: &mut Vec<Effect>) {
        match reply {
            Reply::FirstLook(items) => {
                self.ask_list(effects);
                if !matches!(self.listing, Listing::Done(_)) {
                    // Most likely the list will say the same.
                    self.all_for_now = !self.list.all_folders && !items.iter().any(|item| item.is_here);
                    self.list.set_all_folders(self.list.all_folders || self.all_for_now);
                    self.take_items(items);
                }
            }
            Reply::ListProgress(done, total) => {
                // A list that is there need not be waited for.
                if !matches!(self.listing, Listing::Done(_)) {
                    self.listing = Listing::Reading(done, total);
                }
            }
            Reply::Listed { items, skipped, took_ms } => {
                self.list_came(took_ms, effects);
                let is_first = !matches!(self.listing, Listing::Done(_));
                self.listing = Listing::Done(skipped);
                self.take_items(items);
                if is_first {
                    self.see_whether_any_is_here();
                }
            }
            Reply::ListFailed(problem) => {
                self.list_came(0, effects);
                self.listing = Listing::Failed;
                self.problem(problem);
            }
            Reply::Opened(session, scope, rows) => self.opened(session, scope, rows, effects),
            Reply::OpenFailed { path, problem, is_gone } => self.open_failed(path, problem, is_gone, effects),
            Reply::Unchanged => self.asked.watch = false,
            Reply::Rows(serial, scope, rows) => {
                if self.is_shown(serial) && scope == self.scope {
                    self.tree.set_rows(rows);
                }
            }
            Reply::Texts(serial, texts) => {
                if self.is_shown(serial) {
                    for (entry, text) in texts {
                        self.asked.texts.remove(&entry);
                        self.tree.texts.insert(entry, text);
                    }
                }
            }
            Reply::Page(serial, of, page) => {
                if self.asked.page == Some((serial, of)) {
                    self.asked.page = None;
                }
                if self.is_shown(serial) && self.tree.selected() == Some(of.entry) && of.unfolded == self.unfolded {
                    let is_other = self.page_of.is_none_or(|(_, before)| before.entry != of.entry);
                    self.page_of = Some((serial, of));
                    self.page = page;
                    self.page_lines = (0, Vec::new());
                    if is_other {
                        self.page_scroll.to(0, 1);
                    }
                }
            }
            Reply::Found(serial, query, entries) => {
                self.working = None;
                if !self.is_shown(serial) {
                    return;
                }
                let first =
                    entries.iter().copied().find(|entry| Some(*entry) >= self.tree.selected()).or(entries.first().copied());
                let is_none = entries.is_empty();
                self.tree.found = Some(Found { query: query.clone(), entries });
                match first {
                    Some(first) => {
                        self.tree.go_to_entry(first);
                        self.tell_found();
                    }
                    None if is_none => self.tell(format!("{query:?} is not in this session; w looks in all")),
                    None => {}
                }
            }
            Reply::SearchProgress(done, total) => {
                let query = self.hits.as_ref().map(|hits| hits.query.clone()).unwrap_or_default();
                self.working = Some(format!("finding {query:?}: indexing {} of {}", size(done), size(total)));
            }
            Reply::Searched { query, mut hits, has_more } => {
                self.working = None;
                for hit in &mut hits {
                    if let Some(item) = self.list.find_path(&hit.path) {
                        hit.title.clone_from(&item.title);
                    }
                }
                let Some(shown) = self.hits.as_mut().filter(|shown| shown.query == query) else { return };
                shown.is_running = false;
                shown.scroll.to(0, 1);
                shown.has_more = has_more;
                shown.hits = hits;
                self.wanted_entry = shown.hits.first().map(|hit| hit.entry.clone());
                let found = shown.hits.len() as u64;
                match (found, self.list.all_folders) {
                    (0, true) => self.tell(format!("nobody said {query:?}; Esc shows the sessions again")),
                    (0, false) => self.tell(format!("nobody said {query:?} in this folder; a looks in all folders")),
                    (found, _) => {
                        let more = if has_more { "the newest " } else { "" };
                        self.tell(format!(
                            "{more}{} with {query:?}; Esc shows the sessions again",
                            count(found, "entry", "entries")
                        ));
                    }
                }
                self.go_to_wanted_entry();
            }
            Reply::Cost(path, size, cost) => {
                self.asked.costs.remove(&(path.clone(), size));
                self.list.costs.insert(path, (size, cost));
            }
            Reply::Acted(act, result) => self.acted(act, result, effects),
            Reply::Failed(problem) => {
                self.working = None;
                if let Some(hits) = &mut self.hits {
                    hits.is_running = false;
                }
                self.problem(problem);
            }
            Reply::Dropped => {}
        }
    }

    fn take_items(&mut self, items: Vec<Item>) {
        self.list.set_items(items);
        let Some(path) = self.to_select.take() else { return };
        if !self.list.all_folders && self.list.find_path(&path).is_some_and(|item| !item.is_here) {
            self.list.set_all_folders(true);
        }
        if !self.list.select(&path) {
            self.to_select = Some(path);
        }
    }

    /// A folder without sessions shows those of all.
    fn see_whether_any_is_here(&mut self) {
        if std::mem::take(&mut self.all_for_now) {
            self.list.set_all_folders(false);
        }
        if self.list.all_folders || self.list.has_any_here() {
            return;
        }
        if self.list.items().is_empty() {
            return self.tell("there are no sessions yet; pi-sessions chat begins one");
        }
        self.list.set_all_folders(true);
        self.tell(format!("this folder has no session, so those of all folders are shown: {}", self.options.here));
    }

    fn is_shown(&self, serial: u64) -> bool {
        self.tree.session().is_some_and(|session| session.serial == serial)
    }

    fn opened(&mut self, session: Arc<OpenSession>, scope: Scope, rows: Vec<Row>, effects: &mut Vec<Effect>) {
        self.asked.watch = false;
        if self.asked.open.as_ref() == Some(&session.path) {
            self.asked.open = None;
        }
        if self.wanted.as_ref() != Some(&session.path) {
            return;
        }
        self.unopened = None;
        self.asked.texts.clear();
        self.asked.page = None;
        self.page_of = None;
        self.tree.show(session.clone(), rows);
        if std::mem::take(&mut self.follow_leaf)
            && let Some(leaf) = session.session.leaf()
        {
            self.tree.go_to_entry(leaf);
        }
        if scope != self.scope {
            effects.push(Effect::Ask(crate::cli::browse::event::Request::Rows(session.clone(), self.scope)));
        }
        self.go_to_wanted_entry();
        if std::mem::take(&mut self.resume_when_open) {
            return self.resume(effects);
        }
        if self.told.is_none() {
            self.warn_of(&session);
        }
    }

    /// Tells what one should know before one goes on with a session.
    pub(super) fn warn_of(&mut self, session: &OpenSession) {
        if session.is_read_only {
            let version = session.session.header().version;
            self.problem(format!("format version {version} is newer than this program: it can be read, not changed or resumed"));
        } else if session.damaged_lines > 0 {
            let lines = count(session.damaged_lines as u64, "line cannot be read", "lines cannot be read");
            self.problem(format!("{lines}; pi-sessions check tells where, the rest is shown"));
        }
    }

    fn open_failed(&mut self, path: PathBuf, problem: String, is_gone: bool, effects: &mut Vec<Effect>) {
        self.asked.watch = false;
        if self.asked.open.as_ref() == Some(&path) {
            self.asked.open = None;
        }
        self.resume_when_open &= self.wanted.as_ref() != Some(&path);
        if is_gone {
            let title = self.title_of(&path);
            self.forget(&path);
            if self.wanted.as_ref() == Some(&path) {
                self.problem(format!("gone from the disk: {title}"));
                self.tree.clear();
                self.clear_page();
                self.wanted = None;
            }
            return self.ask_list(effects);
        }
        if self.wanted.as_ref() == Some(&path) {
            self.tree.clear();
            self.clear_page();
            self.problem(problem.clone());
            self.unopened = Some(Unopened { path, problem });
        }
    }

    /// Takes a session that is gone out of what is shown at the left, where it would be asked for again and again.
    fn forget(&mut self, path: &Path) {
        self.list.remove(path);
        if let Some(hits) = &mut self.hits {
            hits.hits.retain(|hit| hit.path != path);
            let len = hits.hits.len();
            hits.scroll.to(hits.scroll.selected(), len);
            self.wanted_entry = hits.hits.get(hits.scroll.selected()).map(|hit| hit.entry.clone());
        }
    }

    pub(super) fn clear_page(&mut self) {
        self.page = Page::default();
        self.page_of = None;
        self.page_lines = (0, Vec::new());
    }

    fn acted(&mut self, act: Act, result: Result<Acted, String>, effects: &mut Vec<Effect>) {
        let acted = match result {
            Ok(acted) => acted,
            Err(problem) => {
                if let Act::Restore(path, title) = act {
                    // It can be tried again.
                    self.deleted.push((path, title));
                }
                // Who left already should know.
                self.has_ended = false;
                return self.problem(problem);
            }
        };
        if let (Some(file), Act::Export(path, wanted, _)) = (&acted.to_replace, &act) {
            let file = file.clone();
            match self.dialog {
                None if !self.has_ended => {
                    let act = Act::Export(path.clone(), wanted.clone(), OldFile::Replace);
                    self.dialog = Some(Dialog::Replace { file, act });
                }
                _ => {
                    self.has_ended = false;
                    self.problem(format!("not written, it is there already: {file}"));
                }
            }
            return;
        }
        let mut told = acted.told;
        match act {
            Act::Delete(path) => {
                let title = self.title_of(&path);
                self.forget(&path);
                told = format!("{told}: {title}");
                self.deleted.push((path, title));
                self.wanted = None;
                self.tree.clear();
                self.clear_page();
                self.ask_list(effects);
            }
            Act::Goto(path, _) | Act::Label(path, ..) | Act::Rename(path, _) => {
                let at = self.tree.selected_id();
                self.ask_list(effects);
                if self.wanted.as_ref() == Some(&path) {
                    self.wanted_entry = at;
                    self.ask_open(path, effects);
                }
            }
            Act::Fork(..) => {
                // Nothing may have been said in it yet, and it should not vanish.
                self.list.keep(acted.select.as_deref());
                self.ask_list(effects);
            }
            Act::Restore(..) => self.ask_list(effects),
            Act::Export(..) => {}
        }
        if let Some(path) = acted.select {
            self.hits = None;
            self.list.narrow("");
            self.to_select = Some(path);
        }
        self.tell(told);
    }

    /// What is told of the list in its heading.
    pub fn listing_text(&self) -> String {
        match self.listing {
            Listing::Begun => "reading …".to_owned(),
            Listing::Reading(done, total) => format!("reading {} of {} …", grouped(done as u64), grouped(total as u64)),
            Listing::Failed => "cannot be read".to_owned(),
            Listing::Done(_) => grouped(self.list.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests;
