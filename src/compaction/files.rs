//! Which files a session read and modified: from tool calls, and from what earlier summaries noted.
//!
//! # Invariants
//! - A file that was modified is not listed as read.
//! - Lists only grow; what stands in a summary is bounded, and then holds the files that were touched last.

use std::collections::HashSet;

use crate::session::context::ProjectedMessage;
use crate::session::json::Json;
use crate::session::message::Message;
use crate::session::parting::{Touch, touched_file};

/// Characters of file names that a summary holds, for each of the two lists.
pub const LIST_CHARS: usize = 4_000;

const READ_TAG: &str = "read-files";
const MODIFIED_TAG: &str = "modified-files";

/// The files that a session touched, in the order in which it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLists {
    touched: Vec<(String, Touch)>,
}

impl FileLists {
    /// Adds what the calls in `messages` touch; calls of answers that failed were never made.
    pub fn add_messages(&mut self, messages: &[ProjectedMessage]) {
        for projected in messages {
            if let Message::Assistant(answer) = &projected.message
                && !answer.is_failed()
            {
                self.touched.extend(answer.tool_calls().filter_map(touched_file));
            }
        }
    }

    /// Adds the lists of an earlier summary's `details`.
    pub fn add_details(&mut self, details: &Json) {
        let Some(fields) = details.fields() else { return };
        for (key, touch) in [("readFiles", Touch::Read), ("modifiedFiles", Touch::Modified)] {
            // What is no name, in lists of other programs, costs only itself.
            let names = fields.get::<Vec<Json>>(key).unwrap_or_default();
            self.touched.extend(names.iter().filter_map(Json::to::<String>).map(|name| (name, touch)));
        }
    }

    /// Adds other lists, as touched later.
    pub fn add(&mut self, later: &Self) {
        self.touched.extend(later.touched.iter().cloned());
    }

    /// The files that were read and not modified, in alphabetical order.
    pub fn read(&self) -> Vec<&str> {
        let modified: HashSet<_> = self.latest_first(Touch::Modified).into_iter().collect();
        sorted(self.latest_first(Touch::Read).into_iter().filter(|name| !modified.contains(name)))
    }

    /// The files that were modified, in alphabetical order.
    pub fn modified(&self) -> Vec<&str> {
        sorted(self.latest_first(Touch::Modified))
    }

    /// The `details` of a summary.
    pub fn to_details(&self) -> Json {
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Details<'a> {
            read_files: Vec<&'a str>,
            modified_files: Vec<&'a str>,
        }
        let details = Details { read_files: self.read(), modified_files: self.modified() };
        Json::of(&details).unwrap_or_else(|_| Json::empty_object())
    }

    /// The blocks that end a summary, each list at most `max_chars` long; empty where no file was touched.
    pub fn to_blocks(&self, max_chars: usize) -> String {
        let modified = self.latest_first(Touch::Modified);
        let known: HashSet<_> = modified.iter().copied().collect();
        let mut read = self.latest_first(Touch::Read);
        read.retain(|name| !known.contains(name));
        [(READ_TAG, read), (MODIFIED_TAG, modified)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .filter_map(|(tag, names)| list_block(tag, &names, max_chars))
            .collect()
    }

    /// Each file once, the one that was touched last in front.
    fn latest_first(&self, wanted: Touch) -> Vec<&str> {
        let mut seen = HashSet::new();
        let names = self.touched.iter().rev().filter(|(_, touch)| *touch == wanted).map(|(name, _)| name.as_str());
        names.filter(|name| seen.insert(*name)).collect()
    }
}

fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names
}

fn list_block(tag: &str, latest_first: &[&str], max_chars: usize) -> Option<String> {
    let mut chars = 0;
    let fitting = latest_first.iter().take_while(|name| {
        chars += name.chars().count() + 1;
        chars <= max_chars
    });
    let shown = sorted(fitting.copied());
    let more = latest_first.len() - shown.len();
    let mut lines = shown.join("\n");
    if lines.is_empty() {
        return None;
    }
    if more > 0 {
        lines.push_str(&format!("\n({more} more)"));
    }
    Some(format!("\n\n<{tag}>\n{lines}\n</{tag}>"))
}

/// Takes the blocks that end a summary off it: the summary without them, and what they listed.
pub fn split_blocks(summary: &str) -> (&str, FileLists) {
    let mut lists = FileLists::default();
    let mut rest = summary.trim_end();
    'blocks: loop {
        for (tag, touch) in [(MODIFIED_TAG, Touch::Modified), (READ_TAG, Touch::Read)] {
            let inner = rest.strip_suffix(&format!("</{tag}>"));
            if let Some((before, names)) = inner.and_then(|inner| inner.rsplit_once(&format!("<{tag}>"))) {
                let names = names.lines().map(str::trim).filter(|name| !name.is_empty() && !is_remark(name));
                lists.touched.extend(names.map(|name| (name.to_owned(), touch)));
                rest = before.trim_end();
                continue 'blocks;
            }
        }
        return (rest, lists);
    }
}

fn is_remark(line: &str) -> bool {
    line.strip_prefix('(').and_then(|line| line.strip_suffix(" more)")).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the files of calls written as `tool argument-json`.
    fn of_calls(calls: &[(&str, &str)]) -> FileLists {
        let blocks = calls
            .iter()
            .map(|(name, arguments)| format!(r#"{{"type":"toolCall","id":"1","name":"{name}","arguments":{arguments}}}"#));
        let json = format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.collect::<Vec<_>>().join(","));
        let message = Message::from_json(Json::parse(&json).expect(&json));
        let mut lists = FileLists::default();
        lists.add_messages(&[ProjectedMessage { message, source: None }]);
        lists
    }

    fn check(calls: &[(&str, &str)], read: &[&str], modified: &[&str]) {
        let lists = of_calls(calls);
        assert_eq!((lists.read(), lists.modified()), (read.to_vec(), modified.to_vec()));
    }

    #[test]
    fn files_come_from_calls() {
        check(&[("read", r#"{"path":"b"}"#), ("read", r#"{"file_path":"a"}"#), ("read", r#"{"path":"b"}"#)], &["a", "b"], &[]);
        check(&[("write", r#"{"path":"w"}"#), ("edit", r#"{"path":"e"}"#)], &[], &["e", "w"]);
        check(&[("bash", r#"{"path":"b"}"#), ("read", r#"{"path":1}"#), ("read", "[]"), ("read", r#"{"path":""}"#)], &[], &[]);
    }

    #[test]
    fn a_modified_file_is_not_listed_as_read() {
        check(&[("read", r#"{"path":"a"}"#), ("edit", r#"{"path":"a"}"#), ("read", r#"{"path":"a"}"#)], &[], &["a"]);
    }

    #[test]
    fn details_accumulate() {
        let mut lists = FileLists::default();
        lists.add_details(&Json::parse(r#"{"readFiles":["a","b",7],"modifiedFiles":["c"],"x":1}"#).expect("json"));
        lists.add_details(&Json::parse("[]").expect("json"));
        lists.add(&of_calls(&[("edit", r#"{"path":"a"}"#)]));
        assert_eq!(lists.to_details().as_str(), r#"{"readFiles":["b"],"modifiedFiles":["a","c"]}"#);
    }

    #[test]
    fn blocks_come_back_as_lists() {
        let lists = of_calls(&[("read", r#"{"path":"a"}"#), ("edit", r#"{"path":"b"}"#)]);
        let blocks = lists.to_blocks(100);
        assert_eq!(blocks, "\n\n<read-files>\na\n</read-files>\n\n<modified-files>\nb\n</modified-files>");
        let summary = format!("summary{blocks}\n");
        let (text, read_back) = split_blocks(&summary);
        assert_eq!((text, read_back.read(), read_back.modified()), ("summary", vec!["a"], vec!["b"]));
        assert_eq!(split_blocks("no blocks </read-files>").0, "no blocks </read-files>");
    }

    #[test]
    fn long_lists_show_what_was_touched_last() {
        let lists = of_calls(&[("read", r#"{"path":"aaa"}"#), ("read", r#"{"path":"c"}"#), ("read", r#"{"path":"b"}"#)]);
        assert_eq!(lists.to_blocks(5), "\n\n<read-files>\nb\nc\n(1 more)\n</read-files>");
        assert_eq!(split_blocks(&lists.to_blocks(5)).1.read(), ["b", "c"]);
    }
}
