//! What a command finds around it: environment, folders, clock, ids, streams, trash. Tests give their own.
//!
//! # Invariants
//! - Nothing else in `cli` asks the system for any of these.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::system_trash::SystemTrash;
use crate::storage::fs::{Fs, OpenFor, StdFs};
use crate::storage::trash::Trash;
use crate::storage::{Clock, IdSource, RandomIds, SystemClock};

/// Waits before the next look at what others may have changed; false ends the command, as an interrupt does.
pub type Wait = Arc<dyn Fn(std::time::Duration) -> bool + Send + Sync>;

/// What a command finds around it.
pub struct Surroundings {
    /// The environment.
    pub env: BTreeMap<OsString, OsString>,
    /// The folder that the command runs in; links in it are as the user typed them.
    pub cwd: PathBuf,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Where the platform keeps configuration of this program.
    pub config_dir: Option<PathBuf>,
    /// Where the platform keeps data of this program.
    pub data_dir: Option<PathBuf>,
    /// Where the platform keeps what this program can make again.
    pub cache_dir: Option<PathBuf>,
    /// Where the platform keeps what is needed for a while.
    pub temp_dir: PathBuf,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn IdSource>,
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// The trash of the system.
    pub trash: Arc<dyn Trash>,
    /// How it waits.
    pub wait: Wait,
    /// What others are told of who holds a session: the process and the machine.
    pub process: String,
}

/// A stream that is read.
pub struct Input {
    /// The stream.
    pub reader: Box<dyn Read + Send>,
    /// Whether a person types there.
    pub is_terminal: bool,
    /// Whether it is the standard input of this process, so that a line editor may take it over.
    pub is_process: bool,
}

/// A stream that is written.
pub struct Output {
    /// The stream.
    pub writer: Box<dyn Write + Send>,
    /// The columns of the terminal; `None` where it is none.
    pub columns: Option<usize>,
}

/// The columns of a terminal that does not tell.
const DEFAULT_COLUMNS: usize = 80;

impl Surroundings {
    /// What this process finds.
    pub fn of_process() -> Self {
        let env: BTreeMap<_, _> = std::env::vars_os().collect();
        let set = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty());
        let fs: Arc<dyn Fs> = Arc::new(StdFs);
        let cwd = logical_cwd(&*fs, set("PWD").map(PathBuf::from));
        let dirs = directories::ProjectDirs::from("", "", "pi-sessions");
        let asked = set("COLUMNS").and_then(|columns| columns.to_str()?.parse().ok()).filter(|columns| *columns > 0);
        let columns = |is_terminal: bool, real: Option<(terminal_size::Width, terminal_size::Height)>| {
            is_terminal.then(|| asked.or(real.map(|(width, _)| usize::from(width.0))).unwrap_or(DEFAULT_COLUMNS))
        };
        let out_columns = columns(io::stdout().is_terminal(), terminal_size::terminal_size_of(io::stdout()));
        let err_columns = columns(io::stderr().is_terminal(), terminal_size::terminal_size_of(io::stderr()));
        Self {
            cwd,
            home: directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned()),
            config_dir: dirs.as_ref().map(|dirs| dirs.config_dir().to_owned()),
            data_dir: dirs.as_ref().map(|dirs| dirs.data_dir().to_owned()),
            cache_dir: dirs.as_ref().map(|dirs| dirs.cache_dir().to_owned()),
            temp_dir: std::env::temp_dir(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            stdin: Input { reader: Box::new(io::stdin()), is_terminal: io::stdin().is_terminal(), is_process: true },
            stdout: Output { writer: Box::new(io::stdout()), columns: out_columns },
            stderr: Output { writer: Box::new(io::stderr()), columns: err_columns },
            trash: Arc::new(SystemTrash),
            wait: Arc::new(|time| {
                // Waking early only means an early look.
                std::thread::park_timeout(time);
                true
            }),
            process: format!("pid {} on {}", std::process::id(), host_name(&*fs)),
            fs,
            env,
        }
    }

    /// A variable of the environment; `None` also where it is empty.
    pub fn var(&self, name: &str) -> Option<String> {
        self.env.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned())
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the environment: it may hold secrets.
        f.debug_struct("Surroundings").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("is_terminal", &self.is_terminal).finish_non_exhaustive()
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// The name of this machine, as far as the system tells it in a file.
fn host_name(fs: &dyn Fs) -> String {
    let read = |path: &str| {
        let file = fs.open(Path::new(path), OpenFor::Read).ok()?;
        let mut name = [0; 256];
        let len = file.read_at(&mut name, 0).ok()?;
        let name = String::from_utf8_lossy(&name[..len]).trim().to_owned();
        (!name.is_empty()).then_some(name)
    };
    ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter().find_map(read).unwrap_or_else(|| "this machine".to_owned())
}

/// The current folder as the shell names it, where that is the same folder.
fn logical_cwd(fs: &dyn Fs, pwd: Option<PathBuf>) -> PathBuf {
    let real = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let same = |pwd: &PathBuf| pwd.is_absolute() && fs.canonicalize(pwd).ok() == fs.canonicalize(&real).ok();
    pwd.filter(same).unwrap_or(real)
}
