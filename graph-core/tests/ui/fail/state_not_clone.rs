//! A state that cannot be cloned.

use graph_core::State;

#[derive(State, Default)]
struct Essay {
    topic: String,
}

fn main() {
    let _ = Essay::update();
}
