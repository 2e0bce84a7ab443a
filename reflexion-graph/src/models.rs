//! Who writes programs and criticises them.

use llm::{Backoff, Budget, Gate, Llm, Money, Pace, Provider, Request, Scripted, SetupError};
use serde::{Deserialize, Serialize};

use crate::{offline, state::Paid};

/// Calls of one provider at once.
const AT_ONCE: usize = 16;

/// A provider, and one of its models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The provider.
    pub provider: String,
    /// The model; the provider's default where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What may be spent on models; without a bound where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// Tokens, in and out together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
}

impl Allowance {
    /// Refuses a bound in money where nobody knows what the model costs: it would allow no call at all.
    pub fn check(&self, llm: &Llm) -> Result<(), ChoiceError> {
        let Some(money) = self.money else { return Ok(()) };
        let id = llm::Model::id(llm);
        match Budget::of_money(money).most(&id, &Request::new("")) {
            Ok(_) => Ok(()),
            Err(_) => Err(ChoiceError::NoPrice(id.to_string())),
        }
    }

    /// What is left of it when this is paid; nothing where it has no bound.
    pub fn budget(&self, paid: &[Paid]) -> Option<Budget> {
        let used = paid.iter().map(|it| it.input.saturating_add(it.output));
        let tokens = self.tokens.map(|it| used.fold(it, u64::saturating_sub));
        let cost = paid.iter().filter_map(|it| it.cost).sum();
        match (tokens, self.money.map(|it| it.saturating_sub(cost))) {
            (None, None) => None,
            (Some(tokens), None) => Some(Budget::of_tokens(tokens)),
            (None, Some(money)) => Some(Budget::of_money(money)),
            (Some(tokens), Some(money)) => Some(Budget::of_both(tokens, money)),
        }
    }
}

/// Why nobody can write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// The provider cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The scripted model's script is wrong.
    #[error(transparent)]
    Script(#[from] llm::ScriptError),
    /// No model is named.
    #[error("provider `{0}` has no default model; name one with --model")]
    NoModel(String),
    /// A bound in money, for a model without a price.
    #[error(
        "what {0} costs is not known, so no bound in money can hold; bound the tokens (--max-tokens, max_tokens) in its place"
    )]
    NoPrice(String),
    /// A model by name, where a script answers.
    #[error(
        "a scripted model would answer, and not `{0}`; name its provider with --provider, or set the provider's key"
    )]
    NoProvider(String),
}

impl Choice {
    /// The provider whose key is in the environment; without one, the scripted model.
    pub fn by_environment() -> Self {
        let provider = Provider::of_environment().map_or(Scripted::PROVIDER, |it| it.name());
        Self { provider: provider.to_owned(), model: None }
    }

    /// The scripted model.
    pub fn scripted() -> Self {
        Self { provider: Scripted::PROVIDER.to_owned(), model: None }
    }

    /// Whether a script makes the answers up.
    pub fn is_scripted(&self) -> bool {
        self.provider == Scripted::PROVIDER
    }

    /// Refuses a model's name where a script answers, whatever that name is.
    pub fn check(&self) -> Result<(), ChoiceError> {
        match &self.model {
            Some(model) if self.is_scripted() => Err(ChoiceError::NoProvider(model.clone())),
            _ => Ok(()),
        }
    }

    /// The model, behind a rate gate and retries.
    pub fn make(&self) -> Result<Llm, ChoiceError> {
        if self.is_scripted() {
            self.check()?;
            return Ok(offline::model()?);
        }
        Ok(self.bare()?.gate(&Gate::new(Pace::new(AT_ONCE))).retry(Backoff::default()))
    }

    fn bare(&self) -> Result<Llm, ChoiceError> {
        let provider = Provider::new(&self.provider).map_err(|error| match error {
            // There is one more here.
            SetupError::Unknown { name, known } => {
                SetupError::Unknown { name, known: format!("{known}, {}", Scripted::PROVIDER) }
            }
            other => other,
        })?;
        let default = provider.default_model().map(str::to_owned);
        let Some(model) = self.model.clone().or(default) else {
            return Err(ChoiceError::NoModel(self.provider.clone()));
        };
        Ok(provider.model(model).build()?)
    }
}
