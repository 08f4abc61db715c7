//! Claude Code: `~/.claude/projects/<folder>/<id>.jsonl`, lines that name their parent by `parentUuid`.
//!
//! # What becomes what
//! | source | entry |
//! |---|---|
//! | `user`, `assistant` | messages; the lines of one answer (one `message.id`) are one message |
//! | `tool_result` blocks | tool results, `toolUseResult` as their details |
//! | `isMeta` lines | `custom_message`: in the context, and nobody wrote them |
//! | `compact_boundary` with its `isCompactSummary` line | `compaction`, behind what it compacts |
//! | `attachment` of a `queued_command` | user message |
//! | `custom-title`, else `ai-title`, else `summary` | name |
//! | API errors | assistant messages that failed |
//! | `isSidechain` lines | roots of their own, off the active path |
//! | everything else | `custom`, in its place of the chain |
//!
//! # Invariants
//! - Lines are taken in the order of the file, but for parents, which come before their children.

use std::collections::{HashMap, HashSet};

use crate::import::blocks::{Answer, details_of, file_stem, one_field, session_id, time_ms, user};
use crate::import::claude::content::{UNREADABLE, is_part_of, read_block, read_usage, stop_reason};
use crate::import::draft::{Draft, Place};
use crate::import::lines::{Line, read_lines};
use crate::import::{ImportFormat, ImportedSession, SourceFile};
use crate::session::entry::{Compaction, EntryKind};
use crate::session::json::{Extra, Fields, Json};
use crate::session::message::{Block, Content, Message, ToolResultMessage, Usage};

const PROVIDER: &str = "anthropic";
const API: &str = "anthropic-messages";
/// The model's name in messages that Claude Code wrote itself.
const SYNTHETIC: &str = "<synthetic>";

/// How many blocks of an answer are compared with a new one.
const LOOK_BACK: usize = 64;

/// Keys of a line that stand in the header, in the tree or in the message.
const PLACED_KEYS: [&str; 13] = [
    "type",
    "parentUuid",
    "timestamp",
    "message",
    "sessionId",
    "cwd",
    "version",
    "gitBranch",
    "userType",
    "isSidechain",
    "toolUseResult",
    "isMeta",
    "entrypoint",
];

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Claude;

impl ImportFormat for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn recognizes(&self, fields: &Fields<'_>) -> bool {
        let has_type = fields.get::<String>("type").is_some();
        has_type && ["sessionId", "parentUuid", "uuid", "leafUuid", "messageId"].iter().any(|key| fields.text(key).is_some())
    }

    fn read(&self, files: &[SourceFile<'_>]) -> Vec<ImportedSession> {
        files.iter().map(read_file).collect()
    }
}

/// What the tree needs of a line.
#[derive(Debug, Default)]
struct Head {
    uuid: Option<String>,
    parent: Option<String>,
    is_side: bool,
}

fn read_file(file: &SourceFile<'_>) -> ImportedSession {
    let mut damage = Vec::new();
    let lines = read_lines(file, &mut damage);
    let mut heads: Vec<_> = lines.iter().map(|line| line.json.fields().map(|fields| head(&fields)).unwrap_or_default()).collect();
    // A file of a sub-agent is nothing but a side chain; in it, that is the conversation.
    let is_agent_file = heads.iter().any(|head| head.is_side) && heads.iter().all(|head| head.is_side || head.uuid.is_none());
    if is_agent_file {
        heads.iter_mut().for_each(|head| head.is_side = false);
    }
    let (mut session, title) = describe(file, &lines, &heads, is_agent_file);
    session.name = title;
    let mut reader = Reader {
        lines: &lines,
        draft: Draft::new("claude", session.created_ms),
        placed: HashMap::new(),
        firsts: HashMap::new(),
        last: None,
        last_side: None,
        answers: HashMap::new(),
        open_compactions: Vec::new(),
    };
    let id = session.source_id.clone().unwrap_or_default();
    for index in parents_first(&heads) {
        let line = &lines[index];
        match &heads[index].uuid {
            Some(uuid) if !reader.firsts.contains_key(uuid) => reader.draft.seed(uuid),
            Some(_) | None => reader.draft.seed(&format!("{id} {index}")),
        }
        if let Some(fields) = line.json.fields() {
            reader.line(index, &heads[index], &fields, &line.json);
        }
    }
    for (place, source) in std::mem::take(&mut reader.open_compactions) {
        reader.draft.turn_into_leftover(place, "system:compact_boundary", &source);
    }
    reader.draft.finish(reader.last, session, damage)
}

fn head(fields: &Fields<'_>) -> Head {
    let parent = fields.get::<String>("parentUuid").or_else(|| fields.get("logicalParentUuid"));
    Head { uuid: fields.get("uuid"), parent, is_side: fields.get("isSidechain").unwrap_or(false) }
}

/// The order in which every parent comes before its children, and which else is that of the file. Lines on a cycle come
/// last.
fn parents_first(heads: &[Head]) -> Vec<usize> {
    let mut by_uuid: HashMap<&str, usize> = HashMap::new();
    for (index, head) in heads.iter().enumerate() {
        if let Some(uuid) = &head.uuid {
            by_uuid.entry(uuid).or_insert(index);
        }
    }
    let parent = |index: usize| heads[index].parent.as_deref().and_then(|uuid| by_uuid.get(uuid)).copied();
    let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut is_placed = vec![false; heads.len()];
    let mut order = Vec::with_capacity(heads.len());
    for index in 0..heads.len() {
        match parent(index) {
            Some(above) if above != index && !is_placed[above] => waiting.entry(above).or_default().push(index),
            Some(_) | None => {
                let mut next = vec![index];
                while let Some(index) = next.pop() {
                    is_placed[index] = true;
                    order.push(index);
                    next.extend(waiting.remove(&index).into_iter().flatten().rev());
                }
            }
        }
    }
    order.extend((0..heads.len()).filter(|index| !is_placed[*index]));
    order
}

/// What the header says, and the name.
fn describe(file: &SourceFile<'_>, lines: &[Line], heads: &[Head], is_agent: bool) -> (ImportedSession, Option<String>) {
    let mut session = ImportedSession { file: file.path.to_owned(), ..ImportedSession::default() };
    let (mut own, mut agent, mut version, mut branch) = (None::<String>, None::<String>, None::<String>, None::<String>);
    let (mut custom, mut generated, mut summary) = (None, None, None);
    let uuids: HashSet<&str> = heads.iter().filter_map(|head| head.uuid.as_deref()).collect();
    for fields in lines.iter().filter_map(|line| line.json.fields()) {
        own = own.or_else(|| fields.get("sessionId"));
        agent = agent.or_else(|| fields.get("agentId"));
        version = version.or_else(|| fields.get("version"));
        branch = branch.or_else(|| fields.get("gitBranch"));
        if session.cwd.is_empty() {
            session.cwd = fields.get("cwd").unwrap_or_default();
        }
        session.created_ms = session.created_ms.or_else(|| time_ms(&fields, "timestamp"));
        if session.source_parent.is_none() {
            session.source_parent = fields.get::<Fields<'_>>("forkedFrom").and_then(|from| from.get("sessionId"));
        }
        custom = fields.get::<String>("customTitle").or(custom);
        generated = fields.get::<String>("aiTitle").or(generated);
        if fields.get::<String>("type").as_deref() == Some("summary")
            && fields.get::<String>("leafUuid").is_some_and(|uuid| uuids.contains(uuid.as_str()))
        {
            summary = fields.get::<String>("summary").or(summary);
        }
    }
    let stem = file_stem(file.path);
    let id = if is_agent {
        session.source_parent = session.source_parent.or(own);
        Some(agent.map_or_else(|| stem.to_owned(), |agent| format!("agent-{agent}")))
    } else {
        // A session that was resumed in a new file begins with lines of the old one; the file's name is its id.
        let is_uuid = stem.len() == 36 && stem.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if is_uuid { Some(stem.to_owned()) } else { own }
    };
    session.id = session_id(id.as_ref());
    session.source_id = id;
    let mut metadata = Extra::default();
    for (key, value) in [("format", Some("claude".to_owned())), ("version", version), ("gitBranch", branch)] {
        if let Some(json) = value.filter(|value| !value.is_empty()).and_then(|value| details_of(&value)) {
            metadata.set(key, json);
        }
    }
    session.metadata = details_of(&metadata).map(|json| one_field("import", &json));
    (session, custom.or(generated).or(summary))
}

struct Reader<'a> {
    lines: &'a [Line],
    draft: Draft,
    /// Where the line of a uuid is.
    placed: HashMap<String, Place>,
    /// The first line of a uuid, by its index, to tell a copy from another line.
    firsts: HashMap<String, usize>,
    last: Option<Place>,
    last_side: Option<Place>,
    /// The messages that the lines of an answer became, by `message.id`.
    answers: HashMap<String, Place>,
    /// Compactions whose summary has not come.
    open_compactions: Vec<(Place, Json)>,
}

impl Reader<'_> {
    fn line(&mut self, index: usize, head: &Head, fields: &Fields<'_>, source: &Json) {
        let at_ms = self.draft.at(time_ms(fields, "timestamp"));
        let wire_type = fields.get::<String>("type").unwrap_or_default();
        let Some(uuid) = &head.uuid else {
            self.metadata_line(&wire_type, fields, source, at_ms);
            return;
        };
        if let Some(first) = self.firsts.get(uuid) {
            if self.lines[*first].json == *source {
                self.draft.copy("line");
            } else {
                let parent = self.last_of(head);
                self.draft.leftover(parent, at_ms, "secondLineOfUuid", source);
            }
            return;
        }
        let parent = self.parent(head);
        let is_compact_summary = fields.get("isCompactSummary").unwrap_or(false);
        let place = match wire_type.as_str() {
            "user" if is_compact_summary => self.compact_summary(parent, at_ms, fields),
            "user" => self.user_line(parent, at_ms, fields, source),
            "assistant" => self.assistant_line(parent, at_ms, fields),
            "system" if fields.get::<String>("subtype").as_deref() == Some("compact_boundary") => {
                Some(self.boundary(head, at_ms, fields, source))
            }
            "attachment" => self.attachment(parent, at_ms, fields),
            _ => None,
        };
        let place = place.unwrap_or_else(|| self.draft.leftover(parent, at_ms, &kind_of(&wire_type, fields), source));
        self.placed.insert(uuid.clone(), place);
        self.firsts.insert(uuid.clone(), index);
        if head.is_side {
            self.last_side = Some(place);
        } else {
            self.last = Some(place);
        }
    }

    fn last_of(&self, head: &Head) -> Option<Place> {
        if head.is_side { self.last_side } else { self.last }
    }

    /// Where a line hangs. A parent that is in another file, or was not written, is the line before.
    fn parent(&mut self, head: &Head) -> Option<Place> {
        let place = match &head.parent {
            Some(uuid) => self.placed.get(uuid).copied().or_else(|| self.last_of(head))?,
            // What stands before the first message is no root of its own.
            None if self.placed.is_empty() => self.last?,
            None => return None,
        };
        Some(self.draft.tail(place))
    }

    /// A line without a uuid: a title, or what has no place.
    fn metadata_line(&mut self, wire_type: &str, fields: &Fields<'_>, source: &Json, at_ms: i64) {
        let is_title = matches!(wire_type, "custom-title" | "ai-title");
        if is_title && (fields.has("customTitle") || fields.has("aiTitle")) {
            // The last one is the name; the earlier ones say less.
            self.draft.copy(wire_type);
            return;
        }
        let place = self.draft.leftover(self.last, at_ms, &kind_of(wire_type, fields), source);
        self.last = Some(place);
    }

    fn user_line(&mut self, parent: Option<Place>, at_ms: i64, fields: &Fields<'_>, source: &Json) -> Option<Place> {
        if fields.get("isVisibleInTranscriptOnly").unwrap_or(false) {
            return None;
        }
        let message = fields.get::<Fields<'_>>("message")?;
        let content = message.get::<Json>("content")?;
        let Some(blocks) = content.to::<Vec<Json>>() else {
            let text = content.to::<String>()?;
            return Some(self.user_message(parent, at_ms, Content::Text(text), fields));
        };
        let mut place = parent;
        let mut rest = Vec::new();
        let mut odd = Vec::new();
        for block in &blocks {
            let Some(inner) = block.fields() else {
                odd.push((UNREADABLE.to_owned(), block.clone()));
                continue;
            };
            if inner.get::<String>("type").as_deref() == Some("tool_result") {
                place = Some(self.tool_result(place, at_ms, &inner, fields, source));
            } else {
                match read_block(&inner) {
                    Ok(block) => rest.push(block),
                    Err((kind, mark)) => {
                        rest.extend(mark);
                        odd.push((kind, block.clone()));
                    }
                }
            }
        }
        if !rest.is_empty() {
            place = Some(self.user_message(place, at_ms, Content::Blocks(rest), fields));
        }
        for (kind, block) in odd {
            place = Some(self.draft.leftover(place, at_ms, &kind, &block));
        }
        if blocks.is_empty() { None } else { place }
    }

    fn user_message(&mut self, parent: Option<Place>, at_ms: i64, content: Content, fields: &Fields<'_>) -> Place {
        let parent = parent.map(|parent| self.draft.tail(parent));
        if fields.get("isMeta").unwrap_or(false) {
            return self.draft.injected(parent, at_ms, content);
        }
        self.draft.message(parent, at_ms, user(content, at_ms), unplaced(fields))
    }

    fn tool_result(
        &mut self,
        parent: Option<Place>,
        at_ms: i64,
        block: &Fields<'_>,
        fields: &Fields<'_>,
        source: &Json,
    ) -> Place {
        let mut odd = Vec::new();
        let content = match block.get::<Json>("content") {
            Some(json) => match json.to::<Vec<Json>>() {
                Some(parts) => parts
                    .into_iter()
                    .filter_map(|part| match part.fields().map(|inner| read_block(&inner)) {
                        Some(Ok(block)) => Some(block),
                        Some(Err((kind, mark))) => {
                            odd.push((kind, part));
                            mark
                        }
                        None => {
                            odd.push((UNREADABLE.to_owned(), part));
                            None
                        }
                    })
                    .collect(),
                None => vec![Block::text(json.to::<String>().unwrap_or_default())],
            },
            None => vec![Block::text("")],
        };
        let message = ToolResultMessage {
            tool_call_id: block.get("tool_use_id").unwrap_or_default(),
            content: Some(Content::Blocks(content)),
            details: fields.get("toolUseResult"),
            is_error: Some(block.get("is_error").unwrap_or(false)),
            ..ToolResultMessage::default()
        };
        let mut place = self.draft.result(parent, at_ms, message, source);
        for (kind, part) in odd {
            place = self.draft.leftover(Some(place), at_ms, &kind, &part);
        }
        place
    }

    fn assistant_line(&mut self, parent: Option<Place>, at_ms: i64, fields: &Fields<'_>) -> Option<Place> {
        let message = fields.get::<Fields<'_>>("message")?;
        let parts = match message.get::<Json>("content")?.to::<Vec<Json>>() {
            Some(parts) => parts,
            None => vec![Json::of(&TextBlock { r#type: "text", text: message.get::<String>("content")? }).ok()?],
        };
        let mut content = Vec::new();
        let mut odd = Vec::new();
        for part in parts {
            match part.fields().map(|inner| read_block(&inner)) {
                Some(Ok(block)) => content.push(block),
                Some(Err((kind, _))) => odd.push((kind, part)),
                None => odd.push((UNREADABLE.to_owned(), part)),
            }
        }
        let reported = message.get::<Fields<'_>>("usage").map(|fields| read_usage(&fields));
        let id = message.get::<String>("id").filter(|id| !id.is_empty());
        let stop = message.get::<String>("stop_reason");
        let started = id.as_ref().and_then(|id| self.answers.get(id)).copied();
        // Only a line that goes on from the answer is a part of it: a copy on another branch is another message.
        let started = started.filter(|place| parent.is_some_and(|parent| self.draft.message_at(parent) == Some(*place)));
        let place = match started {
            Some(place) => {
                self.go_on(place, content, reported, stop.as_deref());
                place
            }
            None => self.answer(parent, at_ms, &message, content, (reported, stop.as_deref()), fields),
        };
        if let Some(id) = id {
            self.answers.insert(id, place);
        }
        let mut last = place;
        for (kind, part) in odd {
            last = self.draft.leftover(Some(last), at_ms, &kind, &part);
        }
        Some(place)
    }

    /// Adds the blocks of a further line to an answer; a line may also repeat, or prolong, what was there.
    fn go_on(&mut self, place: Place, content: Vec<Block>, reported: Option<Usage>, stop: Option<&str>) {
        for block in content {
            let Some(message) = self.draft.assistant_mut(place) else { return };
            let old = match &mut message.content {
                Some(Content::Blocks(blocks)) => blocks.iter_mut().rev().take(LOOK_BACK).find(|old| is_part_of(old, &block)),
                Some(Content::Text(_)) | None => None,
            };
            if let Some(old) = old {
                *old = block;
                self.draft.copy("block");
                continue;
            }
            self.draft.add_block(place, block);
        }
        let Some(message) = self.draft.assistant_mut(place) else { return };
        if reported.is_some() {
            message.usage = reported;
        }
        let has_calls = message.tool_calls().next().is_some();
        message.stop_reason = Some(stop_reason(stop, has_calls).to_owned());
    }

    fn answer(
        &mut self,
        parent: Option<Place>,
        at_ms: i64,
        message: &Fields<'_>,
        content: Vec<Block>,
        (reported, stop): (Option<Usage>, Option<&str>),
        fields: &Fields<'_>,
    ) -> Place {
        let model = message.get::<String>("model").filter(|model| model != SYNTHETIC && !model.is_empty());
        let mut parent = parent;
        let model = match model {
            Some(model) => {
                parent = self.draft.model(parent, at_ms, PROVIDER, &model);
                model
            }
            // What the program says itself does not change the model that answers next.
            None => self.draft.model_at(parent).map_or_else(|| SYNTHETIC.to_owned(), |(_, model)| model.clone()),
        };
        let is_error = fields.get("isApiErrorMessage").unwrap_or(false);
        let has_calls = content.iter().any(|block| block.as_tool_call().is_some());
        let answer = Answer {
            api: API.to_owned(),
            provider: PROVIDER.to_owned(),
            model,
            error_message: is_error.then(|| content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")),
            content,
            usage: reported,
            stop_reason: Some(if is_error { "error" } else { stop_reason(stop, has_calls) }),
        };
        let mut message_entry = answer.into_message(at_ms);
        if let Some(id) = message.get::<Json>("id").filter(|id| !id.is_null()) {
            message_entry.extra.set("responseId", id);
        }
        self.draft.message(parent, at_ms, Message::Assistant(Box::new(message_entry)), unplaced(fields))
    }

    /// A compaction hangs behind what it compacts; its summary is in the next line.
    fn boundary(&mut self, head: &Head, at_ms: i64, fields: &Fields<'_>, source: &Json) -> Place {
        let parent = self.parent(head).or_else(|| self.last_of(head).map(|last| self.draft.tail(last)));
        let metadata = fields.get::<Fields<'_>>("compactMetadata").unwrap_or_default();
        let kept_uuid = match metadata.get::<Fields<'_>>("preservedSegment") {
            Some(segment) => segment.get::<String>("headUuid"),
            None => metadata
                .get::<Fields<'_>>("preservedMessages")
                .and_then(|kept| kept.get::<Vec<String>>("uuids"))
                .and_then(|uuids| uuids.into_iter().next()),
        };
        let kept = kept_uuid.and_then(|uuid| self.placed.get(&uuid)).copied();
        let kept = kept.filter(|kept| parent.is_some_and(|parent| self.draft.is_on_path(*kept, parent)));
        let place = self.compaction(parent, at_ms, kept, metadata.get("preTokens"), fields.get("compactMetadata"));
        self.open_compactions.push((place, source.clone()));
        place
    }

    fn compaction(
        &mut self,
        parent: Option<Place>,
        at_ms: i64,
        kept: Option<Place>,
        tokens_before: Option<Json>,
        metadata: Option<Json>,
    ) -> Place {
        let details = metadata.map(|metadata| one_field("import", &metadata));
        let zero = details_of(&0);
        let compaction = Compaction { tokens_before: tokens_before.or(zero), details, ..Compaction::default() };
        let place = self.draft.push(parent, at_ms, EntryKind::Compaction(compaction));
        // One that keeps nothing names itself.
        let first_kept = self.draft.id(kept.unwrap_or(place));
        if let EntryKind::Compaction(compaction) = self.draft.kind_mut(place) {
            compaction.first_kept_entry_id = Some(first_kept);
        }
        place
    }

    fn compact_summary(&mut self, parent: Option<Place>, at_ms: i64, fields: &Fields<'_>) -> Option<Place> {
        let message = fields.get::<Fields<'_>>("message")?;
        let summary = message.get::<Content>("content")?.joined_text();
        let open = parent
            .and_then(|parent| self.open_compactions.iter().position(|(place, _)| self.draft.message_at(parent) == Some(*place)));
        let place = match open {
            Some(open) => self.open_compactions.remove(open).0,
            // Early versions wrote the summary alone, as a new root.
            None => {
                let parent = parent.or_else(|| self.last.map(|last| self.draft.tail(last)));
                self.compaction(parent, at_ms, None, None, None)
            }
        };
        if let EntryKind::Compaction(compaction) = self.draft.kind_mut(place) {
            compaction.summary = summary;
        }
        Some(place)
    }

    /// What the user typed while the model worked.
    fn attachment(&mut self, parent: Option<Place>, at_ms: i64, fields: &Fields<'_>) -> Option<Place> {
        let attachment = fields.get::<Fields<'_>>("attachment")?;
        let is_prompt = attachment.get::<String>("commandMode").is_none_or(|mode| mode == "prompt");
        if attachment.get::<String>("type").as_deref() != Some("queued_command") || !is_prompt {
            return None;
        }
        let prompt = attachment.get::<Json>("prompt")?;
        let content = match prompt.to::<String>() {
            Some(text) => Content::Text(text),
            None => {
                let blocks = prompt.to::<Vec<Json>>()?;
                // A block without a place sends the whole line to the leftovers, where nothing of it is lost.
                let read = blocks.iter().map(|block| block.fields().and_then(|inner| read_block(&inner).ok()));
                Content::Blocks(read.collect::<Option<_>>()?)
            }
        };
        Some(self.draft.message(parent, at_ms, user(content, at_ms), Extra::default()))
    }
}

#[derive(serde::Serialize)]
struct TextBlock {
    r#type: &'static str,
    text: String,
}

/// The kind of a leftover, by what tells lines apart.
fn kind_of(wire_type: &str, fields: &Fields<'_>) -> String {
    let inner = |key: &str| fields.get::<Fields<'_>>(key).and_then(|inner| inner.get::<String>("type"));
    let more = fields.get::<String>("subtype").or_else(|| inner("attachment")).or_else(|| inner("data"));
    let wire_type = if wire_type.is_empty() { "line" } else { wire_type };
    more.map_or_else(|| wire_type.to_owned(), |more| format!("{wire_type}:{more}"))
}

/// The keys of a line that stand nowhere else.
fn unplaced(fields: &Fields<'_>) -> Extra {
    let mut rest = Extra::default();
    for (key, text) in fields.iter().filter(|(key, _)| !PLACED_KEYS.contains(key)) {
        if let Ok(json) = Json::parse(text) {
            rest.set(key, json);
        }
    }
    rest
}

mod content;
#[cfg(test)]
mod tests;
