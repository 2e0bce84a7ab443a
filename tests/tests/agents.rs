//! Tests that all recorded agent cases have the same answers as in LangChain.

use std::path::Path;

use graph_tests::agents::{AgentCase, differences, read, run};
use serde_json::json;

fn cases() -> impl Iterator<Item = AgentCase> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/agents/agents.jsonl");
    let cases = read(&path).expect("the fixtures are part of the repository");
    cases.into_iter().map(|it| it.expect("the fixtures contain valid cases"))
}

#[test]
fn recorded_agent_cases_are_equal() {
    let differing = cases().filter_map(|case| {
        let differences = match run(&case) {
            Ok(answers) => differences(&case, &answers),
            Err(problem) => vec![problem],
        };
        differences.into_iter().next().map(|it| format!("{}: {it}", case.id))
    });
    let differing: Vec<_> = differing.collect();
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn scripts_of_models_may_be_in_objects() {
    let mut case = cases().find(|it| it.id == "multi-swarm-parallel").expect("a recorded case");
    for model in case.models.values_mut() {
        *model = json!({"script": model.take()});
    }
    let answers = run(&case).expect("the case has answers");
    assert_eq!(differences(&case, &answers), Vec::<String>::new());
}
