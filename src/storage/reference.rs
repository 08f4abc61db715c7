//! Which entry and which session somebody means: `@leaf`, `t3`, `@prev~2`, a label, a name, the beginning of an id.
//!
//! # Invariants
//! - The forms are tried in the order that [`resolve_entry`] and [`pick_session`] tell, and the first that means
//!   something decides; what means several things is an error that lists them, never a guess.
//! - Of the entries only labels are read, and those that an error lists.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use crate::session::entry::{Entry, EntryId, EntryKind, EntryType};
use crate::session::labels::Labels;
use crate::session::message::{Content, Role};
use crate::session::tree::EntryIndex;
use crate::storage::fs::FileKind;
use crate::storage::handle::Session;
use crate::storage::list::SessionSummary;
use crate::storage::repo::{Repo, id_in_file_name};
use crate::storage::{SessionRead, StorageError};

/// How many candidates an error lists.
const MAX_CANDIDATES: usize = 10;
/// How many characters of a candidate's text are shown.
const MAX_TEXT_CHARS: usize = 60;

/// Something that may have been meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What to write to mean it: an id, `tN`, or a path.
    pub name: String,
    /// What it is, in one line without control characters.
    pub text: String,
}

/// Why a reference means nothing, or too much.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// `@leaf` where there is none.
    #[error("the session has no leaf: it has no entries, or was reset to before the first")]
    NoLeaf,
    /// `@prev` where there is none.
    #[error("there is no leaf to go back to: the session has seen no navigation")]
    NoPreviousLeaf,
    /// `tN` beyond the last.
    #[error("there is no {text}: the active path has {turns} user messages")]
    NoSuchTurn {
        /// The reference.
        text: String,
        /// How many there are.
        turns: usize,
    },
    /// `~K` beyond the root.
    #[error("{text} is beyond the root, which is {steps} {word} away", word = if *steps == 1 { "step" } else { "steps" })]
    BeyondRoot {
        /// The reference.
        text: String,
        /// How many steps there are.
        steps: usize,
    },
    /// No entry is meant by it.
    #[error("there is no entry {text:?}")]
    UnknownEntry {
        /// The reference.
        text: String,
        /// What may have been meant.
        candidates: Vec<Candidate>,
    },
    /// Several entries are meant by it.
    #[error("{text:?} is ambiguous: {count} entries")]
    AmbiguousEntry {
        /// The reference.
        text: String,
        /// How many.
        count: usize,
        /// The first of them.
        candidates: Vec<Candidate>,
    },
    /// No session has a message in the folder.
    #[error("there is no session with a message in this folder")]
    NoSessionHere,
    /// A path that names no file.
    #[error("there is no file {path}", path = .0.display())]
    NoSuchFile(PathBuf),
    /// A path that names a folder, a pipe or a device. It is not opened: that could wait for ever.
    #[error("a session is a regular file, and this is none: {path}", path = .0.display())]
    NotAFile(PathBuf),
    /// No session is meant by it.
    #[error("there is no session {text:?}")]
    UnknownSession {
        /// The reference.
        text: String,
        /// What may have been meant.
        candidates: Vec<Candidate>,
    },
    /// Several sessions are meant by it.
    #[error("{text:?} is ambiguous: {count} sessions")]
    AmbiguousSession {
        /// The reference.
        text: String,
        /// How many.
        count: usize,
        /// The first of them.
        candidates: Vec<Candidate>,
    },
    /// A file could not be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ReferenceError {
    /// What may have been meant.
    pub fn candidates(&self) -> &[Candidate] {
        match self {
            Self::UnknownEntry { candidates, .. }
            | Self::AmbiguousEntry { candidates, .. }
            | Self::UnknownSession { candidates, .. }
            | Self::AmbiguousSession { candidates, .. } => candidates,
            Self::NoLeaf
            | Self::NoPreviousLeaf
            | Self::NoSuchTurn { .. }
            | Self::BeyondRoot { .. }
            | Self::NoSessionHere
            | Self::NoSuchFile(_)
            | Self::NotAFile(_)
            | Self::Storage(_) => &[],
        }
    }

    /// Whether more than one thing was meant.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::AmbiguousEntry { .. } | Self::AmbiguousSession { .. })
    }
}

/// The labels of a session, as they stand after its last line. Reads the `label` entries alone.
///
/// # Errors
/// When the file cannot be read.
pub fn read_labels(session: &dyn SessionRead) -> Result<Labels, StorageError> {
    let mut labels = Labels::default();
    let tree = session.tree();
    for index in tree.iter().filter(|index| tree.entry_type(*index) == EntryType::Label) {
        session.entry(index)?.iter().for_each(|entry| labels.add(entry));
    }
    Ok(labels)
}

/// The entry that `text` means. Tried in this order: `@leaf`, `@prev` (the leaf before the last navigation), an exact
/// id, an exact label, `tN` (the N-th user message of the active path, from 1), the beginning of one id. Each may be
/// followed by `~K`, K steps towards the root; `~` alone is one step.
///
/// # Errors
/// When it means none or several; when the file cannot be read.
pub fn resolve_entry(session: &Session, text: &str) -> Result<EntryIndex, ReferenceError> {
    let labels = read_labels(session.read())?;
    let (mut base, mut steps) = (text, 0usize);
    let from = loop {
        match base {
            "@leaf" => break session.leaf().ok_or(ReferenceError::NoLeaf)?,
            "@prev" => break session.tree().previous_leaf().ok_or(ReferenceError::NoPreviousLeaf)?,
            _ => {}
        }
        // An id or label may end like a step.
        if let Some(index) = find_named(session, &labels, base)? {
            break index;
        }
        match split_step(base) {
            Some((before, count)) => (base, steps) = (before, steps.saturating_add(count)),
            None => break resolve_unnamed(session, base)?,
        }
    };
    match session.tree().ancestors(from).nth(steps) {
        Some(index) => Ok(index),
        None => {
            let steps = session.tree().ancestors(from).count() - 1;
            Err(ReferenceError::BeyondRoot { text: text.to_owned(), steps })
        }
    }
}

/// What is the matter with a label as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelTrouble {
    /// No reference ever means it: what comes before labels has this name.
    NeverFound,
    /// It takes a name away that meant another entry: `tN`, or steps from a label.
    Hides(EntryIndex),
}

/// What is the matter with `label` as a new name for `target`, if anything; see [`resolve_entry`] for the order.
///
/// # Errors
/// When the file cannot be read.
pub fn label_trouble(session: &Session, label: &str, target: EntryIndex) -> Result<Option<LabelTrouble>, StorageError> {
    let label = label.trim();
    if matches!(label, "@leaf" | "@prev") || session.tree().find(label).is_some_and(|entry| entry != target) {
        return Ok(Some(LabelTrouble::NeverFound));
    }
    let is_computed = label.strip_prefix('t').and_then(number).is_some() || split_step(label).is_some();
    if !is_computed || find_named(session, &read_labels(session.read())?, label).is_ok_and(|known| known.is_some()) {
        return Ok(None);
    }
    match resolve_entry(session, label) {
        Ok(entry) if entry != target => Ok(Some(LabelTrouble::Hides(entry))),
        Ok(_) => Ok(None),
        Err(ReferenceError::Storage(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Takes a `~` or `~K` off the end.
fn split_step(text: &str) -> Option<(&str, usize)> {
    let (before, digits) = text.rsplit_once('~')?;
    let count = if digits.is_empty() { 1 } else { number(digits)? };
    Some((before, count))
}

/// A number that is nothing but digits; one that is too large is as large as can be.
fn number(digits: &str) -> Option<usize> {
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| digits.parse().unwrap_or(usize::MAX))
}

/// The entry with exactly this id or label.
fn find_named(session: &Session, labels: &Labels, text: &str) -> Result<Option<EntryIndex>, ReferenceError> {
    let tree = session.tree();
    if let Some(index) = tree.find(text) {
        return Ok(Some(index));
    }
    let labelled: Vec<_> = labels.find(text).filter_map(|id| tree.find(id.as_str())).collect();
    match labelled.as_slice() {
        [] => Ok(None),
        [index] => Ok(Some(*index)),
        several => Err(ambiguous(session, text, several)?),
    }
}

/// The entry for `tN` and the beginning of an id.
fn resolve_unnamed(session: &Session, text: &str) -> Result<EntryIndex, ReferenceError> {
    let tree = session.tree();
    let turns = turns(session);
    let turn = text.strip_prefix('t').and_then(number);
    if let Some(index) = turn.and_then(|turn| turns.get(turn.checked_sub(1)?)) {
        return Ok(*index);
    }
    let begins: Vec<_> = tree.iter().filter(|index| !text.is_empty() && tree.id(*index).as_str().starts_with(text)).collect();
    match (begins.as_slice(), turn) {
        ([index], _) => Ok(*index),
        ([], Some(_)) => Err(ReferenceError::NoSuchTurn { text: text.to_owned(), turns: turns.len() }),
        ([], None) => {
            let skipped = turns.len().saturating_sub(MAX_CANDIDATES);
            let latest = turns.iter().enumerate().skip(skipped);
            let candidates = latest.map(|(at, index)| candidate(session, format!("t{}", at + 1), *index));
            Err(ReferenceError::UnknownEntry { text: text.to_owned(), candidates: candidates.collect::<Result<_, _>>()? })
        }
        (several, _) => Err(ambiguous(session, text, several)?),
    }
}

/// The user messages of the active path.
fn turns(session: &Session) -> Vec<EntryIndex> {
    let tree = session.tree();
    tree.path(session.leaf()).into_iter().filter(|index| tree.role(*index) == Some(Role::User)).collect()
}

fn ambiguous(session: &Session, text: &str, several: &[EntryIndex]) -> Result<ReferenceError, StorageError> {
    let first = several.iter().take(MAX_CANDIDATES);
    let candidates = first.map(|index| candidate(session, session.tree().id(*index).to_string(), *index));
    let candidates = candidates.collect::<Result<_, _>>()?;
    Ok(ReferenceError::AmbiguousEntry { text: text.to_owned(), count: several.len(), candidates })
}

fn candidate(session: &Session, name: String, index: EntryIndex) -> Result<Candidate, StorageError> {
    let tree = session.tree();
    let what = tree.role(index).map_or(tree.entry_type(index).as_wire(), Role::as_wire);
    let text = session.read().entry(index)?.map(|entry| entry_text(&entry)).unwrap_or_default();
    let text = one_line(&text, MAX_TEXT_CHARS);
    Ok(Candidate { name, text: if text.is_empty() { what.to_owned() } else { format!("{what}: {text}") } })
}

/// The words of an entry: of a message or summary its text, of others what they set; empty where there are none.
pub fn entry_text(entry: &Entry) -> String {
    let id = |id: &Option<EntryId>| id.as_ref().map(EntryId::to_string).unwrap_or_default();
    match &entry.kind {
        EntryKind::Message(payload) => payload.message.text(),
        EntryKind::Compaction(payload) => payload.summary.clone(),
        EntryKind::BranchSummary(payload) => payload.summary.clone(),
        EntryKind::Leaf(payload) => id(&payload.target_id),
        EntryKind::ModelChange(payload) => format!("{}/{}", payload.provider, payload.model_id),
        EntryKind::ThinkingLevelChange(payload) => payload.thinking_level.clone(),
        EntryKind::ActiveToolsChange(payload) => payload.active_tool_names.join(", "),
        EntryKind::ContextEdit(payload) => id(&payload.target_id),
        EntryKind::Custom(payload) => payload.custom_type.clone(),
        EntryKind::CustomMessage(payload) => payload.content.as_ref().map(Content::joined_text).unwrap_or_default(),
        EntryKind::Label(payload) => payload.label.clone().unwrap_or_default(),
        EntryKind::SessionInfo(payload) => payload.name.clone().unwrap_or_default(),
        EntryKind::Usage(payload) => payload.kind.clone(),
        EntryKind::Unknown { wire_type, .. } => wire_type.clone(),
    }
}

/// The text in one line of at most `max_chars` characters: white space as single spaces, no control characters.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut gap = false;
    for char in text.chars() {
        if char.is_whitespace() {
            gap = !line.is_empty();
            continue;
        }
        if char.is_control() {
            continue;
        }
        let needed = 1 + usize::from(gap);
        if count + needed > max_chars {
            line.push('…');
            break;
        }
        if gap {
            line.push(' ');
        }
        line.push(char);
        (count, gap) = (count + needed, false);
    }
    line
}

/// The file of the session that `text` means, for somebody who works in `cwd`: a path if it has a slash or ends in
/// `.jsonl`, else as [`pick_session`] says. `O(files)` for an id that stands in a file's name, else a listing.
///
/// # Errors
/// When it means none or several; when the root cannot be read.
pub fn resolve_session(repo: &Repo, cwd: &str, text: Option<&str>) -> Result<PathBuf, ReferenceError> {
    if let Some(text) = text {
        let has_slash = text.contains('/') || cfg!(windows) && text.contains('\\');
        if has_slash || text.ends_with(".jsonl") {
            let path = PathBuf::from(text);
            return match repo.fs().metadata(&path) {
                Ok(meta) if meta.kind == FileKind::File => Ok(path),
                Ok(_) => Err(ReferenceError::NotAFile(path)),
                Err(error) if is_absent(&error) => Err(ReferenceError::NoSuchFile(path)),
                Err(source) => Err(StorageError::io("look at", &path, source).into()),
            };
        }
        let is_it = |path: &PathBuf| repo.header_of(path).is_some_and(|header| header.id == text);
        let files = repo.files()?.into_iter().map(|file| file.path);
        let mut named = files.filter(|path| id_in_file_name(path) == Some(text)).filter(is_it);
        if let (Some(path), None) = (named.next(), named.next()) {
            return Ok(path);
        }
    }
    let sessions = repo.sessions(&|_| {})?.sessions;
    // Many sessions share a folder, and comparing two folders asks the file system.
    let cwds: HashSet<&str> = sessions.iter().map(|session| session.cwd.as_str()).collect();
    let here: HashSet<&str> = cwds.into_iter().filter(|other| repo.same_cwd(other, cwd)).collect();
    pick_session(&sessions, &|session| here.contains(session.cwd.as_str()), text).map(|session| session.path.clone())
}

/// Whether an error says that there is nothing of this name, as for a path that goes through a file.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename)
}

/// The session that `text` means. Tried in this order: `@last` (also without `text`; the latest here that has a message),
/// an exact id, an exact name, the beginning of one id; each among the sessions that are `here` and then among all.
/// `sessions` are in the order of a listing, newest first.
///
/// # Errors
/// When it means none or several.
pub fn pick_session<'a>(
    sessions: &'a [SessionSummary],
    here: &dyn Fn(&SessionSummary) -> bool,
    text: Option<&str>,
) -> Result<&'a SessionSummary, ReferenceError> {
    let Some(text) = text.filter(|text| *text != "@last") else {
        let latest = sessions.iter().find(|session| session.has_conversation && here(session));
        return latest.ok_or(ReferenceError::NoSessionHere);
    };
    let has_id = |session: &SessionSummary| session.id == text;
    let has_name = |session: &SessionSummary| session.name.as_deref() == Some(text);
    let begins = |session: &SessionSummary| !text.is_empty() && session.id.starts_with(text);
    let forms: [&dyn Fn(&SessionSummary) -> bool; 3] = [&has_id, &has_name, &begins];
    for form in forms {
        let all: Vec<_> = sessions.iter().filter(|session| form(session)).collect();
        let local: Vec<_> = all.iter().copied().filter(|session| here(session)).collect();
        let meant = if local.is_empty() { all } else { local };
        match meant.as_slice() {
            [] => {}
            [session] => return Ok(session),
            several => {
                let (text, count) = (text.to_owned(), several.len());
                return Err(ReferenceError::AmbiguousSession { text, count, candidates: session_candidates(several) });
            }
        }
    }
    let wanted = text.to_lowercase();
    let is_near = |session: &&SessionSummary| {
        let name = session.name.as_deref().unwrap_or_default().to_lowercase();
        !wanted.is_empty() && (name.contains(&wanted) || session.id.contains(&wanted))
    };
    let near: Vec<_> = sessions.iter().filter(is_near).collect();
    let local = || sessions.iter().filter(|session| session.has_conversation && here(session)).collect();
    let candidates = session_candidates(&if near.is_empty() { local() } else { near });
    Err(ReferenceError::UnknownSession { text: text.to_owned(), candidates })
}

fn session_candidates(sessions: &[&SessionSummary]) -> Vec<Candidate> {
    let mut seen = HashSet::new();
    let twice: HashSet<_> = sessions.iter().map(|session| &session.id).filter(|id| !seen.insert(*id)).collect();
    let shown = sessions.iter().take(MAX_CANDIDATES).map(|session| {
        let is_unique = !twice.contains(&session.id);
        let name = if is_unique { session.id.to_string() } else { session.path.display().to_string() };
        let text = session.name.as_ref().or(session.first_message.as_ref()).map_or("", |text| text.as_str());
        Candidate { name, text: one_line(text, MAX_TEXT_CHARS) }
    });
    shown.collect()
}

#[cfg(test)]
mod tests;
