//! The route of a command must implement `Route`.

use graph_core::Command;
use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

enum Next {
    Review,
}

async fn decide(_: &Essay) -> Command<Essay, Next> {
    Essay::update().goto(Next::Review)
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(decide).edge(START, "decide");
}
