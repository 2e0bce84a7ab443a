//! Compares two runs: their settings, the first difference in their outputs, their rankings and their cost.
//!
//! A difference in one output can cause differences in all later outputs. Therefore only the first difference in the
//! order of the pipeline is reported, together with the changes in scores and ranks.

mod locations;
mod run_diff;
mod run_output;
mod settings;
mod text;

use std::collections::BTreeMap;

use run_output::RunOutput;

use crate::{difference::Sides, moves::MoveId, rank::Ranked, report::Report, run::Run};

pub use run_diff::{Cost, Divergence, MoveChange, RunDiff};
pub use run_output::DiffError;

/// Compares two complete runs.
pub fn diff(a: &Run, b: &Run) -> Result<RunDiff, DiffError> {
    let (left, right) = (RunOutput::read(a)?, RunOutput::read(b)?);
    let run_id = |it: &RunOutput| it.report.outcome.run_id.clone();
    Ok(RunDiff {
        runs: Sides { a: run_id(&left), b: run_id(&right) },
        settings: settings::between(a, b),
        first: locations::first_difference(&left, &right),
        moves: changed_moves(&left.report, &right.report),
        cost: Sides { a: Cost::of(&left.report), b: Cost::of(&right.report) },
    })
}

fn changed_moves(a: &Report, b: &Report) -> Vec<MoveChange> {
    let ranked = |it: &Report| -> BTreeMap<MoveId, Ranked> {
        it.ranking.all().map(|it| (it.move_id, it.clone())).collect()
    };
    let (left, right) = (ranked(a), ranked(b));
    let title = |id: MoveId| {
        let found = b.outcome.find_move(id).or_else(|| a.outcome.find_move(id));
        found.map(|it| it.draft.title.clone())
    };
    let mut ids: Vec<MoveId> = left.keys().chain(right.keys()).copied().collect();
    ids.sort();
    ids.dedup();
    let change = |move_id: MoveId| {
        let (a, b) = (left.get(&move_id), right.get(&move_id));
        MoveChange {
            move_id,
            title: title(move_id).unwrap_or_default(),
            rank: Sides { a: a.map(|it| it.rank), b: b.map(|it| it.rank) },
            score: Sides { a: a.map(|it| it.total_score), b: b.map(|it| it.total_score) },
        }
    };
    let changes = ids.into_iter().map(change);
    changes.filter(|it| it.rank.a != it.rank.b || it.score.a != it.score.b).collect()
}
