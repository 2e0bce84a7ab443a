//! Misspelt node functions are reported by the compiler.

use graph_core::{END, Route, START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) {}

fn edge() {
    let _ = StateGraph::<Essay>::new().node(review).edge(START, reveiw);
}

#[derive(Route)]
enum Next {
    #[to(missing)]
    Missing,
    #[to(END)]
    Done,
}

fn main() {}
