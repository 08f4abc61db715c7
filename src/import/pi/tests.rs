//! What becomes of Pi's files from elsewhere.

use crate::import::ImportedSession;
use crate::import::pi::Pi;

fn check(lines: &[&str], expect: &str) -> ImportedSession {
    crate::import::tests::check(&Pi, "/old/x.jsonl", lines, expect)
}

#[test]
fn version_2_without_a_header_is_read_as_what_it_is() {
    check(
        &[
            r#"{"type":"message","id":"a","parentId":null,"timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"hookMessage","customType":"t","content":"note"}}"#,
            r#"{"type":"message","id":"b","parentId":"a","timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"assistant","content":"old answer"}}"#,
            r#"{"type":"future","id":"c","parentId":"b","timestamp":"2025-01-01T00:00:00.000Z","x":[1.50]}"#,
        ],
        "
        1 <- custom note
        2 <1 assistant old answer (unknown, stop, 0 tokens)
        3 <2 future
        ",
    );
}

#[test]
fn version_1_becomes_a_chain_and_keeps_what_its_compaction_kept() {
    let session = check(
        &[
            r#"{"type":"session","id":"s1","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/d","branchedFrom":"/p.jsonl"}"#,
            r#"{"type":"message","timestamp":"2025-01-01T00:00:01.000Z","message":{"role":"user","content":"one"}}"#,
            r#"{"type":"message","timestamp":"2025-01-01T00:00:02.000Z","message":{"role":"user","content":"two"}}"#,
            r#"{"type":"compaction","timestamp":"2025-01-01T00:00:03.000Z","summary":"sum","firstKeptEntryIndex":2,"tokensBefore":1}"#,
        ],
        "
        1 <- user one
        2 <1 user two
        3 <2 compaction from 2: sum
        ",
    );
    assert_eq!((session.cwd.as_str(), session.source_parent.as_deref()), ("/d", Some("/p.jsonl")));
    assert_eq!((session.id, session.created_ms), (None, Some(1_735_689_600_000)));
}

#[test]
fn what_names_nothing_is_mended_or_kept() {
    check(
        &[
            r#"{"type":"session","version":3,"id":"s","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/d"}"#,
            r#"{"type":"message","id":"a","parentId":"gone","timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":"one"}}"#,
            r#"{"type":"label","id":"l","parentId":"a","timestamp":"2025-01-01T00:00:00.000Z","targetId":"gone","label":"x"}"#,
            r#"{"type":"leaf","id":"f","parentId":"a","timestamp":"2025-01-01T00:00:00.000Z","targetId":"gone"}"#,
            r#"{"type":"compaction","id":"c","parentId":"a","timestamp":"2025-01-01T00:00:00.000Z","summary":"s","firstKeptEntryId":"gone","tokensBefore":1}"#,
            r#"{"type":"message","id":"x","parentId":"y","timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":"round"}}"#,
            r#"{"type":"message","id":"y","parentId":"x","timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":"and round"}}"#,
            r#"{"type":"message","id":"t","parentId":"a","timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":"first"}}"#,
            r#"{"type":"message","id":"t","parentId":"a","timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":"second"}}"#,
            r#"{"no":"entry"}"#,
        ],
        "
        1 <- user one
        2 <1 kept labelWithoutTarget
        3 <1 kept leafWithoutTarget
        4 <1 compaction from 4: s
        5 <- user round
        6 <5 user and round
        7 <1 kept earlierLineOfId
        8 <1 user second
        9 <8 kept noEntry
        damage 0: entry a: its parent does not exist; it is a root now
        damage 0: entry x: it is its own ancestor; it is a root now
        ",
    );
}

#[test]
fn what_pi_cannot_open_is_kept_and_not_passed_on() {
    check(
        &[
            r#"{"type":"session","version":3,"id":"s","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/d"}"#,
            r#"{"type":"message","id":"a","timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":"one"}}"#,
            r#"{"type":"message","id":"b","parentId":"a","timestamp":"2025-01-01T00:00:00.000Z"}"#,
            r#"{"type":"message","id":"c","parentId":"b","timestamp":"2025-01-01T00:00:00.000Z","message":null}"#,
            r#"{"type":"compaction","id":"d","parentId":"c","timestamp":"2025-01-01T00:00:00.000Z"}"#,
            r#"{"type":"message","id":"e","timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":"two"}}"#,
            r#"{"type":"message","id":"f","parentId":7,"timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":"three"}}"#,
            r#"{"type":"message","id":"g","parentId":null,"timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":"four"}}"#,
        ],
        "
        1 <- user one
        2 <1 kept messageWithoutPayload
        3 <2 kept messageWithoutPayload
        4 <3 kept compactionWithoutPayload
        5 <4 user two
        6 <5 user three
        7 <- user four
        damage 0: entry e: it names no parent; it hangs from the entry before it
        damage 0: entry f: it names no parent; it hangs from the entry before it
        ",
    );
}

#[test]
fn blocks_of_another_shape_become_text() {
    let session = check(
        &[
            r#"{"type":"session","version":3,"id":"s","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/d"}"#,
            r#"{"type":"message","id":"a","parentId":null,"timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"user","content":[{"type":"text"},null,{"type":"later","x":1}]}}"#,
            r#"{"type":"message","id":"b","parentId":"a","timestamp":"2025-01-01T00:00:00.000Z","message":{"role":"assistant","content":[{"type":"toolCall","name":"ls"}]}}"#,
        ],
        "
        1 <- user {\"type\":\"text\"} | null | {\"type\":\"later\",\"x\":1}
        2 <1 assistant {\"type\":\"toolCall\",\"name\":\"ls\"} (unknown, stop, 0 tokens)
        ",
    );
    let blocks = session.entries[0].message().and_then(|message| message.content()).expect("its content").to_blocks();
    let are_text: Vec<_> = blocks.iter().map(|block| block.as_text().is_some()).collect();
    assert_eq!(are_text, [true, true, false], "a block of a type that is unknown stays");
}

#[test]
fn a_newer_version_is_refused() {
    let session = check(
        &[r#"{"type":"session","version":4,"id":"s","timestamp":"t","cwd":"/d"}"#, r#"{"type":"message","id":"a"}"#],
        "damage 1: version 4 is newer than 3",
    );
    assert!(session.entries.is_empty());
}
