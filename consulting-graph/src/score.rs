//! Scores: what the decision makers think of a move after the debate, and how each number came about.

mod read;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::moves::MoveId;

/// The lowest and the highest score of a metric.
pub const RANGE: std::ops::RangeInclusive<u8> = 1..=10;
/// What a metric gets when no score can be read.
pub const NEUTRAL: u8 = 5;

/// The JSON schema that a provider is to keep an answer to.
pub fn schema(metrics: &[&str]) -> Value {
    let score = json!({ "type": "integer", "minimum": RANGE.start(), "maximum": RANGE.end() });
    let mut properties: Map<String, Value> =
        metrics.iter().map(|it| ((*it).to_owned(), score.clone())).collect();
    properties.insert("reasoning".to_owned(), json!({ "type": "string" }));
    let required: Vec<&str> = metrics.iter().copied().chain(["reasoning"]).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The schema, as a request names it.
pub fn form(metrics: &[&str]) -> llm::Schema {
    llm::Schema { name: "Scores".to_owned(), schema: schema(metrics) }
}

/// One decision maker's scores of one move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakerScore {
    /// The scores, by metric.
    #[serde(flatten)]
    pub metrics: BTreeMap<String, u8>,
    /// Why, in the decision maker's words.
    pub reasoning: String,
    /// How the scores were read.
    pub score_source: ScoreSource,
    /// What had to be changed to make scores of them.
    pub adjustments: Vec<Adjustment>,
}

/// How scores were read from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreSource {
    /// The answer was JSON of the schema that was asked for.
    Schema,
    /// The answer was JSON and nothing else, and fits after some changes.
    Json,
    /// JSON stood somewhere in the answer.
    JsonExtracted,
    /// Labels and numbers stood in the answer.
    Regex,
    /// A second call put the answer right.
    Repaired,
    /// Nothing could be read; every score is neutral.
    Default,
}

/// A number that was changed when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjustment {
    /// The metric.
    pub metric: String,
    /// What was given.
    pub given: String,
    /// What was kept.
    pub kept: u8,
}

/// All scores of one move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveScore {
    /// The move.
    pub move_id: MoveId,
    /// The sum of all scores.
    pub total_score: u32,
    /// Each decision maker's scores, by id.
    pub scores_by_agent: BTreeMap<String, MakerScore>,
    /// What a reader must know about how they came about.
    pub marks: BTreeSet<Mark>,
}

/// Something a reader of a score must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Some scores are neutral because none could be read.
    Defaulted,
    /// The debate was shortened to fit a model's context.
    Truncated,
    /// The debate ended before its last round.
    Incomplete,
    /// The debate did not run in a sandbox.
    NotIsolated,
}

impl MakerScore {
    /// Reads scores from an answer in words: JSON, JSON within other text, or labels with numbers, in this order.
    ///
    /// None when not every metric can be found; then a model is asked to repair its answer.
    ///
    /// ```
    /// use consulting_graph::score::{MakerScore, ScoreSource};
    ///
    /// let score = MakerScore::parse("**Impact:** 8\n1. Feasibility (1-10): 6/10", &["impact", "feasibility"]).unwrap();
    /// assert_eq!(score.total(), 14);
    /// assert_eq!(score.score_source, ScoreSource::Regex);
    /// ```
    pub fn parse(reply: &str, metrics: &[&str]) -> Option<Self> {
        read::read(reply, metrics)
    }

    /// Reads scores from the answer to a call for repair.
    pub fn repaired(reply: &str, metrics: &[&str]) -> Option<Self> {
        read::read(reply, metrics).map(|it| Self { score_source: ScoreSource::Repaired, ..it })
    }

    /// Neutral scores, for when all else failed.
    pub fn neutral(metrics: &[&str]) -> Self {
        Self {
            metrics: metrics.iter().map(|it| ((*it).to_owned(), NEUTRAL)).collect(),
            reasoning: String::new(),
            score_source: ScoreSource::Default,
            adjustments: Vec::new(),
        }
    }

    /// The sum over the metrics.
    pub fn total(&self) -> u32 {
        self.metrics.values().copied().map(u32::from).sum()
    }
}

impl MoveScore {
    /// Adds up; what was defaulted is marked by itself.
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
