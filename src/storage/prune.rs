//! Which sessions have had their time: families of forks that nobody touched for long, and sessions that are empty.
//!
//! # Invariants
//! - A plan is made of listed sessions alone: no file is read and none is changed. Who shows a plan and who carries one out
//!   have the same value.
//! - A family is a session, its parents and all forks of these. It is as old as its latest activity, so that no session
//!   goes whose fork is still worked on.
//! - A session that somebody holds keeps its whole family.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::storage::list::SessionSummary;
use crate::storage::repo::id_in_file_name;

/// What is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneOptions {
    /// Families whose latest activity is before this, in Unix milliseconds; with `only_empty`, sessions.
    pub before_ms: Option<i64>,
    /// Only sessions without a message.
    pub only_empty: bool,
}

/// A session of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Pruned {
    /// The session.
    pub session: SessionSummary,
    /// Which family it is of, counted from 0 in the order of the plan.
    pub family: usize,
    /// Why it stays although its age or emptiness would let it go; `None` for what goes.
    pub stays: Option<Stays>,
}

/// Why a session stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stays {
    /// Somebody holds it: who.
    InUse(String),
    /// Somebody holds another session of its family.
    FamilyInUse,
    /// Lines of it cannot be read, so nobody knows that it is empty.
    Damaged,
    /// It, or a session of its family, changed since the plan was made.
    Changed,
}

/// The families of sessions: for each session the number of its family, counted from 0 in the order of their first
/// sessions. A parent is looked up by its path, then by the id in that path's file name; forks of one parent that is gone
/// are a family too. `O(n)` lookups.
pub fn families(sessions: &[SessionSummary]) -> Vec<usize> {
    let mut sets = Sets { parents: (0..sessions.len()).collect() };
    let by_path: HashMap<&Path, usize> = sessions.iter().enumerate().map(|(at, session)| (session.path.as_path(), at)).collect();
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    for (at, session) in sessions.iter().enumerate().filter(|(_, session)| !session.id.is_empty()) {
        // Two files of one id are one session twice.
        let first = *by_id.entry(&session.id).or_insert(at);
        sets.join(first, at);
    }
    let mut by_lost_parent: HashMap<&str, usize> = HashMap::new();
    for (at, session) in sessions.iter().enumerate() {
        let Some(parent) = session.parent_session.as_deref() else { continue };
        let path = Path::new(parent);
        let id = id_in_file_name(path);
        let found = by_path.get(path).or_else(|| by_id.get(id?)).copied();
        let kin = found.unwrap_or_else(|| *by_lost_parent.entry(id.unwrap_or(parent)).or_insert(at));
        sets.join(kin, at);
    }
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    (0..sessions.len())
        .map(|at| {
            let next = numbers.len();
            *numbers.entry(sets.root(at)).or_insert(next)
        })
        .collect()
}

/// Disjoint sets of numbers.
struct Sets {
    parents: Vec<usize>,
}

impl Sets {
    fn root(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            // Halving the path keeps the next walk short.
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }
}

/// Plans what goes of the sessions that are `in_scope`; families are made of all `sessions`. `owner` tells who holds a
/// session; it is asked of those alone whose family could go. The order is that of `sessions`.
pub fn plan(
    sessions: &[SessionSummary],
    options: PruneOptions,
    in_scope: &mut dyn FnMut(&SessionSummary) -> bool,
    owner: &mut dyn FnMut(&SessionSummary) -> Option<String>,
) -> Vec<Pruned> {
    let families = families(sessions);
    let is_before = |time_ms: i64| options.before_ms.is_none_or(|before_ms| time_ms < before_ms);
    let mut latest_ms: HashMap<usize, i64> = HashMap::new();
    for (session, family) in sessions.iter().zip(&families) {
        let latest = latest_ms.entry(*family).or_insert(i64::MIN);
        *latest = (*latest).max(session.modified_ms);
    }
    let could_go = |session: &SessionSummary, family: usize| match options.only_empty {
        true => session.message_count == 0 && !session.has_conversation && is_before(session.modified_ms),
        false => is_before(latest_ms[&family]),
    };
    let mut wanted: Vec<_> = sessions.iter().zip(families.iter().copied()).collect();
    wanted.retain(|(session, family)| could_go(session, *family) && in_scope(session));
    // Who is asked about: the whole families of what could go, also beyond the scope.
    let mut in_use: HashMap<usize, HashMap<&Path, String>> = wanted.iter().map(|(_, family)| (*family, HashMap::new())).collect();
    for (session, family) in sessions.iter().zip(&families) {
        let Some(held) = in_use.get_mut(family) else { continue };
        if let Some(owner) = owner(session) {
            held.insert(&session.path, owner);
        }
    }
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    let mut plan = Vec::with_capacity(wanted.len());
    for (session, family) in wanted {
        let held = &in_use[&family];
        let stays = match held.get(session.path.as_path()) {
            Some(owner) => Some(Stays::InUse(owner.clone())),
            // An empty session has nothing that a fork of it could miss.
            None if !options.only_empty && !held.is_empty() => Some(Stays::FamilyInUse),
            None if options.only_empty && session.damaged_lines > 0 => Some(Stays::Damaged),
            None => None,
        };
        let next = numbers.len();
        plan.push(Pruned { session: session.clone(), family: *numbers.entry(family).or_insert(next), stays });
    }
    plan
}

/// Looks at a plan again, after a person took their time to agree to it: `now` is the plan that would be made now. What is
/// not in it as it was before stays, and with it its family; empty sessions stay alone.
pub fn confirm(plan: &mut [Pruned], now: &[Pruned], options: PruneOptions) {
    let now: HashMap<&Path, &Pruned> = now.iter().map(|planned| (planned.session.path.as_path(), planned)).collect();
    let is_same = |planned: &Pruned| {
        let again = now.get(planned.session.path.as_path());
        again.is_some_and(|again| again.stays.is_none() && again.session == planned.session)
    };
    let changed: HashSet<usize> =
        plan.iter().filter(|planned| planned.stays.is_none() && !is_same(planned)).map(|planned| planned.family).collect();
    for planned in plan.iter_mut().filter(|planned| planned.stays.is_none()) {
        let is_changed = if options.only_empty { !is_same(planned) } else { changed.contains(&planned.family) };
        if is_changed {
            planned.stays = Some(Stays::Changed);
        }
    }
}

#[cfg(test)]
mod tests;
