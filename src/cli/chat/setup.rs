//! From the configuration to a harness on a session.
//!
//! # Invariants
//! - Everything that is not said on the command line comes from the configuration, else from the library's defaults.
//! - Tools work in the folder that is given; whoever gives one has seen that it exists.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::agent::harness::{
    AgentHarness, CompactionOptions, HarnessOptions, LeafPolicy, ModelCompaction, SummaryBy, path_state,
};
use crate::agent::hook_program::HookProgram;
use crate::agent::hooks::Hooks;
use crate::agent::prompt::SystemPrompt;
use crate::agent::tools::{Env, Tool, WritePaths, builtin};
use crate::agent::{AgentError, ServedModel};
use crate::cli::config::Config;
use crate::cli::config::models::{Choice, MODEL_VARIABLE, Models, full_name};
use crate::cli::config::provider_file::ProviderFile;
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::folder::{absolute, expand_home};
use crate::cli::invocation::Invocation;
use crate::cli::refer::find_session;
use crate::llm::StreamOptions;
use crate::llm::replay::{self, Replay};
use crate::session::context::ModelRef;
use crate::session::message::Message;
use crate::session::request::RequestOptions;
use crate::storage::handle::Session;
use crate::storage::lock::OwnerLock;

/// The prefix of a model that plays a session again.
const REPLAY: &str = "replay:";

/// What is configured for talking to models.
#[derive(Clone, Debug)]
pub struct Setup {
    config: Config,
    models: Models,
    output_folder: PathBuf,
    /// Where entries go that cannot be written beside the session.
    unsaved_folder: PathBuf,
    prompt_folders: Vec<PathBuf>,
    skill_folders: Vec<PathBuf>,
}

/// A model that is in use.
#[derive(Clone, Debug)]
pub struct InUse {
    /// The model.
    pub served: ServedModel,
    /// Whether the user asked for it, so that the session notes it.
    pub is_asked: bool,
}

/// What else a harness is made of.
#[derive(Debug, Default)]
pub struct MakeOptions<'a> {
    /// The thinking level, if the user asked for one.
    pub thinking: Option<&'a str>,
    /// The mark that the session is in use.
    pub owner: Option<OwnerLock>,
    /// Which leaf it goes on from.
    pub leaf: LeafPolicy,
}

/// A harness and what its tools work in.
#[derive(Debug)]
pub struct Made {
    /// The harness.
    pub harness: AgentHarness,
    /// The folder of its tools.
    pub env: Arc<Env>,
}

impl Setup {
    /// Reads the configuration, and `provider.json` in the folder of the command.
    pub fn load(invocation: &mut Invocation<'_>) -> Result<Self, CliError> {
        let config = invocation.settings()?.0.clone();
        let around = &invocation.surroundings;
        let file = ProviderFile::load(&*around.fs, &around.cwd)?;
        let models = Models::of(&config, file.as_ref(), around);
        let home = around.home.as_deref();
        let pi = match (around.var("PI_CODING_AGENT_DIR"), home) {
            (Some(dir), _) => Some(absolute(&around.cwd, &expand_home(home, &dir))),
            (None, home) => home.map(|home| home.join(".pi").join("agent")),
        };
        let own = around.config_dir.clone();
        let base = config.path.as_deref().and_then(Path::parent).unwrap_or(&around.cwd);
        let configured = config.fields.skills.iter().flatten().map(|folder| absolute(base, &expand_home(home, folder)));
        let mut skill_folders: Vec<_> = configured.collect();
        skill_folders.extend([&own, &pi].into_iter().flatten().map(|folder| folder.join("skills")));
        Ok(Self {
            unsaved_folder: around.temp_dir.clone(),
            output_folder: around.data_dir.clone().unwrap_or_else(|| around.cwd.clone()).join("outputs"),
            prompt_folders: [pi, own].into_iter().flatten().collect(),
            skill_folders,
            models,
            config,
        })
    }

    /// The models.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// The model for a session, or for a new one.
    pub fn model(
        &self,
        asked: Option<&str>,
        session: Option<&Session>,
        invocation: &mut Invocation<'_>,
    ) -> Result<InUse, CliError> {
        if let Some(reference) = asked.and_then(|name| name.strip_prefix(REPLAY)) {
            return Ok(InUse { served: replayed(reference, invocation)?, is_asked: true });
        }
        let variable = invocation.surroundings.var(MODEL_VARIABLE);
        let recorded = session.map(path_state).transpose()?.and_then(|state| state.model);
        let chosen = self.models.choose(asked.or(variable.as_deref()), recorded.as_ref())?;
        let is_recorded = |model: &ModelRef| {
            let known = &chosen.known.model;
            model.provider.as_deref() == Some(&known.provider) && model.model_id.as_deref() == Some(&known.id)
        };
        if let (Choice::Default(_), Some(recorded)) = (&chosen.by, &recorded)
            && !is_recorded(recorded)
            && !is_builtin(recorded)
        {
            let was = crate::cli::view::model_text(Some(recorded)).unwrap_or_default();
            let now = full_name(&chosen.known.model);
            invocation.ui.note(&format!("the session's model {was} is not configured, so {now} goes on"));
        }
        Ok(InUse { served: chosen.known.serve()?, is_asked: asked.is_some() })
    }

    /// A harness on `session`, whose tools work in `cwd`.
    pub async fn make(&self, session: Session, in_use: InUse, cwd: &Path, options: MakeOptions<'_>) -> Result<Made, CliError> {
        let MakeOptions { thinking, owner, leaf } = options;
        let fields = &self.config.fields;
        let write_paths = match fields.tools.write_anywhere {
            Some(true) => WritePaths::Anywhere,
            Some(false) | None => WritePaths::InsideCwd,
        };
        let env = Arc::new(Env::new(cwd, &self.output_folder, write_paths));
        let mut skill_folders = vec![cwd.join(".pi").join("skills")];
        skill_folders.extend(self.skill_folders.iter().cloned());
        let prompt = SystemPrompt::load(&env, &self.prompt_folders, &skill_folders).await.map_err(agent_error)?;
        let state = path_state(&session)?;
        let is_new = session.tree().is_empty();
        let default_thinking = fields.thinking.filter(|_| is_new).map(|level| level.as_str());
        let is_replay = in_use.served.provider.api() == replay::API;
        let mut options = HarnessOptions::new(in_use.served.provider.clone(), in_use.served.model.clone());
        options.prompt = prompt;
        options.tools = self.tools(&env);
        options.hooks = self.hooks(&env);
        options.models = Some(Arc::new(self.models.clone()));
        if let Some(flush) = fields.flush {
            options.flush_policy = flush.policy();
        }
        options.compaction = self.compaction(is_replay)?;
        options.request = RequestOptions {
            micro_compaction: fields.context.micro_compaction == Some(true),
            truncation: fields.context.truncation == Some(true),
        };
        options.stream = StreamOptions {
            timeout_ms: fields.requests.timeout_ms,
            max_retries: fields.requests.max_retries,
            ..StreamOptions::default()
        };
        if let Some(max_turns) = fields.max_turns {
            options.max_turns = max_turns.get();
        }
        options.unsaved_folder = Some(self.unsaved_folder.clone());
        options.owner = owner;
        options.leaf = leaf;
        let harness = AgentHarness::new(session, options).map_err(agent_error)?;
        let model = &in_use.served.model;
        let is_noted = state.model.is_some_and(|noted| {
            noted.provider.as_deref() == Some(&model.provider) && noted.model_id.as_deref() == Some(&model.id)
        });
        if in_use.is_asked && !is_noted {
            harness.set_model(in_use.served.clone()).map_err(agent_error)?;
        }
        if let Some(level) = thinking.or(default_thinking).filter(|level| *level != state.thinking_level) {
            harness.set_thinking_level(level).map_err(agent_error)?;
        }
        Ok(Made { harness, env })
    }

    fn tools(&self, env: &Arc<Env>) -> Vec<Arc<dyn Tool>> {
        let allowed = self.config.fields.tools.allowed.as_ref();
        let is_allowed = |name: &str| allowed.is_none_or(|allowed| allowed.iter().any(|tool| tool.as_str() == name));
        builtin(env).into_iter().filter(|tool| is_allowed(&tool.declaration().name)).collect()
    }

    fn hooks(&self, env: &Arc<Env>) -> Vec<Arc<dyn Hooks>> {
        let programs = self.config.fields.hooks.iter();
        programs
            .map(|(kind, program)| Arc::new(HookProgram::new([kind], program.0.clone(), env.clone())) as Arc<dyn Hooks>)
            .collect()
    }

    fn compaction(&self, is_replay: bool) -> Result<CompactionOptions, CliError> {
        let fields = &self.config.fields.compaction;
        let summary_model = match &fields.summary_model {
            Some(name) => Some(self.models.named(name.get_ref())?.serve()?),
            None => None,
        };
        // A recording answers what it was asked then, not what a summary is asked now.
        let by = match (fields.summary_by, is_replay && summary_model.is_none()) {
            (_, true) => SummaryBy::Extractive,
            (Some(by), false) => by.by(),
            (None, false) => SummaryBy::Model,
        };
        let for_models = self.models.iter().map(|known| ModelCompaction {
            provider: known.model.provider.clone(),
            model_id: known.model.id.clone(),
            reserve_tokens: known.compaction.reserve_tokens,
            keep_recent_tokens: known.compaction.keep_recent_tokens,
        });
        Ok(CompactionOptions {
            auto: fields.auto.unwrap_or(true),
            reserve_tokens: fields.reserve_tokens,
            keep_recent_tokens: fields.keep_recent_tokens,
            for_models: for_models.collect(),
            by,
            summary_model,
            fallback_extractive: fields.fallback_extractive == Some(true),
        })
    }
}

/// A model that is nobody's choice: nothing is lost where another one goes on.
fn is_builtin(model: &ModelRef) -> bool {
    matches!(model.provider.as_deref(), Some(crate::llm::offline::API | replay::API))
}

/// The answers on the active path of a session, to be played again.
fn replayed(reference: &str, invocation: &mut Invocation<'_>) -> Result<ServedModel, CliError> {
    let path = find_session(invocation, Some(reference))?;
    let session = invocation.repo()?.open(&path)?;
    let mut answers = Vec::new();
    for index in session.tree().path(session.leaf()) {
        if let Some(entry) = session.read().entry(index)?
            && let Some(Message::Assistant(answer)) = entry.message()
        {
            answers.push((**answer).clone());
        }
    }
    let model = Replay::model(session.header().id.clone());
    Ok(ServedModel { provider: Arc::new(Replay::new(answers)), model })
}

/// What went wrong in an agent, for people.
pub fn agent_error(error: AgentError) -> CliError {
    match error {
        AgentError::Storage(error) => error.into(),
        error @ AgentError::NoSuchEntry(_) => CliError::new(ErrorKind::NotFound, error.to_string()).hint("pi-sessions tree"),
        error @ AgentError::Busy(_) => CliError::new(ErrorKind::Busy, error.to_string()),
        AgentError::Compaction(error) => {
            let (kind, message) = (compaction_kind(&error), error.to_string());
            let cli = CliError::new(kind, message);
            if kind == ErrorKind::Provider { cli.hint("without a model: --offline") } else { cli }
        }
        AgentError::File { path, source } => {
            CliError::new(ErrorKind::Io, format!("cannot read {}", path.display())).because(source)
        }
        error => CliError::new(ErrorKind::Io, error.to_string()),
    }
}

fn compaction_kind(error: &crate::compaction::summary::CompactionError) -> ErrorKind {
    use crate::compaction::summary::CompactionError;
    match error {
        CompactionError::Summary(_) | CompactionError::EmptySummary => ErrorKind::Provider,
        CompactionError::NoCut(_) | CompactionError::NotSmaller { .. } => ErrorKind::Io,
    }
}
