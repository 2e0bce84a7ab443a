//! A trial: one move, judged once in one arm.

use llm::Money;
use serde::{Deserialize, Serialize};

use super::{arm::Arm, cases::Case, flaw::FlawKind, verdict::Verdict};
use crate::call::CallUsage;

/// Input of a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Trial {
    pub(super) arm: Arm,
    pub(super) case: Case,
    /// Number of the repeat, starting at 0.
    pub(super) repeat: u32,
    /// Number of tokens to use, for [`Arm::SelfConsistency`].
    pub(super) target_tokens: u64,
}

impl Trial {
    /// Returns the name of the trial's thread.
    pub(super) fn name(&self) -> String {
        format!("{} {} r{}", self.arm, self.case.brief.move_id, self.repeat + 1)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    pub arm: Arm,
    /// Number of the pair of moves, starting at 0.
    pub pair: usize,
    pub move_id: String,
    /// The planted flaw. `None` for a sound move.
    pub flaw: Option<FlawKind>,
    /// Number of the repeat, starting at 0.
    pub repeat: u32,
    pub verdict: Verdict,
    /// Number of answered calls.
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Cost of the calls, if all prices are known.
    pub cost: Option<Money>,
}

impl TrialResult {
    pub(super) fn new(trial: &Trial, verdict: Verdict, calls: &[CallUsage]) -> Self {
        let cost = calls.iter().map(|it| it.cost).try_fold(Money::ZERO, |sum, it| Some(sum + it?));
        Self {
            arm: trial.arm,
            pair: trial.case.pair,
            move_id: trial.case.brief.move_id.clone(),
            flaw: trial.case.flaw,
            repeat: trial.repeat,
            verdict,
            calls: calls.len() as u64,
            input_tokens: calls.iter().map(|it| it.input).sum(),
            output_tokens: calls.iter().map(|it| it.output).sum(),
            cost,
        }
    }

    /// Returns the number of input and output tokens.
    pub fn tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens
    }

    /// Returns whether the verdict agrees with the truth.
    pub fn is_correct(&self) -> bool {
        self.verdict.flawed == self.flaw.is_some()
    }
}
