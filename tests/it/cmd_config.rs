//! `config`, the configuration file, and the root of sessions.

use insta::assert_snapshot;

use crate::support::cli::TestEnv;

#[test]
fn what_is_in_force_is_shown_with_its_origin() {
    let env = TestEnv::new();
    assert_snapshot!(env.run("config"), @r#"
$ pi-sessions config
config                    [TMP]/config/config.toml  (default, no such file)
root                      [TMP]/data/sessions  (default)
root.layout               a folder for each cwd  (default)
context.micro_compaction  false  (default)
context.truncation        false  (default)
"#);
    env.write("config/config.toml", "root = \"../kept\"\n[context]\ntruncation = true\n");
    assert_snapshot!(env.run("config"), @r#"
$ pi-sessions config
config                    [TMP]/config/config.toml  (default)
root                      [TMP]/kept  ([TMP]/config/config.toml)
root.layout               a folder for each cwd  ([TMP]/config/config.toml)
context.micro_compaction  false  (default)
context.truncation        true  ([TMP]/config/config.toml)
"#);
    assert_snapshot!(env.run("config --json"), @r#"
$ pi-sessions config --json
{"key":"config","value":"[TMP]/config/config.toml","origin":"default"}
{"key":"root","value":"[TMP]/kept","origin":"[TMP]/config/config.toml"}
{"key":"root.layout","value":"a folder for each cwd","origin":"[TMP]/config/config.toml"}
{"key":"context.micro_compaction","value":false,"origin":"default"}
{"key":"context.truncation","value":true,"origin":"[TMP]/config/config.toml"}
"#);
    assert_snapshot!(env.run("new"), @r#"
$ pi-sessions new
[TMP]/kept/--home-me-project--/2026-11-30T12-00-04-000Z_019ad3c5-0000-7000-8000-000000000001.jsonl
"#);
}

/// The root that is in force, where it comes from, and its layout.
fn root(env: &TestEnv, args: &str) -> String {
    let run = env.run(&format!("config --json {args}"));
    let value = |key: &str| {
        let lines = run.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        lines.into_iter().find(|line| line["key"] == key).unwrap_or_else(|| panic!("{run}"))
    };
    format!("{} | {} | {}{}", value("root")["value"], value("root")["origin"], value("root.layout")["value"], run.stderr)
        .replace('"', "")
}

#[test]
fn the_root_is_found_in_its_order() {
    let project = |env: TestEnv| {
        let cwd = env.path().join("project");
        env.cwd(cwd)
    };
    let env = project(TestEnv::new());
    assert_snapshot!(root(&env, ""), @"[TMP]/data/sessions | default | a folder for each cwd");
    std::fs::create_dir_all(env.home().join(".pi/agent/sessions")).expect("a folder");
    assert_snapshot!(root(&env, ""), @"[TMP]/home/.pi/agent/sessions | default | a folder for each cwd");
    let env = env.var("PI_CODING_AGENT_DIR", "~/agent");
    assert_snapshot!(root(&env, ""), @"[TMP]/home/agent/sessions | PI_CODING_AGENT_DIR | a folder for each cwd");
    env.write("home/agent/settings.json", r#"{"sessionDir":"~/flat"}"#);
    assert_snapshot!(root(&env, ""), @"[TMP]/home/flat | [TMP]/home/agent/settings.json | flat");
    env.write("project/.pi/settings.json", r#"{"theme":"dark","sessionDir":".pi/sessions"}"#);
    assert_snapshot!(root(&env, ""), @"[TMP]/project/.pi/sessions | [TMP]/project/.pi/settings.json | flat");
    let env = env.var("PI_CODING_AGENT_SESSION_DIR", "/pi/sessions");
    assert_snapshot!(root(&env, ""), @"/pi/sessions | PI_CODING_AGENT_SESSION_DIR | flat");
    env.write("config/config.toml", "root = \"~/kept\"\n");
    assert_snapshot!(root(&env, ""), @"[TMP]/home/kept | [TMP]/config/config.toml | a folder for each cwd");
    let env = env.var("PI_SESSIONS_ROOT", "here");
    assert_snapshot!(root(&env, ""), @"[TMP]/project/here | PI_SESSIONS_ROOT | a folder for each cwd");
    assert_snapshot!(root(&env, "--root ../there"), @"[TMP]/there | --root | a folder for each cwd");
    assert_snapshot!(env.run("config --root ''"), @r#"
$ pi-sessions config --root ''
--- stderr
error: a value is required for '--root <DIR>' but none was supplied

For more information, try '--help'.
--- exit code 2
"#);
}

#[test]
fn settings_of_pi_that_cannot_be_read_are_told_and_left_out() {
    let env = TestEnv::new();
    env.write("home/.pi/agent/settings.json", "{ \"sessionDir\": 5 }");
    assert_snapshot!(root(&env, ""), @"[TMP]/data/sessions | default | a folder for each cwdwarning: ignoring settings that cannot be read (invalid type: integer `5`, expected a string at line 1 column 17): [TMP]/home/.pi/agent/settings.json");
}

#[test]
fn new_sessions_lie_flat_in_a_folder_of_pi_that_is_flat() {
    let env = TestEnv::new();
    let env = env.var("PI_CODING_AGENT_SESSION_DIR", "/x");
    assert!(root(&env, "").ends_with("flat"));
    let dir = env.path().join("flat");
    let env = env.var("PI_CODING_AGENT_SESSION_DIR", dir);
    assert_snapshot!(env.run("new"), @r#"
$ pi-sessions new
[TMP]/flat/2026-11-30T12-00-02-000Z_019ad3c5-0000-7000-8000-000000000001.jsonl
"#);
}

#[test]
fn a_wrong_field_is_named_with_file_and_line() {
    let env = TestEnv::new();
    env.write("config/config.toml", "root = \"x\"\n\n[context]\nmicro = true\n");
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
--- stderr
error: wrong configuration: unknown field `micro`, expected `micro_compaction` or `truncation`; field "micro", line 4 of [TMP]/config/config.toml
--- exit code 1
"#);
    env.write("config/config.toml", "root = 5\n");
    assert_snapshot!(env.run("list --json"), @r#"
$ pi-sessions list --json
--- stderr
{"error":{"kind":"config","message":"wrong configuration: invalid type: integer `5`, expected a string; field \"root\", line 1 of [TMP]/config/config.toml","hints":[]}}
--- exit code 1
"#);
    env.write("config/config.toml", "root = \n");
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
--- stderr
error: wrong configuration: string values must be quoted, expected literal string; field "root", line 1 of [TMP]/config/config.toml
--- exit code 1
"#);
    let env = TestEnv::new().var("PI_SESSIONS_CONFIG", "mine.toml");
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
--- stderr
error: cannot read the configuration /home/me/project/mine.toml
Caused by: No such file or directory (os error 2)
--- exit code 1
"#);
}
