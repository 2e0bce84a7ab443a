//! An async branch must return a route, not a name.

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn choose(_: &Essay) -> &'static str {
    "review"
}

fn main() {
    let _ = StateGraph::<Essay>::new().branch(START, choose);
}
