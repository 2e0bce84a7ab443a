//! Reads scores from the answer of a decision maker.
//!
//! [`llm::read_json_as`] handles the different formats. An answer may quote scores that the decision maker did not
//! give, for example from the critic or from instructions injected into a move, so quotations are removed first.

use llm::{ParseMethod, Parsed, Schema, read_json_as};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Adjustment, MakerScore, ScoreSource};
use crate::fence;

/// Field names accepted for the reasoning.
const REASONING_FIELDS: [&str; 3] = ["reasoning", "rationale", "justification"];

impl MakerScore {
    /// Reads scores from an answer: JSON, JSON inside other text, or labels followed by numbers, in this order.
    ///
    /// Returns `None` if a metric is missing; the caller then asks the model to repair its answer.
    ///
    /// ```
    /// use consulting_graph::score::{MakerScore, ScoreSource};
    ///
    /// let score = MakerScore::parse("**Impact:** 8\n1. Feasibility (1-10): 6/10", &["impact", "feasibility"]).unwrap();
    /// assert_eq!(score.total(), 14);
    /// assert_eq!(score.score_source, ScoreSource::Regex);
    /// ```
    pub fn parse(reply: &str, metrics: &[&str]) -> Option<Self> {
        let own = without_quotations(reply);
        let read = read_json_as(&lenient_schema(metrics), &own).ok()?;
        let is_quoting = own.trim() != reply.trim();
        let mut score =
            Self { score_source: score_source(&read, is_quoting), ..Self::neutral(&[]) };
        for metric in metrics {
            let value = read.value.get(*metric)?.as_u64()?;
            score.metrics.insert((*metric).to_owned(), u8::try_from(value).ok()?);
            let adjusted = read.adjustments.iter().filter(|it| it.path == *metric);
            score.adjustments.extend(adjusted.filter_map(adjustment));
        }
        let reasons = REASONING_FIELDS.iter().filter_map(|it| read.value.get(*it)?.as_str());
        score.reasoning =
            reasons.map(str::trim).find(|it| !it.is_empty()).unwrap_or_default().to_owned();
        Some(score)
    }

    /// Reads scores from a repaired answer.
    pub fn repaired(reply: &str, metrics: &[&str]) -> Option<Self> {
        Self::parse(reply, metrics).map(|it| Self { score_source: ScoreSource::Repaired, ..it })
    }
}

/// Returns the schema with which answers are read. The reasoning is optional, because scores are valid without it, and
/// may have any of the names in [`REASONING_FIELDS`].
fn lenient_schema(metrics: &[&str]) -> Schema {
    let mut schema = Schema { name: "Scores".to_owned(), schema: super::schema(metrics) };
    schema.schema["required"] = metrics.into();
    for name in REASONING_FIELDS.iter().filter(|it| !metrics.contains(it)) {
        schema.schema["properties"][*name] = serde_json::json!({ "type": "string" });
    }
    schema
}

fn score_source(read: &Parsed<Value>, is_quoting: bool) -> ScoreSource {
    match read.method {
        ParseMethod::Schema | ParseMethod::Json if is_quoting => ScoreSource::JsonExtracted,
        // The schema in the request requires the reasoning under the first of the accepted names.
        ParseMethod::Schema if read.value.get(REASONING_FIELDS[0]).is_some() => ScoreSource::Schema,
        ParseMethod::Schema | ParseMethod::Json => ScoreSource::Json,
        ParseMethod::JsonExtracted => ScoreSource::JsonExtracted,
        ParseMethod::Labels => ScoreSource::Regex,
        ParseMethod::Repaired => ScoreSource::Repaired,
        ParseMethod::Default => ScoreSource::Default,
    }
}

fn adjustment(it: &llm::Adjustment) -> Option<Adjustment> {
    let original = it.original.as_str().map_or_else(|| it.original.to_string(), str::to_owned);
    let kept = u8::try_from(it.adjusted.as_u64()?).ok()?;
    Some(Adjustment { metric: it.path.clone(), given: original.trim().to_owned(), kept })
}

/// Removes quotations, which are fenced text and lines that start with `>`. An answer that is valid JSON is returned
/// unchanged.
fn without_quotations(reply: &str) -> String {
    if serde_json::from_str::<IgnoredAny>(reply.trim()).is_ok() {
        return reply.to_owned();
    }
    let unfenced = fence::strip_fenced(reply);
    unfenced.lines().filter(|it| !it.trim_start().starts_with('>')).collect::<Vec<_>>().join("\n")
}
