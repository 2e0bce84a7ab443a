//! Invalid branches, and a closure that cannot be a node.

use graph_core::{Goto, START, State, StateGraph, json::JsonBranch};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

/// A branch must return a route, not a name.
fn branch_return() {
    fn choose(_: &Essay) -> &'static str {
        "review"
    }
    let _ = StateGraph::<Essay>::new().branch(START, choose);
}

/// An async branch must return a route, not a name.
fn async_branch_return() {
    async fn choose(_: &Essay) -> &'static str {
        "review"
    }
    let _ = StateGraph::<Essay>::new().branch(START, choose);
}

/// A branch of a graph that is described by JSON cannot be async.
fn json_branch_async() {
    let _ = JsonBranch::new("choose", async |_| Ok(vec![Goto::end()]));
}

/// A closure that is a node cannot change its captured variables, because each run calls a clone.
fn closure_changes_captured_variable() {
    let mut count = 0;
    let _ = StateGraph::<Essay>::new().node_as("count", async move |_: &Essay| {
        count += 1;
        Essay::update().topic(count.to_string())
    });
}

fn main() {}
