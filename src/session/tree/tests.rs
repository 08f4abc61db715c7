//! Trees as little texts: `id<parent` a message, `id<parent:type` another entry, `id<parent>target` a leaf entry.

use super::*;

/// Builds a tree; `-` is no parent or a reset.
fn tree(text: &str) -> SessionTree {
    let mut tree = SessionTree::default();
    for word in text.split_whitespace() {
        let (id, rest) = word.split_once('<').expect(word);
        let none = |text| if text == "-" { None } else { Some(text) };
        let (parent, entry_type, target) = if let Some((parent, target)) = rest.split_once('>') {
            (parent, EntryType::Leaf, Some(none(target)))
        } else if let Some((parent, name)) = rest.split_once(':') {
            (parent, EntryType::from_wire(name.as_bytes()), None)
        } else {
            (rest, EntryType::Message, None)
        };
        tree.push(EntryHead { id, parent_id: none(parent), entry_type, role: None, leaf_target: target }).expect("room");
    }
    tree
}

fn ids(tree: &SessionTree, path: &[EntryIndex]) -> String {
    path.iter().map(|index| tree.id(*index).to_string()).collect::<Vec<_>>().join(" ")
}

/// The path to the leaf of the tree in `text`.
fn check(text: &str, expect: &str) {
    let tree = tree(text);
    assert_eq!(ids(&tree, &tree.path(tree.leaf())), expect, "{text}");
}

#[test]
fn the_leaf_follows_the_rule() {
    check("", "");
    check("a<- b<a c<b", "a b c");
    check("a<- b<a c<a", "a c");
    // A leaf entry moves it, in both forms, and a later one wins.
    check("a<- b<a l<a>a", "a");
    check("a<- b<a l<b>a", "a");
    check("a<- b<a l<->-", "");
    check("a<- b<a l<a>nothing", "a b");
    check("a<- b<a l<a:leaf", "a b");
    check("a<- b<a l<a>a m<l>b", "a b");
    // A stale rename does not hide the conversation; one that hangs from the leaf carries it on.
    check("a<- b<a c<b n<a:session_info", "a b c");
    check("a<- b<a n<b:session_info", "a b n");
    check("a<- b<a n<b:label o<n:custom p<o:usage", "a b n o p");
    check("n<-:session_info a<n", "n a");
    check("a<- b<a x<a:future_type", "a x");
    // Pi hangs its next line from our leaf entry.
    check("a<- b<a l<a>a c<l", "a l c");
    check("a<- b<a l<a>a n<l:session_info", "a l n");
    // A leaf entry as a target means where it moved the leaf.
    check("a<- b<a l<a>a c<a m<l>l", "a");
    check("a<- l<->- m<a>l", "");
}

#[test]
fn walks_end_on_cycles_and_gaps() {
    check("x<y y<x", "x y");
    check("s<s", "s");
    check("a<- a<b b<a", "a b");
    check("a<- c<gone d<c", "c d");
    assert!(tree("x<y y<x").is_in_cycle(EntryIndex(0)));
    assert!(!tree("a<- c<gone d<c").is_in_cycle(EntryIndex(2)));
}

#[test]
fn of_equal_ids_the_later_line_counts() {
    check("a<- b<a b<- c<b", "b c");
    check("a<- b<a c<b a<-", "a");
    let twice = tree("a<- b<a b<- c<b");
    assert_eq!(twice.find("b"), Some(EntryIndex(2)));
    assert_eq!(ids(&twice, &twice.iter().collect::<Vec<_>>()), "a b c");
    assert!(twice.is_shadowed(EntryIndex(1)));
}

#[test]
fn a_parent_may_come_later() {
    check("b<a a<- c<b", "a b c");
    let late = tree("b<a");
    assert!(late.is_orphan(EntryIndex(0)));
    assert_eq!(late.parent_id(EntryIndex(0)), Some(EntryId::from("a")));
}

#[test]
fn ids_of_every_form_are_told_apart() {
    let tree = tree("0000000a<- 0000000A<0000000a a<0000000A 00000000a<a é<00000000a");
    assert_eq!(ids(&tree, &tree.path(tree.leaf())), "0000000a 0000000A a 00000000a é");
    assert_eq!(tree.find("0000000b"), None);
}

#[test]
fn children_and_ancestors_agree() {
    let tree = tree("r<- a<r b<r c<a q<- d<a o<gone");
    let children = tree.children();
    assert_eq!(ids(&tree, children.roots()), "r q o");
    let of = |id| ids(&tree, children.of_entry(tree.find(id).expect(id)));
    assert_eq!((of("r"), of("a"), of("b")), ("a b".to_owned(), "c d".to_owned(), String::new()));
    let common =
        |a, b| tree.common_ancestor(tree.find(a).expect(a), tree.find(b).expect(b)).map(|index| tree.id(index).to_string());
    assert_eq!(common("c", "b").as_deref(), Some("r"));
    assert_eq!(common("c", "a").as_deref(), Some("a"));
    assert_eq!(common("c", "q"), None);
}

#[test]
fn the_previous_leaf_is_the_one_before_a_navigation() {
    let previous = |text| {
        let tree = tree(text);
        tree.previous_leaf().map(|index| tree.id(index).to_string())
    };
    assert_eq!(previous("a<- b<a").as_deref(), None);
    assert_eq!(previous("a<- b<a l<a>a").as_deref(), Some("b"));
    assert_eq!(previous("a<- b<a l<a>a c<a").as_deref(), Some("b"));
    assert_eq!(previous("a<- b<a s<a:branch_summary").as_deref(), Some("b"));
}

#[test]
fn a_stray_rename_is_reported() {
    assert_eq!(tree("a<- b<a n<a:session_info").stray_tail(), Some(EntryIndex(2)));
    assert_eq!(tree("a<- b<a n<b:session_info").stray_tail(), None);
    assert_eq!(tree("a<- b<a l<b>a").stray_tail(), None);
}

#[test]
fn a_chain_of_100_000_entries_is_walked_and_dropped() {
    let mut tree = SessionTree::default();
    for number in 0..100_000u32 {
        let (id, parent) = (format!("{number:08x}"), format!("{:08x}", number.wrapping_sub(1)));
        let parent_id = (number > 0).then_some(parent.as_str());
        tree.push(EntryHead { id: &id, parent_id, entry_type: EntryType::Message, role: None, leaf_target: None }).expect("room");
    }
    assert_eq!(tree.path(tree.leaf()).len(), 100_000);
    assert_eq!(tree.children().of_entry(EntryIndex(99_998)), [EntryIndex(99_999)]);
}

#[test]
fn branches_are_counted_by_what_is_said() {
    let check = |text: &str, expect| assert_eq!(tree(text).branch_count(), expect, "{text}");
    check("", 0);
    check("a<- b<a c<b", 1);
    check("a<- b<a c<a d<-", 3);
    // What says nothing is no branch, and what is said behind it belongs to the branch before.
    check("a<- n<a:session_info b<a m<a:model_change c<m", 2);
    check("a<- b<a l<a>a n<l:label", 1);
    check("n<-:model_change", 0);
    check("a<- k<a:compaction b<a:branch_summary c<a:custom_message d<a:future_type", 3);
    // A row whose id was taken does not count, an entry without its parent does, and a ring has no end.
    check("a<- b<a b<a", 1);
    check("a<- b<gone", 2);
    check("x<y y<x", 0);
}

#[test]
fn a_system_message_alone_is_no_branch() {
    let mut tree = SessionTree::default();
    for (id, parent_id, role) in [("a", None, Role::System), ("b", Some("a"), Role::User), ("c", None, Role::System)] {
        tree.push(EntryHead { id, parent_id, entry_type: EntryType::Message, role: Some(role), leaf_target: None })
            .expect("room");
    }
    assert_eq!(tree.branch_count(), 1);
}
