//! The same workloads written by hand on tokio: what an engine can at best come near to.

use std::{future::Future, hint::black_box, pin::Pin, sync::Arc};

use tokio::task::JoinSet;

use crate::{
    engine::{Counter, Log},
    measure::Stopwatch,
};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A node as one would write it: it takes the state and gives an update, in a boxed future.
type Node<S, U> = Box<dyn Fn(Arc<S>) -> BoxFuture<U> + Send + Sync>;

fn tick() -> Node<Counter, u64> {
    node(|counter: Arc<Counter>| async move { counter.count + 1 })
}

/// Boxes a node so that the compiler does not see what is in the box: it would take the boxes away.
fn node<S, U, F>(run: impl Fn(Arc<S>) -> F + Send + Sync + 'static) -> Node<S, U>
where
    F: Future<Output = U> + Send + 'static,
{
    black_box(Box::new(move |state| Box::pin(run(state))))
}

/// A loop over a boxed future.
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

/// A `JoinSet` of so many tasks.
pub async fn run_fan_out(parts: u64) -> u64 {
    let mut tasks = JoinSet::new();
    for part in 0..parts {
        tasks.spawn(async move { part });
    }
    let mut sum = 0;
    while let Some(part) = tasks.join_next().await {
        sum += part.expect("the task ends");
    }
    sum
}

/// A walk over so many boxed nodes.
pub async fn run_chain(nodes: &[Node<Counter, u64>]) -> u64 {
    let mut state = Arc::new(Counter::default());
    for node in nodes {
        let count = node(state.clone()).await;
        Arc::make_mut(&mut state).count = count;
        tokio::task::consume_budget().await;
    }
    state.count
}

/// The nodes of a chain.
pub fn chain(nodes: usize) -> Vec<Node<Counter, u64>> {
    (0..nodes).map(|_| tick()).collect()
}

/// A loop that appends to a list; the clock runs from the end of the first step to that of the last.
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
