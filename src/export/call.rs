//! A tool call as people read it: one line that says what was asked, and its arguments as code, diffs and fields.
//!
//! The tools of Pi are known by name, and so are those of other programs whose sessions were imported: the names and
//! argument names of the common ones differ in spelling only.
//!
//! # Invariants
//! - Arguments of any shape can be shown; what is not understood is shown as it is.
//! - Languages come from the list here, never from the session.

use similar::{ChangeTag, TextDiff};

use crate::export::plain::one_line;
use crate::session::json::{Fields, Json};
use crate::session::message::{ToolCall, ToolResultMessage};

/// From this many lines on, old and new text are shown one after the other instead of being compared.
const MAX_DIFF_LINES: usize = 4_000;
/// Characters of the line that says what was asked.
const SUMMARY_CHARS: usize = 120;

/// A tool call to be shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallView {
    /// What was asked: a path, a command.
    pub summary: String,
    /// The arguments, in order.
    pub parts: Vec<Part>,
    /// The language of what it gives; empty where that is plain text.
    pub result_language: &'static str,
}

/// A part of a call's arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// A text in a language; empty for plain text.
    Code {
        /// The argument's name, where it has to be said.
        name: Option<String>,
        /// The language.
        language: &'static str,
        /// The text.
        text: String,
    },
    /// What changes in a file.
    Diff(Vec<DiffLine>),
}

/// A line of a diff, without its line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiffLine {
    /// Whether it comes or goes.
    pub sign: Sign,
    /// The line.
    pub text: String,
}

/// Whether a line comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Same,
    Added,
    Removed,
}

impl Sign {
    pub(crate) fn as_char(self) -> char {
        match self {
            Self::Same => ' ',
            Self::Added => '+',
            Self::Removed => '-',
        }
    }
}

impl CallView {
    /// Looks at a call and, for what it changed, at its result. Paths below `cwd` are shown from there on.
    pub(crate) fn of(call: &ToolCall, result: Option<&ToolResultMessage>, cwd: &str) -> Self {
        let Some(fields) = call.arguments.fields() else {
            let text = call.arguments.as_str().to_owned();
            let summary = one_line(&text, SUMMARY_CHARS);
            return Self { summary, parts: vec![Part::Code { name: None, language: "json", text }], result_language: "" };
        };
        let path = first(&fields, &["path", "file_path", "filePath", "filename", "notebook_path"]);
        let shown = |path: &str| {
            let below = path.strip_prefix(cwd).and_then(|rest| rest.strip_prefix(['/', '\\'])).filter(|rest| !rest.is_empty());
            one_line(below.unwrap_or(path), SUMMARY_CHARS)
        };
        match (call.name.to_ascii_lowercase().as_str(), path) {
            ("bash" | "shell" | "exec" | "run_command", _) => {
                let Some(command) = first(&fields, &["command", "cmd", "script"]) else { return Self::generic(&fields) };
                let summary = one_line(&command, SUMMARY_CHARS);
                // A command that the line shows whole need not be shown twice.
                let is_shown = summary == command;
                let parts = if is_shown { Vec::new() } else { vec![Part::Code { name: None, language: "bash", text: command }] };
                Self { summary, parts, result_language: "" }
            }
            ("read" | "read_file" | "view", Some(path)) => {
                let number = |key| fields.get::<u64>(key);
                let range = match (number("offset"), number("limit")) {
                    (Some(from), Some(limit)) => format!(":{from}-{}", from.saturating_add(limit).saturating_sub(1)),
                    (Some(from), None) => format!(":{from}-"),
                    (None, Some(limit)) => format!(":1-{limit}"),
                    (None, None) => String::new(),
                };
                let summary = format!("{}{range}", shown(&path));
                Self { summary, parts: Vec::new(), result_language: language_of_path(&path) }
            }
            ("write" | "write_file" | "create", Some(path)) => {
                let Some(text) = first(&fields, &["content", "contents", "text"]) else { return Self::generic(&fields) };
                let parts = vec![Part::Code { name: None, language: language_of_path(&path), text }];
                Self { summary: shown(&path), parts, result_language: "" }
            }
            ("edit" | "multiedit" | "multi_edit" | "str_replace", Some(path)) => {
                let parts = edits(&fields, result);
                if parts.is_empty() {
                    return Self::generic(&fields);
                }
                Self { summary: shown(&path), parts, result_language: "" }
            }
            _ => Self::generic(&fields),
        }
    }

    /// Every argument by name; the first text among them says what was asked.
    fn generic(fields: &Fields<'_>) -> Self {
        let mut view = Self::default();
        for (name, json) in fields.iter() {
            let (language, text) = match serde_json::from_str::<String>(json) {
                Ok(text) => ("", text),
                Err(_) => ("json", json.to_owned()),
            };
            if view.summary.is_empty() && language.is_empty() {
                view.summary = one_line(&text, SUMMARY_CHARS);
            }
            view.parts.push(Part::Code { name: Some(name.to_owned()), language, text });
        }
        view
    }
}

/// The first of these arguments that is a text.
fn first(fields: &Fields<'_>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| fields.get::<String>(name))
}

/// What an edit changed: the diff that the tool made, else the old and new texts compared.
fn edits(fields: &Fields<'_>, result: Option<&ToolResultMessage>) -> Vec<Part> {
    let details = result.and_then(|result| result.details.as_ref()).and_then(Json::fields);
    if let Some(made) = details.and_then(|details| details.get::<String>("diff")).filter(|diff| !diff.is_empty()) {
        return vec![Part::Diff(read_diff(&made))];
    }
    let compare = |edit: &Fields<'_>| {
        let old = first(edit, &["oldText", "old_string", "oldString", "old_str", "old_text"]);
        let new = first(edit, &["newText", "new_string", "newString", "new_str", "new_text"]);
        (old.is_some() || new.is_some()).then(|| Part::Diff(diff(&old.unwrap_or_default(), &new.unwrap_or_default())))
    };
    let list: Vec<Json> = fields.get("edits").unwrap_or_default();
    let many: Vec<Part> = list.iter().filter_map(|edit| compare(&edit.fields()?)).collect();
    if many.is_empty() { compare(fields).into_iter().collect() } else { many }
}

/// Compares two texts by lines.
fn diff(old: &str, new: &str) -> Vec<DiffLine> {
    let line = |sign, text: &str| DiffLine { sign, text: text.trim_end_matches(['\n', '\r']).to_owned() };
    // The time to compare grows with the product of both in the worst case.
    if old.lines().count() + new.lines().count() > MAX_DIFF_LINES {
        let removed = old.lines().map(|text| line(Sign::Removed, text));
        return removed.chain(new.lines().map(|text| line(Sign::Added, text))).collect();
    }
    let sign = |tag| match tag {
        ChangeTag::Equal => Sign::Same,
        ChangeTag::Insert => Sign::Added,
        ChangeTag::Delete => Sign::Removed,
    };
    TextDiff::from_lines(old, new).iter_all_changes().map(|change| line(sign(change.tag()), change.value())).collect()
}

/// Reads a diff that a tool made: each line has its sign in front.
fn read_diff(made: &str) -> Vec<DiffLine> {
    let read = |text: &str| match text.chars().next() {
        Some('+') => DiffLine { sign: Sign::Added, text: text[1..].to_owned() },
        Some('-') => DiffLine { sign: Sign::Removed, text: text[1..].to_owned() },
        Some(' ') => DiffLine { sign: Sign::Same, text: text[1..].to_owned() },
        Some(_) | None => DiffLine { sign: Sign::Same, text: text.to_owned() },
    };
    made.lines().map(read).collect()
}

/// File name endings and the language that they stand for.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("bash", &["sh", "bash", "zsh", "fish", "ksh", "bashrc", "zshrc"]),
    ("c", &["c", "h"]),
    ("cpp", &["cc", "cpp", "cxx", "hh", "hpp"]),
    ("cs", &["cs"]),
    ("css", &["css", "scss", "less"]),
    ("diff", &["diff", "patch"]),
    ("go", &["go"]),
    ("html", &["html", "htm", "xml", "svg", "vue", "svelte"]),
    ("java", &["java", "kt", "kts", "scala", "groovy", "gradle"]),
    ("javascript", &["js", "mjs", "cjs", "jsx"]),
    ("json", &["json", "jsonl", "jsonc", "json5"]),
    ("lua", &["lua"]),
    ("markdown", &["md", "markdown"]),
    ("php", &["php"]),
    ("python", &["py", "pyi"]),
    ("ruby", &["rb", "rake", "gemspec"]),
    ("rust", &["rs"]),
    ("sql", &["sql"]),
    ("swift", &["swift"]),
    ("toml", &["toml", "ini", "cfg", "conf", "env", "lock"]),
    ("typescript", &["ts", "tsx", "mts", "cts"]),
    ("yaml", &["yaml", "yml"]),
];

/// The language of a file by its name; empty where it is not known.
pub(super) fn language_of_path(path: &str) -> &'static str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let end = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    match name {
        "Makefile" | "Dockerfile" | "Justfile" => "bash",
        _ => LANGUAGES.iter().find(|(_, ends)| ends.contains(&end.as_str())).map_or("", |(language, _)| language),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::json::Extra;

    /// Shows a call as `summary | part | part`.
    fn check(name: &str, arguments: &str, expect: &str) {
        let arguments = Json::parse(arguments).expect(arguments);
        let call = ToolCall { id: "1".into(), name: name.into(), arguments, extra: Extra::default() };
        let view = CallView::of(&call, None, "/home/a");
        let shown = view.parts.iter().map(|part| match part {
            Part::Code { name, language, text } => format!(" | {} {language} {text}", name.as_deref().unwrap_or("-")),
            Part::Diff(lines) => {
                let lines: Vec<_> = lines.iter().map(|line| format!("{}{}", line.sign.as_char(), line.text)).collect();
                format!(" | {}", lines.join(";"))
            }
        });
        assert_eq!(format!("{}{}", view.summary, shown.collect::<String>()), expect, "{name}");
    }

    #[test]
    fn known_tools_say_what_was_asked() {
        check("bash", r#"{"command":"ls\n  -l","timeout":3}"#, "ls -l | - bash ls\n  -l");
        check("bash", r#"{"command":"ls -l"}"#, "ls -l");
        check("read", r#"{"path":"a/b.rs","offset":10,"limit":5}"#, "a/b.rs:10-14");
        check(
            "read",
            r#"{"path":"a","offset":18446744073709551615,"limit":18446744073709551615}"#,
            &format!("a:{0}-{1}", u64::MAX, u64::MAX - 1),
        );
        check("write", r##"{"path":"x.py","content":"# hi"}"##, "x.py | - python # hi");
        check("Write", r#"{"file_path":"x.toml","content":"a=1"}"#, "x.toml | - toml a=1");
        check("read", r#"{"path":"/home/a/b/c.rs"}"#, "b/c.rs");
        check("read", r#"{"path":"/home/ab"}"#, "/home/ab");
    }

    #[test]
    fn edits_become_diffs_whatever_their_names() {
        check("edit", r#"{"path":"x","oldText":"a\nb\n","newText":"a\nc\n"}"#, "x |  a;-b;+c");
        check("edit", r#"{"path":"x","edits":[{"oldText":"a","newText":"b"},{"oldText":"","newText":"c"}]}"#, "x | -a;+b | +c");
        check("Edit", r#"{"file_path":"x","old_string":"a","new_string":""}"#, "x | -a");
        check("edit", r#"{"path":"x","edits":"nonsense"}"#, "x | path  x | edits  nonsense");
    }

    #[test]
    fn arguments_of_any_shape_are_shown() {
        check("other", r#"{"n":1,"q":"find","deep":[[[]]]}"#, "find | n json 1 | q  find | deep json [[[]]]");
        check("bash", r#"{"command":7}"#, " | command json 7");
        check("bash", "[1]", "[1] | - json [1]");
    }

    #[test]
    fn long_texts_are_not_compared() {
        let old = "a\n".repeat(3_000);
        let lines = diff(&old, &old);
        assert_eq!((lines.len(), lines[0].sign, lines[5_999].sign), (6_000, Sign::Removed, Sign::Added));
    }
}
