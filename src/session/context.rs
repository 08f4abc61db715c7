//! The projection: the path to a leaf, compaction applied, as messages, each with the entry that it came from.
//!
//! What a provider then gets is the business of [`request`](super::request).
//!
//! # Invariants
//! - The projection depends on the path alone: entries beside it change nothing.
//! - Only the entries that are selected are read, and besides them those that tell the model, the thinking level and
//!   the active tools.
//! - Projected messages come in path order, but for the governing compaction, which comes first.
//!
//! # The rules
//! 1. The path from the root to the leaf.
//! 2. If it holds compactions the latest governs: that one, then what it keeps (its `retainedTail`, or the entries
//!    from `firstKeptEntryId` up to it without `system` messages), then the entries after it. An older compaction in
//!    the kept range gives nothing. A `firstKeptEntryId` that is not on the path keeps nothing.
//! 3. Each entry gives its messages: a `message` itself, a `custom_message` one of role `custom`, a `branch_summary`
//!    and the compaction their summaries, anything else nothing.
//! 4. The latest `context_edit` among the selected entries replaces or removes its target's messages.
//! 5. Model, thinking level and active tools come from the whole path, also from before a compaction.

use std::collections::{HashMap, HashSet};

use crate::session::entry::{
    BranchSummary, Compaction, Custom, CustomMessageEntry, Entry, EntryId, EntryKind, EntryType, Replacement,
};
use crate::session::json::{Extra, Json};
use crate::session::message::{BranchSummaryMessage, CompactionSummaryMessage, Content, CustomMessage, Message, Role};
use crate::session::tree::{EntryIndex, SessionTree};

/// Where a projection gets its entries from. Storage reads them from the file.
pub trait EntrySource {
    /// Why an entry could not be read at all.
    type Error;

    /// Reads one entry; `None` when its line is so damaged that it holds no payload.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, Self::Error>;
}

/// How an application takes part in the projection.
pub trait ContextExtension: Send + Sync {
    /// Changes the selected entries, after compaction and before they become messages.
    fn transform(&self, entries: Vec<SelectedEntry>) -> Vec<SelectedEntry> {
        entries
    }

    /// The messages of a `custom` entry; `None` leaves it to the next extension. By default such entries give none.
    fn project(&self, entry: &Entry, custom: &Custom) -> Option<Vec<Message>> {
        let _ = (entry, custom);
        None
    }
}

/// An entry that takes part in the context.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedEntry {
    /// Its position in the tree.
    pub index: EntryIndex,
    /// The entry.
    pub entry: Entry,
}

/// A message of the context and the entry that it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectedMessage {
    /// The message.
    pub message: Message,
    /// The entry; `None` for a message that is in no file yet.
    pub source: Option<EntryIndex>,
}

/// The provider and model that a path ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRef {
    /// The provider's name; `None` where an assistant message has none.
    pub provider: Option<String>,
    /// The model's id; `None` where an assistant message has none.
    pub model_id: Option<String>,
}

/// Why an entry of the path is in the context or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It gives its messages.
    Included,
    /// It is the compaction that governs; its summary stands for what came before.
    GoverningCompaction,
    /// It is behind what the compaction keeps.
    Compacted,
    /// It is an older compaction inside the kept range.
    OlderCompaction,
    /// It is a part of the system prompt inside the kept range; the compaction holds the state of it.
    CompactedSystem,
    /// Entries of this type give no messages.
    NoMessages,
    /// Its summary or content is empty.
    Empty,
    /// A `context_edit` replaced its content.
    Edited,
    /// A `context_edit` removed it.
    Removed,
    /// An extension took it out.
    Transformed,
    /// Its line is damaged.
    Damaged,
}

impl Reason {
    /// Whether the model sees messages of the entry.
    pub fn is_included(self) -> bool {
        matches!(self, Self::Included | Self::GoverningCompaction | Self::Edited)
    }

    /// A few words for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Included => "on the path",
            Self::GoverningCompaction => "summary of what was compacted",
            Self::Compacted => "replaced by the compaction's summary",
            Self::OlderCompaction => "an older compaction, covered by the latest",
            Self::CompactedSystem => "system prompt from before the compaction",
            Self::NoMessages => "entries of this type are not shown to the model",
            Self::Empty => "nothing in it",
            Self::Edited => "its content was replaced by a context_edit",
            Self::Removed => "removed by a context_edit",
            Self::Transformed => "taken out by an extension",
            Self::Damaged => "the line is damaged",
        }
    }
}

/// What a path comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// The messages, in order.
    pub messages: Vec<ProjectedMessage>,
    /// The path from the root to the leaf, and why each entry is in the context or not.
    pub path: Vec<(EntryIndex, Reason)>,
    /// The latest `model_change` or assistant message of the path.
    pub model: Option<ModelRef>,
    /// The latest `thinking_level_change` of the path, else `off`.
    pub thinking_level: String,
    /// The latest `active_tools_change` of the path.
    pub active_tool_names: Option<Vec<String>>,
}

impl Projection {
    /// The messages alone.
    pub fn into_messages(self) -> Vec<Message> {
        self.messages.into_iter().map(|projected| projected.message).collect()
    }
}

/// Builds the projection of the path to `leaf`. `O(path length)`, reading the selected entries once each.
///
/// # Errors
/// When the source cannot read an entry.
pub fn project<S: EntrySource>(
    tree: &SessionTree,
    leaf: Option<EntryIndex>,
    source: &S,
    extensions: &[&dyn ContextExtension],
) -> Result<Projection, S::Error> {
    let path = tree.path(leaf);
    let selection = Selection::of(tree, &path, source, !extensions.is_empty())?;
    let state = PathState::of(tree, &path, source)?;

    let mut reasons = selection.reasons;
    let mut entries = Vec::with_capacity(selection.entries.len());
    for position in &selection.entries {
        match source.entry(path[*position])? {
            Some(entry) => entries.push(SelectedEntry { index: path[*position], entry }),
            None => reasons[*position] = Reason::Damaged,
        }
    }
    for extension in extensions {
        entries = extension.transform(entries);
    }

    // Where each entry stands on the path, to note what became of it; what an extension took out is never met again.
    let positions: HashMap<_, _> = path.iter().enumerate().map(|(at, index)| (*index, at)).collect();
    if !extensions.is_empty() {
        let kept: HashSet<_> = entries.iter().map(|selected| selected.index).collect();
        for at in &selection.entries {
            if reasons[*at].is_included() && !kept.contains(&path[*at]) {
                reasons[*at] = Reason::Transformed;
            }
        }
    }

    let edits = latest_edits(&entries);
    let mut messages = Vec::with_capacity(entries.len());
    for SelectedEntry { index, mut entry } in entries {
        let governs = Some(index) == selection.governing;
        let tail = if governs { take_retained_tail(&mut entry) } else { Vec::new() };
        let edit = edits.get(&entry.id);
        let gives_none_by_nature =
            matches!(entry.kind, EntryKind::ContextEdit(_) | EntryKind::Custom(_) | EntryKind::Unknown { .. });
        let mut own = to_messages(entry, extensions);
        let mut reason = match own.is_empty() {
            _ if governs => Reason::GoverningCompaction,
            true if gives_none_by_nature => Reason::NoMessages,
            true => Reason::Empty,
            false => Reason::Included,
        };
        match edit {
            Some(None) => {
                own.clear();
                reason = Reason::Removed;
            }
            Some(Some(replacement)) => {
                for message in &mut own {
                    if replace_content(message, replacement) {
                        reason = Reason::Edited;
                    }
                }
            }
            None => {}
        }
        if let Some(at) = positions.get(&index) {
            reasons[*at] = reason;
        }
        messages.extend(own.into_iter().chain(tail).map(|message| ProjectedMessage { message, source: Some(index) }));
    }
    Ok(Projection {
        messages,
        path: path.into_iter().zip(reasons).collect(),
        model: state.model,
        thinking_level: state.thinking_level,
        active_tool_names: state.active_tool_names,
    })
}

/// The messages of entries as they stand, without a compaction to govern them (steps 3 and 4): every summary gives its
/// message, and what a compaction retained is left out, for the entries themselves are there.
pub fn project_entries(entries: Vec<SelectedEntry>, extensions: &[&dyn ContextExtension]) -> Vec<ProjectedMessage> {
    let edits = latest_edits(&entries);
    let mut messages = Vec::with_capacity(entries.len());
    for SelectedEntry { index, entry } in entries {
        let edit = edits.get(&entry.id);
        let mut own = to_messages(entry, extensions);
        match edit {
            Some(None) => own.clear(),
            Some(Some(replacement)) => own.iter_mut().for_each(|message| {
                replace_content(message, replacement);
            }),
            None => {}
        }
        messages.extend(own.into_iter().map(|message| ProjectedMessage { message, source: Some(index) }));
    }
    messages
}

/// Which entries of a path are read, by position, in the order of the context.
struct Selection {
    entries: Vec<usize>,
    reasons: Vec<Reason>,
    governing: Option<EntryIndex>,
}

impl Selection {
    fn of<S: EntrySource>(tree: &SessionTree, path: &[EntryIndex], source: &S, custom: bool) -> Result<Self, S::Error> {
        let mut reasons: Vec<_> = path
            .iter()
            .map(|index| match tree.entry_type(*index) {
                // They can be large; only an extension can make messages of them.
                EntryType::Custom if !custom => Reason::NoMessages,
                entry_type => reason_by_type(entry_type),
            })
            .collect();
        // A compaction whose payload cannot be read governs nothing.
        let mut governing = None;
        for at in (0..path.len()).rev().filter(|at| tree.entry_type(path[*at]) == EntryType::Compaction) {
            match source.entry(path[at])? {
                Some(Entry { kind: EntryKind::Compaction(compaction), .. }) => {
                    governing = Some((at, compaction));
                    break;
                }
                Some(_) | None => reasons[at] = Reason::Damaged,
            }
        }
        let Some((at, compaction)) = governing else {
            return Ok(Self {
                entries: (0..path.len()).filter(|at| reasons[*at] == Reason::Included).collect(),
                reasons,
                governing: None,
            });
        };
        let kept = match (&compaction.retained_tail, &compaction.first_kept_entry_id) {
            (Some(_), _) | (None, None) => at,
            (None, Some(first)) => match tree.find(first.as_str()) {
                Some(first) => path[..at].iter().position(|index| *index == first).unwrap_or(at),
                None => at,
            },
        };
        for (before, index) in path[..at].iter().enumerate() {
            if before < kept {
                reasons[before] = Reason::Compacted;
            } else if tree.entry_type(*index) == EntryType::Compaction {
                reasons[before] = Reason::OlderCompaction;
            } else if tree.role(*index) == Some(Role::System) {
                reasons[before] = Reason::CompactedSystem;
            }
        }
        reasons[at] = Reason::GoverningCompaction;
        let rest = (kept..path.len()).filter(|position| reasons[*position] == Reason::Included);
        let entries = std::iter::once(at).chain(rest).collect();
        Ok(Self { entries, reasons, governing: Some(path[at]) })
    }
}

/// Whether entries of a type have to be read for the context. `context_edit` gives no messages but changes others.
fn reason_by_type(entry_type: EntryType) -> Reason {
    match entry_type {
        EntryType::Message
        | EntryType::Compaction
        | EntryType::BranchSummary
        | EntryType::ContextEdit
        | EntryType::Custom
        | EntryType::CustomMessage => Reason::Included,
        EntryType::Leaf
        | EntryType::ModelChange
        | EntryType::ThinkingLevelChange
        | EntryType::ActiveToolsChange
        | EntryType::Label
        | EntryType::SessionInfo
        | EntryType::Usage
        | EntryType::Unknown => Reason::NoMessages,
    }
}

fn take_retained_tail(entry: &mut Entry) -> Vec<Message> {
    let EntryKind::Compaction(compaction) = &mut entry.kind else { return Vec::new() };
    compaction.retained_tail.take().unwrap_or_default()
}

fn latest_edits(entries: &[SelectedEntry]) -> HashMap<EntryId, Option<Replacement>> {
    let mut edits = HashMap::new();
    for selected in entries {
        if let EntryKind::ContextEdit(edit) = &selected.entry.kind
            && let Some(target) = &edit.target_id
        {
            edits.insert(target.clone(), edit.replacement.clone());
        }
    }
    edits
}

/// The messages of one entry, as Pi makes them.
fn to_messages(entry: Entry, extensions: &[&dyn ContextExtension]) -> Vec<Message> {
    let timestamp = entry.timestamp_ms();
    match entry.kind {
        EntryKind::Message(payload) => vec![with_content(payload.message)],
        EntryKind::CustomMessage(payload) => vec![custom_message(payload, timestamp)],
        EntryKind::BranchSummary(payload) if payload.summary.is_empty() => Vec::new(),
        EntryKind::BranchSummary(payload) => vec![branch_summary_message(payload, timestamp)],
        EntryKind::Compaction(payload) => compaction_messages(payload, timestamp),
        EntryKind::Custom(ref custom) => {
            extensions.iter().find_map(|extension| extension.project(&entry, custom)).unwrap_or_default()
        }
        EntryKind::Leaf(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Label(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Usage(_)
        | EntryKind::Unknown { .. } => Vec::new(),
    }
}

/// Missing content reads as empty.
fn with_content(mut message: Message) -> Message {
    match &mut message {
        Message::User(message) => drop(message.content.get_or_insert_default()),
        Message::Assistant(message) => drop(message.content.get_or_insert_default()),
        Message::ToolResult(message) => drop(message.content.get_or_insert_default()),
        Message::System(message) => drop(message.content.get_or_insert_with(|| Content::Text(String::new()))),
        Message::Custom(_)
        | Message::BashExecution(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_)
        | Message::Unknown(_) => {}
    }
    message
}

fn custom_message(payload: CustomMessageEntry, timestamp: Option<i64>) -> Message {
    Message::Custom(CustomMessage {
        custom_type: payload.custom_type,
        content: Some(payload.content.unwrap_or_default()),
        display: payload.display,
        details: payload.details,
        timestamp,
        extra: Extra::default(),
    })
}

fn branch_summary_message(payload: BranchSummary, timestamp: Option<i64>) -> Message {
    let from_id = payload.from_id.and_then(|id| Json::of(&id).ok());
    Message::BranchSummary(BranchSummaryMessage { summary: payload.summary, from_id, timestamp, extra: Extra::default() })
}

fn compaction_messages(payload: Compaction, timestamp: Option<i64>) -> Vec<Message> {
    let summary = Message::CompactionSummary(CompactionSummaryMessage {
        summary: payload.summary,
        tokens_before: payload.tokens_before,
        timestamp,
        extra: Extra::default(),
    });
    payload.system_message.map(Message::System).into_iter().chain([summary]).collect()
}

/// Puts the replacement's content into a message that has one; false where it has none to replace.
fn replace_content(message: &mut Message, replacement: &Replacement) -> bool {
    let as_it_is = Some(replacement.content.clone());
    let as_blocks = || match &replacement.content {
        Content::Text(text) => Some(Content::text_block(text.clone())),
        Content::Blocks(_) => as_it_is.clone(),
    };
    match message {
        Message::User(message) => message.content = as_it_is,
        Message::Custom(message) => message.content = as_it_is,
        Message::Assistant(message) => message.content = as_blocks(),
        Message::ToolResult(message) => message.content = as_blocks(),
        Message::BashExecution(_)
        | Message::System(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_)
        | Message::Unknown(_) => return false,
    }
    true
}

/// Model, thinking level and tools of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathState {
    /// The latest `model_change` or assistant message.
    pub model: Option<ModelRef>,
    /// The latest `thinking_level_change`, else `off`.
    pub thinking_level: String,
    /// The latest `active_tools_change`.
    pub active_tool_names: Option<Vec<String>>,
}

impl PathState {
    /// Reads the state of `path` from its end, and no more entries than needed.
    ///
    /// # Errors
    /// When the source cannot read an entry.
    pub fn of<S: EntrySource>(tree: &SessionTree, path: &[EntryIndex], source: &S) -> Result<Self, S::Error> {
        let mut state = Self { model: None, thinking_level: "off".to_owned(), active_tool_names: None };
        let (mut model_open, mut thinking_open, mut tools_open) = (true, true, true);
        for index in path.iter().rev() {
            let wanted = match tree.entry_type(*index) {
                EntryType::ModelChange => model_open,
                EntryType::Message => model_open && tree.role(*index) == Some(Role::Assistant),
                EntryType::ThinkingLevelChange => thinking_open,
                EntryType::ActiveToolsChange => tools_open,
                EntryType::Compaction
                | EntryType::BranchSummary
                | EntryType::Leaf
                | EntryType::ContextEdit
                | EntryType::Custom
                | EntryType::CustomMessage
                | EntryType::Label
                | EntryType::SessionInfo
                | EntryType::Usage
                | EntryType::Unknown => false,
            };
            if !wanted {
                continue;
            }
            match source.entry(*index)?.map(|entry| entry.kind) {
                Some(EntryKind::ModelChange(change)) => {
                    state.model = Some(ModelRef { provider: Some(change.provider), model_id: Some(change.model_id) });
                    model_open = false;
                }
                Some(EntryKind::Message(payload)) => {
                    if let Message::Assistant(message) = payload.message {
                        state.model = Some(ModelRef { provider: message.provider, model_id: message.model });
                        model_open = false;
                    }
                }
                Some(EntryKind::ThinkingLevelChange(change)) => {
                    state.thinking_level = change.thinking_level;
                    thinking_open = false;
                }
                Some(EntryKind::ActiveToolsChange(change)) => {
                    state.active_tool_names = Some(change.active_tool_names);
                    tools_open = false;
                }
                // A line that is damaged or has another shape says nothing; an older one does.
                Some(_) | None => {}
            }
            if !(model_open || thinking_open || tools_open) {
                break;
            }
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests;
