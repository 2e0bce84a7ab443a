//! The future of an async branch must be `Send`. The message cannot name the value and the await as that of
//! a node does, because a branch may be async or not, and the compiler does not say why the async form does not fit.

use std::rc::Rc;

use graph_core::{Goto, START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn choose(_: &Essay) -> Goto {
    let count = Rc::new(3);
    tokio::task::yield_now().await;
    drop(count);
    Goto::end()
}

fn main() {
    let _ = StateGraph::<Essay>::new().branch(START, choose);
}
