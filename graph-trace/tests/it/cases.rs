//! Tests the traces of error handlers, caches, subgraphs, failures and stops.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use graph_core::{
    CachePolicy, CompiledGraph, Context, Input, MemoryCache, MemorySaver, NodeError, NodeExt,
    Persistence, RetryPolicy, Route, RunOptions, START, State, StateGraph, Stops,
    subgraph_on_payload,
};
use graph_trace::{Detail, TextOptions, Trace, record, record_thread};

use crate::graphs::TestEnv;

#[derive(State, Clone, Debug, Default)]
struct Log {
    #[reduce(append)]
    lines: Vec<String>,
}

#[track_caller]
fn check(trace: &Trace, expect: &str) {
    assert_eq!(trace.text(TextOptions::new(Detail::Updates)), expect);
}

async fn trace(graph: &CompiledGraph<Log, TestEnv>) -> Trace {
    record(graph, Log::default(), TestEnv::new(7), RunOptions::new()).await.trace
}

async fn say(_: &Log, cx: &Context<TestEnv>) -> LogUpdate {
    cx.deps().pause().await;
    Log::update().lines([format!("said in {}", cx.step())])
}

fn saying() -> CompiledGraph<Log, TestEnv> {
    StateGraph::new().node(say).edge(START, say).compile().unwrap()
}

async fn fail(_: &Log, cx: &Context<TestEnv>) -> Result<(), NodeError> {
    cx.emit(format!("attempt {}", cx.attempt())).await;
    cx.task("call", 1, async { Ok("the body's".to_owned()) }).await?;
    Err(NodeError::from(format!("no {}", cx.attempt())))
}

fn twice() -> RetryPolicy {
    RetryPolicy::max_attempts(2).backoff(Duration::from_millis(1), 1.0).without_jitter()
}

async fn recover(_: &Log, cx: &Context<TestEnv>) -> Result<LogUpdate, NodeError> {
    cx.emit("recovering").await;
    cx.task("call", 1, async { Ok("the handler's".to_owned()) }).await?;
    cx.run_graph(&saying(), Persistence::Invocation, Log::default()).await?;
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
    says "recovering"
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

/// When the interrupt is answered, only the error handler runs again. The trace keeps the actions of the node itself.
#[tokio::test]
async fn an_interrupted_handler_keeps_the_actions_of_the_body() {
    let graph = StateGraph::<Log, TestEnv>::new()
        .node(fail.retry(twice()).on_error(recover))
        .edge(START, fail)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", TestEnv::default());
    let interrupted = record_thread(&thread, Log::default()).await;
    let recorded = interrupted.then(&thread, Input::resume("so").unwrap()).await;
    check(&recorded.trace, HANDLED);
}

#[tokio::test]
async fn a_cached_task_is_marked() {
    let graph = StateGraph::<Log, TestEnv>::new()
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

/// Runs several graphs concurrently.
async fn many(_: &Log, cx: &Context<TestEnv>) -> Result<(), NodeError> {
    let input = |line: &str| Log { lines: vec![line.to_owned()] };
    let graphs = [saying(), saying(), saying()];
    let visit = Persistence::Invocation;
    let (a, b, c) = tokio::join!(
        cx.run_graph(&graphs[0], visit, input("a")),
        cx.run_graph(&graphs[1], visit, input("b")),
        cx.run_graph(&graphs[2], visit, input("c")),
    );
    let _ = (a?, b?, c?);
    Ok(())
}

#[tokio::test]
async fn concurrent_graphs_of_one_node_are_in_order() {
    let graph = StateGraph::<Log, TestEnv>::new().node(many).edge(START, many).compile().unwrap();
    for seed in 0..50 {
        let trace =
            record(&graph, Log::default(), TestEnv::new(seed), RunOptions::new()).await.trace;
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

/// If concurrent tasks each run a subgraph, the traces of the subgraphs are not mixed up.
#[tokio::test]
async fn subgraphs_of_concurrent_tasks_are_kept_apart() {
    for persistence in [Persistence::Invocation, Persistence::None] {
        let inner = subgraph_on_payload(
            "inner",
            &saying(),
            |nth: u32| Log { lines: vec![nth.to_string()] },
            |it: Log| Log::update().lines(it.lines),
        );
        let graph = StateGraph::<Log, TestEnv>::new()
            .node(begin)
            .node(inner.persistence(persistence))
            .edge(START, begin)
            .branch(begin, two)
            .compile()
            .unwrap();
        for seed in 0..30 {
            let recorded =
                record(&graph, Log::default(), TestEnv::new(seed), RunOptions::new()).await;
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

/// Runs a graph that keeps its state across runs.
async fn visit(_: &Log, cx: &Context<TestEnv>) -> Result<(), NodeError> {
    let persistence = Persistence::Thread;
    cx.run_graph(&saying(), persistence, Log::default()).await?;
    Ok(())
}

#[tokio::test]
async fn each_execution_of_a_stateful_graph_is_a_separate_trace() {
    let graph = StateGraph::<Log, TestEnv>::new()
        .node(visit)
        .edge(START, visit)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", TestEnv::default());
    let first = record_thread(&thread, Log::default()).await;
    let both = first.then(&thread, Log::default()).await;
    // The second execution of the subgraph continues the step numbers of the first one, but has a separate graph trace.
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

/// Runs two graphs in the first attempt and one graph in the second.
async fn fewer_graphs(_: &Log, cx: &Context<TestEnv>) -> Result<(), NodeError> {
    cx.run_graph(&saying(), Persistence::Invocation, Log::default()).await?;
    if cx.attempt() == 1 {
        cx.run_graph(&saying(), Persistence::Invocation, Log::default()).await?;
        return Err("once more".into());
    }
    Ok(())
}

#[tokio::test]
async fn graphs_of_failed_attempts_are_dropped() {
    let graph = StateGraph::<Log, TestEnv>::new()
        .node(fewer_graphs.retry(twice()))
        .edge(START, fewer_graphs)
        .compile()
        .unwrap();
    check(
        &trace(&graph).await,
        r#"input {"lines":[]}
step 1
  fewer_graphs
    attempt 1 failed: once more
    graph
      step 1
        say
          lines <- ["said in 1"]
done
"#,
    );
}

async fn flaky(_: &Log) -> Result<LogUpdate, NodeError> {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    match CALLS.fetch_add(1, Ordering::Relaxed) {
        0 => Err("not today".into()),
        _ => Ok(Log::update().lines(["well".to_owned()])),
    }
}

/// A thread that failed and was then resumed has the same trace as a thread that did not fail.
#[tokio::test]
async fn resuming_after_a_failure_removes_the_failure_from_the_trace() {
    let graph = StateGraph::<Log, TestEnv>::new()
        .node(flaky)
        .node(say)
        .edge(START, flaky)
        .edge(START, say)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", TestEnv::default());
    let failed = record_thread(&thread, Log::default()).await;
    assert!(failed.trace.text(TextOptions::default()).contains("failed: not today"));
    let recorded = failed.then(&thread, Input::proceed()).await;
    check(
        &recorded.trace,
        r#"input {"lines":[]}
step 1
  flaky
    lines <- ["well"]
  say
    lines <- ["said in 1"]
done
"#,
    );
}

/// The state with which a run resumes is not recorded as the result of a step.
#[tokio::test]
async fn a_stop_does_not_change_the_trace() {
    let graph = |stops| {
        let graph =
            StateGraph::<Log, TestEnv>::new().node(begin).edge(START, begin).stop_before(stops);
        graph.checkpointer(MemorySaver::new()).compile().unwrap()
    };
    let through = graph(Stops::None).thread("t", TestEnv::default());
    let through = record_thread(&through, Log::default()).await;
    let thread = graph(Stops::All).thread("t", TestEnv::default());
    let stopped = record_thread(&thread, Log::default()).await;
    let mut recorded = stopped.then(&thread, Input::proceed()).await;
    // Resuming a completed run does not change the trace either.
    recorded = recorded.then(&thread, Input::proceed()).await;
    let text = |it: &Trace| it.text(TextOptions::new(Detail::Full));
    assert_eq!(text(&recorded.trace), text(&through.trace));
}
