//! The stored loop on adk-graph.

use std::sync::Arc;

use adk_graph::{
    CompiledGraph, END, NodeOutput, START, SqliteCheckpointer, StateGraph, StateSchema,
};
use peer_support::{
    create_database, data,
    protocol::{Job, concurrent, runtime},
};
use serde_json::Value;

use crate::{config, counter, number, turn};

/// Prepares concurrent threads that store every step in one file.
pub fn prepare(until: usize, threads: usize) -> Job {
    let graph = Arc::new(runtime().block_on(chat_graph()));
    concurrent(threads, move || {
        let (graph, input) = (graph.clone(), counter(until));
        async move {
            let state = graph.invoke(input, config()).await.expect("the run succeeds");
            state["messages"].as_array().map_or(0, Vec::len)
        }
    })
}

async fn chat_graph() -> CompiledGraph {
    let schema = StateSchema::builder().channel("until").channel("count").list_channel("messages");
    let graph = StateGraph::new(schema.build())
        .add_node_fn("say", |context| async move {
            let count = number(&context.state, "count") + 1;
            let message = Value::from(data::message(count as usize, data::MESSAGE_SIZE));
            Ok(NodeOutput::new().with_update("count", count).with_update("messages", message))
        })
        .add_edge(START, "say")
        .add_conditional_edges("say", turn, [("again", "say"), (END, END)])
        .compile()
        .expect("the graph is valid");
    let saver = SqliteCheckpointer::new(&create_database().await).await;
    graph.with_checkpointer(saver.expect("the database can be opened"))
}
