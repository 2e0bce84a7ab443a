//! Compares two runs: their settings, the first difference in their outputs, their rankings and their cost.
//!
//! A difference in one output can cause differences in all later outputs. Therefore only the first difference in the
//! order of the pipeline is reported, together with the changes in scores and ranks.

mod locations;
mod settings;
mod text;

use std::{collections::BTreeMap, io, path::PathBuf};

use serde::Serialize;

use crate::{moves::MoveId, rank::Ranked, report::Report, run::Run};

pub(crate) use settings::setting_changes;

/// Differences between two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDiff {
    /// Ids of the runs.
    pub runs: Sides<String>,
    /// Settings that differ, sorted by path.
    pub settings: Vec<SettingChange>,
    /// First output that differs. `None` if all outputs are the same.
    pub first: Option<Divergence>,
    /// Moves whose score or rank differs, sorted by number.
    pub moves: Vec<MoveChange>,
    /// Cost of the runs.
    pub cost: Sides<Cost>,
}

/// One value for each of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sides<T> {
    /// Value of the first run.
    pub a: T,
    /// Value of the second run.
    pub b: T,
}

/// A setting that differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// Path of the setting, such as `models.D1.temperature`.
    pub path: String,
    /// Shortened values. A value is `None` if the setting is not set in that run.
    pub values: Sides<Option<String>>,
}

/// The first output that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Location of the output, such as `m4:r5 critic → D1`.
    pub place: String,
    /// Excerpts around the first difference.
    pub texts: Sides<String>,
}

/// A move whose score or rank differs. Both are `None` for a run in which the move has no score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MoveChange {
    /// Id of the move.
    pub move_id: MoveId,
    /// Title in the second run, or in the first run if only the first run has the move.
    pub title: String,
    /// Rank, starting at 1.
    pub rank: Sides<Option<usize>>,
    /// Total score.
    pub score: Sides<Option<u32>>,
}

/// Cost of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Number of calls.
    pub calls: u64,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Cost in dollars. `None` if a price is unknown.
    pub dollars: Option<f64>,
    /// For a fork, the number of calls that the fork made itself, without the calls inherited from the original run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_calls: Option<u64>,
}

/// The error returned when two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// A run has no report.
    #[error("{} does not exist, because the run is not complete; complete it with `consulting resume`", .0.display())]
    NoReport(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// A report cannot be parsed.
    #[error("{} is not a valid report of this program version: {problem}", path.display())]
    Report {
        /// Path of the file.
        path: PathBuf,
        /// Parse error.
        problem: String,
    },
}

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

impl RunDiff {
    /// Returns whether settings, outputs, scores and ranks are the same. The cost may differ.
    pub fn is_same(&self) -> bool {
        self.settings.is_empty() && self.first.is_none() && self.moves.is_empty()
    }
}

/// Outputs of a run.
struct RunOutput {
    report: Report,
    /// Documents of layer 0, by file name.
    documents: Vec<(&'static str, String)>,
}

impl RunOutput {
    fn read(run: &Run) -> Result<Self, DiffError> {
        let file = |name: &str| {
            let path = run.dir().join(name);
            match std::fs::read_to_string(&path) {
                Ok(text) => Ok((path, text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(DiffError::NoReport(path))
                }
                Err(source) => Err(DiffError::Io { path, source }),
            }
        };
        let (path, text) = file("report.json")?;
        let report = serde_json::from_str(&text)
            .map_err(|error| DiffError::Report { path, problem: error.to_string() })?;
        let mut documents = Vec::new();
        for name in ["financial.md", "news.md"] {
            documents.push((name, file(name)?.1));
        }
        Ok(Self { report, documents })
    }
}

impl Cost {
    fn of(report: &Report) -> Self {
        let spending = &report.outcome.spending;
        Self {
            calls: spending.iter().map(|it| it.calls).sum(),
            input_tokens: spending.iter().map(|it| it.input_tokens).sum(),
            output_tokens: spending.iter().map(|it| it.output_tokens).sum(),
            dollars: spending.iter().map(|it| it.dollars).sum(),
            own_calls: report.outcome.own_spending.as_ref().map(|it| it.calls),
        }
    }
}

fn changed_moves(a: &Report, b: &Report) -> Vec<MoveChange> {
    let ranked = |it: &Report| -> BTreeMap<MoveId, Ranked> {
        it.ranking.all().map(|it| (it.move_id, it.clone())).collect()
    };
    let (left, right) = (ranked(a), ranked(b));
    let title = |id: MoveId| {
        let moves = b.outcome.moves.iter().chain(&a.outcome.moves);
        moves.into_iter().find(|it| it.move_id == id).map(|it| it.draft.title.clone())
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
