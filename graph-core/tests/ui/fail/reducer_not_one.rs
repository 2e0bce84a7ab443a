//! A type named as a reducer that is none.

use graph_core::State;

struct Longest;

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(Longest)]
    topic: String,
}

fn main() {
    let _ = Essay::update();
}
