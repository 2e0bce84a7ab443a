//! The stored workload on the engine: a node that says something as often as it is to.

use std::{fmt, sync::Arc};

use graph_core::{
    CompiledGraph, Durability, END, Route, RunOptions, START, State, StateGraph,
    checkpoint::Checkpointer,
};
use tokio::task::JoinSet;

use super::StorageLoad;

/// A list of messages that grows by one a step.
#[derive(State, Clone, Debug, Default)]
pub struct Chat {
    /// How many bytes a message has.
    pub size: usize,
    /// How many messages there are to be.
    pub until: usize,
    /// How many there are.
    pub count: usize,
    /// The messages.
    #[reduce(append)]
    pub messages: Vec<String>,
}

async fn add_message(chat: &Chat) -> ChatUpdate {
    let count = chat.count + 1;
    let mut message = count.to_string();
    // Not by `format!`, which pads letter by letter: what is measured is how it is stored.
    message.push_str(&" ".repeat(chat.size.saturating_sub(message.len())));
    Chat::update().count(count).messages([message])
}

#[derive(Route)]
enum Turn {
    #[to(add_message)]
    Again,
    #[to(END)]
    Enough,
}

fn turn(chat: &Chat) -> Turn {
    if chat.count < chat.until { Turn::Again } else { Turn::Enough }
}

/// The chat, its threads kept in this checkpointer.
pub fn graph(checkpointer: Arc<dyn Checkpointer>) -> CompiledGraph<Chat> {
    let graph =
        StateGraph::new().node(add_message).edge(START, add_message).branch(add_message, turn);
    graph.shared_checkpointer(checkpointer).compile().expect("the graph is sound")
}

/// Runs the threads of a load, all at once, each step stored before the next.
pub async fn run(graph: &CompiledGraph<Chat>, name: impl fmt::Display, load: StorageLoad) {
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
    let options = RunOptions::new().limit(u32::MAX).durability(Durability::Sync);
    let exit = graph.thread(name, ()).with(options).run(input).await;
    let chat = exit.expect("the chat ends").into_state();
    assert_eq!((chat.count, chat.messages.len()), (steps, steps));
}
