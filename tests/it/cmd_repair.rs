//! `repair`.

use std::sync::Arc;

use insta::assert_snapshot;
use pi_sessions::storage::fs::{Fs, StdFs};
use pi_sessions::storage::lock::OwnerLock;

use crate::support::cli::{DEMO, TestEnv};

fn torn() -> String {
    let label = r#"{"type":"label","id":"l9","parentId":"n1","timestamp":"t","targetId":"nothing","label":"x"}"#;
    format!("{}\n{{\"type\":\"mess\n{label}\n", DEMO.trim())
}

#[test]
fn a_damaged_session_is_mended_and_the_old_bytes_are_kept() {
    let env = TestEnv::new();
    let path = env.session("torn", &torn());
    let before = std::fs::read(&path).expect("the session");
    assert_snapshot!(env.run("repair torn --dry-run"), @r#"
$ pi-sessions repair torn --dry-run
line 13: the record is cut off; the line is left out (dropLine)
line 14: the target nothing of this label is not in the file; a custom entry holds it (keepAsCustom)
--- stderr
a repair would make 2 changes; nothing was changed: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl
"#);
    assert_eq!(std::fs::read(&path).expect("the session"), before);
    assert_snapshot!(env.run("repair torn"), @r#"
$ pi-sessions repair torn
line 13: the record is cut off; the line is left out (dropLine)
line 14: the target nothing of this label is not in the file; a custom entry holds it (keepAsCustom)
--- stderr
2 changes in [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl; the old file is [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl.bak
"#);
    assert_eq!(std::fs::read(path.with_extension("jsonl.bak")).expect("the backup"), before);
    assert_eq!(env.run("check torn").code, 0);
    assert_snapshot!(env.run("repair torn"), @r#"
$ pi-sessions repair torn
--- stderr
the session is sound, nothing was changed: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl
"#);
    assert_snapshot!(env.run("repair torn --json"), @r#"
$ pi-sessions repair torn --json
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl","backup":null}
--- stderr
the session is sound, nothing was changed: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl
"#);
}

#[test]
fn each_change_is_one_object() {
    let env = TestEnv::new();
    env.session("torn", &torn());
    assert_snapshot!(env.run("repair torn --json"), @r#"
$ pi-sessions repair torn --json
{"line":13,"action":"dropLine","message":"the record is cut off; the line is left out"}
{"line":14,"action":"keepAsCustom","message":"the target nothing of this label is not in the file; a custom entry holds it"}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl","backup":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl.bak"}
--- stderr
2 changes in [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl; the old file is [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl.bak
"#);
}

#[test]
fn a_session_that_somebody_holds_is_left_alone() {
    let env = TestEnv::new();
    let path = env.session("torn", &torn());
    let fs: Arc<dyn Fs> = Arc::new(StdFs);
    let _owner = OwnerLock::take(&fs, &path, "chat, process 7").expect("a free lock");
    assert_snapshot!(env.run("repair torn"), @r#"
$ pi-sessions repair torn
--- stderr
error: the session is in use by chat, process 7: [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_torn.jsonl
Hint: end the other program first
Hint: work on a copy: pi-sessions fork torn --all
Hint: do it all the same: pi-sessions repair torn --force
--- exit code 1
"#);
    assert_eq!(env.run("repair torn --dry-run").code, 0);
    assert_eq!(env.run("repair torn --force").code, 0);
    assert_eq!(env.run("check torn").code, 0);
}

#[test]
fn what_may_not_be_changed_is_refused() {
    let env = TestEnv::new();
    let notes = env.write("notes.jsonl", "{\"type\":\"event\"}\n");
    assert_snapshot!(env.run(&format!("repair {}", notes.display())), @r#"
$ pi-sessions repair [TMP]/notes.jsonl
--- stderr
error: not a session, its first line is no session header: [TMP]/notes.jsonl
Hint: pi-sessions import reads files of other programs, pi-sessions list --all shows the sessions
--- exit code 1
"#);
    let newer = env.write("newer.jsonl", "{\"type\":\"session\",\"version\":4,\"id\":\"n\",\"cwd\":\"/\"}\n{\"type\":");
    assert_snapshot!(env.run(&format!("repair {} --dry-run", newer.display())), @r#"
$ pi-sessions repair [TMP]/newer.jsonl --dry-run
--- stderr
error: version 4 is newer than 3, so this session can be read and not changed: [TMP]/newer.jsonl
Hint: a newer version of pi-sessions may know this format
--- exit code 1
"#);
    assert_eq!(env.run("repair").code, 2);
    assert_eq!(env.run("repair nothing").code, 2);
}
