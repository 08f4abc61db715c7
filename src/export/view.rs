//! A session as formats see it: lines, entries, ids, labels and the path, with secrets taken out if that was asked.
//!
//! # Invariants
//! - What was asked to be taken out is out of everything that this gives: no format sees a raw line or a raw id.
//! - A line that is read several times counts once in [`Redactions`].

use std::borrow::Cow;
use std::cell::RefCell;

use crate::export::redact::{RedactOptions, Redactions, Redactor};
use crate::export::{DamageNote, ExportError, ExportInput, Scope};
use crate::session::entry::{Entry, EntryId, EntryKind, EntryType, FORMAT_VERSION, Header};
use crate::session::json::{Fields, well_formed};
use crate::session::labels::{Labels, SessionName};
use crate::session::message::{Content, Message, Role};
use crate::session::stats::SessionStats;
use crate::session::tree::{EntryIndex, Seen, SessionTree};

/// A session that is being exported.
#[derive(Debug)]
pub struct View<'a> {
    input: ExportInput<'a>,
    scope: Scope,
    header: Header,
    header_line: Vec<u8>,
    path: Vec<EntryIndex>,
    on_path: Seen,
    labels: Labels,
    name: SessionName,
    redaction: Option<Redaction>,
}

/// What takes secrets out, and what it took out so far.
#[derive(Debug)]
struct Redaction {
    redactor: Redactor,
    counts: RefCell<Redactions>,
    counted: RefCell<Seen>,
}

impl<'a> View<'a> {
    pub(super) fn new(input: ExportInput<'a>, scope: Scope, redact: Option<&RedactOptions>) -> Result<Self, ExportError> {
        let redaction = redact.map(|options| Redaction {
            redactor: Redactor::new(options, [&input.header.cwd].into_iter().chain(&input.header.parent_session)),
            counts: RefCell::default(),
            counted: RefCell::new(Seen::new(input.tree.len())),
        });
        let mut header_line = input.header_line.to_vec();
        if let Some(redaction) = &redaction {
            header_line = redaction.redactor.line(&header_line, &mut redaction.counts.borrow_mut()).into_owned();
        }
        let header = Fields::parse(&well_formed(&header_line)).map(Header::read).unwrap_or_default();
        let path = input.tree.path(input.leaf);
        let mut on_path = Seen::new(input.tree.len());
        for index in &path {
            on_path.insert(*index);
        }
        let (labels, name) = (Labels::default(), SessionName::default());
        let mut view = Self { input, scope, header, header_line, path, on_path, labels, name, redaction };
        for index in input.tree.iter_all() {
            if matches!(input.tree.entry_type(index), EntryType::Label | EntryType::SessionInfo)
                && let Some(entry) = view.entry(index)?
            {
                view.labels.add(&entry);
                view.name.add(&entry);
            }
        }
        Ok(view)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The header as a line of the current version: the file's own bytes, unless they are of an older version.
    ///
    /// # Errors
    /// Never in practice: a header can be written as JSON.
    pub fn header_line(&self) -> Result<Cow<'_, [u8]>, ExportError> {
        if self.header.version >= FORMAT_VERSION {
            return Ok(Cow::Borrowed(&self.header_line));
        }
        Ok(Cow::Owned(serde_json::to_vec(&Header { version: FORMAT_VERSION, ..self.header.clone() })?))
    }

    /// The tree. Ids come from [`View::id`].
    pub(super) fn tree(&self) -> &'a SessionTree {
        self.input.tree
    }

    /// The active path, from the root on.
    pub fn path(&self) -> &[EntryIndex] {
        &self.path
    }

    /// The end of the active path.
    pub fn leaf(&self) -> Option<EntryIndex> {
        self.path.last().copied()
    }

    /// Whether the entry is on the active path.
    pub fn is_on_path(&self, index: EntryIndex) -> bool {
        self.on_path.contains(index)
    }

    /// Which entries go out.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The entries that go out: the path, or all of them in the order of the file.
    pub fn entries(&self) -> Vec<EntryIndex> {
        match self.scope {
            Scope::Path => self.path.clone(),
            Scope::All => self.input.tree.iter_all().collect(),
        }
    }

    pub(super) fn entry_count(&self) -> usize {
        match self.scope {
            Scope::Path => self.path.len(),
            Scope::All => self.input.tree.len(),
        }
    }

    /// The line of an entry.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub fn line(&self, index: EntryIndex) -> Result<Vec<u8>, ExportError> {
        let line = self.input.source.line(index).map_err(ExportError::Source)?;
        let Some(redaction) = &self.redaction else { return Ok(line) };
        let mut again = Redactions::default();
        let redacted = if redaction.counted.borrow_mut().insert(index) {
            redaction.redactor.line(&line, &mut redaction.counts.borrow_mut())
        } else {
            redaction.redactor.line(&line, &mut again)
        };
        Ok(redacted.into_owned())
    }

    /// An entry; `None` when its line holds no payload.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub fn entry(&self, index: EntryIndex) -> Result<Option<Entry>, ExportError> {
        let line = self.line(index)?;
        let text = well_formed(&line);
        let Ok(mut fields) = Fields::parse(&text) else { return Ok(None) };
        Ok(Some(Entry {
            id: fields.take("id").unwrap_or_else(|| self.id(index)),
            parent_id: fields.take::<Option<EntryId>>("parentId").flatten(),
            timestamp: fields.take("timestamp").unwrap_or_default(),
            kind: EntryKind::read(fields),
        }))
    }

    /// The id of an entry.
    pub fn id(&self, index: EntryIndex) -> EntryId {
        let id = self.input.tree.id(index);
        match self.hidden(id.as_str()) {
            Some(hidden) => EntryId::new(hidden),
            None => id,
        }
    }

    /// The label of an entry.
    pub fn label(&self, index: EntryIndex) -> Option<&str> {
        self.labels.get(self.id(index).as_str())
    }

    /// All labels, by id.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The session's name.
    pub fn name(&self) -> Option<&str> {
        self.name.get()
    }

    /// Counts, tokens and cost of all branches.
    pub fn stats(&self) -> &SessionStats {
        self.input.stats
    }

    /// What could not be read.
    pub fn damage(&self) -> Vec<DamageNote> {
        let hide = |note: &DamageNote| match self.hidden(&note.text) {
            Some(text) => DamageNote { text, ..note.clone() },
            None => note.clone(),
        };
        self.input.damage.iter().map(hide).collect()
    }

    /// What was taken out so far; `None` if nothing was to be taken out.
    pub fn redactions(&self) -> Option<Redactions> {
        self.redaction.as_ref().map(|redaction| redaction.counts.borrow().clone())
    }

    pub(super) fn into_redactions(self) -> Redactions {
        self.redaction.map(|redaction| redaction.counts.into_inner()).unwrap_or_default()
    }

    /// A text without its secrets, if it has any. They were counted where the text stands in a line.
    fn hidden(&self, text: &str) -> Option<String> {
        match self.redaction.as_ref()?.redactor.text(text, &mut Redactions::default()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        }
    }

    /// What the session is called: its name, else the first line of the first user message of the path, else its id.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub fn title(&self) -> Result<String, ExportError> {
        if let Some(name) = self.name() {
            return Ok(name.to_owned());
        }
        for index in self.path.iter().filter(|index| self.tree().role(**index) == Some(Role::User)) {
            let entry = self.entry(*index)?;
            let text = entry.as_ref().and_then(Entry::message).map(Message::text).unwrap_or_default();
            if let Some(line) = text.lines().map(str::trim).find(|line| !line.is_empty()) {
                return Ok(super::plain::one_line(line, 100));
            }
        }
        Ok(format!("Session {}", self.header.id))
    }

    /// The latest model of the path, as `provider/model`.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub fn model(&self) -> Result<Option<String>, ExportError> {
        for index in self.path.iter().rev() {
            if !matches!(self.tree().entry_type(*index), EntryType::ModelChange | EntryType::Message) {
                continue;
            }
            match self.entry(*index)?.map(|entry| entry.kind) {
                Some(EntryKind::ModelChange(change)) => return Ok(Some(format!("{}/{}", change.provider, change.model_id))),
                Some(EntryKind::Message(payload)) => {
                    if let Message::Assistant(message) = payload.message
                        && let Some(model) = message.model
                    {
                        return Ok(Some(message.provider.map_or(model.clone(), |provider| format!("{provider}/{model}"))));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

/// The message that an entry shows: its own, an application's, or a summary.
pub(super) fn shown_message(kind: EntryKind) -> Option<Message> {
    use crate::session::message::{BranchSummaryMessage, CompactionSummaryMessage, CustomMessage};
    match kind {
        EntryKind::Message(payload) => Some(payload.message),
        EntryKind::CustomMessage(payload) => Some(Message::Custom(CustomMessage {
            custom_type: payload.custom_type,
            content: payload.content.or_else(|| Some(Content::default())),
            display: payload.display,
            details: payload.details,
            timestamp: None,
            extra: payload.extra,
        })),
        EntryKind::Compaction(payload) => Some(Message::CompactionSummary(CompactionSummaryMessage {
            summary: payload.summary,
            tokens_before: payload.tokens_before,
            ..CompactionSummaryMessage::default()
        })),
        EntryKind::BranchSummary(payload) => {
            Some(Message::BranchSummary(BranchSummaryMessage { summary: payload.summary, ..BranchSummaryMessage::default() }))
        }
        EntryKind::Leaf(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Custom(_)
        | EntryKind::Label(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Usage(_)
        | EntryKind::Unknown { .. } => None,
    }
}
