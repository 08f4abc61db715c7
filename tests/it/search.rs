//! A search with the index is a search without it, whatever happened to the files and to the index.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use pi_sessions::session::message::Role;
use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::repo::Repo;
use pi_sessions::storage::search::{Query, SearchIndex, SearchOptions};

use crate::support::counting_fs::{CountingFs, settled_repo};
use crate::support::messy_root::{MessyRoot, events};

const QUERIES: [&str; 12] = [
    "parser",
    "PARSER error",
    "\"parser error\"",
    "pars*",
    "src/main.rs",
    "日本",
    "本日 OR x",
    "café",
    "slash quotes",
    "🚀",
    "read",
    "alone OR \"line two\"",
];

fn options(number: usize) -> SearchOptions {
    let all = SearchOptions::default();
    match number % 5 {
        0 | 1 => all,
        2 => SearchOptions { limit: Some(3), ..all },
        3 => SearchOptions { role: Some(Role::User), cwd: Some("/c1".into()), ..all },
        _ => SearchOptions { since_ms: Some(1_760_000_001_000), limit: Some(1000), ..all },
    }
}

fn check(repo: &Repo, index: &SearchIndex) -> Result<(), TestCaseError> {
    for (number, text) in QUERIES.iter().enumerate() {
        let query = Query::words(text).expect(text);
        let indexed = repo.search_indexed(index, &query, &options(number), &|_| {}).expect("a root");
        let scanned = repo.search_scan(&query, &options(number)).expect("a root");
        prop_assert_eq!(indexed.hits, scanned.hits, "{}", text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn a_search_with_the_index_is_a_search_without_it(rounds in proptest::collection::vec(events(), 1..5), damage: bool) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        let mut root = MessyRoot::new(&path);
        let repo = settled_repo(Arc::new(StdFs), &path);
        let index = SearchIndex::new(folder.path().join("cache")).adding_from(0).with_blocks_of(300);
        for events in &rounds {
            events.iter().for_each(|event| root.happen(event));
            check(&repo, &index)?;
        }
        if damage {
            for item in fs::read_dir(folder.path().join("cache")).expect("a folder") {
                let path = item.expect("an item").path();
                let len = fs::metadata(&path).expect("a file").len() as usize;
                fs::write(path, vec![b'x'; len / 2]).expect("a file");
            }
            check(&repo, &index)?;
        }
    }
}

/// A session of many lines, in which a word is planted at some.
fn planted(path: &Path, lines: usize, at: &[usize]) {
    let mut text =
        "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/c\"}\n"
            .to_owned();
    for line in 0..lines {
        let word = if at.contains(&line) { "planted" } else { "common" };
        text += &format!(
            "{{\"type\":\"message\",\"id\":\"{line:08x}\",\"parentId\":null,\"timestamp\":\"t\",\"message\":{{\"role\":\"user\",\"content\":\"a {word}\\nword {}\",\"timestamp\":{line}}}}}\n",
            "filler ".repeat(50)
        );
    }
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn ids(repo: &Repo, index: &SearchIndex, query: &str, options: &SearchOptions) -> Vec<String> {
    let query = Query::words(query).expect(query);
    let hits = repo.search_indexed(index, &query, options, &|_| {}).expect("a root").hits;
    assert_eq!(hits, repo.search_scan(&query, options).expect("a root").hits);
    hits.into_iter().map(|hit| hit.entry_id.to_string()).collect()
}

#[test]
fn of_a_large_file_only_the_blocks_that_may_match_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("root/--c--/t_s.jsonl");
    planted(&path, 2000, &[5, 1200, 1201]);
    let fs = CountingFs::default();
    let repo = settled_repo(Arc::new(fs.clone()), &folder.path().join("root"));
    let index = SearchIndex::new(folder.path().join("cache"));
    assert_eq!(ids(&repo, &index, "planted", &SearchOptions::default()), ["000004b1", "000004b0", "00000005"]);
    fs.take();
    let query = Query::words("planted").expect("a word");
    let hits = repo.search_indexed(&index, &query, &SearchOptions::default(), &|_| {}).expect("a root").hits;
    assert_eq!(hits.len(), 3);
    assert_eq!(&hits[0].snippet.text[hits[0].snippet.highlights[0].clone()], "planted");
    assert!(hits[0].snippet.text.starts_with("a planted word filler"));
    let read = fs.take().remove(&path).expect("it was read");
    assert!(read < 200_000, "two blocks of 64 KiB and the header, not {read} bytes");
    // Of a common word only the newest are wanted, so older blocks are left alone.
    let newest = SearchOptions { limit: Some(2), ..SearchOptions::default() };
    assert_eq!(ids(&repo, &index, "common", &newest), ["000007cf", "000007ce"]);
}

#[test]
fn what_is_appended_is_found_without_reading_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("root/--c--/t_s.jsonl");
    planted(&path, 1000, &[5]);
    let fs = CountingFs::default();
    let repo = settled_repo(Arc::new(fs.clone()), &folder.path().join("root"));
    let index = SearchIndex::new(folder.path().join("cache"));
    assert_eq!(ids(&repo, &index, "planted", &SearchOptions::default()).len(), 1);
    let line = "{\"type\":\"session_info\",\"id\":\"name\",\"parentId\":null,\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"name\":\"Planted later\"}\n";
    std::fs::OpenOptions::new().append(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes())).expect("an append");
    assert_eq!(ids(&repo, &index, "planted", &SearchOptions::default()), ["name", "00000005"]);
    fs.take();
    let query = Query::words("later").expect("a word");
    repo.search_indexed(&index, &query, &SearchOptions::default(), &|_| {}).expect("a root");
    let read = fs.take().remove(&path).expect("it was read");
    assert!(read < 6_000, "the header and the new line, not {read} bytes");
}

#[test]
fn a_regular_expression_scans() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("root/--c--/t_s.jsonl");
    planted(&path, 10, &[5]);
    let repo = settled_repo(Arc::new(StdFs), &folder.path().join("root"));
    let index = SearchIndex::new(folder.path().join("cache"));
    let query = Query::regex("pl[a-z]+ed\\nword").expect("a regex");
    let hits = repo.search_indexed(&index, &query, &SearchOptions::default(), &|_| {}).expect("a root").hits;
    assert_eq!(hits.iter().map(|hit| hit.entry_id.as_str()).collect::<Vec<_>>(), ["00000005"]);
}
