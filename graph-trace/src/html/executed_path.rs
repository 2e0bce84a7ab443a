//! The executed path, which consists of the nodes that ran and the edges that were taken.

use std::collections::{BTreeMap, BTreeSet};

use graph_core::draw::{Drawing, DrawnEdge, DrawnKind, DrawnNode};

use crate::trace::{GraphTrace, RunStatus, StepTrace, TaskTrace, Trace};

/// The executed nodes and edges, keyed by their ids in a drawing.
#[derive(Debug, Default)]
pub(super) struct ExecutedPath {
    pub(super) nodes: BTreeMap<String, NodeActivity>,
    /// How often each edge was taken, keyed by the nodes at its ends. Edges that were taken by commands may be
    /// missing from the drawing.
    pub(super) edges: BTreeMap<(String, String), usize>,
}

/// A summary of the tasks of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeActivity {
    pub(super) count: usize,
    pub(super) failed: bool,
    pub(super) interrupted: bool,
}

/// Returns the executed path of a run.
pub(super) fn of(trace: &Trace, drawing: &Drawing) -> ExecutedPath {
    let mut edges: BTreeMap<&str, Vec<&DrawnEdge>> = BTreeMap::new();
    for edge in &drawing.edges {
        edges.entry(&edge.from).or_default().push(edge);
    }
    let ids = |which: fn(&DrawnNode) -> bool| -> BTreeSet<_> {
        drawing.nodes.iter().filter(|it| which(it)).map(|it| it.id.as_str()).collect()
    };
    let deferred = ids(|it| it.deferred);
    let ends = ids(|it| it.kind == DrawnKind::End);
    let mut walk = Walker { edges, deferred, ends, executed: ExecutedPath::default() };
    walk.graph(&trace.root, "", trace.end != RunStatus::Done);
    let Walker { ends, mut executed, .. } = walk;
    // An end node counts as executed if an edge to it was taken.
    for end in ends {
        let count: usize = executed.edges.iter().filter(|it| it.0.1 == end).map(|it| it.1).sum();
        if count > 0 {
            executed
                .nodes
                .insert(end.to_owned(), NodeActivity { count, ..NodeActivity::default() });
        }
    }
    executed
}

struct Walker<'a> {
    /// Outgoing edges of each node.
    edges: BTreeMap<&'a str, Vec<&'a DrawnEdge>>,
    /// Deferred nodes, which may run many steps after their predecessors.
    deferred: BTreeSet<&'a str>,
    /// Ids of the end nodes.
    ends: BTreeSet<&'a str>,
    executed: ExecutedPath,
}

impl Walker<'_> {
    /// Adds one execution of a graph. The ids of the graph's nodes start with `prefix`.
    ///
    /// If `is_open` is true, the last step may be incomplete.
    fn graph(&mut self, graph: &GraphTrace, prefix: &str, is_open: bool) {
        let mut last_run: BTreeMap<String, usize> = BTreeMap::new();
        let nodes = |step: &StepTrace| -> BTreeSet<String> {
            step.tasks.iter().map(|it| format!("{prefix}{}", it.node)).collect()
        };
        for (at, step) in graph.steps.iter().enumerate() {
            last_run.extend(nodes(step).into_iter().map(|it| (it, at)));
        }
        for (at, step) in graph.steps.iter().enumerate() {
            let next = graph.steps.get(at + 1).map(nodes).unwrap_or_default();
            let later = |id: &str| last_run.get(id).is_some_and(|it| *it > at);
            if at == 0 && step.step == 1 {
                self.enter_from_start(prefix, &nodes(step));
            }
            if step.tasks.is_empty() {
                self.enter_from_start(prefix, &next);
            }
            let is_open = is_open && at + 1 == graph.steps.len();
            for task in &step.tasks {
                self.task(task, prefix, is_open);
                if is_completed(task) && !is_open {
                    self.follow_edges(&format!("{prefix}{}", task.node), &next, later);
                }
            }
        }
    }

    /// Counts the edges from START to the nodes in `next`, if there are any.
    fn enter_from_start(&mut self, prefix: &str, next: &BTreeSet<String>) {
        let start = format!("{prefix}__start__");
        let edges = self.edges.get(start.as_str()).into_iter().flatten();
        let to: BTreeSet<_> = edges.map(|it| &it.to).filter(|it| next.contains(*it)).collect();
        for to in to {
            *self.executed.edges.entry((start.clone(), to.clone())).or_default() += 1;
            self.executed
                .nodes
                .entry(start.clone())
                .or_insert(NodeActivity { count: 1, ..NodeActivity::default() });
        }
    }

    fn task(&mut self, task: &TaskTrace, prefix: &str, is_open: bool) {
        let id = format!("{prefix}{}", task.node);
        let runs = self.executed.nodes.entry(id.clone()).or_default();
        runs.count += 1;
        runs.failed |= task.error.is_some() && !task.handled;
        runs.interrupted |= is_open && !task.interrupts.is_empty();
        let to = task.routes.iter().chain(task.sends.iter().map(|it| &it.to));
        for to in to {
            *self.executed.edges.entry((id.clone(), format!("{prefix}{to}"))).or_default() += 1;
        }
        for graph in &task.graphs {
            self.graph(graph, &format!("{id}:"), is_open);
        }
    }

    /// Counts the unconditional edges of a completed task. The targets of branches are recorded in the task itself.
    fn follow_edges(&mut self, id: &str, next: &BTreeSet<String>, later: impl Fn(&str) -> bool) {
        for edge in self.edges.get(id).into_iter().flatten().filter(|it| !it.conditional) {
            let may_run_later = edge.join.is_some() || self.deferred.contains(edge.to.as_str());
            let was_taken = next.contains(&edge.to) || (may_run_later && later(&edge.to));
            if was_taken || self.ends.contains(edge.to.as_str()) {
                *self.executed.edges.entry((id.to_owned(), edge.to.clone())).or_default() += 1;
            }
        }
    }
}

/// Returns whether a task completed without its error handler. Only in that case were the edges of its node taken.
fn is_completed(task: &TaskTrace) -> bool {
    task.error.is_none() && !task.handled
}

#[cfg(test)]
mod tests {
    use graph_core::{
        CompiledGraph, END, NodeError, NodeExt, Route, RunOptions, START, State, StateGraph,
    };

    #[derive(State, Clone, Debug, Default)]
    struct Log {
        #[reduce(add)]
        rounds: u32,
    }

    async fn a(_: &Log) -> LogUpdate {
        Log::update().rounds(1)
    }

    async fn pass(_: &Log) {}

    async fn fail(_: &Log) -> Result<(), NodeError> {
        Err("no".into())
    }

    #[derive(Route)]
    enum Next {
        #[to("a")]
        Again,
        #[to("b")]
        On,
        #[to("never")]
        Never,
    }

    fn next(log: &Log) -> Next {
        match log.rounds {
            ..3 => Next::Again,
            3 => Next::On,
            _ => Next::Never,
        }
    }

    async fn check(graph: StateGraph<Log>, expected: &str) {
        let graph: CompiledGraph<Log> = graph.compile().unwrap();
        let recorded = crate::record(&graph, Log::default(), (), RunOptions::new()).await;
        let executed = super::of(&recorded.trace, &graph.drawing(1));
        let edges = executed.edges.iter().map(|((from, to), count)| format!("{from}-{to}:{count}"));
        let edges = edges.collect::<Vec<_>>().join(" ").replace("__", "");
        assert_eq!(edges, expected);
    }

    #[tokio::test]
    async fn taken_edges_are_counted() {
        let graph = StateGraph::new().node(a).node_as("b", pass).node_as("never", pass);
        let graph = graph.edge(START, a).branch(a, next).edge("b", END).edge("never", END);
        check(graph, "start-a:1 a-a:2 a-b:1 b-end:1").await;
    }

    #[tokio::test]
    async fn joins_and_deferred_nodes_have_an_edge_from_each_predecessor() {
        let graph = StateGraph::new().node(a).node_as("b", pass).node_as("b2", pass);
        let graph = graph.node_as("c", pass).node_as("late", pass.defer());
        let graph = graph.edge(START, a).edge(START, "b").edge("b", "b2").join(("a", "b2"), "c");
        let graph = graph.edge(a, "late").edge("c", END);
        check(graph, "start-a:1 start-b:1 a-c:1 a-late:1 b-b2:1 b2-c:1 c-end:1").await;
    }

    #[tokio::test]
    async fn a_failed_step_takes_no_edges() {
        let graph = StateGraph::new().node(a).node(fail).node_as("b", pass).node_as("c", pass);
        let graph = graph.edge(START, a).edge(a, fail).edge(a, "b").edge("b", END);
        let graph = graph.edge(fail, "c").edge("c", END);
        check(graph, "start-a:1 a-b:1 a-fail:1").await;
    }
}
