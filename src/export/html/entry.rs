//! Entries as HTML: what was said, what tools did, and what changed beside it; with each entry its row of the tree.
//!
//! # Invariants
//! - Every text goes through [`escape_into`] or [`markdown`]; nothing of a session is written otherwise.
//! - Each entry that goes out has exactly one element with its id, and one row.

use crate::export::call::{CallView, DiffLine, Part, Sign};
use crate::export::escape::{escape_into, escaped, fragment};
use crate::export::html::prose::{LineEnds, markdown};
use crate::export::plain::{clean, count, dollars, lines, one_line, time};
use crate::export::{ExportError, View};
use crate::session::entry::{Entry, EntryKind};
use crate::session::json::Json;
use crate::session::message::{AssistantMessage, Block, Content, Message, SystemMessage, ToolCall, ToolResultMessage, Usage};
use crate::session::stats::usage_of;
use crate::session::tree::EntryIndex;

/// Characters of a row of the tree.
const ROW_CHARS: usize = 90;

/// A line of the tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// What sort of entry, as the style sheet and the filters know it.
    pub class: &'static str,
    /// A few words, not escaped.
    pub text: String,
}

/// An entry that was read, with where it is.
#[derive(Debug)]
struct Read {
    index: EntryIndex,
    entry: Option<Entry>,
}

/// Adds the HTML of the entries of a segment and gives their rows, in the same order.
pub(super) fn render_segment(html: &mut String, view: &View<'_>, entries: &[EntryIndex]) -> Result<Vec<Row>, ExportError> {
    let mut rows = Vec::with_capacity(entries.len());
    let mut at = 0;
    // Whether the model has the word already, so that it need not be named again.
    let mut goes_on = false;
    while at < entries.len() {
        let read = Read { index: entries[at], entry: view.entry(entries[at])? };
        at += 1;
        let Some(message) = assistant_of(&read) else {
            rows.push(render_other(html, view, &read));
            goes_on &= rows.last().is_some_and(|row| row.class == "result" || row.class == "note");
            continue;
        };
        // The results that follow are shown with their calls.
        let mut results = Vec::new();
        while at < entries.len() && view.tree().role(entries[at]) == Some(crate::session::message::Role::ToolResult) {
            results.push(Read { index: entries[at], entry: view.entry(entries[at])? });
            at += 1;
        }
        rows.push(assistant_row(message, &view.header().cwd));
        let shown = render_assistant(html, view, &read, message, &results, goes_on);
        for (result, shown) in results.iter().zip(shown) {
            match result_of(result) {
                Some(message) if shown => rows.push(result_row(message)),
                Some(_) | None => rows.push(render_other(html, view, result)),
            }
        }
        goes_on = true;
    }
    Ok(rows)
}

fn assistant_of(read: &Read) -> Option<&AssistantMessage> {
    match read.entry.as_ref()?.message()? {
        Message::Assistant(message) => Some(message),
        _ => None,
    }
}

fn result_of(read: &Read) -> Option<&ToolResultMessage> {
    match read.entry.as_ref()?.message()? {
        Message::ToolResult(message) => Some(message),
        _ => None,
    }
}

fn assistant_row(message: &AssistantMessage, cwd: &str) -> Row {
    let text = message.content.as_ref().map(Content::joined_text).unwrap_or_default();
    let text = one_line(&text, ROW_CHARS);
    if !text.is_empty() {
        return Row { class: "assistant", text };
    }
    let calls: Vec<_> =
        message.tool_calls().map(|call| format!("{} {}", call.name, CallView::of(call, None, cwd).summary)).collect();
    if calls.is_empty() {
        let text = message.error_message.as_deref().or(message.stop_reason.as_deref()).unwrap_or("no text");
        return Row { class: "assistant", text: one_line(text, ROW_CHARS) };
    }
    Row { class: "calls", text: one_line(&calls.join(", "), ROW_CHARS) }
}

fn result_row(message: &ToolResultMessage) -> Row {
    let text = message.content.as_ref().map(Content::joined_text).unwrap_or_default();
    Row { class: "result", text: one_line(&format!("{}: {text}", message.tool_name), ROW_CHARS) }
}

/// Opens the element of an entry.
fn open_article(html: &mut String, view: &View<'_>, read: &Read, class: &str, who: &str) {
    let id = view.id(read.index);
    html.push_str("<article id=\"");
    escape_into(html, id.as_str());
    html.push_str(&format!("\" class=\"e {class}\"><header><span class=\"who\">"));
    escape_into(html, who);
    html.push_str("</span>");
    if let Some(label) = view.label(read.index) {
        html.push_str(&format!("<span class=\"label\">{}</span>", escaped(&one_line(label, 80))));
    }
    html.push_str("<span class=\"meta\">");
    if let Some(entry) = &read.entry {
        if let Some(usage) = usage_of(entry).filter(|usage| usage.sum() > 0) {
            usage_into(html, &usage);
        }
        if !entry.timestamp.is_empty() {
            html.push_str(&format!(
                "<time datetime=\"{}\">{}</time>",
                escaped(&entry.timestamp),
                escaped(&time(&entry.timestamp))
            ));
        }
    }
    html.push_str(&format!(
        "<a class=\"pin\" href=\"{}\" title=\"Link to this entry\">#</a></span></header>",
        fragment(id.as_str())
    ));
}

fn usage_into(html: &mut String, usage: &Usage) {
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    html.push_str(&format!(
        "<span title=\"input {}, output {}, cache read {}, cache write {}\">{} in · {} out",
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        count(input),
        count(usage.output)
    ));
    if let Some(cost) = usage.cost.as_ref().filter(|cost| cost.total > 0.0) {
        html.push_str(&format!(" · {}", dollars(cost.total)));
    }
    html.push_str("</span>");
}

/// An assistant message; for each of the results, whether it was shown with its call.
fn render_assistant(
    html: &mut String,
    view: &View<'_>,
    read: &Read,
    message: &AssistantMessage,
    results: &[Read],
    goes_on: bool,
) -> Vec<bool> {
    let mut shown = vec![false; results.len()];
    let who = match &message.model {
        Some(model) if !goes_on => format!("Assistant · {model}"),
        Some(_) | None => "Assistant".to_owned(),
    };
    open_article(html, view, read, if goes_on { "assistant on" } else { "assistant" }, &who);
    let text_blocks;
    let blocks = match &message.content {
        Some(content @ Content::Text(_)) => {
            text_blocks = content.to_blocks();
            &text_blocks[..]
        }
        Some(content) => content.blocks(),
        None => &[],
    };
    for block in blocks {
        match block {
            Block::ToolCall(call) => {
                let mut answers = results.iter().enumerate();
                let answer = answers
                    .find(|(at, result)| !shown[*at] && result_of(result).is_some_and(|result| result.tool_call_id == call.id));
                if let Some((at, _)) = answer {
                    shown[at] = true;
                }
                render_call(html, view, call, answer.map(|(_, result)| result));
            }
            Block::Text { .. } | Block::Thinking { .. } | Block::Image { .. } | Block::Unknown(_) => {
                render_block(html, block, LineEnds::Flow);
            }
        }
    }
    if message.is_failed() {
        let what = if message.stop_reason.as_deref() == Some("aborted") { "Aborted" } else { "Failed" };
        let why = message.error_message.as_deref().unwrap_or_default();
        html.push_str(&format!("<p class=\"failed\"><b>{what}</b> {}</p>", escaped(&clean(why))));
    }
    html.push_str("</article>\n");
    shown
}

fn render_block(html: &mut String, block: &Block, line_ends: LineEnds) {
    match block {
        Block::Text { text, .. } if text.trim().is_empty() => {}
        Block::Text { text, .. } => {
            html.push_str("<div class=\"md\">");
            markdown(html, text, line_ends);
            html.push_str("</div>");
        }
        Block::Thinking { thinking, .. } if thinking.trim().is_empty() => {
            html.push_str("<p class=\"quiet\">Thinking that the provider keeps to itself</p>");
        }
        Block::Thinking { thinking, .. } => {
            html.push_str("<details class=\"thinking\"><summary>Thinking</summary><div class=\"md\">");
            markdown(html, thinking, LineEnds::Flow);
            html.push_str("</div></details>");
        }
        Block::Image { data, mime_type, .. } => image(html, data, mime_type),
        Block::ToolCall(call) => html.push_str(&format!("<p class=\"quiet\">Call of {}</p>", escaped(&call.name))),
        Block::Unknown(json) => {
            html.push_str("<details class=\"raw\"><summary>A block of another kind</summary>");
            code(html, "json", json.as_str());
            html.push_str("</details>");
        }
    }
}

fn render_content(html: &mut String, content: Option<&Content>, line_ends: LineEnds) {
    let blocks = content.map(Content::to_blocks).unwrap_or_default();
    blocks.iter().for_each(|block| render_block(html, block, line_ends));
}

/// An image inside the page, if it is of a kind that can hold no script.
fn image(html: &mut String, data: &str, mime_type: &str) {
    let is_base64 = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"].iter().find(|known| **known == mime_type);
    match known.filter(|_| is_base64 && !data.is_empty()) {
        Some(known) => {
            html.push_str(&format!("<img alt=\"\" loading=\"lazy\" decoding=\"async\" src=\"data:{known};base64,{data}\">"))
        }
        None => html.push_str(&format!(
            "<p class=\"quiet\">An image ({}, {} bytes) that is not shown</p>",
            escaped(&one_line(mime_type, 60)),
            data.len() / 4 * 3
        )),
    }
}

fn code(html: &mut String, language: &str, text: &str) {
    html.push_str("<pre><code");
    if !language.is_empty() {
        html.push_str(&format!(" class=\"language-{language}\""));
    }
    html.push('>');
    escape_into(html, &clean(text));
    html.push_str("</code></pre>");
}

fn diff(html: &mut String, lines: &[DiffLine]) {
    html.push_str("<pre class=\"diff\"><code>");
    for line in lines {
        let tag = match line.sign {
            Sign::Added => "ins",
            Sign::Removed => "del",
            Sign::Same => "span",
        };
        html.push_str(&format!("<{tag}>{}{}\n</{tag}>", line.sign.as_char(), escaped(&clean(&line.text))));
    }
    html.push_str("</code></pre>");
}

/// A call and what it gave, folded.
fn render_call(html: &mut String, view: &View<'_>, call: &ToolCall, result: Option<&Read>) {
    let message = result.and_then(result_of);
    let shown = CallView::of(call, message, &view.header().cwd);
    let is_error = message.is_some_and(|message| message.is_error == Some(true));
    let state = match message {
        None => "no result".to_owned(),
        Some(_) if is_error => "failed".to_owned(),
        Some(message) => describe_result(message, &shown),
    };
    html.push_str(&format!(
        "<details class=\"tool{}\"><summary><b>{}</b> <code>{}</code><span class=\"state\">{}</span></summary><div class=\"inside\">",
        if is_error { " error" } else { "" },
        escaped(&one_line(&call.name, 60)),
        escaped(&shown.summary),
        escaped(&state)
    ));
    for part in &shown.parts {
        match part {
            Part::Code { name, language, text } => {
                if let Some(name) = name {
                    html.push_str(&format!("<p class=\"field\">{}</p>", escaped(&one_line(name, 60))));
                }
                code(html, language, text);
            }
            Part::Diff(lines) => diff(html, lines),
        }
    }
    if let (Some(read), Some(message)) = (result, message) {
        html.push_str("<div class=\"result\" id=\"");
        escape_into(html, view.id(read.index).as_str());
        html.push_str("\">");
        if let Some(label) = view.label(read.index) {
            html.push_str(&format!("<span class=\"label\">{}</span>", escaped(&one_line(label, 80))));
        }
        render_result(html, message, shown.result_language);
        html.push_str("</div>");
    }
    html.push_str("</div></details>");
}

/// What a result comes to, in two words.
fn describe_result(message: &ToolResultMessage, call: &CallView) -> String {
    let changed: Vec<_> =
        call.parts.iter().filter_map(|part| if let Part::Diff(lines) = part { Some(lines) } else { None }).collect();
    if !changed.is_empty() {
        let count = |sign| changed.iter().flat_map(|lines| lines.iter()).filter(|line| line.sign == sign).count();
        return format!("+{} −{}", count(Sign::Added), count(Sign::Removed));
    }
    let blocks = message.content.as_ref().map(Content::to_blocks).unwrap_or_default();
    let text = message.content.as_ref().map(Content::joined_text).unwrap_or_default();
    let images = blocks.iter().filter(|block| matches!(block, Block::Image { .. })).count();
    match (text.trim().is_empty(), images) {
        (true, 0) => "no output".to_owned(),
        (true, 1) => "an image".to_owned(),
        (true, n) => format!("{n} images"),
        (false, _) => lines(&text),
    }
}

fn render_result(html: &mut String, message: &ToolResultMessage, language: &'static str) {
    for block in message.content.as_ref().map(Content::to_blocks).unwrap_or_default() {
        match &block {
            Block::Text { text, .. } if text.is_empty() => {}
            Block::Text { text, .. } => code(html, if message.is_error == Some(true) { "" } else { language }, text),
            Block::Thinking { .. } | Block::Image { .. } | Block::ToolCall(_) | Block::Unknown(_) => {
                render_block(html, &block, LineEnds::Flow);
            }
        }
    }
}

/// Any entry but an assistant message.
fn render_other(html: &mut String, view: &View<'_>, read: &Read) -> Row {
    let Some(entry) = &read.entry else {
        let text = "A line that cannot be read".to_owned();
        note(html, view, read, &text, None);
        return Row { class: "note", text };
    };
    match &entry.kind {
        EntryKind::Message(payload) => render_message(html, view, read, &payload.message),
        EntryKind::CustomMessage(payload) => {
            let who = if payload.custom_type.is_empty() { "Application" } else { &payload.custom_type };
            let text = payload.content.as_ref().map(Content::joined_text).unwrap_or_default();
            let row = Row { class: "custom", text: one_line(&format!("{who}: {text}"), ROW_CHARS) };
            open_article(html, view, read, "custom", who);
            let hidden = payload.display == Some(false);
            if hidden {
                html.push_str("<details><summary>A message of an application for the model alone</summary>");
            }
            render_content(html, payload.content.as_ref(), LineEnds::Break);
            html.push_str(if hidden { "</details></article>\n" } else { "</article>\n" });
            row
        }
        EntryKind::Compaction(payload) => {
            let tokens = payload.tokens_before.as_ref().and_then(Json::to::<f64>).filter(|tokens| *tokens > 0.0);
            let of = tokens.map(|tokens| format!(" of {} tokens", count(tokens as u64))).unwrap_or_default();
            summary(
                html,
                view,
                read,
                "compaction",
                &format!("Compaction{of}"),
                "What the model goes on from",
                &payload.summary,
                None,
            )
        }
        EntryKind::BranchSummary(payload) => {
            let from = payload.from_id.as_ref().map(|id| id.as_str());
            summary(html, view, read, "branch", "Back from another branch", "What happened there", &payload.summary, from)
        }
        EntryKind::Leaf(leaf) => match &leaf.target_id {
            Some(target) => noted(html, view, read, "Went to", Some(target.as_str()), None),
            None => noted(html, view, read, "Went back to before the first entry", None, None),
        },
        EntryKind::ModelChange(change) => {
            noted(html, view, read, &format!("Model {}/{}", change.provider, change.model_id), None, None)
        }
        EntryKind::ThinkingLevelChange(change) => {
            noted(html, view, read, &format!("Thinking {}", change.thinking_level), None, None)
        }
        EntryKind::ActiveToolsChange(change) => {
            noted(html, view, read, &format!("Tools {}", change.active_tool_names.join(", ")), None, None)
        }
        EntryKind::ContextEdit(edit) => {
            let target = edit.target_id.as_ref().map(|id| id.as_str());
            match &edit.replacement {
                Some(replacement) => {
                    let text = replacement.content.joined_text();
                    noted(html, view, read, "For the model, other content stands in", target, Some(("", &text)))
                }
                None => noted(html, view, read, "For the model, this is gone:", target, None),
            }
        }
        EntryKind::Custom(custom) => {
            let data = custom.data.as_ref().map(|data| ("json", data.as_str()));
            noted(html, view, read, &format!("Kept by an application: {}", custom.custom_type), None, data)
        }
        EntryKind::Label(label) => {
            let target = label.target_id.as_ref().map(|id| id.as_str());
            match label.label.as_deref().map(str::trim).filter(|label| !label.is_empty()) {
                Some(label) => noted(html, view, read, &format!("Label “{label}” on"), target, None),
                None => noted(html, view, read, "Label taken from", target, None),
            }
        }
        EntryKind::SessionInfo(info) => match info.name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
            Some(name) => noted(html, view, read, &format!("Named “{name}”"), None, None),
            None => noted(html, view, read, "Name taken away", None, None),
        },
        EntryKind::Usage(usage) => {
            noted(html, view, read, &format!("Used for {} by {}/{}", usage.kind, usage.provider, usage.model), None, None)
        }
        EntryKind::Unknown { wire_type, extra } => {
            let fields: Vec<_> = extra.iter().map(|(name, json)| format!("{name}: {}", json.as_str())).collect();
            noted(html, view, read, &format!("Entry of type {wire_type}"), None, Some(("json", &fields.join("\n"))))
        }
    }
}

fn render_message(html: &mut String, view: &View<'_>, read: &Read, message: &Message) -> Row {
    let text = || one_line(&message.text(), ROW_CHARS);
    match message {
        Message::User(user) => {
            open_article(html, view, read, "user", "User");
            render_content(html, user.content.as_ref(), LineEnds::Break);
            html.push_str("</article>\n");
            Row { class: "user", text: text() }
        }
        // Those of roles without a message of their own come here only when they stand alone.
        Message::Assistant(assistant) => {
            render_assistant(html, view, read, assistant, &[], false);
            assistant_row(assistant, &view.header().cwd)
        }
        Message::ToolResult(result) => {
            open_article(html, view, read, "alone", "Result");
            html.push_str(&format!(
                "<details class=\"tool{}\"><summary><b>{}</b> <code>{}</code></summary><div class=\"inside\">",
                if result.is_error == Some(true) { " error" } else { "" },
                escaped(&one_line(&result.tool_name, 60)),
                escaped(&text())
            ));
            render_result(html, result, "");
            html.push_str("</div></details></article>\n");
            result_row(result)
        }
        Message::BashExecution(run) => {
            open_article(html, view, read, "shell", "Command");
            let state = match (run.cancelled, run.exit_code) {
                (Some(true), _) => "stopped".to_owned(),
                (_, Some(0)) => lines(&run.output),
                (_, Some(code)) => format!("exit code {code}"),
                (_, None) => String::new(),
            };
            html.push_str(&format!(
                "<details class=\"tool{}\"><summary><b>$</b> <code>{}</code><span class=\"state\">{}</span></summary><div class=\"inside\">",
                if run.exit_code.is_some_and(|code| code != 0) { " error" } else { "" },
                escaped(&one_line(&run.command, 120)),
                escaped(&state)
            ));
            code(html, "bash", &run.command);
            code(html, "", &run.output);
            html.push_str("</div></details></article>\n");
            Row { class: "shell", text: one_line(&format!("$ {}", run.command), ROW_CHARS) }
        }
        Message::Custom(custom) => {
            open_article(html, view, read, "custom", &custom.custom_type);
            render_content(html, custom.content.as_ref(), LineEnds::Break);
            html.push_str("</article>\n");
            Row { class: "custom", text: text() }
        }
        Message::System(system) => {
            let prompt = system_text(system);
            noted(html, view, read, "System prompt", None, Some(("", &prompt)))
        }
        Message::BranchSummary(message) => {
            summary(html, view, read, "branch", "Back from another branch", "What happened there", &message.summary, None)
        }
        Message::CompactionSummary(message) => {
            summary(html, view, read, "compaction", "Compaction", "What the model goes on from", &message.summary, None)
        }
        Message::Unknown(json) => noted(html, view, read, "A message of another kind", None, Some(("json", json.as_str()))),
    }
}

/// The words of a part of the system prompt: the content, then the sections by name.
fn system_text(system: &SystemMessage) -> String {
    let mut text = system.content.as_ref().map(Content::joined_text).unwrap_or_default();
    let sections = system.extra.get("sections").and_then(Json::fields).unwrap_or_default();
    for (name, section) in sections.iter() {
        let section = serde_json::from_str::<String>(section).unwrap_or_else(|_| section.to_owned());
        text.push_str(&format!("{}[{name}]\n{section}", if text.is_empty() { "" } else { "\n\n" }));
    }
    text
}

#[expect(clippy::too_many_arguments, reason = "the two kinds of summary differ in words only")]
fn summary(
    html: &mut String,
    view: &View<'_>,
    read: &Read,
    class: &'static str,
    who: &str,
    what: &str,
    text: &str,
    from: Option<&str>,
) -> Row {
    open_article(html, view, read, &format!("summary {class}"), who);
    html.push_str(&format!("<details><summary>{what}</summary><div class=\"md\">"));
    markdown(html, text, LineEnds::Flow);
    html.push_str("</div></details>");
    if let Some(from) = from.filter(|from| *from != "root") {
        html.push_str(&format!("<p class=\"quiet\">It ended at <a href=\"{}\">{}</a></p>", fragment(from), escaped(from)));
    }
    html.push_str("</article>\n");
    Row { class, text: one_line(&format!("{who}: {text}"), ROW_CHARS) }
}

/// A line between the messages, and its row.
fn noted(html: &mut String, view: &View<'_>, read: &Read, text: &str, target: Option<&str>, inside: Option<(&str, &str)>) -> Row {
    let text = one_line(text, 200);
    let mut line = escaped(&text);
    if let Some(target) = target {
        line.push_str(&format!(" <a href=\"{}\">{}</a>", fragment(target), escaped(&one_line(target, 60))));
    }
    note(html, view, read, &line, inside);
    Row { class: "note", text: one_line(&text, ROW_CHARS) }
}

fn note(html: &mut String, view: &View<'_>, read: &Read, line: &str, inside: Option<(&str, &str)>) {
    html.push_str("<article id=\"");
    escape_into(html, view.id(read.index).as_str());
    html.push_str("\" class=\"e note\">");
    match inside {
        Some((language, text)) => {
            html.push_str(&format!("<details><summary>{line}</summary>"));
            code(html, language, text);
            html.push_str("</details>");
        }
        None => html.push_str(&format!("<p>{line}</p>")),
    }
    html.push_str("</article>\n");
}
