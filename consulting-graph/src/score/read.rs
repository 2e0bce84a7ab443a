//! From what a decision maker answered to scores.
//!
//! [`llm::read_json_as`] reads them, however they are dressed. What is special here is whose words count: an answer may
//! quote scores that are not its own, the critic's or what someone hid in a move, so quotations are taken out first.

use llm::{Adjusted, Reading, Rung, Schema, read_json_as};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Adjustment, MakerScore, ScoreSource, form};
use crate::fence;

/// What the reasons may be called.
const REASONS: [&str; 3] = ["reasoning", "rationale", "justification"];

pub(super) fn read(reply: &str, metrics: &[&str]) -> Option<MakerScore> {
    let own = own_words(reply);
    let read = read_json_as(&lenient(metrics), &own).ok()?;
    let is_quoting = own.trim() != reply.trim();
    let mut score =
        MakerScore { score_source: source(&read, is_quoting), ..MakerScore::neutral(&[]) };
    for metric in metrics {
        let value = read.value.get(*metric)?.as_u64()?;
        score.metrics.insert((*metric).to_owned(), u8::try_from(value).ok()?);
        let adjusted = read.adjusted.iter().filter(|it| it.place == *metric);
        score.adjustments.extend(adjusted.filter_map(adjustment));
    }
    let reasons = REASONS.iter().filter_map(|it| read.value.get(*it)?.as_str());
    score.reasoning =
        reasons.map(str::trim).find(|it| !it.is_empty()).unwrap_or_default().to_owned();
    Some(score)
}

/// The form of an answer, with reasons under any of their names or none: scores count without them.
fn lenient(metrics: &[&str]) -> Schema {
    let mut form = form(metrics);
    form.schema["required"] = metrics.into();
    for name in REASONS.iter().filter(|it| !metrics.contains(it)) {
        form.schema["properties"][*name] = serde_json::json!({ "type": "string" });
    }
    form
}

fn source(read: &Reading<Value>, is_quoting: bool) -> ScoreSource {
    match read.rung {
        Rung::Schema | Rung::Json if is_quoting => ScoreSource::JsonExtracted,
        // Reasons were asked for.
        Rung::Schema if read.value.get(REASONS[0]).is_some() => ScoreSource::Schema,
        Rung::Schema | Rung::Json => ScoreSource::Json,
        Rung::JsonExtracted => ScoreSource::JsonExtracted,
        Rung::Labels => ScoreSource::Regex,
        Rung::Repaired => ScoreSource::Repaired,
        Rung::Default => ScoreSource::Default,
    }
}

fn adjustment(it: &Adjusted) -> Option<Adjustment> {
    let given = it.given.as_str().map_or_else(|| it.given.to_string(), str::to_owned);
    let kept = u8::try_from(it.kept.as_u64()?).ok()?;
    Some(Adjustment { metric: it.place.clone(), given: given.trim().to_owned(), kept })
}

/// The answer without what it quotes: fenced text and lines that start with `>`. JSON quotes nothing.
fn own_words(reply: &str) -> String {
    if serde_json::from_str::<IgnoredAny>(reply.trim()).is_ok() {
        return reply.to_owned();
    }
    let unfenced = fence::without_fenced(reply);
    unfenced.lines().filter(|it| !it.trim_start().starts_with('>')).collect::<Vec<_>>().join("\n")
}
