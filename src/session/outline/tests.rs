//! Trees as little texts, drawn: `id<parent` an entry whose id begins with what it is (`u` user, `a` assistant that says
//! something, `t` assistant that only calls tools, `r` result, `k` compaction, `m` model change, `n` name), and
//! `l1<parent>target` a leaf entry.

use super::*;
use crate::session::entry::EntryId;
use crate::session::tree::EntryHead;

fn tree(text: &str) -> SessionTree {
    let mut tree = SessionTree::default();
    for word in text.split_whitespace() {
        let (id, rest) = word.split_once('<').expect(word);
        let none = |text| if text == "-" { None } else { Some(text) };
        let (parent, target) = rest.split_once('>').map_or((rest, None), |(parent, target)| (parent, Some(none(target))));
        let (entry_type, role) = match id.as_bytes()[0] {
            b'u' => (EntryType::Message, Some(Role::User)),
            b'a' | b't' => (EntryType::Message, Some(Role::Assistant)),
            b'r' => (EntryType::Message, Some(Role::ToolResult)),
            b'k' => (EntryType::Compaction, None),
            b'm' => (EntryType::ModelChange, None),
            b'n' => (EntryType::SessionInfo, None),
            b'l' => (EntryType::Leaf, None),
            _ => panic!("{word}"),
        };
        tree.push(EntryHead { id, parent_id: none(parent), entry_type, role, leaf_target: target }).expect("room");
    }
    tree
}

/// The rows of a tree, and the ids of the assistant messages that were read.
fn draw(text: &str, labelled: &[&str], scope: Scope) -> (String, Vec<String>) {
    let tree = tree(text);
    let mut labels = Labels::default();
    labelled.iter().for_each(|id| labels.set(EntryId::from(*id), Some("label")));
    let mut read = Vec::new();
    let rows = outline(&tree, &labels, scope, &mut |index| {
        let id = tree.id(index).to_string();
        read.push(id.clone());
        Ok::<_, ()>(id.starts_with('a'))
    });
    let drawn = rows.expect("nothing fails").iter().map(|row| draw_row(&tree, row)).collect::<Vec<_>>().join("\n");
    (drawn, read)
}

fn draw_row(tree: &SessionTree, row: &Row) -> String {
    let column = |column: &Column| match column {
        Column::Blank => "  ",
        Column::Line => "| ",
        Column::Fork => "|-",
        Column::LastFork => "`-",
    };
    let columns: String = row.columns.iter().map(column).collect();
    let mark = match (row.is_leaf, row.on_path) {
        (true, _) => "@",
        (false, true) => "*",
        (false, false) => "o",
    };
    let text = match &row.content {
        RowContent::Entry(index) => format!("{mark} {}", tree.id(*index)),
        RowContent::Folded(folded) => {
            let mut words = format!("~ {} entries", folded.entries);
            for (count, name) in [(folded.user_messages, "user"), (folded.tool_results, "results"), (folded.branches, "branches")]
            {
                if count > 0 {
                    words.push_str(&format!(" {count} {name}"));
                }
            }
            words
        }
    };
    let start = match row.start {
        Start::Nothing | Start::Branch | Start::Root => "",
        Start::Orphan => " orphan",
        Start::Ring => " ring",
    };
    format!("{columns}{text}{start}")
}

fn check(text: &str, labelled: &[&str], expect: &str) {
    assert_eq!(draw(text, labelled, Scope::Conversation).0, expect.trim_start_matches('\n'), "{text}");
}

fn check_all(text: &str, expect: &str) {
    assert_eq!(draw(text, &[], Scope::All).0, expect.trim_start_matches('\n'), "{text}");
}

#[test]
fn a_chain_is_one_column() {
    check("", &[], "");
    check("u1<- a1<u1 u2<a1 a2<u2", &[], "* u1\n* a1\n* u2\n@ a2");
    check_all("m1<- u1<m1 t1<u1 r1<t1 a1<r1", "* m1\n* u1\n* t1\n* r1\n@ a1");
}

#[test]
fn tool_traffic_is_counted_and_what_says_nothing_is_not_told() {
    check("m1<- u1<m1 t1<u1 r1<t1 t2<r1 r2<t2 r3<r2 a1<r3", &[], "* u1\n~ 5 entries 3 results\n@ a1");
    check("u1<- m1<u1 n1<m1 a1<n1", &[], "* u1\n@ a1");
    // Calls without results, at the end and before a user message.
    check("u1<- t1<u1 u2<t1", &[], "* u1\n~ 1 entries\n@ u2");
    // Results that hang beside each other, and at the end of a branch.
    check("u1<- t1<u1 r1<t1 r2<t1 r3<t1 a1<r3", &[], "* u1\n~ 4 entries 3 results\n@ a1");
    check("u1<- a1<u1 r1<a1 r2<r1 l1<u1>u1 u2<u1", &[], "* u1\n|-o a1\n| ~ 2 entries 2 results\n@ u2");
}

#[test]
fn the_leaf_labels_and_summaries_have_rows() {
    check("u1<- t1<u1 r1<t1", &[], "* u1\n~ 1 entries\n@ r1");
    check("u1<- t1<u1 r1<t1 a1<r1", &["r1"], "* u1\n~ 1 entries\n* r1\n@ a1");
    check("u1<- a1<u1 k1<a1 n1<k1", &[], "* u1\n* a1\n* k1\n@ n1");
}

#[test]
fn the_active_path_stays_in_the_left_column_and_branches_leave_before_it_goes_on() {
    check(
        "u1<- a1<u1 u2<a1 a2<u2 u3<a1 a3<u3 u4<a1 a4<u4",
        &[],
        "
* u1
* a1
|-o u2
| o a2
|-o u3
| o a3
* u4
@ a4",
    );
    // After going back, nothing goes on from the leaf.
    check(
        "u1<- a1<u1 u2<a1 a2<u2 u3<a1 l1<a1>a1",
        &[],
        "
* u1
@ a1
|-o u2
| o a2
`-o u3",
    );
    // Beside the active path the longer branch goes straight on.
    check(
        "u1<- u2<u1 u3<u2 u4<u2 a4<u4 u5<u2 u6<u1 l1<u1>u1 u7<u1",
        &[],
        "
* u1
|-o u2
| |-o u3
| |-o u5
| o u4
| o a4
|-o u6
@ u7",
    );
    // A branch that leaves from what has no row of its own.
    check(
        "u1<- t1<u1 r1<t1 a1<r1 l1<r1>r1 u2<r1",
        &[],
        "
* u1
~ 1 entries
* r1
|-o a1
@ u2",
    );
    // A leaf entry or a name alone is no branch.
    check("u1<- n1<u1 a1<u1 l1<u1>a1 u2<a1", &[], "* u1\n* a1\n@ u2");
}

#[test]
fn all_shows_every_entry_once() {
    check_all(
        "u1<- n1<u1 t1<u1 r1<t1 r2<t1 l1<u1>u1 u2<u1",
        "
* u1
|-o n1
|-o t1
| |-o r1
| o r2
|-o l1
@ u2",
    );
}

#[test]
fn long_branches_beside_the_path_are_folded_and_not_read() {
    let mut text = "u0<- ".to_owned();
    for at in 1..20 {
        text.push_str(&format!("u{at}<{} a{at}<u{at} ", if at == 1 { "u0".to_owned() } else { format!("a{}", at - 1) }));
    }
    text.push_str("u90<a5 u91<a6 u92<u0");
    let (drawn, read) = draw(&text, &["u10", "u91"], Scope::Conversation);
    let expect = "
* u0
|-o u1
| o a1
| o u2
| ~ 9 entries 5 user 1 branches
| o a6
| |-o u91
| ~ 6 entries 3 user
| o u10
| ~ 18 entries 9 user
| o a19
@ u92";
    assert_eq!(drawn, expect.trim_start());
    assert_eq!(read, ["a1", "a19"]);
    // The active path is never folded.
    let (drawn, _) = draw(text.trim_end_matches(" u92<u0"), &[], Scope::Conversation);
    assert_eq!(drawn.lines().filter(|line| line.starts_with("* ")).count(), 13);
}

#[test]
fn of_many_branches_from_one_entry_the_latest_are_shown() {
    let mut text = "u0<- ".to_owned();
    for at in 1..=12 {
        text.push_str(&format!("u{at}<u0 "));
    }
    let (drawn, _) = draw(&text, &["u1"], Scope::Conversation);
    let rows: Vec<_> = drawn.lines().collect();
    assert_eq!(rows[..4], ["* u0", "|-~ 3 entries 3 user 3 branches", "|-o u1", "|-o u5"]);
    assert_eq!(rows[rows.len() - 2..], ["|-o u11", "@ u12"]);
    assert_eq!(draw(&text, &[], Scope::All).0.lines().count(), 13);
}

#[test]
fn several_trees_orphans_and_rings_are_listed() {
    check(
        "u1<- a1<u1 u2<gone a2<u2 u3<u4 u4<u3 a4<u4 u5<u5 u6<-",
        &[],
        "
o u1
o a1
o u2 orphan
o a2
@ u6
o u3 ring
o u4
o a4
o u5 ring",
    );
    // The leaf in a ring.
    check("u3<u4 u4<u3", &[], "* u3 ring\n@ u4");
    check("u9<u4 u3<u4 u4<u3 u5<u9", &[], "* u3 ring\n* u4\n* u9\n@ u5");
}

#[test]
fn without_a_leaf_nothing_is_active() {
    check("u1<- a1<u1 l1<->-", &[], "o u1\no a1");
}

#[test]
fn long_chains_bushes_and_combs_take_linear_time_and_few_columns() {
    let rows_of = |tree: &SessionTree, scope| outline(tree, &Labels::default(), scope, &mut |_| Ok::<_, ()>(true)).expect("rows");
    let push = |tree: &mut SessionTree, id: usize, parent: Option<usize>| {
        let (id, parent) = (id.to_string(), parent.map(|parent| parent.to_string()));
        let role = Some(Role::User);
        let head = EntryHead { id: &id, parent_id: parent.as_deref(), entry_type: EntryType::Message, role, leaf_target: None };
        tree.push(head).expect("room");
    };
    const LEN: usize = 100_000;
    let shapes: [fn(usize) -> usize; 4] = [|at| at - 1, |_| 0, |at| (at - 1) / 2, |at| at.saturating_sub(2)];
    for parent_of in shapes {
        let mut tree = SessionTree::default();
        push(&mut tree, 0, None);
        (1..LEN).for_each(|at| push(&mut tree, at, Some(parent_of(at))));
        let rows = rows_of(&tree, Scope::All);
        assert_eq!(rows.len(), LEN);
        assert!(rows.iter().all(|row| row.depth() <= 18));
        rows_of(&tree, Scope::Conversation);
    }
}

#[test]
fn what_an_answer_says_are_words_or_why_it_failed() {
    use crate::session::entry::EntryKind;
    use crate::session::json::Json;
    let says = |message: &str| {
        let kind = EntryKind::message(Message::from_json(Json::parse(message).expect(message)));
        says_something(&Entry { id: "a".into(), parent_id: None, timestamp: String::new(), kind })
    };
    let answer = |content: &str, more: &str| format!(r#"{{"role":"assistant","content":{content}{more}}}"#);
    assert!(says(&answer(r#"[{"type":"thinking","thinking":"t"},{"type":"text","text":"x"}]"#, "")));
    assert!(says(&answer(r#""x""#, "")));
    assert!(says(&answer("[]", r#","stopReason":"error","errorMessage":"overloaded""#)));
    assert!(!says(&answer(r#"[{"type":"text","text":" \n"},{"type":"toolCall","id":"c","name":"n"}]"#, "")));
    assert!(!says(&answer("null", "")));
    assert!(!says(r#"{"role":"toolResult","toolCallId":"c","content":"x"}"#));
}

#[test]
fn other_scopes_leave_out_without_a_count_and_keep_where_branches_leave() {
    let text = "u1<- t1<u1 r1<t1 a1<r1 u2<a1 a2<u2 u3<a2 a3<u3 u4<a3 a4<u4 u5<a4 a5<u5 u6<a1 t2<u6 r2<t2 a6<r2";
    let spoken = "* u1\n* a1\n|-o u2\n| o a2\n| o u3\n| o a3\n| o u4\n| o a4\n| o u5\n| o a5\n* u6\n@ a6";
    assert_eq!(draw(text, &[], Scope::Spoken).0, spoken);
    let users = "* u1\n* a1\n|-o u2\n| o u3\n| o u4\n| o u5\n* u6\n@ a6";
    let (drawn, read) = draw(text, &[], Scope::Users);
    assert_eq!((&*drawn, read), (users, Vec::new()));
    assert_eq!(draw(text, &["a4"], Scope::Labelled).0, "* a1\n|-o a4\n@ a6");
}
