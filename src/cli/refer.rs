//! Sessions and entries by the names that users give them.
//!
//! # Invariants
//! - What a name means is decided by the library; here its errors get candidates and hints.

use std::path::{Path, PathBuf};

use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::absolute;
use crate::cli::invocation::Invocation;
use crate::cli::text::quote;
use crate::cli::view::count;
use crate::session::entry::{EntryType, SessionId};
use crate::session::labels::{Labels, SessionName};
use crate::session::tree::EntryIndex;
use crate::storage::StorageError;
use crate::storage::handle::Session;
use crate::storage::lock::OwnerLock;
use crate::storage::repo::Repo;

/// The file of the session that is meant; the latest of this folder where none is named.
pub(super) fn find_session(invocation: &mut Invocation<'_>, reference: Option<&str>) -> Result<PathBuf, CliError> {
    let repo = invocation.repo()?;
    let here = invocation.here();
    let reference = reference.unwrap_or("@last");
    if reference.contains(['/', '\\']) || reference.ends_with(".jsonl") {
        return Ok(absolute(&invocation.surroundings.cwd, Path::new(reference)));
    }
    if reference == "@last" {
        let latest = repo.latest(&here)?;
        return latest.map(|latest| latest.path).ok_or_else(|| {
            CliError::new(ErrorKind::NotFound, format!("no session with a message in {here}")).hint("pi-sessions list --all")
        });
    }
    let all = repo.list(&|_| {})?.sessions;
    let found: Vec<_> =
        all.iter().filter(|session| session.id == reference || session.name.as_deref() == Some(reference)).collect();
    let found = if found.is_empty() { all.iter().filter(|session| session.id.starts_with(reference)).collect() } else { found };
    match found[..] {
        [one] => Ok(one.path.clone()),
        [] => Err(CliError::new(ErrorKind::NotFound, format!("there is no session {reference}")).hint("pi-sessions list --all")),
        _ => Err(CliError::new(ErrorKind::Ambiguous, format!("several sessions are meant by {reference}"))),
    }
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

/// The entry that is meant; `None` where `@leaf` or `@prev` is before the first entry.
pub(super) fn find_entry(session: &Session, reference: &str) -> Result<Option<EntryIndex>, CliError> {
    let tree = session.tree();
    let found = match reference {
        "@leaf" => return Ok(session.leaf()),
        "@prev" => return Ok(tree.previous_leaf()),
        id => tree.find(id),
    };
    found.map(Some).ok_or_else(|| CliError::new(ErrorKind::NotFound, format!("there is no entry {reference}")))
}

/// The labels of a session.
pub(super) fn read_labels(session: &Session) -> Result<Labels, StorageError> {
    let mut labels = Labels::default();
    let tree = session.tree();
    for index in tree.iter().filter(|index| tree.entry_type(*index) == EntryType::Label) {
        if let Some(entry) = session.read().entry(index)? {
            labels.add(&entry);
        }
    }
    Ok(labels)
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

/// Refuses a session that somebody else holds.
pub(super) fn refuse_owned(invocation: &mut Invocation<'_>, session: &Session, force: &str) -> Result<(), CliError> {
    let repo = invocation.repo()?;
    let Some(path) = session.read().path() else { return Ok(()) };
    match OwnerLock::owner(&**repo.fs(), path)? {
        Some(owner) => {
            let error = CliError::from(StorageError::Busy { owner, path: path.to_owned() });
            Err(error.hint(format!("{force} does it all the same")))
        }
        None => Ok(()),
    }
}
