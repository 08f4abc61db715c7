//! Runs this program and its peers in turns, and tells times, ratios and peak memory as rows of a table.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::jsonl::JsonlStorage;

const PAIRS: usize = 11;
const PROGRAM: &str = env!("CARGO_BIN_EXE_pi-sessions");

/// The head of the table.
pub fn heading() {
    println!("| what | this program | peer | ratio | peak memory |");
    println!("|---|---|---|---|---|");
}

/// Whether this process was started to measure the memory of another, which is done then.
pub fn is_meter() -> bool {
    let args: Vec<String> = std::env::args().collect();
    let Some(at) = args.iter().position(|arg| arg == "--peak") else { return false };
    peak_of(&args[at + 1..]);
    true
}

/// A run of this program.
pub fn own(args: &[&std::ffi::OsStr]) -> Command {
    let mut command = peer(PROGRAM, args);
    // The caches of whoever measures stay as they are.
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-data/cache");
    command.env("NO_COLOR", "1").env("XDG_CACHE_HOME", cache);
    command
}

/// A run of another.
pub fn peer(program: &str, args: &[&std::ffi::OsStr]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// How long a command takes.
pub fn time(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
    start.elapsed()
}

/// The one in the middle.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Measures a row: the peer and this program take turns, so that both meet the same machine.
pub fn row(what: &str, peer_name: &str, own: &dyn Fn() -> Command, peer: &dyn Fn() -> Command) {
    time(&mut own());
    time(&mut peer());
    let (mut own_times, mut peer_times) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        peer_times.push(time(&mut peer()));
        own_times.push(time(&mut own()));
    }
    let (own_time, peer_time) = (median(own_times), median(peer_times));
    let ratio = own_time.as_secs_f64() / peer_time.as_secs_f64();
    println!("| {what} | {} | {peer_name} {} | {ratio:.2} | {} |", show(own_time), show(peer_time), peak(&own()));
}

/// A time for people.
pub fn show(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms >= 1.0 { format!("{ms:.1} ms") } else { format!("{:.1} µs", ms * 1e3) }
}

/// The peak memory of a command, measured by a process that has no other child.
pub fn peak(command: &Command) -> String {
    let mut meter = Command::new(std::env::current_exe().unwrap());
    meter.arg("--peak").arg(command.get_program()).args(command.get_args());
    meter.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = meter.output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn peak_of(args: &[String]) {
    let status = Command::new(&args[0]).args(&args[1..]).stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    #[cfg(unix)]
    {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN).unwrap();
        println!("{:.1} MB", usage.max_rss() as f64 / 1024.0);
    }
}

/// The id of the fifth entry.
pub fn early_entry(path: &Path) -> String {
    let storage = JsonlStorage::open(Arc::new(StdFs), path).unwrap();
    let tree = pi_sessions::storage::SessionRead::tree(&storage);
    tree.id(tree.iter().nth(4).unwrap()).to_string()
}
