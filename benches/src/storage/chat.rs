//! The storage workload on the engine. In each step, a node appends a message.

use std::{fmt, sync::Arc};

use graph_core::{
    CompiledGraph, Durability, END, Route, RunOptions, START, State, StateGraph,
    checkpoint::Checkpointer,
};
use tokio::task::JoinSet;

use super::workload::StorageLoad;
use crate::data;

/// A list of messages that grows by one per step.
#[derive(State, Clone, Debug, Default)]
pub(crate) struct Chat {
    /// Size of a message in bytes.
    pub(crate) size: usize,
    /// Number of messages at which the loop ends.
    pub(crate) until: usize,
    /// Current number of messages.
    pub(crate) count: usize,
    #[reduce(append)]
    pub(crate) messages: Vec<String>,
}

async fn say(chat: &Chat) -> ChatUpdate {
    let count = chat.count + 1;
    Chat::update().count(count).messages([data::message(count, chat.size)])
}

#[derive(Route)]
enum Turn {
    #[to(say)]
    Again,
    #[to(END)]
    Enough,
}

fn turn(chat: &Chat) -> Turn {
    if chat.count < chat.until { Turn::Again } else { Turn::Enough }
}

pub(crate) fn graph(checkpointer: Arc<dyn Checkpointer>) -> CompiledGraph<Chat> {
    let graph = StateGraph::new().node(say).edge(START, say).branch(say, turn);
    graph.shared_checkpointer(checkpointer).compile().expect("the graph is valid")
}

/// Runs all threads of a load concurrently. Each step is stored before the next one starts.
pub(crate) async fn run(graph: &CompiledGraph<Chat>, name: impl fmt::Display, load: StorageLoad) {
    let mut threads = JoinSet::new();
    for number in 0..load.threads {
        threads.spawn(run_thread(graph.clone(), format!("{name}-{number}"), load));
    }
    while let Some(ended) = threads.join_next().await {
        ended.expect("a thread does not panic");
    }
}

async fn run_thread(graph: CompiledGraph<Chat>, name: String, load: StorageLoad) {
    let StorageLoad { steps, message, .. } = load;
    let input = Chat { size: message, until: steps, ..Chat::default() };
    let options = RunOptions::new().step_limit(u32::MAX).durability(Durability::Sync);
    let exit = graph.thread(name, ()).with_options(options).run(input).await;
    let chat = exit.expect("the run succeeds").into_state();
    assert_eq!((chat.count, chat.messages.len()), (steps, steps));
}
