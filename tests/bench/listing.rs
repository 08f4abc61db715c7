//! Lists and searches, against `wc`, `find` and `grep` over the same files.
//!
//! A list of 1,001 sessions and one of 100,000 short ones; a search for a word that three of the sessions hold. Caches
//! and indexes lie in the folder for measurements.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::generate;
use crate::measure::{median, own, peak, peer, row, show, time};

/// A word that no text is made of.
const PLANTED: &str = "quokka";

const SHORT_SESSIONS: u32 = 100_000;

/// A list of all sessions, with the cache.
fn list(root: &Path) -> Command {
    own(&["--root".as_ref(), root.as_os_str(), "list".as_ref(), "--all".as_ref(), "--json".as_ref()])
}

/// A list of all sessions that reads every file.
pub fn without_cache(data: &Path, root: &Path) -> Command {
    let config = data.join("no-cache.toml");
    fs::write(&config, "[cache]\nenabled = false\n").unwrap();
    let mut command = list(root);
    command.env("PI_SESSIONS_CONFIG", &config);
    command
}

fn search(root: &Path, more: &[&str]) -> Command {
    let mut command =
        own(&["--root".as_ref(), root.as_os_str(), "search".as_ref(), "--all".as_ref(), "--json".as_ref(), PLANTED.as_ref()]);
    command.args(more);
    command
}

fn find(root: &Path) -> Command {
    peer("find", &[root.as_os_str(), "-name".as_ref(), "*.jsonl".as_ref(), "-printf".as_ref(), "%s %T@ %i\\n".as_ref()])
}

/// All rows of lists and searches.
pub fn rows(data: &Path, root: &Path, files: &[PathBuf]) {
    generate::plant(files, PLANTED);
    let list_file = data.join("files0");
    fs::write(&list_file, files.iter().map(|path| format!("{}\0", path.display())).collect::<String>()).unwrap();
    let from = format!("--files0-from={}", list_file.display());
    let wc_all = || peer("wc", &["-l".as_ref(), from.as_ref()]);
    row("list 1,001 sessions, no cache", "`wc -l` over them", &|| without_cache(data, root), &wc_all);
    row("list 1,001 sessions, warm cache", "`wc -l` over them", &|| list(root), &wc_all);

    let many = data.join("many");
    generate::short_sessions(&many, SHORT_SESSIONS);
    row("list 100,000 sessions, warm cache", "`find -printf`", &|| list(&many), &|| find(&many));
    let grown = many.join("--home-dev-code-project-000--/appended.jsonl");
    fs::write(&grown, "{\"type\":\"session\",\"version\":3,\"id\":\"appended\",\"cwd\":\"/\"}\n").unwrap();
    let after_append = || {
        let mut file = fs::OpenOptions::new().append(true).open(&grown).unwrap();
        writeln!(file, r#"{{"type":"custom","id":"x","parentId":null,"timestamp":"t","customType":"c"}}"#).unwrap();
        list(&many)
    };
    row("list 100,000 sessions after one append", "`find -printf`", &after_append, &|| find(&many));
    fs::remove_file(&grown).unwrap();

    index_row(root, files);
    row("search 330 MB for a word in three sessions, indexed", "`find -printf`", &|| search(root, &[]), &|| find(root));
    let grep = || {
        // It ends with 1 where a file does not hold the word.
        let script = format!("xargs -0 grep -ci {PLANTED} < '{}' || :", list_file.display());
        peer("sh", &["-c".as_ref(), script.as_ref()])
    };
    row("search 330 MB for a word in three sessions, every file read", "`grep -ci`", &|| search(root, &["--no-index"]), &grep);
}

/// Making the index, which the first search does.
fn index_row(root: &Path, files: &[PathBuf]) {
    let bytes: u64 = files.iter().map(|path| path.metadata().unwrap().len()).sum();
    let command = search(root, &[]);
    let forget = || {
        let cache = command.get_envs().find(|(key, _)| *key == "XDG_CACHE_HOME").and_then(|(_, value)| value).unwrap();
        for item in fs::read_dir(Path::new(cache).join("pi-sessions")).into_iter().flatten().flatten() {
            if item.file_name().to_string_lossy().starts_with("search-") {
                fs::remove_file(item.path()).unwrap();
            }
        }
    };
    let built = || {
        forget();
        time(&mut search(root, &[]))
    };
    let times: Vec<Duration> = (0..3).map(|_| built()).collect();
    let build = median(times);
    forget();
    let rate = bytes as f64 / 1e6 / build.as_secs_f64();
    println!("| index {} MB | {} | {rate:.0} MB/s | | {} |", bytes / 1_000_000, show(build), peak(&command));
}
