//! The keys, and what they mean where.
//!
//! # Invariants
//! - The line of keys at the bottom, the help and what happens come from one table.
//! - Whatever can be typed has a name: a character is its own, `Space` but for the blank.

use crate::cli::browse::state::Pane;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key that was pressed, by its name: `a`, `Enter`, `Ctrl-C`, `Shift-Up`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A key by its name.
    pub fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// What the terminal tells; `None` for what is no key of ours.
    pub fn of(event: &KeyEvent) -> Option<Self> {
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        let shift = event.modifiers.contains(KeyModifiers::SHIFT);
        let alt = event.modifiers.contains(KeyModifiers::ALT);
        let name = match event.code {
            KeyCode::Char(' ') if !ctrl && !alt => "Space".to_owned(),
            KeyCode::Char(char) if ctrl && !alt => format!("Ctrl-{}", char.to_ascii_uppercase()),
            KeyCode::Char(char) if alt && !ctrl => format!("Alt-{char}"),
            // With both, an AltGr key is meant.
            KeyCode::Char(char) => char.to_string(),
            KeyCode::Enter => "Enter".to_owned(),
            KeyCode::Esc => "Esc".to_owned(),
            KeyCode::Backspace => "Backspace".to_owned(),
            KeyCode::Delete => "Del".to_owned(),
            KeyCode::Tab => "Tab".to_owned(),
            KeyCode::BackTab => "Shift-Tab".to_owned(),
            KeyCode::Up if shift => "Shift-Up".to_owned(),
            KeyCode::Down if shift => "Shift-Down".to_owned(),
            KeyCode::Up => "Up".to_owned(),
            KeyCode::Down => "Down".to_owned(),
            KeyCode::Left => "Left".to_owned(),
            KeyCode::Right => "Right".to_owned(),
            KeyCode::Home => "Home".to_owned(),
            KeyCode::End => "End".to_owned(),
            KeyCode::PageUp => "PgUp".to_owned(),
            KeyCode::PageDown => "PgDn".to_owned(),
            KeyCode::F(number) => format!("F{number}"),
            _ => return None,
        };
        Some(Self(name))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The character that it types, if any.
    pub fn typed(&self) -> Option<char> {
        if self.0 == "Space" {
            return Some(' ');
        }
        let mut chars = self.0.chars();
        let first = chars.next()?;
        chars.next().is_none().then_some(first).filter(|char| !char.is_control())
    }
}

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// To the row above.
    Up,
    /// To the row below.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first row.
    Top,
    /// To the last row.
    Bottom,
    /// To the next pane.
    NextPane,
    /// To the pane before.
    PreviousPane,
    /// Folds, or to the left.
    Left,
    /// Unfolds, or to the right.
    Right,
    /// Goes on with the session from here.
    Resume,
    /// Shows a hit in its tree.
    ShowHit,
    /// Moves the leaf here.
    Goto,
    /// Moves the leaf here, with a summary of what is left.
    GotoWithSummary,
    /// Makes a session of the path to here.
    Fork,
    /// Labels the entry.
    Label,
    /// Renames the session.
    Rename,
    /// Moves the session to the trash.
    Delete,
    /// Brings the session back that was deleted last.
    Undo,
    /// Writes the session to a file.
    Export,
    /// Copies the text of the entry, or the title of the session.
    CopyText,
    /// Copies the id of the entry or the session.
    CopyId,
    /// Narrows the list as one types.
    Narrow,
    /// Finds words in the session.
    Find,
    /// Finds words in all sessions.
    FindEverywhere,
    /// To the next place that was found.
    NextFound,
    /// To the place before that was found.
    PreviousFound,
    /// To the user message before.
    TurnBack,
    /// To the next user message.
    TurnOn,
    /// What the tree shows.
    Filter,
    /// This folder or all.
    AllFolders,
    /// Only sessions with a name.
    NamedOnly,
    /// Folds or unfolds.
    Fold,
    /// Folds all branches beside the active path, or unfolds them.
    FoldAll,
    /// Tool calls and results whole, or in one line.
    Tools,
    /// The pane on the whole screen.
    Zoom,
    /// Reads everything again.
    Reload,
    /// Shows all keys.
    Help,
    /// One step out: of a search, of a pane, of the browser.
    Back,
    /// Ends the browser.
    Quit,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// What it means.
    pub command: Command,
    /// The keys, the one that is shown first.
    pub keys: &'static [&'static str],
    /// In the line at the bottom; empty where it is not shown there.
    pub short: &'static str,
    /// In the help.
    pub long: &'static str,
    /// Where it is of use.
    pub place: Place,
}

/// Where a key is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Everywhere.
    Everywhere,
    /// In the list of sessions, also of those found.
    List,
    /// In the list of what was found.
    Hits,
    /// In the tree, and the text below, which is that of the tree's entry.
    Entry,
}

const fn binding(
    command: Command,
    keys: &'static [&'static str],
    short: &'static str,
    long: &'static str,
    place: Place,
) -> Binding {
    Binding { command, keys, short, long, place }
}

/// All keys, the more useful ones first.
pub const KEYS: &[Binding] = &[
    binding(Command::ShowHit, &["Enter"], "show in its tree", "show what was found in its tree", Place::Hits),
    binding(Command::Resume, &["Enter"], "resume", "go on with the session in a chat, from where it ended", Place::List),
    binding(
        Command::Resume,
        &["Enter"],
        "resume here",
        "go on in a chat from the selected entry; a user message is edited first",
        Place::Entry,
    ),
    binding(Command::Narrow, &["/"], "search titles", "search names, first messages and folders as you type", Place::List),
    binding(Command::Find, &["/"], "find in session", "find words in this session", Place::Entry),
    binding(Command::FindEverywhere, &["w"], "search all texts", "find words said in any session", Place::Everywhere),
    binding(Command::NextPane, &["Tab"], "next pane", "to the next pane: sessions, tree, text", Place::Everywhere),
    binding(Command::TurnBack, &["b", "[", "Shift-Up"], "back a turn", "to the user message before", Place::Entry),
    binding(Command::TurnOn, &["]", "Shift-Down"], "", "to the next user message", Place::Entry),
    binding(Command::Goto, &["g"], "go here", "move the leaf here: the next message hangs from it", Place::Entry),
    binding(
        Command::GotoWithSummary,
        &["s"],
        "go with summary",
        "move the leaf here, with a summary of what is left behind",
        Place::Entry,
    ),
    binding(Command::Fork, &["f"], "fork", "make a new session of the path to here", Place::Everywhere),
    binding(Command::Label, &["l"], "label", "label the entry; an empty label clears it", Place::Entry),
    binding(Command::Filter, &["v"], "view", "the tree shows the conversation, all entries, users only, or labels", Place::Entry),
    binding(Command::Tools, &["t"], "tools", "tool calls, results and thinking whole, or in one line", Place::Entry),
    binding(Command::AllFolders, &["a"], "all folders", "sessions of all folders, or of this one", Place::List),
    binding(Command::NamedOnly, &["m"], "named", "only sessions with a name, or all", Place::List),
    binding(Command::Rename, &["r"], "rename", "rename the session; an empty name clears it", Place::Everywhere),
    binding(Command::Delete, &["d", "Del"], "delete", "move the session to the trash, after a question", Place::Everywhere),
    binding(Command::Undo, &["u"], "undo delete", "bring the session back that was deleted last", Place::Everywhere),
    binding(Command::Export, &["e"], "export", "write the session to a file: .html, .md, .json or .jsonl", Place::Everywhere),
    binding(Command::CopyText, &["y"], "copy text", "copy the entry's text, or the session's title", Place::Everywhere),
    binding(Command::CopyId, &["i"], "copy id", "copy the id of the entry or the session", Place::Everywhere),
    binding(Command::NextFound, &["n"], "", "to the next place found in the session", Place::Entry),
    binding(Command::PreviousFound, &["N", "p"], "", "to the place found before", Place::Entry),
    binding(Command::Fold, &["Space"], "", "fold or unfold the branches here", Place::Entry),
    binding(Command::FoldAll, &["-"], "", "fold or unfold all side branches", Place::Entry),
    binding(Command::Zoom, &["z"], "zoom", "this pane on the whole screen, or all panes", Place::Everywhere),
    binding(Command::Up, &["Up", "k"], "", "one up", Place::Everywhere),
    binding(Command::Down, &["Down", "j"], "", "one down", Place::Everywhere),
    binding(Command::PageUp, &["PgUp", "Ctrl-B"], "", "a page up", Place::Everywhere),
    binding(Command::PageDown, &["PgDn", "Ctrl-F"], "", "a page down", Place::Everywhere),
    binding(Command::Top, &["Home"], "", "to the first", Place::Everywhere),
    binding(Command::Bottom, &["End", "G"], "", "to the last", Place::Everywhere),
    binding(Command::Left, &["Left", "h"], "", "fold, or to the pane at the left", Place::Everywhere),
    binding(Command::Right, &["Right"], "", "unfold, or to the pane at the right", Place::Everywhere),
    binding(Command::PreviousPane, &["Shift-Tab"], "", "to the pane before", Place::Everywhere),
    binding(Command::Reload, &["Ctrl-L", "F5"], "", "read everything again", Place::Everywhere),
    binding(Command::Back, &["Esc"], "", "one step back: out of a search, a pane, the browser", Place::Everywhere),
    binding(Command::Help, &["?", "F1"], "all keys", "show all keys", Place::Everywhere),
    binding(Command::Quit, &["q", "Ctrl-C"], "quit", "leave", Place::Everywhere),
];

impl Place {
    /// Whether it is of use in a pane.
    pub fn holds(self, pane: Pane, has_hits: bool) -> bool {
        match self {
            Self::Everywhere => true,
            Self::List => pane == Pane::List,
            Self::Hits => pane == Pane::List && has_hits,
            Self::Entry => pane != Pane::List,
        }
    }
}

/// What a key means in a pane.
pub fn command(key: &Key, pane: Pane, has_hits: bool) -> Option<Command> {
    let is_it = |binding: &&Binding| binding.keys.contains(&key.name()) && binding.place.holds(pane, has_hits);
    KEYS.iter().find(is_it).map(|binding| binding.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_one_pane_a_key_means_one_thing_but_for_what_was_found() {
        for pane in [Pane::List, Pane::Tree, Pane::Page] {
            let mut seen: Vec<&str> = Vec::new();
            for binding in KEYS.iter().filter(|binding| binding.place.holds(pane, false)) {
                for key in binding.keys {
                    assert!(!seen.contains(key), "{key} in {pane:?}");
                    seen.push(key);
                }
            }
        }
        assert_eq!(command(&Key::named("Enter"), Pane::List, true), Some(Command::ShowHit));
        assert_eq!(command(&Key::named("Enter"), Pane::List, false), Some(Command::Resume));
    }

    #[test]
    fn keys_have_the_names_that_are_shown() {
        for (code, modifiers, name) in [
            (KeyCode::Char('a'), KeyModifiers::NONE, "a"),
            (KeyCode::Char('N'), KeyModifiers::SHIFT, "N"),
            (KeyCode::Char(' '), KeyModifiers::NONE, "Space"),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, "Ctrl-C"),
            (KeyCode::Char('['), KeyModifiers::CONTROL | KeyModifiers::ALT, "["),
            (KeyCode::Up, KeyModifiers::SHIFT, "Shift-Up"),
            (KeyCode::F(5), KeyModifiers::NONE, "F5"),
        ] {
            assert_eq!(Key::of(&KeyEvent::new(code, modifiers)), Some(Key::named(name)));
        }
        assert_eq!(Key::of(&KeyEvent::new(KeyCode::CapsLock, KeyModifiers::NONE)), None);
        assert_eq!(
            [Key::named("é").typed(), Key::named("Esc").typed(), Key::named("Space").typed()],
            [Some('é'), None, Some(' ')]
        );
    }
}
