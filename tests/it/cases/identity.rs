//! Faults from real use: paths and identity, encoding and versions, delete.

use super::*;

#[test]
fn two_cwds_share_one_folder() {
    let place = Place::new();
    for cwd in ["/a/b-c", "/a-b/c"] {
        let mut session = place.repo.create(NewSession { cwd: cwd.to_owned(), ..NewSession::default() }).expect("a session");
        append(&mut session, &[cwd]);
    }
    assert_eq!(place.repo.folder_for("/a/b-c"), place.repo.folder_for("/a-b/c"));
    for cwd in ["/a/b-c", "/a-b/c"] {
        let latest = place.repo.latest(cwd).expect("the root").expect("a session");
        assert_eq!((latest.cwd.as_str(), latest.first_message.as_deref()), (cwd, Some(cwd)));
    }
}

#[test]
fn wrong_encoder() {
    for (cwd, expect) in [
        ("/home/me/a.b-c", "--home-me-a.b-c--"),
        ("C:\\code\\x", "--C--code-x--"),
        ("\\\\server\\x", "---server-x--"),
        ("/", "----"),
        ("rel", "--rel--"),
        ("/\u{e9} \u{1f600}", "--\u{e9} \u{1f600}--"),
    ] {
        assert_eq!(folder_name(cwd), expect);
    }
    let long = folder_name(&format!("/{}", "é/".repeat(300)));
    assert!(long.len() <= 255 && long.starts_with("--") && long.ends_with("--"));
    assert_ne!(long, folder_name(&format!("/{}x", "é/".repeat(300))));
}

#[test]
fn case_differences() {
    let repo = Place::new().repo;
    assert!(repo.same_cwd("d:\\code", "D:\\code\\"));
    assert!(repo.same_cwd("/mnt/c/Users", "/mnt/c/users"));
    assert!(!repo.same_cwd("/home/Me", "/home/me"));
    assert!(!repo.same_cwd("/mnt/cx/Users", "/mnt/cx/users"));
}

#[test]
fn project_moved_or_renamed() {
    let place = Place::of(&[u("u1", ""), a("a1", "u1")]);
    let before = place.bytes();
    let moved = place.repo.relocate(Path::new(FILE), "/proj2").expect("a move");
    assert_eq!(moved.path, Path::new("/root/--proj2--/2026-01-01T00-00-00-000Z_s1.jsonl"));
    let session = place.repo.open(&moved.path).expect("the session");
    assert_eq!(
        (session.header().cwd.as_str(), context(&session), session.read().damage()),
        ("/proj2", vec!["u1".into(), "a1".into()], &[][..])
    );
    assert_eq!(
        place.fs.get(&moved.path).expect("the file"),
        String::from_utf8_lossy(&before).replacen("\"/p\"", "\"/proj2\"", 1).as_bytes()
    );
    assert_eq!(place.fs.get(&moved.backup).expect("a backup"), before);
    assert_eq!(place.fs.get(Path::new(FILE)), None);
    assert_eq!(place.repo.find_exact("s1").expect("the root"), Some(moved.path.clone()));
    // In its folder it is rewritten; backups are never written over.
    let second = place.repo.relocate(&moved.path, "/proj2").expect("a move");
    assert_eq!((&second.path, second.backup.to_string_lossy().ends_with(".jsonl.bak.1")), (&moved.path, true));
}

#[test]
fn a_move_changes_not_one_byte_beside_the_cwd() {
    let tail = "{\"torn\n\n\0\0\n";
    for first in [
        format!("\u{feff}\n \n{H}\r\n"),
        format!("  {H} {}\n", u("fused", "")),
        format!("\0\0{H}\0\0\n"),
        H.to_owned(),
        format!("{H}{{\"type\":\"mess\n"),
    ] {
        let bytes = format!("{first}{tail}{}", u("u1", ""));
        let bytes = if first == H { H.to_owned() } else { bytes };
        let place = Place::with(&bytes);
        let seen = place.open().tree().len();
        let moved = place.repo.relocate(Path::new(FILE), "/q").expect("a move");
        let after = place.fs.get(&moved.path).expect("the file");
        assert_eq!(after, bytes.replacen("\"/p\"", "\"/q\"", 1).as_bytes());
        assert_eq!(place.repo.open(&moved.path).expect("a session").tree().len(), seen);
    }
}

#[test]
fn session_id_used_as_a_path() {
    for id in ["../../x", "/etc/passwd", "a\0b", "", ".hidden"] {
        assert!(SessionId::new(id).is_err());
        let place = Place::with(file(&[u("u1", "")]).replace("\"s1\"", &json!(id).to_string()));
        place.fs.put(Path::new("/root/--p--/odd.jsonl"), &place.bytes());
        let moved = place.repo.relocate(Path::new("/root/--p--/odd.jsonl"), "/q").expect("a move");
        assert_eq!(moved.path, Path::new("/root/--q--/odd.jsonl"), "no path is made from an id that is none");
        let session = place.open();
        let fork = place.fork(&session, ForkWhat::All);
        assert_eq!(fork.path.parent(), Path::new(FILE).parent());
    }
}

// Encoding and versions.

#[test]
fn lone_surrogate_bricks_the_session() {
    let odd =
        r#"{"type":"message","id":"u1","parentId":null,"timestamp":"t","message":{"role":"user","content":"abc\ud83d..."}}"#;
    let place = Place::of(&[odd.to_owned(), a("a1", "u1")]);
    let session = place.open();
    assert_eq!((context(&session), session.read().damage()), (vec!["abc\u{fffd}...".to_owned(), "a1".to_owned()], &[][..]));
    assert_eq!(session.read().line(at(&session, "u1")).expect("a line"), odd.as_bytes());
}

#[test]
fn utf_8_bom_at_start() {
    let place = Place::with(format!("\u{feff}{}", file(&[u("u1", "")])));
    append(&mut place.open(), &["u2"]);
    assert_eq!(context(&place.open()), ["u1", "u2"]);
    assert!(place.bytes().starts_with("\u{feff}{".as_bytes()));
}

#[test]
fn newer_version_opened_and_continued_silently() {
    let bytes = file(&[u("u1", "")]).replace("\"version\":3", "\"version\":4");
    let place = Place::with(&bytes);
    let mut session = place.open();
    assert_eq!(context(&session), ["u1"]);
    let is_refused = |error: &StorageError| matches!(error, StorageError::UnsupportedVersion { version: 4, .. });
    assert!(is_refused(&session.append(vec![user("u2")], Durability::Synced).expect_err("it is newer")));
    assert!(is_refused(&session.set_name("n").expect_err("it is newer")));
    assert!(is_refused(&session.set_label(at(&session, "u1"), Some("l")).expect_err("it is newer")));
    let fork = place.repo.fork(&session, &ForkOptions { what: ForkWhat::All, cwd: None });
    assert!(is_refused(&fork.expect_err("it is newer")));
    assert!(is_refused(&place.repo.relocate(Path::new(FILE), "/q").expect_err("it is newer")));
    assert_eq!(place.bytes(), bytes.as_bytes());
    assert_eq!(place.fs.names(), [PathBuf::from(FILE)]);
}

#[test]
fn a_version_that_is_no_number_is_never_upgraded() {
    for version in ["\"3\"", "\"2026\"", "-1", "2.5", "1e300", "{}", "true"] {
        let bytes = file(&[u("u1", "")]).replace("\"version\":3", &format!("\"version\":{version}"));
        let place = Place::with(&bytes);
        let mut session = place.open();
        assert_eq!(context(&session), ["u1"], "{version}");
        let refused = session.append(vec![user("u2")], Durability::Synced);
        assert!(matches!(refused, Err(StorageError::UnsupportedVersion { .. })), "{version}: {refused:?}");
        assert_eq!((place.bytes(), place.fs.names().len()), (bytes.into_bytes(), 1));
    }
    for version in ["3.0", "3e0"] {
        let place = Place::with(file(&[u("u1", "")]).replace("\"version\":3", &format!("\"version\":{version}")));
        append(&mut place.open(), &["u2"]);
        assert_eq!(context(&place.open()), ["u1", "u2"]);
    }
}

#[test]
fn v3_and_v4_files_in_one_release() {
    let place = Place::of(&[u("u1", "")]);
    let other = b"{\"kind\":\"header\",\"version\":4,\"seq\":0,\"id\":\"x\"}\n";
    place.fs.put(Path::new("/root/--p--/v4.jsonl"), other);
    let listing = place.repo.list(&|_| {}).expect("the root");
    assert_eq!(listing.sessions.len(), 1);
    assert!(matches!(listing.skipped[0].reason, StorageError::Format4(_)));
    assert!(matches!(place.repo.relocate(Path::new("/root/--p--/v4.jsonl"), "/q"), Err(StorageError::Format4(_))));
    assert_eq!(place.fs.get(Path::new("/root/--p--/v4.jsonl")).expect("the file"), other);
}

#[test]
fn header_without_version_rejected() {
    let place = Place::with(V1);
    let session = place.open();
    assert_eq!((session.header().version, context(&session)), (1, vec!["u1".to_owned()]));
    let first = session.leaf_id().expect("an entry");
    assert_eq!((place.open().leaf_id(), first.as_str().len()), (Some(first.clone()), 8), "the id is the same at each reading");
    assert_eq!(place.bytes(), V1.as_bytes(), "reading upgrades nothing");
    let fork = place.fork(&session, ForkWhat::All);
    assert_eq!((fork.session.header().version, fork.session.leaf_id()), (3, Some(first)));
}

// Delete and privacy.

#[test]
fn delete_leaves_sidecar_files() {
    let place = Place::with(V1);
    append(&mut place.open(), &["u2"]);
    place.fs.put(&Path::new(FILE).with_extension("unsaved.jsonl"), b"{}\n");
    place.fs.put(Path::new("/root/--p--/.2026-01-01T00-00-00-000Z_s1.jsonl.lock"), b"pid 7");
    place.fs.put(Path::new("/root/--p--/2026-01-01T00-00-00-000Z_s12.jsonl.bak"), b"another's");
    assert_eq!(place.repo.delete(Path::new(FILE)).expect("a delete").len(), 3);
    assert_eq!(place.fs.names(), [PathBuf::from("/root/--p--/2026-01-01T00-00-00-000Z_s12.jsonl.bak")]);
}

#[test]
fn deleting_a_session_that_is_open_elsewhere() {
    let place = Place::of(&[u("u1", "")]);
    let _owner = OwnerLock::take(place.repo.fs(), Path::new(FILE), "pid 7").expect("a free lock");
    assert!(matches!(place.repo.delete(Path::new(FILE)), Err(StorageError::Busy { .. })));
    assert!(place.fs.get(Path::new(FILE)).is_some());
}
