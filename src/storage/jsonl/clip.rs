//! Copies a record with its long strings cut, so that a record of any length can be looked at in little memory.
//!
//! # Invariants
//! - A whole record stays one: brackets, keys up to the limit, numbers and words are copied, and a string ends with its
//!   quote. A cut falls neither into an escape nor into a character.
//! - Feeding a record in pieces of any size gives the same copy.

/// The state of a copy between two pieces of a record.
#[derive(Debug)]
pub(super) struct Clip {
    /// How many bytes of a string are kept, and up to the end of a character or escape.
    limit: usize,
    copy: Vec<u8>,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Outside,
    /// In a string of which so many bytes are kept.
    Inside(usize),
    /// In an escape in such a string: so many of its bytes are to come; `None` when the next one tells.
    Escape(usize, Option<u8>),
    /// In the rest of a string, which goes.
    Behind,
    /// Behind a backslash there.
    EscapeBehind,
}

impl Clip {
    /// A copy that keeps `limit` bytes of each string.
    pub fn new(limit: usize) -> Self {
        Self { limit, copy: Vec::new(), place: Place::Outside }
    }

    /// Takes the next bytes of the record.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let [byte, behind @ ..] = rest {
            match self.place {
                Place::Outside => {
                    let to = memchr::memchr(b'"', rest).map_or(rest.len(), |quote| quote + 1);
                    self.copy.extend_from_slice(&rest[..to]);
                    if rest[to - 1] == b'"' {
                        self.place = Place::Inside(0);
                    }
                    rest = &rest[to..];
                    continue;
                }
                // Not in the middle of a character.
                Place::Inside(kept) if kept >= self.limit && byte & 0xc0 != 0x80 => {
                    self.place = Place::Behind;
                    continue;
                }
                Place::Inside(kept) => {
                    self.copy.push(*byte);
                    self.place = match byte {
                        b'"' => Place::Outside,
                        b'\\' => Place::Escape(kept + 1, None),
                        _ => Place::Inside(kept + 1),
                    };
                }
                Place::Escape(kept, left) => {
                    self.copy.push(*byte);
                    self.place = match (left, byte) {
                        (None, b'u') => Place::Escape(kept + 1, Some(4)),
                        (None | Some(1), _) => Place::Inside(kept + 1),
                        (Some(left), _) => Place::Escape(kept + 1, Some(left - 1)),
                    };
                }
                Place::Behind => {
                    let Some(at) = memchr::memchr2(b'"', b'\\', rest) else { return };
                    if rest[at] == b'"' {
                        self.copy.push(b'"');
                        self.place = Place::Outside;
                    } else {
                        self.place = Place::EscapeBehind;
                    }
                    rest = &rest[at + 1..];
                    continue;
                }
                Place::EscapeBehind => self.place = Place::Behind,
            }
            rest = behind;
        }
    }

    /// The copy.
    pub fn into_copy(self) -> Vec<u8> {
        self.copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clip(record: &str, limit: usize, piece: usize) -> String {
        let mut clip = Clip::new(limit);
        record.as_bytes().chunks(piece).for_each(|bytes| clip.feed(bytes));
        String::from_utf8(clip.into_copy()).expect("whole characters")
    }

    fn check(record: &str, limit: usize, expect: &str) {
        for piece in [1, 2, 3, 1000] {
            assert_eq!(clip(record, limit, piece), expect, "{record} in pieces of {piece}");
        }
    }

    #[test]
    fn strings_are_cut_and_all_else_stays() {
        check(r#"{"a":"abcdef","b":[1.50, true,{"cdefg":"x"}]}"#, 4, r#"{"a":"abcd","b":[1.50, true,{"cdef":"x"}]}"#);
        check(r#"{"a":"ab\"}]\\\\"}"#, 3, r#"{"a":"ab\""}"#);
        check(r#"{"a":"ab\u00e9cd\\"}"#, 3, r#"{"a":"ab\u00e9"}"#);
        check("{\"a\":\"a日本\"}", 2, "{\"a\":\"a日\"}");
        check(r#"{"a":"","b":"\\"}"#, 0, r#"{"":"","":""}"#);
    }

    #[test]
    fn wherever_it_cuts_the_copy_is_json() {
        let record = r#"{"a":"x\\\"\n\u00e9\ud83d\ude00é日🚀 } ] ,","b":{"c":["\\","\"",1]}}"#;
        for limit in 0..record.len() {
            let copy = clip(record, limit, 7);
            let text = crate::session::json::well_formed(copy.as_bytes()).into_owned();
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{copy}");
        }
        assert_eq!(clip(record, record.len(), 7), record);
    }
}
