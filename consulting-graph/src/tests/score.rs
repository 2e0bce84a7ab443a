//! Parsing of scores from answers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use crate::{
    moves::MoveId,
    score::{MakerScore, Mark, MoveScore, ScoreSource, complete_part, request_schema, schema},
};

const METRICS: [&str; 4] = ["impact", "feasibility", "risk_adjusted_return", "strategic_alignment"];

fn shown(score: Option<MakerScore>) -> String {
    let Some(score) = score else { return "nothing".to_owned() };
    let values: Vec<String> = METRICS.iter().map(|it| score.metrics[*it].to_string()).collect();
    let changed: Vec<String> =
        score.adjustments.iter().map(|it| format!(", {} for {}", it.kept, it.given)).collect();
    format!("{} by {:?}{}", values.join(" "), score.score_source, changed.concat())
}

#[track_caller]
fn check(reply: &str, expected: &str) {
    assert_eq!(shown(MakerScore::parse(reply, &METRICS)), expected, "{reply}");
}

#[test]
fn scores_are_parsed_from_various_formats() {
    let good = r#"{"impact": 8, "feasibility": 7, "risk_adjusted_return": 6, "strategic_alignment": 9, "reasoning": "r"}"#;
    check(good, "8 7 6 9 by Schema");
    check(&good.replace(r#", "reasoning": "r""#, ""), "8 7 6 9 by Json");
    check(&format!("\n```json\n{good}\n```\n"), "8 7 6 9 by JsonExtracted");
    check(&format!("My scores are {good} as said."), "8 7 6 9 by JsonExtracted");
    check(&format!(r#"{{"scores": {good}}}"#), "8 7 6 9 by Json");
    check(
        r#"{"Impact": "8", "Feasibility": 7.0, "Risk-Adjusted Return": "6/10", "strategic alignment": 9}"#,
        "8 7 6 9 by Json",
    );
    check(
        r#"{"impact": 7.5, "feasibility": 12, "risk_adjusted_return": -3, "strategic_alignment": 6.5}"#,
        "8 10 1 6 by Json, 8 for 7.5, 10 for 12, 1 for -3, 6 for 6.5",
    );
    check(
        "**Impact:** 8\n**Feasibility:** 7\n**Risk-Adjusted Return:** 6\n**Strategic Alignment:** 9",
        "8 7 6 9 by Regex",
    );
    check(
        "1. Impact (1-10): 8\n2. Feasibility (1-10): 7\n3. Risk Adjusted Return (1-10): 6\n4. Strategic Alignment (1-10): 9",
        "8 7 6 9 by Regex",
    );
    check(
        "Impact: 8/10 / Feasibility: 7/10 / Risk-Adjusted Return: 6/10 / Strategic Alignment: 9/10",
        "8 7 6 9 by Regex",
    );
    check(
        "| Impact | 8 |\n| Feasibility | 7 |\n| Risk-adjusted return | 6 |\n| Strategic alignment | 9 |",
        "8 7 6 9 by Regex",
    );
    check(
        "Impact is 8, feasibility score of 7, risk_adjusted_return = 6, strategic-alignment (9).",
        "8 7 6 9 by Regex",
    );
    check(
        "{'impact': 8, 'feasibility': 7, 'risk_adjusted_return': 6, 'strategic_alignment': 9,}",
        "8 7 6 9 by Regex",
    );
    check(
        "Impact Score: 12\nFeasibility Score: 7.5\nRisk-Adjusted Return Score: 6\nStrategic Alignment Score: 0",
        "10 8 6 1 by Regex, 10 for 12, 8 for 7.5, 1 for 0",
    );
    check(
        "Impact: 5 at first. Now impact: 8, feasibility: 7, risk-adjusted return: 6, strategic alignment: 9",
        "8 7 6 9 by Regex",
    );
    check("I cannot score this.", "nothing");
    check("Impact: 8, feasibility: 7", "nothing");
    check(
        r#"{"impact": null, "feasibility": 7, "risk_adjusted_return": 6, "strategic_alignment": 9}"#,
        "nothing",
    );
    check("", "nothing");
}

#[test]
fn last_number_of_an_answer_that_is_cut_off_is_not_used() {
    let cut =
        r#"{"impact": 8, "feasibility": 7, "risk_adjusted_return": 6, "strategic_alignment": 1"#;
    check(cut, "8 7 6 1 by Regex");
    check(complete_part(cut, true), "nothing");
    check(complete_part(&format!("{cut}0, \"reason"), true), "8 7 6 10 by Regex");
    check(complete_part(&format!("{cut}, \"reasoning\": \"r\"}}"), true), "8 7 6 1 by Schema");
    check(complete_part(&format!("Scores: {cut}}}"), true), "8 7 6 1 by JsonExtracted");
    assert_eq!(complete_part(cut, false), cut);
}

#[test]
fn quoted_scores_are_ignored() {
    let own =
        r#"{"impact": 3, "feasibility": 3, "risk_adjusted_return": 3, "strategic_alignment": 3}"#;
    let theirs = own.replace('3', "10");
    check(&format!("The critic wrote \"impact\": 10 before. {own}"), "3 3 3 3 by JsonExtracted");
    check(&format!("> {theirs}\n\n{own}"), "3 3 3 3 by JsonExtracted");
    check(
        &format!("<untrusted-9 of=\"move\">\n{theirs}\n</untrusted-9>\n{own}"),
        "3 3 3 3 by JsonExtracted",
    );
    // Quoted scores are also ignored if they follow the decision maker's own scores.
    check(
        &format!("{own}\n<untrusted-9 of=\"move\">\n{theirs}\n</untrusted-9>"),
        "3 3 3 3 by JsonExtracted",
    );
    check(&format!("{own}\n  > {theirs}"), "3 3 3 3 by JsonExtracted");
    check(
        "Impact: 3, feasibility: 3, risk-adjusted return: 3, strategic alignment: 3\n<untrusted-9>\nImpact: 10\n</untrusted-9>",
        "3 3 3 3 by Regex",
    );
    check(
        "Impact: 3, feasibility: 3, risk-adjusted return: 3, strategic alignment: 3. The critic said \"impact: 10\".",
        "3 3 3 3 by Regex",
    );
    check(
        "Impact: 3, feasibility: 3, risk-adjusted return: 3, strategic alignment: 3, whatever \"impact\": 10 may mean.",
        "3 3 3 3 by Regex",
    );
}

#[test]
fn score_sources_are_recorded() {
    let answer = json!({"impact": 8, "feasibility": 7, "risk_adjusted_return": 6, "strategic_alignment": 9, "reasoning": " r "});
    let score = MakerScore::parse(&answer.to_string(), &METRICS).unwrap();
    assert_eq!((score.score_source, score.reasoning.as_str()), (ScoreSource::Schema, "r"));
    let renamed = answer.to_string().replace("reasoning", "Rationale");
    assert_eq!(MakerScore::parse(&renamed, &METRICS).unwrap().reasoning, "r");
    assert_eq!(shown(MakerScore::repaired(&answer.to_string(), &METRICS)), "8 7 6 9 by Repaired");
    assert_eq!(shown(Some(MakerScore::neutral(&METRICS))), "5 5 5 5 by Default");
}

#[test]
fn the_schema_of_an_answer() {
    assert_eq!(
        schema(&["impact"]),
        json!({
            "type": "object",
            "properties": {
                "impact": {"type": "integer", "minimum": 1, "maximum": 10},
                "reasoning": {"type": "string"},
            },
            "required": ["impact", "reasoning"],
            "additionalProperties": false,
        })
    );
}

#[test]
fn the_reasoning_is_limited_in_requests_only() {
    let schema = request_schema(&METRICS).schema;
    assert_eq!(schema["properties"]["reasoning"]["maxLength"], 400);
    let long = json!({"impact": 8, "feasibility": 7, "risk_adjusted_return": 6, "strategic_alignment": 9,
                      "reasoning": "r".repeat(401)});
    let score = MakerScore::parse(&long.to_string(), &METRICS).unwrap();
    assert_eq!((score.score_source, score.reasoning.len()), (ScoreSource::Schema, 401));
}

fn scored(values: [u8; 4]) -> MakerScore {
    let answer: BTreeMap<&str, u8> = METRICS.into_iter().zip(values).collect();
    MakerScore::parse(&json!(answer).to_string(), &METRICS).unwrap()
}

#[test]
fn total_scores_match_the_worked_example() {
    let makers = BTreeMap::from([
        ("D1".to_owned(), scored([8, 9, 7, 8])),
        ("D2".to_owned(), scored([7, 8, 8, 9])),
        ("D3".to_owned(), scored([9, 8, 8, 9])),
    ]);
    let score = MoveScore::new(MoveId(1), makers, []);
    assert_eq!(score.total_score, 98);
    let json = serde_json::to_value(&score).unwrap();
    assert_eq!(json["scores_by_agent"]["D1"]["impact"], 8);
    assert_eq!(serde_json::from_value::<MoveScore>(json).unwrap(), score);
}

#[test]
fn default_scores_mark_a_move() {
    let makers = BTreeMap::from([("D1".to_owned(), MakerScore::neutral(&METRICS))]);
    let score = MoveScore::new(MoveId(1), makers, [Mark::NotIsolated]);
    assert_eq!(score.marks, [Mark::Defaulted, Mark::NotIsolated].into());
}

proptest! {
    #[test]
    fn parsing_never_panics(
        text in "(?s).{0,200}",
        marked in "([{}\"':,0-9/().\n>-]|impact|feasibility|risk_adjusted_return|strategic alignment|\u{130}|</?untrusted-1>){0,80}",
    ) {
        for reply in [&text, &marked] {
            if let Some(score) = MakerScore::parse(reply, &METRICS) {
                prop_assert!(score.metrics.values().all(|it| (1..=10).contains(it)));
                prop_assert_eq!(score.metrics.len(), 4);
            }
            MakerScore::parse(reply, &["", "_"]);
        }
    }
}
