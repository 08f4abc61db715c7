//! A list with the cache is a list without it, and so are reports and what `show` tells, whatever happened to the files
//! and to the cache.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;

use pi_sessions::session::entry::EntryKind;
use pi_sessions::session::message::Message;
use pi_sessions::session::stats::StatsFold;
use pi_sessions::session::usage_report::{GroupBy, Usage, UsageReport, Wanted};
use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::index::ListingCache;
use pi_sessions::storage::repo::{Layout, NewSession, Repo};
use pi_sessions::storage::usage::session_usage;
use pi_sessions::storage::{Clock, Durability, RandomIds, SystemClock};

use crate::support::counting_fs::{CountingFs, settled_repo};
use crate::support::messy_root::{MessyRoot, events};

/// Both lists agree, and all else that comes from what is kept.
fn check(repo: &Repo, cache: &ListingCache) -> Result<(), TestCaseError> {
    let cached = repo.list_cached(cache, &|_| {}).expect("a root");
    let plain = repo.list(&|_| {}).expect("a root");
    prop_assert_eq!(&cached.sessions, &plain.sessions);
    prop_assert_eq!(format!("{:?}", cached.skipped), format!("{:?}", plain.skipped));
    let with_cache = repo.clone().with_cache(cache.clone());
    for repo in [repo, &with_cache] {
        let in_place = repo.sessions_in_place(&|_| {}).expect("a root");
        prop_assert_eq!(in_place.len(), plain.sessions.len());
        prop_assert_eq!(format!("{:?}", in_place.skipped()), format!("{:?}", plain.skipped));
        let (mut one_by_one, half) = (Vec::new(), in_place.len() / 2);
        for range in [0..half, half..in_place.len()] {
            in_place.each_in(range, &mut |session| one_by_one.push(format!("{session:?}")));
        }
        let borrowed: Vec<_> = plain.sessions.iter().map(|session| format!("{:?}", session.borrowed())).collect();
        prop_assert_eq!(one_by_one, borrowed);
    }
    for by in [Some(GroupBy::Model), Some(GroupBy::Tool)] {
        prop_assert_eq!(report(&with_cache, by), report(repo, by));
    }
    // One more than a few tells nothing more, and each opens the stores.
    for session in plain.sessions.iter().take(2) {
        let (cached, plain) = (with_cache.session_usage(&session.path), session_usage(&**repo.fs(), &session.path));
        prop_assert_eq!(cached.expect("a session").stats(), plain.expect("a session").stats());
        let told = |repo: &Repo| repo.summary_and_forks(&session.path, &session.id).expect("a session");
        prop_assert_eq!(told(&with_cache), told(repo));
        prop_assert_eq!(with_cache.find_exact(&session.id).expect("a root"), repo.find_exact(&session.id).expect("a root"));
    }
    Ok(())
}

/// A report of all sessions, and what was left out.
fn report(repo: &Repo, by: Option<GroupBy>) -> (Usage, String) {
    let mut report = UsageReport::new(by, None);
    let skipped = repo.add_usage(&mut report, &mut |_| Wanted::Counted, &|_| {}).expect("a root");
    (report.finish(), format!("{skipped:?}"))
}

fn cache_files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|item| item.expect("an item").path()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn a_cached_list_is_a_list_whatever_happens_to_the_files(rounds in proptest::collection::vec(events(), 1..6)) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut root = MessyRoot::new(&folder.path().join("root"));
        let repo = settled_repo(Arc::new(StdFs), &folder.path().join("root"));
        let young = Repo::new(Arc::new(StdFs), Arc::new(SystemClock), Arc::new(RandomIds), folder.path().join("root"), Layout::Nested);
        let cache = ListingCache::new(folder.path().join("cache"));
        let young_cache = ListingCache::new(folder.path().join("young"));
        for events in &rounds {
            for event in events {
                root.happen(event);
            }
            check(&repo, &cache)?;
            check(&repo, &cache)?;
            check(&young, &young_cache)?;
        }
    }

    #[test]
    fn a_damaged_cache_is_no_matter(events in events(), at in any::<prop::sample::Index>(), byte: u8, kind in 0..4) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut root = MessyRoot::new(&folder.path().join("root"));
        let repo = settled_repo(Arc::new(StdFs), &folder.path().join("root"));
        let cache = ListingCache::new(folder.path().join("cache"));
        events.iter().for_each(|event| root.happen(event));
        check(&repo, &cache)?;
        for path in cache_files(&folder.path().join("cache")) {
            let mut bytes = fs::read(&path).expect("a file");
            let at = at.index(bytes.len().max(1));
            match kind {
                0 => bytes.truncate(at),
                1 => bytes = vec![byte; at],
                2 => bytes.iter_mut().skip(at).take(1).for_each(|there| *there = byte),
                _ => bytes.iter_mut().skip(at).take(5000).for_each(|there| *there ^= byte),
            }
            fs::write(path, bytes).expect("a file");
        }
        check(&repo, &cache)?;
        check(&repo, &cache)?;
    }
}

const HEADER: &str =
    "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/c\"}\n";

fn message(id: usize, text: &str) -> String {
    let parent = id.checked_sub(1).map_or("null".to_owned(), |parent| format!("\"{parent:08x}\""));
    format!(
        "{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":{parent},\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\",\"timestamp\":{id}}}}}\n"
    )
}

fn append(path: &Path, line: &str) {
    fs::OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(line.as_bytes())).expect("an append");
}

/// The store with this name.
fn store_in(cache: &Path, name: &str) -> rusqlite::Connection {
    let is_it = |path: &PathBuf| {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        file_name.starts_with(name) && file_name.ends_with(".sqlite")
    };
    let path = cache_files(cache).into_iter().find(is_it).expect("a store");
    rusqlite::Connection::open(path).expect("a store")
}

/// What a query gives of the store with this name.
fn number_in(cache: &Path, store: &str, query: &str) -> i64 {
    store_in(cache, store).query_row(query, [], |row| row.get(0)).expect("a number")
}

/// Ten sessions in a root whose reads are counted, and an empty cache.
struct Counted {
    folder: TempDir,
    root: PathBuf,
    files: Vec<PathBuf>,
    fs: CountingFs,
    repo: Repo,
    cache: ListingCache,
}

impl Counted {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        let files = ten_sessions(&root);
        let fs = CountingFs::default();
        let repo = settled_repo(Arc::new(fs.clone()), &root);
        let cache = ListingCache::new(folder.path().join("cache"));
        Self { folder, root, files, fs, repo, cache }
    }
}

/// A root of ten sessions of a hundred messages.
fn ten_sessions(root: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(root.join("--c--")).expect("a folder");
    let text: String = (0..100).map(|id| message(id, "some words")).collect();
    let write = |number| {
        let path = root.join("--c--").join(format!("t_{number}.jsonl"));
        fs::write(&path, HEADER.to_owned() + &text).expect("a file");
        path
    };
    (0..10).map(write).collect()
}

#[test]
fn after_an_append_only_the_new_bytes_are_read() {
    let Counted { folder: _folder, files, fs, repo, cache, .. } = Counted::new();
    repo.list_cached(&cache, &|_| {}).expect("a root");
    assert_eq!(fs.take().len(), 10);
    repo.list_cached(&cache, &|_| {}).expect("a root");
    assert_eq!(fs.take(), [].into(), "nothing changed, so nothing is read");
    let line = message(100, "appended");
    std::fs::OpenOptions::new()
        .append(true)
        .open(&files[3])
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("an append");
    let listing = repo.list_cached(&cache, &|_| {}).expect("a root");
    // The new line, the byte before it, and 64 bytes before each end to see that the file is the same.
    assert_eq!(fs.take(), [(files[3].clone(), line.len() as u64 + 1 + 128)].into());
    let session = listing.sessions.iter().find(|session| session.path == files[3]).expect("it is listed");
    assert_eq!((session.message_count, session.branches, session.modified_ms), (101, 1, 100));
}

#[test]
fn another_file_of_the_same_length_and_time_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let files = ten_sessions(&root);
    let repo = settled_repo(Arc::new(StdFs), &root);
    let cache = ListingCache::new(folder.path().join("cache"));
    repo.list_cached(&cache, &|_| {}).expect("a root");
    let time = fs::metadata(&files[0]).and_then(|meta| meta.modified()).expect("a time");
    let other = fs::read_to_string(&files[0]).expect("a file").replace("words", "other");
    let path = root.join("other");
    fs::write(&path, other).expect("a file");
    fs::File::options().append(true).open(&path).and_then(|file| file.set_modified(time)).expect("a time");
    fs::rename(path, &files[0]).expect("a file");
    let listing = repo.list_cached(&cache, &|_| {}).expect("a root");
    let session = listing.sessions.iter().find(|session| session.path == files[0]).expect("it is listed");
    assert_eq!(session.first_message.as_deref(), Some("some other"));
}

#[test]
fn what_changed_before_the_end_is_read_though_the_end_is_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let files = ten_sessions(&root);
    let repo = settled_repo(Arc::new(StdFs), &root);
    let cache = ListingCache::new(folder.path().join("cache"));
    check(&repo, &cache).expect("they agree");
    for (in_place, is_longer) in [(true, false), (false, true), (false, false)] {
        let mut text = fs::read_to_string(&files[0]).expect("a file").replacen(r#""type":"message""#, r#""type":"unknown""#, 1);
        if is_longer {
            text += &message(100, "appended");
        }
        let path = if in_place { files[0].clone() } else { root.join("other") };
        fs::write(&path, text).expect("a file");
        fs::rename(&path, &files[0]).expect("a file");
        check(&repo, &cache).expect("they agree");
    }
}

#[test]
fn a_file_that_was_changed_just_before_it_was_read_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let files = ten_sessions(&root);
    let fs = CountingFs::default();
    let repo = Repo::new(Arc::new(fs.clone()), Arc::new(SystemClock), Arc::new(RandomIds), root, Layout::Nested);
    let cache = ListingCache::new(folder.path().join("cache"));
    repo.list_cached(&cache, &|_| {}).expect("a root");
    fs.take();
    repo.list_cached(&cache, &|_| {}).expect("a root");
    assert_eq!(fs.take().into_keys().collect::<Vec<_>>(), files);
    // A report, too.
    let repo = repo.with_cache(cache);
    report(&repo, None);
    fs.take();
    report(&repo, None);
    assert_eq!(fs.take().into_keys().collect::<Vec<_>>(), files);
}

#[test]
fn a_cache_that_cannot_be_made_is_done_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    ten_sessions(&root);
    let repo = settled_repo(Arc::new(StdFs), &root);
    let taken = folder.path().join("taken");
    fs::write(&taken, "a file").expect("a file");
    assert_eq!(repo.list_cached(&ListingCache::new(taken), &|_| {}).expect("a root").sessions.len(), 10);
}

#[test]
fn several_lists_at_once_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    ten_sessions(&root);
    let cache = ListingCache::new(folder.path().join("cache"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let repo = settled_repo(Arc::new(StdFs), &root);
                for _ in 0..5 {
                    assert_eq!(repo.list_cached(&cache, &|_| {}).expect("a root").sessions.len(), 10);
                }
            });
        }
    });
}

#[test]
fn after_an_append_a_report_reads_only_the_new_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let files = ten_sessions(&root);
    let fs = CountingFs::default();
    let repo = settled_repo(Arc::new(fs.clone()), &root).with_cache(ListingCache::new(folder.path().join("cache")));
    report(&repo, None);
    assert_eq!(fs.take().len(), 10);
    report(&repo, None);
    assert_eq!(fs.take(), [].into(), "nothing changed, so nothing is read");
    let line = message(100, "appended");
    std::fs::OpenOptions::new()
        .append(true)
        .open(&files[3])
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("an append");
    assert_eq!(repo.session_usage(&files[3]).expect("a session").stats().messages, 101);
    assert_eq!(fs.take(), [(files[3].clone(), line.len() as u64 + 1 + 128)].into());
    report(&repo, None);
    assert_eq!(fs.take(), [].into(), "what one session was asked for is kept for all");
}

#[test]
fn a_cache_of_another_version_is_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    ten_sessions(&root);
    let repo = settled_repo(Arc::new(StdFs), &root);
    let cache = ListingCache::new(folder.path().join("cache"));
    check(&repo, &cache).expect("they agree");
    let files = cache_files(&folder.path().join("cache"));
    let stores: Vec<_> = files.iter().filter(|path| path.extension().is_some_and(|end| end == "sqlite")).collect();
    assert_eq!(stores.len(), 2, "one for lists and one for reports: {files:?}");
    let versions = || ["list", "usage"].map(|name| number_in(&folder.path().join("cache"), name, "PRAGMA user_version"));
    let ours = versions();
    for version in [77u32, 99] {
        for path in &stores {
            let mut bytes = fs::read(path).expect("a file");
            // Where SQLite keeps the version that its user gives.
            bytes[60..64].copy_from_slice(&version.to_be_bytes());
            fs::write(path, bytes).expect("a file");
        }
        assert_ne!(versions(), ours);
        check(&repo, &cache).expect("they agree");
        assert_eq!(versions(), ours);
    }
}

#[test]
fn what_was_deleted_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let files = ten_sessions(&root);
    let text = fs::read_to_string(&files[0]).expect("a file").replace("some words", "a secret");
    let name = r#"{"type":"session_info","id":"name","parentId":null,"timestamp":"t","name":"a secret"}"#;
    fs::write(&files[0], text + name + "\n").expect("a file");
    let repo = settled_repo(Arc::new(StdFs), &root);
    let cache = ListingCache::new(folder.path().join("cache"));
    let holds_it = || {
        let files = cache_files(&folder.path().join("cache"));
        files.iter().filter(|path| memchr::memmem::find(&fs::read(path).expect("a file"), b"a secret").is_some()).count()
    };
    check(&repo, &cache).expect("they agree");
    assert_eq!(holds_it(), 2, "the list and the report keep the name");
    fs::remove_file(&files[0]).expect("a file");
    check(&repo, &cache).expect("they agree");
    let rows = |store: &str, count: &str| number_in(&folder.path().join("cache"), store, count);
    assert_eq!(rows("usage", "SELECT count(*) FROM session"), 9);
    let list = "SELECT count(*) FROM folder WHERE instr(records, CAST('a secret' AS BLOB)) > 0";
    assert_eq!(rows("list", list), 0);
    assert_eq!(rows("list", "SELECT count(*) FROM changed"), 0);
    assert_eq!(rows("list", "SELECT count(*) FROM tree"), 9);
    // A damaged batch is written anew.
    let store = store_in(&folder.path().join("cache"), "list");
    store.execute("UPDATE folder SET records = zeroblob(20)", []).expect("room");
    drop(store);
    check(&repo, &cache).expect("they agree");
    assert_eq!(rows("list", "SELECT (SELECT length(records) > 1000 FROM folder) * 10 + (SELECT count(*) FROM changed)"), 10);
    // A whole folder, of which there are a batch and a record beside it.
    append(&files[1], &message(100, "appended"));
    check(&repo, &cache).expect("they agree");
    assert_eq!(rows("list", "SELECT (SELECT count(*) FROM folder) * 10 + (SELECT count(*) FROM changed)"), 11);
    fs::remove_dir_all(root.join("--c--")).expect("a folder");
    check(&repo, &cache).expect("they agree");
    for table in ["folder", "changed", "tree"] {
        assert_eq!(rows("list", &format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
}

#[test]
fn files_that_are_gone_at_either_end_are_forgotten_and_no_other_is_read_again() {
    let Counted { folder, files, fs, repo, cache, .. } = Counted::new();
    repo.list_cached(&cache, &|_| {}).expect("a root");
    // At first there is no batch, and then there is one.
    for (gone, left) in [0, 9, 1, 8].into_iter().zip([9, 8, 7, 6]) {
        append(&files[5], &message(200 + gone, "appended"));
        repo.list_cached(&cache, &|_| {}).expect("a root");
        fs::remove_file(&files[gone]).expect("a file");
        fs.take();
        for _ in 0..2 {
            assert_eq!(repo.list_cached(&cache, &|_| {}).expect("a root").sessions.len(), left);
        }
        assert_eq!(fs.take(), [].into(), "{gone}");
        let trees = number_in(&folder.path().join("cache"), "list", "SELECT count(*) FROM tree");
        assert_eq!(trees, left as i64, "{gone}");
    }
}

#[test]
fn what_lies_beside_a_batch_goes_into_it_when_it_is_much() {
    let Counted { folder, root, files, fs, repo, cache } = Counted::new();
    let lie_beside = |sessions: usize| {
        assert_eq!(repo.list_cached(&cache, &|_| {}).expect("a root").sessions.len(), sessions);
        fs.take();
        repo.list_cached(&cache, &|_| {}).expect("a root");
        assert_eq!(fs.take(), [].into());
        number_in(&folder.path().join("cache"), "list", "SELECT count(*) FROM changed")
    };
    assert_eq!(lie_beside(10), 10);
    for number in 10..70 {
        fs::copy(&files[0], root.join("--c--").join(format!("t_{number}.jsonl"))).expect("a copy");
    }
    assert_eq!(lie_beside(70), 0);
    append(&files[3], &message(100, "appended"));
    assert_eq!(lie_beside(70), 1);
}

#[test]
fn a_store_that_is_found_damaged_when_it_is_used_is_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let files = ten_sessions(&root);
    let fs = CountingFs::default();
    let repo = settled_repo(Arc::new(fs.clone()), &root).with_cache(ListingCache::new(folder.path().join("cache")));
    let list = || assert_eq!(repo.sessions(&|_| {}).expect("a root").sessions.len(), 10);
    let add_up = || drop(report(&repo, None));
    let tables: [(&str, &str, &dyn Fn()); 2] = [("list", "tree", &list), ("usage", "session", &add_up)];
    for (store, table, look) in tables {
        look();
        store_in(&folder.path().join("cache"), store).execute(&format!("DROP TABLE {table}"), []).expect("a table");
        append(&files[0], &message(100, "appended"));
        // One that finds out, and one that fills it again.
        look();
        look();
        fs.take();
        look();
        assert_eq!(fs.take(), [].into(), "{store}");
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_told_and_not_remembered() {
    let Counted { folder: _folder, files, fs, repo, cache, .. } = Counted::new();
    // One that was deleted since its folder was read is no file that was left out.
    for (kind, skipped) in [(std::io::ErrorKind::NotFound, 0), (std::io::ErrorKind::Other, 1)] {
        fs.refuse(Some((&files[2], kind)));
        for listing in [repo.list(&|_| {}), repo.list_cached(&cache, &|_| {})] {
            let listing = listing.expect("a root");
            assert_eq!((listing.sessions.len(), listing.skipped.len()), (9, skipped), "{kind}");
        }
    }
    fs.refuse(None);
    check(&repo, &cache).expect("they agree");
    assert_eq!(repo.list_cached(&cache, &|_| {}).expect("a root").sessions.len(), 10);
}

#[test]
fn all_fixtures_read_the_same_with_a_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("--all--")).expect("a folder");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut folders = vec![fixtures];
    let mut count = 0;
    while let Some(from) = folders.pop() {
        for item in fs::read_dir(from).expect("a folder").map(|item| item.expect("an item").path()) {
            if item.is_dir() {
                folders.push(item);
            } else if item.extension().is_some_and(|end| end == "jsonl") {
                count += 1;
                fs::copy(&item, root.join("--all--").join(format!("t_{count}.jsonl"))).expect("a copy");
            }
        }
    }
    assert!(count > 20, "{count}");
    let repo = settled_repo(Arc::new(StdFs), &root);
    let cache = ListingCache::new(folder.path().join("cache"));
    let with_cache = repo.clone().with_cache(cache.clone());
    for _ in 0..2 {
        check(&repo, &cache).expect("they agree");
        for session in repo.list(&|_| {}).expect("a root").sessions {
            let open = repo.open(&session.path).expect("a session");
            let mut fold = StatsFold::default();
            for index in open.tree().iter() {
                open.read().entry(index).expect("the file").iter().for_each(|entry| fold.add(entry));
            }
            let stats = with_cache.session_usage(&session.path).expect("a session").stats();
            assert_eq!(stats, fold.into_stats(), "{}", session.path.display());
        }
    }
    // An append upgrades those of an old version, and reaches the others.
    for session in repo.list(&|_| {}).expect("a root").sessions {
        if let Ok(mut open) = repo.open(&session.path) {
            let _ = open.append(vec![EntryKind::message(Message::user("one more", 1))], Durability::Unsynced);
        }
    }
    check(&repo, &cache).expect("they agree");
}

#[test]
fn reports_at_once_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    ten_sessions(&root);
    let cache = ListingCache::new(folder.path().join("cache"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let repo = settled_repo(Arc::new(StdFs), &root).with_cache(cache.clone());
                for _ in 0..5 {
                    let usage = report(&repo, None).0;
                    // They are copies of one another.
                    assert_eq!((usage.total.messages, usage.copies), (100, 900));
                }
            });
        }
    });
}

/// A clock that goes back ten minutes each time it is looked at, from an hour ahead.
#[derive(Debug)]
struct BackwardClock(AtomicI64);

impl Clock for BackwardClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + self.0.fetch_sub(600_000, Ordering::Relaxed)
    }
}

#[test]
fn a_clock_that_goes_backwards_changes_no_order_and_no_list() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(BackwardClock(AtomicI64::new(3_600_000)));
    let repo = Repo::new(Arc::new(StdFs), clock, Arc::new(RandomIds), folder.path().join("root"), Layout::Nested);
    let cache = ListingCache::new(folder.path().join("cache"));
    let new = || NewSession { cwd: "/p".into(), ..NewSession::default() };
    let mut paths = Vec::new();
    let mut ids = Vec::new();
    for round in 0..6 {
        let mut session = repo.create(new()).expect("a session");
        paths.push(session.read().path().expect("a file").to_owned());
        let mut made = Vec::new();
        for number in 0..12 {
            let batch = (0..=number % 3).map(|at| EntryKind::message(Message::user(format!("{number} {at}"), 1_000 - number)));
            made.extend(session.append(batch.collect(), Durability::Unsynced).expect("room"));
            check(&repo, &cache).expect("the lists agree");
        }
        ids.push(made);
        // The older sessions go on, too.
        for (path, ids) in paths.iter().zip(&mut ids) {
            let mut session = repo.open(path).expect("a session");
            ids.extend(
                session.append(vec![EntryKind::message(Message::user("later", round))], Durability::Synced).expect("room"),
            );
        }
        check(&repo, &cache).expect("the lists agree");
    }
    for (path, made) in paths.iter().zip(&ids) {
        let session = repo.open(path).expect("a session");
        let tree = session.tree();
        let path: Vec<_> = tree.path(session.leaf()).into_iter().map(|index| tree.id(index)).collect();
        assert_eq!((&path, tree.len()), (made, made.len()), "a chain in the order of the file");
        let times: Vec<_> =
            tree.iter_all().map(|at| session.read().entry(at).expect("a line").expect("an entry").timestamp).collect();
        assert!(times.first() > times.last(), "the clock went back: {times:?}");
    }
    let distinct: BTreeSet<_> = ids.iter().flatten().collect();
    assert_eq!(distinct.len(), ids.iter().map(Vec::len).sum::<usize>());
    let listed = repo.list(&|_| {}).expect("a root").sessions;
    assert_eq!(listed.iter().map(|session| &session.path).collect::<BTreeSet<_>>(), paths.iter().collect());
}
