//! The workloads of the module `engine`, implemented directly on tokio, as a lower bound for the cost of an engine.

use std::{future::Future, hint::black_box, pin::Pin, sync::Arc};

use tokio::task::JoinSet;

use crate::{
    engine::{Counter, Log},
    measure::Stopwatch,
};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A node that is implemented without an engine. It takes the state and returns an update in a boxed future.
type Node<S, U> = Box<dyn Fn(Arc<S>) -> BoxFuture<U> + Send + Sync>;

fn tick() -> Node<Counter, u64> {
    node(|counter: Arc<Counter>| async move { counter.count + 1 })
}

/// Boxes a node and hides its contents from the compiler, which would otherwise optimize the boxes away.
fn node<S, U, F>(run: impl Fn(Arc<S>) -> F + Send + Sync + 'static) -> Node<S, U>
where
    F: Future<Output = U> + Send + 'static,
{
    black_box(Box::new(move |state| Box::pin(run(state))))
}

/// Runs a loop that calls one boxed node.
pub async fn run_loop(steps: u64) -> u64 {
    let node = tick();
    let mut state = Arc::new(Counter { count: 0, until: steps });
    loop {
        let count = node(state.clone()).await;
        Arc::make_mut(&mut state).count = count;
        tokio::task::consume_budget().await;
        if state.count >= state.until {
            return state.count;
        }
    }
}

/// Runs `parts` tasks in a `JoinSet`.
pub async fn run_fan_out(parts: u64) -> u64 {
    let mut tasks = JoinSet::new();
    for part in 0..parts {
        tasks.spawn(async move { part });
    }
    let mut sum = 0;
    while let Some(part) = tasks.join_next().await {
        sum += part.expect("the task does not panic");
    }
    sum
}

/// Runs boxed nodes one after another.
pub async fn run_chain(nodes: &[Node<Counter, u64>]) -> u64 {
    let mut state = Arc::new(Counter::default());
    for node in nodes {
        let count = node(state.clone()).await;
        Arc::make_mut(&mut state).count = count;
        tokio::task::consume_budget().await;
    }
    state.count
}

/// Creates the nodes of a chain.
pub fn chain(nodes: usize) -> Vec<Node<Counter, u64>> {
    (0..nodes).map(|_| tick()).collect()
}

/// Runs a loop that appends to a list. The stopwatch measures the time from the end of the first step to the end of the
/// last step.
pub async fn run_append(log: Log, watch: &Stopwatch) -> usize {
    let write = node(|log: Arc<Log>| async move { vec![log.lines.len() as u64] });
    let mut state = Arc::new(log);
    loop {
        let lines = write(state.clone()).await;
        Arc::make_mut(&mut state).lines.extend(lines);
        tokio::task::consume_budget().await;
        let length = state.lines.len();
        if length == state.from + 1 {
            watch.start();
        }
        if length >= state.until {
            watch.stop();
            return length;
        }
    }
}
