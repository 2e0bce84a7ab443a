//! The four workloads on the engine.

use graph_core::{
    CompiledGraph, END, Goto, Label, Route, RunOptions, START, State, StateGraph, send,
};
use serde::{Deserialize, Serialize};

/// More steps than any workload takes.
const NO_LIMIT: u32 = u32::MAX;

/// A counter: the smallest state there is.
#[derive(State, Clone, Debug, Default)]
pub struct Counter {
    /// The count so far.
    pub count: u64,
    /// Where to stop.
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

/// A loop of one node.
pub fn loop_graph() -> CompiledGraph<Counter> {
    let graph = StateGraph::<Counter>::new().node(tick).edge(START, tick).branch(tick, turn);
    graph.compile().expect("the graph is sound")
}

/// Runs the loop so many times round.
pub async fn run_loop(graph: &CompiledGraph<Counter>, steps: u64) -> u64 {
    let input = Counter { count: 0, until: steps };
    let exit = graph.invoke(input, (), RunOptions::new().limit(NO_LIMIT)).await;
    exit.expect("the loop ends").into_state().count
}

/// A sum of many parts.
#[derive(State, Clone, Debug, Default)]
pub struct Sum {
    /// How many parts to send.
    pub parts: u64,
    /// Their sum.
    #[reduce(add)]
    pub sum: u64,
}

/// One part of a sum.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part(u64);

async fn add(part: Part) -> SumUpdate {
    Sum::update().sum(part.0)
}

fn scatter(sum: &Sum) -> Vec<Goto> {
    (0..sum.parts).map(|it| send(add, Part(it))).collect()
}

/// A fan-out of payloads.
pub fn fan_out_graph() -> CompiledGraph<Sum> {
    let graph = StateGraph::<Sum>::new().node(add).branch(START, scatter);
    graph.compile().expect("the graph is sound")
}

/// Sends so many payloads.
pub async fn run_fan_out(graph: &CompiledGraph<Sum>, parts: u64) -> u64 {
    let exit = graph.invoke(Sum { parts, sum: 0 }, (), RunOptions::new()).await;
    exit.expect("the fan-out ends").into_state().sum
}

/// A chain of so many nodes.
pub fn chain_graph(nodes: usize) -> CompiledGraph<Counter> {
    let name = |it: usize| Label::from(format!("node{it:06}"));
    let mut graph = StateGraph::<Counter>::new().edge(START, name(0));
    for node in 0..nodes {
        graph = graph.node_as(name(node), tick);
        if node > 0 {
            graph = graph.edge(name(node - 1), name(node));
        }
    }
    graph.compile().expect("the graph is sound")
}

/// Runs the chain once.
pub async fn run_chain(graph: &CompiledGraph<Counter>) -> u64 {
    run_loop(graph, 0).await
}

/// A list that grows.
#[derive(State, Clone, Debug, Default)]
pub struct Log {
    /// How long it is to become.
    pub until: usize,
    /// The list.
    #[reduce(append)]
    pub lines: Vec<u64>,
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

fn page(log: &Log) -> Page {
    if log.lines.len() < log.until { Page::More } else { Page::Full }
}

/// A loop that appends to a list.
pub fn append_graph() -> CompiledGraph<Log> {
    let graph = StateGraph::<Log>::new().node(write).edge(START, write).branch(write, page);
    graph.compile().expect("the graph is sound")
}

/// Appends so many items, one a step, to a list that has so many already.
pub async fn run_append(graph: &CompiledGraph<Log>, start: usize, more: usize) -> usize {
    let input = Log { until: start + more, lines: vec![0; start] };
    let exit = graph.invoke(input, (), RunOptions::new().limit(NO_LIMIT)).await;
    exit.expect("the list ends").into_state().lines.len()
}
