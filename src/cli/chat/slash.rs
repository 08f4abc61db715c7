//! What a person can do in a chat besides talking.
//!
//! # Invariants
//! - A line is a command only if its first word is a slash and letters alone, so that a path can begin a prompt.

/// The commands, as `/help` shows them.
pub const HELP: &str = "\
/tree             draws the session as a tree, the active path marked
/goto ENTRY       goes back (or elsewhere): ENTRY is tN for the N-th message of yours, a label, an id, @prev;
                  behind it: summarize [WHAT MATTERS], to leave a summary of what you come from
/compact [WHAT]   summarizes older messages to make room; WHAT tells what matters
/fork [ENTRY]     goes on in a new session, copied up to here or to ENTRY
/name [NAME]      shows or sets the name of the session
/model [MODEL]    shows or changes the model: PROVIDER/MODEL
/context          shows how full the window is
/skill NAME [...] sends the instructions of a skill, and what you add
/continue         lets the model go on, after an error or a stop
/help             shows this
exit, quit        leave (also Ctrl-D)

Lines that you type while the model works are sent with its next request. Ctrl-C stops it, twice leaves.
A line that ends with \\ goes on in the next line.";

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slash<'a> {
    /// `/tree`
    Tree,
    /// `/goto`
    Goto(&'a str),
    /// `/compact`
    Compact(&'a str),
    /// `/fork`
    Fork(&'a str),
    /// `/name`
    Name(&'a str),
    /// `/model`
    Model(&'a str),
    /// `/context`
    Context,
    /// `/skill`
    Skill(&'a str),
    /// `/continue`
    Continue,
    /// `/help`
    Help,
    /// `exit`, `quit`
    Exit,
    /// Another word with a slash.
    Unknown(&'a str),
}

impl<'a> Slash<'a> {
    /// The command that a line is; `None` where it is for the model.
    pub fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if matches!(line, "exit" | "quit") {
            return Some(Self::Exit);
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (name, rest) = (word.strip_prefix('/')?, rest.trim());
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return None;
        }
        Some(match name {
            "tree" => Self::Tree,
            "goto" => Self::Goto(rest),
            "compact" => Self::Compact(rest),
            "fork" => Self::Fork(rest),
            "name" => Self::Name(rest),
            "model" => Self::Model(rest),
            "context" => Self::Context,
            "skill" => Self::Skill(rest),
            "continue" => Self::Continue,
            "help" => Self::Help,
            "exit" | "quit" => Self::Exit,
            _ => Self::Unknown(word),
        })
    }
}

/// Whether a line is a command.
pub fn is_command(line: &str) -> bool {
    Slash::parse(line).is_some()
}

/// A word and what follows it.
pub fn first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_text_are_no_commands() {
        for (line, expect) in [
            ("exit", Some(Slash::Exit)),
            (" quit ", Some(Slash::Exit)),
            ("/quit", Some(Slash::Exit)),
            ("exit the loop", None),
            ("/usr/bin is full", None),
            ("/", None),
            ("/goto  t3 ", Some(Slash::Goto("t3"))),
            ("/compact keep the names", Some(Slash::Compact("keep the names"))),
            ("/nothing", Some(Slash::Unknown("/nothing"))),
            ("hello", None),
        ] {
            assert_eq!(Slash::parse(line), expect, "{line:?}");
        }
    }
}
