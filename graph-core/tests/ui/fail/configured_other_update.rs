//! A node with options returns an update of its state.

use graph_core::{START, State, StateGraph, NodeExt};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) -> String {
    String::new()
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review.retry(2)).edge(START, "review");
}
