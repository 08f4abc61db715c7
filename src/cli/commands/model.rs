//! `model`: shows or sets the model that a session goes on with.
//!
//! # Invariants
//! - The model is a matter of the active path.

use crate::cli::Outcome;
use crate::cli::args::NamedSessionArg;
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::open_session;
use crate::cli::text::one_line;
use crate::cli::view::{ModelView, model_text};
use crate::session::context::{ModelRef, PathState};
use crate::storage::handle::Reading;

const EXAMPLES: &str = "\
Examples:
  pi-sessions model @last
  pi-sessions model @last anthropic/claude-sonnet-4-5";

/// Shows or sets the model that the session goes on with
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelArgs {
    #[command(flatten)]
    session: NamedSessionArg,
    /// The provider and its model
    #[arg(value_name = "PROVIDER/MODEL")]
    model: Option<String>,
}

pub(super) fn run(args: &ModelArgs, invocation: &mut Invocation<'_>) -> Result<Outcome, CliError> {
    let wanted = args.model.as_deref().map(parse).transpose()?;
    let mut session = open_session(invocation, Some(&args.session.session))?;
    let model = match wanted {
        Some((provider, model)) => {
            session.set_model(provider, model)?;
            Some(ModelRef { provider: Some(provider.to_owned()), model_id: Some(model.to_owned()) })
        }
        None => {
            let path = session.tree().path(session.leaf());
            PathState::of(session.tree(), &path, &Reading(session.read()))?.model
        }
    };
    let ui = &mut *invocation.ui;
    let shown = model_text(model.as_ref());
    match (&shown, wanted) {
        (Some(shown), Some(_)) => ui.done(&format!("{} goes on with {shown}", session.header().id)),
        (None, _) => ui.note(&format!("no model is set in {}", session.header().id)),
        (Some(_), None) => {}
    }
    if ui.is_json() {
        ui.json(&ModelView::of(model.as_ref()))?;
    } else if let (Some(shown), None) = (&shown, wanted) {
        ui.line(&one_line(shown))?;
    }
    Ok(Outcome::Done)
}

fn parse(model: &str) -> Result<(&str, &str), CliError> {
    let parts = model.split_once('/').map(|(provider, model)| (provider.trim(), model.trim()));
    parts.filter(|(provider, model)| !provider.is_empty() && !model.is_empty()).ok_or_else(|| {
        CliError::usage(format!("a model is named by PROVIDER/MODEL, not {model:?}"))
            .hint("pi-sessions model @last anthropic/claude-sonnet-4-5")
    })
}
