//! Lines to entries and back: the head of a line, its body, and new lines.
//!
//! # Invariants
//! - [`read_head`] gives what [`read_head_slowly`] gives, or nothing; nothing means that the keys come in another order
//!   than Pi's and the slow way has to be taken. Of a key that occurs twice at the top the head takes the first.
//! - A line that is written is one line: no raw control character, and a newline at its end only.
//! - Reading a body never fails for what JavaScript writes and strict readers refuse; see [`well_formed`].

use std::borrow::Cow;

use crate::session::entry::{Entry, EntryId, EntryKind, EntryType, Header, Payload};
use crate::session::json::{Fields, well_formed};
use crate::session::message::Role;
use crate::session::tree::EntryHead;
use crate::storage::jsonl::scan::{string_end, value_end};

/// What opening takes from a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineHead<'a> {
    /// The wire type.
    pub entry_type: EntryType,
    /// The id.
    pub id: Cow<'a, str>,
    /// The parent; absent and null are both a root.
    pub parent_id: Option<Cow<'a, str>>,
    /// The role of a `message`.
    pub role: Option<Role>,
    /// The `targetId` of a `leaf`; `None` where it is absent or neither a string nor null.
    pub leaf_target: Option<Option<Cow<'a, str>>>,
}

impl LineHead<'_> {
    /// What the tree takes of it.
    pub fn as_entry_head(&self) -> EntryHead<'_> {
        EntryHead {
            id: &self.id,
            parent_id: self.parent_id.as_deref(),
            entry_type: self.entry_type,
            role: self.role,
            leaf_target: self.leaf_target.as_ref().map(Option::as_deref),
        }
    }
}

/// What a line turned out to be, by its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head<'a> {
    /// An entry.
    Entry(LineHead<'a>),
    /// A header (`type` is `session`).
    Header,
    /// An object with a `type` and without an id, or with an id that is no string.
    NoId,
    /// No object, or one without a `type`.
    NotAnEntry,
}

/// Reads the head of a line whose keys come in Pi's order, from the line's first bytes; `None` when they do not, or
/// when `start` is too short to tell.
pub(crate) fn read_head(start: &[u8]) -> Option<LineHead<'_>> {
    let mut cursor = Cursor(start.strip_prefix(b"{\"type\":")?);
    let entry_type = EntryType::from_wire(cursor.plain_bytes()?);
    cursor.eat(b",\"id\":")?;
    let id = cursor.string()?;
    cursor.eat(b",\"parentId\":")?;
    let parent_id = cursor.string_or_null()?;
    let mut head =
        LineHead { entry_type, id: Cow::Borrowed(id), parent_id: parent_id.map(Cow::Borrowed), role: None, leaf_target: None };
    match entry_type {
        EntryType::Message => {
            cursor.timestamp()?;
            cursor.eat(b",\"message\":{\"role\":")?;
            head.role = Some(Role::from_wire(cursor.string()?));
        }
        EntryType::Leaf => {
            cursor.timestamp()?;
            cursor.eat(b",\"targetId\":")?;
            head.leaf_target = Some(cursor.string_or_null()?.map(Cow::Borrowed));
        }
        // Pi puts the header's id behind its version, so a header never comes this far with Pi's keys.
        EntryType::Unknown if start.starts_with(b"{\"type\":\"session\"") => return None,
        EntryType::Compaction
        | EntryType::BranchSummary
        | EntryType::ModelChange
        | EntryType::ThinkingLevelChange
        | EntryType::ActiveToolsChange
        | EntryType::ContextEdit
        | EntryType::Custom
        | EntryType::CustomMessage
        | EntryType::Label
        | EntryType::SessionInfo
        | EntryType::Usage
        | EntryType::Unknown => {}
    }
    Some(head)
}

/// Reads the head of a `custom` or `custom_message` line of Pi's, which has `id`, `parentId` and `timestamp` last, from
/// its first and last bytes. The line must be whole: then a match at its end is no part of a string or of an object
/// inside, because quotes and brackets would not close.
pub(crate) fn read_head_behind<'a>(start: &[u8], end: &'a [u8]) -> Option<LineHead<'a>> {
    let mut cursor = Cursor(start.strip_prefix(b"{\"type\":")?);
    let entry_type = match EntryType::from_wire(cursor.plain_bytes()?) {
        custom @ (EntryType::Custom | EntryType::CustomMessage) => custom,
        EntryType::Message
        | EntryType::Compaction
        | EntryType::BranchSummary
        | EntryType::Leaf
        | EntryType::ModelChange
        | EntryType::ThinkingLevelChange
        | EntryType::ActiveToolsChange
        | EntryType::ContextEdit
        | EntryType::Label
        | EntryType::SessionInfo
        | EntryType::Usage
        | EntryType::Unknown => return None,
    };
    cursor.eat(b",\"customType\":")?;
    cursor.string()?;
    let at = memchr::memmem::rfind(end, b",\"id\":\"")?;
    // A backslash before the comma would mean that all of this is a string.
    let mut cursor = Cursor(end[at..].strip_prefix(b",\"id\":")?);
    let id = cursor.string()?;
    cursor.eat(b",\"parentId\":")?;
    let parent_id = cursor.string_or_null()?;
    cursor.timestamp()?;
    (cursor.0 == b"}").then(|| LineHead {
        entry_type,
        id: Cow::Borrowed(id),
        parent_id: parent_id.map(Cow::Borrowed),
        role: None,
        leaf_target: None,
    })
}

/// The rest of a line's beginning.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn eat(&mut self, expected: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// A string without escapes, of printable ASCII.
    fn string(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.plain_bytes()?).ok()
    }

    /// The bytes of such a string.
    fn plain_bytes(&mut self) -> Option<&'a [u8]> {
        self.eat(b"\"")?;
        let end = match self.0 {
            // Ids and times mostly have these lengths, and a loop of a known length is a few instructions.
            id if is_plain_up_to_quote::<8>(id) => 8,
            time if is_plain_up_to_quote::<24>(time) => 24,
            any => any.iter().position(|byte| !is_plain(*byte))?,
        };
        if self.0[end] != b'"' {
            return None;
        }
        let (text, rest) = (&self.0[..end], &self.0[end + 1..]);
        self.0 = rest;
        Some(text)
    }

    fn string_or_null(&mut self) -> Option<Option<&'a str>> {
        match self.0.strip_prefix(b"null") {
            Some(rest) => {
                self.0 = rest;
                Some(None)
            }
            None => self.string().map(Some),
        }
    }

    fn timestamp(&mut self) -> Option<()> {
        self.eat(b",\"timestamp\":")?;
        self.plain_bytes().map(drop)
    }
}

/// Printable ASCII that stands for itself in a JSON string.
fn is_plain(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\'
}

/// Whether a string of just `LEN` plain bytes ends here.
fn is_plain_up_to_quote<const LEN: usize>(bytes: &[u8]) -> bool {
    bytes.get(LEN) == Some(&b'"')
        && bytes.first_chunk::<LEN>().is_some_and(|text| text.iter().fold(true, |all, byte| all & is_plain(*byte)))
}

/// Reads the head of any line that holds one record, key by key from the left, and stops when it has what it needs.
/// `line` is well-formed text without white space at its ends.
pub(crate) fn read_head_slowly(line: &str) -> Head<'_> {
    let mut entry_type = None;
    let (mut id, mut parent_id, mut role, mut leaf_target) = (None, None, None, None);
    for (key, value) in Members::of(line) {
        match key.as_ref() {
            "type" if entry_type.is_none() => entry_type = Some(as_string(value)),
            "id" if id.is_none() => id = Some(as_string(value)),
            "parentId" if parent_id.is_none() => parent_id = Some(as_string(value)),
            "targetId" if leaf_target.is_none() => {
                leaf_target = Some(if value == "null" { Some(None) } else { as_string(value).map(Some) })
            }
            "message" if role.is_none() => {
                let name = Members::of(value).find(|(key, _)| key == "role").and_then(|(_, value)| as_string(value));
                role = Some(name.map_or(Role::Unknown, |name| Role::from_wire(&name)));
            }
            _ => {}
        }
        let wants = match entry_type.as_ref().and_then(|name| name.as_deref()) {
            Some("session") => return Head::Header,
            Some("message") => role.is_none(),
            Some("leaf") => leaf_target.is_none(),
            Some(_) => false,
            None => true,
        };
        if !wants && id.is_some() && parent_id.is_some() {
            break;
        }
    }
    let Some(Some(entry_type)) = entry_type else { return Head::NotAnEntry };
    let Some(Some(id)) = id else { return Head::NoId };
    let entry_type = EntryType::from_wire(entry_type.as_bytes());
    Head::Entry(LineHead {
        entry_type,
        id,
        parent_id: parent_id.flatten(),
        role: (entry_type == EntryType::Message).then(|| role.unwrap_or(Role::Unknown)),
        leaf_target: leaf_target.flatten().filter(|_| entry_type == EntryType::Leaf),
    })
}

/// A JSON string's text; `None` for any other value.
fn as_string(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str(value).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

/// The members of an object, by brackets and quotes alone, up to the first place that is no member.
pub(crate) struct Members<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Members<'a> {
    /// The members of the object that `text` begins with; none when it begins with something else.
    pub fn of(text: &'a str) -> Self {
        let at = if text.starts_with('{') { 1 } else { text.len() };
        Self { text, at }
    }

    fn skip(&mut self, also: Option<u8>) -> Option<()> {
        self.skip_spaces();
        match also {
            Some(wanted) if self.text.as_bytes().get(self.at) == Some(&wanted) => self.at += 1,
            Some(_) => return None,
            None => {}
        }
        self.skip_spaces();
        Some(())
    }

    fn skip_spaces(&mut self) {
        self.at += self.text.as_bytes()[self.at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        if self.at > 1 {
            self.skip(Some(b','))?;
        } else {
            self.skip(None)?;
        }
        if bytes.get(self.at) != Some(&b'"') {
            self.at = bytes.len();
            return None;
        }
        let key_end = string_end(bytes, self.at)?;
        // A key that strict readers refuse is none that anybody asks for, but those behind it may be.
        let key = self.text.get(self.at..key_end)?;
        let key = as_string(key).unwrap_or(Cow::Borrowed(key));
        self.at = key_end;
        self.skip(Some(b':'))?;
        let value_end = value_end(bytes, self.at)?;
        let value = self.text.get(self.at..value_end)?;
        self.at = value_end;
        Some((key, value))
    }
}

/// Whether an entry says that it hangs from nothing. One that has no word of a parent, or no string, was cut short by who
/// wrote it; `line` is well-formed text.
pub(crate) fn names_a_root(line: &str) -> bool {
    Members::of(line).any(|(key, value)| key == "parentId" && value == "null")
}

/// Reads a whole line as an entry; `None` when its body is no JSON object, or it has no id.
pub(crate) fn decode_entry(line: &[u8]) -> Option<Entry> {
    let text = well_formed(line);
    let mut fields = Fields::parse(&text).ok()?;
    let id = fields.take::<EntryId>("id")?;
    let parent_id = if fields.has("parentId") { fields.take("parentId") } else { fields.take_json("parentId").and(None) };
    let timestamp = fields.take("timestamp").unwrap_or_default();
    Some(Entry { id, parent_id, timestamp, kind: EntryKind::read(fields) })
}

/// Reads a line as a header; `None` when it is none.
pub(super) fn decode_header(line: &[u8]) -> Option<Header> {
    let text = well_formed(line);
    let fields = Fields::parse(&text).ok()?;
    (fields.get::<Cow<'_, str>>("type")? == "session").then(|| Header::read(fields))
}

/// The line of a new entry, with its newline.
pub(super) fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut line = Vec::new();
    encode_entry_behind(&mut line, entry);
    line
}

/// Adds the line of a new entry, with its newline, to others. It is what serde makes of the entry; the head, which is most
/// of the keys, is written by hand, because an append spends more on keys than on anything else but system calls.
pub(super) fn encode_entry_behind(lines: &mut Vec<u8>, entry: &Entry) {
    let start = lines.len();
    lines.extend_from_slice(b"{\"type\":");
    encode_string(lines, entry.kind.wire_type());
    lines.extend_from_slice(b",\"id\":");
    encode_string(lines, entry.id.as_str());
    lines.extend_from_slice(b",\"parentId\":");
    match &entry.parent_id {
        Some(parent_id) => encode_string(lines, parent_id.as_str()),
        None => lines.extend_from_slice(b"null"),
    }
    lines.extend_from_slice(b",\"timestamp\":");
    encode_string(lines, &entry.timestamp);
    let payload = lines.len();
    encode(lines, &Payload(&entry.kind));
    if lines[payload..] == *b"{}" {
        lines.remove(payload);
    } else {
        lines[payload] = b',';
    }
    debug_assert_eq!(lines[start..], serde_json::to_vec(entry).unwrap_or_default());
    end_line(lines, start);
}

/// The line of a header, with its newline.
pub(super) fn encode_header(header: &Header) -> Vec<u8> {
    let mut line = Vec::new();
    encode(&mut line, header);
    end_line(&mut line, 0);
    line
}

fn encode<T: serde::Serialize + ?Sized>(lines: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(lines, value).expect("entries and headers have string keys and no failing serializers");
}

fn encode_string(lines: &mut Vec<u8>, text: &str) {
    if text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
        lines.push(b'"');
        lines.extend_from_slice(text.as_bytes());
        lines.push(b'"');
    } else {
        encode(lines, text);
    }
}

/// Opaque values keep their text, which may have been laid out over several lines. In JSON a raw control character stands
/// between values only. Looking at all bytes first, without an early end, is a few instructions.
fn end_line(lines: &mut Vec<u8>, start: usize) {
    if lines[start..].iter().fold(false, |found, byte| found | (*byte < 0x20)) {
        let mut line = lines.split_off(start);
        line.retain(|byte| *byte >= 0x20);
        lines.append(&mut line);
    }
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways of reading a head agree, and give this.
    fn check(line: &str, expect: &str) {
        let show = |head: &LineHead<'_>| {
            let parent = head.parent_id.as_deref().unwrap_or("-");
            let role = head.role.map_or("", Role::as_wire);
            format!("{} {}<{parent} {role}{:?}", head.entry_type.as_wire(), head.id, head.leaf_target)
        };
        let slow = read_head_slowly(line);
        let shown = match &slow {
            Head::Entry(head) => show(head),
            other @ (Head::Header | Head::NoId | Head::NotAnEntry) => format!("{other:?}"),
        };
        assert_eq!(shown, expect, "{line}");
        let fast = read_head(line.as_bytes()).or_else(|| read_head_behind(line.as_bytes(), line.as_bytes()));
        if let Some(fast) = fast {
            assert_eq!(slow, Head::Entry(fast), "{line}");
        }
    }

    #[test]
    fn heads_are_read_in_any_order_of_keys() {
        check(r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"user"}}"#, "message a<- userNone");
        check(r#"{ "id" : "a" , "message" : { "x" : [ {} ] , "role" : "user" } , "type" : "message" }"#, "message a<- userNone");
        check(r#"{"type":"leaf","id":"a","parentId":"b","timestamp":"t","targetId":null}"#, "leaf a<b Some(None)");
        check(r#"{"type":"leaf","id":"a","parentId":"b","targetId":"c"}"#, r#"leaf a<b Some(Some("c"))"#);
        check(r#"{"type":"leaf","id":"a","parentId":"b","targetId":7}"#, "leaf a<b None");
        check(r#"{"type":"leaf","id":"a","parentId":"b"}"#, "leaf a<b None");
        check(
            r#"{"type":"custom","customType":"x","data":{"id":"n"},"id":"a","parentId":"b","timestamp":"t"}"#,
            "custom a<b None",
        );
        check(
            r#"{"type":"custom","customType":"x","data":",\"id\":\"n","id":"a","parentId":null,"timestamp":"t"}"#,
            "custom a<- None",
        );
        check(r#"{"type":"future","id":"\u00e9","parentId":"b"}"#, "unknown é<b None");
        check(r#"{"type":"session","version":3,"id":"a"}"#, "Header");
        check(r#"{"type":"session","id":"a","parentId":"b"}"#, "Header");
        check(r#"{"type":"label","parentId":"b"}"#, "NoId");
        check(r#"{"type":"label","id":7}"#, "NoId");
        check(r#"{"id":"a"}"#, "NotAnEntry");
        check(r#"[1]"#, "NotAnEntry");
        check(r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":7}"#, "message a<- unknownNone");
    }

    #[test]
    fn the_usual_lines_take_the_fast_way() {
        for line in [
            r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"user"}}"#,
            r#"{"type":"label","id":"a","parentId":"b","timestamp":"t","targetId":"c"}"#,
        ] {
            assert!(read_head(line.as_bytes()).is_some(), "{line}");
        }
        let custom = br#"{"type":"custom","customType":"x","data":{"id":"n"},"id":"a","parentId":"b","timestamp":"t"}"#;
        assert!(read_head_behind(custom, custom).is_some());
    }

    #[test]
    fn written_lines_are_one_line() {
        let data = crate::session::json::Json::parse("{\"a\":\n[1,\r\n2]}").expect("JSON");
        let kind = EntryKind::Custom(crate::session::entry::Custom {
            custom_type: "t\n".into(),
            data: Some(data),
            ..Default::default()
        });
        let entry = Entry { id: "a".into(), parent_id: None, timestamp: "t".into(), kind };
        let line = encode_entry(&entry);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(decode_entry(&line[..line.len() - 1]).map(|read| read.id), Some("a".into()));
    }
}
