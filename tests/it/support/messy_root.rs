//! A root of session files that are appended to, damaged, replaced and removed in all ways that happen.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

/// What happens to a file, by numbers that are taken modulo what there is.
#[derive(Clone, Debug)]
pub enum Event {
    New(u8, Vec<u8>),
    Append(u8, Vec<u8>),
    /// A part of a line.
    Tear(u8, u8),
    Newline(u8),
    /// Other content in the same file.
    Rewrite(u8, Vec<u8>),
    Cut(u8, u8),
    Delete(u8),
    Touch(u8),
    /// Another file of the same length and time in its place.
    Replace(u8),
    NoSession(u8),
}

pub fn events() -> impl Strategy<Value = Vec<Event>> {
    let lines = || proptest::collection::vec(any::<u8>(), 0..12);
    let event = prop_oneof![
        3 => (any::<u8>(), lines()).prop_map(|(file, lines)| Event::New(file, lines)),
        6 => (any::<u8>(), lines()).prop_map(|(file, lines)| Event::Append(file, lines)),
        2 => any::<(u8, u8)>().prop_map(|(file, len)| Event::Tear(file, len)),
        2 => any::<u8>().prop_map(Event::Newline),
        1 => (any::<u8>(), lines()).prop_map(|(file, lines)| Event::Rewrite(file, lines)),
        1 => any::<(u8, u8)>().prop_map(|(file, len)| Event::Cut(file, len)),
        1 => any::<u8>().prop_map(Event::Delete),
        1 => any::<u8>().prop_map(Event::Touch),
        1 => any::<u8>().prop_map(Event::Replace),
        1 => any::<u8>().prop_map(Event::NoSession),
    ];
    proptest::collection::vec(event, 1..8)
}

/// The root, and how many things happened in it.
pub struct MessyRoot {
    root: PathBuf,
    count: u64,
}

impl MessyRoot {
    pub fn new(root: &Path) -> Self {
        fs::create_dir_all(root.join("--a--")).expect("a folder");
        fs::create_dir_all(root.join("--b--")).expect("a folder");
        Self { root: root.to_owned(), count: 0 }
    }

    fn files(&self) -> Vec<PathBuf> {
        let folders = [self.root.clone(), self.root.join("--a--"), self.root.join("--b--")];
        let mut files: Vec<_> = folders
            .iter()
            .flat_map(|folder| fs::read_dir(folder).expect("a folder"))
            .map(|item| item.expect("an item").path())
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
            .collect();
        files.sort();
        files
    }

    fn pick(&self, number: u8) -> Option<PathBuf> {
        let files = self.files();
        (!files.is_empty()).then(|| files[number as usize % files.len()].clone())
    }

    pub fn happen(&mut self, event: &Event) {
        self.count += 1;
        match event {
            Event::New(folder, lines) => {
                let folder = ["--a--", "--b--", "."][*folder as usize % 3];
                let path = self.root.join(folder).join(format!("t_{}.jsonl", self.count));
                let version = if lines.len() == 11 { r#""version":2,"# } else { r#""version":3,"# };
                let header = format!(
                    "{{\"type\":\"session\",{version}\"id\":\"s{}\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/c{}\"}}\n",
                    self.count,
                    lines.len() % 2
                );
                fs::write(path, header + &self.lines(lines)).expect("a new file");
            }
            Event::Append(file, lines) => self.append(*file, &self.lines(lines)),
            Event::Tear(file, len) => {
                let line = self.lines(&[0]);
                self.append(*file, &line[..(*len as usize).min(line.len())]);
            }
            Event::Newline(file) => self.append(*file, "\n"),
            Event::Rewrite(file, lines) => {
                let Some(path) = self.pick(*file) else { return };
                let header = format!("{{\"type\":\"session\",\"version\":3,\"id\":\"r{}\",\"cwd\":\"/c0\"}}\n", self.count);
                fs::write(path, header + &self.lines(lines)).expect("a file");
            }
            Event::Cut(file, len) => {
                let Some(path) = self.pick(*file) else { return };
                let file = OpenOptions::new().write(true).open(path).expect("a file");
                let old = file.metadata().expect("a file").len();
                file.set_len(old.saturating_sub(u64::from(*len))).expect("a cut");
            }
            Event::Delete(file) => {
                if let Some(path) = self.pick(*file) {
                    fs::remove_file(path).expect("a file");
                }
            }
            Event::Touch(file) => {
                let Some(path) = self.pick(*file) else { return };
                let now = std::time::SystemTime::now();
                File::options().append(true).open(path).expect("a file").set_modified(now).expect("a time");
            }
            Event::Replace(file) => {
                let Some(path) = self.pick(*file) else { return };
                let time = fs::metadata(&path).expect("a file").modified().expect("a time");
                let bytes: Vec<u8> =
                    fs::read(&path).expect("a file").into_iter().map(|byte| if byte == b'a' { b'e' } else { byte }).collect();
                let other = self.root.join(".other");
                fs::write(&other, bytes).expect("a file");
                File::options().append(true).open(&other).expect("a file").set_modified(time).expect("a time");
                fs::rename(other, path).expect("a file");
            }
            Event::NoSession(kind) => {
                let text =
                    ["", "\n", "no session\n", "{\"kind\":\"header\",\"v\":4}\n", "{\"type\":\"message\"}"][*kind as usize % 5];
                fs::write(self.root.join(format!("n_{}.jsonl", self.count)), text).expect("a file");
            }
        }
    }

    fn append(&self, file: u8, text: &str) {
        let Some(path) = self.pick(file) else { return };
        OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(text.as_bytes())).expect("an append");
    }

    /// Lines of all kinds; ids come from few, so that some are taken twice and some parents come later.
    fn lines(&self, kinds: &[u8]) -> String {
        kinds.iter().enumerate().map(|(at, kind)| line(self.count, at, *kind)).collect()
    }
}

fn line(seed: u64, at: usize, kind: u8) -> String {
    const TEXTS: [&str; 10] = [
        "the parser fails at src/main.rs",
        "Parser error\\nin line two",
        "日本語のテスト",
        "caf\\u00e9 CAF\u{c9} na\u{ef}ve",
        "\\u0070arser in escapes",
        "back\\\\slash and \\\"quotes\\\"",
        "an error",
        "\\ud83d alone, \\ud83d\\ude80 pair",
        "parsers parse",
        "x",
    ];
    let id = format!("{:08x}", (seed * 7 + at as u64 * 3 + u64::from(kind)) % 40);
    let parent = match kind % 5 {
        0 => "null".to_owned(),
        _ => format!("\"{:08x}\"", (seed * 7 + at as u64 * 3).saturating_sub(u64::from(kind % 7)) % 40),
    };
    let text = TEXTS[(kind / 16) as usize % TEXTS.len()];
    let time = format!("2026-02-{:02}T00:00:00.000Z", 1 + kind % 28);
    let ms = 1_760_000_000_000u64 + u64::from(kind % 4) * 1000;
    let head = format!("\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"{time}\"");
    match kind % 16 {
        0..=3 => format!(
            "{{\"type\":\"message\",{head},\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"timestamp\":{ms}}}}}\n"
        ),
        4 | 5 => format!(
            "{{\"type\":\"message\",{head},\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"thinking\",\"thinking\":\"parser\"}},{{\"type\":\"toolCall\",\"id\":\"c\",\"name\":\"read\",\"arguments\":{{\"path\":\"{text}\"}}}}],\"stopReason\":\"stop\",\"timestamp\":{ms}}}}}\n"
        ),
        6 => format!(
            "{{\"type\":\"message\",{head},\"message\":{{\"role\":\"toolResult\",\"toolCallId\":\"c\",\"toolName\":\"read\",\"content\":\"{text}\",\"isError\":false}}}}\n"
        ),
        7 => format!("{{\"message\":{{\"content\":\"{text}\",\"role\":\"user\"}}, {head} ,\"type\":\"message\"}}\n"),
        8 => format!("{{\"type\":\"session_info\",{head},\"name\":\"{text}\"}}\n"),
        9 => format!("{{\"type\":\"label\",{head},\"targetId\":\"{id}\",\"label\":\"{text}\"}}\n"),
        10 => format!(
            "{{\"type\":\"compaction\",{head},\"summary\":\"{text}\",\"firstKeptEntryId\":\"{id}\",\"tokensBefore\":1}}\n"
        ),
        11 => format!(
            "{{\"type\":\"message\",{head},\"mess{{\"type\":\"message\",{head},\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        ),
        12 => format!(
            "{{\"type\":\"message\",\"id\":\"long id {id}\",\"parentId\":{parent},\"timestamp\":\"{time}\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        ),
        13 => "\n".to_owned(),
        14 => format!("\0\0{{\"type\":\"leaf\",{head},\"targetId\":null}}\n"),
        _ => "{\"type\":\"session\",\"id\":\"again\"}\n".to_owned(),
    }
}
