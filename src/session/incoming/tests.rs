//! Lines as they come in, and the payloads that go out.

use super::*;
use crate::session::entry::Entry;

const USAGE: &str = r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;

/// Reads one line at the time 7 and shows the payload that it becomes, `type` first.
fn payload(line: &str) -> String {
    let batch = read_incoming(line.as_bytes(), 7).unwrap_or_else(|error| panic!("{error}: {line}"));
    let [incoming] = batch.as_slice() else { panic!("one line, one entry: {line}") };
    let kind = incoming.resolved(&EntryId::from("new"), &|_| None);
    let entry = Entry { id: EntryId::from("i"), parent_id: None, timestamp: "t".into(), kind };
    let text = serde_json::to_string(&entry).expect("an entry can be written");
    text.replace(r#","id":"i","parentId":null,"timestamp":"t""#, "")
}

fn check(line: &str, expect: &str) {
    assert_eq!(payload(line), expect, "{line}");
}

/// A message's line and the message that goes out.
fn check_message(line: &str, expect: &str) {
    let expect = format!(r#"{{"type":"message","message":{expect}}}"#);
    check(line, &expect);
    check(&format!(r#"{{"type":"message","id":"x","parentId":"y","timestamp":"z","message":{line}}}"#), &expect);
}

fn check_refused(line: &str, expect: &str) {
    let error = read_incoming(line.as_bytes(), 7).expect_err(line);
    assert_eq!(error.to_string(), format!("line 1: {expect}"), "{line}");
}

#[test]
fn messages_get_what_pi_needs() {
    check_message(r#"{"role":"user","content":"hi"}"#, r#"{"role":"user","content":"hi","timestamp":7}"#);
    check_message(
        r#"{"role":"user","content":[{"type":"text","text":"a"}],"timestamp":3,"x":1.0}"#,
        r#"{"role":"user","content":[{"type":"text","text":"a"}],"timestamp":3,"x":1.0}"#,
    );
    check_message(
        r#"{"role":"assistant","content":"hi"}"#,
        &format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"hi"}}],"api":"unknown","provider":"unknown","model":"unknown","usage":{USAGE},"stopReason":"stop","timestamp":7}}"#
        ),
    );
    check_message(
        r#"{"role":"toolResult","toolCallId":"c","toolName":"n","content":"out"}"#,
        r#"{"role":"toolResult","toolCallId":"c","toolName":"n","content":[{"type":"text","text":"out"}],"isError":false,"timestamp":7}"#,
    );
    check_message(
        r#"{"role":"bashExecution","command":"ls"}"#,
        r#"{"role":"bashExecution","command":"ls","output":"","timestamp":7}"#,
    );
    check_message(
        r#"{"role":"system","content":[{"type":"text","text":"be kind"}],"sections":{"a":"b"}}"#,
        r#"{"role":"system","content":"be kind","sections":{"a":"b"},"timestamp":7}"#,
    );
}

#[test]
fn null_is_as_good_as_absent_and_no_key_is_written_twice() {
    check_message(
        r#"{"role":"assistant","content":null,"api":null,"provider":null,"model":null,"usage":null,"stopReason":null,"errorMessage":null,"timestamp":null}"#,
        &format!(
            r#"{{"role":"assistant","content":[],"api":"unknown","provider":"unknown","model":"unknown","usage":{USAGE},"stopReason":"stop","timestamp":7}}"#
        ),
    );
    check_message(
        r#"{"role":"toolResult","toolCallId":"c","toolName":null,"isError":null,"usage":null}"#,
        r#"{"role":"toolResult","toolCallId":"c","toolName":"","content":[],"isError":false,"timestamp":7}"#,
    );
    check_message(
        r#"{"role":"bashExecution","command":"ls","output":null,"exitCode":null,"truncated":null}"#,
        r#"{"role":"bashExecution","command":"ls","output":"","timestamp":7}"#,
    );
    check(
        r#"{"type":"usage","kind":null,"usage":{},"note":null}"#,
        &format!(r#"{{"type":"usage","kind":"","provider":"","model":"","usage":{USAGE}}}"#),
    );
    check(r#"{"type":"session_info","name":null}"#, r#"{"type":"session_info"}"#);
}

#[test]
fn an_answer_with_calls_stopped_for_them() {
    let line = r#"{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":null}],"provider":"p"}"#;
    let payload = payload(line);
    assert!(payload.contains(r#""stopReason":"toolUse""#), "{payload}");
    assert!(payload.contains(r#""arguments":{}"#), "{payload}");
    assert!(payload.contains(r#""provider":"p""#), "{payload}");
    let given = payload_of_stop("length");
    assert!(given.contains(r#""stopReason":"length""#), "{given}");
}

fn payload_of_stop(reason: &str) -> String {
    payload(&format!(r#"{{"role":"assistant","content":"x","stopReason":"{reason}"}}"#))
}

#[test]
fn every_usage_has_all_counts_and_a_cost() {
    let usage = r#"{"input":3,"output":4.0,"cacheRead":null,"cost":{"total":0.5},"reasoning":1}"#;
    let whole = r#"{"input":3,"output":4,"cacheRead":0,"cacheWrite":0,"totalTokens":7,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.5},"reasoning":1}"#;
    for line in [
        format!(r#"{{"role":"assistant","content":[],"usage":{usage}}}"#),
        format!(r#"{{"role":"toolResult","toolCallId":"c","usage":{usage}}}"#),
        format!(r#"{{"type":"usage","usage":{usage}}}"#),
        format!(r#"{{"type":"branch_summary","summary":"s","usage":{usage}}}"#),
        format!(r#"{{"type":"compaction","summary":"s","usage":{usage}}}"#),
    ] {
        let payload = payload(&line);
        assert!(payload.contains(&format!(r#""usage":{whole}"#)), "{payload}");
        assert_eq!(payload.matches(r#""usage":"#).count(), 1, "{payload}");
    }
    check_refused(
        r#"{"role":"assistant","usage":7}"#,
        r#""usage" of an assistant message should be an object with counts of tokens"#,
    );
    check_refused(r#"{"role":"assistant","usage":{"input":-1}}"#, r#""input" of "usage" should be a whole number of at least 0"#);
    check_refused(r#"{"role":"assistant","usage":{"cost":1}}"#, r#""cost" of "usage" should be an object"#);
    check_refused(r#"{"role":"assistant","usage":{"cost":{"total":"1"}}}"#, r#""total" of "cost" should be a number"#);
}

#[test]
fn a_custom_message_becomes_an_entry_of_its_own() {
    let expect = r#"{"type":"custom_message","customType":"t","content":"c","display":true,"details":1,"x":2}"#;
    check(r#"{"role":"custom","customType":"t","content":"c","details":1,"timestamp":3,"id":"m","x":2}"#, expect);
    check(r#"{"type":"message","message":{"role":"hookMessage","customType":"t","content":"c","details":1},"x":2}"#, expect);
    check(
        r#"{"type":"custom_message","customType":"t","content":"c","display":false}"#,
        r#"{"type":"custom_message","customType":"t","content":"c","display":false}"#,
    );
}

#[test]
fn entries_lose_their_own_id_parent_and_time() {
    check(
        r#"{"id":"x","type":"model_change","parentId":3,"timestamp":{},"provider":"p","modelId":"m"}"#,
        r#"{"type":"model_change","provider":"p","modelId":"m"}"#,
    );
    check(r#"{"type":"leaf","targetId":null}"#, r#"{"type":"leaf","targetId":null}"#);
    check(r#"{"type":"session_info","name":"n","color":"red"}"#, r#"{"type":"session_info","name":"n","color":"red"}"#);
    check(
        r#"{"type":"context_edit","targetId":"a","replacement":null}"#,
        r#"{"type":"context_edit","targetId":"a","replacement":null}"#,
    );
    // A type is no reason to take a message for an entry.
    check_message(r#"{"type":"message","role":"user","content":"x"}"#, r#"{"role":"user","content":"x","timestamp":7}"#);
}

#[test]
fn entries_of_the_future_are_kept_verbatim() {
    check(
        r#"{"type":"future_thing","id":"x","b":1.50,"a":{"z":[1e3]},"role":"r"}"#,
        r#"{"type":"future_thing","b":1.50,"a":{"z":[1e3]},"role":"r"}"#,
    );
}

#[test]
fn a_compaction_shows_in_pi_and_keeps_nothing_unless_it_says_what() {
    check(
        r#"{"type":"compaction","summary":"s"}"#,
        r#"{"type":"compaction","summary":"s","firstKeptEntryId":"new","tokensBefore":0}"#,
    );
    check(
        r#"{"type":"compaction","id":"me","summary":"s","firstKeptEntryId":"me","tokensBefore":12}"#,
        r#"{"type":"compaction","summary":"s","firstKeptEntryId":"new","tokensBefore":12}"#,
    );
    check(
        r#"{"type":"compaction","summary":"s","retainedTail":[{"role":"user","content":"x"}],"systemMessage":{"role":"system","content":"y","timestamp":1}}"#,
        r#"{"type":"compaction","summary":"s","tokensBefore":0,"retainedTail":[{"role":"user","content":"x","timestamp":7}],"systemMessage":{"role":"system","content":"y","timestamp":1}}"#,
    );
    check_refused(
        r#"{"type":"compaction","summary":"s","tokensBefore":"many"}"#,
        r#""tokensBefore" of a compaction entry should be a number"#,
    );
    check_refused(
        r#"{"type":"compaction","summary":"s","systemMessage":{"role":"user","content":"x"}}"#,
        r#""systemMessage" of a compaction entry should be a system message"#,
    );
}

#[test]
fn what_is_none_of_pis_is_refused() {
    check_refused(r#"{"type":"session","version":3,"id":"a"}"#, "a session header; leave it out, the session has its own");
    check_refused(r#"{"content":"x"}"#, r#"neither a message, which has a "role", nor an entry, which has a "type""#);
    check_refused(
        r#"{"role":"tool","content":"x"}"#,
        r#""tool" is no role; use user, assistant, toolResult, bashExecution, custom or system"#,
    );
    check_refused(
        r#"{"role":"compactionSummary","summary":"x"}"#,
        "messages with the role compactionSummary stand in contexts only; send an entry of the type compaction",
    );
    check_refused(
        r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result"}]}"#,
        r#"block 2 is of the type "tool_result", which a user message cannot hold; use text, image"#,
    );
    check_refused(
        r#"{"role":"user","content":[{"type":"toolCall","id":"c","name":"n"}]}"#,
        r#"block 1 is of the type "toolCall", which a user message cannot hold; use text, image"#,
    );
    check_refused(
        r#"{"role":"assistant","content":[{"type":"text"}]}"#,
        r#"block 1 should be like {"type":"text","text":"..."}"#,
    );
    check_refused(
        r#"{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":"{}"}]}"#,
        r#""arguments" of a toolCall block should be an object"#,
    );
    check_refused(
        r#"{"type":"context_edit","targetId":"a","replacement":{"content":[7]}}"#,
        r#"block 1 is of the type "", which a replacement cannot hold; use text, image, thinking, toolCall"#,
    );
}

#[test]
fn what_is_missing_or_of_another_shape_is_named() {
    check_refused(r#"{"role":"user"}"#, r#"a user message needs "content", a string or an array of blocks"#);
    check_refused(r#"{"role":"user","content":5}"#, r#""content" of a user message should be a string or an array of blocks"#);
    check_refused(
        r#"{"role":"user","content":"x","timestamp":"2026-01-01"}"#,
        r#""timestamp" of a user message should be Unix time in milliseconds, a whole number"#,
    );
    check_refused(r#"{"role":"assistant","model":7}"#, r#""model" of an assistant message should be a string"#);
    check_refused(r#"{"role":"toolResult","content":"x"}"#, r#"a toolResult message needs "toolCallId", a string"#);
    check_refused(r#"{"role":7}"#, r#""role" of a message should be a string"#);
    check_refused(r#"{"type":7}"#, r#""type" of an entry should be a string"#);
    check_refused(r#"{"type":"message"}"#, r#"a message entry needs "message", an object"#);
    check_refused(r#"{"type":"label","label":"x"}"#, r#"a label entry needs "targetId", a string"#);
    check_refused(r#"{"type":"label","targetId":null}"#, r#"a label entry needs "targetId", a string"#);
    check_refused(r#"{"type":"leaf"}"#, r#"a leaf entry needs "targetId", a string or null"#);
    check_refused(
        r#"{"type":"active_tools_change","activeToolNames":[1]}"#,
        r#""activeToolNames" of an active_tools_change entry should be an array of strings"#,
    );
    check_refused(
        r#"{"type":"context_edit","targetId":"a"}"#,
        r#"a context_edit entry needs "replacement", null or an object with "content""#,
    );
}

#[test]
fn lines_are_numbered_as_they_stand_and_blank_ones_skipped() {
    let batch =
        read_incoming(b"\xef\xbb\xbf\n{\"role\":\"user\",\"content\":\"a\"}\r\n \t\r\n{\"role\":\"user\",\"content\":\"b\"}", 7);
    assert_eq!(batch.expect("good lines").iter().map(|incoming| incoming.line).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(read_incoming(b"", 7), Ok(Vec::new()));
    let error = read_incoming(b"{\"role\":\"user\",\"content\":\"a\"}\n\n{\"role\":\"u", 7).expect_err("cut");
    assert_eq!(
        error.to_string(),
        "line 3: not a JSON object (EOF while parsing a string at column 10); send one whole object in each line"
    );
    for bad in [&b"[1]"[..], b"7", b"{", b"{\"role\":\"user\",\"content\":\"a\"} x", b"{\"role\":\"user\",\"content\":\"a\0\"}"] {
        assert!(matches!(read_incoming(bad, 7), Err(IncomingError { line: 1, refusal: Refusal::NotAnObject(_) })), "{bad:?}");
    }
    assert!(matches!(read_incoming(b"{\"role\":\"\xff\"}", 7), Err(IncomingError { line: 1, refusal: Refusal::NotUtf8 })));
}

#[test]
fn what_javascript_writes_is_taken() {
    check_message(
        r#"{"role":"user","content":"half \ud83d"}"#,
        "{\"role\":\"user\",\"content\":\"half \u{fffd}\",\"timestamp\":7}",
    );
    let deep = format!(r#"{{"type":"future","x":{}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
    check(&deep, &deep);
}

/// Which line of the batch is refused for its target, when `a` and `b` exist.
fn refused_target(lines: &[&str]) -> Option<String> {
    let batch = read_incoming(lines.join("\n").as_bytes(), 7).expect("good lines");
    check_targets(&batch, &|id| matches!(id, "a" | "b")).err().map(|error| error.to_string())
}

#[test]
fn targets_have_to_exist_or_stand_before() {
    let user = r#"{"role":"user","content":"x","id":"m1"}"#;
    assert_eq!(refused_target(&[r#"{"type":"label","targetId":"a"}"#, r#"{"type":"leaf","targetId":null}"#]), None);
    assert_eq!(refused_target(&[user, r#"{"type":"label","targetId":"m1"}"#]), None);
    assert_eq!(refused_target(&[r#"{"type":"compaction","id":"k","summary":"s","firstKeptEntryId":"k"}"#]), None);
    assert_eq!(refused_target(&[r#"{"type":"branch_summary","summary":"s","fromId":"gone"}"#]), None);
    assert_eq!(
        refused_target(&[r#"{"type":"label","targetId":"m1"}"#, user]).as_deref(),
        Some(r#"line 1: "targetId" names no entry of the session and no earlier line: m1"#)
    );
    for line in [
        r#"{"type":"label","id":"self","targetId":"self"}"#,
        r#"{"type":"leaf","targetId":"gone"}"#,
        r#"{"type":"context_edit","targetId":"gone","replacement":null}"#,
        r#"{"type":"compaction","summary":"s","firstKeptEntryId":"gone"}"#,
    ] {
        assert!(refused_target(&[user, line]).is_some_and(|error| error.starts_with("line 2: ")), "{line}");
    }
}

#[test]
fn names_of_earlier_lines_follow_to_their_new_ids() {
    let resolved = |line: &str| {
        let batch = read_incoming(line.as_bytes(), 7).expect(line);
        let kind = batch[0].resolved(&EntryId::from("own"), &|id| (id.as_str() == "old").then(|| EntryId::from("new")));
        serde_json::to_string(&Entry { id: "i".into(), parent_id: None, timestamp: String::new(), kind }).expect(line)
    };
    for line in [
        r#"{"type":"label","targetId":"old","x":"old"}"#,
        r#"{"type":"leaf","targetId":"old","fromId":"b"}"#,
        r#"{"type":"leaf","targetId":"a","fromId":"old"}"#,
        r#"{"type":"context_edit","targetId":"old","replacement":null}"#,
        r#"{"type":"branch_summary","summary":"s","fromId":"old"}"#,
        r#"{"type":"compaction","summary":"s","firstKeptEntryId":"old"}"#,
        r#"{"type":"future","targetId":"old"}"#,
    ] {
        assert_eq!(resolved(line).matches(r#"Id":"new""#).count(), 1, "{line}");
    }
    assert!(resolved(r#"{"type":"custom","customType":"t","data":{"targetId":"old"}}"#).contains(r#""targetId":"old""#));
}
