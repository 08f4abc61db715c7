//! Small files, and every fault of each: `line@byte kind`, where the byte counts from the beginning of the line.

use super::*;
use crate::storage::fs::{OpenFor, StdFs};
use crate::storage::jsonl::MARK;
use crate::storage::testing::file;

const HEADER: &str = r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}"#;

fn fs() -> Arc<dyn Fs> {
    Arc::new(StdFs)
}

fn faults_of(bytes: &[u8]) -> Vec<Fault> {
    let (_folder, path) = file("s.jsonl", bytes);
    check_file(&fs(), &path).unwrap_or_else(|error| panic!("{error}"))
}

/// The faults of a file that has these lines behind its header.
fn check_bytes(lines: &[u8], expect: &str) {
    let bytes = [HEADER.as_bytes(), b"\n", lines].concat();
    let starts: Vec<u64> = std::iter::once(0)
        .chain(bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at as u64 + 1))
        .collect();
    let shown = faults_of(&bytes).into_iter().map(|fault| {
        let start = starts[fault.line as usize - 1];
        let behind = match fault.byte_offset - start {
            0 => String::new(),
            behind => format!("@{behind}"),
        };
        let note = if fault.severity() == Severity::Note { "note:" } else { "" };
        format!("{}{behind} {note}{}", fault.line, fault.kind.as_str())
    });
    assert_eq!(shown.collect::<Vec<_>>().join(", "), expect, "{}", String::from_utf8_lossy(lines));
}

fn check(lines: &[&str], expect: &str) {
    check_bytes(lines.join("\n").as_bytes(), expect);
}

fn user(id: &str, parent: &str) -> String {
    message(id, parent, r#"{"role":"user","content":"x"}"#)
}

fn message(id: &str, parent: &str, message: &str) -> String {
    let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"t","message":{message}}}"#)
}

/// An assistant message with these calls.
fn calls(id: &str, parent: &str, ids: &[&str]) -> String {
    let blocks: Vec<_> =
        ids.iter().map(|id| format!(r#"{{"type":"toolCall","id":"{id}","name":"n","arguments":{{}}}}"#)).collect();
    message(id, parent, &format!(r#"{{"role":"assistant","content":[{}],"stopReason":"toolUse"}}"#, blocks.join(",")))
}

fn result(id: &str, parent: &str, call: &str) -> String {
    message(id, parent, &format!(r#"{{"role":"toolResult","toolCallId":"{call}","toolName":"n","content":[]}}"#))
}

fn other(id: &str, parent: &str, rest: &str) -> String {
    let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(r#"{{"type":{rest},"id":"{id}","parentId":{parent},"timestamp":"t"}}"#)
}

#[test]
fn a_clean_file_has_no_faults() {
    check(&[], "");
    check(&[&user("a", "-"), &calls("b", "a", &["c"]), &result("c", "b", "c"), &user("d", "c"), ""], "");
    // No newline at the end, blank lines, and what JavaScript writes.
    check(&[&user("a", "-"), "", " \r", &user("b", "a").replace('x', "\\ud83d \u{2028}")], "");
    // A byte order mark on a line of its own is white space to Pi.
    let mark = [MARK, b"\n", HEADER.as_bytes()].concat();
    assert_eq!(faults_of(&mark), []);
}

#[test]
fn a_byte_order_mark_before_the_header_is_noted() {
    let faults = faults_of(&[MARK, HEADER.as_bytes(), b"\n", user("a", "-").as_bytes()].concat());
    assert_eq!(
        faults.iter().map(|fault| (fault.kind, fault.severity())).collect::<Vec<_>>(),
        [(FaultKind::ByteOrderMark, Severity::Note)]
    );
}

#[test]
fn an_empty_id_is_none() {
    check(&[&user("a", "-"), &user("", "a"), &user("c", "")], "3 missingId");
}

#[test]
fn torn_fused_and_foreign_lines_are_found() {
    check(&[&user("a", "-"), &user("b", "a")[..40]], "3 tornLine");
    check(&[&user("a", "-"), &format!("{}{}", &user("b", "a")[..40], user("c", "a"))], "3 fusedLine");
    check(
        &[&format!("{}{}", user("a", "-"), user("b", "a")), "ole\":", "[1]", "7"],
        "2 fusedLine, 3 notARecord, 4 notARecord, 5 notARecord",
    );
    check(&[&format!("{}\0\0", user("a", "-")), &"\0".repeat(9000), &user("b", "a")], "2 nulBytes, 3 nulBytes");
    check(&[r#"{"id":"a"}"#, r#"{"type":"label"}"#, HEADER], "2 notAnEntry, 3 missingId, 4 secondHeader");
}

#[test]
fn what_a_strict_reader_refuses_is_found() {
    check_bytes(
        &[
            user("a", "-").as_bytes(),
            b"\n",
            &user("b", "a").into_bytes().iter().map(|byte| if *byte == b'x' { 0xff } else { *byte }).collect::<Vec<_>>(),
        ]
        .concat(),
        "3 badUtf8",
    );
    check(&[&user("a", "-").replace('x', "a\u{1}b")], "2 controlCharacter");
    // A tab in a string is no good JSON either.
    check(&[&user("a", "-").replace('x', "a\tb")], "2 controlCharacter");
    check(&[&user("a", "-").replace("\"x\"", "nul")], "2 badJson");
    check(&[&format!(" {}", user("a", "-").replace("\"x\"", "1,,2"))], "2@1 badJson");
}

#[test]
fn ids_and_parents_that_do_not_fit_are_found() {
    check(&[&user("a", "-"), &user("b", "a"), &user("b", "a")], "3 duplicateId");
    check(&[&user("a", "-"), &user("c", "b"), &user("d", "c")], "3 missingParent");
    check(&[&user("x", "y"), &user("y", "x"), &user("z", "y")], "2 cycle");
    check(&[&user("s", "s"), &user("a", "-")], "2 cycle");
    // Told at the first line of the ring, also where the way in is another one.
    check(&[&user("z", "y"), &user("x", "y"), &user("y", "x")], "3 cycle");
    check(&[&user("a", "-"), &user("a", "b"), &user("b", "a")], "2 duplicateId, 3 cycle");
    // A parent may come later.
    check(&[&user("b", "a"), &user("a", "-")], "");
}

#[test]
fn an_entry_that_names_no_parent_is_found() {
    let without = |line: String| line.replace(r#""parentId":null,"#, "");
    check(&[&user("a", "-"), &without(user("b", "-")), &user("c", "b")], "3 missingParent");
    check(&[&user("a", "-"), &user("b", "-").replace("null", "7"), &user("c", "b")], "3 missingParent");
    // Nothing comes before the first entry, and null says that nothing does.
    check(&[&without(user("a", "-")), &user("b", "a"), &user("c", "-")], "");
    let cut = [HEADER, &user("a", "-"), &without(user("b", "-")), &user("c", "b")].join("\n");
    assert_eq!(faults_of(cut.as_bytes())[0].message, "no parent is named, so 2 entries are cut off from what was before");
}

#[test]
fn a_payload_that_says_nothing_is_found() {
    check(&[&other("a", "-", r#""message""#), &message("b", "a", "null")], "2 unreadablePayload, 3 unreadablePayload");
    for unreadable in ["7", "[]", "{}", r#"{"role":7}"#, r#"{"role":"user","content":7}"#, r#"{"role":"toolResult"}"#] {
        check(&[&user("a", "-"), &message("b", "a", unreadable)], "3 unreadablePayload");
    }
    check(
        &[&user("a", "-"), &other("b", "a", r#""compaction""#), &other("c", "b", r#""custom_message","content":7"#)],
        "3 unreadablePayload, 4 unreadablePayload",
    );
    // What a later version may write, and what is not said, is no fault.
    check(
        &[
            &message("a", "-", r#"{"role":"later","content":7}"#),
            &message("b", "a", r#"{"role":"user"}"#),
            &other("c", "b", r#""later""#),
            &other("d", "c", r#""custom_message""#),
            &other("e", "d", r#""model_change""#),
        ],
        "",
    );
}

#[test]
fn cut_off_entries_are_counted() {
    let lines =
        [HEADER.to_owned(), user("c", "gone"), user("d", "c"), user("e", "c"), user("r", "q"), user("q", "r"), user("h", "q")];
    let messages: Vec<_> = faults_of(lines.join("\n").as_bytes()).into_iter().map(|fault| fault.message).collect();
    assert_eq!(
        messages,
        [
            "the parent is not in the file, so 3 entries are cut off from what was before: gone",
            "the parents of 2 entries form a ring; 3 entries have no way to a root"
        ]
    );
}

#[test]
fn what_names_nothing_is_found() {
    check(
        &[
            &user("a", "-"),
            &other("b", "a", r#""label","targetId":"gone","label":"l""#),
            &other("c", "b", r#""label""#),
            &other("d", "c", r#""leaf","targetId":"gone""#),
            &other("e", "c", r#""leaf""#),
            &other("f", "c", r#""context_edit","targetId":"gone","replacement":null"#),
            &other("g", "f", r#""compaction","summary":"s","firstKeptEntryId":"gone""#),
            &other("h", "g", r#""branch_summary","summary":"s","fromId":"gone""#),
            &other("i", "h", r#""leaf","targetId":"h","fromId":"gone""#),
        ],
        "3 danglingLabel, 4 danglingLabel, 5 danglingLeaf, 6 danglingLeaf, 7 danglingContextEdit, 8 danglingFirstKeptEntryId, 9 note:danglingFromId, 10 note:danglingFromId",
    );
    check(
        &[
            &user("a", "-"),
            &other("b", "a", r#""label","targetId":"a","label":"l""#),
            &other("c", "b", r#""context_edit","targetId":"a","replacement":null"#),
            &other("d", "c", r#""compaction","summary":"s","firstKeptEntryId":"d""#),
            &other("e", "d", r#""branch_summary","summary":"s","fromId":"root""#),
            &other("f", "e", r#""compaction","summary":"s""#),
            &other("g", "-", r#""leaf","targetId":null,"fromId":"f""#),
            &other("h", "-", r#""future","targetId":"gone""#),
        ],
        "",
    );
}

#[test]
fn what_a_long_record_names_is_looked_for_too() {
    let compaction = r#""compaction","summary":"s","firstKeptEntryId":"gone""#;
    let long = compaction.replace("\"s\"", &format!("\"{}\"", "s".repeat(MAX_HELD_TWICE)));
    check(&[&user("a", "-"), &other("b", "a", &long)], "3 danglingFirstKeptEntryId");
}

#[test]
fn a_call_is_open_where_the_conversation_goes_on_without_its_result() {
    let start = [user("u", "-"), calls("t", "u", &["c", "d"])];
    let check_calls = |more: &[String], expect: &str| {
        let lines: Vec<_> = start.iter().chain(more).map(String::as_str).collect();
        check(&lines, expect);
    };
    let answered = || vec![result("r1", "t", "c"), result("r2", "r1", "d")];
    let both = "3 note:openCall, 3 note:openCall";
    check_calls(&[], both);
    check_calls(&[result("r1", "t", "c")], "3 note:openCall");
    check_calls(&answered(), "");
    check_calls(&[user("v", "t")], both);
    // Too late: the next answer came before.
    check_calls(&[calls("n", "t", &[]), result("r1", "n", "c")], both);
    // Something between a call and its result is no harm.
    check_calls(&[user("v", "t"), result("r1", "v", "c"), result("r2", "r1", "d"), calls("n", "r2", &[])], "");
    // On another branch the conversation goes on without.
    check_calls(&[answered(), vec![user("v", "t")]].concat(), both);
    check_calls(&[answered(), vec![user("v", "r1")]].concat(), "3 note:openCall");
    // Each branch has its own result.
    check_calls(&[answered(), vec![result("r3", "t", "d"), result("r4", "r3", "c")]].concat(), "");
    // A second result below the first answers nothing for another branch.
    check_calls(&[answered(), vec![result("r3", "r2", "c"), user("v", "t")]].concat(), both);
    // Names and moves are no conversation.
    let aside = [other("l", "t", r#""label","targetId":"t","label":"x""#), other("m", "t", r#""leaf","targetId":"r2""#)];
    check_calls(&[answered(), aside.to_vec()].concat(), "");
    check_calls(&aside[..1], both);
}

#[test]
fn calls_of_failed_answers_need_no_results() {
    for reason in ["error", "aborted"] {
        check(&[&calls("t", "-", &["c"]).replace("toolUse", reason), &user("u", "t")], "");
    }
}

#[test]
fn a_name_that_hangs_elsewhere_is_told_with_the_way_there() {
    let lines = [user("a", "-"), user("b", "a"), other("n", "a", r#""session_info","name":"x""#)];
    check(&lines.each_ref().map(String::as_str), "4 note:strayTail");
    let faults = faults_of([HEADER, &lines.join("\n")].join("\n").as_bytes());
    assert_eq!(
        faults[0].message,
        "this session_info hangs elsewhere than the leaf, b; Pi would go on from here, as `goto n` does"
    );
}

#[test]
fn what_is_around_the_file_is_noted() {
    let header = HEADER.replace(r#""cwd":"/""#, r#""cwd":"/no/such/folder""#);
    let (folder, path) = file("2026-01-01T00-00-00-000Z_other.jsonl", header.as_bytes());
    let kinds = |path: &Path| {
        let faults = check_file(&fs(), path).expect("a session");
        assert!(faults.iter().all(|fault| (fault.line, fault.byte_offset, fault.severity()) == (1, 0, Severity::Note)));
        faults.iter().map(|fault| fault.kind.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(kinds(&path), "cwdGone fileNameDiffers");
    if cfg!(unix) {
        for mode in [0o644, 0o640, 0o604] {
            StdFs.open(&path, OpenFor::Append).expect("the file").set_mode(mode).expect("it is ours");
            assert_eq!(kinds(&path), "loosePermissions cwdGone fileNameDiffers", "{mode:o}");
        }
    }
    for (name, expect) in
        [("----", ""), ("--no-such-folder--", ""), ("--No-Such-Folder--", ""), ("--no-other--", "cwdDiffers "), ("plain", "")]
    {
        let below = folder.path().join(name);
        StdFs.create_dir_all(&below).expect("a folder");
        let path = below.join("x_s.jsonl");
        let file = StdFs.open(&path, OpenFor::CreateNew).expect("a new file");
        file.append(header.as_bytes()).expect("room");
        assert_eq!(kinds(&path), format!("cwdGone {expect}").trim_end(), "{name}");
    }
}

#[test]
fn what_is_no_session_is_an_error() {
    let error = |bytes: &[u8]| {
        let (_folder, path) = file("s.jsonl", bytes);
        check_file(&fs(), &path).expect_err("no session")
    };
    assert!(matches!(error(b""), StorageError::EmptyFile(_)));
    assert!(matches!(error(b"{\"type\":\"event\"}\n"), StorageError::NotASession(_)));
    assert!(matches!(error(b"{\"kind\":\"header\",\"version\":4}\n"), StorageError::Format4(_)));
}

#[test]
fn a_newer_version_is_told_and_is_no_damage() {
    let entry = r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"user","content":"x"}}"#;
    let faults = faults_of(format!("{}\n{entry}\n", HEADER.replace(":3,", ":4,")).as_bytes());
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!((fault.line, fault.kind, fault.severity()), (1, FaultKind::NewerVersion, Severity::Note));
    assert_eq!(fault.message, "version 4 is newer than 3: this session can be read and not changed");
}

#[test]
fn places_in_old_versions_are_those_of_the_file() {
    let header = r#"{"type":"session","id":"s","cwd":"/"}"#;
    let good = r#"{"type":"message","timestamp":"t","message":{"role":"user","content":"x"}}"#;
    let kept = r#"{"type":"compaction","timestamp":"t","summary":"s","firstKeptEntryId":"gone"}"#;
    let bad = r#"{"type":"message","timestamp":"t","message":{"role":"user","content":1,,2}}"#;
    let lines = [header, good, "", "{\"type\":", kept, bad];
    let faults = faults_of(lines.join("\n").as_bytes());
    let start = |line: usize| lines[..line - 1].iter().map(|line| line.len() as u64 + 1).sum::<u64>();
    let places: Vec<_> = faults.iter().map(|fault| (fault.line, fault.byte_offset, fault.kind.as_str())).collect();
    assert_eq!(places, [(4, start(4), "tornLine"), (5, start(5), "danglingFirstKeptEntryId"), (6, start(6), "notARecord")]);
}

#[test]
fn long_chains_bushes_and_many_orphans_take_linear_time() {
    let mut chain = vec![HEADER.to_owned(), calls("0", "-", &["c"])];
    for at in 1..5_000 {
        chain.push(result(&at.to_string(), &(at - 1).to_string(), "c"));
    }
    assert_eq!(faults_of(chain.join("\n").as_bytes()), []);
    let mut bush = vec![HEADER.to_owned(), calls("0", "-", &["c"])];
    bush.extend((1..5_000).map(|at| result(&at.to_string(), "0", "c")));
    assert_eq!(faults_of(bush.join("\n").as_bytes()), []);
    let mut orphans = vec![HEADER.to_owned()];
    orphans.extend((0..5_000).map(|at| user(&at.to_string(), &format!("gone{at}"))));
    assert_eq!(faults_of(orphans.join("\n").as_bytes()).len(), 5_000);
}
