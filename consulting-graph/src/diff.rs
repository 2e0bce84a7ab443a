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

use crate::{difference::Sides, moves::MoveId, report::Report, run::Run};

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

/// Returns the moves whose score or rank differs. Moves with the same number are compared only if their authors and
/// titles are also the same, because the runs may be about different companies.
fn changed_moves(a: &Report, b: &Report) -> Vec<MoveChange> {
    let mut changes: BTreeMap<(MoveId, String, String), MoveChange> = BTreeMap::new();
    for (report, is_first) in [(a, true), (b, false)] {
        for ranked in report.ranking.all() {
            let move_id = ranked.move_id;
            let found = report.outcome.find_move(move_id);
            let (author, title) =
                found.map(|it| (it.agent_id.clone(), it.draft.title.clone())).unwrap_or_default();
            let change = changes.entry((move_id, author, title.clone())).or_insert(MoveChange {
                move_id,
                title,
                rank: Sides { a: None, b: None },
                score: Sides { a: None, b: None },
            });
            let (rank, score) = if is_first {
                (&mut change.rank.a, &mut change.score.a)
            } else {
                (&mut change.rank.b, &mut change.score.b)
            };
            (*rank, *score) = (Some(ranked.rank), Some(ranked.total_score));
        }
    }
    let changed = |it: &MoveChange| it.rank.a != it.rank.b || it.score.a != it.score.b;
    changes.into_values().filter(changed).collect()
}
