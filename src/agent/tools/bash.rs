//! The tool `bash`: a command line, run in the cwd.
//!
//! # Invariants
//! - A command is not confined: it can do what the user can.
//! - An abort, or the time limit, kills the command with everything that it started; what it printed until then is shown.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::output::Output;
use super::process::{Ended, Piece};
use super::{Env, Tool, ToolInvocation, ToolOutput, declaration};
use crate::llm::ToolDeclaration;
use crate::session::json::{Json, well_formed};

/// The time limit of a command that names none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs command lines.
#[derive(Debug)]
pub struct Bash {
    env: Arc<Env>,
}

impl Bash {
    /// Runs commands in the folder of `env`.
    pub fn new(env: Arc<Env>) -> Self {
        Self { env }
    }
}

#[derive(Deserialize)]
struct Arguments {
    command: String,
    /// In seconds.
    timeout: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    full_output_path: Option<String>,
}

#[async_trait]
impl Tool for Bash {
    fn declaration(&self) -> ToolDeclaration {
        declaration(
            "bash",
            "Runs a shell command in the working folder and gives what it prints. Only the end of long output is shown; all of it is then in a file.",
            r#"{"type":"object","properties":{"command":{"type":"string","description":"The command line"},"timeout":{"type":"number","description":"Seconds after which it is killed (default 600)"}},"required":["command"]}"#,
        )
    }

    async fn run(&self, call: ToolInvocation<'_>) -> ToolOutput {
        let Arguments { command, timeout } = match call.arguments() {
            Ok(arguments) => arguments,
            Err(output) => return output,
        };
        let limit = match timeout.map(Duration::try_from_secs_f64) {
            None => DEFAULT_TIMEOUT,
            Some(Ok(limit)) => limit,
            Some(Err(error)) => return ToolOutput::error(format!("the timeout cannot be used: {error}")),
        };
        let mut process = match self.env.shell(&command) {
            Ok(process) => process,
            Err(error) => {
                return ToolOutput::error(format!("cannot run a shell in {}: {error}", self.env.cwd().display()));
            }
        };
        process.set_limit(limit);
        let mut output = Output::new(&self.env);
        let ended = loop {
            match process.next(call.abort).await {
                Piece::Output(_, bytes) => {
                    (call.update)(&well_formed(&bytes));
                    output.push(&bytes).await;
                }
                Piece::Ended(ended) => break ended,
            }
        };
        let (mut text, path) = output.finish().await;
        let (exit_code, remark) = match ended {
            Ended::Exit(Some(0)) => (Some(0), None),
            Ended::Exit(Some(code)) => (Some(code), Some(format!("exit code {code}"))),
            Ended::Exit(None) => (None, Some("ended by a signal".to_owned())),
            Ended::TimedOut => (None, Some(format!("killed after {} seconds", limit.as_secs_f64()))),
            Ended::Aborted => (None, Some("aborted by the user".to_owned())),
        };
        let is_error = remark.is_some();
        if let Some(remark) = remark {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&format!("[{remark}]"));
        } else if text.is_empty() {
            text.push_str("[no output]");
        }
        let details = Details { exit_code, full_output_path: path.map(|path| path.display().to_string()) };
        let output = if is_error { ToolOutput::error(text) } else { ToolOutput::text(text) };
        ToolOutput { details: Json::of(&details).ok(), ..output }
    }
}
