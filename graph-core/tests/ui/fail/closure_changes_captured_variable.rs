//! A closure that is a node cannot change its captured variables, because each run calls a clone.

use graph_core::{State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}


fn main() {
    let mut count = 0;
    let _ = StateGraph::<Essay>::new().node_as("count", async move |_: &Essay| {
        count += 1;
        Essay::update().topic(count.to_string())
    });
}
