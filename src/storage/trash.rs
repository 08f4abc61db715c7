//! Sessions that went to the trash of the system, and their way back.
//!
//! # Invariants
//! - Nothing is brought back over a file: a place that is taken is an error, and then everything stays in the trash.
//! - A session comes back with its companions (backups, unsaved entries), and as the last of them, so that what went
//!   wrong halfway can be tried again.
//! - The trash belongs to everybody: what lies in it is a session only if its file says so.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::storage::StorageError;
use crate::storage::fs::FileKind;
use crate::storage::jsonl::rewrite::folder_of;
use crate::storage::list::{SessionSummary, summarize};
use crate::storage::repo::{Repo, SessionFile, is_companion, is_session_name};

/// The trash of the system.
pub trait Trash: Send + Sync {
    /// Moves a file to the trash.
    ///
    /// # Errors
    /// What the system says; then the file stays.
    fn put(&self, path: &Path) -> io::Result<()>;

    /// All that lies in the trash, in no order.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the platform does not tell, and what the system says.
    fn items(&self) -> io::Result<Vec<TrashedFile>>;

    /// Moves a file out of the trash to a path in a folder that exists.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the path is taken, and what the system says; then the file stays in the trash.
    fn take(&self, file: &TrashedFile, to: &Path) -> io::Result<()>;
}

/// A file in the trash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrashedFile {
    /// What the trash calls it.
    pub id: OsString,
    /// Where it was.
    pub original: PathBuf,
    /// Where its bytes are now.
    pub content: PathBuf,
    /// When it went there, in Unix milliseconds, as exactly as the trash knows; 0 if it does not.
    pub deleted_ms: i64,
}

/// A session in the trash.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrashedSession {
    /// What a list would show of it; its path is where it was.
    pub summary: SessionSummary,
    /// Its file.
    pub file: TrashedFile,
    /// The files that went there with it.
    pub companions: Vec<TrashedFile>,
}

/// Finds the files of sessions among all that lies in the trash, each with its companions, the latest first.
fn group(mut items: Vec<TrashedFile>) -> Vec<(TrashedFile, Vec<TrashedFile>)> {
    items.sort_by(|a, b| b.deleted_ms.cmp(&a.deleted_ms).then_with(|| a.original.cmp(&b.original)).then_with(|| a.id.cmp(&b.id)));
    let (sessions, others): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| is_session_name(&item.original));
    let mut others_in: BTreeMap<PathBuf, Vec<TrashedFile>> = BTreeMap::new();
    // The earliest first.
    for other in others.into_iter().rev() {
        others_in.entry(folder_of(&other.original).to_owned()).or_default().push(other);
    }
    let mut groups = Vec::with_capacity(sessions.len());
    // A name may have gone there twice: a companion belongs to the latest session that went before it.
    for session in sessions {
        let mut companions: Vec<TrashedFile> = Vec::new();
        if let Some(others) = others_in.get_mut(folder_of(&session.original)) {
            others.retain(|other| {
                let is_known = companions.iter().any(|known| known.original == other.original);
                let is_its = is_companion(&session.original, &other.original) && other.deleted_ms >= session.deleted_ms;
                if is_its && !is_known {
                    companions.push(other.clone());
                }
                !is_its
            });
        }
        groups.push((session, companions));
    }
    groups
}

impl Repo {
    /// Moves a session to the trash, with its companions. Returns what went there, the session's file first.
    ///
    /// # Errors
    /// As [`Repo::delete`], and what the trash says.
    pub fn discard(&self, path: &Path, trash: &dyn Trash) -> Result<Vec<PathBuf>, StorageError> {
        let put = |file: &Path| {
            let error = |source| StorageError::Io { doing: "move to the trash", path: file.to_owned(), source };
            trash.put(file).map_err(error)
        };
        self.delete_by(path, &mut |file| put(file))
    }

    /// The sessions in the trash, from wherever they came, the one that went there last first.
    ///
    /// # Errors
    /// When the trash cannot be read, or does not tell ([`io::ErrorKind::Unsupported`]).
    pub fn trashed(&self, trash: &dyn Trash) -> Result<Vec<TrashedSession>, StorageError> {
        let groups = group(trash_items(trash)?);
        Ok(groups.into_iter().filter_map(|(file, companions)| self.trashed_session(file, companions)).collect())
    }

    /// The session in the trash that was at this path; of several the one that went there last.
    ///
    /// # Errors
    /// As [`Repo::trashed`].
    pub fn find_trashed(&self, path: &Path, trash: &dyn Trash) -> Result<Option<TrashedSession>, StorageError> {
        let path = self.without_links(path);
        let groups = group(trash_items(trash)?);
        let mut here = groups.into_iter().filter(|(file, _)| self.without_links(&file.original) == path);
        Ok(here.find_map(|(file, companions)| self.trashed_session(file, companions)))
    }

    fn trashed_session(&self, file: TrashedFile, companions: Vec<TrashedFile>) -> Option<TrashedSession> {
        let meta = self.fs.metadata(&file.content).ok().filter(|meta| meta.kind == FileKind::File)?;
        let mut summary = summarize(&*self.fs, &SessionFile { path: file.content.clone(), meta }).ok()?;
        summary.path.clone_from(&file.original);
        Some(TrashedSession { summary, file, companions })
    }

    /// The path, its folder without links: the trash may have noted it so.
    fn without_links(&self, path: &Path) -> PathBuf {
        let folder = self.fs.canonicalize(folder_of(path)).unwrap_or_else(|_| folder_of(path).to_owned());
        folder.join(path.file_name().unwrap_or_default())
    }

    /// Brings a session back from the trash with its companions: to where it was, or to the folder `to`. A folder that is
    /// gone is made again, private. Returns the session's path.
    ///
    /// # Errors
    /// [`StorageError::Exists`] if a file is in the way; then all stays in the trash. What the system says; then the
    /// session's file is still there, and another try goes on with what is left.
    pub fn restore(&self, session: &TrashedSession, to: Option<&Path>, trash: &dyn Trash) -> Result<PathBuf, StorageError> {
        let place = |file: &TrashedFile| match to {
            Some(folder) => folder.join(file.original.file_name().unwrap_or_default()),
            None => file.original.clone(),
        };
        let files: Vec<_> = session.companions.iter().chain([&session.file]).map(|file| (file, place(file))).collect();
        let mut folders = HashSet::new();
        for (_, place) in &files {
            if self.fs.link_metadata(place).is_ok() {
                return Err(StorageError::Exists(place.clone()));
            }
            folders.insert(folder_of(place).to_owned());
        }
        for folder in &folders {
            self.fs.create_dir_all(folder).map_err(|source| StorageError::io("create the folder", folder, source))?;
        }
        for (file, place) in &files {
            trash.take(file, place).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => StorageError::Exists(place.clone()),
                _ => StorageError::Io { doing: "bring back from the trash", path: place.clone(), source },
            })?;
        }
        for folder in &folders {
            self.fs.sync_dir(folder).map_err(|source| StorageError::io("sync the folder", folder, source))?;
        }
        Ok(place(&session.file))
    }
}

fn trash_items(trash: &dyn Trash) -> Result<Vec<TrashedFile>, StorageError> {
    trash.items().map_err(|source| StorageError::Io { doing: "read", path: PathBuf::from("the trash"), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(original: &str, deleted_ms: i64) -> TrashedFile {
        TrashedFile {
            id: format!("{original}@{deleted_ms}").into(),
            original: original.into(),
            deleted_ms,
            ..TrashedFile::default()
        }
    }

    /// What the groups of these items are, as text.
    fn check(items: &[(&str, i64)], expect: &[&str]) {
        let groups = group(items.iter().map(|(original, at)| item(original, *at)).collect());
        let shown: Vec<_> = groups
            .iter()
            .map(|(session, companions)| {
                let ids: Vec<_> = [session].into_iter().chain(companions).map(|file| file.id.to_string_lossy()).collect();
                ids.join(" ")
            })
            .collect();
        assert_eq!(shown, expect);
    }

    #[test]
    fn sessions_are_found_with_what_went_along_the_latest_first() {
        check(
            &[
                ("/r/a.jsonl", 1),
                ("/r/a.jsonl.bak", 1),
                ("/r/a.unsaved.jsonl", 2),
                ("/r/b.jsonl", 3),
                ("/other/b.jsonl.bak", 3),
                ("/r/b.jsonl.bak.1", 3),
                ("/r/notes.txt", 4),
                ("/r/.hidden.jsonl", 4),
            ],
            &["/r/b.jsonl@3 /r/b.jsonl.bak.1@3", "/r/a.jsonl@1 /r/a.jsonl.bak@1 /r/a.unsaved.jsonl@2"],
        );
    }

    #[test]
    fn a_name_that_went_there_twice_is_two_sessions() {
        check(
            &[("/r/a.jsonl", 1), ("/r/a.jsonl.bak", 1), ("/r/a.jsonl", 5), ("/r/a.jsonl.bak", 6)],
            &["/r/a.jsonl@5 /r/a.jsonl.bak@6", "/r/a.jsonl@1 /r/a.jsonl.bak@1"],
        );
        // What went there again under the name of a companion is none.
        check(&[("/r/a.jsonl", 1), ("/r/a.jsonl.bak", 1), ("/r/a.jsonl.bak", 2)], &["/r/a.jsonl@1 /r/a.jsonl.bak@1"]);
        // A backup alone, or from before, is nobody's.
        check(&[("/r/a.jsonl.bak", 1), ("/r/a.jsonl", 2)], &["/r/a.jsonl@2"]);
    }
}
