//! `label`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn labels_are_shown_set_and_cleared() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("label demo"), @r#"
$ pi-sessions label demo
a2  diagnosis
"#);
    assert_snapshot!(env.run("label demo u3 ' test first '"), @r#"
$ pi-sessions label demo u3 ' test first '
--- stderr
labelled "test first": u3
"#);
    assert_snapshot!(env.run("label demo u3"), @r#"
$ pi-sessions label demo u3
test first
"#);
    assert_snapshot!(env.run("label demo u3 --json"), @r#"
$ pi-sessions label demo u3 --json
{"targetId":"u3","label":"test first"}
"#);
    assert_snapshot!(env.run("label demo --json"), @r#"
$ pi-sessions label demo --json
{"targetId":"a2","label":"diagnosis"}
{"targetId":"u3","label":"test first"}
"#);
    assert_snapshot!(env.run("label demo u3 --clear"), @r#"
$ pi-sessions label demo u3 --clear
--- stderr
cleared the label of u3
"#);
    assert_snapshot!(env.run("label demo u3"), @r#"
$ pi-sessions label demo u3
--- stderr
note: there is no label on u3
"#);
    assert_snapshot!(env.run("label demo u3 --json"), @r#"
$ pi-sessions label demo u3 --json
{"targetId":"u3","label":null}
--- stderr
note: there is no label on u3
"#);
}

#[test]
fn a_label_that_two_entries_have_names_neither() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("label demo u3 diagnosis"), @r#"
$ pi-sessions label demo u3 diagnosis
--- stderr
note: another entry has this label too, so that it names neither of them
labelled "diagnosis": u3
"#);
    assert_snapshot!(env.run("path demo --at diagnosis"), @r#"
$ pi-sessions path demo --at diagnosis
--- stderr
error: "diagnosis" is ambiguous: 2 entries
Hint: a2 (assistant: The function is empty.)
Hint: u3 (user: Write a test first)
--- exit code 2
"#);
}

#[test]
fn wrong_labels_are_wrong_usage() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_eq!(env.run("label demo --clear").code, 2);
    assert_eq!(env.run("label demo u3 x --clear").code, 2);
    assert_eq!(env.run("label demo nothing x").code, 2);
    env.session("empty", "");
    assert_snapshot!(env.run("label empty"), @r#"
$ pi-sessions label empty
--- stderr
note: there are no labels
"#);
}

#[test]
fn a_label_that_could_never_be_found_is_refused_and_one_that_hides_is_told() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let before = std::fs::read(&path).expect("the file");
    assert_snapshot!(env.run("label demo a2 @leaf"), @r#"
$ pi-sessions label demo a2 @leaf
--- stderr
error: no command would find the label "@leaf": something else has this name
Hint: take a word that is no id and does not begin with @
--- exit code 2
"#);
    assert_eq!(env.run("label demo a2 u1").code, 2);
    assert_eq!(std::fs::read(&path).expect("the file"), before, "nothing is written");
    assert_snapshot!(env.run("label demo a2 t1"), @r#"
$ pi-sessions label demo a2 t1
--- stderr
note: "t1" meant another entry so far, and means this one now: u1
labelled "t1": a2
"#);
}
