//! `delete`.

use std::sync::Arc;

use insta::assert_snapshot;
use pi_sessions::storage::fs::{Fs, StdFs};
use pi_sessions::storage::lock::OwnerLock;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn without_a_terminal_nothing_is_deleted_unless_yes_is_said() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    assert_snapshot!(env.run("delete demo"), @r#"
$ pi-sessions delete demo
--- stderr
error: delete asks first, and there is no terminal to ask on
Hint: --yes deletes without asking
--- exit code 2
"#);
    assert!(path.exists());
    assert_snapshot!(env.run("delete demo --yes"), @r#"
$ pi-sessions delete demo --yes
--- stderr
moved to the trash: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
"#);
    assert!(!path.exists());
    assert_eq!(env.trash().names, ["2026-11-30T09-00-00-000Z_demo.jsonl"]);
}

#[test]
fn a_person_is_asked() {
    let env = TestEnv::new().terminal(80).var("NO_COLOR", "1");
    let path = env.session("demo", DEMO);
    env.session("two", DEMO);
    assert_snapshot!(env.answer("delete demo two", "n\n"), @r#"
$ pi-sessions delete demo two
--- stderr
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_two.jsonl
Move 2 sessions to the trash? [y/N] nothing was deleted
--- exit code 1
"#);
    assert_snapshot!(env.answer("delete demo --permanent", "\n"), @r#"
$ pi-sessions delete demo --permanent
--- stderr
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
Delete 1 session for good? [y/N] nothing was deleted
--- exit code 1
"#);
    assert!(path.exists());
    assert_snapshot!(env.answer("delete demo two demo --json", "y\n"), @r#"
$ pi-sessions delete demo two demo --json
{"id":"demo","path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl","trashed":true}
{"id":"two","path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_two.jsonl","trashed":true}
--- stderr
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_two.jsonl
Move 2 sessions to the trash? [y/N]
"#);
    assert!(!path.exists());
}

#[test]
fn companions_go_along() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let backup = path.with_extension("jsonl.bak");
    std::fs::write(&backup, "old").expect("a backup");
    assert_snapshot!(env.run("delete demo --permanent --yes --json"), @r#"
$ pi-sessions delete demo --permanent --yes --json
{"id":"demo","path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl","trashed":false}
"#);
    assert!(!path.exists() && !backup.exists());
    assert!(env.trash().names.is_empty());
}

#[test]
fn all_sessions_are_found_before_one_is_deleted() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    assert_eq!(env.run("delete demo nothing --yes").code, 2);
    assert!(path.exists());
    let notes = env.write("notes.jsonl", "{}\n");
    assert_snapshot!(env.run(&format!("delete --yes {}", notes.display())), @r#"
$ pi-sessions delete --yes [TMP]/notes.jsonl
--- stderr
error: not a session, its first line is no session header: [TMP]/notes.jsonl
Hint: pi-sessions import reads files of other programs, pi-sessions list --all shows the sessions
--- exit code 1
"#);
    assert!(notes.exists());
}

#[test]
fn a_session_that_somebody_holds_stays_and_a_trash_that_refuses_is_told() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let fs: Arc<dyn Fs> = Arc::new(StdFs);
    let owner = OwnerLock::take(&fs, &path, "chat, process 7").expect("a free lock");
    assert_snapshot!(env.run("delete demo --yes"), @r#"
$ pi-sessions delete demo --yes
--- stderr
error: the session is in use by chat, process 7: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
Hint: end the other program first
--- exit code 1
"#);
    drop(owner);
    env.trash().refuses = Some("no space in the trash".to_owned());
    assert_snapshot!(env.run("delete demo --yes"), @r#"
$ pi-sessions delete demo --yes
--- stderr
error: cannot move to the trash [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
Caused by: no space in the trash
Hint: --permanent removes it without a trash
--- exit code 1
"#);
    assert!(path.exists());
}
