//! Text of a session made fit to be shown: without escape sequences, on one line, sizes and times in words.
//!
//! # Invariants
//! - What comes out holds no control characters but line ends and tabs; of [`one_line`] not those either.

use std::borrow::Cow;

use crate::session::entry::parse_timestamp_ms;

/// The text without terminal escape sequences and control characters; `\r\n` becomes `\n`.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let is_clean = |byte: u8| byte >= 0x20 && byte != 0x7f || byte == b'\n' || byte == b'\t';
    if text.bytes().all(is_clean) {
        return Cow::Borrowed(text);
    }
    let stripped: String = anstream::adapter::strip_str(text).collect();
    Cow::Owned(stripped.chars().filter(|char| !char.is_control() || matches!(char, '\n' | '\t')).collect())
}

/// The text on one line of at most `max` characters.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut chars = 0;
    // Enough of the text for the line, so that a long one is not walked through.
    let start = text.char_indices().nth(max * 4 + 200).map_or(text, |(at, _)| &text[..at]);
    for word in clean(start).split_whitespace() {
        let (gap, len) = (usize::from(!line.is_empty()), word.chars().count());
        if chars + gap + len > max {
            let room = max.saturating_sub(chars + gap + 1);
            if gap == 1 && room > 0 {
                line.push(' ');
            }
            line.extend(word.chars().take(room));
            line.push('…');
            return line;
        }
        if gap == 1 {
            line.push(' ');
        }
        line.push_str(word);
        chars += gap + len;
    }
    if start.len() < text.len() {
        line.push('…');
    }
    line
}

/// A timestamp for people: `2026-11-29 23:10` in UTC; what is no date stays as it is.
pub(super) fn time(timestamp: &str) -> String {
    match parse_timestamp_ms(timestamp).and_then(chrono::DateTime::from_timestamp_millis) {
        Some(time) => time.format("%Y-%m-%d %H:%M").to_string(),
        None => one_line(timestamp, 40),
    }
}

/// A count for people: `950`, `12.3k`, `4.5M`.
pub(super) fn count(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..100_000 => format!("{:.1}k", n as f64 / 1e3),
        100_000..1_000_000 => format!("{:.0}k", n as f64 / 1e3),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

/// A cost in US dollars: `$1.23`, `$0.0042`.
pub(crate) fn dollars(cost: f64) -> String {
    if cost == 0.0 || cost >= 0.995 { format!("${cost:.2}") } else { format!("${cost:.4}") }
}

/// A length for people: `3 lines`, `1 line`.
pub(super) fn lines(text: &str) -> String {
    match text.lines().count() {
        1 => "1 line".to_owned(),
        n => format!("{n} lines"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_controls_go() {
        assert_eq!(clean("\u{1b}[31mred\u{1b}[0m\r\n\ttab\u{0}\u{7}\u{9b}x"), "red\n\ttabx");
        assert_eq!(clean("\u{1b}]0;title\u{7}after"), "after");
        assert!(matches!(clean("plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_is_one_line_and_ends_in_time() {
        assert_eq!(one_line("  a \n\t b ", 10), "a b");
        assert_eq!(one_line("abc def", 6), "abc d…");
        assert_eq!(one_line("abcdefgh", 5), "abcd…");
        assert_eq!(one_line("日本語日本語", 4), "日本語…");
        assert_eq!(one_line(&"x ".repeat(1_000_000), 3), "x x…");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([count(999), count(1_500), count(123_456), count(2_500_000)], ["999", "1.5k", "123k", "2.5M"]);
        assert_eq!([dollars(0.0), dollars(0.0042), dollars(12.345)], ["$0.00", "$0.0042", "$12.35"]);
        assert_eq!([time("2026-11-29T23:10:10.241Z"), time("so on")], ["2026-11-29 23:10", "so on"]);
    }
}
