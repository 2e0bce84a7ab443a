//! Retries: how often, how long in between, and after which errors.

use std::time::Duration;

use graph_core::{
    Configure, Context, MemorySaver, NodeError, NodePanic, Retry, START, StateGraph, Terminal,
};
use tokio::time::Instant;

use crate::support::{Broken, Trail, TrailUpdate, World, been, failed_node, graph, pass, trail};

fn exact(attempts: u32, initial: u64, factor: f64) -> Retry {
    Retry::attempts(attempts).backoff(Duration::from_secs(initial), factor).without_jitter()
}

/// How long a run of `pass` takes that fails so often, in seconds.
async fn seconds(retry: Retry, failures: u32) -> u64 {
    let world = World::default();
    world.breaks("pass", failures);
    let graph = graph().node(pass.retry(retry)).edge(START, pass).compile().expect("sound");
    let start = Instant::now();
    let state = graph.run(Trail::default(), world.clone()).await.expect("an attempt is left");
    assert_eq!(state, trail(["pass"]));
    assert_eq!(world.count("pass"), failures as usize + 1);
    start.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn waits_grow_by_their_factor_up_to_the_longest() {
    assert_eq!(seconds(exact(5, 1, 2.0), 0).await, 0);
    assert_eq!(seconds(exact(5, 1, 2.0), 1).await, 1);
    assert_eq!(seconds(exact(5, 1, 2.0), 3).await, 1 + 2 + 4);
    assert_eq!(seconds(exact(5, 10, 1.0), 4).await, 40);
    assert_eq!(seconds(exact(5, 1, 10.0).at_most(Duration::from_secs(5)), 3).await, 1 + 5 + 5);
}

#[tokio::test(start_paused = true)]
async fn jitter_adds_less_than_a_second() {
    let start = Instant::now();
    seconds(Retry::attempts(2).backoff(Duration::from_secs(3), 1.0), 1).await;
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(3) && waited <= Duration::from_secs(4), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn attempts_are_used_up_in_the_end() {
    let world = World::default();
    world.breaks("pass", 9);
    let graph = graph().node(pass.retry(3)).edge(START, pass).compile().unwrap();
    let error = graph.run(Trail::default(), world.clone()).await.unwrap_err();
    assert_eq!(failed_node(&error), "pass");
    assert_eq!(error.node_error::<Broken>(), Some(&Broken("pass".into())));
    assert_eq!(world.count("pass"), 3);
}

async fn count_up(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    cx.deps().visit(cx.step(), &cx.attempt().to_string()).await?;
    if cx.attempt() < 3 {
        return Err("not yet".into());
    }
    Ok(been(&cx.attempt().to_string()))
}

#[tokio::test(start_paused = true)]
async fn a_node_sees_which_attempt_it_is() {
    let world = World::default();
    let graph = graph().node(count_up.retry(5)).edge(START, count_up).compile().unwrap();
    let state = graph.run(Trail::default(), world.clone()).await.unwrap();
    assert_eq!(state, trail(["3"]));
    assert_eq!(world.trace(), "1: 1 2 3");
}

async fn hopeless(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    cx.deps().visit(cx.step(), "hopeless").await?;
    "x".parse::<u32>().terminal()?;
    Ok(been("never"))
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_tried_again() {
    let world = World::default();
    let graph = graph().node(hopeless.retry(5)).edge(START, hopeless).compile().unwrap();
    let error = graph.run(Trail::default(), world.clone()).await.unwrap_err();
    assert!(matches!(&error, graph_core::RunError::Node { terminal: true, .. }), "{error}");
    assert!(error.node_error::<std::num::ParseIntError>().is_some());
    assert_eq!(world.count("hopeless"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_policy_chooses_its_errors_and_the_first_that_fits_counts() {
    let broken = |error: &NodeError| error.downcast_ref::<Broken>().is_some();
    for (node, expect) in [
        (pass.retry(exact(4, 1, 1.0).when(broken)), 4),
        (pass.retry(exact(4, 1, 1.0).when(move |it| !broken(it))), 1),
        (pass.retry(exact(9, 1, 1.0).when(move |it| !broken(it))).retry(exact(2, 1, 1.0)), 2),
        (pass.retry(exact(2, 1, 1.0).when(broken)).retry(exact(9, 1, 1.0)), 2),
    ] {
        let world = World::default();
        world.breaks("pass", 99);
        let graph = graph().node(node).edge(START, pass).compile().unwrap();
        graph.run(Trail::default(), world.clone()).await.unwrap_err();
        assert_eq!(world.count("pass"), expect);
    }
}

#[tokio::test(start_paused = true)]
async fn a_graphs_retry_is_for_nodes_without_one() {
    let world = World::default();
    let graph = graph()
        .node_as("own", pass.retry(exact(1, 1, 1.0)))
        .node_as("given", pass)
        .edge(START, "own")
        .edge(START, "given")
        .default_retry(exact(3, 1, 1.0))
        .compile()
        .unwrap();
    world.breaks("own", 99);
    world.breaks("given", 99);
    graph.run(Trail::default(), world.clone()).await.unwrap_err();
    assert_eq!((world.count("own"), world.count("given")), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_that_may_be_tried_again() {
    async fn shaky(_: &Trail, cx: &Context) -> TrailUpdate {
        assert!(cx.attempt() > 1, "the first attempt falls");
        been("stood")
    }
    let build = |attempts: u32| {
        let node = shaky.retry(exact(attempts, 1, 1.0));
        StateGraph::<Trail>::new().node(node).edge(START, shaky).compile().unwrap()
    };
    assert_eq!(build(2).run(Trail::default(), ()).await.unwrap(), trail(["stood"]));
    let error = build(1).run(Trail::default(), ()).await.unwrap_err();
    assert_eq!(failed_node(&error), "shaky");
    let panic = error.node_error::<NodePanic>().unwrap();
    assert!(panic.message.contains("the first attempt falls"));
}

#[tokio::test(start_paused = true)]
async fn a_question_is_not_tried_again() {
    let world = World::default();
    let graph = graph()
        .node(crate::support::ask.retry(5))
        .edge(START, crate::support::ask)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    assert_eq!(world.count("ask"), 1);
    assert!(thread.resume("x").await.unwrap().is_done());
}

#[tokio::test(start_paused = true)]
async fn only_the_last_attempts_writes_count() {
    async fn grows(_: &Trail, cx: &Context) -> Result<Vec<TrailUpdate>, NodeError> {
        cx.emit(cx.attempt()).await;
        if cx.attempt() == 1 { Err("once".into()) } else { Ok(vec![been("x"), been("y")]) }
    }
    let graph =
        StateGraph::<Trail>::new().node(grows.retry(2)).edge(START, grows).compile().unwrap();
    assert_eq!(graph.run(Trail::default(), ()).await.unwrap(), trail(["x", "y"]));
}
