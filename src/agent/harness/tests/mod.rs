//! The harness on files: writes, runs, queues.

mod compacting;
mod hooking;
mod navigating;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio::sync::{Barrier, Notify};

use super::super::event::AgentEvent;
use super::super::hooks::{BeforeProviderRequest, HookError, Hooks, ProviderRequestAnswer};
use super::super::testing::{Place, Probe, Seen, call, names, short_message, warnings};
use super::super::tools::ToolOutput;
use super::super::{Activity, AgentError, EndReason, QueueMode, ServedModel};
use super::*;
use crate::llm::scripted::{Reply, Scripted, Step};
use crate::llm::{Model, ProviderError};
use crate::session::json::Json;
use crate::storage::fs::StdFs;

/// Looks at something before each request.
pub(super) struct BeforeRequest<F>(pub F);

#[async_trait]
impl<F: Fn() + Send + Sync> Hooks for BeforeRequest<F> {
    async fn before_provider_request(&self, _event: &BeforeProviderRequest) -> Result<ProviderRequestAnswer, HookError> {
        (self.0)();
        Ok(ProviderRequestAnswer::default())
    }
}

/// A cell that a tool can find its harness in.
type Cell = Arc<OnceLock<Arc<AgentHarness>>>;

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A run of one call and one answer; gives what was on disk at each request and inside the tool.
async fn looked_at(policy: FlushPolicy) -> (Vec<Vec<String>>, (usize, usize), Vec<String>) {
    let place = Place::new();
    let seen = Seen::new();
    let (at_request, in_tool, path) = (seen.clone(), seen.clone(), place.path.clone());
    let (harness, _) = place.harness([call("probe"), Step::text("done")], |options| {
        options.flush_policy = policy;
        let tool_path = path.clone();
        options.tools = vec![Probe::looking("probe", move || in_tool.add(super::super::testing::lines_of(&tool_path)))];
        options.hooks = vec![Arc::new(BeforeRequest(move || at_request.add(super::super::testing::lines_of(&path))))];
    });
    let outcome = harness.prompt("hi").await.expect("a run");
    assert_eq!((outcome.reason.clone(), outcome.answer_text()), (EndReason::Done, "done".to_owned()));
    (seen.all(), place.counts(), place.lines())
}

#[tokio::test]
async fn a_turn_is_written_in_one_write_and_only_the_prompt_before() {
    let (seen, counts, lines) = looked_at(FlushPolicy::Turn).await;
    let before = strings(&["session", "user hi"]);
    let after = strings(&["session", "user hi", "assistant", "toolResult ok"]);
    assert_eq!(seen, [before.clone(), before, after.clone()]);
    assert_eq!(counts, (3, 3), "writes and syncs: the prompt and two turns");
    assert_eq!(lines, [after, strings(&["assistant done"])].concat());
}

#[tokio::test]
async fn the_policies_entry_and_off_write_more_and_sync_less() {
    let (seen, counts, _) = looked_at(FlushPolicy::Entry).await;
    assert_eq!(seen[1], strings(&["session", "user hi", "assistant"]));
    assert_eq!(counts, (4, 4));
    let (seen, counts, _) = looked_at(FlushPolicy::Off).await;
    assert_eq!(seen[1], strings(&["session", "user hi"]));
    assert_eq!(counts, (3, 0));
}

#[tokio::test]
async fn events_come_in_order() {
    let place = Place::new();
    let (harness, _) = place.harness([call("probe"), Step::text("done")], |options| {
        options.tools = vec![Probe::looking("probe", || {})];
    });
    let mut events = harness.subscribe();
    harness.prompt("hi").await.expect("a run");
    let message = ["message_start", "message_end"];
    let tool = ["tool_execution_start", "tool_execution_end"];
    let ends = ["turn_end", "save_point"];
    let expect: Vec<&str> = [
        &["agent_start", "turn_start"][..],
        &message,
        &["save_point"],
        &message,
        &tool,
        &message,
        &ends,
        &["turn_start"],
        &message,
        &ends,
        &["agent_end"],
    ]
    .concat();
    assert_eq!(names(&mut events), expect);
}

#[tokio::test]
async fn changes_during_a_run_are_written_with_its_turn_in_order() {
    let place = Place::new();
    let cell: Cell = Arc::default();
    let inner = cell.clone();
    let (harness, provider) = place.harness([call("probe"), Step::text("done")], |options| {
        options.tools = vec![Probe::looking("probe", move || {
            let harness = inner.get().expect("the harness");
            let provider: Arc<dyn crate::llm::Provider> = Arc::new(Scripted::new([Step::text("from the other model")]));
            let model = Model { id: "other".into(), ..Scripted::model() };
            harness.set_model(ServedModel { provider, model }).expect("noted");
            harness.set_thinking_level("high").expect("noted");
            harness.set_name("N").expect("noted");
            harness
                .append_custom_message(CustomMessageEntry { custom_type: "note".into(), ..CustomMessageEntry::default() })
                .expect("noted");
        })];
    });
    cell.set(harness.clone()).expect("once");
    let outcome = harness.prompt("hi").await.expect("a run");
    assert_eq!(outcome.answer_text(), "from the other model");
    assert_eq!(provider.steps_left(), 1, "the second request went to the new model");
    let expect = [
        "session",
        "user hi",
        "assistant",
        "model other",
        "thinking high",
        "name N",
        "custom note",
        "toolResult ok",
        "assistant from the other model",
    ];
    assert_eq!(place.lines(), expect);
    assert_eq!(place.counts().0, 3);
    harness.set_thinking_level("low").expect("written at once");
    assert_eq!(place.lines().last().map(String::as_str), Some("thinking low"));
    let resumed = path_state(&place.session()).expect("the state");
    assert_eq!(resumed.thinking_level, "low");
}

#[tokio::test]
async fn a_failed_write_is_told_and_made_good_at_the_next_turn() {
    let place = Place::new();
    let (disk, disk_again) = (place.disk.clone(), place.disk.clone());
    let (harness, provider) = place.harness([call("probe"), call("probe"), Step::text("done")], |options| {
        options.tools = vec![Probe::looking("probe", move || {
            // The first turn's end fails, the second one's does not.
            let is_first = !disk.fail_appends.load(Ordering::SeqCst);
            disk.fail_appends.store(is_first, Ordering::SeqCst);
        })];
    });
    let mut events = harness.subscribe();
    harness.prompt("hi").await.expect("a run");
    assert!(!disk_again.fail_appends.load(Ordering::SeqCst));
    let warned = warnings(&mut events);
    assert!(warned.len() == 1 && warned[0].starts_with("2 entries could not be written"), "{warned:?}");
    let sent: Vec<_> = provider.requests()[1].messages.iter().map(short_message).collect();
    assert_eq!(sent, ["user hi", "assistant", "toolResult ok"], "what waits is in the context");
    let expect = ["session", "user hi", "assistant", "toolResult ok", "assistant", "toolResult ok", "assistant done"];
    assert_eq!(place.lines(), expect);
    assert_eq!(harness.close().expect("closed"), Closed::default());
}

#[tokio::test]
async fn what_is_unwritten_at_the_end_goes_to_a_file_beside_the_session() {
    let place = Place::new();
    let disk = place.disk.clone();
    let (harness, _) = place.harness([call("probe"), Step::text("done")], |options| {
        options.tools = vec![Probe::looking("probe", move || disk.fail_appends.store(true, Ordering::SeqCst))];
    });
    harness.prompt("hi").await.expect("a run");
    assert_eq!(harness.pending(), 3);
    let closed = harness.close().expect("closed");
    let path = closed.unsaved_path.expect("a file");
    assert_eq!((closed.unsaved, path.file_name().and_then(|name| name.to_str())), (3, Some("s.unsaved.jsonl")));
    assert_eq!(super::super::testing::lines_of(&path), ["assistant", "toolResult ok", "assistant done"]);
    assert_eq!(place.lines(), ["session", "user hi"]);
    assert!(matches!(harness.prompt("more").await, Err(AgentError::Closed)));
    assert!(matches!(harness.set_name("x"), Err(AgentError::Closed)));
}

#[tokio::test]
async fn a_prompt_that_cannot_be_stored_is_not_sent_and_not_lost() {
    let place = Place::new();
    let (harness, provider) = place.harness([Step::text("done")], |_| {});
    place.disk.fail_appends.store(true, Ordering::SeqCst);
    let mut events = harness.subscribe();
    let refused = harness.prompt("hi").await;
    assert!(matches!(refused, Err(AgentError::Storage(StorageError::WriteFailed { .. }))), "{refused:?}");
    assert_eq!((provider.requests().len(), harness.activity()), (0, Activity::Idle));
    assert_eq!(names(&mut events).last().map(String::as_str), Some("agent_end"));
    place.disk.fail_appends.store(false, Ordering::SeqCst);
    harness.continue_run().await.expect("a run");
    assert_eq!(place.lines(), ["session", "user hi", "assistant done"]);
}

#[tokio::test]
async fn a_failed_sync_ends_the_run_and_is_not_tried_again() {
    let place = Place::new();
    let disk = place.disk.clone();
    let (harness, provider) = place.harness([call("probe"), Step::text("never")], |options| {
        options.tools = vec![Probe::looking("probe", move || disk.fail_syncs.store(true, Ordering::SeqCst))];
    });
    let broken = harness.prompt("hi").await;
    assert!(matches!(broken, Err(AgentError::Storage(StorageError::SyncFailed { .. } | StorageError::Poisoned(_)))));
    place.disk.fail_syncs.store(false, Ordering::SeqCst);
    let error = harness.prompt("more").await.expect_err("poisoned");
    assert!(error.to_string().contains("must be reopened"), "{error}");
    assert_eq!(provider.requests().len(), 1);
}

#[tokio::test]
async fn an_abort_gives_the_calls_that_go_on_error_results() {
    let place = Place::new();
    let started = Arc::new(Notify::new());
    let tell = started.clone();
    let reply = Reply::new().call("fast", Json::empty_object()).call("slow", Json::empty_object());
    let (harness, _) = place.harness([Step::Reply(reply), Step::text("never")], |options| {
        let slow = Probe::parallel("slow", move |_| {
            let tell = tell.clone();
            async move {
                tell.notify_one();
                std::future::pending::<ToolOutput>().await
            }
        });
        options.tools = vec![slow, Probe::looking("fast", || {})];
    });
    let (outcome, ()) = tokio::join!(harness.prompt("hi"), async {
        started.notified().await;
        harness.abort();
    });
    assert_eq!(outcome.expect("a run").reason, EndReason::Aborted);
    let lines = place.lines();
    assert_eq!(lines[..4], strings(&["session", "user hi", "assistant", "toolResult ok"]));
    assert!(lines[4].starts_with("toolResult The user aborted the run while this call was going on"), "{}", lines[4]);
    assert_eq!(lines.len(), 5);
}

#[tokio::test]
async fn an_abort_keeps_what_the_model_said_so_far() {
    let place = Place::new();
    let (harness, provider) = place.harness([Step::Hang(Reply::new().text("so far")), Step::text("again")], |_| {});
    let mut events = harness.subscribe();
    let (outcome, ()) = tokio::join!(harness.prompt("hi"), async {
        while let Some(event) = events.next().await {
            if let AgentEvent::MessageUpdate { update: crate::llm::StreamEvent::TextDelta { text, .. } } = &*event
                && text == "far"
            {
                return harness.abort();
            }
        }
    });
    assert_eq!(outcome.expect("a run").reason, EndReason::Aborted);
    assert_eq!(place.lines(), ["session", "user hi", "assistant so far"]);
    harness.continue_run().await.expect("a run");
    let sent: Vec<_> = provider.requests()[1].messages.iter().map(short_message).collect();
    assert_eq!(sent, ["user hi"], "an aborted answer goes to no provider");
}

#[tokio::test]
async fn a_failed_request_is_stored_and_the_session_goes_on() {
    let place = Place::new();
    let refused = ProviderError::Refused { address: "x".into(), status: 400, detail: "no".into() };
    let broken = ProviderError::Cut { address: "x".into(), detail: "gone".into() };
    let steps = [
        Step::Refuse(refused.clone()),
        Step::Break(Reply::new().text("half ").call("probe", Json::empty_object()), broken.clone()),
        Step::text("fine"),
    ];
    let (harness, _) = place.harness(steps, |_| {});
    assert_eq!(harness.prompt("a").await.expect("a run").reason, EndReason::Failed(refused));
    assert_eq!(harness.prompt("b").await.expect("a run").reason, EndReason::Failed(broken));
    assert_eq!(harness.prompt("c").await.expect("a run").reason, EndReason::Done);
    let expect = ["session", "user a", "assistant", "user b", "assistant half", "user c", "assistant fine"];
    assert_eq!(place.lines(), expect);
    let entries = super::super::testing::entries_of(&place);
    let Some(Message::Assistant(failed)) = entries[1].message() else { panic!("{entries:?}") };
    assert_eq!(failed.stop_reason.as_deref(), Some("error"));
    assert!(failed.error_message.as_deref().is_some_and(|text| text.contains("status 400")));
}

#[tokio::test]
async fn a_stop_for_length_runs_no_call() {
    let place = Place::new();
    let ran = Seen::new();
    let inner = ran.clone();
    let cut = Step::Reply(Reply::new().call("probe", Json::empty_object()).cut());
    let (harness, _) = place.harness([cut, Step::text("done")], |options| {
        options.tools = vec![Probe::looking("probe", move || inner.add(()))];
    });
    harness.prompt("hi").await.expect("a run");
    assert!(ran.all().is_empty());
    assert!(place.lines()[3].starts_with("toolResult The answer was cut"), "{:?}", place.lines());
}

#[tokio::test]
async fn steering_comes_before_the_next_request_and_follow_ups_at_the_end() {
    for (mode, expect) in [
        (
            QueueMode::OneAtATime,
            vec![
                "user n",
                "user hi",
                "assistant",
                "toolResult ok",
                "user s1",
                "assistant 1",
                "user s2",
                "assistant 2",
                "user f1",
                "assistant 3",
                "user f2",
                "assistant 4",
            ],
        ),
        (
            QueueMode::All,
            vec![
                "user n",
                "user hi",
                "assistant",
                "toolResult ok",
                "user s1",
                "user s2",
                "assistant 1",
                "user f1",
                "user f2",
                "assistant 2",
            ],
        ),
    ] {
        let place = Place::new();
        let cell: Cell = Arc::default();
        let inner = cell.clone();
        let steps = [call("probe"), Step::text("1"), Step::text("2"), Step::text("3"), Step::text("4")];
        let (harness, _) = place.harness(steps, |options| {
            options.queue_modes.steering = mode;
            options.queue_modes.follow_up = mode;
            options.tools = vec![Probe::looking("probe", move || {
                let harness = inner.get().expect("the harness");
                ["f1", "f2"].iter().for_each(|text| harness.follow_up(*text));
                ["s1", "s2"].iter().for_each(|text| harness.steer(*text));
            })];
        });
        cell.set(harness.clone()).expect("once");
        harness.next_turn("n");
        harness.prompt("hi").await.expect("a run");
        assert_eq!(place.lines()[1..], strings(&expect), "{mode:?}");
    }
}

#[tokio::test]
async fn a_run_stops_after_its_most_turns() {
    let place = Place::new();
    let (harness, provider) = place.harness([call("probe"), call("probe"), call("probe")], |options| {
        options.max_turns = 2;
        options.tools = vec![Probe::looking("probe", || {})];
    });
    let mut events = harness.subscribe();
    assert_eq!(harness.prompt("hi").await.expect("a run").reason, EndReason::MaxTurns(2));
    assert_eq!((provider.requests().len(), warnings(&mut events)), (2, strings(&["the run was stopped after 2 turns"])));
}

#[tokio::test]
async fn calls_run_at_once_unless_a_tool_is_sequential() {
    let place = Place::new();
    let both = || Step::Reply(Reply::new().call("a", Json::empty_object()).call("b", Json::empty_object()));
    let barrier = Arc::new(Barrier::new(2));
    let (harness, _) = place.harness([both(), Step::text("done")], |options| {
        let meet = |name| {
            let barrier = barrier.clone();
            Probe::parallel(name, move |_| {
                let barrier = barrier.clone();
                async move {
                    // Only two that run at once pass.
                    barrier.wait().await;
                    ToolOutput::text(name)
                }
            })
        };
        options.tools = vec![meet("a"), meet("b")];
    });
    harness.prompt("hi").await.expect("a run");
    assert_eq!(place.lines()[3..5], strings(&["toolResult a", "toolResult b"]));

    let place = Place::new();
    let log: Seen<String> = Seen::new();
    let (harness, _) = place.harness([both(), Step::text("done")], |options| {
        let logging = |name: &'static str| {
            let log = log.clone();
            move |_| {
                let log = log.clone();
                async move {
                    log.add(format!("{name} begins"));
                    tokio::task::yield_now().await;
                    log.add(format!("{name} ends"));
                    ToolOutput::text(name)
                }
            }
        };
        options.tools = vec![Probe::parallel("a", logging("a")), Probe::sequential("b", logging("b"))];
    });
    harness.prompt("hi").await.expect("a run");
    assert_eq!(log.all(), strings(&["a begins", "a ends", "b begins", "b ends"]));
}

#[tokio::test]
async fn a_tool_that_is_missing_crashes_or_gets_no_object_gives_an_error_result() {
    let place = Place::new();
    let no_object = Json::parse("[1]").expect("JSON");
    let reply = Reply::new().call("none", Json::empty_object()).call("bad", Json::empty_object()).call("bad", no_object);
    let (harness, _) = place.harness([Step::Reply(reply), Step::text("done")], |options| {
        options.tools = vec![Probe::parallel("bad", |_| async { panic!("on purpose") })];
    });
    harness.prompt("hi").await.expect("a run");
    let expect = [
        "toolResult there is no tool none",
        "toolResult the tool crashed; what it did until then is unknown",
        "toolResult the arguments are not a JSON object",
    ];
    assert_eq!(place.lines()[3..6], strings(&expect));
}

#[tokio::test]
async fn a_dropped_run_leaves_no_open_call() {
    let place = Place::new();
    let started = Arc::new(Notify::new());
    let tell = started.clone();
    let (harness, _) = place.harness([call("slow"), Step::text("done")], |options| {
        options.tools = vec![Probe::parallel("slow", move |_| {
            let tell = tell.clone();
            async move {
                tell.notify_one();
                std::future::pending::<ToolOutput>().await
            }
        })];
    });
    tokio::select! {
        _ = harness.prompt("hi") => panic!("the tool never ends"),
        () = started.notified() => {}
    }
    assert_eq!((harness.activity(), place.lines().len()), (Activity::Idle, 2));
    harness.set_name("N").expect("written");
    let lines = place.lines();
    assert!(lines[3].starts_with("toolResult This call was interrupted"), "{lines:?}");
    assert_eq!((lines.len(), lines[4].as_str()), (5, "name N"));
}

#[tokio::test]
async fn only_one_thing_goes_on_at_a_time() {
    let place = Place::new();
    let cell: Cell = Arc::default();
    let (inner, seen) = (cell.clone(), Seen::new());
    let tool_seen = seen.clone();
    let (harness, _) = place.harness([Step::text("a"), call("probe"), Step::text("done")], |options| {
        options.tools = vec![Probe::parallel("probe", move |_| {
            let (harness, seen) = (inner.get().expect("the harness").clone(), tool_seen.clone());
            async move {
                let root = harness.with_session(|session| session.tree().id(session.tree().path(session.leaf())[0]));
                seen.add(harness.compact(CompactOptions::default()).await.expect_err("busy").to_string());
                seen.add(harness.navigate(&root, NavigateOptions::default()).await.expect_err("busy").to_string());
                seen.add(harness.prompt("x").await.expect_err("busy").to_string());
                seen.add(harness.close().expect_err("busy").to_string());
                ToolOutput::text("ok")
            }
        })];
    });
    cell.set(harness.clone()).expect("once");
    harness.prompt("one").await.expect("a run");
    harness.prompt("two").await.expect("a run");
    assert_eq!(seen.all(), vec!["busy: a turn is running".to_owned(); 4]);
}

#[tokio::test]
async fn there_must_be_something_to_continue() {
    let place = Place::new();
    let (harness, _) = place.harness([Step::text("a"), Step::text("b")], |_| {});
    assert!(matches!(harness.continue_run().await, Err(AgentError::NothingToContinue)));
    harness.prompt("hi").await.expect("a run");
    assert!(matches!(harness.continue_run().await, Err(AgentError::NothingToContinue)));
    harness.follow_up("more");
    harness.continue_run().await.expect("a run");
    assert_eq!(place.lines()[3..], strings(&["user more", "assistant b"]));
}

#[tokio::test]
async fn a_run_can_be_spawned_and_waited_for() {
    let place = Place::new();
    let (harness, _) = place.harness([Step::Hang(Reply::new())], |_| {});
    let mut events = harness.subscribe();
    let running = tokio::spawn({
        let harness = harness.clone();
        async move { harness.prompt("hi").await }
    });
    while let Some(event) = events.next().await {
        if matches!(*event, AgentEvent::MessageEnd { .. }) {
            break;
        }
    }
    harness.abort();
    harness.wait_for_idle().await;
    assert_eq!(running.await.expect("no panic").expect("a run").reason, EndReason::Aborted);
}

#[tokio::test]
async fn a_harness_that_is_dropped_writes_what_waits() {
    let place = Place::new();
    let started = Arc::new(Notify::new());
    let tell = started.clone();
    let (harness, _) = place.harness([call("slow")], |options| {
        options.tools = vec![Probe::parallel("slow", move |_| {
            let tell = tell.clone();
            async move {
                tell.notify_one();
                std::future::pending::<ToolOutput>().await
            }
        })];
    });
    tokio::select! {
        _ = harness.prompt("hi") => panic!("the tool never ends"),
        () = started.notified() => {}
    }
    drop(harness);
    assert_eq!(place.lines().len(), 4, "header, prompt, answer and its result");
}

#[tokio::test]
async fn the_path_tells_level_and_tools_unless_it_names_none_of_ours() {
    let place = Place::new();
    let tools = || vec![Probe::looking("a", || {}), Probe::looking("b", || {})];
    let (harness, _) = place.harness([], |options| options.tools = tools());
    harness.set_active_tools(vec!["b".into()]).expect("written");
    harness.set_thinking_level("low").expect("written");
    assert!(matches!(harness.set_active_tools(vec!["c".into()]), Err(AgentError::NoSuchTool(_))));
    harness.close().expect("closed");
    let (harness, provider) = place.harness([Step::text("done")], |options| options.tools = tools());
    harness.prompt("hi").await.expect("a run");
    let request = &provider.requests()[0];
    let names: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((names, request.thinking_level.as_str(), request.session_id.as_deref()), (vec!["b"], "low", Some("s1")));
    assert!(request.system_prompt.as_ref().is_some_and(|prompt| prompt.contains("- b: ") && !prompt.contains("- a: ")));
    drop(harness);
    let (harness, _) = place.harness([], |options| options.tools = vec![Probe::looking("x", || {})]);
    assert_eq!(harness.active_tools(), ["x"]);
}

#[tokio::test]
async fn a_skill_is_invoked_by_its_name() {
    let place = Place::new();
    let skill_folder = place.folder.path().join("skills/pdf");
    let file = skill_folder.join("SKILL.md");
    StdFs.create_dir_all(&skill_folder).expect("a folder");
    let open = StdFs.open(&file, crate::storage::fs::OpenFor::CreateNew).expect("a file");
    open.append(b"---\ndescription: reads\n---\nDo this.").expect("written");
    let env = Env::new(place.folder.path(), place.folder.path().join("out"), Default::default());
    let skills = crate::agent::skill::Skill::find(&env, &[place.folder.path().join("skills")]).await;
    let (harness, provider) = place.harness([Step::text("done")], |options| options.prompt.skills = skills);
    harness.prompt_skill(&env, "pdf", "a.pdf").await.expect("a run");
    let sent = provider.requests()[0].messages[0].text();
    assert!(sent.contains("Do this.") && sent.ends_with("a.pdf"), "{sent}");
    assert!(matches!(harness.prompt_skill(&env, "none", "").await, Err(AgentError::NoSuchSkill(_))));
}

#[tokio::test]
async fn a_label_needs_its_entry() {
    let place = Place::new();
    let (harness, _) = place.harness([Step::text("done")], |_| {});
    assert!(matches!(harness.set_label(&EntryId::from("none"), Some("L")), Err(AgentError::NoSuchEntry(_))));
    harness.prompt("hi").await.expect("a run");
    let leaf = harness.with_session(Session::leaf_id).expect("a leaf");
    harness.set_label(&leaf, Some(" L ")).expect("written");
    assert_eq!(place.lines().last().map(String::as_str), Some("label L"));
}
