//! What a harness is made of.
//!
//! # Invariants
//! - Every option has a default but the model: what is not said is as the documentation of the command has it.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::agent::DEFAULT_MAX_TURNS;
use super::super::hooks::Hooks;
use super::super::prompt::SystemPrompt;
use super::super::queue::QueueModes;
use super::super::tools::Tool;
use super::super::{ModelSource, ServedModel};
use crate::compaction::tokens::CompactionSettings;
use crate::llm::{Model, Provider, StreamOptions};
use crate::session::context::ContextExtension;
use crate::session::request::RequestOptions;
use crate::storage::fs::{Fs, StdFs};
use crate::storage::lock::OwnerLock;

/// When entries are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushPolicy {
    /// Once at the end of each turn, and synced.
    #[default]
    Turn,
    /// Each entry as it comes, and synced. A crash then may leave a call without its result.
    Entry,
    /// Once at the end of each turn, never synced.
    Off,
}

impl FlushPolicy {
    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Entry => "entry",
            Self::Off => "off",
        }
    }

    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Turn, Self::Entry, Self::Off].into_iter().find(|policy| policy.as_str() == name)
    }
}

/// Who writes summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SummaryBy {
    /// The model; without a network nobody but the extractive one.
    #[default]
    Model,
    /// The built-in one, without a network.
    Extractive,
}

/// Which leaf a harness goes on from when somebody else appends to its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeafPolicy {
    /// Its own, so that of two programs that go on the later one becomes a branch.
    #[default]
    Own,
    /// That of the file, as a command should that does one thing. A summary that was made meanwhile is not written.
    File,
}

/// When and how a context is compacted.
#[derive(Clone, Debug)]
pub struct CompactionOptions {
    /// Whether it is done without being asked.
    pub auto: bool,
    /// Tokens of the window that stay free; by default see
    /// [`CompactionSettings`](crate::compaction::tokens::CompactionSettings).
    pub reserve_tokens: Option<u64>,
    /// Tokens of the latest messages that are kept.
    pub keep_recent_tokens: Option<u64>,
    /// What differs for some models.
    pub for_models: Vec<ModelCompaction>,
    /// Who writes the summaries.
    pub by: SummaryBy,
    /// The model that writes them, if it is another one.
    pub summary_model: Option<ServedModel>,
    /// Whether they are made without a model when it fails.
    pub fallback_extractive: bool,
}

/// What of [`CompactionOptions`] differs for one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelCompaction {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model_id: String,
    /// Tokens of the window that stay free.
    pub reserve_tokens: Option<u64>,
    /// Tokens of the latest messages that are kept.
    pub keep_recent_tokens: Option<u64>,
}

impl CompactionOptions {
    /// The settings for a model.
    pub(super) fn settings(&self, model: &Model) -> CompactionSettings {
        let is_it = |own: &&ModelCompaction| own.provider == model.provider && own.model_id == model.id;
        let own = self.for_models.iter().find(is_it);
        let reserve_tokens = own.and_then(|own| own.reserve_tokens).or(self.reserve_tokens);
        let keep_recent_tokens = own.and_then(|own| own.keep_recent_tokens).or(self.keep_recent_tokens);
        CompactionSettings::for_window(model.context_window, reserve_tokens, keep_recent_tokens)
    }
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            auto: true,
            reserve_tokens: None,
            keep_recent_tokens: None,
            for_models: Vec::new(),
            by: SummaryBy::Model,
            summary_model: None,
            fallback_extractive: false,
        }
    }
}

/// What an [`AgentHarness`](super::AgentHarness) is made of.
pub struct HarnessOptions {
    /// The model and who serves it.
    pub served: ServedModel,
    /// The thinking level; by default that of the path.
    pub thinking_level: Option<String>,
    /// The names of the tools that the model may call; by default those of the path, else all.
    pub active_tools: Option<Vec<String>>,
    /// The system prompt; the tools are added to it.
    pub prompt: SystemPrompt,
    /// All tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Who takes part.
    pub hooks: Vec<Arc<dyn Hooks>>,
    /// Where hooks find other models.
    pub models: Option<Arc<dyn ModelSource>>,
    /// When entries are written.
    pub flush_policy: FlushPolicy,
    /// When and how the context is compacted.
    pub compaction: CompactionOptions,
    /// How requests are made smaller.
    pub request: RequestOptions,
    /// How requests are sent.
    pub stream: StreamOptions,
    /// How many queued messages are sent at once.
    pub queue_modes: QueueModes,
    /// The most turns of one run.
    pub max_turns: u32,
    /// Who takes part in the projection.
    pub extensions: Vec<Arc<dyn ContextExtension>>,
    /// Where the file for what could not be written goes.
    pub fs: Arc<dyn Fs>,
    /// The folder that this file goes to when it cannot be written beside the session; a private file is made there.
    pub unsaved_folder: Option<PathBuf>,
    /// Which leaf it goes on from.
    pub leaf: LeafPolicy,
    /// The mark that the session is in use, kept until the harness is closed.
    pub owner: Option<OwnerLock>,
}

impl std::fmt::Debug for HarnessOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HarnessOptions")
            .field("served", &self.served)
            .field("flush_policy", &self.flush_policy)
            .field("compaction", &self.compaction)
            .finish_non_exhaustive()
    }
}

impl HarnessOptions {
    /// A harness without tools and hooks.
    pub fn new(provider: Arc<dyn Provider>, model: Model) -> Self {
        Self {
            served: ServedModel { provider, model },
            thinking_level: None,
            active_tools: None,
            prompt: SystemPrompt::default(),
            tools: Vec::new(),
            hooks: Vec::new(),
            models: None,
            flush_policy: FlushPolicy::Turn,
            compaction: CompactionOptions::default(),
            request: RequestOptions::default(),
            stream: StreamOptions::default(),
            queue_modes: QueueModes::default(),
            max_turns: DEFAULT_MAX_TURNS,
            extensions: Vec::new(),
            fs: Arc::new(StdFs),
            unsaved_folder: None,
            leaf: LeafPolicy::Own,
            owner: None,
        }
    }
}
