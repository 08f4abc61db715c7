//! `path`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

fn ids(env: &TestEnv, args: &str) -> String {
    let run = env.run(args);
    let ids = run.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["id"].to_string());
    format!("{} {}", run.code, ids.collect::<Vec<_>>().join(" ").replace('"', ""))
}

#[test]
fn the_lines_are_those_of_the_file_byte_for_byte() {
    let env = TestEnv::new();
    let odd = r#"{ "type" : "message", "id":"x1","parentId":null,"message":{"content":"\ud83d é","role":"user"},"more": 1.50 }"#;
    env.session("odd", odd);
    assert_eq!(env.run("path odd").stdout, format!("{odd}\n"));
    assert_eq!(env.run("path odd --json").stdout, format!("{odd}\n"));
}

#[test]
fn the_path_ends_at_the_leaf_or_where_it_is_asked_to() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(ids(&env, "path demo"), @"0 m1 u1 a1 r1 a2 u3 a4 l1 n1");
    assert_snapshot!(ids(&env, "path demo --at a3"), @"0 m1 u1 a1 r1 a2 u2 a3");
    assert_snapshot!(ids(&env, "path --at @leaf"), @"0 m1 u1 a1 r1 a2 u3 a4 l1 n1");
    assert_snapshot!(env.run("path demo --at nothing"), @r#"
$ pi-sessions path demo --at nothing
--- stderr
error: there is no entry "nothing"
Hint: t1 (user: Fix the login bug)
Hint: t2 (user: Write a test first)
--- exit code 2
"#);
}

#[test]
fn a_missing_parent_ends_the_path_and_is_told() {
    let env = TestEnv::new();
    env.session("orphan", r#"{"type":"message","id":"u1","parentId":"gone","message":{"role":"user","content":"x"}}"#);
    assert_snapshot!(env.run("path orphan"), @r#"
$ pi-sessions path orphan
{"type":"message","id":"u1","parentId":"gone","message":{"role":"user","content":"x"}}
--- stderr
warning: the path begins where a parent is missing, at u1; pi-sessions check orphan tells what is cut off
"#);
}

#[test]
fn what_is_cut_off_is_told_wherever_the_path_is_shown_or_goes_on() {
    let env = TestEnv::new();
    let user = |id: &str, parent: &str| {
        format!(
            r#"{{"type":"message","id":"{id}",{parent}"timestamp":"2026-11-30T09:00:00.000Z","message":{{"role":"user","content":"{id}"}}}}"#
        )
    };
    let lines = |first: &str, second: &str| [user("u1", first), user("u2", second)].join("\n");
    env.session("orphan", &lines(r#""parentId":null,"#, r#""parentId":"gone","#));
    env.session("unnamed", &lines(r#""parentId":null,"#, ""));
    env.session("ring", &lines(r#""parentId":"u2","#, r#""parentId":"u1","#));
    env.session("two-roots", &lines(r#""parentId":null,"#, r#""parentId":null,"#));
    for (session, expect) in [
        ("orphan", "where a parent is missing, at u2"),
        ("unnamed", "where no parent is named, at u2"),
        ("ring", "in a ring of parents, at u1"),
    ] {
        let expect = format!("warning: the path begins {expect}; pi-sessions check {session} tells what is cut off\n");
        for command in ["path", "context", "show", "fork", "compact --dry-run"] {
            let run = env.run(&format!("{command} {session}"));
            assert!(run.stderr.contains(&expect), "{command}: {run}");
            // Two roots are as they should be.
            assert!(!env.run(&format!("{command} two-roots")).stderr.contains("the path begins"), "{command}");
        }
    }
}

#[test]
fn lines_of_version_1_are_migrated() {
    let env = TestEnv::new();
    let path = env.write(
        "old.jsonl",
        "{\"type\":\"session\",\"id\":\"old\",\"timestamp\":\"2025-01-01T00:00:00.000Z\",\"cwd\":\"/x\"}\n{\"type\":\"message\",\"timestamp\":\"2025-01-01T00:00:01.000Z\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n",
    );
    assert_snapshot!(env.run(&format!("path {}", path.display())).stdout, @r#"{"type":"message","id":"fb262928","parentId":null,"timestamp":"2025-01-01T00:00:01.000Z","message":{"role":"user","content":"hi"}}"#);
}

#[test]
fn on_a_terminal_a_line_cannot_reach_into_it() {
    let env = TestEnv::new();
    env.session("evil", "{\"type\":\"message\",\"id\":\"u1\",\"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"\u{9b}2J\u{1b}[2Jx\"}}");
    let run = env.terminal(80).run("path evil");
    assert!(!run.stdout.contains(['\u{9b}', '\u{1b}']), "{run}");
}
