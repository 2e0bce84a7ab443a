//! An error handler must be async.

use graph_core::{START, State, StateGraph, NodeExt};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) -> EssayUpdate {
    Essay::update()
}

fn apologize(_: &Essay) -> EssayUpdate {
    Essay::update()
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review.on_error(apologize)).edge(START, "review");
}
