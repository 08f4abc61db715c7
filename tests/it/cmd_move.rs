//! `move`.

use std::sync::Arc;

use insta::assert_snapshot;
use pi_sessions::storage::fs::{Fs, StdFs};
use pi_sessions::storage::lock::OwnerLock;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn a_session_follows_its_project() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("move demo --cwd ../moved"), @r#"
$ pi-sessions move demo --cwd ../moved
[TMP]/data/sessions/--home-me-moved--/2026-11-30T09-00-00-000Z_demo.jsonl
--- stderr
moved demo to /home/me/moved; the old file is [TMP]/data/sessions/--home-me-moved--/2026-11-30T09-00-00-000Z_demo.jsonl.bak
"#);
    assert_snapshot!(env.run("list --cwd /home/me/moved").stdout, @r#"
ID    ACTIVITY                  MSGS  BRANCHES  NAME OR FIRST MESSAGE
demo  2026-11-30T09:30:01.000Z     8         2  Login bug
"#);
    assert_snapshot!(env.run("move demo --cwd /home/me/again --json"), @r#"
$ pi-sessions move demo --cwd /home/me/again --json
{"id":"demo","path":"[TMP]/data/sessions/--home-me-again--/2026-11-30T09-00-00-000Z_demo.jsonl","cwd":"/home/me/again"}
--- stderr
moved demo to /home/me/again; the old file is [TMP]/data/sessions/--home-me-again--/2026-11-30T09-00-00-000Z_demo.jsonl.bak
"#);
}

#[test]
fn a_session_that_somebody_holds_stays() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let fs: Arc<dyn Fs> = Arc::new(StdFs);
    let _owner = OwnerLock::take(&fs, &path, "chat, process 7").expect("a free lock");
    assert_snapshot!(env.run("move demo --cwd /elsewhere"), @r#"
$ pi-sessions move demo --cwd /elsewhere
--- stderr
error: the session is in use by chat, process 7: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
Hint: end the other program first
Hint: work on a copy there: pi-sessions fork demo --all --cwd /elsewhere
--- exit code 1
"#);
    assert!(path.exists());
    assert_eq!(env.run("move demo").code, 2);
}

#[test]
fn a_session_that_works_there_already_is_left_alone() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let before = std::fs::read(&path).expect("the session");
    assert_snapshot!(env.run("move demo --cwd ."), @r#"
$ pi-sessions move demo --cwd .
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
--- stderr
demo works there already: /home/me/project
"#);
    assert_eq!(std::fs::read(&path).expect("the session"), before);
    assert_eq!(std::fs::read_dir(path.parent().expect("a folder")).expect("the folder").count(), 1, "no backup");
}
