//! Every recorded case gives the answers that LangGraph gave.

use std::path::Path;

use graph_tests::{compare, read, run};

#[track_caller]
fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/conformance").join(file);
    let mut differing = Vec::new();
    for case in read(&path).expect("the fixtures are part of the repository") {
        match run(&case).map(|got| compare(&case, &got)) {
            Ok(None) => {}
            Ok(Some(difference)) => differing.push(format!("{}: {difference}", case.id)),
            Err(gave_up) => differing.push(format!("{}: {gave_up}", case.id)),
        }
    }
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn cases_written_by_hand() {
    check("hand.jsonl");
}

#[test]
fn random_cases() {
    check("random.jsonl");
}

#[test]
fn cases_that_once_differed() {
    check("found.jsonl");
}
