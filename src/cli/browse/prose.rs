//! Text as lines with tones: prose with its code blocks, code, and what tools gave.
//!
//! # Invariants
//! - Lines hold no control characters and no tabs.
//! - `broken` gives lines of at most so many columns, and at least one for each.

use unicode_width::UnicodeWidthChar as _;

use crate::cli::browse::tone::{Piece, Tone, piece};
use crate::cli::text::{lines, width};
use crate::export::colours;

/// A longer line is cut, in characters: nobody reads it here.
const MAX_LINE_CHARS: usize = 4_000;
/// Text behind this many bytes is left out before anything else is done with it.
const MAX_BYTES: usize = 1_000_000;

/// The lines of a text that has no structure.
pub fn plain_lines(text: &str, max: usize) -> Vec<Vec<Piece>> {
    cleaned(text).lines().take(max).map(|line| vec![piece(Tone::Plain, line)]).collect()
}

/// The lines of a code; indented, so that they stand out.
pub fn code_lines(language: &str, text: &str, max: usize) -> Vec<Vec<Piece>> {
    let text = cleaned(text);
    let mut coloured = vec![Tone::Plain; 0];
    coloured.resize(text.len(), Tone::Plain);
    for (range, colour) in colours(language, &text) {
        coloured[range].fill(Tone::of_code(colour));
    }
    let mut all = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n').take(max) {
        let shown = line.trim_end_matches('\n');
        let mut pieces = vec![piece(Tone::Plain, "  ")];
        for (offset, char) in shown.char_indices() {
            let tone = coloured[at + offset];
            match pieces.last_mut().filter(|last| last.tone == tone) {
                Some(last) => last.text.push(char),
                None => pieces.push(piece(tone, char)),
            }
        }
        all.push(pieces);
        at += line.len();
    }
    all
}

/// The lines of prose: headings and `code` stand out, blocks of code are coloured.
pub fn prose_lines(text: &str, max: usize) -> Vec<Vec<Piece>> {
    let text = cleaned(text);
    let mut all = Vec::new();
    let mut rest = text.lines();
    while let Some(line) = rest.next().filter(|_| all.len() < max) {
        let Some(fence) = Fence::open(line) else {
            all.push(prose_line(line));
            continue;
        };
        all.push(vec![piece(Tone::Dim, line)]);
        let mut code = String::new();
        let mut end = None;
        for line in rest.by_ref() {
            if fence.is_closed_by(line) {
                end = Some(line);
                break;
            }
            code.push_str(line);
            code.push('\n');
        }
        all.extend(code_lines(&fence.language, &code, max));
        all.extend(end.map(|end| vec![piece(Tone::Dim, end)]));
    }
    all
}

/// What opens a block of code.
struct Fence {
    sign: char,
    len: usize,
    language: String,
}

impl Fence {
    fn open(line: &str) -> Option<Self> {
        let inner = line.trim_start();
        let sign = inner.chars().next().filter(|char| matches!(char, '`' | '~'))?;
        let len = inner.chars().take_while(|char| *char == sign).count();
        let info = inner[len..].trim();
        let language = info.chars().take_while(|char| char.is_ascii_alphanumeric() || "+#-_.".contains(*char)).collect();
        (len >= 3 && !info.contains('`')).then_some(Self { sign, len, language })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let inner = line.trim();
        inner.len() >= self.len && inner.chars().all(|char| char == self.sign)
    }
}

fn prose_line(line: &str) -> Vec<Piece> {
    let marks = line.len() - line.trim_start_matches('#').len();
    if (1..=6).contains(&marks) && line[marks..].starts_with(' ') {
        return vec![piece(Tone::Strong, line)];
    }
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, behind)) = after.split_once('`') else { break };
        if !before.is_empty() {
            pieces.push(piece(Tone::Plain, before));
        }
        pieces.push(piece(Tone::Name, format!("`{code}`")));
        rest = behind;
    }
    pieces.push(piece(Tone::Plain, rest));
    pieces
}

/// Text without what does not belong on a terminal; tabs as blanks, long lines cut.
fn cleaned(text: &str) -> String {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = lines(&text[..end]);
    let mut cleaned = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut column = 0;
        for (at, char) in line.chars().enumerate() {
            match char {
                '\n' => cleaned.push('\n'),
                _ if at > MAX_LINE_CHARS => {}
                _ if at == MAX_LINE_CHARS => cleaned.push('…'),
                '\t' => {
                    let blanks = 4 - column % 4;
                    cleaned.extend(std::iter::repeat_n(' ', blanks));
                    column += blanks;
                }
                char => {
                    cleaned.push(char);
                    column += char.width().unwrap_or(0);
                }
            }
        }
    }
    cleaned
}

/// A line broken to `columns`, at blanks where that is possible.
pub fn broken(line: &[Piece], columns: usize) -> Vec<Vec<Piece>> {
    let columns = columns.max(1);
    if line.iter().map(|part| width(&part.text)).sum::<usize>() <= columns {
        return vec![line.to_vec()];
    }
    let chars: Vec<(Tone, char)> = line.iter().flat_map(|part| part.text.chars().map(|char| (part.tone, char))).collect();
    let mut all = Vec::new();
    let mut from = 0;
    while from < chars.len() {
        let mut used = 0;
        let mut to = from;
        let mut blank = None;
        while to < chars.len() {
            let own = chars[to].1.width().unwrap_or(0);
            if used + own > columns && to > from {
                break;
            }
            used += own;
            if chars[to].1 == ' ' {
                blank = Some(to);
            }
            to += 1;
        }
        // A blank in the indent is no place to break.
        let has_text = |blank: &usize| chars[from..*blank].iter().any(|(_, char)| *char != ' ');
        if to < chars.len()
            && chars[to].1 != ' '
            && let Some(blank) = blank.filter(has_text)
        {
            to = blank + 1;
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for (tone, char) in &chars[from..to] {
            match pieces.last_mut().filter(|last| last.tone == *tone) {
                Some(last) => last.text.push(*char),
                None => pieces.push(piece(*tone, *char)),
            }
        }
        all.push(pieces);
        from = to;
        if chars.get(from).is_some_and(|(_, char)| *char == ' ') && from + 1 < chars.len() {
            from += 1;
        }
    }
    if all.is_empty() {
        all.push(Vec::new());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[Vec<Piece>]) -> Vec<String> {
        lines.iter().map(|line| line.iter().map(|part| &*part.text).collect()).collect()
    }

    #[test]
    fn lines_are_broken_at_blanks_and_by_columns() {
        let check = |line: &str, columns: usize, expect: &[&str]| {
            assert_eq!(text(&broken(&[piece(Tone::Plain, line)], columns)), expect, "{line:?}");
        };
        check("one two three", 8, &["one two ", "three"]);
        check("one two three", 7, &["one two", "three"]);
        check("  abcdefgh", 5, &["  abc", "defgh"]);
        check("日本語日本語", 5, &["日本", "語日", "本語"]);
        check("日本", 1, &["日", "本"]);
        check("", 5, &[""]);
        check("x", 0, &["x"]);
    }

    #[test]
    fn code_in_prose_is_coloured_and_hostile_text_is_harmless() {
        let lines = prose_lines("# Head\nUse `x` now\n```rust\n\tfn a() {}\n```\nend\u{1b}[2J\u{7}", 100);
        assert_eq!(text(&lines), ["# Head", "Use `x` now", "```rust", "      fn a() {}", "```", "end"]);
        assert_eq!(lines[0][0].tone, Tone::Strong);
        assert_eq!(lines[1][1], piece(Tone::Name, "`x`"));
        assert!(lines[3].contains(&piece(Tone::Keyword, "fn")), "{:?}", lines[3]);
        // A block that has no end takes the rest.
        assert_eq!(text(&prose_lines("```\na\nb", 100)), ["```", "  a", "  b"]);
        assert_eq!(prose_lines(&"x\n".repeat(50), 10).len(), 10);
        let long = plain_lines(&"y".repeat(10_000), 10);
        assert_eq!(long[0][0].text.chars().count(), MAX_LINE_CHARS + 1);
    }
}
