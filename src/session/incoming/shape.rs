//! What the fields of messages and entries have to look like, so that Pi can read them.
//!
//! # Invariants
//! - A field that passes is one that the typed reading takes; nothing is left in `extra` under its name but null.

use crate::session::entry::EntryType;
use crate::session::incoming::Refusal;
use crate::session::json::{Extra, Fields, Json};
use crate::session::message::Role;

/// What a field has to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    TextOrNull,
    Texts,
    Bool,
    Milliseconds,
    Integer,
    WholeNumber,
    Number,
    Object,
    Content,
    Replacement,
    Objects,
    Usage,
}

impl Shape {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::TextOrNull => "a string or null",
            Self::Texts => "an array of strings",
            Self::Bool => "true or false",
            Self::Milliseconds => "Unix time in milliseconds, a whole number",
            Self::Integer => "a whole number",
            Self::WholeNumber => "a whole number of at least 0",
            Self::Number => "a number",
            Self::Object => "an object",
            Self::Content => "a string or an array of blocks",
            Self::Replacement => "null or an object with \"content\"",
            Self::Objects => "an array of messages",
            Self::Usage => "an object with counts of tokens",
        }
    }

    /// Whether a value that is not null has this shape.
    fn fits(self, text: &str) -> bool {
        let is = |first: char| text.starts_with(first);
        match self {
            Self::Text | Self::TextOrNull => is('"'),
            Self::Texts => serde_json::from_str::<Vec<String>>(text).is_ok(),
            Self::Bool => matches!(text, "true" | "false"),
            Self::Milliseconds | Self::Integer => text.parse::<i64>().is_ok(),
            Self::WholeNumber => text.parse::<u64>().is_ok() || text.parse().is_ok_and(is_exact_count),
            Self::Number => text.parse::<f64>().is_ok_and(f64::is_finite),
            Self::Object | Self::Usage => is('{'),
            Self::Content => is('"') || is('['),
            Self::Replacement => {
                Fields::parse(text).is_ok_and(|fields| fields.text("content").is_some_and(|text| Self::Content.fits(text)))
            }
            Self::Objects => is('['),
        }
    }
}

/// Whether a float is a count that it holds exactly.
fn is_exact_count(float: f64) -> bool {
    (0.0..=9_007_199_254_740_992.0).contains(&float) && float.fract() == 0.0
}

/// A field of a message or an entry.
pub(super) struct Field(pub &'static str, pub Shape, pub Need);

/// Whether a field has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    /// Absent or null will do.
    Optional,
}
use Need::{Optional, Required};

/// The fields of a message, but for `role`, `timestamp` and what may be anything.
pub(super) fn message_fields(role: Role) -> &'static [Field] {
    match role {
        Role::User => &[Field("content", Shape::Content, Required)],
        Role::Assistant => &[
            Field("content", Shape::Content, Optional),
            Field("api", Shape::Text, Optional),
            Field("provider", Shape::Text, Optional),
            Field("model", Shape::Text, Optional),
            Field("usage", Shape::Usage, Optional),
            Field("stopReason", Shape::Text, Optional),
            Field("errorMessage", Shape::Text, Optional),
        ],
        Role::ToolResult => &[
            Field("toolCallId", Shape::Text, Required),
            Field("toolName", Shape::Text, Optional),
            Field("content", Shape::Content, Optional),
            Field("isError", Shape::Bool, Optional),
            Field("usage", Shape::Usage, Optional),
        ],
        Role::BashExecution => &[
            Field("command", Shape::Text, Required),
            Field("output", Shape::Text, Optional),
            Field("exitCode", Shape::Integer, Optional),
            Field("cancelled", Shape::Bool, Optional),
            Field("truncated", Shape::Bool, Optional),
            Field("fullOutputPath", Shape::Text, Optional),
            Field("excludeFromContext", Shape::Bool, Optional),
        ],
        Role::Custom => &[
            Field("customType", Shape::Text, Required),
            Field("content", Shape::Content, Required),
            Field("display", Shape::Bool, Optional),
        ],
        Role::System => &[Field("content", Shape::Content, Optional), Field("sections", Shape::Object, Optional)],
        Role::BranchSummary => &[Field("summary", Shape::Text, Required), Field("fromId", Shape::Text, Optional)],
        Role::CompactionSummary => &[Field("summary", Shape::Text, Required), Field("tokensBefore", Shape::Number, Optional)],
        Role::Unknown => &[],
    }
}

/// The payload of an entry, but for what may be anything.
pub(super) fn entry_fields(entry_type: EntryType) -> &'static [Field] {
    match entry_type {
        EntryType::Message => &[Field("message", Shape::Object, Required)],
        EntryType::Compaction => &[
            Field("summary", Shape::Text, Required),
            Field("firstKeptEntryId", Shape::Text, Optional),
            Field("tokensBefore", Shape::Number, Optional),
            Field("retainedTail", Shape::Objects, Optional),
            Field("usage", Shape::Usage, Optional),
            Field("fromHook", Shape::Bool, Optional),
            Field("systemMessage", Shape::Object, Optional),
        ],
        EntryType::BranchSummary => &[
            Field("fromId", Shape::Text, Optional),
            Field("summary", Shape::Text, Required),
            Field("usage", Shape::Usage, Optional),
            Field("fromHook", Shape::Bool, Optional),
        ],
        EntryType::Leaf => &[Field("targetId", Shape::TextOrNull, Required), Field("fromId", Shape::Text, Optional)],
        EntryType::ModelChange => &[Field("provider", Shape::Text, Required), Field("modelId", Shape::Text, Required)],
        EntryType::ThinkingLevelChange => &[Field("thinkingLevel", Shape::Text, Required)],
        EntryType::ActiveToolsChange => &[Field("activeToolNames", Shape::Texts, Required)],
        EntryType::ContextEdit => &[Field("targetId", Shape::Text, Required), Field("replacement", Shape::Replacement, Required)],
        EntryType::Custom => &[Field("customType", Shape::Text, Required)],
        EntryType::CustomMessage => &[
            Field("customType", Shape::Text, Required),
            Field("content", Shape::Content, Required),
            Field("display", Shape::Bool, Optional),
        ],
        EntryType::Label => &[Field("targetId", Shape::Text, Required), Field("label", Shape::Text, Optional)],
        EntryType::SessionInfo => &[Field("name", Shape::Text, Optional)],
        EntryType::Usage => &[
            Field("kind", Shape::Text, Optional),
            Field("provider", Shape::Text, Optional),
            Field("model", Shape::Text, Optional),
            Field("usage", Shape::Usage, Required),
            Field("note", Shape::Text, Optional),
        ],
        EntryType::Unknown => &[],
    }
}

/// The time of any message.
pub(super) const TIME: &[Field] = &[Field("timestamp", Shape::Milliseconds, Optional)];

/// The fields of a `usage`.
pub(super) const COUNTS: &[Field] = &[
    Field("input", Shape::WholeNumber, Optional),
    Field("output", Shape::WholeNumber, Optional),
    Field("cacheRead", Shape::WholeNumber, Optional),
    Field("cacheWrite", Shape::WholeNumber, Optional),
    Field("totalTokens", Shape::WholeNumber, Optional),
    Field("cost", Shape::Object, Optional),
];

/// The fields of a `cost`.
pub(super) const AMOUNTS: &[Field] = &[
    Field("input", Shape::Number, Optional),
    Field("output", Shape::Number, Optional),
    Field("cacheRead", Shape::Number, Optional),
    Field("cacheWrite", Shape::Number, Optional),
    Field("total", Shape::Number, Optional),
];

/// Checks the shape of every field in `expected`.
pub(super) fn check_fields(owner: &str, fields: &Fields<'_>, expected: &[Field]) -> Result<(), Refusal> {
    for Field(field, shape, need) in expected {
        let expected = shape.describe();
        let fault = match fields.text(field) {
            None if *need == Optional => None,
            None => Some(Refusal::Missing { owner: owner.to_owned(), field, expected }),
            Some("null") if *need == Optional || matches!(shape, Shape::TextOrNull | Shape::Replacement) => None,
            Some("null") => Some(Refusal::Missing { owner: owner.to_owned(), field, expected }),
            Some(text) if shape.fits(text) => None,
            Some(_) => Some(Refusal::WrongShape { owner: owner.to_owned(), field, expected }),
        };
        if let Some(refusal) = fault {
            return Err(refusal);
        }
        if *shape == Shape::Usage
            && let Some(usage) = fields.get::<Fields<'_>>(field)
        {
            check_fields("\"usage\"", &usage, COUNTS)?;
            if let Some(cost) = usage.get::<Fields<'_>>("cost") {
                check_fields("\"cost\"", &cost, AMOUNTS)?;
            }
        }
    }
    Ok(())
}

/// Removes what [`check_fields`] let through and no field took: nulls.
pub(super) fn drop_nulls(extra: &mut Extra, checked: &[Field]) {
    for Field(field, _, _) in checked {
        if extra.get(field).is_some_and(Json::is_null) {
            extra.remove(field);
        }
    }
}
