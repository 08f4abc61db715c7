//! Appends lines that came from elsewhere, as one batch.
//!
//! # Invariants
//! - All lines are checked before the first is written, against the session as it is under the lock of the append.
//! - The entries form a chain from the leaf. A `leaf` entry hangs from its target, as every `leaf` entry that is written
//!   does, and what follows hangs from the target too.
//! - An id that names an earlier line of the batch follows to that line's new id; of lines with one id the latest
//!   earlier one counts, and a line of the batch before an entry of the session.

use std::collections::HashMap;

use crate::session::entry::{EntryId, EntryKind};
use crate::session::incoming::{Incoming, check_targets};
use crate::storage::handle::{Batch, Session};
use crate::storage::{Durability, StorageError};

/// Appends a batch and returns the new ids, one for each line, in order. An empty batch writes nothing.
///
/// # Errors
/// [`StorageError::Incoming`] when a line names an entry that does not exist; when the session cannot be written. Then
/// nothing is written.
pub fn append_incoming(session: &mut Session, batch: &[Incoming], durability: Durability) -> Result<Vec<EntryId>, StorageError> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    session.append_with(
        &mut |out| {
            check_targets(batch, &|id| out.session.tree().find(id).is_some())?;
            let mut renamed = HashMap::new();
            // Where the `leaf` entries of the batch moved the leaf.
            let mut places = HashMap::new();
            for line in batch {
                let new_id = push(out, line, &renamed, &mut places);
                if let Some(id) = &line.id {
                    renamed.insert(id.clone(), new_id);
                }
            }
            Ok(())
        },
        durability,
    )
}

fn push(
    out: &mut Batch<'_>,
    line: &Incoming,
    renamed: &HashMap<EntryId, EntryId>,
    places: &mut HashMap<EntryId, Option<EntryId>>,
) -> EntryId {
    let id = out.new_id();
    let mut kind = line.resolved(&id, &|id| renamed.get(id).cloned());
    let EntryKind::Leaf(leaf) = &mut kind else {
        out.push_as(id.clone(), kind);
        return id;
    };
    // A `leaf` entry as a target means where it moved the leaf.
    let tree = out.session.tree();
    leaf.target_id = leaf.target_id.take().and_then(|named| match (places.get(&named), tree.find(named.as_str())) {
        (Some(place), _) => place.clone(),
        (None, Some(index)) => tree.place_of(index).map(|place| tree.id(place)),
        (None, None) => Some(named),
    });
    leaf.from_id = leaf.from_id.take().or_else(|| out.leaf().cloned());
    let target = leaf.target_id.clone();
    out.set_leaf(target.clone());
    out.push_as(id.clone(), kind);
    out.set_leaf(target.clone());
    places.insert(id.clone(), target);
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::incoming::read_incoming;
    use crate::storage::SessionRead as _;
    use crate::storage::testing::{file, memory_session, open, session};

    /// Appends each batch of lines and gives the session's lines, without timestamps and with only short ids.
    fn appended(session: &mut Session, batches: &[&str]) -> String {
        for batch in batches {
            let batch = read_incoming(batch.as_bytes(), 7).expect("good lines");
            let ids = append_incoming(session, &batch, Durability::Synced).expect("room");
            assert_eq!(ids.len(), batch.len());
        }
        let lines = session.tree().iter().map(|index| {
            let line = String::from_utf8(session.read().line(index).expect("a line")).expect("text");
            line.replace(r#","timestamp":"1970-01-01T00:00:07.000Z""#, "").replace("0000000", "")
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    const USER: &str = r#"{"role":"user","content":"x","id":"m1"}"#;

    #[test]
    fn a_batch_is_a_chain_from_the_leaf_and_names_follow() {
        let label = r#"{"type":"label","id":"l","parentId":"zzz","targetId":"m1","label":"here"}"#;
        let session = &mut memory_session();
        assert_eq!(
            appended(session, &[USER, &format!("{USER}\n{label}")]),
            r#"{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"x","timestamp":7,"id":"m1"}}
{"type":"message","id":"2","parentId":"1","message":{"role":"user","content":"x","timestamp":7,"id":"m1"}}
{"type":"label","id":"3","parentId":"2","targetId":"2","label":"here"}"#
        );
    }

    #[test]
    fn a_leaf_line_hangs_from_its_target_and_so_does_what_follows() {
        let session = &mut memory_session();
        session.hold();
        let lines = [
            USER,
            r#"{"role":"user","content":"y"}"#,
            r#"{"type":"leaf","id":"nav","targetId":"m1"}"#,
            r#"{"type":"session_info","name":"n"}"#,
            r#"{"type":"leaf","targetId":"nav"}"#,
        ];
        let shown = appended(session, &[&lines.join("\n")]);
        let (_, shown) = shown.split_once(r#""id":"3","#).expect("the third line");
        assert_eq!(
            shown,
            r#""parentId":"1","targetId":"1","fromId":"2"}
{"type":"session_info","id":"4","parentId":"1","name":"n"}
{"type":"leaf","id":"5","parentId":"1","targetId":"1","fromId":"4"}"#
        );
        // The handle that keeps its own leaf and the file agree on where that is.
        assert_eq!(session.leaf_id(), Some("00000001".into()));
        assert_eq!(session.leaf(), session.tree().leaf());
        let shown = appended(session, &[r#"{"type":"leaf","targetId":null}"#, r#"{"type":"leaf","targetId":"00000003"}"#]);
        assert!(shown.contains(r#"{"type":"leaf","id":"6","parentId":null,"targetId":null,"fromId":"1"}"#), "{shown}");
        assert!(shown.ends_with(r#"{"type":"leaf","id":"7","parentId":"1","targetId":"1"}"#), "{shown}");
    }

    #[test]
    fn of_a_batch_with_a_bad_target_nothing_is_written() {
        let (_folder, path) = file("s.jsonl", b"{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n");
        let mut first = session(open(&path));
        let before = first.read().len_bytes();
        let batch = read_incoming(format!("{USER}\n{{\"type\":\"label\",\"targetId\":\"gone\"}}").as_bytes(), 7).expect("lines");
        let error = append_incoming(&mut first, &batch, Durability::Synced).expect_err("a bad target");
        assert_eq!(error.to_string(), r#"line 2: "targetId" names no entry of the session and no earlier line: gone"#);
        assert_eq!(open(&path).len_bytes(), before);
        assert_eq!(append_incoming(&mut first, &[], Durability::Synced).expect("nothing to do"), []);
        assert_eq!(open(&path).len_bytes(), before);
    }

    #[test]
    fn a_target_that_another_process_appended_exists() {
        let (_folder, path) = file("s.jsonl", b"{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n");
        let (mut stale, mut other) = (session(open(&path)), session(open(&path)));
        appended(&mut other, &[USER]);
        let shown = appended(&mut stale, &[r#"{"type":"label","targetId":"00000001","label":"l"}"#]);
        assert!(shown.ends_with(r#""parentId":"1","targetId":"1","label":"l"}"#), "{shown}");
    }
}
