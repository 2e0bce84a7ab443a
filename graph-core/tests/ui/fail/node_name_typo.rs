//! A misspelt node function is reported by the compiler.

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review).edge(START, reveiw);
}
