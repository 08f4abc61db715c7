//! `watch`.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

const LINE: &str = r#"{"type":"message","id":"u9","parentId":"n1","timestamp":"2026-11-30T12:00:05.000Z","message":{"role":"user","content":"Go\u001b[31m on\nplease","timestamp":1}}"#;

fn append(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).open(path).expect("it is there");
    file.write_all(text.as_bytes()).expect("room");
}

#[test]
fn entries_are_printed_as_they_land() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    env.meanwhile(move || append(&path, &LINE[..60]));
    let path = env.session("demo", DEMO);
    env.meanwhile(move || append(&path, &format!("{}\nnonsense\n", &LINE[60..])));
    assert_snapshot!(env.run("watch demo -n 2"), @r#"
$ pi-sessions watch demo -n 2
2026-11-30T09:31:00.000Z  l1  label: diagnosis
2026-11-30T09:32:00.000Z  n1  session_info: Login bug
2026-11-30T12:00:05.000Z  u9  user: Go on please
--- stderr
note: following session demo in [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
warning: a line is no entry: nonsense
--- exit code 130
"#);
    // Nothing lands any more; the alias does the same.
    assert_snapshot!(env.run("tail demo --lines 0"), @r#"
$ pi-sessions tail demo --lines 0
--- stderr
note: following session demo in [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
warning: a line is no entry: nonsense
--- exit code 130
"#);
}

#[test]
fn json_lines_are_those_of_the_file() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    env.meanwhile(move || append(&path, &format!("{LINE}\n")));
    let run = env.run("watch demo --lines 1 --json");
    let stored = DEMO.trim().lines().last().expect("a line");
    assert_eq!((run.code, run.stdout), (130, format!("{stored}\n{LINE}\n")));
}

#[test]
fn a_terminal_shows_one_line_an_entry() {
    let env = TestEnv::new().terminal(60).var("NO_COLOR", "1");
    env.session("demo", DEMO);
    assert_snapshot!(env.run("watch demo -n 4"), @r#"
$ pi-sessions watch demo -n 4
09:30:00  u3  user: Write a test first
09:30:01  a4  assistant: Here is a test.
09:31:00  l1  label: diagnosis
09:32:00  n1  session_info: Login bug
--- stderr
note: following session demo in [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
--- exit code 130
"#);
}

#[test]
fn a_file_may_come_late_and_be_replaced() {
    let env = TestEnv::new();
    let path = env.path().join("late.jsonl");
    let header = r#"{"type":"session","version":3,"id":"late","timestamp":"2026-11-30T09:00:00.000Z","cwd":"/w"}"#;
    let entry = |id: &str| LINE.replace("u9", id);
    let (one, two) = (format!("{header}\n{}\n", entry("one")), format!("{header}\n{}\n{}\n", entry("one"), entry("two")));
    let at = path.clone();
    env.meanwhile(move || fs::write(&at, one).expect("room"));
    let at = path.clone();
    env.meanwhile(move || {
        fs::write(at.with_extension("new"), two).and_then(|()| fs::rename(at.with_extension("new"), &at)).expect("room")
    });
    let at = path.clone();
    env.meanwhile(move || fs::write(&at, "").expect("it is cut"));
    assert_snapshot!(env.run(&format!("watch {}", path.display())), @r#"
$ pi-sessions watch [TMP]/late.jsonl
2026-11-30T12:00:05.000Z  one  user: Go on please
2026-11-30T12:00:05.000Z  two  user: Go on please
--- stderr
note: waiting for a file that is not there: [TMP]/late.jsonl
note: following session late in [TMP]/late.jsonl
note: the file was cut or replaced; what is new in it follows
note: the file was cut or replaced; what is new in it follows
--- exit code 130
"#);
    assert_snapshot!(env.run("watch nothing"), @r#"
$ pi-sessions watch nothing
--- stderr
error: there is no session "nothing"
Hint: pi-sessions list --all
--- exit code 2
"#);
}
