//! Tests that all recorded agent cases have the same answers as in LangChain.

use std::path::Path;

use graph_tests::{
    agents::{AgentCase, difference, run},
    read,
};
use serde_json::json;

fn cases() -> Vec<AgentCase> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/agents/agents.jsonl");
    read(&path).expect("the fixtures are part of the repository")
}

#[test]
fn agents_give_the_recorded_answers() {
    let differing = cases().into_iter().filter_map(|case| {
        let difference = match run(&case) {
            Ok(answers) => difference(&case, &answers),
            Err(problem) => Some(problem.to_string()),
        };
        difference.map(|it| format!("{}: {it}", case.id))
    });
    let differing: Vec<_> = differing.collect();
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn model_scripts_may_be_wrapped_in_objects() {
    let mut case =
        cases().into_iter().find(|it| it.id == "multi-swarm-parallel").expect("a recorded case");
    for model in case.models.values_mut() {
        *model = json!({"script": model.take()});
    }
    let answers = run(&case).expect("the case has answers");
    assert_eq!(difference(&case, &answers), None);
}
