//! A named closure returns an update of its state.

use graph_core::{START, State, StateGraph, named};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

fn main() {
    let review = named("review", async |_: &Essay| 1);
    let _ = StateGraph::<Essay>::new().node(&review).edge(START, &review);
}
