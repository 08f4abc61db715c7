//! Runs the command in process, with everything around it fixed: environment, folders, clock, ids, terminal.
//!
//! # Invariants
//! - Nothing of the machine shows in a [`Run`]: the temporary folder reads `[TMP]`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use pi_sessions::cli::browse::BrowserOptions;
use pi_sessions::cli::surroundings::{Input, Output, Surroundings};
use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::index::ListingCache;
use pi_sessions::storage::repo::{Layout, Repo};
use pi_sessions::storage::trash::TrashedFile;
use pi_sessions::storage::{Clock, IdSource};

/// The folder that commands run in; it does not exist.
pub const CWD: &str = "/home/me/project";

/// A fixed place to run commands in.
#[derive(Debug)]
pub struct TestEnv {
    folder: tempfile::TempDir,
    clock: Arc<StepClock>,
    ids: Arc<CountingIds>,
    env: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    columns: Option<usize>,
    trash: Arc<Mutex<Trash>>,
    meanwhile: Arc<Mutex<Meanwhile>>,
}

/// What others do while a command waits, the first thing first; with nothing left, the command is interrupted.
#[derive(Default)]
struct Meanwhile(std::collections::VecDeque<Box<dyn FnOnce() + Send>>);

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meanwhile").field(&self.0.len()).finish()
    }
}

/// What the trash of a test does.
#[derive(Debug, Default)]
pub struct Trash {
    /// The names of the files that went there.
    pub names: Vec<String>,
    /// What lies there.
    items: Vec<TrashedFile>,
    /// Whether it does not tell what lies there.
    pub is_silent: bool,
    /// Why it refuses, if it does.
    pub refuses: Option<String>,
    /// Whether it panics, as a mistake of ours would.
    pub panics: bool,
}

/// How a command ended and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub args: String,
    pub code: u8,
    pub stdout: String,
    pub stderr: String,
}

impl TestEnv {
    /// A folder without sessions; it is noon of 2026-11-30.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            folder,
            clock: Arc::new(StepClock(AtomicI64::new(1_796_040_000_000))),
            ids: Arc::default(),
            env: BTreeMap::new(),
            cwd: PathBuf::from(CWD),
            columns: None,
            trash: Arc::default(),
            meanwhile: Arc::default(),
        }
    }

    /// The same on a terminal of this many columns.
    pub fn terminal(mut self, columns: usize) -> Self {
        self.columns = Some(columns);
        self
    }

    /// The same with a variable.
    pub fn var(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// The same in another folder.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// The temporary folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The home folder.
    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// The folder of sessions that is in force where nothing else is said.
    pub fn root(&self) -> PathBuf {
        self.path().join("data").join("sessions")
    }

    /// Writes a file below the temporary folder and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a file of ours");
        path
    }

    /// Writes a session of [`CWD`]: a header with this id, then `lines`.
    pub fn session(&self, id: &str, lines: &str) -> PathBuf {
        self.session_of(id, CWD, lines)
    }

    /// Writes a session of a folder.
    pub fn session_of(&self, id: &str, cwd: &str, lines: &str) -> PathBuf {
        let header =
            format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"2026-11-30T09:00:00.000Z","cwd":"{cwd}"}}"#);
        let folder = pi_sessions::storage::repo::folder_name(cwd);
        let lines: String = lines.trim().lines().map(|line| format!("{}\n", line.trim())).collect();
        self.write(&format!("data/sessions/{folder}/2026-11-30T09-00-00-000Z_{id}.jsonl"), &format!("{header}\n{lines}"))
    }

    /// What lies in the trash, and what it does.
    pub fn trash(&self) -> std::sync::MutexGuard<'_, Trash> {
        self.trash.lock().expect("no test panicked")
    }

    /// Has something done while the next command waits, also for an answer, after what was given before.
    pub fn meanwhile(&self, act: impl FnOnce() + Send + 'static) {
        self.meanwhile.lock().expect("no test panicked").0.push_back(Box::new(act));
    }

    /// Runs a command line; words in single quotes are one word.
    pub fn run(&self, args: &str) -> Run {
        self.run_with(args, "", false)
    }

    /// Runs a command line whose words are given one by one, whatever is in them.
    pub fn run_words(&self, args: &[&str]) -> Run {
        self.pipe_words(args, "")
    }

    /// Runs a command line with standard input from a pipe.
    pub fn pipe(&self, args: &str, input: &str) -> Run {
        self.run_with(args, input, false)
    }

    /// Runs a command line; a person at the terminal answers its questions with `input`.
    pub fn answer(&self, args: &str, input: &str) -> Run {
        self.run_with(args, input, true)
    }

    /// What a browser needs on a screen of this size, without colours.
    pub fn browser(&self, columns: u16, rows: u16) -> BrowserOptions {
        let repo = Repo::new(Arc::new(StdFs), self.clock.clone(), self.ids.clone(), self.root(), Layout::Nested);
        let trash = TestTrash { trash: self.trash.clone(), folder: self.path().join("trash"), now_ms: self.clock.now_ms() };
        BrowserOptions {
            repo: repo.with_cache(ListingCache::new(self.path().join("cache"))),
            here: self.cwd.clone(),
            cache_dir: Some(self.path().join("cache")),
            trash: Arc::new(trash),
            is_picker: false,
            is_elsewhere: false,
            all_folders: false,
            select: None,
            is_colored: false,
            size: (columns, rows),
        }
    }

    /// As [`TestEnv::run_words`], with standard input from a pipe.
    pub fn pipe_words(&self, args: &[&str], input: &str) -> Run {
        self.run_in_process(&args.join(" "), args.iter().map(ToString::to_string).collect(), input, false)
    }

    /// As [`TestEnv::run_words`]; a person at the terminal answers its questions with `input`.
    pub fn answer_words(&self, args: &[&str], input: &str) -> Run {
        self.run_in_process(&args.join(" "), args.iter().map(ToString::to_string).collect(), input, true)
    }

    fn run_with(&self, args: &str, input: &str, is_terminal: bool) -> Run {
        self.run_in_process(args, words(args), input, is_terminal)
    }

    fn run_in_process(&self, args: &str, words: Vec<String>, input: &str, is_terminal: bool) -> Run {
        self.clock.0.fetch_add(1000, Ordering::Relaxed);
        let (stdout, stderr) = (Buffer::default(), Buffer::default());
        let trash = self.trash.clone();
        let meanwhile = self.meanwhile.clone();
        let answers = io::Cursor::new(input.to_owned().into_bytes());
        let person = Person { answers, meanwhile: is_terminal.then(|| meanwhile.clone()) };
        let surroundings = Surroundings {
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            home: Some(self.home()),
            config_dir: Some(self.path().join("config")),
            data_dir: Some(self.path().join("data")),
            cache_dir: Some(self.path().join("cache")),
            temp_dir: self.path().join("temp"),
            fs: Arc::new(StdFs),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            stdin: Input { reader: Box::new(person), is_terminal, is_process: false },
            stdout: Output { writer: Box::new(stdout.clone()), columns: self.columns },
            stderr: Output { writer: Box::new(stderr.clone()), columns: self.columns },
            trash: Arc::new(TestTrash { trash, folder: self.path().join("trash"), now_ms: self.clock.now_ms() }),
            wait: Arc::new(move |_| {
                let next = meanwhile.lock().expect("no test panicked").0.pop_front();
                next.map(|act| act()).is_some()
            }),
            process: "pid 7 on here".to_owned(),
        };
        let words = std::iter::once("pi-sessions".to_owned()).chain(words);
        let code = pi_sessions::cli::run(words, surroundings);
        let shown = |buffer: &Buffer| self.hide(&String::from_utf8(buffer.bytes()).expect("text"));
        Run { args: self.hide(args), code, stdout: shown(&stdout), stderr: shown(&stderr) }
    }

    /// `text` without what differs from one machine to the next.
    pub fn hide(&self, text: &str) -> String {
        let real = fs::canonicalize(self.path()).expect("the temporary folder");
        text.replace(&*real.to_string_lossy(), "[TMP]").replace(&*self.path().to_string_lossy(), "[TMP]")
    }
}

/// Somebody who answers, after what others do while a question waits.
struct Person {
    answers: io::Cursor<Vec<u8>>,
    meanwhile: Option<Arc<Mutex<Meanwhile>>>,
}

impl io::Read for Person {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(act) = self.meanwhile.take().and_then(|meanwhile| meanwhile.lock().expect("no test panicked").0.pop_front()) {
            act();
        }
        self.answers.read(buffer)
    }
}

/// The trash of a test: a folder.
struct TestTrash {
    trash: Arc<Mutex<Trash>>,
    folder: PathBuf,
    now_ms: i64,
}

impl pi_sessions::storage::trash::Trash for TestTrash {
    fn put(&self, path: &Path) -> io::Result<()> {
        let panics = self.trash.lock().expect("no test panicked").panics;
        assert!(!panics, "the trash is on fire");
        let mut trash = self.trash.lock().expect("no test panicked");
        if let Some(why) = &trash.refuses {
            return Err(io::Error::other(why.clone()));
        }
        let content = self.folder.join(trash.names.len().to_string());
        fs::create_dir_all(&self.folder)?;
        fs::rename(path, &content)?;
        trash.names.push(path.file_name().expect("a name").to_string_lossy().into_owned());
        let file = TrashedFile { id: content.clone().into(), original: path.to_owned(), content, deleted_ms: self.now_ms };
        trash.items.push(file);
        Ok(())
    }

    fn items(&self) -> io::Result<Vec<TrashedFile>> {
        let trash = self.trash.lock().expect("no test panicked");
        match trash.is_silent {
            true => Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not tell what lies in its trash")),
            false => Ok(trash.items.clone()),
        }
    }

    fn take(&self, file: &TrashedFile, to: &Path) -> io::Result<()> {
        let mut trash = self.trash.lock().expect("no test panicked");
        if let Some(why) = trash.refuses.clone().filter(|_| to.extension().is_some_and(|end| end == "jsonl")) {
            return Err(io::Error::other(why));
        }
        fs::hard_link(&file.content, to)?;
        trash.items.retain(|item| item.id != file.id);
        fs::remove_file(&file.content)
    }
}

/// The words of a command line.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "$ pi-sessions {}", self.args)?;
        f.write_str(&visible(&self.stdout))?;
        if !self.stderr.is_empty() {
            write!(f, "--- stderr\n{}", visible(&self.stderr))?;
        }
        if self.code != 0 {
            writeln!(f, "--- exit code {}", self.code)?;
        }
        Ok(())
    }
}

/// Escape characters as people see them in a diff.
fn visible(text: &str) -> String {
    text.replace('\u{1b}', "␛").replace('\r', "␍")
}

/// A stream that keeps what is written.
#[derive(Clone, Debug, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no writer panicked").clone()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A clock that stands still during a command and goes on by a second before each.
#[derive(Debug)]
struct StepClock(AtomicI64);

impl Clock for StepClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ids that count.
#[derive(Debug, Default)]
struct CountingIds {
    entries: AtomicU32,
    sessions: AtomicU32,
}

impl IdSource for CountingIds {
    fn entry_bits(&self) -> u32 {
        0xe000_0000 + self.entries.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn session_id(&self) -> String {
        format!("019ad3c5-0000-7000-8000-{:012}", self.sessions.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// A session with a tool call and two branches; one entry is labelled, and the session has a name.
///
/// ```text
/// m1 ─ u1 ─ a1 ─ r1 ─ a2 ─┬─ u2 ─ a3
///                         └─ u3 ─ a4 ─ l1 ─ n1
/// ```
pub const DEMO: &str = r#"
{"type":"model_change","id":"m1","parentId":null,"timestamp":"2026-11-30T09:00:01.000Z","provider":"mock","modelId":"mock-1"}
{"type":"message","id":"u1","parentId":"m1","timestamp":"2026-11-30T09:00:02.000Z","message":{"role":"user","content":[{"type":"text","text":"Fix the login bug"}],"timestamp":1796029202000}}
{"type":"message","id":"a1","parentId":"u1","timestamp":"2026-11-30T09:00:03.000Z","message":{"role":"assistant","content":[{"type":"thinking","thinking":"Look first."},{"type":"toolCall","id":"c1","name":"read","arguments":{"path":"login.rs"}}],"api":"openai-completions","provider":"mock","model":"mock-1","usage":{"input":100,"output":20,"cacheRead":0,"cacheWrite":0,"totalTokens":120,"cost":{"input":0.001,"output":0.002,"cacheRead":0,"cacheWrite":0,"total":0.003}},"stopReason":"toolUse","timestamp":1796029203000}}
{"type":"message","id":"r1","parentId":"a1","timestamp":"2026-11-30T09:00:04.000Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"fn login() {\n    panic!()\n}\n"}],"isError":false,"timestamp":1796029204000}}
{"type":"message","id":"a2","parentId":"r1","timestamp":"2026-11-30T09:00:05.000Z","message":{"role":"assistant","content":[{"type":"text","text":"The function is empty."}],"api":"openai-completions","provider":"mock","model":"mock-1","usage":{"input":150,"output":10,"cacheRead":100,"cacheWrite":0,"totalTokens":260,"cost":{"input":0.001,"output":0.001,"cacheRead":0,"cacheWrite":0,"total":0.002}},"stopReason":"stop","timestamp":1796029205000}}
{"type":"message","id":"u2","parentId":"a2","timestamp":"2026-11-30T09:00:06.000Z","message":{"role":"user","content":"Write it","timestamp":1796029206000}}
{"type":"message","id":"a3","parentId":"u2","timestamp":"2026-11-30T09:00:07.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Written."}],"api":"openai-completions","provider":"mock","model":"mock-1","usage":{"input":160,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":165,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1796029207000}}
{"type":"message","id":"u3","parentId":"a2","timestamp":"2026-11-30T09:30:00.000Z","message":{"role":"user","content":[{"type":"text","text":"Write a test first"}],"timestamp":1796031000000}}
{"type":"message","id":"a4","parentId":"u3","timestamp":"2026-11-30T09:30:01.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Here is a test."}],"api":"openai-completions","provider":"mock","model":"mock-2","usage":{"input":170,"output":8,"cacheRead":0,"cacheWrite":0,"totalTokens":178,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1796031001000}}
{"type":"label","id":"l1","parentId":"a4","timestamp":"2026-11-30T09:31:00.000Z","targetId":"a2","label":"diagnosis"}
{"type":"session_info","id":"n1","parentId":"l1","timestamp":"2026-11-30T09:32:00.000Z","name":"Login bug"}
"#;
