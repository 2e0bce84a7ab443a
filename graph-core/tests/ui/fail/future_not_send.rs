//! The future of a node must be `Send`.

use std::rc::Rc;

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) {
    let count = Rc::new(3);
    tokio::task::yield_now().await;
    drop(count);
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review).edge(START, "review");
}
