//! From what a model answered to scores.
//!
//! A model may quote scores that are not its own: the critic's, or what someone hid in a move. So quoted lines and
//! fenced text are taken out first, numbers in quotation marks do not count, and JSON only counts with all metrics in it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Adjustment, MakerScore, RANGE, ScoreSource};
use crate::fence;

/// No answer is read further than this.
const LONGEST: usize = 100_000;

pub(super) fn parse(reply: &str, metrics: &[&str]) -> Option<MakerScore> {
    let cut = reply.char_indices().nth(LONGEST).map_or(reply.len(), |it| it.0);
    let reply = &reply[..cut];
    if let Ok(value) = serde_json::from_str::<Value>(reply.trim())
        && let Some(score) = from_value(&value, metrics, ScoreSource::Json)
    {
        return Some(score);
    }
    let own = own_words(reply);
    extracted(&own, metrics).or_else(|| labelled(&own, metrics))
}

pub(super) fn from_value(
    value: &Value,
    metrics: &[&str],
    source: ScoreSource,
) -> Option<MakerScore> {
    let object = with_all(value.as_object()?, metrics)?;
    let mut score = MakerScore { score_source: source, ..MakerScore::neutral(&[]) };
    for metric in metrics {
        score.set(metric, &shown(find(object, metric)?))?;
    }
    let reasoning = ["reasoning", "rationale", "justification"]
        .iter()
        .find_map(|it| find(object, it)?.as_str());
    score.reasoning = reasoning.unwrap_or_default().trim().to_owned();
    Some(score)
}

/// The object that holds all metrics: the given one, or one directly within it.
fn with_all<'a>(
    object: &'a Map<String, Value>,
    metrics: &[&str],
) -> Option<&'a Map<String, Value>> {
    let has_all = |it: &Map<String, Value>| metrics.iter().all(|metric| find(it, metric).is_some());
    if has_all(object) {
        return Some(object);
    }
    object.values().filter_map(Value::as_object).find(|it| has_all(it))
}

/// A field by name, whatever its capitals, blanks and hyphens.
fn find<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let letters = |it: &str| -> String {
        it.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    object
        .get(name)
        .or_else(|| object.iter().find(|(key, _)| letters(key) == letters(name)).map(|it| it.1))
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl MakerScore {
    /// Takes a score as it was given: `8`, `8.0`, `8/10`; what is not whole or out of range is put right and noted.
    fn set(&mut self, metric: &str, given: &str) -> Option<()> {
        let number = given.trim().trim_end_matches("out of 10").trim_end_matches("/10").trim();
        let value: f64 = number.parse().ok().filter(|it: &f64| it.is_finite())?;
        let whole =
            value.round_ties_even().clamp(f64::from(*RANGE.start()), f64::from(*RANGE.end()));
        let kept = whole as u8;
        if whole != value {
            let given = given.trim().to_owned();
            self.adjustments.push(Adjustment { metric: metric.to_owned(), given, kept });
        }
        self.metrics.insert(metric.to_owned(), kept);
        Some(())
    }
}

/// The answer without what it quotes: fenced text and lines that start with `>`.
fn own_words(reply: &str) -> String {
    let unfenced = fence::without_fenced(reply);
    unfenced.lines().filter(|it| !it.trim_start().starts_with('>')).collect::<Vec<_>>().join("\n")
}

/// The first JSON object in the text that has all metrics.
fn extracted(text: &str, metrics: &[&str]) -> Option<MakerScore> {
    text.match_indices('{').find_map(|(at, _)| {
        let value =
            serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok()?;
        from_value(&value, metrics, ScoreSource::JsonExtracted)
    })
}

/// Labels with numbers behind them; the last number of a label counts.
fn labelled(text: &str, metrics: &[&str]) -> Option<MakerScore> {
    let text = without_quoted_numbers(&text.to_lowercase());
    let mut score = MakerScore { score_source: ScoreSource::Regex, ..MakerScore::neutral(&[]) };
    for metric in metrics {
        // A label in quotation marks may belong to somebody else's JSON; it counts where there is no other.
        let found: BTreeMap<bool, String> = labels(&text, metric).into_iter().collect();
        let given = found.get(&false).or_else(|| found.get(&true))?;
        score.set(metric, given)?;
    }
    Some(score)
}

/// All numbers behind a label, with whether the label stands in quotation marks.
fn labels(text: &str, metric: &str) -> Vec<(bool, String)> {
    let words: Vec<String> = metric.split('_').map(str::to_lowercase).collect();
    let Some(first) = words.first().filter(|it| !it.is_empty()) else { return Vec::new() };
    text.match_indices(first.as_str())
        .filter(|(at, _)| !text[..*at].ends_with(char::is_alphanumeric))
        .filter_map(|(at, _)| {
            let rest = after_words(&text[at..], &words)?;
            Some((text[..at].ends_with(['"', '\'', '\u{201c}']), number_behind(rest)?))
        })
        .collect()
}

fn after_words<'a>(mut text: &'a str, words: &[String]) -> Option<&'a str> {
    for word in words {
        text = text
            .trim_start_matches([' ', '-', '_', '\u{2010}', '\u{2011}'])
            .strip_prefix(word.as_str())?;
    }
    (!text.starts_with(char::is_alphanumeric)).then_some(text)
}

/// The number behind a label: past marks, words like `score` and brackets like `(1-10)`.
fn number_behind(mut text: &str) -> Option<String> {
    let marks =
        |it: char| it.is_whitespace() || "*_\"'`:=-\u{2013}\u{2014}>|,\u{201d}".contains(it);
    for _ in 0..6 {
        text = text.trim_start_matches(marks);
        if text.starts_with(|it: char| it.is_ascii_digit()) {
            let end = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
            return Some(text[..end].trim_end_matches('.').to_owned());
        }
        let bracket = text.strip_prefix(['(', '[']).and_then(|it| it.split_once([')', ']']));
        if let Some((inside, rest)) = bracket {
            let inner = inside.trim().trim_end_matches("/10");
            if inner.parse::<f64>().is_ok() {
                return Some(inner.to_owned());
            }
            text = rest;
            continue;
        }
        text = ["score", "rating", "is", "of", "gets", "at", "a"].iter().find_map(|it| {
            text.strip_prefix(it).filter(|rest| !rest.starts_with(char::is_alphanumeric))
        })?;
    }
    None
}

/// Blanks out quotations that hold digits: somebody else's numbers.
fn without_quoted_numbers(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let parts: Vec<&str> = line.split(['"', '\u{201c}', '\u{201d}']).collect();
        for (idx, part) in parts.iter().enumerate() {
            let quoted = idx % 2 == 1 && idx + 1 < parts.len();
            if idx > 0 {
                kept.push('"');
            }
            if !(quoted && part.contains(|it: char| it.is_ascii_digit())) {
                kept.push_str(part);
            }
        }
        kept.push('\n');
    }
    kept
}
