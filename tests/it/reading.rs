//! The fast reader gives what a slow one gives, for any bytes, however they are cut into blocks, threads and refreshes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pi_sessions::storage::SessionStorage;
use pi_sessions::storage::fs::Fs;
use pi_sessions::storage::jsonl::JsonlStorage;
use pi_sessions::storage::list::SessionSummary;
use pi_sessions::storage::repo::{Layout, Repo};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::exercise::same;
use crate::support::fault_fs::FaultFs;
use crate::support::fixed::{CountedIds, SteppingClock};
use crate::support::slow_reader::{SlowSession, read_slowly};

const FILE: &str = "/root/s.jsonl";

const HEADER: &str =
    "{\"type\":\"session\",\"version\":3,\"id\":\"s1\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/p\"}\n";

fn open(fs: &FaultFs) -> JsonlStorage {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    JsonlStorage::open(fs, Path::new(FILE)).expect("a session")
}

/// Both readers agree on `bytes`, also when the file comes in small pieces.
fn check(what: &str, bytes: &[u8]) {
    let slow = read_slowly(bytes);
    let pieces: &[usize] = if bytes.len() > 100_000 { &[usize::MAX, 60_001] } else { &[usize::MAX, 1, 7, 64, 1000] };
    for piece in pieces {
        let fs = FaultFs::default();
        fs.put(Path::new(FILE), bytes);
        fs.read_at_most(*piece);
        let opened = JsonlStorage::open(Arc::new(fs.clone()), Path::new(FILE));
        match (&slow, opened) {
            (Some(slow), Ok(storage)) => same(&format!("{what}, {piece} bytes at once"), &storage, slow),
            (None, Err(_)) => {}
            (slow, opened) => panic!("{what}: {slow:?}, {opened:?}"),
        }
    }
    check_summary(what, bytes, slow.as_ref());
}

/// What the list shows of the file.
fn check_summary(what: &str, bytes: &[u8], slow: Option<&SlowSession>) {
    let fs = FaultFs::default();
    fs.put(Path::new(FILE), bytes);
    let repo = Repo::new(
        Arc::new(fs),
        Arc::new(SteppingClock::default()),
        Arc::new(CountedIds::default()),
        PathBuf::from("/root"),
        Layout::Flat,
    );
    let listing = repo.list(&|_| {}).expect("the root");
    let Some(slow) = slow else {
        assert_eq!((listing.sessions.len(), listing.skipped.len()), (0, 1), "{what}");
        return;
    };
    let messages = || slow.entries.iter().filter(|entry| entry.text("type") == Some("message"));
    let spoken = || messages().filter(|entry| ["user", "assistant"].iter().any(|role| entry.value["message"]["role"] == *role));
    let time = |entry: &Value| {
        let own = entry["timestamp"].as_str().and_then(|time| chrono::DateTime::parse_from_rfc3339(time).ok());
        entry["message"]["timestamp"].as_i64().or(own.map(|time| time.timestamp_millis()))
    };
    let name = slow.entries.iter().rfind(|entry| entry.text("type") == Some("session_info"));
    let name = name.and_then(|entry| entry.text("name")).map(str::trim).filter(|name| !name.is_empty());
    let summary = listing.sessions.first().cloned().unwrap_or_default();
    let ours = (summary.message_count, summary.has_conversation, summary.name.as_deref(), summary.size_bytes);
    assert_eq!(ours, (messages().count() as u64, spoken().count() > 0, name, bytes.len() as u64), "{what}");
    if let Some(time) = spoken().filter_map(|entry| time(&entry.value)).max() {
        assert_eq!(summary.modified_ms, time, "{what}");
    }
    let SessionSummary { damaged_lines, .. } = summary;
    assert_eq!(damaged_lines, slow.damage.iter().filter(|damage| damage.0 != "secondHeader").count() as u64, "{what}");
}

/// The inputs of all fixtures of version 3.
fn fixtures() -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).expect("a folder of fixtures") {
            let path = item.expect("a fixture").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == "input.jsonl") {
                let bytes = std::fs::read(&path).expect("a fixture");
                found.push((path, bytes));
            }
        }
    }
    found.retain(|(_, bytes)| read_slowly(bytes).is_none_or(|slow| slow.header["version"] == 3));
    found.sort();
    found
}

#[test]
fn both_readers_agree_on_every_fixture() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 83, "{}", fixtures.len());
    for (path, bytes) in fixtures {
        check(&path.to_string_lossy(), &bytes);
    }
}

/// An entry in Pi's order of keys, `pad` bytes longer than it must be.
fn entry(at: usize, pad: usize) -> String {
    let parent = if at == 0 { "null".to_owned() } else { format!("\"{:08x}\"", at - 1) };
    let head = format!(r#""id":"{at:08x}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z""#);
    let text = "x\\\"}{é".repeat(pad / 7) + &"y".repeat(pad % 7);
    match at % 4 {
        0 => format!(r#"{{"type":"message",{head},"message":{{"role":"user","content":"{text}","timestamp":{at}}}}}"#),
        1 => format!(
            r#"{{"type":"message",{head},"message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"usage":{{"input":1}},"timestamp":{at}}}}}"#
        ),
        2 => format!(r#"{{"type":"custom","customType":"c","data":{{"a":["{text}"],"id":"no"}},{head}}}"#),
        _ => {
            format!(r#"{{"parentId":{parent},"message":{{"x":"{text}","role":"toolResult"}},"id":"{at:08x}","type":"message"}}"#)
        }
    }
}

#[test]
fn lines_that_end_at_and_around_the_borders_of_blocks_are_read() {
    const BLOCK: usize = 256 * 1024;
    for border in [64 * 1024, BLOCK, BLOCK + 64 * 1024, 2 * BLOCK] {
        for off in [-2i64, -1, 0, 1, 2] {
            for kind in 0..4 {
                let mut file = HEADER.to_owned();
                (0..kind).for_each(|at| file.push_str(&format!("{}\n", entry(at, 0))));
                // Blocks are counted from the end of the header; the line's newline is to be the last byte of one.
                let rest = (border as i64 + off) as usize - (file.len() - HEADER.len());
                let pad = rest - entry(kind, 0).len() - 1;
                file.push_str(&format!("{}\n", entry(kind, pad)));
                (kind + 1..kind + 4).for_each(|at| file.push_str(&format!("{}\n", entry(at, 10))));
                let slow = read_slowly(file.as_bytes()).expect("a session");
                let fs = FaultFs::default();
                fs.put(Path::new(FILE), file.as_bytes());
                same(&format!("border {border} {off:+}, entry {kind}"), &open(&fs), &slow);
            }
        }
    }
}

#[test]
fn lines_of_every_length_are_read() {
    for tail in ["\n", "", "{\"type\":\"mess", "\0\0\0", "\n\n \n", "\r\n"] {
        let mut file = HEADER.to_owned();
        for (at, pad) in
            [0, 400, 511, 512, 513, 65_000, 65_536, 70_000, 140_000, 262_144, 300_000, 600_000].into_iter().enumerate()
        {
            file.push_str(&entry(at, pad));
            file.push_str(if at < 11 { "\n" } else { tail });
        }
        check(&format!("behind the last one {tail:?}"), file.as_bytes());
    }
}

/// A long line whose record is damaged in its middle, where the fast reader has no bytes at hand.
#[test]
fn damage_in_the_middle_of_a_long_line_is_found() {
    for len in [1_000, 70_000, 270_000] {
        for middle in ["\0\0", "\u{1}", "\"", "}", "{", "\"}}{\"type\":\"label\",\"id\":\"z\",\"parentId\":null,\"x\":\"", "\\\\"]
        {
            // With an array in it, brackets of the wrong kind would close; those are not looked at.
            let kinds = if middle.len() > 9 { vec![0, 3] } else { vec![0, 2] };
            for kind in kinds {
                let mut line = entry(kind, len);
                let at = line.char_indices().filter(|(at, char)| *char == 'x' && *at > line.len() / 2).map(|(at, _)| at).next();
                let at = at.expect("a place between escapes");
                line.insert_str(at, middle);
                let file = format!("{HEADER}{}\n{line}\n{}\n", entry(7, 3), entry(8, 3));
                let slow = read_slowly(file.as_bytes()).expect("a session");
                let fs = FaultFs::default();
                fs.put(Path::new(FILE), file.as_bytes());
                same(&format!("{middle:?} in entry {kind} of {len}"), &open(&fs), &slow);
            }
        }
    }
}

#[test]
fn a_file_that_two_threads_read_is_read_as_by_one() {
    const BYTES: usize = 9 * 1024 * 1024;
    let small = |file: &mut String, from: usize, until: usize| {
        let mut at = from;
        while file.len() < until {
            file.push_str(&format!("{}\n", entry(at, 700 + at % 1000)));
            at += 1;
        }
        at
    };
    let mut files = Vec::new();
    // Many lines; damage on both sides, so that line numbers are told.
    let mut file = HEADER.to_owned();
    let at = small(&mut file, 0, BYTES / 3);
    file.push_str("{\"type\":\"mess\n\n");
    let at = small(&mut file, at, 2 * BYTES / 3);
    file.push_str("\0\0\n");
    small(&mut file, at, BYTES);
    files.push(("many lines", file + "{\"torn"));
    // One line over the middle.
    let mut file = HEADER.to_owned();
    let at = small(&mut file, 0, BYTES / 4);
    file.push_str(&format!("{}\n", entry(at, BYTES / 2)));
    small(&mut file, at + 1, BYTES);
    files.push(("a long line over the middle", file));
    // One line from the first half to the end, without a newline.
    let mut file = HEADER.to_owned();
    let at = small(&mut file, 0, BYTES / 4);
    files.push(("a long last line", file + &entry(at, 3 * BYTES / 4)));
    // A line that begins exactly at the middle, one byte before and one behind.
    for (what, off) in [("at the middle", 0), ("before the middle", -1), ("behind the middle", 1i64)] {
        let mut file = HEADER.to_owned();
        let at = small(&mut file, 0, BYTES / 2);
        let first = file.len() - HEADER.len();
        let second = (first as i64 - 2 * off) as usize;
        file.push_str(&format!("{}\n", entry(at, 5)));
        let at = small(&mut file, at + 1, HEADER.len() + first + second - 20_000);
        let pad = HEADER.len() + first + second - file.len() - entry(at, 0).len() - 1;
        file.push_str(&format!("{}\n", entry(at, pad)));
        files.push((what, file));
    }
    for (what, file) in files {
        let slow = read_slowly(file.as_bytes()).expect("a session");
        let fs = FaultFs::default();
        fs.put(Path::new(FILE), file.as_bytes());
        same(what, &open(&fs), &slow);
    }
}

/// Lines of all kinds, good and bad, with ids from a few.
fn any_line() -> impl Strategy<Value = String> {
    let id = || prop::sample::select(vec!["00000001", "00000002", "00000003", "00000004", "abc", "0000000A", "é", "a\\\"b"]);
    let parent = prop_oneof![4 => id().prop_map(|id| format!("\"{id}\"")), 1 => Just("null".to_owned())];
    let head = (id(), parent)
        .prop_map(|(id, parent)| format!(r#""id":"{id}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z""#));
    let payload = prop::sample::select(vec![
        r#""message","message":{"role":"user","content":"u\ud83d }{ é","timestamp":7}"#,
        r#""message","message":{"role":"assistant","content":[{"type":"text","text":"\\\" ]"},{"type":"toolCall","id":"c","name":"n","arguments":{"timestamp":1}}],"timestamp":8,"x":"y"}"#,
        r#""message","message":{"content":"late","timestamp":9.5,"role":"user"}"#,
        r#""message","message":{"role":"assistant","content":[],"details":{"a":1,"timestamp":99}}"#,
        r#""message","message":{"role":"user","content":"x","timestamp":3},"extra":{"b":[1],"timestamp":77},"last":1"#,
        r#""message","message":7"#,
        r#""leaf","targetId":"00000001""#,
        r#""leaf","targetId":null,"fromId":"00000002""#,
        r#""leaf","targetId":7"#,
        r#""leaf""#,
        r#""label","targetId":"00000001","label":"l""#,
        r#""session_info","name":" n ""#,
        r#""session_info","name":"  ""#,
        r#""usage","kind":"k""#,
        r#""compaction","summary":"s","firstKeptEntryId":"00000001""#,
        r#""future","a":{"id":"in"}"#,
        r#""custom_message","customType":"t","content":"c","display":true"#,
    ]);
    let payload = prop_oneof![payload.prop_map(str::to_owned)];
    (head, payload, 0..24u8).prop_map(|(head, payload, form)| {
        let (kind, rest) =
            payload.split_once(',').map_or((payload.as_str(), String::new()), |(kind, rest)| (kind, format!(",{rest}")));
        let usual = format!(r#"{{"type":{kind},{head}{rest}}}"#);
        match form {
            0 => format!(r#"{{{head},"type":{kind}{rest}}}"#),
            1 => format!(r#"{{"type":"custom","customType":"c","data":{{"id":"x","parentId":null,"timestamp":"t"}},{head}}}"#),
            2 => format!("  {usual}\t\r"),
            3 => usual.replace(":", " : "),
            4 => format!("{usual}\0\0\0"),
            5 => usual[..usual.len() * 2 / 3].chars().collect(),
            6 => format!("{}{usual}", &HEADER[..40]),
            7 => format!("{usual}{usual}"),
            8 => format!(r#"{{"type":{kind},"parentId":null{rest}}}"#),
            9 => format!(r#"{{{head}{rest}}}"#),
            10 => HEADER.trim_end().to_owned(),
            11 => String::new(),
            12 => "[1,{}]".to_owned(),
            13 => usual.replacen("2026", "20\u{2}26", 1),
            14 => format!("{usual}\r"),
            15 => format!("\0{usual}"),
            _ => usual,
        }
    })
}

/// A generated file, shown as text.
#[derive(Clone)]
struct File(Vec<u8>);

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

fn any_file() -> impl Strategy<Value = File> {
    (prop::collection::vec(any_line(), 0..30), 0..8u8, any::<prop::sample::Index>()).prop_map(|(lines, form, cut)| {
        let mut file = match form {
            0 => format!("\u{feff}{HEADER}"),
            1 => format!("\n \r\n{HEADER}"),
            2 => HEADER.replace('\n', "\r\n"),
            3 => HEADER.trim_end().to_owned(),
            _ => HEADER.to_owned(),
        };
        file.push_str(&lines.join("\n"));
        if form > 4 {
            file.push('\n');
        }
        let mut bytes = file.into_bytes();
        if form == 7 {
            bytes.truncate(1 + cut.index(bytes.len()));
        }
        File(bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn both_readers_agree_on_any_lines(File(bytes) in any_file()) {
        // What is whole by its brackets and no JSON is outside of the slow reader; a truncated or fused file never is.
        check("generated", &bytes);
    }

    #[test]
    fn refreshing_piece_by_piece_gives_what_opening_gives(
        File(bytes) in any_file(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort();
        cuts.push(bytes.len());
        let Some(first) = cuts.iter().position(|cut| read_slowly(&bytes[..*cut]).is_some()) else { return Ok(()) };
        let fs = FaultFs::default();
        fs.put(Path::new(FILE), &bytes[..cuts[first]]);
        let mut storage = open(&fs);
        let mut end = cuts[first];
        for cut in &cuts[first..] {
            fs.push(Path::new(FILE), &bytes[end..*cut]);
            end = *cut;
            storage.refresh().expect("it is the same session");
            let slow = read_slowly(&bytes[..end]).expect("what has a header keeps it");
            same(&format!("after {end} bytes"), &storage, &slow);
        }
    }
}

#[test]
fn what_is_no_session_is_told_and_left_alone() {
    for (bytes, expect) in [
        ("", "EmptyFile"),
        ("\n \n", "EmptyFile"),
        ("\u{feff}", "EmptyFile"),
        ("{\"type\":\"event\"}\n", "NotASession"),
        ("{\"type\":\"message\",\"id\":\"a\",\"parentId\":null}\n", "NotASession"),
        ("hello\n", "NotASession"),
        ("\0\0\0", "NotASession"),
        ("[]\n", "NotASession"),
        ("{\"type\":\"session\",\"id\":\"s\"", "NotASession"),
        ("{\"kind\":\"header\",\"version\":4,\"id\":\"s\"}\n", "Format4"),
        ("{\"kind\":\"session\",\"type\":\"session\"}\n", "opened"),
    ] {
        let fs = FaultFs::default();
        fs.put(Path::new(FILE), bytes.as_bytes());
        let shown = match JsonlStorage::open(Arc::new(fs.clone()), Path::new(FILE)) {
            Ok(_) => "opened".to_owned(),
            Err(error) => format!("{error:?}"),
        };
        assert!(shown.starts_with(expect), "{bytes:?}: {shown}");
        assert_eq!(fs.get(Path::new(FILE)).expect("the file"), bytes.as_bytes());
    }
}

#[test]
fn old_versions_are_visited_as_they_are_opened() {
    let message =
        |time: u32| json!({"type": "message", "timestamp": "t", "message": {"role": "user", "content": "hi", "timestamp": time}});
    let header = json!({"type": "session", "id": "s1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p"});
    let file = format!("{header}\n{}\n{}\n", message(5), message(6));
    let fs = FaultFs::default();
    fs.put(Path::new(FILE), file.as_bytes());
    let repo = Repo::new(
        Arc::new(fs),
        Arc::new(SteppingClock::default()),
        Arc::new(CountedIds::default()),
        "/root".into(),
        Layout::Flat,
    );
    let summary = repo.list(&|_| {}).expect("the root").sessions.remove(0);
    assert_eq!((summary.message_count, summary.modified_ms, summary.first_message.as_deref()), (2, 6, Some("hi")));
}
