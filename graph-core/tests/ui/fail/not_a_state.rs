//! A graph over a type that is no state.

use graph_core::StateGraph;

#[derive(Clone, Default)]
struct Essay {
    topic: String,
}

fn main() {
    let _ = StateGraph::<Essay>::new();
}
