//! A node that returns the state instead of an update.

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
