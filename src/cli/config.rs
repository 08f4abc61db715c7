//! The configuration file, and where sessions are kept.
//!
//! # Invariants
//! - A field that is unknown or of another shape is an error that names file, line and field: nothing is ignored.
//! - Whatever is in force knows where it comes from.
//!
//! # The root of sessions
//! ```text
//! --root
//! PI_SESSIONS_ROOT
//! root                           in the file
//! PI_CODING_AGENT_SESSION_DIR    flat
//! sessionDir                     flat; in .pi/settings.json of the cwd, then in settings.json of the agent's folder
//! $PI_CODING_AGENT_DIR/sessions
//! ~/.pi/agent/sessions           if it exists
//! sessions                       in the platform's folder for data
//! ```

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::{absolute, expand_home};
use crate::cli::surroundings::Surroundings;
use crate::storage::fs::{Fs, OpenFor, read_exact_at};
use crate::storage::repo::Layout;

/// The name of the file in the platform's folder.
const FILE_NAME: &str = "config.toml";

/// The configuration file, read.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where it is, or would be.
    pub path: Option<PathBuf>,
    /// Whether it is there.
    pub exists: bool,
    /// What it says.
    pub fields: ConfigFields,
}

/// The fields of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFields {
    /// Where sessions are kept; a relative path counts from the file's folder.
    pub root: Option<String>,
    /// How contexts are made smaller.
    #[serde(default)]
    pub context: ContextFields,
}

/// `[context]`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextFields {
    /// Older tool results are shortened to the name of their tool.
    pub micro_compaction: Option<bool>,
    /// Long tool results lose their middle.
    pub truncation: Option<bool>,
}

impl Config {
    /// Finds and reads the file. That there is none is no error, unless `PI_SESSIONS_CONFIG` names it.
    pub(super) fn load(surroundings: &Surroundings) -> Result<Self, CliError> {
        let named = surroundings.var("PI_SESSIONS_CONFIG").map(|path| absolute(&surroundings.cwd, Path::new(&path)));
        let is_named = named.is_some();
        let Some(path) = named.or_else(|| surroundings.config_dir.as_ref().map(|dir| dir.join(FILE_NAME))) else {
            return Ok(Self::default());
        };
        let text = match read_text(&*surroundings.fs, &path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => {
                return Ok(Self { path: Some(path), ..Self::default() });
            }
            Err(error) => {
                let message = format!("cannot read the configuration {}", path.display());
                return Err(CliError::new(ErrorKind::Config, message).because(error));
            }
        };
        let fields = toml::from_str(&text).map_err(|error| wrong_field(&error, &text, &path))?;
        Ok(Self { path: Some(path), exists: true, fields })
    }
}

/// Names the field that is wrong, with its line. The value is not shown: it may be a secret.
fn wrong_field(error: &toml::de::Error, text: &str, path: &Path) -> CliError {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let line = 1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let field = text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(field, _)| field.trim());
    let place = field.map_or_else(String::new, |field| format!("field {field:?}, "));
    let message = error.message().trim().replace('\n', ", ");
    CliError::new(ErrorKind::Config, format!("wrong configuration: {message}; {place}line {line} of {}", path.display()))
}

/// Where a value in force comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    Option(&'static str),
    /// The environment.
    Variable(&'static str),
    /// A file.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(name) | Self::Variable(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The root of sessions.
#[derive(Clone, Debug)]
pub struct Root {
    /// The folder; it need not exist.
    pub path: PathBuf,
    /// How files lie in it.
    pub layout: Layout,
    /// Who said so.
    pub origin: Origin,
}

impl Root {
    /// Finds the root. Returns notes on files of Pi that could not be read beside it.
    pub(super) fn find(
        option: Option<&Path>,
        surroundings: &Surroundings,
        config: &Config,
    ) -> Result<(Self, Vec<String>), CliError> {
        let home = surroundings.home.as_deref();
        let cwd = &surroundings.cwd;
        let from = |base: &Path, path: &str| absolute(base, &expand_home(home, path));
        let nested = |path: PathBuf, origin| Self { path, layout: Layout::Nested, origin };
        let flat = |path: PathBuf, origin| Self { path, layout: Layout::Flat, origin };
        let mut notes = Vec::new();

        if let Some(path) = option {
            if path.as_os_str().is_empty() {
                return Err(CliError::usage("--root needs a folder"));
            }
            return Ok((nested(absolute(cwd, path), Origin::Option("--root")), notes));
        }
        if let Some(path) = surroundings.var("PI_SESSIONS_ROOT") {
            return Ok((nested(from(cwd, &path), Origin::Variable("PI_SESSIONS_ROOT")), notes));
        }
        if let (Some(root), Some(file)) = (&config.fields.root, &config.path) {
            let base = file.parent().unwrap_or(cwd);
            return Ok((nested(from(base, root), Origin::File(file.clone())), notes));
        }
        if let Some(path) = surroundings.var("PI_CODING_AGENT_SESSION_DIR") {
            return Ok((flat(from(cwd, &path), Origin::Variable("PI_CODING_AGENT_SESSION_DIR")), notes));
        }
        let agent_dir = surroundings.var("PI_CODING_AGENT_DIR").map(|path| from(cwd, &path));
        let is_named = agent_dir.is_some();
        let agent_dir = agent_dir.or_else(|| home.map(|home| home.join(".pi").join("agent")));
        let project = cwd.join(".pi").join("settings.json");
        for file in [Some(project), agent_dir.as_ref().map(|dir| dir.join("settings.json"))].into_iter().flatten() {
            match session_dir(&*surroundings.fs, &file) {
                Ok(Some(path)) => return Ok((flat(from(cwd, &path), Origin::File(file)), notes)),
                Ok(None) => {}
                Err(error) => notes.push(format!("ignoring settings that cannot be read ({error}): {}", file.display())),
            }
        }
        let sessions = agent_dir.map(|dir| dir.join("sessions"));
        if let Some(path) = sessions.filter(|path| is_named || surroundings.fs.metadata(path).is_ok()) {
            let origin = if is_named { Origin::Variable("PI_CODING_AGENT_DIR") } else { Origin::Default };
            return Ok((nested(path, origin), notes));
        }
        match &surroundings.data_dir {
            Some(dir) => Ok((nested(dir.join("sessions"), Origin::Default), notes)),
            None => Err(CliError::new(ErrorKind::Config, "there is no home folder to keep sessions in").hint("--root DIR")),
        }
    }
}

/// `sessionDir` in a settings file of Pi; `None` where there is no file, or no such field.
fn session_dir(fs: &dyn Fs, file: &Path) -> Result<Option<String>, String> {
    #[derive(Deserialize)]
    struct Settings {
        #[serde(rename = "sessionDir")]
        session_dir: Option<String>,
    }
    let text = match read_text(fs, file) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let settings: Settings = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok(settings.session_dir.filter(|dir| !dir.is_empty()))
}

/// The text of a file.
fn read_text(fs: &dyn Fs, path: &Path) -> io::Result<String> {
    let file = fs.open(path, OpenFor::Read)?;
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len).map_err(|_| io::ErrorKind::FileTooLarge)?];
    read_exact_at(&*file, &mut bytes, 0)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "this is not UTF-8"))
}
