//! Entries of small sessions and sessions of small lists, named in every way.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::storage::fs::StdFs;
use crate::storage::repo::{Layout, NewSession};
use crate::storage::testing::{CountingIds, FixedClock, file, memory_session, open, session};

/// first, an answer, second, an answer; back to the first answer; third, labels.
const SESSION: &str = r#"{"type":"session","version":3,"id":"s"}
{"type":"message","id":"aa000001","parentId":null,"message":{"role":"user","content":"first"}}
{"type":"message","id":"aa000002","parentId":"aa000001","message":{"role":"assistant","content":[]}}
{"type":"message","id":"ab000003","parentId":"aa000002","message":{"role":"user","content":"second"}}
{"type":"message","id":"ac000004","parentId":"ab000003","message":{"role":"assistant","content":[]}}
{"type":"leaf","id":"ad000005","parentId":"aa000002","targetId":"aa000002","fromId":"ac000004"}
{"type":"compaction","id":"tk","parentId":"aa000002","summary":"s","firstKeptEntryId":"tk","tokensBefore":1}
{"type":"message","id":"tail","parentId":"tk","message":{"role":"user","content":"third\u0007\n  line"}}
{"type":"label","id":"l1","parentId":"tail","targetId":"aa000001","label":"here"}
{"type":"label","id":"l2","parentId":"l1","targetId":"ac000004","label":"a~1"}
{"type":"label","id":"l3","parentId":"l2","targetId":"gone","label":"ghost"}
"#;

/// The entry that `text` means in [`SESSION`] with these further lines, or the error and its candidates.
fn check_with(more: &str, text: &str, expect: &str) {
    let (_folder, path) = file("s.jsonl", format!("{SESSION}{more}").as_bytes());
    let session = session(open(&path));
    let shown = match resolve_entry(&session, text) {
        Ok(index) => session.tree().id(index).to_string(),
        Err(error) => {
            let candidates = error.candidates().iter().map(|one| format!("\n{} {}", one.name, one.text));
            format!("{error}{}", candidates.collect::<String>())
        }
    };
    assert_eq!(shown, expect, "{text}");
}

fn check(text: &str, expect: &str) {
    check_with("", text, expect);
}

#[test]
fn entries_are_named_by_place_id_label_and_turn() {
    check("@leaf", "l3");
    check("@prev", "ac000004");
    check("aa000002", "aa000002");
    check("here", "aa000001");
    check("t1", "aa000001");
    // The second of the active path, beyond a compaction; the other branch does not count.
    check("t2", "tail");
    check("ab", "ab000003");
    check("tai", "tail");
}

#[test]
fn steps_go_towards_the_root() {
    check("@leaf~3", "tail");
    check("t2~", "tk");
    check("t2~~", "aa000002");
    check("t2~2~1", "aa000001");
    check("here~0", "aa000001");
    check("@prev~1", "ab000003");
    check("here~", "here~ is beyond the root, which is 0 steps away");
    check("t2~99999999999999999999999", "t2~99999999999999999999999 is beyond the root, which is 3 steps away");
    // A label that ends like a step means itself.
    check("a~1", "ac000004");
    check("a~1~1", "ab000003");
}

#[test]
fn the_forms_are_tried_in_order() {
    let label = |target: &str, label: &str| {
        format!(r#"{{"type":"label","id":"m{target}","parentId":"l3","targetId":"{target}","label":"{label}"}}"#)
    };
    check_with(&label("tail", "t1"), "t1", "tail");
    check_with(&label("tail", "aa000001"), "aa000001", "aa000001");
    check_with(&label("tail", "ab"), "ab", "tail");
    check_with(&label("tail", "@leaf"), "@leaf", "mtail");
    check_with(&label("aa000001", ""), "here", "there is no entry \"here\"\nt1 user: first\nt2 user: third line");
    check_with(r#"{"type":"message","id":"t9","parentId":null,"message":{"role":"user"}}"#, "t9~0", "t9");
}

#[test]
fn what_means_several_entries_is_told_with_all_of_them() {
    check(
        "a",
        "\"a\" is ambiguous: 5 entries\naa000001 user: first\naa000002 assistant\nab000003 user: second\nac000004 assistant\nad000005 leaf: aa000002",
    );
    check("aa~1", "\"aa\" is ambiguous: 2 entries\naa000001 user: first\naa000002 assistant");
    let twice = r#"{"type":"label","id":"l4","parentId":"l3","targetId":"tail","label":"here"}"#;
    check_with(twice, "here", "\"here\" is ambiguous: 2 entries\naa000001 user: first\ntail user: third line");
}

#[test]
fn what_means_no_entry_is_told_with_the_user_messages() {
    let turns = "\nt1 user: first\nt2 user: third line";
    for (text, base) in [("zz", "zz"), ("", ""), ("~1", ""), ("ghost", "ghost"), ("@leaf ", "@leaf "), ("HERE~2", "HERE")] {
        check(text, &format!("there is no entry {base:?}{turns}"));
    }
    check("t3", "there is no t3: the active path has 2 user messages");
    check("t0", "there is no t0: the active path has 2 user messages");
    let empty = memory_session();
    assert!(matches!(resolve_entry(&empty, "@leaf"), Err(ReferenceError::NoLeaf)));
    assert!(matches!(resolve_entry(&empty, "@prev"), Err(ReferenceError::NoPreviousLeaf)));
    assert!(matches!(resolve_entry(&empty, ""), Err(ReferenceError::UnknownEntry { .. })));
}

#[test]
fn one_line_has_no_control_characters_and_no_more_than_asked_for() {
    assert_eq!(one_line(" a\u{1b}[31m \n\t b ", 60), "a[31m b");
    assert_eq!(one_line("abcdef", 6), "abcdef");
    assert_eq!(one_line("abcdefg", 6), "abcdef…");
    assert_eq!(one_line("ab cdef", 3), "ab…");
    assert_eq!(one_line("日本語", 2), "日本…");
}

/// Sessions as `id cwd name`, `-` for no name, newest first; one without a conversation has a `!` before its id.
fn list(text: &str) -> Vec<SessionSummary> {
    let session = |line: &str| {
        let [id, cwd, name] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("three words: {line}") };
        SessionSummary {
            path: Path::new("/r").join(format!("{cwd}-{id}.jsonl")),
            id: id.trim_start_matches('!').to_owned(),
            cwd: cwd.to_owned(),
            name: (name != "-").then(|| name.to_owned()),
            has_conversation: !id.starts_with('!'),
            ..SessionSummary::default()
        }
    };
    text.lines().map(session).collect()
}

/// Which session `text` means for somebody in `a`: its path, or the error.
fn check_session(sessions: &str, text: Option<&str>, expect: &str) {
    let sessions = list(sessions);
    let shown = match pick_session(&sessions, &|session| session.cwd == "a", text) {
        Ok(session) => session.path.file_stem().expect("a name").to_string_lossy().into_owned(),
        Err(error) => {
            let candidates = error.candidates().iter().map(|one| format!("; {} {}", one.name, one.text));
            format!("{error}{}", candidates.collect::<String>())
        }
    };
    assert_eq!(shown, expect, "{text:?}");
}

#[test]
fn sessions_are_named_by_id_name_and_prefix_here_first() {
    let sessions = "!11aa a -\n11bb a one\n22cc a 11bb\n22dd b one\n22ee b two\n33ff b 22\n22cc b -";
    check_session(sessions, None, "a-11bb");
    check_session(sessions, Some("@last"), "a-11bb");
    check_session(sessions, Some("11aa"), "a-!11aa");
    // An id comes before a name, a name before a prefix, and here before elsewhere.
    check_session(sessions, Some("11bb"), "a-11bb");
    check_session(sessions, Some("one"), "a-11bb");
    check_session(sessions, Some("two"), "b-22ee");
    check_session(sessions, Some("22"), "b-33ff");
    check_session(sessions, Some("22c"), "a-22cc");
    check_session(sessions, Some("33"), "b-33ff");
    check_session("11 b -", None, "there is no session with a message in this folder");
}

#[test]
fn what_means_several_sessions_or_none_is_told_with_candidates() {
    check_session("11aa a one\n11bb a -\n11cc b -", Some("11"), "\"11\" is ambiguous: 2 sessions; 11aa one; 11bb ");
    check_session("11aa b x\n11bb c x", Some("x"), "\"x\" is ambiguous: 2 sessions; 11aa x; 11bb x");
    check_session("11 b x\n11 c y", Some("11"), "\"11\" is ambiguous: 2 sessions; /r/b-11.jsonl x; /r/c-11.jsonl y");
    check_session("11 a Refactor\n22 a -\n33 b -", Some("fact"), "there is no session \"fact\"; 11 Refactor");
    check_session("11 a Refactor\n22 a -\n33 b -", Some("zz"), "there is no session \"zz\"; 11 Refactor; 22 ");
    check_session("11 a -", Some(""), "there is no session \"\"; 11 ");
}

#[test]
fn sessions_are_found_in_a_folder_by_path_id_and_prefix() {
    let root = tempfile::tempdir().expect("a folder");
    let fs = Arc::new(StdFs);
    let repo = Repo::new(fs, Arc::new(FixedClock), Arc::new(CountingIds::default()), root.path().to_owned(), Layout::Nested);
    let cwd = root.path().to_string_lossy().into_owned();
    let created = repo.create(NewSession { cwd: cwd.clone(), ..NewSession::default() }).expect("a session");
    let path = created.read().path().expect("a file").to_owned();
    let found = |text: Option<&str>| resolve_session(&repo, &cwd, text).map_err(|error| error.to_string());
    assert_eq!(found(Some("session-1")), Ok(path.clone()));
    assert_eq!(found(Some("sess")), Ok(path.clone()));
    assert_eq!(found(Some(&path.to_string_lossy())), Ok(path.clone()));
    assert_eq!(found(Some("gone.jsonl")), Err("there is no file gone.jsonl".to_owned()));
    assert_eq!(found(Some("./session-1")), Err("there is no file ./session-1".to_owned()));
    assert_eq!(found(None), Err("there is no session with a message in this folder".to_owned()));
    let mut created = created;
    created
        .append(vec![EntryKind::message(crate::session::message::Message::user("hi", 1))], crate::storage::Durability::Synced)
        .expect("room");
    assert_eq!(found(None), Ok(path.clone()));
    let elsewhere = resolve_session(&repo, "/elsewhere", None).map_err(|error| error.to_string());
    assert_eq!(elsewhere, Err("there is no session with a message in this folder".to_owned()));
    assert_eq!(resolve_session(&repo, "/elsewhere", Some("sess")).map_err(|error| error.to_string()), Ok(path));
}

#[test]
fn labels_that_no_reference_finds_or_that_hide_another_are_told() {
    let (_folder, path) = file("s.jsonl", SESSION.as_bytes());
    let session = session(open(&path));
    let at = |id: &str| session.tree().find(id).expect("it is there");
    let trouble = |label: &str, target: &str| label_trouble(&session, label, at(target)).expect("it can be read");
    for label in ["@leaf", " @prev ", "aa000001"] {
        assert_eq!(trouble(label, "tail"), Some(LabelTrouble::NeverFound), "{label}");
    }
    assert_eq!(trouble("t1", "tail"), Some(LabelTrouble::Hides(at("aa000001"))));
    assert_eq!(trouble("t2~", "tail"), Some(LabelTrouble::Hides(at("tk"))));
    // These mean nothing else, or the same, or are labels already.
    for (label, target) in
        [("plain", "tail"), ("t9", "tail"), ("t2", "tail"), ("tail", "tail"), ("a~1", "tail"), ("x~1", "tail"), ("@last", "tail")]
    {
        assert_eq!(trouble(label, target), None, "{label}");
    }
}
