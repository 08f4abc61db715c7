//! Ids of tool calls in the form that a provider takes.
//!
//! # Invariants
//! - Every call of a request gets another id, and its results get the same one.
//! - The ids depend only on the messages before: the same list gives the same ids, and a longer list begins with them,
//!   so a provider's cache stays valid.

use std::collections::{HashMap, HashSet};

use crate::session::hash::fnv1a;

/// The ids of one request, given out in the order of its messages.
#[derive(Debug)]
pub(crate) struct CallIds {
    longest: usize,
    given: HashSet<String>,
    latest: HashMap<String, String>,
}

/// Whether an id goes to the provider that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It does, so it is no matter how it looks.
    Same,
    /// It does not, or that is not known.
    Other,
}

impl CallIds {
    /// Ids of at most `longest` characters, out of letters, digits, `_` and `-`.
    pub fn new(longest: usize) -> Self {
        Self { longest, given: HashSet::new(), latest: HashMap::new() }
    }

    /// The id of a call.
    pub fn call(&mut self, id: &str, origin: Origin) -> String {
        let is_word = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let is_fit = !id.is_empty() && id.len() <= self.longest && (is_word || origin == Origin::Same);
        let mut wire = match is_fit {
            true => id.to_owned(),
            false => self.fitted(id, 0),
        };
        let mut copy = 0;
        while self.given.contains(&wire) {
            copy += 1;
            wire = self.fitted(id, copy);
        }
        self.given.insert(wire.clone());
        self.latest.insert(id.to_owned(), wire.clone());
        wire
    }

    /// The id of a result: that of the latest call with this id.
    pub fn result(&self, id: &str) -> String {
        self.latest.get(id).cloned().unwrap_or_else(|| self.fitted(id, 0))
    }

    /// What can be kept of `id`, and a hash of it all.
    fn fitted(&self, id: &str, copy: u32) -> String {
        let hash = format!("_{:016x}", fnv1a(format!("{copy}:{id}").into_bytes()));
        let kept = id.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        kept.take(self.longest.saturating_sub(hash.len())).collect::<String>() + &hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fit(id: &str) -> bool {
        (1..=40).contains(&id.len()) && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    }

    #[test]
    fn a_fit_id_stays_and_an_unfit_one_is_mapped_alike_for_call_and_result() {
        let mut ids = CallIds::new(40);
        assert_eq!(ids.call("call_1", Origin::Other), "call_1");
        assert_eq!(ids.result("call_1"), "call_1");
        for id in ["functions.read:0", "call_x|fc_y", "", "é", &"x".repeat(500)] {
            let wire = ids.call(id, Origin::Other);
            assert!(is_fit(&wire), "{wire}");
            assert_eq!(ids.result(id), wire);
            assert_eq!(CallIds::new(40).call(id, Origin::Other), wire);
        }
    }

    #[test]
    fn an_id_that_occurs_twice_becomes_two_ids() {
        let mut ids = CallIds::new(64);
        let first = (ids.call("call_0", Origin::Same), ids.result("call_0"));
        let second = (ids.call("call_0", Origin::Same), ids.result("call_0"));
        assert_eq!(first.0, first.1);
        assert_eq!(second.0, second.1);
        assert_ne!(first.0, second.0);
    }

    #[test]
    fn the_provider_that_made_an_id_gets_it_back() {
        let mut ids = CallIds::new(40);
        assert_eq!(ids.call("functions.read:0", Origin::Same), "functions.read:0");
        assert!(is_fit(&ids.call(&"y".repeat(41), Origin::Same)));
    }
}
