//! Whether the top of a ranking would be the same with other judges.
//!
//! The jackknife leaves out one scorer or one metric after the other. The bootstrap draws as many judgements (pairs of
//! a scorer and a metric) as there are, some twice and some never, two thousand times, always the same ones.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Ranked, Ranking};
use crate::{data::Chance, moves::MoveId, score::MoveScore};

const DRAWS: u32 = 2_000;
/// From this probability on a place at the top is certain, and below one minus it out of reach.
const CERTAIN: f64 = 0.9;

/// How well founded the top of a ranking is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Robustness {
    /// Each ranked move, best first.
    pub standings: Vec<Standing>,
    /// In words, like `m4, m9 clear; m2/m11/m7 not distinguishable`: each recommended move is in one of the two groups,
    /// and in the second with who could take its place.
    pub verdict: String,
}

/// How sure a move's place at the top is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The move.
    pub move_id: MoveId,
    /// How often it is at the top in the bootstrap, from 0 to 1.
    pub top: f64,
    /// Without which scorers and metrics, one at a time, it would change sides.
    pub hangs_on: Vec<String>,
}

/// Asks how robust the top of a ranking is.
pub fn robustness(ranking: &Ranking, scores: &[MoveScore]) -> Robustness {
    let top_k = ranking.recommended.len();
    let order: Vec<&MoveScore> = ranking
        .all()
        .filter_map(|ranked| scores.iter().find(|it| it.move_id == ranked.move_id))
        .collect();
    let judgements = judgements(&order);
    let table: Vec<Vec<u32>> = order
        .iter()
        .map(|it| judgements.iter().map(|judgement| judgement.of(it)).collect())
        .collect();

    let mut at_top = vec![0_u32; order.len()];
    let mut chance = Chance::of("rank robustness");
    for _ in 0..DRAWS {
        let last = judgements.len() as i64 - 1;
        let drawn: Vec<usize> =
            judgements.iter().map(|_| chance.between(0, last).unsigned_abs() as usize).collect();
        for idx in top(&table, &drawn, top_k) {
            at_top[idx] += 1;
        }
    }
    let hangs_on = jackknife(&judgements, &table, top_k);
    let standings: Vec<Standing> = order
        .iter()
        .zip(at_top)
        .zip(hangs_on)
        .map(|((it, n), hangs_on)| Standing {
            move_id: it.move_id,
            top: f64::from(n) / f64::from(DRAWS),
            hangs_on,
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
    fn of(&self, score: &MoveScore) -> u32 {
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

/// Which moves are at the top when these judgements count; of equal ones, the one that was ranked higher.
fn top(table: &[Vec<u32>], counted: &[usize], top_k: usize) -> Vec<usize> {
    let total = |line: &[u32]| -> u32 { counted.iter().filter_map(|it| line.get(*it)).sum() };
    let mut order: Vec<(u32, usize)> =
        table.iter().enumerate().map(|(idx, line)| (total(line), idx)).collect();
    order.sort_by_key(|(total, idx)| (std::cmp::Reverse(*total), *idx));
    order.into_iter().take(top_k).map(|it| it.1).collect()
}

fn jackknife(judgements: &[Judgement], table: &[Vec<u32>], top_k: usize) -> Vec<Vec<String>> {
    let names: BTreeSet<&String> =
        judgements.iter().flat_map(|it| [&it.scorer, &it.metric]).collect();
    let mut hangs_on = vec![Vec::new(); table.len()];
    for name in names {
        let without: Vec<usize> = (0..judgements.len())
            .filter(|idx| {
                judgements.get(*idx).is_some_and(|it| it.scorer != *name && it.metric != *name)
            })
            .collect();
        if without.is_empty() {
            continue;
        }
        let top = top(table, &without, top_k);
        for (idx, reasons) in hangs_on.iter_mut().enumerate() {
            // The moves stand in their order, so the first ones are at the top.
            if (idx < top_k) != top.contains(&idx) {
                reasons.push(name.clone());
            }
        }
    }
    hangs_on
}

/// Says which recommended moves are certain, and which could as well be others.
fn verdict(standings: &[Standing], recommended: &[Ranked]) -> String {
    if standings.len() <= recommended.len() {
        return "every ranked move is recommended".to_owned();
    }
    let names = |all: &[&Standing], between: &str| {
        all.iter().map(|it| it.move_id.to_string()).collect::<Vec<_>>().join(between)
    };
    // The moves stand in their order, so the recommended ones are the first.
    let (inside, outside) = standings.split_at(recommended.len());
    let (clear, mut contested): (Vec<_>, Vec<_>) = inside.iter().partition(|it| it.top >= CERTAIN);
    let mut near: Vec<&Standing> = outside.iter().filter(|it| it.top > 1.0 - CERTAIN).collect();
    match (clear.is_empty(), contested.is_empty()) {
        (true, true) => return "no move stands out".to_owned(),
        (false, true) if near.is_empty() => return format!("{} clear", names(&clear, ", ")),
        (false, true) => {
            return format!("{} clear; {} within reach", names(&clear, ", "), names(&near, ", "));
        }
        (_, false) => {}
    }
    // Nobody is contested by nobody: where no single rival is near, it is the next one.
    if near.is_empty() {
        let next = outside.iter().reduce(|best, it| if it.top > best.top { it } else { best });
        near.extend(next);
    }
    contested.extend(near);
    let contested = format!("{} not distinguishable", names(&contested, "/"));
    if clear.is_empty() { contested } else { format!("{} clear; {contested}", names(&clear, ", ")) }
}

#[cfg(test)]
mod tests {
    use super::{MoveId, Ranked, Standing, verdict};

    /// The verdict on so many recommended moves, each with how often it is at the top.
    fn check(recommended: usize, tops: &[f64], expected: &str) {
        let standing = |(id, top): (u16, &f64)| Standing {
            move_id: MoveId(id),
            top: *top,
            hangs_on: Vec::new(),
        };
        let standings: Vec<Standing> = (1..).zip(tops).map(standing).collect();
        let ranked = |it: &Standing| Ranked {
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
    fn a_verdict_does_not_contradict_itself() {
        check(3, &[1.0, 1.0, 0.99, 0.01], "m1, m2, m3 clear");
        check(3, &[0.97, 0.96, 0.92, 0.15], "m1, m2, m3 clear; m4 within reach");
        check(3, &[1.0, 1.0, 0.85, 0.05, 0.06], "m1, m2 clear; m3/m5 not distinguishable");
        check(3, &[1.0, 0.6, 0.8, 0.3, 0.3], "m1 clear; m2/m3/m4/m5 not distinguishable");
        check(2, &[0.5, 0.5, 0.5, 0.5], "m1/m2/m3/m4 not distinguishable");
        check(2, &[1.0, 1.0], "every ranked move is recommended");
        check(0, &[0.0, 0.0], "no move stands out");
    }
}
