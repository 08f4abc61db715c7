//! The files and processes that tools, hooks and prompts reach.
//!
//! # Invariants
//! - Nothing else in `agent` touches files or starts processes.
//! - A path to write to is resolved before it is used: every link on the way, also one that points to nothing. Unless all
//!   paths are allowed, what it comes to is inside the cwd.
//! - Files for cut output are new and private.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::process::{Ended, Piece, Process, Stream};

/// The longest answer of a program that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// How much of what a program complains about is passed on, in bytes.
const MAX_COMPLAINT_BYTES: usize = 400;

/// Which files `write` and `edit` may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePaths {
    /// Those in the cwd.
    #[default]
    InsideCwd,
    /// All.
    Anywhere,
}

/// A folder that tools work in.
#[derive(Debug)]
pub struct Env {
    cwd: PathBuf,
    output_folder: PathBuf,
    write_paths: WritePaths,
    /// Numbers the files of cut output.
    outputs: AtomicU64,
}

impl Env {
    /// Tools that work in `cwd`. Output that is too long for the model is kept in files in `output_folder`, which is
    /// created when it is needed.
    pub fn new(cwd: impl Into<PathBuf>, output_folder: impl Into<PathBuf>, write_paths: WritePaths) -> Self {
        Self { cwd: cwd.into(), output_folder: output_folder.into(), write_paths, outputs: AtomicU64::new(0) }
    }

    /// The folder that tools work in.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// `path`, from the cwd where it is relative.
    pub fn absolute(&self, path: &str) -> PathBuf {
        self.cwd.join(path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What the system says.
    pub async fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let meta = tokio::fs::metadata(path).await?;
        // A pipe or a device might never end.
        if !meta.is_file() {
            let what = if meta.is_dir() { "it is a folder" } else { "it is not a regular file" };
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        tokio::fs::read(path).await
    }

    /// The folders in a folder, sorted.
    ///
    /// # Errors
    /// What the system says.
    pub async fn folders_in(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        let mut items = tokio::fs::read_dir(path).await?;
        while let Some(item) = items.next_entry().await? {
            if tokio::fs::metadata(item.path()).await.is_ok_and(|meta| meta.is_dir()) {
                folders.push(item.path());
            }
        }
        folders.sort();
        Ok(folders)
    }

    /// Where a write to `path` would end up.
    ///
    /// # Errors
    /// When that is outside the cwd and not allowed, when it is no regular file, or what the system says.
    pub async fn writable(&self, path: &str) -> io::Result<PathBuf> {
        let refused = |what: &str| io::Error::new(io::ErrorKind::PermissionDenied, what);
        if path.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is empty"));
        }
        let mut existing = self.absolute(path);
        let mut missing = Vec::new();
        let resolved = loop {
            match tokio::fs::symlink_metadata(&existing).await {
                // A link to nothing fails here; writing through it would make a file somewhere else.
                Ok(_) => break tokio::fs::canonicalize(&existing).await?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            match existing.components().next_back() {
                Some(Component::Normal(name)) => missing.push(name.to_owned()),
                _ => return Err(refused("it leads through a folder that does not exist")),
            }
            existing.pop();
        };
        let target = missing.iter().rev().fold(resolved, |path, name| path.join(name));
        if self.write_paths == WritePaths::InsideCwd && !target.starts_with(tokio::fs::canonicalize(&self.cwd).await?) {
            return Err(refused("it is outside the working folder"));
        }
        match tokio::fs::metadata(&target).await {
            Ok(meta) if meta.is_dir() => Err(refused("it is a folder")),
            Ok(meta) if !meta.is_file() => Err(refused("it is not a regular file")),
            Ok(_) => Ok(target),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(target),
            Err(error) => Err(error),
        }
    }

    /// Writes a file whose path [`Env::writable`] gave, and its folders.
    ///
    /// # Errors
    /// What the system says.
    pub async fn write(&self, target: &Path, bytes: &[u8]) -> io::Result<()> {
        if let Some(folder) = target.parent() {
            tokio::fs::create_dir_all(folder).await?;
        }
        tokio::fs::write(target, bytes).await
    }

    /// A new file for output that is too long.
    pub(super) async fn new_output(&self) -> io::Result<(PathBuf, tokio::fs::File)> {
        let mut builder = tokio::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        builder.mode(0o700);
        builder.create(&self.output_folder).await?;
        loop {
            let number = self.outputs.fetch_add(1, Ordering::Relaxed);
            let path = self.output_folder.join(format!("output-{}-{number}.txt", std::process::id()));
            let mut options = tokio::fs::OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            options.mode(0o600);
            match options.open(&path).await {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts a shell with a command line, in the cwd.
    pub(super) fn shell(&self, command_line: &str) -> io::Result<Process> {
        let start = |shell: &str| {
            let mut command = Command::new(shell);
            command.arg("-c").arg(command_line).current_dir(&self.cwd);
            Process::start(command, None)
        };
        match start("bash") {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.cwd.is_dir() => start("sh"),
            started => started,
        }
    }

    /// Runs a program in the cwd and gives what it printed.
    ///
    /// # Errors
    /// When it cannot be started, ends with another exit code than 0, or takes longer than `limit`; then it is killed.
    pub async fn run_program(&self, program: &[String], input: Vec<u8>, limit: Duration) -> Result<Vec<u8>, ProgramError> {
        let (name, arguments) = program.split_first().ok_or(ProgramError::Nameless)?;
        let mut command = Command::new(name);
        command.args(arguments).current_dir(&self.cwd);
        let mut process = Process::start(command, Some(input)).map_err(ProgramError::NotStarted)?;
        process.set_limit(limit);
        let never = CancellationToken::new();
        let (mut answer, mut complaint) = (Vec::new(), Vec::new());
        loop {
            match process.next(&never).await {
                Piece::Output(Stream::Out, bytes) if answer.len() + bytes.len() > MAX_ANSWER_BYTES => {
                    process.kill().await;
                    return Err(ProgramError::TooMuch);
                }
                Piece::Output(Stream::Out, bytes) => answer.extend(bytes),
                Piece::Output(Stream::Err, bytes) => {
                    complaint.extend(&bytes[..bytes.len().min(MAX_COMPLAINT_BYTES.saturating_sub(complaint.len()))]);
                }
                Piece::Ended(Ended::Exit(Some(0))) => return Ok(answer),
                Piece::Ended(Ended::Exit(code)) => {
                    let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
                    return Err(ProgramError::Failed { code, complaint });
                }
                Piece::Ended(Ended::TimedOut | Ended::Aborted) => return Err(ProgramError::Late(limit)),
            }
        }
    }
}

/// Why a program gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no program to start.
    #[error("no program is named")]
    Nameless,
    /// The system refused it.
    #[error("cannot be started: {0}")]
    NotStarted(io::Error),
    /// It failed by itself.
    #[error("ended with {}{}", ExitCode(*code), Complaint(complaint))]
    Failed {
        /// Its exit code; `None` where a signal ended it.
        code: Option<i32>,
        /// What it said on standard error.
        complaint: String,
    },
    /// It took too long.
    #[error("did not answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// It printed more than can be an answer.
    #[error("printed too much")]
    TooMuch,
}

struct ExitCode(Option<i32>);

impl std::fmt::Display for ExitCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(code) => write!(f, "exit code {code}"),
            None => f.write_str("a signal"),
        }
    }
}

struct Complaint<'a>(&'a str);

impl std::fmt::Display for Complaint<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}
