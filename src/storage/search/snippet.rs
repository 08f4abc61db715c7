//! A short piece of text around a match.
//!
//! # Invariants
//! - At most about 160 characters, on one line: white space is one space. Other characters stay as they are, so who shows
//!   it in a terminal has to clean it.
//! - Highlights are ascending ranges of bytes of the snippet, at character boundaries, and do not overlap.

use std::ops::Range;

use crate::storage::search::query::{Place, boundary_before};

/// Characters before the first match.
const BEFORE: usize = 40;
/// Characters in all.
const CHARS: usize = 160;

/// A piece of an entry's text with its matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The piece, on one line, with `…` where it was cut.
    pub text: String,
    /// Where the matches are in it, in bytes.
    pub highlights: Vec<Range<usize>>,
}

impl Snippet {
    /// The piece around the first of `places`.
    pub(super) fn around(texts: &[String], places: &[Place]) -> Self {
        let Some(first) = places.first() else { return Self::default() };
        let Some(text) = texts.get(first.text) else { return Self::default() };
        let at = boundary_before(text, first.range.start);
        let start = text[..at].char_indices().rev().nth(BEFORE - 1).map_or(0, |(start, _)| start);
        let mut snippet = Self::default();
        if start > 0 {
            snippet.text.push('…');
        }
        let mut marks = places.iter().filter(|place| place.text == first.text && place.range.end > start).peekable();
        let mut open: Option<(usize, usize)> = None;
        let mut space = false;
        let mut chars = 0;
        for (at, char) in text[start..].char_indices().map(|(at, char)| (at + start, char)) {
            if let Some((begin, end)) = open
                && at >= end
            {
                snippet.mark(begin);
                open = None;
            }
            if chars >= CHARS {
                snippet.mark_open(open);
                snippet.text.push('…');
                return snippet;
            }
            if char.is_whitespace() {
                space = true;
                continue;
            }
            if std::mem::take(&mut space) && !snippet.text.is_empty() {
                snippet.text.push(' ');
                chars += 1;
            }
            // Of matches that overlap the later one begins where the earlier one ends.
            while open.is_none() && marks.peek().is_some_and(|place| place.range.start <= at) {
                let end = marks.next().map_or(0, |place| place.range.end);
                open = (end > at).then_some((snippet.text.len(), end));
            }
            snippet.text.push(char);
            chars += 1;
        }
        snippet.mark_open(open);
        snippet
    }

    fn mark(&mut self, begin: usize) {
        let end = self.text.len();
        if begin < end {
            self.highlights.push(begin..end);
        }
    }

    fn mark_open(&mut self, open: Option<(usize, usize)>) {
        if let Some((begin, _)) = open {
            self.mark(begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, ranges: &[(usize, usize)], expect: &str) {
        let places: Vec<_> = ranges.iter().map(|(start, end)| Place { text: 0, range: *start..*end }).collect();
        let snippet = Snippet::around(&[text.to_owned()], &places);
        let mut shown = snippet.text.clone();
        for range in snippet.highlights.iter().rev() {
            shown.insert(range.end, ']');
            shown.insert(range.start, '[');
        }
        assert_eq!(shown, expect);
    }

    #[test]
    fn matches_are_marked_and_white_space_is_one_space() {
        check("a word here", &[(2, 6)], "a [word] here");
        check("a\n\n\tword  word\n", &[(4, 8), (10, 14)], "a [word] [word]");
        check("two words", &[(0, 9)], "[two words]");
        check("overlap", &[(0, 4), (2, 7)], "[over][lap]");
        check("日本語", &[(3, 6)], "日[本]語");
        check("", &[(0, 0)], "");
        check("x", &[], "");
    }

    #[test]
    fn a_long_text_is_cut_on_both_sides() {
        let text = format!("{} hit {}", "é".repeat(500), "z".repeat(500));
        check(&text, &[(1001, 1004)], &format!("…{} [hit] {}…", "é".repeat(39), "z".repeat(116)));
    }
}
