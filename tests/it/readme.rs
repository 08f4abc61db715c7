//! What the README claims and a test can check: its jq recipes, its commands, and its two first commands.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::jq::jq;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    fs::read_to_string(top().join("README.md")).expect("the README is there")
}

/// The fenced blocks, as language and text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => blocks.push(block),
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (None, Some((language, body))) => open = Some((language, body + line + "\n")),
            (None, None) => {}
        }
    }
    blocks
}

/// `S=…` and `K=…` of the README.
fn variable(text: &str, name: &str) -> String {
    let start = text.find(&format!("`{name}=")).expect("the README names the file") + name.len() + 2;
    text[start..].chars().take_while(|char| *char != '`').collect()
}

#[test]
fn the_jq_recipes_print_what_stands_below_them() {
    let text = readme();
    let blocks = blocks(&text);
    let mut recipes = 0;
    for pair in blocks.windows(2) {
        // A recipe and, below it, what it prints; those of the figures of `stats` have a test of their own.
        if pair[1].0 != "text" {
            continue;
        }
        let Some((source, filter)) = pair[0].1.trim_end().split_once(" | jq ") else { continue };
        recipes += 1;
        let (command, name) = source.rsplit_once(" $").expect("a recipe names its file");
        let file = top().join(variable(&text, name));
        let input = match command {
            "cat" => fs::read_to_string(&file).expect("the example is there"),
            "pi-sessions path" => {
                let output = Command::new(env!("CARGO_BIN_EXE_pi-sessions")).arg("path").arg(&file).output().expect("it runs");
                String::from_utf8(output.stdout).expect("text")
            }
            other => panic!("an unknown command in a recipe: {other}"),
        };
        let (flags, program) = filter.split_once(" '").expect("the program stands in quotes");
        let program = program.strip_suffix('\'').expect("the quote closes");
        assert_eq!(jq(flags, program, &input), pair[1].1, "{filter}");
    }
    assert_eq!(recipes, 6);
}

/// The recipes below "The figures of `stats`": what each is of, its input and its program.
fn figures(text: &str) -> Vec<(String, String, String)> {
    let part = text.split("### The figures of `stats`").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the figures");
    let mut recipes = Vec::new();
    for (_, block) in blocks(part) {
        let lines: Vec<_> = block.lines().collect();
        for pair in lines.chunks(2) {
            let of = pair[0].strip_prefix("# ").expect("a line says what is found").to_owned();
            let (input, program) = pair[1].split_once(" | jq -sc '").expect("a recipe");
            recipes.push((of, input.to_owned(), program.strip_suffix('\'').expect("the quote closes").to_owned()));
        }
    }
    recipes
}

/// What `stats` says, an object a line.
fn stats(args: &[&str]) -> Vec<serde_json::Value> {
    let root = top().join(".pi-sessions.example");
    let output = Command::new(env!("CARGO_BIN_EXE_pi-sessions"))
        .args(["--json", "stats", "--root"])
        .arg(root)
        .args(args)
        .output()
        .expect("it runs");
    let stdout = String::from_utf8(output.stdout).expect("text");
    stdout.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn assert_equal(found: &serde_json::Value, said: &serde_json::Value, what: &str) {
    match (found.as_f64(), said.as_f64()) {
        // Sums of fractions depend on their order.
        (Some(found), Some(said)) => assert!((found - said).abs() < 1e-9, "{what}: {found} {said}"),
        _ => assert_eq!(found, said, "{what}"),
    }
}

#[test]
fn every_figure_of_stats_is_found_again_with_jq() {
    let text = readme();
    let mut session = stats(&[&top().join(variable(&text, "S")).to_string_lossy()]).remove(0);
    // What a single session has no recipe for: it is one, and in no group.
    let keys = session.as_object_mut().expect("an object");
    keys.retain(|key, _| !["by", "key", "name", "sessions"].contains(&key.as_str()));
    let mut groups = 0;
    for (of, input, program) in figures(&text) {
        let Some(by) = of.strip_prefix("--by ") else {
            assert_eq!(input, "cat $S");
            let found = jq("sc", &program, &fs::read_to_string(top().join(variable(&text, "S"))).expect("the example"));
            let said = keys.remove(&of).unwrap_or_else(|| panic!("{of} is no figure"));
            assert_equal(&serde_json::from_str(&found).expect("JSON"), &said, &of);
            continue;
        };
        groups += 1;
        assert_eq!(input, "cat .pi-sessions.example/*/*.jsonl");
        let mut files: Vec<_> = fs::read_dir(top().join(".pi-sessions.example"))
            .expect("the example")
            .filter_map(|folder| fs::read_dir(folder.expect("a folder").path()).ok())
            .flat_map(|folder| folder.map(|file| file.expect("a file").path()))
            .collect();
        files.sort();
        let all: String = files.iter().map(|file| fs::read_to_string(file).expect("the example")).collect();
        let said = stats(&["--all", "--by", by]);
        let found = jq("sc", &program, &all);
        assert_eq!(found.lines().count(), said.len(), "{found}");
        for line in found.lines() {
            let pair: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let group = said.iter().find(|group| group["key"] == pair[0]).unwrap_or_else(|| panic!("no group {line}"));
            assert_equal(&pair[1], if by == "tool" { &group["toolCalls"] } else { &group["cost"] }, line);
        }
    }
    assert!(keys.is_empty(), "no recipe for {keys:?}");
    assert_eq!(groups, 5);
}

/// The names in backquotes in the first cell of each row of the command table.
fn documented_commands(text: &str) -> BTreeSet<String> {
    let table = text.split("\n## Commands\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("there is a table");
    let cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next().map(|cell| format!("`{cell}")));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn the_command_table_is_that_of_the_program() {
    let output = Command::new(env!("CARGO_BIN_EXE_pi-sessions")).arg("--help").output().expect("it runs");
    let help = String::from_utf8(output.stdout).expect("text");
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("help lists commands");
    let of_program: BTreeSet<_> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|name| name != "help")
        .collect();
    assert_eq!(documented_commands(&readme()), of_program);
}

#[test]
fn the_gate_runs_the_test_command_of_the_readme() {
    let gate = fs::read_to_string(top().join(".ci/run")).expect("the gate is there");
    let blocks = blocks(&readme());
    assert_eq!((blocks[0].1.trim(), blocks[1].1.trim()), ("cargo run --release -- chat", "cargo test"));
    assert!(gate.contains(blocks[1].1.trim()) && gate.contains("--release -- chat"));
}

#[test]
fn the_examples_are_sound() {
    let output = Command::new(env!("CARGO_BIN_EXE_pi-sessions"))
        .args(["--json", "--root"])
        .arg(top().join(".pi-sessions.example"))
        .arg("check")
        .output()
        .expect("it runs");
    let stdout = String::from_utf8(output.stdout).expect("text");
    let damage: Vec<_> = stdout.lines().filter(|line| line.contains("\"severity\":\"damage\"")).collect();
    assert!(damage.is_empty() && output.status.success(), "{damage:?}");
}
