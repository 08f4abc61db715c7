//! `provider.json` in the folder of the command: one model of one server.
//!
//! # Invariants
//! - A field that is unknown, missing or of another shape is an error that names file, line and field.
//! - The key is in no error.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::fields::Api;
use super::{is_http_url, read_text};
use crate::cli::error::{CliError, ErrorKind};
use crate::llm::Secret;
use crate::storage::fs::Fs;

/// The name of the file.
pub const FILE_NAME: &str = "provider.json";

/// The variable that holds the key where the file has none.
pub const KEY_VARIABLE: &str = "PI_SESSIONS_API_KEY";

const FIELDS: [&str; 6] = ["baseURL", "apiKey", "model", "contextWindow", "api", "maxTokens"];

/// What the file says.
#[derive(Clone, Debug)]
pub struct ProviderFile {
    /// Where it is.
    pub path: PathBuf,
    /// The protocol.
    pub api: Api,
    /// What stands before the path of the protocol.
    pub base_url: String,
    /// The key.
    pub api_key: Option<Secret>,
    /// The model's id.
    pub model: String,
    /// The size of its window, in tokens.
    pub context_window: u64,
    /// The most tokens of one answer.
    pub max_tokens: Option<u64>,
}

/// One file that is being read.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    fields: Map<String, Value>,
}

impl ProviderFile {
    /// Reads the file in `folder`; `None` where there is none.
    pub fn load(fs: &dyn Fs, folder: &Path) -> Result<Option<Self>, CliError> {
        let path = folder.join(FILE_NAME);
        let text = match read_text(fs, &path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => {
                return Err(CliError::new(ErrorKind::Config, format!("cannot read {}", path.display())).because(error));
            }
        };
        let broken = |what: &str, line: usize| {
            CliError::new(ErrorKind::Config, format!("wrong configuration: {what}; line {line} of {}", path.display()))
        };
        let fields = match serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(broken("this is no JSON object", 1)),
            // Its message could show a part of a value.
            Err(error) => return Err(broken("this is no JSON", error.line().max(1))),
        };
        Reader { path: &path, text: &text, fields }.read().map(Some)
    }

    /// The provider's name: the host that is asked.
    pub fn provider(&self) -> String {
        let url = reqwest::Url::parse(self.base_url.trim()).ok();
        url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| self.api.as_str().to_owned())
    }
}

impl Reader<'_> {
    fn read(&self) -> Result<ProviderFile, CliError> {
        if let Some(unknown) = self.fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            return Err(self.wrong(unknown, &format!("an unknown field; there are {}", FIELDS.join(", "))));
        }
        let api = match self.text("api")? {
            None => Api::OpenaiCompletions,
            Some(name) => match Api::from_name(&name).filter(|api| *api != Api::Offline) {
                Some(api) => api,
                None => return Err(self.wrong("api", "it has to be openai-completions or anthropic-messages")),
            },
        };
        let base_url = self.text("baseURL")?.ok_or_else(|| self.missing("baseURL"))?;
        if !is_http_url(&base_url) {
            return Err(self.wrong("baseURL", "it has to be an address that begins with http:// or https://"));
        }
        Ok(ProviderFile {
            path: self.path.to_owned(),
            api,
            base_url,
            api_key: self.text("apiKey")?.map(Secret::new),
            model: self.text("model")?.ok_or_else(|| self.missing("model"))?,
            context_window: self.positive("contextWindow")?.ok_or_else(|| self.missing("contextWindow"))?,
            max_tokens: self.positive("maxTokens")?,
        })
    }

    fn text(&self, name: &str) -> Result<Option<String>, CliError> {
        match self.fields.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.trim().to_owned())),
            Some(_) => Err(self.wrong(name, "it has to be a text that is not empty")),
        }
    }

    fn positive(&self, name: &str) -> Result<Option<u64>, CliError> {
        match self.fields.get(name) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|number| *number > 0) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(name, "it has to be a positive integer")),
            },
        }
    }

    fn missing(&self, name: &str) -> CliError {
        let path = self.path.display();
        CliError::new(ErrorKind::Config, format!("wrong configuration: field {name:?} is missing in {path}"))
    }

    fn wrong(&self, name: &str, what: &str) -> CliError {
        let at = self.text.find(&format!("\"{name}\"")).unwrap_or(0);
        let line = 1 + self.text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        let path = self.path.display();
        CliError::new(ErrorKind::Config, format!("wrong configuration: field {name:?}: {what}; line {line} of {path}"))
    }
}
