//! Comparing JSON values.

use serde_json::Value;

/// Asserts that both are the same value, numbers as numbers (`1e3` is `1000`), and says where they differ first.
pub fn assert_same(what: &str, ours: &Value, theirs: &Value) {
    if let Some((path, ours, theirs)) = difference(ours, theirs) {
        panic!("{what} differs at {path:?}: ours {ours}, expected {theirs}");
    }
}

/// The first place where the two differ, as a JSON pointer, and the values there.
pub fn difference(ours: &Value, theirs: &Value) -> Option<(String, Value, Value)> {
    let mut open = vec![(String::new(), ours, theirs)];
    while let Some((path, ours, theirs)) = open.pop() {
        match (ours, theirs) {
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                open.extend(a.iter().zip(b).enumerate().rev().map(|(at, (a, b))| (format!("{path}/{at}"), a, b)));
            }
            (Value::Object(a), Value::Object(b)) if a.len() == b.len() && a.keys().all(|key| b.contains_key(key)) => {
                open.extend(a.iter().map(|(key, a)| (format!("{path}/{key}"), a, &b[key])));
            }
            (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
            _ if ours == theirs => {}
            _ => return Some((path, ours.clone(), theirs.clone())),
        }
    }
    None
}
