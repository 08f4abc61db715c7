//! Faults from real use: losing or fusing data on write.

use super::*;

#[test]
fn append_after_an_unterminated_tail_loses_entries() {
    for (tail, whole) in [("{\"type\":\"message\"", 0), (&a("a9", "a1")[..], 1)] {
        let before = format!("{}{tail}", file(&[u("u1", ""), a("a1", "u1")]));
        let place = Place::with(&before);
        let mut session = place.open();
        assert_eq!(session.tree().len(), 2 + whole);
        assert_eq!(place.bytes(), before.as_bytes(), "reading changes nothing");
        place.fork(&session, ForkWhat::All);
        assert_eq!(place.bytes(), before.as_bytes(), "forking neither");
        append(&mut session, &["u2", "a2"]);
        append(&mut session, &["u3"]);
        assert!(place.bytes().starts_with(format!("{before}\n{{").as_bytes()));
        let expect: Vec<_> = ["u1", "a1", "a9", "u2", "a2", "u3"].into_iter().filter(|id| *id != "a9" || whole == 1).collect();
        assert_eq!(context(&session), expect);
        assert_eq!(context(&place.open()), expect);
        assert_eq!(place.open().read().damage().len(), 1 - whole);
    }
}

#[test]
fn disk_full_leaves_a_torn_record_next_append_fuses_with_it() {
    let place = Place::of(&[u("u1", "")]);
    let mut session = place.open();
    append(&mut session, &["u2"]);
    let before = place.bytes();
    let calls = place.fs.calls();
    append(&mut session, &["x"]);
    // The write is the call before the sync and the look at the length.
    let write = place.fs.calls() - calls - 2;
    let (len, leaf) = (place.bytes().len(), session.leaf_id());
    place.fs.fail_at(write, Fault::ShortWrite);
    let error = session.append(vec![user(&"y".repeat(12_000))], Durability::Synced).expect_err("the disk is full");
    assert!(matches!(error, StorageError::WriteFailed { .. }), "{error:?}");
    assert_eq!((place.bytes().len(), session.leaf_id()), (len, leaf));
    assert!(place.bytes().starts_with(&before));
    append(&mut session, &["z"]);
    assert_eq!(context(&place.open()), ["u1", "u2", "x", "z"]);
    assert_eq!(place.open().read().damage(), []);
}

#[test]
fn opening_a_non_session_file_wipes_it() {
    let log = "{\"type\":\"event\"}\n".repeat(1000);
    let place = Place::with(&log);
    assert!(matches!(place.repo.open(Path::new(FILE)), Err(StorageError::NotASession(_))));
    let header = Default::default();
    let created = JsonlStorage::create(place.repo.fs().clone(), Path::new(FILE), &header);
    assert!(matches!(created, Err(StorageError::Exists(_))));
    assert_eq!(place.bytes(), log.as_bytes());
}

#[test]
fn empty_or_header_less_file_then_gets_entries_with_no_header() {
    let place = Place::with("");
    assert!(matches!(place.repo.open(Path::new(FILE)), Err(StorageError::EmptyFile(_))));
    let header = pi_sessions::session::entry::Header { version: 3, id: "s1".to_owned(), ..Default::default() };
    JsonlStorage::create(place.repo.fs().clone(), Path::new(FILE), &header).expect("a 0-byte file may be initialized");
    append(&mut place.open(), &["u1"]);
    let first = place.bytes();
    assert!(first.starts_with(br#"{"type":"session","version":3,"id":"s1""#));
    assert_eq!(context(&place.open()), ["u1"]);
    // A live session whose file is emptied is not written behind nothing.
    let mut session = place.open();
    place.fs.take(Path::new(FILE));
    place.fs.put(Path::new(FILE), b"");
    let error = session.append(vec![user("u2")], Durability::Synced).expect_err("another file");
    assert!(matches!(error, StorageError::Replaced(_)), "{error:?}");
    assert_eq!(place.bytes(), b"");
}

#[test]
fn migrated_v1_file_gets_duplicate_ids() {
    let place = Place::with(V1);
    let mut session = place.open();
    let id = session.leaf_id();
    session.set_model("p", "m").expect("a model");
    append(&mut session, &["a1"]);
    assert_eq!(session.tree().len(), 3);
    let again = place.open();
    assert_eq!((again.tree().len(), again.header().version), (3, 3));
    assert!(again.tree().iter_all().all(|index| !again.tree().is_shadowed(index)));
    assert_eq!(Some(again.tree().id(again.tree().path(again.leaf())[0])), id, "the id is that of the reading before");
    assert_eq!(place.fs.get(Path::new(&format!("{FILE}.bak"))).expect("a backup"), V1.as_bytes());
}

#[test]
fn a_v1_chain_goes_on_over_lines_that_are_no_entries() {
    let reply =
        |text: &str| format!(r#"{{"type":"message","timestamp":"t","message":{{"role":"assistant","content":"{text}"}}}}"#);
    for odd in ["{\"torn", "{\"type\":\"message\" no JSON}", "{\"no\":\"type\"}", H, "", "\0\0", "[]", "7"] {
        let bytes = format!("{V1}{odd}\n{}\n{}\n", reply("a1"), r#"{"type":"future","timestamp":"t","x":[1.0, 2]}"#);
        let place = Place::with(&bytes);
        let session = place.open();
        assert_eq!(context(&session), ["u1", "a1"], "{odd}");
        assert_eq!(session.tree().path(session.leaf()).len(), 3);
        let offset = V1.len() as u64;
        assert!(session.read().damage().iter().all(|damage| (damage.line, damage.byte_offset) == (3, offset)), "{odd}");
        assert_eq!(session.read().damage().len(), usize::from(!odd.is_empty()), "{odd}");
        append(&mut place.open(), &["u2"]);
        let again = place.open();
        assert_eq!((context(&again), again.read().damage()), (vec!["u1".into(), "a1".into(), "u2".into()], &[][..]), "{odd}");
    }
}

#[test]
fn a_v1_compaction_keeps_what_it_named_by_place() {
    let user = |text: &str| format!(r#"{{"type":"message","timestamp":"t","message":{{"role":"user","content":"{text}"}}}}"#);
    let compaction = r#"{"type":"compaction","timestamp":"t","summary":"s","firstKeptEntryIndex":3,"tokensBefore":9}"#;
    let bytes = format!("{V1}{}\n{{\"torn\n\n{}\n{compaction}\n{}\n", user("u2"), user("u3"), user("u4"));
    let place = Place::with(bytes);
    assert_eq!(context(&place.open()), ["K:s", "u3", "u4"]);
    append(&mut place.open(), &["u5"]);
    assert_eq!(context(&place.open()), ["K:s", "u3", "u4", "u5"]);
}

#[test]
fn nothing_is_saved_until_the_first_assistant_message() {
    let place = Place::new();
    let mut session = place.repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect("a session");
    let path = session.read().path().expect("a file").to_owned();
    assert!(place.fs.get(&path).is_some(), "the header at once");
    append(&mut session, &["u1"]);
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!((listing.sessions[0].first_message.as_deref(), listing.sessions[0].message_count), (Some("u1"), 1));
    assert_eq!(place.repo.find_exact(&session.header().id).expect("the root"), Some(path));
}

#[test]
fn fork_returns_a_path_that_is_not_on_disk() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1")]);
    let source = place.open();
    let mut fork = place.fork(&source, ForkWhat::Path(Some(at(&source, "u1"))));
    let bytes = place.fs.get(&fork.path).expect("the fork is on disk");
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 2);
    append(&mut fork.session, &["u2"]);
    assert!(place.fs.get(&fork.path).expect("the fork").starts_with(&bytes), "later appends add lines");
}

#[test]
fn exclusive_create_collides() {
    let place = Place::of(&[u("u1", "")]);
    let before = place.bytes();
    let error = JsonlStorage::create(place.repo.fs().clone(), Path::new(FILE), &Default::default()).expect_err("it is there");
    assert!(matches!(error, StorageError::Exists(path) if path == Path::new(FILE)));
    assert_eq!(place.bytes(), before);
    let id = SessionId::new("s1").expect("an id");
    let twice = place.repo.create(NewSession { cwd: "/elsewhere".to_owned(), id: Some(id), ..NewSession::default() });
    assert!(matches!(twice, Err(StorageError::Exists(path)) if path == Path::new(FILE)));
}

#[test]
fn nul_blocks_after_a_power_cut_hide_the_whole_session() {
    let padded = format!("{}{}", u("u1", ""), "\0".repeat(9_000));
    let bytes = format!("{}{}", file(&[padded, a("a1", "u1"), u("u2", "a1")]), "\0".repeat(140_000));
    let place = Place::with(bytes);
    let mut session = place.open();
    assert_eq!(context(&session), ["u1", "a1", "u2"]);
    assert_eq!(kinds(session.read().damage()), [(DamageKind::NulPadding, 2), (DamageKind::NulPadding, 5)]);
    append(&mut session, &["a2"]);
    assert_eq!(context(&place.open()), ["u1", "a1", "u2", "a2"]);
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!((listing.sessions.len(), listing.sessions[0].damaged_lines), (1, 2));
}

#[test]
fn disk_full_leaves_0_byte_parts_whole_session_will_not_open() {
    let place = Place::of(&[u("u1", "")]);
    place.fs.put(Path::new("/root/--p--/empty.jsonl"), b"");
    place.fs.put(Path::new("/root/--p--/torn.jsonl"), b"{\"type\":\"sess");
    place.fs.put(Path::new("/root/--p--/part.json"), b"");
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!(listing.sessions.len(), 1);
    let skipped: Vec<_> = listing.skipped.iter().map(|skipped| skipped.path.to_string_lossy().into_owned()).collect();
    assert_eq!(skipped, ["/root/--p--/empty.jsonl", "/root/--p--/torn.jsonl"]);
    assert!(matches!(listing.skipped[0].reason, StorageError::EmptyFile(_)));
}

#[test]
fn stray_tail_such_as_ole_or_an_extra_blank_line_freezes_the_viewer() {
    for (tail, damage) in [("ole\":\n", 1), ("\n\n", 0), ("  \r\n\n", 0)] {
        let place = Place::with(format!("{}{tail}", file(&[u("u1", "")])));
        let mut session = place.open();
        assert_eq!((context(&session).len(), session.read().damage().len()), (1, damage));
        append(&mut session, &["u2"]);
        let again = place.open();
        assert_eq!((context(&again), again.read().damage().len()), (vec!["u1".to_owned(), "u2".to_owned()], damage));
    }
}

#[test]
fn same_torn_tail_class_in_four_other_tools() {
    // At most one record is lost at each crash, however often it comes.
    let place = Place::of(&[u("u1", "")]);
    for round in 0..5 {
        place.fs.push(Path::new(FILE), br#"{"type":"message","id":"lost"#);
        append(&mut place.open(), &[&round.to_string()]);
    }
    let session = place.open();
    assert_eq!(context(&session), ["u1", "0", "1", "2", "3", "4"]);
    assert_eq!(session.read().damage().len(), 5);
}

#[test]
fn u_2028_inside_a_string_splits_the_record() {
    let odd = "a\u{2028}b\u{2029}c\u{85}d";
    let place = Place::of(&[u(odd, "")]);
    let mut session = place.open();
    assert_eq!(context(&session), [odd]);
    append(&mut session, &[odd]);
    assert_eq!((context(&place.open()), place.open().read().damage()), (vec![odd.to_owned(), odd.to_owned()], &[][..]));
}

#[test]
fn update_while_active_left_only_a_small_tmp_file() {
    let place = Place::of(&[u("u1", "")]);
    let stale = PathBuf::from("/root/--p--/.2026-01-01T00-00-00-000Z_s9.jsonl.0.tmp");
    place.fs.put(&stale, b"{\"type\":\"sess");
    place.fs.put(Path::new("/root/--p--/.theirs.0.tmp"), b"not ours");
    assert_eq!(place.repo.files().expect("the root").len(), 1, "it is never listed");
    place.repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect("a session");
    assert_eq!(place.fs.get(&stale), None, "it is cleaned up");
    assert!(place.fs.get(Path::new("/root/--p--/.theirs.0.tmp")).is_some());
}

#[test]
fn newer_compaction_rewrote_older_ones_to_save_space() {
    let place = Place::of(&[u("u1", ""), k("k1", "u1", "u1"), u("u2", "k1")]);
    let before = place.bytes();
    let mut session = place.open();
    let kept = Some(EntryId::from("u2"));
    let second = Compaction { summary: "k2".to_owned(), first_kept_entry_id: kept, ..Compaction::default() };
    session.append(vec![EntryKind::Compaction(second)], Durability::Synced).expect("an append");
    assert_eq!(context(&session), ["K:k2", "u2"]);
    session.navigate(at(&session, "k1"), None).expect("a navigation");
    assert_eq!(context(&session), ["K:k1", "u1"]);
    assert!(place.bytes().starts_with(&before));
}

#[test]
fn older_binary_drops_fields_or_records_it_does_not_know_when_it_rewrites() {
    let odd = [
        r#"{ "type":"message" , "x":1.50,"id":"u1","parentId":null,"timestamp":"t","message":{"role":"user","content":"\ud83d","y":[ ]} }"#,
        r#"{"type":"future_thing","id":"f1","parentId":"u1","timestamp":"t","payload":{"b":1,"a":1e400}}"#,
        r#"{"type":"message","id":"u2","parentId":"f1","timestamp":"t","message":{"role":"user","content":"u2"}}"#,
    ];
    let place = Place::of(&odd.map(str::to_owned));
    let mut session = place.open();
    session.set_name("n").expect("a name");
    let holds_all = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        odd.iter().all(|line| text.lines().any(|other| other == *line))
    };
    assert!(holds_all(&place.bytes()));
    let fork = place.fork(&session, ForkWhat::Path(session.leaf()));
    assert!(holds_all(&place.fs.get(&fork.path).expect("the fork")));
    assert_eq!(path(&fork.session)[..3], ["u1", "f1", "u2"]);
    let moved = place.repo.relocate(Path::new(FILE), "/q").expect("a move");
    assert!(holds_all(&place.fs.get(&moved.path).expect("the session")));
    let old = Place::with(file(&odd.map(str::to_owned)).replace("\"version\":3", "\"version\":2"));
    append(&mut old.open(), &["u3"]);
    assert!(holds_all(&old.bytes()), "version 2 differs in one role");
}

#[test]
fn an_upgrade_of_version_2_renames_a_role_and_nothing_else() {
    let hook = r#"{"type":"message", "z":1.0,"id":"h1","parentId":null,"timestamp":"t","message":{"y":[1, 2],"role":"hookMessage","customType":"c","content":"hi"}}"#;
    let other = "{\"type\":\"future\",\"id\":\"f1\", \"parentId\":\"h1\",\"bad\":\"\u{fffd}\"}";
    let mut bytes = file(&[hook.to_owned(), other.to_owned()]).replace("\"version\":3", "\"version\":2").into_bytes();
    let at_bad = bytes.windows(3).position(|window| window == "\u{fffd}".as_bytes()).expect("the place");
    bytes.splice(at_bad..at_bad + 3, [0xff]);
    let place = Place::with(&bytes);
    append(&mut place.open(), &["u1"]);
    let after = place.bytes();
    let lines: Vec<_> = after.split(|byte| *byte == b'\n').collect();
    let value: Value = serde_json::from_slice(lines[1]).expect("JSON");
    assert_eq!((&value["message"]["role"], &value["message"]["y"]), (&json!("custom"), &json!([1, 2])));
    assert!(String::from_utf8_lossy(lines[1]).contains("\"z\":1.0"));
    assert!(lines[2].contains(&0xff), "bytes that are no UTF-8 stay");
    assert_eq!(context(&place.open()), ["hi", "u1"]);
}
