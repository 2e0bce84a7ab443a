//! What a run will take, before anything is spent: calls, tokens, money and time, role by role.
//!
//! The prompts are the real ones, with filler of assumed [`Sizes`] where a model's words will stand. So the plan follows
//! the configuration and the prompts, and what they have in common is what a provider's cache can keep. Nothing is asked
//! twice in it: answers that have to be put right come on top.

mod count;
mod prompts;
mod text;

use std::collections::BTreeSet;

use llm::{Catalog, ModelId, Money, Usage};
use serde::Serialize;

use self::prompts::Call;
use crate::{
    config::{Config, Group},
    models::Choice,
};

/// What is planned for a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// What each role takes, in the order of the pipeline.
    pub roles: Vec<Planned>,
    /// What all roles take.
    pub all: Planned,
    /// Calls that wait for each other.
    pub steps: u64,
    /// The time from start to end.
    pub seconds: f64,
    /// What was assumed.
    pub assumed: Assumptions,
}

/// What one role takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planned {
    /// The role: a group, or one decision maker.
    pub role: String,
    /// The models that speak for it.
    pub models: BTreeSet<String>,
    /// Calls.
    pub calls: u64,
    /// Tokens that go in.
    pub input_tokens: u64,
    /// Of these, tokens that a provider with a prompt cache has kept from an earlier call.
    pub cached_tokens: u64,
    /// Tokens that come out.
    pub output_tokens: u64,
    /// Dollars with a prompt cache, where the price is known.
    pub dollars: Option<f64>,
    /// Dollars without one.
    pub dollars_uncached: Option<f64>,
}

/// What is assumed of a run that has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Assumptions {
    /// So many debates at once.
    pub concurrency: usize,
    /// Whether scores are asked for before the debates too.
    pub baseline: bool,
    /// How long one call takes.
    pub seconds_per_call: f64,
    /// So many calls are answered at once.
    pub calls_at_once: usize,
    /// The shortest start of a prompt that a provider keeps, in tokens. Most keep shorter ones.
    pub shortest_cached: u64,
    /// How long texts are.
    pub sizes: Sizes,
}

/// How long the texts are that models write, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// The data that one synthesizer is given.
    pub data: u64,
    /// The document that it writes.
    pub document: u64,
    /// The findings from one document.
    pub findings: u64,
    /// A move, with the findings that it cites.
    pub the_move: u64,
    /// A turn in a debate.
    pub turn: u64,
    /// Scores with their reasons.
    pub scores: u64,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            concurrency: 1,
            baseline: false,
            seconds_per_call: 6.0,
            calls_at_once: crate::models::AT_ONCE,
            shortest_cached: 4096,
            sizes: Sizes::default(),
        }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self { data: 3000, document: 2500, findings: 1500, the_move: 900, turn: 500, scores: 150 }
    }
}

impl Plan {
    /// Plans a run in which the chosen provider's models speak.
    ///
    /// ```
    /// use consulting_graph::{config::{Config, DEFAULT}, models::Choice, plan::{Assumptions, Plan}};
    ///
    /// let config = Config::parse(DEFAULT)?;
    /// let choice = Choice::of("anthropic");
    /// let plan = Plan::new(&config, &choice, llm::Catalog::builtin(), Assumptions::default());
    /// assert_eq!(plan.all.calls, 924);
    /// println!("{}", plan.text());
    /// # Ok::<(), consulting_graph::config::ConfigError>(())
    /// ```
    pub fn new(config: &Config, choice: &Choice, catalog: &Catalog, assumed: Assumptions) -> Self {
        let model = |group, who: &str| choice.model(config, group, who);
        let mut roles: Vec<(Group, Planned)> = Vec::new();
        for thread in prompts::threads(config, &assumed) {
            for (call, usage) in count::usages(&thread.calls, model, assumed.shortest_cached) {
                let planned = Planned::of(call, &model(call.group, &call.who), usage, catalog);
                let planned = planned.times(thread.times);
                match roles.iter_mut().find(|it| it.1.role == planned.role) {
                    Some((_, role)) => role.add(&planned),
                    None => roles.push((call.group, planned)),
                }
            }
        }
        // A decision maker's scoring goes on with its conversation, and is told apart from it here.
        roles.sort_by_key(|it| it.0);
        let roles: Vec<Planned> = roles.into_iter().map(|it| it.1).collect();
        let mut all = Planned::nothing("all");
        roles.iter().for_each(|it| all.add(it));
        let seconds = waves(config, &assumed, assumed.calls_at_once) as f64;
        Self {
            roles,
            all,
            steps: waves(config, &assumed, usize::MAX),
            seconds: seconds * assumed.seconds_per_call,
            assumed,
        }
    }
}

impl Planned {
    fn nothing(role: &str) -> Self {
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

    /// One call.
    fn of(call: &Call, model: &ModelId, usage: Usage, catalog: &Catalog) -> Self {
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

    fn times(self, times: u64) -> Self {
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

    /// Adds what another takes. A sum over prices that are not known is not known.
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

/// How often one call's time passes until the end, if so many calls are answered at once.
fn waves(config: &Config, assumed: &Assumptions, at_once: usize) -> u64 {
    let at_once = at_once.max(1) as u64;
    let waves = |calls: u64| calls.div_ceil(at_once);
    let makers = config.decision_makers.len() as u64;
    let steps = config.steps_per_debate() + u64::from(assumed.baseline);
    // The critic's opening is one call; in every other step all decision makers are asked or answered.
    let debates = |n: u64| if n == 0 { 0 } else { waves(n) + (steps - 1) * waves(n * makers) };
    let (moves, together) = (moves(config), assumed.concurrency.max(1) as u64);
    let layers = waves(2) + waves(2) + waves(config.analysts.len() as u64);
    layers + moves / together * debates(together) + debates(moves % together)
}

/// How many moves there will be.
fn moves(config: &Config) -> u64 {
    config.analysts.len() as u64 * u64::from(config.moves_per_analyst)
}
