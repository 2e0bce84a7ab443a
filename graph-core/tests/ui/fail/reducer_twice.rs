//! A field can have only one reducer.

use graph_core::State;

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(append)]
    #[reduce(max)]
    topic: String,
    #[reduce(append, max)]
    text: String,
}

fn main() {
    let _ = Essay::update();
}
