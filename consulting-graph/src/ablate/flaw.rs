//! The kinds of flaws that are planted in moves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of a flaw.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FlawKind {
    /// A number contradicts the finding that is cited for it.
    WrongFigure,
    /// A statement cites a finding that is about something else.
    WrongCitation,
    /// A step cannot be completed in the stated time.
    InfeasibleStep,
    /// A cost that the steps mention is missing from the stated cost.
    HiddenCost,
}

impl FlawKind {
    /// All kinds.
    pub const ALL: [Self; 4] =
        [Self::WrongFigure, Self::WrongCitation, Self::InfeasibleStep, Self::HiddenCost];

    /// Returns the name of the kind for readers.
    pub fn label(self) -> &'static str {
        match self {
            Self::WrongFigure => "wrong figure",
            Self::WrongCitation => "wrong citation",
            Self::InfeasibleStep => "infeasible step",
            Self::HiddenCost => "hidden cost",
        }
    }

    /// Returns the name of the kind in a verdict.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::WrongFigure => "wrong_figure",
            Self::WrongCitation => "wrong_citation",
            Self::InfeasibleStep => "infeasible_step",
            Self::HiddenCost => "hidden_cost",
        }
    }

    /// Returns the kind with this name in a verdict.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let plain = name.trim().to_lowercase().replace([' ', '-'], "_");
        Self::ALL.into_iter().find(|it| it.name() == plain)
    }
}
