//! Settings of an ablation, which are stored in its directory.

use serde::{Deserialize, Serialize};

use super::{arm::Arm, error::AblationError, script::Critics};
use crate::{
    config::{Config, ModelSetting, Persona},
    data::DataSource,
    models::{Limit, ModelChoice},
    run::new_run,
};

/// Id of the critic in [`Arm::Mixed`].
pub(super) const OTHER_CRITIC: &str = "other_critic";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AblationSettings {
    /// Version of the program that created the ablation.
    pub version: String,
    pub ticker: String,
    pub data: DataSource,
    pub choice: ModelChoice,
    /// Model of the critic in [`Arm::Mixed`], optionally with its provider.
    pub critic_model: Option<String>,
    /// The scripted critics. `None` if a model answers.
    pub critics: Option<Critics>,
    /// The arms, in the order of [`Arm::ALL`].
    pub arms: Vec<Arm>,
    /// Number of pairs of moves.
    pub pairs: usize,
    /// Number of times that each move is judged in each arm.
    pub repeats: u32,
    /// Random part of the tags around untrusted text in prompts.
    pub nonce: String,
    /// Spending limit of the whole ablation.
    pub limit: Limit,
    /// Agents and models, derived from the user's configuration.
    pub config_toml: String,
}

/// Checks the settings of a new ablation, and replaces the user's configuration in `settings` with the derived one: one
/// decision maker, the second critic, and answers of at most `answer_tokens` tokens.
pub fn new_settings(
    mut settings: AblationSettings,
    answer_tokens: Option<u32>,
) -> Result<AblationSettings, AblationError> {
    if settings.pairs < 2 {
        return Err(AblationError::TooFewPairs(settings.pairs));
    }
    let has = |arm| settings.arms.contains(&arm);
    if !has(Arm::OneCall) {
        return Err(AblationError::MissingReference);
    }
    if let Some(arm) = settings.arms.iter().find(|it| it.needs_debate() && !has(Arm::Debate3)) {
        return Err(AblationError::MissingDebate(*arm));
    }
    let is_scripted = settings.choice.is_scripted();
    match &settings.critic_model {
        None if has(Arm::Mixed) && !is_scripted => return Err(AblationError::MissingCriticModel),
        Some(_) if !has(Arm::Mixed) || is_scripted => return Err(AblationError::UnusedCriticModel),
        _ => {}
    }
    if settings.critics.is_some() && !is_scripted {
        return Err(AblationError::UnusedCritics(settings.choice.provider));
    }
    if !is_scripted && settings.limit.is_unlimited() {
        let (provider, calls) = (settings.choice.provider.clone(), settings.estimated_calls());
        return Err(AblationError::Unlimited { provider, calls });
    }
    if is_scripted {
        settings.critics = Some(settings.critics.unwrap_or_default());
    }
    let config = derived_config(&settings, answer_tokens)?;
    // The derived configuration names the model. A model in `choice` would also replace that of the second critic.
    settings.choice.model = None;
    settings.config_toml = toml::to_string(&config).expect("a configuration serializes to TOML");
    new_run::validate(&settings.config_toml, &settings.choice, settings.limit)?;
    Ok(settings)
}

fn derived_config(
    settings: &AblationSettings,
    answer_tokens: Option<u32>,
) -> Result<Config, AblationError> {
    let mut config = Config::parse(&settings.config_toml)?;
    config.decision_makers.truncate(1);
    if let Some(model) = &settings.choice.model {
        config.models.values_mut().for_each(|it| it.model = None);
        let default = config.models.entry("default".to_owned()).or_default();
        default.model = Some(format!("{}/{model}", settings.choice.provider));
    }
    if let Some(model) = &settings.critic_model {
        config
            .decision_makers
            .push(Persona { id: OTHER_CRITIC.to_owned(), ..config.critic.clone() });
        let setting = ModelSetting { model: Some(model.clone()), ..ModelSetting::default() };
        config.models.insert(OTHER_CRITIC.to_owned(), setting);
    }
    if let Some(most) = answer_tokens {
        let cap = |it: &mut ModelSetting| it.max_tokens = it.max_tokens.map(|it| it.min(most));
        config.models.values_mut().for_each(cap);
    }
    Ok(config)
}

impl AblationSettings {
    /// Returns the approximate number of calls.
    pub fn estimated_calls(&self) -> u64 {
        let judgements = 2 * self.pairs as u64 * u64::from(self.repeats);
        judgements * self.arms.iter().map(|it| it.calls()).sum::<u64>()
    }
}
