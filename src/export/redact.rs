//! Takes secrets out of the strings of a line and puts markers such as `[redacted:github-token]` in their place.
//!
//! What is found: the keys and tokens in [`rules`], private keys, passwords in URLs, values that are assigned to names
//! such as `api_key` and look random, and the name of the home folder in paths. What has no form of its own, such as a
//! password in a sentence, is not found: whoever shares a session still has to look.
//!
//! # Invariants
//! - Only strings change, keys included; a redacted line is JSON of the same shape, and a line without secrets keeps its
//!   bytes.
//! - Matching is linear in the length of the text, whatever the text is.
//! - The data of an image is left alone: it would no longer be an image.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};

use crate::session::json::well_formed;

mod rules;

#[cfg(test)]
mod tests;

use rules::{RULES, Test};

/// What is to be taken out besides what has a form of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedactOptions {
    /// The user's home folder; its name goes wherever it stands in a path. Names below `/home` and `/Users` always go.
    pub home: Option<String>,
}

/// How many secrets of each kind were taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redactions(BTreeMap<&'static str, u64>);

impl Redactions {
    /// Kinds and how often, by kind.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(kind, count)| (*kind, *count))
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    fn add(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }
}

impl fmt::Display for Redactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (at, (kind, count)) in self.iter().enumerate() {
            write!(f, "{}{count} {kind}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The kind of a home folder's name.
const HOME: &str = "home";
/// The kind of a value whose name says that it is secret.
const NAMED: &str = "secret";

/// What takes secrets out.
#[derive(Debug)]
pub(super) struct Redactor {
    /// The rules for the home folders of this session.
    homes: Rules,
}

/// Rules, compiled.
#[derive(Debug)]
struct Rules {
    /// Which rules a text needs at all, in one pass.
    any: RegexSet,
    each: Vec<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    kind: &'static str,
    test: Test,
    /// The group `s`, else the whole match, is the secret.
    regex: Regex,
}

/// The rules for every session, compiled once.
static COMMON: LazyLock<Rules> =
    LazyLock::new(|| Rules::new(RULES.iter().map(|rule| (rule.kind, rule.test, rule.pattern.to_owned())).collect()));
static HOME_FOLDER: LazyLock<Regex> = LazyLock::new(|| Regex::new(rules::HOME_FOLDER).expect("the rules are tested"));
static SECRET_NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(rules::SECRET_NAME).expect("the rules are tested"));

impl Rules {
    fn new(sources: Vec<(&'static str, Test, String)>) -> Self {
        let any = RegexSet::new(sources.iter().map(|(_, _, source)| source)).expect("the rules are tested, and names are short");
        let compile = |source: &str| Regex::new(source).expect("the rules are tested, and names are short");
        let each = sources.iter().map(|(kind, test, source)| Compiled { kind, test: *test, regex: compile(source) }).collect();
        Self { any, each }
    }

    fn apply<'t>(&self, text: Cow<'t, str>, counts: &mut Redactions) -> Cow<'t, str> {
        let mut text = text;
        for at in self.any.matches(&text) {
            let rule = &self.each[at];
            let replaced = rule.regex.replace_all(&text, |found: &Captures<'_>| {
                let whole = found.get(0).expect("a match has group 0");
                let secret = found.name("s").unwrap_or(whole);
                if !rule.test.holds(secret.as_str()) {
                    return whole.as_str().to_owned();
                }
                counts.add(rule.kind);
                let (start, end) = (secret.start() - whole.start(), secret.end() - whole.start());
                format!("{}[redacted:{}]{}", &whole.as_str()[..start], rule.kind, &whole.as_str()[end..])
            });
            if let Cow::Owned(replaced) = replaced
                && replaced != *text
            {
                text = Cow::Owned(replaced);
            }
        }
        text
    }
}

impl Redactor {
    /// `paths` are paths of the session; home folders in them are known by name then, also in the names of folders
    /// that are made from paths (`--home-NAME-project--`).
    pub(super) fn new<'a>(options: &'a RedactOptions, paths: impl Iterator<Item = &'a String>) -> Self {
        let mut sources = vec![(HOME, Test::Any, rules::HOME_FOLDER.to_owned())];
        let mut names: BTreeSet<String> = BTreeSet::new();
        for path in paths.chain(&options.home) {
            names.extend(HOME_FOLDER.captures_iter(path).map(|found| found["s"].to_owned()));
        }
        // Few and short ones, so that a made-up path cannot make the patterns large.
        for name in names.iter().filter(|name| name.len() <= 64).take(8) {
            sources.push((HOME, Test::Any, format!("-(?:home|Users)-(?P<s>{})(?:-|$)", regex::escape(name))));
        }
        if let Some((parent, name)) = options.home.as_deref().map(|home| home.trim_end_matches(['/', '\\'])).and_then(split_last)
            && !HOME_FOLDER.is_match(&format!("{parent}{name}"))
            && name != "root"
            && parent.len() + name.len() <= 1_000
        {
            sources.push((HOME, Test::Any, format!(r"{}(?P<s>{})(?-u:\b)", regex::escape(parent), regex::escape(name))));
        }
        Self { homes: Rules::new(sources) }
    }

    /// The text with markers in place of secrets.
    pub(super) fn text<'t>(&self, text: &'t str, counts: &mut Redactions) -> Cow<'t, str> {
        let text = COMMON.apply(Cow::Borrowed(text), counts);
        self.homes.apply(text, counts)
    }

    /// The line with markers in place of secrets in its strings.
    pub(super) fn line<'t>(&self, line: &'t [u8], counts: &mut Redactions) -> Cow<'t, [u8]> {
        let mut redacted: Option<Vec<u8>> = None;
        let mut copied = 0;
        let mut key = String::new();
        let mut at = 0;
        while let Some(found) = memchr::memchr(b'"', &line[at..]) {
            let start = at + found;
            let Some(end) = string_end(line, start) else { break };
            at = end;
            let Some(text) = decode(&line[start..end]) else { continue };
            let is_key = line[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
            if !is_key && key == "data" && is_image(&text) {
                continue;
            }
            let replaced = if !is_key && SECRET_NAME.is_match(&key) && Test::NotPlaceholder.holds(&text) {
                counts.add(NAMED);
                Cow::Owned(format!("[redacted:{NAMED}]"))
            } else {
                self.text(&text, counts)
            };
            if let Cow::Owned(replaced) = &replaced
                && let Ok(json) = serde_json::to_vec(replaced)
            {
                let output = redacted.get_or_insert_with(|| Vec::with_capacity(line.len()));
                output.extend_from_slice(&line[copied..start]);
                output.extend_from_slice(&json);
                copied = end;
            }
            key.clear();
            if is_key {
                key.push_str(&text);
            }
        }
        match redacted {
            Some(mut output) => {
                output.extend_from_slice(&line[copied..]);
                Cow::Owned(output)
            }
            None => Cow::Borrowed(line),
        }
    }
}

/// A path's last part, and what stands before it, with the separator.
fn split_last(path: &str) -> Option<(&str, &str)> {
    let at = path.rfind(['/', '\\'])? + 1;
    Some((&path[..at], &path[at..])).filter(|(_, name)| !name.is_empty())
}

/// Just behind the closing quote of the string that opens at `start`.
fn string_end(line: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The text of a JSON string, quotes included.
fn decode(string: &[u8]) -> Option<Cow<'_, str>> {
    let inside = &string[1..string.len() - 1];
    if memchr::memchr(b'\\', inside).is_none()
        && let Ok(text) = std::str::from_utf8(inside)
    {
        return Some(Cow::Borrowed(text));
    }
    serde_json::from_str::<String>(&well_formed(string)).ok().map(Cow::Owned)
}

/// Whether this is the base64 of an image.
fn is_image(text: &str) -> bool {
    // PNG, JPEG, GIF and RIFF (WebP), in base64.
    ["iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR"].iter().any(|start| text.starts_with(start))
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}
