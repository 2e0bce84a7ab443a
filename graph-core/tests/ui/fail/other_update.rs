//! A node must return the update of its graph's state.

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

#[derive(State, Clone, Default)]
struct Report {
    title: String,
}

async fn review(_: &Essay) -> ReportUpdate {
    Report::update()
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review).edge(START, "review");
}
