//! The state of a session.

use graph_core::State;
use llm::{Catalog, Money, Response};
use serde::{Deserialize, Serialize};

use crate::{
    answer::{Critique, GeneratedCode},
    execution::Execution,
    failure::Attempt,
    job::Job,
};

/// The state of a session: from a task to a program that ran.
#[derive(State, Clone, Debug, Default)]
pub struct Session {
    /// What is asked for.
    pub job: Job,
    /// The attempt under way, counted from 1.
    pub attempt: u32,
    /// Its program.
    pub generated: GeneratedCode,
    /// Whether it is written afresh because the one before failed as its predecessor did.
    pub resampled: bool,
    /// What came of it.
    pub execution: Option<Execution>,
    /// What the critic said of it.
    pub critique: Option<Critique>,
    /// All attempts that came to their end.
    #[reduce(append)]
    pub history: Vec<Attempt>,
    /// What was paid.
    #[reduce(append)]
    pub calls: Vec<Paid>,
    /// Why no more calls are made: the budget is spent.
    pub spent: Option<String>,
    /// What the session came to.
    pub outcome: Option<Outcome>,
}

/// What a session came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether there is a program for which all that was asked holds.
    pub success: bool,
    /// Attempts that were made.
    pub attempts: u32,
    /// What the last program printed.
    pub output: String,
    /// The last program.
    pub code: String,
    /// In words.
    pub message: String,
}

/// What one call of a model cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paid {
    /// Who spoke: `generator` or `critic`.
    pub role: String,
    /// The model.
    pub model: String,
    /// The attempt.
    pub attempt: u32,
    /// Tokens that went in.
    pub input: u64,
    /// Tokens that came out.
    pub output: u64,
    /// The price, where it is known.
    pub cost: Option<Money>,
    /// How long it took, in milliseconds.
    pub latency_ms: u64,
}

impl Paid {
    pub(crate) fn of(role: &str, attempt: u32, response: &Response) -> Self {
        let usage = response.usage.unwrap_or_default();
        let known = || Catalog::builtin().entry(&response.model)?.cost(&usage);
        Self {
            role: role.to_owned(),
            model: response.model.to_string(),
            attempt,
            input: usage.input,
            output: usage.output,
            cost: response.cost.or_else(known),
            latency_ms: u64::try_from(response.latency.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
