//! Contexts, from sessions as little texts. Each word is a line; it hangs from the line before, or from the entry
//! behind `<` (`-`: none). A `!` before it damages its line. What a word begins with tells what it is:
//!
//! ```text
//! u a b s c BS     user, assistant, bash, system, custom_message, branch_summary; the id is the text
//! e                a user message without content
//! tc1 tr1          an assistant message that calls 1, and the result of 1
//! K(u1) K[] K[t]   a compaction that keeps from u1, an empty retained tail, a retained tail of one user message
//! KS(u1)           one with a system message
//! E(u1) E(u1=t)    a context_edit that removes u1, or replaces its content by the string t; E(u1=[t]) by a block
//! M(p/m) T(high) A(read,bash)   model, thinking level, active tools
//! x lab n f        custom, label, session_info, a type of the future
//! l>u1             a leaf entry
//! ```

use std::cell::RefCell;

use super::*;
use crate::session::json::Fields;
use crate::session::tree::EntryHead;

/// A session in memory that notes which of its entries were read.
struct Session {
    tree: SessionTree,
    entries: Vec<Option<Entry>>,
    read: RefCell<Vec<String>>,
}

impl EntrySource for Session {
    type Error = std::convert::Infallible;

    fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, Self::Error> {
        self.read.borrow_mut().push(self.tree.id(index).to_string());
        Ok(self.entries[index.get()].clone())
    }
}

fn payload(word: &str) -> String {
    let (name, argument) = match word.find(['(', '[', '>']) {
        Some(at) => (&word[..at], word[at + 1..].trim_end_matches(')')),
        None => (word, ""),
    };
    let kind = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let number = &name[kind.len()..];
    let message = |fields: String| format!(r#"{{"type":"message","message":{{{fields}}}}}"#);
    match kind {
        "u" => message(format!(r#""role":"user","content":"{name}""#)),
        "e" => message(r#""role":"user""#.to_owned()),
        "a" => message(format!(
            r#""role":"assistant","content":[{{"type":"text","text":"{name}"}}],"provider":"of","model":"{name}""#
        )),
        "tc" => message(format!(
            r#""role":"assistant","content":[{{"type":"toolCall","id":"{number}","name":"read","arguments":{{}}}}]"#
        )),
        "tr" => message(format!(
            r#""role":"toolResult","toolCallId":"{number}","toolName":"read","content":[{{"type":"text","text":"{name}"}}]"#
        )),
        "b" => message(format!(r#""role":"bashExecution","command":"{name}","output":"out""#)),
        "s" => message(format!(r#""role":"system","content":"{name}""#)),
        "c" => format!(r#"{{"type":"custom_message","customType":"t","content":"{name}"}}"#),
        "BS" => format!(r#"{{"type":"branch_summary","fromId":"u9","summary":"{name}"}}"#),
        "BSempty" => r#"{"type":"branch_summary","fromId":"u9","summary":""}"#.to_owned(),
        "K" | "KS" => {
            let kept = match word.strip_prefix(name).and_then(|rest| rest.chars().next()) {
                Some('[') => match argument.trim_end_matches(']') {
                    "" => r#","retainedTail":[]"#.to_owned(),
                    text => format!(r#","retainedTail":[{{"role":"user","content":"{text}"}}],"firstKeptEntryId":"u1""#),
                },
                Some(_) => format!(r#","firstKeptEntryId":"{argument}""#),
                None => String::new(),
            };
            let system = r#","systemMessage":{"role":"system","content":"state"}"#;
            let system = if kind == "KS" { system } else { "" };
            format!(r#"{{"type":"compaction","summary":"{name}","tokensBefore":9{kept}{system}}}"#)
        }
        "E" => {
            let (target, replacement) = match argument.split_once('=') {
                None => (argument, "null".to_owned()),
                Some((target, text)) => match text.strip_prefix('[') {
                    None => (target, format!(r#"{{"content":"{text}"}}"#)),
                    Some(text) => {
                        let text = text.trim_end_matches(']');
                        (target, format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#))
                    }
                },
            };
            format!(r#"{{"type":"context_edit","targetId":"{target}","replacement":{replacement}}}"#)
        }
        "M" => {
            let (provider, model) = argument.split_once('/').expect(word);
            format!(r#"{{"type":"model_change","provider":"{provider}","modelId":"{model}"}}"#)
        }
        "T" => format!(r#"{{"type":"thinking_level_change","thinkingLevel":"{argument}"}}"#),
        "A" => {
            let names = argument.split(',').map(|name| format!(r#""{name}""#)).collect::<Vec<_>>().join(",");
            format!(r#"{{"type":"active_tools_change","activeToolNames":[{names}]}}"#)
        }
        "x" => r#"{"type":"custom","customType":"t","data":1}"#.to_owned(),
        "lab" => r#"{"type":"label","targetId":"u1","label":"l"}"#.to_owned(),
        "n" => r#"{"type":"session_info","name":"n"}"#.to_owned(),
        "f" => r#"{"type":"future_type","summary":"x"}"#.to_owned(),
        "l" => format!(r#"{{"type":"leaf","targetId":"{argument}"}}"#),
        other => panic!("no such word: {other}"),
    }
}

fn session(text: &str) -> Session {
    let mut session = Session { tree: SessionTree::default(), entries: Vec::new(), read: RefCell::default() };
    let mut last = None;
    for word in text.split_whitespace() {
        let (word, damaged) = word.strip_prefix('!').map_or((word, false), |word| (word, true));
        let (word, parent) = match word.split_once('<') {
            Some((word, "-")) => (word, None),
            Some((word, parent)) => (word, Some(parent)),
            None => (word, last),
        };
        let id = word.split(['(', '[', '>']).next().expect(word);
        let payload = payload(word);
        let fields = Fields::parse(&payload).expect(word);
        let role = fields.get::<Json>("message").and_then(|message| message.fields()?.get::<String>("role"));
        let kind = EntryKind::read(fields);
        let target = if let EntryKind::Leaf(leaf) = &kind { Some(leaf.target_id.clone()) } else { None };
        let head = EntryHead {
            id,
            parent_id: parent,
            entry_type: kind.entry_type(),
            role: role.as_deref().map(Role::from_wire),
            leaf_target: target.as_ref().map(|target| target.as_ref().map(EntryId::as_str)),
        };
        session.tree.push(head).expect("room");
        let parent_id = parent.map(EntryId::from);
        let entry = Entry { id: EntryId::from(id), parent_id, timestamp: "2026-01-01T00:00:00.000Z".to_owned(), kind };
        session.entries.push((!damaged).then_some(entry));
        last = Some(id);
    }
    session
}

fn projection(text: &str, extensions: &[&dyn ContextExtension]) -> Projection {
    let session = session(text);
    match project(&session.tree, session.tree.leaf(), &session, extensions) {
        Ok(projection) => projection,
        Err(never) => match never {},
    }
}

/// Shows a message as `role:content`; blocks stand in brackets, so that a string and a text block differ.
fn show(message: &Message) -> String {
    let content = match message.content() {
        Some(Content::Text(text)) => text.clone(),
        Some(blocks) => format!("[{}]", blocks.joined_text()),
        None => message.text(),
    };
    match message {
        Message::Assistant(message) if message.tool_calls().count() > 0 => {
            format!("call:{}", message.tool_calls().map(|call| call.id.as_str()).collect::<Vec<_>>().join(","))
        }
        Message::BashExecution(run) => format!("bash:{}", run.command),
        Message::BranchSummary(message) => format!("branch:{}", message.summary),
        Message::CompactionSummary(message) => format!("summary:{}", message.summary),
        Message::User(_) => format!("user:{content}"),
        Message::Assistant(_) => format!("assistant:{content}"),
        Message::ToolResult(_) => format!("result:{content}"),
        Message::Custom(_) => format!("custom:{content}"),
        Message::System(_) => format!("system:{content}"),
        Message::Unknown(json) => format!("unknown:{json:?}"),
    }
}

fn check_with(extensions: &[&dyn ContextExtension], text: &str, expect: &str) {
    let messages = projection(text, extensions).into_messages();
    assert_eq!(messages.iter().map(show).collect::<Vec<_>>().join(" "), expect, "{text}");
}

/// The context of the session in `text`, as `role:content` words.
fn check(text: &str, expect: &str) {
    check_with(&[], text, expect);
}

/// What became of each entry of the path, as `id:reason` words.
fn check_reasons_with(extensions: &[&dyn ContextExtension], text: &str, expect: &str) {
    let session = session(text);
    let path = projection(text, extensions).path;
    let shown: Vec<_> = path.iter().map(|(index, reason)| format!("{}:{reason:?}", session.tree.id(*index))).collect();
    assert_eq!(shown.join(" "), expect, "{text}");
}

fn check_reasons(text: &str, expect: &str) {
    check_reasons_with(&[], text, expect);
}

/// The state of the path, as `provider/model thinking tools`.
fn check_state(text: &str, expect: &str) {
    let projection = projection(text, &[]);
    let model =
        projection.model.map(|model| format!("{}/{}", model.provider.unwrap_or_default(), model.model_id.unwrap_or_default()));
    let tools = projection.active_tool_names.map(|names| names.join(","));
    assert_eq!(format!("{model:?} {} {tools:?}", projection.thinking_level), expect, "{text}");
}

#[test]
fn the_context_is_the_path() {
    check("", "");
    check("u1 a1 tc1 tr1", "user:u1 assistant:[a1] call:1 result:[tr1]");
    check("u1 a1 u2 a2 u3<a1", "user:u1 assistant:[a1] user:u3");
    check("u1 a1 u2<- a2", "user:u2 assistant:[a2]");
    check("u1 a1 u2 l>a1", "user:u1 assistant:[a1]");
}

#[test]
fn only_some_entries_give_messages() {
    check("u1 M(p/m) T(low) A(read) x lab n f u2", "user:u1 user:u2");
    check("b1 c1 s1 BS1", "bash:b1 custom:c1 system:s1 branch:BS1");
    check("u1 BSempty u2", "user:u1 user:u2");
    check("e1", "user:[]");
    check_reasons("u1 n BSempty", "u1:Included n:NoMessages BSempty:Empty");
}

#[test]
fn a_compaction_comes_first_then_what_it_keeps() {
    check("u1 a1 u2 a2 K(u2) u3", "summary:K user:u2 assistant:[a2] user:u3");
    check("u1 a1 K(u1) u2", "summary:K user:u1 assistant:[a1] user:u2");
    // One that names itself, or nothing, keeps nothing.
    check("u1 a1 K(K) u2", "summary:K user:u2");
    check("u1 a1 K u2", "summary:K user:u2");
    check_reasons("u1 u2 K(u2) u3", "u1:Compacted u2:Included K:GoverningCompaction u3:Included");
}

#[test]
fn after_compaction_the_context_has_the_summary_at_least() {
    check("u1 a1 K", "summary:K");
    check("K", "summary:K");
}

#[test]
fn an_id_that_is_not_on_the_path_keeps_nothing() {
    check("u1 a1 K(gone) u2", "summary:K user:u2");
    check("u1 a1 u9<u1 u2<a1 K(u9) u3", "summary:K user:u3");
    // Nor does one that comes after.
    check("u1 a1 K(u3) u2 u3", "summary:K user:u2 user:u3");
}

#[test]
fn an_old_compaction_inside_a_later_kept_range_gives_nothing() {
    check("u1 tc1 K1(u1) tr1 u2 K2(tc1) u3", "summary:K2 call:1 result:[tr1] user:u2 user:u3");
    check("u1 K1(u1) u2 K2(K1) u3 K3(u2)", "summary:K3 user:u2 user:u3");
    check_reasons("u1 K1(u1) u2 K2(u1)", "u1:Included K1:OlderCompaction u2:Included K2:GoverningCompaction");
    // Its details count no more than its summary does.
    check("u1 KS1(u1) u2 K2(KS1)", "summary:K2 user:u2");
    check("u1 K1[tail] u2 K2(u1)", "summary:K2 user:u1 user:u2");
}

#[test]
fn a_retained_tail_stands_for_the_kept_entries() {
    check("u1 a1 K[tail] u2", "summary:K user:tail user:u2");
    check("u1 a1 K[] u2", "summary:K user:u2");
    check_reasons("u1 K[tail]", "u1:Compacted K:GoverningCompaction");
    // Its messages come from the compaction's entry.
    let sources: Vec<_> = projection("u1 K[tail] u2", &[]).messages.iter().map(|message| message.source).collect();
    assert_eq!(sources.iter().map(|source| source.map(EntryIndex::get)).collect::<Vec<_>>(), [Some(1), Some(1), Some(2)]);
}

#[test]
fn system_messages_in_the_kept_range_are_left_out() {
    check("s1 u1 s2 a1 KS(u1) s3 u2", "system:state summary:KS user:u1 assistant:[a1] system:s3 user:u2");
    check("s1 u1 K(s1)", "summary:K user:u1");
    check_reasons("s1 s2 K(s2) s3", "s1:Compacted s2:CompactedSystem K:GoverningCompaction s3:Included");
}

#[test]
fn a_compaction_elsewhere_does_not_hide_detail() {
    // A fork, or a way back, before the compaction.
    check("u1 a1 u2 K(u2) u3 l>a1", "user:u1 assistant:[a1]");
    check("u1 a1 K1(a1) u2 K2(u2) u3 a3<u2", "summary:K1 assistant:[a1] user:u2 assistant:[a3]");
}

#[test]
fn an_edit_replaces_the_content_of_what_has_one() {
    check("u1 E(u1=new)", "user:new");
    check("u1 E(u1=[new])", "user:[new]");
    check("a1 E(a1=new)", "assistant:[new]");
    check("tc1 tr1 E(tr1=new)", "call:1 result:[new]");
    check("c1 E(c1=new)", "custom:new");
    check("e1 E(e1=new)", "user:new");
    // These have no content to replace.
    check("b1 E(b1=new)", "bash:b1");
    check("s1 E(s1=new)", "system:s1");
    check("BS1 E(BS1=new)", "branch:BS1");
    check("u1 KS(u1) E(KS=new)", "system:state summary:KS user:u1");
    check_reasons("u1 b1 E(u1=new) E2(b1=new)", "u1:Edited b1:Included E:NoMessages E2:NoMessages");
}

#[test]
fn an_edit_removes_the_messages_of_any_entry() {
    check("u1 a1 E(u1)", "assistant:[a1]");
    check("tc1 tr1 b1 E1(tc1) E2(b1) E3(tr1)", "");
    check("s1 c1 BS1 E1(s1) E2(c1) E3(BS1)", "");
    check("u1 u2 KS(u2) E(KS)", "user:u2");
    // The tail is what the compaction keeps, not what it says.
    check("u1 K[tail] E(K)", "user:tail");
    check_reasons("u1 E(u1)", "u1:Removed E:NoMessages");
}

#[test]
fn the_latest_edit_in_the_selection_counts() {
    check("u1 E1(u1=old) E2(u1=new)", "user:new");
    check("u1 E1(u1) E2(u1=new)", "user:new");
    check("u1 E1(u1=new) E2(u1)", "");
    check("u1 E(gone=new) E2(u9)", "user:u1");
    // One that was compacted away has no effect, one in the kept range does, one on another branch does not.
    check("u1 E(u1=new) u2 K(u2) u3", "summary:K user:u2 user:u3");
    check("u1 u2 E(u2=new) u3 K(u2)", "summary:K user:new user:u3");
    check("u1 u2 E(u2=new) K(u3) u3", "summary:K user:u3");
    check("u1 E(u1=new) u2<u1", "user:u1 user:u2");
    // An edit can stand before its target.
    check("E(u1=new) u1", "user:new");
}

#[test]
fn a_damaged_entry_costs_itself_only() {
    check("u1 !a1 u2", "user:u1 user:u2");
    check_reasons("u1 !a1 u2", "u1:Included a1:Damaged u2:Included");
    // A compaction that cannot be read governs nothing; the one before it does.
    check("u1 !K(u1) u2", "user:u1 user:u2");
    check("u1 a1 K1(a1) u2 !K2(u2) u3", "summary:K1 assistant:[a1] user:u2 user:u3");
    check_reasons("u1 K1(u1) !K2(u1)", "u1:Included K1:GoverningCompaction K2:Damaged");
}

#[test]
fn state_comes_from_the_whole_path() {
    check_state("u1", "None off None");
    check_state("M(p/m) T(high) A(read,bash) u1", r#"Some("p/m") high Some("read,bash")"#);
    check_state("M(p/m) a1", r#"Some("of/a1") off None"#);
    check_state("a1 M(p/m) u1", r#"Some("p/m") off None"#);
    check_state("T1(high) T2(low) A1(read) A2(bash)", r#"None low Some("bash")"#);
    // Also from before a compaction, but not from another branch.
    check_state("M(p/m) T(high) A(read) u1 u2 K(u2) u3", r#"Some("p/m") high Some("read")"#);
    check_state("a1 u1 K(u1)", r#"Some("of/a1") off None"#);
    check_state("u1 M(p/m) T(high) A(read) u2<u1", "None off None");
    // Of a damaged line an older one tells.
    check_state("M(p/m) T1(high) A1(read) !a1 !T2(low) !A2(bash)", r#"Some("p/m") high Some("read")"#);
}

#[test]
fn what_is_not_selected_is_not_read() {
    let session = session("x1 M(p/m) u1 a1 b1 x2 K(b1) lab n u2 a2");
    project(&session.tree, session.tree.leaf(), &session, &[]).expect("a session in memory");
    let mut read = session.read.into_inner();
    read.sort();
    read.dedup();
    assert_eq!(read, ["K", "a2", "b1", "u2"]);
}

/// Takes entries of one type out, and makes a user message of each `custom` entry.
struct Extension {
    takes_out: EntryType,
    says: Option<&'static str>,
}

impl ContextExtension for Extension {
    fn transform(&self, mut entries: Vec<SelectedEntry>) -> Vec<SelectedEntry> {
        entries.retain(|selected| selected.entry.kind.entry_type() != self.takes_out);
        entries
    }

    fn project(&self, entry: &Entry, custom: &Custom) -> Option<Vec<Message>> {
        let says = self.says?;
        Some(vec![Message::user(format!("{says}-{}-{}", entry.id, custom.custom_type), 0)])
    }
}

#[test]
fn applications_project_their_own_entries() {
    let silent = Extension { takes_out: EntryType::Leaf, says: None };
    let first = Extension { takes_out: EntryType::Leaf, says: Some("first") };
    let second = Extension { takes_out: EntryType::Leaf, says: Some("second") };
    check_with(&[&silent], "u1 x1 u2", "user:u1 user:u2");
    check_with(&[&silent, &first, &second], "u1 x1 u2", "user:u1 user:[first-x1-t] user:u2");
    // Like any other, they can be compacted, edited and removed.
    check_with(&[&first], "x1 u1 x2 K(u1) x3", "summary:K user:u1 user:[first-x2-t] user:[first-x3-t]");
    check_with(&[&first], "x1 E(x1=new)", "user:new");
    check_with(&[&first], "x1 u1 E(x1)", "user:u1");
    check_reasons_with(&[&silent, &first], "x1 u1 K(u1) x2", "x1:Compacted u1:Included K:GoverningCompaction x2:Included");
    check_reasons_with(&[&silent], "x1", "x1:NoMessages");
}

#[test]
fn applications_change_what_is_selected() {
    let without_summaries = Extension { takes_out: EntryType::BranchSummary, says: None };
    check_with(&[&without_summaries], "u1 BS1 u2", "user:u1 user:u2");
    check_reasons_with(&[&without_summaries], "u1 BS1", "u1:Included BS1:Transformed");
    // An edit that is taken out has no effect.
    let without_edits = Extension { takes_out: EntryType::ContextEdit, says: None };
    check_with(&[&without_edits], "u1 E(u1)", "user:u1");
    let without_compaction = Extension { takes_out: EntryType::Compaction, says: None };
    check_with(&[&without_compaction], "u1 u2 K(u2)", "user:u2");
    check_reasons_with(&[&without_compaction], "u1 u2 K(u2)", "u1:Compacted u2:Included K:Transformed");
}
