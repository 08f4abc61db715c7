//! Errors as people and scripts see them: what was asked, what stopped it, and what helps.
//!
//! # Invariants
//! - The kind alone decides the exit code.
//! - The text is never a Rust `Debug` form and never shows control characters of a file.

use std::error::Error;
use std::fmt;
use std::io;

use crate::storage::StorageError;

use crate::storage::reference::{Candidate, ReferenceError};

/// What sort of error it is; its name stands in `--json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line cannot be understood, or asks for what cannot be.
    Usage,
    /// There is no such session or entry.
    NotFound,
    /// Several sessions or entries are meant.
    Ambiguous,
    /// The file is no session.
    NotASession,
    /// The file is of a version that this program cannot write, or not read.
    UnsupportedVersion,
    /// Somebody else holds the session.
    Busy,
    /// Reading or writing failed, or what was given to write is no good.
    Io,
    /// A model's provider failed.
    #[allow(dead_code, reason = "the commands that talk to models use it")]
    Provider,
    /// The configuration is wrong.
    Config,
    /// The reader of our output went away, which is no error.
    ClosedPipe,
    /// A mistake in this program.
    Bug,
}

impl ErrorKind {
    /// The name in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::NotFound => "notFound",
            Self::Ambiguous => "ambiguous",
            Self::NotASession => "notASession",
            Self::UnsupportedVersion => "unsupportedVersion",
            Self::Busy => "busy",
            Self::Io | Self::ClosedPipe => "io",
            Self::Provider => "provider",
            Self::Config => "config",
            Self::Bug => "bug",
        }
    }

    /// The exit code of the command.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::ClosedPipe => 0,
            Self::NotASession | Self::UnsupportedVersion | Self::Busy | Self::Io | Self::Provider | Self::Config => 1,
            Self::Usage | Self::NotFound | Self::Ambiguous => 2,
            Self::Bug => 255,
        }
    }
}

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub struct CliError {
    /// The kind.
    pub kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
    /// What clap made of it, with its own layout.
    rendered: Option<String>,
}

impl CliError {
    /// An error with a message: a sentence in lower case, ids and paths last, without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, hints: Vec::new(), rendered: None }
    }

    /// Wrong usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// A mistake of ours.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Bug, message).hint("this is a bug in pi-sessions; please report it with the command that you ran")
    }

    /// Adds what stopped it.
    pub fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Adds a hint: a command or an action that helps.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// What clap found wrong.
    pub(super) fn of_clap(error: &clap::Error, colored: bool) -> Self {
        let rendered = error.render();
        let plain = rendered.to_string();
        // The first paragraph; below it stand tips and the usage.
        let paragraph: Vec<_> = plain.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let paragraph = paragraph.join(" ");
        let message = paragraph.strip_prefix("error: ").unwrap_or("a command is missing");
        let layout = if colored { rendered.ansi().to_string() } else { plain.clone() };
        Self { rendered: Some(layout), ..Self::usage(message) }.hint("pi-sessions --help")
    }

    /// An error of the storage and what caused it, in one line.
    pub(super) fn reason(error: &StorageError) -> String {
        let mut reason = error.to_string();
        let mut next = Error::source(error);
        while let Some(cause) = next {
            reason.push_str(&format!(" ({cause})"));
            next = cause.source();
        }
        reason
    }

    /// The message and what caused it, each a line of text.
    pub fn chain(&self) -> Vec<String> {
        let mut chain = vec![self.message.clone()];
        let mut next = self.source.as_ref().map(|source| &**source as &(dyn Error + 'static));
        while let Some(error) = next {
            chain.push(error.to_string());
            next = error.source();
        }
        chain
    }

    /// What helps.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The whole text as clap laid it out, if it did.
    pub(super) fn rendered(&self) -> Option<&str> {
        self.rendered.as_deref()
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain().join(": "))
    }
}

impl Error for CliError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

impl From<StorageError> for CliError {
    fn from(error: StorageError) -> Self {
        let (kind, hint) = match &error {
            StorageError::NotFound(_) => (ErrorKind::NotFound, Some("pi-sessions list --all")),
            StorageError::NoSuchEntry(_) => (ErrorKind::NotFound, Some("pi-sessions tree")),
            StorageError::EmptyFile(_) => {
                (ErrorKind::NotASession, Some("nothing is in it that could be lost; pi-sessions new begins a session"))
            }
            StorageError::NotASession(_) => (
                ErrorKind::NotASession,
                Some("pi-sessions import reads files of other programs, pi-sessions list --all shows the sessions"),
            ),
            StorageError::Format4(_) => (ErrorKind::UnsupportedVersion, None),
            StorageError::UnsupportedVersion { .. } => {
                (ErrorKind::UnsupportedVersion, Some("a newer version of pi-sessions may know this format"))
            }
            StorageError::Busy { .. } => (ErrorKind::Busy, Some("end the other program first")),
            StorageError::InvalidId(_) | StorageError::NotAUserMessage(_) => (ErrorKind::Usage, None),
            StorageError::SyncFailed { .. } | StorageError::Poisoned(_) => {
                (ErrorKind::Io, Some("pi-sessions check shows what is on disk"))
            }
            StorageError::IsALink(_) => (ErrorKind::Io, Some("name the file that the link leads to")),
            StorageError::Io { .. }
            | StorageError::EntryExists(_)
            | StorageError::Exists(_)
            | StorageError::Incoming(_)
            | StorageError::Replaced(_)
            | StorageError::Moved { .. }
            | StorageError::WriteFailed { .. }
            | StorageError::TooLong(_)
            | StorageError::TooManyEntries(_) => (ErrorKind::Io, None),
        };
        let hint = hint.or_else(|| disk_hint(&error));
        let source = Error::source(&error).map(|source| Shown(source.to_string()));
        let cli = Self::new(kind, error.to_string());
        let cli = match source {
            Some(source) => cli.because(source),
            None => cli,
        };
        match hint {
            Some(hint) => cli.hint(hint),
            None => cli,
        }
    }
}

/// What helps against a disk that takes nothing.
fn disk_hint(error: &StorageError) -> Option<&'static str> {
    let source = Error::source(error)?.downcast_ref::<io::Error>()?;
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room on the disk and try again; what was there before is untouched")
        }
        io::ErrorKind::ReadOnlyFilesystem => Some("the disk can only be read; --root DIR keeps sessions elsewhere"),
        _ => None,
    }
}

impl From<ReferenceError> for CliError {
    fn from(error: ReferenceError) -> Self {
        let kind = if error.is_ambiguous() { ErrorKind::Ambiguous } else { ErrorKind::NotFound };
        let hints: Vec<_> = match &error {
            ReferenceError::NoSessionHere | ReferenceError::NoSuchFile(_) | ReferenceError::NotAFile(_) => {
                vec!["pi-sessions list --all".to_owned()]
            }
            ReferenceError::UnknownSession { candidates, .. } if candidates.is_empty() => {
                vec!["pi-sessions list --all".to_owned()]
            }
            other => other.candidates().iter().map(candidate_text).collect(),
        };
        match error {
            ReferenceError::Storage(error) => error.into(),
            other => hints.into_iter().fold(Self::new(kind, other.to_string()), Self::hint),
        }
    }
}

/// What may have been meant, and how it begins if it says anything.
fn candidate_text(candidate: &Candidate) -> String {
    let Candidate { name, text } = candidate;
    if text.is_empty() { name.clone() } else { format!("{name} ({text})") }
}

/// A cause of which only the text is left.
#[derive(Debug)]
struct Shown(String);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Shown {}
