//! Tests that all recorded agent cases have the same answers as in LangChain.

use std::path::Path;

use graph_tests::agents::{differences, read, run};

#[test]
fn recorded_agent_cases_are_equal() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/agents/agents.jsonl");
    let cases = read(&path).expect("the fixtures are part of the repository");
    let differing = cases.into_iter().filter_map(|case| {
        let case = case.expect("the fixtures contain valid cases");
        let differences = match run(&case) {
            Ok(answers) => differences(&case, &answers),
            Err(problem) => vec![problem],
        };
        differences.into_iter().next().map(|it| format!("{}: {it}", case.id))
    });
    let differing: Vec<_> = differing.collect();
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}
