//! An invalid node is reported once, where it is added, and not again by the edges and routes that lead to it.

use graph_core::{END, Route, START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) -> u32 {
    3
}

#[derive(Route)]
enum Next {
    #[to(review)]
    Again,
    #[to(END)]
    Done,
}

fn next(essay: &Essay) -> Next {
    if essay.topic.is_empty() { Next::Again } else { Next::Done }
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review).edge(START, review).branch(review, next);
}
