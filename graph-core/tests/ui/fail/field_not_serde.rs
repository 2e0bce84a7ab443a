//! A field must be serialisable.

use graph_core::State;

#[derive(Clone, Default)]
struct Draft;

#[derive(State, Clone, Default)]
struct Essay {
    draft: Draft,
}

fn main() {
    let _ = Essay::update();
}
