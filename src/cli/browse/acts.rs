//! Changes to sessions, as the commands make them.
//!
//! # Invariants
//! - Each act opens the session anew, so that nothing is decided on what may be old.
//! - Where a command refuses a session that somebody holds, it is refused here.

use std::path::{Path, PathBuf};

use crate::cli::browse::desk::Desk;
use crate::cli::browse::event::{Act, Acted, OldFile};
use crate::cli::commands::export::{export_to, format_of, write};
use crate::cli::commands::label::set_label;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::absolute;
use crate::cli::text::one_line;
use crate::cli::view::{count, path_text};
use crate::export::ExportOptions;
use crate::session::entry::EntryId;
use crate::session::message::Role;
use crate::session::tree::EntryIndex;
use crate::storage::StorageError;
use crate::storage::fork::{ForkOptions, ForkWhat};
use crate::storage::fs::{FileKind, FileMeta};
use crate::storage::handle::Session;
use crate::storage::lock::OwnerLock;

impl Desk {
    pub(super) fn act(&self, act: &Act) -> Result<Acted, CliError> {
        let told = |told: String| Ok(Acted { told, ..Acted::default() });
        match act {
            Act::Goto(path, entry) => {
                OwnerLock::refuse(&**self.repo.fs(), path)?;
                let (mut session, target) = self.open_at(path, entry)?;
                let gone = session.navigate(target, None)?;
                let leaf = gone
                    .leaf_id
                    .map_or_else(|| "before the first entry".to_owned(), |id| format!("at {}", one_line(id.as_str())));
                match (gone.moved, gone.editor_text) {
                    (true, Some(_)) => {
                        told(format!("Enter edits this message and sends it again; the leaf is {leaf}, before it"))
                    }
                    (true, None) => told(format!("Enter goes on from here; the leaf is {leaf}")),
                    (false, _) => told(format!("the leaf is {leaf} already")),
                }
            }
            Act::Fork(path, entry) => {
                let (session, target) = self.open_at(path, entry)?;
                // A fork at a message of the user stands before it, as going back to it does; but the leaf is no way back.
                let is_prompt = session.tree().role(target) == Some(Role::User);
                let what = if is_prompt && Some(target) != session.leaf() {
                    ForkWhat::Before(target)
                } else {
                    ForkWhat::Path(Some(target))
                };
                let forked = self.repo.fork(&session, &ForkOptions { what, cwd: None })?;
                let id = one_line(&forked.id);
                let told = match forked.session.tree().len() as u64 {
                    0 => format!("forked before the first message, so nothing is in it yet; Enter begins it: {id}"),
                    len => format!("forked {}: {id}", count(len, "entry", "entries")),
                };
                Ok(Acted { told, select: Some(forked.path), ..Acted::default() })
            }
            Act::Label(path, entry, label) => {
                let (mut session, target) = self.open_at(path, entry)?;
                let labelled = set_label(&mut session, target, label)?;
                let notes: String = labelled.notes.iter().map(|note| format!(" ({})", one_line(note))).collect();
                told(match labelled.label {
                    None => "the label is cleared".to_owned(),
                    Some(label) => format!("labelled: {}{notes}", one_line(&label)),
                })
            }
            Act::Rename(path, name) => {
                self.repo.open(path)?.set_name(name)?;
                told(match name.is_empty() {
                    true => "the name is cleared".to_owned(),
                    false => format!("named: {}", one_line(name)),
                })
            }
            Act::Delete(path) => {
                self.repo.discard(path, &*self.trash)?;
                told("in the trash; u brings it back".to_owned())
            }
            Act::Restore(path, title) => {
                self.bring_back(path)?;
                let told = format!("brought back from the trash: {title}");
                Ok(Acted { told, select: Some(path.clone()), ..Acted::default() })
            }
            Act::Export(path, file, old) => self.export(path, file, *old),
        }
    }

    fn open_at(&self, path: &Path, entry: &EntryId) -> Result<(Session, EntryIndex), CliError> {
        let session = self.repo.open(path)?;
        let target = session.tree().find(entry.as_str()).ok_or_else(|| StorageError::NoSuchEntry(entry.clone()))?;
        Ok((session, target))
    }

    /// Brings back the session that was at this path, of several the one that went to the trash last.
    fn bring_back(&self, path: &Path) -> Result<(), CliError> {
        let trashed = self.repo.find_trashed(path, &*self.trash)?;
        let Some(trashed) = trashed else {
            return Err(CliError::new(ErrorKind::NotFound, format!("it is not in the trash any more: {}", path_text(path))));
        };
        self.repo.restore(&trashed, path.parent(), &*self.trash)?;
        Ok(())
    }

    fn export(&self, path: &Path, file: &str, old: OldFile) -> Result<Acted, CliError> {
        let file: PathBuf = absolute(&self.cwd, Path::new(file));
        let is_file = |meta: FileMeta| matches!(meta.kind, FileKind::File | FileKind::Link);
        if old == OldFile::Ask && self.repo.fs().metadata(&file).is_ok_and(is_file) {
            return Ok(Acted { to_replace: Some(one_line(&path_text(&file))), ..Acted::default() });
        }
        let session = self.repo.open(path)?;
        let format = format_of(&file);
        let leaf = session.leaf();
        let exported = export_to(&self.repo, &file, |out| write(&session, leaf, format, &ExportOptions::default(), out))?;
        let entries = count(exported.entries as u64, "entry", "entries");
        Ok(Acted { told: format!("exported {entries}: {}", one_line(&path_text(&file))), ..Acted::default() })
    }
}
