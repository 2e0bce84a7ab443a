//! Sorts moves by score.

use std::{cmp::Reverse, collections::BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    moves::MoveId,
    score::{MakerScore, Mark, MoveScore},
};

/// All moves in ranked order, and the moves without a score.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ranking {
    pub recommended: Vec<Ranked>,
    /// The remaining ranked moves.
    pub other: Vec<Ranked>,
    /// Moves without a score, which have no rank.
    pub unscored: Vec<Unscored>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranked {
    pub rank: usize,
    pub move_id: MoveId,
    /// The sum of all scores for the move.
    pub total_score: u32,
    /// The lowest of the decision makers' total scores for the move.
    pub lowest: u32,
    /// The difference between the highest and the lowest of the decision makers' total scores for the move.
    pub spread: u32,
    /// Caveats about the score.
    pub marks: BTreeSet<Mark>,
}

/// A move without a score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unscored {
    pub move_id: MoveId,
    /// The reason why the move has no score.
    pub reason: String,
}

/// Ranks moves by total score. Among moves with equal total scores, the one with the higher [`Ranked::lowest`] comes
/// first, then the one with the smaller [`Ranked::spread`], then the one with the lower id.
///
/// A move without a score is never ranked; it is listed in `unscored`.
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
    /// Returns all ranked moves, best first.
    pub fn all(&self) -> impl Iterator<Item = &Ranked> {
        self.recommended.iter().chain(&self.other)
    }
}

/// Returns the lowest of the decision makers' total scores, and the difference between the highest and the lowest.
fn extremes(score: &MoveScore) -> (u32, u32) {
    let totals = || score.scores_by_agent.values().map(MakerScore::total);
    let lowest = totals().min().unwrap_or(0);
    (lowest, totals().max().unwrap_or(0) - lowest)
}
