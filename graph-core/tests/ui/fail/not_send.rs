//! Futures that are not `Send`.

use std::{rc::Rc, sync::Mutex};

use graph_core::{Goto, NodeExt, START, State, StateGraph};
use tokio::task::yield_now;

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

/// The future of a node must be `Send`.
fn node() {
    async fn review(_: &Essay) {
        let count = Rc::new(3);
        yield_now().await;
        drop(count);
    }
    let _ = StateGraph::<Essay>::new().node(review).edge(START, "review");
}

/// The future of a node with options must be `Send`.
fn configured_node() {
    async fn review(_: &Essay) -> EssayUpdate {
        let count = Rc::new(3);
        yield_now().await;
        drop(count);
        Essay::update()
    }
    let _ = StateGraph::<Essay>::new().node(review.retry(2)).edge(START, "review");
}

/// A node must not hold a lock guard across an await.
fn lock_held_across_await() {
    static LOCK: Mutex<u32> = Mutex::new(0);
    async fn review(_: &Essay) {
        let guard = LOCK.lock();
        yield_now().await;
        drop(guard);
    }
    let _ = StateGraph::<Essay>::new().node(review);
}

/// The future of an async branch must be `Send`. Unlike the message for a node, this message cannot name the value and
/// the await, because a branch may be sync or async, and the compiler does not say why the async form does not match.
fn async_branch() {
    async fn choose(_: &Essay) -> Goto {
        let count = Rc::new(3);
        yield_now().await;
        drop(count);
        Goto::end()
    }
    let _ = StateGraph::<Essay>::new().branch(START, choose);
}

fn main() {}
