//! Version 1 and 2 sessions, read as version 3.
//!
//! Version 1 has no ids: its entries form a chain in file order, and a compaction names what it keeps by its place
//! among the readable lines, the header being 0. Version 2 calls the role `custom` by the name `hookMessage`.
//!
//! # Invariants
//! - The ids of a version 1 file are the same at each reading and after the upgrade: the first 8 hex digits of a hash
//!   of the session's id and the entry's place.
//! - A line of version 2 keeps its bytes, but for that role. In version 1 values keep their text; only the keys above
//!   change, and new keys come in the order of version 3.
//! - Lines that cannot be read are not counted and not carried over; they stay in the backup that an upgrade leaves. The
//!   chain goes on over them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::session::entry::FORMAT_VERSION;
use crate::session::hash::fnv1a;
use crate::session::json::{Fields, well_formed};
use crate::storage::jsonl::codec::{decode_header, encode_header};
use crate::storage::jsonl::reader::{Found, Index, Source};
use crate::storage::jsonl::recovery::{Ids, examine};
use crate::storage::{Damage, DamageKind, StorageError};

/// Reads the entries of a version 1 or 2 file, whose bytes are `file`, into an index that has its header.
pub(super) fn read_old(index: &mut Index, file: &[u8]) -> Result<(), StorageError> {
    let is_chain = index.header.version < 2;
    let ids = if is_chain { Ids::Absent } else { Ids::Present };
    let lines = readable_lines(file, ids, &mut index.damage);
    let chain = if is_chain { chain_ids(&index.header.id, lines.len()) } else { Vec::new() };
    let mut migrated = Vec::with_capacity(file.len() + lines.len() * 48);
    let mut found = Found::default();
    let mut parent = None;
    for (place, line) in lines.iter().enumerate().skip(1) {
        let Ok(fields) = Fields::parse(&line.text) else { continue };
        let start = migrated.len();
        match (is_chain, is_header(&fields)) {
            (true, false) => write_in_chain(&mut migrated, &fields, &chain, place, parent),
            (false, _) if has_hook_role(&fields) => write_members(&mut migrated, renamed_hook_role(&fields)),
            (true, true) | (false, _) => migrated.extend_from_slice(line.bytes),
        }
        let (entries, damage) = (found.entries.len(), found.damage.len());
        found.take_line(&migrated[start..], start as u64, line.number);
        found.damage[damage..].iter_mut().for_each(|damage| damage.byte_offset = line.start);
        if found.entries.len() == entries {
            migrated.truncate(start);
            continue;
        }
        index.old_starts.resize(found.entries.len(), line.start);
        parent = Some(place);
        migrated.push(b'\n');
    }
    index.source = Source::Migrated(migrated);
    index.add(found, 0)?;
    index.damage.sort_by_key(|damage| damage.byte_offset);
    // A copied line shows once more what was wrong with it.
    index.damage.dedup();
    Ok(())
}

/// The header of the upgraded file, as a line.
pub(crate) fn upgraded_header(header_line: &[u8]) -> Vec<u8> {
    let mut header = decode_header(header_line).unwrap_or_default();
    header.version = FORMAT_VERSION;
    encode_header(&header)
}

/// One record of the file that is JSON.
struct ReadableLine<'a> {
    bytes: &'a [u8],
    /// What stands in `bytes`, as strict readers take it.
    text: Cow<'a, str>,
    /// The line's number, from 0.
    number: u64,
    /// Where the line begins in the file.
    start: u64,
}

fn readable_lines<'a>(file: &'a [u8], ids: Ids, damage: &mut Vec<Damage>) -> Vec<ReadableLine<'a>> {
    let mut start = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut lines = Vec::new();
    for (number, line) in file[start..].split(|byte| *byte == b'\n').enumerate() {
        let number = number as u64;
        let examined = examine(line, ids);
        let mut kind = examined.damage;
        for range in examined.records {
            let bytes = &line[range];
            // Escapes of lone surrogates stay as they are; only what is no JSON at all is made so.
            let plain = String::from_utf8_lossy(bytes);
            let text = if Fields::parse(&plain).is_ok() { plain } else { well_formed(bytes) };
            if Fields::parse(&text).is_ok() {
                lines.push(ReadableLine { bytes, text, number, start: start as u64 });
            } else {
                kind = kind.or(Some(DamageKind::NotARecord));
            }
        }
        if let Some(kind) = kind {
            damage.push(Damage { kind, line: number + 1, byte_offset: start as u64 });
        }
        start += line.len() + 1;
    }
    lines
}

/// The ids of a chain, by place; place 0 is the header's and unused.
fn chain_ids(session_id: &str, len: usize) -> Vec<String> {
    let mut taken = HashSet::new();
    (0..len)
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
pub(crate) fn hash(session_id: &str, place: u64, salt: u64) -> u64 {
    let bytes = session_id.bytes().chain(place.to_le_bytes()).chain(salt.to_le_bytes());
    let mut hash = fnv1a(bytes);
    for _ in 0..2 {
        hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    hash ^ (hash >> 32)
}

fn is_header(fields: &Fields<'_>) -> bool {
    fields.get::<Cow<'_, str>>("type").is_some_and(|name| name == "session")
}

/// Writes the line of version 1 at `place` as version 3. `parent` is the place of the entry before it.
fn write_in_chain(out: &mut Vec<u8>, fields: &Fields<'_>, chain: &[String], place: usize, parent: Option<usize>) {
    let mut members = vec![
        ("type", fields.text("type").unwrap_or("null").to_owned()),
        ("id", quote(&chain[place])),
        ("parentId", parent.map_or_else(|| "null".to_owned(), |parent| quote(&chain[parent]))),
    ];
    for (key, value) in fields.iter().filter(|(key, _)| !["type", "id", "parentId"].contains(key)) {
        members.push(match key {
            "firstKeptEntryIndex" => {
                match value.parse::<usize>().ok().filter(|place| *place > 0).and_then(|place| chain.get(place)) {
                    Some(id) => ("firstKeptEntryId", quote(id)),
                    // It names nothing; then nothing is kept, and the old key stays as a trace of it.
                    None => (key, value.to_owned()),
                }
            }
            "message" => (key, rename_hook_role(value).unwrap_or_else(|| value.to_owned())),
            _ => (key, value.to_owned()),
        });
    }
    write_members(out, members);
}

fn has_hook_role(fields: &Fields<'_>) -> bool {
    fields.text("message").is_some_and(|message| rename_hook_role(message).is_some())
}

/// The members of a line whose message has the role `hookMessage`, which is called `custom` now.
fn renamed_hook_role<'a>(fields: &'a Fields<'_>) -> Vec<(&'a str, String)> {
    let renamed = |key, value: &str| if key == "message" { rename_hook_role(value) } else { None };
    fields.iter().map(|(key, value)| (key, renamed(key, value).unwrap_or_else(|| value.to_owned()))).collect()
}

/// The message with the role `hookMessage` called `custom`; `None` for other roles.
fn rename_hook_role(message: &str) -> Option<String> {
    let fields = Fields::parse(message).ok()?;
    if fields.get::<Cow<'_, str>>("role")? != "hookMessage" {
        return None;
    }
    let members = fields.iter().map(|(key, value)| (key, if key == "role" { "\"custom\"" } else { value }.to_owned()));
    let mut renamed = Vec::with_capacity(message.len());
    write_members(&mut renamed, members.collect());
    String::from_utf8(renamed).ok()
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Writes an object in one line: what stands between its members and is no value goes.
fn write_members(out: &mut Vec<u8>, members: Vec<(&str, String)>) {
    let text: Vec<_> = members.iter().map(|(key, value)| format!("{}:{value}", quote(key))).collect();
    let line = format!("{{{}}}", text.join(","));
    out.extend(line.bytes().filter(|byte| *byte >= 0x20));
}
