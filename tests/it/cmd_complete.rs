//! `complete` and the scripts that ask it: what is offered, how it is quoted, and that nothing in a session reaches a shell.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::cli::{DEMO, TestEnv};

/// As bash breaks words.
const BREAKS: &str = " \t\n\"'@><=;|&(:";

/// What bash is told for a line.
fn bash(env: &TestEnv, line: &str) -> Vec<String> {
    asked(env, &["complete", "bash", "--", line, BREAKS, "9"])
}

/// What zsh or fish is told for words, the last of which is being typed.
fn shell(env: &TestEnv, shell: &str, words: &[&str]) -> Vec<String> {
    asked(env, &[&["complete", shell, "--", "pi-sessions"], words].concat())
}

fn asked(env: &TestEnv, args: &[&str]) -> Vec<String> {
    let run = env.run_words(args);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run}");
    run.stdout.lines().map(str::to_owned).collect()
}

fn named(id: &str, name: &str) -> String {
    format!(r#"{{"type":"session_info","id":"{id}","parentId":null,"name":{}}}"#, serde_json::Value::from(name))
}

#[test]
fn every_shell_is_told_commands_options_and_their_values() {
    let env = TestEnv::new();
    assert_eq!(bash(&env, "pi-sessions got"), ["goto"]);
    assert_eq!(bash(&env, "pi-sessions list --nam"), ["--named"]);
    assert_eq!(bash(&env, "pi-sessions list --sort=na"), ["name"]);
    assert_eq!(shell(&env, "zsh", &["path", "--at"]), ["--at\tThe entry that the path ends with (default: the leaf)"]);
    assert_eq!(shell(&env, "fish", &["list", "--sort", "na"]), ["name\tBy name, those without one last"]);
    assert_eq!(bash(&env, "pi-sessions man go"), ["goto"]);
    // A command with two names has one, unless the other is begun.
    assert!(bash(&env, "pi-sessions ").contains(&"watch".to_owned()));
    assert_eq!(bash(&env, "pi-sessions tai"), ["tail"]);
    // The command that the scripts ask is none for people.
    assert!(!bash(&env, "pi-sessions comp").contains(&"complete".to_owned()));
}

#[test]
fn sessions_are_offered_by_id_and_name_those_of_this_folder_first() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    env.session_of("dear", "/home/me/other", DEMO);
    let named = r#"{"type":"session_info","id":"x","parentId":null,"name":"odd one"}"#;
    env.session_of("far", "/home/me/other", named);
    let all = ["@last\tthe latest", "demo\tLogin bug"];
    for name in ["zsh", "fish"] {
        assert_eq!(shell(&env, name, &["show", ""]), all, "the name is that of two sessions");
        assert_eq!(shell(&env, name, &["show", "o"]), ["odd one\tfar"]);
    }
    assert_eq!(bash(&env, "pi-sessions show "), ["@last", "demo"]);
    assert_eq!(bash(&env, "pi-sessions show de"), ["demo", "dear"]);
    assert_eq!(bash(&env, "pi-sessions show o"), [r"odd\ one"]);
    assert_eq!(bash(&env, "pi-sessions show 'odd o"), ["odd one"]);
    assert_eq!(bash(&env, "pi-sessions show @"), ["@last"]);
    // Where bash only shows, it shows what they are.
    let shown = asked(&env, &["complete", "bash", "--", "pi-sessions show de", BREAKS, "63"]);
    assert_eq!(shown, ["demo  (Login bug)", "dear  (Login bug)"]);
    // Where nothing is here, everything is offered.
    let elsewhere = env.cwd("/home/me/nowhere");
    assert_eq!(bash(&elsewhere, "pi-sessions show "), ["dear", "demo", "far", r"odd\ one"]);
}

#[test]
fn long_ids_are_short_until_more_is_typed() {
    let env = TestEnv::new();
    env.session("019ad3c5-2f10-7a41-8c52-0d6b3e9f7a10", DEMO);
    env.session("019ad8f0-6b3c-7d02-9e11-5a7f20c4b6d3", "");
    assert_eq!(bash(&env, "pi-sessions show 019"), ["019ad3c5", "019ad8f0"]);
    assert_eq!(bash(&env, "pi-sessions show 019ad3c5-"), ["019ad3c5-2f10-7a41-8c52-0d6b3e9f7a10"]);
}

#[test]
fn entries_are_those_of_the_session_that_was_typed() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    env.session_of(
        "bare",
        "/home/me/other",
        r#"{"type":"message","id":"only","parentId":null,"message":{"role":"user","content":"hi"}}"#,
    );
    assert_eq!(
        shell(&env, "zsh", &["goto", "demo", ""]),
        [
            "@leaf\tsession_info: Login bug",
            "@prev\tassistant: Written.",
            "diagnosis\tassistant: The function is empty.",
            "t2\tuser: Write a test first",
            "t1\tuser: Fix the login bug"
        ]
    );
    assert_eq!(bash(&env, "pi-sessions goto bare "), ["@leaf", "t1"]);
    assert_eq!(bash(&env, "pi-sessions fork demo --at u"), ["u3", "u2", "u1"]);
    assert_eq!(bash(&env, "pi-sessions fork --at=dia"), ["diagnosis"], "without a session it is the latest of this folder");
    assert_eq!(bash(&env, "pi-sessions diff demo @leaf t"), ["t2", "t1"]);
    assert_eq!(bash(&env, "pi-sessions goto nothing "), bash(&env, "pi-sessions goto neither "), "no entry of another session");
    let path = env.session("by-path", DEMO);
    assert_eq!(bash(&env, &format!("pi-sessions goto {} dia", path.display())), ["diagnosis"]);
}

#[test]
fn a_root_that_was_typed_counts() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    let other = env.path().join("other root");
    let folder = other.join("--home-me-project--");
    std::fs::create_dir_all(&folder).expect("a folder");
    let text =
        format!("{}\n{}\n", r#"{"type":"session","version":3,"id":"there","cwd":"/home/me/project"}"#, named("n", "a name"));
    std::fs::write(folder.join("t_there.jsonl"), text).expect("a session");
    let root = other.display();
    for line in [
        format!("pi-sessions --root '{root}' show "),
        format!("pi-sessions show --root=\"{root}\" "),
        format!("pi-sessions show --root '{root}' --json "),
    ] {
        assert_eq!(bash(&env, &line), ["there", r"a\ name"], "{line}");
    }
    assert_eq!(shell(&env, "fish", &["--root", &root.to_string(), "goto", "there", "@l"]), ["@leaf\tsession_info: a name"]);
}

#[test]
fn restore_offers_what_is_in_the_trash() {
    let env = TestEnv::new();
    env.session("demo", DEMO);
    env.session("kept", "");
    env.run("delete demo --yes");
    assert_eq!(bash(&env, "pi-sessions restore "), ["@last", "demo", r"Login\ bug"]);
}

#[test]
fn paths_are_offered_where_one_is_begun() {
    let env = TestEnv::new();
    env.write("here/a b.jsonl", "");
    env.write("here/notes.txt", "");
    env.write("here/sub/x.jsonl", "");
    let here = env.path().join("here");
    let env = env.cwd(&here);
    assert_eq!(bash(&env, "pi-sessions show ./"), [r"./a\ b.jsonl", "./sub/"]);
    assert_eq!(shell(&env, "fish", &["show", "./a"]), ["./a b.jsonl"]);
    assert_eq!(bash(&env, "pi-sessions new --cwd s"), ["sub/"]);
}

/// Names that want to do something to a shell or a terminal.
const HOSTILE: [&str; 6] =
    ["h $(touch pwned)", "h `touch pwned`", "h'; touch pwned; '", "h \"$HOME\" !x", "h * ? [a] {b,c} ~", "h\\ # & | > pwned"];

#[test]
fn names_that_no_line_can_hold_are_not_offered() {
    let env = TestEnv::new();
    for (at, name) in ["h\u{1b}]0;x\u{7}", "h\nx", "h\tx", "h\u{202e}x", "-h", "h/x", "h.jsonl", "h  x"].into_iter().enumerate() {
        env.session(&format!("s{at}"), &named("n", name));
    }
    for name in ["zsh", "fish"] {
        assert_eq!(shell(&env, name, &["show", "h"]), [""; 0]);
    }
    assert_eq!(bash(&env, "pi-sessions show h"), [""; 0]);
    assert!(!bash(&env, "pi-sessions show -").contains(&"-h\u{20}".to_owned()));
    // What is told of a session is one line without escapes too.
    env.session(
        "talk",
        r#"{"type":"message","id":"u","parentId":null,"message":{"role":"user","content":"a\u001b]0;x\u0007\tb\nc"}}"#,
    );
    assert_eq!(shell(&env, "fish", &["show", "tal"]), ["talk\ta b c"]);
}

#[test]
fn what_goes_wrong_is_silent() {
    let env = TestEnv::new().var("PI_SESSIONS_CONFIG", "/nowhere/config.toml");
    assert_eq!(bash(&env, "pi-sessions show "), [""; 0]);
    let env = TestEnv::new();
    env.write("data/sessions", "a file");
    for line in ["pi-sessions show ", "pi-sessions show x", "", "pi-sessions nothing ", "pi-sessions --root", "pi-sessions '"] {
        bash(&env, line);
    }
    for words in [&[][..], &["complete", "zsh"], &["--"]] {
        shell(&env, "zsh", words);
        asked(&env, &[&["complete", "fish", "--"], words].concat());
    }
    asked(&env, &["complete", "bash", "--", "too few"]);
}

/// A shell in a folder of the test, with the command in its path; what it prints.
fn run_shell(env: &TestEnv, shell: &str, args: &[&str], script: &str) -> Option<String> {
    let bin = Path::new(env!("CARGO_BIN_EXE_pi-sessions")).parent().expect("a folder");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let here = env.path().join("here");
    std::fs::create_dir_all(&here).expect("a folder");
    let mut command = Command::new(shell);
    command.args(args).arg("-c").arg(script).env_clear().env("PATH", path).env("HOME", env.home());
    command.env("PI_SESSIONS_ROOT", env.root()).env("LC_ALL", "C.UTF-8").current_dir(&here).stdin(Stdio::null());
    // A machine without this shell has nothing to complete in it.
    let output = command.output().ok()?;
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{shell}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
#[cfg(unix)]
fn a_real_bash_reads_each_reply_as_the_name_that_it_stands_for() {
    let env = TestEnv::new();
    for (at, name) in HOSTILE.into_iter().enumerate() {
        env.session(&format!("s{at}"), &named("n", name));
    }
    let script = env.run("completions bash").stdout;
    for begun in ["h", r"h\ ", "'h", "\"h"] {
        // What the shell would have on its line is read by it again, as when Enter is pressed.
        let ask = format!(
            r#"{script}
COMP_LINE={line}; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9; COMP_WORDBREAKS={breaks}
_pi_sessions
for reply in "${{COMPREPLY[@]}}"; do
    eval "set -- {open}$reply{open}"
    printf '%s\n' "$#:$1"
done
ls"#,
            line = quoted(&format!("pi-sessions show {begun}")),
            breaks = quoted(BREAKS),
            open = match begun.chars().next() {
                Some('\'') => "'",
                Some('"') => "\\\"",
                _ => "",
            },
        );
        let Some(shown) = run_shell(&env, "bash", &["--norc"], &ask) else { return };
        let mut shown: Vec<_> = shown.lines().collect();
        shown.sort_unstable();
        let held = HOSTILE.into_iter().filter(|name| !(begun.starts_with('"') && name.contains('!')));
        let mut expect: Vec<_> =
            held.filter(|name| begun != r"h\ " || name.starts_with("h ")).map(|name| format!("1:{name}")).collect();
        expect.sort_unstable();
        assert_eq!(shown, expect, "{begun}: nothing else was made, and nothing was run");
    }
}

/// A text as one word of a script.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
