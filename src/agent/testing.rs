//! What the tests of the agent share: a session on a disk that can be watched and can fail, tools and hooks of closures.
//!
//! # Invariants
//! - Nothing sleeps; failures are switched on and off by the test.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::event::{AgentEvent, Events};
use super::harness::{AgentHarness, HarnessOptions};
use super::tools::{Execution, Tool, ToolInvocation, ToolOutput};
use crate::llm::ToolDeclaration;
use crate::llm::scripted::{Scripted, Step};
use crate::session::entry::{Entry, EntryKind, Header};
use crate::session::json::{Fields, Json};
use crate::session::message::Message;
use crate::storage::fs::{FileKind, FileMeta, Fs, FsFile, OpenFor, StdFs};
use crate::storage::handle::Session;
use crate::storage::jsonl::JsonlStorage;
use crate::storage::{RandomIds, SystemClock};

/// What happens on a disk, and what is to fail.
#[derive(Debug, Default)]
pub struct Disk {
    pub appends: AtomicUsize,
    pub syncs: AtomicUsize,
    pub fail_appends: AtomicBool,
    pub fail_syncs: AtomicBool,
}

/// The file system of the machine, watched.
#[derive(Debug, Default)]
pub struct WatchedFs(pub Arc<Disk>);

#[derive(Debug)]
struct WatchedFile(Arc<dyn FsFile>, Arc<Disk>);

impl Fs for WatchedFs {
    fn open(&self, path: &Path, how: OpenFor) -> io::Result<Arc<dyn FsFile>> {
        Ok(Arc::new(WatchedFile(StdFs.open(path, how)?, self.0.clone())))
    }
    fn metadata(&self, path: &Path) -> io::Result<FileMeta> {
        StdFs.metadata(path)
    }
    fn link_metadata(&self, path: &Path) -> io::Result<FileMeta> {
        StdFs.link_metadata(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<(PathBuf, FileKind)>> {
        StdFs.read_dir(path)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        StdFs.create_dir_all(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        StdFs.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        StdFs.hard_link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        StdFs.remove_file(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        StdFs.sync_dir(path)
    }
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        StdFs.canonicalize(path)
    }
}

impl FsFile for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.1.fail_appends.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.1.appends.fetch_add(1, Ordering::SeqCst);
        self.0.append(bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.1.fail_syncs.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.1.syncs.fetch_add(1, Ordering::SeqCst);
        self.0.sync_data()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn metadata(&self) -> io::Result<FileMeta> {
        self.0.metadata()
    }
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.0.set_mode(mode)
    }
    fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }
    fn try_lock_shared(&self) -> io::Result<bool> {
        self.0.try_lock_shared()
    }
    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

/// A session file with a header, in a folder of its own.
pub struct Place {
    pub folder: tempfile::TempDir,
    pub path: PathBuf,
    pub disk: Arc<Disk>,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.jsonl");
        let header = Header {
            version: 3,
            id: "s1".into(),
            timestamp: "2026-01-01T00:00:00.000Z".into(),
            cwd: "/work".into(),
            ..Header::default()
        };
        JsonlStorage::create(Arc::new(StdFs), &path, &header).expect("a file");
        Self { folder, path, disk: Arc::default() }
    }

    pub fn session(&self) -> Session {
        let storage = JsonlStorage::open(Arc::new(WatchedFs(self.disk.clone())), &self.path).expect("a session");
        Session::new(Box::new(storage), Arc::new(SystemClock), Arc::new(RandomIds))
    }

    /// A harness that plays `steps`.
    pub fn harness(
        &self,
        steps: impl IntoIterator<Item = Step>,
        change: impl FnOnce(&mut HarnessOptions),
    ) -> (Arc<AgentHarness>, Arc<Scripted>) {
        let provider = Arc::new(Scripted::new(steps));
        let mut options = HarnessOptions::new(provider.clone(), Scripted::model());
        change(&mut options);
        (Arc::new(AgentHarness::new(self.session(), options).expect("a harness")), provider)
    }

    /// The lines of the file in short: the type, of messages the role and the text.
    pub fn lines(&self) -> Vec<String> {
        lines_of(&self.path)
    }

    pub fn counts(&self) -> (usize, usize) {
        (self.disk.appends.load(Ordering::SeqCst), self.disk.syncs.load(Ordering::SeqCst))
    }
}

/// The lines of a file in short.
pub fn lines_of(path: &Path) -> Vec<String> {
    #[expect(clippy::disallowed_methods, reason = "tests look at what is on disk")]
    let text = std::fs::read_to_string(path).expect("the file");
    text.lines().map(short).collect()
}

fn short(line: &str) -> String {
    let mut fields = Fields::parse(line).expect("a record");
    fields.take_json("id");
    match EntryKind::read(fields) {
        EntryKind::Message(entry) => short_message(&entry.message),
        EntryKind::ModelChange(change) => format!("model {}", change.model_id),
        EntryKind::Label(label) => format!("label {}", label.label.unwrap_or_default()),
        EntryKind::SessionInfo(info) => format!("name {}", info.name.unwrap_or_default()),
        EntryKind::ThinkingLevelChange(change) => format!("thinking {}", change.thinking_level),
        EntryKind::CustomMessage(message) => format!("custom {}", message.custom_type),
        kind => kind.wire_type().to_owned(),
    }
}

pub fn short_message(message: &Message) -> String {
    format!("{} {}", message.role().as_wire(), message.text()).trim_end().to_owned()
}

/// The entries of a session file.
pub fn entries_of(place: &Place) -> Vec<Entry> {
    let session = place.session();
    let all = session.tree().path(session.leaf());
    all.into_iter().filter_map(|index| session.read().entry(index).expect("a line")).collect()
}

/// The names of all events that are there.
pub fn names(events: &mut Events) -> Vec<String> {
    std::iter::from_fn(|| events.try_next())
        .filter(|event| !matches!(**event, AgentEvent::MessageUpdate { .. }))
        .map(|event| event.name().to_owned())
        .collect()
}

/// The texts of all warnings that are there.
pub fn warnings(events: &mut Events) -> Vec<String> {
    std::iter::from_fn(|| events.try_next())
        .filter_map(|event| match &*event {
            AgentEvent::Warning(warning) => Some(warning.to_string()),
            _ => None,
        })
        .collect()
}

type Work = dyn Fn(Json) -> Pin<Box<dyn Future<Output = ToolOutput> + Send>> + Send + Sync;

/// A tool of a closure.
pub struct Probe {
    name: &'static str,
    execution: Execution,
    work: Box<Work>,
}

impl Probe {
    pub fn parallel<F>(name: &'static str, work: impl Fn(Json) -> F + Send + Sync + 'static) -> Arc<dyn Tool>
    where
        F: Future<Output = ToolOutput> + Send + 'static,
    {
        Arc::new(Self { name, execution: Execution::Parallel, work: Box::new(move |json| Box::pin(work(json))) })
    }

    pub fn sequential<F>(name: &'static str, work: impl Fn(Json) -> F + Send + Sync + 'static) -> Arc<dyn Tool>
    where
        F: Future<Output = ToolOutput> + Send + 'static,
    {
        Arc::new(Self { name, execution: Execution::Sequential, work: Box::new(move |json| Box::pin(work(json))) })
    }

    /// A tool that says "ok" after `look` looked.
    pub fn looking(name: &'static str, look: impl Fn() + Send + Sync + 'static) -> Arc<dyn Tool> {
        Self::parallel(name, move |_| {
            look();
            async { ToolOutput::text("ok") }
        })
    }
}

#[async_trait]
impl Tool for Probe {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { name: self.name.to_owned(), description: "a probe".to_owned(), parameters: Json::empty_object() }
    }
    fn execution(&self) -> Execution {
        self.execution
    }
    async fn run(&self, call: ToolInvocation<'_>) -> ToolOutput {
        (self.work)(call.arguments.clone()).await
    }
}

/// What closures saw, in order.
#[derive(Clone, Debug, Default)]
pub struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Seen<T> {
    pub fn new() -> Self {
        Self(Arc::default())
    }
    pub fn add(&self, value: T) {
        self.0.lock().unwrap().push(value);
    }
    pub fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

/// A call of a probe, without arguments.
pub fn call(name: &str) -> Step {
    Step::call(name, Json::empty_object())
}
