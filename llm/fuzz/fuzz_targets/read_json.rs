//! Fuzzes the parsing of replies, which must never panic or hang. Parsed values must be in range.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
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
    Branch(Vec<Tree>),
    Named(BTreeMap<String, Tree>),
}

fuzz_target!(|text: &str| {
    if let Ok(read) = llm::read_json::<Score>(text) {
        let Score { impact, confidence, level, ready, reasoning } = read.value;
        assert!((1..=10).contains(&impact) && (0.0..=1.0).contains(&confidence));
        let _ = (level, ready, reasoning);
    }
    let _ = llm::read_json::<Tree>(text);
    let _ = llm::read_json::<Vec<Level>>(text);
});
