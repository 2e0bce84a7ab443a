//! Two branches of different lengths, which meet at a join.

use graph_core::{Context, MemorySaver, NodeError, NodeExt, START, State, StateGraph, Thread};

use crate::support::Probe;

/// A state with one field for each branch.
#[derive(State, Clone, Debug, Default, PartialEq)]
pub(super) struct Branches {
    pub(super) left: String,
    pub(super) right: String,
    #[reduce(append)]
    pub(super) log: Vec<String>,
    pub(super) both: String,
}

pub(super) type Graph = StateGraph<Branches, Probe>;

/// Appends the node's name to a field.
async fn step_in(
    old: &str,
    cx: &Context<Probe>,
    write: fn(BranchesUpdate, String) -> BranchesUpdate,
) -> Result<BranchesUpdate, NodeError> {
    cx.deps().enter(cx.step(), cx.node()).await?;
    Ok(write(Branches::update(), format!("{old}{} ", cx.node())))
}

pub(super) async fn left(
    state: &Branches,
    cx: &Context<Probe>,
) -> Result<BranchesUpdate, NodeError> {
    step_in(&state.left, cx, BranchesUpdate::left).await
}

pub(super) async fn right(
    state: &Branches,
    cx: &Context<Probe>,
) -> Result<BranchesUpdate, NodeError> {
    step_in(&state.right, cx, BranchesUpdate::right).await
}

async fn ask_left(state: &Branches, cx: &Context<Probe>) -> Result<BranchesUpdate, NodeError> {
    cx.deps().enter(cx.step(), cx.node()).await?;
    let answer: String = cx.interrupt("which?")?;
    Ok(Branches::update().left(format!("{}{answer} ", state.left)))
}

pub(super) async fn join(
    state: &Branches,
    cx: &Context<Probe>,
) -> Result<BranchesUpdate, NodeError> {
    cx.deps().enter(cx.step(), cx.node()).await?;
    Ok(Branches::update().both(format!("{}| {}", state.left, state.right)))
}

/// Returns a graph with the branches `a1` and `b1 → b2 → b3`, which meet at `join`.
pub(super) fn two_branches() -> Graph {
    branches(|graph| graph.node_as("a1", left.reads(["left"]).writes(["left"])))
}

/// Returns the same graph with an interrupt in `a1`.
pub(super) fn interrupted_branches() -> Graph {
    branches(|graph| graph.node_as("a1", ask_left.reads(["left"]).writes(["left"])))
}

fn branches(add_a1: fn(Graph) -> Graph) -> Graph {
    let right = || right.reads(["right"]).writes(["right"]);
    add_a1(StateGraph::new())
        .node_as("b1", right())
        .node_as("b2", right())
        .node_as("b3", right())
        .node_as("join", join.reads(["left", "right"]).writes(["both"]))
        .edge(START, "a1")
        .edge(START, "b1")
        .edge("b1", "b2")
        .edge("b2", "b3")
        .join(["a1", "b3"], "join")
}

pub(super) fn thread(graph: Graph, probe: &Probe) -> Thread<Branches, Probe> {
    let graph = graph.checkpointer(MemorySaver::new()).eager().compile();
    graph.expect("the graph is valid").thread("t", probe.clone())
}

/// Returns one line per checkpoint, oldest first: the step, the state and the next nodes.
pub(super) async fn history(thread: &Thread<Branches, Probe>) -> Vec<String> {
    let history = thread.history(None).await.expect("the history is readable");
    let line = |it: &graph_core::ThreadState<Branches>| {
        let tasks: Vec<_> = it.tasks.iter().map(|it| (&it.node, &it.result)).collect();
        format!("{} {:?} {:?} {tasks:?}", it.step, it.values, it.next)
    };
    history.iter().rev().map(line).collect()
}
