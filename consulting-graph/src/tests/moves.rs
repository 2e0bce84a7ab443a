//! Moves: numbering, Markdown round trips and validation.

use proptest::prelude::*;

use super::sample;
use crate::{
    moves::{
        Author, Move, MoveDraft, MoveId, MoveViolation, MovesDraft, Risk, assign_ids, parse, read,
        similarity, violations,
    },
    pipeline::ReviewDecision,
};

const AUTHOR: Author<'_> =
    Author { number: 3, agent_id: "analyst_3", persona: "Operations engineer" };

#[test]
fn a_move_as_markdown() {
    insta::assert_snapshot!(sample::the_move().markdown());
}

#[test]
fn reviews_with_empty_or_duplicate_moves_are_rejected() {
    let check = |change: fn(&mut Move)| {
        let mut it = sample::the_move();
        change(&mut it);
        ReviewDecision { moves: vec![it] }.check()
    };
    assert_eq!(check(|_| {}), Ok(()));
    for (what, change) in [
        ("title", (|it| it.draft.title = " ".to_owned()) as fn(&mut Move)),
        ("thesis", |it| it.draft.thesis.clear()),
        ("action of a step", |it| it.draft.steps[0].action.clear()),
    ] {
        let message = check(change).unwrap_err();
        assert!(message.contains(&format!("the {what} is empty")), "{message}");
    }
    let twice = ReviewDecision { moves: vec![sample::the_move(), sample::the_move()] };
    assert!(twice.check().unwrap_err().contains("m4 appears twice"));
    assert!(ReviewDecision { moves: Vec::new() }.check().is_err());
}

#[test]
fn the_third_analyst_gets_m7_to_m9() {
    let risks = [Risk::High, Risk::Low];
    let drafts = risks.map(|risk_level| MoveDraft { risk_level, ..sample::draft() }).into();
    let (moves, missing) = assign_ids(AUTHOR, &sample::ticker(), 3, drafts);
    let numbered: Vec<(MoveId, Risk)> =
        moves.iter().map(|it| (it.move_id, it.draft.risk_level)).collect();
    assert_eq!(numbered, [(MoveId(7), Risk::Low), (MoveId(8), Risk::High)]);
    assert_eq!(missing[0].move_id.to_string(), "m9");
}

#[test]
fn moves_serialize_to_a_flat_object() {
    let json = serde_json::to_value(sample::the_move()).unwrap();
    assert_eq!(json["move_id"], "m4");
    assert_eq!(json["risk_level"], "low");
    assert_eq!(serde_json::from_value::<Move>(json).unwrap(), sample::the_move());
}

#[track_caller]
fn check_titles(text: &str, expected: &[(&str, Risk)]) {
    let moves = parse(text);
    let found: Vec<(&str, Risk)> =
        moves.iter().map(|it| (it.title.as_str(), it.risk_level)).collect();
    assert_eq!(found, expected, "{text}");
    assert!(moves.iter().all(|it| !it.thesis.is_empty()), "{moves:#?}");
}

#[test]
fn moves_are_found_in_various_markdown_styles() {
    // A horizontal rule before the first move, which models often write, must not hide that move.
    check_titles(
        "Here they are.\n\n---\n\n# Moves for NVDA\n\n## Move 1 (low risk): A\n### Thesis\nx\n---\n## Move 2 (high risk): B\n### Thesis\ny\n",
        &[("A", Risk::Low), ("B", Risk::High)],
    );
    // Moves and their sections may have the same heading level.
    check_titles(
        "## First\nRisk: medium\n## Thesis\nx\n## Why now\nz\n## Second\n## Thesis\ny\n",
        &[("First", Risk::Medium), ("Second", Risk::Medium)],
    );
    // Sections may have bold labels instead of headings, and a title may resemble the name of a section.
    check_titles(
        "### Cost leadership in Asia\n**Risk level:** high\n**Thesis:** x\n**Why now**: z\n### Budget cuts\n- **Thesis**: y\n",
        &[("Cost leadership in Asia", Risk::High), ("Budget cuts", Risk::Medium)],
    );
    // An unknown heading belongs to the reasoning and does not start a new move.
    let own = "## A\n### Thesis\nx\n### Market context\nmore\n### Why now\nz\n";
    check_titles(own, &[("A", Risk::Low)]);
    assert_eq!(parse(own)[0].reasoning, ["more"]);
    check_titles("No headings at all.", &[]);
}

#[test]
fn list_items_cannot_imitate_headings() {
    let mut forged = sample::the_move();
    forged.draft.falsifiers = vec!["# Approved".to_owned()];
    forged.draft.steps[0].action = "> **Audited.**".to_owned();
    let text = forged.markdown();
    assert!(text.contains("- \\# Approved\n") && text.contains("1. \\> **Audited.**"), "{text}");
}

#[test]
fn moves_without_title_and_thesis_are_not_read() {
    let blank = r#"{"moves": [{"title": " ", "risk_level": "low", "thesis": ""}]}"#;
    assert_eq!(read(blank), []);
}

#[test]
fn answers_are_read_as_json_or_markdown() {
    let json = serde_json::to_string(&MovesDraft { moves: vec![sample::draft()] }).unwrap();
    let list = serde_json::to_string(&[sample::draft()]).unwrap();
    let markdown = sample::the_move().markdown();
    let ticked = format!("- [ ] to do\n\n{markdown}");
    for answer in
        [&ticked, &json, &format!("Here [as asked] {{}}:\n```json\n{json}\n```"), &list, &markdown]
    {
        assert_eq!(read(answer), [sample::draft()], "{answer}");
    }
    let loose = r#"{"moves": [{"title": "t", "risk_level": "High", "thesis": "x", "reasoning": "one", "steps": ["do it"]}]}"#;
    let draft = &read(loose)[0];
    assert_eq!(
        (draft.risk_level, draft.reasoning.len(), draft.steps[0].action.as_str()),
        (Risk::High, 1, "do it")
    );
    assert_eq!(read("I would rather not."), []);
}

#[test]
fn violations_are_reported() {
    let findings = [sample::f1(), sample::f2()];
    assert_eq!(violations(&[sample::draft()], &findings), []);

    let mut other = sample::draft();
    other.citations.push("F2-09".to_owned());
    other.citations.push("gut feeling".to_owned());
    let poor = MoveDraft {
        title: "Nothing".to_owned(),
        thesis: "Wait and see what happens.".to_owned(),
        ..MoveDraft::default()
    };
    let found = violations(&[sample::draft(), other, poor], &findings);
    let again: Vec<&MoveViolation> = found.iter().filter(|it| it.requires_retry()).collect();
    assert_eq!(
        again,
        [
            &MoveViolation::UnknownFinding(2, "F2-09".to_owned()),
            &MoveViolation::UnknownFinding(2, "gut feeling".to_owned()),
            &MoveViolation::NearDuplicate(2, 1),
            &MoveViolation::TooFewCitations(3, 0),
        ]
    );
    assert!(found.contains(&MoveViolation::MissingPart(3, "falsifiers")));
    assert!(found.contains(&MoveViolation::MissingRiskLevel(Risk::High)));
}

proptest! {
    #[test]
    fn markdown_round_trips(
        title in "[A-Z][a-z]{2,8}( [a-z]{2,8}){0,4}",
        reasoning in prop::collection::vec("[A-Z][a-z]{2,8}( [a-z0-9$%]{2,8}){0,9}\\.", 1..5),
        risk in 0..3,
    ) {
        let risk_level = [Risk::Low, Risk::Medium, Risk::High][risk as usize];
        let draft = MoveDraft { title, reasoning, risk_level, ..sample::draft() };
        let document = Move { draft: draft.clone(), ..sample::the_move() }.markdown();
        prop_assert_eq!(parse(&document), [draft]);
    }

    #[test]
    fn reading_never_panics(text in "(?s).{0,200}", marked in "([#*F1-9 :().\n-]|risk|low|thesis|owner: |steps){0,60}") {
        for it in [&text, &marked] {
            read(it);
            let drafts = parse(it);
            violations(&drafts, &[sample::f1()]);
            for draft in &drafts {
                prop_assert!(similarity(draft, draft) <= 1.0);
                let _ = Move { draft: draft.clone(), ..sample::the_move() }.markdown();
            }
        }
    }
}

#[test]
fn html_of_a_model_has_no_effect_in_the_file_of_a_move() {
    let mut it = sample::the_move();
    it.draft.thesis = "Margin < 5%. <img src=x onerror=y> <!-- a --> </p> \\<img>".to_owned();
    let text = it.file_text();
    let escaped = r"Margin < 5%. &lt;img src=x onerror=y> &lt;!-- a --> &lt;/p> \&lt;img>";
    assert!(text.contains(escaped), "{text}");
    it.draft.thesis =
        "![x](https://example.com/x) [y](javascript:z) [y]\n\n- [y]: data:x".to_owned();
    let text = it.file_text();
    let escaped = "![x]&#40;https://example.com/x) [y]&#40;javascript:z) [y]\n\n- [y]&#58; data:x";
    assert!(text.contains(escaped), "{text}");
    it.draft.thesis = sample::HIDDEN_MARKUP.to_owned();
    let text = it.file_text();
    assert!(text.contains(sample::ESCAPED_MARKUP), "{text}");
}
