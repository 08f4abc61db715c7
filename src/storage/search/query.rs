//! What a search asks: words, phrases and prefixes joined by AND and OR, or a regular expression.
//!
//! ```text
//! parser error            both words, anywhere in one entry
//! "parser error"          one right behind the other
//! pars*                   a word that begins so
//! parser OR lexer error   the one word, or both others: AND binds closer
//! src/main.rs  日本語      words that stand together are a phrase
//! ```
//!
//! # Invariants
//! - A query matches one entry at a time; a phrase does not run over the end of a block of text.
//! - [`Query::prefilter`] finds something in the raw record of every entry that matches. It may find more.
//! - [`Query::index_expression`] is true for every set of words in which the query can match. It may be for more.

use std::ops::Range;

use crate::storage::search::words::{for_each_word, words};

/// Longer words are cut to this in the index, in bytes.
pub(super) const KEY_BYTES: usize = 40;
/// How many groups and words of a query are looked up in the index.
const MAX_GROUPS: usize = 64;
const MAX_TERMS: usize = 16;
/// How many places are marked in one entry.
const MAX_PLACES: usize = 1000;

/// A search that cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// There is no letter or digit in it.
    #[error("the query has no word to look for")]
    NoWords,
    /// The regular expression is none.
    #[error("the regular expression cannot be used")]
    Regex(#[source] Box<regex::Error>),
}

/// A query, ready to be matched.
#[derive(Clone, Debug)]
pub struct Query(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Any of the groups, of a group all phrases.
    Words(Vec<Vec<Phrase>>),
    Pattern(regex::Regex),
}

/// Words that follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Phrase {
    words: Vec<String>,
    /// The last word may go on.
    is_prefix: bool,
}

/// A match in one of an entry's texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which text.
    pub text: usize,
    /// Where in it, in bytes.
    pub range: Range<usize>,
}

impl Query {
    /// A query of words, phrases, prefixes, AND and OR.
    ///
    /// # Errors
    /// When there is no word in it.
    pub fn words(text: &str) -> Result<Self, QueryError> {
        let mut groups = vec![Vec::new()];
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (part, is_quoted, behind) = match rest.strip_prefix('"') {
                Some(inner) => match inner.find('"') {
                    Some(end) => (&inner[..end], true, &inner[end + 1..]),
                    None => (inner, true, ""),
                },
                None => {
                    let end = rest.find(|char: char| char.is_whitespace() || char == '"').unwrap_or(rest.len());
                    (&rest[..end], false, &rest[end..])
                }
            };
            let is_prefix = if is_quoted { behind.starts_with('*') } else { part.ends_with('*') };
            match part {
                "OR" if !is_quoted => groups.push(Vec::new()),
                "AND" if !is_quoted => {}
                _ => {
                    let words = words(part);
                    if !words.is_empty() {
                        groups.last_mut().map(|group| group.push(Phrase { words, is_prefix })).unwrap_or_default();
                    }
                }
            }
            rest = behind.strip_prefix('*').filter(|_| is_quoted).unwrap_or(behind).trim_start();
        }
        groups.retain(|group| !group.is_empty());
        if groups.is_empty() { Err(QueryError::NoWords) } else { Ok(Self(Kind::Words(groups))) }
    }

    /// A regular expression, matched as it is written: `(?i)` at its beginning makes upper and lower case equal.
    ///
    /// # Errors
    /// When it is none, or too large.
    pub fn regex(pattern: &str) -> Result<Self, QueryError> {
        regex::Regex::new(pattern).map(|regex| Self(Kind::Pattern(regex))).map_err(|error| QueryError::Regex(Box::new(error)))
    }

    /// Where the query matches in the texts of one entry, in order; none when it does not match.
    pub(super) fn find(&self, texts: &[String]) -> Vec<Place> {
        match &self.0 {
            Kind::Words(groups) => {
                let texts: Vec<_> = texts.iter().map(|text| TextWords::of(text)).collect();
                let mut places = Vec::new();
                for group in groups {
                    let found: Vec<Vec<Place>> = group.iter().map(|phrase| phrase.find(&texts)).collect();
                    if found.iter().all(|places| !places.is_empty()) {
                        places.extend(found.into_iter().flatten());
                    }
                }
                places.sort_by_key(|place| (place.text, place.range.start, place.range.end));
                places.dedup();
                places
            }
            Kind::Pattern(regex) => {
                let in_text = |(text, content): (usize, &String)| -> Vec<Place> {
                    regex.find_iter(content).take(MAX_PLACES).map(|found| Place { text, range: found.range() }).collect()
                };
                texts.iter().enumerate().flat_map(in_text).take(MAX_PLACES).collect()
            }
        }
    }

    /// A search of raw bytes that finds something in every record that matches; `None` when each has to be read.
    pub(super) fn prefilter(&self) -> Option<regex::bytes::Regex> {
        let Kind::Words(groups) = &self.0 else { return None };
        let mut parts = Vec::new();
        let mut any_escape = false;
        for group in groups {
            // The longest word is mostly the rarest.
            let word = group.iter().flat_map(|phrase| &phrase.words).max_by_key(|word| (word.is_ascii(), word.len()))?;
            let start: String = word.chars().take(32).collect();
            any_escape |= !start.is_ascii();
            let flags = if start.is_ascii() { "i-u" } else { "i" };
            parts.push(format!("(?{flags}:{})", regex::escape(&start)));
        }
        // Any character can stand in a record as an escape; those of letters and digits are rare.
        parts.push(if any_escape { r"\\u" } else { r"\\u00[2-7]" }.to_owned());
        regex::bytes::Regex::new(&parts.join("|")).ok()
    }

    /// The query as the full-text index reads it; `None` when the index cannot help.
    pub(super) fn index_expression(&self) -> Option<String> {
        let Kind::Words(groups) = &self.0 else { return None };
        if groups.len() > MAX_GROUPS {
            return None;
        }
        let group_text = |group: &Vec<Phrase>| {
            let terms = group.iter().flat_map(|phrase| {
                let last = phrase.words.len() - 1;
                let is_prefix = move |at| phrase.is_prefix && at == last;
                phrase
                    .words
                    .iter()
                    .enumerate()
                    .map(move |(at, word)| format!("\"{}\"{}", index_key(word), if is_prefix(at) { " *" } else { "" }))
            });
            format!("({})", terms.take(MAX_TERMS).collect::<Vec<_>>().join(" AND "))
        };
        Some(groups.iter().map(group_text).collect::<Vec<_>>().join(" OR "))
    }
}

/// What stands for a word in the index.
pub(super) fn index_key(word: &str) -> &str {
    &word[..boundary_before(word, KEY_BYTES)]
}

/// The last character boundary that is not behind `at`.
pub(super) fn boundary_before(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The words of one text, side by side in one string.
struct TextWords {
    folded: String,
    /// Where each is in the text and where it ends in `folded`.
    words: Vec<(Range<usize>, usize)>,
}

impl TextWords {
    fn of(text: &str) -> Self {
        let mut all = Self { folded: String::with_capacity(text.len()), words: Vec::new() };
        for_each_word(text, &mut |range, word| {
            all.folded.push_str(word);
            all.words.push((range, all.folded.len()));
        });
        all
    }

    fn word(&self, at: usize) -> Option<&str> {
        let start = at.checked_sub(1).map_or(0, |before| self.words[before].1);
        self.words.get(at).map(|(_, end)| &self.folded[start..*end])
    }
}

impl Phrase {
    fn find(&self, texts: &[TextWords]) -> Vec<Place> {
        let mut places = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            for at in 0..text.words.len() {
                if self.is_at(text, at) {
                    let range = text.words[at].0.start..text.words[at + self.words.len() - 1].0.end;
                    places.push(Place { text: number, range });
                    if places.len() == MAX_PLACES {
                        return places;
                    }
                }
            }
        }
        places
    }

    fn is_at(&self, text: &TextWords, at: usize) -> bool {
        let last = self.words.len() - 1;
        self.words.iter().enumerate().all(|(offset, word)| match text.word(at + offset) {
            Some(there) if self.is_prefix && offset == last => there.starts_with(word.as_str()),
            Some(there) => there == word,
            None => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, text: &str, expect: &[&str]) {
        let query = Query::words(query).expect(query);
        let texts: Vec<String> = text.split('|').map(str::to_owned).collect();
        let found: Vec<_> = query.find(&texts).into_iter().map(|place| texts[place.text][place.range].to_owned()).collect();
        assert_eq!(found, expect, "{query:?} in {text:?}");
        if !expect.is_empty() {
            let raw = serde_json::to_string(&texts).expect("strings");
            let prefilter = query.prefilter().expect("it has words");
            assert!(prefilter.is_match(raw.as_bytes()), "{query:?} in {raw}");
            let escaped: String = raw
                .chars()
                .map(|char| match char {
                    '"' | '[' | ']' | ',' | '\\' => char.to_string(),
                    _ => char.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
                })
                .collect();
            assert!(prefilter.is_match(escaped.as_bytes()), "{query:?} in {escaped}");
        }
    }

    #[test]
    fn all_words_must_be_in_one_entry() {
        check("parser ERROR", "an Error in the parser", &["Error", "parser"]);
        check("parser error", "an error|the Parser", &["error", "Parser"]);
        check("parser error", "parsers err", &[]);
        check("parser AND error", "parser error", &["parser", "error"]);
    }

    #[test]
    fn phrases_stand_together_in_one_text() {
        check("\"parser error\"", "a parser, error", &["parser, error"]);
        check("\"parser error\"", "parser|error", &[]);
        check("\"parser error\"", "parser an error", &[]);
        check("src/main.rs", "see src/main.rs:1", &["src/main.rs"]);
        check("src/main.rs", "src main", &[]);
        check("\"not closed", "not closed", &["not closed"]);
    }

    #[test]
    fn prefixes_and_alternatives() {
        check("pars*", "Parser parse spar", &["Parser", "parse"]);
        check("\"the pars\"*", "the parser", &["the parser"]);
        check("lexer OR parser error", "a lexer", &["lexer"]);
        check("lexer OR parser error", "a parser", &[]);
        check("lexer OR parser error", "error parser", &["error", "parser"]);
        check("OR lexer OR OR", "lexer", &["lexer"]);
        check("or", "this or that", &["or"]);
    }

    #[test]
    fn other_scripts() {
        check("日本", "今日本語", &["日本"]);
        check("本日", "今日本語", &[]);
        check("привет", "ПРИВЕТ", &["ПРИВЕТ"]);
        check("ΣΊΣΥΦΟΣ", "σίσυφος", &["σίσυφος"]);
        check("café", "CAFÉ", &["CAFÉ"]);
        check("🚀", "go🚀", &["🚀"]);
    }

    #[test]
    fn a_query_without_words_is_refused() {
        for query in ["", " ", "->", "OR", "AND OR", "\"\""] {
            assert!(Query::words(query).is_err(), "{query}");
        }
        assert!(Query::regex("(").is_err());
    }

    #[test]
    fn places_of_a_regular_expression() {
        let query = Query::regex("e+r").expect("a regex");
        let places = query.find(&["beer".into(), "x".into(), "er er".into()]);
        assert_eq!(
            places.iter().map(|place| (place.text, place.range.clone())).collect::<Vec<_>>(),
            [(0, 1..4), (2, 0..2), (2, 3..5)]
        );
    }
}
