//! What may complete a word of a command line: commands and options, and sessions and entries by their names.
//!
//! # Invariants
//! - A candidate means, where it stands, the session or entry that it was offered for.
//! - Text of a session is a candidate only if it is one line without control characters, and no option.
//! - Options that were typed before count: `--root`, and the session whose entries are asked for.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _, complete};

use crate::cli::args::{Cli, GlobalArgs};
use crate::cli::commands::list::short_id_len;
use crate::cli::error::CliError;
use crate::cli::folder::{SameFolder, expand_home};
use crate::cli::invocation::Invocation;
use crate::cli::text::{one_line, short};
use crate::session::entry::SessionId;
use crate::session::message::Role;
use crate::session::tree::EntryIndex;
use crate::storage::handle::Session;
use crate::storage::list::SessionSummary;
use crate::storage::reference::{entry_text, read_labels, resolve_session};
use crate::storage::repo::Repo;
use crate::storage::trash::Trash;

/// The columns of what is told of a candidate.
const HELP_COLUMNS: usize = 60;
/// How many entries of a kind are offered at most: a list that is longer helps nobody, and each is read from the file.
const MAX_ENTRIES: usize = 100;

/// Something that may stand in the place of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The word.
    pub(super) value: String,
    /// What it is, in one line.
    pub(super) help: Option<String>,
}

/// What may take the place of the last of `words`, the program's name first.
///
/// # Errors
/// When the sessions cannot be read; when nothing can be made of the words.
pub(super) fn offers(words: &[String], invocation: &mut Invocation<'_>) -> Result<Vec<Offer>, CliError> {
    let Some((word, before)) = words.split_last() else { return Ok(Vec::new()) };
    let typed = Typed::parse(before);
    if let Some(root) = typed.root {
        let root = root.to_string_lossy().into_owned();
        invocation.use_root(expand_home(invocation.surroundings.home.as_deref(), &root));
    }
    let names = Arc::new(Names {
        repo: invocation.repo()?,
        here: invocation.here(),
        cwd: invocation.surroundings.cwd.clone(),
        session: typed.session,
        trash: invocation.surroundings.trash.clone(),
    });
    let mut command = Cli::command().mut_subcommands(|command| with_names(command, &names));
    let args = words.iter().map(OsString::from).collect();
    let found = complete(&mut command, args, words.len() - 1, Some(&invocation.surroundings.cwd));
    let found = found.map_err(|error| CliError::usage("nothing completes this").because(error))?;
    let offers = found.iter().filter_map(|candidate| {
        let value = candidate.get_value().to_str()?;
        // A command with two names is offered under the one that the help has, unless the other was begun.
        let command = candidate.get_id().and_then(|id| id.strip_prefix("command::"));
        let value = command.filter(|command| command.starts_with(word.as_str())).unwrap_or(value).to_owned();
        let help = candidate.get_help().map(|help| short(&help.to_string(), HELP_COLUMNS)).filter(|help| !help.is_empty());
        is_one_line(&value).then_some(Offer { value, help })
    });
    let mut offers: Vec<_> = offers.collect();
    // Options come when they are asked for, or where there is nothing else.
    if !word.starts_with('-') && offers.iter().any(|offer| !offer.value.starts_with('-')) {
        offers.retain(|offer| !offer.value.starts_with('-'));
    }
    Ok(offers)
}

/// Whether a shell and a terminal take the text as it is.
fn is_one_line(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control) && one_line(text) == text
}

/// What the words before the last one say.
struct Typed {
    root: Option<PathBuf>,
    session: Option<String>,
}

impl Typed {
    fn parse(words: &[String]) -> Self {
        let matches = Cli::command().ignore_errors(true).try_get_matches_from(words).ok();
        let global = matches.as_ref().and_then(|matches| GlobalArgs::from_arg_matches(matches).ok());
        let (_, command) = matches.as_ref().and_then(|matches| matches.subcommand()).unzip();
        // Where the command got as far as its own arguments, it has the global ones too.
        let of_command = command.and_then(|matches| GlobalArgs::from_arg_matches(matches).ok());
        let session = command.and_then(|matches| matches.try_get_one::<String>("session").ok().flatten().cloned());
        Self { root: of_command.and_then(|args| args.root).or(global.and_then(|args| args.root)), session }
    }
}

/// The command, its sessions and entries completed by name. What an argument holds is told by the name of its value.
fn with_names(command: clap::Command, names: &Arc<Names>) -> clap::Command {
    let is_restore = command.get_name() == "restore";
    command.mut_args(|arg| {
        let value_name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default();
        let names = names.clone();
        match value_name.as_str() {
            "SESSION" if is_restore => arg.add(ArgValueCompleter::new(move |word: &OsStr| names.trashed(word))),
            "SESSION" => arg.add(ArgValueCompleter::new(move |word: &OsStr| names.sessions(word))),
            "ENTRY" | "A" | "B" => arg.add(ArgValueCompleter::new(move |word: &OsStr| names.entries(word))),
            "COMMAND" => arg.add(ArgValueCompleter::new(|word: &OsStr| commands(word))),
            _ => arg,
        }
    })
}

fn commands(word: &OsStr) -> Vec<CompletionCandidate> {
    let whole = Cli::command();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set());
    let candidates = commands.map(|command| CompletionCandidate::new(command.get_name()).help(command.get_about().cloned()));
    candidates.filter(|candidate| starts_with(candidate, word)).collect()
}

fn starts_with(candidate: &CompletionCandidate, word: &OsStr) -> bool {
    candidate.get_value().as_encoded_bytes().starts_with(word.as_encoded_bytes())
}

fn candidate(value: &str, help: &str) -> CompletionCandidate {
    let help = short(help, HELP_COLUMNS);
    CompletionCandidate::new(value).help((!help.is_empty()).then(|| help.into()))
}

/// The sessions and entries that can be named.
struct Names {
    repo: Repo,
    here: String,
    cwd: PathBuf,
    /// The session that was typed.
    session: Option<String>,
    trash: Arc<dyn Trash>,
}

impl Names {
    fn sessions(&self, word: &OsStr) -> Vec<CompletionCandidate> {
        let Some(text) = word.to_str() else { return Vec::new() };
        if text.contains(std::path::is_separator) || text.starts_with(['.', '~']) {
            let is_wanted = |path: &Path| path.is_dir() || path.extension().is_some_and(|end| end == "jsonl");
            return PathCompleter::any().current_dir(&self.cwd).filter(is_wanted).complete(word);
        }
        let Ok(listing) = self.repo.sessions(&|_| {}) else { return Vec::new() };
        self.named(listing.sessions, text)
    }

    fn trashed(&self, word: &OsStr) -> Vec<CompletionCandidate> {
        let (Some(text), Ok(trashed)) = (word.to_str(), self.repo.trashed(&*self.trash)) else { return Vec::new() };
        self.named(trashed.into_iter().map(|session| session.summary).collect(), text)
    }

    /// The sessions whose id or name begins with `text`, those of this folder first; without a text only these, if there
    /// are any.
    fn named(&self, mut sessions: Vec<SessionSummary>, text: &str) -> Vec<CompletionCandidate> {
        let mut used: HashMap<String, usize> = HashMap::new();
        for session in &sessions {
            *used.entry(session.id.clone()).or_default() += 1;
            if let Some(name) = session.name.as_ref().filter(|name| **name != session.id) {
                *used.entry(name.clone()).or_default() += 1;
            }
        }
        let id_len = short_id_len(&sessions);
        let mut same = SameFolder::new(&self.repo, &self.here);
        let here: Vec<bool> = sessions.iter().map(|session| same.is(&session.cwd)).collect();
        let mut here = here.into_iter();
        let (local, far): (Vec<_>, Vec<_>) = sessions.drain(..).partition(|_| here.next().unwrap_or(false));
        let mut found = Vec::new();
        if "@last".starts_with(text) && local.iter().any(|session| session.has_conversation) {
            found.push(candidate("@last", "the latest"));
        }
        let is_alone = text.is_empty() && !local.is_empty();
        for session in local.iter().chain(far.iter().filter(|_| !is_alone)) {
            let title = session.name.as_ref().or(session.first_message.as_ref()).map_or("", String::as_str);
            // What the beginning of an id means changes with the next session, but that of the whole does not.
            let id = if text.len() <= id_len { session.id.get(..id_len).unwrap_or(&session.id) } else { &session.id };
            if SessionId::new(session.id.as_str()).is_ok() && id.starts_with(text) && used[&session.id] == 1 {
                found.push(candidate(id, title));
            }
            if let Some(name) = session.name.as_ref().filter(|name| name.starts_with(text) && used[*name] == 1 && is_name(name)) {
                found.push(candidate(name, session.first_message.as_deref().unwrap_or(&session.id)));
            }
        }
        found
    }

    fn entries(&self, word: &OsStr) -> Vec<CompletionCandidate> {
        let found = || {
            let path = resolve_session(&self.repo, &self.here, self.session_reference().as_deref()).ok()?;
            let session = self.repo.open(&path).ok()?;
            entries_of(&session, word.to_str()?)
        };
        found().unwrap_or_default()
    }

    /// The session that was typed; a path counts from the folder of the command.
    fn session_reference(&self) -> Option<String> {
        let text = self.session.clone()?;
        let is_path = text.contains(std::path::is_separator) || text.ends_with(".jsonl");
        Some(if is_path { self.cwd.join(text).to_string_lossy().into_owned() } else { text })
    }
}

/// Whether the name of a session finds it where it stands as an argument.
fn is_name(name: &str) -> bool {
    !name.starts_with(['-', '@']) && !name.contains(std::path::is_separator) && !name.ends_with(".jsonl")
}

/// The entries of a session by place, label, turn and, once something is typed, id.
fn entries_of(session: &Session, text: &str) -> Option<Vec<CompletionCandidate>> {
    let tree = session.tree();
    let help = |index: EntryIndex| {
        let what = tree.role(index).map_or(tree.entry_type(index).as_wire(), Role::as_wire);
        let words = session.read().entry(index).ok().flatten().map(|entry| entry_text(&entry)).unwrap_or_default();
        if words.trim().is_empty() { what.to_owned() } else { format!("{what}: {}", short(&words, HELP_COLUMNS)) }
    };
    let mut found = Vec::new();
    for (name, index) in [("@leaf", session.leaf()), ("@prev", tree.previous_leaf())] {
        if let Some(index) = index.filter(|_| name.starts_with(text)) {
            found.push(candidate(name, &help(index)));
        }
    }
    let labels = read_labels(session.read()).ok()?;
    for (target, label) in labels.iter().filter(|(_, label)| label.starts_with(text) && !label.starts_with('-')) {
        let is_alone = labels.find(label).filter(|id| tree.find(id.as_str()).is_some()).count() == 1;
        if let Some(index) = tree.find(target.as_str()).filter(|_| is_alone && tree.find(label).is_none()) {
            found.push(candidate(label, &help(index)));
        }
    }
    let path = tree.path(session.leaf());
    let turns: Vec<_> = path.into_iter().filter(|index| tree.role(*index) == Some(Role::User)).collect();
    let turns = turns.iter().enumerate().rev().map(|(at, index)| (format!("t{}", at + 1), *index));
    for (name, index) in turns.filter(|(name, _)| name.starts_with(text)).take(MAX_ENTRIES) {
        found.push(candidate(&name, &help(index)));
    }
    if !text.is_empty() {
        let ids = tree.iter().rev().map(|index| (tree.id(index), index));
        for (id, index) in ids.filter(|(id, _)| id.as_str().starts_with(text) && !text.starts_with('-')).take(MAX_ENTRIES) {
            found.push(candidate(id.as_str(), &help(index)));
        }
    }
    Some(found)
}
