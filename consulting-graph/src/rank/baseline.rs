//! Compares the scores after the debates with the scores before the debates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ranking::Ranking;
use crate::{moves::MoveId, score::MoveScore};

/// Change of a move's total score during the debate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    pub move_id: MoveId,
    /// The total score before the debate.
    pub before: u32,
    /// The total score after the debate.
    pub after: u32,
}

impl Drift {
    /// Returns the change; negative if the debate lowered the score.
    pub fn change(&self) -> i64 {
        i64::from(self.after) - i64::from(self.before)
    }
}

/// Returns the drift of every move that was scored both before and after the debate, sorted by id.
pub fn drift(before: &[MoveScore], after: &[MoveScore]) -> Vec<Drift> {
    let earlier: BTreeMap<MoveId, u32> =
        before.iter().map(|it| (it.move_id, it.total_score)).collect();
    let mut drifts: Vec<Drift> = after
        .iter()
        .filter_map(|it| {
            let before = *earlier.get(&it.move_id)?;
            Some(Drift { move_id: it.move_id, before, after: it.total_score })
        })
        .collect();
    drifts.sort_by_key(|it| it.move_id);
    drifts
}

/// Returns Kendall's tau of two rankings, from -1 (reversed) to 1 (identical). Only moves that occur in both rankings
/// count. Returns `None` if there are fewer than two such moves.
pub fn kendall_tau(a: &Ranking, b: &Ranking) -> Option<f64> {
    let places: BTreeMap<MoveId, usize> = b.all().map(|it| (it.move_id, it.rank)).collect();
    let order: Vec<usize> = a.all().filter_map(|it| places.get(&it.move_id).copied()).collect();
    let pairs = order.len() * order.len().saturating_sub(1) / 2;
    let agree = order
        .iter()
        .enumerate()
        .map(|(idx, it)| order[idx + 1..].iter().filter(|later| *later > it).count());
    let agree: usize = agree.sum();
    (pairs > 0).then(|| (2.0 * agree as f64 - pairs as f64) / pairs as f64)
}
