//! The rows of a session's tree as people read it: from the root down, one straight line as long as nothing branches.
//!
//! ```text
//! * u1          the active path stays in the left column
//! |-o u2        other branches begin right of where they leave,
//! | o a2        and come before the entry that goes straight on
//! * u3
//! ~ 12 calls    what is left out between two rows is counted
//! * a3
//! ```
//!
//! Where the active path goes elsewhere, what goes straight on is the child with most below it. So columns are few:
//! at most the logarithm of the number of entries, and two more.
//!
//! # Invariants
//! - With [`Scope::All`] every entry that counts has exactly one row. With [`Scope::Conversation`] what has none is in
//!   the count of a fold, but for entries that say nothing: names, moves, changes of models. With the other scopes it is
//!   left out, and an entry where branches leave has a row whatever it is, so that they hang from something.
//! - `O(entries)` time, and a few dozen bytes an entry; nothing recurses, and rings of parents end.
//! - No text is read, but that of assistant messages that could be a row, to see whether they say anything.

use crate::session::entry::{Entry, EntryType};
use crate::session::labels::Labels;
use crate::session::message::{Content, Message, Role};
use crate::session::tree::{Children, EntryIndex, Seen, SessionTree};

/// A branch beside the active path is long when more than this many of its entries could be rows.
const LONG_BRANCH: usize = 8;
/// How many rows a long branch begins with; its last one is shown too.
const BRANCH_BEGINNING: usize = 3;
/// How many branches that leave from one entry are shown: the latest ones.
const SIBLING_BRANCHES: usize = 8;

/// What the rows show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// What users and models said, summaries, labelled entries, the leaf, and where branches leave. Long branches beside
    /// the active path are folded.
    #[default]
    Conversation,
    /// Every entry.
    All,
    /// What a conversation shows, every branch whole and without folds.
    Spoken,
    /// What users said, and commands that they ran.
    Users,
    /// Labelled entries.
    Labelled,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it shows.
    pub content: RowContent,
    /// What is drawn left of it, from the left; its own column is [`Row::depth`].
    pub columns: Vec<Column>,
    /// What begins with it.
    pub start: Start,
    /// Whether it is on the path from the root to the leaf.
    pub on_path: bool,
    /// Whether it is the leaf.
    pub is_leaf: bool,
}

impl Row {
    /// Its column, from 0.
    pub fn depth(&self) -> usize {
        self.columns.len()
    }

    /// What is drawn left of it, two characters a column.
    pub fn lines(&self) -> String {
        let lines = self.columns.iter().map(|column| match column {
            Column::Blank => "  ",
            Column::Line => "│ ",
            Column::Fork => "├─",
            Column::LastFork => "╰─",
        });
        lines.collect()
    }
}

/// What a row shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowContent {
    /// An entry.
    Entry(EntryIndex),
    /// Entries that are left out here.
    Folded(Folded),
}

/// Entries that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// How many entries, of any type.
    pub entries: usize,
    /// How many of them are messages, but for `system` ones.
    pub messages: usize,
    /// How many of the messages are of users.
    pub user_messages: usize,
    /// How many of the messages are results of tool calls.
    pub tool_results: usize,
    /// How many branches are left out whole.
    pub branches: usize,
}

impl Folded {
    fn add(&mut self, other: &Self) {
        self.entries += other.entries;
        self.messages += other.messages;
        self.user_messages += other.user_messages;
        self.tool_results += other.tool_results;
        self.branches += other.branches;
    }
}

/// What stands in a column left of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Nothing.
    Blank,
    /// The line of a branch that goes on below.
    Line,
    /// A branch leaves to the right, to the row; the line goes on below.
    Fork,
    /// The last branch leaves to the right, to the row; nothing goes on below.
    LastFork,
}

/// What begins with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing: the entry hangs from the one in the row above in its column.
    Nothing,
    /// A branch.
    Branch,
    /// A tree; the entry has no parent.
    Root,
    /// A tree that is cut off: the entry's parent is not in the file.
    Orphan,
    /// A ring of parents, entered at its first line.
    Ring,
}

/// The rows of a tree. `says` tells whether an assistant message says anything (see [`says_something`]); it is asked
/// where that decides whether there is a row.
///
/// # Errors
/// Those of `says`.
pub fn outline<E>(
    tree: &SessionTree,
    labels: &Labels,
    scope: Scope,
    says: &mut dyn FnMut(EntryIndex) -> Result<bool, E>,
) -> Result<Vec<Row>, E> {
    let plan = Plan::of(tree, labels, scope);
    let mut rows = Vec::new();
    let mut work: Vec<Work> = plan.starts.iter().rev().map(|start| Work::run(*start, Vec::new(), Vec::new())).collect();
    while let Some(next) = work.pop() {
        match next {
            Work::Fold(row) => rows.push(row),
            Work::Run(mut run) => {
                if run.entries.is_empty() {
                    plan.lay_out(&mut run, says)?;
                }
                plan.draw(run, &mut rows, &mut work);
            }
        }
    }
    Ok(rows)
}

/// Whether an assistant message says anything: words, or why it failed.
pub fn says_something(entry: &Entry) -> bool {
    match entry.message() {
        Some(Message::Assistant(message)) => {
            let text = message.content.as_ref().map(Content::joined_text).unwrap_or_default();
            !text.trim().is_empty() || message.error_message.is_some()
        }
        Some(
            Message::User(_)
            | Message::ToolResult(_)
            | Message::BashExecution(_)
            | Message::Custom(_)
            | Message::System(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_)
            | Message::Unknown(_),
        )
        | None => false,
    }
}

/// What is still to be drawn, the next last.
enum Work {
    /// A run, from a place in it on.
    Run(Run),
    /// A row that is ready.
    Fold(Row),
}

/// Entries that stand in one column.
struct Run {
    /// The first.
    start: EntryIndex,
    /// All of them; none before the run is laid out.
    entries: Vec<EntryIndex>,
    /// Which have a row.
    shown: Vec<bool>,
    /// Where drawing goes on.
    at: usize,
    /// What was left out since the last row.
    folded: Folded,
    /// What is left of its first row.
    first_columns: Vec<Column>,
    /// What is left of its other rows.
    columns: Vec<Column>,
    /// Whether no row of it was drawn yet.
    is_new: bool,
}

impl Work {
    fn run(start: EntryIndex, first_columns: Vec<Column>, columns: Vec<Column>) -> Self {
        let (entries, shown) = (Vec::new(), Vec::new());
        Self::Run(Run { start, entries, shown, at: 0, folded: Folded::default(), first_columns, columns, is_new: true })
    }
}

/// What is known of every entry before anything is drawn.
struct Plan<'a> {
    tree: &'a SessionTree,
    children: Children,
    scope: Scope,
    leaf: Option<EntryIndex>,
    /// Where trees begin: roots and orphans in file order, then rings.
    starts: Vec<EntryIndex>,
    rings: Seen,
    on_path: Seen,
    labelled: Seen,
    /// Entries with a label on them or below.
    labels_below: Seen,
    /// Entries that have a row, or something below that has one, as far as that is known without reading.
    alive: Seen,
    /// What hangs from each entry, itself included.
    below: Vec<Folded>,
}

impl<'a> Plan<'a> {
    fn of(tree: &'a SessionTree, labels: &Labels, scope: Scope) -> Self {
        let len = tree.len();
        let leaf = tree.leaf();
        let mut on_path = Seen::new(len);
        for index in leaf.iter().flat_map(|leaf| tree.ancestors(*leaf)) {
            on_path.insert(index);
        }
        let mut labelled = Seen::new(len);
        for index in labels.iter().filter_map(|(id, _)| tree.find(id.as_str())) {
            labelled.insert(index);
        }
        let children = tree.children();
        let mut plan = Self {
            tree,
            children,
            scope,
            leaf,
            starts: Vec::new(),
            rings: Seen::new(len),
            on_path,
            labels_below: labelled.clone(),
            labelled,
            alive: Seen::new(len),
            below: tree.iter_all().map(|index| alone(tree, index)).collect(),
        };
        let order = plan.walk();
        for index in order.iter().rev() {
            if plan.could_be_a_row(*index) || plan.on_path.contains(*index) {
                plan.alive.insert(*index);
            }
            let Some(parent) = plan.tree.parent(*index).filter(|_| !plan.rings.contains(*index)) else { continue };
            let below = plan.below[index.get()];
            plan.below[parent.get()].add(&below);
            if plan.alive.contains(*index) {
                plan.alive.insert(parent);
            }
            if plan.labels_below.contains(*index) {
                plan.labels_below.insert(parent);
            }
        }
        plan
    }

    /// Finds where trees begin and returns all entries, parents before children.
    fn walk(&mut self) -> Vec<EntryIndex> {
        let mut met = Seen::new(self.tree.len());
        let mut order = Vec::with_capacity(self.tree.len());
        let mut stack = Vec::new();
        let roots = self.children.roots().to_vec();
        let mut visit = |start: EntryIndex, met: &mut Seen| {
            stack.push(start);
            while let Some(index) = stack.pop() {
                if met.insert(index) {
                    order.push(index);
                    stack.extend(self.children.of_entry(index));
                }
            }
        };
        for root in &roots {
            visit(*root, &mut met);
        }
        self.starts = roots;
        // What is left has no root: rings, and what hangs from them. A walk up ends in a ring, or where another one went.
        let mut walked = met.clone();
        for index in self.tree.iter() {
            let mut steps = Vec::new();
            let mut next = Some(index);
            while let Some(step) = next.filter(|step| walked.insert(*step)) {
                steps.push(step);
                next = self.tree.parent(step);
            }
            let ring = next.and_then(|end| steps.iter().position(|step| *step == end)).map(|from| &steps[from..]);
            if let Some(first) = ring.and_then(|ring| ring.iter().min().copied()) {
                self.rings.insert(first);
                self.starts.push(first);
                visit(first, &mut met);
            }
        }
        order
    }

    /// Whether an entry has a row in the conversation, if it is an assistant message that says something.
    fn could_be_a_row(&self, index: EntryIndex) -> bool {
        let (models_too, users_too) = match self.scope {
            Scope::Conversation | Scope::All | Scope::Spoken => (true, true),
            Scope::Users => (false, true),
            Scope::Labelled => (false, false),
        };
        let by_type = match self.tree.entry_type(index) {
            EntryType::Message => match self.tree.role(index) {
                Some(Role::User | Role::BashExecution) => users_too,
                Some(Role::Assistant) => models_too,
                Some(
                    Role::ToolResult
                    | Role::Custom
                    | Role::System
                    | Role::BranchSummary
                    | Role::CompactionSummary
                    | Role::Unknown,
                )
                | None => false,
            },
            EntryType::Compaction | EntryType::BranchSummary => models_too,
            EntryType::Leaf
            | EntryType::ModelChange
            | EntryType::ThinkingLevelChange
            | EntryType::ActiveToolsChange
            | EntryType::ContextEdit
            | EntryType::Custom
            | EntryType::CustomMessage
            | EntryType::Label
            | EntryType::SessionInfo
            | EntryType::Usage
            | EntryType::Unknown => false,
        };
        by_type || self.has_to_be_a_row(index)
    }

    /// Whether what is left out is counted in rows of its own.
    fn folds(&self) -> bool {
        match self.scope {
            Scope::Conversation => true,
            Scope::All | Scope::Spoken | Scope::Users | Scope::Labelled => false,
        }
    }

    fn has_to_be_a_row(&self, index: EntryIndex) -> bool {
        self.labelled.contains(index) || self.leaf == Some(index)
    }

    /// The children that are drawn. The entry that a ring is entered at hangs from nothing.
    fn drawn_children(&self, index: EntryIndex) -> impl Iterator<Item = EntryIndex> {
        let is_drawn =
            |child: &EntryIndex| !self.rings.contains(*child) && (self.scope == Scope::All || self.alive.contains(*child));
        self.children.of_entry(index).iter().copied().filter(is_drawn)
    }

    /// The child that goes straight on: the active one, or that with most below it, the latest of equals. None goes on
    /// from the leaf.
    fn straight_on(&self, index: EntryIndex) -> Option<EntryIndex> {
        if self.leaf == Some(index) {
            return None;
        }
        self.drawn_children(index).max_by_key(|child| (self.on_path.contains(*child), self.below[child.get()].entries, *child))
    }

    /// The branches that leave here, in file order.
    fn branches(&self, index: EntryIndex) -> Vec<EntryIndex> {
        let straight_on = self.straight_on(index);
        self.drawn_children(index).filter(|child| Some(*child) != straight_on).collect()
    }

    /// Finds the entries of a run and which of them have a row.
    fn lay_out<E>(&self, run: &mut Run, says: &mut dyn FnMut(EntryIndex) -> Result<bool, E>) -> Result<(), E> {
        let mut next = Some(run.start);
        while let Some(index) = next {
            run.entries.push(index);
            next = self.straight_on(index);
        }
        if self.scope == Scope::All {
            run.shown = vec![true; run.entries.len()];
            return Ok(());
        }
        let leaves_branch: Vec<_> = run.entries.iter().map(|index| !self.branches(*index).is_empty()).collect();
        let mut shown: Vec<_> =
            run.entries.iter().zip(&leaves_branch).map(|(index, forks)| *forks || self.could_be_a_row(*index)).collect();
        let candidates: Vec<_> = (0..shown.len()).filter(|at| shown[*at]).collect();
        let is_aside = !self.on_path.contains(run.start);
        let mut is_kept = vec![true; shown.len()];
        if is_aside && self.folds() && candidates.len() > LONG_BRANCH {
            for at in &candidates[BRANCH_BEGINNING..candidates.len() - 1] {
                let index = run.entries[*at];
                let holds_label = self.branches(index).iter().any(|branch| self.labels_below.contains(*branch));
                is_kept[*at] = self.has_to_be_a_row(index) || holds_label;
            }
        }
        for at in candidates {
            let index = run.entries[at];
            let is_certain = leaves_branch[at] || self.has_to_be_a_row(index) || self.tree.role(index) != Some(Role::Assistant);
            shown[at] = is_kept[at] && (is_certain || says(index)?);
        }
        run.shown = shown;
        Ok(())
    }

    /// Draws a run up to where branches leave; the rest of it and the branches are put off.
    fn draw(&self, mut run: Run, rows: &mut Vec<Row>, work: &mut Vec<Work>) {
        while let Some(index) = run.entries.get(run.at).copied() {
            let is_shown = run.shown[run.at];
            run.at += 1;
            if is_shown {
                self.draw_fold(&mut run, rows);
                let row = self.row(&mut run, RowContent::Entry(index));
                rows.push(row);
            } else {
                run.folded.add(&alone(self.tree, index));
            }
            if self.folds() {
                self.fold_dead(&mut run.folded, index);
            }
            let branches = self.branches(index);
            if branches.is_empty() {
                continue;
            }
            if !is_shown {
                for branch in branches {
                    run.folded.add(&Folded { branches: 1, ..self.below[branch.get()] });
                }
                continue;
            }
            let columns = run.columns.clone();
            let goes_on = run.at < run.entries.len();
            work.push(Work::Run(run));
            self.put_off(branches, &columns, goes_on, work);
            return;
        }
        self.draw_fold(&mut run, rows);
    }

    /// Puts branches off, those that are too many as one row before the others.
    fn put_off(&self, branches: Vec<EntryIndex>, columns: &[Column], goes_on: bool, work: &mut Vec<Work>) {
        let with = |column| [columns, &[column]].concat();
        let mut too_many = if self.folds() { branches.len().saturating_sub(SIBLING_BRANCHES) } else { 0 };
        let mut folded = Folded::default();
        let mut drawn = Vec::with_capacity(branches.len());
        for branch in branches {
            if too_many > 0 && !self.labels_below.contains(branch) {
                too_many -= 1;
                folded.add(&Folded { branches: 1, ..self.below[branch.get()] });
            } else {
                drawn.push(branch);
            }
        }
        for (behind, branch) in drawn.into_iter().rev().enumerate() {
            let is_last = behind == 0 && !goes_on;
            let (fork, line) = if is_last { (Column::LastFork, Column::Blank) } else { (Column::Fork, Column::Line) };
            work.push(Work::run(branch, with(fork), with(line)));
        }
        if folded.branches > 0 {
            let content = RowContent::Folded(folded);
            let columns = with(Column::Fork);
            work.push(Work::Fold(Row { content, columns, start: Start::Branch, on_path: false, is_leaf: false }));
        }
    }

    /// Adds the results of calls that nothing hangs from that has a row.
    fn fold_dead(&self, folded: &mut Folded, index: EntryIndex) {
        for child in self.children.of_entry(index).iter().filter(|child| !self.alive.contains(**child)) {
            let results = self.below[child.get()].tool_results;
            folded.add(&Folded { entries: results, messages: results, tool_results: results, ..Folded::default() });
        }
    }

    /// Draws what was left out since the last row, if anybody said it.
    fn draw_fold(&self, run: &mut Run, rows: &mut Vec<Row>) {
        let folded = std::mem::take(&mut run.folded);
        if folded.messages > 0 && self.folds() {
            let row = self.row(run, RowContent::Folded(folded));
            rows.push(row);
        }
    }

    /// The next row of a run. A run is on the active path as a whole, or not at all.
    fn row(&self, run: &mut Run, content: RowContent) -> Row {
        let is_first = std::mem::take(&mut run.is_new);
        let start = match is_first {
            false => Start::Nothing,
            true if !run.columns.is_empty() => Start::Branch,
            true if self.rings.contains(run.start) => Start::Ring,
            true if self.tree.is_orphan(run.start) => Start::Orphan,
            true => Start::Root,
        };
        let columns = if is_first { std::mem::take(&mut run.first_columns) } else { run.columns.clone() };
        let is_leaf = self.leaf.is_some_and(|leaf| content == RowContent::Entry(leaf));
        Row { content, columns, start, on_path: self.on_path.contains(run.start), is_leaf }
    }
}

/// One entry as something that is left out.
fn alone(tree: &SessionTree, index: EntryIndex) -> Folded {
    let role = tree.role(index);
    let is_message = role.is_some_and(|role| role != Role::System) || tree.entry_type(index) == EntryType::CustomMessage;
    Folded {
        entries: 1,
        messages: usize::from(is_message),
        user_messages: usize::from(role == Some(Role::User)),
        tool_results: usize::from(role == Some(Role::ToolResult)),
        branches: 0,
    }
}

#[cfg(test)]
mod tests;
