//! The context is the second parameter of a node.

use graph_core::{Context, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Context, _: &Essay) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review);
}
