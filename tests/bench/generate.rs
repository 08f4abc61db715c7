//! Writes a folder of made-up sessions, the same bytes for the same arguments.
//!
//! Sizes follow a log-normal distribution. About one session in five has branches, one in six a compaction, one in ten
//! a name; assistant messages carry thinking, tool calls, usage and cost.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many sessions.
    pub sessions: u32,
    /// Their mean size.
    pub mean_bytes: u64,
    /// The size of one session more.
    pub big_bytes: u64,
}

/// A small generator of numbers: xorshift64*.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Roughly normal: a sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

const WORDS: [&str; 40] = [
    "parser",
    "returns",
    "error",
    "when",
    "the",
    "input",
    "line",
    "has",
    "no",
    "newline",
    "branch",
    "session",
    "leaf",
    "entry",
    "token",
    "summary",
    "model",
    "call",
    "result",
    "user",
    "fn",
    "let",
    "mut",
    "match",
    "Some(x)",
    "=>",
    "{",
    "}",
    "[0]",
    "\\\"quoted\\\"",
    "back\\\\slash",
    "tab\\there",
    "na\u{ef}ve",
    "caf\u{e9}",
    "\u{65e5}\u{672c}\u{8a9e}",
    "\u{1f680}",
    "return",
    "while",
    "self.next()",
    "Result<()>",
];

/// Text of about `len` bytes, escaped for JSON.
fn text(numbers: &mut Numbers, len: u64) -> String {
    let mut text = String::new();
    let mut line = 0;
    while (text.len() as u64) < len {
        let word = numbers.pick(&WORDS);
        text.push_str(word);
        line += word.len();
        if line > 70 {
            text.push_str("\\n");
            line = 0;
        } else {
            text.push(' ');
        }
    }
    text
}

struct Writer<'a> {
    numbers: &'a mut Numbers,
    out: String,
    leaf: Option<String>,
    ids: Vec<String>,
    now_ms: i64,
}

impl Writer<'_> {
    fn time(&self) -> String {
        pi_sessions::session::entry::format_timestamp(self.now_ms)
    }

    fn entry(&mut self, kind: &str, payload: &str) -> String {
        self.now_ms += 200 + self.numbers.below(30_000) as i64;
        let id = format!("{:08x}", self.numbers.next() as u32);
        let parent = self.leaf.as_ref().map_or("null".to_owned(), |leaf| format!("\"{leaf}\""));
        let time = self.time();
        let _ = writeln!(self.out, r#"{{"type":"{kind}","id":"{id}","parentId":{parent},"timestamp":"{time}",{payload}}}"#);
        self.leaf = Some(id.clone());
        self.ids.push(id.clone());
        id
    }

    fn assistant(&mut self, content: &str, stop: &str) {
        let (input, output) = (self.numbers.below(2_000), self.numbers.below(1_500));
        let read = self.numbers.below(120_000);
        let total = input + output + read;
        let cost = input as f64 * 3e-6 + output as f64 * 15e-6 + read as f64 * 3e-7;
        let (now, payload) = (self.now_ms, content);
        self.entry("message", &format!(
            r#""message":{{"role":"assistant","content":[{payload}],"api":"anthropic-messages","provider":"anthropic","model":"claude-sonnet-4-5","usage":{{"input":{input},"output":{output},"cacheRead":{read},"cacheWrite":0,"totalTokens":{total},"cost":{{"input":{},"output":{},"cacheRead":{},"cacheWrite":0,"total":{cost}}}}},"stopReason":"{stop}","timestamp":{now}}}"#,
            input as f64 * 3e-6, output as f64 * 15e-6, read as f64 * 3e-7,
        ));
    }

    fn turn(&mut self) {
        let (now, question) = (self.now_ms, text(self.numbers, 200));
        self.entry(
            "message",
            &format!(r#""message":{{"role":"user","content":[{{"type":"text","text":"{question}"}}],"timestamp":{now}}}"#),
        );
        for _ in 0..self.numbers.below(4) {
            let call = format!("call_{:016x}", self.numbers.next());
            let tool = self.numbers.pick(&["read", "bash", "edit", "write"]);
            let thinking = text(self.numbers, 400);
            let path = format!("src/{}.rs", self.numbers.below(40));
            let content = format!(
                r#"{{"type":"thinking","thinking":"{thinking}","thinkingSignature":"{:x}"}},{{"type":"toolCall","id":"{call}","name":"{tool}","arguments":{{"path":"{path}"}}}}"#,
                self.numbers.next(),
            );
            self.assistant(&content, "toolUse");
            let len = [300, 2_000, 8_000, 30_000][self.numbers.below(4) as usize];
            let (now, output, failed) = (self.now_ms, text(self.numbers, len), self.numbers.chance(0.05));
            self.entry("message", &format!(r#""message":{{"role":"toolResult","toolCallId":"{call}","toolName":"{tool}","content":[{{"type":"text","text":"{output}"}}],"isError":{failed},"timestamp":{now}}}"#));
        }
        let answer = text(self.numbers, 1_500);
        self.assistant(&format!(r#"{{"type":"text","text":"{answer}"}}"#), "stop");
    }

    fn compaction(&mut self) {
        let kept = self.ids[self.ids.len() - 1 - self.numbers.below(self.ids.len().min(10) as u64) as usize].clone();
        let summary = text(self.numbers, 900);
        let tokens = 100_000 + self.numbers.below(90_000);
        self.entry("compaction", &format!(r###""summary":"## Goal\n{summary}","firstKeptEntryId":"{kept}","tokensBefore":{tokens},"details":{{"readFiles":[],"modifiedFiles":[]}}"###));
    }
}

/// Writes the folder, unless it is there already.
pub fn sessions(root: &Path, plan: Plan) {
    let done = root.join("done");
    if done.exists() {
        return;
    }
    let _ = fs::remove_dir_all(root);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    // The mean of a log-normal variable is exp(1/2) times its median.
    let mut sizes: Vec<_> =
        (0..plan.sessions).map(|_| (numbers.normal().exp() * plan.mean_bytes as f64 / 1.6487) as u64).collect();
    sizes.extend((plan.big_bytes > 0).then_some(plan.big_bytes));
    for (number, size) in sizes.into_iter().enumerate() {
        let is_big = number as u32 == plan.sessions;
        session(root, number as i64, size, is_big, &mut numbers);
    }
    fs::write(done, "").expect("the folder for measurements can be written");
}

fn session(root: &Path, number: i64, size: u64, is_big: bool, numbers: &mut Numbers) {
    let cwd = format!("/home/dev/code/project-{:03}", numbers.below(20));
    let folder = root.join(format!("--{}--", cwd[1..].replace('/', "-")));
    fs::create_dir_all(&folder).expect("the folder for measurements can be written");
    let now_ms = 1_767_225_600_000 + number * 420_000;
    let id = uuid::Uuid::from_u128((u128::from(numbers.next()) << 64) | u128::from(numbers.next()));
    let mut writer = Writer { numbers, out: String::new(), leaf: None, ids: Vec::new(), now_ms };
    let created = writer.time();
    let _ = writeln!(writer.out, r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{created}","cwd":"{cwd}"}}"#);
    writer.entry("model_change", r#""provider":"anthropic","modelId":"claude-sonnet-4-5""#);
    if writer.numbers.chance(0.1) {
        writer.entry("session_info", &format!(r#""name":"session number {number}""#));
    }
    let (branches, compacts) = (!is_big && writer.numbers.chance(0.2), !is_big && writer.numbers.chance(0.17));
    while (writer.out.len() as u64) < size {
        writer.turn();
        if branches && writer.numbers.chance(0.1) {
            let left = writer.leaf.take().unwrap_or_default();
            writer.leaf = Some(writer.ids[writer.numbers.below(writer.ids.len() as u64) as usize].clone());
            writer.entry("branch_summary", &format!(r#""fromId":"{left}","summary":"what was tried there""#));
        }
        if compacts && writer.numbers.chance(0.04) {
            writer.compaction();
        }
    }
    let path = folder.join(format!("{}_{id}.jsonl", created.replace([':', '.'], "-")));
    fs::write(&path, &writer.out).expect("the folder for measurements can be written");
    if is_big {
        // The same session with a compaction near its end, and a little more behind it.
        writer.compaction();
        writer.turn();
        fs::create_dir_all(root.join("../compacted")).expect("the folder for measurements can be written");
        fs::write(root.join("../compacted/big.jsonl"), &writer.out).expect("the folder for measurements can be written");
    }
}

/// Writes a folder of so many short talks, a question and an answer each, in 500 folders; unless it is there already.
pub fn short_sessions(root: &Path, count: u32) {
    let done = root.join("done");
    if done.exists() {
        return;
    }
    let _ = fs::remove_dir_all(root);
    let mut numbers = Numbers(0xd1b5_4a32_d192_ed03);
    for number in 0..count {
        let cwd = format!("/home/dev/code/project-{:03}", numbers.below(500));
        let folder = root.join(format!("--{}--", cwd[1..].replace('/', "-")));
        fs::create_dir_all(&folder).expect("the folder for measurements can be written");
        let id = uuid::Uuid::from_u128((u128::from(numbers.next()) << 64) | u128::from(numbers.next()));
        let now_ms = 1_767_225_600_000 + i64::from(number) * 4_200;
        let mut writer = Writer { numbers: &mut numbers, out: String::new(), leaf: None, ids: Vec::new(), now_ms };
        let created = writer.time();
        let _ = writeln!(writer.out, r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{created}","cwd":"{cwd}"}}"#);
        let (now, question) = (writer.now_ms, text(writer.numbers, 100));
        writer.entry("message", &format!(r#""message":{{"role":"user","content":"{question}","timestamp":{now}}}"#));
        let answer = text(writer.numbers, 200);
        writer.assistant(&format!(r#"{{"type":"text","text":"{answer}"}}"#), "stop");
        let path = folder.join(format!("{}_{id}.jsonl", created.replace([':', '.'], "-")));
        fs::write(&path, &writer.out).expect("the folder for measurements can be written");
    }
    fs::write(done, "").expect("the folder for measurements can be written");
}

/// Appends to three of the files a message that holds a word of its own; unless that was done already.
pub fn plant(files: &[PathBuf], word: &str) {
    for part in 1..4 {
        let path = &files[files.len() * part / 5];
        let text = fs::read_to_string(path).expect("the folder for measurements can be read");
        if text.contains(word) {
            continue;
        }
        let last = text.lines().last().unwrap_or_default();
        let parent = last.split_once(r#""id":""#).and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
        let line = format!(
            r#"{{"type":"message","id":"{part:08x}","parentId":"{parent}","timestamp":"2026-06-01T00:00:00.000Z","message":{{"role":"user","content":"where is the {word}?","timestamp":1780272000000}}}}"#
        );
        fs::write(path, format!("{text}{line}\n")).expect("the folder for measurements can be written");
    }
}

/// All session files of a folder, the largest last.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in fs::read_dir(root).expect("the folder for measurements can be read").flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            files.push(file.path());
        }
    }
    files.sort_by_key(|path| path.metadata().map(|meta| meta.len()).unwrap_or_default());
    files
}
