//! Selection of the model for each agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use llm::{
    Catalog, ExposeSecret, Llm, ModelId, Provider, Recording, Scripted, SetupError, Timeouts,
    Usage, overflow::ContextWindow,
};
use serde::{Deserialize, Serialize};

use super::limits::{RESPONSE_LIMITS, is_redacted};
use crate::{
    call::CallSettings,
    config::{Config, Group},
    offline,
};

/// Provider name of models in local files.
const LOCAL: &str = "local";

impl From<SetupError> for ModelChoiceError {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Unknown { name, known } => Self::UnknownProvider { name, known },
            error => Self::Setup(error),
        }
    }
}

/// The user's choice of provider and model. If the configuration names a model of another provider for an agent or its
/// group, the agent keeps that model, unless the choice selects the scripted model or sets `model`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    pub provider: String,
    /// Name of the model that replaces the configured models of all agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub seed: u64,
    /// Delay before each answer of the scripted model, in milliseconds.
    #[serde(default)]
    pub answer_ms: u64,
    /// Context windows in tokens that servers and model files stated when the run was created, by model. They are part
    /// of the choice, because prompts depend on them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context_tokens: BTreeMap<String, u64>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelChoiceError {
    #[error("unknown provider `{name}`; use one of: {known}, {LOCAL}, {}", Scripted::PROVIDER)]
    UnknownProvider { name: String, known: String },
    #[error(transparent)]
    Setup(SetupError),
    #[error(
        "cannot enforce --max-cost, because the price of {0} is unknown; use --max-tokens instead"
    )]
    UnknownPrice(ModelId),
    #[error(
        "the configuration sets a model for {0}, but the scripted model answers for all agents; remove the models of \
         agents and groups from the configuration, or choose another provider with --provider"
    )]
    ScriptedBesideModels(String),
    #[error("provider `{0}` has no default model; select one with --model")]
    MissingModel(String),
    #[error("cannot use local model {}: {problem}", path.display())]
    Local { path: PathBuf, problem: String },
}

impl ModelChoice {
    /// Selects a provider with its default models.
    pub fn for_provider(provider: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            model: None,
            seed: 0,
            answer_ms: 0,
            context_tokens: BTreeMap::new(),
        }
    }

    /// Selects the provider whose API key is in the environment, or the scripted model if the environment contains no
    /// API key.
    pub fn from_env() -> Self {
        Self::for_provider(Provider::from_env().map_or(Scripted::PROVIDER, |it| it.name()))
    }

    /// Checks that the provider exists, without checking that it can be used.
    pub fn check_provider(&self) -> Result<(), ModelChoiceError> {
        if self.is_scripted() || self.provider == LOCAL {
            return Ok(());
        }
        Ok(Provider::new(&self.provider).map(drop)?)
    }

    /// Checks that the files of local models exist, without loading them.
    pub(crate) fn check_files(&self, config: &Config) -> Result<(), ModelChoiceError> {
        self.ids(config).filter(|it| it.provider == LOCAL).try_for_each(|it| check_file(&it))
    }

    /// Returns whether an agent uses a model in a local file.
    #[cfg(feature = "cluster")]
    pub(crate) fn has_local_model(&self, config: &Config) -> bool {
        self.ids(config).any(|it| it.provider == LOCAL)
    }

    /// Checks that the price of every model is known.
    pub(crate) fn check_prices(&self, config: &Config) -> Result<(), ModelChoiceError> {
        let price = |it: &ModelId| Catalog::builtin().entry(it)?.cost(&Usage::default());
        match self.ids(config).find(|it| price(it).is_none()) {
            Some(unknown) => Err(ModelChoiceError::UnknownPrice(unknown)),
            None => Ok(()),
        }
    }

    fn ids(&self, config: &Config) -> impl Iterator<Item = ModelId> {
        let agents = config.agents().into_iter();
        agents.map(|(group, agent_id)| self.model(config, group, &agent_id))
    }

    /// Returns the providers in use whose API keys are not redacted in the files of a run, because they are short or a
    /// word.
    pub fn providers_with_weak_keys(&self, config: &Config) -> BTreeSet<String> {
        let has_weak_key = |name: &String| {
            let key = Provider::new(name).ok().and_then(|it| it.effective_key());
            key.is_some_and(|it| !is_redacted(it.expose_secret()))
        };
        self.ids(config).map(|it| it.provider).filter(has_weak_key).collect()
    }

    /// Asks the servers and the model files for the context windows that neither the configuration nor the catalogue
    /// contains. If a window remains unknown, the provider rejects a prompt that is too long, and the prompt is then
    /// shortened.
    pub async fn with_context_sizes(mut self, config: &Config) -> Self {
        let is_unknown = |(group, agent_id): &(Group, String)| {
            self.call_settings(config, *group, agent_id).window.is_none()
        };
        let agents = config.agents().into_iter().filter(is_unknown);
        let ids: BTreeSet<ModelId> =
            agents.map(|(group, id)| self.model(config, group, &id)).collect();
        for id in ids.into_iter().filter(|_| !self.is_scripted()).collect::<Vec<_>>() {
            if let Some(tokens) = context_size(&id).await {
                self.context_tokens.insert(id.to_string(), tokens);
            }
        }
        self
    }

    /// Checks that no agent is configured with a model if the scripted model answers for all agents.
    pub(crate) fn check_not_contradictory(&self, config: &Config) -> Result<(), ModelChoiceError> {
        let mut agents = config.agents().into_iter();
        match agents.find(|(group, id)| self.is_scripted() && config.has_specific_model(*group, id))
        {
            Some((group, id)) => Err(ModelChoiceError::ScriptedBesideModels(group.role(&id))),
            None => Ok(()),
        }
    }

    /// Returns whether answers come from the scripted model.
    pub fn is_scripted(&self) -> bool {
        self.provider == Scripted::PROVIDER
    }

    /// Returns the model of an agent. If this choice selects the scripted model or one model for all agents, returns
    /// that model. Otherwise returns the configured model, with one exception: if the configuration specifies no model
    /// for this agent or its group, and the default model belongs to another provider, returns the default model of the
    /// selected provider.
    pub(crate) fn model(&self, config: &Config, group: Group, agent_id: &str) -> ModelId {
        if self.is_scripted() {
            return ModelId::new(Scripted::PROVIDER, offline::MODEL_NAME);
        }
        if let Some(model) = &self.model {
            return ModelId::new(&*self.provider, &**model);
        }
        let named = config.model(group, agent_id).model;
        match named.split_once('/') {
            Some((provider, model)) if is_provider(provider) => {
                let is_default = !config.has_specific_model(group, agent_id);
                if is_default && provider != self.provider {
                    ModelId::new(&*self.provider, self.default_model())
                } else {
                    ModelId::new(provider, model)
                }
            }
            _ => ModelId::new(&*self.provider, named),
        }
    }

    fn default_model(&self) -> &'static str {
        let provider = Provider::new(&self.provider).ok();
        provider.and_then(|it| it.default_model()).unwrap_or_default()
    }

    pub(crate) fn call_settings(
        &self,
        config: &Config,
        group: Group,
        agent_id: &str,
    ) -> CallSettings {
        let set = config.model(group, agent_id);
        let model = self.model(config, group, agent_id);
        let stated = || self.context_tokens.get(&model.to_string()).copied();
        let window = match set.context_tokens.or_else(stated) {
            Some(tokens) => Some(ContextWindow::new(model, tokens)),
            None => ContextWindow::from_catalog(model, Catalog::builtin()),
        };
        CallSettings { temperature: set.temperature, max_tokens: set.max_tokens, window }
    }

    /// Builds the model without layers such as retries and the budget. In a replay, the model reads its answers from
    /// the recording and needs no API key.
    pub(super) fn build_model(
        &self,
        id: &ModelId,
        recording: &Recording,
        timeouts: Timeouts,
    ) -> Result<Llm, ModelChoiceError> {
        if recording.is_replay() {
            return Ok(recording.model(id.clone()));
        }
        if self.is_scripted() {
            let delay = Duration::from_millis(self.answer_ms);
            return Ok(offline::Board { delay, ..offline::Board::new(self.seed) }.model());
        }
        if id.provider == LOCAL {
            return open_local(id);
        }
        let provider = Provider::new(&id.provider)?;
        if id.model.is_empty() {
            return Err(ModelChoiceError::MissingModel(id.provider.clone()));
        }
        Ok(provider.model(&*id.model).timeouts(timeouts).limits(RESPONSE_LIMITS).build()?)
    }
}

async fn context_size(id: &ModelId) -> Option<u64> {
    if id.provider == LOCAL {
        return trained_context(&id.model);
    }
    Provider::new(&id.provider).ok()?.model(&*id.model).context_size().await
}

#[cfg(feature = "local")]
fn trained_context(path: &str) -> Option<u64> {
    llm::LocalModel::trained_context(path).ok()
}

#[cfg(not(feature = "local"))]
fn trained_context(_: &str) -> Option<u64> {
    None
}

fn is_provider(name: &str) -> bool {
    name == LOCAL || Provider::new(name).is_ok()
}

#[cfg(feature = "local")]
fn check_file(id: &ModelId) -> Result<(), ModelChoiceError> {
    let path = PathBuf::from(&id.model);
    if id.model.is_empty() {
        Err(ModelChoiceError::MissingModel(LOCAL.to_owned()))
    } else if path.is_file() {
        Ok(())
    } else {
        Err(ModelChoiceError::Local { path, problem: "the file does not exist".to_owned() })
    }
}

#[cfg(not(feature = "local"))]
fn check_file(id: &ModelId) -> Result<(), ModelChoiceError> {
    open_local(id).map(drop)
}

#[cfg(feature = "local")]
fn open_local(id: &ModelId) -> Result<Llm, ModelChoiceError> {
    let path = PathBuf::from(&id.model);
    match llm::LocalModel::open(&path) {
        Ok(model) => Ok(Llm::new(model)),
        Err(error) => Err(ModelChoiceError::Local { path, problem: error.to_string() }),
    }
}

#[cfg(not(feature = "local"))]
fn open_local(id: &ModelId) -> Result<Llm, ModelChoiceError> {
    let problem = "this program was built without support for local models; rebuild it with `--features local`";
    Err(ModelChoiceError::Local { path: PathBuf::from(&id.model), problem: problem.to_owned() })
}
