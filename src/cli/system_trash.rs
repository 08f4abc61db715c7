//! The trash of the desktop, by the crate `trash`.
//!
//! # Invariants
//! - Where the platform does not tell what lies in its trash (macOS), that is an error of its own kind.
//! - Errors have no `Debug` forms in them.

use std::io;
use std::path::Path;

use crate::storage::trash::{Trash, TrashedFile};

/// The trash of the system that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SystemTrash;

impl Trash for SystemTrash {
    fn put(&self, path: &Path) -> io::Result<()> {
        trash::delete(path).map_err(error)
    }

    fn items(&self) -> io::Result<Vec<TrashedFile>> {
        listed::items()
    }

    fn take(&self, file: &TrashedFile, to: &Path) -> io::Result<()> {
        listed::take(file, to)
    }
}

#[cfg(any(windows, all(unix, not(target_os = "macos"), not(target_os = "ios"), not(target_os = "android"))))]
mod listed {
    //! Platforms that tell what lies in the trash.

    use std::io;
    use std::path::{Path, PathBuf};

    use trash::{TrashItem, os_limited};

    use super::{TrashedFile, error};

    pub(super) fn items() -> io::Result<Vec<TrashedFile>> {
        let items = os_limited::list().map_err(error)?;
        Ok(items.into_iter().filter_map(file).collect())
    }

    fn file(item: TrashItem) -> Option<TrashedFile> {
        let content = content(Path::new(&item.id))?;
        let original = item.original_path();
        Some(TrashedFile { content, original, deleted_ms: item.time_deleted.max(0).saturating_mul(1000), id: item.id })
    }

    /// The id is the path of the file in the bin.
    #[cfg(windows)]
    fn content(id: &Path) -> Option<PathBuf> {
        Some(id.to_owned())
    }

    /// The id is the path of `info/NAME.trashinfo`, and the file is `files/NAME` beside it.
    #[cfg(not(windows))]
    fn content(id: &Path) -> Option<PathBuf> {
        Some(id.parent()?.parent()?.join("files").join(id.file_stem()?))
    }

    pub(super) fn take(file: &TrashedFile, to: &Path) -> io::Result<()> {
        let (Some(folder), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let item = TrashItem {
            id: file.id.clone(),
            name: name.to_owned(),
            original_parent: folder.to_owned(),
            time_deleted: file.deleted_ms / 1000,
        };
        let was_free = to.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let Err(refusal) = os_limited::restore_all([item.clone()]).map_err(error) else { return Ok(()) };
        if !was_free || refusal.kind() == io::ErrorKind::AlreadyExists {
            return Err(refusal);
        }
        // The crate holds the place with an empty file, and stops there when the trash is on another disk.
        let copied = match refusal.kind() {
            io::ErrorKind::CrossesDevices => copy(&file.content, to),
            _ => Err(refusal),
        };
        match copied {
            Ok(()) => os_limited::purge_all([item]).map_err(error),
            Err(refusal) => {
                remove_placeholder(to);
                Err(refusal)
            }
        }
    }

    /// Copies a file; it is on disk when this returns, for then the other one goes.
    #[expect(clippy::disallowed_methods, reason = "the place is held by a file that the crate made behind the back of storage")]
    fn copy(from: &Path, to: &Path) -> io::Result<()> {
        std::fs::copy(from, to)?;
        std::fs::File::open(to)?.sync_all()
    }

    /// Takes away what holds the place of a file that did not come.
    #[expect(clippy::disallowed_methods, reason = "the crate made the file behind the back of storage")]
    fn remove_placeholder(path: &Path) {
        if path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(not(any(windows, all(unix, not(target_os = "macos"), not(target_os = "ios"), not(target_os = "android")))))]
mod listed {
    //! Platforms that do not.

    use std::io;
    use std::path::Path;

    use super::TrashedFile;

    pub(super) fn items() -> io::Result<Vec<TrashedFile>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not tell what lies in its trash"))
    }

    pub(super) fn take(_: &TrashedFile, _: &Path) -> io::Result<()> {
        items().map(|_| ())
    }
}

/// What the trash says, in words.
fn error(error: trash::Error) -> io::Error {
    match error {
        trash::Error::Unknown { description } | trash::Error::Os { description, .. } => io::Error::other(description),
        trash::Error::CouldNotAccess { target } => io::Error::other(format!("no access to {target}")),
        trash::Error::RestoreCollision { .. } => io::ErrorKind::AlreadyExists.into(),
        #[cfg(all(unix, not(target_os = "macos"), not(target_os = "ios"), not(target_os = "android")))]
        trash::Error::FileSystem { path, source } => io::Error::new(source.kind(), format!("{}: {source}", path.display())),
        trash::Error::TargetedRoot
        | trash::Error::CanonicalizePath { .. }
        | trash::Error::ConvertOsString { .. }
        | trash::Error::RestoreTwins { .. } => io::Error::other("the system has no trash for it"),
    }
}
