//! Which model speaks for whom.

use std::path::PathBuf;

use llm::{Catalog, Llm, ModelId, Provider, Recording, Scripted, SetupError, Usage};
use serde::{Deserialize, Serialize};

use super::window;
use crate::{
    ask::Voice,
    config::{Config, Group},
    offline,
};

/// The provider of a model in a file.
const LOCAL: &str = "local";

impl From<SetupError> for ChoiceError {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Unknown { name, known } => Self::NoProvider { name, known },
            error => Self::Setup(error),
        }
    }
}

/// Who speaks for everybody whose model the configuration does not name with another provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The provider.
    pub provider: String,
    /// The model, in place of the configuration's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What a scripted model's answers follow from.
    pub seed: u64,
    /// Milliseconds that a scripted model takes over an answer.
    #[serde(default)]
    pub answer_ms: u64,
}

/// Why nobody can speak.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// There is no such provider.
    #[error("there is no provider `{name}`; there are: {known}, {LOCAL}, {}", Scripted::PROVIDER)]
    NoProvider {
        /// The name.
        name: String,
        /// Those that are asked over a network.
        known: String,
    },
    /// A provider cannot be set up.
    #[error(transparent)]
    Setup(SetupError),
    /// A limit in money cannot be kept.
    #[error("--max-cost cannot hold, because the price of {0} is not known; use --max-tokens")]
    NoPrice(ModelId),
    /// The scripted model's script is wrong.
    #[error(transparent)]
    Script(#[from] llm::ScriptError),
    /// No model is named.
    #[error("provider `{0}` has no default model; name one with --model")]
    NoModel(String),
    /// A model's file cannot be used.
    #[error("local model {}: {problem}", path.display())]
    Local {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
}

impl Choice {
    /// A provider, with what it speaks as by default.
    pub fn of(provider: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: None, seed: 0, answer_ms: 0 }
    }

    /// The provider whose key is in the environment; without one, the scripted model.
    pub fn by_environment() -> Self {
        Self::of(Provider::of_environment().map_or(Scripted::PROVIDER, |it| it.name()))
    }

    /// Sees that there is such a provider, whether or not it can be asked here.
    pub fn check_name(&self) -> Result<(), ChoiceError> {
        if self.is_scripted() || self.provider == LOCAL {
            return Ok(());
        }
        Ok(Provider::new(&self.provider).map(drop)?)
    }

    /// Sees that models which are read from files are there. None is loaded.
    pub(crate) fn check_files(&self, config: &Config) -> Result<(), ChoiceError> {
        self.ids(config).filter(|it| it.provider == LOCAL).try_for_each(|it| has_file(&it))
    }

    /// Sees that the price of everybody's model is known.
    pub(crate) fn check_prices(&self, config: &Config) -> Result<(), ChoiceError> {
        let price = |it: &ModelId| Catalog::builtin().entry(it)?.cost(&Usage::default());
        match self.ids(config).find(|it| price(it).is_none()) {
            Some(unknown) => Err(ChoiceError::NoPrice(unknown)),
            None => Ok(()),
        }
    }

    fn ids(&self, config: &Config) -> impl Iterator<Item = ModelId> {
        let speakers = config.speakers().into_iter();
        speakers.map(|(group, who)| self.model(config, group, &who))
    }

    /// Whether a script makes the answers up.
    pub fn is_scripted(&self) -> bool {
        self.provider == Scripted::PROVIDER
    }

    /// The model for someone. The configuration's counts if it is the provider's, or if it names one of its own while
    /// a real provider speaks.
    pub(crate) fn model(&self, config: &Config, group: Group, who: &str) -> ModelId {
        if self.is_scripted() {
            return ModelId::new(Scripted::PROVIDER, offline::NAME);
        }
        if let Some(model) = &self.model {
            return ModelId::new(&*self.provider, &**model);
        }
        let named = config.model(group, who).model;
        match named.split_once('/') {
            Some((provider, model)) if is_provider(provider) => {
                let is_default = !config.names_model(group, who);
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

    /// How someone's calls are made.
    pub(crate) fn voice(&self, config: &Config, group: Group, who: &str) -> Voice {
        let set = config.model(group, who);
        let window = window(&self.model(config, group, who));
        Voice { temperature: set.temperature, max_tokens: set.max_tokens, window }
    }

    /// The bare model. Where all answers come from a recording, nobody is asked and no key is needed.
    pub(super) fn make(&self, id: &ModelId, recording: &Recording) -> Result<Llm, ChoiceError> {
        if recording.is_replay() {
            return Ok(recording.model(id.clone()));
        }
        if self.is_scripted() {
            return Ok(offline::paced(self.seed, self.answer_ms)?);
        }
        if id.provider == LOCAL {
            return local(id);
        }
        let provider = Provider::new(&id.provider)?;
        if id.model.is_empty() {
            return Err(ChoiceError::NoModel(id.provider.clone()));
        }
        Ok(provider.model(&*id.model).build()?)
    }
}

fn is_provider(name: &str) -> bool {
    name == LOCAL || Provider::new(name).is_ok()
}

#[cfg(feature = "local")]
fn has_file(id: &ModelId) -> Result<(), ChoiceError> {
    let path = PathBuf::from(&id.model);
    if id.model.is_empty() {
        Err(ChoiceError::NoModel(LOCAL.to_owned()))
    } else if path.is_file() {
        Ok(())
    } else {
        Err(ChoiceError::Local { path, problem: "there is no such file".to_owned() })
    }
}

#[cfg(not(feature = "local"))]
fn has_file(id: &ModelId) -> Result<(), ChoiceError> {
    local(id).map(drop)
}

#[cfg(feature = "local")]
fn local(id: &ModelId) -> Result<Llm, ChoiceError> {
    let path = PathBuf::from(&id.model);
    match llm::LocalModel::open(&path) {
        Ok(model) => Ok(Llm::new(model)),
        Err(error) => Err(ChoiceError::Local { path, problem: error.to_string() }),
    }
}

#[cfg(not(feature = "local"))]
fn local(id: &ModelId) -> Result<Llm, ChoiceError> {
    let problem = "this program was built without local models; build it with `--features local`";
    Err(ChoiceError::Local { path: PathBuf::from(&id.model), problem: problem.to_owned() })
}
