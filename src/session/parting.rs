//! Where two branches part: what they share, and what each has of its own.
//!
//! # Invariants
//! - The shared entries and those of one side are the path to that side's leaf.
//! - A file is touched by a call that names it; calls of answers that failed were never made.

use std::collections::BTreeMap;

use crate::session::entry::Entry;
use crate::session::message::{Message, ToolCall};
use crate::session::stats::{SessionStats, StatsFold};
use crate::session::tree::{EntryIndex, SessionTree};

/// Two paths of one tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parting {
    /// The entries of both paths, from the root on.
    pub shared: Vec<EntryIndex>,
    /// Those of the first alone.
    pub a: Vec<EntryIndex>,
    /// Those of the second alone.
    pub b: Vec<EntryIndex>,
}

impl Parting {
    /// Where the paths to `a` and `b` part; `None` is before the first entry. `O(path length)`.
    pub fn of(tree: &SessionTree, a: Option<EntryIndex>, b: Option<EntryIndex>) -> Self {
        let (mut a, mut b) = (tree.path(a), tree.path(b));
        let shared = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        let b = b.split_off(shared);
        let own = a.split_off(shared);
        Self { shared: a, a: own, b }
    }
}

/// What a call does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It reads the file.
    Read,
    /// It writes or edits the file.
    Modified,
}

/// The file that a call reads or modifies.
pub fn touched_file(call: &ToolCall) -> Option<(String, Touch)> {
    let touch = match call.name.to_ascii_lowercase().as_str() {
        "read" => Touch::Read,
        "write" | "edit" => Touch::Modified,
        _ => return None,
    };
    file_argument(call).map(|name| (name, touch))
}

/// The file that a call names.
pub fn file_argument(call: &ToolCall) -> Option<String> {
    let fields = call.arguments.fields()?;
    fields.get::<String>("path").or_else(|| fields.get("file_path")).filter(|name| !name.is_empty())
}

/// How often a side touched a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTouches {
    /// Calls that read it.
    pub reads: u64,
    /// Calls that wrote or edited it.
    pub edits: u64,
}

/// What one side comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Counts, tokens and cost of its entries.
    pub stats: SessionStats,
    /// The files that it touched, by name.
    pub files: BTreeMap<String, FileTouches>,
}

impl Side {
    /// The sums over these entries.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut stats = StatsFold::default();
        let mut files: BTreeMap<String, FileTouches> = BTreeMap::new();
        for entry in entries {
            stats.add(entry);
            let Some(Message::Assistant(answer)) = entry.message() else { continue };
            if answer.is_failed() {
                continue;
            }
            for (name, touch) in answer.tool_calls().filter_map(touched_file) {
                let touches = files.entry(name).or_default();
                match touch {
                    Touch::Read => touches.reads += 1,
                    Touch::Modified => touches.edits += 1,
                }
            }
        }
        Self { stats: stats.into_stats(), files }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::entry::{EntryId, EntryKind, EntryType};
    use crate::session::json::Fields;
    use crate::session::tree::EntryHead;

    /// `r - a - b - c` and `a - d`, and `x` on its own; ids stand before their parents' ids.
    fn check(a: &str, b: &str, expect: &str) {
        let mut tree = SessionTree::default();
        for pair in ["r", "ar", "ba", "cb", "da", "x"] {
            let (id, parent) = pair.split_at(1);
            let parent_id = Some(parent).filter(|parent| !parent.is_empty());
            let head = EntryHead { id, parent_id, entry_type: EntryType::Message, role: None, leaf_target: None };
            tree.push(head).expect("room");
        }
        let Parting { shared, a: own, b: other } = Parting::of(&tree, tree.find(a), tree.find(b));
        let ids = |part: &[EntryIndex]| part.iter().map(|index| tree.id(*index).to_string()).collect::<String>();
        assert_eq!(format!("{} {} {}", ids(&shared), ids(&own), ids(&other)), expect, "{a} {b}");
    }

    #[test]
    fn two_paths_share_what_is_before_they_part() {
        check("c", "d", "ra bc d");
        check("d", "c", "ra d bc");
        check("c", "a", "ra bc ");
        check("c", "c", "rabc  ");
        check("c", "x", " rabc x");
        check("none", "a", "  ra");
    }

    #[test]
    fn files_are_counted_by_what_was_done_to_them() {
        let entry = |stop: &str, calls: &[(&str, &str)]| {
            let calls: Vec<_> = calls
                .iter()
                .map(|(name, path)| format!(r#"{{"type":"toolCall","id":"1","name":"{name}","arguments":{{"path":"{path}"}}}}"#))
                .collect();
            let payload = format!(
                r#"{{"type":"message","message":{{"role":"assistant","stopReason":"{stop}","content":[{}]}}}}"#,
                calls.join(",")
            );
            let kind = EntryKind::read(Fields::parse(&payload).expect("json"));
            Entry { id: EntryId::from("x"), parent_id: None, timestamp: String::new(), kind }
        };
        let entries = [
            entry("toolUse", &[("read", "b"), ("edit", "b"), ("Write", "a"), ("bash", "c")]),
            entry("toolUse", &[("edit", "b"), ("read", "")]),
            entry("error", &[("edit", "b")]),
        ];
        let side = Side::of(&entries);
        let files: Vec<_> =
            side.files.iter().map(|(name, touches)| format!("{name}:{}r{}e", touches.reads, touches.edits)).collect();
        assert_eq!((files.join(" "), side.stats.tool_calls), ("a:0r1e b:1r2e".to_owned(), 7));
    }
}
