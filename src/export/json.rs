//! A session as one JSON object, on one line.
//!
//! ```text
//! {
//!   "format": "pi-sessions-export", "formatVersion": 1,
//!   "session":   the header's line as it stands in the file
//!   "name":      the session's name, or null
//!   "leafId":    the end of the active path, or null
//!   "labels":    {"<entry id>": "<label>"}
//!   "stats":     {messages, userMessages, assistantMessages, toolResults, toolCalls, compactions, branches,
//!                 tokens: {input, output, cacheRead, cacheWrite, total}, cost}, of all branches
//!   "damage":    [{line, byteOffset, message}]
//!   "entries":   [{onPath, entry}], each entry as it stands in the file, in the order of the file
//!   "messages":  [{entryId, message}] of the active path, summaries as messages of their roles
//!   "redactions": {"<kind>": count}, or null if nothing was to be taken out
//! }
//! ```
//! Keys are always there and in this order. An entry whose line holds no JSON is null.
//!
//! # Invariants
//! - Entries are the bytes of their lines, so unknown keys, digits and key order are those of the file.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use crate::export::view::shown_message;
use crate::export::{ExportError, Format, Scope, View};
use crate::session::entry::EntryId;
use crate::session::json::{Json, well_formed};
use crate::session::message::Message;

/// The format `json`.
#[derive(Debug)]
pub(super) struct JsonObject;

impl Format for JsonObject {
    fn name(&self) -> &'static str {
        "json"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn default_scope(&self) -> Scope {
        Scope::All
    }

    fn write(&self, view: &View<'_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let header = view.header_line()?;
        write!(out, "{{\"format\":\"pi-sessions-export\",\"formatVersion\":1,\"session\":")?;
        serde_json::to_writer(&mut *out, &record(&header))?;
        member(out, "name", &view.name())?;
        member(out, "leafId", &view.leaf().map(|leaf| view.id(leaf)))?;
        let labels: BTreeMap<_, _> = view.labels().iter().collect();
        member(out, "labels", &labels)?;
        member(out, "stats", &Stats::of(view))?;
        let damage = view.damage();
        let damage = damage.iter().map(|note| Damage { line: note.line, byte_offset: note.byte_offset, message: &note.text });
        member(out, "damage", &damage.collect::<Vec<_>>())?;

        out.write_all(b",\"entries\":[")?;
        for (at, index) in view.entries().into_iter().enumerate() {
            out.write_all(if at == 0 { b"" } else { b"," })?;
            let line = view.line(index)?;
            serde_json::to_writer(&mut *out, &Row { on_path: view.is_on_path(index), entry: record(&line) })?;
        }
        out.write_all(b"],\"messages\":[")?;
        let mut is_first = true;
        for index in view.path() {
            let Some(entry) = view.entry(*index)? else { continue };
            let Some(message) = shown_message(entry.kind) else { continue };
            out.write_all(if is_first { b"" } else { b"," })?;
            is_first = false;
            serde_json::to_writer(&mut *out, &Said { entry_id: entry.id, message })?;
        }
        out.write_all(b"]")?;
        member(out, "redactions", &view.redactions().map(|taken| taken.iter().collect::<BTreeMap<_, _>>()))?;
        out.write_all(b"}\n")?;
        Ok(())
    }
}

fn member<T: Serialize>(out: &mut dyn Write, name: &str, value: &T) -> Result<(), ExportError> {
    write!(out, ",\"{name}\":")?;
    serde_json::to_writer(out, value)?;
    Ok(())
}

/// A line as a value; `None` where it is no JSON.
fn record(line: &[u8]) -> Option<Json> {
    Json::parse(&well_formed(line)).ok()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    on_path: bool,
    entry: Option<Json>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    entry_id: EntryId,
    message: Message,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Damage<'a> {
    line: u64,
    byte_offset: u64,
    message: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    messages: u64,
    user_messages: u64,
    assistant_messages: u64,
    tool_results: u64,
    tool_calls: u64,
    compactions: u64,
    branches: usize,
    tokens: Tokens,
    cost: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total: u64,
}

impl Stats {
    fn of(view: &View<'_>) -> Self {
        let stats = view.stats();
        let tokens = stats.tokens;
        Self {
            messages: stats.messages,
            user_messages: stats.user_messages,
            assistant_messages: stats.assistant_messages,
            tool_results: stats.tool_results,
            tool_calls: stats.tool_calls,
            compactions: stats.compactions,
            branches: view.tree().branch_count(),
            tokens: Tokens {
                input: tokens.input,
                output: tokens.output,
                cache_read: tokens.cache_read,
                cache_write: tokens.cache_write,
                total: tokens.total(),
            },
            cost: stats.cost,
        }
    }
}
