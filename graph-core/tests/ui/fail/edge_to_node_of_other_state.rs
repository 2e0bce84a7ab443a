//! An edge cannot lead to a node that takes a state other than that of the graph.

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

#[derive(State, Clone, Default)]
struct Report {
    title: String,
}

async fn review(_: &Report) {}

fn main() {
    let _ = StateGraph::<Essay>::new().edge(START, review);
}
