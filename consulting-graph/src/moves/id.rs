//! Ids of moves.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Id of a move, as in `m7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MoveId(pub u16);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a move id; use a form such as m7")]
pub struct MoveIdError(String);

impl MoveId {
    /// Returns the id of move number `slot` by analyst number `analyst`, both counted from 1. If every analyst proposes
    /// three moves, analyst 3 has m7, m8 and m9.
    pub(crate) fn for_slot(analyst: u16, slot: u16, per_analyst: u16) -> Self {
        Self(analyst.saturating_sub(1).saturating_mul(per_analyst).saturating_add(slot))
    }

    /// Parses an id such as `m7`.
    pub fn parse(text: &str) -> Result<Self, MoveIdError> {
        let number = text.strip_prefix('m').and_then(|it| it.parse().ok()).filter(|it| *it > 0);
        number.map(Self).ok_or_else(|| MoveIdError(text.to_owned()))
    }
}

impl fmt::Display for MoveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}

impl TryFrom<String> for MoveId {
    type Error = MoveIdError;

    fn try_from(text: String) -> Result<Self, MoveIdError> {
        Self::parse(&text)
    }
}

impl From<MoveId> for String {
    fn from(id: MoveId) -> Self {
        id.to_string()
    }
}
