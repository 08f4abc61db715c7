//! Lines that somebody wants appended: messages and entries as JSON, checked and completed.
//!
//! ```text
//! {"role":"user","content":"hi"}                              a message
//! {"type":"label","id":"x","targetId":"y","label":"here"}     an entry
//! ```
//!
//! # Invariants
//! - What comes out of here opens in Pi: every field that Pi needs is there and has Pi's shape. Null counts as absent;
//!   a field of another shape is refused, never repaired by guessing.
//! - Further keys, and entries whose `type` is none of Pi's, are kept as they came.
//! - A batch is refused as a whole, with the number of the first bad line.
//! - Nothing here knows the session: which entries exist is asked for, under whatever lock the caller holds.

use std::collections::HashSet;

use crate::session::entry::{CustomMessageEntry, EntryId, EntryKind, EntryType, MessageEntry};
use crate::session::json::{Extra, Fields, Json, well_formed};
use crate::session::message::{
    AssistantMessage, Block, Content, Cost, CustomMessage, Message, Role, SystemMessage, ToolResultMessage, Usage,
};

mod shape;

use shape::Need::Required;
use shape::{AMOUNTS, COUNTS, Field, Shape, TIME, check_fields, drop_nulls, entry_fields, message_fields};

/// What stands for the `api`, `provider` and `model` of an assistant message that does not tell them.
const UNKNOWN: &str = "unknown";

/// One line, as what will be appended.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// The line, counted from 1.
    pub line: u64,
    /// The id that the line had. It gets a new one; later lines may mean it by this.
    pub id: Option<EntryId>,
    /// Type and payload.
    pub kind: EntryKind,
}

/// A line that is refused, and with it the batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {refusal}")]
pub struct IncomingError {
    /// The line, counted from 1.
    pub line: u64,
    /// Why.
    pub refusal: Refusal,
}

/// Why a line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Bytes that are no text.
    #[error("not UTF-8; send JSON lines in UTF-8")]
    NotUtf8,
    /// No JSON object.
    #[error("not a JSON object ({0}); send one whole object in each line")]
    NotAnObject(String),
    /// The first line of a session file.
    #[error("a session header; leave it out, the session has its own")]
    Header,
    /// An object that is nothing of ours.
    #[error("neither a message, which has a \"role\", nor an entry, which has a \"type\"")]
    NoRoleOrType,
    /// A role that is none of Pi's.
    #[error("{0:?} is no role; use user, assistant, toolResult, bashExecution, custom or system")]
    UnknownRole(String),
    /// A role of contexts, which is an entry of its own in files.
    #[error("messages with the role {role} stand in contexts only; send an entry of the type {entry_type}")]
    ContextRole {
        /// The role.
        role: &'static str,
        /// The type of the entry that means the same.
        entry_type: &'static str,
    },
    /// A field that has to be there.
    #[error("{owner} needs {field:?}, {expected}")]
    Missing {
        /// What the field belongs to.
        owner: String,
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A field of another shape.
    #[error("{field:?} of {owner} should be {expected}")]
    WrongShape {
        /// What the field belongs to.
        owner: String,
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A block that the message cannot hold.
    #[error("block {position} is of the type {block_type:?}, which {owner} cannot hold; use {allowed}")]
    UnknownBlock {
        /// The message.
        owner: String,
        /// Which block, counted from 1.
        position: usize,
        /// Its type, empty where there is none.
        block_type: String,
        /// The types that it can hold.
        allowed: String,
    },
    /// A block without what its type needs.
    #[error("block {position} should be like {example}")]
    BlockShape {
        /// Which block, counted from 1.
        position: usize,
        /// One that is right.
        example: &'static str,
    },
    /// An id that names nothing.
    #[error("{field:?} names no entry of the session and no earlier line: {id}")]
    NoSuchTarget {
        /// The field.
        field: &'static str,
        /// The id.
        id: EntryId,
    },
}

/// Reads the lines of `input`; blank ones are skipped. `now_ms` is for messages without a timestamp.
///
/// Takes messages (with a `role`) and entries (with a `type`; their own `id`, `parentId` and `timestamp` go), and
/// completes what Pi needs:
///
/// - A message without a timestamp gets `now_ms`. String content of assistants and tools becomes one text block.
/// - An assistant message gets `api`, `provider` and `model` `unknown`, a `usage` of zeros with its `cost`, and the
///   `stopReason` `toolUse` if it holds calls, else `stop`. Counts and amounts that are missing in a `usage` are 0.
/// - A message with the role `custom` becomes a `custom_message` entry; its `display` is true unless it says otherwise.
/// - A compaction gets `tokensBefore` 0; one without `firstKeptEntryId` and `retainedTail` keeps nothing.
/// - Entries of types that are none of Pi's are taken as they are.
///
/// # Errors
/// For the first line that is refused.
pub fn read_incoming(input: &[u8], now_ms: i64) -> Result<Vec<Incoming>, IncomingError> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let mut batch = Vec::new();
    for (number, bytes) in (1..).zip(input.split(|byte| *byte == b'\n')) {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let (id, kind) = read_line(bytes, now_ms).map_err(|refusal| IncomingError { line: number, refusal })?;
        batch.push(Incoming { line: number, id, kind });
    }
    Ok(batch)
}

/// Checks that every `targetId` and `firstKeptEntryId` names an entry that exists or an earlier line; a
/// `firstKeptEntryId` may also name its own line. A `fromId` may name anything.
///
/// # Errors
/// For the first line whose target does not exist.
pub fn check_targets(batch: &[Incoming], exists: &dyn Fn(&str) -> bool) -> Result<(), IncomingError> {
    let mut earlier = HashSet::new();
    for incoming in batch {
        if let Some((field, target)) = incoming.target() {
            let is_own = incoming.id.as_ref() == Some(target) && incoming.kind.entry_type() == EntryType::Compaction;
            if !is_own && !earlier.contains(target) && !exists(target.as_str()) {
                let refusal = Refusal::NoSuchTarget { field, id: target.clone() };
                return Err(IncomingError { line: incoming.line, refusal });
            }
        }
        earlier.extend(&incoming.id);
    }
    Ok(())
}

impl Incoming {
    /// The entry that this one is about, and the field that names it.
    fn target(&self) -> Option<(&'static str, &EntryId)> {
        let (field, target) = match &self.kind {
            EntryKind::Compaction(payload) => ("firstKeptEntryId", payload.first_kept_entry_id.as_ref()),
            EntryKind::Leaf(payload) => ("targetId", payload.target_id.as_ref()),
            EntryKind::ContextEdit(payload) => ("targetId", payload.target_id.as_ref()),
            EntryKind::Label(payload) => ("targetId", payload.target_id.as_ref()),
            EntryKind::Message(_)
            | EntryKind::BranchSummary(_)
            | EntryKind::ModelChange(_)
            | EntryKind::ThinkingLevelChange(_)
            | EntryKind::ActiveToolsChange(_)
            | EntryKind::Custom(_)
            | EntryKind::CustomMessage(_)
            | EntryKind::SessionInfo(_)
            | EntryKind::Usage(_)
            | EntryKind::Unknown { .. } => return None,
        };
        target.map(|target| (field, target))
    }

    /// What to append: `targetId`, `fromId` and `firstKeptEntryId` as `new_id` says where it knows them. `own_id` is the
    /// entry's new id, for a compaction that keeps nothing.
    pub fn resolved(&self, own_id: &EntryId, new_id: &dyn Fn(&EntryId) -> Option<EntryId>) -> EntryKind {
        let follow = |id: &mut Option<EntryId>| {
            if let Some(new) = id.as_ref().and_then(new_id) {
                *id = Some(new);
            }
        };
        let mut kind = self.kind.clone();
        match &mut kind {
            EntryKind::Compaction(payload) => {
                let kept = &mut payload.first_kept_entry_id;
                let names_itself = *kept == self.id && kept.is_some();
                if names_itself || kept.is_none() && payload.retained_tail.is_none() {
                    *kept = Some(own_id.clone());
                } else {
                    follow(kept);
                }
            }
            EntryKind::BranchSummary(payload) => follow(&mut payload.from_id),
            EntryKind::Leaf(payload) => {
                follow(&mut payload.target_id);
                follow(&mut payload.from_id);
            }
            EntryKind::ContextEdit(payload) => follow(&mut payload.target_id),
            EntryKind::Label(payload) => follow(&mut payload.target_id),
            EntryKind::Unknown { extra, .. } => {
                for field in ["targetId", "fromId", "firstKeptEntryId"] {
                    let new = extra.get(field).and_then(Json::to::<EntryId>).as_ref().and_then(new_id);
                    if let Some(new) = new.and_then(|new| Json::of(&new).ok()) {
                        extra.set(field, new);
                    }
                }
            }
            EntryKind::Message(_)
            | EntryKind::ModelChange(_)
            | EntryKind::ThinkingLevelChange(_)
            | EntryKind::ActiveToolsChange(_)
            | EntryKind::Custom(_)
            | EntryKind::CustomMessage(_)
            | EntryKind::SessionInfo(_)
            | EntryKind::Usage(_) => {}
        }
        kind
    }
}

fn read_line(bytes: &[u8], now_ms: i64) -> Result<(Option<EntryId>, EntryKind), Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| Refusal::NotUtf8)?;
    let no_object = |error: serde_json::Error| {
        // The place within the one line is of use, its line number is not.
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        Refusal::NotAnObject(format!("{what} at column {}", error.column()))
    };
    Fields::parse(text).map_err(no_object)?;
    // Escapes of lone surrogates are what JavaScript writes; they read as U+FFFD.
    let text = well_formed(bytes);
    let mut fields = Fields::parse(&text).map_err(no_object)?;
    let id = fields.get::<EntryId>("id");
    let wire_type = match fields.get::<String>("type") {
        Some(name) if name == "message" && !fields.has("message") && fields.has("role") => None,
        Some(name) => Some(name),
        None if fields.has("type") => {
            return Err(Refusal::WrongShape { owner: "an entry".to_owned(), field: "type", expected: Shape::Text.describe() });
        }
        None => None,
    };
    let Some(wire_type) = wire_type else {
        if !fields.has("role") {
            return Err(Refusal::NoRoleOrType);
        }
        let json = Json::parse(&text).map_err(no_object)?;
        return Ok((id, message_entry(read_message(&json, now_ms)?, Extra::default())?));
    };
    if wire_type == "session" {
        return Err(Refusal::Header);
    }
    for own in ["id", "parentId", "timestamp"] {
        fields.take_json(own);
    }
    read_entry(fields, &wire_type, now_ms).map(|kind| (id, kind))
}

/// Reads a message of one of Pi's roles and completes it.
fn read_message(json: &Json, now_ms: i64) -> Result<Message, Refusal> {
    let not_an_object =
        || Refusal::WrongShape { owner: "an entry".to_owned(), field: "message", expected: Shape::Object.describe() };
    let fields = json.fields().ok_or_else(not_an_object)?;
    check_fields("a message", &fields, &[Field("role", Shape::Text, Required)])?;
    let name = fields.get::<String>("role").unwrap_or_default();
    let role = Role::from_wire(&name);
    if role == Role::Unknown {
        return Err(Refusal::UnknownRole(name));
    }
    let owner = match role {
        Role::Assistant => format!("an {name} message"),
        Role::User
        | Role::ToolResult
        | Role::BashExecution
        | Role::Custom
        | Role::System
        | Role::BranchSummary
        | Role::CompactionSummary
        | Role::Unknown => format!("a {name} message"),
    };
    check_fields(&owner, &fields, message_fields(role))?;
    check_fields(&owner, &fields, TIME)?;
    let mut message = Message::from_json(json.clone());
    if let Some(extra) = extra_of(&mut message) {
        drop_nulls(extra, message_fields(role));
        drop_nulls(extra, TIME);
        // Some programs put one on messages too; here it would only be taken for an entry's.
        if extra.get("type").and_then(Json::to::<String>).as_deref() == Some("message") {
            extra.remove("type");
        }
    }
    match &mut message {
        Message::User(message) => {
            message.timestamp.get_or_insert(now_ms);
            check_blocks(&owner, SAID, message.content.as_mut())?;
        }
        Message::Assistant(message) => {
            message.timestamp.get_or_insert(now_ms);
            complete_assistant(message, &owner)?;
        }
        Message::ToolResult(message) => {
            message.timestamp.get_or_insert(now_ms);
            complete_tool_result(message, &owner)?;
        }
        Message::BashExecution(message) => {
            message.timestamp.get_or_insert(now_ms);
        }
        Message::Custom(message) => {
            message.timestamp.get_or_insert(now_ms);
            message.display.get_or_insert(true);
            check_blocks(&owner, SAID, message.content.as_mut())?;
        }
        Message::System(message) => {
            message.timestamp.get_or_insert(now_ms);
            complete_system(message, &owner)?;
        }
        Message::BranchSummary(message) => {
            message.timestamp.get_or_insert(now_ms);
        }
        Message::CompactionSummary(message) => {
            message.timestamp.get_or_insert(now_ms);
            message.tokens_before = number_or_zero(message.tokens_before.take());
        }
        Message::Unknown(_) => return Err(Refusal::UnknownRole(name)),
    }
    Ok(message)
}

fn extra_of(message: &mut Message) -> Option<&mut Extra> {
    Some(match message {
        Message::User(message) => &mut message.extra,
        Message::Assistant(message) => &mut message.extra,
        Message::ToolResult(message) => &mut message.extra,
        Message::BashExecution(message) => &mut message.extra,
        Message::Custom(message) => &mut message.extra,
        Message::System(message) => &mut message.extra,
        Message::BranchSummary(message) => &mut message.extra,
        Message::CompactionSummary(message) => &mut message.extra,
        Message::Unknown(_) => return None,
    })
}

/// Pi formats this number whenever it shows the summary, so it has to be one.
fn number_or_zero(number: Option<Json>) -> Option<Json> {
    number.filter(|json| !json.is_null()).or_else(|| Json::of(&0).ok())
}

fn complete_assistant(message: &mut AssistantMessage, owner: &str) -> Result<(), Refusal> {
    as_blocks(&mut message.content);
    check_blocks(owner, ANSWERED, message.content.as_mut())?;
    for field in [&mut message.api, &mut message.provider, &mut message.model] {
        field.get_or_insert_with(|| UNKNOWN.to_owned());
    }
    complete_usage(message.usage.get_or_insert_default());
    if message.stop_reason.is_none() {
        let reason = if message.tool_calls().next().is_some() { "toolUse" } else { "stop" };
        message.stop_reason = Some(reason.to_owned());
    }
    Ok(())
}

fn complete_tool_result(message: &mut ToolResultMessage, owner: &str) -> Result<(), Refusal> {
    as_blocks(&mut message.content);
    check_blocks(owner, SAID, message.content.as_mut())?;
    message.is_error.get_or_insert(false);
    if let Some(mut usage) = message.extra.get("usage").and_then(Json::to::<Usage>) {
        complete_usage(&mut usage);
        message.extra.remove("usage");
        message.extra.set("usage", Json::of(&usage).expect("a usage has string keys and no failing serializers"));
    }
    Ok(())
}

fn complete_system(message: &mut SystemMessage, owner: &str) -> Result<(), Refusal> {
    check_blocks(owner, TEXT, message.content.as_mut())?;
    let text = message.content.as_ref().map(Content::joined_text).unwrap_or_default();
    message.content = Some(Content::Text(text));
    Ok(())
}

fn complete_usage(usage: &mut Usage) {
    drop_nulls(&mut usage.extra, COUNTS);
    let sum = usage.sum();
    usage.total_tokens.get_or_insert(sum);
    drop_nulls(&mut usage.cost.get_or_insert_with(Cost::default).extra, AMOUNTS);
}

/// A string as one text block, nothing as no blocks.
fn as_blocks(content: &mut Option<Content>) {
    *content = Some(match content.take() {
        Some(Content::Text(text)) => Content::text_block(text),
        Some(blocks @ Content::Blocks(_)) => blocks,
        None => Content::default(),
    });
}

/// What users and tools say.
const SAID: &[&str] = &["text", "image"];
/// What models answer.
const ANSWERED: &[&str] = &["text", "thinking", "toolCall"];
const TEXT: &[&str] = &["text"];
const ANY: &[&str] = &["text", "image", "thinking", "toolCall"];

/// Checks that all blocks are of the `allowed` types and whole.
fn check_blocks(owner: &str, allowed: &[&str], content: Option<&mut Content>) -> Result<(), Refusal> {
    let Some(Content::Blocks(blocks)) = content else { return Ok(()) };
    for (position, block) in (1..).zip(blocks) {
        let block_type = match block {
            Block::Text { .. } => "text".to_owned(),
            Block::Thinking { .. } => "thinking".to_owned(),
            Block::Image { .. } => "image".to_owned(),
            Block::ToolCall(call) => {
                if call.arguments.is_null() {
                    call.arguments = Json::empty_object();
                }
                if call.arguments.fields().is_none() {
                    let expected = Shape::Object.describe();
                    return Err(Refusal::WrongShape { owner: "a toolCall block".to_owned(), field: "arguments", expected });
                }
                "toolCall".to_owned()
            }
            Block::Unknown(json) => {
                let block_type = json.fields().and_then(|fields| fields.get::<String>("type")).unwrap_or_default();
                if allowed.contains(&block_type.as_str()) {
                    return Err(Refusal::BlockShape { position, example: block_example(&block_type) });
                }
                block_type
            }
        };
        if !allowed.contains(&block_type.as_str()) {
            return Err(Refusal::UnknownBlock { owner: owner.to_owned(), position, block_type, allowed: allowed.join(", ") });
        }
    }
    Ok(())
}

fn block_example(block_type: &str) -> &'static str {
    match block_type {
        "thinking" => r#"{"type":"thinking","thinking":"..."}"#,
        "image" => r#"{"type":"image","data":"BASE64","mimeType":"image/png"}"#,
        "toolCall" => r#"{"type":"toolCall","id":"...","name":"...","arguments":{}}"#,
        _ => r#"{"type":"text","text":"..."}"#,
    }
}

/// The entry for a message of a file. `extra` are further keys of the entry.
fn message_entry(message: Message, mut extra: Extra) -> Result<EntryKind, Refusal> {
    let context_only = |entry_type: EntryType| {
        let role = message.role().as_wire();
        Err(Refusal::ContextRole { role, entry_type: entry_type.as_wire() })
    };
    match message {
        Message::BranchSummary(_) => context_only(EntryType::BranchSummary),
        Message::CompactionSummary(_) => context_only(EntryType::Compaction),
        Message::Custom(CustomMessage { custom_type, content, display, details, timestamp: _, extra: keys }) => {
            // The entry has these keys itself.
            let own = ["type", "id", "parentId", "timestamp", "customType", "content", "display", "details"];
            for (key, value) in keys.iter() {
                extra.set(key, value.clone());
            }
            own.iter().for_each(|key| drop(extra.remove(key)));
            Ok(EntryKind::CustomMessage(CustomMessageEntry { custom_type, content, display, details, extra }))
        }
        Message::User(_)
        | Message::Assistant(_)
        | Message::ToolResult(_)
        | Message::BashExecution(_)
        | Message::System(_)
        | Message::Unknown(_) => Ok(EntryKind::Message(MessageEntry { message, extra })),
    }
}

/// Reads an entry whose id, parent and timestamp are taken out, and completes it.
fn read_entry(mut fields: Fields<'_>, wire_type: &str, now_ms: i64) -> Result<EntryKind, Refusal> {
    let entry_type = EntryType::from_wire(wire_type.as_bytes());
    let owner = format!("{} {wire_type} entry", if wire_type.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" });
    check_fields(&owner, &fields, entry_fields(entry_type))?;
    if entry_type == EntryType::Message {
        let json = fields.take_json("message").unwrap_or_else(Json::empty_object);
        fields.take_json("type");
        return message_entry(read_message(&json, now_ms)?, fields.rest());
    }
    let tail = fields.get::<Vec<Json>>("retainedTail");
    let system = fields.get::<Json>("systemMessage").filter(|json| !json.is_null());
    let mut kind = EntryKind::read(fields);
    drop_nulls(kind.extra_mut(), entry_fields(entry_type));
    match &mut kind {
        EntryKind::Compaction(payload) => {
            payload.tokens_before = number_or_zero(payload.tokens_before.take());
            payload.usage.iter_mut().for_each(complete_usage);
            if payload.retained_tail.is_some() {
                let messages = tail.iter().flatten().map(|json| read_message(json, now_ms));
                payload.retained_tail = Some(messages.collect::<Result<_, _>>()?);
            }
            if let Some(json) = system {
                let Message::System(message) = read_message(&json, now_ms)? else {
                    return Err(Refusal::WrongShape { owner, field: "systemMessage", expected: "a system message" });
                };
                payload.system_message = Some(message);
            }
        }
        EntryKind::BranchSummary(payload) => payload.usage.iter_mut().for_each(complete_usage),
        EntryKind::Usage(payload) => payload.usage.iter_mut().for_each(complete_usage),
        EntryKind::ContextEdit(payload) => {
            let content = payload.replacement.as_mut().map(|replacement| &mut replacement.content);
            check_blocks("a replacement", ANY, content)?;
        }
        EntryKind::CustomMessage(payload) => {
            payload.display.get_or_insert(true);
            check_blocks(&owner, SAID, payload.content.as_mut())?;
        }
        EntryKind::Message(_)
        | EntryKind::Leaf(_)
        | EntryKind::ModelChange(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::Custom(_)
        | EntryKind::Label(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Unknown { .. } => {}
    }
    Ok(kind)
}

#[cfg(test)]
mod tests;
