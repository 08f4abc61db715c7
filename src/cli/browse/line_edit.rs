//! A line that is typed.
//!
//! # Invariants
//! - The cursor is at a character boundary, and the text holds no control characters.

use crate::cli::browse::keys::Key;
use crate::cli::text::{lines, one_line, width};

/// A line and where the cursor is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineEdit {
    text: String,
    cursor: usize,
}

impl LineEdit {
    /// A line that is there already, the cursor at its end.
    pub fn new(text: &str) -> Self {
        let text = one_line(text);
        Self { cursor: text.len(), text }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The columns before the cursor.
    pub fn cursor_column(&self) -> usize {
        width(&self.text[..self.cursor])
    }

    /// Takes text in, on one line.
    pub fn insert(&mut self, text: &str) {
        let kept: String = text.chars().map(|char| if matches!(char, '\n' | '\r' | '\t') { ' ' } else { char }).collect();
        let kept = lines(&kept);
        self.text.insert_str(self.cursor, &kept);
        self.cursor += kept.len();
    }

    /// Does what a key says; whether it was one for a line.
    pub fn key(&mut self, key: &Key) -> bool {
        let before = &self.text[..self.cursor];
        let left = before.char_indices().next_back().map_or(0, |(at, _)| at);
        match key.name() {
            "Backspace" | "Ctrl-H" => self.cut(left),
            "Ctrl-W" => {
                let kept = before.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.cut(kept);
            }
            "Ctrl-U" => self.cut(0),
            "Del" => {
                if let Some(char) = self.text[self.cursor..].chars().next() {
                    self.text.replace_range(self.cursor..self.cursor + char.len_utf8(), "");
                }
            }
            "Left" => self.cursor = left,
            "Right" => self.cursor += self.text[self.cursor..].chars().next().map_or(0, char::len_utf8),
            "Home" | "Ctrl-A" => self.cursor = 0,
            "End" | "Ctrl-E" => self.cursor = self.text.len(),
            _ => match key.typed() {
                Some(char) => self.insert(char.encode_utf8(&mut [0; 4])),
                None => return false,
            },
        }
        true
    }

    /// Takes out what stands between a place and the cursor.
    fn cut(&mut self, from: usize) {
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_by_characters() {
        let mut line = LineEdit::default();
        let mut check = |keys: &str, expect: &str| {
            for key in keys.split(' ') {
                assert!(line.key(&Key::named(key)), "{key}");
            }
            let shown = format!("{}|{}", &line.text[..line.cursor], &line.text[line.cursor..]);
            assert_eq!(shown, expect, "{keys}");
        };
        check("a é 日", "aé日|");
        check("Left Backspace", "a|日");
        check("Del b Space c", "ab c|");
        check("Ctrl-W", "ab |");
        check("Home Left x End", "xab |");
        check("Ctrl-U Backspace", "|");
        assert!(!line.key(&Key::named("F5")));
        line.insert("two\nlines\u{1b}[31m\u{202e}\u{7f}");
        assert_eq!(line.text(), "two lines");
    }
}
