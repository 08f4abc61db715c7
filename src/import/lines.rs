//! The objects in a file of lines, and in a file that is one object.
//!
//! # Invariants
//! - A line that cannot be read costs itself; the objects before the place where it breaks are used.
//! - Line numbers are physical and count from 1.

use serde_json::value::RawValue;

use crate::import::{ImportDamage, SourceFile};
use crate::session::json::{Json, well_formed};

/// One object of a file.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The number of the line, from 1.
    pub number: u64,
    /// What it holds: an object.
    pub json: Json,
}

/// The objects of a file of lines; what is none becomes damage.
pub(super) fn read_lines(file: &SourceFile<'_>, damage: &mut Vec<ImportDamage>) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, bytes) in numbered(file.bytes) {
        if let Some(message) = read_line(bytes, &mut |json| lines.push(Line { number, json })) {
            damage.push(ImportDamage { file: file.path.to_owned(), line: number, message: message.to_owned() });
        }
    }
    lines
}

/// The file as one object.
pub(super) fn read_whole(file: &SourceFile<'_>, damage: &mut Vec<ImportDamage>) -> Option<Json> {
    let json = whole(file.bytes);
    if json.is_none() {
        let message = "this is not one JSON object".to_owned();
        damage.push(ImportDamage { file: file.path.to_owned(), line: 0, message });
    }
    json
}

/// Up to `limit` objects from the beginning of a file: of its lines or, if there are none, the file as one object.
pub(super) fn first_objects(bytes: &[u8], limit: usize) -> Vec<Json> {
    let mut first = Vec::new();
    for (_, line) in numbered(bytes).take(limit) {
        read_line(line, &mut |json| first.push(json));
    }
    // The brackets inside a pretty-printed object stand on lines of their own and can look like objects.
    let is_pretty = numbered(bytes).next().is_some_and(|(_, line)| matches!(line.trim_ascii(), b"{" | b"["));
    if first.is_empty() || is_pretty { whole(bytes).into_iter().collect() } else { first }
}

fn whole(bytes: &[u8]) -> Option<Json> {
    let text = well_formed(without_bom(bytes));
    let json = Json::parse(&text).ok().filter(|json| json.as_str().starts_with('{'))?;
    Json::parse(&compact(json.as_str())).ok()
}

/// JSON without white space between its parts: what is kept of it stands in one line.
fn compact(json: &str) -> String {
    let (mut in_string, mut after_backslash) = (false, false);
    let is_kept = |char: &char| {
        let is_kept = in_string || !char.is_ascii_whitespace();
        in_string ^= *char == '"' && !after_backslash;
        after_backslash = in_string && *char == '\\' && !after_backslash;
        is_kept
    };
    json.chars().filter(is_kept).collect()
}

fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The lines that are not blank, with their numbers; padding with NULs, as a power cut leaves it, is blank too.
fn numbered(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let lines = without_bom(bytes).split(|byte| *byte == b'\n');
    lines.zip(1..).map(|(line, number)| (number, trim(line))).filter(|(_, line)| !line.is_empty())
}

fn trim(line: &[u8]) -> &[u8] {
    let is_padding = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    let start = line.iter().position(|byte| !is_padding(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_padding(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// Gives the objects of a line to `found`, and says what is wrong with the rest.
fn read_line(bytes: &[u8], found: &mut dyn FnMut(Json)) -> Option<&'static str> {
    let text = well_formed(bytes);
    let mut wrong = None;
    for value in serde_json::Deserializer::from_str(&text).into_iter::<&RawValue>() {
        match value.ok().and_then(|raw| Json::parse(raw.get()).ok()) {
            Some(json) if json.as_str().starts_with('{') => found(json),
            Some(_) => wrong = Some("this is not a JSON object"),
            None => {
                wrong = Some("this line is cut off or not JSON");
                break;
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_costs_itself() {
        let bytes = b"\xef\xbb\xbf{\"a\":1}\r\n\n{\"b\":\n[1]\n{\"c\":\"\\ud800\"}{\"d\":2}{\"e\n\0\0{\"f\":3}\0";
        let mut damage = Vec::new();
        let lines = read_lines(&SourceFile { path: "x", bytes }, &mut damage);
        let read: Vec<_> = lines.iter().map(|line| (line.number, line.json.as_str())).collect();
        assert_eq!(read, [(1, "{\"a\":1}"), (5, "{\"c\":\"\\ufffd\"}"), (5, "{\"d\":2}"), (6, "{\"f\":3}")]);
        assert_eq!(damage.iter().map(|damage| damage.line).collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn a_pretty_printed_object_is_one_object() {
        let first = first_objects(b"{\n  \"info\": {},\n  \"x\": [\n{}, \"a \\\" b\"\n]\n}\n", 9);
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].as_str(), "{\"info\":{},\"x\":[{},\"a \\\" b\"]}");
    }
}
