//! One suite over every storage: a session in a file behaves as one in memory, and reopened as it was before.

use std::path::Path;
use std::sync::Arc;

use pi_sessions::session::entry::{Custom, EntryKind, Header, MessageEntry, UsageEntry};
use pi_sessions::session::json::{Fields, Json};
use pi_sessions::session::labels::{Labels, SessionName};
use pi_sessions::session::message::{Content, Message};
use pi_sessions::session::tree::EntryIndex;
use pi_sessions::storage::fs::Fs;
use pi_sessions::storage::handle::{Session, SummaryText};
use pi_sessions::storage::jsonl::JsonlStorage;
use pi_sessions::storage::memory::MemoryStorage;
use pi_sessions::storage::{Durability, SessionStorage, StorageError};
use serde_json::json;

use crate::support::fault_fs::FaultFs;
use crate::support::fixed::{CountedIds, SteppingClock};

const FILE: &str = "/root/s.jsonl";

fn header() -> Header {
    Header { version: 3, id: "s1".to_owned(), cwd: "/p".to_owned(), ..Header::default() }
}

fn session(storage: Box<dyn SessionStorage>) -> Session {
    Session::new(storage, Arc::new(SteppingClock::default()), Arc::new(CountedIds::default()))
}

/// A session under test, and how to see it anew.
struct Subject {
    session: Session,
    file: Option<Arc<dyn Fs>>,
}

impl Subject {
    fn in_memory() -> Self {
        Self { session: session(Box::new(MemoryStorage::new(header()))), file: None }
    }

    fn in_file() -> Self {
        let fs: Arc<dyn Fs> = Arc::new(FaultFs::default());
        let storage = JsonlStorage::create(fs.clone(), Path::new(FILE), &header()).expect("a new session");
        Self { session: session(Box::new(storage)), file: Some(fs) }
    }

    /// The session as it is, after asserting that it is so in the file too.
    fn check(&self) -> Vec<String> {
        let shown = show(&self.session);
        if let Some(fs) = &self.file {
            let again = session(Box::new(JsonlStorage::open(fs.clone(), Path::new(FILE)).expect("a session")));
            assert_eq!(show(&again), shown);
            assert_eq!(again.read().len_bytes(), self.session.read().len_bytes());
            assert_eq!(again.tree().previous_leaf(), self.session.tree().previous_leaf());
            assert_eq!(again.read().damage(), []);
            let lines =
                |session: &Session| session.tree().iter_all().map(|at| session.read().line_number(at)).collect::<Vec<_>>();
            assert_eq!(lines(&again), lines(&self.session));
        }
        shown
    }

    fn add(&mut self, kinds: Vec<EntryKind>) -> EntryIndex {
        let made = self.session.append(kinds, Durability::Synced).expect("an append");
        self.session.tree().find(made.last().expect("something was appended").as_str()).expect("what was appended")
    }
}

/// All that can be seen of a session.
fn show(session: &Session) -> Vec<String> {
    let tree = session.tree();
    let mut shown: Vec<_> = tree
        .iter_all()
        .map(|index| {
            let line = String::from_utf8(session.read().line(index).expect("a line")).expect("UTF-8");
            let entry = session.read().entry(index).expect("a line").expect("an entry");
            assert_eq!((&entry.id, &entry.parent_id), (&tree.id(index), &tree.parent_id(index)));
            format!("{line} {:?} {:?}", tree.entry_type(index), tree.role(index))
        })
        .collect();
    shown.push(format!("file leaf {:?}", tree.leaf().map(|leaf| tree.id(leaf))));
    shown
}

fn message(role: &str, text: &str) -> EntryKind {
    let value = json!({"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1});
    EntryKind::Message(MessageEntry { message: Message::from_json(Json::of(&value).expect("JSON")), extra: Default::default() })
}

fn read_kind(text: &str) -> EntryKind {
    EntryKind::read(Fields::parse(text).expect("an object"))
}

/// The texts of the context.
fn context(session: &Session) -> Vec<String> {
    let projection = session.project(session.leaf(), &[]).expect("a context");
    let text = |message: &Message| match message {
        Message::BranchSummary(summary) => format!("summary: {}", summary.summary),
        other => other.content().map(Content::joined_text).unwrap_or_default(),
    };
    projection.messages.iter().map(|projected| text(&projected.message)).collect()
}

/// Runs `script` over every storage; what it returns must be the same everywhere.
fn everywhere(script: impl Fn(&mut Subject) -> Vec<String>) {
    let mut seen = Vec::new();
    for make in [Subject::in_memory, Subject::in_file] {
        let mut subject = make();
        let mut result = script(&mut subject);
        result.extend(subject.check());
        seen.push(result);
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn appends_form_a_chain() {
    everywhere(|subject| {
        assert_eq!((subject.session.leaf(), subject.session.tree().len()), (None, 0));
        let empty = subject.session.append(Vec::new(), Durability::Synced).expect("nothing");
        assert!(empty.is_empty());
        let one = subject.add(vec![message("user", "one")]);
        let three = subject.add(vec![message("assistant", "two"), message("user", "three")]);
        let tree = subject.session.tree();
        assert_eq!(tree.path(tree.leaf()).len(), 3);
        assert_eq!((tree.path(tree.leaf())[0], subject.session.leaf()), (one, Some(three)));
        assert_eq!(tree.parent(one), None);
        assert_eq!(context(&subject.session), ["one", "two", "three"]);
        context(&subject.session)
    });
}

#[test]
fn kinds_that_are_unknown_or_of_another_shape_are_the_same_everywhere() {
    everywhere(|subject| {
        subject.add(vec![
            read_kind(r#"{"type":"future","a":{"b":[1.50,2e3]},"z":"\ud83d"}"#),
            read_kind(r#"{"type":"message","message":7}"#),
            read_kind(r#"{"type":"message","message":{"role":"martian","x":1}}"#),
            read_kind(r#"{"type":"message"}"#),
            read_kind(r#"{"type":"leaf","targetId":7}"#),
            read_kind(r#"{"type":"model_change","provider":1}"#),
            read_kind(r#"{"type":"custom","customType":"\u0001\n","data":{"a":"\u2028"}}"#),
        ]);
        let tree = subject.session.tree();
        vec![format!("{:?}", tree.leaf().map(|leaf| tree.id(leaf)))]
    });
}

#[test]
fn a_batch_that_is_refused_leaves_nothing() {
    everywhere(|subject| {
        subject.add(vec![message("user", "one")]);
        let before = subject.check();
        let refused = subject.session.append_with(
            &mut |batch| {
                batch.push(message("user", "two"));
                Err(StorageError::NoSuchEntry("x".into()))
            },
            Durability::Synced,
        );
        assert!(matches!(refused, Err(StorageError::NoSuchEntry(_))));
        assert_eq!(subject.check(), before);
        subject.add(vec![message("user", "three")]);
        context(&subject.session)
    });
}

#[test]
fn navigation_moves_the_leaf_and_is_remembered() {
    everywhere(|subject| {
        let one = subject.add(vec![message("user", "one")]);
        let two = subject.add(vec![message("assistant", "two")]);
        let three = subject.add(vec![message("user", "three")]);
        let four = subject.add(vec![message("assistant", "four")]);
        let id = |subject: &Subject, index| Some(subject.session.tree().id(index));

        // To the leaf itself: nothing.
        let stay = subject.session.navigate(four, None).expect("a navigation");
        assert_eq!((stay.moved, stay.leaf_id, stay.editor_text), (false, id(subject, four), None));
        assert_eq!(subject.session.tree().len(), 4);

        // To an assistant message: it is the leaf.
        let back = subject.session.navigate(two, None).expect("a navigation");
        assert_eq!((back.moved, &back.leaf_id, &back.from_id), (true, &id(subject, two), &id(subject, four)));
        assert_eq!((back.summary_id, back.editor_text), (None, None));
        assert_eq!((subject.session.leaf(), subject.session.tree().previous_leaf()), (Some(two), Some(four)));
        assert_eq!(context(&subject.session), ["one", "two"]);
        subject.check();

        // To a user message: its parent is the leaf, and its text comes back.
        let edit = subject.session.navigate(three, None).expect("a navigation");
        assert_eq!((edit.moved, edit.leaf_id, edit.editor_text.as_deref()), (false, id(subject, two), Some("three")));

        // With a summary: of what is left, hanging from where it goes on.
        subject.session.navigate(four, None).expect("a navigation");
        let summary = SummaryText { summary: "what was there".to_owned(), ..SummaryText::default() };
        let with = subject.session.navigate(three, Some(summary.clone())).expect("a navigation");
        let written = with.summary_id.clone().expect("a summary");
        assert_eq!((with.leaf_id.as_ref(), with.editor_text.as_deref()), (Some(&written), Some("three")));
        let written = subject.session.tree().find(written.as_str()).expect("the summary");
        assert_eq!((subject.session.tree().parent(written), subject.session.leaf()), (Some(two), Some(written)));
        assert_eq!(context(&subject.session), ["one", "two", "summary: what was there"]);
        subject.check();

        // Forward, where nothing is left behind, there is no summary.
        subject.session.navigate(two, None).expect("a navigation");
        let forward = subject.session.navigate(four, Some(summary.clone())).expect("a navigation");
        assert_eq!((forward.summary_id, subject.session.leaf()), (None, Some(four)));

        // To the root.
        let root = subject.session.navigate(one, None).expect("a navigation");
        assert_eq!((root.leaf_id, root.editor_text.as_deref(), root.moved), (None, Some("one"), true));
        assert_eq!((subject.session.leaf(), context(&subject.session)), (None, Vec::new()));
        subject.check();
        let again = subject.add(vec![message("user", "again")]);
        assert_eq!(subject.session.tree().parent(again), None);
        let from_root = subject.session.navigate(again, None).expect("to the root once more");
        assert_eq!((from_root.leaf_id, subject.session.leaf()), (None, None));
        let summary = subject.session.navigate(four, Some(summary)).expect("a navigation");
        assert_eq!((summary.summary_id, summary.from_id), (None, None), "nothing is left behind");
        context(&subject.session)
    });
}

#[test]
fn a_leaf_entry_as_target_means_where_it_moved_the_leaf() {
    everywhere(|subject| {
        let one = subject.add(vec![message("user", "one"), message("assistant", "two")]);
        subject.add(vec![message("user", "three")]);
        subject.session.navigate(one, None).expect("a navigation");
        let leaf_entry = subject.session.tree().iter_all().next_back().expect("the leaf entry");
        subject.add(vec![message("user", "four")]);
        subject.session.navigate(leaf_entry, None).expect("a navigation");
        assert_eq!(subject.session.leaf(), Some(one));
        context(&subject.session)
    });
}

#[test]
fn labels_names_and_models_are_set_and_cleared() {
    everywhere(|subject| {
        let one = subject.add(vec![message("user", "one")]);
        let fold = |session: &Session| {
            let (mut labels, mut name) = (Labels::default(), SessionName::default());
            for index in session.tree().iter_all() {
                let entry = session.read().entry(index).expect("a line").expect("an entry");
                labels.add(&entry);
                name.add(&entry);
            }
            let id = session.tree().id(one);
            (labels.get(id.as_str()).map(str::to_owned), name.get().map(str::to_owned))
        };
        subject.session.set_label(one, Some(" here ")).expect("a label");
        subject.session.set_name("  A name\n").expect("a name");
        assert_eq!(fold(&subject.session), (Some("here".to_owned()), Some("A name".to_owned())));
        subject.session.set_label(one, Some("  ")).expect("a label");
        subject.session.set_name("").expect("a name");
        assert_eq!(fold(&subject.session), (None, None));
        subject.session.set_model("p", "m").expect("a model");
        let model = subject.session.project(subject.session.leaf(), &[]).expect("a context").model.expect("a model");
        assert_eq!((model.provider.as_deref(), model.model_id.as_deref()), (Some("p"), Some("m")));
        assert_eq!(subject.session.tree().stray_tail(), None);
        // All of it hangs in one chain, so the conversation goes on behind it.
        assert_eq!(subject.session.tree().path(subject.session.leaf()).len(), 6);
        context(&subject.session)
    });
}

#[test]
fn a_handle_that_holds_its_leaf_goes_on_from_there() {
    everywhere(|subject| {
        let one = subject.add(vec![message("user", "one")]);
        subject.session.hold();
        let two = subject.add(vec![message("assistant", "two")]);
        subject.session.navigate(two, None).expect("to the leaf itself");
        subject.session.navigate(one, None).expect("to the root");
        assert_eq!(subject.session.leaf(), None);
        let other = subject.add(vec![message("user", "other")]);
        assert_eq!((subject.session.tree().parent(other), subject.session.leaf()), (None, Some(other)));
        subject.session.navigate(two, None).expect("back");
        let label = subject.session.set_label(one, Some("x")).expect("a label");
        assert_eq!(subject.session.leaf_id(), Some(label));
        let three = subject.add(vec![
            EntryKind::Custom(Custom { custom_type: "c".to_owned(), ..Custom::default() }),
            EntryKind::Usage(UsageEntry::default()),
            message("user", "three"),
        ]);
        assert_eq!(subject.session.leaf(), Some(three));
        context(&subject.session)
    });
}

#[test]
fn a_held_leaf_stays_while_others_append_and_a_following_one_moves() {
    let subject = Subject::in_file();
    let fs = subject.file.clone().expect("a file");
    // Each handle has ids of its own.
    let ids = Arc::new(CountedIds::default());
    let open = || {
        let storage = JsonlStorage::open(fs.clone(), Path::new(FILE)).expect("a session");
        Session::new(Box::new(storage), Arc::new(SteppingClock::default()), ids.clone())
    };
    let append = |session: &mut Session, text: &str| {
        session.append(vec![message("user", text)], Durability::Synced).expect("an append").remove(0)
    };
    let (mut holds, mut follows, mut other) = (open(), open(), open());
    let root = append(&mut holds, "root");
    holds.hold();
    let theirs = append(&mut other, "theirs");
    holds.refresh().expect("a refresh");
    assert_eq!((holds.leaf_id(), holds.tree().len()), (Some(root.clone()), 2));
    assert_eq!(follows.tree().len(), 0, "nothing is read before it is asked for");
    follows.refresh().expect("a refresh");
    assert_eq!(follows.leaf_id(), Some(theirs.clone()));
    let third = append(&mut other, "third");
    let mine = append(&mut follows, "mine");
    let parent = |session: &Session, id: &str| session.tree().parent_id(session.tree().find(id).expect(id));
    assert_eq!(parent(&follows, mine.as_str()), Some(third), "the leaf is taken under the lock");
    let branch = append(&mut holds, "branch");
    assert_eq!(parent(&holds, branch.as_str()), Some(root));
    assert_eq!(context(&holds), ["root", "branch"]);
    assert_eq!(holds.tree().len(), 5);
    // A stale rename of the holder would not hide what others wrote.
    let mut later = open();
    append(&mut later, "later");
    holds.set_name("n").expect("a name");
    let again = open();
    assert_eq!(context(&again), ["root", "branch", "later"]);
    assert_eq!(again.tree().stray_tail(), again.tree().iter_all().next_back());
}

#[test]
fn a_held_leaf_that_is_gone_gives_way_to_that_of_the_file() {
    let fs = FaultFs::default();
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let mut held = session(Box::new(JsonlStorage::create(shared, Path::new(FILE), &header()).expect("a new session")));
    held.append(vec![message("user", "one")], Durability::Synced).expect("an append");
    let shorter = fs.get(Path::new(FILE)).expect("the file");
    held.append(vec![message("user", "two")], Durability::Synced).expect("an append");
    held.hold();
    fs.take(Path::new(FILE));
    fs.put(Path::new(FILE), &shorter);
    held.append(vec![message("user", "three")], Durability::Synced).expect("an append");
    assert_eq!(context(&held), ["one", "three"]);
}
