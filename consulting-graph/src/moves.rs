//! Moves: what the analysts propose the company to do.

mod check;
mod id;
mod markdown;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    answer::{self, one_or_many},
    data::Ticker,
    finding::{FindingId, cited},
};

pub use check::{MoveProblem, problems, similarity};
pub use id::{MoveId, MoveIdError};
pub use markdown::parse;

/// What an analyst answers when asked for moves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MovesDraft {
    /// One move of low, one of medium and one of high risk.
    pub moves: Vec<MoveDraft>,
}

/// A proposal, as an analyst writes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MoveDraft {
    /// What to do, in one line.
    pub title: String,
    /// How much could go wrong.
    pub risk_level: Risk,
    /// Why it pays, in two or three sentences.
    pub thesis: String,
    /// What makes this the time.
    #[serde(default)]
    pub why_now: String,
    /// At least three paragraphs that lead from the findings to the move, with citations like [F1-07].
    #[serde(default, deserialize_with = "one_or_many")]
    pub reasoning: Vec<String>,
    /// The findings it rests on, at least three, from both F1 and F2.
    #[serde(default, deserialize_with = "one_or_many")]
    pub citations: Vec<String>,
    /// What is done, by whom, until when.
    #[serde(default, deserialize_with = "steps")]
    pub steps: Vec<Step>,
    /// What it costs in money and people.
    #[serde(default)]
    pub cost: String,
    /// What can go wrong.
    #[serde(default)]
    pub downside: String,
    /// What is done against that.
    #[serde(default)]
    pub mitigation: String,
    /// What would show that the move is wrong.
    #[serde(default, deserialize_with = "one_or_many")]
    pub falsifiers: Vec<String>,
    /// What is measured to see whether it works.
    #[serde(default)]
    pub kpi: String,
}

/// How much could go wrong with a move.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Little.
    #[serde(alias = "Low", alias = "LOW")]
    Low,
    /// Some.
    #[default]
    #[serde(alias = "Medium", alias = "MEDIUM", alias = "moderate")]
    Medium,
    /// Much.
    #[serde(alias = "High", alias = "HIGH")]
    High,
}

/// A step of a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What is done.
    pub action: String,
    /// By whom.
    #[serde(default)]
    pub owner: String,
    /// Until when.
    #[serde(default)]
    pub timeframe: String,
}

/// Steps as they should be, or as mere texts.
fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Full(Step),
        Text(String),
    }
    let step = |it| match it {
        Form::Full(step) => step,
        Form::Text(action) => Step { action, owner: String::new(), timeframe: String::new() },
    };
    Ok(one_or_many::<D, Form>(deserializer)?.into_iter().map(step).collect())
}

/// Reads an analyst's answer: JSON as asked for, a bare list of moves, or markdown. It never fails; what is missing
/// shows in [`problems`].
pub fn read(answer: &str) -> Vec<MoveDraft> {
    let object = answer::json(answer, |it: &MovesDraft| !it.moves.is_empty()).map(|it| it.moves);
    let list = || answer::json(answer, |it: &Vec<MoveDraft>| !it.is_empty());
    object.or_else(list).unwrap_or_else(|| parse(answer))
}

/// A move with its number, on its way through the debate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Its number.
    pub move_id: MoveId,
    /// Whose it is, like `analyst_3`.
    pub agent_id: String,
    /// What that analyst is called.
    pub persona: String,
    /// The company.
    pub ticker: Ticker,
    /// The proposal.
    #[serde(flatten)]
    pub draft: MoveDraft,
}

/// A move that an analyst owed and did not deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingMove {
    /// The number it would have had.
    pub move_id: MoveId,
    /// Who owed it.
    pub agent_id: String,
}

/// The analyst whose moves are numbered.
#[derive(Debug, Clone, Copy)]
pub struct Author<'a> {
    /// The analyst's place among the analysts, from 1.
    pub number: u16,
    /// The analyst's id.
    pub agent_id: &'a str,
    /// The analyst's name.
    pub persona: &'a str,
}

/// Numbers an analyst's moves, those of low risk first, and names the ones that are missing. What is too much is left
/// out.
pub fn number(
    author: Author<'_>,
    ticker: &Ticker,
    per_analyst: u16,
    mut drafts: Vec<MoveDraft>,
) -> (Vec<Move>, Vec<MissingMove>) {
    drafts.sort_by_key(|it| it.risk_level);
    let mut drafts = drafts.into_iter();
    let (mut moves, mut missing) = (Vec::new(), Vec::new());
    for slot in 1..=per_analyst {
        let move_id = MoveId::of(author.number, slot, per_analyst);
        let agent_id = author.agent_id.to_owned();
        match drafts.next() {
            Some(draft) => {
                let persona = author.persona.to_owned();
                moves.push(Move { move_id, agent_id, persona, ticker: ticker.clone(), draft });
            }
            None => missing.push(MissingMove { move_id, agent_id }),
        }
    }
    (moves, missing)
}

impl MoveDraft {
    /// Every finding the move cites, in its list or in its text, known or not; each once, in order.
    pub fn cited(&self) -> Vec<FindingId> {
        let listed = self.citations.iter().filter_map(|it| FindingId::parse(it).ok());
        let prose = [&self.thesis, &self.why_now, &self.downside, &self.mitigation];
        let texts = prose.into_iter().chain(&self.reasoning).chain(&self.citations);
        let in_text = texts.flat_map(|it| cited(it)).filter_map(|(_, id)| id.ok());
        let mut ids: Vec<FindingId> = listed.chain(in_text).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl Move {
    /// The document `m7.md`.
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }
}
