//! Sessions and entries by the names that users give them.
//!
//! # Invariants
//! - What a name means is decided by the library; here its errors get candidates and hints.

use std::path::{Path, PathBuf};

use crate::cli::error::{CliError, ErrorKind};
use crate::cli::invocation::Invocation;
use crate::cli::text::quote;
use crate::cli::view::count;
use crate::session::entry::{EntryType, SessionId};
use crate::session::labels::SessionName;
use crate::session::tree::EntryIndex;
use crate::storage::StorageError;
use crate::storage::handle::Session;
use crate::storage::lock::OwnerLock;
use crate::storage::reference::{ReferenceError, resolve_entry, resolve_session};
use crate::storage::repo::Repo;

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
        invocation.ui.warn(&format!("{lines}; pi-sessions check {} tells where", command_name(&repo, &session)));
    }
    Ok(session)
}

/// How a command that we print names a session: by its id where that finds it, else by its path.
pub(super) fn command_name(repo: &Repo, session: &Session) -> String {
    let path = session.read().path().unwrap_or(Path::new(""));
    let id = &session.header().id;
    let is_found = path.starts_with(repo.root()) && SessionId::new(id.as_str()).is_ok();
    if is_found { id.clone() } else { quote(&path.to_string_lossy()) }
}

/// Tells where Pi would go on, if that is elsewhere than the leaf.
pub(super) fn note_stray_tail(invocation: &mut Invocation<'_>, session: &Session) -> Result<(), CliError> {
    let Some(stray) = session.tree().stray_tail() else { return Ok(()) };
    let id = session.tree().id(stray);
    let name = command_name(&invocation.repo()?, session);
    let kind = session.tree().entry_type(stray).as_wire();
    invocation.ui.note(&format!(
        "the last line, a {kind} entry, hangs elsewhere than the leaf, and Pi would go on from it; to go there too: \
         pi-sessions goto {name} {}",
        quote(id.as_str())
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

/// Refuses a session that somebody else holds.
pub(super) fn refuse_owned(invocation: &mut Invocation<'_>, session: &Session, force: &str) -> Result<(), CliError> {
    let repo = invocation.repo()?;
    let Some(path) = session.read().path() else { return Ok(()) };
    OwnerLock::refuse(&**repo.fs(), path).map_err(|error| {
        let error = CliError::from(error);
        match error.kind {
            ErrorKind::Busy => {
                let copy = format!("work on a copy: pi-sessions fork {}", command_name(&repo, session));
                error.hint(copy).hint(format!("do it all the same: {force}"))
            }
            _ => error,
        }
    })
}
