//! What the tests share: a state that remembers its path, and dependencies that see, hold and break nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use graph_core::{Context, NodeError, RunError, START, State, StateGraph, Thread};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The state of most tests: where the run has been.
#[derive(State, Clone, Debug, Default, PartialEq)]
pub(crate) struct Trail {
    #[reduce(append)]
    pub(crate) path: Vec<String>,
    pub(crate) note: String,
}

/// A payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Item(pub(crate) u32);

/// What a node fails with that was told to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{0}` is broken")]
pub(crate) struct Broken(pub(crate) String);

/// The dependencies of most tests: sees what runs, holds nodes back, and lets them fail. Clones are the same world.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    ran: watch::Sender<Vec<(i64, String)>>,
    held: watch::Sender<BTreeSet<String>>,
    faults: Mutex<BTreeMap<String, u32>>,
}

impl World {
    /// Lets the next `times` visits of the node fail.
    pub(crate) fn breaks(&self, node: &str, times: u32) {
        let mut faults = self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.insert(node.to_owned(), times);
    }

    /// Keeps the node from finishing.
    pub(crate) fn hold(&self, node: &str) {
        self.shared.held.send_modify(|it| it.extend([node.to_owned()]));
    }

    /// Lets a held node finish.
    pub(crate) fn release(&self, node: &str) {
        self.shared.held.send_modify(|it| it.retain(|held| held != node));
    }

    /// Returns once the node has started.
    pub(crate) async fn started(&self, node: &str) {
        let mut ran = self.shared.ran.subscribe();
        let seen = ran.wait_for(|it| it.iter().any(|(_, name)| name == node)).await;
        drop(seen.expect("the world holds the sender"));
    }

    /// Notes a visit, waits while the node is held, and fails if it is broken.
    pub(crate) async fn visit(&self, step: i64, name: &str) -> Result<(), NodeError> {
        self.shared.ran.send_modify(|it| it.push((step, name.to_owned())));
        let mut held = self.shared.held.subscribe();
        drop(held.wait_for(|it| !it.contains(name)).await?);
        let mut faults = self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
        match faults.get_mut(name) {
            Some(left) if *left > 0 => {
                *left -= 1;
                Err(Broken(name.to_owned()).into())
            }
            _ => Ok(()),
        }
    }

    /// What has run since the last call, per step: `1: a b | 2: c`.
    pub(crate) fn trace(&self) -> String {
        let ran = self.shared.ran.send_replace(Vec::new());
        let steps = ran.chunk_by(|a, b| a.0 == b.0).map(|step| {
            let mut names: Vec<_> = step.iter().map(|it| it.1.as_str()).collect();
            names.sort_unstable();
            format!("{}: {}", step[0].0, names.join(" "))
        });
        steps.collect::<Vec<_>>().join(" | ")
    }

    /// How often the node has run since the last trace.
    pub(crate) fn count(&self, node: &str) -> usize {
        self.shared.ran.borrow().iter().filter(|it| it.1 == node).count()
    }
}

/// A node under any name: it notes that it ran, and adds its name to the path.
pub(crate) async fn pass(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    cx.deps().visit(cx.step(), cx.node()).await?;
    Ok(been(cx.node()))
}

/// A node that takes payloads.
pub(crate) async fn work(item: Item, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    let name = format!("work({})", item.0);
    cx.deps().visit(cx.step(), &name).await?;
    Ok(been(&name))
}

/// A node that asks what to write, and writes the answer.
pub(crate) async fn ask(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    cx.deps().visit(cx.step(), cx.node()).await?;
    let answer: String = cx.interrupt(format!("{}?", cx.node()))?;
    Ok(been(&answer))
}

/// The update that adds one name to the path.
pub(crate) fn been(at: &str) -> TrailUpdate {
    Trail::update().path([at.to_owned()])
}

/// A state with this path.
pub(crate) fn trail<const N: usize>(path: [&str; N]) -> Trail {
    Trail { path: path.map(str::to_owned).into(), ..Trail::default() }
}

/// An empty graph over [`Trail`].
pub(crate) fn graph() -> StateGraph<Trail, World> {
    StateGraph::new()
}

/// A graph whose nodes run one after the other.
pub(crate) fn chain<const N: usize>(names: [&'static str; N]) -> StateGraph<Trail, World> {
    with_nodes(names).sequence(names)
}

/// A graph with these nodes, and no edges.
pub(crate) fn with_nodes<const N: usize>(names: [&'static str; N]) -> StateGraph<Trail, World> {
    names.into_iter().fold(graph(), |graph, name| graph.node_as(name, pass))
}

/// `a`, then `b` and `c` side by side, then `d`.
pub(crate) fn diamond() -> StateGraph<Trail, World> {
    with_nodes(["a", "b", "c", "d"])
        .edge(START, "a")
        .edge("a", "b")
        .edge("a", "c")
        .join(["b", "c"], "d")
}

/// Lets all other tasks of the test come to rest: on one thread, each runs until it waits.
pub(crate) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// The path the thread's state shows.
pub(crate) async fn path_of(thread: &Thread<Trail, World>) -> Vec<String> {
    let state = thread.state().await.expect("the thread is readable");
    state.expect("the thread has run").values.path
}

/// The node that a run failed at.
pub(crate) fn failed_node(error: &RunError) -> &str {
    match error {
        RunError::Node { node, .. } => node,
        other => panic!("a node was to fail, but: {other}"),
    }
}
