//! Tests of the report over sessions that were counted by hand.

use super::*;
use crate::session::json::Fields;
use crate::session::tree::EntryHead;

/// A usage of 1, 2, 3 and 4 tokens for a quarter.
const USAGE: &str = r#"{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":99,"cost":{"total":0.25}}"#;

/// An entry of a fork family: `id parent minute payload`; the payload says which day if it is not the first.
type Line<'a> = (&'a str, &'a str, &'a str, &'a str);

fn session(id: &str, cwd: &str, lines: &[Line<'_>]) -> SessionUsage {
    let header = Header { id: id.to_owned(), cwd: cwd.to_owned(), ..Header::default() };
    let mut tree = SessionTree::default();
    let mut fold = SessionUsageFold::default();
    for (id, parent, time, payload) in lines {
        let payload = payload.replace("USAGE", USAGE);
        let entry = Entry {
            id: EntryId::from(*id),
            parent_id: (!parent.is_empty()).then(|| EntryId::from(*parent)),
            timestamp: format!("2026-11-{time}:00.000Z"),
            kind: EntryKind::read(Fields::parse(&payload).expect(&payload)),
        };
        tree.push(EntryHead::of(&entry)).expect("room");
        fold.add(Some(&entry));
    }
    fold.finish(&header, &tree)
}

const MODEL: &str = r#"{"type":"model_change","provider":"p","modelId":"m1"}"#;
const ASK: &str = r#"{"type":"message","message":{"role":"user","content":"u"}}"#;
const ANSWER: &str =
    r#"{"type":"message","message":{"role":"assistant","content":[],"provider":"p","model":"m1","usage":USAGE}}"#;
const CALL: &str = r#"{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"read"},{"type":"toolCall","id":"2","name":"bash"}],"provider":"p","model":"m2","usage":USAGE}}"#;
const READ: &str = r#"{"type":"message","message":{"role":"toolResult","toolCallId":"1","toolName":"read","isError":false}}"#;
const BASH: &str =
    r#"{"type":"message","message":{"role":"toolResult","toolCallId":"2","toolName":"bash","isError":true,"usage":USAGE}}"#;
const COMPACTION: &str = r#"{"type":"compaction","summary":"s","usage":USAGE}"#;
const SUMMARY: &str = r#"{"type":"branch_summary","summary":"s","fromId":"x","usage":USAGE}"#;

/// Two branches: `m - u1 - a1` goes on with `u2 - c1 - r1 - r2 - k`, and with `s - u3`.
const PARENT: [Line<'_>; 10] = [
    ("m", "", "29T23:50", MODEL),
    ("u1", "m", "29T23:58", ASK),
    ("a1", "u1", "29T23:59", ANSWER),
    ("u2", "a1", "30T00:01", ASK),
    ("c1", "u2", "30T00:02", CALL),
    ("r1", "c1", "30T00:03", READ),
    ("r2", "c1", "30T00:07", BASH),
    ("k", "r2", "30T00:20", COMPACTION),
    ("s", "a1", "30T00:21", SUMMARY),
    ("u3", "s", "30T00:30", ASK),
];

/// A copy of the first three, and one turn more.
const FORK: [Line<'_>; 5] = [PARENT[0], PARENT[1], PARENT[2], ("u9", "a1", "30T01:00", ASK), ("a9", "u9", "30T01:01", ANSWER)];

fn line(totals: &Totals) -> String {
    let Tokens { input, output, cache_read, cache_write } = totals.tokens;
    format!(
        "{}s {}m {}p {}t {}c {}f {}k {}b {input}+{output}+{cache_read}+{cache_write} ${} {}min",
        totals.sessions,
        totals.messages,
        totals.prompts,
        totals.turns,
        totals.tool_calls,
        totals.tool_failures,
        totals.compactions,
        totals.branches,
        totals.cost,
        totals.active_ms / 60_000
    )
}

fn report(by: Option<GroupBy>, since_ms: Option<i64>, sessions: &[SessionUsage]) -> Usage {
    let mut report = UsageReport::new(by, since_ms);
    sessions.iter().for_each(|session| report.add(session, Wanted::Counted));
    report.finish()
}

fn check(by: GroupBy, sessions: &[SessionUsage], expect: &[&str]) {
    let usage = report(Some(by), None, sessions);
    let lines: Vec<_> = usage.groups.iter().map(|group| format!("{}: {}", group.key, line(&group.totals))).collect();
    assert_eq!(lines, expect, "{by:?}");
}

fn family() -> [SessionUsage; 2] {
    [session("parent", "/a", &PARENT), session("fork", "/b", &FORK)]
}

#[test]
fn a_session_comes_to_what_was_counted_by_hand() {
    let usage = report(None, None, &[session("parent", "/a", &PARENT)]);
    // Five usages. Three ends: r1, k and u3. Gaps: 1 + 2 + 1 + 1 + 4; 23 minutes are a pause.
    assert_eq!(line(&usage.total), "1s 7m 3p 2t 2c 1f 1k 3b 5+10+15+20 $1.25 9min");
    assert_eq!((usage.copies, usage.groups), (0, vec![]));
}

#[test]
fn what_a_fork_copied_counts_once() {
    let [parent, fork] = family();
    let usage = report(None, None, &[parent.clone(), fork.clone(), fork.clone()]);
    assert_eq!(line(&usage.total), "2s 9m 4p 3t 2c 1f 1k 4b 6+12+18+24 $1.5 10min");
    // Two messages of the first copy, and all four of the second.
    assert_eq!(usage.copies, 6);
    // Whichever comes first, the whole is the same, but for an end that is none in the other.
    let turned = report(None, None, &[fork, parent]).total;
    assert_eq!(line(&turned), line(&usage.total));
}

#[test]
fn a_session_that_is_not_wanted_still_has_what_others_copied() {
    let [parent, fork] = family();
    let mut report = UsageReport::new(None, None);
    report.add(&parent, Wanted::OnlySeen);
    report.add(&fork, Wanted::Counted);
    let usage = report.finish();
    assert_eq!((line(&usage.total), usage.copies), ("1s 2m 1p 1t 0c 0f 0k 1b 1+2+3+4 $0.25 1min".to_owned(), 2));
}

#[test]
fn groups_add_up() {
    check(
        GroupBy::Day,
        &family(),
        &["2026-11-29: 1s 2m 1p 1t 0c 0f 0k 0b 1+2+3+4 $0.25 1min", "2026-11-30: 2s 7m 3p 2t 2c 1f 1k 4b 5+10+15+20 $1.25 9min"],
    );
    // The compaction belongs to the model of its branch, the summary and what follows it to the one before.
    check(
        GroupBy::Model,
        &family(),
        &["p/m2: 1s 3m 0p 1t 2c 1f 1k 2b 3+6+9+12 $0.75 6min", "p/m1: 2s 6m 4p 2t 0c 0f 0k 2b 3+6+9+12 $0.75 4min"],
    );
    check(
        GroupBy::Project,
        &family(),
        &["/a: 1s 7m 3p 2t 2c 1f 1k 3b 5+10+15+20 $1.25 9min", "/b: 1s 2m 1p 1t 0c 0f 0k 1b 1+2+3+4 $0.25 1min"],
    );
    check(
        GroupBy::Session,
        &family(),
        &["parent: 1s 7m 3p 2t 2c 1f 1k 3b 5+10+15+20 $1.25 9min", "fork: 1s 2m 1p 1t 0c 0f 0k 1b 1+2+3+4 $0.25 1min"],
    );
    check(
        GroupBy::Tool,
        &family(),
        &["bash: 1s 1m 0p 0t 1c 1f 0k 0b 1+2+3+4 $0.25 0min", "read: 1s 1m 0p 0t 1c 0f 0k 0b 0+0+0+0 $0 0min"],
    );
}

#[test]
fn a_time_leaves_out_what_was_before() {
    let since_ms = crate::session::entry::parse_timestamp_ms("2026-11-30T00:20:00.000Z");
    let usage = report(None, since_ms, &family());
    assert_eq!(line(&usage.total), "2s 3m 2p 1t 0c 0f 1k 3b 3+6+9+12 $0.75 1min");
}

#[test]
fn answers_are_told_apart_also_where_a_server_gives_one_id_to_all() {
    let answer = |time: u64, output: u64| {
        format!(
            r#"{{"type":"message","message":{{"role":"assistant","content":[],"provider":"p","model":"m","responseId":"r-1","usage":{{"output":{output}}},"timestamp":{time}}}}}"#
        )
    };
    let (one, other, later) = (answer(1, 5), answer(1, 6), answer(2, 5));
    let a = session("a", "/a", &[("x", "", "30T01:00", &one), ("y", "x", "30T01:01", &other), ("z", "y", "30T01:02", &later)]);
    // A copy with another id and time of its own.
    let b = session("b", "/a", &[("q", "", "30T05:00", &one)]);
    let usage = report(None, None, &[a, b]);
    assert_eq!((usage.total.turns, usage.total.tokens.output, usage.copies), (3, 16, 1));
}

#[test]
fn an_entry_counts_no_more_when_a_later_one_has_its_id() {
    let usage = report(None, None, &[session("a", "/a", &[("x", "", "30T01:00", ASK), ("x", "", "30T01:01", ANSWER)])]);
    assert_eq!(line(&usage.total), "1s 1m 0p 1t 0c 0f 0k 1b 1+2+3+4 $0.25 0min");
}
