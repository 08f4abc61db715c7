//! `prune`.

use std::path::PathBuf;
use std::sync::Arc;

use insta::assert_snapshot;
use pi_sessions::storage::fs::{Fs, StdFs};
use pi_sessions::storage::lock::OwnerLock;

use crate::support::cli::{CWD, TestEnv};

/// A session with one message of a day in 2026, forked from a file.
fn session(env: &TestEnv, id: &str, cwd: &str, day: &str, parent: Option<&PathBuf>) -> PathBuf {
    let line = format!(
        r#"{{"type":"message","id":"u","parentId":null,"timestamp":"2026-{day}T12:00:00.000Z","message":{{"role":"user","content":"of {day}"}}}}"#
    );
    let path = env.session_of(id, cwd, &line);
    if let Some(parent) = parent {
        let text = std::fs::read_to_string(&path).expect("the file");
        let header = format!(r#""parentSession":"{}","cwd""#, parent.display());
        std::fs::write(&path, text.replacen(r#""cwd""#, &header, 1)).expect("the file");
    }
    path
}

/// An old family, a family that is old but for one fork, an old session elsewhere, an empty session; it is November 30.
fn sessions(env: &TestEnv) -> [PathBuf; 6] {
    let parent = session(env, "old-parent", CWD, "01-01", None);
    let fork = session(env, "old-fork", CWD, "02-01", Some(&parent));
    let kept = session(env, "kept-parent", CWD, "01-01", None);
    let young = session(env, "young-fork", "/home/me/other", "11-29", Some(&kept));
    let elsewhere = session(env, "elsewhere", "/home/me/other", "03-01", None);
    let empty = env.session("empty", "");
    [parent, fork, kept, young, elsewhere, empty]
}

fn left(paths: &[PathBuf]) -> Vec<String> {
    let left = paths.iter().filter(|path| path.exists());
    left.map(|path| path.file_stem().expect("a name").to_string_lossy().rsplit_once('_').expect("an id").1.to_owned()).collect()
}

#[test]
fn a_dry_run_shows_what_goes_and_a_real_run_moves_it_to_the_trash() {
    let env = TestEnv::new();
    let paths = sessions(&env);
    assert_snapshot!(env.run("prune --older-than 30d --dry-run"), @r#"
$ pi-sessions prune --older-than 30d --dry-run
ID          ACTIVITY                       SIZE  NAME OR FIRST MESSAGE
old-fork    2026-02-01T12:00:00.000Z  351 bytes  of 02-01  (fork)
old-parent  2026-01-01T12:00:00.000Z  243 bytes  of 01-01
--- stderr
2 sessions, 594 bytes; nothing was removed (--dry-run)
"#);
    assert_eq!(left(&paths).len(), 6);
    assert_snapshot!(env.run("prune --older-than 30d --dry-run --json"), @r#"
$ pi-sessions prune --older-than 30d --dry-run --json
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-fork.jsonl","id":"old-fork","cwd":"/home/me/project","name":null,"modified":"2026-02-01T12:00:00.000Z","messageCount":1,"sizeBytes":351,"family":0,"removed":false,"trashed":false,"stays":null}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-parent.jsonl","id":"old-parent","cwd":"/home/me/project","name":null,"modified":"2026-01-01T12:00:00.000Z","messageCount":1,"sizeBytes":243,"family":0,"removed":false,"trashed":false,"stays":null}
--- stderr
2 sessions, 594 bytes; nothing was removed (--dry-run)
"#);
    assert_snapshot!(env.run("prune --older-than 30d --yes"), @r#"
$ pi-sessions prune --older-than 30d --yes
ID          ACTIVITY                       SIZE  NAME OR FIRST MESSAGE
old-fork    2026-02-01T12:00:00.000Z  351 bytes  of 02-01  (fork)
old-parent  2026-01-01T12:00:00.000Z  243 bytes  of 01-01
--- stderr
moved 2 sessions, 594 bytes, to the trash (pi-sessions restore brings them back)
"#);
    assert_eq!(left(&paths), ["kept-parent", "young-fork", "elsewhere", "empty"]);
    assert_eq!(env.trash().names.len(), 2);
    assert_snapshot!(env.run("prune --older-than 30d --yes"), @r#"
$ pi-sessions prune --older-than 30d --yes
--- stderr
there is nothing to remove
"#);
    assert_eq!(env.run("restore old-parent old-fork").code, 0);
    assert_eq!(left(&paths).len(), 6);
}

#[test]
fn the_scope_is_this_folder_another_or_all() {
    let env = TestEnv::new();
    let paths = sessions(&env);
    assert_snapshot!(env.run("prune --older-than 2026-03-01 --all -n"), @r#"
$ pi-sessions prune --older-than 2026-03-01 --all -n
ID          ACTIVITY                       SIZE  FOLDER            NAME OR FIRST MESSAGE
old-fork    2026-02-01T12:00:00.000Z  351 bytes  /home/me/project  of 02-01  (fork)
old-parent  2026-01-01T12:00:00.000Z  243 bytes  /home/me/project  of 01-01
--- stderr
2 sessions, 594 bytes; nothing was removed (--dry-run)
"#);
    assert_snapshot!(env.run("prune --older-than 30d --cwd /home/me/other --yes --permanent --json"), @r#"
$ pi-sessions prune --older-than 30d --cwd /home/me/other --yes --permanent --json
{"path":"[TMP]/data/sessions/--home-me-other--/2026-11-30T09-00-00-000Z_elsewhere.jsonl","id":"elsewhere","cwd":"/home/me/other","name":null,"modified":"2026-03-01T12:00:00.000Z","messageCount":1,"sizeBytes":240,"family":0,"removed":true,"trashed":false,"stays":null}
--- stderr
deleted 1 session, 240 bytes
"#);
    assert_eq!(left(&paths), ["old-parent", "old-fork", "kept-parent", "young-fork", "empty"]);
    assert!(env.trash().names.is_empty());
}

#[test]
fn empty_sessions_go_by_themselves() {
    let env = TestEnv::new();
    let paths = sessions(&env);
    assert_snapshot!(env.run("prune --empty --older-than 1d --all -n"), @r#"
$ pi-sessions prune --empty --older-than 1d --all -n
--- stderr
there is nothing to remove
"#);
    assert_snapshot!(env.run("prune --empty --yes"), @r#"
$ pi-sessions prune --empty --yes
ID     ACTIVITY                       SIZE  NAME OR FIRST MESSAGE
empty  2026-11-30T09:00:00.000Z  108 bytes  (no user message)
--- stderr
moved 1 session, 108 bytes, to the trash (pi-sessions restore brings them back)
"#);
    assert_eq!(left(&paths), ["old-parent", "old-fork", "kept-parent", "young-fork", "elsewhere"]);
}

#[test]
fn nothing_goes_without_a_yes() {
    let env = TestEnv::new();
    let paths = sessions(&env);
    assert_snapshot!(env.run("prune"), @r#"
$ pi-sessions prune
--- stderr
error: the following required arguments were not provided:
  <--older-than <T>|--empty>

Usage: pi-sessions prune <--older-than <T>|--empty>

For more information, try '--help'.
--- exit code 2
"#);
    assert_snapshot!(env.run("prune --older-than soon"), @r#"
$ pi-sessions prune --older-than soon
--- stderr
error: invalid value 'soon' for '--older-than <T>': it has to be a number with m, h, d or w, such as 2h, or a date such as 2026-11-30

For more information, try '--help'.
--- exit code 2
"#);
    assert_snapshot!(env.run("prune --older-than 30d"), @r#"
$ pi-sessions prune --older-than 30d
ID          ACTIVITY                       SIZE  NAME OR FIRST MESSAGE
old-fork    2026-02-01T12:00:00.000Z  351 bytes  of 02-01  (fork)
old-parent  2026-01-01T12:00:00.000Z  243 bytes  of 01-01
--- stderr
error: prune asks first, and there is no terminal to ask on
Hint: --dry-run shows what would go, --yes removes it without asking
--- exit code 2
"#);
    let env = env.terminal(80).var("NO_COLOR", "1");
    assert_snapshot!(env.answer("prune --older-than 30d", "n\n"), @r#"
$ pi-sessions prune --older-than 30d
ID        ACTIVITY            SIZE  NAME OR FIRST MESSAGE
old-fork  10 months ago  351 bytes  of 02-01  (fork)
old-pare  11 months ago  243 bytes  of 01-01
--- stderr
Move 2 sessions (594 bytes) to the trash? [y/N] nothing was removed
--- exit code 1
"#);
    assert_eq!(left(&paths).len(), 6);
    assert_snapshot!(env.answer("prune --older-than 30d --permanent --json", "y\n"), @r#"
$ pi-sessions prune --older-than 30d --permanent --json
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-fork.jsonl","id":"old-fork","cwd":"/home/me/project","name":null,"modified":"2026-02-01T12:00:00.000Z","messageCount":1,"sizeBytes":351,"family":0,"removed":true,"trashed":false,"stays":null}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-parent.jsonl","id":"old-parent","cwd":"/home/me/project","name":null,"modified":"2026-01-01T12:00:00.000Z","messageCount":1,"sizeBytes":243,"family":0,"removed":true,"trashed":false,"stays":null}
--- stderr
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-fork.jsonl
[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-parent.jsonl
Delete 2 sessions (594 bytes) for good? [y/N] deleted 2 sessions, 594 bytes
"#);
    assert_eq!(left(&paths).len(), 4);
}

#[test]
fn what_changes_while_the_question_waits_stays() {
    let env = TestEnv::new().terminal(80).var("NO_COLOR", "1");
    let paths = sessions(&env);
    let fork = paths[1].clone();
    env.meanwhile(move || {
        let text = std::fs::read_to_string(&fork).expect("the file");
        let line = r#"{"type":"message","id":"u2","parentId":"u","message":{"role":"user","content":"once more"}}"#;
        std::fs::write(&fork, format!("{text}{line}\n")).expect("the file");
    });
    assert_snapshot!(env.answer("prune --older-than 30d", "y\n"), @r#"
$ pi-sessions prune --older-than 30d
ID        ACTIVITY            SIZE  NAME OR FIRST MESSAGE
old-fork  10 months ago  351 bytes  of 02-01  (fork)
old-pare  11 months ago  243 bytes  of 01-01
--- stderr
Move 2 sessions (594 bytes) to the trash? [y/N] warning: stays, it or its family changed meanwhile: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-fork.jsonl
warning: stays, it or its family changed meanwhile: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-parent.jsonl
nothing was removed
"#);
    assert_eq!(left(&paths).len(), 6, "its parent stays too");
}

#[test]
fn what_somebody_holds_stays_with_its_family() {
    let env = TestEnv::new();
    let paths = sessions(&env);
    let fs: Arc<dyn Fs> = Arc::new(StdFs);
    let _owner = OwnerLock::take(&fs, &paths[1], "chat, process 7").expect("a free lock");
    assert_snapshot!(env.run("prune --older-than 30d --all --yes"), @r#"
$ pi-sessions prune --older-than 30d --all --yes
ID         ACTIVITY                       SIZE  FOLDER          NAME OR FIRST MESSAGE
elsewhere  2026-03-01T12:00:00.000Z  240 bytes  /home/me/other  of 03-01
--- stderr
note: stays, in use by chat, process 7: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-fork.jsonl
note: stays, a session of its family is in use: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-parent.jsonl
moved 1 session, 240 bytes, to the trash (pi-sessions restore brings them back)
"#);
    assert_eq!(left(&paths), ["old-parent", "old-fork", "kept-parent", "young-fork", "empty"]);
}

#[test]
fn a_trash_that_refuses_is_told_for_each() {
    let env = TestEnv::new();
    let paths = sessions(&env);
    env.trash().refuses = Some("no space".to_owned());
    assert_snapshot!(env.run("prune --older-than 30d --yes"), @r#"
$ pi-sessions prune --older-than 30d --yes
ID          ACTIVITY                       SIZE  NAME OR FIRST MESSAGE
old-fork    2026-02-01T12:00:00.000Z  351 bytes  of 02-01  (fork)
old-parent  2026-01-01T12:00:00.000Z  243 bytes  of 01-01
--- stderr
warning: cannot move to the trash [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-fork.jsonl (no space)
warning: cannot move to the trash [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_old-parent.jsonl (no space)
nothing was removed
error: 2 sessions could not be removed
Hint: --permanent removes them without a trash
--- exit code 1
"#);
    assert_eq!(left(&paths).len(), 6);
}
