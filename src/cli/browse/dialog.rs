//! What the browser asks: a line, or a yes.
//!
//! # Invariants
//! - A dialog keeps what it is about, so that what is selected meanwhile does not matter.

use std::path::PathBuf;

use crate::cli::browse::event::Act;
use crate::cli::browse::line_edit::LineEdit;
use crate::session::entry::EntryId;

/// A dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialog {
    /// A line is typed.
    Line(Asked, LineEdit),
    /// A session goes to the trash after a yes.
    Delete {
        /// Its file.
        path: PathBuf,
        /// What it is called.
        title: String,
    },
    /// A file is replaced after a yes.
    Replace {
        /// The file.
        file: String,
        /// What is done then.
        act: Act,
    },
    /// A session whose folder is gone goes on in that of the command after a yes.
    Elsewhere {
        /// Its file.
        path: PathBuf,
        /// The entry to go on from; else from the leaf.
        entry: Option<EntryId>,
        /// The folder that is gone.
        gone: String,
    },
    /// All keys are shown, from a row on.
    Help(usize),
}

/// What a line is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Narrowing the list, as it is typed.
    Narrow,
    /// Finding words in the session.
    Find,
    /// Finding words in all sessions.
    FindEverywhere,
    /// The label of an entry.
    Label(PathBuf, EntryId),
    /// The name of a session.
    Rename(PathBuf),
    /// The file to write a session to.
    Export(PathBuf),
}

impl Asked {
    /// What stands before the line.
    pub fn question(&self) -> &'static str {
        match self {
            Self::Narrow => "Search titles: ",
            Self::Find => "Find in this session: ",
            Self::FindEverywhere => "Search all that was said: ",
            Self::Label(..) => "Label (none clears it): ",
            Self::Rename(_) => "Name (none clears it): ",
            Self::Export(_) => "Write to: ",
        }
    }

    /// What the keys do meanwhile.
    pub fn keys(&self, is_picker: bool, has_none: bool) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Narrow if has_none => &[("Enter", "search all that was said"), ("Esc", "show all sessions")],
            Self::Narrow if is_picker => &[
                ("type", "to search"),
                ("Up Down", "select"),
                ("Enter", "resume"),
                ("Tab", "see the tree"),
                ("Esc", "other keys"),
            ],
            Self::Narrow => {
                &[("type", "to search"), ("Up Down", "select"), ("Enter", "done"), ("Tab", "see the tree"), ("Esc", "show all")]
            }
            Self::Find | Self::FindEverywhere => &[("Enter", "find"), ("Esc", "leave")],
            Self::Label(..) | Self::Rename(_) => &[("Enter", "set"), ("Esc", "leave it")],
            Self::Export(_) => &[("Enter", "write as the name ends: .html .md .json .jsonl"), ("Esc", "leave")],
        }
    }
}
