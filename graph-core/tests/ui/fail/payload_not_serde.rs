//! A payload must be serialisable.

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

#[derive(Clone)]
struct Section(String);

async fn write(_: Section) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(write).edge(START, "write");
}
