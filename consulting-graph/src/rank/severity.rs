//! Estimates how strict each decision maker is, with an additive model.
//!
//! A score is modelled as mean + move effect + scorer effect + metric effect + noise. The effects are averages over the
//! moves that every scorer scored. Default scores, which replace scores that could not be read, are excluded. If a move
//! has default scores, its adjusted total is extrapolated from its other scores.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    moves::MoveId,
    score::{MoveScore, ScoreSource},
};

/// The fitted additive model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Severity {
    /// Effect of each scorer on a score: positive for a generous scorer, negative for a strict one.
    pub scorers: BTreeMap<String, f64>,
    /// Effect of each metric on a score.
    pub metrics: BTreeMap<String, f64>,
    /// Total score of each move after removing the effects of scorers and metrics.
    pub adjusted: BTreeMap<MoveId, f64>,
    /// Noise of a single score: the standard deviation of the residuals, that is, the differences between the scores
    /// and the model.
    pub residual: f64,
    /// Noise of a total score: the standard deviation of the sum of all scores for a move.
    pub noise: f64,
}

/// One score with its scorer and metric.
struct Cell<'a> {
    scorer: &'a str,
    metric: &'a str,
    value: f64,
}

/// Fits the model. Returns `None` if fewer than two moves have a complete set of scores.
pub fn severity(scores: &[MoveScore]) -> Option<Severity> {
    let cells: Vec<(MoveId, Vec<Cell<'_>>)> =
        scores.iter().map(|it| (it.move_id, read_cells(it))).collect();
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
    let estimated = complete.len() + scorers.len() + metrics.len() - 2;
    let freedom = (complete.len() * width).saturating_sub(estimated).max(1);
    let residual = (squares / freedom as f64).sqrt();
    Some(Severity { scorers, metrics, adjusted, residual, noise: residual * (width as f64).sqrt() })
}

fn read_cells(score: &MoveScore) -> Vec<Cell<'_>> {
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
