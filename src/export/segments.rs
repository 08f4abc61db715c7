//! The tree of a session cut into segments, each without a branch point inside, and in the order of its display.
//!
//! ```text
//!   a - b - c - d      segments  [a b]  [e]  [c d]
//!        \             the branch that is left first, then the one that goes on
//!         e
//! ```
//!
//! # Invariants
//! - Every entry is in exactly one segment, also entries whose parents form a ring.
//! - The parent of a segment stands before it. Of the segments with one parent the last is the one that goes on: that of
//!   the active path, else that of the latest entry.
//! - The leaf ends its segment, so that the active path is whole segments.

use crate::session::tree::{EntryIndex, Seen, SessionTree};

/// Entries in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The segment that it hangs from.
    pub parent: Option<usize>,
    /// The entries, each the parent of the next.
    pub entries: Vec<EntryIndex>,
    /// How many branches it is away from the main one.
    pub depth: usize,
    /// Whether it is a part of the active path.
    pub on_path: bool,
}

/// Cuts the tree into segments. `O(entries)`.
pub(super) fn segments(tree: &SessionTree, leaf: Option<EntryIndex>, is_on_path: impl Fn(EntryIndex) -> bool) -> Vec<Segment> {
    let children = tree.children();
    let mut met = Seen::new(tree.len());
    let mut segments: Vec<Segment> = Vec::new();
    // What is in a ring hangs from no root; there any entry begins.
    let mut roots = children.roots().to_vec();
    let mut rest = tree.iter();
    loop {
        let mut open: Vec<(EntryIndex, Option<usize>, usize)> = Vec::new();
        push_branches(&mut open, &roots, None, 0, None, &is_on_path);
        while let Some((start, parent, depth)) = open.pop() {
            if !met.insert(start) {
                continue;
            }
            let at = segments.len();
            let mut entries = vec![start];
            let mut last = start;
            let next = loop {
                let next = children.of_entry(last);
                match next {
                    [only] if Some(last) != leaf && met.insert(*only) => {
                        entries.push(*only);
                        last = *only;
                    }
                    _ => break next,
                }
            };
            segments.push(Segment { parent, entries, depth, on_path: is_on_path(start) });
            push_branches(&mut open, next, Some(at), depth, leaf.filter(|leaf| *leaf == last), &is_on_path);
        }
        match rest.find(|index| !met.contains(*index)) {
            Some(index) => roots = vec![index],
            None => return segments,
        }
    }
}

/// Puts branches on the stack so that the one that goes on comes out last. Behind the leaf none goes on.
fn push_branches(
    open: &mut Vec<(EntryIndex, Option<usize>, usize)>,
    branches: &[EntryIndex],
    parent: Option<usize>,
    depth: usize,
    leaf: Option<EntryIndex>,
    is_on_path: &impl Fn(EntryIndex) -> bool,
) {
    let main = match leaf {
        Some(_) => None,
        None => branches.iter().copied().find(|index| is_on_path(*index)).or(branches.last().copied()),
    };
    open.extend(main.map(|index| (index, parent, depth)));
    open.extend(branches.iter().rev().filter(|index| Some(**index) != main).map(|index| (*index, parent, depth + 1)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::entry::EntryType;
    use crate::session::tree::EntryHead;

    /// Entries as `id<parent`; shows segments as `parent>ids` with `*` on the path and a `.` for each level.
    fn check(entries: &str, leaf: &str, expect: &str) {
        let mut tree = SessionTree::default();
        for entry in entries.split(' ') {
            let (id, parent) = entry.split_once('<').expect(entry);
            let parent_id = Some(parent).filter(|parent| !parent.is_empty());
            let head = EntryHead { id, parent_id, entry_type: EntryType::Unknown, role: None, leaf_target: None };
            tree.push(head).expect("room");
        }
        let leaf = tree.find(leaf);
        let path = tree.path(leaf);
        let shown = segments(&tree, leaf, |index| path.contains(&index)).into_iter().map(|segment| {
            let ids: String = segment.entries.iter().map(|index| tree.id(*index).to_string()).collect();
            let parent = segment.parent.map_or("-".to_owned(), |parent| parent.to_string());
            format!("{}{parent}>{ids}{}", ".".repeat(segment.depth), if segment.on_path { "*" } else { "" })
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expect, "{entries}");
    }

    #[test]
    fn branches_that_were_left_come_before_the_one_that_goes_on() {
        check("a< b<a c<b d<c", "d", "->abcd*");
        check("a< b<a c<b d<c e<b", "d", "->ab* .0>e 0>cd*");
        check("a< b<a c<a d<a", "", "->a .0>b .0>c 0>d");
    }

    #[test]
    fn the_leaf_ends_its_segment() {
        check("a< b<a c<b", "b", "->ab* .0>c");
    }

    #[test]
    fn several_roots_and_rings_end() {
        check("a< b< c<b", "c", ".->a ->bc*");
        check("a<b b<a c<b", "", "->ab 0>c");
        check("a<a", "", "->a");
        check("a<x", "a", "->a*");
    }

    #[test]
    fn a_long_chain_and_many_branches_are_no_recursion() {
        let mut tree = SessionTree::default();
        let ids: Vec<_> = (0..100_000).map(|n| format!("{n:08x}")).collect();
        for (n, id) in ids.iter().enumerate() {
            // Each entry hangs from the one two before, but for the first: two chains that interleave.
            let parent_id = n.checked_sub(if n % 3 == 0 { 3 } else { 1 }).map(|parent| ids[parent].as_str());
            let head = EntryHead { id, parent_id, entry_type: EntryType::Unknown, role: None, leaf_target: None };
            tree.push(head).expect("room");
        }
        let all = segments(&tree, tree.leaf(), |_| false);
        assert_eq!(all.iter().map(|segment| segment.entries.len()).sum::<usize>(), 100_000);
    }
}
