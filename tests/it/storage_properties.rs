//! What holds for every session file and every sequence of operations on it.

use std::collections::BTreeMap;
use std::path::Path;

use pi_sessions::session::entry::{EntryId, EntryType};
use pi_sessions::session::labels::{Labels, SessionName};
use pi_sessions::session::message::{Content, Message};
use pi_sessions::session::tree::EntryIndex;
use pi_sessions::storage::Durability;
use pi_sessions::storage::fork::{ForkOptions, ForkWhat};
use pi_sessions::storage::handle::Session;
use pi_sessions::storage::repo::NewSession;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::exercise::{Effort, FILE, exercise, message, repairs, repo, repo_with};
use crate::support::fault_fs::FaultFs;

const H: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}"#;

fn input(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name).join("input.jsonl")).expect("a fixture")
}

/// The first lines of a fixture, up to about `len` bytes.
fn beginning(name: &str, len: usize) -> Vec<u8> {
    let mut bytes = input(name);
    let end = bytes.iter().enumerate().find(|(at, byte)| *at >= len && **byte == b'\n').map_or(bytes.len(), |(at, _)| at + 1);
    bytes.truncate(end);
    bytes
}

/// Files of every form, a few kilobytes each.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let entries = [
        r#"{"type":"message","id":"00000001","parentId":null,"timestamp":"t","message":{"role":"user","content":"é漢🚀\ud83d } \" {","timestamp":1}}"#,
        r#"{"type":"custom","customType":"c","data":{"id":"no","parentId":"no","timestamp":"no"},"id":"00000002","parentId":"00000001","timestamp":"t"}"#,
        r#"{ "id" : "long id é" , "parentId" : "00000002" , "x":[ ], "type" : "future" }"#,
        r#"{"type":"custom_message","customType":"c","content":"}{","display":true,"id":"00000004","parentId":"long id é","timestamp":"t"}"#,
        r#"{"type":"message","id":"00000005","parentId":"00000004","timestamp":"t","message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":{"a":{}}}]}}"#,
    ];
    let lines = |end: &str| entries.iter().map(|entry| format!("{entry}{end}")).collect::<String>();
    let fused = format!("{H}\n{}\n{}{}\n{}{}\n", entries[0], entries[1], entries[4], &entries[4][..70], entries[3]);
    vec![
        ("odd lines", format!("{H}\n{}", lines("\n")).into_bytes()),
        ("CRLF", format!("\u{feff}{H}\r\n{}", lines("\r\n")).into_bytes()),
        ("fused", fused.into_bytes()),
        ("blank lines and NULs", format!("{H}\n\n{}", lines("\0\0\n \n")).into_bytes()),
        ("pi", beginning("context/pi-0003", 2_500)),
        ("harness", beginning("context/harness-0007", 2_500)),
        ("written by Pi", beginning("pi/v3-tool-calls", 4_000)),
    ]
}

/// Cut anywhere behind its header, a file gives every entry whose last brace is there, and one damage more at most; and
/// what is appended to it then costs none of them.
#[test]
fn prefix_law() {
    for (what, bytes) in files() {
        let (_, whole) = repo_with(&bytes);
        let whole = whole.open(Path::new(FILE)).expect("a session");
        let end = |index| whole.read().byte_offset(index) + whole.read().line(index).expect("a line").len() as u64;
        let ends: Vec<_> = whole.tree().iter_all().map(|index| (whole.tree().id(index), end(index))).collect();
        assert!(ends.len() >= 3, "{what}");
        let header_end = bytes.iter().position(|byte| *byte == b'}').expect("the header's last brace") + 1;
        for cut in header_end..=bytes.len() {
            let (_, repo) = repo_with(&bytes[..cut]);
            let mut session = repo.open(Path::new(FILE)).expect(what);
            let expect: Vec<_> = ends.iter().filter(|(_, end)| *end <= cut as u64).map(|(id, _)| id.clone()).collect();
            let ids = |session: &Session| session.tree().iter_all().map(|index| session.tree().id(index)).collect::<Vec<_>>();
            assert_eq!(ids(&session), expect, "{what}, cut at {cut}");
            let known = whole.read().damage().iter().filter(|damage| damage.byte_offset < cut as u64).count();
            assert!(session.read().damage().len() <= known + 1, "{what}, cut at {cut}");
            if cut % 5 == 0 || cut == bytes.len() {
                session.append(vec![message("user", "more")], Durability::Synced).expect(what);
                let again = repo.open(Path::new(FILE)).expect(what);
                assert_eq!(ids(&again)[..expect.len()], expect, "{what}, cut at {cut} and appended to");
                assert_eq!((again.tree().len(), session.tree().leaf()), (expect.len() + 1, again.tree().leaf()));
                assert!(again.read().damage().len() <= known + 1, "{what}, cut at {cut} and appended to");
            }
        }
    }
}

/// Numbers that look random.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

const TOKENS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\n",
    "\0",
    "\r",
    ",",
    ":",
    "null",
    "{\"type\":\"",
    "\"id\":",
    "\"parentId\":",
    "\\ud83d",
    "\u{feff}",
    "\"version\":1,",
    "\"version\":2,",
    "\"version\":99,",
    "\"leaf\"",
    "\"compaction\"",
    "\"targetId\":",
    "é",
];

/// Files of every form and version.
fn bases() -> Vec<Vec<u8>> {
    let mut bases: Vec<_> = files().into_iter().map(|(_, bytes)| bytes).collect();
    bases.push(beginning("pi/v1-long-conversation", 3_000));
    let version_2 =
        String::from_utf8_lossy(&bases[0]).replace("\"version\":3", "\"version\":2").replace("\"user\"", "\"hookMessage\"");
    bases.push(version_2.into_bytes());
    bases
}

/// One of the files, changed at random.
fn mutated(bases: &[Vec<u8>], case: u64) -> Vec<u8> {
    let mut noise = Noise(case);
    noise.below(1);
    let mut bytes = bases[noise.below(bases.len())].clone();
    for _ in 0..1 + noise.below(6) {
        let at = noise.below(bytes.len());
        match noise.below(7) {
            0 => bytes[at] = noise.below(256) as u8,
            1 => drop(bytes.splice(at..at, TOKENS[noise.below(TOKENS.len())].bytes())),
            2 => drop(bytes.drain(at..(at + noise.below(40)).min(bytes.len()))),
            3 => {
                let piece = bytes[at..(at + noise.below(300)).min(bytes.len())].to_vec();
                let to = noise.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            4 => bytes[at] ^= 1 << noise.below(8),
            // Ids come to be equal, so that there are cycles and shadowed entries.
            5 => {
                let from = memfind(&bytes, b"\"parentId\":\"", at).or_else(|| memfind(&bytes, b"\"id\":\"", 0));
                let to = memfind(&bytes, b"\"id\":\"", noise.below(bytes.len()));
                if let (Some(from), Some(to)) = (from, to) {
                    let id: Vec<_> = bytes[from..].iter().copied().take_while(|byte| *byte != b'"').collect();
                    let end = to + bytes[to..].iter().take_while(|byte| **byte != b'"').count();
                    bytes.splice(to..end, id);
                }
            }
            _ => bytes.truncate(at.max(60)),
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

#[test]
fn no_input_panics_or_hangs() {
    let bases = bases();
    for case in 0..10_000u64 {
        let bytes = mutated(&bases, case);
        let outcome = std::panic::catch_unwind(|| exercise(&bytes, if case % 10 == 0 { Effort::All } else { Effort::Reads }));
        assert!(outcome.is_ok(), "case {case}: {}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_repair_leaves_a_sound_file_and_loses_nothing() {
    let bases = bases();
    let repaired = (0..1_000u64).filter(|case| {
        let bytes = mutated(&bases, *case);
        let outcome = std::panic::catch_unwind(|| repairs(&bytes));
        outcome.unwrap_or_else(|_| panic!("case {case}: {}", String::from_utf8_lossy(&bytes)))
    });
    let count = repaired.count();
    assert!(count > 300, "{count}");
}

/// Behind the next `needle` from `at` on.
fn memfind(bytes: &[u8], needle: &[u8], at: usize) -> Option<usize> {
    bytes[at.min(bytes.len())..].windows(needle.len()).position(|window| window == needle).map(|found| at + found + needle.len())
}

/// What a plain model knows of a session.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Id, parent and text of each message and summary; of other entries id and parent.
    entries: Vec<(String, Option<usize>, Option<String>)>,
    prompts: Vec<bool>,
    leaf: Option<usize>,
    labels: BTreeMap<String, String>,
    name: Option<String>,
}

impl Model {
    fn push(&mut self, id: &EntryId, text: Option<&str>, is_prompt: bool) {
        self.entries.push((id.to_string(), self.leaf, text.map(str::to_owned)));
        self.prompts.push(is_prompt);
        self.leaf = Some(self.entries.len() - 1);
    }

    fn path(&self, mut at: Option<usize>) -> Vec<usize> {
        let mut path = Vec::new();
        while let Some(index) = at {
            path.insert(0, index);
            at = self.entries[index].1;
        }
        path
    }

    fn texts(&self, at: Option<usize>) -> Vec<String> {
        self.path(at).into_iter().filter_map(|index| self.entries[index].2.clone()).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Say(bool, usize),
    Batch(usize),
    GoTo(prop::sample::Index, bool),
    Label(prop::sample::Index, Option<u8>),
    Name(Option<u8>),
    Fork(prop::sample::Index, u8),
    Reopen,
    Other,
    Hold,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), 0..3usize).prop_map(|(user, len)| Step::Say(user, len)),
        1 => (1..4usize).prop_map(Step::Batch),
        3 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(target, summary)| Step::GoTo(target, summary)),
        2 => (any::<prop::sample::Index>(), prop::option::of(0..3u8)).prop_map(|(target, label)| Step::Label(target, label)),
        1 => prop::option::of(0..3u8).prop_map(Step::Name),
        2 => (any::<prop::sample::Index>(), 0..3u8).prop_map(|(target, what)| Step::Fork(target, what)),
        1 => Just(Step::Reopen),
        1 => Just(Step::Other),
        1 => Just(Step::Hold),
    ]
}

fn texts_of(session: &Session) -> Vec<String> {
    let projection = session.project(session.leaf(), &[]).expect("a context");
    let text = |message: &Message| match message {
        Message::BranchSummary(summary) => summary.summary.clone(),
        other => other.content().map(Content::joined_text).unwrap_or_default(),
    };
    projection.messages.iter().map(|projected| text(&projected.message)).collect()
}

fn names_of(session: &Session) -> (BTreeMap<String, String>, Option<String>) {
    let (mut labels, mut name) = (Labels::default(), SessionName::default());
    for index in session.tree().iter_all() {
        let entry = session.read().entry(index).expect("a line").expect("an entry");
        labels.add(&entry);
        name.add(&entry);
    }
    (labels.iter().map(|(id, label)| (id.to_string(), label.to_owned())).collect(), name.get().map(str::to_owned))
}

fn check_model(session: &Session, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(session.leaf_id().map(|id| id.to_string()), model.leaf.map(|leaf| model.entries[leaf].0.clone()));
    prop_assert_eq!(texts_of(session), model.texts(model.leaf));
    let (labels, name) = names_of(session);
    prop_assert_eq!(&labels, &model.labels);
    prop_assert_eq!(&name, &model.name);
    for (id, parent, _) in &model.entries {
        let index = session.tree().find(id).expect("an entry of the model");
        prop_assert_eq!(
            session.tree().parent_id(index).map(|id| id.to_string()),
            parent.map(|parent| model.entries[parent].0.clone())
        );
    }
    Ok(())
}

/// The model of a fork, by its lines.
fn model_of(session: &Session) -> Model {
    let mut model = Model::default();
    let tree = session.tree();
    for index in tree.iter_all() {
        let value: Value = serde_json::from_slice(&session.read().line(index).expect("a line")).expect("JSON");
        let parent = value["parentId"].as_str().map(|id| model.entries.iter().position(|entry| entry.0 == id).expect("a parent"));
        let text = match tree.entry_type(index) {
            EntryType::Message => value["message"]["content"][0]["text"].as_str(),
            _ => value["summary"].as_str(),
        };
        model.entries.push((tree.id(index).to_string(), parent, text.map(str::to_owned)));
        model.prompts.push(value["message"]["role"] == "user");
    }
    model.leaf = tree.leaf().map(EntryIndex::get);
    (model.labels, model.name) = names_of(session);
    model
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_agree_with_a_plain_model(steps in prop::collection::vec(step(), 1..30)) {
        let fs = FaultFs::default();
        let repo = repo(&fs);
        let mut session = repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect("a session");
        let mut model = Model::default();
        let mut holds = false;
        for (number, step) in steps.into_iter().enumerate() {
            let text = |len: usize| format!("{number} {}", "é\"\\\u{1}".repeat(len * 50));
            match step {
                Step::Say(is_user, len) => {
                    let kind = message(if is_user { "user" } else { "assistant" }, &text(len));
                    let made = session.append(vec![kind], Durability::Synced).expect("an append");
                    model.push(&made[0], Some(&text(len)), is_user);
                }
                Step::Batch(count) => {
                    let kinds = (0..count).map(|_| message("user", &text(0))).collect();
                    let made = session.append(kinds, Durability::Unsynced).expect("an append");
                    made.iter().for_each(|id| model.push(id, Some(&text(0)), true));
                }
                Step::GoTo(target, with_summary) if !model.entries.is_empty() => {
                    let at = target.index(model.entries.len());
                    let index = session.tree().find(&model.entries[at].0).expect("an entry");
                    let is_leaf_entry = session.tree().entry_type(index) == EntryType::Leaf;
                    if is_leaf_entry {
                        continue;
                    }
                    let to = if model.prompts[at] { model.entries[at].1 } else { Some(at) };
                    // The parent of a message may be a `leaf` entry; that is where it stands.
                    let old = model.path(model.leaf);
                    let leaves_something = old.last().is_some_and(|last| !model.path(to).contains(last));
                    let summary = pi_sessions::storage::handle::SummaryText { summary: text(0), ..Default::default() };
                    let done = session.navigate(index, with_summary.then_some(summary)).expect("a navigation");
                    prop_assert_eq!(done.moved, to != model.leaf);
                    prop_assert_eq!(done.summary_id.is_some(), with_summary && leaves_something && done.moved);
                    if done.moved {
                        let written = session.tree().id(session.tree().iter_all().next_back().expect("an entry"));
                        model.leaf = to;
                        model.push(&written, done.summary_id.as_ref().map(|_| text(0)).as_deref(), false);
                        if done.summary_id.is_none() {
                            model.leaf = to;
                        }
                    }
                }
                Step::Label(target, label) if !model.entries.is_empty() => {
                    let id = model.entries[target.index(model.entries.len())].0.clone();
                    let index = session.tree().find(&id).expect("an entry");
                    let label = label.map(|label| format!("l{label}"));
                    let made = session.set_label(index, label.as_deref()).expect("a label");
                    model.push(&made, None, false);
                    match label {
                        Some(label) => model.labels.insert(id, label),
                        None => model.labels.remove(&id),
                    };
                }
                Step::Name(name) => {
                    let name = name.map(|name| format!("n{name}"));
                    let made = session.set_name(name.as_deref().unwrap_or_default()).expect("a name");
                    model.push(&made, None, false);
                    model.name = name;
                }
                Step::Fork(target, what) if !model.entries.is_empty() => {
                    let at = target.index(model.entries.len());
                    let index = session.tree().find(&model.entries[at].0).expect("an entry");
                    if session.tree().entry_type(index) == EntryType::Leaf || what == 1 && !model.prompts[at] {
                        continue;
                    }
                    let to = if what == 1 { model.entries[at].1 } else { Some(at) };
                    let what = [ForkWhat::Path(Some(index)), ForkWhat::Before(index), ForkWhat::All][usize::from(what)];
                    let source = session.read().path().expect("a file").to_owned();
                    let before = fs.get(&source);
                    let fork = repo.fork(&session, &ForkOptions { what, cwd: None }).expect("a fork");
                    prop_assert_eq!(fs.get(&source), before);
                    if what == ForkWhat::All {
                        prop_assert_eq!(&names_of(&fork.session), &(model.labels.clone(), model.name.clone()));
                    } else {
                        prop_assert_eq!(texts_of(&fork.session), model.texts(to));
                        // All that was copied shows the label that it shows in the source.
                        let labels = model.labels.iter().filter(|(id, _)| fork.session.tree().find(id).is_some());
                        prop_assert_eq!(names_of(&fork.session).0, labels.map(|(id, label)| (id.clone(), label.clone())).collect());
                        let tree = fork.session.tree();
                        prop_assert_eq!(tree.path(tree.leaf()).len(), tree.len(), "all of it is one path");
                        for index in model.path(to) {
                            let entry = &model.entries[index];
                            prop_assert!(entry.2.is_none() || tree.find(&entry.0).is_some());
                        }
                    }
                    (session, holds) = (fork.session, false);
                    model = model_of(&session);
                }
                Step::Reopen => {
                    let path = session.read().path().expect("a file").to_owned();
                    // Where a handle stands by itself is forgotten; what it wrote last is where the file's leaf is.
                    if !holds {
                        session = repo.open(&path).expect("a session");
                    }
                    prop_assert_eq!(session.read().damage(), &[]);
                }
                Step::Other => {
                    let path = session.read().path().expect("a file").to_owned();
                    let mut other = repo.open(&path).expect("a session");
                    let made = other.append(vec![message("user", &text(0))], Durability::Synced).expect("an append");
                    session.refresh().expect("a refresh");
                    if holds {
                        // It is another's; the model knows of it no more than that it is there.
                        prop_assert!(session.tree().find(made[0].as_str()).is_some());
                    } else {
                        model.push(&made[0], Some(&text(0)), true);
                    }
                }
                Step::Hold => {
                    session.hold();
                    holds = true;
                }
                Step::GoTo(..) | Step::Label(..) | Step::Fork(..) => {}
            }
            check_model(&session, &model)?;
        }
    }

    #[test]
    fn odd_lines_come_back_byte_for_byte(
        pads in prop::collection::vec(("[ \t]{0,3}", "[ \t]{0,3}", "\\PC{0,12}", 0..5u8), 1..8),
        version in 2..4u8,
    ) {
        let mut parent = "null".to_owned();
        let mut lines = Vec::new();
        for (number, (a, b, text, form)) in pads.iter().enumerate() {
            let text = json!(text).to_string();
            let id = format!("\"x{number}\"");
            lines.push(match form {
                0 => format!(r#"{{{a}"type"{b}:"future",{a}"id":{id},"parentId":{parent},"z":{text},"n":1.500e+7}}"#),
                1 => format!(r#"{{"z":[{a}{text}{b}],"id":{id},"type":"message","parentId":{parent},"message":{{"role":"user","content":{text}}}}}"#),
                2 => format!(r#"{{"type":"custom","customType":{text},"data":{text},"id":{id},"parentId":{parent},"timestamp":"t"}}"#),
                3 => format!(r#"{{"type":"model_change","id":{id},"parentId":{parent},"provider":7,"\ud83d":{{"q":{a}null}}}}"#),
                _ => format!(r#"{{"type":"message","id":{id},"parentId":{parent},"timestamp":"t","message":{{"role":"martian","x":{b}{text}}}}}"#),
            });
            parent = id;
        }
        let file = format!("{}\n{}\n", H.replace("\"version\":3", &format!("\"version\":{version}")), lines.join("\n"));
        let (fs, repo) = repo_with(file.as_bytes());
        let session = repo.open(Path::new(FILE)).expect("a session");
        let copied = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.expect("a file")).expect("UTF-8").lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        for what in [ForkWhat::All, ForkWhat::Path(session.leaf())] {
            let fork = repo.fork(&session, &ForkOptions { what, cwd: None }).expect("a fork");
            prop_assert_eq!(&copied(fs.get(&fork.path)), &lines);
        }
        let mut session = session;
        session.append(vec![message("user", "more")], Durability::Synced).expect("an append");
        prop_assert_eq!(&copied(fs.get(Path::new(FILE)))[..lines.len()], &lines[..]);
        let moved = repo.relocate(Path::new(FILE), "/q").expect("a move");
        prop_assert_eq!(&copied(fs.get(&moved.path))[..lines.len()], &lines[..]);
    }
}
