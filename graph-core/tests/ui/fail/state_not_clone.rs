//! A state must implement `Clone`.

use graph_core::State;

#[derive(State, Default)]
struct Essay {
    topic: String,
}

fn main() {
    let _ = Essay::update();
}
