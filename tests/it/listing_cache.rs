//! A list with the cache is a list without it, whatever happened to the files and to the cache.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::index::ListingCache;
use pi_sessions::storage::repo::{Layout, Repo};
use pi_sessions::storage::{RandomIds, SystemClock};

use crate::support::counting_fs::{CountingFs, settled_repo};
use crate::support::messy_root::{MessyRoot, events};

/// Both lists agree.
fn check(repo: &Repo, cache: &ListingCache) -> Result<(), TestCaseError> {
    let cached = repo.list_cached(cache, &|_| {}).expect("a root");
    let plain = repo.list(&|_| {}).expect("a root");
    prop_assert_eq!(cached.sessions, plain.sessions);
    prop_assert_eq!(format!("{:?}", cached.skipped), format!("{:?}", plain.skipped));
    Ok(())
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
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let files = ten_sessions(&root);
    let fs = CountingFs::default();
    let repo = settled_repo(Arc::new(fs.clone()), &root);
    let cache = ListingCache::new(folder.path().join("cache"));
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
