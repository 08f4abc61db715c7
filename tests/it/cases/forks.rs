//! Faults from real use: fork and clone.

use super::*;

#[test]
fn labels_removed_on_fork_children_keep_the_removed_label_as_parent() {
    let change = line("model_change", "m", "l1", json!({"provider": "p", "modelId": "x"}));
    let place = Place::of(&[
        u("side", ""),
        u("u1", ""),
        lab("l0", "side", "u1", "from elsewhere"),
        lab("l1", "u1", "side", "of what is not copied"),
        change,
        lab("l2", "m", "l1", "a label of that label"),
        u("u2", "l2"),
        k("k1", "u2", "l1"),
        lab("l3", "k1", "u2", "kept"),
    ]);
    let source = place.open();
    let fork = place.fork(&source, ForkWhat::Path(source.leaf()));
    assert_eq!(path(&fork.session)[..5], ["u1", "m", "u2", "k1", "l3"]);
    assert_eq!(fork.session.tree().path(fork.session.leaf()).len(), fork.session.tree().len(), "all of it is reachable");
    assert_eq!(labels(&fork.session), [("u1".to_owned(), "from elsewhere".to_owned()), ("u2".to_owned(), "kept".to_owned())]);
    assert_eq!(context(&fork.session), ["K:k1", "u2"], "what followed the first kept entry is kept");
    let bytes = place.fs.get(&fork.path).expect("the fork");
    assert!(String::from_utf8_lossy(&bytes).contains(&u("u1", "")));
}

#[test]
fn fork_at_the_first_message_writes_two_different_ids() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1")]);
    let source = place.open();
    let fork = place.fork(&source, ForkWhat::Before(at(&source, "u1")));
    assert!(fork.path.to_string_lossy().ends_with(&format!("_{}.jsonl", fork.id)));
    assert_eq!((fork.session.header().id.as_str(), fork.session.tree().len()), (fork.id.as_str(), 0));
    assert_eq!(fork.session.header().parent_session.as_deref(), Some(FILE));
    assert_eq!(fork.editor_text.as_deref(), Some("u1"));
    assert_eq!(place.repo.find_parent(fork.session.header()).expect("the root"), Some(FILE.into()));
    let error = place.repo.fork(&source, &ForkOptions { what: ForkWhat::Before(at(&source, "a1")), cwd: None });
    assert!(matches!(error, Err(StorageError::NotAUserMessage(_))));
}

#[test]
fn after_fork_the_parent_file_stays_active() {
    let place = Place::of(&[u("u1", "")]);
    let before = place.bytes();
    let source = place.open();
    append(&mut place.fork(&source, ForkWhat::All).session, &["u2"]);
    assert_eq!(place.bytes(), before);
}

#[test]
fn fork_copies_messages_from_after_the_fork_point() {
    let lines = [u("u1", ""), a("a1", "u1"), u("u2", "a1"), a("a2", "u2"), u("steer", "a2"), a("a3", "steer")];
    let place = Place::of(&lines);
    let source = place.open();
    let fork = place.fork(&source, ForkWhat::Path(Some(at(&source, "a1"))));
    let bytes = String::from_utf8(place.fs.get(&fork.path).expect("the fork")).expect("UTF-8");
    assert_eq!(bytes.lines().skip(1).collect::<Vec<_>>(), lines[..2], "the exact path, with its timestamps");
}

#[test]
fn fork_before_a_later_compaction_yields_the_compacted_state() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), u("u2", "a1"), k("k1", "u2", "u2"), u("u3", "k1")]);
    let source = place.open();
    assert_eq!(context(&source), ["K:k1", "u2", "u3"]);
    let fork = place.fork(&source, ForkWhat::Path(Some(at(&source, "a1"))));
    assert_eq!(context(&fork.session), ["u1", "a1"]);
}

#[test]
fn a_fork_at_a_leaf_entry_is_one_of_where_it_moved_the_leaf() {
    let pointer = line("leaf", "l1", "a2", json!({"targetId": "a1"}));
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), a("a2", "a1"), pointer]);
    let source = place.open();
    let fork = place.fork(&source, ForkWhat::Path(Some(at(&source, "l1"))));
    assert_eq!(path(&fork.session), ["u1", "a1"]);
}

#[test]
fn id_from_another_project_made_a_broken_path() {
    let place = Place::of(&[u("u1", "")]);
    assert_eq!(place.repo.find_exact("s1").expect("the root"), Some(FILE.into()));
    assert_eq!(place.repo.find_exact("s2").expect("the root"), None);
    assert_eq!(place.repo.find_exact("../../x").expect("the root"), None);
}

#[test]
fn parent_marked_closed_although_creating_the_child_failed() {
    let place = Place::of(&[u("u1", "")]);
    let before = place.bytes();
    let source = place.open();
    place.fs.fail_at(2, Fault::Refusal);
    let failed = place.repo.fork(&source, &ForkOptions { what: ForkWhat::All, cwd: Some("/read-only".to_owned()) });
    assert!(failed.is_err());
    place.fs.heal();
    assert_eq!(place.bytes(), before);
    assert_eq!(place.fs.names(), [PathBuf::from(FILE)]);
}

#[test]
fn fork_copies_the_name_list_shows_identical_rows_with_no_link() {
    let named = line("session_info", "n1", "u1", json!({"name": "n"}));
    let place = Place::of(&[u("u1", ""), named]);
    let source = place.open();
    (0..3).for_each(|_| drop(place.fork(&source, ForkWhat::Path(source.leaf()))));
    let listing = place.repo.list(&|_| {}).expect("the root");
    let forks: Vec<_> = listing.sessions.iter().filter(|session| session.parent_session.as_deref() == Some(FILE)).collect();
    assert_eq!((listing.sessions.len(), forks.len()), (4, 3));
    assert!(forks.iter().all(|fork| fork.name.as_deref() == Some("n")));
}
