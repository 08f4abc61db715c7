//! Version 1 and 2 sessions, read as version 3.
//!
//! Version 1 has no ids: its entries form a chain in file order, and a compaction names what it keeps by its place
//! among the readable lines, the header being 0. Version 2 calls the role `custom` by the name `hookMessage`.
//!
//! # Invariants
//! - The ids of a version 1 file are the same at each reading and after the upgrade: the first 8 hex digits of a hash
//!   of the session's id and the entry's place.
//! - Values keep their text; only the keys above change, and new keys come in the order of version 3.
//! - Damaged lines are not counted and not carried over; they stay in the backup that an upgrade leaves.

use std::collections::HashSet;

use crate::session::entry::FORMAT_VERSION;
use crate::session::json::{Fields, well_formed};
use crate::storage::jsonl::codec::{decode_header, encode_header};
use crate::storage::jsonl::reader::{Found, Index, Source};
use crate::storage::jsonl::recovery::{Ids, examine};
use crate::storage::{Damage, DamageKind, StorageError};

/// Reads the entries of a version 1 or 2 file, whose bytes are `file`, into an index that has its header.
pub(super) fn read_old(index: &mut Index, file: &[u8]) -> Result<(), StorageError> {
    let version = index.header.version;
    let ids = if version < 2 { Ids::Absent } else { Ids::Present };
    let lines = readable_lines(file, ids, &mut index.damage);
    let chain = (version < 2).then(|| chain_ids(&index.header.id, &lines));
    let mut migrated = Vec::with_capacity(file.len() + lines.len() * 48);
    let mut found = Found::default();
    for (position, line) in lines.iter().enumerate() {
        // Escapes of lone surrogates stay as they are; only what is no JSON at all is made so.
        let plain = String::from_utf8_lossy(line.bytes);
        let repaired;
        let fields = match Fields::parse(&plain) {
            Ok(fields) => fields,
            Err(_) => {
                repaired = well_formed(line.bytes);
                match Fields::parse(&repaired) {
                    Ok(fields) => fields,
                    Err(_) => {
                        let byte_offset = line.start;
                        index.damage.push(Damage { kind: DamageKind::NotARecord, line: line.number + 1, byte_offset });
                        continue;
                    }
                }
            }
        };
        if position == 0 || fields.get::<String>("type").as_deref() == Some("session") {
            continue;
        }
        let start = migrated.len();
        write_migrated(&mut migrated, &fields, chain.as_deref().map(|ids| (ids, position)));
        let damage_before = found.damage.len();
        found.take_line(&migrated[start..], start as u64, line.number);
        found.damage[damage_before..].iter_mut().for_each(|damage| damage.byte_offset = line.start);
        index.old_starts.resize(found.entries.len(), line.start);
        migrated.push(b'\n');
    }
    index.source = Source::Migrated(migrated);
    index.add(found, 0)
}

/// The header of the upgraded file, as a line.
pub(super) fn upgraded_header(header_line: &[u8]) -> Vec<u8> {
    let mut header = decode_header(header_line).unwrap_or_default();
    header.version = FORMAT_VERSION;
    encode_header(&header)
}

/// One record of the file.
struct ReadableLine<'a> {
    bytes: &'a [u8],
    /// Where the record begins in the file.
    start: u64,
    /// The line's number, from 0.
    number: u64,
}

fn readable_lines<'a>(file: &'a [u8], ids: Ids, damage: &mut Vec<Damage>) -> Vec<ReadableLine<'a>> {
    let file_start = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut lines = Vec::new();
    let mut start = file_start;
    for (number, line) in file[file_start..].split(|byte| *byte == b'\n').enumerate() {
        let examined = examine(line, ids);
        let record = |range: std::ops::Range<usize>| {
            let start = (start + range.start) as u64;
            ReadableLine { bytes: &line[range], start, number: number as u64 }
        };
        lines.extend(examined.records.into_iter().map(record));
        if let Some(kind) = examined.damage {
            damage.push(Damage { kind, line: number as u64 + 1, byte_offset: start as u64 });
        }
        start += line.len() + 1;
    }
    lines
}

/// The ids of a chain, by place; place 0 is the header's and unused.
fn chain_ids(session_id: &str, lines: &[ReadableLine<'_>]) -> Vec<String> {
    let mut taken = HashSet::new();
    (0..lines.len())
        .map(|place| {
            let mut salt = 0u64;
            loop {
                let id = format!("{:08x}", hash(session_id, place as u64, salt) >> 32);
                if taken.insert(id.clone()) {
                    return id;
                }
                salt += 1;
            }
        })
        .collect()
}

/// FNV-1a over the id, the place and a salt, then mixed, so that all bits depend on all of them.
fn hash(session_id: &str, place: u64, salt: u64) -> u64 {
    let bytes = session_id.bytes().chain(place.to_le_bytes()).chain(salt.to_le_bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    for _ in 0..2 {
        hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    hash ^ (hash >> 32)
}

/// Writes a line of an old version as version 3. `chain` has the ids by place, and the line's place, for version 1.
fn write_migrated(out: &mut Vec<u8>, fields: &Fields<'_>, chain: Option<(&[String], usize)>) {
    let quote = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let mut members: Vec<(String, String)> = Vec::new();
    let mut own = vec!["type"];
    members.push(("type".to_owned(), fields.text("type").unwrap_or("null").to_owned()));
    if let Some((ids, place)) = chain {
        let parent = if place > 1 { quote(&ids[place - 1]) } else { "null".to_owned() };
        members.push(("id".to_owned(), quote(&ids[place])));
        members.push(("parentId".to_owned(), parent));
        own.extend(["id", "parentId"]);
    }
    for (key, value) in fields.iter().filter(|(key, _)| !own.contains(key)) {
        let member = match (key, chain) {
            ("firstKeptEntryIndex", Some((ids, _))) => {
                let kept = value.parse::<usize>().ok().filter(|place| *place > 0).and_then(|place| ids.get(place));
                match kept {
                    Some(id) => ("firstKeptEntryId".to_owned(), quote(id)),
                    // It names nothing; then nothing is kept, and the old key stays as a trace of it.
                    None => (key.to_owned(), value.to_owned()),
                }
            }
            ("message", _) => (key.to_owned(), rename_hook_role(value)),
            _ => (key.to_owned(), value.to_owned()),
        };
        members.push(member);
    }
    let text: Vec<_> = members.iter().map(|(key, value)| format!("{}:{value}", quote(key))).collect();
    let line = format!("{{{}}}", text.join(","));
    out.extend(line.bytes().filter(|byte| *byte >= 0x20));
}

/// The message with the role `hookMessage` called `custom`.
fn rename_hook_role(message: &str) -> String {
    let Ok(fields) = Fields::parse(message) else { return message.to_owned() };
    if fields.get::<String>("role").as_deref() != Some("hookMessage") {
        return message.to_owned();
    }
    let members: Vec<_> = fields
        .iter()
        .map(|(key, value)| {
            let value = if key == "role" { "\"custom\"" } else { value };
            format!("{}:{value}", serde_json::to_string(key).unwrap_or_default())
        })
        .collect();
    format!("{{{}}}", members.join(","))
}
