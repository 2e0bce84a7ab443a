//! A node has one or two parameters.

use graph_core::{State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review() {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review);
}
