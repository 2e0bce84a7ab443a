//! A node must return an update, not the state.

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(essay: &Essay) -> Essay {
    essay.clone()
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review).edge(START, "review");
}
