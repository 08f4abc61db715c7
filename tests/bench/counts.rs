//! Counts the instructions of opening, listing, appending, paths, contexts and cut points, and holds them: `cargo bench
//! --no-default-features --bench counts`.
//!
//! Each operation runs under valgrind's callgrind on sessions of 100, 10,000 and 100,000 entries, on one core. A count is
//! too high when it is more than [`ALLOWED`] over what is kept in `fixtures/bench/counts.txt`, or when it grows faster
//! than the entries do. Then the run ends with exit code 1. `-- --update` after the command keeps the counts of this run.
//!
//! Counts are of an x86-64 processor with AVX2, which is the most that valgrind knows. Callgrind is run by this program
//! itself and not by gungraun: that one compares two sizes or an earlier run in `target` and knows no growth, its limits
//! are typed into the code, and it needs a second program of its very version on every machine.

#![allow(missing_docs, reason = "a program, not a library")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement prints, and stops at the first fault"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use pi_sessions::compaction::cut::{CutEntry, find_cut};
use pi_sessions::compaction::tokens::estimate_message;
use pi_sessions::session::entry::EntryKind;
use pi_sessions::session::message::Message;
use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::jsonl::JsonlStorage;
use pi_sessions::storage::repo::Layout;
use pi_sessions::storage::{Durability, RandomIds, SystemClock};
use pi_sessions::{Repo, Session};

const OPERATIONS: [&str; 6] = ["open", "list", "append", "path", "context", "cut"];
const SIZES: [u64; 3] = [100, 10_000, 100_000];
/// How much a count may be over the kept one, and over growth in step with the entries: hashes are seeded anew in each
/// run, and libraries change a little from machine to machine.
const ALLOWED: f64 = 1.10;

type Counts = BTreeMap<(String, u64), u64>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--run") {
        run(&args[at + 1], Path::new(&args[at + 2]));
        return ExitCode::SUCCESS;
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/count-data");
    let kept_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bench/counts.txt");
    let mut counts = Counts::new();
    for size in SIZES {
        let root = write_root(&data, size);
        for operation in OPERATIONS {
            counts.insert((operation.to_owned(), size), count(operation, &root));
        }
    }
    if args.iter().any(|arg| arg == "--update") {
        fs::write(&kept_path, to_text(&counts)).unwrap();
        println!("kept in {}", kept_path.display());
        return ExitCode::SUCCESS;
    }
    let kept = from_text(&fs::read_to_string(&kept_path).unwrap());
    let faults = faults(&counts, &kept);
    print!("{}", to_text(&counts));
    faults.iter().for_each(|fault| println!("{fault}"));
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is too high.
fn faults(counts: &Counts, kept: &Counts) -> Vec<String> {
    let mut faults = Vec::new();
    for ((operation, size), count) in counts {
        match kept.get(&(operation.clone(), *size)) {
            None => faults.push(format!("{operation} at {size} entries: no count is kept; `-- --update` keeps one")),
            Some(kept) if *count as f64 > *kept as f64 * ALLOWED => {
                faults.push(format!("{operation} at {size} entries: {count} instructions, {kept} are kept"));
            }
            Some(_) => {}
        }
    }
    for operation in OPERATIONS {
        for pair in SIZES.windows(2) {
            let [small, large] = [pair[0], pair[1]].map(|size| counts[&(operation.to_owned(), size)] as f64);
            let growth = pair[1] as f64 / pair[0] as f64;
            if large > small * growth * ALLOWED {
                let times = large / small;
                faults.push(format!("{operation}: {times:.1} times the instructions for {growth} times the entries"));
            }
        }
    }
    faults
}

fn to_text(counts: &Counts) -> String {
    let mut text = String::new();
    for ((operation, size), count) in counts {
        let _ = writeln!(text, "{operation} {size} {count}");
    }
    text
}

fn from_text(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let [operation, size, count] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("not a count: {line}") };
        counts.insert((operation.to_owned(), size.parse().unwrap()), count.parse().unwrap());
    }
    counts
}

/// The instructions of one operation, counted by callgrind.
fn count(operation: &str, root: &Path) -> u64 {
    let out = root.join(format!("{operation}.callgrind"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=counts::counted*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .arg("--run")
        .arg(operation)
        .arg(root)
        .output()
        .unwrap_or_else(|error| panic!("valgrind: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{operation}: {said}");
    let collected = said.lines().find_map(|line| line.split_once("Collected : ")).unwrap_or_else(|| panic!("{said}"));
    let count = collected.1.trim().parse().unwrap();
    assert!(count > 0, "{operation}: nothing was counted");
    count
}

/// A root with one session of `size` entries: turns of a question, a call, its result and an answer.
fn write_root(data: &Path, size: u64) -> PathBuf {
    let root = data.join(size.to_string());
    let folder = root.join("--work--");
    fs::create_dir_all(&folder).unwrap();
    let mut text = String::from(
        "{\"type\":\"session\",\"version\":3,\"id\":\"counted\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/work\"}\n",
    );
    for number in 0..size {
        let parent =
            if number == 0 { "null".to_owned() } else { format!("\"{:08x}\"", (number - 1).wrapping_mul(0x9e37_79b1) as u32) };
        let id = (number.wrapping_mul(0x9e37_79b1)) as u32;
        let usage = r#""usage":{"input":900,"output":40,"cacheRead":1000,"cacheWrite":0,"totalTokens":1940,"cost":{"input":0.0027,"output":0.0006,"cacheRead":0.0003,"cacheWrite":0,"total":0.0036}}"#;
        let message = match number % 4 {
            0 => r#"{"role":"user","content":[{"type":"text","text":"Why does the \"parser\" stop\nat line 7?"}],"timestamp":1767225600000}"#.to_owned(),
            1 => format!(r#"{{"role":"assistant","content":[{{"type":"toolCall","id":"call_{number}","name":"read","arguments":{{"path":"src/parser.rs"}}}}],"api":"a","provider":"p","model":"m",{usage},"stopReason":"toolUse","timestamp":1767225600000}}"#),
            2 => format!(r#"{{"role":"toolResult","toolCallId":"call_{}","toolName":"read","content":[{{"type":"text","text":"fn parse(text: &str) -> Result<Tree, Error> {{\n    let mut at = 0;\n    while at < text.len() {{ at += 1 }}\n}}"}}],"isError":false,"timestamp":1767225600000}}"#, number - 1),
            _ => format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"It reads one line too few."}}],"api":"a","provider":"p","model":"m",{usage},"stopReason":"stop","timestamp":1767225600000}}"#),
        };
        let _ = writeln!(
            text,
            r#"{{"type":"message","id":"{id:08x}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z","message":{message}}}"#
        );
    }
    fs::write(folder.join("counted.jsonl"), text).unwrap();
    root
}

/// What callgrind counts.
#[inline(never)]
fn counted<R>(operation: impl FnOnce() -> R) -> R {
    black_box(operation())
}

/// Prepares one operation and does it, counted.
fn run(operation: &str, root: &Path) {
    // A file that two threads read would be counted by half.
    #[cfg(target_os = "linux")]
    {
        let mut one = nix::sched::CpuSet::new();
        let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        one.set((0..nix::sched::CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap()).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).unwrap();
    }
    let path = root.join("--work--/counted.jsonl");
    let open = |path: &Path| JsonlStorage::open(Arc::new(StdFs), path).unwrap();
    let session = |path: &Path| Session::new(Box::new(open(path)), Arc::new(SystemClock), Arc::new(RandomIds));
    match operation {
        "open" => drop(counted(|| open(&path))),
        "list" => {
            let repo = Repo::new(Arc::new(StdFs), Arc::new(SystemClock), Arc::new(RandomIds), root.to_owned(), Layout::Nested);
            assert_eq!(counted(|| repo.list(&|_| {})).unwrap().sessions.len(), 1);
        }
        "append" => {
            let folder = tempfile::tempdir().unwrap();
            let copy = folder.path().join("appended.jsonl");
            fs::copy(&path, &copy).unwrap();
            let mut session = session(&copy);
            let message = || vec![EntryKind::message(Message::user("Thanks.", 1))];
            // The first one opens the file for writing.
            session.append(message(), Durability::Unsynced).unwrap();
            counted(|| session.append(message(), Durability::Unsynced)).unwrap();
        }
        "path" => {
            let session = session(&path);
            counted(|| {
                let mut line = Vec::new();
                for index in session.tree().path(session.leaf()) {
                    session.read().line_into(index, &mut line).unwrap();
                }
            });
        }
        "context" => {
            let session = session(&path);
            counted(|| session.project(session.leaf(), &[])).unwrap();
        }
        "cut" => {
            let session = session(&path);
            let messages = session.project(session.leaf(), &[]).unwrap().into_messages();
            counted(|| {
                let entries: Vec<_> = messages.iter().map(|message| CutEntry::of([message], estimate_message(message))).collect();
                find_cut(&entries, 500)
            })
            .unwrap();
        }
        other => panic!("no operation {other}"),
    }
}
