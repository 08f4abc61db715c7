//! `import`, with a fixture of each format.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use insta::assert_snapshot;
use pi_sessions::import::FORMATS;
use pi_sessions::storage::SessionRead as _;
use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::jsonl::JsonlStorage;
use serde_json::{Value, json};

use crate::support::cli::TestEnv;

/// The folder of an import fixture.
fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/import").join(case)
}

/// Imports and gives what `--json` said of each session.
fn import(env: &TestEnv, source: &Path, more: &str) -> Vec<Value> {
    let run = env.run(&format!("import '{}' --json {more}", source.display()));
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn session_files(env: &TestEnv) -> Vec<PathBuf> {
    let folders = fs::read_dir(env.root()).into_iter().flatten().map(|folder| folder.expect("a folder").path());
    let mut files: Vec<_> =
        folders.flat_map(|folder| fs::read_dir(folder).expect("a folder")).map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

#[test]
fn every_fixture_reads_back_as_it_was_counted() {
    let cases = fs::read_dir(fixture("")).expect("the fixtures").map(|case| case.expect("a case").path());
    let mut formats = BTreeSet::new();
    for case in cases {
        let env = TestEnv::new();
        let planned = import(&env, &case, "--dry-run");
        assert!(session_files(&env).is_empty(), "a dry run writes nothing");
        let imported = import(&env, &case, "");
        assert_eq!(imported.len(), 1, "{}", case.display());
        for key in ["counts", "leftovers", "copies", "damage", "name", "cwd"] {
            assert_eq!(planned[0][key], imported[0][key], "{}: {key}", case.display());
        }
        let counts = &imported[0]["counts"];
        let path = imported[0]["path"].as_str().expect("a path").replace("[TMP]", &env.path().display().to_string());
        let bytes = fs::read(&path).expect("the session");
        let lines: Vec<Value> =
            String::from_utf8_lossy(&bytes).lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let roles = |role: &str| lines.iter().filter(|line| line["message"]["role"] == role).count();
        let types = |wire_type: &str| lines.iter().filter(|line| line["type"] == wire_type).count();
        assert_eq!(counts["entries"], lines.len());
        assert_eq!(counts["user"], roles("user"));
        assert_eq!(counts["assistant"], roles("assistant"));
        assert_eq!(counts["toolResults"], roles("toolResult"));
        assert_eq!(counts["compactions"], types("compaction"));
        assert_eq!(counts["custom"], types("custom"));
        let opened = JsonlStorage::open(Arc::new(StdFs), path.as_ref()).expect("what was imported opens");
        assert_eq!((opened.tree().len(), opened.damage()), (lines.len(), [].as_slice()));
        formats.insert(imported[0]["format"].as_str().expect("a format").to_owned());
    }
    assert_eq!(formats.len(), FORMATS.len(), "each format has a fixture");
}

#[test]
fn a_session_is_imported_once_under_the_id_of_its_source() {
    let env = TestEnv::new();
    let source = fixture("codex-tools");
    let first = import(&env, &source, "");
    assert_eq!(first[0]["id"], "019cb7d0-1111-7222-8333-444455556666");
    assert_eq!(first[0]["cwd"], "/home/dev/api");
    let second = import(&env, &source, "");
    assert_eq!((&second[0]["status"], &second[0]["path"]), (&json!("exists"), &first[0]["path"]));
    assert_eq!(session_files(&env).len(), 1);
}

#[test]
fn the_report_of_an_import() {
    let env = TestEnv::new();
    let source = env.path().join("source");
    fs::create_dir_all(&source).expect("a folder");
    fs::copy(fixture("claude-branches/input.jsonl"), source.join("a.jsonl")).expect("a copy");
    fs::write(source.join("notes.json"), "{\"my\":\"notes\"}").expect("a file");
    let here = env.path().to_owned();
    assert_snapshot!(env.cwd(here).run("import source --cwd /home/me/shop"), @r#"
$ pi-sessions import source --cwd /home/me/shop
imported from claude: [TMP]/data/sessions/--home-me-shop--/2026-02-03T10-00-00-000Z_5d0c1a52-0f6e-4d0b-9a3e-1f2b7c8d9e02.jsonl
  Port the parser: 4 user, 5 assistant, 1 tool result, 1 compaction
  kept in custom entries: 2 summary, 1 toolResultWithoutCall
  said twice: 1 line
--- stderr
warning: [TMP]/source/a.jsonl:9: this line is cut off or not JSON
note: files that are no session of a format asked for: 1
"#);
}

#[test]
fn a_session_of_opencode_is_named_by_its_file_too() {
    let env = TestEnv::new();
    let file = fixture("opencode-storage").join("storage/session/p1/ses_3f1a2b3c4d5e6f.json");
    let imported = import(&env, &file, "");
    assert_eq!((&imported[0]["counts"]["user"], &imported[0]["counts"]["toolResults"]), (&json!(2), &json!(2)));
}

#[test]
fn an_agent_of_a_session_points_to_it() {
    let env = TestEnv::new();
    let source = env.path().join("source");
    fs::create_dir_all(source.join("s1/subagents")).expect("a folder");
    let line = |uuid: &str, more: &str| {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":null,"sessionId":"s1"{more},"message":{{"role":"user","content":"hi"}}}}"#
        )
    };
    fs::write(source.join("s1/subagents/agent-a7.jsonl"), line("u2", r#","isSidechain":true,"agentId":"a7""#)).expect("a file");
    fs::write(source.join("s1.jsonl"), line("u1", "")).expect("a file");
    let imported = import(&env, &source, "");
    assert_eq!((&imported[0]["id"], &imported[1]["id"]), (&json!("s1"), &json!("agent-a7")));
    let parent = imported[1]["parentSession"].as_str().expect("a parent");
    assert!(parent.ends_with("_s1.jsonl"), "{parent}");
}

#[test]
fn what_is_no_session_is_refused() {
    let env = TestEnv::new();
    env.write("notes.jsonl", "nothing of ours");
    let here = env.path().to_owned();
    let env = env.cwd(here);
    assert_snapshot!(env.run("import notes.jsonl"), @r#"
$ pi-sessions import notes.jsonl
--- stderr
error: no session of a known format: [TMP]/notes.jsonl
Hint: pi-sessions import FILE --from claude|codex|opencode|pi takes a file for one of these
--- exit code 1
"#);
    assert_eq!(env.run("import notes.jsonl --from codex").code, 1);
    assert_eq!(env.run("import /there/is/nothing").code, 2);
    assert!(session_files(&env).is_empty());
}
