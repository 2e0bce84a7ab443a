//! The graph state of a session.

use graph_core::State;
use llm::{Catalog, Money, Response};
use serde::{Deserialize, Serialize};

use crate::{
    answer::{Critique, GeneratedCode},
    execution::Execution,
    failure::Attempt,
    job::Job,
};

#[derive(State, Clone, Debug, Default)]
pub struct Session {
    /// The task, the checks for its program, and the limits.
    pub job: Job,
    pub attempt: u32,
    /// Program of the current attempt.
    pub generated: GeneratedCode,
    /// Whether the current program was written from scratch because the two attempts before it failed in the same way.
    pub resampled: bool,
    /// Result of executing the current program.
    pub execution: Option<Execution>,
    /// The critic's answer to the current attempt.
    pub critique: Option<Critique>,
    #[reduce(append)]
    pub history: Vec<Attempt>,
    #[reduce(append)]
    pub calls: Vec<CallCost>,
    /// Why the budget allowed no further call; `None` if no call was refused.
    pub spent: Option<String>,
    /// Outcome of the session, once it is complete.
    pub outcome: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether a program passed all checks.
    pub success: bool,
    pub attempts: u32,
    /// Standard output of the most recent program.
    pub output: String,
    /// The most recent program.
    pub code: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCost {
    /// Role of the model: `generator` or `critic`.
    pub role: String,
    /// Provider and name of the model, as text.
    pub model: String,
    pub attempt: u32,
    pub input: u64,
    pub output: u64,
    pub cost: Option<Money>,
    pub latency_ms: u64,
}

impl CallCost {
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
