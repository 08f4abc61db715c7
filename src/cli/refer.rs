//! Sessions and entries by the names that users give them.
//!
//! # Invariants
//! - What a name means is decided by the library; here its errors get candidates and hints.

use std::path::{Path, PathBuf};

use crate::cli::config::Origin;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::invocation::Invocation;
use crate::cli::text::{one_line, operand, quote};
use crate::cli::view::count;
use crate::session::entry::{EntryType, FORMAT_VERSION, SessionId};
use crate::session::labels::SessionName;
use crate::session::tree::EntryIndex;
use crate::storage::StorageError;
use crate::storage::handle::{PathCut, Session};
use crate::storage::lock::OwnerLock;
use crate::storage::reference::{ReferenceError, resolve_entry, resolve_session};

/// The file of the session that is meant; the latest of this folder where none is named.
pub(super) fn find_session(invocation: &mut Invocation<'_>, reference: Option<&str>) -> Result<PathBuf, CliError> {
    let repo = invocation.repo()?;
    let here = invocation.here();
    // A path counts from the folder of the command, and `..` in it goes where the system says.
    let is_path = |text: &&str| text.contains(std::path::is_separator) || text.ends_with(".jsonl");
    let path = reference.filter(is_path).map(|text| invocation.surroundings.cwd.join(text));
    let path = path.as_ref().map(|path| path.to_string_lossy());
    Ok(resolve_session(&repo, &here, path.as_deref().or(reference))?)
}

/// The session that is meant, open. Damage in it is told.
pub(super) fn open_session(invocation: &mut Invocation<'_>, reference: Option<&str>) -> Result<Session, CliError> {
    let path = find_session(invocation, reference)?;
    let repo = invocation.repo()?;
    let session = repo.open(&path)?;
    let damaged = session.read().damage().len() as u64;
    if damaged > 0 {
        let lines = count(damaged, "line cannot be read as it should", "lines cannot be read as they should");
        let name = command_name(invocation, &session)?;
        invocation.ui.warn(&format!("{lines}; pi-sessions check {name} tells where"));
    }
    Ok(session)
}

/// How commands that we print name sessions, so that they work when they are copied.
#[derive(Clone, Debug)]
pub(super) struct CommandNames {
    /// Where the next command looks ids up; `None` where that is another root than this command was given.
    root: Option<PathBuf>,
}

impl CommandNames {
    /// For commands after this one.
    pub fn of(invocation: &mut Invocation<'_>) -> Result<Self, CliError> {
        let (_, root) = invocation.settings()?;
        let is_usual = root.origin != Origin::Option("--root");
        Ok(Self { root: is_usual.then(|| root.path.clone()) })
    }

    /// Whether ids name sessions.
    pub fn are_ids(&self) -> bool {
        self.root.is_some()
    }

    /// The session's id where that finds it, else its path.
    pub fn name(&self, path: &Path, id: &str) -> String {
        let is_found = self.root.as_ref().is_some_and(|root| path.starts_with(root)) && SessionId::new(id).is_ok();
        if is_found { id.to_owned() } else { quote(&path.to_string_lossy()) }
    }

    /// The name of a session that is open.
    pub fn of_session(&self, session: &Session) -> String {
        self.name(session.read().path().unwrap_or(Path::new("")), &session.header().id)
    }
}

/// How a command that we print names a session.
pub(super) fn command_name(invocation: &mut Invocation<'_>, session: &Session) -> Result<String, CliError> {
    Ok(CommandNames::of(invocation)?.of_session(session))
}

/// Tells that the path to an entry does not reach back to a beginning, so that there is more than is shown.
pub(super) fn warn_cut_path(invocation: &mut Invocation<'_>, session: &Session, at: Option<EntryIndex>) -> Result<(), CliError> {
    let Some((first, cut)) = session.path_cut(at)? else { return Ok(()) };
    let what = match cut {
        PathCut::MissingParent => "where a parent is missing, at",
        PathCut::UnnamedParent => "where no parent is named, at",
        PathCut::Ring => "in a ring of parents, at",
    };
    let name = command_name(invocation, session)?;
    let first = one_line(session.tree().id(first).as_str());
    invocation.ui.warn(&format!("the path begins {what} {first}; pi-sessions check {name} tells what is cut off"));
    Ok(())
}

/// Tells where Pi would go on, if that is elsewhere than the leaf.
pub(super) fn note_stray_tail(invocation: &mut Invocation<'_>, session: &Session) -> Result<(), CliError> {
    let Some(stray) = session.tree().stray_tail() else { return Ok(()) };
    let id = session.tree().id(stray);
    let name = command_name(invocation, session)?;
    let kind = session.tree().entry_type(stray).as_wire();
    invocation.ui.note(&format!(
        "the last line, a {kind} entry, hangs elsewhere than the leaf, and Pi would go on from it; to go there too: \
         pi-sessions goto {name} {}",
        operand(id.as_str())
    ));
    Ok(())
}

/// The entry that is meant; the leaf where none is named, which may be before the first entry.
pub(super) fn find_entry(session: &Session, reference: Option<&str>) -> Result<Option<EntryIndex>, CliError> {
    match reference {
        Some(reference) => Ok(Some(find_named_entry(session, reference)?)),
        None => Ok(session.leaf()),
    }
}

/// The entry that is meant. Where nothing like it exists, the tree shows what does.
pub(super) fn find_named_entry(session: &Session, reference: &str) -> Result<EntryIndex, CliError> {
    resolve_entry(session, reference).map_err(|error| {
        let is_of_storage = matches!(error, ReferenceError::Storage(_));
        let error = CliError::from(error);
        match session.read().path() {
            Some(path) if !is_of_storage && error.hints().is_empty() => {
                error.hint(format!("pi-sessions tree {}", quote(&path.to_string_lossy())))
            }
            Some(_) | None => error,
        }
    })
}

/// The name of a session.
pub(super) fn read_name(session: &Session) -> Result<SessionName, StorageError> {
    let mut name = SessionName::default();
    let tree = session.tree();
    for index in tree.iter().filter(|index| tree.entry_type(*index) == EntryType::SessionInfo) {
        if let Some(entry) = session.read().entry(index)? {
            name.add(&entry);
        }
    }
    Ok(name)
}

/// The type of an entry as it stands in the file.
pub(super) fn wire_type(session: &Session, index: EntryIndex) -> Result<String, StorageError> {
    let known = session.tree().entry_type(index);
    if known != EntryType::Unknown {
        return Ok(known.as_wire().to_owned());
    }
    let entry = session.read().entry(index)?;
    Ok(entry.map_or_else(|| known.as_wire().to_owned(), |entry| entry.kind.wire_type().to_owned()))
}

/// Refuses a session of a version that is read and never written.
pub(super) fn refuse_newer(session: &Session) -> Result<(), CliError> {
    let version = session.header().version;
    match session.read().path() {
        Some(path) if version > FORMAT_VERSION => Err(StorageError::UnsupportedVersion { path: path.to_owned(), version }.into()),
        Some(_) | None => Ok(()),
    }
}

/// Refuses a session that somebody else holds.
pub(super) fn refuse_owned(invocation: &mut Invocation<'_>, session: &Session, force: &str) -> Result<(), CliError> {
    let repo = invocation.repo()?;
    let Some(path) = session.read().path() else { return Ok(()) };
    let name = command_name(invocation, session)?;
    OwnerLock::refuse(&**repo.fs(), path).map_err(|error| {
        let error = CliError::from(error);
        match error.kind {
            ErrorKind::Busy => {
                let copy = format!("work on a copy: pi-sessions fork {name}");
                error.hint(copy).hint(format!("do it all the same: {force}"))
            }
            _ => error,
        }
    })
}
