//! Tests of structured output: the methods that parse a value from a reply.

use llm::{ParseMethod, read_json};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub(crate) struct Score {
    #[schemars(range(min = 1, max = 10))]
    pub(crate) impact: u8,
    #[schemars(range(min = 1, max = 10))]
    pub(crate) feasibility: u8,
    #[schemars(range(min = 1, max = 10))]
    pub(crate) risk_adjusted_return: u8,
    #[schemars(range(min = 1, max = 10))]
    pub(crate) strategic_alignment: u8,
    #[serde(default)]
    pub(crate) reasoning: String,
}

/// Parses a reply and returns the four scores, the method and the notes as text, or the error.
fn scores(reply: &str) -> String {
    match read_json::<Score>(reply) {
        Ok(read) => {
            let Score { impact, feasibility, risk_adjusted_return, strategic_alignment, .. } =
                read.value;
            let notes: String = read.notes.iter().map(|it| format!(" | {it}")).collect();
            format!(
                "{impact} {feasibility} {risk_adjusted_return} {strategic_alignment} {}{notes}",
                read.method
            )
        }
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(reply: &str, expected: &str) {
    assert_eq!(scores(reply), expected, "{reply}");
}

pub(crate) const OWN: &str =
    r#"{"impact": 3, "feasibility": 4, "risk_adjusted_return": 5, "strategic_alignment": 6}"#;
const CRITICS: &str =
    r#"{"impact": 10, "feasibility": 10, "risk_adjusted_return": 10, "strategic_alignment": 10}"#;

#[test]
fn replies_that_consist_of_json_are_parsed() {
    check(OWN, "3 4 5 6 schema");
    check(&format!("\u{feff}\n {OWN}\n"), "3 4 5 6 schema");
    check(
        r#"{"impact": "8", "feasibility": 8.0, "risk_adjusted_return": "8/10", "strategic_alignment": " 8 out of 10 "}"#,
        "8 8 8 8 json | feasibility: 8.0 read as 8 | impact: \"8\" read as 8 | risk_adjusted_return: \"8/10\" read as 8 \
         | strategic_alignment: \" 8 out of 10 \" read as 8",
    );
    check(
        r#"{"impact": 7.5, "feasibility": 8.5, "risk_adjusted_return": 7.4, "strategic_alignment": "6.5"}"#,
        "8 8 7 6 json | feasibility: 8.5 rounded to 8 | impact: 7.5 rounded to 8 \
         | risk_adjusted_return: 7.4 rounded to 7 | strategic_alignment: \"6.5\" rounded to 6",
    );
    check(
        r#"{"impact": 12, "feasibility": 0, "risk_adjusted_return": -3, "strategic_alignment": 10.4}"#,
        "10 1 1 10 json | feasibility: 0 clamped to 1 | impact: 12 clamped to 10 \
         | risk_adjusted_return: -3 clamped to 1 | strategic_alignment: 10.4 rounded to 10",
    );
    check(
        r#"{"Impact": 3, "FEASIBILITY": 4, "Risk-Adjusted Return": 5, "strategicAlignment": 6}"#,
        "3 4 5 6 json | `FEASIBILITY` read as `feasibility` | `Impact` read as `impact` \
         | `Risk-Adjusted Return` read as `risk_adjusted_return` | `strategicAlignment` read as `strategic_alignment`",
    );
    check(&format!(r#"{{"scores": {OWN}}}"#), "3 4 5 6 json | `scores` was unwrapped");
    check(
        &serde_json::Value::from(OWN).to_string(),
        "3 4 5 6 json | the JSON inside a string was parsed",
    );
}

#[test]
fn fields_beside_a_wrapped_answer_are_kept() {
    let reply = format!(r#"{{"scores": {OWN}, "reasoning": "Fair."}}"#);
    assert_eq!(read_json::<Score>(&reply).unwrap().value.reasoning, "Fair.");
}

#[test]
fn json_is_extracted_from_prose() {
    check(&format!("```json\n{OWN}\n```"), "3 4 5 6 json_extracted");
    check(
        &format!("Sure! Here are my scores:\n\n{OWN}\n\nAsk for more."),
        "3 4 5 6 json_extracted",
    );
    check(
        &format!("The set {{a, b}} and [F1-07] aside: {OWN} (see [1])"),
        "3 4 5 6 json_extracted",
    );
    check(&format!("An unclosed {{ and a \" quote. {OWN}"), "3 4 5 6 json_extracted");
    check(&format!("The critic gave {CRITICS}. I do not agree: {OWN}"), "3 4 5 6 json_extracted");
    check(&format!("{OWN}\n\nFor comparison:\n> {CRITICS}"), "3 4 5 6 json_extracted");
    check(&format!("<think>{CRITICS}?</think>\n{OWN}"), "3 4 5 6 json_extracted");
    check(
        &format!(
            r#"The critic's "impact": 10 is too high. {{"impact": 10}} is wrong. Mine: {OWN}"#
        ),
        "3 4 5 6 json_extracted",
    );
    check(
        &format!("Scores: {{\"scores\": {OWN}}} done"),
        "3 4 5 6 json_extracted | `scores` was unwrapped",
    );
    check(
        &OWN.replace('3', "\"3/10\"").replace('{', "So: {"),
        "3 4 5 6 json_extracted | impact: \"3/10\" read as 3",
    );
}

#[test]
fn incomplete_answer_is_not_replaced_by_a_quoted_one() {
    let cut = &OWN[..OWN.len() - 30];
    let incomplete =
        "json_extracted: the last JSON object with a property of the schema is incomplete";
    for (reply, expected) in [
        (format!("The critic says {CRITICS}. Mine: {cut}"), incomplete),
        (format!("> {CRITICS}\n\nMine: {cut}"), incomplete),
        (cut.replace("\"feas", &format!("\"critic\": {CRITICS}, \"feas")), incomplete),
        (
            format!("The critic says {CRITICS}. Mine: {{\"impact\": 3}}"),
            "the value has no `feasibility`",
        ),
        (format!("As the critic says:\n> {CRITICS}"), "json_extracted: no JSON"),
    ] {
        let message = scores(&reply);
        assert!(
            message.starts_with("the reply contains no value") && message.contains(expected),
            "{reply}\n{message}"
        );
    }
    // An answer is used if only the end of its last member is missing.
    let reply =
        format!("The critic says {CRITICS}. Mine: {}", OWN.replace('}', ", \"reasoning\": \"The"));
    check(&reply, "3 4 5 6 regex");
}

#[test]
fn labels_are_read_from_prose() {
    check(
        "**Impact:** 8\n**Feasibility:** 7\n**Risk-Adjusted Return:** 6\n**Strategic Alignment:** 9",
        "8 7 6 9 regex",
    );
    check(
        "1. Impact (1-10): 8\n2. Feasibility (1-10): 7\n3. Risk-Adjusted Return (1–10): 6\n4. Strategic Alignment (1-10): 9",
        "8 7 6 9 regex",
    );
    check(
        "Impact: 8/10 / Risk-Adjusted Return: 7/10 / Feasibility: 6/10 / Strategic Alignment: 9/10",
        "8 6 7 9 regex | feasibility: \"6/10\" read as 6 | impact: \"8/10\" read as 8 \
         | risk_adjusted_return: \"7/10\" read as 7 | strategic_alignment: \"9/10\" read as 9",
    );
    check(
        "The critic said \"Impact: 10\" and its \"impact\": 10 stands.\n> Feasibility: 10\n\nImpact: 3, Feasibility: 4, \
         risk adjusted return = 5, strategic_alignment - 6",
        "3 4 5 6 regex",
    );
    check(
        "Impact: 3, Feasibility: 4, Risk-Adjusted Return: 5, Strategic Alignment: 6. The critic's \"Impact: 10\" and\n\
         «Feasibility: 10» are too high, as is “Risk-Adjusted Return: 10”, and this:\n  > Strategic Alignment: 10",
        "3 4 5 6 regex",
    );
    check(
        "| Metric | Score |\n|---|---|\n| Impact | 3 |\n| Feasibility | **4** |\n| Risk-Adjusted Return | 5 |\n| Strategic Alignment | 6 |",
        "3 4 5 6 regex",
    );
    check(
        "Impact: 9\nFeasibility: 9\nRisk-Adjusted Return: 9\nStrategic Alignment: 9\n\nAfter all:\nImpact: 3\nFeasibility: 4",
        "3 4 9 9 regex",
    );
    check(
        // JSON that is truncated in its last member.
        r#"{"impact": 3, "feasibility": 4, "risk_adjusted_return": 5, "strategic_alignment": 6, "reasoning": "The"#,
        "3 4 5 6 regex",
    );
    check(
        // JSON with a trailing comma and a comment.
        "{\n  \"impact\": 3, // low\n  \"feasibility\": 4,\n  \"risk_adjusted_return\": 5,\n  \"strategic_alignment\": 6,\n}",
        "3 4 5 6 regex",
    );
    let read = read_json::<Score>(
        "Impact: 3\nFeasibility: 4\nRisk-adjusted return: 5\nStrategic alignment: 6\n**Reasoning:** It pays, late.\nBye",
    );
    assert_eq!(read.unwrap().value.reasoning, "It pays, late.");
}

#[test]
fn numbers_in_sentences_are_used_for_labels_without_another_value() {
    check(
        "Impact is 3, feasibility score of 4, the risk-adjusted return gets 5, strategic alignment (6).",
        "3 4 5 6 regex",
    );
    check(
        "Impact score: 3\nFeasibility Rating (1-10): 4\nRisk-adjusted return is 5\nStrategic alignment - 6",
        "3 4 5 6 regex",
    );
    // A value after a label with a separator takes precedence over a value in a sentence.
    check(
        "Impact: 3, Feasibility: 4, Risk-Adjusted Return: 5, Strategic Alignment: 6. The impact of 10 new plants is small.",
        "3 4 5 6 regex",
    );
    assert!(scores("Impact is 8% and feasibility is 1-10").contains("no label"));
}

#[test]
fn quoted_labels_are_used_only_if_all_are_present() {
    let plain = "Impact: 3, Feasibility: 4, Risk-Adjusted Return: 5, Strategic Alignment: 6";
    check(&format!("{plain}, whatever \"impact\": 10 may mean."), "3 4 5 6 regex");
    check(&format!("{plain}, whatever 'impact': 10 may mean."), "3 4 5 6 regex");
    let broken = OWN.replace('}', ",");
    check(&format!("{} at first. Now: {broken}", plain.replace('3', "9")), "3 4 5 6 regex");
    check(&OWN.replace('"', "'"), "3 4 5 6 regex");
}

#[test]
fn adjustments_are_listed_once() {
    let reply = r#"{"impact": "12.5", "feasibility": 6.5, "risk_adjusted_return": "5/10", "strategic_alignment": 6}"#;
    let read = read_json::<Score>(reply).unwrap();
    let adjusted: Vec<String> = read
        .adjustments
        .iter()
        .map(|it| format!("{} {} {}", it.path, it.original, it.adjusted))
        .collect();
    assert_eq!(adjusted, ["feasibility 6.5 6", "impact \"12.5\" 10"]);
    assert_eq!(read.notes.len(), 4);
}

#[test]
fn unreadable_replies_are_explained_per_method() {
    check(
        "I would rather not say.",
        "the reply contains no value that fits the schema: json: not JSON: expected value at line 1 column 1; \
         json_extracted: no JSON object in the reply has a property of the schema; regex: no label of the schema is \
         followed by a value",
    );
    check(
        r#"{"impact": "8%", "feasibility": 4, "risk_adjusted_return": 5, "strategic_alignment": 6}"#,
        "the reply contains no value that fits the schema: json: `impact` is \"8%\", not of type integer; \
         json_extracted: `impact` is \"8%\", not of type integer; regex: no value follows the labels of: impact",
    );
    // `4/5` is rejected, because the schema's scale ends at 10.
    assert!(scores(&OWN.replace('3', "\"4/5\"")).contains("`impact` is \"4/5\""));
    assert!(
        scores("Impact: 1-10\nFeasibility: $4\nRisk-Adjusted Return: 5kg").contains("no label")
    );
    assert!(scores("").contains("the reply is empty"));
    assert!(scores(&OWN.replace("3", "null")).contains("`impact` is null"));
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Level {
    Low,
    VeryHigh,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Loose {
    ready: bool,
    level: Level,
    tags: Vec<String>,
    share: Option<f64>,
    #[serde(default)]
    left_out: Vec<u8>,
}

#[test]
fn unambiguous_values_are_coerced() {
    let reply = r#"{"ready": "Yes", "level": "Very High", "tags": "one", "share": "0.25", "left_out": null, "more": 1}"#;
    let read = read_json::<Loose>(reply).unwrap();
    let expected = Loose {
        ready: true,
        level: Level::VeryHigh,
        tags: vec!["one".to_owned()],
        share: Some(0.25),
        left_out: Vec::new(),
    };
    assert_eq!(read.value, expected);
    assert_eq!(
        read.notes,
        [
            "`left_out` is null and was omitted",
            "level: \"Very High\" read as \"very_high\"",
            "`more` is not in the schema and was dropped",
            "ready: \"Yes\" read as true",
            "share: \"0.25\" read as 0.25",
            "tags: a single value was converted to a list with one item",
        ]
    );
}

#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
struct Optional {
    impact: u8,
}

#[test]
fn unrelated_objects_are_not_used() {
    let read = |reply: &str| read_json::<Optional>(reply).map(|it| it.value.impact).ok();
    assert_eq!(read("{}"), Some(0));
    assert_eq!(read(r#"{"scores": {"impact": 7}}"#), Some(7));
    assert_eq!(read(r#"{"impact": 7} and not {"other": 1}"#), Some(7));
    assert_eq!(read(r#"Nothing but {"other": 1}."#), None);
}

#[test]
fn citations_are_not_mistaken_for_arrays() {
    let read = read_json::<Vec<String>>("As said in [1]: [\"a\", \"b\"]. See also [2].").unwrap();
    assert_eq!(read.value, ["a", "b"]);
}

#[test]
fn values_out_of_range_of_their_type_are_rejected() {
    assert!(read_json::<u32>("5000000000").is_err());
    assert!(read_json::<i64>("1e300").is_err());
    assert_eq!(read_json::<u64>("18446744073709551615").unwrap().value, u64::MAX);
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Self>,
}

#[test]
fn member_of_truncated_object_is_not_the_answer() {
    let item = r#"{"name": "leaf", "children": []},"#;
    for n_items in [1, 2, 100] {
        let reply = format!(r#"{{"name": "root", "children": [{}"#, item.repeat(n_items));
        assert!(read_json::<Tree>(&reply).is_err(), "{n_items}");
        // If the reply starts over, the second answer is used.
        let again =
            format!("{reply} no, that is too long:\n{{\"name\": \"root\", \"children\": []}}");
        assert_eq!(read_json::<Tree>(&again).unwrap().value.name, "root");
    }
}

#[test]
fn hostile_replies_take_linear_time() {
    let deep = format!("{}[{}", "[".repeat(126), "1,".repeat(200_000));
    let hostile = [
        "{[".repeat(1_000_000),
        "[".repeat(400_000),
        "{[".repeat(200_000) + &"]}".repeat(200_000),
        "[[".repeat(200_000) + &"]]".repeat(200_000),
        "[]".repeat(200_000),
        "[\"[".repeat(200_000),
        "{\"a\":".repeat(100_000),
        deep,
        "\"".repeat(400_000),
        "“«".repeat(200_000),
        "impact: ".repeat(60_000),
        "impact (".repeat(60_000),
        "\"impact\":\"".repeat(60_000),
        format!("[{}", " ".repeat(400_000)),
        "[ ".repeat(200_000),
        format!("impact{}", " ".repeat(400_000)),
        "> {}\n".repeat(100_000),
        "9".repeat(400_000),
    ];
    for reply in hostile {
        let start = std::time::Instant::now();
        assert!(read_json::<Score>(&reply).is_err());
        if reply.len() < 1_000_000 {
            let _ = read_json::<Vec<String>>(&reply);
            let _ = read_json::<serde_json::Value>(&reply);
        }
        let taken = start.elapsed();
        let shown: String = reply.chars().take(20).collect();
        // Linear work takes a second or two, more on a busy machine; quadratic work takes hours.
        assert!(taken.as_secs() < 120, "{shown}: {taken:?}");
    }
}

fn anything() -> impl Strategy<Value = String> {
    let scraps = prop::sample::select(vec![
        "{", "}", "[", "]", "\"", ":", ",", "\n", "> ", " ", "impact", "Impact", "feasibility",
        "risk-adjusted return", "strategic_alignment", "**", "(1-10)", "8", "8/10", "-", "7.5",
        "null", "é", "“", "”", "```json", "\\", "{\"impact\": 3}", "reasoning: ", "true", "e9",
        "|", "\u{0}",
    ]);
    prop::collection::vec(scraps, 0..60).prop_map(|it| it.concat())
}

proptest! {
    #[test]
    fn parsing_never_panics_and_respects_ranges(text in anything()) {
        if let Ok(read) = read_json::<Score>(&text) {
            let Score { impact, feasibility, risk_adjusted_return, strategic_alignment, .. } = read.value;
            for score in [impact, feasibility, risk_adjusted_return, strategic_alignment] {
                prop_assert!((1..=10).contains(&score));
            }
            prop_assert_eq!(read.method == ParseMethod::Schema, read.notes.is_empty() && serde_json::from_str::<Score>(text.trim()).is_ok());
        }
        let _ = read_json::<Loose>(&text);
        let _ = read_json::<Vec<Level>>(&text);
    }

    #[test]
    fn scores_are_found_anywhere_in_the_reply(
        scores in prop::array::uniform4(1u8..=10),
        before in "[a-zA-Z .,'\\n]{0,40}",
        after in "[a-zA-Z .,'\\n]{0,40}",
        form in 0..3usize,
    ) {
        let [a, b, c, d] = scores;
        let answer = match form {
            0 => format!(r#"{{"impact": {a}, "feasibility": {b}, "risk_adjusted_return": {c}, "strategic_alignment": {d}}}"#),
            1 => format!("\nImpact: {a}\nFeasibility: {b}/10\nRisk-Adjusted Return (1-10): {c}\n**Strategic Alignment**: {d}\n"),
            _ => format!("```\n{{\"scores\": {{\"impact\": \"{a}\", \"feasibility\": {b}, \"risk_adjusted_return\": {c}.0, \"strategic_alignment\": {d}}}}}\n```"),
        };
        let read = read_json::<Score>(&format!("{before}{answer}{after}")).unwrap().value;
        prop_assert_eq!([read.impact, read.feasibility, read.risk_adjusted_return, read.strategic_alignment], scores);
    }
}
