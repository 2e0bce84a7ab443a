//! An edge cannot lead to a node that takes a payload.

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn write(_: u32) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(write).edge(START, write);
}
