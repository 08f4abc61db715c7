//! What many sessions hold and cost, in groups, with the entries that forks copied counted once.
//!
//! # Invariants
//! - What is added up for one entry is what [`StatsFold`](crate::session::stats::StatsFold) adds up for it: of all
//!   branches, summaries of compactions and branches included.
//! - An entry counts where it comes first. Two entries are the same when their time, model and usage are the same and
//!   also their `responseId` or, where one has none, their id. An answer's id from its provider alone does not do: servers
//!   count from 1 again when they are started.
//! - Groups add up to the total, but for sessions (one session counts in each group that it has a part in) and for
//!   groups by tool, which hold calls and results only.
//! - Active time is the sum of the gaps below five minutes between consecutive messages of a session, in order of time.
//!   A gap belongs to the later message.
//!
//! # Which model an entry belongs to
//! The one that its own line names, else the one of its parent: so a prompt and a result belong to the model that was
//! chosen where they stand, on each branch.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::session::entry::{Entry, EntryId, EntryKind, EntryType, Header, format_timestamp};
use crate::session::json::Json;
use crate::session::labels::SessionName;
use crate::session::message::{Message, Role};
use crate::session::stats::{SessionStats, Tokens, usage_of};
use crate::session::tree::SessionTree;

#[cfg(feature = "search")]
mod kept;

/// A gap of this many milliseconds between two messages is a pause.
pub const PAUSE_MS: i64 = 5 * 60 * 1000;

/// What stands for a day or a model that is not known.
const UNKNOWN: &str = "unknown";

/// What a report is grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupBy {
    /// The day of an entry, UTC.
    Day,
    /// Provider and model.
    Model,
    /// The folder of the session.
    Project,
    /// The session's id.
    Session,
    /// The tool of a call or result.
    Tool,
}

/// Sums over entries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Sessions of which an entry was counted.
    pub sessions: u64,
    /// `message` entries, of any role.
    pub messages: u64,
    /// Messages of users.
    pub prompts: u64,
    /// Turns: messages of models, each with the results of its calls.
    pub turns: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Results of tools that are errors.
    pub tool_failures: u64,
    /// `compaction` entries.
    pub compactions: u64,
    /// Ends of the conversation.
    pub branches: u64,
    /// Tokens, as [`usage_of`] finds them.
    pub tokens: Tokens,
    /// The cost of the same, in US dollars.
    pub cost: f64,
    /// Milliseconds without the pauses.
    pub active_ms: i64,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.messages += other.messages;
        self.prompts += other.prompts;
        self.turns += other.turns;
        self.tool_calls += other.tool_calls;
        self.tool_failures += other.tool_failures;
        self.compactions += other.compactions;
        self.branches += other.branches;
        self.tokens.add(other.tokens);
        self.cost += other.cost;
        self.active_ms = self.active_ms.saturating_add(other.active_ms);
    }
}

/// Names, each once.
#[derive(Clone, Debug, Default)]
struct Names {
    names: Vec<String>,
    by_name: HashMap<String, Place>,
}

/// Which of some names; small, because each entry has a few.
type Place = u32;

impl Names {
    fn place(&mut self, name: String) -> Place {
        if let Some(place) = self.by_name.get(&name) {
            return *place;
        }
        // A file has fewer entries than that.
        let place = Place::try_from(self.names.len()).unwrap_or(Place::MAX);
        self.names.push(name.clone());
        self.by_name.insert(name, place);
        place
    }

    fn get(&self, place: Option<Place>) -> &str {
        place.and_then(|place| self.names.get(place as usize)).map_or(UNKNOWN, String::as_str)
    }
}

/// What one entry adds. Sessions have millions, so it is small.
#[derive(Clone, Debug)]
struct Item {
    /// Tells copies; of two hashes, so that among billions no two are taken for one.
    key: [u64; 2],
    time_ms: Option<i64>,
    model: Option<Place>,
    /// The model of the entries that hang from it and name none.
    #[cfg_attr(not(feature = "search"), expect(dead_code, reason = "read by what is kept between two reports"))]
    next_model: Option<Place>,
    /// The tools that it calls.
    calls: Box<[Place]>,
    /// The tool whose result it is.
    result_of: Option<Place>,
    /// Tokens and cost, unless there are none.
    usage: Option<Box<(Tokens, f64)>>,
    /// Milliseconds, fewer than [`PAUSE_MS`].
    active_ms: u32,
    is_message: bool,
    is_prompt: bool,
    is_turn: bool,
    is_failed_result: bool,
    is_compaction: bool,
    is_branch_end: bool,
}

impl Item {
    fn new(key: [u64; 2], time_ms: Option<i64>) -> Self {
        Self {
            key,
            time_ms,
            model: None,
            next_model: None,
            calls: Box::default(),
            result_of: None,
            usage: None,
            active_ms: 0,
            is_message: false,
            is_prompt: false,
            is_turn: false,
            is_failed_result: false,
            is_compaction: false,
            is_branch_end: false,
        }
    }

    /// Tokens and cost, as they are kept.
    fn set_usage(&mut self, tokens: Tokens, cost: f64) {
        self.usage = (tokens != Tokens::default() || cost.to_bits() != 0).then(|| Box::new((tokens, cost)));
    }

    /// All but `sessions`.
    fn adds(&self) -> Totals {
        let (tokens, cost) = self.usage.as_deref().copied().unwrap_or_default();
        Totals {
            sessions: 0,
            messages: self.is_message.into(),
            prompts: self.is_prompt.into(),
            turns: self.is_turn.into(),
            tool_calls: self.calls.len() as u64,
            tool_failures: self.is_failed_result.into(),
            compactions: self.is_compaction.into(),
            branches: self.is_branch_end.into(),
            tokens,
            cost,
            active_ms: self.active_ms.into(),
        }
    }
}

/// Reads one session's entries for a report.
#[derive(Clone, Debug, Default)]
pub struct SessionUsageFold {
    /// One for each entry of the file; `None` for one that could not be read.
    items: Vec<Option<Item>>,
    models: Names,
    tools: Names,
    model_at: HashMap<EntryId, Place>,
    name: SessionName,
}

impl SessionUsageFold {
    /// Takes the next entry of the file; `None` for one that cannot be read. All entries have to come, in file order.
    pub fn add(&mut self, entry: Option<&Entry>) {
        let item = entry.map(|entry| self.item(entry));
        self.items.push(item);
    }

    fn item(&mut self, entry: &Entry) -> Item {
        self.name.add(entry);
        let inherited = || entry.parent_id.as_ref().and_then(|parent| self.model_at.get(parent)).copied();
        let model = match model_of(entry) {
            Some(model) => Some(self.models.place(model)),
            None => inherited(),
        };
        // A call of a model beside the conversation does not change the one that is talked to.
        let next_model = if matches!(entry.kind, EntryKind::Usage(_)) { inherited() } else { model };
        if let Some(model) = next_model {
            self.model_at.insert(entry.id.clone(), model);
        }
        let (tokens, cost) = match usage_of(entry) {
            Some(usage) => (Tokens::of(&usage), usage.cost.as_ref().map_or(0.0, |cost| cost.total)),
            None => (Tokens::default(), 0.0),
        };
        let time_ms = entry.timestamp_ms().or_else(|| entry.message().and_then(Message::timestamp));
        let mut item = Item { model, next_model, ..Item::new(key_of(entry, tokens, cost), time_ms) };
        item.set_usage(tokens, cost);
        item.is_message = entry.kind.entry_type() == EntryType::Message;
        item.is_compaction = entry.kind.entry_type() == EntryType::Compaction;
        match entry.message() {
            Some(Message::Assistant(message)) => {
                item.calls = message.tool_calls().map(|call| self.tools.place(call.name.clone())).collect();
                item.is_turn = true;
            }
            Some(Message::ToolResult(message)) => {
                item.result_of = Some(self.tools.place(message.tool_name.clone()));
                item.is_failed_result = message.is_error == Some(true);
            }
            Some(message) => item.is_prompt = message.role() == Role::User,
            None => {}
        }
        item
    }

    /// What the session comes to; `tree` is that of the file, or of a migrated one.
    pub fn finish(mut self, header: &Header, tree: &SessionTree) -> SessionUsage {
        for end in tree.branch_ends() {
            if let Some(Some(item)) = self.items.get_mut(end.get()) {
                item.is_branch_end = true;
            }
        }
        // As everywhere, an entry counts no more when a later line has its id.
        let shadowed: Vec<_> = tree.iter_all().filter(|index| tree.is_shadowed(*index)).collect();
        for index in shadowed {
            if let Some(item) = self.items.get_mut(index.get()) {
                *item = None;
            }
        }
        let mut items: Vec<_> = self.items.into_iter().flatten().collect();
        let mut order: Vec<_> = items
            .iter()
            .enumerate()
            .filter(|(_, item)| item.is_message)
            .filter_map(|(at, item)| item.time_ms.map(|time_ms| (time_ms, at)))
            .collect();
        order.sort_unstable();
        for pair in order.windows(2) {
            let gap_ms = pair[1].0.saturating_sub(pair[0].0);
            if let Ok(gap_ms) = u32::try_from(gap_ms)
                && i64::from(gap_ms) < PAUSE_MS
            {
                items[pair[1].1].active_ms = gap_ms;
            }
        }
        items.retain(|item| item.adds() != Totals::default());
        let name = self.name.into_inner();
        SessionUsage { id: header.id.clone(), cwd: header.cwd.clone(), name, items, models: self.models, tools: self.tools }
    }
}

/// The model that the entry's line names.
fn model_of(entry: &Entry) -> Option<String> {
    let (provider, model) = match &entry.kind {
        EntryKind::ModelChange(change) => (change.provider.as_str(), change.model_id.as_str()),
        EntryKind::Usage(usage) => (usage.provider.as_str(), usage.model.as_str()),
        EntryKind::Message(payload) => match &payload.message {
            Message::Assistant(message) => {
                (message.provider.as_deref().unwrap_or_default(), message.model.as_deref().unwrap_or_default())
            }
            Message::User(_)
            | Message::ToolResult(_)
            | Message::BashExecution(_)
            | Message::Custom(_)
            | Message::System(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_)
            | Message::Unknown(_) => return None,
        },
        EntryKind::Compaction(_)
        | EntryKind::BranchSummary(_)
        | EntryKind::Leaf(_)
        | EntryKind::ThinkingLevelChange(_)
        | EntryKind::ActiveToolsChange(_)
        | EntryKind::ContextEdit(_)
        | EntryKind::Custom(_)
        | EntryKind::CustomMessage(_)
        | EntryKind::Label(_)
        | EntryKind::SessionInfo(_)
        | EntryKind::Unknown { .. } => return None,
    };
    match (provider, model) {
        ("", "") => None,
        ("", model) => Some(format!("{UNKNOWN}/{model}")),
        (provider, "") => Some(format!("{provider}/{UNKNOWN}")),
        (provider, model) => Some(format!("{provider}/{model}")),
    }
}

fn key_of(entry: &Entry, tokens: Tokens, cost: f64) -> [u64; 2] {
    let response_id = match entry.message() {
        Some(Message::Assistant(message)) => message.extra.get("responseId").and_then(Json::to::<String>),
        _ => None,
    };
    let response_id = response_id.filter(|id| !id.is_empty());
    // The model of the line alone: what is inherited may differ in a fork that begins in the middle.
    let model = model_of(entry);
    let Tokens { input, output, cache_read, cache_write } = tokens;
    let usage = (input, output, cache_read, cache_write, cost.to_bits());
    [0u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        match &response_id {
            // A program that gives a copy an id of its own gives it a time of its own too, but not the message in it.
            Some(id) => (1u8, id, entry.message().and_then(Message::timestamp)).hash(&mut hasher),
            None => (0u8, entry.id.as_str(), &entry.timestamp).hash(&mut hasher),
        }
        (entry.kind.wire_type(), &model, usage).hash(&mut hasher);
        hasher.finish()
    })
}

/// What one session adds to a report.
#[derive(Clone, Debug)]
pub struct SessionUsage {
    /// The session's id.
    pub id: String,
    /// Its folder.
    pub cwd: String,
    /// Its name.
    pub name: Option<String>,
    items: Vec<Item>,
    models: Names,
    tools: Names,
}

impl SessionUsage {
    /// What the session holds by itself, whatever of it is a copy.
    pub fn stats(&self) -> SessionStats {
        let mut stats = SessionStats::default();
        for item in &self.items {
            let adds = item.adds();
            stats.messages += adds.messages;
            stats.user_messages += adds.prompts;
            stats.assistant_messages += adds.turns;
            stats.tool_results += u64::from(item.result_of.is_some());
            stats.tool_calls += adds.tool_calls;
            stats.compactions += adds.compactions;
            stats.tokens.add(adds.tokens);
            stats.cost += adds.cost;
        }
        stats
    }
}

/// Whether what a session adds is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It is counted.
    Counted,
    /// It is not, but what comes later and is a copy of its entries is none of the later session's own.
    OnlySeen,
}

/// One group of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The day, model, folder, session id or tool.
    pub key: String,
    /// The session's name, in groups by session.
    pub name: Option<String>,
    /// What is in it.
    pub totals: Totals,
}

/// What sessions come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// All of it.
    pub total: Totals,
    /// The groups: days in their order, others by cost, then by tokens, then calls, the largest first.
    pub groups: Vec<Group>,
    /// Entries of wanted sessions that were left out because they were counted before.
    pub copies: u64,
}

/// Adds up sessions.
#[derive(Debug)]
pub struct UsageReport {
    by: Option<GroupBy>,
    since_ms: Option<i64>,
    seen: HashSet<[u64; 2]>,
    groups: HashMap<String, GroupSum>,
    total: Totals,
    copies: u64,
    sessions: u64,
}

#[derive(Debug, Default)]
struct GroupSum {
    name: Option<String>,
    totals: Totals,
    /// The number of the session that was added last.
    last_session: Option<u64>,
}

impl UsageReport {
    /// A report over entries from `since_ms` on, Unix milliseconds; with a limit, entries without a time are left out.
    pub fn new(by: Option<GroupBy>, since_ms: Option<i64>) -> Self {
        let (seen, groups) = (HashSet::new(), HashMap::new());
        Self { by, since_ms, seen, groups, total: Totals::default(), copies: 0, sessions: 0 }
    }

    /// Adds a session. Sessions should come in the order in which they were created, so that what a fork copied counts
    /// for the session that it was copied from.
    pub fn add(&mut self, session: &SessionUsage, wanted: Wanted) {
        self.sessions += 1;
        let mut is_counted = false;
        for item in &session.items {
            let is_copy = !self.seen.insert(item.key);
            let is_in_time = self.since_ms.is_none_or(|since_ms| item.time_ms.is_some_and(|time_ms| time_ms >= since_ms));
            if wanted == Wanted::OnlySeen || !is_in_time {
                continue;
            }
            if is_copy {
                self.copies += 1;
                continue;
            }
            is_counted = true;
            self.total.add(&item.adds());
            self.add_to_group(session, item);
        }
        self.total.sessions += u64::from(is_counted);
    }

    fn add_to_group(&mut self, session: &SessionUsage, item: &Item) {
        let Some(by) = self.by else { return };
        match by {
            GroupBy::Day => {
                let day = item.time_ms.map(|time_ms| format_timestamp(time_ms).chars().take_while(|char| *char != 'T').collect());
                self.group(day.unwrap_or_else(|| UNKNOWN.to_owned())).add(&item.adds());
            }
            GroupBy::Model => self.group(session.models.get(item.model).to_owned()).add(&item.adds()),
            GroupBy::Project => self.group(session.cwd.clone()).add(&item.adds()),
            GroupBy::Session => {
                self.group(session.id.clone()).add(&item.adds());
                if let Some(group) = self.groups.get_mut(&session.id) {
                    group.name.clone_from(&session.name);
                }
            }
            GroupBy::Tool => {
                for call in &item.calls {
                    self.group(session.tools.get(Some(*call)).to_owned()).tool_calls += 1;
                }
                if item.result_of.is_some() {
                    let result = Totals { branches: 0, active_ms: 0, ..item.adds() };
                    self.group(session.tools.get(item.result_of).to_owned()).add(&result);
                }
            }
        }
    }

    fn group(&mut self, key: String) -> &mut Totals {
        let group = self.groups.entry(key).or_default();
        if group.last_session.replace(self.sessions) != Some(self.sessions) {
            group.totals.sessions += 1;
        }
        &mut group.totals
    }

    /// The sums.
    pub fn finish(self) -> Usage {
        let mut groups: Vec<_> =
            self.groups.into_iter().map(|(key, sum)| Group { key, name: sum.name, totals: sum.totals }).collect();
        groups.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        if self.by != Some(GroupBy::Day) {
            let rank = |totals: &Totals| Reverse((totals.tokens.total(), totals.tool_calls));
            groups.sort_by(|a, b| b.totals.cost.total_cmp(&a.totals.cost).then_with(|| rank(&a.totals).cmp(&rank(&b.totals))));
        }
        Usage { total: self.total, groups, copies: self.copies }
    }
}

#[cfg(test)]
mod tests;
