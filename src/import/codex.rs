//! Codex: `rollout-*.jsonl`, lines of `{timestamp, type, payload}`, and the bare items of its first versions.
//!
//! # What becomes what
//! | source | entry |
//! |---|---|
//! | `message` of `user`, `assistant` | messages; what Codex itself put before the user's words is `custom_message` |
//! | `reasoning` | thinking, its signature the item, as the provider takes it back |
//! | `function_call`, `custom_tool_call`, `local_shell_call` and other calls with a `call_id` | calls |
//! | their `_output` | tool results |
//! | `token_count` | usage of the answer before it, else a `usage` entry |
//! | `turn_context` | `model_change`, `thinking_level_change` |
//! | `compacted` with a summary that can be read | `compaction` |
//! | `thread_rolled_back` | a branch from before those turns |
//! | `agent_message` and such events | nothing, where an item says the same |
//! | everything else | `custom` |
//!
//! # Invariants
//! - The items between two results, or a result and a prompt, are one assistant message.

use std::collections::HashSet;

use crate::import::blocks::{
    Answer, UNKNOWN, count, data_url_image, details_of, file_stem, marker, one_field, session_id, thinking, time_ms, tool_call,
    usage, user,
};
use crate::import::draft::{Draft, Place};
use crate::import::lines::{Line, read_lines};
use crate::import::{ImportFormat, ImportedSession, SourceFile};
use crate::session::entry::{Compaction, EntryKind, ThinkingLevelChange, UsageEntry};
use crate::session::json::{Extra, Fields, Json};
use crate::session::message::{Block, Content, Message, ToolResultMessage, Usage};

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Codex;

impl ImportFormat for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn recognizes(&self, fields: &Fields<'_>) -> bool {
        let wire_type = fields.get::<String>("type");
        let is_wrapped = fields.has("payload")
            && matches!(
                wire_type.as_deref(),
                Some("session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted")
            );
        let is_bare = wire_type.is_none()
            && (fields.has("record_type")
                || fields.has("id") && fields.has("timestamp") && fields.text("instructions").is_some());
        is_wrapped || is_bare
    }

    fn read(&self, files: &[SourceFile<'_>]) -> Vec<ImportedSession> {
        files.iter().map(read_file).collect()
    }
}

/// A line without its wrapper.
struct Item<'a> {
    wire_type: String,
    fields: Fields<'a>,
    json: &'a Json,
    time_ms: Option<i64>,
}

fn item(line: &Line) -> Option<Item<'_>> {
    let fields = line.json.fields()?;
    let wire_type = fields.get::<String>("type").unwrap_or_default();
    let time_ms = time_ms(&fields, "timestamp");
    Some(match fields.get::<Fields<'_>>("payload") {
        Some(payload) => Item { wire_type, fields: payload, json: &line.json, time_ms },
        None if wire_type.is_empty() && fields.has("id") => {
            Item { wire_type: "session_meta".to_owned(), fields, json: &line.json, time_ms }
        }
        None => Item { wire_type: "response_item".to_owned(), fields, json: &line.json, time_ms },
    })
}

fn read_file(file: &SourceFile<'_>) -> ImportedSession {
    let mut damage = Vec::new();
    let lines = read_lines(file, &mut damage);
    let items: Vec<_> = lines.iter().filter_map(item).collect();
    let session = describe(file, &items);
    let mut reader = Reader {
        draft: Draft::new("codex", session.created_ms),
        said: words_of_items(&items),
        last: None,
        open_answer: None,
        counted_answer: None,
        totals: None,
        turns: Vec::new(),
        provider: provider_of(&items),
        model: None,
        level: None,
        name: None,
    };
    reader.draft.seed(session.source_id.as_deref().unwrap_or_default());
    items.iter().for_each(|item| reader.item(item));
    let session = ImportedSession { name: reader.name.take(), ..session };
    reader.draft.finish(reader.last, session, damage)
}

fn describe(file: &SourceFile<'_>, items: &[Item<'_>]) -> ImportedSession {
    let mut session = ImportedSession { file: file.path.to_owned(), ..ImportedSession::default() };
    let mut metadata = Extra::default();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(json) = value.and_then(|value| details_of(&value)) {
            metadata.set(key, json);
        }
    };
    put("format", Some("codex".to_owned()));
    // A fork has the lines of what it was forked from behind its own first line.
    let meta = items.iter().find(|item| item.wire_type == "session_meta").map(|item| &item.fields);
    if let Some(meta) = meta {
        session.source_id = meta.get("id").or_else(|| meta.get("session_id"));
        session.cwd = meta.get("cwd").unwrap_or_default();
        session.created_ms = time_ms(meta, "timestamp");
        session.source_parent = meta.get("forked_from_id").or_else(|| meta.get("parent_thread_id")).or_else(|| spawned_by(meta));
        put("version", meta.get("cli_version"));
        put("gitBranch", meta.get::<Fields<'_>>("git").and_then(|git| git.get("branch")));
    }
    session.created_ms = session.created_ms.or_else(|| items.iter().find_map(|item| item.time_ms));
    if session.cwd.is_empty() {
        session.cwd = items.iter().find_map(cwd_of).unwrap_or_default();
    }
    if session.source_id.is_none() {
        // rollout-2026-01-02T03-04-05-<uuid>
        let stem = file_stem(file.path);
        session.source_id = stem.len().checked_sub(36).and_then(|at| stem.get(at..)).map(str::to_owned);
    }
    session.id = session_id(session.source_id.as_ref());
    session.metadata = details_of(&metadata).map(|json| one_field("import", &json));
    session
}

fn spawned_by(meta: &Fields<'_>) -> Option<String> {
    let source = meta.get::<Fields<'_>>("source")?;
    let agent = source.get::<Fields<'_>>("subagent")?;
    agent.get::<Fields<'_>>("thread_spawn")?.get("parent_thread_id")
}

/// The folder that a line names; the first versions told it the model alone.
fn cwd_of(item: &Item<'_>) -> Option<String> {
    if item.wire_type == "turn_context" {
        return item.fields.get("cwd");
    }
    let text = item.fields.text("content").filter(|text| text.contains("<cwd>"))?;
    let (_, rest) = text.split_once("<cwd>")?;
    let (cwd, _) = rest.split_once("</cwd>")?;
    Json::parse(&format!("\"{cwd}\"")).ok()?.to()
}

fn provider_of(items: &[Item<'_>]) -> String {
    items.iter().find_map(|item| item.fields.get::<String>("model_provider")).unwrap_or_else(|| "openai".to_owned())
}

/// What items say, by the event that says it again.
fn words_of_items(items: &[Item<'_>]) -> HashSet<(&'static str, String)> {
    let mut words = HashSet::new();
    for item in items.iter().filter(|item| item.wire_type == "response_item") {
        let event = match (item.fields.get::<String>("type").as_deref(), item.fields.get::<String>("role").as_deref()) {
            (Some("message"), Some("user")) => "user_message",
            (Some("message"), Some("assistant")) => "agent_message",
            (Some("reasoning"), _) => "agent_reasoning",
            _ => continue,
        };
        let mut whole = String::new();
        for text in ["content", "summary"].iter().flat_map(|key| texts(&item.fields, key)) {
            whole.push_str(&text);
            words.insert((event, text.trim().to_owned()));
        }
        words.insert((event, whole.trim().to_owned()));
    }
    words
}

/// The texts of a list of blocks, or the text itself.
fn texts(fields: &Fields<'_>, key: &str) -> Vec<String> {
    match fields.get::<Vec<Json>>(key) {
        Some(parts) => parts.iter().filter_map(|part| part.fields()?.get("text")).collect(),
        None => fields.get::<String>(key).into_iter().collect(),
    }
}

struct Reader {
    draft: Draft,
    said: HashSet<(&'static str, String)>,
    last: Option<Place>,
    /// The assistant message that further items go into.
    open_answer: Option<Place>,
    /// The last answer that has its usage.
    counted_answer: Option<Place>,
    /// The totals of the last `token_count`, which is often said twice.
    totals: Option<Json>,
    /// Where each turn of the path hangs.
    turns: Vec<Option<Place>>,
    provider: String,
    model: Option<String>,
    level: Option<String>,
    name: Option<String>,
}

impl Reader {
    fn item(&mut self, item: &Item<'_>) {
        let at_ms = self.draft.at(item.time_ms);
        let inner_type = item.fields.get::<String>("type").unwrap_or_default();
        let is_placed = match item.wire_type.as_str() {
            "response_item" => self.response_item(&inner_type, item, at_ms),
            "event_msg" => self.event(&inner_type, &item.fields, at_ms),
            "turn_context" => {
                self.turn_context(&item.fields, at_ms);
                false
            }
            "compacted" => self.compacted(&item.fields, at_ms),
            _ => false,
        };
        if !is_placed {
            let kind = if inner_type.is_empty() { item.wire_type.clone() } else { format!("{}:{inner_type}", item.wire_type) };
            self.last = Some(self.draft.leftover(self.last, at_ms, &kind, item.json));
        }
    }

    fn tail(&mut self) -> Option<Place> {
        self.last.map(|last| self.draft.tail(last))
    }

    /// Adds an item of the model's or the user's; `false` when it has no place.
    fn response_item(&mut self, wire_type: &str, item: &Item<'_>, at_ms: i64) -> bool {
        let fields = &item.fields;
        let call_id = fields.get::<String>("call_id").or_else(|| fields.get("id")).filter(|id| !id.is_empty());
        match (wire_type, call_id) {
            ("message", _) => self.message(fields, at_ms),
            ("reasoning", _) => self.reasoning(fields, at_ms),
            (kind, Some(id)) if kind.ends_with("_output") => {
                self.output(id, fields, at_ms, item.json);
                true
            }
            // A search has no result of its own; the answer tells what was found.
            (kind, Some(id)) if kind.ends_with("_call") && (fields.has("call_id") || kind == "local_shell_call") => {
                self.call(id, kind, fields, at_ms);
                true
            }
            _ => false,
        }
    }

    fn message(&mut self, fields: &Fields<'_>, at_ms: i64) -> bool {
        let role = fields.get::<String>("role").unwrap_or_default();
        let mut odd = Vec::new();
        let content = read_content(fields, "content", &mut odd);
        if content.is_empty() && odd.is_empty() {
            return false;
        }
        match role.as_str() {
            "assistant" => {
                content.into_iter().for_each(|block| self.add_to_answer(block, at_ms));
            }
            "user" => {
                self.open_answer = None;
                let parent = self.tail();
                let is_injected = content.first().and_then(Block::as_text).is_some_and(is_injected);
                self.last = Some(if is_injected {
                    self.draft.injected(parent, at_ms, Content::Blocks(content))
                } else {
                    self.turns.push(parent);
                    self.draft.message(parent, at_ms, user(Content::Blocks(content), at_ms), Extra::default())
                });
            }
            // Instructions to Codex's model about Codex's tools and sandbox.
            _ => return false,
        }
        for (kind, part) in odd {
            self.last = Some(self.draft.leftover(self.last, at_ms, &kind, &part));
        }
        true
    }

    fn reasoning(&mut self, fields: &Fields<'_>, at_ms: i64) -> bool {
        let summary = texts(fields, "summary");
        let words = if summary.is_empty() { texts(fields, "content") } else { summary };
        let mut signature = Extra::default();
        for (key, text) in fields.iter() {
            if let (true, Ok(json)) = (matches!(key, "type" | "id" | "summary" | "encrypted_content"), Json::parse(text)) {
                signature.set(key, json);
            }
        }
        // Without the encrypted part the provider knows nothing of the item.
        let has_secret = fields.has("encrypted_content");
        let signature = details_of(&signature).filter(|_| has_secret).map(|json| json.as_str().to_owned());
        if words.is_empty() && signature.is_none() {
            return false;
        }
        self.add_to_answer(thinking(words.join("\n\n"), signature), at_ms);
        true
    }

    fn call(&mut self, id: String, wire_type: &str, fields: &Fields<'_>, at_ms: i64) {
        let name = fields.get::<String>("name").unwrap_or_else(|| wire_type.trim_end_matches("_call").to_owned());
        let name = match fields.get::<String>("namespace") {
            Some(namespace) if !namespace.is_empty() && namespace != "functions" => format!("{namespace}.{name}"),
            Some(_) | None => name,
        };
        let given = ["arguments", "input", "action"].iter().find_map(|key| fields.get::<Json>(key));
        // Arguments are JSON in a string.
        let parsed = given.as_ref().and_then(Json::to::<String>).and_then(|text| Json::parse(&text).ok());
        let arguments = parsed.filter(|json| json.as_str().starts_with('{')).or(given);
        self.add_to_answer(tool_call(id, name, arguments), at_ms);
    }

    /// Adds a block to the answer that is being given, or begins one.
    fn add_to_answer(&mut self, block: Block, at_ms: i64) {
        let is_call = block.as_tool_call().is_some();
        if let Some(place) = self.open_answer {
            self.draft.add_block(place, block);
            if let (true, Some(message)) = (is_call, self.draft.assistant_mut(place)) {
                message.stop_reason = Some("toolUse".to_owned());
            }
            return;
        }
        let parent = self.tail();
        let parent = match self.model.clone() {
            Some(model) => self.draft.model(parent, at_ms, &self.provider, &model),
            None => parent,
        };
        let answer = Answer {
            api: "openai-responses".to_owned(),
            provider: self.provider.clone(),
            model: self.model.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            content: vec![block],
            usage: None,
            stop_reason: Some(if is_call { "toolUse" } else { "stop" }),
            error_message: None,
        };
        let message = Message::Assistant(Box::new(answer.into_message(at_ms)));
        let place = self.draft.message(parent, at_ms, message, Extra::default());
        self.open_answer = Some(place);
        self.last = Some(place);
    }

    fn output(&mut self, id: String, fields: &Fields<'_>, at_ms: i64, source: &Json) {
        self.open_answer = None;
        let mut odd = Vec::new();
        let mut message = ToolResultMessage { tool_call_id: id, is_error: Some(false), ..ToolResultMessage::default() };
        let mut content = read_content(fields, "output", &mut odd);
        let wrapped = fields.get::<Json>("output").map(|json| match json.to::<String>() {
            Some(text) if text.starts_with('{') => Json::parse(&text).unwrap_or(json),
            Some(_) | None => json,
        });
        // The shell of older versions: {output, metadata: {exit_code, duration_seconds}}; {content, success} is older still.
        if let Some(wrapped) = wrapped.as_ref().and_then(Json::fields) {
            let text = wrapped.get::<String>("output").or_else(|| wrapped.get("content"));
            if let Some(text) = text.filter(|_| wrapped.has("metadata") || wrapped.has("success") || content.is_empty()) {
                content = vec![Block::text(text)];
                message.details = wrapped.get("metadata");
                let exit_code = wrapped.get::<Fields<'_>>("metadata").and_then(|metadata| metadata.get::<i64>("exit_code"));
                message.is_error = Some(exit_code.is_some_and(|code| code != 0) || wrapped.get("success") == Some(false));
            }
        }
        if content.is_empty() && odd.is_empty() {
            let rest = ["output", "tools"].iter().find_map(|key| fields.text(key));
            content.push(Block::text(rest.unwrap_or_default()));
        }
        message.content = Some(Content::Blocks(content));
        let mut place = self.draft.result(self.last, at_ms, message, source);
        for (kind, part) in odd {
            place = self.draft.leftover(Some(place), at_ms, &kind, &part);
        }
        self.last = Some(place);
    }

    /// Takes an event; `false` when it has no place.
    fn event(&mut self, wire_type: &str, fields: &Fields<'_>, at_ms: i64) -> bool {
        let text = || ["message", "text"].iter().find_map(|key| fields.get::<String>(key)).unwrap_or_default();
        match wire_type {
            "user_message" | "agent_message" | "agent_reasoning" | "agent_reasoning_raw_content" => {
                let event = match wire_type {
                    "user_message" => "user_message",
                    "agent_message" => "agent_message",
                    _ => "agent_reasoning",
                };
                let is_said = self.said.contains(&(event, text().trim().to_owned()));
                if is_said {
                    self.draft.copy(event);
                }
                is_said
            }
            "token_count" => self.token_count(fields, at_ms),
            "thread_rolled_back" => {
                self.roll_back(count(fields, "num_turns"));
                false
            }
            "thread_name_updated" => {
                self.name = fields.get("thread_name").or_else(|| self.name.take());
                self.name.is_some()
            }
            "turn_aborted" => {
                self.open_answer = None;
                false
            }
            _ => false,
        }
    }

    fn token_count(&mut self, fields: &Fields<'_>, at_ms: i64) -> bool {
        let Some(info) = fields.get::<Fields<'_>>("info") else { return false };
        let totals = info.get::<Json>("total_token_usage");
        if totals.is_some() && totals == self.totals {
            self.draft.copy("token_count");
            return true;
        }
        self.totals = totals;
        let Some(last) = info.get::<Fields<'_>>("last_token_usage") else { return false };
        let reported = read_usage(&last);
        if reported.sum() == 0 {
            return false;
        }
        let answer =
            self.last.and_then(|last| self.draft.message_at(last)).filter(|place| self.draft.assistant_mut(*place).is_some());
        match answer.filter(|place| self.counted_answer != Some(*place)) {
            Some(place) => {
                if let Some(message) = self.draft.assistant_mut(place) {
                    message.usage = Some(reported);
                }
                self.counted_answer = Some(place);
            }
            // Of a request that left no item.
            None => {
                let model = self.model.clone().unwrap_or_else(|| UNKNOWN.to_owned());
                let kind = "import:codex".to_owned();
                let entry =
                    UsageEntry { kind, provider: self.provider.clone(), model, usage: Some(reported), ..UsageEntry::default() };
                let parent = self.tail();
                let place = self.draft.push(parent, at_ms, EntryKind::Usage(entry));
                self.draft.extend_chain(parent, place);
                self.last = Some(place);
            }
        }
        true
    }

    fn turn_context(&mut self, fields: &Fields<'_>, at_ms: i64) {
        self.open_answer = None;
        if let Some(model) = fields.get::<String>("model").filter(|model| !model.is_empty()) {
            self.model = Some(model);
        }
        let effort = fields.get::<String>("effort").or_else(|| fields.get("reasoning_effort"));
        let level = effort.map(|effort| match effort.as_str() {
            "none" => "off".to_owned(),
            "minimal" | "low" | "medium" | "high" | "xhigh" => effort,
            // Levels above what Pi knows.
            _ => "xhigh".to_owned(),
        });
        if level.is_some() && level != self.level {
            let thinking_level = level.clone().unwrap_or_default();
            let parent = self.tail();
            let change = ThinkingLevelChange { thinking_level, extra: Extra::default() };
            let place = self.draft.push(parent, at_ms, EntryKind::ThinkingLevelChange(change));
            self.draft.extend_chain(parent, place);
            self.last = Some(place);
            self.level = level;
        }
    }

    /// A summary that is encrypted says nothing to anyone else: then what it stands for stays in the context.
    fn compacted(&mut self, fields: &Fields<'_>, at_ms: i64) -> bool {
        self.open_answer = None;
        let Some(summary) = fields.get::<String>("message").filter(|text| !text.trim().is_empty()) else { return false };
        let details = fields.get::<Json>("replacement_history").map(|json| one_field("import", &json));
        let tokens_before = self.counted_answer.and_then(|place| {
            let usage = self.draft.assistant_mut(place)?.usage.as_ref()?.context_tokens();
            details_of(&usage)
        });
        let tokens_before = tokens_before.or_else(|| details_of(&0));
        let parent = self.tail();
        let compaction = Compaction { summary, tokens_before, details, ..Compaction::default() };
        let place = self.draft.push(parent, at_ms, EntryKind::Compaction(compaction));
        let own = self.draft.id(place);
        if let EntryKind::Compaction(compaction) = self.draft.kind_mut(place) {
            compaction.first_kept_entry_id = Some(own);
        }
        self.last = Some(place);
        true
    }

    fn roll_back(&mut self, turns: u64) {
        self.open_answer = None;
        for _ in 0..turns {
            let Some(parent) = self.turns.pop() else { return };
            self.last = parent;
        }
    }
}

/// Whether a user message is what Codex tells its model of the machine and the project.
fn is_injected(text: &str) -> bool {
    let text = text.trim_start();
    const BEGINNINGS: [&str; 6] = [
        "<environment_context>",
        "<user_instructions>",
        "<INSTRUCTIONS>",
        "# AGENTS.md instructions",
        "<turn_aborted>",
        "<permissions instructions>",
    ];
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
}

/// The blocks of `key`; those without a place go to `odd`.
fn read_content(fields: &Fields<'_>, key: &str, odd: &mut Vec<(String, Json)>) -> Vec<Block> {
    let Some(parts) = fields.get::<Vec<Json>>(key) else {
        return fields.get::<String>(key).map(Block::text).into_iter().collect();
    };
    let mut content = Vec::new();
    for part in parts {
        let inner = part.fields().unwrap_or_default();
        let wire_type = inner.get::<String>("type").unwrap_or_default();
        let block = match wire_type.as_str() {
            "input_image" | "output_image" => inner.get::<String>("image_url").and_then(|url| data_url_image(&url)),
            _ => inner.get::<String>("text").map(Block::text),
        };
        match block {
            Some(block) => content.push(block),
            None => {
                if wire_type.ends_with("_image") {
                    content.push(marker("image"));
                }
                odd.push((format!("block:{wire_type}"), part));
            }
        }
    }
    content
}

fn read_usage(fields: &Fields<'_>) -> Usage {
    let cached = count(fields, "cached_input_tokens");
    let written = count(fields, "cache_write_input_tokens");
    let input = count(fields, "input_tokens").saturating_sub(cached).saturating_sub(written);
    let mut reported = usage(input, count(fields, "output_tokens"), cached, written);
    if let Some(json) = fields.get::<Json>("reasoning_output_tokens") {
        reported.extra.set("reasoning", json);
    }
    reported
}

#[cfg(test)]
mod tests;
