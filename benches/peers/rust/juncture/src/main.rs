//! The workloads on juncture. See `peer_support::protocol` for the requests.

mod agent;
mod jokes;
mod stored;
mod wide;

use std::{io, sync::Arc};

use juncture_checkpoint::MemorySaver;
use juncture_core::{
    Command, CompiledGraph, Durability, END, JunctureError, PathMap, RunnableConfig, SendTarget,
    State, StateGraph,
    checkpoint::CheckpointSaver,
    node::{NodeFnCommand, NodeFnUpdate},
    stream::{EventEmitter, StreamMode},
};
use juncture_derive::State;
use peer_support::{
    data::{self, Texts},
    protocol::{Job, concurrent, job, serve, unknown},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::mpsc;

fn main() -> io::Result<()> {
    serve("0.4.0", prepare)
}

fn prepare(workload: &str, size: usize) -> Result<Job, String> {
    let (name, saver) = match workload.strip_suffix("-checkpoint") {
        Some(name) => (name, Some(Arc::new(MemorySaver::new()) as Saver)),
        None => (workload, None),
    };
    let until = size as u64;
    Ok(match name {
        "loop" => run(loop_graph(saver), move || Counter { count: 0, until }, counted),
        "fan-out" => {
            run(fan_out(), move || Sum { parts: until, ..Sum::default() }, |it| it.sum.to_string())
        }
        "growing-list" => {
            let input = move || Log { until: size, lines: Vec::new() };
            run(growing_list(), input, |it| it.lines.len().to_string())
        }
        "sequential" => run(sequential(size, saver), Counter::default, counted),
        "fanout-to-subgraph" => jokes::prepare(size, saver),
        "wide-state" => wide::prepare(size, saver),
        "react-agent" if saver.is_none() => agent::prepare(size, Texts::Long),
        "agent-loop" => agent::prepare(size, Texts::Short),
        "react-agent" => return Err("no checkpointer for its agent".to_owned()),
        "nested" => run(nested(), move || Counter { count: 0, until }, counted),
        "threads" => threads(size),
        "cpu-branches" => {
            let input = move || Spins { seed: until, ..Spins::default() };
            run(cpu_branches(), input, |it| data::spin_answer(it.results))
        }
        "sqlite-loop" => stored::prepare(size, 1),
        "sqlite-loop-16" => stored::prepare(size, data::STORED_THREADS),
        // The `resume` of juncture continues a thread only after an interrupt.
        "resume" => return Err("invoke does not continue a thread".to_owned()),
        "server" => return Err("no server in this crate".to_owned()),
        _ => return Err(unknown(workload)),
    })
}

/// A checkpointer.
type Saver = Arc<dyn CheckpointSaver>;

/// Runs a graph on a new thread and describes its final state.
fn run<S>(
    graph: CompiledGraph<S>,
    input: impl Fn() -> S + Send + Sync + 'static,
    answer: fn(S) -> String,
) -> Job
where
    S: State + Serialize + DeserializeOwned,
    S::Update: Serialize,
{
    let graph = Arc::new(graph);
    job(move || {
        let (graph, input) = (graph.clone(), input());
        async move { answer(execute(&graph, input, Durability::Exit).await) }
    })
}

/// Runs a graph on a new thread and returns its final state.
///
/// In this version, `invoke` and `stream` never use the checkpointer. `execute_with_emitter` does, so graphs with a
/// checkpointer run with it. Its emitter accepts only custom events, and the graphs send none.
async fn execute<S>(graph: &CompiledGraph<S>, input: S, durability: Durability) -> S
where
    S: State + Serialize + DeserializeOwned,
    S::Update: Serialize,
{
    let config = config(durability);
    let state = if graph.checkpointer().is_some() {
        // The savers reject the writes of a step that has no preceding checkpoint, such as the first step. This
        // placeholder id makes them accept the writes.
        let config = config.with_checkpoint_id("input");
        let (events, _) = mpsc::channel(1);
        let emitter = EventEmitter::new(events, StreamMode::Custom);
        graph.execute_with_emitter(input, &config, emitter).await
    } else {
        graph.invoke_async(input, &config).await.map(|it| it.value)
    };
    state.expect("the run succeeds")
}

/// Returns the configuration of a new thread, without limits on steps and concurrency.
fn config(durability: Durability) -> RunnableConfig {
    RunnableConfig {
        recursion_limit: 20_000_000_000,
        // The maximum number of permits of a Tokio semaphore.
        max_parallel_tasks: usize::MAX >> 3,
        durability: Some(durability),
        ..RunnableConfig::new().with_thread_id(data::new_thread())
    }
}

/// Returns the branches of a loop: again, or the end.
fn again(node: &str) -> PathMap {
    PathMap::from(&[("again", node), (END, END)][..])
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Counter {
    count: u64,
    until: u64,
}

fn counted(counter: Counter) -> String {
    counter.count.to_string()
}

fn turn(counter: &Counter) -> &str {
    if counter.count < counter.until { "again" } else { END }
}

/// Adds a node that increments the counter.
fn add_tick(graph: &mut StateGraph<Counter>, name: &str) {
    let tick = NodeFnUpdate(|counter: &Counter| {
        let update = CounterUpdate { count: Some(counter.count + 1), until: None };
        async move { Ok::<_, JunctureError>(update) }
    });
    graph.add_node_simple(name, tick).expect("the name is unique");
}

fn loop_graph(saver: Option<Saver>) -> CompiledGraph<Counter> {
    let mut graph = StateGraph::new();
    add_tick(&mut graph, "tick");
    graph.set_entry_point("tick");
    graph.add_conditional_edges("tick", Arc::new(turn), again("tick"));
    graph.compile_with_checkpointer(saver).expect("the graph is valid")
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Sum {
    parts: u64,
    #[reducer(custom = add)]
    sum: u64,
}

fn add(sum: &mut u64, part: u64) {
    *sum += part;
}

/// Returns a message to a node with a state. A task cannot get anything but a state.
fn send(node: &str, state: serde_json::Value) -> SendTarget {
    SendTarget { node: node.to_owned(), state, timeout: None }
}

/// Connects the entry point `scatter` with a node that gets messages. The edge only makes the node reachable; a run
/// sends messages instead of following it.
fn add_scatter_edges<S: State>(graph: &mut StateGraph<S>, node: &str) {
    graph.set_entry_point("scatter");
    graph.add_edge("scatter", node);
    graph.set_finish_point(node);
}

fn fan_out() -> CompiledGraph<Sum> {
    let scatter = NodeFnCommand(|sum: &Sum| {
        let parts = sum.parts;
        Box::pin(async move {
            let parts = (0..parts).map(|it| send("add", json!({"parts": it, "sum": 0})));
            Ok::<_, JunctureError>(Command::update_and_send(SumUpdate::default(), parts.collect()))
        })
    });
    let add = NodeFnUpdate(|sum: &Sum| {
        let update = SumUpdate { parts: None, sum: Some(sum.parts) };
        async move { Ok::<_, JunctureError>(update) }
    });
    let mut graph = StateGraph::new();
    graph.add_node_simple("scatter", scatter).expect("the name is unique");
    graph.add_node_simple("add", add).expect("the name is unique");
    add_scatter_edges(&mut graph, "add");
    graph.compile().expect("the graph is valid")
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Log {
    until: usize,
    #[reducer(append)]
    lines: Vec<u64>,
}

fn page(log: &Log) -> &str {
    if log.lines.len() < log.until { "again" } else { END }
}

fn growing_list() -> CompiledGraph<Log> {
    let write = NodeFnUpdate(|log: &Log| {
        let update = LogUpdate { until: None, lines: Some(vec![log.lines.len() as u64]) };
        async move { Ok::<_, JunctureError>(update) }
    });
    let mut graph = StateGraph::new();
    graph.add_node_simple("write", write).expect("the name is unique");
    graph.set_entry_point("write");
    graph.add_conditional_edges("write", Arc::new(page), again("write"));
    graph.compile().expect("the graph is valid")
}

fn sequential(nodes: usize, saver: Option<Saver>) -> CompiledGraph<Counter> {
    use data::node_name as name;
    let mut graph = StateGraph::new();
    graph.set_entry_point(name(0));
    for index in 0..nodes {
        add_tick(&mut graph, &name(index));
        if index > 0 {
            graph.add_edge(name(index - 1), name(index));
        }
    }
    graph.set_finish_point(name(nodes - 1));
    graph.compile_with_checkpointer(saver).expect("the graph is valid")
}

fn nested() -> CompiledGraph<Counter> {
    let mut inner = StateGraph::new();
    add_tick(&mut inner, "tick");
    inner.set_entry_point("tick");
    inner.set_finish_point("tick");
    let inner = Arc::new(inner.compile().expect("the graph is valid"));
    let mut graph = StateGraph::new();
    let result = |inner: &Counter| CounterUpdate { count: Some(inner.count), until: None };
    graph.add_subgraph_explicit("call", inner, Counter::clone, result).expect("the name is unique");
    graph.set_entry_point("call");
    graph.add_conditional_edges("call", Arc::new(turn), again("call"));
    graph.compile().expect("the graph is valid")
}

fn threads(count: usize) -> Job {
    let graph = Arc::new(loop_graph(Some(Arc::new(MemorySaver::new()))));
    concurrent(count, move || {
        let graph = graph.clone();
        let input = Counter { count: 0, until: data::THREAD_STEPS };
        async move { execute(&graph, input, Durability::Sync).await.count as usize }
    })
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Spins {
    /// Number of branches, or the seed of a branch.
    seed: u64,
    #[reducer(append)]
    results: Vec<u64>,
}

fn cpu_branches() -> CompiledGraph<Spins> {
    let scatter = NodeFnCommand(|spins: &Spins| {
        let branches = spins.seed;
        Box::pin(async move {
            let seeds = (0..branches).map(|it| send("spin", json!({"seed": it, "results": []})));
            let update = SpinsUpdate::default();
            Ok::<_, JunctureError>(Command::update_and_send(update, seeds.collect()))
        })
    });
    let spin = NodeFnUpdate(|spins: &Spins| {
        let seed = spins.seed;
        async move {
            let results = Some(vec![data::spin(seed)]);
            Ok::<_, JunctureError>(SpinsUpdate { seed: None, results })
        }
    });
    let mut graph = StateGraph::new();
    graph.add_node_simple("scatter", scatter).expect("the name is unique");
    graph.add_node_simple("spin", spin).expect("the name is unique");
    add_scatter_edges(&mut graph, "spin");
    graph.compile().expect("the graph is valid")
}
