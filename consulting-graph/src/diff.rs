//! How two runs differ: what they were given, where they first came apart, what came of it, and what it cost.
//!
//! Two runs come apart once; everything after that place differs because of it. So the first place is named, in the
//! order of the pipeline, and of the rest only what it did to scores and ranks.

mod places;
mod settings;
mod text;

use std::{collections::BTreeMap, io, path::PathBuf};

use serde::Serialize;

use crate::{moves::MoveId, rank::Ranked, report::Report, run::Run};

pub(crate) use settings::changes;

/// How two runs differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDiff {
    /// The runs' ids.
    pub runs: Sides<String>,
    /// What they were given that differs, by its place in the configuration.
    pub settings: Vec<SettingChange>,
    /// Where they first came apart; nowhere if everything that was said is the same.
    pub first: Option<Divergence>,
    /// The moves whose score or rank differs, by their numbers.
    pub moves: Vec<MoveChange>,
    /// What they cost.
    pub cost: Sides<Cost>,
}

/// The same of both runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sides<T> {
    /// Of the first run.
    pub a: T,
    /// Of the second run.
    pub b: T,
}

/// A setting that differs; a side without it has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// Where it stands, like `models.D1.temperature`.
    pub path: String,
    /// What it is, in short.
    pub values: Sides<Option<String>>,
}

/// Where two runs came apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The place, like `m4:r5 critic → D1`.
    pub place: String,
    /// What stands there, around the first difference.
    pub texts: Sides<String>,
}

/// What became of a move. A side on which it has no score has no rank either.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MoveChange {
    /// The move.
    pub move_id: MoveId,
    /// Its title, in the second run if it is there.
    pub title: String,
    /// Its rank.
    pub rank: Sides<Option<usize>>,
    /// Its total score.
    pub score: Sides<Option<u32>>,
}

/// What a run cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Calls.
    pub calls: u64,
    /// Tokens that went in.
    pub input_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Dollars, where all prices are known.
    pub dollars: Option<f64>,
    /// Of the calls, those that a run made itself which branched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_calls: Option<u64>,
}

/// Why two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// A run has no report.
    #[error("{} is not there: the run has not come to its end; finish it with `consulting resume`", .0.display())]
    NoReport(PathBuf),
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A report is not one of this program's.
    #[error("{} is no report of this program: {problem}", path.display())]
    Report {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Compares two runs that came to their end.
pub fn diff(a: &Run, b: &Run) -> Result<RunDiff, DiffError> {
    let (left, right) = (Told::read(a)?, Told::read(b)?);
    let of = |it: &Told| it.report.outcome.run_id.clone();
    Ok(RunDiff {
        runs: Sides { a: of(&left), b: of(&right) },
        settings: settings::between(a, b),
        first: places::first_difference(&left, &right),
        moves: move_changes(&left.report, &right.report),
        cost: Sides { a: Cost::of(&left.report), b: Cost::of(&right.report) },
    })
}

impl RunDiff {
    /// Whether the runs were given the same and came to the same. What they cost may differ.
    pub fn is_same(&self) -> bool {
        self.settings.is_empty() && self.first.is_none() && self.moves.is_empty()
    }
}

/// All that was said in a run.
struct Told {
    report: Report,
    /// The documents of the first layer, by the names of their files.
    documents: Vec<(&'static str, String)>,
}

impl Told {
    fn read(run: &Run) -> Result<Self, DiffError> {
        let file = |name: &str| {
            let path = run.folder().join(name);
            match std::fs::read_to_string(&path) {
                Ok(text) => Ok((path, text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(DiffError::NoReport(path))
                }
                Err(source) => Err(DiffError::File { path, source }),
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

fn move_changes(a: &Report, b: &Report) -> Vec<MoveChange> {
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
