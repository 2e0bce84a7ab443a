//! Selects the model that writes and criticises programs.

use llm::{
    Backoff, Budget, Llm, Money, Provider, RateLimit, RateLimiter, Request, Scripted, SetupError,
};
use serde::{Deserialize, Serialize};

use crate::{offline, state::CallCost};

/// Maximum number of concurrent calls per provider.
const MAX_CONCURRENT_CALLS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    pub provider: String,
    /// Name of the model. If `None`, the provider's default model is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Maximum spending on models in one session. A field that is `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBudget {
    /// Maximum number of input and output tokens together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
}

impl RunBudget {
    /// Rejects a cost limit if the price of the model is unknown, because such a limit would refuse every call.
    pub fn check(&self, llm: &Llm) -> Result<(), ModelError> {
        let Some(money) = self.money else { return Ok(()) };
        let id = llm::Model::id(llm);
        match Budget::of_money(money).max_cost(&id, &Request::new("")) {
            Ok(_) => Ok(()),
            Err(_) => Err(ModelError::NoPrice(id.to_string())),
        }
    }

    /// Returns the budget that is left after the calls in `paid`, or `None` if it is unlimited.
    pub fn remaining(&self, paid: &[CallCost]) -> Option<Budget> {
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

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("provider `{0}` has no default model; specify one with --model")]
    NoModel(String),
    #[error(
        "the price of {0} is unknown, so its cost cannot be limited; limit the tokens instead (--max-tokens, max_tokens)"
    )]
    NoPrice(String),
    #[error(
        "model `{0}` would be ignored because the scripted model is selected; specify its provider with --provider, or set the provider's API key"
    )]
    NoProvider(String),
}

impl ModelChoice {
    /// Selects the provider whose API key is in the environment, or else the scripted model.
    pub fn from_environment() -> Self {
        let provider = Provider::from_env().map_or(Scripted::PROVIDER, |it| it.name());
        Self { provider: provider.to_owned(), model: None }
    }

    /// Selects the scripted model.
    pub fn scripted() -> Self {
        Self { provider: Scripted::PROVIDER.to_owned(), model: None }
    }

    /// Returns whether the scripted model is selected.
    pub fn is_scripted(&self) -> bool {
        self.provider == Scripted::PROVIDER
    }

    /// Rejects a model name if the scripted model is selected.
    pub fn check(&self) -> Result<(), ModelError> {
        match &self.model {
            Some(model) if self.is_scripted() => Err(ModelError::NoProvider(model.clone())),
            _ => Ok(()),
        }
    }

    /// Builds the model with a rate limiter and retries.
    pub fn build(&self) -> Result<Llm, ModelError> {
        if self.is_scripted() {
            self.check()?;
            return Ok(offline::model());
        }
        Ok(self
            .connect()?
            .rate_limit(&RateLimiter::new(RateLimit::new(MAX_CONCURRENT_CALLS)))
            .retry(Backoff::default()))
    }

    fn connect(&self) -> Result<Llm, ModelError> {
        let provider = Provider::new(&self.provider).map_err(|error| match error {
            // Add the scripted model to the known names in the error, because it can be selected like a provider.
            SetupError::Unknown { name, known } => {
                SetupError::Unknown { name, known: format!("{known}, {}", Scripted::PROVIDER) }
            }
            other => other,
        })?;
        let default = provider.default_model().map(str::to_owned);
        let Some(model) = self.model.clone().or(default) else {
            return Err(ModelError::NoModel(self.provider.clone()));
        };
        Ok(provider.model(model).build()?)
    }
}
