//! Scores that decision makers give a move, and how each score was read from the answer of a model.

mod cut;
mod read;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::moves::MoveId;
pub(crate) use cut::complete_part;

/// Lowest and highest score for a metric.
pub(crate) const SCORE_RANGE: std::ops::RangeInclusive<u8> = 1..=10;
/// Score that is used for a metric if no score could be read.
pub(crate) const NEUTRAL_SCORE: u8 = 5;

/// Maximum length of the reasoning that is requested, in characters. Longer ones are read too.
const MAX_REASONING: usize = 400;

/// Returns the JSON schema for the answer to a scoring request.
pub fn schema(metrics: &[&str]) -> Value {
    let score =
        json!({ "type": "integer", "minimum": SCORE_RANGE.start(), "maximum": SCORE_RANGE.end() });
    let mut properties: Map<String, Value> =
        metrics.iter().map(|it| ((*it).to_owned(), score.clone())).collect();
    properties.insert("reasoning".to_owned(), json!({ "type": "string" }));
    let required: Vec<&str> = metrics.iter().copied().chain(["reasoning"]).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Returns the result of [`schema`] as a [`llm::Schema`], which can be added to a request. Limits the reasoning,
/// because scores that follow it are lost if a small model repeats itself until the answer is cut off.
pub(crate) fn request_schema(metrics: &[&str]) -> llm::Schema {
    let mut schema = schema(metrics);
    schema["properties"]["reasoning"]["maxLength"] = MAX_REASONING.into();
    llm::Schema { name: "Scores".to_owned(), schema }
}

/// One decision maker's scores for one move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakerScore {
    #[serde(flatten)]
    pub metrics: BTreeMap<String, u8>,
    /// The reasoning, in the decision maker's words.
    pub reasoning: String,
    pub score_source: ScoreSource,
    /// Values that were corrected when the answer was read.
    pub adjustments: Vec<Adjustment>,
}

/// How scores were obtained from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreSource {
    /// The answer was JSON that matched the requested schema.
    Schema,
    /// The answer was JSON that matched the schema only after corrections.
    Json,
    /// JSON was found inside other text.
    JsonExtracted,
    /// Labels followed by numbers were found in the text.
    Regex,
    /// The model repaired its answer in a second call.
    Repaired,
    /// No scores could be read, so all of them are neutral.
    Default,
}

/// A value that was corrected when an answer was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjustment {
    pub metric: String,
    pub given: String,
    /// The score that is used instead.
    pub kept: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveScore {
    pub move_id: MoveId,
    /// The sum of all scores.
    pub total_score: u32,
    /// The scores of each decision maker, by id.
    pub scores_by_agent: BTreeMap<String, MakerScore>,
    pub marks: BTreeSet<Mark>,
}

/// A caveat that readers of a score have to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Some scores could not be read and were replaced with neutral ones.
    Defaulted,
    /// The debate log was shortened to fit into a model's context.
    Truncated,
    /// The debate ended before its last round.
    Incomplete,
    /// The debate ran without an isolated sandbox.
    NotIsolated,
    /// A turn of the debate ended at the token limit of the model.
    CutOff,
}

impl MakerScore {
    /// Returns neutral scores, which are used if no scores could be read.
    pub fn neutral(metrics: &[&str]) -> Self {
        Self {
            metrics: metrics.iter().map(|it| ((*it).to_owned(), NEUTRAL_SCORE)).collect(),
            reasoning: String::new(),
            score_source: ScoreSource::Default,
            adjustments: Vec::new(),
        }
    }

    /// Returns the sum of the scores for all metrics.
    pub fn total(&self) -> u32 {
        self.metrics.values().copied().map(u32::from).sum()
    }
}

impl MoveScore {
    /// Creates the score of a move and computes its total. Adds [`Mark::Defaulted`] if no scores could be read for a
    /// decision maker.
    pub fn new(
        move_id: MoveId,
        scores_by_agent: BTreeMap<String, MakerScore>,
        marks: impl IntoIterator<Item = Mark>,
    ) -> Self {
        let total_score = scores_by_agent.values().map(MakerScore::total).sum();
        let mut marks: BTreeSet<Mark> = marks.into_iter().collect();
        if scores_by_agent.values().any(|it| it.score_source == ScoreSource::Default) {
            marks.insert(Mark::Defaulted);
        }
        Self { move_id, total_score, scores_by_agent, marks }
    }
}
