//! Moves with ids, and the ids that an analyst did not use.

use serde::{Deserialize, Serialize};

use super::{draft::MoveDraft, id::MoveId};
use crate::data::Ticker;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub move_id: MoveId,
    /// Id of the analyst, such as `analyst_3`.
    pub agent_id: String,
    /// Display name of the analyst.
    pub persona: String,
    pub ticker: Ticker,
    #[serde(flatten)]
    pub draft: MoveDraft,
}

/// A move that an analyst was asked for but did not deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingMove {
    /// The id that was reserved for the move.
    pub move_id: MoveId,
    pub agent_id: String,
}

/// An analyst to whose moves [`assign_ids`] assigns ids.
#[derive(Debug, Clone, Copy)]
pub struct Author<'a> {
    /// The analyst's position in the configuration, counted from 1.
    pub number: u16,
    pub agent_id: &'a str,
    pub persona: &'a str,
}

/// Assigns ids to an analyst's moves, lowest risk first. Keeps at most `per_analyst` moves. If there are fewer, also
/// returns the ids that were reserved for the missing moves.
pub fn assign_ids(
    author: Author<'_>,
    ticker: &Ticker,
    per_analyst: u16,
    mut drafts: Vec<MoveDraft>,
) -> (Vec<Move>, Vec<MissingMove>) {
    drafts.sort_by_key(|it| it.risk_level);
    let mut drafts = drafts.into_iter();
    let (mut moves, mut missing) = (Vec::new(), Vec::new());
    for slot in 1..=per_analyst {
        let move_id = MoveId::for_slot(author.number, slot, per_analyst);
        let agent_id = author.agent_id.to_owned();
        match drafts.next() {
            Some(draft) => {
                let persona = author.persona.to_owned();
                moves.push(Move { move_id, agent_id, persona, ticker: ticker.clone(), draft });
            }
            None => missing.push(MissingMove { move_id, agent_id }),
        }
    }
    (moves, missing)
}
