//! The same workloads written by hand on tokio: what an engine can at best come near to.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::task::JoinSet;

use crate::engine::{Counter, Log};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A node as one would write it: it takes the state and gives an update, in a boxed future.
type Node<S, U> = Box<dyn Fn(Arc<S>) -> BoxFuture<U> + Send + Sync>;

fn tick() -> Node<Counter, u64> {
    Box::new(|counter| Box::pin(async move { counter.count + 1 }))
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

/// A loop that appends to a list.
pub async fn run_append(start: usize, more: usize) -> usize {
    let node: Node<Log, Vec<u64>> =
        Box::new(|log| Box::pin(async move { vec![log.lines.len() as u64] }));
    let mut state = Arc::new(Log { until: start + more, lines: vec![0; start] });
    loop {
        let lines = node(state.clone()).await;
        Arc::make_mut(&mut state).lines.extend(lines);
        tokio::task::consume_budget().await;
        if state.lines.len() >= state.until {
            return state.lines.len();
        }
    }
}
