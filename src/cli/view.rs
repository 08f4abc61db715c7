//! What `--json` prints of sessions and entries, and how times, sizes and counts read.
//!
//! # Invariants
//! - Keys are camelCase as in the files and always present; what is unknown is null.
//! - Session types are never printed as JSON themselves, so that they can change shape.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use crate::session::context::ModelRef;
use crate::session::entry::{Entry, format_timestamp};
use crate::session::message::Message;
use crate::session::stats::Tokens;
use crate::storage::list::SummaryRef;
use crate::storage::reference::entry_text;

/// A session in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SummaryView<'a> {
    pub(super) path: Cow<'a, str>,
    pub(super) id: &'a str,
    pub(super) cwd: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) parent_session: Option<&'a str>,
    pub(super) created: Option<&'a str>,
    pub(super) modified: String,
    pub(super) message_count: u64,
    pub(super) first_message: Option<&'a str>,
    pub(super) size_bytes: u64,
}

impl<'a> SummaryView<'a> {
    pub(super) fn of(summary: &SummaryRef<'a>) -> Self {
        Self {
            // A path that is text, as nearly all are, is told quickest so.
            path: summary.path.to_str().map_or_else(|| summary.path.to_string_lossy(), Cow::Borrowed),
            id: summary.id,
            cwd: summary.cwd,
            name: summary.name,
            parent_session: summary.parent_session,
            created: Some(summary.created).filter(|created| !created.is_empty()),
            modified: format_timestamp(summary.modified_ms),
            message_count: summary.message_count,
            first_message: summary.first_message,
            size_bytes: summary.size_bytes,
        }
    }

    /// Writes what its `Serialize` writes, and a line's end, for many of them: in less than half the time.
    pub(super) fn write_json_line(&self, out: &mut Vec<u8>) {
        // Whoever adds a field finds it missing here.
        let Self { path, id, cwd, name, parent_session, created, modified, message_count, first_message, size_bytes } = self;
        let texts = [
            (&br#"{"path":"#[..], Some(&**path)),
            (br#","id":"#, Some(id)),
            (br#","cwd":"#, Some(cwd)),
            (br#","name":"#, *name),
            (br#","parentSession":"#, *parent_session),
            (br#","created":"#, *created),
            (br#","modified":"#, Some(&**modified)),
        ];
        for (key, text) in texts {
            out.extend_from_slice(key);
            write_json_text(out, text);
        }
        out.extend_from_slice(br#","messageCount":"#);
        write_json_number(out, *message_count);
        out.extend_from_slice(br#","firstMessage":"#);
        write_json_text(out, *first_message);
        out.extend_from_slice(br#","sizeBytes":"#);
        write_json_number(out, *size_bytes);
        out.extend_from_slice(b"}\n");
    }
}

fn write_json_text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        None => out.extend_from_slice(b"null"),
        Some(text) if is_plain_in_json(text.as_bytes()) => {
            out.push(b'"');
            out.extend_from_slice(text.as_bytes());
            out.push(b'"');
        }
        Some(text) => serde_json::to_writer(out, text).expect("a text is JSON, and memory takes it"),
    }
}

fn write_json_number(out: &mut Vec<u8>, number: u64) {
    serde_json::to_writer(out, &number).expect("a number is JSON, and memory takes it");
}

/// Whether a text is in JSON as it is. Looked at in blocks without a way out, which the compiler turns into few steps.
fn is_plain_in_json(text: &[u8]) -> bool {
    let is_escaped = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    let (blocks, rest) = text.as_chunks::<32>();
    blocks.iter().all(|block| !block.iter().fold(false, |any, byte| any | is_escaped(*byte)))
        && !rest.iter().fold(false, |any, byte| any | is_escaped(*byte))
}

/// A provider and a model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelView<'a> {
    pub(super) provider: Option<&'a str>,
    pub(super) model_id: Option<&'a str>,
}

impl<'a> ModelView<'a> {
    pub(super) fn of(model: Option<&'a ModelRef>) -> Self {
        Self {
            provider: model.and_then(|model| model.provider.as_deref()),
            model_id: model.and_then(|model| model.model_id.as_deref()),
        }
    }
}

/// Tokens, and their sum.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokensView {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total: u64,
}

impl TokensView {
    pub(super) fn of(tokens: Tokens) -> Self {
        Self {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            total: tokens.total(),
        }
    }
}

/// A model as people write it: `PROVIDER/MODEL`.
pub(super) fn model_text(model: Option<&ModelRef>) -> Option<String> {
    let model = model?;
    Some(format!("{}/{}", model.provider.as_deref().unwrap_or("unknown"), model.model_id.as_deref().unwrap_or("unknown")))
}

/// The columns of a line that holds text of a session where no terminal says how many there are.
pub(super) const PIPE_COLUMNS: usize = 120;

/// What an entry is and says: role or type, then its text, or what it calls. Not yet fit for a terminal.
pub(super) fn entry_line(entry: &Entry) -> String {
    let what = match entry.message() {
        Some(Message::ToolResult(result)) => format!("toolResult {}", result.tool_name),
        Some(message) => message.role().as_wire().to_owned(),
        None => entry.kind.wire_type().to_owned(),
    };
    let text = entry_text(entry);
    if !text.trim().is_empty() {
        return format!("{what}: {text}");
    }
    match entry.message() {
        Some(Message::Assistant(message)) => {
            let calls: Vec<_> = message.tool_calls().map(|call| call.name.as_str()).collect();
            let failure = message.error_message.as_deref().map(|error| format!(" ({error})")).unwrap_or_default();
            if calls.is_empty() { format!("{what}{failure}") } else { format!("{what}: calls {}{failure}", calls.join(", ")) }
        }
        _ => what,
    }
}

/// A path in JSON.
pub(super) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// How long ago a time is, in words, for people; a time to come, and without a terminal any time, is a date.
pub(super) fn age(time_ms: i64, now_ms: i64, in_words: bool) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let seconds = now_ms.saturating_sub(time_ms) / 1000;
    let ago = |count: i64, unit: &str| match count {
        1 => format!("1 {unit} ago"),
        count => format!("{count} {unit}s ago"),
    };
    match seconds {
        _ if !in_words => format_timestamp(time_ms),
        ..-59 => format_timestamp(time_ms),
        -59..=59 => "just now".to_owned(),
        seconds if seconds < HOUR => ago(seconds / MINUTE, "minute"),
        seconds if seconds < DAY => ago(seconds / HOUR, "hour"),
        seconds if seconds < 14 * DAY => ago(seconds / DAY, "day"),
        seconds if seconds < 60 * DAY => ago(seconds / DAY / 7, "week"),
        seconds if seconds < 730 * DAY => ago(seconds / DAY / 30, "month"),
        seconds => ago(seconds / DAY / 365, "year"),
    }
}

/// A number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} bytes");
    }
    let mut size = bytes as f64;
    let mut unit = 0;
    size /= 1000.0;
    while size >= 999.95 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// A number with its noun.
pub(super) fn count(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// A number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::list::SessionSummary;

    #[test]
    fn ages_are_in_words() {
        let day = 24 * 3600;
        for (seconds, shown) in [
            (0, "just now"),
            (-30, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (3599, "59 minutes ago"),
            (3600, "1 hour ago"),
            (day - 1, "23 hours ago"),
            (day, "1 day ago"),
            (13 * day, "13 days ago"),
            (14 * day, "2 weeks ago"),
            (60 * day, "2 months ago"),
            (729 * day, "24 months ago"),
            (730 * day, "2 years ago"),
            (-3600, "2026-11-30T10:00:00.000Z"),
        ] {
            let now = 1_796_029_200_000;
            assert_eq!(age(now - seconds * 1000, now, true), shown, "{seconds}");
        }
    }

    #[test]
    fn a_summary_is_written_as_serde_writes_it() {
        let check = |summary: &SessionSummary| {
            let view = SummaryView::of(&summary.borrowed());
            let mut written = Vec::new();
            view.write_json_line(&mut written);
            let line = serde_json::to_string(&view).expect("it is JSON") + "\n";
            assert_eq!(String::from_utf8_lossy(&written), line);
        };
        check(&SessionSummary::default());
        // Every character that may be escaped, at each place of a block.
        for char in ('\0'..='\u{ff}').chain(['\u{2028}', '日', '👍']) {
            for before in [0, 1, 30, 31, 32, 40] {
                let text = format!("{}{char}{}", "x".repeat(before as usize), "y".repeat(before as usize));
                check(&SessionSummary {
                    path: text.clone().into(),
                    id: (&*text).into(),
                    cwd: (&*text).into(),
                    name: Some((&*text).into()),
                    parent_session: Some((&*text).into()),
                    created: (&*text).into(),
                    first_message: Some((&*text).into()),
                    modified_ms: i64::from(u32::from(char)),
                    message_count: before,
                    size_bytes: u64::MAX - before,
                    ..SessionSummary::default()
                });
            }
        }
    }

    #[test]
    fn sizes_and_counts_read_well() {
        let sizes: Vec<_> = [999, 1000, 999_949, 999_950, 1_234_567_890].into_iter().map(size).collect();
        assert_eq!(sizes, ["999 bytes", "1.0 KB", "999.9 KB", "1.0 MB", "1.2 GB"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped).join(" "), "0 999 1,000 1,234,567");
    }
}
