//! A payload cannot be sent to a node that runs on the state.

use graph_core::{State, send};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) {}

fn main() {
    let _ = send(review, 3_u32);
}
