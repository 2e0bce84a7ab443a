//! How strict each decision maker is, by an additive model.
//!
//! Each score is taken as a mean, plus what the move adds, plus what the scorer adds, plus what the metric adds, plus
//! chance. Over moves that everybody scored, the parts are plain averages. A default is no score: it is left out, and
//! the move's adjusted total is what its real scores would come to if all scorers had given theirs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    moves::MoveId,
    score::{MoveScore, ScoreSource},
};

/// What the model finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Severity {
    /// By how much each scorer is above the mean in each score; below zero for a strict one.
    pub scorers: BTreeMap<String, f64>,
    /// By how much each metric is above the mean.
    pub metrics: BTreeMap<String, f64>,
    /// Each move's total without the scorers' leanings.
    pub adjusted: BTreeMap<MoveId, f64>,
    /// What chance adds to a score: the standard deviation of what the model does not explain.
    pub residual: f64,
    /// What chance adds to a total.
    pub noise: f64,
}

/// A score with who gave it for what.
struct Cell<'a> {
    scorer: &'a str,
    metric: &'a str,
    value: f64,
}

/// Fits the model. None with fewer than two moves that every scorer scored on every metric.
pub fn severity(scores: &[MoveScore]) -> Option<Severity> {
    let cells: Vec<(MoveId, Vec<Cell<'_>>)> =
        scores.iter().map(|it| (it.move_id, real(it))).collect();
    let width = cells.iter().map(|it| it.1.len()).max().filter(|it| *it > 0)?;
    let complete: Vec<&(MoveId, Vec<Cell<'_>>)> =
        cells.iter().filter(|it| it.1.len() == width).collect();
    if complete.len() < 2 {
        return None;
    }
    let all = || complete.iter().flat_map(|it| &it.1);
    let grand = mean(all().map(|it| it.value))?;
    let effects = |name: fn(&Cell<'_>) -> String| -> BTreeMap<String, f64> {
        let mut by_name: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        all().for_each(|it| by_name.entry(name(it)).or_default().push(it.value));
        by_name
            .into_iter()
            .filter_map(|(name, values)| Some((name, mean(values.into_iter())? - grand)))
            .collect()
    };
    let scorers = effects(|it| it.scorer.to_owned());
    let metrics = effects(|it| it.metric.to_owned());
    let leaning = |it: &Cell<'_>| {
        scorers.get(it.scorer).copied().unwrap_or(0.0)
            + metrics.get(it.metric).copied().unwrap_or(0.0)
    };
    let level = |cells: &[Cell<'_>]| mean(cells.iter().map(|it| it.value - leaning(it)));
    let adjusted =
        cells.iter().filter_map(|(id, cells)| Some((*id, level(cells)? * width as f64))).collect();

    let squares: f64 = complete
        .iter()
        .filter_map(|(_, cells)| {
            let level = level(cells)?;
            Some(cells.iter().map(|it| (it.value - leaning(it) - level).powi(2)).sum::<f64>())
        })
        .sum();
    let spent = complete.len() + scorers.len() + metrics.len() - 2;
    let freedom = (complete.len() * width).saturating_sub(spent).max(1);
    let residual = (squares / freedom as f64).sqrt();
    Some(Severity { scorers, metrics, adjusted, residual, noise: residual * (width as f64).sqrt() })
}

fn real(score: &MoveScore) -> Vec<Cell<'_>> {
    let given =
        score.scores_by_agent.iter().filter(|(_, it)| it.score_source != ScoreSource::Default);
    given
        .flat_map(|(scorer, it)| {
            it.metrics.iter().map(move |(metric, value)| Cell {
                scorer,
                metric,
                value: f64::from(*value),
            })
        })
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0_u32, 0.0), |(n, sum), it| (n + 1, sum + it));
    (n > 0).then(|| sum / f64::from(n))
}
