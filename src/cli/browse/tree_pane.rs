//! The tree of the selected session: its rows, which branches are folded, and where one is.
//!
//! # Invariants
//! - A branch that is folded has its first row, which counts the others.
//! - Where one is stays the same entry when the rows change, if it has a row still.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::cli::browse::open_session::OpenSession;
use crate::cli::browse::scroll::Scroll;
use crate::session::entry::EntryId;
use crate::session::message::Role;
use crate::session::outline::{Row, RowContent, Scope, Start};
use crate::session::tree::EntryIndex;

/// Branches beside the active path with more rows than this are folded at first.
const LONG_BRANCH: usize = 12;

/// What a row says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowText {
    /// What it says; fit for a terminal, on one line.
    pub text: String,
    /// What says it.
    pub kind: RowKind,
}

/// What says something in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowKind {
    /// A person.
    User,
    /// A model.
    Assistant,
    /// A tool, or a call of one.
    Tool,
    /// A summary.
    Summary,
    /// What stands beside the conversation.
    #[default]
    Other,
    /// A line that cannot be read.
    Damaged,
}

/// A row in view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownRow {
    /// Its place among all rows.
    pub at: usize,
    /// How many rows are folded behind it.
    pub folded: usize,
}

/// What was found in the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The words.
    pub query: String,
    /// The entries, in file order.
    pub entries: Vec<EntryIndex>,
}

/// The tree.
#[derive(Debug, Default)]
pub struct TreePane {
    session: Option<Arc<OpenSession>>,
    rows: Vec<Row>,
    shown: Vec<ShownRow>,
    folded: HashSet<EntryIndex>,
    /// What rows say, as far as it was read.
    pub texts: HashMap<EntryIndex, RowText>,
    /// Where one is, and what is in sight.
    pub scroll: Scroll,
    /// What was found.
    pub found: Option<Found>,
}

impl TreePane {
    /// The session.
    pub fn session(&self) -> Option<&Arc<OpenSession>> {
        self.session.as_ref()
    }

    /// Shows nothing.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Shows a session. Where it was shown before, one stays where one was; else one is at the leaf.
    pub fn show(&mut self, session: Arc<OpenSession>, rows: Vec<Row>) {
        let before = self.session.take().filter(|before| before.path == session.path);
        let place = before.as_ref().and_then(|before| {
            let tree = before.session.tree();
            let was_at_leaf = self.selected().is_none_or(|at| Some(at) == tree.leaf());
            let id = self.selected().map(|at| tree.id(at))?;
            // Who is at the leaf goes along with it.
            if was_at_leaf { None } else { session.session.tree().find(id.as_str()) }
        });
        match &before {
            Some(before) => {
                let moved = |at: &EntryIndex| session.session.tree().find(before.session.tree().id(*at).as_str());
                self.folded = self.folded.iter().filter_map(moved).collect();
                if let Some(found) = &mut self.found {
                    found.entries = found.entries.iter().filter_map(moved).collect();
                }
            }
            None => *self = Self::default(),
        }
        self.texts.clear();
        let is_new = before.is_none();
        let place = place.or(session.session.leaf());
        self.session = Some(session);
        self.rows = rows;
        if is_new {
            self.fold_long();
        }
        self.lay_out();
        match place {
            Some(place) => self.go_to_entry(place),
            None => self.scroll.to(usize::MAX, self.shown.len()),
        }
    }

    /// Takes other rows of the same session.
    pub fn set_rows(&mut self, rows: Vec<Row>) {
        let place = self.selected();
        self.rows = rows;
        self.lay_out();
        if let Some(place) = place {
            self.go_to_entry(place);
        }
    }

    /// The rows in view.
    pub fn shown(&self) -> &[ShownRow] {
        &self.shown
    }

    /// A row.
    pub fn row(&self, shown: ShownRow) -> &Row {
        &self.rows[shown.at]
    }

    /// The entry of a row in view.
    pub fn entry_at(&self, place: usize) -> Option<EntryIndex> {
        self.shown.get(place).and_then(|shown| entry_of(self.row(*shown)))
    }

    /// The entry that one is at.
    pub fn selected(&self) -> Option<EntryIndex> {
        self.entry_at(self.scroll.selected())
    }

    /// The id of the entry that one is at.
    pub fn selected_id(&self) -> Option<EntryId> {
        Some(self.session.as_ref()?.session.tree().id(self.selected()?))
    }

    /// Goes to an entry, or to the nearest one towards the root that has a row. Branches on the way unfold.
    pub fn go_to_entry(&mut self, entry: EntryIndex) {
        let Some(session) = self.session.clone() else { return };
        let places: HashMap<EntryIndex, usize> =
            self.rows.iter().enumerate().filter_map(|(at, row)| Some((entry_of(row)?, at))).collect();
        let tree = session.session.tree();
        let Some(at) = tree.ancestors(entry).find_map(|entry| places.get(&entry).copied()) else { return };
        if !self.shown.iter().any(|shown| shown.at == at) {
            let starts: Vec<_> = self.starts_around(at);
            for start in starts {
                self.folded.remove(&start);
            }
            self.lay_out();
        }
        let place = self.shown.iter().position(|shown| shown.at == at).unwrap_or(0);
        self.scroll.to(place, self.shown.len());
    }

    /// Goes to the user message before or behind, on the branch that one is in; false if there is none.
    pub fn turn(&mut self, back: bool) -> bool {
        let (Some(session), Some(here)) = (self.session.clone(), self.selected()) else { return false };
        let tree = session.session.tree();
        let selected = self.scroll.selected();
        let user_at = |place: usize| self.entry_at(place).filter(|entry| tree.role(*entry) == Some(Role::User));
        let place = if back {
            let above: HashSet<_> = tree.ancestors(here).collect();
            (0..selected).rev().find(|place| user_at(*place).is_some_and(|entry| above.contains(&entry)))
        } else {
            // Each entry is passed once on the ways up, however many rows there are.
            let mut passed = HashSet::new();
            let mut hangs_from_here =
                |entry| tree.ancestors(entry).take_while(|entry| passed.insert(*entry)).any(|entry| entry == here);
            (selected + 1..self.shown.len()).find(|place| user_at(*place).is_some_and(&mut hangs_from_here))
        };
        if let Some(place) = place {
            self.scroll.to(place, self.shown.len());
        }
        place.is_some()
    }

    /// Goes to the next place that was found, or the one before, in the order of the file; false if there is none.
    pub fn next_found(&mut self, back: bool) -> bool {
        let Some(found) = &self.found else { return false };
        let here = self.selected();
        let entries = &found.entries;
        let next = match (here, back) {
            (Some(here), false) => entries.iter().find(|entry| **entry > here).or(entries.first()),
            (Some(here), true) => entries.iter().rev().find(|entry| **entry < here).or(entries.last()),
            (None, _) => entries.first(),
        };
        let Some(next) = next.copied() else { return false };
        self.go_to_entry(next);
        true
    }

    /// Whether a row begins a branch that can be folded, or branches leave from it; and whether that is folded.
    pub fn fold_at(&self, place: usize) -> Option<bool> {
        let shown = self.shown.get(place)?;
        if self.is_start(shown.at) && (shown.folded > 0 || self.len_behind(shown.at) > 0) {
            return Some(shown.folded > 0);
        }
        let starts = self.branches_of(shown.at);
        if starts.is_empty() {
            return None;
        }
        Some(starts.iter().all(|start| self.folded.contains(start)))
    }

    /// Folds (or unfolds) the branch that begins here or the branches that leave here. If there is nothing to fold, the
    /// branch that one is in is. False if nothing changed.
    pub fn fold(&mut self, fold: bool) -> bool {
        let Some(shown) = self.shown.get(self.scroll.selected()).copied() else { return false };
        let mut starts = match self.is_start(shown.at) && self.len_behind(shown.at) > 0 {
            true => vec![shown.at],
            false => Vec::new(),
        }
        .into_iter()
        .filter_map(|at| entry_of(&self.rows[at]))
        .collect::<Vec<_>>();
        if starts.iter().all(|start| self.folded.contains(start) == fold) {
            starts = self.branches_of(shown.at);
        }
        if fold && starts.iter().all(|start| self.folded.contains(start)) {
            starts = self.starts_around(shown.at).into_iter().rev().take(1).collect();
        }
        let mut changed = false;
        for start in &starts {
            changed |= if fold { self.folded.insert(*start) } else { self.folded.remove(start) };
        }
        if changed {
            self.lay_out_around(starts.first().copied());
        }
        changed
    }

    /// Folds all branches beside the active path, or unfolds them if all are folded.
    pub fn fold_all(&mut self) {
        let sides: Vec<_> = (0..self.rows.len())
            .filter(|at| self.is_start(*at) && !self.rows[*at].on_path && self.len_behind(*at) > 0)
            .filter_map(|at| entry_of(&self.rows[at]))
            .collect();
        if sides.iter().all(|start| self.folded.contains(start)) {
            self.folded.clear();
        } else {
            self.folded.extend(sides);
        }
        self.lay_out_around(None);
    }

    /// Lays the rows out; one stays where one was, or at what folded it.
    fn lay_out_around(&mut self, start: Option<EntryIndex>) {
        let at = self.shown.get(self.scroll.selected()).map(|shown| shown.at);
        self.lay_out();
        let place = at.and_then(|at| self.shown.iter().rposition(|shown| shown.at <= at)).unwrap_or(0);
        let place = match start {
            Some(start) if self.shown.get(place).map(|shown| shown.at) != at => {
                self.shown.iter().position(|shown| entry_of(self.row(*shown)) == Some(start)).unwrap_or(place)
            }
            _ => place,
        };
        self.scroll.to(place, self.shown.len());
    }

    fn fold_long(&mut self) {
        for at in 0..self.rows.len() {
            if self.is_start(at) && !self.rows[at].on_path && self.len_behind(at) > LONG_BRANCH {
                self.folded.extend(entry_of(&self.rows[at]));
            }
        }
    }

    fn lay_out(&mut self) {
        self.shown.clear();
        let mut at = 0;
        while at < self.rows.len() {
            let is_folded = self.is_start(at) && entry_of(&self.rows[at]).is_some_and(|entry| self.folded.contains(&entry));
            let folded = if is_folded { self.len_behind(at) } else { 0 };
            self.shown.push(ShownRow { at, folded });
            at += 1 + folded;
        }
    }

    fn is_start(&self, at: usize) -> bool {
        self.rows[at].start == Start::Branch
    }

    /// How many rows of a branch stand behind its first one, with all that leaves from them.
    fn len_behind(&self, at: usize) -> usize {
        let depth = self.rows[at].depth();
        let goes_on = |row: &&Row| row.depth() > depth || (row.depth() == depth && row.start == Start::Nothing);
        self.rows[at + 1..].iter().take_while(goes_on).count()
    }

    /// The first entries of the branches that leave from a row and have more than one row.
    fn branches_of(&self, at: usize) -> Vec<EntryIndex> {
        let depth = self.rows[at].depth();
        let mut starts = Vec::new();
        let mut next = at + 1;
        while let Some(row) = self.rows.get(next).filter(|row| row.depth() == depth + 1 && row.start == Start::Branch) {
            let len = self.len_behind(next);
            starts.extend(entry_of(row).filter(|_| len > 0));
            next += 1 + len;
        }
        starts
    }

    /// The first entries of the branches that a row is in, the outermost first.
    fn starts_around(&self, at: usize) -> Vec<EntryIndex> {
        let mut starts = Vec::new();
        let mut depth = self.rows[at].depth() + 1;
        for row in self.rows[..=at].iter().rev() {
            if row.start == Start::Branch && row.depth() < depth {
                starts.extend(entry_of(row));
                depth = row.depth();
            }
        }
        starts.reverse();
        starts
    }
}

/// The entry of a row.
pub fn entry_of(row: &Row) -> Option<EntryIndex> {
    match row.content {
        RowContent::Entry(index) => Some(index),
        RowContent::Folded(_) => None,
    }
}

/// What the tree shows, in words.
pub fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Conversation | Scope::Spoken => "conversation",
        Scope::All => "all entries",
        Scope::Users => "users only",
        Scope::Labelled => "labelled only",
    }
}

/// The scope after one.
pub fn next_scope(scope: Scope) -> Scope {
    match scope {
        Scope::Conversation | Scope::Spoken => Scope::All,
        Scope::All => Scope::Users,
        Scope::Users => Scope::Labelled,
        Scope::Labelled => Scope::Spoken,
    }
}
