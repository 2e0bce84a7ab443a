//! The error of a node must be `Send + Sync`.

use graph_core::{State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review);
}
