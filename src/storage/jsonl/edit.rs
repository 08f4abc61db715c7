//! Exchanges one member of a line, and not one byte beside it.
//!
//! # Invariants
//! - The line stays as it is but for the value of the member; a member that is absent is added at the end.

use std::borrow::Cow;

use crate::session::json::well_formed;
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
    // Where the bytes are not UTF-8, positions in the text would not be those in the line.
    let text = match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => well_formed(line),
    };
    let found = Members::of(&text).find(|(name, _)| name == key).map(|(_, old)| old);
    match found {
        Some(old) => {
            let start = old.as_ptr() as usize - text.as_ptr() as usize;
            [&text.as_bytes()[..start], value.as_bytes(), &text.as_bytes()[start + old.len()..]].concat()
        }
        None => {
            let Some(end) = text.rfind('}') else { return line.to_vec() };
            let comma = if text[..end].trim_end().ends_with('{') { "" } else { "," };
            format!("{}{comma}\"{key}\":{value}{}", &text[..end], &text[end..]).into_bytes()
        }
    }
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
        check(r#"{ }"#, r#"{ "cwd":"/b \"c\""}"#);
        assert_eq!(clear_member(br#"{"parentId":"x","b":2}"#, "parentId"), br#"{"parentId":null,"b":2}"#);
    }
}
