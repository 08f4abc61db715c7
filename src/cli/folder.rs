//! Folders that sessions work in: how they are written down, and when two are the same.
//!
//! # Invariants
//! - A folder is made absolute by its text alone: links are not resolved, and it need not exist.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use crate::storage::repo::Repo;

/// `path` as an absolute path, relative to `base`, without `.`, `..` and doubled separators.
pub(super) fn absolute(base: &Path, path: &Path) -> PathBuf {
    let mut absolute = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                // Above the root is the root.
                absolute.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => absolute.push(component),
        }
    }
    absolute
}

/// `path` with a leading `~` as the home folder.
pub(super) fn expand_home(home: Option<&Path>, path: &str) -> PathBuf {
    match (home, path.strip_prefix('~')) {
        (Some(home), Some("")) => home.to_owned(),
        (Some(home), Some(rest)) if rest.starts_with(['/', '\\']) => home.join(&rest[1..]),
        _ => PathBuf::from(path),
    }
}

/// Which sessions work in one folder.
#[derive(Debug)]
pub(super) struct SameFolder<'a> {
    repo: &'a Repo,
    folder: &'a str,
    /// Folders of headers that were looked at, and whether they are this one.
    known: HashMap<String, bool>,
}

impl<'a> SameFolder<'a> {
    pub(super) fn new(repo: &'a Repo, folder: &'a str) -> Self {
        Self { repo, folder, known: HashMap::new() }
    }

    /// Whether a header's cwd is this folder, by its name or by where its links lead.
    pub(super) fn is(&mut self, cwd: &str) -> bool {
        if let Some(known) = self.known.get(cwd) {
            return *known;
        }
        let is_it = self.repo.same_cwd(cwd, self.folder);
        self.known.insert(cwd.to_owned(), is_it);
        is_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_absolute_by_its_text() {
        for (path, expect) in [
            ("sub/dir", "/home/me/sub/dir"),
            ("../x/./y//z/", "/home/x/y/z"),
            ("/a/../..", "/"),
            ("", "/home/me"),
            ("/tmp/", "/tmp"),
        ] {
            assert_eq!(absolute(Path::new("/home/me"), Path::new(path)), PathBuf::from(expect), "{path:?}");
        }
    }

    #[test]
    fn a_tilde_is_the_home_folder() {
        let home = Some(Path::new("/home/me"));
        for (path, expect) in [("~", "/home/me"), ("~/s", "/home/me/s"), ("~other/s", "~other/s"), ("a/~", "a/~")] {
            assert_eq!(expand_home(home, path), PathBuf::from(expect), "{path:?}");
        }
    }
}
