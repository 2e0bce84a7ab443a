//! Retries: the number of attempts, the delays, and which errors are retried.

use std::time::Duration;

use graph_core::{
    Context, NodeError, NodeExt, NodePanicError, RetryPolicy, START, StateGraph, Terminal,
};
use tokio::time::Instant;

use crate::support::{
    InjectedError, Probe, Trail, TrailUpdate, failed_node, graph, pass, thread_of, trail, visited,
};

fn exact(attempts: u32, initial: u64, factor: f64) -> RetryPolicy {
    RetryPolicy::max_attempts(attempts)
        .backoff(Duration::from_secs(initial), factor)
        .without_jitter()
}

/// Returns the duration, in seconds, of a run in which the node `pass` fails `failures` times.
async fn seconds(retry: RetryPolicy, failures: u32) -> u64 {
    let probe = Probe::default();
    probe.fail_next("pass", failures);
    let graph =
        graph().node(pass.retry(retry)).edge(START, pass).compile().expect("the graph is valid");
    let start = Instant::now();
    let state =
        graph.invoke(Trail::default(), probe.clone()).await.expect("the last attempt succeeds");
    assert_eq!(state, trail(["pass"]));
    assert_eq!(probe.count("pass"), failures as usize + 1);
    start.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn delays_grow_by_the_factor_up_to_the_maximum() {
    assert_eq!(seconds(exact(5, 1, 2.0), 0).await, 0);
    assert_eq!(seconds(exact(5, 1, 2.0), 1).await, 1);
    assert_eq!(seconds(exact(5, 1, 2.0), 3).await, 1 + 2 + 4);
    assert_eq!(seconds(exact(5, 10, 1.0), 4).await, 40);
    assert_eq!(seconds(exact(5, 1, 10.0).max_interval(Duration::from_secs(5)), 3).await, 1 + 5 + 5);
}

#[tokio::test(start_paused = true)]
async fn jitter_adds_less_than_a_second() {
    let start = Instant::now();
    seconds(RetryPolicy::max_attempts(2).backoff(Duration::from_secs(3), 1.0), 1).await;
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(3) && waited <= Duration::from_secs(4), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_run_fails_after_the_last_attempt() {
    let probe = Probe::default();
    probe.fail_next("pass", 9);
    let graph = graph().node(pass.retry(3)).edge(START, pass).compile().unwrap();
    let error = graph.invoke(Trail::default(), probe.clone()).await.unwrap_err();
    assert_eq!(failed_node(&error), "pass");
    assert_eq!(error.node_error::<InjectedError>(), Some(&InjectedError("pass".into())));
    assert_eq!(probe.count("pass"), 3);
}

async fn count_up(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    cx.deps().enter(cx.step(), &cx.attempt().to_string()).await?;
    if cx.attempt() < 3 {
        return Err("not yet".into());
    }
    Ok(visited(&cx.attempt().to_string()))
}

#[tokio::test(start_paused = true)]
async fn a_node_can_read_its_attempt_number() {
    let probe = Probe::default();
    let graph = graph().node(count_up.retry(5)).edge(START, count_up).compile().unwrap();
    let state = graph.invoke(Trail::default(), probe.clone()).await.unwrap();
    assert_eq!(state, trail(["3"]));
    assert_eq!(probe.trace(), "1: 1 2 3");
}

async fn fails_terminally(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    cx.deps().enter(cx.step(), "fails_terminally").await?;
    "x".parse::<u32>().terminal()?;
    Ok(visited("never"))
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_retried() {
    let probe = Probe::default();
    let graph =
        graph().node(fails_terminally.retry(5)).edge(START, fails_terminally).compile().unwrap();
    let error = graph.invoke(Trail::default(), probe.clone()).await.unwrap_err();
    assert!(matches!(&error, graph_core::RunError::Node { terminal: true, .. }), "{error}");
    assert!(error.node_error::<std::num::ParseIntError>().is_some());
    assert_eq!(probe.count("fails_terminally"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_matching_policy_applies() {
    let broken = |error: &NodeError| error.downcast_ref::<InjectedError>().is_some();
    for (node, expect) in [
        (pass.retry(exact(4, 1, 1.0).retry_on(broken)), 4),
        (pass.retry(exact(4, 1, 1.0).retry_on(move |it| !broken(it))), 1),
        (pass.retry(exact(9, 1, 1.0).retry_on(move |it| !broken(it))).retry(exact(2, 1, 1.0)), 2),
        (pass.retry(exact(2, 1, 1.0).retry_on(broken)).retry(exact(9, 1, 1.0)), 2),
    ] {
        let probe = Probe::default();
        probe.fail_next("pass", 99);
        let graph = graph().node(node).edge(START, pass).compile().unwrap();
        graph.invoke(Trail::default(), probe.clone()).await.unwrap_err();
        assert_eq!(probe.count("pass"), expect);
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_retry_applies_to_nodes_without_their_own() {
    let probe = Probe::default();
    let graph = graph()
        .node_as("explicit", pass.retry(exact(1, 1, 1.0)))
        .node_as("default", pass)
        .edge(START, "explicit")
        .edge(START, "default")
        .default_retry(exact(3, 1, 1.0))
        .compile()
        .unwrap();
    probe.fail_next("explicit", 99);
    probe.fail_next("default", 99);
    graph.invoke(Trail::default(), probe.clone()).await.unwrap_err();
    assert_eq!((probe.count("explicit"), probe.count("default")), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_panic_can_be_retried() {
    async fn panics_once(_: &Trail, cx: &Context) -> TrailUpdate {
        assert!(cx.attempt() > 1, "the first attempt panics");
        visited("second attempt")
    }
    let build = |attempts: u32| {
        let node = panics_once.retry(exact(attempts, 1, 1.0));
        StateGraph::<Trail>::new().node(node).edge(START, panics_once).compile().unwrap()
    };
    assert_eq!(build(2).invoke(Trail::default(), ()).await.unwrap(), trail(["second attempt"]));
    let error = build(1).invoke(Trail::default(), ()).await.unwrap_err();
    assert_eq!(failed_node(&error), "panics_once");
    let panic = error.node_error::<NodePanicError>().unwrap();
    assert!(panic.message.contains("the first attempt panics"));
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_is_not_retried() {
    let probe = Probe::default();
    let graph = graph().node(crate::support::ask.retry(5)).edge(START, crate::support::ask);
    let thread = thread_of(graph, &probe);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    assert_eq!(probe.count("ask"), 1);
    assert!(thread.resume("x").await.unwrap().is_done());
}

#[tokio::test(start_paused = true)]
async fn only_the_last_attempt_writes() {
    async fn fails_once(_: &Trail, cx: &Context) -> Result<Vec<TrailUpdate>, NodeError> {
        cx.emit(cx.attempt()).await;
        if cx.attempt() == 1 { Err("once".into()) } else { Ok(vec![visited("x"), visited("y")]) }
    }
    let graph = StateGraph::<Trail>::new()
        .node(fails_once.retry(2))
        .edge(START, fails_once)
        .compile()
        .unwrap();
    assert_eq!(graph.invoke(Trail::default(), ()).await.unwrap(), trail(["x", "y"]));
}
