//! Families of forks and what goes of them.

use super::*;

/// A session at `/r/T_ID.jsonl` with an activity at this time, forked from a path.
fn fork(id: &str, parent: Option<&str>, modified_ms: i64) -> SessionSummary {
    SessionSummary {
        path: format!("/r/T_{id}.jsonl").into(),
        id: id.into(),
        parent_session: parent.map(Into::into),
        modified_ms,
        message_count: 1,
        has_conversation: true,
        ..SessionSummary::default()
    }
}

/// The families of sessions given as ids and their parents' paths.
fn check(sessions: &[(&str, Option<&str>)], expect: &[usize]) {
    let sessions: Vec<_> = sessions.iter().map(|(id, parent)| fork(id, *parent, 0)).collect();
    assert_eq!(families(&sessions), expect);
    // The order of the sessions decides the numbers and nothing else.
    let mut reversed: Vec<_> = sessions.clone();
    reversed.reverse();
    let mut back = families(&reversed);
    back.reverse();
    let same = |families: &[usize]| -> Vec<bool> { families.iter().flat_map(|a| families.iter().map(move |b| a == b)).collect() };
    assert_eq!(same(&back), same(expect), "reversed");
}

#[test]
fn a_family_is_a_session_its_parents_and_all_forks() {
    check(&[], &[]);
    check(&[("a", None), ("b", None)], &[0, 1]);
    // A chain, forks of forks, and a stranger.
    check(
        &[
            ("a", None),
            ("x", None),
            ("b", Some("/r/T_a.jsonl")),
            ("c", Some("/r/T_b.jsonl")),
            ("d", Some("/r/T_a.jsonl")),
            ("e", Some("/r/T_d.jsonl")),
        ],
        &[0, 1, 0, 0, 0, 0],
    );
}

#[test]
fn a_parent_is_found_by_path_then_by_the_id_in_its_name() {
    // Moved: the path is another one, the id in it is the same.
    check(&[("a", None), ("b", Some("/elsewhere/T_a.jsonl"))], &[0, 0]);
    // The path decides, although the name in it is that of another session.
    let mut odd = [fork("a", None, 0), fork("b", None, 0), fork("c", Some("/r/T_a.jsonl"), 0)];
    odd[1].path = "/r/T_a.jsonl".into();
    odd[0].path = "/r/other.jsonl".into();
    assert_eq!(families(&odd), [0, 1, 1]);
}

#[test]
fn forks_of_a_parent_that_is_gone_are_a_family() {
    check(&[("a", Some("/r/T_gone.jsonl")), ("b", Some("/s/T_gone.jsonl")), ("c", Some("/r/T_other.jsonl"))], &[0, 0, 1]);
    check(&[("a", Some("/x")), ("b", Some("/x")), ("c", Some("/y")), ("d", Some(""))], &[0, 0, 1, 2]);
}

#[test]
fn circles_end() {
    check(&[("a", Some("/r/T_a.jsonl"))], &[0]);
    check(&[("a", Some("/r/T_b.jsonl")), ("b", Some("/r/T_c.jsonl")), ("c", Some("/r/T_a.jsonl")), ("d", None)], &[0, 0, 0, 1]);
}

#[test]
fn a_long_chain_is_one_family() {
    let chain: Vec<_> = (0..100_000)
        .map(|at: i64| fork(&format!("s{at}"), (at > 0).then(|| format!("/r/T_s{}.jsonl", at - 1)).as_deref(), 0))
        .collect();
    assert!(families(&chain).iter().all(|family| *family == 0));
}

#[test]
fn sessions_of_one_id_are_kin_and_those_without_are_not() {
    let mut twice = [fork("a", None, 0), fork("a", None, 0), fork("", None, 0), fork("", None, 0)];
    for (at, session) in twice.iter_mut().enumerate() {
        session.path = format!("/r/{at}.jsonl").into();
    }
    assert_eq!(families(&twice), [0, 0, 1, 2]);
}

/// The plan as text: id, family, and why it stays.
fn planned(sessions: &[SessionSummary], options: PruneOptions, scope: &[&str], held: &[&str]) -> Vec<String> {
    let mut in_scope = |session: &SessionSummary| scope.is_empty() || scope.contains(&session.id.as_str());
    let mut owner = |session: &SessionSummary| held.contains(&session.id.as_str()).then(|| "chat".to_owned());
    let plan = plan(sessions, options, &mut in_scope, &mut owner);
    plan.iter()
        .map(|one| {
            let stays = match &one.stays {
                None => String::new(),
                Some(Stays::InUse(owner)) => format!(" in use by {owner}"),
                Some(Stays::FamilyInUse) => " family in use".to_owned(),
                Some(Stays::Damaged) => " damaged".to_owned(),
                Some(Stays::Changed) => " changed".to_owned(),
            };
            format!("{} {}{stays}", one.session.id, one.family)
        })
        .collect()
}

const OLD: PruneOptions = PruneOptions { before_ms: Some(100), only_empty: false };

#[test]
fn a_family_is_as_old_as_its_latest_activity() {
    let sessions = [
        fork("young", None, 100),
        fork("parent", None, 1),
        fork("fork", Some("/r/T_parent.jsonl"), 99),
        fork("old-parent", None, 1),
        fork("young-fork", Some("/r/T_old-parent.jsonl"), 500),
        fork("alone", None, 50),
    ];
    assert_eq!(planned(&sessions, OLD, &[], &[]), ["parent 0", "fork 0", "alone 1"]);
    // The scope narrows what goes, not what a family is.
    assert_eq!(planned(&sessions, OLD, &["parent", "old-parent"], &[]), ["parent 0"]);
    assert_eq!(planned(&sessions, PruneOptions { before_ms: Some(1), ..OLD }, &[], &[]), [""; 0]);
}

#[test]
fn what_somebody_holds_keeps_its_family() {
    let sessions = [fork("a", None, 1), fork("b", Some("/r/T_a.jsonl"), 2), fork("c", None, 3)];
    assert_eq!(planned(&sessions, OLD, &[], &["b"]), ["a 0 family in use", "b 0 in use by chat", "c 1"]);
    assert_eq!(planned(&sessions, OLD, &["a"], &["b"]), ["a 0 family in use"], "held beyond the scope");
}

#[test]
fn empty_sessions_go_alone() {
    let empty = |id: &str, parent: Option<&str>, modified_ms| SessionSummary {
        message_count: 0,
        has_conversation: false,
        ..fork(id, parent, modified_ms)
    };
    let mut sessions =
        vec![fork("full", None, 1), empty("a", Some("/r/T_full.jsonl"), 1), empty("b", None, 200), empty("broken", None, 1)];
    sessions[3].damaged_lines = 1;
    // Of what a tool said alone nobody made a conversation, and still it is something.
    sessions.push(SessionSummary { message_count: 1, ..empty("tools", None, 1) });
    let options = PruneOptions { before_ms: None, only_empty: true };
    assert_eq!(planned(&sessions, options, &[], &["full"]), ["a 0", "b 1", "broken 2 damaged"]);
    assert_eq!(
        planned(&sessions, PruneOptions { before_ms: Some(100), ..options }, &[], &["a"]),
        ["a 0 in use by chat", "broken 1 damaged"]
    );
}

#[test]
fn what_changed_since_stays_with_its_family() {
    let sessions = [fork("a", None, 1), fork("b", Some("/r/T_a.jsonl"), 2), fork("c", None, 3)];
    let of = |sessions: &[SessionSummary]| plan(sessions, OLD, &mut |_| true, &mut |_| None);
    let confirmed = |now: &[Pruned], options| {
        let mut plan = of(&sessions);
        confirm(&mut plan, now, options);
        plan.into_iter().map(|planned| planned.stays.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(confirmed(&of(&sessions), OLD), [false, false, false]);
    let mut longer = sessions.clone();
    longer[1].size_bytes += 1;
    assert_eq!(confirmed(&of(&longer), OLD), [true, true, false]);
    assert_eq!(confirmed(&of(&longer), PruneOptions { only_empty: true, ..OLD }), [false, true, false]);
    assert_eq!(confirmed(&of(&sessions[..2]), OLD), [false, false, true], "gone");
    let held = plan(&sessions, OLD, &mut |_| true, &mut |session| (session.id == "c").then(|| "chat".to_owned()));
    assert_eq!(confirmed(&held, OLD), [false, false, true]);
}
