//! The stored workloads on juncture.

use std::sync::Arc;

use juncture_checkpoint::SqliteSaver;
use juncture_core::{
    CompiledGraph, Durability, END, JunctureError, StateGraph, node::NodeFnUpdate,
};
use juncture_derive::State;
use peer_support::{
    create_database, data,
    protocol::{Job, concurrent, runtime},
};
use serde::{Deserialize, Serialize};

use crate::{again, execute};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    until: usize,
    count: usize,
    #[reducer(append)]
    messages: Vec<String>,
}

/// Prepares concurrent threads that store every step in one file.
pub fn prepare(until: usize, threads: usize) -> Job {
    let graph = runtime().block_on(async { chat_graph(&create_database().await).await });
    let graph = Arc::new(graph);
    concurrent(threads, move || {
        let (graph, input) = (graph.clone(), Chat { until, ..Chat::default() });
        async move { execute(&graph, input, Durability::Sync).await.messages.len() }
    })
}

fn turn(chat: &Chat) -> &str {
    if chat.count < chat.until { "again" } else { END }
}

async fn chat_graph(url: &str) -> CompiledGraph<Chat> {
    let say = NodeFnUpdate(|chat: &Chat| {
        let count = chat.count + 1;
        let messages = Some(vec![data::message(count, data::MESSAGE_SIZE)]);
        let update = ChatUpdate { until: None, count: Some(count), messages };
        async move { Ok::<_, JunctureError>(update) }
    });
    let mut graph = StateGraph::new();
    graph.add_node_simple("say", say).expect("the name is unique");
    graph.set_entry_point("say");
    graph.add_conditional_edges("say", Arc::new(turn), again("say"));
    let saver = SqliteSaver::from_connection_string(url).await.expect("the file can be opened");
    graph.compile_with_checkpointer(Some(Arc::new(saver))).expect("the graph is valid")
}
