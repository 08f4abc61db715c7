//! Words of a text, as a search compares them.
//!
//! A word is a run of letters and digits, in lower case. Where a script sets no spaces (Chinese, Japanese, Korean, Thai
//! and their neighbours) each character is a word, so that a phrase finds any part of a run. Symbols such as emoji are
//! words too; what is left only separates, and so do colours and other control sequences of terminals.
//!
//! # Invariants
//! - No character but an ASCII letter becomes an ASCII letter, so that a search of raw bytes for an ASCII word in any case
//!   misses none.
//! - Ranges are bytes of the text, at character boundaries, ascending, and never overlap.

use std::ops::Range;

/// What a character is to a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// It goes on or begins one.
    Part,
    /// It goes on one, and begins none.
    Mark,
    /// It is one.
    Whole,
    /// It ends one.
    Between,
}

fn class(char: char) -> Class {
    match char {
        '\0'..='\x7f' => {
            if char.is_ascii_alphanumeric() {
                Class::Part
            } else {
                Class::Between
            }
        }
        '\u{300}'..='\u{36f}' => Class::Mark,
        // Thai, Lao, Tibetan, Myanmar, Khmer: vowels and tones are characters of their own.
        '\u{e00}'..='\u{fff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => Class::Whole,
        // Arrows, mathematics, boxes, dingbats; emoji.
        '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' => Class::Whole,
        // Jamo, radicals, kana, Bopomofo, ideographs, Hangul.
        '\u{1100}'..='\u{11ff}'
        | '\u{2e80}'..='\u{2fdf}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3021}'..='\u{3029}'
        | '\u{3031}'..='\u{30fa}'
        | '\u{30fc}'..='\u{9fff}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}' => Class::Whole,
        _ if char.is_alphanumeric() => Class::Part,
        _ => Class::Between,
    }
}

/// Adds a character in lower case.
fn fold_into(folded: &mut String, char: char) {
    if char.is_ascii() {
        folded.push(char.to_ascii_lowercase());
        return;
    }
    match char {
        'ς' => folded.push('σ'),
        _ if char.to_lowercase().any(|lower| lower.is_ascii()) => folded.push(char),
        _ => folded.extend(char.to_lowercase()),
    }
}

/// Calls `each` with the place and the lower case of every word.
pub(super) fn for_each_word(text: &str, each: &mut dyn FnMut(Range<usize>, &str)) {
    let mut folded = String::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        // Most text is ASCII, and needs no look at characters.
        let byte = bytes[at];
        if byte.is_ascii() {
            if byte.is_ascii_alphanumeric() {
                if folded.is_empty() {
                    start = at;
                }
                folded.push(char::from(byte.to_ascii_lowercase()));
            } else if !folded.is_empty() {
                each(start..at, &folded);
                folded.clear();
            }
            at += if byte == 0x1b { control_len(&bytes[at..]) } else { 1 };
            continue;
        }
        let Some(char) = text[at..].chars().next() else { break };
        let end = at + char.len_utf8();
        match class(char) {
            Class::Part => {
                if folded.is_empty() {
                    start = at;
                }
                fold_into(&mut folded, char);
            }
            Class::Mark if !folded.is_empty() => folded.push(char),
            Class::Whole => {
                if !folded.is_empty() {
                    each(start..at, &folded);
                    folded.clear();
                }
                fold_into(&mut folded, char);
                each(at..end, &folded);
                folded.clear();
            }
            Class::Mark | Class::Between => {
                if !folded.is_empty() {
                    each(start..at, &folded);
                    folded.clear();
                }
            }
        }
        at = end;
    }
    if !folded.is_empty() {
        each(start..bytes.len(), &folded);
    }
}

/// How long a control sequence of a terminal is, such as a colour: no part of it belongs to the word behind it.
fn control_len(bytes: &[u8]) -> usize {
    let Some(rest) = bytes.strip_prefix(b"\x1b[") else { return 1 };
    let end = rest.iter().position(|byte| !(b'0'..=b'?').contains(byte));
    end.filter(|end| rest[*end].is_ascii_alphabetic()).map_or(1, |end| end + 3)
}

/// The words of a text in lower case.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_word(text, &mut |_, word| words.push(word.to_owned()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[&str]) {
        assert_eq!(words(text), expect, "{text:?}");
        let mut end = 0;
        for_each_word(text, &mut |range, _| {
            assert!(range.start >= end && range.end > range.start && text.get(range.clone()).is_some(), "{text:?} {range:?}");
            end = range.end;
        });
    }

    #[test]
    fn words_are_letters_and_digits_in_lower_case() {
        check("", &[]);
        check("Hello, World2! foo_bar src/main.rs", &["hello", "world2", "foo", "bar", "src", "main", "rs"]);
        check("NAÏVE Café STRASSE Straße ΣΊΣΥΦΟΣ σίσυφος", &["naïve", "café", "strasse", "straße", "σίσυφοσ", "σίσυφοσ"]);
        check("cafe\u{301} x", &["cafe\u{301}", "x"]);
        check("-> :: {}", &[]);
        check("\u{1b}[31;1mError\u{1b}[0m: x\u{1b}[K \u{1b}[", &["error", "x"]);
        check("\u{1b}31m \u{1b}[日 \u{1b}[3", &["31m", "日", "3"]);
    }

    #[test]
    fn scripts_without_spaces_are_cut_into_characters() {
        check("日本語のtest、完了。", &["日", "本", "語", "の", "test", "完", "了"]);
        check("한국어", &["한", "국", "어"]);
        check("สวัสดี", &["ส", "ว", "ั", "ส", "ด", "ี"]);
        check("go🚀now", &["go", "🚀", "now"]);
        check("カタカナー・x", &["カ", "タ", "カ", "ナ", "ー", "x"]);
    }

    #[test]
    fn only_ascii_letters_become_ascii_letters() {
        check("\u{212a}elvin", &["\u{212a}elvin"]);
        check("\u{130}x", &["\u{130}x"]);
    }
}
