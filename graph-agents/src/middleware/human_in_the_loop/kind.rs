//! Kinds of decisions.

use serde::{Deserialize, Serialize};

/// A kind of decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// The call runs.
    Approve,
    /// A call that the reviewer provides runs in place of the model's call.
    Edit,
    /// The call does not run, and the model receives the rejection as the result.
    Reject,
    /// The reviewer answers in place of the tool.
    Respond,
}

impl DecisionKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Approve, Self::Edit, Self::Reject, Self::Respond];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Edit => "edit",
            Self::Reject => "reject",
            Self::Respond => "respond",
        }
    }
}
