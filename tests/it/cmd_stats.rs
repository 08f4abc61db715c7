//! `stats`.

use insta::assert_snapshot;

use crate::support::cli::{DEMO, TestEnv};

/// The demo, a fork of it that went on, and a session of another folder with a summary that cost something.
fn family() -> TestEnv {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    let copied: Vec<_> = DEMO.trim().lines().take(5).collect();
    let more = r#"{"type":"message","id":"u9","parentId":"a2","timestamp":"2026-11-30T10:00:00.000Z","message":{"role":"user","content":"=1+1","timestamp":1796032800000}}
{"type":"message","id":"a9","parentId":"u9","timestamp":"2026-11-30T10:02:05.000Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c9","name":"bash","arguments":{"command":"bc"}}],"api":"openai-completions","provider":"mock","model":"mock-2","usage":{"input":1000,"output":40,"cacheRead":0,"cacheWrite":7,"totalTokens":1047,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.25}},"stopReason":"toolUse","timestamp":1796032925000}}
{"type":"message","id":"r9","parentId":"a9","timestamp":"2026-11-30T10:02:06.000Z","message":{"role":"toolResult","toolCallId":"c9","toolName":"bash","content":[{"type":"text","text":"no"}],"isError":true,"timestamp":1796032926000}}
{"type":"session_info","id":"n9","parentId":"r9","timestamp":"2026-11-30T10:02:07.000Z","name":"=SUM(A1), \"all\""}"#;
    env.session("fork", &format!("{}\n{more}", copied.join("\n")));
    env.session_of(
        "other",
        "/home/me/other",
        r#"{"type":"message","id":"u1","parentId":null,"timestamp":"2026-11-28T09:00:00.000Z","message":{"role":"user","content":"hi","timestamp":1795856400000}}
{"type":"compaction","id":"k1","parentId":"u1","timestamp":"2026-11-28T09:00:10.000Z","summary":"s","firstKeptEntryId":"u1","tokensBefore":5,"usage":{"input":3,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":5,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.125}}}"#,
    );
    env
}

#[test]
fn a_session_adds_up_to_what_show_says() {
    let env = family();
    assert_snapshot!(env.run("stats demo"), @r#"
$ pi-sessions stats demo
sessions     1
messages     8 (3 prompts, 4 turns)
tool calls   1 (0 failed)
compactions  0
branches     2
tokens       723 (input 580, output 43, cache read 100, cache write 0)
cost         $0.0050
active       6s
"#);
    assert_snapshot!(env.run("stats demo --json"), @r#"
$ pi-sessions stats demo --json
{"by":null,"key":null,"name":null,"sessions":1,"messages":8,"prompts":3,"turns":4,"toolCalls":1,"toolFailures":0,"compactions":0,"branches":2,"tokens":{"input":580,"output":43,"cacheRead":100,"cacheWrite":0,"total":723},"cost":0.005,"activeMs":6000}
"#);
    let show = env.run("show demo --json").stdout;
    assert!(show.contains(r#""tokens":{"input":580,"output":43,"cacheRead":100,"cacheWrite":0,"total":723},"cost":0.005,"#));
}

#[test]
fn what_a_fork_copied_counts_once_in_a_folder() {
    let env = family();
    assert_snapshot!(env.run("stats"), @r#"
$ pi-sessions stats
sessions     2
messages     11 (4 prompts, 5 turns)
tool calls   2 (1 failed)
compactions  0
branches     3
tokens       1,770 (input 1,580, output 83, cache read 100, cache write 7)
cost         $0.2550
active       2m 12s
--- stderr
note: 4 entries are copies that forks made and count once
"#);
    assert_snapshot!(env.run("stats --all --by project"), @r#"
$ pi-sessions stats --all --by project
PROJECT           SESSIONS  MSGS  PROMPTS  TURNS  CALLS  FAILED  COMPACTIONS  BRANCHES  INPUT  OUTPUT  CACHE READ  CACHE WRITE  ACTIVE     COST
/home/me/project         2    11        4      5      2       1            0         3  1,580      83         100            7  2m 12s  $0.2550
/home/me/other           1     1        1      0      0       0            1         1      3       2           0            0      0s  $0.1250
total                    3    12        5      5      2       1            1         4  1,583      85         100            7  2m 12s  $0.3800
--- stderr
note: 4 entries are copies that forks made and count once
"#);
    // Alone it counts whole.
    assert_snapshot!(env.run("stats fork --json"), @r#"
$ pi-sessions stats fork --json
{"by":null,"key":null,"name":null,"sessions":1,"messages":7,"prompts":2,"turns":3,"toolCalls":2,"toolFailures":1,"compactions":0,"branches":1,"tokens":{"input":1250,"output":70,"cacheRead":100,"cacheWrite":7,"total":1427},"cost":0.255,"activeMs":129000}
"#);
}

#[test]
fn groups_have_a_line_each() {
    let env = family();
    assert_snapshot!(env.run("stats --all --by day --json"), @r#"
$ pi-sessions stats --all --by day --json
{"by":"day","key":"2026-11-28","name":null,"sessions":1,"messages":1,"prompts":1,"turns":0,"toolCalls":0,"toolFailures":0,"compactions":1,"branches":1,"tokens":{"input":3,"output":2,"cacheRead":0,"cacheWrite":0,"total":5},"cost":0.125,"activeMs":0}
{"by":"day","key":"2026-11-30","name":null,"sessions":2,"messages":11,"prompts":4,"turns":5,"toolCalls":2,"toolFailures":1,"compactions":0,"branches":3,"tokens":{"input":1580,"output":83,"cacheRead":100,"cacheWrite":7,"total":1770},"cost":0.255,"activeMs":132000}
--- stderr
note: 4 entries are copies that forks made and count once
"#);
    assert_snapshot!(env.run("stats --by model"), @r#"
$ pi-sessions stats --by model
MODEL        SESSIONS  MSGS  PROMPTS  TURNS  CALLS  FAILED  COMPACTIONS  BRANCHES  INPUT  OUTPUT  CACHE READ  CACHE WRITE  ACTIVE     COST
mock/mock-2         2     3        0      2      1       1            0         2  1,170      48           0            7  2m 07s  $0.2500
mock/mock-1         2     8        4      3      1       0            0         1    410      35         100            0      5s  $0.0050
total               2    11        4      5      2       1            0         3  1,580      83         100            7  2m 12s  $0.2550
--- stderr
note: 4 entries are copies that forks made and count once
"#);
    assert_snapshot!(env.run("stats --by tool"), @r#"
$ pi-sessions stats --by tool
TOOL  SESSIONS  MSGS  CALLS  FAILED     COST
bash         1     1      1       1  $0.0000
read         1     1      1       0  $0.0000
--- stderr
note: 4 entries are copies that forks made and count once
"#);
}

#[test]
fn a_terminal_gets_bars_and_the_columns_that_fit() {
    let env = family().terminal(80).var("NO_COLOR", "1");
    assert_snapshot!(env.run("stats --all --by session"), @r#"
$ pi-sessions stats --all --by session
SESSION                MSGS  TURNS  INPUT  OUTPUT  ACTIVE     COST
fork  =SUM(A1), "all"     3      1  1,000      40  2m 06s  $0.2500  ████████████
other                     1      0      3       2      0s  $0.1250  ██████
demo  Login bug           8      4    580      43      6s  $0.0050  ▎
total                    12      5  1,583      85  2m 12s  $0.3800
--- stderr
note: 4 entries are copies that forks made and count once
"#);
    for columns in [40, 60, 100, 160] {
        let run = family().terminal(columns).var("NO_COLOR", "1").run("stats --all --by model");
        assert!(run.stdout.lines().all(|line| line.chars().count() <= columns), "{run}");
    }
}

#[test]
fn csv_quotes_text_and_disarms_formulas() {
    assert_snapshot!(family().run("stats --by session --csv"), @r#"
$ pi-sessions stats --by session --csv
by,key,name,sessions,messages,prompts,turns,toolCalls,toolFailures,compactions,branches,input,output,cacheRead,cacheWrite,total,cost,activeMs
session,fork,"'=SUM(A1), ""all""",1,3,1,1,1,1,0,1,1000,40,0,7,1047,0.25,126000
session,demo,Login bug,1,8,3,4,1,0,0,2,580,43,100,0,723,0.005,6000
--- stderr
note: 4 entries are copies that forks made and count once
"#);
    assert_snapshot!(family().run("stats --csv --all"), @r#"
$ pi-sessions stats --csv --all
by,key,name,sessions,messages,prompts,turns,toolCalls,toolFailures,compactions,branches,input,output,cacheRead,cacheWrite,total,cost,activeMs
,,,3,12,5,5,2,1,1,4,1583,85,100,7,1775,0.38,132000
--- stderr
note: 4 entries are copies that forks made and count once
"#);
}

#[test]
fn a_time_may_be_a_date_a_time_or_a_span() {
    let env = family();
    let messages = |since: &str| {
        let run = env.run(&format!("stats --all --json --since {since}"));
        let at = run.stdout.find(r#""messages":"#).unwrap_or_else(|| panic!("{run}")) + 11;
        run.stdout[at..].chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    let counted = ["2026-11-28", "2026-11-29", "2026-11-30T09:30:00Z", "2026-11-30T11:30:01+01:00", "90m", "121m", "3d", "1w"];
    assert_eq!(counted.map(messages).join(" "), "12 11 5 0 0 3 12 12");
    assert_snapshot!(env.run("stats --since yesterday"), @r#"
$ pi-sessions stats --since yesterday
--- stderr
error: invalid value 'yesterday' for '--since <T>': it has to be a number with m, h, d or w, such as 2h, or a date such as 2026-11-30

For more information, try '--help'.
--- exit code 2
"#);
    assert_snapshot!(env.run("stats --json --csv"), @r#"
$ pi-sessions stats --json --csv
--- stderr
{"error":{"kind":"usage","message":"--csv and --json are two forms of the same; give one of them","hints":[]}}
--- exit code 2
"#);
}

#[test]
fn files_that_are_no_sessions_are_told() {
    let env = TestEnv::new();
    env.write("data/sessions/--home-me-project--/2026-11-30T09-00-00-000Z_x.jsonl", "no session\n");
    assert_snapshot!(env.run("stats"), @r#"
$ pi-sessions stats
sessions     0
messages     0 (0 prompts, 0 turns)
tool calls   0 (0 failed)
compactions  0
branches     0
tokens       0 (input 0, output 0, cache read 0, cache write 0)
cost         $0.0000
active       0s
--- stderr
note: 1 file is no session and was left out (-v tells why)
note: there is nothing to count (--all takes the sessions of all folders)
"#);
}

/// `pi-stats.json` is what Pi says of `input.jsonl`, or of `continued.jsonl` where Pi went on.
#[test]
fn the_totals_are_those_of_pi() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let env = TestEnv::new();
    let mut count = 0;
    for area in ["context", "pi", "pi-continue"] {
        for case in std::fs::read_dir(fixtures.join(area)).expect("the fixtures are there") {
            let case = case.expect("a case").path();
            let Ok(pi) = std::fs::read(case.join("pi-stats.json")) else { continue };
            let pi: serde_json::Value = serde_json::from_slice(&pi).expect("JSON");
            let file = case.join(if area == "pi-continue" { "continued.jsonl" } else { "input.jsonl" });
            let ours = env.run(&format!("stats {} --json", file.display())).stdout;
            let ours: serde_json::Value = serde_json::from_str(&ours).expect("one object");
            for (own, theirs) in [
                ("messages", "totalMessages"),
                ("prompts", "userMessages"),
                ("turns", "assistantMessages"),
                ("toolCalls", "toolCalls"),
            ] {
                assert_eq!(ours[own], pi[theirs], "{own} of {}", case.display());
            }
            assert_eq!(ours["tokens"], pi["tokens"], "{}", case.display());
            let cost = |value: &serde_json::Value| value["cost"].as_f64().expect("a cost");
            assert!((cost(&ours) - cost(&pi)).abs() < 1e-9, "{}: {ours} {pi}", case.display());
            count += 1;
        }
    }
    assert_eq!(count, 60);
}
