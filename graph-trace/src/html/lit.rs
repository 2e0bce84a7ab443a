//! The way a run took through its graph: which nodes ran, and which edges led to them.

use std::collections::{BTreeMap, BTreeSet};

use graph_core::draw::{Drawing, DrawnEdge, DrawnKind, DrawnNode};

use crate::trace::{End, GraphTrace, StepTrace, TaskTrace, Trace};

/// What ran and what was taken, by the ids of a drawing.
#[derive(Debug, Default)]
pub(super) struct Lit {
    pub(super) nodes: BTreeMap<String, Runs>,
    /// How often each edge was taken, by its ends. Those of commands may stand in no drawing.
    pub(super) edges: BTreeMap<(String, String), usize>,
}

/// What is known of a node's tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Runs {
    pub(super) count: usize,
    pub(super) failed: bool,
    pub(super) asked: bool,
}

/// The way that a run took.
pub(super) fn of(trace: &Trace, drawing: &Drawing) -> Lit {
    let mut edges: BTreeMap<&str, Vec<&DrawnEdge>> = BTreeMap::new();
    for edge in &drawing.edges {
        edges.entry(&edge.from).or_default().push(edge);
    }
    let ids = |which: fn(&DrawnNode) -> bool| -> BTreeSet<_> {
        drawing.nodes.iter().filter(|it| which(it)).map(|it| it.id.as_str()).collect()
    };
    let patient = ids(|it| it.deferred);
    let ends = ids(|it| it.kind == DrawnKind::End);
    let mut walk = Walk { edges, patient, ends, lit: Lit::default() };
    walk.graph(&trace.root, "", trace.end != End::Done);
    let Walk { ends, mut lit, .. } = walk;
    // Paths meet their end wherever an edge to it was taken.
    for end in ends {
        let count: usize = lit.edges.iter().filter(|it| it.0.1 == end).map(|it| it.1).sum();
        if count > 0 {
            lit.nodes.insert(end.to_owned(), Runs { count, ..Runs::default() });
        }
    }
    lit
}

struct Walk<'a> {
    /// What leads out of each node.
    edges: BTreeMap<&'a str, Vec<&'a DrawnEdge>>,
    /// The nodes that may run long after what led to them.
    patient: BTreeSet<&'a str>,
    /// Where paths end.
    ends: BTreeSet<&'a str>,
    lit: Lit,
}

impl Walk<'_> {
    /// One visit of a graph whose nodes' ids begin with `prefix`.
    ///
    /// Where it is `open`, its last step may not have been brought to its end.
    fn graph(&mut self, graph: &GraphTrace, prefix: &str, open: bool) {
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
                self.start(prefix, &nodes(step));
            }
            if step.tasks.is_empty() {
                self.start(prefix, &next);
            }
            let open = open && at + 1 == graph.steps.len();
            for task in &step.tasks {
                self.task(task, prefix, open);
                if is_done(task) && !open {
                    self.edges(&format!("{prefix}{}", task.node), &next, later);
                }
            }
        }
    }

    /// START led to these nodes, where an edge says that it can.
    fn start(&mut self, prefix: &str, next: &BTreeSet<String>) {
        let start = format!("{prefix}__start__");
        let edges = self.edges.get(start.as_str()).into_iter().flatten();
        let to: BTreeSet<_> = edges.map(|it| &it.to).filter(|it| next.contains(*it)).collect();
        for to in to {
            *self.lit.edges.entry((start.clone(), to.clone())).or_default() += 1;
            self.lit.nodes.entry(start.clone()).or_insert(Runs { count: 1, ..Runs::default() });
        }
    }

    fn task(&mut self, task: &TaskTrace, prefix: &str, open: bool) {
        let id = format!("{prefix}{}", task.node);
        let runs = self.lit.nodes.entry(id.clone()).or_default();
        runs.count += 1;
        runs.failed |= task.error.is_some() && !task.handled;
        runs.asked |= open && !task.questions.is_empty();
        let to = task.routes.iter().chain(task.sends.iter().map(|it| &it.to));
        for to in to {
            *self.lit.edges.entry((id.clone(), format!("{prefix}{to}"))).or_default() += 1;
        }
        for graph in &task.graphs {
            self.graph(graph, &format!("{id}:"), open);
        }
    }

    /// A task was done, and its node's edges led on; what branches chose is known from the task itself.
    fn edges(&mut self, id: &str, next: &BTreeSet<String>, later: impl Fn(&str) -> bool) {
        for edge in self.edges.get(id).into_iter().flatten().filter(|it| !it.conditional) {
            let waits = edge.join.is_some() || self.patient.contains(edge.to.as_str());
            let led = next.contains(&edge.to) || (waits && later(&edge.to));
            if led || self.ends.contains(edge.to.as_str()) {
                *self.lit.edges.entry((id.to_owned(), edge.to.clone())).or_default() += 1;
            }
        }
    }
}

/// Whether a task came to its end by itself, so that its node's edges count.
fn is_done(task: &TaskTrace) -> bool {
    task.error.is_none() && !task.handled
}

#[cfg(test)]
mod tests {
    use graph_core::{
        CompiledGraph, Configure, END, NodeError, Route, RunOptions, START, State, StateGraph,
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
        let lit = super::of(&recorded.trace, &graph.drawing(1));
        let edges = lit.edges.iter().map(|((from, to), count)| format!("{from}-{to}:{count}"));
        let edges = edges.collect::<Vec<_>>().join(" ").replace("__", "");
        assert_eq!(edges, expected);
    }

    #[tokio::test]
    async fn edges_are_counted_as_they_are_taken() {
        let graph = StateGraph::new().node(a).node_as("b", pass).node_as("never", pass);
        let graph = graph.edge(START, a).branch(a, next).edge("b", END).edge("never", END);
        check(graph, "start-a:1 a-a:2 a-b:1 b-end:1").await;
    }

    #[tokio::test]
    async fn what_waits_is_led_to_by_all_it_waited_for() {
        let graph = StateGraph::new().node(a).node_as("b", pass).node_as("b2", pass);
        let graph = graph.node_as("c", pass).node_as("late", pass.defer());
        let graph = graph.edge(START, a).edge(START, "b").edge("b", "b2").join(("a", "b2"), "c");
        let graph = graph.edge(a, "late").edge("c", END);
        check(graph, "start-a:1 start-b:1 a-c:1 a-late:1 b-b2:1 b2-c:1 c-end:1").await;
    }

    #[tokio::test]
    async fn a_step_that_failed_leads_nowhere() {
        let graph = StateGraph::new().node(a).node(fail).node_as("b", pass).node_as("c", pass);
        let graph = graph.edge(START, a).edge(a, fail).edge(a, "b").edge("b", END);
        let graph = graph.edge(fail, "c").edge("c", END);
        check(graph, "start-a:1 a-b:1 a-fail:1").await;
    }
}
