//! A node must take the dependencies of its graph.

use graph_core::Context;
use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

struct Llm;

async fn review(_: &Essay, _: &Context<Llm>) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review).edge(START, "review");
}
