//! The targets of a route must be nodes.

use graph_core::{Route, State};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

fn sync(_: &Essay) {}

#[derive(Route)]
enum Next {
    #[to(missing)]
    Missing,
    #[to(sync)]
    Sync,
}

fn main() {
    let _ = Next::Sync;
}
