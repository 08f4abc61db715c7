//! `check`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

/// A session as this program leaves one: private, in a folder that exists, its name like its header.
fn clean(env: &TestEnv) -> String {
    let cwd = env.path().join("project");
    std::fs::create_dir_all(&cwd).expect("a folder");
    let run = env.run(&format!("new --id clean --cwd {} --json", cwd.display()));
    assert_eq!(run.code, 0, "{run}");
    let lines = DEMO.trim();
    assert_eq!(env.pipe("append clean", lines).code, 0);
    "clean".to_owned()
}

#[test]
fn a_clean_session_has_no_faults() {
    let env = TestEnv::new();
    let id = clean(&env);
    assert_snapshot!(env.run(&format!("check {id}")), @r#"
$ pi-sessions check clean
--- stderr
checked 1 session: no damage, 0 notes
"#);
    assert_snapshot!(env.run("check --json"), @r#"
$ pi-sessions check --json
--- stderr
checked 1 session: no damage, 0 notes
"#);
}

#[test]
fn damage_is_exit_code_3_with_file_line_and_byte() {
    let env = TestEnv::new();
    let torn = format!(
        "{}\n{{\"type\":\"mess\n{{\"type\":\"label\",\"id\":\"l9\",\"parentId\":\"n1\",\"targetId\":\"nothing\",\"label\":\"x\"}}",
        DEMO.trim()
    );
    env.session("torn", &torn);
    assert_snapshot!(env.run("check torn"), @r#"
$ pi-sessions check torn
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl:1: note: there is no folder /home/me/project (byte 0)
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl:13: damage: the record is cut off; nothing of it can be used (byte 3073)
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl:14: damage: the target of this label is not in the file: nothing (byte 3087)
--- stderr
checked 1 session: damage in 2 places, 1 note
note: this mends what can be mended and keeps the old bytes: pi-sessions repair [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl
--- exit code 3
"#);
    assert_snapshot!(env.run("check torn --json"), @r#"
$ pi-sessions check torn --json
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl","line":1,"byteOffset":0,"severity":"note","kind":"cwdGone","message":"there is no folder /home/me/project"}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl","line":13,"byteOffset":3073,"severity":"damage","kind":"tornLine","message":"the record is cut off; nothing of it can be used"}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl","line":14,"byteOffset":3087,"severity":"damage","kind":"danglingLabel","message":"the target of this label is not in the file: nothing"}
--- stderr
checked 1 session: damage in 2 places, 1 note
note: this mends what can be mended and keeps the old bytes: pi-sessions repair [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl
--- exit code 3
"#);
}

#[test]
fn all_sessions_are_checked_without_a_name_and_strangers_are_left_out() {
    let env = TestEnv::new();
    clean(&env);
    env.session("torn", "{\"type\":\"mess");
    env.write("data/sessions/--home-me-project--/notes.jsonl", "{\"type\":\"event\"}\n");
    let run = env.run("check");
    assert_eq!(run.code, 3);
    assert_snapshot!(run.stderr, @r#"
note: left out: not a session, its first line is no session header: [TMP]/data/sessions/--home-me-project--/notes.jsonl
checked 2 sessions: damage in 1 place, 1 note
note: this mends what can be mended and keeps the old bytes: pi-sessions repair [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl
"#);
}

#[test]
fn a_file_that_is_no_session_cannot_be_checked_by_name() {
    let env = TestEnv::new();
    let notes = env.write("notes.jsonl", "{\"type\":\"event\"}\n");
    assert_snapshot!(env.run(&format!("check {}", notes.display())), @r#"
$ pi-sessions check [TMP]/notes.jsonl
--- stderr
error: not a session, its first line is no session header: [TMP]/notes.jsonl
Hint: pi-sessions import reads files of other programs, pi-sessions list --all shows the sessions
--- exit code 1
"#);
    assert_eq!(env.run("check nothing").code, 2);
}

#[test]
fn a_newer_version_is_a_note_and_format_4_is_no_session() {
    let env = TestEnv::new();
    let newer = "{\"type\":\"session\",\"version\":4,\"id\":\"n\",\"cwd\":\"/\"}\n";
    let newer = env.write("newer.jsonl", newer);
    let newer = env.run(&format!("check '{}'", newer.display()));
    let other = env.write("other.jsonl", "{\"kind\":\"header\",\"version\":4,\"id\":\"n\"}\n");
    let other = env.run(&format!("check '{}'", other.display()));
    assert_eq!((newer.code, other.code), (0, 1), "{newer}{other}");
    assert_snapshot!(newer.stdout, @"[TMP]/newer.jsonl:1: note: version 4 is newer than 3: this session can be read and not changed (byte 0)");
    assert_snapshot!(other, @"
$ pi-sessions check '[TMP]/other.jsonl'
--- stderr
error: format 4 of the harness 0.84 to 0.99, which this program does not read: [TMP]/other.jsonl
--- exit code 1
");
    env.write("data/sessions/--p--/other.jsonl", "{\"kind\":\"header\",\"version\":4,\"id\":\"n\"}\n");
    let all = env.run("check");
    assert_eq!(all.code, 0, "{all}");
    assert_snapshot!(all.stderr, @"
note: left out: format 4 of the harness 0.84 to 0.99, which this program does not read: [TMP]/data/sessions/--p--/other.jsonl
checked 0 sessions: no damage, 0 notes
");
}
