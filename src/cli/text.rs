//! Text of sessions made fit for a terminal: nothing in it moves the cursor, changes colours or hides what follows.
//!
//! # Invariants
//! - What these functions return holds no ESC, no other control character (but line ends and tabs in [`lines`]) and no
//!   character that changes the direction of text.
//! - An escape sequence goes as a whole where it is complete; of one that has no end only the introducer goes, so that
//!   it hides nothing.

use std::borrow::Cow;
use std::io;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Text for one line: escape sequences and control characters go, white space collapses to single blanks.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in strip(text).split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// As [`one_line`], for the beginning of a text that may be long: reads no more than some multiple of `columns`.
pub(super) fn one_line_start(text: &str, columns: usize) -> String {
    let enough = text.char_indices().nth(columns.saturating_mul(8).max(1024)).map_or(text, |(at, _)| &text[..at]);
    one_line(enough)
}

/// The beginning of a text in one line of at most `columns`.
pub(super) fn short(text: &str, columns: usize) -> String {
    cut(&one_line_start(text, columns), Some(columns)).into_owned()
}

/// Text of several lines: escape sequences and control characters go, line ends and tabs stay.
pub(super) fn lines(text: &str) -> Cow<'_, str> {
    strip(text)
}

/// Cuts a line to `columns` and marks the cut with an ellipsis; `None` cuts nothing.
pub(super) fn cut(line: &str, columns: Option<usize>) -> Cow<'_, str> {
    let Some(columns) = columns.filter(|columns| line.width() > *columns) else { return Cow::Borrowed(line) };
    let mut used = 1;
    let mut end = 0;
    for (at, char) in line.char_indices() {
        used += char.width().unwrap_or(0);
        if used > columns {
            break;
        }
        end = at + char.len_utf8();
    }
    Cow::Owned(format!("{}…", line[..end].trim_end()))
}

/// The end of a line that fits in `columns`, marked where it was cut.
pub(super) fn cut_start(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let mut start = line;
    while start.width() + 1 > columns {
        let mut chars = start.chars();
        if chars.next().is_none() {
            break;
        }
        start = chars.as_str();
    }
    format!("…{start}")
}

/// The columns that a line takes.
pub(super) fn width(line: &str) -> usize {
    line.width()
}

/// `line` filled with blanks to `columns`.
pub(super) fn pad(line: &str, columns: usize) -> String {
    format!("{line}{}", " ".repeat(columns.saturating_sub(width(line))))
}

/// `word` as one word of a shell's command line.
pub(super) fn quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// `word` as the last word of a command, also where it looks like an option.
pub(super) fn operand(word: &str) -> String {
    let quoted = quote(word);
    if word.starts_with('-') { format!("-- {quoted}") } else { quoted }
}

/// JSON with the control characters that JSON leaves as they are (DEL and C1) as escapes.
pub(super) fn escape_json(json: &str) -> Cow<'_, str> {
    if !may_have_bare_in_json(json.as_bytes()) || !json.chars().any(is_bare_in_json) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for char in json.chars() {
        match is_bare_in_json(char) {
            true => escaped.push_str(&format!("\\u{:04x}", u32::from(char))),
            false => escaped.push(char),
        }
    }
    Cow::Owned(escaped)
}

/// Writes JSON through, escaped as [`escape_json`] does, so that a large value is never held as text.
pub(super) struct EscapedJson<W>(pub W);

impl<W: io::Write> io::Write for EscapedJson<W> {
    /// The JSON writer hands over whole characters.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match may_have_bare_in_json(bytes) {
            false => self.0.write_all(bytes)?,
            true => match std::str::from_utf8(bytes) {
                Ok(text) => self.0.write_all(escape_json(text).as_bytes())?,
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            },
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Whether [`escape_json`] may change something. Quick: most text has neither DEL nor the byte that C1 begins with.
pub(super) fn may_have_bare_in_json(json: &[u8]) -> bool {
    memchr::memchr2(0x7f, 0xc2, json).is_some()
}

fn is_bare_in_json(char: char) -> bool {
    ('\u{7f}'..='\u{9f}').contains(&char)
}

fn strip(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unwanted) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let after = &rest[char.len_utf8()..];
        rest = match char {
            '\u{1b}' => &after[escape_len(after)..],
            '\u{9b}' => &after[control_sequence_len(after).unwrap_or(0)..],
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => &after[string_len(after).unwrap_or(0)..],
            // A line end of Windows is one line end; a bare carriage return would write over the line.
            '\r' if after.starts_with('\n') => after,
            '\r' => {
                kept.push('\n');
                after
            }
            _ => {
                if !is_unwanted(char) {
                    kept.push(char);
                }
                after
            }
        };
    }
    Cow::Owned(kept)
}

fn is_unwanted(char: char) -> bool {
    let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (char.is_control() && char != '\n' && char != '\t')
}

/// The bytes of an escape sequence behind its ESC.
fn escape_len(after: &str) -> usize {
    let len = match after.as_bytes().first() {
        Some(b'[') => control_sequence_len(&after[1..]).map(|len| len + 1),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => string_len(&after[1..]).map(|len| len + 1),
        // Intermediate bytes, then a final one.
        Some(b' '..=b'/') => {
            let end = after.bytes().position(|byte| !(b' '..=b'/').contains(&byte));
            end.filter(|end| (b'0'..=b'~').contains(&after.as_bytes()[*end])).map(|end| end + 1)
        }
        Some(b'0'..=b'~') => Some(1),
        Some(_) | None => None,
    };
    len.unwrap_or(0)
}

/// The bytes of a control sequence behind its introducer: parameters, then a final byte.
fn control_sequence_len(after: &str) -> Option<usize> {
    let end = after.bytes().position(|byte| !(b' '..=b'?').contains(&byte))?;
    (b'@'..=b'~').contains(&after.as_bytes()[end]).then_some(end + 1)
}

/// The bytes of a command string behind its introducer, its end included.
fn string_len(after: &str) -> Option<usize> {
    let (at, end) = after.char_indices().find(|(_, char)| matches!(char, '\u{7}' | '\u{1b}' | '\u{9c}' | '\n'))?;
    match end {
        '\u{7}' | '\u{9c}' => Some(at + end.len_utf8()),
        '\u{1b}' if after[at + 1..].starts_with('\\') => Some(at + 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_go_and_what_follows_stays() {
        for (hostile, shown) in [
            ("a\u{1b}[31mred\u{1b}[0m", "ared"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{9b}2Jtext", "text"),
            ("\u{9d}0;t\u{9c}text", "text"),
            // Without an end it hides nothing.
            ("\u{1b}]0;all of this", "]0;all of this"),
            ("\u{1b}P no end\nnext", "P no end next"),
            ("\u{1b}(Btext", "text"),
            ("\u{1b}ctext", "text"),
            ("\u{1b}", ""),
            ("\u{1b}é", "é"),
            ("\u{1b}[", "["),
            ("\u{1b}[31é", "[31é"),
            ("a\u{7}b\u{8}\u{0}c\u{7f}", "abc"),
            ("one\r\ntwo\rthree\tfour\u{2028}five", "one two three four five"),
            ("abc\u{202e}fdp.exe", "abcfdp.exe"),
            ("日本語 👍", "日本語 👍"),
        ] {
            assert_eq!(one_line(hostile), shown, "{hostile:?}");
        }
    }

    #[test]
    fn several_lines_keep_their_ends() {
        assert_eq!(lines("a\tb\r\nc\u{1b}[2J\n"), "a\tb\nc\n");
        assert_eq!(lines("over\rwritten"), "over\nwritten");
    }

    #[test]
    fn a_line_is_cut_to_its_columns() {
        for (line, columns, shown) in [
            ("hello", 5, "hello"),
            ("hello", 4, "hel…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("ab cd", 4, "ab…"),
            ("ab", 1, "…"),
        ] {
            assert_eq!(cut(line, Some(columns)), shown, "{line:?} {columns}");
        }
        assert_eq!(cut("hello", None), "hello");
    }

    #[test]
    fn json_holds_no_bare_control_character() {
        let (text, escaped) = ("a\u{9b}2J\u{7f}é\u{a9}", "\"a\\u009b2J\\u007fé\u{a9}\"");
        assert_eq!(escape_json(&format!("\"{text}\"")), escaped);
        let mut written = Vec::new();
        serde_json::to_writer(EscapedJson(&mut written), text).expect("room");
        assert_eq!(written, escaped.as_bytes());
    }
}
