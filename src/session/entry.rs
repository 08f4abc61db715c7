//! The header and the entries of a session file, one variant for each wire `type`, and their ids.
//!
//! This *is* the file format, version 3: what stands here is read from and written to lines. Key order when
//! writing: `type, id, parentId, timestamp`, then the payload in the order of the variant's fields.
//!
//! # Invariants
//! - Reading never refuses an entry that has an id: an unknown `type`, or a payload of another shape than Pi's,
//!   becomes [`EntryKind::Unknown`]. The line itself is kept by the storage, which copies bytes, never entries.
//! - A [`SessionId`] is safe as a part of a file name.

use std::borrow::{Borrow, Cow};
use std::fmt;

use chrono::{Datelike as _, Timelike as _};
use compact_str::CompactString;
use serde::de::Deserializer;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::session::json::{Extra, Fields, Json};
use crate::session::message::{Content, Message, SystemMessage, Usage, put, put_unless};

/// The version of the format that is written: Pi's 3.
pub const FORMAT_VERSION: u64 = 3;

/// The id of an entry: 8 lowercase hex digits in files of ours and Pi's, any string elsewhere.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(CompactString);

impl EntryId {
    /// Takes a string as an id.
    pub fn new(id: impl AsRef<str>) -> Self {
        Self(id.as_ref().into())
    }

    /// The id of these bits: 8 lowercase hex digits, as new entries have.
    pub fn of_bits(bits: u32) -> Self {
        // By hand, because formatting costs ten times as much and every append needs two of them.
        let digits: [u8; 8] = std::array::from_fn(|at| b"0123456789abcdef"[(bits >> (28 - 4 * at) & 0xf) as usize]);
        Self::from(std::str::from_utf8(&digits).expect("hex digits are text"))
    }

    /// The id as it stands in the file.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for EntryId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for EntryId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

/// The id of a session: matches `[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?` and has at most 200 bytes, so it can
/// stand in a file name. Ids read from headers go through [`SessionId::new`] before a path is built from them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

/// A string that cannot be a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be a session id: use letters, digits, '.', '_' and '-', with a letter or digit at both ends")]
pub struct InvalidSessionId(pub String);

impl SessionId {
    /// Takes `id` as a session id.
    ///
    /// # Errors
    /// When `id` does not match the rule above.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidSessionId> {
        let id = id.into();
        let bytes = id.as_bytes();
        let ends = bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.last().is_some_and(u8::is_ascii_alphanumeric);
        let inner = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
        if ends && inner && bytes.len() <= 200 { Ok(Self(id)) } else { Err(InvalidSessionId(id)) }
    }

    /// The id as it stands in the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first line of a session file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    /// The format's version: 1 where the file has none, [`u64::MAX`] where it is no number.
    pub version: u64,
    /// The session's id as the file has it; unchecked, so never a path (see [`SessionId`]).
    pub id: String,
    /// When the session was created, ISO 8601.
    pub timestamp: String,
    /// The folder that the session works in.
    pub cwd: String,
    /// The file that this session was forked from (`parentSession`, in version 1 `branchedFrom`).
    pub parent_session: Option<String>,
    /// What an application keeps (`metadata`).
    pub metadata: Option<Json>,
    /// Further keys.
    pub extra: Extra,
}

impl Header {
    /// Reads a header from the fields of a line whose `type` is `session`; what is absent is empty.
    pub fn read(mut fields: Fields<'_>) -> Self {
        fields.take::<Cow<'_, str>>("type");
        let parent_session = fields.take("parentSession");
        Self {
            version: fields.take_json("version").filter(|version| !version.is_null()).map_or(1, |version| read_version(&version)),
            id: fields.take("id").unwrap_or_default(),
            timestamp: fields.take("timestamp").unwrap_or_default(),
            cwd: fields.take("cwd").unwrap_or_default(),
            parent_session: parent_session.or_else(|| fields.take("branchedFrom")),
            metadata: fields.take_json("metadata"),
            extra: fields.rest(),
        }
    }
}

/// A version that is no number is newer than any that is known: such a file is read, and never changed.
fn read_version(version: &Json) -> u64 {
    let whole = |number: f64| (0.0..1e15).contains(&number) && number.fract() == 0.0;
    version.to().or_else(|| version.to().filter(|number| whole(*number)).map(|number: f64| number as u64)).unwrap_or(u64::MAX)
}

impl Serialize for Header {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "session")?;
        map.serialize_entry("version", &self.version)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        map.serialize_entry("cwd", &self.cwd)?;
        put(&mut map, "parentSession", self.parent_session.as_ref())?;
        put(&mut map, "metadata", self.metadata.as_ref())?;
        self.extra.write(&mut map)?;
        map.end()
    }
}

/// One entry, read whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its id, unique in the file (of equal ids the later line counts).
    pub id: EntryId,
    /// The entry that it hangs from; `None` for a root.
    pub parent_id: Option<EntryId>,
    /// When it was appended, ISO 8601 UTC with milliseconds.
    pub timestamp: String,
    /// Its type and payload.
    pub kind: EntryKind,
}

impl Entry {
    /// The timestamp in Unix milliseconds; `None` where it is no date.
    pub fn timestamp_ms(&self) -> Option<i64> {
        parse_timestamp_ms(&self.timestamp)
    }

    /// The message that the entry holds, if it is a `message`.
    pub fn message(&self) -> Option<&Message> {
        match &self.kind {
            EntryKind::Message(entry) => Some(&entry.message),
            EntryKind::Compaction(_)
            | EntryKind::BranchSummary(_)
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
            | EntryKind::Unknown { .. } => None,
        }
    }
}

/// Unix milliseconds of an ISO 8601 timestamp; `None` where it is no date.
pub fn parse_timestamp_ms(timestamp: &str) -> Option<i64> {
    chrono::DateTime::parse_from_rfc3339(timestamp).ok().map(|time| time.timestamp_millis())
}

/// The timestamp of an entry: ISO 8601 UTC with milliseconds, from Unix milliseconds.
pub fn format_timestamp(unix_ms: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(unix_ms).unwrap_or(chrono::DateTime::UNIX_EPOCH);
    let Ok(year @ 0..=9999) = u32::try_from(time.year()) else {
        return time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    };
    // By hand, because formatting costs three times as much and every append needs it.
    let mut text = String::with_capacity("2026-01-31T00:00:00.000Z".len());
    let mut put = |number: u32, first_place: u32, behind: char| {
        let mut place = first_place;
        while place > 0 {
            text.push(char::from(b'0' + (number / place % 10) as u8));
            place /= 10;
        }
        text.push(behind);
    };
    put(year, 1000, '-');
    put(time.month(), 10, '-');
    put(time.day(), 10, 'T');
    put(time.hour(), 10, ':');
    put(time.minute(), 10, ':');
    put(time.second(), 10, '.');
    put(time.timestamp_subsec_millis(), 100, 'Z');
    text
}

/// The wire `type` of an entry, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryType {
    /// `message`
    Message,
    /// `compaction`
    Compaction,
    /// `branch_summary`
    BranchSummary,
    /// `leaf`
    Leaf,
    /// `model_change`
    ModelChange,
    /// `thinking_level_change`
    ThinkingLevelChange,
    /// `active_tools_change`
    ActiveToolsChange,
    /// `context_edit`
    ContextEdit,
    /// `custom`
    Custom,
    /// `custom_message`
    CustomMessage,
    /// `label`
    Label,
    /// `session_info`
    SessionInfo,
    /// `usage`
    Usage,
    /// Any other.
    Unknown,
}

impl EntryType {
    /// All types that have a name.
    pub const KNOWN: [Self; 13] = [
        Self::Message,
        Self::Compaction,
        Self::BranchSummary,
        Self::Leaf,
        Self::ModelChange,
        Self::ThinkingLevelChange,
        Self::ActiveToolsChange,
        Self::ContextEdit,
        Self::Custom,
        Self::CustomMessage,
        Self::Label,
        Self::SessionInfo,
        Self::Usage,
    ];

    /// The type that is spelled `name` in files.
    pub fn from_wire(name: &[u8]) -> Self {
        match name {
            b"message" => Self::Message,
            b"compaction" => Self::Compaction,
            b"branch_summary" => Self::BranchSummary,
            b"leaf" => Self::Leaf,
            b"model_change" => Self::ModelChange,
            b"thinking_level_change" => Self::ThinkingLevelChange,
            b"active_tools_change" => Self::ActiveToolsChange,
            b"context_edit" => Self::ContextEdit,
            b"custom" => Self::Custom,
            b"custom_message" => Self::CustomMessage,
            b"label" => Self::Label,
            b"session_info" => Self::SessionInfo,
            b"usage" => Self::Usage,
            _ => Self::Unknown,
        }
    }

    /// The spelling in files; `unknown` for types without a name here.
    pub fn as_wire(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Compaction => "compaction",
            Self::BranchSummary => "branch_summary",
            Self::Leaf => "leaf",
            Self::ModelChange => "model_change",
            Self::ThinkingLevelChange => "thinking_level_change",
            Self::ActiveToolsChange => "active_tools_change",
            Self::ContextEdit => "context_edit",
            Self::Custom => "custom",
            Self::CustomMessage => "custom_message",
            Self::Label => "label",
            Self::SessionInfo => "session_info",
            Self::Usage => "usage",
            Self::Unknown => "unknown",
        }
    }
}

/// The type and payload of an entry. What is absent in the file is `None` here.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryKind {
    /// A message of the conversation.
    Message(MessageEntry),
    /// A summary that replaces older entries in the context.
    Compaction(Compaction),
    /// A summary of the path that was left here.
    BranchSummary(BranchSummary),
    /// The leaf was moved.
    Leaf(Leaf),
    /// The model was changed.
    ModelChange(ModelChange),
    /// The thinking level was changed.
    ThinkingLevelChange(ThinkingLevelChange),
    /// The active tools were changed.
    ActiveToolsChange(ActiveToolsChange),
    /// Another entry's message is edited or removed in the context.
    ContextEdit(ContextEdit),
    /// What an application keeps; not in the context.
    Custom(Custom),
    /// A message of an application; in the context.
    CustomMessage(CustomMessageEntry),
    /// A label of an entry.
    Label(Label),
    /// The session's name.
    SessionInfo(SessionInfo),
    /// Tokens that were used beside the conversation.
    Usage(UsageEntry),
    /// A type, or the payload of a known type, that is not Pi's.
    Unknown {
        /// The wire `type`.
        wire_type: String,
        /// The payload.
        extra: Extra,
    },
}

/// Payload of `message`.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageEntry {
    /// The message.
    pub message: Message,
    /// Further keys of the entry.
    pub extra: Extra,
}

/// Payload of `compaction`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compaction {
    /// What stands for the entries that are left out.
    pub summary: String,
    /// The first entry before this one that is kept.
    pub first_kept_entry_id: Option<EntryId>,
    /// Tokens of the context before; a number, kept as it stands.
    pub tokens_before: Option<Json>,
    /// Messages to keep instead of entries (the old harness; read, never written).
    pub retained_tail: Option<Vec<Message>>,
    /// `readFiles`, `modifiedFiles` and what an application adds.
    pub details: Option<Json>,
    /// What the summary cost.
    pub usage: Option<Usage>,
    /// Whether a hook supplied the summary.
    pub from_hook: Option<bool>,
    /// The replayed system prompt (Pi 1.x).
    pub system_message: Option<SystemMessage>,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `branch_summary`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BranchSummary {
    /// The leaf that was left, or `root`.
    pub from_id: Option<EntryId>,
    /// What happened there.
    pub summary: String,
    /// `readFiles`, `modifiedFiles` and what an application adds.
    pub details: Option<Json>,
    /// What the summary cost.
    pub usage: Option<Usage>,
    /// Whether a hook supplied the summary.
    pub from_hook: Option<bool>,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `leaf`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leaf {
    /// The new leaf; `None` is a reset to before the first entry.
    pub target_id: Option<EntryId>,
    /// The leaf that was left.
    pub from_id: Option<EntryId>,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `model_change`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelChange {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model_id: String,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `thinking_level_change`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThinkingLevelChange {
    /// `off`, `minimal`, `low`, `medium`, `high`, `xhigh`.
    pub thinking_level: String,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `active_tools_change`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActiveToolsChange {
    /// The names of the tools that the model may call.
    pub active_tool_names: Vec<String>,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `context_edit`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextEdit {
    /// The entry whose messages change.
    pub target_id: Option<EntryId>,
    /// The new content; `None` removes the messages.
    pub replacement: Option<Replacement>,
    /// Further keys.
    pub extra: Extra,
}

/// What a `context_edit` puts in place: `{content}`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replacement {
    /// The new content.
    pub content: Content,
    /// Further keys.
    pub extra: Extra,
}

impl<'de> Deserialize<'de> for Replacement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let mut fields = json.fields().ok_or_else(|| serde::de::Error::custom("a replacement is an object"))?;
        let content = fields.take("content").ok_or_else(|| serde::de::Error::missing_field("content"))?;
        Ok(Self { content, extra: fields.rest() })
    }
}

impl Serialize for Replacement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("content", &self.content)?;
        self.extra.write(&mut map)?;
        map.end()
    }
}

/// Payload of `custom`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Custom {
    /// The application's name for this kind.
    pub custom_type: String,
    /// What it keeps.
    pub data: Option<Json>,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `custom_message`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CustomMessageEntry {
    /// The application's name for this kind.
    pub custom_type: String,
    /// What the model sees.
    pub content: Option<Content>,
    /// Whether people see it.
    pub display: Option<bool>,
    /// What the application keeps.
    pub details: Option<Json>,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `label`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Label {
    /// The entry that is labelled.
    pub target_id: Option<EntryId>,
    /// The label; `None` or blank clears it.
    pub label: Option<String>,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `session_info`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionInfo {
    /// The session's name; `None` or blank clears it.
    pub name: Option<String>,
    /// Further keys.
    pub extra: Extra,
}

/// Payload of `usage`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageEntry {
    /// What the tokens were used for.
    pub kind: String,
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// The tokens and their cost.
    pub usage: Option<Usage>,
    /// A remark.
    pub note: Option<String>,
    /// Further keys.
    pub extra: Extra,
}

impl EntryKind {
    /// A `message` entry.
    pub fn message(message: Message) -> Self {
        Self::Message(MessageEntry { message, extra: Extra::default() })
    }

    /// The wire `type` as a value.
    pub fn entry_type(&self) -> EntryType {
        match self {
            Self::Message(_) => EntryType::Message,
            Self::Compaction(_) => EntryType::Compaction,
            Self::BranchSummary(_) => EntryType::BranchSummary,
            Self::Leaf(_) => EntryType::Leaf,
            Self::ModelChange(_) => EntryType::ModelChange,
            Self::ThinkingLevelChange(_) => EntryType::ThinkingLevelChange,
            Self::ActiveToolsChange(_) => EntryType::ActiveToolsChange,
            Self::ContextEdit(_) => EntryType::ContextEdit,
            Self::Custom(_) => EntryType::Custom,
            Self::CustomMessage(_) => EntryType::CustomMessage,
            Self::Label(_) => EntryType::Label,
            Self::SessionInfo(_) => EntryType::SessionInfo,
            Self::Usage(_) => EntryType::Usage,
            Self::Unknown { .. } => EntryType::Unknown,
        }
    }

    /// The wire `type` as it stands in the file.
    pub fn wire_type(&self) -> &str {
        match self {
            Self::Unknown { wire_type, .. } => wire_type,
            known => known.entry_type().as_wire(),
        }
    }

    /// Whether the payload is none of its type, so that a part of the conversation cannot be read: a message without a
    /// message, a compaction without a summary. Types and roles that are unknown may have any payload.
    pub fn is_unreadable(&self) -> bool {
        match self {
            Self::Message(payload) => payload.message.is_unreadable(),
            Self::Unknown { wire_type, .. } => match EntryType::from_wire(wire_type.as_bytes()) {
                EntryType::Message | EntryType::Compaction | EntryType::CustomMessage => true,
                EntryType::BranchSummary
                | EntryType::Leaf
                | EntryType::ModelChange
                | EntryType::ThinkingLevelChange
                | EntryType::ActiveToolsChange
                | EntryType::ContextEdit
                | EntryType::Custom
                | EntryType::Label
                | EntryType::SessionInfo
                | EntryType::Usage
                | EntryType::Unknown => false,
            },
            Self::Compaction(_)
            | Self::BranchSummary(_)
            | Self::Leaf(_)
            | Self::ModelChange(_)
            | Self::ThinkingLevelChange(_)
            | Self::ActiveToolsChange(_)
            | Self::ContextEdit(_)
            | Self::Custom(_)
            | Self::CustomMessage(_)
            | Self::Label(_)
            | Self::SessionInfo(_)
            | Self::Usage(_) => false,
        }
    }

    /// Reads type and payload from the fields of a line; `id`, `parentId` and `timestamp` were taken before.
    /// Never fails: see the module's invariants.
    pub fn read(mut fields: Fields<'_>) -> Self {
        let wire_type: String = fields.take("type").unwrap_or_default();
        match Self::read_known(&wire_type, &mut fields) {
            Some(mut kind) => {
                *kind.extra_mut() = fields.rest();
                kind
            }
            None => Self::Unknown { wire_type, extra: fields.rest() },
        }
    }

    /// Reads the payload of a known type, leaving what is no part of it in `fields`. Looks before it takes, so that
    /// a payload of another shape is still whole when this gives `None`.
    fn read_known(wire_type: &str, fields: &mut Fields<'_>) -> Option<Self> {
        let extra = Extra::default();
        Some(match EntryType::from_wire(wire_type.as_bytes()) {
            EntryType::Message => {
                Self::Message(MessageEntry { message: fields.take_with("message", |raw| Some(Message::of_raw(raw)))?, extra })
            }
            EntryType::Compaction => Self::Compaction(Compaction {
                summary: fields.take("summary")?,
                first_kept_entry_id: fields.take("firstKeptEntryId"),
                tokens_before: fields.take_json("tokensBefore"),
                retained_tail: fields.take("retainedTail"),
                details: fields.take_json("details"),
                usage: fields.take("usage"),
                from_hook: fields.take("fromHook"),
                system_message: take_system_message(fields),
                extra,
            }),
            EntryType::BranchSummary => Self::BranchSummary(BranchSummary {
                summary: fields.take("summary")?,
                from_id: fields.take("fromId"),
                details: fields.take_json("details"),
                usage: fields.take("usage"),
                from_hook: fields.take("fromHook"),
                extra,
            }),
            EntryType::Leaf => {
                // Null is a reset; an entry without the key, or of another shape, must not move anything.
                let target_id = fields.take::<Option<EntryId>>("targetId")?;
                Self::Leaf(Leaf { target_id, from_id: fields.take("fromId"), extra })
            }
            EntryType::ModelChange => {
                fields.get::<String>("modelId")?;
                Self::ModelChange(ModelChange { provider: fields.take("provider")?, model_id: fields.take("modelId")?, extra })
            }
            EntryType::ThinkingLevelChange => {
                Self::ThinkingLevelChange(ThinkingLevelChange { thinking_level: fields.take("thinkingLevel")?, extra })
            }
            EntryType::ActiveToolsChange => {
                Self::ActiveToolsChange(ActiveToolsChange { active_tool_names: fields.take("activeToolNames")?, extra })
            }
            EntryType::ContextEdit => {
                // Null removes a message; an edit without the key, or of another shape, must not.
                let replacement = fields.take::<Option<Replacement>>("replacement")?;
                Self::ContextEdit(ContextEdit { target_id: take_nullable(fields, "targetId"), replacement, extra })
            }
            EntryType::Custom => Self::Custom(Custom {
                custom_type: fields.take("customType").unwrap_or_default(),
                data: fields.take_json("data"),
                extra,
            }),
            EntryType::CustomMessage => {
                if fields.has("content") {
                    fields.get::<Content>("content")?;
                }
                Self::CustomMessage(CustomMessageEntry {
                    custom_type: fields.take("customType").unwrap_or_default(),
                    content: take_nullable(fields, "content"),
                    display: fields.take("display"),
                    details: fields.take_json("details"),
                    extra,
                })
            }
            EntryType::Label => {
                Self::Label(Label { target_id: take_nullable(fields, "targetId"), label: take_nullable(fields, "label"), extra })
            }
            EntryType::SessionInfo => Self::SessionInfo(SessionInfo { name: take_nullable(fields, "name"), extra }),
            EntryType::Usage => Self::Usage(UsageEntry {
                kind: fields.take("kind").unwrap_or_default(),
                provider: fields.take("provider").unwrap_or_default(),
                model: fields.take("model").unwrap_or_default(),
                usage: fields.take("usage"),
                note: fields.take("note"),
                extra,
            }),
            EntryType::Unknown => return None,
        })
    }

    /// The keys that have no field of their own.
    pub fn extra_mut(&mut self) -> &mut Extra {
        match self {
            Self::Message(payload) => &mut payload.extra,
            Self::Compaction(payload) => &mut payload.extra,
            Self::BranchSummary(payload) => &mut payload.extra,
            Self::Leaf(payload) => &mut payload.extra,
            Self::ModelChange(payload) => &mut payload.extra,
            Self::ThinkingLevelChange(payload) => &mut payload.extra,
            Self::ActiveToolsChange(payload) => &mut payload.extra,
            Self::ContextEdit(payload) => &mut payload.extra,
            Self::Custom(payload) => &mut payload.extra,
            Self::CustomMessage(payload) => &mut payload.extra,
            Self::Label(payload) => &mut payload.extra,
            Self::SessionInfo(payload) => &mut payload.extra,
            Self::Usage(payload) => &mut payload.extra,
            Self::Unknown { extra, .. } => extra,
        }
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Message(payload) => {
                map.serialize_entry("message", &payload.message)?;
                payload.extra.write(map)
            }
            Self::Compaction(payload) => {
                map.serialize_entry("summary", &payload.summary)?;
                put(map, "firstKeptEntryId", payload.first_kept_entry_id.as_ref())?;
                put(map, "tokensBefore", payload.tokens_before.as_ref())?;
                put(map, "retainedTail", payload.retained_tail.as_ref())?;
                put(map, "details", payload.details.as_ref())?;
                put(map, "usage", payload.usage.as_ref())?;
                put(map, "fromHook", payload.from_hook)?;
                if let Some(system) = &payload.system_message {
                    map.serialize_entry("systemMessage", &Message::System(system.clone()))?;
                }
                payload.extra.write(map)
            }
            Self::BranchSummary(payload) => {
                put(map, "fromId", payload.from_id.as_ref())?;
                map.serialize_entry("summary", &payload.summary)?;
                put(map, "details", payload.details.as_ref())?;
                put(map, "usage", payload.usage.as_ref())?;
                put(map, "fromHook", payload.from_hook)?;
                payload.extra.write(map)
            }
            Self::Leaf(payload) => {
                put_unless(&payload.extra, map, "targetId", &payload.target_id)?;
                put(map, "fromId", payload.from_id.as_ref())?;
                payload.extra.write(map)
            }
            Self::ModelChange(payload) => {
                map.serialize_entry("provider", &payload.provider)?;
                map.serialize_entry("modelId", &payload.model_id)?;
                payload.extra.write(map)
            }
            Self::ThinkingLevelChange(payload) => {
                map.serialize_entry("thinkingLevel", &payload.thinking_level)?;
                payload.extra.write(map)
            }
            Self::ActiveToolsChange(payload) => {
                map.serialize_entry("activeToolNames", &payload.active_tool_names)?;
                payload.extra.write(map)
            }
            Self::ContextEdit(payload) => {
                put_unless(&payload.extra, map, "targetId", &payload.target_id)?;
                map.serialize_entry("replacement", &payload.replacement)?;
                payload.extra.write(map)
            }
            Self::Custom(payload) => {
                put_unless(&payload.extra, map, "customType", &payload.custom_type)?;
                put(map, "data", payload.data.as_ref())?;
                payload.extra.write(map)
            }
            Self::CustomMessage(payload) => {
                put_unless(&payload.extra, map, "customType", &payload.custom_type)?;
                put(map, "content", payload.content.as_ref())?;
                put(map, "display", payload.display)?;
                put(map, "details", payload.details.as_ref())?;
                payload.extra.write(map)
            }
            Self::Label(payload) => {
                put_unless(&payload.extra, map, "targetId", &payload.target_id)?;
                put(map, "label", payload.label.as_ref())?;
                payload.extra.write(map)
            }
            Self::SessionInfo(payload) => {
                put(map, "name", payload.name.as_ref())?;
                payload.extra.write(map)
            }
            Self::Usage(payload) => {
                put_unless(&payload.extra, map, "kind", &payload.kind)?;
                put_unless(&payload.extra, map, "provider", &payload.provider)?;
                put_unless(&payload.extra, map, "model", &payload.model)?;
                put(map, "usage", payload.usage.as_ref())?;
                put(map, "note", payload.note.as_ref())?;
                payload.extra.write(map)
            }
            Self::Unknown { extra, .. } => extra.write(map),
        }
    }
}

/// Takes `key` out; null and absent are both `None`, and neither is left in `fields`. A value of another shape stays.
fn take_nullable<T: serde::de::DeserializeOwned>(fields: &mut Fields<'_>, key: &str) -> Option<T> {
    if fields.has(key) {
        fields.take(key)
    } else {
        fields.take_json(key);
        None
    }
}

/// Takes a `systemMessage` out if it is a message with the role `system`.
fn take_system_message(fields: &mut Fields<'_>) -> Option<SystemMessage> {
    match fields.get::<Message>("systemMessage")? {
        Message::System(message) => {
            fields.take_json("systemMessage");
            Some(message)
        }
        Message::User(_)
        | Message::Assistant(_)
        | Message::ToolResult(_)
        | Message::BashExecution(_)
        | Message::Custom(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_)
        | Message::Unknown(_) => None,
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.kind.wire_type())?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("parentId", &self.parent_id)?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        self.kind.write(&mut map)?;
        map.end()
    }
}

/// The payload of an entry alone, as an object.
pub(crate) struct Payload<'a>(pub &'a EntryKind);

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.write(&mut map)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Entry {
        let mut fields = Fields::parse(line).expect(line);
        Entry {
            id: fields.take("id").expect("id"),
            parent_id: take_nullable(&mut fields, "parentId"),
            timestamp: fields.take("timestamp").unwrap_or_default(),
            kind: EntryKind::read(fields),
        }
    }

    #[test]
    fn times_are_written_as_chrono_writes_them() {
        let years =
            [-70_000_000_000_000, -62_167_219_200_001, -62_167_219_200_000, -1, 0, 253_402_300_799_999, 253_402_300_800_000];
        let steps = (0..5_000).map(|step: i64| step * 50_680_461_987 - 2_000_000_000_007);
        for unix_ms in years.into_iter().chain(steps) {
            let time = chrono::DateTime::from_timestamp_millis(unix_ms).expect("a time of chrono");
            assert_eq!(format_timestamp(unix_ms), time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true));
        }
        assert_eq!(format_timestamp(i64::MAX), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn every_type_comes_back_as_it_was_written() {
        let usage = r#"{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,"cost":{"input":0,"output":0.5,"cacheRead":0,"cacheWrite":0,"total":0.5},"reasoning":1}"#;
        let payloads = [
            r#""message","message":{"role":"user","content":"hi","timestamp":1,"new":[1.50]}"#.to_owned(),
            format!(r#""message","message":{{"role":"assistant","content":[{{"type":"thinking","thinking":"t","thinkingSignature":"s"}},{{"type":"toolCall","id":"c","name":"read","arguments":{{"path":"a"}}}},{{"type":"odd","x":1}}],"api":"a","provider":"p","model":"m","usage":{usage},"stopReason":"toolUse","timestamp":2,"responseId":"r"}}"#),
            r#""message","message":{"role":"toolResult","toolCallId":"c","toolName":"read","content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"details":{"a":1},"isError":false,"timestamp":3}"#.to_owned(),
            r#""message","message":{"role":"martian","x":1}"#.to_owned(),
            format!(r#""compaction","summary":"s","firstKeptEntryId":"a","tokensBefore":12,"retainedTail":[{{"role":"user","content":"x","timestamp":1}}],"details":{{"readFiles":[]}},"usage":{usage},"fromHook":true,"systemMessage":{{"role":"system","content":"","sections":{{}},"timestamp":1}}"#),
            format!(r#""branch_summary","fromId":"a","summary":"s","details":null,"usage":{usage}"#),
            r#""leaf","targetId":null,"fromId":"a""#.to_owned(),
            r#""leaf","targetId":"a""#.to_owned(),
            r#""model_change","provider":"p","modelId":"m""#.to_owned(),
            r#""thinking_level_change","thinkingLevel":"high""#.to_owned(),
            r#""active_tools_change","activeToolNames":["a","b"]"#.to_owned(),
            r#""context_edit","targetId":"a","replacement":null"#.to_owned(),
            r#""context_edit","targetId":"a","replacement":{"content":"x"}"#.to_owned(),
            r#""custom","customType":"t","data":{"n":1.0e3}"#.to_owned(),
            r#""custom_message","customType":"t","content":"c","display":true,"details":[1]"#.to_owned(),
            r#""label","targetId":"a","label":"l""#.to_owned(),
            r#""session_info","name":"n","color":"red""#.to_owned(),
            format!(r#""usage","kind":"k","provider":"p","model":"m","usage":{usage},"note":"n""#),
            r#""future_type","payload":{"b":1,"a":2}"#.to_owned(),
            r#""model_change","provider":1"#.to_owned(),
        ];
        for payload in payloads {
            let (kind, rest) = payload.split_once(',').expect("a payload");
            let line = format!(r#"{{"type":{kind},"id":"a1","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z",{rest}}}"#);
            assert_eq!(serde_json::to_string(&read(&line)).expect("an entry can be written"), line);
        }
    }

    #[test]
    fn session_ids_that_could_be_paths_are_refused() {
        for id in ["a", "a-b.c_d", "019A", "2261b4bf22afef6c531acce1144c72f8"] {
            assert_eq!(SessionId::new(id).expect(id).as_str(), id);
        }
        for id in ["", ".", "..", "../x", "/etc", "a/b", "a\0", "-a", "a.", "a b", "é", &"a".repeat(201)] {
            assert_eq!(SessionId::new(id), Err(InvalidSessionId(id.to_owned())));
        }
    }

    #[test]
    fn timestamps_have_milliseconds() {
        assert_eq!(format_timestamp(1_772_366_453_954), "2026-03-01T12:00:53.954Z");
        assert_eq!(parse_timestamp_ms("2026-03-01T12:00:53.954Z"), Some(1_772_366_453_954));
        assert_eq!(parse_timestamp_ms("yesterday"), None);
    }
}
