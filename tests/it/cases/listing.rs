//! Faults from real use: context; listing, picking, resuming.

use super::*;

#[test]
fn an_old_compaction_inside_a_later_kept_range_renders_between_call_and_result() {
    let place = Place::of(&[
        u("u1", ""),
        tc("c1", "u1", "x"),
        k("k1", "c1", "c1"),
        tr("r1", "k1", "x"),
        u("u2", "r1"),
        k("k2", "u2", "c1"),
    ]);
    assert_eq!(context(&place.open()), ["K:k2", "", "r1", "u2"]);
    let roles: Vec<_> = request(&place.open()).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::ToolResult, Role::User]);
}

#[test]
fn orphan_tool_result_after_chained_compactions() {
    let place = Place::of(&[u("u1", ""), tc("c1", "u1", "x"), tr("r1", "c1", "x"), u("u2", "r1"), k("k1", "u2", "r1")]);
    let roles: Vec<_> = request(&place.open()).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, [Role::User, Role::User]);
}

#[test]
fn crash_during_a_tool_leaves_a_call_without_result() {
    let place = Place::of(&[u("u1", ""), tc("c1", "u1", "x")]);
    let before = place.bytes();
    append(&mut place.open(), &["u2"]);
    let request = request(&place.open());
    assert_eq!(
        request.iter().map(|(role, _)| *role).collect::<Vec<_>>(),
        [Role::User, Role::Assistant, Role::ToolResult, Role::User]
    );
    assert!(request[2].1.contains("interrupted"), "{}", request[2].1);
    assert!(place.bytes().starts_with(&before));
    assert_eq!(place.open().tree().len(), 3, "the result is made for the request alone");
}

#[test]
fn after_compaction_the_request_has_no_input() {
    let place = Place::of(&[u("u1", ""), tc("c1", "u1", "x"), tr("r1", "c1", "x"), k("k1", "r1", "k1")]);
    assert_eq!(request(&place.open()).len(), 1);
}

#[test]
fn list_reads_a_giant_line_in_blocks() {
    let giant = line("custom", "c1", "u1", json!({"customType": "page", "data": "x".repeat(3_000_000)}));
    let place = Place::of(&[u("u1", ""), giant, a("a1", "c1")]);
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!((listing.sessions[0].message_count, listing.sessions[0].first_message.as_deref()), (2, Some("u1")));
    assert_eq!(context(&place.open()), ["u1", "a1"]);
}

#[test]
fn empty_session_for_newer_files() {
    let first = line("model_change", "m", "", json!({"provider": "p", "modelId": "x"}));
    let second = line("thinking_level_change", "t", "m", json!({"thinkingLevel": "high"}));
    let place = Place::of(&[first, second, u("u1", "t"), a("a1", "u1")]);
    let session = place.repo.list(&|_| {}).expect("the root").sessions.remove(0);
    assert_eq!((session.first_message.as_deref(), session.message_count), (Some("u1"), 2));
}

#[test]
fn progress_says_22_list_shows_19() {
    let place = Place::of(&[u("u1", "")]);
    place.fs.put(Path::new("/root/--p--/empty.jsonl"), b"");
    place.fs.put(Path::new("/root/--p--/corrupt.jsonl"), b"{{{\n");
    let seen = std::sync::Mutex::new(Vec::new());
    let listing = place.repo.list(&|progress| seen.lock().expect("no panic").push(progress)).expect("the root");
    assert_eq!((listing.sessions.len(), listing.skipped.len()), (1, 2));
    let seen = seen.into_inner().expect("no panic");
    assert!(seen.iter().all(|progress| progress.total == 3));
    assert_eq!(seen.iter().map(|progress| progress.done).max(), Some(3));
}

#[test]
fn sessions_of_a_provider_that_nobody_configured_are_listed() {
    let change = line("model_change", "m", "", json!({"provider": "gone", "modelId": "x"}));
    let place = Place::of(&[change, u("u1", "m"), a("a1", "u1")]);
    place.fs.put(Path::new("/root/--p--/none.jsonl"), file(&[u("u1", "")]).as_bytes());
    assert_eq!(place.repo.list(&|_| {}).expect("the root").sessions.len(), 2);
    assert_eq!(place.repo.latest("/p").expect("the root").map(|session| session.path), Some(FILE.into()));
}

#[test]
fn order_by_file_mtime_is_wrong() {
    let place = Place::new();
    let write = |name: &str, time: u64, created: &str| {
        let header = H.replace("s1", name).replace("2026-01-01T00", created);
        let said = line("message", "u1", "", json!({"message": {"role": "user", "content": "x", "timestamp": time}}));
        place.fs.put(Path::new(&format!("/root/--p--/{name}.jsonl")), format!("{header}\n{said}\n").as_bytes());
    };
    write("old", 1_000, "2026-03-01T00");
    write("new", 3_000, "2026-01-01T00");
    write("middle", 2_000, "2026-02-01T00");
    // A title line later on is no activity.
    let mut old = place.repo.open(Path::new("/root/--p--/old.jsonl")).expect("a session");
    old.append(
        vec![EntryKind::SessionInfo(SessionInfo { name: Some("n".to_owned()), ..SessionInfo::default() })],
        Durability::Synced,
    )
    .expect("a name");
    let ids: Vec<_> = place.repo.list(&|_| {}).expect("the root").sessions.into_iter().map(|session| session.id).collect();
    assert_eq!(ids, ["new", "middle", "old"]);
    assert_eq!(place.repo.latest("/p").expect("the root").map(|session| session.id).as_deref(), Some("new"));
}

#[test]
fn picker_lists_only_an_empty_stub_though_export_of_the_same_file_works() {
    // Files of a flat folder inside an ordinary root are read too.
    let place = Place::of(&[u("u1", "")]);
    place.fs.put(Path::new("/root/flat.jsonl"), file(&[u("u1", "")]).as_bytes());
    place.fs.put(Path::new("/root/other/2025_x.jsonl"), file(&[u("u1", "")]).as_bytes());
    assert_eq!(place.repo.list(&|_| {}).expect("the root").sessions.len(), 3);
}
