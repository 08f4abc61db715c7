//! Sessions on the file system of the machine: permissions, links, and files that change under a handle.

#![cfg(unix)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pi_sessions::session::entry::{EntryKind, Header, SessionId, SessionInfo};
use pi_sessions::storage::check::{FaultKind, check_file};
use pi_sessions::storage::fork::{ForkOptions, ForkWhat};
use pi_sessions::storage::fs::{FileKind, Fs, StdFs};
use pi_sessions::storage::handle::Session;
use pi_sessions::storage::jsonl::follow::Follower;
use pi_sessions::storage::jsonl::{JsonlStorage, write_unsaved};
use pi_sessions::storage::lock::{OwnerLock, lock_path};
use pi_sessions::storage::repair::{IfHeld, plan_repair, repair_file};
use pi_sessions::storage::repo::{Layout, NewSession, Repo};
use pi_sessions::storage::trash::{Trash, TrashedFile};
use pi_sessions::storage::{Durability, RandomIds, StorageError, SystemClock};
use tempfile::TempDir;

use crate::support::counting_fs::{CountingFs, settled_repo};

const H: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}"#;
const E: &str = r#"{"type":"session_info","id":"e1","parentId":null,"timestamp":"t","name":"e1"}"#;
const V1: &str = r#"{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}"#;
const V1_E: &str = r#"{"type":"session_info","timestamp":"t","name":"e1"}"#;

fn std_fs() -> Arc<dyn Fs> {
    Arc::new(StdFs)
}

fn repo(root: &Path) -> Repo {
    Repo::new(std_fs(), Arc::new(SystemClock), Arc::new(RandomIds), root.to_owned(), Layout::Nested)
}

/// A root with one session file in the folder of its cwd.
fn place(lines: &[&str]) -> (TempDir, Repo, PathBuf) {
    let root = tempfile::tempdir().expect("a folder");
    let repo = repo(root.path());
    let path = repo.folder_for("/p").join("2026-01-01_s1.jsonl");
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, lines.join("\n") + "\n").expect("a file");
    (root, repo, path)
}

fn name(text: &str) -> Vec<EntryKind> {
    vec![EntryKind::SessionInfo(SessionInfo { name: Some(text.to_owned()), ..SessionInfo::default() })]
}

fn append(session: &mut Session, text: &str) {
    session.append(name(text), Durability::Synced).expect("an append");
}

/// The names on the path.
fn names(session: &Session) -> Vec<String> {
    let path = session.tree().path(session.leaf());
    let entries = path.into_iter().filter_map(|index| session.read().entry(index).expect("a line"));
    entries.filter_map(|entry| if let EntryKind::SessionInfo(info) = entry.kind { info.name } else { None }).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").mode() & 0o777
}

#[test]
fn transcripts_are_not_world_readable() {
    // The tests run under the umask of the machine, which is 022 nearly everywhere.
    let root = tempfile::tempdir().expect("a folder");
    let repo = repo(&root.path().join("a/b"));
    let mut session = repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect("a session");
    append(&mut session, "n");
    let path = session.read().path().expect("a file").to_owned();
    let fork = repo.fork(&session, &ForkOptions { what: ForkWhat::All, cwd: None }).expect("a fork");
    let entry = session.read().entry(session.leaf().expect("a leaf")).expect("a line").expect("an entry");
    let unsaved = write_unsaved(&StdFs, &path, &[entry]).expect("a file");
    let lock = OwnerLock::take(&std_fs(), &path, "me").expect("a free lock");
    for file in [&path, &fork.path, &unsaved, &pi_sessions::storage::lock::lock_path(&path)] {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    drop(lock);
    let moved = repo.relocate(&path, "/q").expect("a move");
    assert_eq!(mode(&moved.path), 0o600);
    for folder in [
        moved.path.parent().expect("a folder"),
        path.parent().expect("a folder"),
        &root.path().join("a/b"),
        &root.path().join("a"),
    ] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    fs::remove_file(&fork.path).expect("the file is there");
    let mut fork = fork.session;
    append(&mut fork, "again");
    assert_eq!(mode(fork.read().path().expect("a file")), 0o600);
}

#[test]
fn a_rewrite_keeps_the_mode() {
    for wanted in [0o600, 0o640, 0o644] {
        let (_root, repo, path) = place(&[V1, V1_E]);
        fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).expect("a mode");
        append(&mut repo.open(&path).expect("a session"), "upgraded");
        assert_eq!((mode(&path), mode(&path.with_file_name("2026-01-01_s1.jsonl.bak"))), (wanted, wanted));
        let rewritten = repo.relocate(&path, "/p").expect("a rewrite");
        assert_eq!(mode(&rewritten.path), wanted);
        let moved = repo.relocate(&path, "/q").expect("a move");
        assert_eq!(mode(&moved.path), wanted);
    }
}

#[test]
fn a_session_that_is_a_link_is_appended_to_and_nothing_else() {
    for lines in [[H, E], [V1, V1_E]] {
        let (root, repo, path) = place(&lines);
        let real = root.path().join("elsewhere");
        fs::rename(&path, &real).expect("a rename");
        symlink(&real, &path).expect("a link");
        let before = fs::read(&real).expect("the file");
        let is_link = |error: &StorageError| matches!(error, StorageError::IsALink(link) if *link == path);
        assert!(is_link(&repo.delete(&path).expect_err("a link")));
        assert!(is_link(&plan_repair(&std_fs(), &path).expect_err("a link")));
        assert!(is_link(&repair_file(&std_fs(), &path, IfHeld::Refuse).expect_err("a link")));
        assert!(is_link(&repo.relocate(&path, "/q").expect_err("a link")));
        assert!(is_link(&repo.relocate(&path, "/p").expect_err("a link")));
        let mut session = repo.open(&path).expect("it is read");
        assert_eq!((names(&session), repo.list(&|_| {}).expect("the root").sessions.len()), (vec!["e1".to_owned()], 1));
        let appended = session.append(name("e2"), Durability::Synced);
        if lines[0] == H {
            appended.expect("it is appended to");
            assert_eq!(names(&repo.open(&path).expect("a session")), ["e1", "e2"]);
        } else {
            assert!(is_link(&appended.expect_err("it would have to be rewritten")));
            assert_eq!(fs::read(&real).expect("the file"), before);
        }
        assert!(fs::symlink_metadata(&path).expect("the link").is_symlink());
        let all: Vec<_> = fs::read_dir(path.parent().expect("a folder")).expect("the folder").collect();
        assert_eq!(all.len(), 1, "nothing is left beside it: {all:?}");
    }
}

#[test]
fn a_link_to_an_empty_file_is_not_initialized_through_the_link() {
    let root = tempfile::tempdir().expect("a folder");
    let (real, link) = (root.path().join("real"), root.path().join("link.jsonl"));
    fs::write(&real, "").expect("a file");
    symlink(&real, &link).expect("a link");
    let error = JsonlStorage::create(std_fs(), &link, &Header::default()).expect_err("a link");
    assert!(matches!(error, StorageError::Exists(_)));
    assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
}

#[test]
fn symlinked_folders_are_followed_once_and_loops_end() {
    let (root, repo, path) = place(&[H, E]);
    let other = tempfile::tempdir().expect("a folder");
    fs::write(other.path().join("2026_s2.jsonl"), format!("{}\n{E}\n", H.replace("s1", "s2"))).expect("a file");
    symlink(other.path(), root.path().join("--x--")).expect("a link");
    symlink(other.path(), root.path().join("--y--")).expect("a link");
    symlink(root.path(), path.with_file_name("up")).expect("a loop");
    symlink(path.parent().expect("a folder"), path.with_file_name("self")).expect("a loop");
    symlink("round", root.path().join("round")).expect("a link to itself");
    symlink("nothing", root.path().join("dangling.jsonl")).expect("a link to nothing");
    symlink(root.path(), root.path().join("--root--")).expect("a loop");
    let files: Vec<_> = repo.files().expect("the root").into_iter().map(|file| file.path).collect();
    assert_eq!(files, [path, root.path().join("--x--/2026_s2.jsonl")]);
    assert!(repo.list(&|_| {}).expect("the root").skipped.is_empty());
    // The cwd may be reached through a link as well.
    let link = other.path().join("link");
    symlink(root.path(), &link).expect("a link");
    assert!(repo.same_cwd(&link.to_string_lossy(), &root.path().to_string_lossy()));
}

#[test]
fn files_come_in_the_order_of_the_bytes_of_their_paths() {
    let root = tempfile::tempdir().expect("a folder");
    // Of the folders, `a-b` comes before `a` with what is in it; the long names differ late, and some only behind eight
    // bytes that they share.
    let names = ["a/x.jsonl", "a/x-2.jsonl", "a/x.2.jsonl", "a-b/x.jsonl", "ab/x.jsonl", "b/2026-01-01T00-00-00-000Z_1.jsonl"];
    let more = ["b/2026-01-01T00-00-00-000Z_10.jsonl", "b/2026-01-01T00-00-00-000Z_2.jsonl", "b/2.jsonl", "b/日本.jsonl"];
    let late = ["c/shared-12345678-b.jsonl", "c/shared-12345678-a.jsonl", "c/shared-1.jsonl", "c/shared-12345677-c.jsonl"];
    let at_the_top = ["aa.jsonl", "a.jsonl", "b-.jsonl", "z.jsonl"];
    let check = |names: &[&str]| {
        for name in names {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "").expect("a file");
        }
        let files: Vec<_> = repo(root.path()).files().expect("a root").into_iter().map(|file| file.path).collect();
        let mut sorted = files.clone();
        sorted.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        assert_eq!(files, sorted);
        files.len()
    };
    let nested = [&names[..], &more, &late].concat();
    assert_eq!(check(&nested), nested.len());
    assert_eq!(check(&at_the_top), nested.len() + at_the_top.len());
}

#[test]
fn what_is_in_a_folder_is_what_its_paths_tell() {
    use std::os::unix::ffi::OsStrExt as _;

    let root = tempfile::tempdir().expect("a folder");
    let at = |name: &str| root.path().join(name);
    // More than one thread asks for.
    (0..4_100).for_each(|number| fs::write(at(&format!("{number}.jsonl")), "x").expect("a file"));
    fs::write(at("unwanted"), "").expect("a file");
    fs::write(root.path().join(std::ffi::OsStr::from_bytes(b"not text \xff.jsonl")), "longer").expect("a file");
    fs::set_permissions(at("7.jsonl"), fs::Permissions::from_mode(0o640)).expect("a mode");
    // Before the epoch.
    let old = std::time::UNIX_EPOCH - std::time::Duration::new(5, 3);
    fs::File::options().write(true).open(at("8.jsonl")).and_then(|file| file.set_modified(old)).expect("a time");
    fs::create_dir(at("folder")).expect("a folder");
    symlink(at("7.jsonl"), at("link.jsonl")).expect("a link");
    symlink("nothing", at("dangling.jsonl")).expect("a link to nothing");
    // A folder with a separator at its end, too.
    for folder in [root.path().to_owned(), at("")] {
        let wanted = |name: &Path| name != "unwanted";
        let mut items = StdFs.read_dir_files(&folder, &|name, _| wanted(name)).expect("a folder");
        items.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        let mut plain = StdFs.read_dir(&folder).expect("a folder");
        plain.retain(|(path, _)| wanted(Path::new(path.file_name().expect("a name"))));
        plain.sort_by(|a, b| a.0.as_os_str().cmp(b.0.as_os_str()));
        assert_eq!(items.len(), 4_104);
        for (item, (path, kind)) in items.into_iter().zip(plain) {
            let meta = (kind == FileKind::File).then(|| StdFs.link_metadata(&path).expect("a file"));
            assert_eq!((item.path.as_os_str(), item.kind, item.meta), (path.as_os_str(), kind, meta));
        }
    }
    assert!(StdFs.read_dir_files(&at("7.jsonl"), &|_, _| true).is_err());
    let missing = StdFs.read_dir_files(&at("missing"), &|_, _| true).expect_err("no folder");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_folder_that_cannot_be_read_hides_no_other() {
    let (root, repo, path) = place(&[H, E]);
    let closed = root.path().join("--closed--");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("a mode");
    let is_closed = fs::read_dir(&closed).is_err();
    let listing = repo.list(&|_| {}).expect("the root");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("a mode");
    assert_eq!(listing.sessions.len(), 1);
    // The superuser reads everything.
    assert_eq!(
        listing.skipped.iter().map(|skipped| skipped.path.as_path()).collect::<Vec<_>>(),
        if is_closed { vec![&*closed] } else { vec![] }
    );
    assert!(repo.find_exact("s1").expect("the root").is_some_and(|found| found == path));
}

#[test]
fn a_file_without_a_right_to_write_is_read_and_not_changed() {
    let (_root, repo, path) = place(&[H, E]);
    let folder = path.parent().expect("a folder").to_owned();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("a mode");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).expect("a mode");
    let is_held_back = fs::File::create(folder.join("x")).is_err();
    let before = fs::read(&path).expect("the file");
    let mut session = repo.open(&path).expect("it is read");
    assert_eq!(names(&session), ["e1"]);
    if is_held_back {
        let error = session.append(name("n"), Durability::Synced).expect_err("no right");
        assert!(matches!(error, StorageError::Io { .. }), "{error:?}");
        assert!(repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).is_err());
        assert!(repo.relocate(&path, "/q").is_err());
        assert!(repo.delete(&path).is_err());
        assert_eq!((fs::read(&path).expect("the file"), names(&session)), (before, vec!["e1".to_owned()]));
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("a mode");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
    append(&mut session, "now");
}

#[test]
fn a_removed_session_is_written_again_with_what_others_appended() {
    let (_root, repo, path) = place(&[H, E]);
    let mut session = repo.open(&path).expect("a session");
    append(&mut session, "mine");
    append(&mut repo.open(&path).expect("a session"), "theirs");
    fs::remove_dir_all(path.parent().expect("a folder")).expect("the folder");
    session.refresh().expect("what was read stays");
    append(&mut session, "again");
    assert_eq!(names(&session), ["e1", "mine", "theirs", "again"]);
    assert_eq!(names(&repo.open(&path).expect("a session")), ["e1", "mine", "theirs", "again"]);
    // Another handle of the removed file goes on in the new one.
    let mut other = repo.open(&path).expect("a session");
    fs::remove_file(&path).expect("the file");
    append(&mut session, "one");
    append(&mut other, "two");
    assert_eq!(names(&repo.open(&path).expect("a session")).len(), 6);
}

#[test]
fn a_session_that_was_moved_is_not_written_again_at_its_old_place() {
    for lines in [[H, E], [V1, V1_E]] {
        let (_root, repo, path) = place(&lines);
        let mut opened = repo.open(&path).expect("a session");
        let mut appended = repo.open(&path).expect("a session");
        append(&mut appended, "mine");
        let moved = repo.relocate(&path, "/q").expect("a move");
        for session in [&mut opened, &mut appended] {
            match session.append(name("late"), Durability::Synced) {
                Err(StorageError::Moved { path: from, to }) => assert_eq!((from, to), (path.clone(), moved.path.clone())),
                other => panic!("{other:?}"),
            }
        }
        assert!(!path.exists(), "the session would be there twice");
        // What is gone from there too is written again.
        fs::remove_file(&moved.path).expect("the file");
        append(&mut appended, "late");
        assert_eq!(names(&repo.open(&path).expect("a session")), ["e1", "mine", "late"]);
    }
}

#[test]
fn a_replaced_file_is_refused_unless_it_is_the_same_session() {
    let (_root, repo, path) = place(&[H, E]);
    let mut session = repo.open(&path).expect("a session");
    append(&mut session, "mine");
    let saved = fs::read(&path).expect("the file");
    for other in [H.replace("s1", "s2") + "\n", "hello\n".to_owned(), String::new(), "{\"kind\":\"header\"}\n".to_owned()] {
        for in_place in [false, true] {
            if !in_place {
                fs::remove_file(&path).expect("the file");
            }
            fs::write(&path, &other).expect("a file");
            let refused = session.append(name("n"), Durability::Synced);
            assert!(refused.is_err(), "{other:?}");
            assert!(session.refresh().is_err());
            assert_eq!(fs::read_to_string(&path).expect("the file"), other, "nothing was written");
        }
    }
    fs::remove_file(&path).expect("the file");
    fs::write(&path, &saved).expect("a file");
    append(&mut session, "again");
    assert_eq!(names(&session), ["e1", "mine", "again"]);
}

#[test]
fn a_shortened_or_changed_file_is_read_anew() {
    let (_root, repo, path) = place(&[H, E]);
    let mut session = repo.open(&path).expect("a session");
    let before = fs::read(&path).expect("the file");
    append(&mut session, "gone");
    fs::write(&path, &before).expect("a shorter file");
    session.refresh().expect("it is the same session");
    assert_eq!(names(&session), ["e1"]);
    append(&mut session, "two");
    let changed = fs::read_to_string(&path).expect("the file").replace("two", "2wo");
    fs::write(&path, changed).expect("a changed file");
    append(&mut session, "three");
    assert_eq!(names(&session), ["e1", "2wo", "three"]);
    // The last entry is another one now, of the same length.
    let leaf = session.leaf_id().expect("a leaf");
    let changed = fs::read_to_string(&path).expect("the file").replace(leaf.as_str(), "ffffffff").replace("three", "3hree");
    fs::write(&path, changed).expect("a changed file");
    session.refresh().expect("it is the same session");
    assert_eq!(session.leaf_id().expect("a leaf").as_str(), "ffffffff");
    // Cut in the middle of a line, and longer than before.
    let longer = format!("{H}\n{E}\n{}\n{{\"torn", E.replace("e1", "e2").replace("null", "\"e1\""));
    fs::write(&path, &longer).expect("a file");
    append(&mut session, "four");
    assert_eq!(names(&session), ["e1", "e2", "four"]);
    assert!(fs::read_to_string(&path).expect("the file").starts_with(&format!("{longer}\n{{")));
}

#[test]
fn a_burst_sees_what_a_program_without_a_lock_writes() {
    let (_root, repo, path) = place(&[H, E]);
    let mut session = repo.open(&path).expect("a session");
    let append = |session: &mut Session| session.append(name("mine"), Durability::Unsynced).map(drop).expect("an append");
    for round in 0..30 {
        let parent_of_leaf = |session: &Session| {
            let leaf = session.leaf().expect("a leaf");
            session.tree().parent_id(leaf).expect("a parent").to_string()
        };
        (0..12).for_each(|_| append(&mut session));
        let leaf = session.leaf_id().expect("a leaf");
        let theirs = E.replace("e1", &format!("{round:08}")).replace("null", &format!("\"{leaf}\"")) + "\n";
        fs::OpenOptions::new().append(true).open(&path).and_then(|mut file| file.write_all(theirs.as_bytes())).expect("room");
        append(&mut session);
        assert_eq!(parent_of_leaf(&session), format!("{round:08}"));
        (0..12).for_each(|_| append(&mut session));
        // Another last line of the same length.
        let (leaf, other) = (session.leaf_id().expect("a leaf"), format!("f{round:07}"));
        assert_eq!(leaf.as_str().len(), other.len());
        let text = fs::read_to_string(&path).expect("the file");
        let file = fs::OpenOptions::new().write(true).open(&path).expect("the file");
        for (old, new) in [(leaf.as_str(), &*other), ("mine", "mina")] {
            file.write_all_at(new.as_bytes(), text.rfind(old).expect("its line") as u64).expect("room");
        }
        append(&mut session);
        assert_eq!(parent_of_leaf(&session), other);
    }
}

#[test]
fn an_upgrade_starts_over_when_the_file_grows() {
    let (_root, repo, path) = place(&[V1, V1_E]);
    let mut stale = repo.open(&path).expect("a session");
    let mut file = fs::read_to_string(&path).expect("the file");
    file.push_str(&V1_E.replace("e1", "e2"));
    fs::write(&path, file).expect("a longer file");
    append(&mut stale, "e3");
    assert_eq!(names(&stale), ["e1", "e2", "e3"]);
    assert_eq!(names(&repo.open(&path).expect("a session")), ["e1", "e2", "e3"]);
    // A handle of the old file finds the new one.
    let (_root, repo, path) = place(&[V1, V1_E]);
    let (mut one, mut two) = (repo.open(&path).expect("a session"), repo.open(&path).expect("a session"));
    append(&mut one, "e2");
    append(&mut two, "e3");
    append(&mut one, "e4");
    assert_eq!(names(&repo.open(&path).expect("a session")), ["e1", "e2", "e3", "e4"]);
    let backups = fs::read_dir(path.parent().expect("a folder")).expect("the folder").count();
    assert_eq!(backups, 2, "one upgrade, one backup");
}

#[test]
fn a_session_that_is_linked_twice_is_listed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let outside = folder.path().join("outside");
    for folder in [root.join("--a--"), root.join("--b--"), outside.clone()] {
        fs::create_dir_all(folder).expect("a folder");
    }
    let header = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"cwd\":\"/c\"}\n";
    let (real, elsewhere) = (root.join("--b--/t_s.jsonl"), outside.join("t_o.jsonl"));
    fs::write(&real, header).expect("a file");
    fs::write(&elsewhere, header).expect("a file");
    // A link to the file comes before the file by name; one to its folder and one to the root come before all.
    symlink(&real, root.join("--a--/t_link.jsonl")).expect("a link");
    symlink(root.join("--b--"), root.join("--0--")).expect("a link");
    symlink(&root, root.join("--again--")).expect("a link");
    symlink(root.join("--again--/--b--/t_s.jsonl"), root.join("t_root.jsonl")).expect("a link");
    // What is outside is there by its first link.
    symlink(&elsewhere, root.join("--b--/t_2.jsonl")).expect("a link");
    symlink(&elsewhere, root.join("--b--/t_1.jsonl")).expect("a link");
    let repo = Repo::new(Arc::new(StdFs), Arc::new(SystemClock), Arc::new(RandomIds), root.clone(), Layout::Nested);
    let files: Vec<_> = repo.files().expect("a root").into_iter().map(|file| file.path).collect();
    assert_eq!(files, [root.join("--b--/t_1.jsonl"), real]);
}

#[test]
fn for_many_new_sessions_the_root_is_looked_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let old = repo(&root);
    let named = |id: &str| NewSession { cwd: "/c".into(), id: SessionId::new(id).ok(), ..NewSession::default() };
    for id in ["a", "b", "c"] {
        old.create(named(id)).expect("a session");
    }
    // Its name does not tell its id.
    fs::write(root.join("--c--/t_other.jsonl"), format!("{H}\n")).expect("a file");
    let counting = CountingFs::default();
    let repo = settled_repo(Arc::new(counting.clone()), &root);
    let mut known = repo.known_ids().expect("a root");
    let read = counting.take();
    assert_eq!(read.len(), 4);
    let mut made = Vec::new();
    for number in 0..20 {
        made.push(repo.create_among(&mut known, named(&format!("new-{number}")), &mut |_| Ok(())).expect("a session"));
    }
    let old_files: Vec<_> = counting.take().into_keys().filter(|path| read.contains_key(path)).collect();
    assert_eq!(old_files, Vec::<PathBuf>::new(), "what was there is not read again");
    for taken in ["a", "s1", "new-7"] {
        let error = repo.create_among(&mut known, named(taken), &mut |_| Ok(())).expect_err("a session of this id");
        assert!(matches!(error, StorageError::Exists(_)), "{error}");
    }
    known.forget(&made[7]);
    assert_eq!(known.find("new-7"), None);
    assert_eq!(known.find("s1").map(Path::to_owned), Some(root.join("--c--/t_other.jsonl")));
}

fn make_pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

#[test]
fn a_pipe_or_a_device_is_never_waited_for() {
    let (_root, repo, path) = place(&[H, E]);
    let mut session = repo.open(&path).expect("a session");
    let pipe = path.with_file_name("pipe.jsonl");
    make_pipe(&pipe);
    let endless = path.with_file_name("endless.jsonl");
    symlink("/dev/zero", &endless).expect("a link");
    for path in [&pipe, &endless] {
        let mut follower = Follower::new(std_fs(), path);
        let error = follower.poll(&mut |followed| panic!("{followed:?}")).expect_err("it is no file");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
    // In the place of the owner's mark.
    make_pipe(&lock_path(&path));
    assert!(matches!(OwnerLock::owner(&StdFs, &path), Err(StorageError::Io { .. })));
    assert!(matches!(OwnerLock::take(&std_fs(), &path, "me"), Err(StorageError::Io { .. })));
    // In the place of the session, while it is open.
    for replace in [
        make_pipe,
        |path: &Path| symlink("/dev/zero", path).expect("a link"),
        |path: &Path| {
            fs::create_dir(path).expect("a folder");
        },
    ] {
        let _ = fs::remove_file(&path);
        replace(&path);
        let result = session.append(name("e2"), Durability::Synced);
        assert!(matches!(result, Err(StorageError::Replaced(_) | StorageError::Io { .. })), "{result:?}");
    }
    fs::remove_dir(&path).expect("a folder");
    append(&mut session, "e2");
    assert_eq!(names(&repo.open(&path).expect("it is written again")), ["e1", "e2"]);
}

#[test]
fn a_session_that_was_moved_into_the_root_is_not_written_again_where_it_was() {
    let (_root, repo, path) = place(&[H, E]);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let outside = elsewhere.path().join("mine.jsonl");
    fs::rename(&path, &outside).expect("a rename");
    let mut session = repo.open(&outside).expect("a session");
    let moved = repo.relocate(&outside, "/q").expect("a move");
    let result = session.append(name("e2"), Durability::Synced);
    assert!(matches!(&result, Err(StorageError::Moved { to, .. }) if *to == moved.path), "{result:?}");
    assert!(!outside.exists());
    append(&mut repo.open(&moved.path).expect("a session"), "e2");
}

#[test]
fn a_move_that_died_between_its_two_files_can_be_made_again() {
    let (_root, repo, path) = place(&[H, E]);
    let target = repo.folder_for("/q").join(path.file_name().expect("a name"));
    fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
    fs::write(&target, format!("{}\n{E}\n", H.replace("/p", "/q"))).expect("a file");
    // Meanwhile somebody went on in the old one.
    append(&mut repo.open(&path).expect("a session"), "e2");
    let moved = repo.relocate(&path, "/q").expect("a move");
    assert_eq!((moved.path, names(&repo.open(&target).expect("a session"))), (target.clone(), vec!["e1".into(), "e2".into()]));
    // What holds anything else stays.
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, format!("{H}\n{E}\n")).expect("a file");
    append(&mut repo.open(&target).expect("a session"), "e3");
    assert!(matches!(repo.relocate(&path, "/q"), Err(StorageError::Exists(_))));
    assert_eq!(names(&repo.open(&target).expect("a session")), ["e1", "e2", "e3"]);
    assert!(path.exists());
}

#[test]
fn bad_bytes_in_a_line_that_is_migrated_are_found() {
    let hook = r#"{"type":"message","id":"h1","parentId":null,"timestamp":"t","message":{"role":"hookMessage","customType":"h","content":"t_o","display":true,"timestamp":2}}"#;
    let old = r#"{"type":"message","timestamp":"t","message":{"role":"user","content":"t_o","timestamp":2}}"#;
    for (header, line) in [(H.replace("\"version\":3", "\"version\":2"), hook), (V1.to_owned(), old)] {
        let (_root, repo, path) = place(&[&header, line]);
        let mut bytes = fs::read(&path).expect("the file");
        let at = bytes.windows(3).position(|window| window == b"t_o").expect("the text");
        bytes[at + 1] = 0xff;
        fs::write(&path, bytes).expect("a file");
        let bad = |faults: Vec<pi_sessions::storage::check::Fault>| {
            faults.into_iter().filter(|fault| fault.kind == FaultKind::BadUtf8).map(|fault| fault.line).collect::<Vec<_>>()
        };
        assert_eq!(bad(check_file(repo.fs(), &path).expect("a session")), [2]);
        repair_file(repo.fs(), &path, IfHeld::Refuse).expect("a repair");
        assert_eq!(bad(check_file(repo.fs(), &path).expect("a session")), [0_u64; 0]);
    }
}

/// A trash in a folder.
struct FolderTrash(PathBuf, PathBuf);

impl Trash for FolderTrash {
    fn put(&self, path: &Path) -> std::io::Result<()> {
        fs::rename(path, &self.0)
    }

    fn items(&self) -> std::io::Result<Vec<TrashedFile>> {
        let (original, content) = (self.1.clone(), self.0.clone());
        Ok(vec![TrashedFile { original, content, deleted_ms: 1, ..TrashedFile::default() }])
    }

    fn take(&self, file: &TrashedFile, to: &Path) -> std::io::Result<()> {
        fs::rename(&file.content, to)
    }
}

#[test]
fn what_comes_back_from_the_trash_is_found_by_its_link_and_there_for_good() {
    let (root, _, path) = place(&[H, E]);
    let link = root.path().join("link");
    symlink(path.parent().expect("a folder"), &link).expect("a link");
    let linked = link.join(path.file_name().expect("a name"));
    let fs = CountingFs::default();
    let repo = settled_repo(Arc::new(fs.clone()), root.path());
    // The trash may have noted the one or the other.
    for (noted, asked) in [(&path, &linked), (&linked, &path)] {
        let trash = FolderTrash(root.path().join("trashed"), noted.clone());
        repo.discard(&path, &trash).expect("it goes");
        assert!(!path.exists());
        let session = repo.find_trashed(asked, &trash).expect("the trash").expect("it is found");
        fs.take_calls();
        repo.restore(&session, None, &trash).expect("it comes back");
        assert!(path.exists());
        assert!(fs.take_calls().contains(&("sync folder", 0)), "its name is durable");
    }
}

#[test]
fn a_stat_without_times_tells_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "1234567").expect("a file");
    symlink(&file, folder.path().join("link")).expect("a link");
    for path in [file.clone(), folder.path().join("link"), folder.path().to_owned(), "/dev/null".into()] {
        let whole = StdFs.metadata(&path).expect("it is there");
        let short = StdFs.metadata_without_times(&path).expect("it is there");
        let told = |meta: pi_sessions::storage::fs::FileMeta| (meta.len, meta.identity, meta.mode, meta.kind);
        assert_eq!(told(short), told(whole), "{}", path.display());
    }
    let error = StdFs.metadata_without_times(&folder.path().join("none")).expect_err("it is not there");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
