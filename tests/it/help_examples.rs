//! The examples in the help of every command run, as they stand there.

use std::fs;
use std::path::PathBuf;

use crate::support::cli::{DEMO, Run, TestEnv};
use crate::support::jq::jq;

/// The commands that people see, by the help of the whole.
fn commands() -> Vec<String> {
    let help = TestEnv::new().run("-h").stdout;
    let list = help.split("Commands:\n").nth(1).expect("a list of commands").lines().take_while(|line| !line.is_empty());
    list.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The lines below `Examples:` in the long help of a command.
fn examples(command: &str) -> Vec<String> {
    let help = TestEnv::new().run(&format!("{command} --help")).stdout;
    let section = help.split("Examples:\n").nth(1).unwrap_or_default();
    section.lines().take_while(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned()).collect()
}

/// What stands between two `|`, as words.
type Stage = Vec<String>;

/// A line of a shell: its stages, and the file that the last one writes to.
fn parse(line: &str) -> (Vec<Stage>, Option<String>) {
    let mut stages: Vec<Stage> = vec![vec![String::new()]];
    let mut is_word = false;
    let mut quote = None;
    for char in line.chars() {
        let stage = stages.last_mut().expect("one is there");
        let word = stage.last_mut().expect("one is there");
        match (quote, char) {
            (Some(open), char) if open == char => quote = None,
            (Some(_), char) => word.push(char),
            (None, '\'' | '"') => (quote, is_word) = (Some(char), true),
            (None, '|') => {
                stages.push(vec![String::new()]);
                is_word = false;
            }
            (None, ' ') => {
                if std::mem::take(&mut is_word) {
                    stage.push(String::new());
                }
            }
            (None, '$' | '`' | ';' | '&' | '\\' | '<') => panic!("more of a shell than this test knows: {line}"),
            (None, char) => {
                word.push(char);
                is_word = true;
            }
        }
    }
    for stage in &mut stages {
        if stage.last().is_some_and(String::is_empty) {
            stage.pop();
        }
    }
    let last = stages.last_mut().expect("one is there");
    let file = last.iter().position(|word| word == ">").map(|at| last.split_off(at).remove(1));
    (stages, file)
}

/// What the examples speak of: sessions, entries, labels, files.
fn setup() -> TestEnv {
    let env = TestEnv::new();
    let here = env.path().join("project");
    let cwd = here.display().to_string();
    let more = r#"
{"type":"message","id":"u4","parentId":"n1","timestamp":"2026-11-30T09:40:00.000Z","message":{"role":"user","content":"TODO 42: a parser error after the login bug","timestamp":1796031600000}}
{"type":"message","id":"a5","parentId":"u4","timestamp":"2026-11-30T09:40:01.000Z","message":{"role":"assistant","content":[{"type":"text","text":"The lexer had a parser error."}],"api":"openai-completions","provider":"mock","model":"mock-2","usage":{"input":170,"output":8,"cacheRead":0,"cacheWrite":0,"totalTokens":178,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1796031601000}}
{"type":"label","id":"l2","parentId":"a5","timestamp":"2026-11-30T09:41:00.000Z","targetId":"a2","label":"before-refactor"}
{"type":"label","id":"l3","parentId":"l2","timestamp":"2026-11-30T09:41:01.000Z","targetId":"a3","label":"first-try"}
{"type":"label","id":"l4","parentId":"l3","timestamp":"2026-11-30T09:41:02.000Z","targetId":"a5","label":"second-try"}
{"type":"leaf","id":"f1","parentId":"a3","timestamp":"2026-11-30T09:42:00.000Z","targetId":"a3","fromId":"l4"}
{"type":"leaf","id":"f2","parentId":"l4","timestamp":"2026-11-30T09:43:00.000Z","targetId":"l4","fromId":"a3"}
"#;
    let session = |id: &str, lines: &str| env.session_of(id, &cwd, lines);
    for id in ["old-one", "old-two", "thrown-away", "019ae000-0000-7000-8000-000000000001"] {
        session(id, r#"{"type":"message","id":"u","parentId":null,"message":{"role":"user","content":"of old","timestamp":1}}"#);
    }
    // Long enough that a summary is shorter.
    let long = DEMO.replace("fn login() {", &format!("fn login() {{ {}", "// a comment ".repeat(2000)));
    let main = session("019ad3c5-2f10-7a41-8c52-0d6b3e9f7a10", &format!("{}{more}", long.trim_end()));
    fs::create_dir_all(&here).expect("a folder");
    let text = fs::read_to_string(&main).expect("the session");
    env.write("project/session.jsonl", &format!("{text}{{\"type\":\"mess"));
    let fixture = |name: &str| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/import").join(name);
        fs::read_to_string(path).expect("a fixture")
    };
    env.write("home/.claude/projects/-home-me/a.jsonl", &fixture("claude-tools/input.jsonl"));
    let codex = fixture("codex-tools/rollout-2026-03-04T09-00-00-019cb7d0-1111-7222-8333-444455556666.jsonl");
    env.write("project/rollout-2026-01-02T03-04-05-019ad3c5.jsonl", &codex);
    // Under the names that the examples use, the model that needs no network.
    let provider =
        "[providers.openai]\napi = \"offline\"\n[[providers.openai.models]]\nid = \"gpt-5\"\ncontext_window = 400000\n";
    env.write("config/config.toml", &format!("[compaction]\nkeep_recent_tokens = 20\n{provider}"));
    let env = env.cwd(here);
    let run = env.run("delete thrown-away --yes");
    assert_eq!(run.code, 0, "{run}");
    env
}

/// The exit code of a command that did what its help says.
fn expected_code(command: &str) -> u8 {
    // Only an interrupt ends it.
    match command {
        "watch" => 130,
        // Its full screen is none that a test in memory has.
        "browse" => 2,
        _ => 0,
    }
}

/// Runs one stage; what goes in and comes out is standard input and output.
fn run_stage(env: &TestEnv, stage: &Stage, input: Option<&str>, line: &str) -> String {
    let home = env.home().display().to_string();
    let words: Vec<_> =
        stage.iter().map(|word| if word.starts_with("~/") { word.replacen('~', &home, 1) } else { word.clone() }).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["pi-sessions", args @ ..] => {
            let run: Run = match input {
                Some(input) => env.pipe_words(args, input),
                // What a person says who tries it.
                None => env.answer_words(args, if args.first() == Some(&"delete") { "y\n" } else { "1\nhello\n" }),
            };
            assert_eq!(run.code, expected_code(args[0]), "{line}\n{run}");
            assert_eq!(args[0] == "browse", run.stderr.contains("browse needs a terminal"), "{line}\n{run}");
            run.stdout
        }
        ["echo", text] => format!("{text}\n"),
        ["git", "diff"] => "+a line\n".to_owned(),
        ["jq", "-r", program] => jq("r", program, input.expect("something to read")),
        ["jq", program] => jq("", program, input.expect("something to read")),
        ["less"] => {
            assert!(input.is_some_and(|text| !text.is_empty()), "{line}");
            String::new()
        }
        ["man", "-l", "-"] => {
            assert!(input.is_some_and(|text| text.starts_with(".TH")), "{line}");
            String::new()
        }
        other => panic!("this test does not know how to run {other:?}, in: {line}"),
    }
}

/// Runs the examples of a command, each on its own: what one changes is not there for the next.
fn run_examples(command: &str) {
    let examples = examples(command);
    assert!(examples.len() >= 2, "{command} --help has {} examples, and two are wanted", examples.len());
    for line in examples {
        let (stages, file) = parse(&line);
        let is_of_command = |stage: &Stage| stage.starts_with(&["pi-sessions".to_owned(), command.to_owned()]);
        assert!(stages.iter().any(is_of_command), "an example of {command} that does not show it: {line}");
        let env = setup();
        let env = if stages.len() == 1 && file.is_none() { env.terminal(100) } else { env };
        let mut passed: Option<String> = None;
        for stage in &stages {
            passed = Some(run_stage(&env, stage, passed.as_deref(), &line));
        }
        let passed = passed.expect("a stage ran");
        let ends_in_jq = stages.last().is_some_and(|stage| stage[0] == "jq");
        let is_silent = line.contains("--lines 0");
        assert!(!passed.is_empty() || is_silent || !(ends_in_jq || file.is_some()), "nothing came of: {line}");
    }
}

#[test]
fn every_example_in_the_help_runs() {
    let commands = commands();
    std::thread::scope(|scope| {
        let runs: Vec<_> = commands.iter().map(|command| scope.spawn(|| run_examples(command))).collect();
        let failed = runs.into_iter().map(std::thread::ScopedJoinHandle::join).filter(Result::is_err).count();
        assert_eq!(failed, 0, "commands whose examples do not run; see above");
    });
}

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    let (stages, file) = parse(r#"echo '{"a":1}' | pi-sessions append @last "two words" '' > ~/x"#);
    assert_eq!(stages, [vec!["echo", r#"{"a":1}"#], vec!["pi-sessions", "append", "@last", "two words", ""]]);
    assert_eq!(file.as_deref(), Some("~/x"));
}
