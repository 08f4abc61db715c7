//! A small colouring of code: comments, strings, numbers, words of the language, names that are called.
//!
//! What the script of the HTML page does in a browser, for who shows code elsewhere. Languages are told apart by family
//! only, so it is quick and good enough to read by.
//!
//! # Invariants
//! - The pieces that come out are ascending, do not overlap and begin and end at character boundaries.
//! - The words are those of the page's script.

use std::ops::Range;
use std::sync::OnceLock;

use regex::Regex;

/// Longer texts are not coloured, in bytes.
const MAX_BYTES: usize = 200_000;

const C_WORDS: &str = "\
    abstract as async await bool boolean break case catch char class const constructor continue crate debugger \
    declare default defer delete do double dyn else enum export extends false final finally float fn for foreach \
    from func function get go goto if impl implements import in instanceof int interface is keyof let long loop \
    match mod module move mut namespace new nil null number of operator override package private protected pub \
    public readonly ref return select self set short sizeof static string struct super switch template this throw \
    throws trait true try type typedef typeof undefined union unknown unsafe unsigned use using val var virtual \
    void volatile when where while with yield";

const HASH_WORDS: &str = "\
    and as assert async await begin break case class continue declare def del do done elif else elsif end esac \
    except export false False fi finally for from function global if import in is lambda local module next nil \
    None nonlocal not null or pass raise readonly require rescue return self set shift source then true True try \
    unless until when while with yield";

const SQL_WORDS: &str = "\
    add all alter and as asc begin between by case column commit constraint create cross default delete desc \
    distinct drop else end exists foreign from full function group having if in index inner insert into is join \
    key left like limit local nil not null offset on or order outer primary references repeat return right \
    rollback select set table then true false union unique until update using values view when where while with";

/// What a piece of code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// A comment.
    Comment,
    /// A string, or a line that comes.
    Text,
    /// A number.
    Number,
    /// A line that goes.
    Removed,
    /// A word of the language.
    Keyword,
    /// A name that is called, or that a value is given.
    Name,
}

/// Languages that are coloured alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    C,
    Hash,
    Sql,
    Markup,
    Diff,
    Plain,
}

impl Family {
    fn of(language: &str) -> Self {
        match language {
            "bash" | "sh" | "shell" | "zsh" | "console" | "python" | "py" | "ruby" | "rb" | "toml" | "yaml" | "yml"
            | "makefile" | "dockerfile" | "ini" => Self::Hash,
            "sql" | "lua" => Self::Sql,
            "html" | "xml" | "svg" | "vue" => Self::Markup,
            "diff" | "patch" => Self::Diff,
            "" | "markdown" | "md" | "text" | "txt" | "plain" => Self::Plain,
            _ => Self::C,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::C => C_WORDS,
            Self::Hash => HASH_WORDS,
            Self::Sql => SQL_WORDS,
            Self::Markup | Self::Diff | Self::Plain => "",
        }
    }

    /// Finds a comment (1), a string (2), a number (3) or a word (4).
    fn pattern(self) -> Option<&'static Regex> {
        static PATTERNS: [OnceLock<Option<Regex>>; 4] = [const { OnceLock::new() }; 4];
        let (place, comment) = match self {
            Self::C => (0, r"//[^\n]*|/\*(?s:.*?)(?:\*/|\z)"),
            Self::Hash => (1, r"#[^\n]*"),
            Self::Sql => (2, r"--[^\n]*"),
            Self::Markup => (3, r"<!--(?s:.*?)(?:-->|\z)"),
            Self::Diff | Self::Plain => return None,
        };
        let words = if self == Self::Markup { r"</?[\w:-]+|/?>" } else { r"[A-Za-z_$][\w$]*" };
        let strings = r#""(?:\\(?s:.)|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'|`(?:\\(?s:.)|[^`\\])*(?:`|\z)"#;
        let numbers = r"\b0[xX][\da-fA-F_]+\b|\b\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?";
        PATTERNS[place].get_or_init(|| Regex::new(&format!("({comment})|({strings})|({numbers})|({words})")).ok()).as_ref()
    }
}

/// The coloured pieces of a code, in bytes.
pub(crate) fn colours(language: &str, code: &str) -> Vec<(Range<usize>, Colour)> {
    let language = language.to_ascii_lowercase();
    let family = Family::of(&language);
    if code.len() > MAX_BYTES {
        return Vec::new();
    }
    if family == Family::Diff {
        return diff_colours(code);
    }
    let Some(pattern) = family.pattern() else { return Vec::new() };
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(found) = pattern.captures_at(code, at) {
        let Some(whole) = found.get(0) else { break };
        let (from, to) = (whole.start(), whole.end());
        at = to;
        let is_keyword = |word: &str| family.words().split_ascii_whitespace().any(|known| known == word);
        let colour = if found.get(1).is_some() {
            // A sign in the middle of a word begins no comment.
            let before = code[..from].chars().next_back();
            if family == Family::Hash && before.is_some_and(|char| char.is_alphanumeric() || "_$\\{".contains(char)) {
                at = from + 1;
                continue;
            }
            Colour::Comment
        } else if found.get(2).is_some() {
            let is_key = family != Family::Markup && code[to..].trim_start().starts_with(':');
            if is_key { Colour::Name } else { Colour::Text }
        } else if found.get(3).is_some() {
            Colour::Number
        } else if family == Family::Markup || is_keyword(&fold(&language, whole.as_str())) {
            Colour::Keyword
        } else if code[to..].starts_with('(') {
            Colour::Name
        } else {
            continue;
        };
        pieces.push((from..to, colour));
    }
    pieces
}

/// A word as the list has it: SQL is written in both cases.
fn fold(language: &str, word: &str) -> String {
    if language == "sql" { word.to_ascii_lowercase() } else { word.to_owned() }
}

fn diff_colours(code: &str) -> Vec<(Range<usize>, Colour)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let end = at + line.trim_end_matches('\n').len();
        let colour = match line.as_bytes() {
            [b'+', ..] => Some(Colour::Text),
            [b'-', ..] => Some(Colour::Removed),
            [b'@', b'@', ..] => Some(Colour::Name),
            _ => None,
        };
        pieces.extend(colour.map(|colour| (at..end, colour)));
        at += line.len();
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces as `letter:text`.
    fn check(language: &str, code: &str, expect: &str) {
        let shown: Vec<_> = colours(language, code)
            .into_iter()
            .map(|(range, colour)| {
                let letter = match colour {
                    Colour::Comment => 'c',
                    Colour::Text => 's',
                    Colour::Number => 'n',
                    Colour::Removed => '-',
                    Colour::Keyword => 'k',
                    Colour::Name => 'f',
                };
                format!("{letter}:{}", &code[range])
            })
            .collect();
        assert_eq!(shown.join(" | "), expect, "{language}: {code:?}");
    }

    #[test]
    fn the_parts_of_code_are_found() {
        check("rust", "fn main() { // é\n \"a\\\"b\" 0xff }", "k:fn | f:main | c:// é | s:\"a\\\"b\" | n:0xff");
        check("python", "def f(x): # note\n  return x#no", "k:def | f:f | c:# note | k:return");
        check("json", r#"{"a": "b", "n": 1.5}"#, r#"f:"a" | s:"b" | f:"n" | n:1.5"#);
        check("sql", "SELECT a -- b", "k:SELECT | c:-- b");
        check("html", "<b>x</b><!-- y", "k:<b | k:> | k:</b | k:> | c:<!-- y");
        check("diff", "@@ 1\n-a\n+b\n c\n", "f:@@ 1 | -:-a | s:+b");
        check("text", "fn 1", "");
        check("c", "/* open", "c:/* open");
        check("sh", "${#a} 日本語 'x", "");
    }

    #[test]
    fn the_words_are_those_of_the_page() {
        let script = include_str!("html/page.js");
        for words in [C_WORDS, HASH_WORDS, SQL_WORDS] {
            assert!(script.contains(&format!(": \"{words}\"")), "{words}");
        }
    }
}
