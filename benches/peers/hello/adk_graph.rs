//! The program of the main README on adk-graph.

use adk_graph::{
    END, ExecutionConfig, NodeContext, NodeOutput, START, State, StateGraph, StateSchema,
};
use serde_json::{Value, json};

fn drafts(state: &State) -> usize {
    state.get("drafts").and_then(Value::as_array).map_or(0, Vec::len)
}

async fn write(context: NodeContext) -> adk_graph::Result<NodeOutput> {
    let topic = context.get("topic").and_then(Value::as_str).unwrap_or_default();
    let draft = format!("Draft {} on {topic}", drafts(&context.state) + 1);
    Ok(NodeOutput::new().with_update("drafts", json!([draft])))
}

fn review(state: &State) -> String {
    if drafts(state) < 3 { "again".to_owned() } else { END.to_owned() }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = StateSchema::builder().channel("topic").list_channel("drafts").build();
    let graph = StateGraph::new(schema)
        .add_node_fn("write", write)
        .add_edge(START, "write")
        .add_conditional_edges("write", review, [("again", "write"), (END, END)])
        .compile()?;
    let input = State::from_iter([("topic".to_owned(), json!("Rust"))]);
    let essay = graph.invoke(input, ExecutionConfig::new("thread")).await?;
    println!("{:#?}", essay["drafts"]);
    Ok(())
}
