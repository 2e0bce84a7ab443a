//! A node takes the context by reference.

use graph_core::{Context, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay, _: Context) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review);
}
