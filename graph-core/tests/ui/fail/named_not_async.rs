//! A named closure must be async.

use graph_core::{START, State, StateGraph, named};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

fn main() {
    let review = named("review", |_: &Essay| Essay::update());
    let _ = StateGraph::<Essay>::new().node(&review).edge(START, &review);
}
