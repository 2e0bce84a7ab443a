//! A node cannot change the state in place.

use graph_core::{State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &mut Essay) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review);
}
