//! The fields of the configuration file.
//!
//! # Invariants
//! - Every field has a type that refuses what makes no sense, so that the reader can name its place in the file.
//! - An unknown field is refused, and the message tells which there are.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use serde::Deserialize;
use toml::Spanned;

use crate::agent::harness::{FlushPolicy, SummaryBy};
use crate::agent::hooks::HookKind;
use crate::llm::{Prices, Secret};

/// The fields of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFields {
    /// Where sessions are kept; a relative path counts from the file's folder.
    pub root: Option<String>,
    /// The model that is used where nothing else is said: `PROVIDER/MODEL`.
    pub model: Option<Spanned<String>>,
    /// The thinking level of new sessions.
    pub thinking: Option<ThinkingLevel>,
    /// The most turns of one run.
    pub max_turns: Option<std::num::NonZeroU32>,
    /// When entries are written.
    pub flush: Option<Flush>,
    /// Folders of skills, besides the usual ones.
    pub skills: Option<Vec<String>>,
    /// How contexts are made smaller.
    #[serde(default)]
    pub context: ContextFields,
    /// When and how contexts are compacted.
    #[serde(default)]
    pub compaction: CompactionFields,
    /// What is kept to be quick.
    #[serde(default)]
    pub cache: CacheFields,
    /// What models may do.
    #[serde(default)]
    pub tools: ToolFields,
    /// Programs that take part.
    #[serde(default)]
    pub hooks: HookFields,
    /// How requests are sent.
    #[serde(default)]
    pub requests: RequestFields,
    /// Who serves models.
    #[serde(default)]
    pub providers: BTreeMap<String, ProviderFields>,
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

/// `[compaction]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompactionFields {
    /// Whether it is done without being asked.
    pub auto: Option<bool>,
    /// Tokens of the window that stay free.
    pub reserve_tokens: Option<u64>,
    /// Tokens of the latest messages that are kept.
    pub keep_recent_tokens: Option<u64>,
    /// Who writes summaries.
    pub summary_by: Option<Summarizer>,
    /// The model that writes summaries: `PROVIDER/MODEL`.
    pub summary_model: Option<Spanned<String>>,
    /// Whether a summary is made without a model when the model fails.
    pub fallback_extractive: Option<bool>,
}

/// `compaction` of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCompactionFields {
    /// Tokens of the window that stay free.
    pub reserve_tokens: Option<u64>,
    /// Tokens of the latest messages that are kept.
    pub keep_recent_tokens: Option<u64>,
}

/// `[cache]`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheFields {
    /// Whether summaries and words of sessions are kept.
    pub enabled: Option<bool>,
}

/// `[tools]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFields {
    /// The tools that models may call.
    pub allowed: Option<Vec<ToolName>>,
    /// Whether `write` and `edit` may leave the working folder.
    pub write_anywhere: Option<bool>,
}

/// `[requests]`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFields {
    /// How long to wait for the next piece of a response, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How often a request that failed for now is sent again.
    pub max_retries: Option<u32>,
}

/// `[providers.NAME]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderFields {
    /// The protocol.
    pub api: Api,
    /// What stands before the path of the protocol.
    pub base_url: Option<Spanned<String>>,
    /// The key.
    pub api_key: Option<SecretField>,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretField>,
    /// The models.
    #[serde(default)]
    pub models: Vec<ModelFields>,
}

/// `[[providers.NAME.models]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFields {
    /// The id, as the provider spells it.
    pub id: String,
    /// The size of the context window, in tokens.
    pub context_window: NonZeroU64,
    /// The most tokens of one answer.
    pub max_tokens: Option<NonZeroU64>,
    /// What tokens cost.
    #[serde(default)]
    pub prices: PriceFields,
    /// What differs from `[compaction]`.
    #[serde(default)]
    pub compaction: ModelCompactionFields,
}

/// Prices of a model, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriceFields {
    /// Of the prompt.
    pub input: Price,
    /// Of the answer.
    pub output: Price,
    /// Of what the provider's cache gave.
    pub cache_read: Price,
    /// Of what the provider's cache took.
    pub cache_write: Price,
}

impl PriceFields {
    /// The prices.
    pub fn prices(self) -> Prices {
        Prices { input: self.input.0, output: self.output.0, cache_read: self.cache_read.0, cache_write: self.cache_write.0 }
    }
}

/// A price: a number that is not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Price(pub f64);

impl TryFrom<f64> for Price {
    type Error = &'static str;

    fn try_from(price: f64) -> Result<Self, Self::Error> {
        if price.is_finite() && price >= 0.0 { Ok(Self(price)) } else { Err("a price is a number of at least 0") }
    }
}

/// A protocol of providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// Chat completions.
    OpenaiCompletions,
    /// Messages.
    AnthropicMessages,
    /// The built-in model.
    Offline,
}

impl Api {
    /// The name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenaiCompletions => crate::llm::openai_completions::API,
            Self::AnthropicMessages => crate::llm::anthropic_messages::API,
            Self::Offline => crate::llm::offline::API,
        }
    }

    /// The protocol of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::OpenaiCompletions, Self::AnthropicMessages, Self::Offline].into_iter().find(|api| api.as_str() == name)
    }
}

/// When entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flush {
    /// At the end of each turn, synced.
    Turn,
    /// Each as it comes, synced.
    Entry,
    /// At the end of each turn, never synced.
    Off,
}

impl Flush {
    /// The policy of the harness.
    pub fn policy(self) -> FlushPolicy {
        match self {
            Self::Turn => FlushPolicy::Turn,
            Self::Entry => FlushPolicy::Entry,
            Self::Off => FlushPolicy::Off,
        }
    }

    /// The name in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Entry => "entry",
            Self::Off => "off",
        }
    }
}

/// Who writes summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Summarizer {
    /// A model.
    Model,
    /// The built-in one.
    Extractive,
}

impl Summarizer {
    /// As the harness has it.
    pub fn by(self) -> SummaryBy {
        match self {
            Self::Model => SummaryBy::Model,
            Self::Extractive => SummaryBy::Extractive,
        }
    }

    /// The name in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Extractive => "extractive",
        }
    }
}

/// How much a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

impl ThinkingLevel {
    /// The name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
        }
    }
}

/// A built-in tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolName {
    /// `read`
    Read,
    /// `write`
    Write,
    /// `edit`
    Edit,
    /// `bash`
    Bash,
}

impl ToolName {
    /// The name that models call it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Bash => "bash",
        }
    }
}

/// A value that is never shown.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
pub struct SecretField(pub Secret);

impl From<String> for SecretField {
    fn from(value: String) -> Self {
        Self(Secret::new(value))
    }
}

/// A program of a hook: its path, or that and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ProgramForm")]
pub struct Program(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a program, or a list of a program and its arguments")]
enum ProgramForm {
    Path(String),
    Words(Vec<String>),
}

impl TryFrom<ProgramForm> for Program {
    type Error = &'static str;

    fn try_from(form: ProgramForm) -> Result<Self, Self::Error> {
        let words = match form {
            ProgramForm::Path(path) => vec![path],
            ProgramForm::Words(words) => words,
        };
        if words.first().is_some_and(|program| !program.is_empty()) { Ok(Self(words)) } else { Err("no program is named") }
    }
}

/// `[hooks]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookFields {
    pub before_agent_start: Option<Program>,
    pub context: Option<Program>,
    pub before_provider_request: Option<Program>,
    pub before_provider_payload: Option<Program>,
    pub after_provider_response: Option<Program>,
    pub tool_call: Option<Program>,
    pub tool_result: Option<Program>,
    pub session_before_compact: Option<Program>,
    pub session_before_tree: Option<Program>,
    pub prepare_next_turn: Option<Program>,
    pub should_stop_after_turn: Option<Program>,
}

impl HookFields {
    /// The program of a hook.
    pub fn get(&self, kind: HookKind) -> Option<&Program> {
        match kind {
            HookKind::BeforeAgentStart => self.before_agent_start.as_ref(),
            HookKind::Context => self.context.as_ref(),
            HookKind::BeforeProviderRequest => self.before_provider_request.as_ref(),
            HookKind::BeforeProviderPayload => self.before_provider_payload.as_ref(),
            HookKind::AfterProviderResponse => self.after_provider_response.as_ref(),
            HookKind::ToolCall => self.tool_call.as_ref(),
            HookKind::ToolResult => self.tool_result.as_ref(),
            HookKind::SessionBeforeCompact => self.session_before_compact.as_ref(),
            HookKind::SessionBeforeTree => self.session_before_tree.as_ref(),
            HookKind::PrepareNextTurn => self.prepare_next_turn.as_ref(),
            HookKind::ShouldStopAfterTurn => self.should_stop_after_turn.as_ref(),
        }
    }

    /// The hooks that have a program, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (HookKind, &Program)> {
        HookKind::ALL.into_iter().filter_map(|kind| Some((kind, self.get(kind)?)))
    }
}
