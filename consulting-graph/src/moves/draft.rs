//! Moves as an analyst writes them, without ids.

use llm::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    finding::{FindingId, find_citations},
    lenient_json::one_or_many,
    limited_schema::schema_with_limits,
};

/// An analyst's answer to a request for moves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MovesDraft {
    /// One low-risk, one medium-risk and one high-risk move.
    pub moves: Vec<MoveDraft>,
}

impl MovesDraft {
    /// Returns the schema of an answer with `n_moves` moves. Without limits, a small model repeats itself until the
    /// answer is cut off.
    pub(crate) fn schema(n_moves: u16) -> Schema {
        let limits = [
            ("/properties/moves", "maxItems", n_moves.into()),
            ("/$defs/MoveDraft/properties/title", "maxLength", 200),
            ("/$defs/MoveDraft/properties/reasoning", "maxItems", 8),
            ("/$defs/MoveDraft/properties/citations", "maxItems", 12),
            ("/$defs/MoveDraft/properties/steps", "maxItems", 8),
            ("/$defs/MoveDraft/properties/falsifiers", "maxItems", 6),
        ];
        schema_with_limits::<Self>(&limits)
    }
}

/// A proposed move, as written by an analyst.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MoveDraft {
    /// The proposal in one line.
    pub title: String,
    /// The risk of the move.
    pub risk_level: Risk,
    /// The business case, in two or three sentences.
    pub thesis: String,
    /// Why now is the right time.
    #[serde(default)]
    pub why_now: String,
    /// At least three paragraphs that lead from the findings to the move, with citations such as [F1-07].
    #[serde(default, deserialize_with = "one_or_many")]
    pub reasoning: Vec<String>,
    /// The findings that support the move: at least three, from both F1 and F2.
    #[serde(default, deserialize_with = "one_or_many")]
    pub citations: Vec<String>,
    /// The implementation steps, with owner and timeframe.
    #[serde(default, deserialize_with = "steps")]
    pub steps: Vec<Step>,
    /// Cost in money and people.
    #[serde(default)]
    pub cost: String,
    /// What can go wrong.
    #[serde(default)]
    pub downside: String,
    /// How the downside is limited.
    #[serde(default)]
    pub mitigation: String,
    /// Observations that would prove the move wrong.
    #[serde(default, deserialize_with = "one_or_many")]
    pub falsifiers: Vec<String>,
    /// The metric that shows whether the move works.
    #[serde(default)]
    pub kpi: String,
}

/// Risk of a move.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Low risk.
    #[serde(alias = "Low", alias = "LOW")]
    Low,
    /// Medium risk.
    #[default]
    #[serde(alias = "Medium", alias = "MEDIUM", alias = "moderate")]
    Medium,
    /// High risk.
    #[serde(alias = "High", alias = "HIGH")]
    High,
}

impl Risk {
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// An implementation step of a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The action.
    pub action: String,
    /// The person or team responsible.
    #[serde(default)]
    pub owner: String,
    /// When it should be complete.
    #[serde(default)]
    pub timeframe: String,
}

/// Deserializes steps that are objects or plain strings.
fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum StepInput {
        Full(Step),
        Text(String),
    }
    let step = |it| match it {
        StepInput::Full(step) => step,
        StepInput::Text(action) => Step { action, owner: String::new(), timeframe: String::new() },
    };
    Ok(one_or_many::<D, StepInput>(deserializer)?.into_iter().map(step).collect())
}

impl MoveDraft {
    /// Returns the ids of all findings that the move cites in its list of citations or in its text. The ids are sorted
    /// and unique. The findings do not necessarily exist.
    pub fn cited_findings(&self) -> Vec<FindingId> {
        let listed = self.citations.iter().filter_map(|it| FindingId::parse(it).ok());
        let prose = [&self.thesis, &self.why_now, &self.downside, &self.mitigation];
        let texts = prose.into_iter().chain(&self.reasoning).chain(&self.citations);
        let in_text = texts.flat_map(|it| find_citations(it)).filter_map(|(_, id)| id.ok());
        let mut ids: Vec<FindingId> = listed.chain(in_text).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}
