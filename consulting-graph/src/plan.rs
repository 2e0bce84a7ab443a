//! Estimates the calls, tokens, cost and duration of a consulting run by role, before the run starts.
//!
//! The estimate is computed from the actual prompts, in which filler text of the assumed [`Sizes`] replaces the model
//! output. It therefore reflects the configuration and the prompt texts, including the prefixes that a provider can
//! cache. Retries are not included.

mod assumptions;
mod count;
mod prompts;
mod text;

use std::collections::BTreeSet;

use llm::{Catalog, ModelId, Money, Usage};
use serde::Serialize;

use self::prompts::Call;
use crate::{
    config::{Config, Group},
    models::ModelChoice,
};

pub use assumptions::{Assumptions, Sizes};

/// The estimate for a consulting run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The estimate per role, in pipeline order.
    pub roles: Vec<Estimate>,
    /// The total for all roles.
    pub all: Estimate,
    /// Number of calls on the critical path, that is, calls that would wait for each other even without a limit on
    /// concurrent calls.
    pub steps: u64,
    /// Estimated duration of the run in seconds.
    pub seconds: f64,
    /// The assumptions that the estimate is based on.
    pub assumed: Assumptions,
}

/// Estimated usage of one role, or of all roles.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The role: a group, or one decision maker.
    pub role: String,
    pub models: BTreeSet<String>,
    pub calls: u64,
    pub input_tokens: u64,
    /// Number of input tokens read from a provider's prompt cache.
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// Cost in dollars with a prompt cache, if the price is known.
    pub dollars: Option<f64>,
    /// Cost in dollars without a prompt cache, if the price is known.
    pub dollars_uncached: Option<f64>,
}

impl Plan {
    /// Estimates a run with the chosen provider's models.
    ///
    /// ```
    /// use consulting_graph::{config::{Config, DEFAULT}, models::ModelChoice, plan::{Assumptions, Plan}};
    ///
    /// let config = Config::parse(DEFAULT)?;
    /// let choice = ModelChoice::for_provider("anthropic");
    /// let plan = Plan::new(&config, &choice, llm::Catalog::builtin(), Assumptions::default());
    /// assert_eq!(plan.all.calls, 924);
    /// println!("{}", plan.text());
    /// # Ok::<(), consulting_graph::config::ConfigError>(())
    /// ```
    pub fn new(
        config: &Config,
        choice: &ModelChoice,
        catalog: &Catalog,
        assumed: Assumptions,
    ) -> Self {
        let model = |group, who: &str| choice.model(config, group, who);
        let mut roles: Vec<(Group, Estimate)> = Vec::new();
        for conversation in prompts::conversations(config, &assumed) {
            for (call, usage) in
                count::usages(&conversation.calls, model, assumed.min_cached_tokens)
            {
                let estimate =
                    Estimate::for_call(call, &model(call.group, &call.who), usage, catalog);
                let estimate = estimate.scaled(conversation.times);
                match roles.iter_mut().find(|it| it.1.role == estimate.role) {
                    Some((_, role)) => role.add(&estimate),
                    None => roles.push((call.group, estimate)),
                }
            }
        }
        // Sorts the roles by group, because the scoring calls belong to the conversations of the decision makers but
        // are listed as a separate role after all decision makers.
        roles.sort_by_key(|it| it.0);
        let roles: Vec<Estimate> = roles.into_iter().map(|it| it.1).collect();
        let mut all = Estimate::zero("all");
        roles.iter().for_each(|it| all.add(it));
        let seconds = waves(config, &assumed, assumed.max_concurrent_calls) as f64;
        Self {
            roles,
            all,
            steps: waves(config, &assumed, usize::MAX),
            seconds: seconds * assumed.seconds_per_call,
            assumed,
        }
    }
}

impl Estimate {
    fn zero(role: &str) -> Self {
        Self {
            role: role.to_owned(),
            models: BTreeSet::new(),
            calls: 0,
            input_tokens: 0,
            cached_tokens: 0,
            output_tokens: 0,
            dollars: Some(0.0),
            dollars_uncached: Some(0.0),
        }
    }

    /// Returns the estimate for a single call.
    fn for_call(call: &Call, model: &ModelId, usage: Usage, catalog: &Catalog) -> Self {
        let entry = catalog.entry(model);
        let dollars = |usage| entry.and_then(|it| it.cost(&usage)).map(Money::dollars);
        Self {
            role: call.role(),
            models: [model.to_string()].into(),
            calls: 1,
            input_tokens: usage.input,
            cached_tokens: usage.cached,
            output_tokens: usage.output,
            dollars: dollars(usage),
            dollars_uncached: dollars(Usage { cached: 0, cache_written: 0, ..usage }),
        }
    }

    fn scaled(self, times: u64) -> Self {
        let dollars = |it: Option<f64>| it.map(|it| it * times as f64);
        Self {
            calls: self.calls * times,
            input_tokens: self.input_tokens * times,
            cached_tokens: self.cached_tokens * times,
            output_tokens: self.output_tokens * times,
            dollars: dollars(self.dollars),
            dollars_uncached: dollars(self.dollars_uncached),
            ..self
        }
    }

    /// Adds another estimate. If one of the two costs is unknown, the sum is unknown.
    fn add(&mut self, other: &Self) {
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        self.models.extend(other.models.iter().cloned());
        self.calls += other.calls;
        self.input_tokens += other.input_tokens;
        self.cached_tokens += other.cached_tokens;
        self.output_tokens += other.output_tokens;
        self.dollars = sum(self.dollars, other.dollars);
        self.dollars_uncached = sum(self.dollars_uncached, other.dollars_uncached);
    }
}

/// Returns the duration of the run as a multiple of the duration of one call, if at most `concurrency` calls are made
/// at the same time.
fn waves(config: &Config, assumed: &Assumptions, concurrency: usize) -> u64 {
    let concurrency = concurrency.max(1) as u64;
    let waves = |calls: u64| calls.div_ceil(concurrency);
    let makers = config.decision_makers.len() as u64;
    let steps = config.steps_per_debate() + u64::from(assumed.baseline);
    // The critic's opening is a single call; every other step makes one call per decision maker.
    let debates = |n: u64| if n == 0 { 0 } else { waves(n) + (steps - 1) * waves(n * makers) };
    let (moves, together) = (config.moves(), assumed.concurrency.max(1) as u64);
    let layers = waves(2) + waves(2) + waves(config.analysts.len() as u64);
    layers + moves / together * debates(together) + debates(moves % together)
}
