//! Care for a node: time-outs, error handlers, and the cache.

use std::time::Duration;

use graph_core::{
    CachePolicy, Command, Configure, Context, Goto, MemoryCache, MemorySaver, NodeError,
    NodeTimeout, RunError, START, State, StateGraph, cache::Cache, goto, send,
};
use tokio::time::sleep;

use crate::support::{
    Broken, Item, Trail, TrailUpdate, World, been, failed_node, graph, pass, trail,
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_fails() {
    let world = World::default();
    world.hold("pass");
    let graph = graph().node(pass.timeout(3 * SECOND)).edge(START, pass).compile().unwrap();
    let error = graph.run(Trail::default(), world).await.unwrap_err();
    assert_eq!(failed_node(&error), "pass");
    let timeout = NodeTimeout { limit: 3 * SECOND, idle: false };
    assert_eq!(error.node_error::<NodeTimeout>(), Some(&timeout));
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_its_own_time() {
    async fn faster(_: &Trail, cx: &Context) -> TrailUpdate {
        sleep(4 * SECOND / cx.attempt()).await;
        been(&cx.attempt().to_string())
    }
    let graph = StateGraph::<Trail>::new()
        .node(faster.timeout(3 * SECOND).retry(2))
        .edge(START, faster)
        .compile()
        .unwrap();
    assert_eq!(graph.run(Trail::default(), ()).await.unwrap(), trail(["2"]));
}

#[tokio::test(start_paused = true)]
async fn a_graphs_time_out_is_for_nodes_without_one() {
    async fn slow(_: &Trail) {
        sleep(5 * SECOND).await;
    }
    let graph = StateGraph::<Trail>::new()
        .node_as("own", slow.timeout(9 * SECOND))
        .node_as("given", slow)
        .sequence(["own", "given"])
        .default_timeout(3 * SECOND)
        .compile()
        .unwrap();
    let error = graph.run(Trail::default(), ()).await.unwrap_err();
    assert_eq!(failed_node(&error), "given");
}

/// Works for ten seconds, giving a sign of life each second if it was told so.
async fn long(state: &Trail, cx: &Context) -> TrailUpdate {
    for _ in 0..10 {
        sleep(SECOND).await;
        match state.note.as_str() {
            "beats" => cx.heartbeat(),
            "emits" => cx.emit("still here").await,
            _ => {}
        }
    }
    been("through")
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_puts_the_idle_time_out_off() {
    let graph = StateGraph::<Trail>::new()
        .node(long.idle_timeout(3 * SECOND))
        .edge(START, long)
        .compile()
        .unwrap();
    let run = |note: &str| graph.run(Trail { note: note.into(), ..Trail::default() }, ());
    assert_eq!(run("beats").await.unwrap().path, ["through"]);
    assert_eq!(run("emits").await.unwrap().path, ["through"]);
    let error = run("silent").await.unwrap_err();
    let timeout = NodeTimeout { limit: 3 * SECOND, idle: true };
    assert_eq!(error.node_error::<NodeTimeout>(), Some(&timeout));
}

async fn mend(_: &Trail, cx: &Context<World>) -> Result<Command<Trail, Goto>, NodeError> {
    cx.deps().visit(cx.step(), "mend").await?;
    let failure = cx.failure().ok_or("a handler has a failure")?;
    let text = format!("{}: {}", failure.node, failure.error);
    Ok(been(&text).goto(Goto::node("after")))
}

fn handled() -> StateGraph<Trail, World> {
    graph()
        .node(pass.retry(graph_core::Retry::attempts(2)).on_error(mend))
        .node_as("next", pass)
        .node_as("after", pass)
        .edge(START, pass)
        .edge(pass, "next")
}

#[tokio::test(start_paused = true)]
async fn a_handler_takes_the_failed_nodes_place_in_the_same_step() {
    let world = World::default();
    world.breaks("pass", 9);
    let graph = handled().compile().unwrap();
    let state = graph.run(Trail::default(), world.clone()).await.unwrap();
    assert_eq!(state, trail(["pass: `pass` is broken", "after"]));
    assert_eq!(world.trace(), "1: mend pass pass | 2: after", "the node's own edge does not fire");
}

#[tokio::test]
async fn a_handler_is_not_asked_where_nothing_fails() {
    let world = World::default();
    let graph = handled().compile().unwrap();
    let state = graph.run(Trail::default(), world.clone()).await.unwrap();
    assert_eq!(state, trail(["pass", "next"]));
    assert_eq!(world.count("mend"), 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_failing_handler_only_the_handler_runs_again() {
    let world = World::default();
    world.breaks("pass", 9);
    world.breaks("mend", 1);
    let graph = handled().checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(error.node_error::<Broken>(), Some(&Broken("mend".into())));
    assert_eq!(world.trace(), "1: mend pass pass");
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["pass: `pass` is broken", "after"]));
    assert_eq!(world.trace(), "1: mend | 2: after");
}

#[tokio::test]
async fn a_handler_sees_the_failed_nodes_payload() {
    async fn fails(_: Item) -> Result<TrailUpdate, NodeError> {
        Err("no".into())
    }
    async fn instead(item: Item) -> TrailUpdate {
        been(&format!("instead of {}", item.0))
    }
    let graph = StateGraph::<Trail>::new()
        .node(fails.on_error(instead))
        .branch(START, |_: &Trail| send(fails, Item(4)))
        .compile()
        .unwrap();
    assert_eq!(graph.run(Trail::default(), ()).await.unwrap(), trail(["instead of 4"]));
}

#[tokio::test]
async fn a_question_is_no_failure_for_the_handler() {
    let world = World::default();
    let graph = graph()
        .node(crate::support::ask.on_error(mend))
        .node_as("after", pass)
        .edge(START, crate::support::ask)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    assert_eq!(world.count("mend"), 0);
}

#[derive(State, Clone, Debug, Default)]
struct Query {
    key: u32,
    #[reduce(append)]
    seen: Vec<u32>,
}

async fn look_up(query: &Query, cx: &Context<World>) -> Result<Command<Query, Goto>, NodeError> {
    cx.deps().visit(cx.step(), "look_up").await?;
    Ok(Query::update().seen([query.key * 10]).goto(goto(show)))
}

async fn show(_: &Query, cx: &Context<World>) -> Result<(), NodeError> {
    cx.deps().visit(cx.step(), "show").await
}

fn cached(policy: CachePolicy, cache: &MemoryCache) -> graph_core::CompiledGraph<Query, World> {
    StateGraph::<Query, World>::new()
        .node(look_up.cache(policy))
        .node(show)
        .edge(START, look_up)
        .cache(cache.clone())
        .compile()
        .expect("the graph is sound")
}

async fn ask_for(graph: &graph_core::CompiledGraph<Query, World>, key: u32, world: &World) {
    let input = Query { key, ..Query::default() };
    let state = graph.run(input, world.clone()).await.expect("nothing fails");
    assert_eq!(state.seen, [key * 10]);
}

#[tokio::test]
async fn an_equal_input_takes_the_result_from_the_cache() {
    let (world, cache) = (World::default(), MemoryCache::new());
    let graph = cached(CachePolicy::new(), &cache);
    ask_for(&graph, 1, &world).await;
    assert_eq!(world.trace(), "1: look_up | 2: show");
    ask_for(&graph, 1, &world).await;
    assert_eq!(world.trace(), "2: show", "the cached result routes as well");
    ask_for(&graph, 2, &world).await;
    assert_eq!(world.trace(), "1: look_up | 2: show", "another input is another result");
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_lives_as_long_as_it_may() {
    let (world, cache) = (World::default(), MemoryCache::new());
    let graph = cached(CachePolicy::ttl(10 * SECOND), &cache);
    for (wait, runs) in [(0, 1), (9, 1), (2, 2)] {
        sleep(wait * SECOND).await;
        ask_for(&graph, 1, &world).await;
        assert_eq!(world.count("look_up"), runs);
    }
}

#[tokio::test]
async fn a_cleared_cache_forgets() {
    let (world, cache) = (World::default(), MemoryCache::new());
    let graph = cached(CachePolicy::new(), &cache);
    ask_for(&graph, 1, &world).await;
    cache.clear(Some("show")).await;
    ask_for(&graph, 1, &world).await;
    assert_eq!(world.count("look_up"), 1, "another node's results are no matter");
    cache.clear(Some("look_up")).await;
    ask_for(&graph, 1, &world).await;
    cache.clear(None).await;
    ask_for(&graph, 1, &world).await;
    assert_eq!(world.count("look_up"), 3);
}

#[tokio::test]
async fn a_failure_is_not_cached() {
    let (world, cache) = (World::default(), MemoryCache::new());
    let graph = cached(CachePolicy::new(), &cache);
    world.breaks("look_up", 1);
    let input = Query { key: 1, ..Query::default() };
    let error = graph.run(input, world.clone()).await.unwrap_err();
    assert!(matches!(error, RunError::Node { .. }));
    ask_for(&graph, 1, &world).await;
    assert_eq!(world.count("look_up"), 2);
}
