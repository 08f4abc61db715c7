//! Exchanges one member of a line, and not one byte beside it.
//!
//! # Invariants
//! - The line stays as it is but for the value of the member; a member that is absent is added at the end.

use crate::storage::jsonl::codec::Members;

/// The line with the string `value` as the top-level member `key`.
pub(crate) fn replace_member(line: &[u8], key: &str, value: &str) -> Vec<u8> {
    let value = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    replace_value(line, key, &value)
}

/// The line with null as the top-level member `key`.
pub(crate) fn clear_member(line: &[u8], key: &str) -> Vec<u8> {
    replace_value(line, key, "null")
}

fn replace_value(line: &[u8], key: &str, value: &str) -> Vec<u8> {
    // Positions in this text are those in the line, whatever its bytes are; keys of ours are ASCII.
    let text: String = line.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect();
    let place_of = |old: &str| old.as_ptr() as usize - text.as_ptr() as usize;
    let places: Vec<_> = Members::of(&text).filter(|(name, _)| name == key).map(|(_, old)| (place_of(old), old.len())).collect();
    let mut edited = line.to_vec();
    if places.is_empty() {
        let Some(end) = text.rfind('}') else { return edited };
        let comma = if text[..end].trim_end().ends_with('{') { "" } else { "," };
        edited.splice(end..end, format!("{comma}\"{key}\":{value}").into_bytes());
    }
    // A key that occurs twice is exchanged twice: readers differ in which of them counts.
    for (start, len) in places.into_iter().rev() {
        edited.splice(start..start + len, value.bytes());
    }
    edited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_value_changes() {
        let check = |line: &str, expect: &str| {
            assert_eq!(String::from_utf8(replace_member(line.as_bytes(), "cwd", "/b \"c\"")).expect("UTF-8"), expect);
        };
        check(r#"{"a": 1.50 ,"cwd":"/a" , "x":{"cwd":"y"}}"#, r#"{"a": 1.50 ,"cwd":"/b \"c\"" , "x":{"cwd":"y"}}"#);
        check(r#"{"a":1}"#, r#"{"a":1,"cwd":"/b \"c\""}"#);
        check(r#"{"cwd":1,"b":2,"cwd":"x"}"#, r#"{"cwd":"/b \"c\"","b":2,"cwd":"/b \"c\""}"#);
        check(r#"{"\ud83d":1,"cwd":"x"}"#, r#"{"\ud83d":1,"cwd":"/b \"c\""}"#);
        check(r#"{ }"#, r#"{ "cwd":"/b \"c\""}"#);
        assert_eq!(clear_member(br#"{"parentId":"x","b":2}"#, "parentId"), br#"{"parentId":null,"b":2}"#);
        assert_eq!(
            clear_member(b"{\"x\":\"\xff\xc3\xa9\",\"parentId\":\"x\"}", "parentId"),
            b"{\"x\":\"\xff\xc3\xa9\",\"parentId\":null}"
        );
    }
}
