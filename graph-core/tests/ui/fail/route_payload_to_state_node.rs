//! A route cannot send a payload to a node that runs on the state.

use graph_core::{Route, State};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) {}

#[derive(Route)]
enum Next {
    #[to(review)]
    Review(u32),
}

fn main() {
    let _ = Next::Review(3);
}
