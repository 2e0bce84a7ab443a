//! Moves: numbering, markdown there and back, and what is wrong with them.

use consulting_graph::{
    moves::{
        Author, Move, MoveDraft, MoveId, MoveProblem, MovesDraft, Risk, number, parse, problems,
        read, similarity,
    },
    pipeline::Reviewed,
};
use proptest::prelude::*;

use crate::sample;

const AUTHOR: Author<'_> =
    Author { number: 3, agent_id: "analyst_3", persona: "Operations engineer" };

#[test]
fn the_document_of_a_move() {
    insta::assert_snapshot!(sample::the_move().markdown());
}

#[test]
fn what_a_person_leaves_empty_is_not_debated() {
    let check = |change: fn(&mut Move)| {
        let mut it = sample::the_move();
        change(&mut it);
        Reviewed { moves: vec![it] }.check()
    };
    assert_eq!(check(|_| {}), Ok(()));
    for (what, change) in [
        ("title", (|it| it.draft.title = " ".to_owned()) as fn(&mut Move)),
        ("thesis", |it| it.draft.thesis.clear()),
        ("step's action", |it| it.draft.steps[0].action.clear()),
    ] {
        let said = check(change).unwrap_err();
        assert!(said.contains(&format!("its {what} is empty")), "{said}");
    }
    let twice = Reviewed { moves: vec![sample::the_move(), sample::the_move()] };
    assert!(twice.check().unwrap_err().contains("twice"));
}

#[test]
fn the_third_analyst_owns_m7_to_m9() {
    let risks = [Risk::High, Risk::Low];
    let drafts = risks.map(|risk_level| MoveDraft { risk_level, ..sample::draft() }).into();
    let (moves, missing) = number(AUTHOR, &sample::ticker(), 3, drafts);
    let numbered: Vec<(MoveId, Risk)> =
        moves.iter().map(|it| (it.move_id, it.draft.risk_level)).collect();
    assert_eq!(numbered, [(MoveId(7), Risk::Low), (MoveId(8), Risk::High)]);
    assert_eq!(missing[0].move_id.to_string(), "m9");
}

#[test]
fn a_move_is_stored_flat() {
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
fn moves_are_found_however_they_are_marked() {
    // A rule before the first move, as models like to write it, must not cost it.
    check_titles(
        "Here they are.\n\n---\n\n# Moves for NVDA\n\n## Move 1 (low risk): A\n### Thesis\nx\n---\n## Move 2 (high risk): B\n### Thesis\ny\n",
        &[("A", Risk::Low), ("B", Risk::High)],
    );
    // One level for everything.
    check_titles(
        "## First\nRisk: medium\n## Thesis\nx\n## Why now\nz\n## Second\n## Thesis\ny\n",
        &[("First", Risk::Medium), ("Second", Risk::Medium)],
    );
    // Bold labels instead of headings; a title that sounds like a part.
    check_titles(
        "### Cost leadership in Asia\n**Risk level:** high\n**Thesis:** x\n**Why now**: z\n### Budget cuts\n- **Thesis**: y\n",
        &[("Cost leadership in Asia", Risk::High), ("Budget cuts", Risk::Medium)],
    );
    // A heading of the analyst's own is a part of the argument and no move.
    let own = "## A\n### Thesis\nx\n### Market context\nmore\n### Why now\nz\n";
    check_titles(own, &[("A", Risk::Low)]);
    assert_eq!(parse(own)[0].reasoning, ["more"]);
    check_titles("No headings at all.", &[]);
}

#[test]
fn answers_are_read_in_whatever_form_they_come() {
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
fn the_rules_for_moves() {
    let findings = [sample::f1(), sample::f2()];
    assert_eq!(problems(&[sample::draft()], &findings), []);

    let mut other = sample::draft();
    other.citations.push("F2-09".to_owned());
    other.citations.push("gut feeling".to_owned());
    let poor = MoveDraft {
        title: "Nothing".to_owned(),
        thesis: "Wait and see what happens.".to_owned(),
        ..MoveDraft::default()
    };
    let found = problems(&[sample::draft(), other, poor], &findings);
    let again: Vec<&MoveProblem> = found.iter().filter(|it| it.asks_again()).collect();
    assert_eq!(
        again,
        [
            &MoveProblem::UnknownFinding(2, "F2-09".to_owned()),
            &MoveProblem::UnknownFinding(2, "gut feeling".to_owned()),
            &MoveProblem::NearDuplicate(2, 1),
            &MoveProblem::TooFewCitations(3, 0),
        ]
    );
    assert!(found.contains(&MoveProblem::Missing(3, "falsifiers")));
    assert!(found.contains(&MoveProblem::NoRisk(Risk::High)));
}

proptest! {
    #[test]
    fn markdown_goes_there_and_back(
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
    fn any_text_is_read(text in "(?s).{0,200}", marked in "([#*F1-9 :().\n-]|risk|low|thesis|owner: |steps){0,60}") {
        for it in [&text, &marked] {
            read(it);
            let drafts = parse(it);
            problems(&drafts, &[sample::f1()]);
            for draft in &drafts {
                prop_assert!(similarity(draft, draft) <= 1.0);
                let _ = Move { draft: draft.clone(), ..sample::the_move() }.markdown();
            }
        }
    }
}
