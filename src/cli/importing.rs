//! What `import` does with files: finds them, reads them, writes sessions and reads those back.
//!
//! # Invariants
//! - Sources are only read. A session is whole in the root, or not there.
//! - What was written is read back and counted; a difference is an error, and the session goes again.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::cli::error::CliError;
use crate::import::{EntryCounts, ImportFormat, ImportedSession, SourceFile, detect, group_files, opencode};
use crate::storage::StorageError;
use crate::storage::fs::{FileKind, Fs, OpenFor, read_exact_at};
use crate::storage::repo::{KnownIds, NewSession, Repo};

/// The paths that may hold sessions: the file itself, or all below a folder, those nearer to it first. A session of
/// opencode that is named by its file brings its messages and parts.
pub(super) fn source_paths(fs: &dyn Fs, path: &Path) -> Result<Vec<String>, StorageError> {
    let meta = fs.metadata(path).map_err(|source| StorageError::io("read", path, source))?;
    if meta.kind == FileKind::Folder {
        return files_below(fs, path);
    }
    let text = path.to_string_lossy().into_owned();
    let session = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut paths = vec![text.clone()];
    if let Some(storage) = opencode::storage_folder(&text) {
        let messages = files_in(fs, &Path::new(storage).join("message").join(session))?;
        for message in &messages {
            let name = Path::new(message).file_stem().unwrap_or_default();
            paths.extend(files_in(fs, &Path::new(storage).join("part").join(name))?);
        }
        paths.extend(messages);
    }
    Ok(paths)
}

/// The files directly in a folder; none where there is no folder.
fn files_in(fs: &dyn Fs, folder: &Path) -> Result<Vec<String>, StorageError> {
    match files_below(fs, folder) {
        Err(StorageError::NotFound(_)) => Ok(Vec::new()),
        other => other,
    }
}

/// All files below a folder; links to folders are followed, each folder once.
fn files_below(fs: &dyn Fs, folder: &Path) -> Result<Vec<String>, StorageError> {
    let mut files = Vec::new();
    let mut seen = BTreeSet::new();
    let mut level = vec![folder.to_owned()];
    while !level.is_empty() {
        let mut below = Vec::new();
        let mut here = Vec::new();
        for folder in std::mem::take(&mut level) {
            let real = fs.canonicalize(&folder).map_err(|source| StorageError::io("read the folder", &folder, source))?;
            if !seen.insert(real) {
                continue;
            }
            let items = fs.read_dir(&folder).map_err(|source| StorageError::io("read the folder", &folder, source))?;
            for (path, kind) in items {
                // A link to nothing is not there.
                let kind = if kind == FileKind::Link { fs.metadata(&path).map(|meta| meta.kind).unwrap_or(kind) } else { kind };
                match kind {
                    FileKind::Folder => below.push(path),
                    FileKind::File => here.push(path),
                    FileKind::Link | FileKind::Other => {}
                }
            }
        }
        here.sort();
        below.sort();
        files.extend(here.into_iter().map(|path| path.to_string_lossy().into_owned()));
        level = below;
    }
    Ok(files)
}

/// The sessions of files, one group of files at a time.
pub(super) struct Sources<'a> {
    fs: &'a dyn Fs,
    groups: std::vec::IntoIter<Vec<String>>,
    format: Option<&'static dyn ImportFormat>,
    /// Take files that are not recognized, or of another format, for the one that was named.
    is_forced: bool,
    /// Files that are of no format that was asked for.
    pub(super) skipped: u64,
}

impl<'a> Sources<'a> {
    pub(super) fn new(fs: &'a dyn Fs, paths: &[String], format: Option<&'static dyn ImportFormat>, is_forced: bool) -> Self {
        let borrowed: Vec<_> = paths.iter().map(String::as_str).collect();
        let mut groups: Vec<Vec<String>> =
            group_files(&borrowed).into_iter().map(|group| group.into_iter().map(str::to_owned).collect()).collect();
        if groups.is_empty() && is_forced {
            groups.push(paths.to_vec());
        }
        Self { fs, groups: groups.into_iter(), format, is_forced, skipped: 0 }
    }

    /// The sessions of the next files; `None` when there are no more.
    pub(super) fn next(&mut self) -> Result<Option<Vec<ImportedSession>>, StorageError> {
        for group in self.groups.by_ref() {
            let mut files = Vec::new();
            for path in group {
                let bytes = read_file(self.fs, Path::new(&path))?;
                files.push((path, bytes));
            }
            let found = files.iter().find_map(|(_, bytes)| detect(bytes));
            let format = match (self.format, found) {
                (Some(format), _) if self.is_forced => Some(format),
                (Some(format), Some(found)) if format.name() != found.name() => None,
                (_, found) => found,
            };
            let Some(format) = format else {
                self.skipped += files.len() as u64;
                continue;
            };
            let sources: Vec<_> = files.iter().map(|(path, bytes)| SourceFile { path, bytes }).collect();
            return Ok(Some(format.read(&sources)));
        }
        Ok(None)
    }
}

fn read_file(fs: &dyn Fs, path: &Path) -> Result<Vec<u8>, StorageError> {
    let io = |source| StorageError::io("read", path, source);
    let file = fs.open(path, OpenFor::Read).map_err(io)?;
    let len = usize::try_from(file.metadata().map_err(io)?.len).map_err(|_| StorageError::TooLong(path.to_owned()))?;
    let mut bytes = vec![0; len];
    read_exact_at(&*file, &mut bytes, 0).map_err(io)?;
    Ok(bytes)
}

/// Writes imported sessions into a root.
pub(super) struct Importer<'a> {
    repo: &'a Repo,
    /// The folder for sessions that do not say theirs.
    here: String,
    cwd: Option<String>,
    /// The files of sessions that were imported in this run, by the ids of their sources.
    written: HashMap<String, PathBuf>,
    /// What is in the root, looked at once.
    known: KnownIds,
}

/// What became of an imported session.
pub(super) struct Written {
    pub(super) id: String,
    pub(super) path: PathBuf,
    pub(super) parent_session: Option<String>,
}

impl<'a> Importer<'a> {
    pub(super) fn new(repo: &'a Repo, here: String, cwd: Option<String>) -> Result<Self, StorageError> {
        Ok(Self { repo, here, cwd, written: HashMap::new(), known: repo.known_ids()? })
    }

    /// The folder that a session will work in.
    pub(super) fn cwd_of(&self, imported: &ImportedSession) -> String {
        let own = Some(&imported.cwd).filter(|cwd| !cwd.is_empty());
        self.cwd.as_ref().or(own).unwrap_or(&self.here).clone()
    }

    /// The file of the session that this one was forked from or works for, where it was imported.
    fn parent(&self, imported: &ImportedSession) -> Option<&Path> {
        let id = imported.source_parent.as_ref()?;
        self.written.get(id).map(PathBuf::as_path).or_else(|| self.known.find(id))
    }

    /// The file of the session that an earlier import made of the same source.
    pub(super) fn existing(&self, imported: &ImportedSession) -> Option<PathBuf> {
        imported.id.as_ref().and_then(|id| self.known.find(id.as_str())).map(Path::to_owned)
    }

    /// Writes a session, and reads it back.
    pub(super) fn write(&mut self, imported: &ImportedSession) -> Result<Written, CliError> {
        // A file of Pi names its parent by a path, which is kept.
        let parent_session = match self.parent(imported) {
            Some(path) => Some(path.to_string_lossy().into_owned()),
            None => imported.source_parent.clone().filter(|parent| parent.contains(['/', '\\'])),
        };
        let new = NewSession {
            cwd: self.cwd_of(imported),
            id: imported.id.clone(),
            created_ms: imported.created_ms,
            parent_session: parent_session.clone(),
            metadata: imported.metadata.clone(),
            ..NewSession::default()
        };
        let path = self.repo.create_among(&mut self.known, new, &mut |batch| {
            imported.entries.iter().try_for_each(|entry| batch.push_entry(entry.clone()))
        })?;
        let id = match self.check(&path, imported) {
            Ok(id) => id,
            Err(error) => {
                self.repo.delete(&path)?;
                self.known.forget(&path);
                return Err(error);
            }
        };
        if let Some(source_id) = &imported.source_id {
            self.written.insert(source_id.clone(), path.clone());
        }
        Ok(Written { id, path, parent_session })
    }

    /// Whether the file holds what was to be written. Gives its id.
    fn check(&self, path: &Path, imported: &ImportedSession) -> Result<String, CliError> {
        let session = self.repo.open(path)?;
        let read = session.read();
        let mut counts = EntryCounts::default();
        for index in read.tree().iter_all() {
            if let Some(entry) = read.entry(index)? {
                counts.add(&entry);
            }
        }
        if counts == imported.counts && read.damage().is_empty() {
            return Ok(read.header().id.clone());
        }
        Err(CliError::bug(format!("what was written of {} does not read back as it was", imported.file)))
    }
}
