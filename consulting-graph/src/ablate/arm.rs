//! The arms of an ablation: ways to judge a move.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A way to judge a move. The same decision maker gives the verdict in all arms.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// One call: the decision maker judges the move without a debate.
    #[default]
    OneCall,
    /// The decision maker judges repeatedly, with as many tokens as a debate of three rounds, and the majority decides.
    SelfConsistency,
    /// The decision maker first criticises the move in a separate conversation.
    SelfCritique,
    /// The critic criticises the move once, and the decision maker judges.
    Critique,
    /// A debate of one round, then the verdict.
    #[serde(rename = "debate-1")]
    Debate1,
    /// A debate of three rounds, then the verdict.
    #[serde(rename = "debate-3")]
    Debate3,
    /// A debate of ten rounds, then the verdict.
    #[serde(rename = "debate-10")]
    Debate10,
    /// One call whose prompt contains the debate of three rounds about another move.
    Placebo,
    /// A debate of three rounds in which another model is the critic.
    Mixed,
}

/// A text that names no arm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown arm `{0}`; use one or more of: {names}", names = Arm::ALL.map(Arm::name).join(", "))]
pub struct ArmError(String);

impl Arm {
    /// All arms, in the order of the report.
    pub const ALL: [Self; 9] = [
        Self::OneCall,
        Self::SelfConsistency,
        Self::SelfCritique,
        Self::Critique,
        Self::Debate1,
        Self::Debate3,
        Self::Debate10,
        Self::Placebo,
        Self::Mixed,
    ];

    /// Returns the name of the arm on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneCall => "one-call",
            Self::SelfConsistency => "self-consistency",
            Self::SelfCritique => "self-critique",
            Self::Critique => "critique",
            Self::Debate1 => "debate-1",
            Self::Debate3 => "debate-3",
            Self::Debate10 => "debate-10",
            Self::Placebo => "placebo",
            Self::Mixed => "mixed",
        }
    }

    /// Returns the description of the arm for readers.
    pub fn label(self) -> &'static str {
        match self {
            Self::OneCall => "One call",
            Self::SelfConsistency => "Self-consistency at equal tokens",
            Self::SelfCritique => "Isolated self-critique",
            Self::Critique => "One critique and a judge",
            Self::Debate1 => "Debate of 1 round",
            Self::Debate3 => "Debate of 3 rounds",
            Self::Debate10 => "Debate of 10 rounds",
            Self::Placebo => "Placebo: debate about another move",
            Self::Mixed => "Debate of 3 rounds, mixed models",
        }
    }

    /// Returns the number of rounds of the arm's debate. Zero if it has none.
    pub(super) fn rounds(self) -> u32 {
        match self {
            Self::Debate1 => 1,
            Self::Debate3 | Self::Mixed => 3,
            Self::Debate10 => 10,
            Self::OneCall
            | Self::SelfConsistency
            | Self::SelfCritique
            | Self::Critique
            | Self::Placebo => 0,
        }
    }

    /// Returns whether the arm uses the results of [`Debate3`](Self::Debate3): its tokens or its transcripts.
    pub(crate) fn needs_debate(self) -> bool {
        matches!(self, Self::SelfConsistency | Self::Placebo)
    }

    /// Returns the approximate number of calls for one move.
    pub fn calls(self) -> u64 {
        match self {
            Self::OneCall | Self::Placebo => 1,
            Self::SelfCritique | Self::Critique => 2,
            // About as many tokens as a debate of three rounds.
            Self::SelfConsistency => 9,
            Self::Debate1 | Self::Debate3 | Self::Debate10 | Self::Mixed => {
                2 * u64::from(self.rounds()) + 1
            }
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arm {
    type Err = ArmError;

    fn from_str(text: &str) -> Result<Self, ArmError> {
        let named = |it: &Self| it.name() == text.trim();
        Self::ALL.into_iter().find(named).ok_or_else(|| ArmError(text.to_owned()))
    }
}
