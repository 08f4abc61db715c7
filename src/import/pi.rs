//! Pi's own files from elsewhere: another machine, a backup, or lines whose header is lost.
//!
//! Ids, times and entries stay; versions 1 and 2 become version 3. What would make a session unsound is mended: an
//! assistant message gets what Pi needs, and what names nothing is kept as a leftover.
//!
//! # Invariants
//! - Version 2 lines are read as such even where a header says 3, or there is none: role `hookMessage` is `custom`.
//! - Of equal ids the later line counts, as everywhere; the earlier becomes a leftover.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::import::blocks::{complete, details_of, one_field};
use crate::import::lines::{Line, read_lines};
use crate::import::{EntryCounts, ImportDamage, ImportFormat, ImportedSession, SourceFile};
use crate::session::entry::{Custom, Entry, EntryId, EntryKind, EntryType, FORMAT_VERSION, Header, format_timestamp};
use crate::session::hash::fnv1a;
use crate::session::json::{Extra, Fields, Json};
use crate::session::message::{Block, Content, Message};

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Pi;

impl ImportFormat for Pi {
    fn name(&self) -> &'static str {
        "pi"
    }

    fn recognizes(&self, fields: &Fields<'_>) -> bool {
        let wire_type = fields.get::<String>("type").unwrap_or_default();
        let is_entry = EntryType::from_wire(wire_type.as_bytes()) != EntryType::Unknown && fields.text("parentId").is_some();
        wire_type == "session" && fields.has("id") || is_entry
    }

    fn read(&self, files: &[SourceFile<'_>]) -> Vec<ImportedSession> {
        files.iter().map(read_file).collect()
    }
}

fn read_file(file: &SourceFile<'_>) -> ImportedSession {
    let mut damage = Vec::new();
    let lines = read_lines(file, &mut damage);
    let mut session = ImportedSession { format: "pi", file: file.path.to_owned(), ..ImportedSession::default() };
    let is_header =
        |line: &Line| line.json.fields().is_some_and(|fields| fields.get::<String>("type").as_deref() == Some("session"));
    let header = lines.first().filter(|line| is_header(line)).and_then(|line| Some(Header::read(line.json.fields()?)));
    if let Some(header) = &header {
        if header.version > FORMAT_VERSION {
            let message = format!("version {} is newer than {FORMAT_VERSION}", header.version);
            damage.push(ImportDamage { file: file.path.to_owned(), line: 1, message });
            return ImportedSession { damage, ..session };
        }
        session.source_id = Some(header.id.clone());
        session.source_parent = header.parent_session.clone();
        session.cwd = header.cwd.clone();
        session.created_ms = crate::session::entry::parse_timestamp_ms(&header.timestamp);
        session.metadata = header.metadata.clone();
    }
    if session.metadata.is_none() {
        let mut source = Extra::default();
        for (key, value) in [("format", Some("pi")), ("id", session.source_id.as_deref())] {
            if let Some(json) = value.and_then(|value| details_of(&value)) {
                source.set(key, json);
            }
        }
        session.metadata = details_of(&source).map(|json| one_field("import", &json));
    }
    let first = usize::from(header.is_some());
    let mut reader = Reader { file: file.path, damage, leftovers: BTreeMap::new(), entries: Vec::new() };
    reader.read(&lines[first..], first);
    reader.drop_earlier_twins();
    reader.mend();
    if session.created_ms.is_none() {
        session.created_ms = reader.entries.iter().find_map(Entry::timestamp_ms);
    }
    session.name = reader.entries.iter().rev().find_map(|entry| match &entry.kind {
        EntryKind::SessionInfo(info) => Some(info.name.as_deref().unwrap_or_default().trim().to_owned()),
        _ => None,
    });
    session.name = session.name.filter(|name| !name.is_empty());
    session.counts = EntryCounts::of(&reader.entries);
    session.entries = reader.entries;
    session.leftovers = reader.leftovers;
    session.damage = reader.damage;
    session
}

struct Reader<'a> {
    file: &'a str,
    damage: Vec<ImportDamage>,
    leftovers: BTreeMap<String, u64>,
    entries: Vec<Entry>,
}

impl Reader<'_> {
    /// Reads the entries; `first` is how many readable lines stand before them.
    fn read(&mut self, lines: &[Line], first: usize) {
        // In version 1 nothing has an id, and a compaction names what it keeps by its place among the lines.
        let mut kept_places = Vec::new();
        let mut ids: Vec<Option<EntryId>> = vec![None; first];
        let mut above: Option<EntryId> = None;
        for (number, line) in lines.iter().enumerate() {
            let Some(mut fields) = line.json.fields() else { continue };
            let wire_type = fields.get::<String>("type").unwrap_or_default();
            if wire_type.is_empty() || wire_type == "session" {
                self.keep(&above, line, if wire_type.is_empty() { "noEntry" } else { "secondHeader" });
                ids.push(None);
                above = self.entries.last().map(|entry| entry.id.clone());
                continue;
            }
            let has_id = fields.has("id");
            let id = fields.take("id").unwrap_or_else(|| fresh_id("line", number as u64 + first as u64));
            // In the versions with ids every entry names a parent, or null. One that does neither was cut short.
            let named = fields.take::<Option<EntryId>>("parentId").filter(|_| has_id);
            let is_unplaced = has_id && named.is_none() && above.is_some();
            let parent_id = named.unwrap_or_else(|| above.clone());
            fields.take::<Option<Json>>("parentId");
            let timestamp = fields.take("timestamp").unwrap_or_else(|| format_timestamp(0));
            let kept_place = fields.get::<usize>("firstKeptEntryIndex").filter(|_| wire_type == "compaction");
            if let Some(place) = kept_place {
                fields.take::<usize>("firstKeptEntryIndex");
                kept_places.push((self.entries.len(), place));
            }
            ids.push(Some(id.clone()));
            above = Some(id.clone());
            self.entries.push(Entry { id, parent_id, timestamp, kind: EntryKind::read(fields) });
            if is_unplaced {
                self.report(self.entries.len() - 1, "it names no parent; it hangs from the entry before it");
            }
        }
        for (at, place) in kept_places {
            if let EntryKind::Compaction(compaction) = &mut self.entries[at].kind {
                compaction.first_kept_entry_id = ids.get(place).cloned().flatten();
            }
        }
    }

    /// Keeps a line that is no entry.
    fn keep(&mut self, parent: &Option<EntryId>, line: &Line, kind: &str) {
        let id = fresh_id(kind, line.number);
        let kind = self.leftover(kind, &line.json);
        self.entries.push(Entry { id, parent_id: parent.clone(), timestamp: format_timestamp(0), kind });
    }

    fn leftover(&mut self, kind: &str, source: &Json) -> EntryKind {
        *self.leftovers.entry(kind.to_owned()).or_default() += 1;
        let mut data = Extra::default();
        if let Some(kind) = details_of(&kind) {
            data.set("kind", kind);
        }
        data.set("source", source.clone());
        EntryKind::Custom(Custom { custom_type: "import:pi".to_owned(), data: details_of(&data), ..Custom::default() })
    }

    /// Gives the earlier of entries with one id another id, and makes it a leftover.
    fn drop_earlier_twins(&mut self) {
        let mut last: HashMap<EntryId, usize> = HashMap::new();
        for (at, entry) in self.entries.iter().enumerate() {
            last.insert(entry.id.clone(), at);
        }
        let mut taken: HashSet<EntryId> = last.keys().cloned().collect();
        for at in 0..self.entries.len() {
            if last.get(&self.entries[at].id) == Some(&at) {
                continue;
            }
            let source = details_of(&self.entries[at]).unwrap_or_else(Json::empty_object);
            let kind = self.leftover("earlierLineOfId", &source);
            let mut salt = at as u64;
            let id = loop {
                let id = fresh_id("twin", salt);
                if taken.insert(id.clone()) {
                    break id;
                }
                salt += 1 << 32;
            };
            let parent_id = self.entries[at].parent_id.clone();
            self.entries[at] = Entry { id, parent_id, timestamp: self.entries[at].timestamp.clone(), kind };
        }
    }

    /// Completes messages, cuts parents that are none, and keeps as leftovers what names nothing.
    fn mend(&mut self) {
        let places: HashMap<EntryId, usize> = self.entries.iter().enumerate().map(|(at, entry)| (entry.id.clone(), at)).collect();
        for at in 0..self.entries.len() {
            let parent = self.entries[at].parent_id.clone();
            if parent.as_ref().is_some_and(|parent| !places.contains_key(parent)) {
                self.entries[at].parent_id = None;
                self.report(at, "its parent does not exist; it is a root now");
            }
            self.mend_kind(at, &places);
        }
        self.cut_cycles(&places);
    }

    fn mend_kind(&mut self, at: usize, places: &HashMap<EntryId, usize>) {
        let at_ms = self.entries[at].timestamp_ms().unwrap_or(0);
        let own = self.entries[at].id.clone();
        let names = |id: &Option<EntryId>| id.as_ref().is_some_and(|id| places.contains_key(id));
        let is_sound = match &mut self.entries[at].kind {
            EntryKind::Message(payload) => {
                mend_message(&mut payload.message, at_ms);
                true
            }
            EntryKind::CustomMessage(message) => {
                mend_blocks(&mut message.content);
                true
            }
            EntryKind::Compaction(compaction) => {
                if compaction.first_kept_entry_id.is_some() && !names(&compaction.first_kept_entry_id) {
                    compaction.first_kept_entry_id = Some(own);
                }
                true
            }
            EntryKind::Leaf(leaf) => leaf.target_id.is_none() || names(&leaf.target_id),
            EntryKind::Label(label) => names(&label.target_id),
            EntryKind::ContextEdit(edit) => names(&edit.target_id),
            EntryKind::BranchSummary(_)
            | EntryKind::ModelChange(_)
            | EntryKind::ThinkingLevelChange(_)
            | EntryKind::ActiveToolsChange(_)
            | EntryKind::Custom(_)
            | EntryKind::SessionInfo(_)
            | EntryKind::Usage(_)
            | EntryKind::Unknown { .. } => true,
        };
        let wire_type = self.entries[at].kind.wire_type();
        let why = match self.entries[at].kind.is_unreadable() {
            true => Some(format!("{wire_type}WithoutPayload")),
            false if !is_sound => Some(format!("{wire_type}WithoutTarget")),
            false => None,
        };
        if let Some(kind) = why {
            let source = details_of(&self.entries[at]).unwrap_or_else(Json::empty_object);
            self.entries[at].kind = self.leftover(&kind, &source);
        }
    }

    /// Makes the first entry of each cycle a root.
    fn cut_cycles(&mut self, places: &HashMap<EntryId, usize>) {
        let mut is_rooted = vec![false; self.entries.len()];
        let mut walk_of = vec![usize::MAX; self.entries.len()];
        for start in 0..self.entries.len() {
            let mut walked = Vec::new();
            let mut at = Some(start);
            while let Some(place) = at.filter(|place| !is_rooted[*place]) {
                if walk_of[place] == start {
                    self.entries[place].parent_id = None;
                    self.report(place, "it is its own ancestor; it is a root now");
                    break;
                }
                walk_of[place] = start;
                walked.push(place);
                at = self.entries[place].parent_id.as_ref().and_then(|id| places.get(id)).copied();
            }
            walked.into_iter().for_each(|place| is_rooted[place] = true);
        }
    }

    fn report(&mut self, at: usize, what: &str) {
        let message = format!("entry {}: {what}", self.entries[at].id);
        self.damage.push(ImportDamage { file: self.file.to_owned(), line: 0, message });
    }
}

fn mend_message(message: &mut Message, at_ms: i64) {
    match message {
        Message::Assistant(message) => {
            mend_blocks(&mut message.content);
            complete(message, at_ms);
        }
        Message::ToolResult(message) => {
            mend_blocks(&mut message.content);
            if let Some(Content::Text(_)) | None = &message.content {
                message.content = Some(Content::Blocks(message.content.take().unwrap_or_default().to_blocks()));
            }
            message.is_error.get_or_insert(false);
            message.timestamp.get_or_insert(at_ms);
        }
        Message::User(message) => {
            mend_blocks(&mut message.content);
            message.content.get_or_insert_with(Content::default);
            message.timestamp.get_or_insert(at_ms);
        }
        Message::Custom(message) => mend_blocks(&mut message.content),
        Message::BashExecution(_)
        | Message::System(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_)
        | Message::Unknown(_) => {}
    }
}

/// Blocks of a type of Pi's in another shape, with which Pi does not open a session, become text that shows them.
fn mend_blocks(content: &mut Option<Content>) {
    let Some(Content::Blocks(blocks)) = content else { return };
    let is_pis = |json: &Json| {
        let wire_type = json.fields().and_then(|fields| fields.get::<String>("type"));
        wire_type.is_none_or(|name| matches!(name.as_str(), "text" | "thinking" | "image" | "toolCall"))
    };
    for block in blocks {
        if let Block::Unknown(json) = block
            && is_pis(json)
        {
            *block = Block::text(json.as_str());
        }
    }
}

/// An id for a line that has none, the same at each import.
fn fresh_id(what: &str, number: u64) -> EntryId {
    let bytes = what.bytes().chain(number.to_le_bytes());
    let hash = fnv1a(bytes);
    EntryId::new(format!("{:08x}", (hash ^ (hash >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32))
}

#[cfg(test)]
mod tests;
