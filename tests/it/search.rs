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
        let scanned = repo.search_scan(&query, &options(number), &|_| {}).expect("a root");
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
    assert_eq!(hits, repo.search_scan(&query, options, &|_| {}).expect("a root").hits);
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

/// What texts are made of: scripts with and without spaces, marks, symbols, and what stands together.
const PIECES: [&str; 28] = [
    "parser",
    "Parsers",
    "PARSE",
    "error",
    "x",
    "a1",
    "12345",
    "foo_bar",
    "src/main.rs",
    "don't",
    "日本",
    "本日",
    "日本語",
    "中文",
    "한국어",
    "한국",
    "カタカナ",
    "ひらがな",
    "ｶﾅ",
    "🚀",
    "👍🏽",
    "go🚀now",
    "café",
    "cafe\u{301}",
    "NAÏVE",
    "Straße",
    "ΣΊΣΥΦΟΣ",
    "สวัสดี",
];
const BETWEEN: [&str; 7] = [" ", "", "\n", ", ", "-", "\u{3000}", "\""];

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![8 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned), 1 => "\\PC{0,6}"]
}

fn text() -> impl Strategy<Value = String> {
    let part = (piece(), prop::sample::select(&BETWEEN[..])).prop_map(|(piece, between)| piece + between);
    proptest::collection::vec(part, 1..8).prop_map(|parts| parts.concat())
}

/// Words, phrases, prefixes and pieces that stand together, with OR between some.
fn query() -> impl Strategy<Value = String> {
    let beginning = piece().prop_map(|piece| format!("{}*", piece.chars().take(2).collect::<String>()));
    let phrase = (piece(), piece()).prop_map(|(a, b)| format!("\"{} {}\"", a.replace('"', ""), b.replace('"', "")));
    let part = prop_oneof![4 => piece(), 1 => beginning, 2 => phrase, 1 => (piece(), piece()).prop_map(|(a, b)| a + &b)];
    let joined = (part, prop::sample::select(&[" ", " ", " OR ", " AND "][..])).prop_map(|(part, joint)| part + joint);
    proptest::collection::vec(joined, 1..4).prop_map(|parts| parts.concat())
}

/// A line of one of the kinds that are searched, or of one that is not, that hangs from any earlier one.
fn searched_line(at: usize, kind: u8, parent: usize, text: &str) -> String {
    let text = serde_json::to_string(text).expect("JSON");
    // Some write every character that is not ASCII as an escape.
    let escaped = |text: &str| {
        let escape = |char: char| match char.is_ascii() {
            true => char.to_string(),
            false => char.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        };
        text.chars().map(escape).collect::<String>()
    };
    let text = if kind >= 128 { escaped(&text) } else { text };
    let parent = if parent < at { format!("\"{parent:08x}\"") } else { "null".to_owned() };
    let head = format!(r#""id":"{at:08x}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z""#);
    let message = |message: String| format!(r#"{{"type":"message",{head},"message":{{{message},"timestamp":{}}}}}"#, at % 5);
    let line = match kind % 9 {
        0 | 1 => message(format!(r#""role":"user","content":{text}"#)),
        2 => message(format!(
            r#""role":"assistant","content":[{{"type":"text","text":{text}}},{{"type":"toolCall","id":"c","name":"bash","arguments":{{"command":{text}}}}}]"#
        )),
        3 => message(format!(r#""role":"assistant","content":[{{"type":"thinking","thinking":{text}}}]"#)),
        4 => message(format!(
            r#""role":"toolResult","toolCallId":"c","toolName":"bash","content":[{{"type":"text","text":{text}}}],"isError":false"#
        )),
        5 => message(format!(r#""role":"bashExecution","command":"ls","output":{text},"exitCode":0"#)),
        6 => format!(r#"{{"type":"label",{head},"targetId":"00000000","label":{text}}}"#),
        7 => format!(r#"{{"type":"session_info",{head},"name":{text}}}"#),
        _ => format!(r#"{{"type":"branch_summary",{head},"fromId":"root","summary":{text}}}"#),
    };
    line + "\n"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn any_query_finds_the_same_with_and_without_the_index(
        rounds in proptest::collection::vec(
            proptest::collection::vec((any::<u8>(), any::<u8>(), any::<prop::sample::Index>(), text()), 1..12), 1..4),
        queries in proptest::collection::vec((query(), 0..6usize), 4..8),
        deleted in any::<u8>(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root/--c--");
        fs::create_dir_all(&root).expect("a folder");
        let repo = settled_repo(Arc::new(StdFs), &folder.path().join("root"));
        // One adds whatever it lacks, the other nothing once it was made.
        let fresh = SearchIndex::new(folder.path().join("fresh")).adding_from(0).with_blocks_of(400);
        let late = SearchIndex::new(folder.path().join("late")).with_blocks_of(600);
        let mut lines = [0; 3];
        for round in &rounds {
            for (file, kind, parent, text) in round {
                let file = usize::from(*file) % 3;
                let path = root.join(format!("t_{file}.jsonl"));
                let at = lines[file];
                let mut open = fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
                if at == 0 {
                    let header = format!("{{\"type\":\"session\",\"version\":3,\"id\":\"s{file}\",\"cwd\":\"/c\"}}\n");
                    open.write_all(header.as_bytes()).expect("an append");
                }
                let line = searched_line(at, *kind, parent.index(at + 1), text);
                open.write_all(line.as_bytes()).expect("an append");
                lines[file] += 1;
            }
            agree(&repo, &[&fresh, &late], &queries)?;
        }
        let path = root.join(format!("t_{}.jsonl", deleted % 3));
        if path.exists() {
            fs::remove_file(path).expect("a file");
            agree(&repo, &[&fresh, &late], &queries)?;
        }
    }
}

/// The same hits, newest first, with each index and without one; and with a limit the first of these.
fn agree(repo: &Repo, indexes: &[&SearchIndex], queries: &[(String, usize)]) -> Result<(), TestCaseError> {
    for (text, limit) in queries {
        // Signs alone are no query.
        let Ok(query) = Query::words(text) else { continue };
        let all = repo.search_scan(&query, &SearchOptions::default(), &|_| {}).expect("a root").hits;
        prop_assert!(all.is_sorted_by(|a, b| a.timestamp_ms >= b.timestamp_ms), "{}", text);
        let limited = SearchOptions { limit: Some(*limit), ..SearchOptions::default() };
        let first = &all[..all.len().min(*limit)];
        prop_assert_eq!(&repo.search_scan(&query, &limited, &|_| {}).expect("a root").hits, first, "{}", text);
        for index in indexes {
            let found = repo.search_indexed(index, &query, &SearchOptions::default(), &|_| {}).expect("a root").hits;
            prop_assert_eq!(&found, &all, "{}", text);
            let found = repo.search_indexed(index, &query, &limited, &|_| {}).expect("a root").hits;
            prop_assert_eq!(&found, first, "{}", text);
        }
    }
    Ok(())
}

#[test]
fn after_an_append_the_index_reads_only_the_new_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let paths: Vec<_> = (0..4).map(|number| root.join(format!("--c--/t_{number}.jsonl"))).collect();
    paths.iter().for_each(|path| planted(path, 500, &[5]));
    let fs = CountingFs::default();
    let repo = settled_repo(Arc::new(fs.clone()), &root);
    let index = SearchIndex::new(folder.path().join("cache")).adding_from(0);
    let query = Query::words("nowhere").expect("a word");
    let search = || repo.search_indexed(&index, &query, &SearchOptions::default(), &|_| {}).expect("a root").hits;
    assert!(search().is_empty());
    fs.take();
    assert!(search().is_empty());
    assert_eq!(fs.take(), [].into(), "nothing changed and nothing matches, so nothing is read");
    let line = searched_line(500, 0, 0, "nowhere");
    let mut open = std::fs::OpenOptions::new().append(true).open(&paths[2]).expect("a file");
    open.write_all(line.as_bytes()).expect("an append");
    assert_eq!(search().len(), 1);
    let read = fs.take();
    assert_eq!(read.keys().collect::<Vec<_>>(), [&paths[2]], "the others stay closed");
    // The header, what shows that the file is the same, and the new line, for the index and then for the hit.
    assert!(read[&paths[2]] < 12_000, "{read:?}");
}
