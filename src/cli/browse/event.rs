//! What happens to the browser, and what it wants to be done about it.
//!
//! # Invariants
//! - A request is answered by exactly one last reply, whatever comes of it; progress may come before.
//! - Text in a reply is fit for a terminal already.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::browse::keys::Key;
use crate::cli::browse::open_session::OpenSession;
use crate::cli::browse::page::Page;
use crate::cli::browse::session_list::{Hit, Item};
use crate::cli::browse::tree_pane::RowText;
use crate::session::entry::EntryId;
use crate::session::outline::{Row, Scope};
use crate::session::tree::EntryIndex;

/// Something that happens.
#[derive(Debug)]
pub enum Event {
    /// A key is pressed.
    Key(Key),
    /// Text is pasted.
    Paste(String),
    /// The screen has this many columns and rows now.
    Resize(u16, u16),
    /// Time goes on: Unix milliseconds.
    Tick(i64),
    /// A request is answered.
    Reply(Reply),
    /// What was done outside of the full screen has ended.
    CameBack(Told),
}

/// Something to be done.
#[derive(Debug)]
pub enum Effect {
    /// In the background.
    Ask(Request),
    /// Outside of the full screen.
    Outside(Outside),
    /// Text goes to the clipboard of the terminal.
    Copy(String),
}

/// What needs the terminal for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Going on with a session: from an entry, or from its leaf.
    Resume(PathBuf, Option<EntryId>, Folder),
    /// Moving the leaf with a summary of what is left behind.
    GotoWithSummary(PathBuf, EntryId),
}

/// Which folder a session goes on in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Its own.
    Own,
    /// That of the command, for once: its own is gone.
    Here,
}

/// What becomes of a file that is written to and is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldFile {
    /// It stays until somebody says yes.
    Ask,
    /// It is replaced.
    Replace,
}

/// Something told in the status line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// What was done.
    Done(String),
    /// What went wrong, and what helps.
    Problem(String),
}

/// What is asked of the background.
#[derive(Clone, Debug)]
pub enum Request {
    /// The sessions whose files are the newest by name: there before the list is.
    FirstLook {
        /// Whether of all folders.
        all: bool,
    },
    /// All sessions.
    List,
    /// A session and the rows of its tree.
    Open {
        /// Its file.
        path: PathBuf,
        /// What its rows show.
        scope: Scope,
        /// Later ones have higher numbers; one that is not the latest needs no answer any more.
        ticket: u64,
    },
    /// The session anew, if its file has changed.
    Watch(Arc<OpenSession>, Scope),
    /// The rows of a tree.
    Rows(Arc<OpenSession>, Scope),
    /// What rows say.
    Texts(Arc<OpenSession>, Vec<EntryIndex>),
    /// What an entry says.
    Page(Arc<OpenSession>, PageOf),
    /// The entries of a session that hold words.
    Find(Arc<OpenSession>, String),
    /// Entries of all sessions, or of this folder's, that hold words.
    Search {
        /// The words.
        query: String,
        /// Whether of all folders.
        all: bool,
    },
    /// What a session cost. The size of its file tells whether the answer is still good.
    Cost(PathBuf, u64),
    /// A change.
    Act(Act),
}

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOf {
    /// The entry.
    pub entry: EntryIndex,
    /// Whether tool calls, their results and what the model thought are shown whole.
    pub unfolded: bool,
}

/// A change to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Moves the leaf.
    Goto(PathBuf, EntryId),
    /// Makes a session of the path to an entry.
    Fork(PathBuf, EntryId),
    /// Sets a label; an empty one clears it.
    Label(PathBuf, EntryId, String),
    /// Sets the name; an empty one clears it.
    Rename(PathBuf, String),
    /// Moves it to the trash.
    Delete(PathBuf),
    /// Brings it back from the trash; with it what it is called.
    Restore(PathBuf, String),
    /// Writes it to a file.
    Export(PathBuf, String, OldFile),
}

/// What comes back.
#[derive(Debug)]
pub enum Reply {
    /// Some sessions, until the list is there.
    FirstLook(Vec<Item>),
    /// How far the list is: files read, and in all.
    ListProgress(usize, usize),
    /// All sessions, newest activity first.
    Listed {
        /// The sessions.
        items: Vec<Item>,
        /// How many files are none.
        skipped: usize,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// Why there is no list.
    ListFailed(String),
    /// A session is open.
    Opened(Arc<OpenSession>, Scope, Vec<Row>),
    /// A session cannot be opened.
    OpenFailed {
        /// Its file.
        path: PathBuf,
        /// Why, and what helps.
        problem: String,
        /// Whether the file is gone.
        is_gone: bool,
    },
    /// The file has not changed.
    Unchanged,
    /// The rows of a tree; the number is the session's.
    Rows(u64, Scope, Vec<Row>),
    /// What rows say.
    Texts(u64, Vec<(EntryIndex, RowText)>),
    /// What an entry says.
    Page(u64, PageOf, Page),
    /// The entries that hold the words, in file order.
    Found(u64, String, Vec<EntryIndex>),
    /// How far the index of words is, in bytes.
    SearchProgress(u64, u64),
    /// What a search found.
    Searched {
        /// The words.
        query: String,
        /// The hits, newest first.
        hits: Vec<Hit>,
        /// Whether there are more.
        has_more: bool,
    },
    /// What a session cost, in US dollars.
    Cost(PathBuf, u64, f64),
    /// What came of a change; with it the path to select, if another one is.
    Acted(Act, Result<Acted, String>),
    /// Something that is no answer to a question went wrong.
    Failed(String),
    /// Nobody waits for the answer any more.
    Dropped,
}

/// What a change came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acted {
    /// What to tell.
    pub told: String,
    /// The session to show now.
    pub select: Option<PathBuf>,
    /// Nothing was done: this file is there already.
    pub to_replace: Option<String>,
}
