//! `export`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::cli::{DEMO, TestEnv};

fn demo() -> TestEnv {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    env
}

#[test]
fn markdown_is_printed_with_the_active_path() {
    assert_snapshot!(demo().run("export demo --format markdown"), @r#"
$ pi-sessions export demo --format markdown
# Login bug

| Session | demo |
|---|---|
| Folder | /home/me/project |
| Model | mock/mock-2 |
| Started | 2026-11-30 09:00 |
| Messages | 8 (3 by the user), 1 tool call |
| Tokens | 580 input, 43 output, 100 cached |
| Cost | $0.0050 |

*Model: mock/mock-1*

## 1 · Fix the login bug

> Fix the login bug

### Assistant · mock-1

<details><summary><i>Thinking</i></summary>

Look first.

</details>

<details><summary><b>read</b> <code>login.rs</code></summary>

```rust
fn login() {
    panic!()
}
```

</details>

The function is empty.

*Label: diagnosis*

## 2 · Write a test first

> Write a test first

### Assistant · mock-2

Here is a test.
"#);
}

#[test]
fn a_file_is_written_and_its_name_says_the_format() {
    let env = demo();
    let out = env.path().join("out");
    std::fs::create_dir(&out).expect("a folder");
    let run = |name: &str, more: &str| env.run(&format!("export demo -o {} {more}", out.join(name).display()));
    assert_snapshot!(run("a.html", ""), @r#"
$ pi-sessions export demo -o [TMP]/out/a.html 
[TMP]/out/a.html
--- stderr
exported 11 entries as html
"#);
    assert_snapshot!(run("a.md", "--json --all --redact"), @r#"
$ pi-sessions export demo -o [TMP]/out/a.md --json --all --redact
{"path":"[TMP]/out/a.md","format":"markdown","entries":11,"redactions":{"home":1}}
--- stderr
redacted: 1 home
"#);
    assert_eq!(run("a.jsonl", "--path").stderr, "exported 9 entries as jsonl\n");
    assert_eq!(run("a.txt", "--format json").stderr, "exported 11 entries as json\n");
    let text = |name: &str| std::fs::read_to_string(out.join(name)).expect("it was written");
    assert!(text("a.html").starts_with("<!doctype html>") && text("a.html").contains("Login bug"));
    assert!(text("a.md").contains("## Branch from `a2`"));
    assert_eq!(text("a.jsonl").lines().count(), 10);
    assert_eq!(serde_json::from_str::<Value>(&text("a.txt")).expect("JSON")["name"], "Login bug");
    let names = std::fs::read_dir(&out).expect("the folder").count();
    assert_eq!(names, 4, "nothing else is left there");
}

#[cfg(unix)]
#[test]
fn a_new_file_is_private_and_an_old_one_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let env = demo();
    let file = env.path().join("a.html");
    let mode = || std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(env.run(&format!("export demo -o {}", file.display())).code, 0);
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("ours");
    std::fs::write(&file, "old").expect("ours");
    assert_eq!(env.run(&format!("export demo -o {}", file.display())).code, 0);
    assert_eq!(mode(), 0o644);
    assert!(std::fs::read_to_string(&file).expect("text").starts_with("<!doctype"));
}

#[test]
fn a_session_is_never_replaced_by_an_export() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let before = std::fs::read(&path).expect("the session");
    let link = env.path().join("link.jsonl");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    for target in [&path, &path.with_file_name("new.jsonl"), &link] {
        let run = env.run(&format!("export demo --format jsonl -o {}", target.display()));
        assert_eq!(run.code, 2, "{run}");
    }
    assert_eq!(std::fs::read(&path).expect("the session"), before);
}

#[test]
fn json_is_one_line_and_json_lines_are_the_file() {
    let env = TestEnv::new();
    let path = env.session("demo", DEMO);
    let run = env.run("export demo --json");
    assert_eq!(run.stdout.lines().count(), 1);
    let json: Value = serde_json::from_str(&run.stdout).expect("one object");
    assert_eq!((&json["leafId"], &json["labels"]["a2"]), (&"n1".into(), &"diagnosis".into()));
    assert_eq!(env.run("export demo --format jsonl").stdout, std::fs::read_to_string(path).expect("the session"));
}

#[test]
fn the_path_may_end_elsewhere() {
    let run = demo().run("export demo --format markdown --at a3");
    assert!(run.stdout.contains("Write it") && !run.stdout.contains("Write a test first"), "{run}");
}

#[test]
fn what_was_taken_out_is_told() {
    let env = TestEnv::new();
    let secret = format!("gh{}{}", "p_", "q7Xk2Zp9Lm4Vt8Rb1Ns6Wc3Yf5Hd0Gj8aB2c");
    let home = env.home();
    let line = format!(
        r#"{{"type":"message","id":"u1","parentId":null,"message":{{"role":"user","content":"use {secret} in {}/x and /home/bob"}}}}"#,
        home.display()
    );
    env.session("s", &line);
    let run = env.run("export s --format jsonl --redact");
    assert_eq!(run.stderr, "redacted: 1 github-token, 3 home\n", "{run}");
    assert!(!run.stdout.contains(&secret) && run.stdout.contains("/home/[redacted:home]"), "{run}");
    assert!(env.run("export s --format jsonl").stdout.contains(&secret));
}

#[test]
fn a_terminal_gets_no_page_and_no_escape_sequences() {
    let env = TestEnv::new();
    env.session("s", "{\"type\":\"message\",\"id\":\"u1\",\"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"\u{9b}2J\\u001b[2Jx\"}}");
    let env = env.terminal(80);
    assert_snapshot!(env.run("export s"), @r#"
$ pi-sessions export s
--- stderr
␛[1m␛[31merror:␛[0m a page is for a browser, not for a terminal
␛[1mHint:␛[0m pi-sessions export -o session.html
--- exit code 2
"#);
    for format in ["markdown", "json", "jsonl"] {
        let run = env.run(&format!("export s --format {format}"));
        assert!(!run.stdout.contains(['\u{9b}', '\u{1b}']) && run.code == 0, "{run}");
    }
}

#[test]
fn wrong_usage_is_told() {
    let env = demo();
    assert_snapshot!(env.run("export demo --json --format html"), @r#"
$ pi-sessions export demo --json --format html
--- stderr
{"error":{"kind":"usage","message":"with --json, html has to go to a file","hints":["pi-sessions export -o session.html"]}}
--- exit code 2
"#);
    assert_eq!(env.run("export demo --format pdf").code, 2);
    assert_eq!(env.run("export demo --path --all").code, 2);
    assert_eq!(env.run("export demo --at nothing").code, 2);
    let run = env.run("export demo -o nowhere/a.html");
    assert_eq!(run.code, 1, "{run}");
    assert!(run.stderr.contains("cannot write"), "{run}");
}

#[test]
fn a_chain_of_20_000_entries_goes_out_and_is_searched() {
    let env = TestEnv::new();
    let mut lines = String::new();
    for number in 1..=20_000 {
        let parent = if number == 1 { "null".to_owned() } else { format!("\"{:08x}\"", number - 1) };
        lines.push_str(&format!(
            "{{\"type\":\"message\",\"id\":\"{number:08x}\",\"parentId\":{parent},\"timestamp\":\"2026-11-30T09:00:00.000Z\",\
             \"message\":{{\"role\":\"user\",\"content\":\"word{number}\"}}}}\n"
        ));
    }
    env.session("deep", &lines);
    for command in [
        "export deep --format html",
        "export deep --format markdown",
        "export deep --format json",
        "tree deep --json",
        "search word20000",
    ] {
        let run = env.run(command);
        assert!(run.code == 0 && run.stdout.contains("word20000"), "{command}: {}", run.stderr);
    }
}
