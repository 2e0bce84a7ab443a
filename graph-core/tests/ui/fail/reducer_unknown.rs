//! Unknown reducers.

use graph_core::State;

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(appendd)]
    drafts: Vec<String>,
    #[reduce(frobnicate)]
    topic: String,
}

fn main() {
    let _ = Essay::update();
}
