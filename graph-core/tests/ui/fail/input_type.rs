//! The input of a run is a state, an update or an `Input`.

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn write(_: &Essay) {}

fn main() {
    let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile().unwrap();
    let _ = graph.stream("rust", ());
}
