//! The error at an edge refers to the error at `.node(..)`.

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) -> u32 {
    3
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review).edge(START, review);
}
