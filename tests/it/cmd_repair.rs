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
    assert_snapshot!(env.run("repair torn --dry-run"), @"");
    assert_eq!(std::fs::read(&path).expect("the session"), before);
    assert_snapshot!(env.run("repair torn"), @"");
    assert_eq!(std::fs::read(path.with_extension("jsonl.bak")).expect("the backup"), before);
    assert_eq!(env.run("check torn").code, 0);
    assert_snapshot!(env.run("repair torn"), @"");
    assert_snapshot!(env.run("repair torn --json"), @"");
}

#[test]
fn each_change_is_one_object() {
    let env = TestEnv::new();
    env.session("torn", &torn());
    assert_snapshot!(env.run("repair torn --json"), @"");
}

#[test]
fn a_session_that_somebody_holds_is_left_alone() {
    let env = TestEnv::new();
    let path = env.session("torn", &torn());
    let fs: Arc<dyn Fs> = Arc::new(StdFs);
    let _owner = OwnerLock::take(&fs, &path, "chat, process 7").expect("a free lock");
    assert_snapshot!(env.run("repair torn"), @"");
    assert_eq!(env.run("repair torn --dry-run").code, 0);
    assert_eq!(env.run("repair torn --force").code, 0);
    assert_eq!(env.run("check torn").code, 0);
}

#[test]
fn what_may_not_be_changed_is_refused() {
    let env = TestEnv::new();
    let notes = env.write("notes.jsonl", "{\"type\":\"event\"}\n");
    assert_snapshot!(env.run(&format!("repair {}", notes.display())), @"");
    let newer = env.write("newer.jsonl", "{\"type\":\"session\",\"version\":4,\"id\":\"n\",\"cwd\":\"/\"}\n{\"type\":");
    assert_snapshot!(env.run(&format!("repair {} --dry-run", newer.display())), @"");
    assert_eq!(env.run("repair").code, 2);
    assert_eq!(env.run("repair nothing").code, 2);
}
