//! The fan-out to a subgraph on adk-graph.

use std::sync::Arc;

use adk_graph::{CompiledGraph, END, NodeOutput, START, State, StateGraph, StateSchema};
use peer_support::{data, protocol::Job};
use serde_json::{Value, json};

use crate::{config, run, scatter, state};

pub fn prepare(size: usize) -> Job {
    let one = Arc::new(one_joke());
    let schema = StateSchema::builder().channel("letters").channel("joke");
    // The subjects are not in the state, because `run_node` copies the state for every child.
    let subjects: Arc<Vec<Value>> =
        Arc::new((0..size).map(|it| json!(data::subject(it))).collect());
    let graph = StateGraph::new(schema.list_channel("jokes").build())
        .add_node_fn("scatter", move |context| {
            let subjects = subjects.clone();
            async move {
                let subjects = subjects.iter().cloned();
                let node = ("generate_joke", "letters", "joke");
                let jokes = scatter(&context, node, subjects).await?;
                Ok(NodeOutput::new().with_update("jokes", Value::Array(jokes)))
            }
        })
        // `run_node` cannot run a subgraph node, which needs the schema of its parent.
        .add_node_fn("generate_joke", move |context| {
            let one = one.clone();
            async move {
                let letters = context.get("letters").cloned().unwrap_or_default();
                let joke = one.invoke(state([("letters", letters)]), config()).await?;
                Ok(NodeOutput::new().with_update("joke", joke["joke"].clone()))
            }
        })
        .add_edge(START, "scatter")
        .add_edge("scatter", END)
        .compile()
        .expect("the graph is valid");
    run(graph, state([]), |it| {
        let jokes = it["jokes"].as_array().into_iter().flatten();
        data::describe(jokes.filter_map(Value::as_str))
    })
}

fn text<'a>(state: &'a State, name: &str) -> &'a str {
    state.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn one_joke() -> CompiledGraph {
    let again = |state: &State| {
        let done = data::is_bumped(text(state, "joke"));
        if done { END.to_owned() } else { "again".to_owned() }
    };
    StateGraph::with_channels(&["letters", "subject", "joke"])
        .add_node_fn("edit", |context| async move {
            let letters = context.get_as::<Vec<String>>("letters").unwrap_or_default();
            Ok(NodeOutput::new().with_update("subject", data::edit(&letters)))
        })
        .add_node_fn("generate", |context| async move {
            let joke = data::joke(text(&context.state, "subject"));
            Ok(NodeOutput::new().with_update("joke", joke))
        })
        .add_node_fn("bump", |context| async move {
            Ok(NodeOutput::new().with_update("joke", data::bump(text(&context.state, "joke"))))
        })
        .add_edge(START, "edit")
        .add_edge("edit", "generate")
        .add_edge("generate", "bump")
        .add_conditional_edges("bump", again, [("again", "bump"), (END, END)])
        .compile()
        .expect("the graph is valid")
}
