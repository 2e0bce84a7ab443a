//! The state of a graph must implement `State`.

use graph_core::StateGraph;

#[derive(Clone, Default)]
struct Essay {
    topic: String,
}

fn main() {
    let _ = StateGraph::<Essay>::new();
}
