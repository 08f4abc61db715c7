//! The summary of a branch that is left: which entries it tells of, and the entry it becomes.
//!
//! # Invariants
//! - It tells of the entries from the old leaf up to, not including, the last one that both paths share, by their
//!   parents alone: compactions on the way neither end the walk nor hide what is before them.
//! - A summary that was made here begins with [`PREAMBLE`]; one that was given is stored as it is.

use crate::compaction::extractive;
use crate::compaction::files::{self, FileLists};
use crate::compaction::plan::trusted_files;
use crate::compaction::prompt;
use crate::compaction::summary::{CompactionError, Summary, SummaryRequest, SummaryTask};
use crate::compaction::tokens;
use crate::session::context::{ContextExtension, EntrySource, ProjectedMessage, SelectedEntry, project_entries};
use crate::session::entry::{BranchSummary, EntryId, EntryKind};
use crate::session::json::Json;
use crate::session::tree::{EntryIndex, SessionTree};

/// What a summary made here begins with.
pub const PREAMBLE: &str =
    "A different branch of this conversation was explored before returning to this point. Summary of that branch:\n\n";

/// The `fromId` of a branch summary where there was no leaf.
pub const FROM_ROOT: &str = "root";

/// The entries that a move from `old_leaf` to `new_leaf` leaves behind, oldest first. `O(path length)`.
pub fn collect(tree: &SessionTree, old_leaf: Option<EntryIndex>, new_leaf: Option<EntryIndex>) -> Vec<EntryIndex> {
    let Some(old_leaf) = old_leaf else { return Vec::new() };
    let shared = new_leaf.and_then(|new_leaf| tree.common_ancestor(old_leaf, new_leaf));
    let mut left: Vec<_> = tree.ancestors(old_leaf).take_while(|index| Some(*index) != shared).collect();
    left.reverse();
    left
}

/// A branch summary that may be made.
#[derive(Clone, Debug, PartialEq)]
pub struct BranchPlan {
    entries: Vec<EntryIndex>,
    messages: Vec<ProjectedMessage>,
    files: FileLists,
    from_id: EntryId,
    tokens: u64,
}

impl BranchPlan {
    /// Reads what a move from `old_leaf` to `new_leaf` leaves behind; `None` where that says nothing.
    ///
    /// # Errors
    /// When the source cannot read an entry.
    pub fn read<S: EntrySource>(
        tree: &SessionTree,
        old_leaf: Option<EntryIndex>,
        new_leaf: Option<EntryIndex>,
        source: &S,
        extensions: &[&dyn ContextExtension],
    ) -> Result<Option<Self>, S::Error> {
        let indexes = collect(tree, old_leaf, new_leaf);
        let mut entries = Vec::with_capacity(indexes.len());
        let mut files = FileLists::default();
        for index in &indexes {
            let Some(entry) = source.entry(*index)? else { continue };
            match &entry.kind {
                EntryKind::Compaction(earlier) => files.add(&trusted_files(earlier.from_hook, earlier.details.as_ref())),
                EntryKind::BranchSummary(earlier) => files.add(&trusted_files(earlier.from_hook, earlier.details.as_ref())),
                EntryKind::Message(_)
                | EntryKind::Leaf(_)
                | EntryKind::ModelChange(_)
                | EntryKind::ThinkingLevelChange(_)
                | EntryKind::ActiveToolsChange(_)
                | EntryKind::ContextEdit(_)
                | EntryKind::Custom(_)
                | EntryKind::CustomMessage(_)
                | EntryKind::Label(_)
                | EntryKind::SessionInfo(_)
                | EntryKind::Usage(_)
                | EntryKind::Unknown { .. } => {}
            }
            entries.push(SelectedEntry { index: *index, entry });
        }
        for extension in extensions {
            entries = extension.transform(entries);
        }
        let messages = project_entries(entries, extensions);
        if prompt::conversation(&messages).is_empty() {
            return Ok(None);
        }
        files.add_messages(&messages);
        let tokens =
            messages.iter().fold(0u64, |sum, projected| sum.saturating_add(tokens::estimate_message(&projected.message)));
        Ok(Some(Self { entries: indexes, messages, files, from_id: from_id(tree, old_leaf), tokens }))
    }

    /// The entries that are left behind, oldest first.
    pub fn entries(&self) -> &[EntryIndex] {
        &self.entries
    }

    /// Their messages.
    pub fn messages(&self) -> &[ProjectedMessage] {
        &self.messages
    }

    /// The files that the branch touched.
    pub fn files(&self) -> &FileLists {
        &self.files
    }

    /// The estimated tokens of the messages.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The request for the summary.
    pub fn request<'a>(&'a self, instructions: Option<&'a str>) -> SummaryRequest<'a> {
        SummaryRequest { task: SummaryTask::Branch, messages: &self.messages, previous_summary: None, instructions }
    }

    /// The payload of the entry for a summary that was made.
    ///
    /// # Errors
    /// When the summary is empty.
    pub fn finish(&self, summary: Summary) -> Result<BranchSummary, CompactionError> {
        let text = files::split_blocks(&summary.text).0.trim();
        if text.is_empty() {
            return Err(CompactionError::EmptySummary);
        }
        Ok(BranchSummary {
            from_id: Some(self.from_id.clone()),
            summary: format!("{PREAMBLE}{text}{}", self.files.to_blocks(files::LIST_CHARS)),
            details: Some(self.files.to_details()),
            usage: summary.usage,
            ..BranchSummary::default()
        })
    }

    /// Summarizes without a model.
    ///
    /// # Errors
    /// Never in practice: the form always has words.
    pub fn extract(&self, instructions: Option<&str>) -> Result<BranchSummary, CompactionError> {
        self.finish(extractive::extract(&self.request(instructions)))
    }

    /// Asks a summarizer for the summary.
    ///
    /// # Errors
    /// When the summary fails or is empty.
    #[cfg(feature = "models")]
    pub async fn summarize(
        &self,
        summarizer: &dyn crate::compaction::summarize::Summarizer,
        instructions: Option<&str>,
        cancel: &tokio_util::sync::CancellationToken,
    ) -> Result<BranchSummary, CompactionError> {
        self.finish(summarizer.summarize(&self.request(instructions), cancel).await?)
    }
}

/// The payload for a summary that a user (`from_hook` is `None`) or a hook gave: it is stored as it is.
pub fn given_summary(
    tree: &SessionTree,
    old_leaf: Option<EntryIndex>,
    summary: String,
    details: Option<Json>,
    from_hook: Option<bool>,
) -> BranchSummary {
    BranchSummary { from_id: Some(from_id(tree, old_leaf)), summary, details, from_hook, ..BranchSummary::default() }
}

fn from_id(tree: &SessionTree, old_leaf: Option<EntryIndex>) -> EntryId {
    old_leaf.map_or_else(|| EntryId::from(FROM_ROOT), |leaf| tree.id(leaf))
}

#[cfg(test)]
mod tests;
