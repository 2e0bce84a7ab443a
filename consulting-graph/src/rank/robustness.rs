//! Estimates whether other scorers or metrics would have led to another recommendation.
//!
//! The jackknife removes one scorer or one metric at a time. The bootstrap resamples the judgements (pairs of scorer
//! and metric) with replacement. The random number generator has a fixed seed, so the result is reproducible.

use std::{cmp::Ordering, collections::BTreeSet};

use serde::{Deserialize, Serialize};

use super::ranking::{Ranked, Ranking};
use crate::{data::SeededRng, moves::MoveId, score::MoveScore};

const BOOTSTRAP_SAMPLES: u32 = 2_000;
/// A recommended move is robust if it is recommended in at least this fraction of the bootstrap samples. Another move
/// is out of contention if it is recommended in at most one minus this fraction of the samples.
const CERTAIN_PROBABILITY: f64 = 0.9;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Robustness {
    /// All ranked moves, best first.
    pub standings: Vec<RankRobustness>,
    /// Summary such as `robust: m4, m9; too close to call: m2, m11`. Every recommended move is in one of the two
    /// groups. The second group also lists the other moves that could replace a recommended one.
    pub verdict: String,
}

/// Robustness of one move's position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankRobustness {
    pub move_id: MoveId,
    /// Fraction of bootstrap samples in which the move is recommended, from 0 to 1. In a sample in which moves are tied
    /// for the last places, each of them counts with its share of these places.
    pub top: f64,
    /// Scorers and metrics that decide whether the move is recommended: if one of them alone were removed, the move
    /// would enter or leave the recommendation.
    pub depends_on: Vec<String>,
}

/// Computes the robustness of the recommended moves.
pub fn robustness(ranking: &Ranking, scores: &[MoveScore]) -> Robustness {
    let top_k = ranking.recommended.len();
    let order: Vec<&MoveScore> = ranking
        .all()
        .filter_map(|ranked| scores.iter().find(|it| it.move_id == ranked.move_id))
        .collect();
    let judgements = judgements(&order);
    let table: Vec<Vec<u32>> = order
        .iter()
        .map(|it| judgements.iter().map(|judgement| judgement.value_in(it)).collect())
        .collect();

    let mut at_top = vec![0.0; order.len()];
    let mut rng = SeededRng::from_text("rank robustness");
    for _ in 0..BOOTSTRAP_SAMPLES {
        let last = judgements.len() as i64 - 1;
        let drawn: Vec<usize> =
            judgements.iter().map(|_| rng.between(0, last).unsigned_abs() as usize).collect();
        for (sum, share) in at_top.iter_mut().zip(top_shares(&table, &drawn, top_k)) {
            *sum += share;
        }
    }
    let depends_on = jackknife(&judgements, &table, top_k);
    let standings: Vec<RankRobustness> = order
        .iter()
        .zip(at_top)
        .zip(depends_on)
        .map(|((it, n), depends_on)| RankRobustness {
            move_id: it.move_id,
            top: n / f64::from(BOOTSTRAP_SAMPLES),
            depends_on,
        })
        .collect();
    let verdict = verdict(&standings, &ranking.recommended);
    Robustness { standings, verdict }
}

/// One scorer's judgement on one metric.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Judgement {
    scorer: String,
    metric: String,
}

impl Judgement {
    fn value_in(&self, score: &MoveScore) -> u32 {
        let given =
            score.scores_by_agent.get(&self.scorer).and_then(|it| it.metrics.get(&self.metric));
        given.copied().map_or(0, u32::from)
    }
}

fn judgements(scores: &[&MoveScore]) -> Vec<Judgement> {
    let all: BTreeSet<Judgement> = scores
        .iter()
        .flat_map(|it| &it.scores_by_agent)
        .flat_map(|(scorer, it)| {
            it.metrics
                .keys()
                .map(|metric| Judgement { scorer: scorer.clone(), metric: metric.clone() })
        })
        .collect();
    all.into_iter().collect()
}

/// Returns each move's share of a top place if only the judgements in `counted` count: 1 for a top move, 0 for any
/// other move. Moves with equal totals that compete for the last top places share them equally.
fn top_shares(table: &[Vec<u32>], counted: &[usize], top_k: usize) -> Vec<f64> {
    let totals = totals(table, counted);
    let mut sorted = totals.clone();
    sorted.sort_unstable_by_key(|it| std::cmp::Reverse(*it));
    let Some(last) = top_k.checked_sub(1).and_then(|it| sorted.get(it)) else {
        return vec![0.0; totals.len()];
    };
    let above = totals.iter().filter(|it| *it > last).count();
    let equal = totals.iter().filter(|it| *it == last).count();
    let shared = (top_k - above) as f64 / equal as f64;
    let share = |it: &u32| match it.cmp(last) {
        Ordering::Greater => 1.0,
        Ordering::Equal => shared,
        Ordering::Less => 0.0,
    };
    totals.iter().map(share).collect()
}

/// Returns the total score of each move if only the judgements in `counted` count.
fn totals(table: &[Vec<u32>], counted: &[usize]) -> Vec<u32> {
    let total = |line: &Vec<u32>| counted.iter().filter_map(|it| line.get(*it)).sum();
    table.iter().map(total).collect()
}

/// Returns the indices of the top moves if only the judgements in `counted` count. Among moves with equal totals, the
/// higher-ranked one comes first.
fn top_moves(table: &[Vec<u32>], counted: &[usize], top_k: usize) -> Vec<usize> {
    let mut order: Vec<(u32, usize)> = totals(table, counted).into_iter().zip(0..).collect();
    order.sort_by_key(|(total, idx)| (std::cmp::Reverse(*total), *idx));
    order.into_iter().take(top_k).map(|it| it.1).collect()
}

fn jackknife(judgements: &[Judgement], table: &[Vec<u32>], top_k: usize) -> Vec<Vec<String>> {
    let names: BTreeSet<&String> =
        judgements.iter().flat_map(|it| [&it.scorer, &it.metric]).collect();
    let mut depends_on = vec![Vec::new(); table.len()];
    for name in names {
        let without: Vec<usize> = (0..judgements.len())
            .filter(|idx| {
                judgements.get(*idx).is_some_and(|it| it.scorer != *name && it.metric != *name)
            })
            .collect();
        if without.is_empty() {
            continue;
        }
        let top = top_moves(table, &without, top_k);
        for (idx, reasons) in depends_on.iter_mut().enumerate() {
            // The table is in ranked order, so the first `top_k` rows are the recommended moves.
            if (idx < top_k) != top.contains(&idx) {
                reasons.push(name.clone());
            }
        }
    }
    depends_on
}

/// Summarizes which recommended moves are robust and which could be replaced by other moves.
fn verdict(standings: &[RankRobustness], recommended: &[Ranked]) -> String {
    if standings.len() <= recommended.len() {
        return "every ranked move is recommended".to_owned();
    }
    let names = |all: &[&RankRobustness]| {
        all.iter().map(|it| it.move_id.to_string()).collect::<Vec<_>>().join(", ")
    };
    // Standings are in ranked order, so the recommended moves come first.
    let (inside, outside) = standings.split_at(recommended.len());
    let (robust, mut contested): (Vec<_>, Vec<_>) =
        inside.iter().partition(|it| it.top >= CERTAIN_PROBABILITY);
    let mut near: Vec<&RankRobustness> =
        outside.iter().filter(|it| it.top > 1.0 - CERTAIN_PROBABILITY).collect();
    match (robust.is_empty(), contested.is_empty()) {
        (true, true) => return "no moves are recommended".to_owned(),
        (false, true) if near.is_empty() => return format!("robust: {}", names(&robust)),
        (false, true) => {
            return format!("robust: {}; close behind: {}", names(&robust), names(&near));
        }
        (_, false) => {}
    }
    // If a recommended move is contested but no other move is in contention, name the strongest of the other moves.
    if near.is_empty() {
        let next = outside.iter().reduce(|best, it| if it.top > best.top { it } else { best });
        near.extend(next);
    }
    contested.extend(near);
    let contested = format!("too close to call: {}", names(&contested));
    if robust.is_empty() { contested } else { format!("robust: {}; {contested}", names(&robust)) }
}

#[cfg(test)]
mod tests {
    use super::{MoveId, RankRobustness, Ranked, verdict};

    /// Checks the verdict for moves with the given top fractions, of which the first `recommended` are recommended.
    fn check(recommended: usize, tops: &[f64], expected: &str) {
        let standing = |(id, top): (u16, &f64)| RankRobustness {
            move_id: MoveId(id),
            top: *top,
            depends_on: Vec::new(),
        };
        let standings: Vec<RankRobustness> = (1..).zip(tops).map(standing).collect();
        let ranked = |it: &RankRobustness| Ranked {
            rank: 1,
            move_id: it.move_id,
            total_score: 0,
            lowest: 0,
            spread: 0,
            marks: std::collections::BTreeSet::new(),
        };
        let recommended: Vec<Ranked> = standings.iter().take(recommended).map(ranked).collect();
        assert_eq!(verdict(&standings, &recommended), expected);
    }

    #[test]
    fn verdict_lists_each_recommended_move_once() {
        check(3, &[1.0, 1.0, 0.99, 0.01], "robust: m1, m2, m3");
        check(3, &[0.97, 0.96, 0.92, 0.15], "robust: m1, m2, m3; close behind: m4");
        check(3, &[1.0, 1.0, 0.85, 0.05, 0.06], "robust: m1, m2; too close to call: m3, m5");
        check(3, &[1.0, 0.6, 0.8, 0.3, 0.3], "robust: m1; too close to call: m2, m3, m4, m5");
        check(2, &[0.5, 0.5, 0.5, 0.5], "too close to call: m1, m2, m3, m4");
        check(2, &[1.0, 1.0], "every ranked move is recommended");
        check(0, &[0.0, 0.0], "no moves are recommended");
    }
}
