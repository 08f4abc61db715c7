//! A session that is being put together: entries get ids, parents and times, and what has no place is kept.
//!
//! # Invariants
//! - An entry's parent stands before it, so there are no cycles; ids are unique, and the same at each import.
//! - A tool result is taken only where its call is on the path and has no result yet; else it is kept as a leftover.
//! - Leftovers, and results of one message's calls, form a chain behind the entry that they belong to, and what comes
//!   next hangs from the end of that chain: they never begin a branch, and no result is beside the path.
//!
//! ```text
//! source: call 1 <- result 1         here: calls 1 and 2 <- result 1 <- result 2 <- answer
//!         call 2 <- result 2 <- answer
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use crate::import::blocks::details_of;
use crate::import::{EntryCounts, ImportDamage, ImportedSession};
use crate::session::entry::{
    Custom, CustomMessageEntry, Entry, EntryId, EntryKind, Leaf, MessageEntry, ModelChange, SessionInfo, format_timestamp,
};
use crate::session::hash::fnv1a;
use crate::session::json::{Extra, Json};
use crate::session::message::{AssistantMessage, Block, Content, Message, ToolResultMessage};

/// The place of an entry in the draft.
pub(super) type Place = usize;

/// What the draft knows of an entry besides the entry.
#[derive(Clone, Copy, Debug)]
struct Stem {
    parent: Option<Place>,
    depth: u32,
    /// An ancestor far up, for [`Draft::is_on_path`].
    jump: Place,
    /// The nearest message on the path, itself included, that is no tool result.
    message: Option<Place>,
    /// The model in force, in [`Draft::models`].
    model: Option<usize>,
}

/// Entries that are being put together.
#[derive(Debug)]
pub(super) struct Draft {
    format: &'static str,
    entries: Vec<Entry>,
    stems: Vec<Stem>,
    /// The next entry of the chain of leftovers and results behind an entry, or one further on.
    tails: HashMap<Place, Place>,
    /// The messages that hold a call, with the tool's name, by the call's id.
    calls: HashMap<String, Vec<(Place, String)>>,
    /// Calls that have a result: the message's place and the call's id.
    answered: HashSet<(Place, String)>,
    models: Vec<(String, String)>,
    model_indices: HashMap<(String, String), usize>,
    /// What the next ids are made of, and how many were.
    seed: (u64, u64),
    ids: HashSet<String>,
    leftovers: BTreeMap<String, u64>,
    copies: BTreeMap<String, u64>,
    /// The latest time seen, in Unix milliseconds, for lines that have none.
    time_ms: i64,
}

/// What a `custom` entry keeps of the source.
#[derive(Serialize)]
struct Leftover<'a> {
    kind: &'a str,
    source: &'a Json,
}

impl Draft {
    pub(super) fn new(format: &'static str, created_ms: Option<i64>) -> Self {
        Self {
            format,
            entries: Vec::new(),
            stems: Vec::new(),
            tails: HashMap::new(),
            calls: HashMap::new(),
            answered: HashSet::new(),
            models: Vec::new(),
            model_indices: HashMap::new(),
            seed: (0, 0),
            ids: HashSet::new(),
            leftovers: BTreeMap::new(),
            copies: BTreeMap::new(),
            time_ms: created_ms.unwrap_or(0),
        }
    }

    /// Takes the time of a line; one without a time has that of the line before.
    pub(super) fn at(&mut self, time_ms: Option<i64>) -> i64 {
        self.time_ms = time_ms.unwrap_or(self.time_ms);
        self.time_ms
    }

    /// The last entry of the chain behind `place`: where its next child hangs.
    pub(super) fn tail(&mut self, mut place: Place) -> Place {
        while let Some(next) = self.tails.get(&place).copied() {
            // Halving the way each time keeps long chains cheap.
            if let Some(after) = self.tails.get(&next).copied() {
                self.tails.insert(place, after);
            }
            place = next;
        }
        place
    }

    /// Adds an entry and gives its place.
    pub(super) fn push(&mut self, parent: Option<Place>, at_ms: i64, kind: EntryKind) -> Place {
        let place = self.entries.len();
        let is_message = match &kind {
            EntryKind::Message(payload) => !matches!(payload.message, Message::ToolResult(_)),
            EntryKind::CustomMessage(_) | EntryKind::Compaction(_) => true,
            EntryKind::BranchSummary(_)
            | EntryKind::Leaf(_)
            | EntryKind::ModelChange(_)
            | EntryKind::ThinkingLevelChange(_)
            | EntryKind::ActiveToolsChange(_)
            | EntryKind::ContextEdit(_)
            | EntryKind::Custom(_)
            | EntryKind::Label(_)
            | EntryKind::SessionInfo(_)
            | EntryKind::Usage(_)
            | EntryKind::Unknown { .. } => false,
        };
        let above = parent.map(|parent| self.stems[parent]);
        // Jumps double in length as in a skew-binary number, so that a walk up takes logarithmic time.
        let jump = match (parent, above) {
            (Some(parent), Some(stem)) => {
                let far = self.stems[stem.jump];
                let is_carry = stem.depth - far.depth == far.depth - self.stems[far.jump].depth;
                if is_carry { far.jump } else { parent }
            }
            _ => place,
        };
        self.stems.push(Stem {
            parent,
            depth: above.map_or(0, |stem| stem.depth + 1),
            jump,
            message: if is_message { Some(place) } else { above.and_then(|stem| stem.message) },
            model: above.and_then(|stem| stem.model),
        });
        let id = self.new_id();
        let parent_id = parent.map(|parent| self.entries[parent].id.clone());
        self.entries.push(Entry { id, parent_id, timestamp: format_timestamp(at_ms), kind });
        self.index_calls(place);
        place
    }

    /// From now on ids are made of `key`: copies of one line in several sessions have one id then, as in forks.
    pub(super) fn seed(&mut self, key: &str) {
        self.seed = (fnv1a(key.bytes()), 0);
    }

    fn new_id(&mut self) -> EntryId {
        loop {
            let (seed, count) = self.seed;
            self.seed.1 += 1;
            let mut mixed = seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            for _ in 0..2 {
                mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
            }
            let id = format!("{:08x}", mixed >> 32);
            if self.ids.insert(id.clone()) {
                return EntryId::new(id);
            }
        }
    }

    fn index_calls(&mut self, place: Place) {
        let EntryKind::Message(MessageEntry { message: Message::Assistant(message), .. }) = &self.entries[place].kind else {
            return;
        };
        let calls: Vec<_> = message.tool_calls().map(|call| (call.id.clone(), call.name.clone())).collect();
        calls.into_iter().for_each(|(id, name)| self.index_call(place, id, name));
    }

    fn index_call(&mut self, place: Place, id: String, name: String) {
        let holders = self.calls.entry(id).or_default();
        if holders.last().is_none_or(|(last, _)| *last != place) {
            holders.push((place, name));
        }
    }

    pub(super) fn id(&self, place: Place) -> EntryId {
        self.entries[place].id.clone()
    }

    /// The parent of an entry.
    pub(super) fn parent(&self, place: Place) -> Option<Place> {
        self.stems[place].parent
    }

    /// The nearest message on the path to `place` that is no tool result.
    pub(super) fn message_at(&self, place: Place) -> Option<Place> {
        self.stems[place].message
    }

    /// What a `custom` entry keeps.
    pub(super) fn leftover_at(&self, place: Place) -> Option<&Json> {
        match &self.entries[place].kind {
            EntryKind::Custom(custom) => custom.data.as_ref(),
            _ => None,
        }
    }

    pub(super) fn kind_mut(&mut self, place: Place) -> &mut EntryKind {
        &mut self.entries[place].kind
    }

    /// The assistant message at a place.
    pub(super) fn assistant_mut(&mut self, place: Place) -> Option<&mut AssistantMessage> {
        match &mut self.entries[place].kind {
            EntryKind::Message(MessageEntry { message: Message::Assistant(message), .. }) => Some(message),
            _ => None,
        }
    }

    /// Adds a block to an assistant message that is in the draft.
    pub(super) fn add_block(&mut self, place: Place, block: Block) {
        if let Some(call) = block.as_tool_call() {
            self.index_call(place, call.id.clone(), call.name.clone());
        }
        if let Some(message) = self.assistant_mut(place) {
            match message.content.get_or_insert_with(Content::default) {
                Content::Blocks(blocks) => blocks.push(block),
                Content::Text(_) => {}
            }
        }
    }

    /// Whether `above` is on the path to `place`, itself included. `O(log depth)`.
    pub(super) fn is_on_path(&self, above: Place, place: Place) -> bool {
        let depth = self.stems[above].depth;
        let mut at = place;
        while self.stems[at].depth > depth {
            let stem = self.stems[at];
            at = if self.stems[stem.jump].depth >= depth { stem.jump } else { stem.parent.unwrap_or(at) };
        }
        at == above
    }

    /// Adds a message; `import` are the keys of the source's line that have no place in it.
    pub(super) fn message(&mut self, parent: Option<Place>, at_ms: i64, message: Message, import: Extra) -> Place {
        let mut extra = Extra::default();
        if !import.is_empty()
            && let Some(json) = details_of(&import)
        {
            extra.set("import", json);
        }
        self.push(parent, at_ms, EntryKind::Message(MessageEntry { message, extra }))
    }

    /// Adds a message that the source put into the context and no person wrote.
    pub(super) fn injected(&mut self, parent: Option<Place>, at_ms: i64, content: Content) -> Place {
        let custom_type = format!("import:{}", self.format);
        let entry =
            CustomMessageEntry { custom_type, content: Some(content), display: Some(false), ..CustomMessageEntry::default() };
        self.push(parent, at_ms, EntryKind::CustomMessage(entry))
    }

    /// Notes the model of the message that comes next, with an entry if it differs; gives where the message hangs.
    pub(super) fn model(&mut self, parent: Option<Place>, at_ms: i64, provider: &str, model: &str) -> Option<Place> {
        let pair = (provider.to_owned(), model.to_owned());
        let index = *self.model_indices.entry(pair.clone()).or_insert_with(|| {
            self.models.push(pair);
            self.models.len() - 1
        });
        if parent.and_then(|parent| self.stems[parent].model) == Some(index) {
            return parent;
        }
        let change = ModelChange { provider: provider.to_owned(), model_id: model.to_owned(), ..ModelChange::default() };
        let place = self.push(parent, at_ms, EntryKind::ModelChange(change));
        self.stems[place].model = Some(index);
        self.extend_chain(parent, place);
        Some(place)
    }

    /// The provider and model in force at a place.
    pub(super) fn model_at(&self, place: Option<Place>) -> Option<&(String, String)> {
        self.stems[place?].model.map(|index| &self.models[index])
    }

    /// Adds a tool result behind its call; kept as a leftover where the call is not on the path, or has a result.
    pub(super) fn result(&mut self, parent: Option<Place>, at_ms: i64, mut message: ToolResultMessage, source: &Json) -> Place {
        let parent = parent.map(|parent| self.tail(parent));
        let holders = self.calls.get(&message.tool_call_id).map(Vec::as_slice).unwrap_or_default();
        let holder = parent.and_then(|parent| holders.iter().rev().find(|(holder, _)| self.is_on_path(*holder, parent)));
        let Some((holder, name)) = holder.cloned() else {
            return self.leftover(parent, at_ms, "toolResultWithoutCall", source);
        };
        if !self.answered.insert((holder, message.tool_call_id.clone())) {
            return self.leftover(parent, at_ms, "secondToolResult", source);
        }
        if message.tool_name.is_empty() {
            message.tool_name = name;
        }
        message.timestamp = Some(at_ms);
        let place = self.push(parent, at_ms, EntryKind::message(Message::ToolResult(message)));
        self.extend_chain(parent, place);
        place
    }

    /// Keeps what has no place, behind `parent`.
    pub(super) fn leftover(&mut self, parent: Option<Place>, at_ms: i64, kind: &str, source: &Json) -> Place {
        *self.leftovers.entry(kind.to_owned()).or_default() += 1;
        let parent = parent.map(|parent| self.tail(parent));
        let place = self.push(parent, at_ms, EntryKind::Custom(self.custom(kind, source)));
        self.extend_chain(parent, place);
        place
    }

    /// Turns an entry into a leftover: what it stood for did not come.
    pub(super) fn turn_into_leftover(&mut self, place: Place, kind: &str, source: &Json) {
        *self.leftovers.entry(kind.to_owned()).or_default() += 1;
        self.entries[place].kind = EntryKind::Custom(self.custom(kind, source));
    }

    fn custom(&self, kind: &str, source: &Json) -> Custom {
        let custom_type = format!("import:{}", self.format);
        Custom { custom_type, data: details_of(&Leftover { kind, source }), ..Custom::default() }
    }

    /// Makes `place` the end of the chain behind `parent`.
    pub(super) fn extend_chain(&mut self, parent: Option<Place>, place: Place) {
        if let Some(parent) = parent {
            self.tails.insert(parent, place);
        }
    }

    /// Counts what says again what is there.
    pub(super) fn copy(&mut self, kind: &str) {
        *self.copies.entry(kind.to_owned()).or_default() += 1;
    }

    /// Moves the leaf to where the source had it, sets the name, and gives the session.
    pub(super) fn finish(
        mut self,
        leaf: Option<Place>,
        mut session: ImportedSession,
        damage: Vec<ImportDamage>,
    ) -> ImportedSession {
        let at_ms = self.time_ms;
        let leaf = leaf.map(|leaf| self.tail(leaf));
        let last = self.entries.len().checked_sub(1);
        if leaf != last {
            let target_id = leaf.map(|leaf| self.id(leaf));
            let from_id = last.map(|last| self.id(last));
            self.push(leaf, at_ms, EntryKind::Leaf(Leaf { target_id, from_id, ..Leaf::default() }));
        }
        session.name = session.name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        if let Some(name) = session.name.clone() {
            self.push(leaf, at_ms, EntryKind::SessionInfo(SessionInfo { name: Some(name), ..SessionInfo::default() }));
        }
        session.format = self.format;
        session.counts = EntryCounts::of(&self.entries);
        session.entries = self.entries;
        session.leftovers = self.leftovers;
        session.copies = self.copies;
        session.damage = damage;
        session
    }
}
