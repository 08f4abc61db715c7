//! Small damaged files, what is done with each, and that what comes out is sound.

use super::*;
use crate::storage::check::{Severity, check_file};
use crate::storage::fs::{OpenFor, StdFs, read_exact_at};
use crate::storage::testing::{file, open};

const HEADER: &str = r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}"#;

fn user(id: &str, parent: &str) -> String {
    let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"t","message":{{"role":"user","content":"{id}"}}}}"#
    )
}

fn other(id: &str, parent: &str, rest: &str) -> String {
    format!(r#"{{"type":{rest},"id":"{id}","parentId":"{parent}","timestamp":"t"}}"#)
}

fn fs() -> Arc<dyn Fs> {
    Arc::new(StdFs)
}

fn read(path: &Path) -> Vec<u8> {
    let file = StdFs.open(path, OpenFor::Read).expect("a file");
    let mut bytes = vec![0; file.metadata().expect("a file").len as usize];
    read_exact_at(&*file, &mut bytes, 0).expect("its bytes");
    bytes
}

/// Repairs a file, and asserts what holds for every repair. Returns `line action` of each action, and the new bytes.
fn repair_bytes(bytes: &[u8]) -> (String, Vec<u8>) {
    let (_folder, path) = file("s.jsonl", bytes);
    let repaired = repair_file(&fs(), &path, IfHeld::Refuse).unwrap_or_else(|error| panic!("{error}"));
    let faults = check_file(&fs(), &path).expect("a session");
    let damage: Vec<_> = faults.iter().filter(|fault| fault.severity() == Severity::Damage).collect();
    let text = String::from_utf8_lossy(bytes);
    assert!(damage.is_empty(), "{text}\n{damage:?}");
    let after = read(&path);
    match &repaired.backup {
        Some(backup) => assert_eq!(read(backup), bytes, "{text}"),
        None => assert_eq!(after, bytes, "{text}"),
    }
    let again = plan_repair(&fs(), &path).expect("a session");
    assert_eq!(again.actions(), [], "{text}");
    let shown = repaired.actions.iter().map(|action| format!("{} {}", action.line, action.kind.as_str()));
    (shown.collect::<Vec<_>>().join(", "), after)
}

/// Repairs a file that has these lines behind its header. `expect` are the lines of the mended file.
fn check(lines: &[&[u8]], actions: &str, expect: &[&str]) {
    let bytes = [HEADER.as_bytes(), b"\n", &lines.join(&b'\n')].concat();
    let (done, after) = repair_bytes(&bytes);
    let after = String::from_utf8(after).expect("UTF-8");
    let shown: Vec<_> = after.lines().skip(1).collect();
    assert_eq!((done.as_str(), shown.as_slice()), (actions, expect), "{}", String::from_utf8_lossy(&bytes));
}

/// The line with the last brace exchanged for these members.
fn with(line: &str, members: &str) -> String {
    format!("{},{members}}}", &line[..line.len() - 1])
}

#[test]
fn a_sound_file_is_left_alone_to_the_byte() {
    for bytes in [
        format!("{HEADER}\n{}\n\n \r\n{}", user("a", "-"), user("b", "a").replace("\"b\"}}", "\"\\ud83d \u{2028}\"}}")),
        format!("\u{feff}\n{HEADER}\r\n{}\r\n", user("a", "-")),
        HEADER.to_owned(),
        "{\"type\":\"session\",\"id\":\"s\",\"cwd\":\"/\"}\n{\"type\":\"message\",\"timestamp\":\"t\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n".to_owned(),
    ] {
        assert_eq!(repair_bytes(bytes.as_bytes()).0, "", "{bytes}");
    }
}

#[test]
fn append_after_an_unterminated_tail_costs_the_torn_record_alone() {
    let (a, b, c) = (user("a", "-"), user("b", "a"), user("c", "a"));
    check(&[a.as_bytes(), &b.as_bytes()[..30]], "3 dropLine", &[&a]);
    check(&[a.as_bytes(), &b.as_bytes()[..30], c.as_bytes()], "3 dropLine", &[&a, &c]);
    check(&[a.as_bytes(), format!("{}{c}", &b[..30]).as_bytes()], "3 splitLine", &[&a, &c]);
    check(&[format!("{a}{b}{}", &c[..20]).as_bytes()], "2 splitLine", &[&a, &b]);
}

#[test]
fn nul_blocks_after_a_power_cut_go_and_the_record_before_them_stays() {
    let (a, b) = (user("a", "-"), user("b", "a"));
    let padded = [a.as_bytes(), &[0; 9000]].concat();
    check(&[&padded, b.as_bytes(), &[0; 140_000]], "2 stripNuls, 4 stripNuls", &[&a, &b]);
}

#[test]
fn stray_tails_and_foreign_lines_go() {
    let a = user("a", "-");
    check(
        &[a.as_bytes(), b"ole\":", b"[1]", b"{\"id\":\"x\"}", HEADER.as_bytes()],
        "3 dropLine, 4 dropLine, 5 dropLine, 6 dropHeader",
        &[&a],
    );
}

#[test]
fn text_around_bad_bytes_and_control_characters_stays() {
    let a = user("a", "-");
    let bad = |with: &[u8]| {
        let at = a.rfind("\"a\"").expect("the content") + 1;
        [&a.as_bytes()[..at], with, &a.as_bytes()[at + 1..]].concat()
    };
    let good = |with: &str| String::from_utf8(bad(with.as_bytes())).expect("UTF-8");
    check(&[&bad(b"x\xff\\ud83dy")], "2 replaceBadBytes", &[&good("x\u{fffd}\\ud83dy")]);
    check(&[&bad(b"x\x01\ty")], "2 escapeControls", &[&good("x\\u0001\\u0009y")]);
    check(&[&bad(b"x\x01\xffy")], "2 replaceBadBytes, 2 escapeControls", &[&good("x\\u0001\u{fffd}y")]);
    check(&[a.replacen("\"id\"", "\x02\"id\"", 1).as_bytes()], "2 escapeControls", &[&a]);
}

#[test]
fn a_record_that_is_no_json_stays_as_text_and_in_the_chain() {
    let (a, c) = (user("a", "-"), user("c", "b"));
    let b = user("b", "a").replace("\"b\"}}", "nul}}");
    let kept = format!(
        r#"{{"type":"custom","id":"b","parentId":"a","timestamp":"t","customType":"repaired:message","data":{}}}"#,
        quote(&b)
    );
    check(&[a.as_bytes(), b.as_bytes(), c.as_bytes()], "3 keepAsCustom", &[&a, &kept, &c]);
}

#[test]
fn entries_without_an_id_get_one_and_a_place() {
    let a = user("a", "-");
    let (none, number, rooted) =
        (r#"{"type":"label","targetId":"a"}"#, r#"{"type":"x","id":7,"parentId":"a"}"#, r#"{"type":"x","parentId":null}"#);
    let bytes = [HEADER, &a, none, number, rooted].join("\n");
    let (done, after) = repair_bytes(bytes.as_bytes());
    assert_eq!(done, "3 giveId, 4 giveId, 5 giveId");
    let (_folder, path) = file("t.jsonl", &after);
    let session = open(&path);
    let tree = session.tree();
    let parents: Vec<_> = tree.iter().map(|index| tree.parent_id(index).map(|id| id.to_string())).collect();
    assert_eq!(parents, [None, Some("a".to_owned()), Some("a".to_owned()), None]);
}

#[test]
fn a_line_that_names_its_id_twice_stays_the_entry_that_it_was() {
    let line = r#"{"type":"custom","customType":"c","id":"b","parentId":"a","id":"a","parentId":"z","timestamp":"t"}"#;
    let a = user("a", "-");
    let one = line.replace(r#""id":"a","parentId":"z""#, r#""id":"b","parentId":"a""#);
    check(&[a.as_bytes(), &[line.as_bytes(), b"\0"].concat()], "3 stripNuls", &[&a, &one]);
}

#[test]
fn a_new_id_is_none_that_something_is_named_by() {
    let without = r#"{"type":"x","timestamp":"t"}"#;
    let (_, after) = repair_bytes([HEADER, &user("a", "-"), without].join("\n").as_bytes());
    let (_folder, path) = file("t.jsonl", &after);
    let session = open(&path);
    let given = session.tree().id(session.tree().leaf().expect("an entry"));
    // What hangs from an entry that was lost must not hang from another one now.
    let lost = user("c", given.as_str());
    let (done, _) = repair_bytes([HEADER, &user("a", "-"), without, &lost].join("\n").as_bytes());
    assert_eq!(done, "3 giveId, 4 rehang");
}

#[test]
fn what_is_done_twice_in_a_line_is_told_once() {
    let odd = |id: &str, parent: &str| user(id, parent).replace(r#""content":""#, "\"content\":\"\u{1}");
    let mended = |id: &str, parent: &str| user(id, parent).replace(r#""content":""#, r#""content":"\u0001"#);
    let fused = odd("a", "-") + &odd("b", "a");
    check(&[fused.as_bytes()], "2 splitLine, 2 escapeControls", &[&mended("a", "-"), &mended("b", "a")]);
    let bad = |line: &str| [&line.as_bytes()[..line.len() - 1], b",\"x\":\"\xff\"}"].concat();
    let both = [bad(&odd("a", "-")), bad(&odd("b", "a"))].concat();
    let lines = [with(&mended("a", "-"), "\"x\":\"\u{fffd}\""), with(&mended("b", "a"), "\"x\":\"\u{fffd}\"")];
    check(&[&both], "2 splitLine, 2 replaceBadBytes, 2 escapeControls", &[&lines[0], &lines[1]]);
}

#[test]
fn a_parent_that_was_never_written_is_bridged_to_the_line_before() {
    let (a, c, d) = (user("a", "-"), user("c", "gone"), user("d", "c"));
    let hung = with(&user("c", "a"), r#""repairedParentId":"gone""#);
    check(&[a.as_bytes(), c.as_bytes(), d.as_bytes()], "3 rehang", &[&a, &hung, &d]);
    let first = with(&user("c", "-"), r#""repairedParentId":"gone""#);
    check(&[c.as_bytes(), d.as_bytes()], "2 rehang", &[&first, &d]);
}

#[test]
fn a_byte_order_mark_before_the_header_is_left_out() {
    let a = user("a", "-");
    for (bytes, expect) in [
        (format!("\u{feff}{HEADER}\r\n{a}"), format!("{HEADER}\r\n{a}")),
        (format!("\u{feff}{HEADER}"), HEADER.to_owned()),
        (format!("\u{feff} {HEADER}\0\n{a}\n"), format!("{HEADER}\n{a}\n")),
    ] {
        let (done, after) = repair_bytes(bytes.as_bytes());
        assert!(done.starts_with("1 dropByteOrderMark"), "{done}");
        assert_eq!(String::from_utf8(after).expect("UTF-8"), expect);
    }
    let old = "\u{feff}{\"type\":\"session\",\"id\":\"s\",\"cwd\":\"/\"}\n{\"type\":\"custom\",\"timestamp\":\"t\",\"customType\":\"c\"}\n";
    let (done, after) = repair_bytes(old.as_bytes());
    assert_eq!((done.as_str(), after.starts_with(b"{\"type\":\"session\"")), ("1 upgrade, 1 dropByteOrderMark", true));
}

#[test]
fn an_empty_id_is_exchanged_where_it_stands_and_where_it_is_named() {
    let (a, c, d) = (user("a", "-"), user("c", ""), user("d", "c"));
    let bytes = [HEADER, &a, &user("", "a"), &c, &d].join("\n");
    let (done, after) = repair_bytes(bytes.as_bytes());
    assert_eq!(done, "3 giveId, 4 rehang");
    let (_folder, path) = file("t.jsonl", &after);
    assert_eq!(open(&path).tree().path(open(&path).tree().leaf()).len(), 4);
    // Of several the last one is meant.
    let bytes = [HEADER, &user("", "-"), &user("", "-"), &c].join("\n");
    let (done, after) = repair_bytes(bytes.as_bytes());
    assert_eq!(done, "2 giveId, 3 giveId, 4 rehang");
    let (_folder, path) = file("t.jsonl", &after);
    let session = open(&path);
    assert_eq!(session.tree().path(session.tree().leaf()), session.tree().iter().skip(1).collect::<Vec<_>>());
}

#[test]
fn an_entry_that_names_no_parent_is_bridged_to_the_line_before() {
    let (a, c) = (user("a", "-"), user("c", "b"));
    let hung = with(&user("b", "-").replace(r#""parentId":null,"#, ""), r#""parentId":"a""#);
    let bare = user("b", "-").replace(r#""parentId":null,"#, "");
    check(&[a.as_bytes(), bare.as_bytes(), c.as_bytes()], "3 rehang", &[&a, &hung, &c]);
    let odd = user("b", "-").replace("null", "[7]");
    let told = with(&user("b", "a"), r#""repairedParentId":"[7]""#);
    check(&[a.as_bytes(), odd.as_bytes(), c.as_bytes()], "3 rehang", &[&a, &told, &c]);
    // Never on what hangs from it; and with nothing before it, it is the root that it was.
    let rooted = with(&bare, r#""parentId":null"#);
    check(&[c.as_bytes(), bare.as_bytes()], "3 rehang", &[&c, &rooted]);
    check(&[bare.as_bytes(), c.as_bytes()], "", &[&bare, &c]);
}

#[test]
fn a_payload_that_says_nothing_becomes_a_custom_entry() {
    let (a, c) = (user("a", "-"), user("c", "b"));
    for (wire_type, b) in [
        ("message", other("b", "a", r#""message""#)),
        ("message", user("b", "a").replace(r#"{"role":"user","content":"b"}"#, "null")),
        ("message", user("b", "a").replace(r#""content":"b""#, r#""content":{"x":1.50}"#)),
        ("compaction", other("b", "a", r#""compaction","summary":7"#)),
        ("custom_message", other("b", "a", r#""custom_message","content":7"#)),
    ] {
        let kept = format!(
            r#"{{"type":"custom","id":"b","parentId":"a","timestamp":"t","customType":"repaired:{wire_type}","data":{b}}}"#
        );
        check(&[a.as_bytes(), b.as_bytes(), c.as_bytes()], "3 keepAsCustom", &[&a, &kept, &c]);
    }
}

#[test]
fn an_orphan_is_never_hung_on_what_hangs_from_it() {
    let (a, e, x, o) = (user("a", "-"), user("e", "x"), user("x", "o"), user("o", "gone"));
    let hung = with(&user("o", "a"), r#""repairedParentId":"gone""#);
    check(&[a.as_bytes(), e.as_bytes(), x.as_bytes(), o.as_bytes()], "5 rehang", &[&a, &e, &x, &hung]);
    let rooted = with(&user("o", "-"), r#""repairedParentId":"gone""#);
    check(&[e.as_bytes(), x.as_bytes(), o.as_bytes()], "4 rehang", &[&e, &x, &rooted]);
}

#[test]
fn parent_cycles_are_cut_at_their_first_line() {
    let (x, y) = (user("x", "y"), user("y", "x"));
    check(&[x.as_bytes(), y.as_bytes()], "2 cutRing", &[&with(&user("x", "-"), r#""repairedParentId":"y""#), &y]);
    // Also where the way into the ring is another line.
    let z = user("z", "y");
    let cut = with(&user("x", "-"), r#""repairedParentId":"y""#);
    check(&[z.as_bytes(), x.as_bytes(), y.as_bytes()], "3 cutRing", &[&z, &cut, &y]);
    let (a, s) = (user("a", "-"), user("s", "s"));
    check(&[a.as_bytes(), s.as_bytes()], "3 cutRing", &[&a, &with(&user("s", "a"), r#""repairedParentId":"s""#)]);
    // The id `a` twice, the second one below b, which hangs from the first.
    let bytes = [HEADER, &user("a", "-"), &user("b", "a"), &user("a", "b").replace("\"a\"}}", "\"z\"}}")].join("\n");
    let (done, after) = repair_bytes(bytes.as_bytes());
    assert_eq!(done, "2 changeId, 3 cutRing");
    let (_folder, path) = file("t.jsonl", &after);
    assert_eq!(open(&path).tree().path(open(&path).tree().leaf()).len(), 3);
}

#[test]
fn of_two_lines_with_one_id_both_stay_readable() {
    let (a, b) = (user("a", "-"), user("a", "-").replace("\"a\"}}", "\"z\"}}"));
    let bytes = [HEADER, &a, &b].join("\n");
    let (done, after) = repair_bytes(bytes.as_bytes());
    let after = String::from_utf8(after).expect("UTF-8");
    let lines: Vec<_> = after.lines().collect();
    assert_eq!((done.as_str(), lines[2]), ("2 changeId", b.as_str()));
    assert!(lines[1].ends_with(r#","message":{"role":"user","content":"a"},"repairedId":"a"}"#), "{}", lines[1]);
    // Written once more, as a migration did that forgot what it had written.
    let c = user("c", "a");
    check(&[a.as_bytes(), c.as_bytes(), a.as_bytes(), c.as_bytes()], "2 dropRepeated, 3 dropRepeated", &[&a, &c]);
}

#[test]
fn what_names_nothing_is_kept_and_does_nothing() {
    let a = user("a", "-");
    for rest in [
        r#""leaf","targetId":"gone""#,
        r#""leaf""#,
        r#""label","targetId":"gone","label":"l""#,
        r#""label""#,
        r#""context_edit","targetId":"gone","replacement":null"#,
    ] {
        let line = other("b", "a", rest);
        let wire_type = rest.split('"').nth(1).expect("a type");
        let kept = format!(
            r#"{{"type":"custom","id":"b","parentId":"a","timestamp":"t","customType":"repaired:{wire_type}","data":{line}}}"#
        );
        check(&[a.as_bytes(), line.as_bytes()], "3 keepAsCustom", &[&a, &kept]);
    }
    let kept_from = |id: &str| other("k", "a", &format!(r#""compaction","summary":"s","firstKeptEntryId":"{id}""#));
    let mended = with(&kept_from("k"), r#""repairedFirstKeptEntryId":"gone""#);
    check(&[a.as_bytes(), kept_from("gone").as_bytes()], "3 keepNothing", &[&a, &mended]);
}

#[test]
fn a_header_gets_its_id_from_the_files_name() {
    let (_folder, path) = file("2026_abc.jsonl", HEADER.replace("\"id\":\"s\",", "").as_bytes());
    let repaired = repair_file(&fs(), &path, IfHeld::Refuse).expect("a session");
    assert_eq!(repaired.actions.len(), 1);
    assert_eq!(open(&path).header().id, "abc");
    assert_eq!(repair_bytes(HEADER.replace("\"s\"", "\"\"").as_bytes()).0, "1 giveSessionId");
}

#[test]
fn a_damaged_header_line_and_what_is_fused_to_it_are_mended() {
    let a = user("a", "-");
    let bytes = format!("{}\0{a}\0\n", HEADER.replace("\"/\"", "\"/\u{1}\""));
    let (done, after) = repair_bytes(bytes.as_bytes());
    assert_eq!(done, "1 splitLine, 1 escapeControls");
    let text = String::from_utf8(after).expect("UTF-8");
    assert_eq!(text.lines().nth(1), Some(a.as_str()));
}

#[test]
fn a_damaged_session_of_an_old_version_is_mended() {
    let good = r#"{"type":"message","timestamp":"t","message":{"role":"user","content":"x"}}"#;
    let kept = r#"{"type":"compaction","timestamp":"t","summary":"s","firstKeptEntryId":"gone"}"#;
    let bytes = [r#"{"type":"session","id":"s","cwd":"/"}"#, good, "{\"type\":", kept, good].join("\n");
    let (done, after) = repair_bytes(bytes.as_bytes());
    assert_eq!(done, "1 upgrade, 3 dropLine, 4 keepNothing");
    let (_folder, path) = file("t.jsonl", &after);
    assert_eq!((open(&path).header().version, open(&path).tree().len()), (3, 3));
    let two = [&HEADER.replace(":3,", ":2,"), &user("a", "-"), r#"{"type":"x"}"#, "{\"type\":"].join("\n");
    assert_eq!(repair_bytes(two.as_bytes()).0, "3 giveId, 4 dropLine");
}

#[test]
fn what_may_not_be_changed_is_refused() {
    let refused = |bytes: &[u8]| {
        let (folder, path) = file("s.jsonl", bytes);
        let error = repair_file(&fs(), &path, IfHeld::Refuse).expect_err("refused");
        assert_eq!(read(&path), bytes);
        assert_eq!(StdFs.read_dir(folder.path()).expect("a folder").len(), 1);
        error
    };
    let newer = HEADER.replace(":3,", ":9,") + "\n{\"type\":";
    assert!(matches!(refused(newer.as_bytes()), StorageError::UnsupportedVersion { version: 9, .. }));
    assert!(matches!(refused(b"{\"type\":\"event\"}\n{"), StorageError::NotASession(_)));
    assert!(matches!(refused(b""), StorageError::EmptyFile(_)));
    let (_folder, path) = file("s.jsonl", format!("{HEADER}\n{{").as_bytes());
    let owner = OwnerLock::take(&fs(), &path, "chat").expect("a free lock");
    assert!(matches!(repair_file(&fs(), &path, IfHeld::Refuse), Err(StorageError::Busy { .. })));
    assert!(repair_file(&fs(), &path, IfHeld::GoOn).expect("a session").backup.is_some());
    drop(owner);
}

#[test]
fn many_orphans_and_nested_ones_take_linear_time() {
    let count = 3_000;
    let mut lines = vec![HEADER.to_owned()];
    lines.extend((0..count).rev().map(|at| user(&format!("f{at}"), &format!("r{at}"))));
    lines.extend((0..count).map(|at| user(&format!("r{at}"), "gone")));
    let (done, _) = repair_bytes(lines.join("\n").as_bytes());
    assert_eq!(done.split(", ").count(), count);
}
