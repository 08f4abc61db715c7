//! The models that are configured, and which of them is used.
//!
//! # Which model
//! ```text
//! --model
//! PI_SESSIONS_MODEL
//! the session's own      where it is configured (not the offline one, which is nobody's choice)
//! provider.json          in the folder of the command
//! model                  in the file
//! the only one           where the file has one model alone
//! offline/echo
//! ```
//!
//! # Invariants
//! - A key is read when its model is used, so that a key that is missing disturbs nothing else.

use std::sync::Arc;

use super::fields::{Api, ModelCompactionFields};
use super::provider_file::{KEY_VARIABLE, ProviderFile};
use super::{Config, Origin};
use crate::agent::{ModelSource, ServedModel};
use crate::cli::error::{CliError, ErrorKind};
use crate::cli::surroundings::Surroundings;
use crate::llm::anthropic_messages::{AnthropicMessages, AnthropicOptions};
use crate::llm::offline::Offline;
use crate::llm::openai_completions::{OpenAiCompletions, OpenAiOptions};
use crate::llm::{Model, Prices, Provider, Secret};
use crate::session::context::ModelRef;

/// Names the model for commands that are given none.
pub const MODEL_VARIABLE: &str = "PI_SESSIONS_MODEL";

/// A model that can be used.
#[derive(Clone, Debug)]
pub struct Known {
    /// The model.
    pub model: Model,
    /// What differs from `[compaction]`.
    pub compaction: ModelCompactionFields,
    /// Who says that there is such a model.
    pub origin: Origin,
    server: Server,
}

/// How a model's server is reached.
#[derive(Clone, Debug)]
struct Server {
    api: Api,
    base_url: String,
    key: Key,
    headers: Vec<(String, Secret)>,
}

/// Where the key of a server is.
#[derive(Clone, Debug)]
enum Key {
    Is(Secret),
    /// The variable has it.
    In(String),
    /// There is none.
    Without,
}

/// All models that can be used.
#[derive(Clone, Debug)]
pub struct Models {
    known: Vec<Known>,
    default: usize,
}

/// A model that was chosen, and by whom.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The model.
    pub known: Known,
    /// Who chose it.
    pub by: Choice,
}

/// Who chose a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The user, for this run.
    User,
    /// The session.
    Session,
    /// The configuration, or nobody.
    Default(Origin),
}

impl Models {
    /// The models of `provider.json`, of the configuration file, and the offline one.
    pub(in crate::cli) fn of(config: &Config, file: Option<&ProviderFile>, surroundings: &Surroundings) -> Self {
        let mut known: Vec<Known> = file.map(|file| of_file(file, surroundings)).into_iter().collect();
        let origin = config.path.clone().map_or(Origin::Default, Origin::File);
        for (name, provider) in &config.fields.providers {
            let own_variable = key_variable(name);
            let key = match (&provider.api_key_env, &provider.api_key) {
                (Some(variable), key) => match (surroundings.var(variable), key) {
                    (Some(value), _) => Key::Is(Secret::new(value)),
                    (None, Some(key)) => Key::Is(key.0.clone()),
                    (None, None) => Key::In(variable.clone()),
                },
                (None, Some(key)) => Key::Is(key.0.clone()),
                (None, None) => surroundings.var(&own_variable).map_or(Key::Without, |value| Key::Is(Secret::new(value))),
            };
            let server = Server {
                api: provider.api,
                base_url: provider.base_url.as_ref().map(|url| url.get_ref().clone()).unwrap_or_default(),
                key,
                headers: provider.headers.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect(),
            };
            for fields in &provider.models {
                let model = Model {
                    provider: name.clone(),
                    id: fields.id.clone(),
                    api: provider.api.as_str().to_owned(),
                    context_window: fields.context_window.get(),
                    max_tokens: fields.max_tokens.map(|tokens| tokens.get()),
                    prices: fields.prices.prices(),
                };
                known.push(Known { model, compaction: fields.compaction, origin: origin.clone(), server: server.clone() });
            }
        }
        let configured = known.len();
        let server = Server { api: Api::Offline, base_url: String::new(), key: Key::Without, headers: Vec::new() };
        let (model, compaction) = (Offline::model(), ModelCompactionFields::default());
        known.push(Known { model, compaction, origin: Origin::Default, server });
        let mut models = Self { known, default: 0 };
        let named = config.fields.model.as_ref().and_then(|name| models.position(name.get_ref()));
        models.default = match (file, named) {
            (Some(_), _) => 0,
            (None, Some(named)) => named,
            (None, None) if configured == 1 => 0,
            (None, None) => configured,
        };
        models
    }

    /// The models, the offline one last.
    pub fn iter(&self) -> impl Iterator<Item = &Known> {
        self.known.iter()
    }

    /// The model that is used where neither the user nor the session says anything, and who says so.
    pub fn default_model(&self) -> (&Known, Origin) {
        let known = &self.known[self.default];
        (known, known.origin.clone())
    }

    fn position(&self, name: &str) -> Option<usize> {
        let name = name.trim();
        let full = self.known.iter().position(|known| full_name(&known.model) == name);
        let by_id = || {
            let mut named = self.known.iter().enumerate().filter(|(_, known)| known.model.id == name);
            named.next().filter(|_| named.next().is_none()).map(|(at, _)| at)
        };
        // A provider alone means its first model.
        let by_provider = || self.known.iter().position(|known| known.model.provider == name);
        full.or_else(by_id).or_else(by_provider)
    }

    /// The model that a person names: `PROVIDER/MODEL`, an id that one provider alone has, or a provider.
    ///
    /// # Errors
    /// When there is none; the hints name those that there are.
    pub fn named(&self, name: &str) -> Result<&Known, CliError> {
        match self.position(name) {
            Some(at) => Ok(&self.known[at]),
            None => {
                let names: Vec<_> = self.known.iter().take(20).map(|known| full_name(&known.model)).collect();
                let error = CliError::new(ErrorKind::NotFound, format!("there is no model {name}"));
                Err(error.hint(format!("the models are {}", names.join(", "))).hint("pi-sessions config"))
            }
        }
    }

    /// The model to use for a session that recorded `recorded`.
    ///
    /// # Errors
    /// When the user names one that does not exist.
    pub fn choose(&self, asked: Option<&str>, recorded: Option<&ModelRef>) -> Result<Chosen, CliError> {
        if let Some(name) = asked {
            return Ok(Chosen { known: self.named(name)?.clone(), by: Choice::User });
        }
        let recorded = recorded.and_then(|model| self.known.iter().find(|known| is_model(&known.model, model)));
        if let Some(known) = recorded.filter(|known| known.server.api != Api::Offline || known.origin != Origin::Default) {
            return Ok(Chosen { known: known.clone(), by: Choice::Session });
        }
        let (known, origin) = self.default_model();
        Ok(Chosen { known: known.clone(), by: Choice::Default(origin) })
    }
}

fn of_file(file: &ProviderFile, surroundings: &Surroundings) -> Known {
    let key = file.api_key.clone().or_else(|| surroundings.var(KEY_VARIABLE).map(Secret::new));
    let server =
        Server { api: file.api, base_url: file.base_url.clone(), key: key.map_or(Key::Without, Key::Is), headers: Vec::new() };
    let model = Model {
        provider: file.provider(),
        id: file.model.clone(),
        api: file.api.as_str().to_owned(),
        context_window: file.context_window,
        max_tokens: file.max_tokens,
        prices: Prices::default(),
    };
    Known { model, compaction: ModelCompactionFields::default(), origin: Origin::File(file.path.clone()), server }
}

/// The variable of a provider's key: `OPENAI_API_KEY` for `openai`.
pub fn key_variable(provider: &str) -> String {
    let name = provider.chars().map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_uppercase() } else { '_' });
    format!("{}_API_KEY", name.collect::<String>())
}

/// `PROVIDER/MODEL`.
pub fn full_name(model: &Model) -> String {
    format!("{}/{}", model.provider, model.id)
}

fn is_model(model: &Model, recorded: &ModelRef) -> bool {
    recorded.provider.as_deref() == Some(&model.provider) && recorded.model_id.as_deref() == Some(&model.id)
}

impl Known {
    /// The model with a connection to its server. Nothing is sent yet.
    ///
    /// # Errors
    /// When the key is missing or the address cannot be used.
    pub fn serve(&self) -> Result<ServedModel, CliError> {
        let server = &self.server;
        let api_key = match &server.key {
            Key::Is(key) => Some(key.clone()),
            Key::Without => None,
            Key::In(variable) => {
                let message = format!("the key of {} is not there: the variable {variable} is not set", self.model.provider);
                return Err(CliError::new(ErrorKind::Config, message).hint(format!("export {variable}=...")));
            }
        };
        let wrong = |error| {
            CliError::new(ErrorKind::Config, format!("the model {} cannot be used", full_name(&self.model))).because(error)
        };
        let (base_url, headers) = (server.base_url.clone(), server.headers.clone());
        let provider: Arc<dyn Provider> = match server.api {
            Api::OpenaiCompletions => {
                let options = OpenAiOptions { api_key, headers, ..OpenAiOptions::new(base_url) };
                Arc::new(OpenAiCompletions::new(options).map_err(wrong)?)
            }
            Api::AnthropicMessages => {
                let options = AnthropicOptions { api_key, headers, ..AnthropicOptions::new(base_url) };
                Arc::new(AnthropicMessages::new(options).map_err(wrong)?)
            }
            Api::Offline => Arc::new(Offline),
        };
        Ok(ServedModel { provider, model: self.model.clone() })
    }
}

impl ModelSource for Models {
    fn find(&self, provider: &str, model_id: &str) -> Option<ServedModel> {
        let known = self.known.iter().find(|known| known.model.provider == provider && known.model.id == model_id)?;
        known.serve().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_of_a_key_is_made_of_the_name() {
        assert_eq!(key_variable("open-router.ai"), "OPEN_ROUTER_AI_API_KEY");
    }
}
