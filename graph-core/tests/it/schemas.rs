//! JSON schemas of a graph's state, input and output.

use graph_core::{START, State, StateGraph};
use schemars::JsonSchema;
use serde_json::Value;

#[derive(State, Clone, Debug, Default, JsonSchema)]
struct Scoped {
    #[state(input)]
    question: String,
    #[state(output)]
    answers: Vec<String>,
    #[state(private)]
    scratch: u32,
}

async fn think(_: &Scoped) {}

fn names(schema: &schemars::Schema, key: &str) -> Vec<String> {
    match schema.get(key) {
        Some(Value::Object(properties)) => properties.keys().cloned().collect(),
        Some(Value::Array(names)) => {
            let mut names: Vec<String> =
                names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            names.sort();
            names
        }
        _ => Vec::new(),
    }
}

#[test]
fn input_and_output_schemas_contain_only_their_fields() {
    let graph = StateGraph::<Scoped>::new().node(think).edge(START, think).compile().unwrap();
    for (schema, expect) in [
        (graph.state_schema(), vec!["answers", "question", "scratch"]),
        (graph.input_schema(), vec!["question"]),
        (graph.output_schema(), vec!["answers"]),
    ] {
        assert_eq!(names(&schema, "properties"), expect);
        assert_eq!(names(&schema, "required"), expect);
    }
}

#[derive(State, Clone, Debug, Default, JsonSchema)]
struct Renamed {
    #[state(rename = "kind")]
    #[schemars(rename = "kind")]
    variant: String,
}

async fn nothing(_: &Renamed) {}

#[test]
fn a_schema_uses_the_stored_name() {
    let graph = StateGraph::<Renamed>::new().node(nothing).edge(START, nothing).compile().unwrap();
    assert_eq!(names(&graph.input_schema(), "properties"), ["kind"]);
}
