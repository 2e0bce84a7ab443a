//! The values of an update must have the type of the field.

use graph_core::State;

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
    count: u64,
}

fn main() {
    let _ = Essay::update().topic(3).count("three").tpoic("x");
}
