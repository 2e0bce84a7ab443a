//! A dynamic graph: nodes and edges are read from data at run time, and the state is JSON.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{JsonFieldKind, JsonStateSchema, json_node};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let declared = json!({
        "nodes": {"greet": "hello", "part": "goodbye"},
        "edges": [["__start__", "greet"], ["greet", "part"], ["part", "__end__"]],
    });
    let schema =
        JsonStateSchema::new([("log", JsonFieldKind::Append), ("name", JsonFieldKind::Last)])?;
    let mut graph = schema.graph();
    for (node, word) in declared["nodes"].as_object().into_iter().flatten() {
        let word = word.as_str().unwrap_or_default().to_owned();
        graph = graph.node(json_node(node.clone(), move |input, _| {
            let name = input.get("name").and_then(Value::as_str).unwrap_or("stranger");
            let line = format!("{word} {name}");
            async move { Ok(json!({ "log": [line] })) }
        }));
    }
    for edge in declared["edges"].as_array().into_iter().flatten() {
        let name = |it: usize| edge[it].as_str().unwrap_or_default().to_owned();
        graph = graph.edge(name(0), name(1));
    }
    let graph = graph.compile()?;
    let output = graph.invoke(schema.input(json!({"name": "Ada"}))?, ()).await?;
    println!("{}", output.to_value());
    println!("{}", graph.dot(0));
    Ok(())
}
