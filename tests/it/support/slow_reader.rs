//! Reads a session file line by line and byte by byte, to test the fast reader against.
//!
//! # Invariants
//! - It shares no code with the storage but [`well_formed`], and looks at every value of every line.
//! - Lines whose brackets close and that are no JSON are outside of it: there the fast reader knows less, by design.

use std::collections::HashMap;

use pi_sessions::session::json::well_formed;
use serde_json::Value;

/// A version 3 session.
#[derive(Debug, Default, PartialEq)]
pub struct SlowSession {
    pub header: Value,
    pub entries: Vec<SlowEntry>,
    /// Kind, line and offset of what is wrong, in file order.
    pub damage: Vec<(&'static str, u64, u64)>,
    pub leaf: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SlowEntry {
    pub value: Value,
    pub bytes: Vec<u8>,
    pub line: u64,
}

impl SlowEntry {
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value[key].as_str()
    }
}

/// Reads `file`; `None` when it has no header.
pub fn read_slowly(file: &[u8]) -> Option<SlowSession> {
    let mut session = SlowSession::default();
    let mut start = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut has_header = false;
    for (number, line) in file[start..].split(|byte| *byte == b'\n').enumerate() {
        let (records, damage) = records_of(line);
        let mut at_line = |kind| session.damage.push((kind, number as u64 + 1, start as u64));
        for (value, bytes) in records {
            if !has_header {
                if value["type"] != "session" {
                    return None;
                }
                has_header = true;
                session.header = value;
            } else if value["type"] == "session" {
                at_line("secondHeader");
            } else if !value["type"].is_string() {
                at_line("notAnEntry");
            } else if !value["id"].is_string() {
                at_line("missingId");
            } else {
                session.entries.push(SlowEntry { value, bytes, line: number as u64 + 1 });
            }
        }
        if let Some(kind) = damage {
            at_line(kind);
        }
        if !has_header && !line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        start += line.len() + 1;
    }
    session.leaf = leaf_of(&session.entries);
    has_header.then_some(session)
}

type Record = (Value, Vec<u8>);

/// The objects in a line, and what is wrong with it.
fn records_of(line: &[u8]) -> (Vec<Record>, Option<&'static str>) {
    let is_space = |byte: &u8| b" \t\r\0".contains(byte);
    let begin = line.iter().position(|byte| !is_space(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_space(byte)).map_or(begin, |last| last + 1);
    let padding = line[..begin].contains(&0) || line[end..].contains(&0);
    let padding = padding.then_some("nulBytes");
    let record = &line[begin..end];
    if record.is_empty() {
        return (Vec::new(), padding);
    }
    if let Ok(value @ Value::Object(_)) = serde_json::from_str(&well_formed(record)) {
        let control = record.iter().any(|byte| *byte < 0x20 && *byte != b'\t' && *byte != b'\r');
        return (vec![(value, record.to_vec())], padding.or(control.then_some("controlCharacter")));
    }
    let mut records = Vec::new();
    // A record begins the line, stands right behind another, or has `type` first, as Pi writes them.
    let (mut at, mut behind) = (0, 0);
    while at < record.len() {
        let inside = record[at..].strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
        let is_candidate = at == behind || inside.is_some_and(|inside| inside.starts_with(b"\"type\""));
        let start = String::from_utf8_lossy(&record[at..record.len().min(at + 512)]);
        let looks_so = ["parentId", "timestamp", "customType"].iter().any(|key| start.contains(&format!("\"{key}\"")));
        match if is_candidate && looks_so { first_object(&record[at..]) } else { None } {
            Some((value, len)) if could_be_a_line(&value) => {
                records.push((value, record[at..at + len].to_vec()));
                at += len;
                behind = at;
            }
            Some(_) | None => at += 1,
        }
    }
    let kind = match (records.is_empty(), record[0]) {
        (false, _) => "fusedLine",
        (true, b'{') => "tornLine",
        (true, _) => "notARecord",
    };
    (records, Some(kind))
}

/// The object that `bytes` begins with, and its length.
fn first_object(bytes: &[u8]) -> Option<(Value, usize)> {
    if bytes.first() != Some(&b'{') {
        return None;
    }
    let text = well_formed(bytes);
    if text.len() == bytes.len() {
        let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let value = values.next()?.ok().filter(Value::is_object)?;
        return Some((value, values.byte_offset()));
    }
    // Positions in the text are not those in the bytes, so every closing bracket is tried.
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'}').map(|(at, _)| at + 1);
    ends.take(200).find_map(|len| match serde_json::from_str(&well_formed(&bytes[..len])) {
        Ok(value @ Value::Object(_)) => Some((value, len)),
        Ok(_) | Err(_) => None,
    })
}

fn could_be_a_line(value: &Value) -> bool {
    value["type"] == "session" || value["type"].is_string() && value["id"].is_string() && value.get("parentId").is_some()
}

/// The leaf rule, over ids.
fn leaf_of(entries: &[SlowEntry]) -> Option<String> {
    let mut leaf: Option<String> = None;
    let mut known: HashMap<&str, &SlowEntry> = HashMap::new();
    for entry in entries {
        let id = entry.text("id").expect("entries have ids");
        let stands_for_leaf = match entry.text("parentId") {
            None => leaf.is_none(),
            Some(parent) => match known.get(parent) {
                None => false,
                Some(_) if Some(parent) == leaf.as_deref() => true,
                Some(parent) => parent.text("type") == Some("leaf") && place_of(&known, parent) == leaf,
            },
        };
        known.insert(id, entry);
        match entry.text("type").expect("entries have types") {
            "leaf" => {
                if entry.value.get("targetId") == Some(&Value::Null) {
                    leaf = None;
                } else if let Some(target) = entry.text("targetId").and_then(|target| known.get(target)) {
                    leaf = place_of(&known, target);
                }
            }
            "label" | "session_info" | "usage" | "custom" if !stands_for_leaf => {}
            _ => leaf = Some(id.to_owned()),
        }
    }
    leaf
}

fn place_of(known: &HashMap<&str, &SlowEntry>, entry: &SlowEntry) -> Option<String> {
    let mut place = entry;
    for _ in 0..known.len() {
        if place.text("type") != Some("leaf") || place.value.get("targetId").is_none() {
            break;
        }
        if place.value["targetId"].is_null() {
            return None;
        }
        match place.text("targetId").and_then(|target| known.get(target)) {
            Some(target) => place = target,
            None => break,
        }
    }
    place.text("id").map(str::to_owned)
}
