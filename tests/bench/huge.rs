//! Measures this program on huge files: `cargo bench --bench huge`.
//!
//! A session of 1 GB, one of 1,000,000 entries, one with a line of 200 MB, and a file with 600 MB behind its header that
//! are no line at all. Each row is the median of 11 pairs with `wc -l` or `cat` on the same file, and the peak memory. The
//! files take 3 GB in `target/bench-data` and are made once.

#![allow(missing_docs, reason = "a program, not a library")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement prints, and stops at the first fault"
)]

#[expect(dead_code, reason = "the other benchmarks use the rest of it")]
mod generate;
mod measure;

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use measure::{early_entry, own, peer, row};

const HEADER: &str = r#"{"type":"session","version":3,"id":"huge","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}"#;

fn main() {
    if measure::is_meter() {
        return;
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-data/huge");
    let root = data.join("root");
    generate::sessions(&root, generate::Plan { sessions: 0, mean_bytes: 0, big_bytes: 1 << 30 });
    let big = generate::files(&root).pop().unwrap();
    let compacted = data.join("compacted/big.jsonl");
    let word = r#"fn main() { say(\"hello\") }\n"#;
    let many = data.join("many.jsonl");
    once(&many, &|out| (0..1_000_000).try_for_each(|number| writeln!(out, "{}", user(number, "Go on."))));
    let long_line = data.join("long-line.jsonl");
    let long_text = || word.repeat(200_000_000 / word.len());
    once(&long_line, &|out| writeln!(out, "{}\n{}\n{}", user(0, "hi"), user(1, &long_text()), user(2, "bye")));
    let lineless = data.join("lineless.jsonl");
    once(&lineless, &|out| {
        writeln!(out, "{}", user(0, "hi"))?;
        write!(out, r#"{{"type":"message","text":""#)?;
        (0..600).try_for_each(|_| out.write_all(word.repeat(1_000_000 / word.len()).as_bytes()))
    });

    measure::heading();
    let wc = |path: &Path| peer("wc", &["-l".as_ref(), path.as_os_str()]);
    let cat = |path: &Path| peer("cat", &[path.as_os_str()]);
    let at = |path: &Path, entry: &str| {
        own(&["context".as_ref(), path.as_os_str(), "--at".as_ref(), entry.as_ref(), "--format".as_ref(), "pi".as_ref()])
    };
    let leaf = |path: &Path| own(&["context".as_ref(), path.as_os_str(), "--format".as_ref(), "pi".as_ref()]);
    let command = |name: &str, path: &Path| own(&[name.as_ref(), path.as_os_str()]);
    let [early_of_big, early_of_many] = [&big, &many].map(|path| early_entry(path));
    row("open 1 GB, context of an early entry", "`wc -l`", &|| at(&big, &early_of_big), &|| wc(&big));
    row("open 1 GB, context of the leaf behind a compaction", "`wc -l`", &|| leaf(&compacted), &|| wc(&compacted));
    row("open 1,000,000 entries, context of an early one", "`wc -l`", &|| at(&many, &early_of_many), &|| wc(&many));
    row("the path of 1,000,000 entries", "`cat`", &|| command("path", &many), &|| cat(&many));
    row("show 1,000,000 entries", "`wc -l`", &|| command("show", &many), &|| wc(&many));
    row("show a session with a line of 200 MB", "`wc -l`", &|| command("show", &long_line), &|| wc(&long_line));
    row("context with a line of 200 MB", "`cat`", &|| leaf(&long_line), &|| cat(&long_line));
    row("show 600 MB without a line end", "`wc -l`", &|| command("show", &lineless), &|| wc(&lineless));
    row("path of 600 MB without a line end", "`wc -l`", &|| command("path", &lineless), &|| wc(&lineless));
}

/// One user message in a chain.
fn user(number: u32, text: &str) -> String {
    let parent = number.checked_sub(1).map_or("null".to_owned(), |parent| format!("\"{parent:08x}\""));
    format!(
        r#"{{"type":"message","id":"{number:08x}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"user","content":"{text}","timestamp":1}}}}"#
    )
}

/// Makes a session file, unless it is there already.
fn once(path: &Path, write: &dyn Fn(&mut dyn Write) -> std::io::Result<()>) {
    if path.exists() {
        return;
    }
    let unfinished = path.with_extension("unfinished");
    let mut out = BufWriter::new(fs::File::create(&unfinished).unwrap());
    writeln!(out, "{HEADER}").unwrap();
    write(&mut out).unwrap();
    out.flush().unwrap();
    fs::rename(&unfinished, path).unwrap();
}
