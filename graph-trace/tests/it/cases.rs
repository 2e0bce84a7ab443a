//! What a trace shows of handlers, caches, graphs inside nodes, failures and stops.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use graph_core::{
    CachePolicy, CompiledGraph, Configure, Context, Input, MemoryCache, MemorySaver, NodeError,
    Persistence, Retry, Route, RunOptions, START, State, StateGraph, Stops, subgraph_on,
};
use graph_trace::{Detail, Shape, Trace, record, record_thread};

use crate::graphs::World;

#[derive(State, Clone, Debug, Default)]
struct Log {
    #[reduce(append)]
    lines: Vec<String>,
}

#[track_caller]
fn check(trace: &Trace, expect: &str) {
    assert_eq!(trace.text(Shape::new(Detail::Updates)), expect);
}

async fn trace(graph: &CompiledGraph<Log, World>) -> Trace {
    record(graph, Log::default(), World::new(7), RunOptions::new()).await.trace
}

async fn say(_: &Log, cx: &Context<World>) -> LogUpdate {
    cx.deps().pause().await;
    Log::update().lines([format!("said in {}", cx.step())])
}

fn saying() -> CompiledGraph<Log, World> {
    StateGraph::new().node(say).edge(START, say).compile().unwrap()
}

async fn fail(_: &Log, cx: &Context<World>) -> Result<(), NodeError> {
    cx.emit(format!("attempt {}", cx.attempt())).await;
    cx.task("call", 1, async { Ok("the body's".to_owned()) }).await?;
    Err(NodeError::from(format!("no {}", cx.attempt())))
}

fn twice() -> Retry {
    Retry::attempts(2).backoff(Duration::from_millis(1), 1.0).without_jitter()
}

async fn mend(_: &Log, cx: &Context<World>) -> Result<LogUpdate, NodeError> {
    cx.emit("mending").await;
    cx.task("call", 1, async { Ok("the handler's".to_owned()) }).await?;
    cx.run_graph(&saying(), Persistence::Visit, Log::default()).await?;
    let answer: String = cx.interrupt("how?")?;
    Ok(Log::update().lines([answer]))
}

const HANDLED: &str = r#"input {"lines":[]}
then {"resume":"so"}
step 1
  fail
    attempt 1 failed: no 1
      says "attempt 1"
    call call:1 = "the body's"
    call call:1 = "the handler's"
    says "attempt 2"
    says "mending"
    graph
      step 1
        say
          lines <- ["said in 1"]
    failed: no 2
    handled
    asks "how?"
    lines <- ["so"]
done
"#;

/// Only the handler is run again with the answer; what the body did stays.
#[tokio::test]
async fn a_handler_that_asks() {
    let graph = StateGraph::<Log, World>::new()
        .node(fail.retry(twice()).on_error(mend))
        .edge(START, fail)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", World::default());
    let asked = record_thread(&thread, Log::default()).await;
    let recorded = asked.then(&thread, Input::resume("so").unwrap()).await;
    check(&recorded.trace, HANDLED);
}

#[tokio::test]
async fn a_cached_task() {
    let graph = StateGraph::<Log, World>::new()
        .node(say.cache(CachePolicy::default()))
        .edge(START, say)
        .cache(MemoryCache::new())
        .compile()
        .unwrap();
    assert!(!trace(&graph).await.root.steps[1].tasks[0].cached);
    check(
        &trace(&graph).await,
        "input {\"lines\":[]}\nstep 1\n  say\n    known already\n    lines <- [\"said in 1\"]\ndone\n",
    );
}

/// A node that runs graphs at once, the second one being done first.
async fn many(_: &Log, cx: &Context<World>) -> Result<(), NodeError> {
    let input = |line: &str| Log { lines: vec![line.to_owned()] };
    let graphs = [saying(), saying(), saying()];
    let visit = Persistence::Visit;
    let (a, b, c) = tokio::join!(
        cx.run_graph(&graphs[0], visit, input("a")),
        cx.run_graph(&graphs[1], visit, input("b")),
        cx.run_graph(&graphs[2], visit, input("c")),
    );
    let _ = (a?, b?, c?);
    Ok(())
}

#[tokio::test]
async fn several_graphs_in_one_node() {
    let graph = StateGraph::<Log, World>::new().node(many).edge(START, many).compile().unwrap();
    for seed in 0..50 {
        let trace = record(&graph, Log::default(), World::new(seed), RunOptions::new()).await.trace;
        let inputs = trace.root.steps[1].tasks[0]
            .graphs
            .iter()
            .map(|it| it.steps[0].state.as_ref().unwrap()["lines"][0].as_str().unwrap().to_owned());
        assert_eq!(inputs.collect::<Vec<_>>(), ["a", "b", "c"], "seed {seed}");
    }
}

#[derive(Route)]
enum Two {
    #[to("inner")]
    Parts(Vec<u32>),
}

fn two(_: &Log) -> Two {
    Two::Parts(vec![1, 2])
}

async fn begin(_: &Log) {}

/// Graphs inside tasks that run at once, each with steps of its own.
#[tokio::test]
async fn nested_graphs_in_parallel() {
    for persistence in [Persistence::Visit, Persistence::Nothing] {
        let inner = subgraph_on(
            "inner",
            &saying(),
            |nth: u32| Log { lines: vec![nth.to_string()] },
            |it: Log| Log::update().lines(it.lines),
        );
        let graph = StateGraph::<Log, World>::new()
            .node(begin)
            .node(inner.persistence(persistence))
            .edge(START, begin)
            .branch(begin, two)
            .compile()
            .unwrap();
        for seed in 0..30 {
            let recorded =
                record(&graph, Log::default(), World::new(seed), RunOptions::new()).await;
            check(
                &recorded.trace,
                r#"input {"lines":[]}
step 1
  begin
    => inner 1
    => inner 2
step 2
  inner
    graph
      step 1
        say
          lines <- ["said in 1"]
    lines <- ["1","said in 1"]
  inner
    graph
      step 1
        say
          lines <- ["said in 1"]
    lines <- ["2","said in 1"]
done
"#,
            );
        }
    }
}

/// Runs a graph that keeps its state, and fails once after it.
async fn visit(_: &Log, cx: &Context<World>) -> Result<(), NodeError> {
    let persistence = Persistence::Thread;
    cx.run_graph(&saying(), persistence, Log::default()).await?;
    Ok(())
}

#[tokio::test]
async fn a_graph_that_keeps_its_state() {
    let graph = StateGraph::<Log, World>::new()
        .node(visit)
        .node(begin)
        .edge(START, visit)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", World::default());
    let first = record_thread(&thread, Log::default()).await;
    let both = first.then(&thread, Log::default()).await;
    // The second visit goes on counting the first one's steps, and is a visit of its own.
    check(
        &both.trace,
        r#"input {"lines":[]}
then {"lines":[]}
step 1
  visit
    graph
      step 1
        say
          lines <- ["said in 1"]
step 4
  visit
    graph
      step 4
        say
          lines <- ["said in 4"]
done
"#,
    );
}

/// Runs two graphs at its first attempt, and one at its second.
async fn once_less(_: &Log, cx: &Context<World>) -> Result<(), NodeError> {
    cx.run_graph(&saying(), Persistence::Visit, Log::default()).await?;
    if cx.attempt() == 1 {
        cx.run_graph(&saying(), Persistence::Visit, Log::default()).await?;
        return Err("once more".into());
    }
    Ok(())
}

#[tokio::test]
async fn graphs_of_an_attempt_that_failed() {
    let graph = StateGraph::<Log, World>::new()
        .node(once_less.retry(twice()))
        .edge(START, once_less)
        .compile()
        .unwrap();
    check(
        &trace(&graph).await,
        r#"input {"lines":[]}
step 1
  once_less
    attempt 1 failed: once more
    graph
      step 1
        say
          lines <- ["said in 1"]
done
"#,
    );
}

async fn moody(_: &Log) -> Result<LogUpdate, NodeError> {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    match CALLS.fetch_add(1, Ordering::Relaxed) {
        0 => Err("not today".into()),
        _ => Ok(Log::update().lines(["well".to_owned()])),
    }
}

/// A thread that failed and went on has the trace of one that did not.
#[tokio::test]
async fn a_failure_that_was_got_over() {
    let graph = StateGraph::<Log, World>::new()
        .node(moody)
        .node(say)
        .edge(START, moody)
        .edge(START, say)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", World::default());
    let failed = record_thread(&thread, Log::default()).await;
    assert!(failed.trace.text(Shape::default()).contains("failed: not today"));
    let recorded = failed.then(&thread, Input::proceed()).await;
    check(
        &recorded.trace,
        r#"input {"lines":[]}
step 1
  moody
    lines <- ["well"]
  say
    lines <- ["said in 1"]
done
"#,
    );
}

/// The state that a run goes on with is not taken for one that a step came to.
#[tokio::test]
async fn a_stop_leaves_no_mark() {
    let graph = |stops| {
        let graph =
            StateGraph::<Log, World>::new().node(begin).edge(START, begin).stop_before(stops);
        graph.checkpointer(MemorySaver::new()).compile().unwrap()
    };
    let through = graph(Stops::Nowhere).thread("t", World::default());
    let through = record_thread(&through, Log::default()).await;
    let thread = graph(Stops::Everywhere).thread("t", World::default());
    let stopped = record_thread(&thread, Log::default()).await;
    let mut recorded = stopped.then(&thread, Input::proceed()).await;
    // One that has nothing left to do shows nothing of it either.
    recorded = recorded.then(&thread, Input::proceed()).await;
    let text = |it: &Trace| it.text(Shape::new(Detail::Full));
    assert_eq!(text(&recorded.trace), text(&through.trace));
}
