//! Node options: timeouts, error handlers and the cache.

use std::time::Duration;

use graph_core::{
    CachePolicy, Command, Context, Goto, MemoryCache, NodeError, NodeExt, NodeTimeoutError,
    RunError, START, State, StateGraph, cache::Cache, goto, send,
};
use tokio::time::sleep;

use crate::support::{
    InjectedError, Item, Probe, Trail, TrailUpdate, failed_node, graph, pass, thread_of, trail,
    visited,
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn an_attempt_that_exceeds_its_timeout_fails() {
    let probe = Probe::default();
    probe.block("pass");
    let graph = graph().node(pass.timeout(3 * SECOND)).edge(START, pass).compile().unwrap();
    let error = graph.invoke(Trail::default(), probe).await.unwrap_err();
    assert_eq!(failed_node(&error), "pass");
    let timeout = NodeTimeoutError { limit: 3 * SECOND, idle: false };
    assert_eq!(error.node_error::<NodeTimeoutError>(), Some(&timeout));
}

#[tokio::test(start_paused = true)]
async fn the_timeout_applies_to_each_attempt() {
    async fn faster(_: &Trail, cx: &Context) -> TrailUpdate {
        sleep(4 * SECOND / cx.attempt()).await;
        visited(&cx.attempt().to_string())
    }
    let graph = StateGraph::<Trail>::new()
        .node(faster.timeout(3 * SECOND).retry(2))
        .edge(START, faster)
        .compile()
        .unwrap();
    assert_eq!(graph.invoke(Trail::default(), ()).await.unwrap(), trail(["2"]));
}

#[tokio::test(start_paused = true)]
async fn the_default_timeout_applies_to_nodes_without_their_own() {
    async fn slow(_: &Trail) {
        sleep(5 * SECOND).await;
    }
    let graph = StateGraph::<Trail>::new()
        .node_as("explicit", slow.timeout(9 * SECOND))
        .node_as("default", slow)
        .sequence(["explicit", "default"])
        .default_timeout(3 * SECOND)
        .compile()
        .unwrap();
    let error = graph.invoke(Trail::default(), ()).await.unwrap_err();
    assert_eq!(failed_node(&error), "default");
}

/// Runs for ten seconds and, if the state's `note` requests it, sends a heartbeat or an event each second.
async fn ten_seconds(state: &Trail, cx: &Context) -> TrailUpdate {
    for _ in 0..10 {
        sleep(SECOND).await;
        match state.note.as_str() {
            "beats" => cx.heartbeat(),
            "emits" => cx.emit("working").await,
            _ => {}
        }
    }
    visited("finished")
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_resets_the_idle_timeout() {
    let graph = StateGraph::<Trail>::new()
        .node(ten_seconds.idle_timeout(3 * SECOND))
        .edge(START, ten_seconds)
        .compile()
        .unwrap();
    let run = |note: &str| graph.invoke(Trail { note: note.into(), ..Trail::default() }, ());
    assert_eq!(run("beats").await.unwrap().path, ["finished"]);
    assert_eq!(run("emits").await.unwrap().path, ["finished"]);
    let error = run("silent").await.unwrap_err();
    let timeout = NodeTimeoutError { limit: 3 * SECOND, idle: true };
    assert_eq!(error.node_error::<NodeTimeoutError>(), Some(&timeout));
}

async fn recover(_: &Trail, cx: &Context<Probe>) -> Result<Command<Trail, Goto>, NodeError> {
    cx.deps().enter(cx.step(), "recover").await?;
    let failure = cx.failure().ok_or("an error handler has a failure")?;
    let text = format!("{}: {}", failure.node, failure.error);
    Ok(visited(&text).goto(Goto::node("after")))
}

fn handled() -> StateGraph<Trail, Probe> {
    graph()
        .node(pass.retry(graph_core::RetryPolicy::max_attempts(2)).on_error(recover))
        .node_as("next", pass)
        .node_as("after", pass)
        .edge(START, pass)
        .edge(pass, "next")
}

#[tokio::test(start_paused = true)]
async fn an_error_handler_replaces_the_failed_node_in_the_same_step() {
    let probe = Probe::default();
    probe.fail_next("pass", 9);
    let graph = handled().compile().unwrap();
    let state = graph.invoke(Trail::default(), probe.clone()).await.unwrap();
    assert_eq!(state, trail(["pass: injected failure of `pass`", "after"]));
    assert_eq!(
        probe.trace(),
        "1: pass pass recover | 2: after",
        "the node's own edge does not fire"
    );
}

#[tokio::test]
async fn an_error_handler_does_not_run_without_a_failure() {
    let probe = Probe::default();
    let graph = handled().compile().unwrap();
    let state = graph.invoke(Trail::default(), probe.clone()).await.unwrap();
    assert_eq!(state, trail(["pass", "next"]));
    assert_eq!(probe.count("recover"), 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_handler_only_the_handler_runs_again() {
    let probe = Probe::default();
    probe.fail_next("pass", 9);
    probe.fail_next("recover", 1);
    let thread = thread_of(handled(), &probe);
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(error.node_error::<InjectedError>(), Some(&InjectedError("recover".into())));
    assert_eq!(probe.trace(), "1: pass pass recover");
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["pass: injected failure of `pass`", "after"]));
    assert_eq!(probe.trace(), "1: recover | 2: after");
}

#[tokio::test]
async fn a_handler_receives_the_failed_nodes_payload() {
    async fn fails(_: Item) -> Result<TrailUpdate, NodeError> {
        Err("no".into())
    }
    async fn instead(item: Item) -> TrailUpdate {
        visited(&format!("instead of {}", item.0))
    }
    let graph = StateGraph::<Trail>::new()
        .node(fails.on_error(instead))
        .branch(START, |_: &Trail| send(fails, Item(4)))
        .compile()
        .unwrap();
    assert_eq!(graph.invoke(Trail::default(), ()).await.unwrap(), trail(["instead of 4"]));
}

#[tokio::test]
async fn an_interrupt_does_not_run_the_error_handler() {
    let probe = Probe::default();
    let graph = graph()
        .node(crate::support::ask.on_error(recover))
        .node_as("after", pass)
        .edge(START, crate::support::ask);
    let thread = thread_of(graph, &probe);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    assert_eq!(probe.count("recover"), 0);
}

#[derive(State, Clone, Debug, Default)]
struct Query {
    key: u32,
    #[reduce(append)]
    seen: Vec<u32>,
}

async fn look_up(query: &Query, cx: &Context<Probe>) -> Result<Command<Query, Goto>, NodeError> {
    cx.deps().enter(cx.step(), "look_up").await?;
    Ok(Query::update().seen([query.key * 10]).goto(goto(show)))
}

async fn show(_: &Query, cx: &Context<Probe>) -> Result<(), NodeError> {
    cx.deps().enter(cx.step(), "show").await
}

fn cached(policy: CachePolicy, cache: &MemoryCache) -> graph_core::CompiledGraph<Query, Probe> {
    StateGraph::<Query, Probe>::new()
        .node(look_up.cache(policy))
        .node(show)
        .edge(START, look_up)
        .cache(cache.clone())
        .compile()
        .expect("the graph is valid")
}

async fn run_query(graph: &graph_core::CompiledGraph<Query, Probe>, key: u32, probe: &Probe) {
    let input = Query { key, ..Query::default() };
    let state = graph.invoke(input, probe.clone()).await.expect("no node fails");
    assert_eq!(state.seen, [key * 10]);
}

#[tokio::test]
async fn an_equal_input_hits_the_cache() {
    let (probe, cache) = (Probe::default(), MemoryCache::new());
    let graph = cached(CachePolicy::new(), &cache);
    run_query(&graph, 1, &probe).await;
    assert_eq!(probe.trace(), "1: look_up | 2: show");
    run_query(&graph, 1, &probe).await;
    assert_eq!(probe.trace(), "2: show", "the cached result includes its targets");
    run_query(&graph, 2, &probe).await;
    assert_eq!(probe.trace(), "1: look_up | 2: show", "another input misses the cache");
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_expires_after_its_ttl() {
    let (probe, cache) = (Probe::default(), MemoryCache::new());
    let graph = cached(CachePolicy::ttl(10 * SECOND), &cache);
    for (wait, runs) in [(0, 1), (9, 1), (2, 2)] {
        sleep(wait * SECOND).await;
        run_query(&graph, 1, &probe).await;
        assert_eq!(probe.count("look_up"), runs);
    }
}

#[tokio::test]
async fn a_cleared_cache_misses() {
    let (probe, cache) = (Probe::default(), MemoryCache::new());
    let graph = cached(CachePolicy::new(), &cache);
    run_query(&graph, 1, &probe).await;
    cache.clear(Some("show")).await;
    run_query(&graph, 1, &probe).await;
    assert_eq!(probe.count("look_up"), 1, "clearing another node has no effect");
    cache.clear(Some("look_up")).await;
    run_query(&graph, 1, &probe).await;
    cache.clear(None).await;
    run_query(&graph, 1, &probe).await;
    assert_eq!(probe.count("look_up"), 3);
}

#[tokio::test]
async fn a_failure_is_not_cached() {
    let (probe, cache) = (Probe::default(), MemoryCache::new());
    let graph = cached(CachePolicy::new(), &cache);
    probe.fail_next("look_up", 1);
    let input = Query { key: 1, ..Query::default() };
    let error = graph.invoke(input, probe.clone()).await.unwrap_err();
    assert!(matches!(error, RunError::Node { .. }));
    run_query(&graph, 1, &probe).await;
    assert_eq!(probe.count("look_up"), 2);
}
