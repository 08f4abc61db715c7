//! How things look in the browser.
//!
//! # Invariants
//! - Without colours nothing has a colour; what matters is told by signs and words, which are there with colours too.

use ratatui::style::{Color, Modifier, Style};

use crate::export::Colour;

/// What a piece of text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Text.
    #[default]
    Plain,
    /// Of less weight.
    Dim,
    /// Of more weight.
    Strong,
    /// An id, a number.
    Id,
    /// A name or a label.
    Name,
    /// What was looked for.
    Hit,
    /// What is active.
    Active,
    /// What went wrong; a line that goes.
    Bad,
    /// What asks for attention.
    Warn,
    /// A string; a line that comes.
    Text,
    /// A word of a language.
    Keyword,
}

impl Tone {
    /// Its style.
    pub fn style(self, colored: bool) -> Style {
        let style = Style::new();
        let color = |color| if colored { style.fg(color) } else { style };
        match self {
            Self::Plain => style,
            Self::Dim => style.add_modifier(Modifier::DIM),
            Self::Strong => style.add_modifier(Modifier::BOLD),
            Self::Id => color(Color::Yellow),
            Self::Name => color(Color::Cyan),
            Self::Hit => color(Color::Red).add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            Self::Active => color(Color::Green).add_modifier(Modifier::BOLD),
            Self::Bad => color(Color::Red),
            Self::Warn => color(Color::Yellow).add_modifier(Modifier::BOLD),
            Self::Text => color(Color::Green),
            Self::Keyword => color(Color::Magenta),
        }
    }

    /// The tone of a piece of code.
    pub(super) fn of_code(colour: Colour) -> Self {
        match colour {
            Colour::Comment => Self::Dim,
            Colour::Text => Self::Text,
            Colour::Number => Self::Id,
            Colour::Removed => Self::Bad,
            Colour::Keyword => Self::Keyword,
            Colour::Name => Self::Name,
        }
    }
}

/// A piece of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// How it looks.
    pub tone: Tone,
    /// What it says; fit for a terminal, without line ends.
    pub text: String,
}

/// A piece.
pub fn piece(tone: Tone, text: impl Into<String>) -> Piece {
    Piece { tone, text: text.into() }
}
