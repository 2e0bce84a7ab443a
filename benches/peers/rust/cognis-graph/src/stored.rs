//! The stored loop on cognis-graph.

use std::sync::Arc;

use cognis_graph::{
    CompiledGraph, Goto, Graph, GraphState, NodeOut, SqliteCheckpointer, cognis_core::Runnable,
    node_fn,
};
use peer_support::{
    create_database, data,
    protocol::{Job, concurrent, runtime},
};
use serde::{Deserialize, Serialize};

use crate::config;

#[derive(GraphState, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    until: usize,
    count: usize,
    #[reducer(append)]
    messages: Vec<String>,
}

/// Prepares concurrent threads that store every step in one file.
pub fn prepare(until: usize, threads: usize) -> Job {
    let graph = runtime().block_on(chat_graph());
    concurrent(threads, move || {
        let (graph, input) = (graph.clone(), Chat { until, ..Chat::default() });
        async move { graph.invoke(input, config()).await.expect("the run succeeds").messages.len() }
    })
}

async fn chat_graph() -> CompiledGraph<Chat> {
    let say = node_fn::<Chat, _, _>("say", |chat, _| {
        let count = chat.count + 1;
        let goto = if count < chat.until { Goto::node("say") } else { Goto::end() };
        let messages = vec![data::message(count, data::MESSAGE_SIZE)];
        let update = ChatUpdate { until: None, count: Some(count), messages };
        async move { Ok(NodeOut { update, goto }) }
    });
    let graph = Graph::new().node("say", say).start_at("say").compile();
    let saver = SqliteCheckpointer::connect(&create_database().await).await;
    let saver = saver.expect("the database can be opened");
    graph.expect("the graph is valid").with_checkpointer(Arc::new(saver))
}
