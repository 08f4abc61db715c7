//! `list`.

use insta::assert_snapshot;

use crate::support::cli::{CWD, DEMO, TestEnv};

/// A user message at a minute of the hour before noon.
fn said(minute: u32, text: &str) -> String {
    let timestamp = 1_796_036_400_000 + u64::from(minute) * 60_000;
    format!(
        r#"{{"type":"message","id":"u{minute}","parentId":null,"timestamp":"2026-11-30T11:{minute:02}:00.000Z","message":{{"role":"user","content":{text:?},"timestamp":{timestamp}}}}}"#
    )
}

/// Four sessions of this folder, one of them empty, one of another folder, and two files that are none.
fn several() -> TestEnv {
    let env = TestEnv::new();
    env.session("019ad3c5-aaaa-7000-8000-000000000001", DEMO);
    env.session("019ad3c5-bbbb-7000-8000-000000000002", &said(30, "What does this do?"));
    env.session(
        "019ad3c6-cccc-7000-8000-000000000003",
        &said(58, "日本語の質問です。とても長いので切られます。とても長いので切られます。"),
    );
    env.session("empty", "");
    env.session_of("other", "/home/me/other", &said(10, "Elsewhere"));
    env.write("data/sessions/--home-me-project--/notes.jsonl", "{\"type\":\"event\"}\n");
    env.write("data/sessions/--home-me-project--/zero.jsonl", "");
    env
}

#[test]
fn a_list_in_a_pipe_is_whole_and_has_dates() {
    assert_snapshot!(several().run("list"), @r#"
$ pi-sessions list
ID                                    ACTIVITY                  MSGS  BRANCHES  NAME OR FIRST MESSAGE
019ad3c6-cccc-7000-8000-000000000003  2026-11-30T11:58:00.000Z     1         1  日本語の質問です。とても長いので切られます。とても長いので切られます。
019ad3c5-bbbb-7000-8000-000000000002  2026-11-30T11:30:00.000Z     1         1  What does this do?
019ad3c5-aaaa-7000-8000-000000000001  2026-11-30T09:30:01.000Z     8         2  Login bug
--- stderr
note: 2 files are no sessions and were left out (-v tells why)
note: 1 session without a message is hidden (--empty shows them)
"#);
    assert_snapshot!(several().run("list --all --empty -v"), @r#"
$ pi-sessions list --all --empty -v
ID                                    ACTIVITY                  MSGS  BRANCHES  FOLDER            NAME OR FIRST MESSAGE
019ad3c6-cccc-7000-8000-000000000003  2026-11-30T11:58:00.000Z     1         1  /home/me/project  日本語の質問です。とても長いので切られます。とても長いので切られます。
019ad3c5-bbbb-7000-8000-000000000002  2026-11-30T11:30:00.000Z     1         1  /home/me/project  What does this do?
other                                 2026-11-30T11:10:00.000Z     1         1  /home/me/other    Elsewhere
019ad3c5-aaaa-7000-8000-000000000001  2026-11-30T09:30:01.000Z     8         2  /home/me/project  Login bug
empty                                 2026-11-30T09:00:00.000Z     0         0  /home/me/project  (no user message)
--- stderr
note: the root (from default) is [TMP]/data/sessions
note: left out: not a session, its first line is no session header: [TMP]/data/sessions/--home-me-project--/notes.jsonl
note: left out: the file is empty: [TMP]/data/sessions/--home-me-project--/zero.jsonl
"#);
}

#[test]
fn a_list_on_a_terminal_fits_it_and_has_ages() {
    let env = several().terminal(80).var("NO_COLOR", "1");
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
ID          ACTIVITY        MSGS  BRANCHES  NAME OR FIRST MESSAGE
019ad3c6-c  2 minutes ago      1         1  日本語の質問です。とても長いので切…
019ad3c5-b  30 minutes ago     1         1  What does this do?
019ad3c5-a  2 hours ago        8         2  Login bug
--- stderr
note: 2 files are no sessions and were left out (-v tells why)
note: 1 session without a message is hidden (--empty shows them)
"#);
    assert_snapshot!(env.run("list --all"), @r#"
$ pi-sessions list --all
ID          ACTIVITY        MSGS  BRANCHES  FOLDER            NAME OR FIRST MES…
019ad3c6-c  2 minutes ago      1         1  /home/me/project  日本語の質問です…
019ad3c5-b  30 minutes ago     1         1  /home/me/project  What does this do?
other       50 minutes ago     1         1  /home/me/other    Elsewhere
019ad3c5-a  2 hours ago        8         2  /home/me/project  Login bug
--- stderr
note: 2 files are no sessions and were left out (-v tells why)
note: 1 session without a message is hidden (--empty shows them)
"#);
    let env = several().terminal(40).var("NO_COLOR", "1");
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
ID          ACTIVITY        MSGS  NAME…
019ad3c6-c  2 minutes ago      1  日本語の…
019ad3c5-b  30 minutes ago     1  What does…
019ad3c5-a  2 hours ago        8  Login bug
--- stderr
note: 2 files are no sessions and were left out (-v tells why)
note: 1 session without a message is hidden (--empty shows them)
"#);
}

#[test]
fn short_ids_resolve() {
    let env = several().terminal(100).var("NO_COLOR", "1");
    let list = env.run("list").stdout;
    let ids: Vec<_> = list.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(ids.len(), 3);
    for id in ids {
        assert_eq!(env.run(&format!("show {id}")).code, 0, "{id} of {list}");
    }
}

#[test]
fn json_has_every_key() {
    assert_snapshot!(several().run("list --all --empty --json"), @r#"
$ pi-sessions list --all --empty --json
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_019ad3c6-cccc-7000-8000-000000000003.jsonl","id":"019ad3c6-cccc-7000-8000-000000000003","cwd":"/home/me/project","name":null,"parentSession":null,"created":"2026-11-30T09:00:00.000Z","modified":"2026-11-30T11:58:00.000Z","messageCount":1,"firstMessage":"日本語の質問です。とても長いので切られます。とても長いので切られます。","sizeBytes":394}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_019ad3c5-bbbb-7000-8000-000000000002.jsonl","id":"019ad3c5-bbbb-7000-8000-000000000002","cwd":"/home/me/project","name":null,"parentSession":null,"created":"2026-11-30T09:00:00.000Z","modified":"2026-11-30T11:30:00.000Z","messageCount":1,"firstMessage":"What does this do?","sizeBytes":307}
{"path":"[TMP]/data/sessions/--home-me-other--/2026-11-30T09-00-00-000Z_other.jsonl","id":"other","cwd":"/home/me/other","name":null,"parentSession":null,"created":"2026-11-30T09:00:00.000Z","modified":"2026-11-30T11:10:00.000Z","messageCount":1,"firstMessage":"Elsewhere","sizeBytes":265}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_019ad3c5-aaaa-7000-8000-000000000001.jsonl","id":"019ad3c5-aaaa-7000-8000-000000000001","cwd":"/home/me/project","name":"Login bug","parentSession":null,"created":"2026-11-30T09:00:00.000Z","modified":"2026-11-30T09:30:01.000Z","messageCount":8,"firstMessage":"Fix the login bug","sizeBytes":3105}
{"path":"[TMP]/data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_empty.jsonl","id":"empty","cwd":"/home/me/project","name":null,"parentSession":null,"created":"2026-11-30T09:00:00.000Z","modified":"2026-11-30T09:00:00.000Z","messageCount":0,"firstMessage":null,"sizeBytes":108}
--- stderr
note: 2 files are no sessions and were left out (-v tells why)
"#);
}

#[test]
fn lists_are_sorted_filtered_and_limited() {
    let env = several();
    let ids = |args: &str| {
        let run = env.run(&format!("{args} --json"));
        let ids = run.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["id"].to_string());
        format!(
            "{} {}",
            run.code,
            ids.map(|id| id.trim_matches('"').replace("-7000-8000-00000000000", "/")).collect::<Vec<_>>().join(" ")
        )
    };
    assert_snapshot!(ids("list --sort size"), @"0 019ad3c5-aaaa/1 019ad3c6-cccc/3 019ad3c5-bbbb/2");
    assert_snapshot!(ids("list --sort messages"), @"0 019ad3c5-aaaa/1 019ad3c6-cccc/3 019ad3c5-bbbb/2");
    assert_snapshot!(ids("list --sort name"), @"0 019ad3c5-aaaa/1 019ad3c6-cccc/3 019ad3c5-bbbb/2");
    assert_snapshot!(ids("list --sort created --all"), @"0 019ad3c6-cccc/3 019ad3c5-bbbb/2 other 019ad3c5-aaaa/1");
    assert_snapshot!(ids("list --named --all"), @"0 019ad3c5-aaaa/1");
    assert_snapshot!(ids("list --cwd ../other"), @"0 other");
    assert_snapshot!(env.run("list --limit 1"), @r#"
$ pi-sessions list --limit 1
ID                                    ACTIVITY                  MSGS  BRANCHES  NAME OR FIRST MESSAGE
019ad3c6-cccc-7000-8000-000000000003  2026-11-30T11:58:00.000Z     1         1  日本語の質問です。とても長いので切られます。とても長いので切られます。
--- stderr
note: 2 files are no sessions and were left out (-v tells why)
note: 1 session without a message is hidden (--empty shows them)
note: 1 of 3 sessions are shown (--limit)
"#);
}

#[test]
fn all_sessions_as_json_are_limited_sorted_and_counted() {
    let env = several();
    assert_eq!(env.run("list --all --json --limit 2").stdout.lines().count(), 2);
    let first = |args: &str| env.run(args).stdout.lines().next().expect("a session").to_owned();
    assert!(first("list --all --json --sort messages").contains("019ad3c5-aaaa"));
    assert!(first("list --all --json").contains("019ad3c6-cccc"));
    // More than one thread makes at a time; the damaged ones are the first and the last.
    for number in 0..600 {
        env.session(&format!("empty-{number}"), "");
    }
    env.session("newest", &(said(59, "new") + "\n{\"torn"));
    env.session("oldest", &(said(0, "old").replace("1796036400000", "1000") + "\n{\"torn"));
    let run = env.run("list --all --json");
    assert_eq!(run.stdout.lines().count(), 6);
    assert!(run.stderr.contains("601 sessions without a message are hidden"), "{}", run.stderr);
    assert!(run.stderr.contains("2 sessions have lines that cannot be read"), "{}", run.stderr);
}

#[test]
fn a_folder_without_sessions_says_where_to_look() {
    assert_snapshot!(TestEnv::new().run("list"), @r#"
$ pi-sessions list
--- stderr
note: no session works in this folder (--all shows those of all folders): /home/me/project
"#);
    assert_snapshot!(TestEnv::new().run("list --all"), @r#"
$ pi-sessions list --all
--- stderr
note: no session in [TMP]/data/sessions
"#);
    assert_snapshot!(several().run("list --cwd /nowhere"), @r#"
$ pi-sessions list --cwd /nowhere
--- stderr
note: 2 files are no sessions and were left out (-v tells why)
note: no session works in this folder (--all shows those of all folders): /nowhere
"#);
}

#[test]
fn a_damaged_session_is_listed_and_told() {
    let env = TestEnv::new();
    env.session("torn", &format!("{}\n{{\"type\":\"mess", DEMO.trim()));
    env.session("whole", &said(5, "x"));
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
ID     ACTIVITY                  MSGS  BRANCHES  NAME OR FIRST MESSAGE
whole  2026-11-30T11:05:00.000Z     1         1  x
torn   2026-11-30T09:30:01.000Z     8         2  Login bug  (damaged)
--- stderr
note: 1 session has lines that cannot be read as they should (pi-sessions check tells which)
"#);
}

#[test]
#[cfg(unix)]
fn a_folder_is_the_same_by_its_name_and_by_its_link() {
    let env = TestEnv::new();
    let (real, link) = (env.path().join("real"), env.path().join("link"));
    std::fs::create_dir(&real).expect("a folder");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    env.session_of("by-name", &real.to_string_lossy(), &said(5, "x"));
    env.session_of("by-link", &link.to_string_lossy(), &said(6, "x"));
    for cwd in [&real, &link] {
        assert_eq!(env.run(&format!("list --json --cwd {}", cwd.display())).stdout.lines().count(), 2);
    }
}

#[test]
fn forks_are_marked() {
    let env = TestEnv::new();
    let source = env.session("019ad3c5-aaaa-7000-8000-000000000001", DEMO);
    env.write(
        "data/sessions/--home-me-project--/2026-11-30T11-00-00-000Z_copy.jsonl",
        &format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"copy\",\"timestamp\":\"2026-11-30T11:00:00.000Z\",\"cwd\":\"{CWD}\",\"parentSession\":\"{}\"}}\n{}\n",
            source.display(),
            said(5, "And now?")
        ),
    );
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
ID                                    ACTIVITY                  MSGS  BRANCHES  NAME OR FIRST MESSAGE
copy                                  2026-11-30T11:05:00.000Z     1         1  And now?  (fork of 019ad3c5-aaaa-7000-8000-000000000001)
019ad3c5-aaaa-7000-8000-000000000001  2026-11-30T09:30:01.000Z     8         2  Login bug
"#);
    assert_snapshot!(env.terminal(72).var("NO_COLOR", "1").run("list"), @r#"
$ pi-sessions list
ID        ACTIVITY        MSGS  BRANCHES  NAME OR FIRST MESSAGE
copy      55 minutes ago     1         1  And now?  (fork)
019ad3c5  2 hours ago        8         2  Login bug
"#);
}

#[test]
fn hostile_text_moves_no_cursor() {
    let env = TestEnv::new();
    env.session("evil", &said(5, "a").replace(r#""a""#, r#""\u001b[2J\u001b]0;title\u0007red\r\n\ttab\u009b31m \u202e end""#));
    assert_snapshot!(env.run("list"), @r#"
$ pi-sessions list
ID    ACTIVITY                  MSGS  BRANCHES  NAME OR FIRST MESSAGE
evil  2026-11-30T11:05:00.000Z     1         1  red tab end
"#);
    let json = env.run("list --json").stdout;
    assert!(!json.contains('\u{1b}') && !json.contains('\u{9b}'), "{json}");
}

#[test]
fn colours_tell_names_from_messages() {
    assert_snapshot!(several().terminal(80).run("list --limit 2"), @r#"
$ pi-sessions list --limit 2
␛[2mID          ACTIVITY        MSGS  BRANCHES  NAME OR FIRST MESSAGE␛[0m
␛[33m019ad3c6-c␛[0m  2 minutes ago      1         1  日本語の質問です。とても長いので切…
␛[33m019ad3c5-b␛[0m  30 minutes ago     1         1  What does this do?
--- stderr
␛[2mnote:␛[0m 2 files are no sessions and were left out (-v tells why)
␛[2mnote:␛[0m 1 session without a message is hidden (--empty shows them)
␛[2mnote:␛[0m 2 of 3 sessions are shown (--limit)
"#);
}

#[test]
fn no_row_is_wider_than_the_terminal() {
    for columns in [50, 60, 80, 100, 200] {
        let env = TestEnv::new().terminal(columns);
        let demo = env.session("demo", DEMO);
        assert_eq!(env.run("fork demo").code, 0);
        // A fork with a damaged line has both marks.
        let files = std::fs::read_dir(demo.parent().expect("a folder")).expect("a folder");
        let mut files = files.map(|file| file.expect("a file").path());
        let fork = files.find(|file| *file != demo && file.extension().is_some_and(|end| end == "jsonl")).expect("the fork");
        let bytes = std::fs::read(&fork).expect("the fork");
        std::fs::write(&fork, [&bytes, b"torn".as_slice()].concat()).expect("a line");
        for args in ["list --color never", "list --all --color never"] {
            let run = env.run(args);
            let marked = |mark: &str| run.stdout.lines().filter(|line| line.contains(mark)).count();
            // With little room, what is damaged matters more.
            assert_eq!(marked("(damaged)"), 1, "{columns}: {}", run.stdout);
            if !(60..=80).contains(&columns) {
                assert_eq!(marked("(fork"), usize::from(columns > 80), "{columns}: {}", run.stdout);
            }
            for line in run.stdout.lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
    }
}

#[test]
fn a_warm_cache_changes_no_list_and_no_name() {
    let env = several();
    let mut last = None;
    for args in ["list --all --empty --json", "list", "show 019ad3c6 --json", "show @last --json"] {
        let (cold, warm) = (env.run(args), env.run(args));
        assert_eq!(cold, warm);
        last = Some(warm);
    }
    assert!(env.path().join("cache").is_dir());
    // What is said elsewhere shows at once.
    env.pipe("append 019ad3c5-bbbb", r#"{"role":"user","content":"And this?"}"#);
    assert!(env.run("list").stdout.lines().nth(1).expect("a session").starts_with("019ad3c5-bbbb"));
    assert_ne!(env.run("show @last --json").stdout, last.expect("a run").stdout);
    std::fs::remove_dir_all(env.path().join("cache")).expect("it is there");
    assert!(env.run("list").stdout.lines().nth(1).expect("a session").starts_with("019ad3c5-bbbb"));
}
