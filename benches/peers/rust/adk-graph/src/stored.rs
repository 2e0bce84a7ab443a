//! The stored loop on adk-graph.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use adk_graph::{
    CompiledGraph, END, NodeOutput, START, SqliteCheckpointer, State, StateGraph, StateSchema,
};
use peer_support::{
    create_database, data,
    protocol::{Job, job, runtime},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{config, number, state, turn};

/// Prepares concurrent threads that store every step in one file.
pub fn prepare(until: usize, threads: usize) -> Job {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let graph = Arc::new(runtime().block_on(chat_graph()));
    job(move || {
        let graph = graph.clone();
        async move {
            let mut tasks = JoinSet::new();
            for _ in 0..threads {
                let graph = graph.clone();
                let config = config(&NAMES.fetch_add(1, Ordering::Relaxed).to_string());
                let input = state([("until", json!(until)), ("count", json!(0))]);
                tasks.spawn(async move { graph.invoke(input, config).await });
            }
            let states = tasks.join_all().await.into_iter();
            let length = |it: State| it["messages"].as_array().map_or(0, Vec::len);
            states.map(|it| length(it.expect("the run succeeds"))).sum::<usize>().to_string()
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
