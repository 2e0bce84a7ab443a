//! Fuzz target for replies from which a value is read: no text makes the parser panic, and values are in range.

use std::collections::BTreeMap;

use fuzz_testkit::Fuzzer;
use llm::{ParseMethod, read_json};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Score {
    #[schemars(range(min = 1, max = 10))]
    impact: u8,
    #[schemars(range(min = 0.0, max = 1.0))]
    confidence: f64,
    level: Level,
    ready: bool,
    reasoning: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
enum Level {
    Low,
    High,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only deserialized")]
enum Tree {
    Leaf(i64),
    Words(String),
    Branch(Vec<Self>),
    Named(BTreeMap<String, Self>),
}

const SEEDS: [&str; 5] = [
    r#"{"impact": 7, "confidence": 0.5, "level": "Low", "ready": true, "reasoning": "x"}"#,
    "Here it is:\n```json\n{\"impact\": \"7/10\", \"confidence\": \"50 %\", \"level\": \"high\", \"ready\": \"yes\"}\n```\nDone.",
    "**Impact**: 7\nConfidence: 0.5\nLevel: High\nReady: no\n",
    r#"<answer>{"score": {"impact": 7.0, "confidence": 1, "level": "Low", "ready": 1,}}</answer>"#,
    r#"[["Low", "High"], {"a": [1, "b", {"c": []}]}]"#,
];

const WORDS: [&str; 20] = [
    "impact", "confidence", "level", "ready", "reasoning", "{", "}", "[", "]", ":", ",", "\"",
    "```json\n", "```", "\\u", "Infinity", "1e400", "null", "/10", " %",
];

fn outcome<T: serde::de::DeserializeOwned + JsonSchema>(
    text: &str,
) -> Option<(ParseMethod, usize, T)> {
    let read = read_json::<T>(text).ok()?;
    Some((read.method, read.notes.len(), read.value))
}

fn target(input: &[u8]) -> impl std::hash::Hash + use<> {
    let text = String::from_utf8_lossy(input);
    let score = outcome::<Score>(&text).map(|(method, notes, score)| {
        let Score { impact, confidence, level, ready, reasoning } = score;
        assert!((1..=10).contains(&impact) && (0.0..=1.0).contains(&confidence), "{text}");
        (method, notes, matches!(level, Level::Low), ready, reasoning.is_some())
    });
    let tree = outcome::<Tree>(&text).map(|(method, notes, _)| (method, notes));
    let levels = outcome::<Vec<Level>>(&text);
    let levels = levels.map(|(method, notes, list)| (method, notes, list.len()));
    (score, tree, levels)
}

#[test]
fn replies_are_read_without_a_panic() {
    Fuzzer::new("replies").seeds(SEEDS).words(WORDS).run(target);
}
