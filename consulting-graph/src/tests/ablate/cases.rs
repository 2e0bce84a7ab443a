//! The generated moves and their ground truth.

use std::collections::BTreeSet;

use super::as_of;
use crate::{
    ablate::{Case, FlawKind, generate},
    data::{Company, Ticker, snapshot},
};

fn company(ticker: &str) -> Company {
    snapshot::company(&Ticker::parse(ticker).unwrap(), as_of()).unwrap().unwrap()
}

fn lines(case: &Case) -> Vec<&str> {
    // The first line contains the number of the move.
    case.brief.document.lines().skip(1).collect()
}

/// Returns the statements of a move, such as `Revenue in FY2026 was $215,938m`, each with the id of the finding that it
/// cites.
fn statements(case: &Case) -> Vec<(&str, &str)> {
    let cited = case.brief.document.lines().filter(|it| it.contains(" was "));
    cited
        .map(|it| {
            let (statement, rest) = it.split_once(" [").unwrap();
            (statement, rest.split_once(']').unwrap().0)
        })
        .collect()
}

/// Returns whether the cited finding says exactly what the move says.
fn is_supported(case: &Case, (statement, id): (&str, &str)) -> bool {
    let findings = case.brief.evidence.split("## ").find(|it| it.starts_with(id)).unwrap();
    findings.contains(&format!("\n{statement}.\n"))
}

#[test]
fn every_pair_differs_in_one_line_with_the_planted_flaw() {
    for ticker in ["AAPL", "GOOGL", "MRVL", "NVDA", "SNOW"] {
        let cases = generate(&company(ticker), 40, 7).unwrap();
        assert_eq!(cases.len(), 80);
        for pair in cases.chunks(2) {
            let [sound, flawed] = pair else { panic!("a pair has two moves") };
            assert_eq!((sound.flaw, sound.pair), (None, flawed.pair));
            assert_eq!(sound.brief.evidence, flawed.brief.evidence);
            assert!(statements(sound).into_iter().all(|it| is_supported(sound, it)));
            let (a, b) = (lines(sound), lines(flawed));
            let differing: Vec<(&str, &str)> =
                a.into_iter().zip(b).filter(|(a, b)| a != b).collect();
            let [(before, after)] = differing[..] else { panic!("{ticker}: {differing:?}") };
            let unsupported =
                statements(flawed).into_iter().filter(|it| !is_supported(flawed, *it));
            let unsupported: Vec<_> = unsupported.collect();
            match flawed.flaw.unwrap() {
                FlawKind::WrongFigure | FlawKind::WrongCitation => assert_eq!(unsupported.len(), 1),
                FlawKind::InfeasibleStep => {
                    assert!(before.contains(" months") && !after.contains(" months"), "{after}");
                    assert!(unsupported.is_empty());
                }
                FlawKind::HiddenCost => {
                    assert!(before.contains(" a year for ") && after.contains("nothing after"));
                    assert!(unsupported.is_empty());
                }
            }
        }
    }
}

#[test]
fn every_kind_of_flaw_occurs_with_every_plan() {
    let cases = generate(&company("NVDA"), 32, 7).unwrap();
    // The first line has the form `# M1: Title`.
    let title = |it: &Case| {
        let first = it.brief.document.lines().next().unwrap();
        first.split_once(": ").unwrap().1.to_owned()
    };
    let combinations: BTreeSet<(Option<FlawKind>, String)> =
        cases.iter().filter(|it| it.flaw.is_some()).map(|it| (it.flaw, title(it))).collect();
    assert_eq!(combinations.len(), 32, "{combinations:?}");
}

#[test]
fn moves_are_reproducible_and_their_numbers_do_not_reveal_the_flaw() {
    let company = company("NVDA");
    let cases = generate(&company, 40, 7).unwrap();
    assert_eq!(cases, generate(&company, 40, 7).unwrap());
    assert_ne!(cases, generate(&company, 40, 8).unwrap());
    let is_odd = |it: &&Case| it.brief.move_id.ends_with(['1', '3', '5', '7', '9']);
    let odd_and_flawed = cases.iter().filter(|it| it.flaw.is_some()).filter(is_odd).count();
    assert!((10..=30).contains(&odd_and_flawed), "{odd_and_flawed} of 40");
    for kind in FlawKind::ALL {
        assert_eq!(cases.iter().filter(|it| it.flaw == Some(kind)).count(), 10);
    }
}

#[test]
fn companies_without_figures_are_rejected_with_advice() {
    let known = company("NVDA");
    let empty = Company::new(known.ticker.clone(), "None", known.source, known.as_of);
    let error = generate(&empty, 2, 0).unwrap_err().to_string();
    assert!(error.contains("NVDA") && error.contains("choose another ticker"), "{error}");
}
