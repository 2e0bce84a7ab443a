//! Subgraphs: mapping, persistence, commands to the parent, and going on inside.

use std::time::Duration;

use graph_core::{
    Command, CompiledGraph, Configure, Context, Goto, MemorySaver, NodeError, Persistence, Retry,
    RunError, START, State, StateGraph, Thread, goto, send, subgraph, subgraph_on,
};

use crate::support::{
    Item, Trail, TrailUpdate, World, been, chain, failed_node, graph, pass, trail, with_nodes,
};

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Draft {
    title: String,
    #[reduce(append)]
    lines: Vec<String>,
}

async fn line(draft: &Draft, cx: &Context<World>) -> Result<DraftUpdate, NodeError> {
    cx.deps().visit(cx.step(), cx.node()).await?;
    Ok(Draft::update().lines([format!("{} {}", draft.title, draft.lines.len())]))
}

/// `first`, then `second`, each of them adding a line.
fn drafting() -> CompiledGraph<Draft, World> {
    StateGraph::<Draft, World>::new()
        .node_as("first", line)
        .node_as("second", line)
        .sequence(["first", "second"])
        .compile()
        .expect("the graph is sound")
}

fn titled(trail: &Trail) -> Draft {
    Draft { title: trail.note.clone(), ..Draft::default() }
}

fn lines(draft: Draft) -> TrailUpdate {
    Trail::update().path(draft.lines)
}

fn noted(note: &str) -> Trail {
    Trail { note: note.into(), ..Trail::default() }
}

fn thread_of(graph: StateGraph<Trail, World>, world: &World) -> Thread<Trail, World> {
    let graph = graph.checkpointer(MemorySaver::new()).compile().expect("the graph is sound");
    graph.thread("t", world.clone())
}

#[tokio::test]
async fn a_subgraph_maps_its_parents_state_in_and_its_own_out() {
    let graph = graph()
        .node(subgraph("write", &drafting(), titled, lines))
        .node_as("end", pass)
        .sequence(["write", "end"])
        .compile()
        .unwrap();
    let world = World::default();
    let state = graph.run(noted("x"), world.clone()).await.unwrap();
    assert_eq!(state.path, ["x 0", "x 1", "end"]);
    assert_eq!(world.trace(), "1: first | 2: end second");
}

#[tokio::test]
async fn a_subgraph_takes_payloads() {
    let from_item = |item: Item| Draft { title: item.0.to_string(), ..Draft::default() };
    let graph = graph()
        .node(subgraph_on("write", &drafting(), from_item, lines))
        .branch(START, |_: &Trail| {
            vec![
                Goto::send("write", serde_json::json!(1)),
                Goto::send("write", serde_json::json!(2)),
            ]
        })
        .compile()
        .unwrap();
    let state = graph.run(Trail::default(), World::default()).await.unwrap();
    assert_eq!(state.path, ["1 0", "1 1", "2 0", "2 1"]);
}

#[tokio::test]
async fn a_visit_starts_empty_and_a_thread_remembers() {
    for (persistence, second) in [
        (Persistence::Visit, vec!["x 0", "x 1"]),
        (Persistence::Thread, vec!["x 0", "x 1", "x 2", "x 3"]),
        (Persistence::Nothing, vec!["x 0", "x 1"]),
    ] {
        let write = subgraph("write", &drafting(), titled, lines).persistence(persistence);
        let thread = thread_of(graph().node(write).edge(START, "write"), &World::default());
        let first = thread.run(noted("x")).await.unwrap().into_state();
        assert_eq!(first.path, ["x 0", "x 1"], "{persistence:?}");
        let both = thread.run(noted("x")).await.unwrap().into_state();
        assert_eq!(both.path[2..], second, "{persistence:?}");
    }
}

#[tokio::test]
async fn a_subgraph_without_persistence_starts_over() {
    for (persistence, again) in
        [(Persistence::Nothing, "1: first | 2: second"), (Persistence::Visit, "2: second")]
    {
        let world = World::default();
        let write = subgraph("write", &drafting(), titled, lines).persistence(persistence);
        let thread = thread_of(graph().node(write).edge(START, "write"), &world);
        world.breaks("second", 1);
        thread.run(noted("x")).await.unwrap_err();
        world.trace();
        assert_eq!(thread.proceed().await.unwrap().state().path, ["x 0", "x 1"]);
        assert_eq!(world.trace(), again, "{persistence:?}");
    }
}

#[tokio::test]
async fn a_failure_inside_is_gone_on_with_inside() {
    let world = World::default();
    let middle = with_nodes(["before"])
        .node(subgraph("write", &drafting(), titled, lines))
        .sequence(["before", "write"])
        .compile()
        .unwrap();
    let outer =
        subgraph("middle", &middle, Trail::clone, |it: Trail| Trail::update().path(it.path));
    let thread = thread_of(graph().node(outer).edge(START, "middle"), &world);
    world.breaks("second", 1);
    let error = thread.run(noted("x")).await.unwrap_err();
    assert_eq!(failed_node(&error), "middle");
    assert!(error.node_error::<crate::support::Broken>().is_some(), "{error}");
    assert_eq!(world.trace(), "1: before first | 2: second");
    let exit = thread.proceed().await.unwrap();
    assert_eq!(world.trace(), "2: second");
    assert_eq!(exit.state().path, ["before", "x 0", "x 1"]);
}

#[tokio::test]
async fn a_retried_subgraph_goes_on_inside() {
    let world = World::default();
    let at_once = Retry::attempts(3).backoff(Duration::ZERO, 1.0).without_jitter();
    let write = subgraph("write", &drafting(), titled, lines).retry(at_once);
    let thread = thread_of(graph().node(write).edge(START, "write"), &world);
    world.breaks("second", 2);
    let exit = thread.run(noted("x")).await.unwrap();
    assert_eq!(exit.state().path, ["x 0", "x 1"]);
    assert_eq!((world.count("first"), world.count("second")), (1, 3));
}

#[tokio::test]
async fn states_of_subgraphs_are_shown() {
    let world = World::default();
    let write = subgraph("write", &drafting(), titled, lines);
    let thread = thread_of(graph().node(write).edge(START, "write"), &world);
    world.breaks("second", 1);
    thread.run(noted("x")).await.unwrap_err();
    let plain = thread.state().await.unwrap().unwrap();
    assert!(plain.tasks[0].subgraph.is_none());
    let state = thread.state_with_subgraphs().await.unwrap().unwrap();
    let inner = state.tasks[0].subgraph.as_ref().unwrap();
    assert_eq!(inner.next, ["second"]);
    assert_eq!(inner.values["lines"], serde_json::json!(["x 0"]));
    assert_eq!(inner.tasks[0].error.as_deref(), Some("`second` is broken"));
}

async fn leave(_: &Draft) -> Command<Draft> {
    Command::parent::<Trail>(been("from inside"), goto(landing))
}

async fn landing(_: &Trail, cx: &Context<World>) -> TrailUpdate {
    been(cx.node())
}

#[tokio::test]
async fn a_command_to_the_parent_updates_and_routes_it() {
    let inner = StateGraph::<Draft, World>::new()
        .node(leave)
        .node_as("never", line)
        .edge(START, leave)
        .edge(leave, "never")
        .compile()
        .unwrap();
    let world = World::default();
    let graph = graph()
        .node(subgraph("inner", &inner, titled, lines))
        .node(landing)
        .node_as("also", pass)
        .edge(START, "inner")
        .edge("inner", "also")
        .compile()
        .unwrap();
    let state = graph.run(Trail::default(), world.clone()).await.unwrap();
    assert_eq!(state, trail(["from inside", "also", "landing"]));
    assert_eq!(world.trace(), "2: also", "the rest of the inner graph is dropped");
}

#[tokio::test]
async fn a_command_to_a_parent_that_is_not_there_names_its_node() {
    let inner = StateGraph::<Draft, World>::new().node(leave).edge(START, leave).compile().unwrap();
    let error = inner.run(Draft::default(), World::default()).await.unwrap_err();
    assert!(matches!(&error, RunError::NoParent { node } if node == "leave"), "{error}");
}

/// Runs a graph twice, and may fail after each.
async fn twice(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    let inner = chain(["inner"]).compile()?;
    let first = cx.run_graph(&inner, Persistence::Visit, trail(["1"])).await?;
    cx.deps().visit(cx.step(), "between").await?;
    let second = cx.run_graph(&inner, Persistence::Visit, trail(["2"])).await?;
    let both = [first, second].map(|it| it.unwrap_or_default().path.join("+"));
    Ok(Trail::update().path(both))
}

#[tokio::test]
async fn a_node_runs_a_graph_twice() {
    let world = World::default();
    let graph = graph().node(twice).edge(START, twice).compile().unwrap();
    let state = graph.run(Trail::default(), world.clone()).await.unwrap();
    assert_eq!(state, trail(["1+inner", "2+inner"]));
    assert_eq!(world.count("inner"), 2);
}

#[tokio::test]
async fn a_graph_that_a_node_ran_is_not_run_again() {
    let world = World::default();
    let thread = thread_of(graph().node(twice).edge(START, twice), &world);
    world.breaks("between", 1);
    thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(world.trace(), "1: between inner");
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["1+inner", "2+inner"]));
    assert_eq!(world.trace(), "1: between inner", "the first call had finished");
}

#[tokio::test]
async fn a_graph_that_failed_inside_a_node_goes_on_inside() {
    let world = World::default();
    let thread = thread_of(graph().node(twice).edge(START, twice), &world);
    world.breaks("inner", 1);
    thread.run(Trail::default()).await.unwrap_err();
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["1+inner", "2+inner"]));
    assert_eq!((world.count("inner"), world.count("between")), (3, 1));
}

#[tokio::test]
async fn context_reaches_into_subgraphs() {
    async fn deep(_: &Draft, cx: &Context<World>) -> DraftUpdate {
        let outer = cx.namespace().split(':').next().unwrap_or_default().to_owned();
        let config = cx.config("who").and_then(|it| it.as_str()).unwrap_or_default().to_owned();
        let thread = cx.thread().unwrap_or_default().to_owned();
        Draft::update().lines([outer, config, thread])
    }
    let inner = StateGraph::<Draft, World>::new().node(deep).edge(START, deep).compile().unwrap();
    let built = graph().node(subgraph("sub", &inner, titled, lines)).edge(START, "sub");
    let options = graph_core::RunOptions::new().config("who", "ada");
    let thread = thread_of(built, &World::default()).with(options);
    let exit = thread.run(Trail::default()).await.unwrap();
    assert_eq!(exit.state(), &trail(["sub", "ada", "t"]));
}

#[tokio::test]
async fn a_subgraph_beside_sends_keeps_task_order() {
    async fn quick(item: Item) -> TrailUpdate {
        been(&item.0.to_string())
    }
    let graph = graph()
        .node(subgraph("write", &drafting(), titled, lines))
        .node(quick)
        .edge(START, "write")
        .branch(START, |_: &Trail| vec![send(quick, Item(8)), send(quick, Item(9))])
        .compile()
        .unwrap();
    let state = graph.run(noted("x"), World::default()).await.unwrap();
    assert_eq!(state.path, ["x 0", "x 1", "8", "9"]);
}
