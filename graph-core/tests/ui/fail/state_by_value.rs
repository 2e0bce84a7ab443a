//! A node takes the state by reference.

use graph_core::{State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: Essay) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review);
}
