//! Measures this program against its peers on the same files, in one run: `cargo bench --bench peers`.
//!
//! Each row is the median of 11 pairs: the peer and this program take turns, so that both meet the same machine. Peers:
//! `wc -l` and `cat` for reading, a bare `write` (and `fdatasync`) for appending; with `PI_PACKAGE` set to the folder of
//! an installed `@earendil-works/pi-coding-agent`, Pi's own session manager too. The table goes to standard output.

#![allow(missing_docs, reason = "a program, not a library")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement prints, and stops at the first fault"
)]

mod generate;
mod listing;
mod measure;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pi_sessions::Session;
use pi_sessions::session::entry::{EntryKind, Header};
use pi_sessions::session::message::Message;
use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::jsonl::JsonlStorage;
use pi_sessions::storage::{Durability, RandomIds, SystemClock};

use measure::{early_entry, median, own, peer, row, show};

fn main() {
    if measure::is_meter() {
        return;
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-data");
    let root = data.join("root");
    generate::sessions(&root, generate::Plan { sessions: 1_000, mean_bytes: 200 << 10, big_bytes: 100 << 20 });
    let files = generate::files(&root);
    let big = files.last().unwrap().clone();
    let compacted = data.join("compacted/big.jsonl");
    let early = early_entry(&big);
    let total: u64 = files.iter().map(|path| path.metadata().unwrap().len()).sum();

    println!(
        "{} sessions, {} MB; the largest has {} MB\n",
        files.len(),
        total / 1_000_000,
        big.metadata().unwrap().len() / 1_000_000
    );
    measure::heading();
    let wc = || peer("wc", &["-l".as_ref(), big.as_os_str()]);
    let at = || own(&["context".as_ref(), big.as_os_str(), "--at".as_ref(), early.as_ref(), "--format".as_ref(), "pi".as_ref()]);
    row("open 100 MB, context of an early entry", "`wc -l`", &at, &wc);
    let wc_compacted = || peer("wc", &["-l".as_ref(), compacted.as_os_str()]);
    let leaf = || own(&["context".as_ref(), compacted.as_os_str(), "--format".as_ref(), "pi".as_ref()]);
    row("open 100 MB, context of the leaf behind a compaction", "`wc -l`", &leaf, &wc_compacted);
    let full = || own(&["context".as_ref(), big.as_os_str(), "--format".as_ref(), "pi".as_ref()]);
    let cat = || peer("cat", &[big.as_os_str()]);
    row("open 100 MB, whole context, nothing compacted", "`cat`", &full, &cat);
    let list = || listing::without_cache(&data, &root);
    listing::rows(&data, &root, &files);
    if let Some(package) = std::env::var_os("PI_PACKAGE") {
        let package = PathBuf::from(package);
        let pi_open = || pi(&package, OPEN_WITH_PI, &compacted);
        row("open 100 MB, context of the leaf behind a compaction", "Pi", &leaf, &pi_open);
        let pi_list = || pi(&package, LIST_WITH_PI, &root);
        row("list 1,001 sessions", "Pi", &list, &pi_list);
    }
    appends(&data);
}

const OPEN_WITH_PI: &str = "const [f, p] = process.argv.slice(1); const { SessionManager } = await import(p + '/dist/core/session-manager.js'); \
    SessionManager.open(f).buildSessionContext();";
const LIST_WITH_PI: &str = "const [d, p] = process.argv.slice(1); const { SessionManager } = await import(p + '/dist/core/session-manager.js'); \
    const fs = await import('node:fs'); for (const x of fs.readdirSync(d)) { const q = d + '/' + x; if (fs.statSync(q).isDirectory()) await SessionManager.listAll(q); }";

fn pi(package: &Path, script: &str, file: &Path) -> Command {
    let node = std::env::var("NODE").unwrap_or_else(|_| "node".to_owned());
    peer(&node, &["--input-type=module".as_ref(), "-e".as_ref(), script.as_ref(), file.as_os_str(), package.as_os_str()])
}

/// Appends of one entry in process, against bare writes of as many bytes.
fn appends(data: &Path) {
    for (durability, count, what) in
        [(Durability::Unsynced, 10_000, "append, not synced"), (Durability::Synced, 500, "append, synced")]
    {
        let (own_path, bare_path) = (data.join("append.jsonl"), data.join("bare.jsonl"));
        let _ = (fs::remove_file(&own_path), fs::remove_file(&bare_path));
        let header = Header {
            version: 3,
            id: "bench".into(),
            timestamp: "2026-01-01T00:00:00.000Z".into(),
            cwd: "/".into(),
            ..Header::default()
        };
        let storage = JsonlStorage::create(Arc::new(StdFs), &own_path, &header).unwrap();
        let mut session = Session::new(Box::new(storage), Arc::new(SystemClock), Arc::new(RandomIds));
        let mut bare = fs::OpenOptions::new().create(true).append(true).open(&bare_path).unwrap();
        let line = vec![b'x'; 240];
        let (mut own_times, mut bare_times) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let start = Instant::now();
            bare.write_all(&line).unwrap();
            if durability == Durability::Synced {
                bare.sync_data().unwrap();
            }
            bare_times.push(start.elapsed());
            let kind = EntryKind::message(Message::user("x".repeat(100), 1));
            let start = Instant::now();
            session.append(vec![kind], durability).unwrap();
            own_times.push(start.elapsed());
        }
        let mean = |times: &[Duration]| times.iter().sum::<Duration>() / count as u32;
        let (own_time, bare_time, how) = match durability {
            Durability::Unsynced => (mean(&own_times), mean(&bare_times), "mean of 10,000"),
            Durability::Synced => (median(own_times), median(bare_times), "median of 500"),
        };
        let bare_name = if durability == Durability::Synced { "`write` and `fdatasync`" } else { "`write`" };
        let ratio = own_time.as_secs_f64() / bare_time.as_secs_f64();
        println!("| {what}, {how} | {} | {bare_name} {} | {ratio:.2} | |", show(own_time), show(bare_time));
    }
}
