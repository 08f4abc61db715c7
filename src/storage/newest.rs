//! A first look at the sessions of a root, long before a list is there.
//!
//! # Invariants
//! - Few files are opened, and of each only the beginning is read, however many and long they are.
//! - It is a look, not a list: names tell which files are the newest, so newer activity elsewhere is not seen; counts,
//!   and names that were given later, are not known.

use std::path::{Path, PathBuf};

use crate::session::entry::FORMAT_VERSION;
use crate::storage::StorageError;
use crate::storage::cores::map_on_all_cores;
use crate::storage::fs::{FileKind, OpenFor};
use crate::storage::jsonl::{JsonlStorage, visit_range};
use crate::storage::list::{SessionSummary, SummaryFold, sort_by_activity};
use crate::storage::repo::{Repo, is_of_interest, split_path};

/// How much of a file is read.
const BEGINNING_BYTES: u64 = 64 * 1024;

impl Repo {
    /// The sessions that were created last by their files' names, at most so many: in the folder for a cwd, or in the
    /// whole root. The time of a file stands for its latest activity. `O(names)`, and links to folders are left out.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn newest(&self, cwd: Option<&str>, limit: usize) -> Result<Vec<SessionSummary>, StorageError> {
        let names = match self.newest_names(cwd, limit) {
            Err(StorageError::NotFound(_)) => return Ok(Vec::new()),
            names => names?,
        };
        let read = map_on_all_cores(&names, 1, &|path| self.beginning(path).ok());
        let mut sessions: Vec<_> = read.into_iter().flatten().collect();
        sort_by_activity(&mut sessions);
        Ok(sessions)
    }

    fn newest_names(&self, cwd: Option<&str>, limit: usize) -> Result<Vec<PathBuf>, StorageError> {
        let top = cwd.map_or_else(|| self.root().to_owned(), |cwd| self.folder_for(cwd));
        let mut names = Vec::new();
        let mut folders = Vec::new();
        for (path, kind) in self.names_in(&top)? {
            match kind {
                FileKind::File => names.push(path),
                FileKind::Folder if cwd.is_none() => folders.push(path),
                FileKind::Folder | FileKind::Link | FileKind::Other => {}
            }
        }
        let of_folders = map_on_all_cores(&folders, 1, &|folder| {
            let items = self.names_in(folder).unwrap_or_default();
            let mut names: Vec<_> = items.into_iter().filter(|(_, kind)| *kind == FileKind::File).map(|(path, _)| path).collect();
            keep_newest(&mut names, limit);
            names
        });
        names.extend(of_folders.into_iter().flatten());
        keep_newest(&mut names, limit);
        Ok(names)
    }

    /// What may be of interest in a folder, by name alone.
    fn names_in(&self, folder: &Path) -> Result<Vec<(PathBuf, FileKind)>, StorageError> {
        let mut items = self.fs().read_dir(folder).map_err(|source| StorageError::io("read the folder", folder, source))?;
        items.retain(|(path, kind)| is_of_interest(path, *kind));
        Ok(items)
    }

    fn beginning(&self, path: &Path) -> Result<SessionSummary, StorageError> {
        let io = |source| StorageError::io("read", path, source);
        let file = self.fs().open(path, OpenFor::Read).map_err(io)?;
        let meta = file.metadata().map_err(io)?;
        let header = JsonlStorage::header_of_open(&*file, path)?;
        let mut fold = SummaryFold::default();
        // The lines of older versions have other heads.
        if header.version >= FORMAT_VERSION {
            visit_range(&*file, path, 0..meta.len.min(BEGINNING_BYTES), &mut |visited| fold.add(visited))?;
        }
        fold.add_header(header);
        let mut summary = fold.finish(path.to_owned(), &meta);
        summary.modified_ms = i64::try_from(meta.modified_ns / 1_000_000).unwrap_or(summary.modified_ms);
        // Whether anybody spoke behind what was read is not known.
        summary.has_conversation |= meta.len > BEGINNING_BYTES;
        Ok(summary)
    }
}

/// Keeps the files whose names come last, those first.
fn keep_newest(paths: &mut Vec<PathBuf>, limit: usize) {
    let by_name = |a: &PathBuf, b: &PathBuf| split_path(b).1.cmp(split_path(a).1).then_with(|| a.cmp(b));
    if paths.len() > limit && limit > 0 {
        paths.select_nth_unstable_by(limit - 1, by_name);
    }
    paths.truncate(limit);
    paths.sort_unstable_by(by_name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_names_are_kept() {
        let mut paths: Vec<_> = ["/b/2026-02", "/a/2026-03", "/c/2026-01", "/d/2026-04"].map(PathBuf::from).to_vec();
        keep_newest(&mut paths, 2);
        assert_eq!(paths, ["/d/2026-04", "/a/2026-03"].map(PathBuf::from));
        keep_newest(&mut paths, 0);
        assert!(paths.is_empty());
    }
}
