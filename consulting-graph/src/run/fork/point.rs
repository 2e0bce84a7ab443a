//! Points at which a run can be forked.

use std::{fmt, str::FromStr};

use crate::moves::MoveId;

/// A point at which a run can be forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkPoint {
    Layer(u8),
    /// Before a round of a move's debate.
    Round {
        move_id: MoveId,
        round: u32,
    },
}

impl FromStr for ForkPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "`{text}` is not a fork point; use layer_0, layer_1, layer_2, a move such as m4, or a round such as m4:r5"
            )
        };
        if let Some(number) = text.strip_prefix("layer_") {
            return match number.parse() {
                Ok(number @ 0..=2) => Ok(Self::Layer(number)),
                _ => Err(invalid()),
            };
        }
        let (id, round) = text.split_once(":r").unwrap_or((text, "1"));
        match (MoveId::parse(id), round.parse()) {
            (Ok(move_id), Ok(round @ 1..)) => Ok(Self::Round { move_id, round }),
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for ForkPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer(number) => write!(f, "layer_{number}"),
            Self::Round { move_id, round } => write!(f, "{move_id}:r{round}"),
        }
    }
}
