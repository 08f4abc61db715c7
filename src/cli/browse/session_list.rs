//! The list of sessions: narrowed as one types, and what a search for words found.
//!
//! # Invariants
//! - What is selected stays selected while it is there, whatever comes into the list around it.
//! - Narrowed, the best match comes first, of equals the latest activity; else the latest activity does.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::cli::browse::scroll::Scroll;
use crate::cli::browse::tone::Piece;
use crate::session::entry::EntryId;

/// A session of the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    /// Its file.
    pub path: PathBuf,
    /// Its id, fit for a terminal.
    pub id: String,
    /// Its name, else how its first message begins.
    pub title: String,
    /// Whether it has a name.
    pub is_named: bool,
    /// The folder that it works in.
    pub folder: String,
    /// Whether that is the folder of the command.
    pub is_here: bool,
    /// The latest activity, in Unix milliseconds.
    pub modified_ms: i64,
    /// How many messages.
    pub messages: u64,
    /// How many ends of conversation.
    pub branches: u64,
    /// The size of the file.
    pub size_bytes: u64,
    /// Whether it was forked from another.
    pub is_fork: bool,
    /// Whether nobody spoke in it yet.
    pub is_empty: bool,
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session's file.
    pub path: PathBuf,
    /// The entry.
    pub entry: EntryId,
    /// Who said it.
    pub head: String,
    /// What the session is called; its folder, where a list does not tell.
    pub title: String,
    /// When, in Unix milliseconds.
    pub timestamp_ms: Option<i64>,
    /// The text around the words, which are marked.
    pub snippet: Vec<Piece>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// The words.
    pub query: String,
    /// The entries.
    pub hits: Vec<Hit>,
    /// Whether there are more.
    pub has_more: bool,
    /// Whether the search still runs.
    pub is_running: bool,
    /// The selected one, and what is in sight.
    pub scroll: Scroll,
}

/// The list.
#[derive(Debug, Default)]
pub struct SessionList {
    items: Vec<Item>,
    /// Those in view, by their place among all.
    shown: Vec<usize>,
    /// What they are narrowed by.
    query: String,
    /// Whether those of all folders are shown.
    pub all_folders: bool,
    /// Whether only those with a name are.
    pub named_only: bool,
    /// The selected one, and what is in sight.
    pub scroll: Scroll,
    /// Those that are in view although nobody spoke in them yet.
    kept: HashSet<PathBuf>,
    /// Costs by file, with the size of the file then.
    pub costs: HashMap<PathBuf, (u64, f64)>,
}

impl SessionList {
    /// Takes a new list.
    pub fn set_items(&mut self, items: Vec<Item>) {
        self.keeping_selection(|list| list.items = items);
    }

    /// Shows those of all folders, or of this one.
    pub fn set_all_folders(&mut self, all: bool) {
        self.keeping_selection(|list| list.all_folders = all);
    }

    /// Shows only those with a name, or all.
    pub fn set_named_only(&mut self, named: bool) {
        self.keeping_selection(|list| list.named_only = named);
    }

    /// Narrows the list; the best match is selected.
    pub fn narrow(&mut self, query: &str) {
        self.query = query.trim().to_owned();
        self.shown = self.find();
        self.scroll.to(0, self.shown.len());
    }

    /// What it is narrowed by.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Whether a folder of its own has none.
    pub fn has_any_here(&self) -> bool {
        self.items.iter().any(|item| item.is_here && !item.is_empty)
    }

    /// All that were listed.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Those in view.
    pub fn shown(&self) -> impl ExactSizeIterator<Item = &Item> {
        self.shown.iter().map(|at| &self.items[*at])
    }

    /// The one at a place in view.
    pub fn at(&self, place: usize) -> Option<&Item> {
        self.shown.get(place).map(|at| &self.items[*at])
    }

    /// How many are in view.
    pub fn len(&self) -> usize {
        self.shown.len()
    }

    /// The selected one.
    pub fn selected(&self) -> Option<&Item> {
        self.at(self.scroll.selected())
    }

    /// The one of a file.
    pub fn find_path(&self, path: &Path) -> Option<&Item> {
        // Comparing paths part by part is slow, and there may be many.
        self.items.iter().find(|item| item.path.as_os_str() == path.as_os_str())
    }

    /// Selects the one of a file, if it is in view.
    pub fn select(&mut self, path: &Path) -> bool {
        let place = self.shown().position(|item| item.path.as_os_str() == path.as_os_str());
        if let Some(place) = place {
            self.scroll.to(place, self.shown.len());
        }
        place.is_some()
    }

    /// Keeps one in view although nobody spoke in it yet.
    pub fn keep(&mut self, path: Option<&Path>) {
        self.kept.extend(path.map(Path::to_owned));
    }

    /// Takes one out that is gone.
    pub fn remove(&mut self, path: &Path) {
        // The one that moves up is selected then.
        let place = self.scroll.selected();
        self.items.retain(|item| item.path != path);
        self.shown = self.find();
        self.scroll.to(place, self.shown.len());
    }

    fn keeping_selection(&mut self, change: impl FnOnce(&mut Self)) {
        let selected = self.selected().map(|item| item.path.clone());
        let place = self.scroll.selected();
        change(self);
        self.shown = self.find();
        let still = selected.and_then(|path| self.shown().position(|item| item.path.as_os_str() == path.as_os_str()));
        self.scroll.to(still.unwrap_or(place), self.shown.len());
    }

    /// Which are in view, in order.
    fn find(&self) -> Vec<usize> {
        let is_shown = |item: &Item| {
            (self.all_folders || item.is_here)
                && (!self.named_only || item.is_named)
                && (!item.is_empty || item.is_named || self.kept.contains(&item.path))
        };
        let places = (0..self.items.len()).filter(|at| is_shown(&self.items[*at]));
        if self.query.is_empty() {
            return places.collect();
        }
        let pattern = Pattern::parse(&self.query, CaseMatching::Ignore, Normalization::Smart);
        let mut matcher = Matcher::new(Config::DEFAULT);
        let mut chars = Vec::new();
        let mut score = |item: &Item| {
            let of_title = pattern.score(Utf32Str::new(&item.title, &mut chars), &mut matcher);
            // An id is no text to search loosely.
            let of_id = item.id.starts_with(&self.query).then_some(u32::MAX);
            let folder = if self.all_folders { &*item.folder } else { "" };
            of_id.or(of_title).or_else(|| {
                let both = format!("{} {folder}", item.title);
                pattern.score(Utf32Str::new(&both, &mut chars), &mut matcher).map(|score| score / 2)
            })
        };
        let mut found: Vec<_> = places.filter_map(|at| Some((score(&self.items[at])?, at))).collect();
        found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        found.into_iter().map(|(_, at)| at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(titles: &[&str]) -> SessionList {
        let item = |(at, title): (usize, &&str)| Item {
            path: PathBuf::from(format!("/{at}.jsonl")),
            id: format!("id{at}"),
            title: (*title).to_owned(),
            folder: "/home/me/todo".into(),
            is_here: at % 2 == 0,
            is_named: title.starts_with('N'),
            ..Item::default()
        };
        let mut list = SessionList::default();
        list.set_items(titles.iter().enumerate().map(item).collect());
        list
    }

    fn titles(list: &SessionList) -> String {
        list.shown().map(|item| &*item.title).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn typing_narrows_loosely_and_the_best_match_comes_first() {
        let mut list = list(&["a longer way to index", "other", "Nindex", "the index", "lexer"]);
        list.set_all_folders(true);
        list.narrow("index");
        assert_eq!(titles(&list), "a longer way to index, the index, Nindex");
        list.narrow("lxr");
        assert_eq!(titles(&list), "lexer");
        list.narrow("id3");
        assert_eq!(titles(&list).split(", ").next(), Some("the index"));
        list.narrow("todo other");
        assert_eq!(titles(&list), "other");
        list.narrow("zzz");
        assert_eq!((titles(&list).as_str(), list.selected()), ("", None));
        list.narrow("");
        assert_eq!(list.len(), 5);
    }

    #[test]
    fn what_is_selected_stays_selected() {
        let mut list = list(&["a", "b", "Nc", "d", "e"]);
        assert_eq!(titles(&list), "a, Nc, e");
        list.scroll.to(2, 3);
        list.set_all_folders(true);
        assert_eq!(list.selected().map(|item| &*item.title), Some("e"));
        let mut items = list.items().to_vec();
        items.rotate_right(1);
        list.set_items(items);
        assert_eq!(list.selected().map(|item| &*item.title), Some("e"));
        list.set_named_only(true);
        assert_eq!((titles(&list).as_str(), list.selected().map(|item| &*item.title)), ("Nc", Some("Nc")));
        list.set_named_only(false);
        list.remove(Path::new("/2.jsonl"));
        assert_eq!(list.selected().map(|item| &*item.title), Some("d"));
    }

    #[test]
    fn a_title_tells_more_than_a_folder() {
        let mut list = list(&["plain", "tone of doors", "t-o-d-o"]);
        list.set_all_folders(true);
        list.narrow("todo");
        assert_eq!(titles(&list).split(", ").last(), Some("plain"));
    }

    #[test]
    fn where_nobody_spoke_a_name_is_enough() {
        let mut list = list(&["a", "b", "Nc", "d", "e"]);
        list.set_items(list.items().iter().cloned().map(|item| Item { is_empty: true, is_here: true, ..item }).collect());
        assert_eq!(titles(&list), "Nc");
        list.keep(Some(Path::new("/4.jsonl")));
        list.narrow("");
        assert_eq!(titles(&list), "Nc, e");
    }
}
