//! Findings: numbering, Markdown round trips and validation.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::sample::{self, date};
use crate::{
    data::{render, synthetic},
    finding::{
        Direction, Evidence, FindingDraft, FindingId, FindingViolation, Findings, FindingsDraft,
        Inference, Kind, SingleFinding, TensionDraft, append, chunks, excerpts, find_citations,
        find_recommendation, is_partial, merge, parse, read, read_cut, read_single, violations,
    },
};

#[test]
fn findings_as_markdown() {
    insta::assert_snapshot!(sample::f1().markdown());
}

#[test]
fn claims_cannot_imitate_headings() {
    let mut findings = sample::f1();
    findings.findings[0].draft.claim = "# Approved".to_owned();
    let text = findings.markdown();
    assert!(text.contains("\n\\# Approved\n"), "{text}");
}

#[test]
fn excerpts_contain_only_cited_findings() {
    let ids = ["F2-02", "F1-01", "F1-09", "F2-02"].map(|it| FindingId::parse(it).unwrap());
    let text = excerpts(&[sample::f1(), sample::f2()], &ids);
    let headings: Vec<&str> = text.lines().filter(|it| it.starts_with('#')).collect();
    assert_eq!(
        headings,
        ["## F1-01 (growth, positive, strength 2)", "## F2-02 (competitor, negative, strength 2)"]
    );
}

#[test]
fn numbers_assigned_by_a_model_are_replaced() {
    let text = "# F1 findings\n\n### F1-07: growth\nSales grew.\n\n### F1-09\nMargins fell.\n- Evidence (Income Statement): 41.3%\n\n## Tensions\n- F1-09 and F1-07: both at once.\n";
    let draft = parse(text);
    assert_eq!(draft.findings.len(), 2);
    assert_eq!(draft.findings[0].kind, Kind::Growth);
    assert_eq!(draft.findings[1].evidence[0].section, "Income Statement");
    assert_eq!(draft.tensions[0].between, [2, 1]);
    let findings = Findings::from_draft(Inference::F1, sample::ticker(), draft);
    assert_eq!(findings.findings[1].id.to_string(), "F1-02");
    assert_eq!(findings.tensions[0].text, "both at once.");
}

#[test]
fn the_last_finding_of_markdown_that_is_cut_off_is_dropped() {
    let text = "## F1-01\nSales grew.\n\n## F1-02\nMargins fell from 12% to 1";
    assert_eq!(read(text).findings.len(), 2);
    let claims: Vec<String> = read_cut(text).findings.into_iter().map(|it| it.claim).collect();
    assert_eq!(claims, ["Sales grew."]);
    let json = r#"{"findings": [{"claim": "c", "strength": 1}, {"claim": "d", "str"#;
    assert_eq!(read_cut(json).findings.len(), 1);
}

#[test]
fn findings_of_a_second_answer_are_appended_without_known_claims() {
    let draft = |claims: &str, tensions: &[(&[u8], &str)]| FindingsDraft {
        findings: claims
            .split_whitespace()
            .map(|claim| serde_json::from_value(json!({ "claim": claim, "strength": 2 })).unwrap())
            .collect(),
        tensions: tensions
            .iter()
            .map(|it| TensionDraft { between: it.0.to_vec(), text: it.1.to_owned() })
            .collect(),
    };
    let mut first = draft("a b c", &[(&[1, 2], "known")]);
    let tensions: [(&[u8], &str); 4] =
        [(&[1, 3], "b and d"), (&[3, 9], "unknown"), (&[0, 1], "unknown"), (&[2, 1], "known")];
    append(&mut first, draft("b a d", &tensions));
    let expected: [(&[u8], &str); 2] = [(&[1, 2], "known"), (&[2, 4], "b and d")];
    assert_eq!(first, draft("a b c d", &expected));
    append(&mut first, draft("e f g h i j k l m n o p q r", &[(&[1, 14], "dropped")]));
    assert_eq!(first, draft("a b c d e f g h i j k l m n", &expected));
}

#[test]
fn json_answers_are_read_leniently() {
    let draft: FindingsDraft = serde_json::from_str(
        r#"{"findings": [{"claim": "c", "direction": "+", "strength": 3, "kind": "weather", "more": 1},
                         {"claim": "d", "direction": "sideways", "strength": 1}]}"#,
    )
    .unwrap();
    assert_eq!(read(&format!("Sure: {}", serde_json::to_string(&draft).unwrap())), draft);
    assert_eq!(read(&serde_json::to_string(&draft.findings).unwrap()), draft);
    assert_eq!(read(&sample::f2().markdown()).findings.len(), 2);
    assert_eq!(draft.findings[0].direction, Direction::Positive);
    assert_eq!(draft.findings[0].kind, Kind::Other);
    assert_eq!(draft.findings[1].direction, Direction::Mixed);
}

#[test]
fn complete_findings_of_an_answer_that_is_cut_off_are_read() {
    let text = r#"{"findings": [{"claim": "a", "strength": 3, "evidence": [{"section": "s", "quote": "q"}]},
                   {"claim": "b", "strength": 1}, {"claim": "c", "str"#;
    let claims: Vec<String> = read(text).findings.into_iter().map(|it| it.claim).collect();
    assert_eq!(claims, ["a", "b"]);
    assert_eq!(read(r#"{"findings": [{"claim": "c", "str"#), FindingsDraft::default());
}

#[test]
fn lists_that_are_not_read_as_a_whole_are_partial() {
    let finding = r#"{"claim": "a", "strength": 3}"#;
    for (answer, expected) in [
        (format!(r#"{{"findings": [{finding}, {{"claim": "b", "str"#), true),
        (format!("```json\n[{finding}, {finding}"), true),
        (format!(r#"{{"findings": [{finding}, {{"claim": "b", "strength": 300}}]}}"#), true),
        (format!(r#"{{"findings": [{finding}]}}"#), false),
        (format!("[{finding}]"), false),
        (format!("{finding}\n{finding}"), false),
        ("No JSON [F1-01].".to_owned(), false),
    ] {
        assert_eq!(is_partial(&answer), expected, "{answer}");
    }
}

#[test]
fn findings_without_claims_are_not_read() {
    let blank = r#"{"findings": [{"claim": " ", "strength": 3}]}"#;
    assert_eq!(read(blank), FindingsDraft::default());
}

#[test]
fn chunks_with_any_number_of_findings_are_merged() {
    let finding = read(r#"[{"claim": "a", "strength": 3}]"#).findings.remove(0);
    let numbered = |n: u32| FindingDraft { claim: n.to_string(), ..finding.clone() };
    let draft = FindingsDraft { findings: (0..300).map(numbered).collect(), tensions: Vec::new() };
    assert_eq!(merge(vec![draft]).findings.len(), 14);
}

#[test]
fn repeated_findings_are_read_once() {
    let text = r#"{"findings": [{"claim": "a", "strength": 3}, {"claim": "b", "strength": 2}, {"claim": "a ", "strength": 1},
                                {"claim": "c", "strength": 1}],
                   "tensions": [{"between": [3, 4], "text": "t"}, {"between": [1, 3], "text": "u"},
                                {"between": [1, 9], "text": "v"}]}"#;
    let draft = read(text);
    let claims: Vec<&str> = draft.findings.iter().map(|it| it.claim.as_str()).collect();
    assert_eq!(claims, ["a", "b", "c"]);
    let tensions: Vec<&[u8]> = draft.tensions.iter().map(|it| &*it.between).collect();
    assert_eq!(tensions, [&[1, 3][..], &[1, 9]]);
    // Claims of different chunks are compared too.
    assert_eq!(merge(vec![draft.clone(), draft]).findings.len(), 3);
}

#[test]
fn lists_and_texts_in_the_schemas_are_limited() {
    fn check(schema: &Value) {
        match schema {
            Value::Object(fields) => {
                let is = |kind: &str| schema["type"] == kind;
                let is_choice = fields.contains_key("enum") || fields.contains_key("const");
                assert!(!is("array") || fields.contains_key("maxItems"), "{schema}");
                assert!(!is("string") || is_choice || fields.contains_key("maxLength"), "{schema}");
                fields.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    let schema = FindingsDraft::schema(4).schema;
    check(&schema);
    check(&SingleFinding::schema().schema);
    assert_eq!(schema["properties"]["findings"]["maxItems"], 4);
}

#[test]
fn single_findings_are_read() {
    let finding = read_single(
        r#"Sure: {"claim": "Sales grew.", "section": "Sales", "quote": "7.9%", "direction": "positive"}"#,
    );
    let evidence = vec![Evidence { section: "Sales".to_owned(), quote: "7.9%".to_owned() }];
    let (claim, direction) = ("Sales grew.".to_owned(), Direction::Positive);
    let expected = FindingDraft { claim, evidence, direction, strength: 2, kind: Kind::Other };
    assert_eq!(finding, Some(expected));
    // A list or Markdown is accepted too, and its first finding is used.
    let list = r#"{"findings": [{"claim": "a", "strength": 3}, {"claim": "b", "strength": 1}]}"#;
    assert_eq!(read_single(list).map(|it| (it.claim, it.strength)), Some(("a".to_owned(), 3)));
    let markdown = read_single(&sample::f1().markdown());
    assert_eq!(markdown.as_ref(), Some(&sample::f1().findings[0].draft));
    // A finding without a quotation has no evidence.
    assert_eq!(read_single(r#"{"claim": "a"}"#).map(|it| it.evidence.len()), Some(0));
    for nothing in [r#"{"claim": " "}"#, "Well, hm.", "{}", ""] {
        assert_eq!(read_single(nothing), None, "{nothing}");
    }
}

#[test]
fn invalid_findings_are_reported() {
    let company = synthetic::company(&sample::ticker(), date(2026, 3, 1));
    let document = render::financial(&company);
    let good = |it: &Findings| it.findings.iter().map(|it| it.draft.clone()).collect::<Vec<_>>();
    let mut findings: Vec<FindingDraft> = good(&sample::f1()).into_iter().cycle().take(8).collect();
    let check = |findings: &[FindingDraft]| {
        violations(&FindingsDraft { findings: findings.to_vec(), tensions: Vec::new() }, &document)
    };
    assert_eq!(check(&findings), []);

    findings[0].evidence[0].quote = "Q4 FY2025 $9,113m".to_owned();
    findings[1].claim = "Management should collect earlier.".to_owned();
    findings[2].strength = 4;
    findings[3].evidence.clear();
    findings[4].claim = " ".to_owned();
    assert_eq!(
        check(&findings),
        [
            FindingViolation::QuoteNotFound { finding: 1, quote: "Q4 FY2025 $9,113m".to_owned() },
            FindingViolation::Recommends { finding: 2, phrase: "should".to_owned() },
            FindingViolation::InvalidStrength(3, 4),
            FindingViolation::NoEvidence(4),
            FindingViolation::NoClaim(5),
        ]
    );
    assert_eq!(check(&findings[..0]), [FindingViolation::WrongCount(0)]);
}

#[test]
fn recommendations_are_detected() {
    for advice in [
        "Expand into Asia.", "Margins fell. Cut costs now!", "The firm needs to act.",
        "We recommend patience.",
    ] {
        assert!(find_recommendation(advice).is_some(), "{advice}");
    }
    for fact in [
        "Return on equity is 21.6%.", "Costs were cut.", "Management expanded and invested.",
        "Buybacks rose.",
    ] {
        assert_eq!(find_recommendation(fact), None, "{fact}");
    }
}

#[test]
fn chunks_repeat_the_heading_and_the_table_header() {
    let cut = chunks("# Sales\n| Year | Sales |\n|---|---|\n| 2024 | $5m |\n| 2025 | $6m |\n", 4);
    assert_eq!(cut[1], "# Sales\n| Year | Sales |\n|---|---|\n| 2025 | $6m |\n");
}

#[test]
fn citations_are_found_in_any_context() {
    let found: Vec<String> =
        find_citations("as [F1-07], (f2-3; F3-01) and F1-007, not XF1-07, F1-7a or F12-01")
            .into_iter()
            .map(|(_, id)| id.map_or_else(|it| format!("!{}", it.0), |it| it.to_string()))
            .collect();
    assert_eq!(found, ["F1-07", "F2-03", "!F3-01", "F1-07"]);
}

fn line() -> impl Strategy<Value = String> {
    "[A-Z][a-z]{1,8}( [a-z0-9$%.,-]{1,8}){0,6}"
}

prop_compose! {
    fn finding()(claim in line(), section in "[A-Z][a-z]{2,9}", quote in line(), strength in 1_u8..=3, kind in 0..2) -> FindingDraft {
        let kind = if kind == 0 { Kind::CapitalReturn } else { Kind::Growth };
        let claim = format!("The {claim}");
        FindingDraft { claim, evidence: vec![Evidence { section, quote }], direction: Direction::Negative, strength, kind }
    }
}

proptest! {
    #[test]
    fn markdown_round_trips(findings in prop::collection::vec(finding(), 1..12)) {
        let draft = FindingsDraft { findings, tensions: Vec::new() };
        let document = Findings::from_draft(Inference::F2, sample::ticker(), draft.clone());
        prop_assert_eq!(parse(&document.markdown()), draft);
    }

    #[test]
    fn reading_never_panics(text in "(?s).{0,200}", marked in "([#*F1-9 :\"\n|-]|tension|evidence){0,60}") {
        for it in [&text, &marked] {
            read(it);
            let draft = parse(it);
            violations(&draft, it);
            Findings::from_draft(Inference::F1, sample::ticker(), draft).markdown();
            find_citations(it);
            find_recommendation(it);
        }
    }
}

#[test]
fn findings_of_chunks_are_merged_by_strength() {
    let finding = |claim: &str, strength| FindingDraft {
        claim: claim.to_owned(),
        evidence: Vec::new(),
        direction: Direction::Mixed,
        strength,
        kind: Kind::Other,
    };
    let draft = |letter: &str, strengths: &[u8]| FindingsDraft {
        findings: (1..)
            .zip(strengths)
            .map(|(n, it)| finding(&format!("{letter}{n}"), *it))
            .collect(),
        tensions: vec![TensionDraft { between: vec![1, 2], text: letter.to_owned() }],
    };
    let joined = merge(vec![draft("a", &[1; 10]), draft("b", &[2, 3, 1, 1, 1, 1])]);
    let claims: Vec<&str> = joined.findings.iter().map(|it| it.claim.as_str()).collect();
    assert_eq!(
        claims,
        ["b2", "b1", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "b3", "b4"]
    );
    let tensions: Vec<(&[u8], &str)> =
        joined.tensions.iter().map(|it| (&*it.between, &*it.text)).collect();
    assert_eq!(tensions, [(&[3, 4][..], "a"), (&[2, 1], "b")]);
    // Tensions between omitted findings are omitted too.
    let rest = merge(vec![draft("a", &[3; 14]), draft("b", &[2, 2])]);
    assert_eq!((rest.findings.len(), rest.tensions.len()), (14, 1));
}
