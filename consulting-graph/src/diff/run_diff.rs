//! Differences between two runs.

use serde::Serialize;

use crate::{
    difference::{SettingChange, Sides},
    moves::MoveId,
    report::{Report, SpendingEntry},
};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDiff {
    pub runs: Sides<String>,
    /// Settings that differ, sorted by path.
    pub settings: Vec<SettingChange>,
    /// First output that differs. `None` if all outputs are the same.
    pub first: Option<Divergence>,
    /// Moves whose score or rank differs, sorted by number.
    pub moves: Vec<MoveChange>,
    pub cost: Sides<Cost>,
}

/// The first output that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Location of the output, such as `m4:r5 critic → D1`.
    pub place: String,
    /// Excerpts around the first difference.
    pub texts: Sides<String>,
}

/// A move whose score or rank differs. Both are `None` for a run in which the move has no score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MoveChange {
    pub move_id: MoveId,
    pub title: String,
    pub rank: Sides<Option<usize>>,
    pub score: Sides<Option<u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Cost in dollars. `None` if a price is unknown.
    pub dollars: Option<f64>,
    /// For a fork, the number of calls that the fork made itself, without the calls inherited from the original run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_calls: Option<u64>,
}

impl RunDiff {
    /// Returns whether settings, outputs, scores and ranks are the same. The cost may differ.
    pub fn is_same(&self) -> bool {
        self.settings.is_empty() && self.first.is_none() && self.moves.is_empty()
    }
}

impl Cost {
    pub(super) fn of(report: &Report) -> Self {
        let total = SpendingEntry::total(&report.outcome.spending);
        Self {
            calls: total.calls,
            input_tokens: total.input_tokens,
            output_tokens: total.output_tokens,
            dollars: total.dollars,
            own_calls: report.outcome.own_spending.as_ref().map(|it| it.calls),
        }
    }
}
