//! JSON that is kept as text: opaque values, and objects read one level at a time.
//!
//! Session lines come from many programs and may hold anything, so nothing here builds a tree of values: a value
//! that nobody asks for stays the text that it was, with its digits, its key order and its nesting.
//!
//! # Invariants
//! - A [`Json`] holds exactly one well-formed JSON value; its text is never reformatted.
//! - Reading is iterative: nesting of any depth neither overflows the stack nor is refused.
//! - Of a key that occurs twice the last one counts, as in JavaScript.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One JSON value, kept as the text that it was read from.
///
/// Two values are equal when their texts are equal.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Takes `text` as one JSON value.
    ///
    /// # Errors
    /// When `text` is not exactly one well-formed JSON value.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(|raw| Self(raw.to_owned()))
    }

    /// The JSON text of `value`.
    ///
    /// # Errors
    /// When `value` cannot be written as JSON, such as a map whose keys are not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// A copy of a value that was read.
    pub(crate) fn of_raw(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }

    /// The text, without surrounding white space.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a `T`; `None` when it has another shape.
    pub fn to<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.as_str()).ok()
    }

    /// The object's fields, or `None` when it is no object.
    pub fn fields(&self) -> Option<Fields<'_>> {
        Fields::parse(self.as_str()).ok()
    }

    /// Whether this is the value `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// The empty object.
    pub fn empty_object() -> Self {
        Self(RawValue::from_string("{}".to_owned()).expect("{} is JSON"))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The fields of one JSON object, their values still text, in the order of the file.
#[derive(Debug, Default)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Reads the object in `text`.
    ///
    /// # Errors
    /// When `text` is not exactly one well-formed JSON object.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text of the field `key`; `None` when it is absent.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| raw.get())
    }

    /// Reads the field `key` without taking it; `None` when it is absent or has another shape.
    pub fn get<T: Deserialize<'a>>(&self, key: &str) -> Option<T> {
        self.text(key).and_then(|text| serde_json::from_str(text).ok())
    }

    /// Takes the field `key` out if it reads as a `T`; a field of another shape stays and so goes to [`Extra`].
    pub fn take<T: Deserialize<'a>>(&mut self, key: &str) -> Option<T> {
        let value = self.get(key)?;
        self.0.retain(|(name, _)| name != key);
        Some(value)
    }

    /// As [`Fields::take`], for what is read from the text that is known to be JSON by now, without another look at it.
    pub(crate) fn take_with<T>(&mut self, key: &str, read: impl FnOnce(&'a RawValue) -> Option<T>) -> Option<T> {
        let (_, raw) = self.0.iter().rev().find(|(name, _)| name == key)?;
        let value = read(raw)?;
        self.0.retain(|(name, _)| name != key);
        Some(value)
    }

    /// Takes the field `key` out as opaque text.
    pub fn take_json(&mut self, key: &str) -> Option<Json> {
        self.take(key)
    }

    /// Whether the field `key` is present and not null.
    pub fn has(&self, key: &str) -> bool {
        self.text(key).is_some_and(|text| text != "null")
    }

    /// The names and texts, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, raw)| (name.as_ref(), raw.get()))
    }

    /// What was not taken.
    pub fn rest(self) -> Extra {
        Extra(self.0.into_iter().map(|(name, raw)| (name.into_owned(), Json(raw.to_owned()))).collect())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some((Key(name), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// A string that borrows from the text where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// The fields that a type of ours has no place for; they are written back as they were read, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra(Vec<(String, Json)>);

impl Extra {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The field `name`; the last one where it occurs twice.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets the field `name`, in place where it exists, at the end where it does not.
    pub fn set(&mut self, name: impl Into<String>, value: Json) {
        let name = name.into();
        match self.0.iter_mut().rev().find(|(key, _)| *key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes the field `name` out, every time that it occurs, and returns the last.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let mut removed = None;
        for (_, value) in self.0.extract_if(.., |(key, _)| key == name) {
            removed = Some(value);
        }
        removed
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Writes the fields into an object that is being written.
    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))
    }
}

impl Serialize for Extra {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Makes `bytes` readable as JSON text of a strict reader: bytes that are not UTF-8 and escapes of lone surrogates
/// become U+FFFD, raw control characters in strings become escapes. Borrows where nothing had to change.
pub fn well_formed(bytes: &[u8]) -> Cow<'_, str> {
    let mut text = match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    };
    if let Some(repaired) = repair_surrogates(&text) {
        text = Cow::Owned(repaired);
    }
    // Looking at all bytes is faster than stopping at the first: it is done many at a time.
    if text.bytes().fold(false, |any, byte| any | (byte < 0x20)) {
        text = Cow::Owned(escape_controls(&text));
    }
    text
}

/// Escapes the control characters inside strings; those between values stay.
pub(crate) fn escape_controls(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    let (mut in_string, mut after_backslash) = (false, false);
    for char in text.chars() {
        match char {
            '\u{0}'..='\u{1f}' if in_string => escaped.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => escaped.push(char),
        }
        in_string ^= char == '"' && !after_backslash;
        after_backslash = in_string && char == '\\' && !after_backslash;
    }
    escaped
}

/// Replaces escapes of lone surrogates (`\ud83d` without its other half) by `\ufffd`; `None` where there are none.
fn repair_surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    memchr::memmem::find(bytes, b"\\u")?;
    let mut repaired: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let start = at + found;
        // An escape is two bytes, but for \uXXXX; skipping both keeps `\\u` from being read as an escape.
        let Some(unit) = escaped_unit(bytes, start) else {
            at = (start + 2).min(bytes.len());
            continue;
        };
        let is_pair =
            (0xD800..0xDC00).contains(&unit) && escaped_unit(bytes, start + 6).is_some_and(|low| (0xDC00..0xE000).contains(&low));
        if is_pair {
            at = start + 12;
            continue;
        }
        if (0xD800..0xE000).contains(&unit) {
            let copy = repaired.get_or_insert_with(|| bytes.to_vec());
            copy[start + 2..start + 6].copy_from_slice(b"fffd");
        }
        at = start + 6;
    }
    // Only hex digits were exchanged for hex digits, so the copy is UTF-8 where `text` is.
    repaired.and_then(|copy| String::from_utf8(copy).ok())
}

/// The code unit of a `\uXXXX` escape that starts at `at`.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    if &escape[..2] != b"\\u" || !escape[2..].iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(&escape[2..]).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_become_the_replacement_character() {
        let check = |input: &str, expect: &str| {
            let text = well_formed(input.as_bytes()).into_owned();
            assert_eq!(serde_json::from_str::<String>(&text).expect(input), expect);
        };
        check(r#""abc\ud83d""#, "abc\u{fffd}");
        check(r#""\ude00 x""#, "\u{fffd} x");
        check(r#""\ud83d\ude00""#, "\u{1f600}");
        check(r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}");
        check(r#""\\ud83d""#, "\\ud83d");
        check(r#""\uD83Dx\u00e9""#, "\u{fffd}xé");
    }

    #[test]
    fn bad_bytes_become_the_replacement_character() {
        assert_eq!(well_formed(b"\"a\xffb\""), "\"a\u{fffd}b\"");
    }

    #[test]
    fn control_characters_in_strings_become_escapes() {
        assert_eq!(well_formed(b"{\"a\":\t\"x\0\\\"\x01\"}"), "{\"a\":\t\"x\\u0000\\\"\\u0001\"}");
    }

    #[test]
    fn deep_nesting_is_read_and_dropped() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        let fields = Fields::parse(&deep).expect("deep nesting is legal JSON");
        assert_eq!(fields.rest().get("a").expect("a").as_str().len(), 400_000);
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        let mut fields = Fields::parse(r#"{"a":1,"b":2,"a":3}"#).expect("an object");
        assert_eq!(fields.take::<u8>("a"), Some(3));
        assert_eq!(fields.rest().iter().count(), 1);
    }
}
