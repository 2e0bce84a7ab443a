//! The future of a node with options must be `Send`.

use graph_core::{START, State, StateGraph, NodeExt};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn wait() {}

async fn review(_: &Essay) -> EssayUpdate {
    let counter = std::rc::Rc::new(1);
    wait().await;
    drop(counter);
    Essay::update()
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review.retry(2)).edge(START, "review");
}
