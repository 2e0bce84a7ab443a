//! Shared test helpers: a state that records the visited nodes, and a probe that traces, blocks and fails nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use graph_core::{
    Context, MemorySaver, NodeError, RunError, START, State, StateGraph, SubgraphNode, Thread,
    subgraph,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The state that most tests use. It records the nodes that the run has visited.
#[derive(State, Clone, Debug, Default, PartialEq)]
pub(crate) struct Trail {
    #[reduce(append)]
    pub(crate) path: Vec<String>,
    pub(crate) note: String,
}

/// The payload of the node [`work`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Item(pub(crate) u32);

/// The error returned by a node when the probe makes it fail.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("injected failure of `{0}`")]
pub(crate) struct InjectedError(pub(crate) String);

/// The dependencies that most tests pass to their runs. A test uses them to trace nodes, to block nodes and to make
/// nodes fail. Clones share the same traces and settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    ran: watch::Sender<Vec<(i64, String)>>,
    blocked: watch::Sender<BTreeSet<String>>,
    failures: Mutex<BTreeMap<String, u32>>,
}

impl Probe {
    /// Makes the next `times` executions of the node fail.
    pub(crate) fn fail_next(&self, node: &str, times: u32) {
        let mut failures = self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.insert(node.to_owned(), times);
    }

    /// Blocks the node until [`unblock`](Self::unblock) is called.
    pub(crate) fn block(&self, node: &str) {
        self.shared.blocked.send_modify(|it| it.extend([node.to_owned()]));
    }

    /// Lets a blocked node finish.
    pub(crate) fn unblock(&self, node: &str) {
        self.shared.blocked.send_modify(|it| it.retain(|blocked| blocked != node));
    }

    /// Returns once the node has started.
    pub(crate) async fn started(&self, node: &str) {
        let mut ran = self.shared.ran.subscribe();
        let seen = ran.wait_for(|it| it.iter().any(|(_, name)| name == node)).await;
        drop(seen.expect("the probe owns the sender"));
    }

    /// Traces the node, waits while it is blocked, and fails if requested by `fail_next`.
    pub(crate) async fn enter(&self, step: i64, name: &str) -> Result<(), NodeError> {
        self.shared.ran.send_modify(|it| it.push((step, name.to_owned())));
        let mut blocked = self.shared.blocked.subscribe();
        drop(blocked.wait_for(|it| !it.contains(name)).await?);
        let mut failures = self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match failures.get_mut(name) {
            Some(left) if *left > 0 => {
                *left -= 1;
                Err(InjectedError(name.to_owned()).into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the trace, grouped by step, and clears it. Example: `1: a b | 2: c`.
    pub(crate) fn trace(&self) -> String {
        let ran = self.shared.ran.send_replace(Vec::new());
        let steps = ran.chunk_by(|a, b| a.0 == b.0).map(|step| {
            let mut names: Vec<_> = step.iter().map(|it| it.1.as_str()).collect();
            names.sort_unstable();
            format!("{}: {}", step[0].0, names.join(" "))
        });
        steps.collect::<Vec<_>>().join(" | ")
    }

    /// Returns how often the node has run since the last call to [`trace`](Self::trace).
    pub(crate) fn count(&self, node: &str) -> usize {
        self.shared.ran.borrow().iter().filter(|it| it.1 == node).count()
    }
}

/// A node that can be added under any name. It traces itself and adds its name to the path.
pub(crate) async fn pass(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    cx.deps().enter(cx.step(), cx.node()).await?;
    Ok(visited(cx.node()))
}

/// A node that takes a payload. It traces itself and adds its name and the payload to the path.
pub(crate) async fn work(item: Item, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    let name = format!("work({})", item.0);
    cx.deps().enter(cx.step(), &name).await?;
    Ok(visited(&name))
}

/// A node that interrupts and adds the resume value to the path.
pub(crate) async fn ask(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    cx.deps().enter(cx.step(), cx.node()).await?;
    let answer: String = cx.interrupt(format!("{}?", cx.node()))?;
    Ok(visited(&answer))
}

/// Returns an update that adds a name to the path.
pub(crate) fn visited(at: &str) -> TrailUpdate {
    Trail::update().path([at.to_owned()])
}

/// Returns a state with this path.
pub(crate) fn trail<const N: usize>(path: [&str; N]) -> Trail {
    Trail { path: path.map(str::to_owned).into(), ..Trail::default() }
}

/// Returns an empty graph over [`Trail`].
pub(crate) fn graph() -> StateGraph<Trail, Probe> {
    StateGraph::new()
}

/// Returns a graph whose nodes run one after the other.
pub(crate) fn chain<const N: usize>(names: [&'static str; N]) -> StateGraph<Trail, Probe> {
    with_nodes(names).sequence(names)
}

/// Returns a graph with these nodes and no edges.
pub(crate) fn with_nodes<const N: usize>(names: [&'static str; N]) -> StateGraph<Trail, Probe> {
    names.into_iter().fold(graph(), |graph, name| graph.node_as(name, pass))
}

/// Returns a graph that runs `a`, then `b` and `c` in parallel, then `d`.
pub(crate) fn diamond() -> StateGraph<Trail, Probe> {
    with_nodes(["a", "b", "c", "d"])
        .edge(START, "a")
        .edge("a", "b")
        .edge("a", "c")
        .join(["b", "c"], "d")
}

/// Returns a node that runs the graph from an empty state and adds the resulting path to the parent's path.
pub(crate) fn sub(name: &str, inner: StateGraph<Trail, Probe>) -> SubgraphNode<Trail, Probe> {
    let inner = inner.compile().expect("the graph is valid");
    let output = |it: Trail| Trail::update().path(it.path);
    subgraph(name, &inner, |_: &Trail| Trail::default(), output)
}

/// Compiles the graph with a new [`MemorySaver`], and returns its thread `t`.
pub(crate) fn thread_of<S: State, C: Clone + Send + Sync + 'static>(
    graph: StateGraph<S, C>,
    deps: &C,
) -> Thread<S, C> {
    let graph = graph.checkpointer(MemorySaver::new()).compile();
    graph.expect("the graph is valid").thread("t", deps.clone())
}

/// Yields until all other tasks of a single-threaded test are waiting.
pub(crate) async fn yield_to_tasks() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Returns the field `path` of the thread's state.
pub(crate) async fn path_of(thread: &Thread<Trail, Probe>) -> Vec<String> {
    let state = thread.state().await.expect("the thread is readable");
    state.expect("the thread has run").values.path
}

/// Returns the name of the node whose failure ended the run.
pub(crate) fn failed_node(error: &RunError) -> &str {
    match error {
        RunError::Node { node, .. } => node,
        other => panic!("expected a node to fail: {other}"),
    }
}
