//! Control and questions that reach into subgraphs: draining, cancelling, stops, time travel.

use graph_core::{
    Context, Control, Durability, Exit, MemorySaver, NodeError, Persistence, RunOptions, START,
    StateGraph, Stop, Stops, SubgraphNode, Thread, subgraph,
};

use crate::support::{Trail, TrailUpdate, World, ask, been, chain, graph, pass, trail, with_nodes};

fn whole(inner: Trail) -> TrailUpdate {
    Trail::update().path(inner.path)
}

/// `a → b` as the node `sub`.
fn sub(inner: StateGraph<Trail, World>) -> SubgraphNode<Trail, World> {
    let inner = inner.compile().expect("the graph is sound");
    subgraph("sub", &inner, |_: &Trail| Trail::default(), whole)
}

fn thread_of(node: SubgraphNode<Trail, World>, world: &World) -> Thread<Trail, World> {
    let graph = graph()
        .node(node)
        .node_as("after", pass)
        .sequence(["sub", "after"])
        .checkpointer(MemorySaver::new())
        .compile()
        .expect("the graph is sound");
    graph.thread("t", world.clone())
}

#[tokio::test]
async fn a_drained_run_stops_inside_and_goes_on_inside() {
    let (world, control) = (World::default(), Control::new());
    let thread = thread_of(sub(chain(["a", "b"])), &world);
    world.hold("a");
    let running = thread.clone().with(RunOptions::new().control(control.clone()));
    let run = tokio::spawn(async move { running.run(Trail::default()).await });
    world.started("a").await;
    control.drain();
    world.release("a");
    let exit = run.await.unwrap().unwrap();
    assert!(matches!(exit, Exit::Stopped { stop: Stop::Drained, .. }), "{exit:?}");
    assert_eq!(world.trace(), "1: a");
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "b", "after"]));
    assert_eq!(world.trace(), "2: after b");
}

#[tokio::test]
async fn a_cancelled_run_goes_on_inside() {
    let (world, control) = (World::default(), Control::new());
    let thread = thread_of(sub(chain(["a", "b"])), &world);
    world.hold("b");
    let running = thread.clone().with(RunOptions::new().control(control.clone()));
    let run = tokio::spawn(async move { running.run(Trail::default()).await });
    world.started("b").await;
    control.cancel();
    run.await.unwrap().unwrap_err();
    world.release("b");
    world.trace();
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "b", "after"]));
    assert_eq!(world.trace(), "2: after b");
}

#[tokio::test]
async fn a_static_stop_inside_stops_the_whole_run() {
    let world = World::default();
    let thread = thread_of(sub(chain(["a", "b"]).stop_before(Stops::at(["b"]))), &world);
    let exit = thread.run(Trail::default()).await.unwrap();
    assert!(matches!(exit, Exit::Stopped { stop: Stop::Before, .. }), "{exit:?}");
    assert_eq!(world.trace(), "1: a");
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "b", "after"]));
    assert_eq!(world.trace(), "2: after b");
}

#[tokio::test]
async fn every_durability_keeps_a_question_inside() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let world = World::default();
        let inner = with_nodes(["a"]).node_as("b", ask).sequence(["a", "b"]);
        let options = RunOptions::new().durability(durability);
        let thread = thread_of(sub(inner), &world).with(options);
        assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
        world.trace();
        let exit = thread.resume("B").await.unwrap();
        assert_eq!(exit.state(), &trail(["a", "B", "after"]), "{durability:?}");
        assert_eq!(world.trace(), "2: after b", "{durability:?}");
    }
}

#[tokio::test]
async fn a_question_in_a_graph_that_keeps_nothing_starts_it_over() {
    let world = World::default();
    let inner = with_nodes(["a"]).node_as("b", ask).sequence(["a", "b"]);
    let thread = thread_of(sub(inner).persistence(Persistence::Nothing), &world);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    world.trace();
    let exit = thread.resume("B").await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "B", "after"]));
    assert_eq!(world.trace(), "1: a | 2: after b");
}

#[tokio::test]
async fn a_graph_that_remembers_goes_back_in_time_with_its_thread() {
    let world = World::default();
    let thread = thread_of(sub(chain(["a"])).persistence(Persistence::Thread), &world);
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    let first = thread.history(None).await.unwrap();
    let entry = first.iter().find(|it| it.next == ["sub"]).unwrap().id;
    let second = thread.run(Trail::default()).await.unwrap().into_state();
    assert_eq!(
        second,
        trail(["a", "after", "a", "a", "after"]),
        "the second visit remembers the first"
    );
    let again = thread.at(entry).proceed().await.unwrap().into_state();
    assert_eq!(again, trail(["a", "after"]), "before the first visit there was nothing");
}

async fn asks_inside(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    let inner = with_nodes(["x"]).node_as("y", ask).sequence(["x", "y"]).compile()?;
    cx.deps().visit(cx.step(), "outer").await?;
    let state = cx.run_graph(&inner, Persistence::Visit, Trail::default()).await?;
    Ok(been(&state.unwrap_or_default().path.join("+")))
}

#[tokio::test]
async fn a_graph_called_by_a_node_asks_through_it() {
    let world = World::default();
    let graph = graph()
        .node(asks_inside)
        .edge(START, asks_inside)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts()[0].value, "y?");
    world.trace();
    assert_eq!(thread.resume("Y").await.unwrap().state(), &trail(["x+Y"]));
    assert_eq!(world.trace(), "1: outer | 2: y");
}

#[tokio::test]
async fn the_step_limit_counts_for_each_graph() {
    let thread = thread_of(sub(chain(["a", "b", "c"])), &World::default());
    let limited = |limit| thread.clone().with(RunOptions::new().limit(limit));
    assert!(limited(3).run(Trail::default()).await.is_err(), "the inner graph takes three steps");
    assert!(limited(4).run(Trail::default()).await.unwrap().is_done());
}
