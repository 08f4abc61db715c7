//! `search`.

use std::fs;

use insta::assert_snapshot;

use crate::support::cli::{CWD, DEMO, TestEnv};

/// A user message at a minute of the hour before noon.
fn said(minute: u32, text: &str) -> String {
    let timestamp = 1_796_036_400_000 + u64::from(minute) * 60_000;
    format!(
        r#"{{"type":"message","id":"u{minute}","parentId":null,"timestamp":"2026-11-30T11:{minute:02}:00.000Z","message":{{"role":"user","content":{},"timestamp":{timestamp}}}}}"#,
        serde_json::Value::from(text)
    )
}

/// The demo, a session in another folder, and one with a long line and escape sequences.
fn several() -> TestEnv {
    let env = TestEnv::new();
    env.session("019ad3c5-aaaa-7000-8000-000000000001", DEMO);
    env.session_of("019ad3c5-bbbb-7000-8000-000000000002", "/home/me/other", &said(10, "Write a login page"));
    let hostile = format!("{} the \u{1b}[31mlogin\u{1b}[0m\u{202e} page {}", "long ".repeat(20), "tail ".repeat(40));
    env.session("019ad3c5-cccc-7000-8000-000000000003", &said(20, &hostile));
    env
}

#[test]
fn hits_in_a_pipe_are_whole_and_have_dates() {
    assert_snapshot!(several().run("search login"), @r#"
$ pi-sessions search login
019ad3c5-cccc-7000-8000-000000000003  u20  user        2026-11-30T11:20:00.000Z  /home/me/project
  …long long long long long long the «login» page tail tail tail tail tail tail tail tail tail tail tail tail tail tail tail tail tail tail tail tail tail t…
  pi-sessions goto 019ad3c5-cccc-7000-8000-000000000003 u20
019ad3c5-aaaa-7000-8000-000000000001  n1   name        2026-11-30T09:32:00.000Z  Login bug
  «Login» bug
  pi-sessions resume 019ad3c5-aaaa-7000-8000-000000000001
019ad3c5-aaaa-7000-8000-000000000001  r1   toolResult  2026-11-30T09:00:04.000Z  Login bug
  fn «login»() { panic!() }
  pi-sessions goto 019ad3c5-aaaa-7000-8000-000000000001 r1
019ad3c5-aaaa-7000-8000-000000000001  a1   assistant   2026-11-30T09:00:03.000Z  Login bug
  {"path":"«login».rs"}
  pi-sessions goto 019ad3c5-aaaa-7000-8000-000000000001 a1
019ad3c5-aaaa-7000-8000-000000000001  u1   user        2026-11-30T09:00:02.000Z  Login bug
  Fix the «login» bug
  pi-sessions goto 019ad3c5-aaaa-7000-8000-000000000001 u1
"#);
    assert_snapshot!(several().run("search --all 'write page' --role user"), @r#"
$ pi-sessions search --all 'write page' --role user
019ad3c5-bbbb-7000-8000-000000000002  u10  user  2026-11-30T11:10:00.000Z  /home/me/other
  «Write» a login «page»
  pi-sessions goto 019ad3c5-bbbb-7000-8000-000000000002 u10
"#);
}

#[test]
fn hits_on_a_terminal_fit_it_and_have_ages() {
    let env = several().terminal(80).var("NO_COLOR", "1");
    assert_snapshot!(env.run("search login --all"), @r#"
$ pi-sessions search login --all
019ad3c5-c  u20  user        40 minutes ago  /home/me/project
  …long long long long long long the «login» page tail tail tail tail tail tail…
  pi-sessions goto 019ad3c5-c u20
019ad3c5-b  u10  user        50 minutes ago  /home/me/other
  Write a «login» page
  pi-sessions goto 019ad3c5-b u10
019ad3c5-a  n1   name        2 hours ago     Login bug
  «Login» bug
  pi-sessions resume 019ad3c5-a
019ad3c5-a  r1   toolResult  2 hours ago     Login bug
  fn «login»() { panic!() }
  pi-sessions goto 019ad3c5-a r1
019ad3c5-a  a1   assistant   2 hours ago     Login bug
  {"path":"«login».rs"}
  pi-sessions goto 019ad3c5-a a1
019ad3c5-a  u1   user        2 hours ago     Login bug
  Fix the «login» bug
  pi-sessions goto 019ad3c5-a u1
"#);
    assert_snapshot!(several().terminal(40).run("search login --limit 2"), @r#"
$ pi-sessions search login --limit 2
␛[33m019ad3c5-c␛[0m  u20  user  40 minutes ago
  …g long the ␛[1m␛[31mlogin␛[0m page tail tail tail…
  ␛[2mpi-sessions goto 019ad3c5-c u20␛[0m
␛[33m019ad3c5-a␛[0m  n1   name  2 hours ago
  ␛[1m␛[31mLogin␛[0m bug
  ␛[2mpi-sessions resume 019ad3c5-a␛[0m
--- stderr
␛[2mnote:␛[0m there are more than these 2 hits (--limit N shows more)
"#);
    assert_snapshot!(env.run("search diagnosis"), @r#"
$ pi-sessions search diagnosis
019ad3c5-a  l1  label  2 hours ago  Login bug
  «diagnosis»
  pi-sessions resume 019ad3c5-a
"#);
}

#[test]
fn json_has_every_key() {
    assert_snapshot!(several().run("search 'bug OR diagnosis OR panic' --json"), @r#"
$ pi-sessions search 'bug OR diagnosis OR panic' --json
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_019ad3c5-aaaa-7000-8000-000000000001.jsonl","sessionId":"019ad3c5-aaaa-7000-8000-000000000001","entryId":"n1","role":null,"timestamp":"2026-11-30T09:32:00.000Z","snippet":"Login bug"}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_019ad3c5-aaaa-7000-8000-000000000001.jsonl","sessionId":"019ad3c5-aaaa-7000-8000-000000000001","entryId":"l1","role":null,"timestamp":"2026-11-30T09:31:00.000Z","snippet":"diagnosis"}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_019ad3c5-aaaa-7000-8000-000000000001.jsonl","sessionId":"019ad3c5-aaaa-7000-8000-000000000001","entryId":"r1","role":"toolResult","timestamp":"2026-11-30T09:00:04.000Z","snippet":"fn login() { panic!() }"}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_019ad3c5-aaaa-7000-8000-000000000001.jsonl","sessionId":"019ad3c5-aaaa-7000-8000-000000000001","entryId":"u1","role":"user","timestamp":"2026-11-30T09:00:02.000Z","snippet":"Fix the login bug"}
"#);
}

#[test]
fn the_commands_below_hits_find_their_entries() {
    for env in [several(), several().terminal(80).var("NO_COLOR", "1")] {
        let shown = env.run("search 'login OR written' --all").stdout;
        let commands: Vec<_> = shown.lines().filter_map(|line| line.trim().strip_prefix("pi-sessions goto ")).collect();
        assert_eq!(commands.len(), 6, "{shown}");
        for command in commands {
            let (session, entry) = command.split_once(' ').expect("a session and an entry");
            let run = env.run(&format!("path {session} --at {entry}"));
            assert!(run.code == 0 && run.stdout.contains(&format!(r#""id":"{entry}""#)), "{run}");
        }
    }
    // An id that looks like an option is none.
    let env = TestEnv::new();
    env.session("odd", &said(1, "login").replace("u1", "--summarize"));
    let shown = env.run("search login").stdout;
    assert!(shown.contains("pi-sessions goto odd -- --summarize\n"), "{shown}");
    let run = env.run("goto odd -- --summarize");
    assert!(run.code == 0 && run.stdout == "login\n", "{run}");
    // Under another root than the usual one, no id is found by the next command.
    let env = TestEnv::new();
    env.session("there", &said(1, "login"));
    let root = env.root();
    let elsewhere = TestEnv::new();
    let shown = elsewhere.run_words(&["--root", &root.to_string_lossy(), "search", "login", "--all"]).stdout;
    assert!(shown.contains("_there.jsonl u1\n"), "{shown}");
    // A copy of a file has the same id, so that only the path tells which is meant.
    let env = TestEnv::new();
    let path = env.session("twice", &said(1, "login"));
    fs::copy(&path, path.with_file_name("copy.jsonl")).expect("a copy");
    let shown = env.run("search login").stdout;
    assert!(shown.contains("copy.jsonl u1\n") && shown.contains("_twice.jsonl u1\n"), "{shown}");
}

#[test]
fn hits_are_chosen_by_folder_role_time_and_number() {
    let env = several();
    let ids = |args: &str| {
        let run = env.run(&format!("search {args} --json"));
        assert_eq!(run.code, 0, "{run}");
        let id = |line: &str| line.split(r#""entryId":""#).nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned);
        run.stdout.lines().filter_map(id).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids("login"), "u20 n1 r1 a1 u1");
    assert_eq!(ids("login --all"), "u20 u10 n1 r1 a1 u1");
    assert_eq!(ids("login --cwd ../other"), "u10");
    assert_eq!(ids("login --role tool"), "r1");
    assert_eq!(ids("login --role toolResult"), "r1");
    assert_eq!(ids("login --since 1h"), "u20");
    assert_eq!(ids("login --since 2026-11-30T09:00:04Z"), "u20 n1 r1");
    assert_eq!(ids("login --limit 2"), "u20 n1");
    assert_eq!(ids("login --limit 0"), "");
    assert_eq!(ids("--regex 'L[a-z]+ bug'"), "n1");
    assert_eq!(ids("login --no-index"), ids("login"));
}

#[test]
fn nothing_found_is_told() {
    assert_snapshot!(several().run("search absent"), @r#"
$ pi-sessions search absent
--- stderr
note: nothing was found in this folder's sessions (--all searches all folders): /home/me/project
"#);
    assert_snapshot!(several().run("search absent --all --json"), @r#"
$ pi-sessions search absent --all --json
--- stderr
note: nothing was found
"#);
}

#[test]
fn a_wrong_query_says_where() {
    let env = TestEnv::new();
    assert_snapshot!(env.run("search --regex 'fn (a|b'"), @r#"
$ pi-sessions search --regex 'fn (a|b'
--- stderr
error: the regular expression is wrong at character 4, unclosed group: fn (a|b
--- exit code 2
"#);
    assert_snapshot!(env.run("search '=>'"), @r#"
$ pi-sessions search '=>'
--- stderr
error: there is no letter, digit or symbol to look for in "=>"
Hint: to look for signs: pi-sessions search --regex '=>'
--- exit code 2
"#);
    assert_snapshot!(env.run("search a --since yesterday"), @r#"
$ pi-sessions search a --since yesterday
--- stderr
error: invalid value 'yesterday' for '--since <TIME>': it has to be a number with m, h, d or w, such as 2h, or a date such as 2026-11-30

For more information, try '--help'.
--- exit code 2
"#);
}

#[test]
fn an_index_that_cannot_be_used_changes_nothing() {
    let (good, broken, off) = (several(), several(), several());
    broken.write("cache", "this is no folder");
    off.write("config/config.toml", "[cache]\nenabled = false\n");
    for args in ["search login --all", "list --all"] {
        let expect = good.run(args);
        assert_eq!(broken.run(args), expect);
        assert_eq!(off.run(args), expect);
    }
    assert!(good.path().join("cache").is_dir());
    assert!(!off.path().join("cache").exists());
    let told = "note: the index is switched off or cannot be used, so every file was read\n";
    assert!(!good.run("search login -v").stderr.contains(told));
    assert!(broken.run("search login -v").stderr.contains(told));
    assert!(off.run("search login -v").stderr.contains(told));
}

#[test]
fn what_is_said_after_a_search_is_found() {
    let env = several();
    assert_eq!(env.run("search newest").stdout, "");
    let session = "019ad3c5-aaaa-7000-8000-000000000001";
    env.pipe(&format!("append {session}"), r#"{"role":"user","content":"the newest"}"#);
    assert!(env.run("search newest").stdout.contains("the «newest»"));
    fs::remove_dir_all(env.root().join(pi_sessions::storage::repo::folder_name(CWD))).expect("it is there");
    assert_eq!(env.run("search newest").stdout, "");
}
