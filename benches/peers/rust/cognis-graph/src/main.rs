//! The workloads on cognis-graph. See `peer_support::protocol` for the requests.

mod jokes;
mod stored;
mod wide;

use std::{io, sync::Arc};

use cognis_graph::{
    CompiledGraph, Durability, Goto, Graph, GraphState, InMemoryCheckpointer, NodeOut, Subgraph,
    cognis_core::{Runnable, RunnableConfig},
    node_fn,
};
use peer_support::{
    data,
    protocol::{Job, concurrent, job, serve, unknown},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

fn main() -> io::Result<()> {
    serve("0.3.2", prepare)
}

fn prepare(workload: &str, size: usize) -> Result<Job, String> {
    let count = size as u64;
    Ok(match workload {
        "loop" => run(loop_graph(), move || Counter { count: 0, until: count }, counted),
        "fan-out" => run(fan_out(count), Sum::default, |it| it.sum.to_string()),
        "growing-list" => {
            let input = move || Log { until: size, lines: Vec::new() };
            run(growing_list(), input, |it| it.lines.len().to_string())
        }
        "sequential" => run(sequential(size), Counter::default, counted),
        "sequential-checkpoint" => run(at_exit(sequential(size)), Counter::default, counted),
        "fanout-to-subgraph" => jokes::prepare(size, |it| it),
        "fanout-to-subgraph-checkpoint" => jokes::prepare(size, at_exit),
        "wide-state" => wide::prepare(size, |it| it),
        "wide-state-checkpoint" => wide::prepare(size, at_exit),
        "nested" => run(nested(), move || Counter { count: 0, until: count }, counted),
        "threads" => threads(size),
        "cpu-branches" => {
            run(cpu_branches(count), Spins::default, |it| data::spin_answer(it.results))
        }
        "sqlite-loop" => stored::prepare(size, 1),
        "sqlite-loop-16" => stored::prepare(size, data::STORED_THREADS),
        "react-agent" | "react-agent-checkpoint" | "agent-loop" => {
            return Err("no agent in this crate".to_owned());
        }
        "resume" => return Err("no threads: a finished run cannot be continued".to_owned()),
        "server" => return Err("no server in this crate".to_owned()),
        _ => return Err(unknown(workload)),
    })
}

/// Runs a graph and describes its final state.
fn run<S>(
    graph: CompiledGraph<S>,
    input: impl Fn() -> S + Send + Sync + 'static,
    answer: fn(S) -> String,
) -> Job
where
    S: GraphState + Clone,
    S::Update: Clone,
{
    let graph = Arc::new(graph);
    job(move || {
        let (graph, input) = (graph.clone(), input());
        async move { answer(graph.invoke(input, config()).await.expect("the run succeeds")) }
    })
}

/// Returns the configuration of a new run, without a limit on steps.
fn config() -> RunnableConfig {
    RunnableConfig::new().with_recursion_limit(u32::MAX)
}

/// Adds a checkpointer in memory that stores the final state.
fn at_exit<S>(graph: CompiledGraph<S>) -> CompiledGraph<S>
where
    S: GraphState + Clone,
{
    let graph = graph.with_durability(Durability::Exit);
    graph.with_checkpointer(Arc::new(InMemoryCheckpointer::new()))
}

#[derive(GraphState, Clone, Debug, Default, Serialize, Deserialize)]
struct Counter {
    count: u64,
    until: u64,
}

fn counted(counter: Counter) -> String {
    counter.count.to_string()
}

/// Returns an update that increments the counter.
fn increment(counter: &Counter) -> CounterUpdate {
    CounterUpdate { count: Some(counter.count + 1), until: None }
}

/// Returns the node to repeat, or the end if the counter has reached its end after one more step.
fn again(counter: &Counter, node: &str) -> Goto {
    if counter.count + 1 < counter.until { Goto::node(node) } else { Goto::end() }
}

fn loop_graph() -> CompiledGraph<Counter> {
    let tick = node_fn::<Counter, _, _>("tick", |counter, _| {
        let (update, goto) = (increment(counter), again(counter, "tick"));
        async move { Ok(NodeOut { update, goto }) }
    });
    Graph::new().node("tick", tick).start_at("tick").compile().expect("the graph is valid")
}

#[derive(GraphState, Clone, Debug, Default)]
struct Sum {
    #[reducer(add)]
    sum: u64,
}

fn fan_out(parts: u64) -> CompiledGraph<Sum> {
    let scatter = node_fn::<Sum, _, _>("scatter", move |_, _| async move {
        let parts = (0..parts).map(|it| ("add".to_owned(), json!(it))).collect();
        Ok(NodeOut::goto_only(Goto::Send(parts)))
    });
    let add = node_fn::<Sum, _, _>("add", |_, context| {
        let part = context.payload().and_then(|it| it.as_u64()).unwrap_or_default();
        async move { Ok(NodeOut { update: SumUpdate { sum: part }, goto: Goto::halt() }) }
    });
    let graph = Graph::new().node("scatter", scatter).node("add", add).start_at("scatter");
    graph.compile().expect("the graph is valid")
}

#[derive(GraphState, Clone, Debug, Default)]
struct Log {
    until: usize,
    #[reducer(append)]
    lines: Vec<u64>,
}

fn growing_list() -> CompiledGraph<Log> {
    let write = node_fn::<Log, _, _>("write", |log, _| {
        let length = log.lines.len();
        let goto = if length + 1 < log.until { Goto::node("write") } else { Goto::end() };
        let update = LogUpdate { until: None, lines: vec![length as u64] };
        async move { Ok(NodeOut { update, goto }) }
    });
    Graph::new().node("write", write).start_at("write").compile().expect("the graph is valid")
}

fn sequential(nodes: usize) -> CompiledGraph<Counter> {
    use data::node_name as name;
    let mut graph = Graph::new().start_at(name(0));
    for index in 0..nodes {
        let next = if index + 1 < nodes { Goto::node(name(index + 1)) } else { Goto::end() };
        let node = node_fn::<Counter, _, _>(name(index), move |counter, _| {
            let (update, goto) = (increment(counter), next.clone());
            async move { Ok(NodeOut { update, goto }) }
        });
        graph = graph.node(name(index), node);
    }
    graph.compile().expect("the graph is valid")
}

fn nested() -> CompiledGraph<Counter> {
    let tick = node_fn::<Counter, _, _>("tick", |counter, _| {
        let update = increment(counter);
        async move { Ok(NodeOut::end_with(update)) }
    });
    let inner = Graph::new().node("tick", tick).start_at("tick").compile();
    let call = Subgraph::new(
        "call",
        inner.expect("the graph is valid"),
        |outer: &Counter| outer.clone(),
        |inner: &Counter| CounterUpdate { count: Some(inner.count), until: None },
        Goto::node("turn"),
    );
    // A subgraph has a fixed successor, so another node decides whether to call it again.
    let turn = node_fn::<Counter, _, _>("turn", |counter, _| {
        let done = counter.count >= counter.until;
        let goto = if done { Goto::end() } else { Goto::node("call") };
        async move { Ok(NodeOut::goto_only(goto)) }
    });
    let graph = Graph::new().node("call", call).node("turn", turn).start_at("call");
    graph.compile().expect("the graph is valid")
}

fn threads(count: usize) -> Job {
    let graph = loop_graph().with_checkpointer(Arc::new(InMemoryCheckpointer::new()));
    concurrent(count, move || {
        let graph = graph.clone();
        let input = Counter { count: 0, until: data::THREAD_STEPS };
        async move { graph.invoke(input, config()).await.expect("the run succeeds").count as usize }
    })
}

#[derive(GraphState, Clone, Debug, Default)]
struct Spins {
    #[reducer(append)]
    results: Vec<u64>,
}

fn cpu_branches(branches: u64) -> CompiledGraph<Spins> {
    let scatter = node_fn::<Spins, _, _>("scatter", move |_, _| async move {
        let seeds = (0..branches).map(|it| ("spin".to_owned(), json!(it))).collect();
        Ok(NodeOut::goto_only(Goto::Send(seeds)))
    });
    let spin = node_fn::<Spins, _, _>("spin", |_, context| {
        let seed = context.payload().and_then(|it| it.as_u64()).unwrap_or_default();
        async move {
            let update = SpinsUpdate { results: vec![data::spin(seed)] };
            Ok(NodeOut { update, goto: Goto::halt() })
        }
    });
    let graph = Graph::new().node("scatter", scatter).node("spin", spin).start_at("scatter");
    graph.compile().expect("the graph is valid")
}
