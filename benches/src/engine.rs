//! The workloads, implemented on the engine.

use graph_core::{
    CompiledGraph, Durability, END, Goto, JsonFieldKind, JsonState, JsonStateSchema, Label,
    MemorySaver, Route, RunOptions, START, State, StateGraph,
    json::{JsonBranch, JsonInput},
    json_node, send,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::measure::Stopwatch;

/// Step limit that is larger than the number of steps in any workload.
const NO_LIMIT: u32 = u32::MAX;

/// State of the loop and of the chain: a counter.
#[derive(State, Clone, Debug, Default)]
pub struct Counter {
    pub count: u64,
    /// Count at which the loop ends.
    pub until: u64,
}

async fn tick(counter: &Counter) -> CounterUpdate {
    Counter::update().count(counter.count + 1)
}

#[derive(Route)]
enum Turn {
    #[to(tick)]
    Again,
    #[to(END)]
    Enough,
}

fn turn(counter: &Counter) -> Turn {
    if counter.count < counter.until { Turn::Again } else { Turn::Enough }
}

/// Builds a loop that consists of one node.
pub fn loop_graph() -> CompiledGraph<Counter> {
    ticking().compile().expect("the graph is valid")
}

/// Builds a loop that consists of one node, with a new `MemorySaver`.
pub fn checkpointed_loop_graph() -> CompiledGraph<Counter> {
    ticking().checkpointer(MemorySaver::new()).compile().expect("the graph is valid")
}

fn ticking() -> StateGraph<Counter> {
    StateGraph::new().node(tick).edge(START, tick).branch(tick, turn)
}

/// Runs the loop for `steps` steps.
pub async fn run_loop(graph: &CompiledGraph<Counter>, steps: u64) -> u64 {
    let input = Counter { count: 0, until: steps };
    let exit = graph.with(RunOptions::new().step_limit(NO_LIMIT)).run(input, ()).await;
    exit.expect("the run succeeds").into_state().count
}

/// Runs the loop for `steps` steps. Each step is stored before the next one starts.
pub async fn run_checkpointed_loop(graph: &CompiledGraph<Counter>, steps: u64) -> u64 {
    let input = Counter { count: 0, until: steps };
    let exit = graph.thread("counter", ()).with_options(stored()).run(input).await;
    exit.expect("the run succeeds").into_state().count
}

/// State of the fan-out: the sum of many parts.
#[derive(State, Clone, Debug, Default)]
pub struct Sum {
    /// Number of parts to send.
    pub parts: u64,
    #[reduce(add)]
    pub sum: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part(u64);

async fn add(part: Part) -> SumUpdate {
    Sum::update().sum(part.0)
}

fn scatter(sum: &Sum) -> Vec<Goto> {
    (0..sum.parts).map(|it| send(add, Part(it))).collect()
}

/// Builds a graph that sends many payloads to one node.
pub fn fan_out_graph() -> CompiledGraph<Sum> {
    let graph = StateGraph::<Sum>::new().node(add).branch(START, scatter);
    graph.compile().expect("the graph is valid")
}

/// Runs a fan-out that sends `parts` payloads, and returns their sum.
pub async fn run_fan_out(graph: &CompiledGraph<Sum>, parts: u64) -> u64 {
    let exit = graph.run(Sum { parts, sum: 0 }, ()).await;
    exit.expect("the run succeeds").into_state().sum
}

/// Builds a chain of `nodes` nodes.
pub fn chain_graph(nodes: usize) -> CompiledGraph<Counter> {
    chain(nodes).compile().expect("the graph is valid")
}

/// Builds a chain of `nodes` nodes, with a new `MemorySaver`.
pub fn checkpointed_chain_graph(nodes: usize) -> CompiledGraph<Counter> {
    chain(nodes).checkpointer(MemorySaver::new()).compile().expect("the graph is valid")
}

fn chain(nodes: usize) -> StateGraph<Counter> {
    let name = |it: usize| Label::from(format!("node{it:06}"));
    let mut graph = StateGraph::<Counter>::new().edge(START, name(0));
    for node in 0..nodes {
        graph = graph.node_as(name(node), tick);
        if node > 0 {
            graph = graph.edge(name(node - 1), name(node));
        }
    }
    graph
}

/// Runs the chain once.
pub async fn run_chain(graph: &CompiledGraph<Counter>) -> u64 {
    run_loop(graph, 0).await
}

/// A list that grows by one item per step.
#[derive(State, Clone, Debug, Default)]
pub struct Log {
    /// Length of the list at the start.
    pub from: usize,
    /// Length of the list at which the loop ends.
    pub until: usize,
    /// Items of the list.
    #[reduce(append)]
    pub lines: Vec<u64>,
}

impl Log {
    /// Creates a list with `from` items, to which `more` items are appended.
    pub fn filled(from: usize, more: usize) -> Self {
        Self { from, until: from + more, lines: vec![0; from] }
    }
}

async fn write(log: &Log) -> LogUpdate {
    let next = log.lines.len() as u64;
    Log::update().lines([next])
}

#[derive(Route)]
enum Page {
    #[to(write)]
    More,
    #[to(END)]
    Full,
}

/// Builds a loop that appends to a list. The stopwatch measures the time from the end of the first step to the end of
/// the last step.
pub fn append_graph(watch: Stopwatch) -> CompiledGraph<Log> {
    let page = move |log: &Log| {
        let length = log.lines.len();
        if length == log.from + 1 {
            watch.start();
        }
        if length < log.until {
            return Page::More;
        }
        watch.stop();
        Page::Full
    };
    let graph = StateGraph::new().node(write).edge(START, write).branch(write, page);
    graph.compile().expect("the graph is valid")
}

/// Runs a loop that appends one item per step, and returns the final length of the list.
pub async fn run_append(graph: &CompiledGraph<Log>, log: Log) -> usize {
    let exit = graph.with(RunOptions::new().step_limit(NO_LIMIT)).run(log, ()).await;
    exit.expect("the run succeeds").into_state().lines.len()
}

/// Builds a loop that consists of one node with a JSON state.
pub fn json_loop_graph() -> (JsonStateSchema, CompiledGraph<JsonState>) {
    let fields = [("count", JsonFieldKind::Last), ("until", JsonFieldKind::Last)];
    let schema = JsonStateSchema::new(fields).expect("field names are unique");
    let tick = json_node("tick", |input: JsonInput, _| async move {
        Ok(json!({"count": number(&input, "count") + 1}))
    });
    let turn = JsonBranch::new("turn", |input| {
        let again = number(input, "count") < number(input, "until");
        Ok(vec![if again { Goto::node("tick") } else { Goto::end() }])
    });
    let graph = schema
        .graph()
        .node(tick)
        .edge(START, "tick")
        .json_branch("tick", turn.destinations(["tick", "__end__"]));
    let graph = graph.compile().expect("the graph is valid");
    (schema, graph)
}

/// Runs the JSON loop for `steps` steps.
pub async fn run_json_loop(
    (schema, graph): &(JsonStateSchema, CompiledGraph<JsonState>),
    steps: u64,
) -> u64 {
    let input = schema.input(json!({"count": 0, "until": steps})).expect("an object");
    let exit = graph.with(RunOptions::new().step_limit(NO_LIMIT)).run(input, ()).await;
    let state = exit.expect("the run succeeds").into_state();
    state.get("count").and_then(Value::as_u64).unwrap_or_default()
}

fn number(input: &JsonInput, field: &str) -> u64 {
    input.get(field).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns options with which every step is stored before the next one starts.
fn stored() -> RunOptions {
    RunOptions::new().step_limit(NO_LIMIT).durability(Durability::Sync)
}
