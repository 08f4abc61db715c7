//! Faults from real use: tree, leaf and concurrency.

use super::*;

#[test]
fn two_processes_continue_one_session() {
    let place = Place::of(&[u("u1", "")]);
    let owner = OwnerLock::take(place.repo.fs(), Path::new(FILE), "pid 7").expect("a free lock");
    let second = OwnerLock::take(place.repo.fs(), Path::new(FILE), "pid 8");
    assert!(matches!(second, Err(StorageError::Busy { owner, .. }) if owner == "pid 7"));
    append(&mut place.open(), &["u2"]);
    drop(owner);
    OwnerLock::take(place.repo.fs(), Path::new(FILE), "pid 8").expect("a free lock");
}

#[test]
fn a_rename_from_a_stale_client_moves_the_leaf_and_hides_the_transcript() {
    let place = Place::of(&[u("u1", "")]);
    let mut stale = place.open();
    stale.hold();
    let texts: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    append(&mut place.open(), &texts.iter().map(String::as_str).collect::<Vec<_>>());
    stale.set_name("renamed").expect("a name");
    let again = place.open();
    assert_eq!(context(&again).len(), 51);
    assert_eq!(again.tree().stray_tail(), again.tree().iter_all().next_back());
}

#[test]
fn a_killed_process_writes_its_exit_entry_under_an_old_leaf() {
    let place = Place::of(&[u("u1", "")]);
    let mut stale = place.open();
    stale.hold();
    append(&mut place.open(), &["u2", "u3"]);
    let exit = EntryKind::Custom(Custom { custom_type: "exit".to_owned(), ..Custom::default() });
    stale.append(vec![exit], Durability::Synced).expect("an append");
    assert_eq!(context(&place.open()), ["u1", "u2", "u3"]);
}

#[test]
fn same_file_opened_twice_in_one_process() {
    let place = Place::of(&[u("u1", "")]);
    let (mut one, mut two) = (place.open(), place.open());
    append(&mut one, &["one"]);
    append(&mut two, &["two"]);
    append(&mut one, &["three"]);
    assert_eq!(context(&place.open()), ["u1", "one", "two", "three"]);
    assert_eq!(place.open().tree().len(), 4);
}

#[test]
fn live_view_never_sees_entries_added_by_another_process() {
    let place = Place::of(&[u("u1", "")]);
    let mut view = place.open();
    append(&mut place.open(), &["u2"]);
    view.refresh().expect("a refresh");
    assert_eq!(context(&view), ["u1", "u2"]);
    let torn = a("a2", &path(&view)[1]);
    place.fs.push(Path::new(FILE), &torn.as_bytes()[..50]);
    view.refresh().expect("a refresh");
    assert_eq!((context(&view).len(), view.read().damage().len()), (2, 1), "half of it is told");
    place.fs.push(Path::new(FILE), &torn.as_bytes()[50..]);
    view.refresh().expect("a refresh");
    assert_eq!((context(&view).len(), view.read().damage().len()), (3, 0), "and taken back when the rest comes");
}

#[test]
fn parent_id_cycle_takes_all_cpu_and_memory() {
    for lines in [
        vec![u("x", "y"), u("y", "x")],
        vec![u("x", "x")],
        vec![u("a", ""), u("b", "a"), u("a", "b")],
        vec![u("a", "b"), u("b", "a"), lab("l", "b", "a", "x"), k("k", "l", "a")],
    ] {
        let place = Place::of(&lines);
        let mut session = place.open();
        assert!(!context(&session).is_empty());
        assert!(session.tree().iter().any(|index| session.tree().is_in_cycle(index)));
        place.fork(&session, ForkWhat::Path(session.leaf()));
        place.fork(&session, ForkWhat::All);
        session.tree().branch_count();
        let first = session.tree().iter().next().expect("an entry");
        session.navigate(first, None).expect("a navigation");
        append(&mut session, &["more"]);
        place.repo.list(&|_| {}).expect("the root");
    }
}

#[test]
fn deep_linear_session_overflows_the_stack() {
    let ids: Vec<_> = (0..30_000).map(|number| format!("{number:08x}")).collect();
    let mut parent = "";
    let mut lines = Vec::new();
    for id in &ids {
        lines.push(u(id, parent));
        parent = id;
    }
    let place = Place::of(&lines);
    let session = place.open();
    assert_eq!(context(&session).len(), ids.len());
    let fork = place.fork(&session, ForkWhat::Path(session.leaf()));
    assert_eq!(fork.session.tree().len(), ids.len());
    assert_eq!(session.left_behind(session.leaf(), None).len(), ids.len());
    // Nesting inside one line.
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = line("custom", "d", "", json!({"customType": "c", "data": "NESTED"})).replace("\"NESTED\"", &nested);
    let place = Place::of(&[deep.clone(), u("u1", "d")]);
    let session = place.open();
    assert_eq!(session.read().line(at(&session, "d")).expect("a line"), deep.as_bytes());
    assert!(session.read().entry(at(&session, "d")).expect("a line").is_some());
    assert_eq!(context(&session), ["u1"]);
}

#[test]
fn bookkeeping_entries_create_side_forks_and_80_percent_of_history_disappears() {
    let custom = |id: &str, parent: &str| line("custom", id, parent, json!({"customType": "event", "data": 1}));
    let place =
        Place::of(&[u("u1", ""), custom("c1", "u1"), a("a1", "u1"), custom("c2", "c1"), u("u2", "a1"), custom("c3", "c2")]);
    assert_eq!(context(&place.open()), ["u1", "a1", "u2"]);
}

#[test]
fn parent_id_never_written_to_disk_history_cut_at_the_gap() {
    let place = Place::of(&[u("u1", ""), u("u2", "gone"), a("a2", "u2")]);
    let session = place.open();
    assert_eq!(context(&session), ["u2", "a2"]);
    assert!(session.tree().is_orphan(at(&session, "u2")));
    assert_eq!(session.tree().parent_id(at(&session, "u2")), Some("gone".into()));
    let roots: Vec<_> = session.tree().children().roots().iter().map(|index| session.tree().id(*index).to_string()).collect();
    assert_eq!(roots, ["u1", "u2"], "nothing is out of reach");
}

#[test]
fn id_reused_by_another_record_type() {
    let place =
        Place::of(&[u("u1", ""), line("custom", "x", "u1", json!({"customType": "snapshot"})), u("x", "u1"), a("a1", "x")]);
    let session = place.open();
    assert_eq!(context(&session), ["u1", "x", "a1"], "the later line wins");
    assert_eq!(session.tree().len(), 4);
}

#[test]
fn leaf_pointer_rows_nearly_1_to_1_with_messages() {
    let leaf = |id: &str, parent: &str, target: Value| line("leaf", id, parent, json!({"targetId": target}));
    // As the old harness writes them: they hang from the old leaf.
    let place = Place::of(&[
        u("u1", ""),
        leaf("l1", "u1", json!("u1")),
        a("a1", "u1"),
        leaf("l2", "a1", json!("a1")),
        leaf("l3", "l2", json!("u1")),
    ]);
    assert_eq!(context(&place.open()), ["u1"]);
    // A message that Pi hangs from a `leaf` entry of ours follows what that hangs from.
    let mut session = place.open();
    session.navigate(at(&session, "a1"), None).expect("a navigation");
    let pointer = session.tree().id(session.tree().iter_all().next_back().expect("the leaf entry"));
    place.fs.push(Path::new(FILE), format!("{}\n", u("pi", pointer.as_str())).as_bytes());
    assert_eq!(context(&place.open()), ["u1", "a1", "pi"]);
    let reset = Place::of(&[u("u1", ""), leaf("l1", "", Value::Null)]);
    assert_eq!((reset.open().leaf(), context(&reset.open()).len()), (None, 0));
    assert_eq!(context(&Place::of(&[u("u1", ""), leaf("l1", "u1", json!("nothing"))]).open()), ["u1"]);
}

#[test]
fn branch_summary_from_id_always_equals_parent_id() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), u("u2", "a1"), a("a2", "u2")]);
    let mut session = place.open();
    let summary = SummaryText { summary: "s".to_owned(), ..SummaryText::default() };
    let made = session.navigate(at(&session, "a1"), Some(summary)).expect("a navigation").summary_id.expect("a summary");
    let line = session.read().line(at(&session, made.as_str())).expect("a line");
    let value: Value = serde_json::from_slice(&line).expect("JSON");
    assert_eq!((&value["fromId"], &value["parentId"]), (&json!("a2"), &json!("a1")));
    let old = Place::of(&[u("u1", ""), line_of_summary("u1", "u1"), u("u2", "b")]);
    assert_eq!(context(&old.open()), ["u1", "B:s", "u2"], "the old form is read");
}

fn line_of_summary(parent: &str, from: &str) -> String {
    line("branch_summary", "b", parent, json!({"fromId": from, "summary": "s"}))
}

#[test]
fn summary_covers_shared_history_or_all_entries() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), k("k1", "a1", "a1"), u("u2", "k1"), u("u3", "a1")]);
    let session = place.open();
    let left: Vec<_> = session.left_behind(Some(at(&session, "u2")), Some(at(&session, "u3"))).into_iter().collect();
    assert_eq!(left, [at(&session, "k1"), at(&session, "u2")]);
    assert_eq!(session.left_behind(Some(at(&session, "u2")), Some(at(&session, "a1"))), left);
    assert_eq!(session.left_behind(Some(at(&session, "u2")), None).len(), 4);
}

#[test]
fn model_after_tree_differs_from_after_resume() {
    let change = line("model_change", "m", "a1", json!({"provider": "p", "modelId": "new"}));
    let place = Place::of(&[u("u1", ""), a("a1", "u1"), change, u("u2", "m")]);
    let mut session = place.open();
    let model = |session: &Session| session.project(session.leaf(), &[]).expect("a context").model.map(|model| model.model_id);
    assert_eq!(model(&session), Some(Some("new".to_owned())));
    session.navigate(at(&session, "a1"), None).expect("a navigation");
    assert_eq!(model(&place.open()), model(&session), "a resume follows the path");
    assert_ne!(model(&session), Some(Some("new".to_owned())));
}
