//! Long sessions: compactions one after the other, a way back, a restart, with every context checked.
//!
//! # Invariants
//! - The model is a test's own: it answers each prompt with a call and then a text, and keeps every request.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream;
use tokio_util::sync::CancellationToken;

use pi_sessions::agent::harness::{HarnessOptions, NavigateOptions, NavigateSummary, SummaryBy};
use pi_sessions::agent::prompt::SystemPrompt;
use pi_sessions::agent::tools::{Tool, ToolInvocation, ToolOutput};
use pi_sessions::agent::{AgentHarness, EndReason, ServedModel};
use pi_sessions::compaction::tokens::{CompactionSettings, estimate_message, estimate_overhead};
use pi_sessions::llm::{EventStream, Exchange, Model, Prices, Provider, ProviderError, Request, StreamEvent, ToolDeclaration};
use pi_sessions::session::entry::{EntryId, EntryKind, EntryType};
use pi_sessions::session::json::Json;
use pi_sessions::session::message::{AssistantMessage, Block, Content, Cost, Message, ToolCall, Usage};
use pi_sessions::storage::fs::{Fs, StdFs};
use pi_sessions::storage::repo::{Layout, NewSession, Repo};
use pi_sessions::storage::{RandomIds, SystemClock};

const GOAL: &str = "Reach the far shore";

/// A model that works through its prompts, and writes summaries that name the goal if they were told of it.
#[derive(Default)]
struct Talker {
    asked: Mutex<Vec<Request>>,
    to_summarize: Mutex<Vec<String>>,
}

impl Talker {
    fn answer(&self, request: &Request) -> Vec<Block> {
        let said = request.messages.iter().rev().find(|it| matches!(it, Message::User(_))).map(Message::text).unwrap_or_default();
        if said.contains("<conversation>") {
            let mut inputs = self.to_summarize.lock().expect("no panic");
            inputs.push(said.clone());
            let goal = if said.contains(GOAL) { GOAL } else { "none" };
            return vec![Block::text(format!("## Goal\n{goal}\n\n## Progress\nSUMMARY-{}.", inputs.len()))];
        }
        self.asked.lock().expect("no panic").push(request.clone());
        let number = said.split_whitespace().nth(1).unwrap_or("0").to_owned();
        if matches!(request.messages.last(), Some(Message::ToolResult(_))) {
            return vec![Block::text(format!("Answer {number} {}", "and so on ".repeat(110)))];
        }
        let arguments = Json::parse(&format!(r#"{{"path":"file{number}.txt"}}"#)).expect("JSON");
        let (id, name) = (format!("call-{number}"), "look".to_owned());
        vec![Block::ToolCall(ToolCall { id, name, arguments, extra: Default::default() })]
    }
}

#[async_trait]
impl Provider for Talker {
    fn api(&self) -> &'static str {
        "talker"
    }

    async fn stream(
        &self,
        request: &Request,
        _exchange: &dyn Exchange,
        _abort: &CancellationToken,
    ) -> Result<EventStream, ProviderError> {
        let input = size(request);
        let content = Content::Blocks(self.answer(request));
        let is_call = matches!(&content, Content::Blocks(blocks) if matches!(blocks[0], Block::ToolCall(_)));
        let message = AssistantMessage {
            content: Some(content),
            api: Some("talker".to_owned()),
            provider: Some(request.model.provider.clone()),
            model: Some(request.model.id.clone()),
            usage: Some(Usage { input, total_tokens: Some(input), cost: Some(Cost::default()), ..Usage::default() }),
            stop_reason: Some(if is_call { "toolUse" } else { "stop" }.to_owned()),
            timestamp: Some(request.now_ms),
            ..AssistantMessage::default()
        };
        Ok(Box::pin(stream::iter([Ok(StreamEvent::Start), Ok(StreamEvent::Done(Box::new(message)))])))
    }
}

/// The tokens of a request.
fn size(request: &Request) -> u64 {
    let tools = request.tools.iter().flat_map(|it| [it.name.as_str(), it.description.as_str(), it.parameters.as_str()]);
    let overhead = estimate_overhead(request.system_prompt.as_deref().unwrap_or_default(), tools);
    request.messages.iter().map(estimate_message).sum::<u64>() + overhead
}

struct Look;

#[async_trait]
impl Tool for Look {
    fn declaration(&self) -> ToolDeclaration {
        let parameters = Json::parse(r#"{"type":"object","properties":{"path":{"type":"string"}}}"#).expect("JSON");
        ToolDeclaration { name: "look".to_owned(), description: "Looks.".to_owned(), parameters }
    }

    async fn run(&self, call: ToolInvocation<'_>) -> ToolOutput {
        ToolOutput::text(format!("Seen {} {}", call.arguments.as_str(), "line of a file ".repeat(140)))
    }
}

/// A session in a folder of its own, and who talks in it.
struct Scene {
    talker: Arc<Talker>,
    repo: Repo,
    path: std::path::PathBuf,
    window: u64,
    by: SummaryBy,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new(window: u64, by: SummaryBy) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let fs: Arc<dyn Fs> = Arc::new(StdFs);
        let repo = Repo::new(fs, Arc::new(SystemClock), Arc::new(RandomIds), folder.path().to_owned(), Layout::Nested);
        let session = repo.create(NewSession { cwd: "/p".to_owned(), ..NewSession::default() }).expect("a session");
        let path = session.read().path().expect("a file").to_owned();
        Self { talker: Arc::default(), repo, path, window, by, _folder: folder }
    }

    fn model(&self, id: &str, context_window: u64) -> ServedModel {
        let model = Model {
            provider: "test".to_owned(),
            id: id.to_owned(),
            api: "talker".to_owned(),
            context_window,
            max_tokens: None,
            prices: Prices::default(),
        };
        ServedModel { provider: self.talker.clone(), model }
    }

    /// A harness on the session as the file has it.
    fn open(&self) -> AgentHarness {
        let session = self.repo.open(&self.path).expect("the session opens");
        let served = self.model("small", self.window);
        let mut options = HarnessOptions::new(served.provider, served.model);
        options.prompt = SystemPrompt::of("Talk.");
        options.tools = vec![Arc::new(Look)];
        options.compaction.by = self.by;
        options.compaction.summary_model = Some(self.model("large", 400_000));
        AgentHarness::new(session, options).expect("a harness")
    }

    fn settings(&self) -> CompactionSettings {
        CompactionSettings::for_window(self.window, None, None)
    }

    fn requests(&self) -> Vec<Request> {
        self.talker.asked.lock().expect("no panic").clone()
    }

    fn inputs(&self) -> Vec<String> {
        self.talker.to_summarize.lock().expect("no panic").clone()
    }
}

/// The text of the N-th message of the user.
fn said(number: usize) -> String {
    let goal = if number == 1 { GOAL } else { "Go on" };
    format!("Message {number} {goal} {}", "with some words ".repeat(120))
}

async fn say(harness: &AgentHarness, number: usize) {
    let outcome = harness.prompt(said(number)).await.expect("a run");
    assert_eq!(outcome.reason, EndReason::Done, "message {number}");
}

fn compactions(harness: &AgentHarness) -> usize {
    harness.with_session(|session| {
        let tree = session.tree();
        tree.iter().filter(|index| tree.entry_type(*index) == EntryType::Compaction).count()
    })
}

/// The context of the session's leaf, each message by its beginning.
fn context(harness: &AgentHarness) -> Vec<Message> {
    harness.with_session(|session| session.project(session.leaf(), &[]).expect("a context").into_messages())
}

/// The numbers of the user's messages in a list of messages.
fn numbers<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<usize> {
    let texts = messages.into_iter().filter(|it| matches!(it, Message::User(_))).map(Message::text);
    let numbers = texts.filter_map(|text| text.strip_prefix("Message ")?.split(' ').next()?.parse().ok());
    numbers.collect()
}

/// Every request fits into the window, and has each result right behind its call.
fn check_requests(requests: &[Request], window: u64) {
    for request in requests {
        assert!(size(request) <= window, "{} tokens", size(request));
        let mut open: Vec<String> = Vec::new();
        for message in &request.messages {
            match message {
                Message::Assistant(answer) => {
                    assert!(open.is_empty(), "a call without a result");
                    open = answer.tool_calls().map(|call| call.id.clone()).collect();
                }
                Message::ToolResult(result) => {
                    let at = open.iter().position(|id| *id == result.tool_call_id).expect("a result without its call");
                    open.remove(at);
                }
                _ => assert!(open.is_empty(), "a call without a result"),
            }
        }
        assert!(open.is_empty() && !matches!(request.messages.first(), Some(Message::ToolResult(_))));
    }
}

#[tokio::test]
async fn thirty_compactions_keep_the_goal_the_window_and_every_message() {
    for by in [SummaryBy::Model, SummaryBy::Extractive] {
        let scene = Scene::new(6_000, by);
        let harness = scene.open();
        let mut number = 0;
        while compactions(&harness) < 31 {
            number += 1;
            assert!(number < 400, "it compacts too rarely");
            say(&harness, number).await;
        }
        check_requests(&scene.requests(), scene.window);
        let goals = harness.with_session(|session| {
            let entries = session.tree().iter().map(|index| session.read().entry(index).expect("a line").expect("an entry"));
            let summaries = entries.filter_map(|entry| match entry.kind {
                EntryKind::Compaction(compaction) => Some(compaction.summary),
                _ => None,
            });
            let goal = |summary: String| summary.split("## ").find(|part| part.starts_with("Goal")).expect("a goal").to_owned();
            summaries.map(goal).collect::<Vec<_>>()
        });
        assert!(goals.len() > 30 && goals.iter().all(|goal| goal.contains(GOAL)), "{by:?} {goals:?}");
        // Every message that was ever sent is in the file.
        harness.close().expect("it closes");
        let text = std::fs::read_to_string(&scene.path).expect("the file");
        for number in 1..=number {
            for words in [format!("Message {number} "), format!("Answer {number} "), format!("file{number}.txt\\\"}} line")] {
                assert_eq!(text.matches(&words).count().min(1), 1, "{by:?} {words}");
            }
        }
    }
}

#[tokio::test]
async fn a_long_session_is_compacted_left_summarized_restarted_and_goes_on() {
    let scene = Scene::new(18_000, SummaryBy::Model);
    let harness = scene.open();
    let keep = scene.settings().keep_recent_tokens;
    let mut eighth: Option<EntryId> = None;
    let mut seen = 0;
    for number in 1..=25 {
        say(&harness, number).await;
        let context = context(&harness);
        let last = scene.requests().pop().expect("a request");
        assert_eq!(numbers(&last.messages).last(), Some(&number));
        if compactions(&harness) == 0 {
            assert_eq!(numbers(&context), (1..=number).collect::<Vec<_>>(), "nothing is left out before the first compaction");
        } else {
            let kept = numbers(&context);
            assert_eq!(kept, (kept[0]..=number).collect::<Vec<_>>(), "what stays is the end, without gaps");
            assert!(matches!(context[0], Message::CompactionSummary(_)));
        }
        if number == 8 {
            assert_eq!(compactions(&harness), 0, "the way back has no compaction");
            eighth = harness.with_session(|session| session.leaf_id());
        }
        if compactions(&harness) > seen {
            seen += 1;
            assert_eq!(compactions(&harness), seen);
            let Message::CompactionSummary(summary) = &context[0] else { panic!("a summary") };
            assert!(summary.summary.contains(GOAL) && summary.summary.contains("SUMMARY-"), "{}", summary.summary);
            // The first request behind the compaction: the summary, what is kept, and the message that was about to be sent.
            let requests = scene.requests();
            let first = requests.iter().find(|it| it.messages[0].text().contains(&summary.summary)).expect("its request");
            let tokens: Vec<_> = first.messages.iter().map(estimate_message).collect();
            let largest = tokens.iter().max().copied().unwrap_or(0);
            let is_new = matches!(first.messages.last(), Some(Message::User(_)));
            let new = if is_new { tokens[tokens.len() - 1] } else { 0 };
            let all: u64 = tokens.iter().sum();
            assert!(all <= keep + tokens[0] + new + largest, "{all} tokens after compaction {seen}");
            let inputs = scene.inputs();
            let is_update = inputs.iter().filter(|input| input.contains("<previous-summary>")).count();
            assert_eq!(is_update, seen - 1, "each further one brings the last up to date");
        }
    }
    assert_eq!(seen, 3, "three compactions in 25 messages");
    check_requests(&scene.requests(), scene.window);

    // Back to the eighth message, with a summary of what came after it.
    let before = scene.inputs().len();
    let summary = NavigateSummary::Made { by: SummaryBy::Model, instructions: Some("BRIEFLY".to_owned()) };
    let target = eighth.expect("the eighth");
    let navigation = harness.navigate(&target, NavigateOptions { summary }).await.expect("it goes there");
    assert!(navigation.summary_id.is_some() && navigation.leaf_id == navigation.summary_id);
    let inputs = scene.inputs();
    assert_eq!(inputs.len(), before + 1);
    let input = &inputs[before];
    assert!((9..=25).all(|number| input.contains(&format!("Message {number} "))) && !input.contains("Message 8 "), "{input}");
    // One before the first compaction's number is that of its own request.
    let told: Vec<_> = (1..=before).filter(|at| input.contains(&format!("SUMMARY-{at}."))).collect();
    assert!(told.len() >= 3 && input.contains("BRIEFLY"), "the compactions on the way are in it: {told:?}");
    let check_back = |messages: &[Message], more: &[usize]| {
        let expect: Vec<_> = (1..=8).chain(more.iter().copied()).collect();
        assert_eq!(numbers(messages), expect);
        for number in &expect {
            assert!(messages.iter().any(|it| it.text() == said(*number)), "message {number} is there in full");
        }
    };
    check_back(&context(&harness), &[]);
    let after = context(&harness);
    assert!(matches!(after.last(), Some(Message::BranchSummary(_))) && after.len() == 8 * 4 + 1);
    assert!(!after.iter().any(|it| matches!(it, Message::CompactionSummary(_))));

    // On from there.
    let asked = scene.requests().len();
    say(&harness, 26).await;
    let request = &scene.requests()[asked];
    check_back(&request.messages, &[26]);
    assert!(request.messages.iter().any(|it| it.text().contains(&format!("SUMMARY-{}.", before + 1))));
    check_back(&context(&harness), &[26]);

    // A restart, and on again.
    let told = context(&harness);
    harness.close().expect("it closes");
    let harness = scene.open();
    assert_eq!(context(&harness), told, "the file says the same");
    let asked = scene.requests().len();
    say(&harness, 27).await;
    check_back(&scene.requests()[asked].messages, &[26, 27]);
    check_back(&context(&harness), &[26, 27]);
    check_requests(&scene.requests(), scene.window);
}
