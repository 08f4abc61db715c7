//! Reads sessions for a report of what they hold and cost.
//!
//! # Invariants
//! - Files are read some hundreds at a time, on all cores, and added in the order of their names, which begin with the
//!   time of creation; so a report does not depend on the machine, and what a fork copied counts for its parent.
//! - Of each file that was added nothing stays in memory but 16 bytes an entry.
//! - With a cache the answers are those without it: what is kept of a file is used while the file is the same.

use std::path::Path;

use memchr::memmem;

use crate::session::stats::usage_of;
use crate::session::usage_report::{SessionUsage, SessionUsageFold, UsageReport, Wanted};
use crate::storage::StorageError;
use crate::storage::fs::{Fs, OpenFor};
#[cfg(feature = "search")]
use crate::storage::index::usage::UsageStore;
use crate::storage::jsonl::visit_file;
#[cfg(not(feature = "search"))]
use crate::storage::list::read_all;
use crate::storage::list::{ListProgress, Skipped};
use crate::storage::repo::Repo;
#[cfg(feature = "search")]
use crate::storage::repo::SessionFile;

/// How many files are in memory at once.
const FILES_AT_ONCE: usize = 256;

/// Reads one session file for a report.
///
/// # Errors
/// When the file cannot be read or is no session.
pub fn session_usage(fs: &dyn Fs, path: &Path) -> Result<SessionUsage, StorageError> {
    let file = fs.open(path, OpenFor::Read).map_err(|source| StorageError::io("open", path, source))?;
    let mut fold = SessionUsageFold::default();
    let visited = visit_file(&*file, path, &mut |visited| fold.add(visited.preview().as_ref()))?;
    Ok(fold.finish(&visited.header, &visited.tree))
}

/// What the requests of a session cost, in US dollars, over all its branches. `O(bytes of the file)`, and only lines that
/// tell of usage are parsed.
///
/// # Errors
/// When the file cannot be read or is no session.
pub fn session_cost(fs: &dyn Fs, path: &Path) -> Result<f64, StorageError> {
    let file = fs.open(path, OpenFor::Read).map_err(|source| StorageError::io("open", path, source))?;
    let mut cost = 0.0;
    visit_file(&*file, path, &mut |visited| {
        let Some(record) = visited.record() else { return };
        // A key may be written with escapes.
        let may_tell = memmem::find(&record, b"\"usage\"").is_some() || memmem::find(&record, b"\\u").is_some();
        let entry = may_tell.then(|| visited.entry()).flatten();
        let usage = entry.as_ref().and_then(usage_of);
        cost += usage.and_then(|usage| usage.cost.as_ref().map(|cost| cost.total)).unwrap_or_default();
    })?;
    Ok(cost)
}

impl Repo {
    /// Reads one session file for a report; with a cache, only what was written since the last one.
    ///
    /// # Errors
    /// When the file cannot be read or is no session.
    pub fn session_usage(&self, path: &Path) -> Result<SessionUsage, StorageError> {
        #[cfg(feature = "search")]
        if self.cache.is_some()
            && path.starts_with(self.root())
            && let Ok(meta) = self.fs().metadata(path)
        {
            let file = [SessionFile { path: path.to_owned(), meta }];
            let mut kept = UsageStore::open(self, self.cache.as_ref());
            let read = kept.read(&file, &|_| {}).pop();
            kept.finish_one();
            if let Some(read) = read {
                return read;
            }
        }
        session_usage(&**self.fs(), path)
    }

    /// Adds all sessions of the root to a report, each as `wanted` says. `O(bytes of all files)`; with a cache, of what was
    /// written since the last report. What is no session is returned.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn add_usage(
        &self,
        report: &mut UsageReport,
        wanted: &mut dyn FnMut(&SessionUsage) -> Wanted,
        progress: &(dyn Fn(ListProgress) + Sync),
    ) -> Result<Vec<Skipped>, StorageError> {
        let (mut files, mut skipped) = self.files_and_skipped()?;
        // Stable, so that equal names stay in the order of their paths.
        files.sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
        let total = files.len();
        let mut before = 0;
        #[cfg(feature = "search")]
        let mut kept = UsageStore::open(self, self.cache.as_ref());
        for chunk in files.chunks(FILES_AT_ONCE) {
            let step = |step: ListProgress| progress(ListProgress { done: before + step.done, total });
            #[cfg(feature = "search")]
            let read = kept.read(chunk, &step);
            #[cfg(not(feature = "search"))]
            let read = read_all(chunk, &|file| session_usage(&**self.fs(), &file.path), &step);
            for (file, result) in chunk.iter().zip(read) {
                match result {
                    Ok(session) => {
                        let wanted = wanted(&session);
                        report.add(&session, wanted);
                    }
                    // Deleted since the folder was read.
                    Err(StorageError::NotFound(_)) => {}
                    Err(reason) => skipped.push(Skipped { path: file.path.clone(), reason }),
                }
            }
            before += chunk.len();
        }
        #[cfg(feature = "search")]
        kept.finish(&files);
        Ok(skipped)
    }
}
