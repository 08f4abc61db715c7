//! `new`.

use std::fs;

use insta::assert_snapshot;

use crate::support::cli::TestEnv;

#[test]
fn a_new_session_is_a_header_on_disk() {
    let env = TestEnv::new();
    assert_snapshot!(env.run("new"), @r#"
$ pi-sessions new
[TMP]/data/sessions/--home-me-project--/2026-11-30T12-00-01-000Z_019ad3c5-0000-7000-8000-000000000001.jsonl
"#);
    let path = env.root().join("--home-me-project--/2026-11-30T12-00-01-000Z_019ad3c5-0000-7000-8000-000000000001.jsonl");
    assert_snapshot!(fs::read_to_string(path).expect("the file"), @r#"{"type":"session","version":3,"id":"019ad3c5-0000-7000-8000-000000000001","timestamp":"2026-11-30T12:00:01.000Z","cwd":"/home/me/project"}"#);
}

#[test]
fn name_cwd_and_id_are_as_given() {
    let env = TestEnv::new();
    assert_snapshot!(env.run("new --name ' Login bug ' --cwd ../other/. --id bug-1 --json"), @r#"
$ pi-sessions new --name ' Login bug ' --cwd ../other/. --id bug-1 --json
{"id":"bug-1","path":"[TMP]/data/sessions/--home-me-other--/2026-11-30T12-00-01-000Z_bug-1.jsonl"}
"#);
    let path = env.root().join("--home-me-other--/2026-11-30T12-00-01-000Z_bug-1.jsonl");
    assert_snapshot!(fs::read_to_string(path).expect("the file"), @r#"
{"type":"session","version":3,"id":"bug-1","timestamp":"2026-11-30T12:00:01.000Z","cwd":"/home/me/other"}
{"type":"session_info","id":"e0000001","parentId":null,"timestamp":"2026-11-30T12:00:01.000Z","name":"Login bug"}
"#);
}

#[test]
fn an_id_that_is_taken_or_cannot_be_one_is_refused() {
    let env = TestEnv::new();
    assert_eq!(env.run("new --id one").code, 0);
    assert_snapshot!(env.run("new --id one --cwd /elsewhere"), @r#"
$ pi-sessions new --id one --cwd /elsewhere
--- stderr
error: there is a file already: [TMP]/data/sessions/--home-me-project--/2026-11-30T12-00-01-000Z_one.jsonl
--- exit code 1
"#);
    assert_snapshot!(env.run("new --id ../up --json"), @r#"
$ pi-sessions new --id ../up --json
--- stderr
{"error":{"kind":"usage","message":"\"../up\" cannot be a session id: use letters, digits, '.', '_' and '-', with a letter or digit at both ends","hints":[]}}
--- exit code 2
"#);
    assert_eq!(env.run("list --all --empty --json").stdout.lines().count(), 1);
}

#[test]
fn a_root_that_cannot_be_written_is_told() {
    let env = TestEnv::new();
    let file = env.write("in-the-way", "");
    assert_snapshot!(env.run(&format!("--root {} new", file.display())), @r#"
$ pi-sessions --root [TMP]/in-the-way new
--- stderr
error: cannot create the folder [TMP]/in-the-way/--home-me-project--
Caused by: Not a directory (os error 20)
--- exit code 1
"#);
}
