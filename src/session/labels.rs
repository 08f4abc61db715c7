//! The labels of entries and the name of the session, as they stand after the last line.
//!
//! # Invariants
//! - Both are folds over the lines of the whole file, of all branches: the latest line wins.
//! - A label or name is trimmed and never blank; a blank or absent one clears what was there.

use std::collections::BTreeMap;

use crate::session::entry::{Entry, EntryId, EntryKind};

/// The label of each entry that has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    by_target: BTreeMap<EntryId, String>,
}

impl Labels {
    /// Takes the next line of the file; anything but a `label` changes nothing.
    pub fn add(&mut self, entry: &Entry) {
        if let EntryKind::Label(label) = &entry.kind
            && let Some(target) = &label.target_id
        {
            self.set(target.clone(), label.label.as_deref());
        }
    }

    /// Labels `target`; `None` or a blank label clears it.
    pub fn set(&mut self, target: EntryId, label: Option<&str>) {
        match trimmed(label) {
            Some(label) => self.by_target.insert(target, label),
            None => self.by_target.remove(&target),
        };
    }

    /// The label of the entry with this id.
    pub fn get(&self, target: &str) -> Option<&str> {
        self.by_target.get(target).map(String::as_str)
    }

    /// The entries that have exactly this label, by id. They need not exist.
    pub fn find(&self, label: &str) -> impl Iterator<Item = &EntryId> {
        self.by_target.iter().filter(move |(_, known)| *known == label).map(|(target, _)| target)
    }

    /// Entries and their labels, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&EntryId, &str)> {
        self.by_target.iter().map(|(target, label)| (target, label.as_str()))
    }
}

/// The name of a session, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionName(Option<String>);

impl SessionName {
    /// Takes the next line of the file; anything but a `session_info` changes nothing.
    pub fn add(&mut self, entry: &Entry) {
        if let EntryKind::SessionInfo(info) = &entry.kind {
            self.set(info.name.as_deref());
        }
    }

    /// Names the session; `None` or a blank name clears it.
    pub fn set(&mut self, name: Option<&str>) {
        self.0 = trimmed(name);
    }

    /// The name, taken out.
    pub fn into_inner(self) -> Option<String> {
        self.0
    }

    /// The name.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

fn trimmed(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::json::Fields;

    /// Folds payloads, and shows labels as `target=label` and the name behind them.
    fn check(payloads: &[&str], expect: &str) {
        let (mut labels, mut name) = (Labels::default(), SessionName::default());
        for payload in payloads {
            let kind = EntryKind::read(Fields::parse(payload).expect(payload));
            let entry = Entry { id: EntryId::from("x"), parent_id: None, timestamp: String::new(), kind };
            labels.add(&entry);
            name.add(&entry);
        }
        let labels: Vec<_> = labels.iter().map(|(target, label)| format!("{target}={label}")).collect();
        assert_eq!(format!("{} {:?}", labels.join(" "), name.get()), expect, "{payloads:?}");
    }

    #[test]
    fn the_latest_label_of_an_entry_wins_and_a_blank_one_clears_it() {
        let set = r#"{"type":"label","targetId":"a","label":" one two "}"#;
        check(&[set], "a=one two None");
        check(&[set, r#"{"type":"label","targetId":"b","label":"x"}"#], "a=one two b=x None");
        check(&[set, r#"{"type":"label","targetId":"a","label":"three"}"#], "a=three None");
        for clear in ["", r#","label":null"#, r#","label":"""#, r#","label":" \t\n""#] {
            check(&[set, &format!(r#"{{"type":"label","targetId":"a"{clear}}}"#)], " None");
        }
        check(&[set, r#"{"type":"label","targetId":null}"#, r#"{"type":"label"}"#], "a=one two None");
    }

    #[test]
    fn the_latest_name_wins_and_a_blank_one_clears_it() {
        let set = r#"{"type":"session_info","name":" Refactor auth\n"}"#;
        check(&[set], r#" Some("Refactor auth")"#);
        check(&[set, r#"{"type":"session_info","name":"日本語"}"#], r#" Some("日本語")"#);
        for clear in [r#","name":"  ""#, r#","name":null"#, ""] {
            check(&[set, &format!(r#"{{"type":"session_info"{clear}}}"#)], " None");
        }
        check(&[set, r#"{"type":"custom","name":"no name"}"#], r#" Some("Refactor auth")"#);
    }

    #[test]
    fn labels_are_found_by_their_text() {
        let mut labels = Labels::default();
        for (target, label) in [("b", "x"), ("a", "x"), ("c", "y")] {
            labels.set(EntryId::from(target), Some(label));
        }
        assert_eq!(labels.find("x").map(EntryId::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(labels.find("X").count(), 0);
        assert_eq!((labels.get("c"), labels.get("d")), (Some("y"), None));
    }
}
