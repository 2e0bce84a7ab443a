//! Locations of a run's outputs, in the order of the pipeline.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{run_diff::Divergence, run_output::RunOutput};
use crate::{
    difference::around_difference,
    finding::Inference,
    moves::MoveId,
    report::Outcome,
    score::{MakerScore, MoveScore},
    transcript::{CRITIC, Speaker},
};

/// Location of an output. Locations are ordered as in the pipeline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Location {
    /// Company data. Index 0 is the financial data, and index 1 is the data on news and sentiment.
    Data(usize),
    /// A document of layer 0.
    Document(&'static str),
    Findings(Inference),
    Move(MoveId),
    Debate(MoveId, DebateMoment),
}

/// A point in a debate at which an output is produced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum DebateMoment {
    /// Baseline score of a decision maker.
    Before(String),
    /// A turn. In each round, the critic speaks to all decision makers before any of them answers.
    Turn { round: u32, is_answer: bool, maker: String },
    /// Score of a decision maker after the debate.
    After(String),
}

/// Returns the first location at which the outputs differ. If a run has no output at that location, its text is empty.
pub(super) fn first_difference(a: &RunOutput, b: &RunOutput) -> Option<Divergence> {
    let (left, right) = (outputs(a), outputs(b));
    let all: BTreeSet<&Location> = left.keys().chain(right.keys()).collect();
    let first = all.into_iter().find(|it| left.get(it) != right.get(it))?;
    let text = |side: &BTreeMap<Location, String>| side.get(first).cloned().unwrap_or_default();
    let texts = around_difference(&text(&left), &text(&right));
    Some(Divergence { place: first.to_string(), texts })
}

fn outputs(run: &RunOutput) -> BTreeMap<Location, String> {
    let outcome = &run.report.outcome;
    let data = outcome.documents.iter().enumerate();
    let mut outputs: BTreeMap<Location, String> =
        data.map(|(n, text)| (Location::Data(n), text.clone())).collect();
    let documents = run.documents.iter();
    outputs.extend(documents.map(|(name, text)| (Location::Document(name), text.clone())));
    outputs.extend(
        outcome.findings.iter().map(|it| (Location::Findings(it.inference), it.markdown())),
    );
    outputs.extend(outcome.moves.iter().map(|it| (Location::Move(it.move_id), it.markdown())));
    outputs.extend(score_outputs(&outcome.baselines, DebateMoment::Before));
    outputs.extend(turn_outputs(outcome));
    outputs.extend(score_outputs(&outcome.scores, DebateMoment::After));
    outputs
}

fn score_outputs(
    scores: &[MoveScore],
    moment: fn(String) -> DebateMoment,
) -> Vec<(Location, String)> {
    let of_move = |it: &MoveScore| {
        let id = it.move_id;
        let makers = it.scores_by_agent.iter();
        let of_maker = makers
            .map(|(who, score)| (Location::Debate(id, moment(who.clone())), score_text(score)));
        of_maker.collect::<Vec<_>>()
    };
    scores.iter().flat_map(of_move).collect()
}

fn score_text(score: &MakerScore) -> String {
    let metrics: Vec<String> =
        score.metrics.iter().map(|(name, score)| format!("{name} {score}")).collect();
    format!("{}: {}", metrics.join(", "), score.reasoning)
}

fn turn_outputs(outcome: &Outcome) -> Vec<(Location, String)> {
    let mut turns = Vec::new();
    for (id, logs) in &outcome.logs {
        for (name, log) in logs {
            for entry in log {
                let maker = match &entry.role {
                    Speaker::DecisionMaker(who) => who.clone(),
                    Speaker::Critic => addressee(outcome, name),
                };
                let (round, is_answer) = (entry.round, entry.role != Speaker::Critic);
                let moment = DebateMoment::Turn { round, is_answer, maker };
                turns.push((Location::Debate(*id, moment), entry.content.clone()));
            }
        }
    }
    turns
}

/// Returns the decision maker that the critic addresses in a log. The log `i1` belongs to the first decision maker.
fn addressee(outcome: &Outcome, log: &str) -> String {
    let number = log.strip_prefix('i').and_then(|it| it.parse::<usize>().ok());
    let maker = number.and_then(|it| outcome.decision_makers.get(it.checked_sub(1)?));
    maker.map_or(log, |it| &it.id).to_owned()
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(0) => f.write_str("the financial data"),
            Self::Data(_) => f.write_str("the data on news and sentiment"),
            Self::Document(name) => f.write_str(name),
            Self::Findings(inference) => inference.fmt(f),
            Self::Move(id) => id.fmt(f),
            Self::Debate(id, moment) => match moment {
                DebateMoment::Before(who) => write!(f, "{id} scores of {who} before the debate"),
                DebateMoment::After(who) => write!(f, "{id} scores of {who}"),
                DebateMoment::Turn { round, is_answer: true, maker } => {
                    write!(f, "{id}:r{round} {maker}")
                }
                // The opening addresses all decision makers.
                DebateMoment::Turn { round: 1, .. } => write!(f, "{id}:r1 {CRITIC}"),
                DebateMoment::Turn { round, maker, .. } => {
                    write!(f, "{id}:r{round} {CRITIC} → {maker}")
                }
            },
        }
    }
}
