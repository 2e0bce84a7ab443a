//! The workloads that isolate one cost: steps, tasks, lists, nodes, subgraphs, threads, cores.

use std::sync::Arc;

use graph_core::{
    CompiledGraph, Durability, END, Goto, MemorySaver, Route, RunOptions, START, State, StateGraph,
    send, subgraph,
};
use serde::{Deserialize, Serialize};

use crate::{
    data,
    engine::{self, Log},
    measure::Stopwatch,
    protocol::{Job, concurrent, job},
};

pub(super) fn prepare(workload: &str, size: usize) -> Option<Job> {
    let count = size as u64;
    Some(match workload {
        "loop" => graph_job(engine::loop_graph(), move |graph| async move {
            engine::run_loop(&graph, count).await.to_string()
        }),
        "fan-out" => graph_job(engine::fan_out_graph(), move |graph| async move {
            engine::run_fan_out(&graph, count).await.to_string()
        }),
        "growing-list" => {
            graph_job(engine::append_graph(Stopwatch::default()), move |graph| async move {
                engine::run_append(&graph, Log::filled(0, size)).await.to_string()
            })
        }
        "sequential" => graph_job(engine::chain_graph(size), |graph| async move {
            engine::run_chain(&graph).await.to_string()
        }),
        "sequential-checkpoint" => {
            graph_job(engine::checkpointed_chain_graph(size), |graph| async move {
                let thread = graph.thread(data::new_thread(), ()).with_options(at_exit());
                let exit = thread.run(engine::Counter::default()).await;
                exit.expect("the run succeeds").into_state().count.to_string()
            })
        }
        "nested" => nested(count),
        "threads" => threads(size),
        "cpu-branches" => cpu_branches(count),
        _ => return None,
    })
}

/// Creates a job that runs a graph.
fn graph_job<G: 'static, F>(graph: G, run: impl Fn(Arc<G>) -> F + 'static) -> Job
where
    F: Future<Output = String> + Send + 'static,
{
    let graph = Arc::new(graph);
    job(move || run(graph.clone()))
}

/// Returns the options of LangGraph's benchmark programs: no step limit, one checkpoint at the end.
pub(super) fn at_exit() -> RunOptions {
    RunOptions::new().step_limit(u32::MAX).durability(Durability::Exit)
}

#[derive(State, Clone, Debug, Default)]
struct Outer {
    count: u64,
    until: u64,
}

#[derive(State, Clone, Debug, Default)]
struct Inner {
    value: u64,
}

async fn increment(inner: &Inner) -> InnerUpdate {
    Inner::update().value(inner.value + 1)
}

#[derive(Route)]
enum Turn {
    #[to("call")]
    Again,
    #[to(END)]
    Enough,
}

fn turn(outer: &Outer) -> Turn {
    if outer.count < outer.until { Turn::Again } else { Turn::Enough }
}

fn nested(until: u64) -> Job {
    let inner = StateGraph::<Inner>::new().node(increment).edge(START, increment);
    let inner = inner.compile().expect("the graph is valid");
    let call = subgraph(
        "call",
        &inner,
        |outer: &Outer| Inner { value: outer.count },
        |inner: Inner| Outer::update().count(inner.value),
    );
    let graph = StateGraph::<Outer>::new().node(call).edge(START, "call").branch("call", turn);
    graph_job(graph.compile().expect("the graph is valid"), move |graph| async move {
        let options = RunOptions::new().step_limit(u32::MAX);
        let exit = graph.with(options).run(Outer { count: 0, until }, ()).await;
        exit.expect("the run succeeds").into_state().count.to_string()
    })
}

fn threads(count: usize) -> Job {
    let graph = engine::checkpointed_loop_graph();
    concurrent(count, move || run_thread(graph.clone()))
}

async fn run_thread(graph: CompiledGraph<engine::Counter>) -> usize {
    let options = RunOptions::new().step_limit(u32::MAX).durability(Durability::Sync);
    let thread = graph.thread(data::new_thread(), ()).with_options(options);
    let exit = thread.run(engine::Counter { count: 0, until: data::THREAD_STEPS }).await;
    exit.expect("the run succeeds").into_state().count as usize
}

#[derive(State, Clone, Debug, Default)]
struct Spins {
    branches: u64,
    #[reduce(append)]
    results: Vec<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Seed(u64);

async fn spin(seed: Seed) -> SpinsUpdate {
    Spins::update().results([data::spin(seed.0)])
}

fn cpu_branches(branches: u64) -> Job {
    let scatter = |spins: &Spins| -> Vec<Goto> {
        (0..spins.branches).map(|it| send(spin, Seed(it))).collect()
    };
    let graph = StateGraph::<Spins>::new().node(spin).branch(START, scatter);
    graph_job(graph.compile().expect("the graph is valid"), move |graph| async move {
        let exit = graph.run(Spins { branches, ..Spins::default() }, ()).await;
        data::spin_answer(exit.expect("the run succeeds").into_state().results)
    })
}

/// Returns a saver in memory, if the workload stores checkpoints.
pub(super) fn saver(checkpoint: bool) -> Option<Arc<MemorySaver>> {
    checkpoint.then(|| Arc::new(MemorySaver::new()))
}
