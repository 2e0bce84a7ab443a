//! A branch must not be async.

use graph_core::Goto;
use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn choose(_: &Essay) -> Goto {
    Goto::end()
}

fn main() {
    let _ = StateGraph::<Essay>::new().branch(START, choose);
}
