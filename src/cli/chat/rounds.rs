//! A chat: prompts and commands, one after the other, on one session.
//!
//! # Invariants
//! - A new session gets its file with the first prompt, so that nothing is left where nothing was said.
//! - An error ends the round, not the chat.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::harness::{CompactOptions, NavigateOptions, NavigateSummary};
use crate::agent::{EndReason, RunOutcome};
use crate::cli::Outcome;
use crate::cli::chat::conversation::{Conversation, Ended, Parts};
use crate::cli::chat::event_view::EventView;
use crate::cli::chat::lines::{Lines, Typed};
use crate::cli::chat::printer::Show;
use crate::cli::chat::setup::{MakeOptions, Setup, agent_error};
use crate::cli::chat::slash::{self, Slash};
use crate::cli::commands::tree::draw;
use crate::cli::config::models::full_name;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::invocation::Invocation;
use crate::cli::refer::{CommandNames, command_name, find_named_entry, note_stray_tail, read_name, refuse_newer, warn_cut_path};
use crate::cli::text::{lines, one_line, short};
use crate::cli::ui::Ui;
use crate::cli::view::{count, grouped, path_text};
use crate::llm::ProviderError;
use crate::session::entry::EntryId;
use crate::session::message::Message;
use crate::storage::StorageError;
use crate::storage::fork::{ForkOptions, ForkWhat};
use crate::storage::fs::{FileKind, Fs};
use crate::storage::handle::Session;
use crate::storage::lock::OwnerLock;
use crate::storage::reference::resolve_entry;
use crate::storage::repo::NewSession;

/// How often a session that somebody holds is asked for again, and after what wait: when a program is killed while it
/// starts a tool, what becomes the tool has the lock for a moment more.
const OWNER_TRIES: u32 = 20;
const OWNER_WAIT: Duration = Duration::from_millis(30);

/// What a chat is told on the command line.
#[derive(Clone, Debug, Default)]
pub struct ChatOptions {
    /// The model.
    pub model: Option<String>,
    /// The thinking level.
    pub thinking: Option<&'static str>,
    /// The folder of the tools.
    pub cwd: Option<PathBuf>,
    /// Whether it goes on although somebody else holds the session.
    pub is_forced: bool,
    /// Text to edit in the first line.
    pub initial: Option<String>,
}

/// A session that is about to be talked in.
#[derive(Debug)]
pub struct Opened {
    session: Session,
    cwd: PathBuf,
    owner: Option<OwnerLock>,
    is_new: bool,
}

/// Whether a chat goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Go,
    Leave(Outcome),
}

/// A chat.
#[derive(Debug)]
pub struct Rounds<'a, 'b> {
    invocation: &'a mut Invocation<'b>,
    setup: Setup,
    options: ChatOptions,
    /// A session that exists and that nothing was said in yet.
    opened: Option<Opened>,
    conversation: Option<Conversation>,
    show: Show,
    is_typed_into: bool,
    /// Text to edit in the next line.
    initial: Option<String>,
}

impl Opened {
    /// Takes a session that exists for itself, and sees that its folder is there.
    pub fn take(mut session: Session, options: &ChatOptions, invocation: &mut Invocation<'_>) -> Result<Self, CliError> {
        // What is said would be kept nowhere.
        refuse_newer(&session)?;
        let name = command_name(invocation, &session)?;
        let fs = invocation.surroundings.fs.clone();
        let cwd = match &options.cwd {
            Some(cwd) => cwd.clone(),
            None => PathBuf::from(&session.header().cwd),
        };
        if !is_folder(&*fs, &cwd) {
            return Err(no_folder(&cwd, options.cwd.is_some(), &name));
        }
        let owner = match session.read().path() {
            Some(path) if !options.is_forced => {
                let copy = format!("pi-sessions chat {name} --fork");
                Some(own(path, &copy, &format!("pi-sessions chat {name} --force"), invocation)?)
            }
            Some(_) | None => None,
        };
        // What somebody appended before the session was ours.
        session.refresh()?;
        note_stray_tail(invocation, &session)?;
        warn_cut_path(invocation, &session, session.leaf())?;
        let here = invocation.here();
        let folder = cwd.to_string_lossy();
        if options.cwd.is_none() && !invocation.repo()?.same_cwd(&folder, &here) {
            invocation.ui.note(&format!("the tools work in the session's folder, not in this one: {}", one_line(&folder)));
        }
        Ok(Self { session, cwd, owner, is_new: false })
    }

    /// Moves the leaf to where an entry leads; the text of a message that was gone back to, to edit.
    pub fn go_to(&mut self, entry: &EntryId) -> Result<Option<String>, CliError> {
        let target = find_named_entry(&self.session, entry.as_str())?;
        Ok(self.session.navigate(target, None)?.editor_text)
    }
}

/// Takes a session for this command. `copy` and `force` are commands that help where somebody else has it.
pub fn own(path: &Path, copy: &str, force: &str, invocation: &Invocation<'_>) -> Result<OwnerLock, CliError> {
    let take = || OwnerLock::take(&invocation.surroundings.fs, path, &mark(invocation));
    let mut taken = take();
    for _ in 0..OWNER_TRIES {
        if !matches!(taken, Err(StorageError::Busy { .. })) {
            break;
        }
        std::thread::park_timeout(OWNER_WAIT);
        taken = take();
    }
    taken.map_err(|error| {
        let error = CliError::from(error);
        match error.kind {
            ErrorKind::Busy => error.hint(format!("work on a copy: {copy}")).hint(format!("do it all the same: {force}")),
            _ => error,
        }
    })
}

/// What others are told of who holds the session.
fn mark(invocation: &Invocation<'_>) -> String {
    let since = crate::session::entry::format_timestamp(invocation.now_ms());
    format!("{} since {since}", invocation.surroundings.process)
}

fn is_folder(fs: &dyn Fs, path: &Path) -> bool {
    path.is_absolute() && fs.metadata(path).is_ok_and(|meta| meta.kind == FileKind::Folder)
}

fn no_folder(cwd: &Path, is_asked: bool, name: &str) -> CliError {
    if is_asked {
        return CliError::usage(format!("there is no such folder to work in: {}", cwd.display()));
    }
    CliError::new(ErrorKind::Io, format!("the session's folder does not exist: {}", cwd.display()))
        .hint(format!("work in another one this time: pi-sessions chat {name} --cwd DIR"))
        .hint(format!("go on in a copy that works in another one: pi-sessions chat {name} --fork --cwd DIR"))
        .hint(format!("the project has moved: pi-sessions move {name} --cwd DIR"))
}

impl<'a, 'b> Rounds<'a, 'b> {
    /// A chat on a session that exists, or on a new one.
    pub fn new(
        opened: Option<Opened>,
        options: ChatOptions,
        show: Show,
        invocation: &'a mut Invocation<'b>,
    ) -> Result<Self, CliError> {
        if let (None, Some(cwd)) = (&opened, &options.cwd)
            && !is_folder(&*invocation.surroundings.fs, cwd)
        {
            return Err(no_folder(cwd, true, ""));
        }
        let setup = Setup::load(invocation)?;
        let is_typed_into = show == Show::Live && invocation.ui.can_edit_lines();
        let initial = options.initial.clone();
        Ok(Self { invocation, setup, options, opened, conversation: None, show, is_typed_into, initial })
    }

    /// One prompt, its answer, and the end.
    pub fn once(mut self, text: String) -> Result<Outcome, CliError> {
        let said = self.say(text);
        let closed = self.close();
        let flow = match said {
            Ok(flow) => flow,
            Err(error) => {
                if let Err(closing) = closed {
                    self.invocation.ui.error(&closing);
                }
                return Err(error);
            }
        };
        closed?;
        Ok(match flow {
            Flow::Go => Outcome::Done,
            Flow::Leave(outcome) => outcome,
        })
    }

    /// Rounds until the user leaves.
    pub fn interactive(mut self) -> Result<Outcome, CliError> {
        let mut input = Lines::open(&self.invocation.surroundings, self.invocation.ui);
        // What is wrong with the model or the session is told before anything is typed.
        self.greet()?;
        let mut interrupts = 0;
        let outcome = loop {
            let later = self.conversation.as_mut().and_then(|conversation| conversation.later.pop_front());
            let typed = match later {
                Some(line) => {
                    self.invocation.ui.aside(&format!("> {line}"));
                    Ok(Typed::Line(line))
                }
                None => input.read(self.initial.take(), self.invocation.ui),
            };
            let line = match typed {
                Ok(Typed::Line(line)) => line,
                Ok(Typed::Interrupt) if interrupts == 0 => {
                    interrupts += 1;
                    self.invocation.ui.note("Ctrl-C again leaves");
                    continue;
                }
                Ok(Typed::Interrupt) => break Outcome::Interrupted,
                Ok(Typed::End) => break Outcome::Done,
                Err(error) => {
                    self.invocation.ui.error(&error);
                    break Outcome::Done;
                }
            };
            interrupts = 0;
            match self.round(line.trim()) {
                Ok(Flow::Go) => {}
                Ok(Flow::Leave(outcome)) => break outcome,
                Err(error) if error.kind == ErrorKind::ClosedPipe => {
                    self.close()?;
                    return Err(error);
                }
                Err(error) => self.invocation.ui.error(&error),
            }
        };
        self.close()?;
        Ok(outcome)
    }

    fn round(&mut self, line: &str) -> Result<Flow, CliError> {
        if line.is_empty() {
            return Ok(Flow::Go);
        }
        match Slash::parse(line) {
            Some(command) => self.command(command),
            None => self.say(line.to_owned()),
        }
    }

    /// The conversation; a new session is created here.
    fn begin(&mut self) -> Result<(), CliError> {
        if self.conversation.is_some() {
            return Ok(());
        }
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => self.create()?,
        };
        self.converse(opened)
    }

    fn create(&mut self) -> Result<Opened, CliError> {
        let here = self.invocation.surroundings.cwd.clone();
        let cwd = self.options.cwd.clone().unwrap_or(here);
        let session = self.invocation.repo()?.create(NewSession { cwd: path_text(&cwd), ..NewSession::default() })?;
        let owner = match session.read().path() {
            Some(path) => Some(OwnerLock::take(&self.invocation.surroundings.fs, path, &mark(self.invocation))?),
            None => None,
        };
        Ok(Opened { session, cwd, owner, is_new: true })
    }

    fn converse(&mut self, opened: Opened) -> Result<(), CliError> {
        let Opened { session, cwd, owner, is_new } = opened;
        let in_use = self.setup.model(self.options.model.as_deref(), Some(&session), self.invocation)?;
        let options = MakeOptions { thinking: self.options.thinking, owner, ..MakeOptions::default() };
        let parts = Parts { session, in_use, cwd: &cwd, options };
        let conversation = Conversation::open(&self.setup, parts, self.show, self.is_typed_into)?;
        if self.show == Show::Events {
            let (id, path) = conversation
                .harness
                .with_session(|session| (session.header().id.clone(), session.read().path().map(path_text).unwrap_or_default()));
            let model = full_name(&conversation.harness.model());
            self.invocation.ui.json(&EventView::Session { id: &id, path, cwd: path_text(&cwd), model, is_new })?;
            self.invocation.ui.flush()?;
        }
        self.conversation = Some(conversation);
        Ok(())
    }

    /// Tells what is talked to, and where a session that exists stands.
    fn greet(&mut self) -> Result<(), CliError> {
        let Some(opened) = self.opened.take() else {
            let in_use = self.setup.model(self.options.model.as_deref(), None, self.invocation)?;
            let model = full_name(&in_use.served.model);
            self.invocation.ui.note(&format!("a new session with {model}; /help tells the commands"));
            return Ok(());
        };
        let (recap, messages) = recap(&opened.session)?;
        let name = read_name(&opened.session)?;
        let name = name.get().map_or_else(|| opened.session.header().id.clone(), str::to_owned);
        self.converse(opened)?;
        let Some(conversation) = &self.conversation else { return Ok(()) };
        let model = full_name(&conversation.harness.model());
        let ui = &mut *self.invocation.ui;
        let messages = count(messages, "message", "messages");
        ui.note(&format!("going on with {name}: {messages}, {model}; /help tells the commands"));
        recap.iter().for_each(|line| ui.aside_dim(line));
        Ok(())
    }

    fn say(&mut self, text: String) -> Result<Flow, CliError> {
        self.begin()?;
        let Some(conversation) = &mut self.conversation else { return Ok(Flow::Go) };
        let ended = conversation.prompt(text, self.invocation.ui)?;
        self.ended(ended)
    }

    /// Shows what a run came to.
    fn ended(&mut self, ended: Ended<RunOutcome>) -> Result<Flow, CliError> {
        let Ended::By(outcome) = ended else { return Ok(Flow::Leave(Outcome::Interrupted)) };
        let Some(conversation) = &mut self.conversation else { return Ok(Flow::Go) };
        let ui = &mut *self.invocation.ui;
        let queued: Vec<_> = conversation.harness.take_queued().iter().map(Message::text).collect();
        match self.show {
            Show::Live => {
                match outcome.reason {
                    EndReason::Failed(error) => ui.error(&failed(&error)),
                    EndReason::Aborted => ui.note("stopped; what was done so far is kept, /continue goes on"),
                    EndReason::Broken(error) => ui.error(&CliError::new(ErrorKind::Io, error)),
                    EndReason::Done | EndReason::Stopped | EndReason::MaxTurns(_) => {
                        // What came too late for this run is the next prompt.
                        conversation.later.extend(queued);
                        fill_line(conversation, ui);
                        return Ok(Flow::Go);
                    }
                }
                if !queued.is_empty() {
                    self.initial = Some(queued.join("\n"));
                }
                Ok(Flow::Go)
            }
            Show::Answer | Show::Events => {
                if self.show == Show::Answer {
                    let answer = outcome.answer_text();
                    let answer = lines(&answer);
                    if !answer.trim().is_empty() {
                        ui.line(answer.trim_end())?;
                    }
                }
                match outcome.reason {
                    EndReason::Failed(error) => Err(failed(&error)),
                    EndReason::Broken(error) => Err(CliError::new(ErrorKind::Io, error)),
                    EndReason::Aborted => Ok(Flow::Leave(Outcome::Interrupted)),
                    EndReason::Done | EndReason::Stopped | EndReason::MaxTurns(_) => Ok(Flow::Go),
                }
            }
        }
    }

    fn command(&mut self, command: Slash<'_>) -> Result<Flow, CliError> {
        match command {
            Slash::Help => self.invocation.ui.aside(slash::HELP),
            Slash::Exit => return Ok(Flow::Leave(Outcome::Done)),
            Slash::Unknown(word) => {
                return Err(CliError::usage(format!("there is no command {word}")).hint("/help tells the commands"));
            }
            Slash::Model(name) => self.model(name)?,
            Slash::Name(name) => self.name(name)?,
            Slash::Skill(rest) => return self.skill(rest),
            Slash::Tree | Slash::Goto(_) | Slash::Compact(_) | Slash::Fork(_) | Slash::Context | Slash::Continue
                if self.conversation.is_none() =>
            {
                self.invocation.ui.note("nothing was said yet");
            }
            Slash::Tree => self.tree()?,
            Slash::Goto(rest) => return self.goto(rest),
            Slash::Compact(instructions) => return self.compact(instructions),
            Slash::Fork(entry) => self.fork(entry)?,
            Slash::Context => self.context()?,
            Slash::Continue => return self.go_on(),
        }
        Ok(Flow::Go)
    }

    fn tree(&mut self) -> Result<(), CliError> {
        let Some(conversation) = &self.conversation else { return Ok(()) };
        let ui = &mut *self.invocation.ui;
        conversation.harness.with_session(|session| draw(session, false, ui))?;
        ui.flush()
    }

    fn goto(&mut self, rest: &str) -> Result<Flow, CliError> {
        let Some(conversation) = &mut self.conversation else { return Ok(Flow::Go) };
        let (entry, rest) = slash::first_word(rest);
        if entry.is_empty() {
            return Err(CliError::usage("/goto needs an entry").hint("/tree shows the entries; t2 is your second message"));
        }
        let summary = match slash::first_word(rest) {
            ("", _) => NavigateSummary::No,
            ("summarize" | "--summarize", instructions) => NavigateSummary::Made {
                by: conversation.harness.summary_by(),
                instructions: Some(instructions.to_owned()).filter(|text| !text.is_empty()),
            },
            (other, _) => return Err(CliError::usage(format!("behind the entry stands summarize or nothing, not {other}"))),
        };
        let target =
            conversation.harness.with_session(|session| resolve_entry(session, entry).map(|index| session.tree().id(index)))?;
        let is_summarized = summary != NavigateSummary::No;
        if is_summarized {
            self.invocation.ui.status("summarizing what is left behind …");
        }
        let harness = conversation.harness.clone();
        let work = async move { harness.navigate(&target, NavigateOptions { summary }).await };
        let Ended::By(navigation) = conversation.operate(work, self.invocation.ui)? else {
            return Ok(Flow::Leave(Outcome::Interrupted));
        };
        let ui = &mut *self.invocation.ui;
        match (&navigation.leaf_id, navigation.moved) {
            (Some(leaf), true) => ui.note(&format!("the next message hangs from {leaf}")),
            (None, true) => ui.note("the next message begins anew"),
            (_, false) => ui.note("the leaf is there already"),
        }
        if is_summarized && navigation.moved && navigation.summary_id.is_none() {
            ui.note("nothing is left behind, so no summary was written");
        }
        self.initial = navigation.editor_text.map(|text| lines(&text).into_owned());
        Ok(Flow::Go)
    }

    fn compact(&mut self, instructions: &str) -> Result<Flow, CliError> {
        let Some(conversation) = &mut self.conversation else { return Ok(Flow::Go) };
        let instructions = Some(instructions.to_owned()).filter(|text| !text.is_empty());
        let harness = conversation.harness.clone();
        let options = CompactOptions { instructions, ..CompactOptions::default() };
        let work = async move { harness.compact(options).await };
        match conversation.operate(work, self.invocation.ui)? {
            Ended::By(_) => Ok(Flow::Go),
            Ended::Left => Ok(Flow::Leave(Outcome::Interrupted)),
        }
    }

    fn go_on(&mut self) -> Result<Flow, CliError> {
        let Some(conversation) = &mut self.conversation else { return Ok(Flow::Go) };
        let harness = conversation.harness.clone();
        let ended = conversation.operate(async move { harness.continue_run().await }, self.invocation.ui)?;
        self.ended(ended)
    }

    /// Goes on in a copy: the session that was talked in stays as it is.
    fn fork(&mut self, entry: &str) -> Result<(), CliError> {
        let Some(conversation) = &self.conversation else { return Ok(()) };
        let repo = self.invocation.repo()?;
        let cwd = conversation.env.cwd().to_owned();
        let names = CommandNames::of(self.invocation)?;
        let (forked, old) = conversation.harness.with_session(|session| {
            let at = match entry {
                "" => session.leaf(),
                entry => Some(resolve_entry(session, entry)?),
            };
            let forked = repo.fork(session, &ForkOptions { what: ForkWhat::Path(at), cwd: None })?;
            Ok::<_, CliError>((forked, names.of_session(session)))
        })?;
        let (id, path) = (forked.id.clone(), forked.path.clone());
        let owner = OwnerLock::take(&self.invocation.surroundings.fs, &path, &mark(self.invocation))?;
        let model = full_name(&conversation.harness.model());
        if let Some(conversation) = self.conversation.take() {
            conversation.close(self.invocation.ui)?;
        }
        // A model that was chosen in this chat goes along.
        self.options.model = self.setup.models().named(&model).ok().map(|_| model).or(self.options.model.take());
        self.converse(Opened { session: forked.session, cwd, owner: Some(owner), is_new: false })?;
        self.invocation.ui.note(&format!("this is now session {id}; the other one stays as it was: pi-sessions resume {old}"));
        Ok(())
    }

    fn name(&mut self, name: &str) -> Result<(), CliError> {
        if !name.is_empty() {
            self.begin()?;
        }
        let Some(conversation) = &self.conversation else {
            self.invocation.ui.note("the session has no name");
            return Ok(());
        };
        if !name.is_empty() {
            conversation.harness.set_name(name).map_err(agent_error)?;
        }
        let name = conversation.harness.with_session(read_name)?;
        match name.get() {
            Some(name) => self.invocation.ui.note(&format!("the session is called {name}")),
            None => self.invocation.ui.note("the session has no name"),
        }
        Ok(())
    }

    fn model(&mut self, name: &str) -> Result<(), CliError> {
        if name.is_empty() {
            let in_use = match &self.conversation {
                Some(conversation) => conversation.harness.model(),
                None => self.setup.model(self.options.model.as_deref(), None, self.invocation)?.served.model,
            };
            let ui = &mut *self.invocation.ui;
            ui.note(&format!("the model is {}", full_name(&in_use)));
            for known in self.setup.models().iter().filter(|known| full_name(&known.model) != full_name(&in_use)) {
                ui.aside(&format!("  {}", full_name(&known.model)));
            }
            return Ok(());
        }
        let in_use = self.setup.model(Some(name), None, self.invocation)?;
        let model = full_name(&in_use.served.model);
        match &self.conversation {
            Some(conversation) => conversation.harness.set_model(in_use.served).map_err(agent_error)?,
            None => self.options.model = Some(name.to_owned()),
        }
        self.invocation.ui.note(&format!("the model is now {model}"));
        Ok(())
    }

    fn context(&mut self) -> Result<(), CliError> {
        let Some(conversation) = &self.conversation else { return Ok(()) };
        let harness = &conversation.harness;
        let messages = harness.with_session(|session| session.project(session.leaf(), &[]).map(|it| it.messages.len()))?;
        let ui = &mut *self.invocation.ui;
        ui.note(&format!(
            "{} in the context; the model is {}, the thinking level {}",
            count(messages as u64, "message is", "messages are"),
            full_name(&harness.model()),
            harness.thinking_level()
        ));
        fill_line(conversation, ui);
        let tools = harness.active_tools();
        ui.note(&format!("the tools are {}", if tools.is_empty() { "none".to_owned() } else { tools.join(", ") }));
        Ok(())
    }

    fn skill(&mut self, rest: &str) -> Result<Flow, CliError> {
        let (name, request) = slash::first_word(rest);
        if name.is_empty() {
            return Err(CliError::usage("/skill needs the name of a skill"));
        }
        self.begin()?;
        let Some(conversation) = &mut self.conversation else { return Ok(Flow::Go) };
        let (harness, env) = (conversation.harness.clone(), conversation.env.clone());
        let (name, request) = (name.to_owned(), request.to_owned());
        conversation.printer.expect_typed();
        let work = async move { harness.prompt_skill(&env, &name, &request).await };
        let ended = conversation.operate(work, self.invocation.ui)?;
        self.ended(ended)
    }

    /// Closes the session, and tells how to come back.
    fn close(&mut self) -> Result<(), CliError> {
        let Some(conversation) = self.conversation.take() else { return Ok(()) };
        let is_saved = conversation.saved_path().is_some();
        let names = CommandNames::of(self.invocation)?;
        let name = conversation.harness.with_session(|session| names.of_session(session));
        conversation.close(self.invocation.ui)?;
        if is_saved && self.show != Show::Events {
            self.invocation.ui.note(&format!("to go on: pi-sessions resume {name}"));
        }
        Ok(())
    }
}

/// How full the window is.
fn fill_line(conversation: &Conversation, ui: &mut Ui) {
    let window = conversation.harness.model().context_window;
    // A session that cannot be read tells so at the next prompt.
    let Ok(tokens) = conversation.harness.context_tokens() else { return };
    let percent = tokens.saturating_mul(100) / window.max(1);
    ui.aside_dim(&format!("[about {} of {} tokens, {percent}%]", grouped(tokens), grouped(window)));
}

/// A request that failed, with what helps.
fn failed(error: &ProviderError) -> CliError {
    let cli = CliError::new(ErrorKind::Provider, error.to_string());
    match error {
        ProviderError::Overflow { .. } => cli.hint("make room: pi-sessions compact SESSION, or /compact in a chat"),
        ProviderError::Authentication { .. } | ProviderError::Unreachable { .. } | ProviderError::Unusable { .. } => {
            cli.hint("pi-sessions config shows the address, and where the key comes from")
        }
        _ => cli,
    }
}

/// The last exchange in a line each, and how many messages there are on the active path.
fn recap(session: &Session) -> Result<(Vec<String>, u64), CliError> {
    let mut messages = 0;
    let (mut said, mut answered) = (None, None);
    for index in session.tree().path(session.leaf()).into_iter().rev() {
        if session.tree().role(index).is_none() {
            continue;
        }
        messages += 1;
        if said.is_some() && answered.is_some() {
            continue;
        }
        let Some(entry) = session.read().entry(index)? else { continue };
        match entry.message() {
            Some(message @ Message::User(_)) if said.is_none() => said = Some(message.text()),
            Some(message @ Message::Assistant(_)) if answered.is_none() && !message.text().trim().is_empty() => {
                answered = Some(message.text());
            }
            Some(_) | None => {}
        }
    }
    let said = said.map(|text| format!("you: {}", short(&text, 100)));
    let answered = answered.map(|text| format!("answer: {}", short(&text, 100)));
    Ok((said.into_iter().chain(answered).collect(), messages))
}
