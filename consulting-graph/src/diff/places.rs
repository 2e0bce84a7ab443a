//! The places of a run at which something is said, in the order of the pipeline.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Divergence, Told, text::around_difference};
use crate::{
    finding::Inference,
    moves::MoveId,
    report::Outcome,
    score::{MakerScore, MoveScore},
    transcript::{CRITIC, Speaker},
};

/// A place. Their order is that of the pipeline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// The data, as they were computed: first the financial ones.
    Data(usize),
    /// A document of the first layer.
    Document(&'static str),
    Findings(Inference),
    Move(MoveId),
    Debate(MoveId, Moment),
}

/// A moment of a debate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// Somebody scores before it begins.
    Before(String),
    /// In each round the critic speaks to all, then all answer.
    Turn { round: u32, is_answer: bool, maker: String },
    /// Somebody scores after it.
    After(String),
}

/// The first place at which two runs say different things; a run that says nothing there has an empty text.
pub(super) fn first_difference(a: &Told, b: &Told) -> Option<Divergence> {
    let (left, right) = (places(a), places(b));
    let all: BTreeSet<&Place> = left.keys().chain(right.keys()).collect();
    let first = all.into_iter().find(|it| left.get(it) != right.get(it))?;
    let text = |side: &BTreeMap<Place, String>| side.get(first).cloned().unwrap_or_default();
    let texts = around_difference(&text(&left), &text(&right));
    Some(Divergence { place: first.to_string(), texts })
}

fn places(told: &Told) -> BTreeMap<Place, String> {
    let outcome = &told.report.outcome;
    let data = outcome.documents.iter().enumerate();
    let mut places: BTreeMap<Place, String> =
        data.map(|(n, text)| (Place::Data(n), text.clone())).collect();
    let documents = told.documents.iter();
    places.extend(documents.map(|(name, text)| (Place::Document(name), text.clone())));
    places.extend(outcome.findings.iter().map(|it| (Place::Findings(it.inference), it.markdown())));
    places.extend(outcome.moves.iter().map(|it| (Place::Move(it.move_id), it.markdown())));
    places.extend(scored(&outcome.baselines, Moment::Before));
    places.extend(turns(outcome));
    places.extend(scored(&outcome.scores, Moment::After));
    places
}

fn scored(scores: &[MoveScore], moment: fn(String) -> Moment) -> Vec<(Place, String)> {
    let of_move = |it: &MoveScore| {
        let id = it.move_id;
        let makers = it.scores_by_agent.iter();
        let of_maker =
            makers.map(|(who, score)| (Place::Debate(id, moment(who.clone())), shown(score)));
        of_maker.collect::<Vec<_>>()
    };
    scores.iter().flat_map(of_move).collect()
}

fn shown(score: &MakerScore) -> String {
    let metrics: Vec<String> =
        score.metrics.iter().map(|(name, score)| format!("{name} {score}")).collect();
    format!("{}: {}", metrics.join(", "), score.reasoning)
}

fn turns(outcome: &Outcome) -> Vec<(Place, String)> {
    let mut turns = Vec::new();
    for (id, logs) in &outcome.logs {
        for (name, log) in logs {
            for entry in log {
                let maker = match &entry.role {
                    Speaker::DecisionMaker(who) => who.clone(),
                    Speaker::Critic => listener(outcome, name),
                };
                let (round, is_answer) = (entry.round, entry.role != Speaker::Critic);
                let moment = Moment::Turn { round, is_answer, maker };
                turns.push((Place::Debate(*id, moment), entry.content.clone()));
            }
        }
    }
    turns
}

/// Whom the critic speaks to in a log: `i1` is the first decision maker's.
fn listener(outcome: &Outcome, log: &str) -> String {
    let number = log.strip_prefix('i').and_then(|it| it.parse::<usize>().ok());
    let maker = number.and_then(|it| outcome.decision_makers.get(it.checked_sub(1)?));
    maker.map_or(log, |it| &it.id).to_owned()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(0) => f.write_str("the financial data"),
            Self::Data(_) => f.write_str("the data on news and sentiment"),
            Self::Document(name) => f.write_str(name),
            Self::Findings(inference) => inference.fmt(f),
            Self::Move(id) => id.fmt(f),
            Self::Debate(id, moment) => match moment {
                Moment::Before(who) => write!(f, "{id} scores of {who} before the debate"),
                Moment::After(who) => write!(f, "{id} scores of {who}"),
                Moment::Turn { round, is_answer: true, maker } => {
                    write!(f, "{id}:r{round} {maker}")
                }
                // The opening is for everybody.
                Moment::Turn { round: 1, .. } => write!(f, "{id}:r1 {CRITIC}"),
                Moment::Turn { round, maker, .. } => write!(f, "{id}:r{round} {CRITIC} → {maker}"),
            },
        }
    }
}
