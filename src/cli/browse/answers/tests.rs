//! Answers that come late or in another order than they were asked for, as threads give them.

use std::collections::VecDeque;

use super::*;
use crate::cli::browse::desk::Desk;
use crate::cli::browse::event::{Event, PageOf, Request};
use crate::cli::browse::keys::Key;
use crate::cli::browse::session_list::{Hit, Hits};
use crate::cli::browse::state::StateOptions;
use crate::cli::browse::tree_pane::RowText;
use crate::cli::system_trash::SystemTrash;
use crate::session::entry::EntryKind;
use crate::session::message::Message;
use crate::session::tree::EntryIndex;
use crate::storage::fs::StdFs;
use crate::storage::repo::{Layout, NewSession, Repo};
use crate::storage::{Durability, RandomIds, SystemClock};

/// A browser without threads, and its sessions.
struct Bench {
    _root: tempfile::TempDir,
    desk: Desk,
    state: State,
    /// The selected one, and one that was worked on before.
    paths: [PathBuf; 2],
}

/// Two sessions of three messages, both listed, and the latest open. `select` is the one to select.
fn bench(select: Option<usize>) -> Bench {
    let root = tempfile::tempdir().expect("a folder");
    let repo = Repo::new(Arc::new(StdFs), Arc::new(SystemClock), Arc::new(RandomIds), root.path().into(), Layout::Flat);
    let paths = [9_000, 1_000].map(|time_ms| {
        let mut session = repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect("a session");
        let messages = (0..3).map(|number| EntryKind::message(Message::user(format!("said {number}"), time_ms + number)));
        session.append(messages.collect(), Durability::Unsynced).expect("an append");
        session.read().path().expect("a file").to_owned()
    });
    let desk = Desk::new(repo, "/p".to_owned(), root.path().into(), None, Arc::new(SystemTrash));
    let options = StateOptions { select: select.map(|at| paths[at].clone()), ..StateOptions::default() };
    let (state, _) = State::new(options, (80, 24));
    let mut bench = Bench { _root: root, desk, state, paths };
    let listed = bench.answer(Request::List);
    if select.is_none() {
        bench.settle(listed);
    }
    bench
}

impl Bench {
    fn answer(&self, request: Request) -> Reply {
        self.desk.answer(request, &|_| false, &|_| ())
    }

    /// Gives a reply, and then the answers to all that is asked for because of it.
    fn settle(&mut self, reply: Reply) {
        let mut replies = VecDeque::from([reply]);
        while let Some(reply) = replies.pop_front() {
            for effect in self.state.update(Event::Reply(reply)) {
                if let Effect::Ask(request) = effect {
                    replies.push_back(self.answer(request));
                }
            }
        }
    }

    /// Gives a reply and answers nothing.
    fn reply(&mut self, reply: Reply) -> Vec<Effect> {
        self.state.update(Event::Reply(reply))
    }

    fn press(&mut self, key: &str) -> Vec<Effect> {
        self.state.update(Event::Key(Key::named(key)))
    }

    fn opened(&self, at: usize) -> Reply {
        self.answer(Request::Open { path: self.paths[at].clone(), scope: self.state.scope, ticket: 0 })
    }

    fn shown_path(&self) -> Option<&Path> {
        self.state.tree.session().map(|session| &*session.path)
    }

    fn serial(&self) -> u64 {
        self.state.tree.session().expect("it is open").serial
    }

    fn entries(&self) -> Vec<EntryIndex> {
        self.state.tree.session().expect("it is open").session.tree().iter_all().collect()
    }

    fn hit(&self, at: usize, entry: &str) -> Hit {
        let (head, title, snippet) = (String::new(), String::new(), Vec::new());
        Hit { path: self.paths[at].clone(), entry: entry.into(), head, title, timestamp_ms: None, snippet }
    }
}

#[test]
fn a_session_that_opens_when_another_one_is_selected_is_not_shown() {
    let mut bench = bench(None);
    assert_eq!(bench.shown_path(), Some(&*bench.paths[0]));
    let late = bench.opened(1);
    bench.reply(late);
    assert_eq!(bench.shown_path(), Some(&*bench.paths[0]));
}

#[test]
fn rows_texts_and_pages_of_another_opening_or_view_are_not_taken() {
    let mut bench = bench(None);
    let (serial, scope, entries) = (bench.serial(), bench.state.scope, bench.entries());
    bench.reply(Reply::Rows(serial + 1, scope, Vec::new()));
    bench.reply(Reply::Rows(serial, Scope::Labelled, Vec::new()));
    assert_eq!(bench.state.tree.shown().len(), 3);
    let text = RowText { text: "another".to_owned(), ..RowText::default() };
    bench.reply(Reply::Texts(serial + 1, vec![(entries[0], text)]));
    assert_ne!(bench.state.tree.texts[&entries[0]].text, "another");
    let lines = bench.state.page.lines.len();
    assert!(lines > 0, "a page is there");
    let of = |entry: usize, unfolded| PageOf { entry: entries[entry], unfolded };
    for (serial, of) in [(serial + 1, of(2, false)), (serial, of(2, true)), (serial, of(0, false))] {
        bench.reply(Reply::Page(serial, of, Page::default()));
        assert_eq!(bench.state.page.lines.len(), lines, "{serial} {of:?}");
    }
    // The same from this opening are taken.
    bench.reply(Reply::Page(serial, of(2, false), Page::default()));
    bench.reply(Reply::Rows(serial, scope, Vec::new()));
    assert_eq!((bench.state.page.lines.len(), bench.state.tree.shown().len()), (0, 0));
}

#[test]
fn hits_of_another_search_and_progress_of_a_list_that_is_there_are_not_taken() {
    let mut bench = bench(None);
    bench.reply(Reply::ListProgress(1, 2));
    assert_eq!(bench.state.listing, Listing::Done(0));
    bench.state.hits = Some(Hits { query: "new".to_owned(), is_running: true, ..Hits::default() });
    let hits = vec![bench.hit(0, "x")];
    bench.reply(Reply::Searched { query: "old".to_owned(), hits: hits.clone(), has_more: false });
    assert!(bench.state.hits.as_ref().is_some_and(|shown| shown.is_running && shown.hits.is_empty()));
    bench.reply(Reply::Searched { query: "new".to_owned(), hits, has_more: false });
    assert!(bench.state.hits.as_ref().is_some_and(|shown| !shown.is_running && shown.hits.len() == 1));
}

#[test]
fn a_session_to_select_is_waited_for() {
    let mut bench = bench(Some(1));
    let Reply::Listed { items, .. } = bench.answer(Request::List) else { panic!("a list") };
    let first = items.iter().filter(|item| item.path == bench.paths[0]).cloned().collect();
    for (items, selected) in [(first, 0), (items, 1)] {
        bench.settle(Reply::Listed { items, skipped: 0, took_ms: 0 });
        assert_eq!(bench.state.selected_path(), Some(&*bench.paths[selected]));
    }
}

#[test]
fn a_restore_that_failed_can_be_tried_again() {
    let mut bench = bench(None);
    let restore = Act::Restore("/gone.jsonl".into(), "a title".to_owned());
    bench.reply(Reply::Acted(restore.clone(), Err("the trash is busy".to_owned())));
    let asked = bench.press("u");
    assert!(asked.iter().any(|effect| matches!(effect, Effect::Ask(Request::Act(act)) if *act == restore)), "{asked:?}");
}

#[test]
fn where_a_session_that_was_found_is_gone_the_next_hit_is_gone_to() {
    let mut bench = bench(None);
    let Reply::Opened(other, ..) = bench.opened(1) else { panic!("a session") };
    let first = other.session.tree().iter_all().next().map(|entry| other.session.tree().id(entry)).expect("an entry");
    let hits = vec![bench.hit(0, "x"), bench.hit(1, first.as_str())];
    bench.state.hits = Some(Hits { query: "said".to_owned(), hits, ..Hits::default() });
    let path = bench.paths[0].clone();
    bench.settle(Reply::OpenFailed { path, problem: "gone".to_owned(), is_gone: true });
    assert_eq!((bench.shown_path(), bench.state.tree.selected_id()), (Some(&*bench.paths[1]), Some(first)));
}

#[test]
fn what_is_found_is_gone_to_from_where_one_is_and_round() {
    let mut bench = bench(None);
    let entries = bench.entries();
    bench.state.tree.go_to_entry(entries[1]);
    let serial = bench.serial();
    bench.reply(Reply::Found(serial, "said".to_owned(), vec![entries[0], entries[2]]));
    assert_eq!(bench.state.tree.selected(), Some(entries[2]));
    for (back, at) in [(false, 0), (false, 2), (true, 0), (true, 2)] {
        assert!(bench.state.tree.next_found(back));
        assert_eq!(bench.state.tree.selected(), Some(entries[at]));
    }
}

#[test]
fn a_session_that_could_not_be_opened_is_not_resumed_when_it_can() {
    for fails in [false, true] {
        let mut bench = bench(None);
        bench.press("Down");
        bench.press("Enter");
        if fails {
            let path = bench.paths[1].clone();
            bench.reply(Reply::OpenFailed { path, problem: "not now".to_owned(), is_gone: false });
        }
        let opened = bench.opened(1);
        bench.reply(opened);
        assert_eq!(bench.shown_path(), Some(&*bench.paths[1]));
        // Its folder is gone, so one is asked before it is resumed.
        assert_eq!(bench.state.dialog.is_none(), fails, "{:?}", bench.state.dialog);
    }
}
