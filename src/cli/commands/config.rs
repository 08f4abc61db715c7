//! `config`: what is in force and where it comes from.
//!
//! # Invariants
//! - No secret is shown, and no part of one.
//! - Each value names the option, variable or file that set it, or says that it is the default.

use serde::Serialize;
use serde_json::Value;

use crate::agent::DEFAULT_MAX_TURNS;
use crate::agent::tools::BUILTIN_NAMES;
use crate::cli::Outcome;
use crate::cli::config::fields::ProviderFields;
use crate::cli::config::models::{MODEL_VARIABLE, Models, full_name, key_variable};
use crate::cli::config::provider_file::{FILE_NAME, KEY_VARIABLE, ProviderFile};
use crate::cli::config::{Config, Origin};
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::text::{one_line, pad};
use crate::cli::ui::Look;
use crate::cli::view::path_text;
use crate::compaction::tokens::CompactionSettings;
use crate::llm::StreamOptions;
use crate::llm::retry::RetryPolicy;
use crate::storage::repo::Layout;

/// What stands for a secret.
const HIDDEN: &str = "***";

const EXAMPLES: &str = "\
Examples:
  pi-sessions config
  pi-sessions config --json | jq -r 'select(.key == \"root\").value'";

/// Shows what is in force, and from where
///
/// The file is config.toml in the platform's configuration folder, or the one that PI_SESSIONS_CONFIG names. A
/// provider.json in the current folder names a model for this folder alone.
///
/// The model is the first of: --model, PI_SESSIONS_MODEL, the session's own, provider.json, `model` of the file, the only
/// model of the file, the built-in offline one. A provider's key is the first of: the variable that api_key_env names,
/// api_key, the variable NAME_API_KEY; for provider.json apiKey, then PI_SESSIONS_API_KEY. Secrets are never shown.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArgs {}

#[derive(Serialize)]
struct View {
    key: String,
    value: Value,
    origin: String,
}

pub(super) fn run(_args: &ConfigArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let named = invocation.surroundings.var("PI_SESSIONS_CONFIG").is_some();
    let model_variable = invocation.surroundings.var(MODEL_VARIABLE);
    let file = ProviderFile::load(&*invocation.surroundings.fs, &invocation.surroundings.cwd)?;
    let (config, root) = invocation.settings()?;
    let (config, root) = (config.clone(), root.clone());
    let models = Models::of(&config, file.as_ref(), &invocation.surroundings);
    let mut rows = Rows { config: &config, rows: Vec::new() };
    let found = match (config.exists, named) {
        (_, true) => Origin::Variable("PI_SESSIONS_CONFIG").to_string(),
        (true, false) => Origin::Default.to_string(),
        (false, false) => "default, no such file".to_owned(),
    };
    let layout = match root.layout {
        Layout::Nested => "a folder for each cwd",
        Layout::Flat => "flat",
    };
    rows.add("config", config.path.as_ref().map(|path| path_text(path)), found);
    rows.add("root", path_text(&root.path), root.origin.to_string());
    rows.add("root.layout", layout, root.origin.to_string());
    let (known, origin) = match &model_variable {
        Some(name) => (models.named(name)?, Origin::Variable(MODEL_VARIABLE)),
        None => models.default_model(),
    };
    rows.add("model", full_name(&known.model), origin.to_string());
    let defaults = CompactionSettings::for_window(known.model.context_window, None, None);
    let fields = &config.fields;
    rows.set("thinking", fields.thinking.map(|level| level.as_str()), "off");
    rows.set("max_turns", fields.max_turns.map(std::num::NonZeroU32::get), DEFAULT_MAX_TURNS);
    rows.set("flush", fields.flush.map(|flush| flush.as_str()), "turn");
    rows.set("skills", fields.skills.clone(), Vec::<String>::new());
    rows.set("context.micro_compaction", fields.context.micro_compaction, false);
    rows.set("context.truncation", fields.context.truncation, false);
    let compaction = &fields.compaction;
    rows.set("compaction.auto", compaction.auto, true);
    rows.set("compaction.reserve_tokens", compaction.reserve_tokens, defaults.reserve_tokens);
    rows.set("compaction.keep_recent_tokens", compaction.keep_recent_tokens, defaults.keep_recent_tokens);
    rows.set("compaction.summary_by", compaction.summary_by.map(|by| by.as_str()), "model");
    rows.set("compaction.summary_model", compaction.summary_model.as_ref().map(|name| name.get_ref().clone()), Value::Null);
    rows.set("compaction.fallback_extractive", compaction.fallback_extractive, false);
    rows.set("cache.enabled", fields.cache.enabled, true);
    let allowed = fields.tools.allowed.as_ref().map(|tools| tools.iter().map(|tool| tool.as_str()).collect::<Vec<_>>());
    rows.set("tools.allowed", allowed, BUILTIN_NAMES.to_vec());
    rows.set("tools.write_anywhere", fields.tools.write_anywhere, false);
    for (kind, program) in fields.hooks.iter() {
        rows.set(&format!("hooks.{}", kind.as_str()), Some(program.0.clone()), Value::Null);
    }
    rows.set("requests.timeout_ms", fields.requests.timeout_ms, StreamOptions::DEFAULT_TIMEOUT_MS);
    rows.set("requests.max_retries", fields.requests.max_retries, RetryPolicy::default().tries - 1);
    for (name, provider) in &fields.providers {
        add_provider(name, provider, &mut rows, invocation);
    }
    if let Some(file) = &file {
        add_provider_file(file, &mut rows, invocation);
    }
    let rows = rows.rows;
    let ui = &mut *invocation.ui;
    if ui.is_json() {
        return rows.iter().try_for_each(|row| ui.json(row)).map(|()| Outcome::Done);
    }
    let keys = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    for row in &rows {
        let origin = ui.paint(Look::Dim, &format!("({})", one_line(&row.origin)));
        ui.line(&format!("{}  {}  {origin}", pad(&one_line(&row.key), keys), text(&row.value)))?;
    }
    Ok(Outcome::Done)
}

/// A value for people.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text),
        Value::Null => "none".to_owned(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// What is in force.
struct Rows<'a> {
    config: &'a Config,
    rows: Vec<View>,
}

impl Rows<'_> {
    fn add(&mut self, key: &str, value: impl Into<Value>, origin: String) {
        self.rows.push(View { key: key.to_owned(), value: value.into(), origin });
    }

    /// A field of the file.
    fn set<T: Into<Value>>(&mut self, key: &str, value: Option<T>, default: impl Into<Value>) {
        let origin = match (&self.config.path, value.is_some()) {
            (Some(path), true) => Origin::File(path.clone()),
            _ => Origin::Default,
        };
        self.add(key, value.map_or_else(|| default.into(), Into::into), origin.to_string());
    }
}

fn add_provider(name: &str, provider: &ProviderFields, rows: &mut Rows<'_>, invocation: &Invocation<'_>) {
    let key = |field: &str| format!("providers.{name}.{field}");
    rows.set(&key("api"), Some(provider.api.as_str()), Value::Null);
    if let Some(url) = &provider.base_url {
        rows.set(&key("base_url"), Some(shown_url(url.get_ref())), Value::Null);
    }
    let variable = provider.api_key_env.clone().unwrap_or_else(|| key_variable(name));
    let is_set = invocation.surroundings.var(&variable).is_some();
    // The usual variable counts only where the file says nothing.
    let is_asked = provider.api_key_env.is_some() || provider.api_key.is_none();
    match (is_set && is_asked, &provider.api_key) {
        (true, _) => rows.add(&key("api_key"), HIDDEN, variable),
        (false, Some(_)) => rows.set(&key("api_key"), Some(HIDDEN), Value::Null),
        (false, None) => rows.add(&key("api_key"), Value::Null, format!("{variable} is not set")),
    }
    for header in provider.headers.keys() {
        rows.set(&key(&format!("headers.{header}")), Some(HIDDEN), Value::Null);
    }
    for model in &provider.models {
        let mut set = |field: &str, value: Option<Value>| {
            if value.is_some() {
                rows.set(&key(&format!("models.{}.{field}", model.id)), value, Value::Null);
            }
        };
        set("context_window", Some(model.context_window.get().into()));
        set("max_tokens", model.max_tokens.map(|tokens| tokens.get().into()));
        set("compaction.reserve_tokens", model.compaction.reserve_tokens.map(Value::from));
        set("compaction.keep_recent_tokens", model.compaction.keep_recent_tokens.map(Value::from));
        let prices = model.prices.prices();
        for (field, price) in [
            ("input", prices.input),
            ("output", prices.output),
            ("cache_read", prices.cache_read),
            ("cache_write", prices.cache_write),
        ] {
            set(&format!("prices.{field}"), Some(price).filter(|price| *price > 0.0).map(Value::from));
        }
    }
}

fn add_provider_file(file: &ProviderFile, rows: &mut Rows<'_>, invocation: &Invocation<'_>) {
    let origin = file.path.display().to_string();
    let mut add = |field: &str, value: Value| rows.add(&format!("{FILE_NAME}.{field}"), value, origin.clone());
    add("api", file.api.as_str().into());
    add("baseURL", shown_url(&file.base_url).into());
    add("model", file.model.clone().into());
    add("contextWindow", file.context_window.into());
    add("maxTokens", file.max_tokens.into());
    let from_variable = invocation.surroundings.var(KEY_VARIABLE).is_some();
    let (key, origin) = match (&file.api_key, from_variable) {
        (Some(_), _) => (HIDDEN.into(), origin.clone()),
        (None, true) => (HIDDEN.into(), KEY_VARIABLE.to_owned()),
        (None, false) => (Value::Null, format!("{KEY_VARIABLE} is not set")),
    };
    rows.add(&format!("{FILE_NAME}.apiKey"), key, origin);
}

/// An address without what may be a secret in it.
fn shown_url(text: &str) -> String {
    let Ok(mut url) = reqwest::Url::parse(text.trim()) else { return HIDDEN.to_owned() };
    if url.password().is_some() || !url.username().is_empty() {
        // Both fail only where an address has no host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
    }
    if url.query().is_some() {
        url.set_query(Some(HIDDEN));
    }
    url.set_fragment(None);
    url.to_string().trim_end_matches('/').to_owned()
}
