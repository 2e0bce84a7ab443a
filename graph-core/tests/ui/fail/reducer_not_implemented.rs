//! A custom reducer must implement `Reducer`.

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
