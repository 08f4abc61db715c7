//! What must stay true of the source as text: the arrows between modules, the heads of files, the map.

use std::fs;
use std::path::{Path, PathBuf};

/// What a module of the crate may name, besides itself.
const ARROWS: [(&str, &[&str]); 8] = [
    ("session", &[]),
    ("storage", &["session"]),
    ("llm", &["session"]),
    ("export", &["session"]),
    ("import", &["session"]),
    ("compaction", &["session", "llm"]),
    ("agent", &["session", "storage", "llm", "compaction"]),
    ("cli", &["session", "storage", "llm", "compaction", "agent", "export", "import"]),
];

/// What may lie in the top folder, besides files and folders whose names begin with a dot.
const TOP_LEVEL: [&str; 8] = ["Cargo.toml", "Cargo.lock", "src", "tests", "fixtures", "README.md", "LICENSE", "target"];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below a folder of the project, sorted.
fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![top().join(folder)];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(&folder).expect("a folder of the project can be read") {
            let path = item.expect("an item can be read").path();
            if path.is_dir() {
                // What the fuzz target's own package builds is not ours.
                folders.extend((!path.ends_with("target")).then_some(path));
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The text without comments, as far as whole lines go.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The modules that `text` names by `crate::`, also in groups.
fn named_modules(text: &str) -> Vec<String> {
    let mut named = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        let names = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default().split(',').map(str::trim).collect(),
            None => vec![rest],
        };
        for name in names {
            named.push(name.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect());
        }
    }
    named
}

#[test]
fn modules_name_only_what_the_arrows_allow() {
    let src = top().join("src");
    let mut wrong = Vec::new();
    for path in rust_files("src") {
        let inside = path.strip_prefix(&src).expect("it was found there");
        let module = inside.components().next().expect("a file has a name").as_os_str().to_string_lossy().into_owned();
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else { continue };
        for name in named_modules(&code(&read(&path))) {
            let is_module = ARROWS.iter().any(|(module, _)| *module == name);
            if is_module && name != module && !allowed.contains(&name.as_str()) {
                wrong.push(format!("{} names crate::{name}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_search_for_arrows_sees_groups_and_paths() {
    assert_eq!(named_modules("use crate::{llm, agent::turn}; crate::cli::run()"), ["llm", "agent", "cli"]);
}

#[test]
fn every_file_says_what_it_is() {
    let silent: Vec<_> = ["src", "tests"]
        .into_iter()
        .flat_map(rust_files)
        .filter(|path| !read(path).starts_with("//! "))
        .map(|path| path.display().to_string())
        .collect();
    assert!(silent.is_empty(), "no //! at the top of {}", silent.join(", "));
}

#[test]
fn the_map_names_every_file_of_the_core() {
    let map = read(&top().join("src/lib.rs"));
    let mut missing = Vec::new();
    for folder in ["src/session", "src/storage", "src/storage/jsonl"] {
        for item in fs::read_dir(top().join(folder)).expect("a folder of the project can be read") {
            let path = item.expect("an item can be read").path();
            let stem = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            if stem != "mod" && !map.contains(&format!("`{stem}`")) {
                missing.push(format!("{folder}/{stem}"));
            }
        }
    }
    assert!(missing.is_empty(), "src/lib.rs does not name {}", missing.join(", "));
}

#[test]
fn nothing_else_lies_in_the_top_folder() {
    let strangers: Vec<_> = fs::read_dir(top())
        .expect("the top folder can be read")
        .map(|item| item.expect("an item can be read").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(&name.as_str()))
        .collect();
    assert!(strangers.is_empty(), "{}", strangers.join(", "));
}

#[test]
fn no_test_is_switched_off_or_waits_for_time_to_pass() {
    // Written in parts, so that this file does not find itself.
    let forbidden = [concat!("#[ig", "nore"), concat!("#[should_", "panic"), concat!("thread::", "sleep"), concat!("to", "do!(")];
    let mut found = Vec::new();
    for path in ["src", "tests"].into_iter().flat_map(rust_files) {
        let text = code(&read(&path));
        found.extend(forbidden.iter().filter(|word| text.contains(**word)).map(|word| format!("{}: {word}", path.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_core_reads_no_clock_and_no_environment() {
    let forbidden =
        ["std::fs", "std::env", "std::time", "SystemTime", "Instant::now", "Utc::now", "Local::now", "println!", "eprintln!"];
    let mut found = Vec::new();
    let pure = rust_files("src/session").into_iter().chain([top().join("src/compaction/cut.rs")]);
    for path in pure.filter(|path| !path.ends_with("tests.rs")) {
        let text = code(&read(&path));
        found.extend(forbidden.iter().filter(|word| text.contains(**word)).map(|word| format!("{}: {word}", path.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
