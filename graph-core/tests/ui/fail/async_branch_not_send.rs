//! The future of an async branch must be `Send`. Unlike the message for a node, this message cannot name the value and
//! the await, because a branch may be sync or async, and the compiler does not say why the async form does not match.

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
