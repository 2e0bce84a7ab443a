//! Ranking: which moves to recommend, and how far the order can be trusted.

mod baseline;
mod robustness;
mod severity;

use std::{cmp::Reverse, collections::BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    moves::MoveId,
    score::{MakerScore, Mark, MoveScore},
};

pub use baseline::{Drift, drift, kendall_tau};
pub use robustness::{Robustness, Standing, robustness};
pub use severity::{Severity, severity};

/// All moves in order, those without a score apart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ranking {
    /// The best ones.
    pub recommended: Vec<Ranked>,
    /// The other ones.
    pub other: Vec<Ranked>,
    /// Moves that have no score and so no rank.
    pub unscored: Vec<Unscored>,
}

/// A move in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranked {
    /// The place, from 1.
    pub rank: usize,
    /// The move.
    pub move_id: MoveId,
    /// The sum of its scores.
    pub total_score: u32,
    /// What the strictest decision maker gave.
    pub lowest: u32,
    /// How far the decision makers are apart.
    pub spread: u32,
    /// What a reader must know about its score.
    pub marks: BTreeSet<Mark>,
}

/// A move that was not scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unscored {
    /// The move.
    pub move_id: MoveId,
    /// Why not.
    pub reason: String,
}

/// Ranks moves by their totals. Of equal ones, the one whose strictest decision maker gave more comes first, then the
/// one on which they agree more, then the one with the lower number.
///
/// A move without a score is never ranked as if it had none: it stands in `unscored`.
pub fn rank(scores: &[MoveScore], mut unscored: Vec<Unscored>, top_k: usize) -> Ranking {
    let mut sorted: Vec<&MoveScore> = scores.iter().collect();
    sorted.sort_by_key(|it| {
        let (lowest, spread) = extremes(it);
        (Reverse(it.total_score), Reverse(lowest), spread, it.move_id)
    });
    let mut ranked: Vec<Ranked> = (1..)
        .zip(sorted)
        .map(|(rank, it)| {
            let (lowest, spread) = extremes(it);
            let marks = it.marks.clone();
            Ranked { rank, move_id: it.move_id, total_score: it.total_score, lowest, spread, marks }
        })
        .collect();
    let other = ranked.split_off(top_k.min(ranked.len()));
    unscored.sort_by_key(|it| it.move_id);
    Ranking { recommended: ranked, other, unscored }
}

impl Ranking {
    /// All ranked moves, best first.
    pub fn all(&self) -> impl Iterator<Item = &Ranked> {
        self.recommended.iter().chain(&self.other)
    }
}

/// What the strictest decision maker gave, and how far that is from the most generous one.
fn extremes(score: &MoveScore) -> (u32, u32) {
    let totals = || score.scores_by_agent.values().map(MakerScore::total);
    let lowest = totals().min().unwrap_or(0);
    (lowest, totals().max().unwrap_or(0) - lowest)
}
