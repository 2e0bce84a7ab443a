//! The request and result types of one model call.
//!
//! Graphs never hold a model or an API key. A node describes the call, and the host makes it. The same types are used
//! inside the host process and on the channel between a guest and its host.

use llm::{Money, Request, overflow::ContextWindow};
use sandbox_vm::HostFunction;
use serde::{Deserialize, Serialize};

use crate::config::{Config, Group};

/// Makes a model call. This is the only function of the host that the guest of a debate may call. Its name identifies
/// model calls in the journal, including those outside of debates. The journal stores the answers of completed calls,
/// so that a restarted run does not repeat them.
pub const LLM: HostFunction<ModelCall, CallOutcome> = HostFunction::new("llm");

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// Id of the agent that makes the call.
    pub agent_id: String,
    /// Group of the agent, which determines the model and its settings.
    pub group: Group,
    /// Move under debate. `None` outside of debates.
    pub move_id: Option<String>,
    /// Debate round, starting at 1. Zero outside of debates.
    pub round: u32,
    /// Id of the decision maker that a critic's call replies to. `None` for all other calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Prompt and settings.
    pub request: Request,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    Answered(Answer),
    /// The call failed, so there is no answer.
    Failed(CallFailure),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub text: String,
    /// Whether the model reached its token limit before it finished the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Tokens and cost of the call.
    pub usage: CallUsage,
}

/// Reason why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailure {
    pub kind: FailureKind,
    pub reason: String,
}

/// A failed part of a run: a call without a usable answer, or a sandbox that could not run its debate. A run with
/// failures is incomplete. When it is resumed, the failed parts are retried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Agent or turn that failed, such as `analyst_2` or `m3, round 2, critic to D1`.
    pub place: String,
    pub kind: FailureKind,
    pub reason: String,
}

impl Failure {
    /// Creates the failure of a call. `place` names the agent or the turn.
    pub(crate) fn new(place: impl Into<String>, failure: CallFailure) -> Self {
        Self { place: place.into(), kind: failure.kind, reason: failure.reason }
    }

    /// Describes who failed and why, as in `analyst_1 (Capital steward): the model refused to answer`.
    pub(crate) fn describe(&self, config: &Config) -> String {
        format!("{}: {}", config.label_place(&self.place), self.reason.trim_end_matches('.'))
    }

    /// Creates the failure of a call whose answer cannot be used.
    pub(crate) fn unusable(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), kind: FailureKind::Unusable, reason: reason.into() }
    }
}

/// Returns what the user can do about failures.
pub(crate) fn advice(failures: &[Failure]) -> &'static str {
    if failures.iter().any(|it| it.kind == FailureKind::BudgetExhausted) {
        "raise the limit with --max-tokens N or --max-cost DOLLARS when you resume the run"
    } else {
        "resume the run to try again"
    }
}

impl FailureKind {
    /// Returns whether the failure aborts the whole run, because no other call can succeed either.
    pub(crate) fn ends_run(self) -> bool {
        matches!(self, Self::NotRecorded | Self::NotStored)
    }
}

/// Category of a [`CallFailure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    BudgetExhausted,
    /// The run is a replay, and the recording has no answer to this request.
    NotRecorded,
    /// The answer could not be written to the recording. Without a record, a resumed run would pay for the answer
    /// again.
    NotStored,
    /// The request exceeds the context window of the model.
    TooLong,
    /// The model failed permanently or after all retries.
    ModelFailed,
    /// The model answered, but the answer is empty, a refusal, too long, or not what was asked for.
    Unusable,
    /// The sandbox of a debate could not be created, or it failed.
    Sandbox,
}

/// Tokens and cost of one answered call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallUsage {
    /// Id of the agent that made the call.
    pub agent_id: String,
    pub group: Group,
    /// Model that answered, as `provider/model`.
    pub model: String,
    /// Move under debate. `None` outside of debates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_id: Option<String>,
    /// Debate round, starting at 1. Zero outside of debates.
    pub round: u32,
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Input tokens that the provider read from its cache.
    pub cached: u64,
    pub output: u64,
    /// Price of the call, if it is known.
    pub cost: Option<Money>,
}

/// Model settings that apply to the calls of one agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CallSettings {
    pub temperature: f64,
    /// Maximum length of an answer, in tokens.
    pub max_tokens: u32,
    /// Context window of the model, if it is known.
    pub window: Option<ContextWindow>,
}

impl CallSettings {
    /// Returns the request with this temperature and maximum answer length.
    pub fn apply(&self, request: Request) -> Request {
        request.temperature(self.temperature).max_tokens(self.max_tokens)
    }
}
