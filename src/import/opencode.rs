//! opencode: what `opencode export` prints, and the folders `storage/{session,message,part}` with a file for each thing.
//!
//! # What becomes what
//! | source | entry |
//! |---|---|
//! | user message with `text` and `file` parts | user message |
//! | assistant message | one assistant message for each of its steps, as each was a request of its own |
//! | `tool` part | call, and its result if it has one |
//! | a `tool` part that was pruned (`time.compacted`) | `context_edit` of its result |
//! | `reasoning` part | thinking |
//! | `step-finish` | usage and cost of the step |
//! | assistant message with `summary: true` | `compaction` |
//! | `revert` of the session | the leaf, before what was taken back |
//! | other parts, todos, what else the session says | `custom` |
//!
//! # Invariants
//! - Messages are taken by their time, then by id; parts by id. Both ids grow with time.

use std::collections::{BTreeMap, HashMap};

use crate::import::blocks::{
    Answer, UNKNOWN, count, data_url_image, details_of, marker, one_field, session_id, thinking, time_ms, tool_call, usage, user,
};
use crate::import::draft::{Draft, Place};
use crate::import::lines::read_whole;
use crate::import::{ImportDamage, ImportFormat, ImportedSession, SourceFile};
use crate::session::entry::{Compaction, ContextEdit, EntryKind, Replacement};
use crate::session::json::{Extra, Fields, Json};
use crate::session::message::{Block, Content, Cost, Message, ToolResultMessage, Usage};

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Opencode;

impl ImportFormat for Opencode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn recognizes(&self, fields: &Fields<'_>) -> bool {
        let is_export = fields.get::<Fields<'_>>("info").is_some() && fields.text("messages").is_some();
        is_export || Kind::of(fields).is_some()
    }

    fn read(&self, files: &[SourceFile<'_>]) -> Vec<ImportedSession> {
        let mut damage = Vec::new();
        let mut found = Found::default();
        for file in files {
            let Some(json) = read_whole(file, &mut damage) else { continue };
            let Some(fields) = json.fields() else { continue };
            if fields.text("messages").is_some() && fields.has("info") {
                found.take_export(&fields);
            } else {
                match Kind::of(&fields) {
                    Some(Kind::Session) => found.info = Some(json),
                    Some(Kind::Message) => found.messages.push(json),
                    Some(Kind::Part) => found.add_part(fields.get("messageID").unwrap_or_default(), json),
                    None => found.rest.push(("file".to_owned(), json)),
                }
            }
        }
        let file = files.first().map(|file| file.path.to_owned()).unwrap_or_default();
        vec![found.into_session(file, damage)]
    }
}

/// What one object of the storage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Session,
    Message,
    Part,
}

impl Kind {
    fn of(fields: &Fields<'_>) -> Option<Self> {
        let has_id = fields.get::<String>("id").is_some();
        let time = fields.get::<Fields<'_>>("time");
        if has_id && fields.has("messageID") && fields.has("type") {
            Some(Self::Part)
        } else if has_id && fields.has("role") && (fields.has("sessionID") || time.is_some()) {
            Some(Self::Message)
        } else if has_id && fields.has("title") && time.is_some_and(|time| time.has("created")) {
            Some(Self::Session)
        } else {
            None
        }
    }
}

/// Puts the files of each session together by their folders, and leaves all else alone.
///
/// `session/<project>/<id>.json` and `session/info/<id>.json` are a session, `message/<id>/*.json` its messages, and
/// `part/<message>/*.json` or `part/<id>/<message>/*.json` their parts.
pub(super) fn group<'a>(paths: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut groups: Vec<Vec<&'a str>> = Vec::new();
    let mut by_session: HashMap<&str, usize> = HashMap::new();
    let mut by_message: HashMap<&str, usize> = HashMap::new();
    let parts_of = |path: &'a str| path.rsplit(['/', '\\']).collect::<Vec<_>>();
    let stem = |name: &'a str| name.strip_suffix(".json").unwrap_or(name);
    let mut parts = Vec::new();
    for path in paths.iter().filter(|path| path.ends_with(".json") || path.ends_with(".jsonl")) {
        let names = parts_of(path);
        match names.as_slice() {
            [_, message, "part", ..] => parts.push((*path, *message)),
            [_, message, session, "part", ..] if session.starts_with("ses") => parts.push((*path, *message)),
            [name, session, "message", ..] => {
                let index = *by_session.entry(session).or_insert_with(|| new_group(&mut groups));
                by_message.insert(stem(name), index);
                groups[index].push(path);
            }
            [name, _, "session", ..] if name.starts_with("ses") => {
                let index = *by_session.entry(stem(name)).or_insert_with(|| new_group(&mut groups));
                groups[index].insert(0, path);
            }
            _ => groups.push(vec![path]),
        }
    }
    for (path, message) in parts {
        match by_message.get(message) {
            Some(index) => groups[*index].push(path),
            None => groups.push(vec![path]),
        }
    }
    groups
}

fn new_group(groups: &mut Vec<Vec<&str>>) -> usize {
    groups.push(Vec::new());
    groups.len() - 1
}

/// The folder `storage` that a path of a session lies in: beside `session` are its messages and parts.
pub fn storage_folder(path: &str) -> Option<&str> {
    let (at, _) = path.rmatch_indices(['/', '\\']).nth(1)?;
    let above = &path[..at];
    above.strip_suffix("session").filter(|root| root.is_empty() || root.ends_with(['/', '\\']))
}

/// The things of one session, as they were found.
#[derive(Default)]
struct Found {
    info: Option<Json>,
    messages: Vec<Json>,
    /// By message and by id.
    parts: HashMap<String, BTreeMap<String, Json>>,
    rest: Vec<(String, Json)>,
}

impl Found {
    fn take_export(&mut self, fields: &Fields<'_>) {
        self.info = fields.get("info");
        for (key, text) in fields.iter().filter(|(key, _)| !matches!(*key, "info" | "messages")) {
            if let Ok(json) = Json::parse(text)
                && !matches!(text, "null" | "[]" | "{}")
            {
                self.rest.push((key.to_owned(), json));
            }
        }
        for (place, json) in fields.get::<Vec<Json>>("messages").unwrap_or_default().into_iter().enumerate() {
            let message =
                json.fields().and_then(|message| Some((message.get::<Json>("info")?, message.get::<Vec<Json>>("parts"))));
            let Some((info, parts)) = message else {
                self.rest.push(("message".to_owned(), json));
                continue;
            };
            let id = info.fields().and_then(|info| info.get("id")).unwrap_or_else(|| format!("message {place}"));
            for (place, part) in parts.unwrap_or_default().into_iter().enumerate() {
                // The export has them in order, whatever their ids are.
                self.parts.entry(id.clone()).or_default().insert(format!("{place:08}"), part);
            }
            self.messages.push(info);
        }
    }

    fn add_part(&mut self, message: String, json: Json) {
        let id = json.fields().and_then(|part| part.get("id")).unwrap_or_default();
        self.parts.entry(message).or_default().insert(id, json);
    }

    fn into_session(mut self, file: String, damage: Vec<ImportDamage>) -> ImportedSession {
        let mut session = ImportedSession { file, ..ImportedSession::default() };
        let no_info = Json::empty_object();
        let info = self.info.take();
        let fields = info.as_ref().unwrap_or(&no_info).fields().unwrap_or_default();
        let time = fields.get::<Fields<'_>>("time").unwrap_or_default();
        session.source_id = fields.get("id");
        session.id = session_id(session.source_id.as_ref());
        session.source_parent = fields.get("parentID");
        session.cwd = fields.get("directory").unwrap_or_default();
        session.created_ms = time_ms(&time, "created");
        session.name = fields.get("title");
        let mut metadata = Extra::default();
        if let Some(name) = details_of("opencode") {
            metadata.set("format", name);
        }
        for (key, text) in fields.iter().filter(|(key, _)| !matches!(*key, "directory" | "title" | "parentID")) {
            if let Ok(json) = Json::parse(text) {
                metadata.set(key, json);
            }
        }
        session.metadata = details_of(&metadata).map(|json| one_field("import", &json));

        let key = |json: &Json| {
            let fields = json.fields().unwrap_or_default();
            let created = fields.get::<Fields<'_>>("time").and_then(|time| time_ms(&time, "created"));
            (created, fields.get::<String>("id").unwrap_or_default())
        };
        self.messages.sort_by_cached_key(key);
        if session.cwd.is_empty() {
            let cwd = |json: &Json| json.fields()?.get::<Fields<'_>>("path")?.get::<String>("cwd");
            session.cwd = self.messages.iter().find_map(cwd).unwrap_or_default();
        }
        session.created_ms = session.created_ms.or_else(|| self.messages.first().and_then(|first| key(first).0));

        let mut reader = Reader { draft: Draft::new("opencode", session.created_ms), last: None, firsts: HashMap::new() };
        for json in &self.messages {
            if let Some(fields) = json.fields() {
                let id = fields.get::<String>("id").unwrap_or_default();
                let parts = self.parts.remove(&id).unwrap_or_default();
                if !reader.firsts.contains_key(&id) {
                    reader.draft.seed(&id);
                }
                reader.message(&id, &fields, json, parts.into_values());
            }
        }
        let mut orphans: Vec<_> = self.parts.into_values().flat_map(BTreeMap::into_values).collect();
        orphans.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        self.rest.extend(orphans.into_iter().map(|part| ("partWithoutMessage".to_owned(), part)));
        let at_ms = reader.draft.at(None);
        for (kind, json) in &self.rest {
            reader.last = Some(reader.draft.leftover(reader.last, at_ms, kind, json));
        }
        let reverted = fields.get::<Fields<'_>>("revert").and_then(|revert| revert.get::<String>("messageID"));
        let leaf = match reverted.and_then(|id| reader.firsts.get(&id)) {
            Some(first) => reader.draft.parent(*first),
            None => reader.last,
        };
        reader.draft.finish(leaf, session, damage)
    }
}

struct Reader {
    draft: Draft,
    last: Option<Place>,
    /// The first entry of each message.
    firsts: HashMap<String, Place>,
}

/// One request of an assistant message.
#[derive(Default)]
struct Step {
    content: Vec<Block>,
    /// Results, each with its part.
    results: Vec<(ToolResultMessage, Option<i64>, Json)>,
    usage: Option<Usage>,
    odd: Vec<(String, Json)>,
}

impl Reader {
    fn message(&mut self, id: &str, info: &Fields<'_>, source: &Json, parts: impl Iterator<Item = Json>) {
        let time = info.get::<Fields<'_>>("time").unwrap_or_default();
        let at_ms = self.draft.at(time_ms(&time, "created"));
        let before = self.last;
        match info.get::<String>("role").as_deref() {
            Some("user") => self.user(at_ms, parts),
            Some("assistant") if info.get("summary").unwrap_or(false) => self.summary(at_ms, info, source, parts),
            Some("assistant") => self.assistant(at_ms, info, parts),
            _ => {
                self.keep("message", source, at_ms);
                parts.for_each(|part| self.keep("part", &part, at_ms));
            }
        }
        if self.last != before
            && let Some(last) = self.last
        {
            // The first entry of this message is the one below what was there before.
            let mut first = last;
            while let Some(parent) = self.draft.parent(first).filter(|parent| Some(*parent) != before) {
                first = parent;
            }
            self.firsts.insert(id.to_owned(), first);
        }
    }

    fn keep(&mut self, kind: &str, source: &Json, at_ms: i64) {
        self.last = Some(self.draft.leftover(self.last, at_ms, kind, source));
    }

    fn user(&mut self, at_ms: i64, parts: impl Iterator<Item = Json>) {
        let mut content = Vec::new();
        let mut odd = Vec::new();
        for part in parts {
            let fields = part.fields().unwrap_or_default();
            let wire_type = fields.get::<String>("type").unwrap_or_default();
            let is_shown = !fields.get("ignored").unwrap_or(false);
            match (wire_type.as_str(), fields.get::<String>("text"), fields.get::<String>("url")) {
                ("text", Some(text), _) if is_shown => content.push(Block::text(text)),
                ("file", _, Some(url)) => {
                    let mime = fields.get::<String>("mime").unwrap_or_default();
                    match data_url_image(&url) {
                        Some(image) => content.push(image),
                        // Text files and folders were read into texts beside them.
                        None => {
                            if mime != "text/plain" && mime != "application/x-directory" {
                                content.push(marker(&mime));
                            }
                            odd.push(("part:file".to_owned(), part.clone()));
                        }
                    }
                }
                _ => odd.push((format!("part:{wire_type}"), part.clone())),
            }
        }
        if !content.is_empty() {
            let message = user(Content::Blocks(content), at_ms);
            self.last = Some(self.draft.message(self.last, at_ms, message, Extra::default()));
        }
        odd.iter().for_each(|(kind, part)| self.keep(kind, part, at_ms));
    }

    fn assistant(&mut self, at_ms: i64, info: &Fields<'_>, parts: impl Iterator<Item = Json>) {
        let steps = read_steps(parts);
        let (provider, model) = model_of(info);
        let error = info.get::<Fields<'_>>("error");
        let error_text = error.as_ref().map(|error| {
            let message = error.get::<Fields<'_>>("data").and_then(|data| data.get::<String>("message"));
            message.or_else(|| error.get("name")).unwrap_or_else(|| UNKNOWN.to_owned())
        });
        let is_abort = error.as_ref().and_then(|error| error.get::<String>("name")).is_some_and(|name| name.contains("Abort"));
        let count = steps.len();
        for (index, step) in steps.into_iter().enumerate() {
            let is_last = index + 1 == count;
            let has_calls = step.content.iter().any(|block| block.as_tool_call().is_some());
            let error_message = error_text.clone().filter(|_| is_last);
            let stop_reason = match (&error_message, is_abort, info.get::<String>("finish").as_deref()) {
                (Some(_), true, _) => "aborted",
                (Some(_), false, _) => "error",
                (None, _, Some("length")) if is_last => "length",
                (None, ..) if has_calls => "toolUse",
                (None, ..) => "stop",
            };
            if !step.content.is_empty() || error_message.is_some() {
                // A message without steps has the tokens of its one request itself.
                let usage = step.usage.or_else(|| (count == 1).then(|| read_usage(info)));
                let answer = Answer {
                    api: api_of(&provider).to_owned(),
                    provider: provider.clone(),
                    model: model.clone(),
                    content: step.content,
                    usage,
                    stop_reason: Some(stop_reason),
                    error_message,
                };
                let parent = self.last.map(|last| self.draft.tail(last));
                let parent = self.draft.model(parent, at_ms, &provider, &model);
                let message = Message::Assistant(Box::new(answer.into_message(at_ms)));
                self.last = Some(self.draft.message(parent, at_ms, message, Extra::default()));
            }
            for (result, ended_ms, part) in step.results {
                let ended_ms = self.draft.at(ended_ms);
                let place = self.draft.result(self.last, ended_ms, result, &part);
                self.last = Some(if is_pruned(&part) { self.prune(place, ended_ms) } else { place });
            }
            step.odd.iter().for_each(|(kind, part)| self.keep(kind, part, at_ms));
        }
    }

    /// Leaves an old output out of the context, as opencode did, while it stays in the session.
    fn prune(&mut self, place: Place, at_ms: i64) -> Place {
        let content = Content::text_block("[This old output was left out of the context.]");
        let replacement = Some(Replacement { content, extra: Extra::default() });
        let target_id = Some(self.draft.id(place));
        let edit = ContextEdit { target_id, replacement, extra: Extra::default() };
        let edited = self.draft.push(Some(place), at_ms, EntryKind::ContextEdit(edit));
        self.draft.extend_chain(Some(place), edited);
        edited
    }

    /// A summary stands for all before it; only messages that its request named are kept.
    fn summary(&mut self, at_ms: i64, info: &Fields<'_>, source: &Json, parts: impl Iterator<Item = Json>) {
        let steps = read_steps(parts);
        let text = |step: &Step| step.content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n");
        let summary = steps.iter().map(text).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        if summary.is_empty() {
            self.keep("emptySummary", source, at_ms);
        } else {
            let usage = steps.iter().find_map(|step| step.usage.clone()).unwrap_or_else(|| read_usage(info));
            let tokens_before = details_of(&usage.sum());
            let parent = self.last.map(|last| self.draft.tail(last));
            let compaction = Compaction { summary, tokens_before, usage: Some(usage), ..Compaction::default() };
            let place = self.draft.push(parent, at_ms, EntryKind::Compaction(compaction));
            let first_kept = self.draft.id(self.tail_start(parent).unwrap_or(place));
            if let EntryKind::Compaction(compaction) = self.draft.kind_mut(place) {
                compaction.first_kept_entry_id = Some(first_kept);
            }
            self.last = Some(place);
        }
        for (kind, part) in steps.into_iter().flat_map(|step| step.odd) {
            self.keep(&kind, &part, at_ms);
        }
    }

    /// The first entry of the message that the request for a summary, kept just above, says is kept.
    fn tail_start(&self, parent: Option<Place>) -> Option<Place> {
        let source = self.draft.leftover_at(parent?)?;
        let source = source.fields()?.get::<Json>("source")?;
        let id = source.fields()?.get::<String>("tail_start_id")?;
        self.firsts.get(&id).copied()
    }
}

/// Whether opencode took the output of a tool part out of the context.
fn is_pruned(part: &Json) -> bool {
    let state = part.fields().and_then(|part| part.get::<Json>("state"));
    let time = state.and_then(|state| state.fields()?.get::<Json>("time"));
    time.and_then(|time| Some(time.fields()?.has("compacted"))).unwrap_or(false)
}

/// The steps of an assistant message.
fn read_steps(parts: impl Iterator<Item = Json>) -> Vec<Step> {
    let mut steps = vec![Step::default()];
    let mut is_done = false;
    for part in parts {
        let Some(fields) = part.fields() else { continue };
        let wire_type = fields.get::<String>("type").unwrap_or_default();
        let is_start = wire_type == "step-start";
        let is_content = is_start || matches!(wire_type.as_str(), "text" | "reasoning" | "tool" | "step-finish");
        if is_done && is_content {
            steps.push(Step::default());
            is_done = false;
        }
        let Some(step) = steps.last_mut() else { continue };
        match (wire_type.as_str(), fields.get::<String>("text")) {
            ("step-start", _) => {}
            ("step-finish", _) => {
                step.usage = Some(read_usage(&fields));
                is_done = true;
            }
            ("text", Some(text)) if text.is_empty() => {}
            ("text", Some(text)) => step.content.push(Block::text(text)),
            ("reasoning", Some(text)) => {
                let signature = signature_of(&fields, &text);
                if !text.is_empty() || signature.is_some() {
                    step.content.push(thinking(text, signature));
                }
            }
            ("tool", _) if fields.has("callID") => {
                let id = fields.get::<String>("callID").unwrap_or_default();
                let name = fields.get::<String>("tool").unwrap_or_default();
                let state = fields.get::<Fields<'_>>("state").unwrap_or_default();
                step.content.push(tool_call(id.clone(), name.clone(), state.get("input")));
                if let Some((result, ended_ms)) = read_result(id, name, &state, &mut step.odd) {
                    step.results.push((result, ended_ms, part.clone()));
                }
            }
            _ => step.odd.push((format!("part:{wire_type}"), part.clone())),
        }
    }
    steps
}

/// The result of a call that has ended.
fn read_result(
    id: String,
    name: String,
    state: &Fields<'_>,
    odd: &mut Vec<(String, Json)>,
) -> Option<(ToolResultMessage, Option<i64>)> {
    let (text, is_error) = match state.get::<String>("status")?.as_str() {
        "completed" => (state.get::<String>("output").unwrap_or_default(), false),
        "error" => (state.get::<String>("error").unwrap_or_default(), true),
        // It was still running when the session ended.
        _ => return None,
    };
    let mut content = vec![Block::text(text)];
    for attachment in state.get::<Vec<Json>>("attachments").unwrap_or_default() {
        let url = attachment.fields().and_then(|fields| fields.get::<String>("url"));
        match url.as_deref().and_then(data_url_image) {
            Some(image) => content.push(image),
            None => {
                content.push(marker("attachment"));
                odd.push(("attachment".to_owned(), attachment));
            }
        }
    }
    // Pi shows the details of its own tools; those of other programs' tools have other shapes.
    let mut details = Extra::default();
    for key in ["title", "metadata"] {
        if let Some(json) = state.get::<Json>(key) {
            details.set(key, json);
        }
    }
    let details = details_of(&details).filter(|_| !details.is_empty()).map(|json| one_field("import", &json));
    let ended_ms = state.get::<Fields<'_>>("time").and_then(|time| time_ms(&time, "end"));
    let content = Some(Content::Blocks(content));
    let (tool_call_id, tool_name) = (id, name);
    let result =
        ToolResultMessage { tool_call_id, tool_name, content, details, is_error: Some(is_error), ..ToolResultMessage::default() };
    Some((result, ended_ms))
}

/// What the provider needs to take thinking back, where the part has it.
fn signature_of(part: &Fields<'_>, text: &str) -> Option<String> {
    let metadata = part.get::<Fields<'_>>("metadata")?;
    if let Some(signature) = metadata.get::<Fields<'_>>("anthropic").and_then(|anthropic| anthropic.get("signature")) {
        return Some(signature);
    }
    let openai = metadata.get::<Fields<'_>>("openai")?;
    let (id, secret) = (openai.get::<Json>("itemId")?, openai.get::<Json>("reasoningEncryptedContent")?);
    let summary = if text.is_empty() {
        "[]".to_owned()
    } else {
        format!("[{{\"type\":\"summary_text\",\"text\":{}}}]", details_of(text)?.as_str())
    };
    let mut item = Extra::default();
    item.set("type", details_of("reasoning")?);
    item.set("id", id);
    item.set("summary", Json::parse(&summary).ok()?);
    item.set("encrypted_content", secret);
    details_of(&item).map(|json| json.as_str().to_owned())
}

fn model_of(info: &Fields<'_>) -> (String, String) {
    let inner = info.get::<Fields<'_>>("model").unwrap_or_default();
    let get = |key: &str| info.get::<String>(key).or_else(|| inner.get(key)).unwrap_or_else(|| UNKNOWN.to_owned());
    (get("providerID"), get("modelID"))
}

/// The wire protocol that a provider speaks, as Pi calls it.
fn api_of(provider: &str) -> &'static str {
    match provider {
        "anthropic" => "anthropic-messages",
        "openai" => "openai-responses",
        "google" => "google-generative-ai",
        _ => "openai-completions",
    }
}

fn read_usage(fields: &Fields<'_>) -> Usage {
    let tokens = fields.get::<Fields<'_>>("tokens").unwrap_or_default();
    let cache = tokens.get::<Fields<'_>>("cache").unwrap_or_default();
    // Here the tokens of thinking are not among those of the answer.
    let output = count(&tokens, "output").saturating_add(count(&tokens, "reasoning"));
    let mut reported = usage(count(&tokens, "input"), output, count(&cache, "read"), count(&cache, "write"));
    let total = fields.get::<f64>("cost").filter(|cost| cost.is_finite() && *cost >= 0.0).unwrap_or(0.0);
    reported.cost = Some(Cost { total, ..Cost::default() });
    reported
}

#[cfg(test)]
mod tests;
