//! A node must not hold a lock guard across an await.

use std::sync::Mutex;

use graph_core::{State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

static LOCK: Mutex<u32> = Mutex::new(0);

async fn review(_: &Essay) {
    let guard = LOCK.lock();
    tokio::task::yield_now().await;
    drop(guard);
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(review);
}
