//! `chat` and `resume`: talking to a model in a session.
//!
//! # Invariants
//! - What is printed for programs is the answer alone, or events; everything else goes beside it.

use std::path::PathBuf;

use crate::cli::Outcome;
use crate::cli::chat::printer::Show;
use crate::cli::chat::rounds::{ChatOptions, Opened, Rounds};
use crate::cli::config::fields::ThinkingLevel;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::{SameFolder, absolute};
use crate::cli::invocation::Invocation;
use crate::cli::refer::{find_named_entry, open_session};
use crate::cli::text::{cut, one_line, short};
use crate::cli::view::{age, count};
use crate::session::entry::EntryId;
use crate::session::tree::EntryIndex;
use crate::storage::fork::{ForkOptions, ForkWhat};
use crate::storage::handle::{Destination, Session};

const EXAMPLES: &str = "\
Examples:
  pi-sessions chat
  pi-sessions chat -c
  pi-sessions chat -p 'Which files changed last?'
  git diff | pi-sessions chat -p - --model openai/gpt-5
  echo 'run cargo test' | pi-sessions chat --json | jq -r 'select(.type == \"agent_end\").reason'";

const RESUME_EXAMPLES: &str = "\
Examples:
  pi-sessions resume
  pi-sessions resume 019ad3c5
  pi-sessions resume 'Login bug' --fork -p 'Now the other way'";

/// How many sessions are offered.
const PICKED: usize = 20;

/// Talks to a model: a new session, or one that exists
///
/// Without -p, and without a terminal, all of standard input is the prompt. With -p or such a prompt the last answer is
/// printed, and with --json every event: an object a line, with a type.
///
/// The model may use the tools read, write, edit and bash without asking, as far as the configuration allows them. The
/// tool bash is not confined to the folder. While a chat runs, other chats and what rewrites the session are refused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ChatArgs {
    /// The session: path, id, name, beginning of an id or @last (default: a new one)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Go on with the latest session of this folder; where there is none, begin one
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    latest: bool,
    #[command(flatten)]
    talk: TalkArgs,
}

/// Goes on with a session: chat on one that exists
///
/// Without SESSION the sessions are shown as browse shows them: type to search, Enter goes on. Without a terminal, or
/// with -p, it is the latest one of this folder.
#[derive(Debug, clap::Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub struct ResumeArgs {
    /// The session: path, id, name, beginning of an id or @last
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    talk: TalkArgs,
}

/// How it is talked.
#[derive(Clone, Debug, Default, clap::Args)]
pub(in crate::cli) struct TalkArgs {
    /// One prompt, its answer, and the end; - takes the prompt from standard input
    #[arg(short = 'p', long = "prompt", value_name = "TEXT")]
    prompt: Option<String>,
    /// Go on in a copy of the session
    #[arg(long)]
    fork: bool,
    /// Go on although another program holds the session
    #[arg(long)]
    force: bool,
    /// The model: PROVIDER/MODEL as configured, offline, or replay:SESSION to play a session's answers again
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// How much the model thinks: off, minimal, low, medium, high or xhigh
    #[arg(long, value_name = "LEVEL", hide_possible_values = true)]
    thinking: Option<ThinkingLevel>,
    /// The folder that the tools work in (default: the session's, or the current one)
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
}

impl TalkArgs {
    /// Whether a folder to work in was named.
    pub(super) fn has_folder(&self) -> bool {
        self.cwd.is_some()
    }

    /// The same, in a folder.
    pub(super) fn in_folder(self, cwd: PathBuf) -> Self {
        Self { cwd: Some(cwd), ..self }
    }
}

/// Which session it is.
enum Which {
    New,
    Latest,
    Named(String),
    /// A file, and the entry to go on from.
    Picked(PathBuf, Option<EntryId>),
}

pub(super) fn run(args: &ChatArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let which = match (&args.session, args.latest) {
        (Some(session), _) => Which::Named(session.clone()),
        (None, true) => Which::Latest,
        (None, false) if args.talk.fork => {
            let is_asked = args.talk.prompt.is_none() && !invocation.ui.is_json();
            if is_asked && (invocation.can_show_full_screen() || invocation.ui.can_ask()) {
                return resume(&ResumeArgs { session: None, talk: args.talk.clone() }, invocation);
            }
            return Err(CliError::usage("--fork needs a session").hint("pi-sessions chat @last --fork"));
        }
        (None, false) => Which::New,
    };
    talk(which, &args.talk, invocation)
}

pub(super) fn resume(args: &ResumeArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let is_asked = args.session.is_none() && args.talk.prompt.is_none() && !invocation.ui.is_json();
    if is_asked && invocation.can_show_full_screen() {
        return super::browse::pick(&args.talk, invocation);
    }
    let session = match &args.session {
        Some(session) => Some(session.clone()),
        // A terminal that has no full screen.
        None if is_asked && invocation.ui.can_ask() => match pick(invocation)? {
            Some(path) => Some(path),
            None => return Ok(Outcome::Declined),
        },
        None => None,
    };
    talk(Which::Named(session.unwrap_or_else(|| "@last".to_owned())), &args.talk, invocation)
}

/// Goes on with a session, from its leaf or from another entry, which the leaf moves to first.
pub(in crate::cli) fn go_on(
    path: PathBuf,
    entry: Option<EntryId>,
    args: &TalkArgs,
    invocation: &mut Invocation<'_>,
) -> Result<Outcome, CliError> {
    talk(Which::Picked(path, entry), args, invocation)
}

fn talk(which: Which, args: &TalkArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let prompt = prompt(args, invocation)?;
    let is_scripted = prompt.is_some();
    if prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        invocation.ui.note("there is nothing to say");
        return Ok(Outcome::Done);
    }
    let options = ChatOptions {
        model: args.model.clone(),
        thinking: args.thinking.map(|level| level.as_str()),
        cwd: args.cwd.as_ref().map(|cwd| absolute(&invocation.surroundings.cwd, cwd)),
        is_forced: args.force,
        initial: None,
    };
    let mut entry = None;
    let session = match which {
        Which::New => None,
        Which::Named(session) => Some(open_session(invocation, Some(&session))?),
        Which::Latest => latest(invocation)?,
        Which::Picked(path, from) => {
            entry = from;
            Some(open_session(invocation, Some(&path.to_string_lossy()))?)
        }
    };
    let mut initial = None;
    let opened = match session {
        Some(session) if args.fork => {
            let place = match entry {
                Some(entry) => session.destination(find_named_entry(&session, entry.as_str())?)?,
                None => Destination { leaf: session.leaf(), editor_text: None },
            };
            initial = place.editor_text;
            let forked = fork(&session, place.leaf, &options, invocation)?;
            let options = ChatOptions { cwd: None, ..options.clone() };
            Some(Opened::take(forked, &options, invocation)?)
        }
        Some(session) => {
            let mut opened = Opened::take(session, &options, invocation)?;
            if let Some(entry) = entry {
                initial = opened.go_to(&entry)?;
            }
            Some(opened)
        }
        None => None,
    };
    let options = ChatOptions { initial, ..options };
    let show = match (is_scripted, invocation.ui.is_json()) {
        (true, true) => Show::Events,
        (true, false) => Show::Answer,
        (false, _) => Show::Live,
    };
    let rounds = Rounds::new(opened, options, show, invocation)?;
    match prompt {
        Some(prompt) => rounds.once(prompt),
        None => rounds.interactive(),
    }
}

/// What is said, where it is not asked for on the terminal.
fn prompt(args: &TalkArgs, invocation: &mut Invocation<'_>) -> Result<Option<String>, CliError> {
    match args.prompt.as_deref() {
        Some("-") | None if !invocation.ui.input_is_terminal() => {}
        Some("-") => invocation.ui.note("type the prompt, and end it with Ctrl-D"),
        Some(text) if text.trim().is_empty() => return Err(CliError::usage("a prompt without text says nothing")),
        Some(text) => return Ok(Some(text.to_owned())),
        None if invocation.ui.is_json() => {
            return Err(CliError::usage("with --json a chat is not typed").hint("pi-sessions chat --json -p TEXT"));
        }
        None => return Ok(None),
    }
    let input = invocation.ui.read_input()?;
    let Ok(text) = String::from_utf8(input) else {
        return Err(CliError::new(ErrorKind::Io, "the prompt on standard input is not UTF-8"));
    };
    Ok(Some(text.trim_end().to_owned()))
}

/// The latest session of this folder that has a message.
fn latest(invocation: &mut Invocation<'_>) -> Result<Option<Session>, CliError> {
    let here = invocation.here();
    match invocation.repo()?.latest(&here)? {
        Some(summary) => {
            let path = summary.path.to_string_lossy().into_owned();
            open_session(invocation, Some(&path)).map(Some)
        }
        None => {
            invocation.ui.note("this folder has no session yet, so a new one begins");
            Ok(None)
        }
    }
}

/// A copy of the path to `leaf`.
fn fork(
    session: &Session,
    leaf: Option<EntryIndex>,
    options: &ChatOptions,
    invocation: &mut Invocation<'_>,
) -> Result<Session, CliError> {
    let cwd = options.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    let forked = invocation.repo()?.fork(session, &ForkOptions { what: ForkWhat::Path(leaf), cwd })?;
    invocation.ui.note(&format!("this is a copy of {}: {}", session.header().id, forked.id));
    Ok(forked.session)
}

/// Lets the user choose among the sessions of this folder; the path of the chosen one.
fn pick(invocation: &mut Invocation<'_>) -> Result<Option<String>, CliError> {
    let here = invocation.here();
    let repo = invocation.repo()?;
    let progress = invocation.ui.progress();
    let listing = repo.sessions(&|state| progress.show("reading sessions", state.done as u64, state.total as u64))?;
    drop(progress);
    let mut same = SameFolder::new(&repo, &here);
    let sessions: Vec<_> =
        listing.sessions.into_iter().filter(|session| session.has_conversation && same.is(&session.cwd)).take(PICKED).collect();
    if sessions.is_empty() {
        return Err(CliError::new(ErrorKind::NotFound, "this folder has no session").hint("pi-sessions list --all"));
    }
    let now = invocation.now_ms();
    let ui = &mut *invocation.ui;
    for (at, session) in sessions.iter().enumerate() {
        let text = session.name.as_deref().or(session.first_message.as_deref()).unwrap_or("");
        let messages = count(session.message_count, "message", "messages");
        let line =
            format!("{:>3}  {}  ({}, {messages})", at + 1, short(text, 60), one_line(&age(session.modified_ms, now, true)));
        let columns = ui.columns();
        ui.aside(&cut(&line, columns));
    }
    loop {
        let Some(answer) = ui.ask_line("Which one (number, nothing for none)? ")? else { return Ok(None) };
        let answer = answer.trim();
        if answer.is_empty() {
            return Ok(None);
        }
        match answer.parse::<usize>().ok().and_then(|number| sessions.get(number.checked_sub(1)?)) {
            Some(session) => return Ok(Some(session.path.to_string_lossy().into_owned())),
            None => ui.note(&format!("this is no number from 1 to {}", sessions.len())),
        }
    }
}
