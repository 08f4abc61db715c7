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

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use self::fields::{Api, ConfigFields};
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::{absolute, expand_home};
use crate::cli::surroundings::Surroundings;
use crate::llm::{offline, replay};
use crate::storage::fs::{Fs, OpenFor, read_exact_at};
use crate::storage::repo::Layout;

pub mod fields;
pub mod models;
pub mod provider_file;

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
    /// Where its lines end, in bytes.
    line_ends: Vec<usize>,
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
        let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        let config = Self { path: Some(path), exists: true, fields, line_ends };
        config.check()?;
        Ok(config)
    }

    /// Refuses what no type of a field can refuse.
    fn check(&self) -> Result<(), CliError> {
        let mut names = HashSet::new();
        for (name, provider) in &self.fields.providers {
            let section = format!("providers.{name}");
            let taken = [offline::API, replay::API];
            if name.is_empty() || name.contains('/') || taken.contains(&name.as_str()) {
                return Err(self.wrong(
                    &section,
                    "a provider's name is not empty, has no slash, and is not offline or replay",
                    None,
                ));
            }
            match &provider.base_url {
                Some(url) if !is_http_url(url.get_ref()) => {
                    let what = "it has to be an address that begins with http:// or https://";
                    return Err(self.wrong(&format!("{section}.base_url"), what, Some(url.span().start)));
                }
                None if provider.api != Api::Offline => {
                    return Err(self.wrong(&format!("{section}.base_url"), "it is missing", None));
                }
                Some(_) | None => {}
            }
            for model in &provider.models {
                if !names.insert(format!("{name}/{}", model.id)) {
                    return Err(self.wrong(&format!("{section}.models"), &format!("two models are called {}", model.id), None));
                }
            }
        }
        names.insert(models::full_name(&offline::Offline::model()));
        let named = [("model", &self.fields.model), ("compaction.summary_model", &self.fields.compaction.summary_model)];
        for (field, name) in named {
            if let Some(name) = name.as_ref().filter(|name| !names.contains(name.get_ref())) {
                let what = format!("there is no model {}; it has to be PROVIDER/MODEL of a model in this file", name.get_ref());
                return Err(self.wrong(field, &what, Some(name.span().start)));
            }
        }
        Ok(())
    }

    fn wrong(&self, field: &str, what: &str, at: Option<usize>) -> CliError {
        let line = at.map(|at| 1 + self.line_ends.partition_point(|end| *end < at));
        let line = line.map_or_else(String::new, |line| format!("line {line} of "));
        let path = self.path.as_deref().unwrap_or(Path::new("")).display();
        CliError::new(ErrorKind::Config, format!("wrong configuration: field {field:?}: {what}; {line}{path}"))
    }
}

/// Whether a text is an address that requests can be sent to.
fn is_http_url(text: &str) -> bool {
    reqwest::Url::parse(text.trim()).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
}

/// Names the field that is wrong, with its line. The value is not shown: it may be a secret.
fn wrong_field(error: &toml::de::Error, text: &str, path: &Path) -> CliError {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let line = 1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let field = text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(field, _)| field.trim());
    let place = field.map_or_else(String::new, |field| format!("field {field:?}, "));
    let message = without_texts(&error.message().trim().replace('\n', ", "));
    CliError::new(ErrorKind::Config, format!("wrong configuration: {message}; {place}line {line} of {}", path.display()))
}

/// A message of the reader without the text that it quotes from the file.
fn without_texts(message: &str) -> String {
    match message.split_once("string \"") {
        Some((before, rest)) => {
            let after = rest.rsplit_once('"').map_or("", |(_, after)| after);
            format!("{before}string{after}")
        }
        None => message.to_owned(),
    }
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
