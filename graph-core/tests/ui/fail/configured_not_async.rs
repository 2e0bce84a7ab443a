//! A node with options must be async.

use graph_core::{START, State, StateGraph, NodeExt};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

fn review(_: &Essay) -> EssayUpdate {
    Essay::update()
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review.retry(2)).edge(START, "review");
}
