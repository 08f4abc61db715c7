//! `config`: what is in force and where it comes from.
//!
//! # Invariants
//! - Each value names the option, variable or file that set it, or says that it is the default.

use serde::Serialize;
use serde_json::Value;

use crate::cli::Outcome;
use crate::cli::config::Origin;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::text::{one_line, pad};
use crate::cli::ui::Look;
use crate::cli::view::path_text;
use crate::storage::repo::Layout;

const EXAMPLES: &str = "\
Examples:
  pi-sessions config
  pi-sessions config --json | jq -r 'select(.key == \"root\").value'";

/// Shows what is in force, and from where
///
/// The file is config.toml in the platform's configuration folder, or the one that PI_SESSIONS_CONFIG names.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArgs {}

#[derive(Serialize)]
struct View<'a> {
    key: &'a str,
    value: Value,
    origin: String,
}

pub(super) fn run(_args: &ConfigArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let named = invocation.surroundings.var("PI_SESSIONS_CONFIG").is_some();
    let (config, root) = invocation.settings()?;
    let file = config.path.as_ref().map(|path| path_text(path));
    let from_file = |is_set: bool| match (&config.path, is_set) {
        (Some(path), true) => Origin::File(path.clone()).to_string(),
        _ => Origin::Default.to_string(),
    };
    let flag = |key, value: Option<bool>| View { key, value: value.unwrap_or(false).into(), origin: from_file(value.is_some()) };
    let found = match (config.exists, named) {
        (_, true) => Origin::Variable("PI_SESSIONS_CONFIG").to_string(),
        (true, false) => Origin::Default.to_string(),
        (false, false) => "default, no such file".to_owned(),
    };
    let layout = match root.layout {
        Layout::Nested => "a folder for each cwd",
        Layout::Flat => "flat",
    };
    let context = config.fields.context;
    let rows = [
        View { key: "config", value: file.into(), origin: found },
        View { key: "root", value: path_text(&root.path).into(), origin: root.origin.to_string() },
        View { key: "root.layout", value: layout.into(), origin: root.origin.to_string() },
        flag("context.micro_compaction", context.micro_compaction),
        flag("context.truncation", context.truncation),
    ];
    let ui = &mut *invocation.ui;
    if ui.is_json() {
        return rows.iter().try_for_each(|row| ui.json(row)).map(|()| Outcome::Done);
    }
    let text = |value: &Value| match value {
        Value::String(text) => one_line(text),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    };
    let keys = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    for row in &rows {
        let origin = ui.paint(Look::Dim, &format!("({})", one_line(&row.origin)));
        ui.line(&format!("{}  {}  {origin}", pad(row.key, keys), text(&row.value)))?;
    }
    Ok(Outcome::Done)
}
