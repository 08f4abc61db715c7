//! `show`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

#[test]
fn a_session_is_described() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_snapshot!(env.run("show demo"), @r#"
$ pi-sessions show demo
name         Login bug
id           demo
file         [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl
folder       /home/me/project  (does not exist)
created      2026-11-30T09:00:00.000Z
activity     2026-11-30T09:30:01.000Z
version      3
model        mock/mock-2
thinking     off
leaf         n1  session_info: Login bug
messages     8 (3 user, 4 assistant, 1 tool result)
entries      11
compactions  0
branches     2
tokens       723 (input 580, output 43, cache read 100, cache write 0)
cost         $0.0050
size         3.1 KB
"#);
    assert_snapshot!(env.run("show demo --json"), @r#"
$ pi-sessions show demo --json
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl","id":"demo","cwd":"/home/me/project","name":"Login bug","parentSession":null,"created":"2026-11-30T09:00:00.000Z","modified":"2026-11-30T09:30:01.000Z","messageCount":8,"firstMessage":"Fix the login bug","sizeBytes":3073,"version":3,"model":{"provider":"mock","modelId":"mock-2"},"thinkingLevel":"off","leafId":"n1","branches":2,"tokens":{"input":580,"output":43,"cacheRead":100,"cacheWrite":0,"total":723},"cost":0.005,"forks":[]}
"#);
}

#[test]
fn the_latest_session_of_the_folder_is_meant_without_a_name() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    env.session("empty", "");
    env.session_of("other", "/home/me/other", DEMO);
    assert_eq!(env.run("show --json").stdout, env.run("show demo --json").stdout);
    assert_snapshot!(env.cwd("/elsewhere").run("show"), @r#"
$ pi-sessions show
--- stderr
error: there is no session with a message in this folder
Hint: pi-sessions list --all
--- exit code 2
"#);
}

#[test]
fn an_empty_session_has_nothing_yet() {
    let env = TestEnv::new();
    env.session("empty", "");
    assert_snapshot!(env.terminal(80).var("NO_COLOR", "1").run("show empty"), @r#"
$ pi-sessions show empty
name         none
id           empty
file         [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_empty.jsonl
folder       /home/me/project  (does not exist)
created      2026-11-30T09:00:00.000Z (3 hours ago)
activity     2026-11-30T09:00:00.000Z (3 hours ago)
version      3
model        none
thinking     off
leaf         none; the next entry begins the tree
messages     0 (0 user, 0 assistant, 0 tool results)
entries      0
compactions  0
branches     0
tokens       0 (input 0, output 0, cache read 0, cache write 0)
cost         $0.0000
size         108 bytes
"#);
    let env = TestEnv::new();
    env.session("empty", "");
    assert_snapshot!(env.run("show empty --json"), @r#"
$ pi-sessions show empty --json
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_empty.jsonl","id":"empty","cwd":"/home/me/project","name":null,"parentSession":null,"created":"2026-11-30T09:00:00.000Z","modified":"2026-11-30T09:00:00.000Z","messageCount":0,"firstMessage":null,"sizeBytes":108,"version":3,"model":null,"thinkingLevel":"off","leafId":null,"branches":0,"tokens":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0},"cost":0.0,"forks":[]}
"#);
}

#[test]
fn parent_and_forks_are_found() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    assert_eq!(env.run("fork demo").code, 0);
    let forks = env.run("show demo").stdout;
    assert!(forks.contains("fork         [TMP]/data/sessions/--home-me-project--/2026-11-30T12-00-01-000Z_019ad3c5"), "{forks}");
    let parent = env.run("show 019ad3c5").stdout;
    assert!(
        parent.contains("parent       [TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_demo.jsonl"),
        "{parent}"
    );
}

#[test]
fn a_stale_rename_is_told_with_the_way_to_it() {
    let env = TestEnv::new();
    let stale = r#"{"type":"session_info","id":"n2","parentId":"a3","timestamp":"2026-11-30T09:40:00.000Z","name":"Renamed"}"#;
    env.session("demo", &format!("{}\n{stale}", DEMO.trim()));
    let run = env.run("show demo");
    assert_snapshot!(run.stderr, @"note: the last line, a session_info entry, hangs elsewhere than the leaf, and Pi would go on from it; to go there too: pi-sessions goto demo n2");
    assert_eq!(env.run("goto demo n2").code, 0);
    assert_eq!(env.run("show demo").stderr, "");
}

#[test]
fn damage_is_told_and_the_rest_is_shown() {
    let env = TestEnv::new();
    env.session("demo", &format!("{}\n{{\"type\":\"mess", DEMO.trim()));
    let run = env.run("show demo --json");
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains(r#""messageCount":8"#), "{run}");
    assert_snapshot!(run.stderr, @"warning: 1 line cannot be read as it should; pi-sessions check demo tells where");
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_not_opened() {
    let env = TestEnv::new();
    for path in ["/dev/null", "/dev/"] {
        let run = env.run(&format!("show {path}"));
        assert_eq!(run.code, 2, "{}", run.stderr);
        let expect = format!("error: a session is a regular file, and this is none: {path}");
        assert_eq!(run.stderr.lines().next(), Some(&*expect));
    }
}
