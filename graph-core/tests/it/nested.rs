//! Draining, cancelling, stops, interrupts and time travel in subgraphs.

use graph_core::{
    Context, Durability, NodeError, Persistence, RunControl, RunOptions, RunOutcome, START,
    StopReason, Stops, SubgraphNode, Thread,
};

use crate::support::{
    Probe, Trail, TrailUpdate, ask, chain, graph, pass, sub, thread_of, trail, visited, with_nodes,
};

/// Returns a thread of the node `sub`, followed by the node `after`.
fn followed(node: SubgraphNode<Trail, Probe>, probe: &Probe) -> Thread<Trail, Probe> {
    let graph = graph().node(node).node_as("after", pass).sequence(["sub", "after"]);
    thread_of(graph, probe)
}

#[tokio::test]
async fn a_drained_subgraph_resumes_from_its_own_checkpoint() {
    let (probe, control) = (Probe::default(), RunControl::new());
    let thread = followed(sub("sub", chain(["a", "b"])), &probe);
    probe.block("a");
    let running = thread.clone().with_options(RunOptions::new().control(control.clone()));
    let run = tokio::spawn(async move { running.run(Trail::default()).await });
    probe.started("a").await;
    control.drain();
    probe.unblock("a");
    let outcome = run.await.unwrap().unwrap();
    assert!(
        matches!(outcome, RunOutcome::Stopped { reason: StopReason::Drained, .. }),
        "{outcome:?}"
    );
    assert_eq!(probe.trace(), "1: a");
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "after"]));
    assert_eq!(probe.trace(), "2: after b");
}

#[tokio::test]
async fn a_cancelled_subgraph_resumes_from_its_own_checkpoint() {
    let (probe, control) = (Probe::default(), RunControl::new());
    let thread = followed(sub("sub", chain(["a", "b"])), &probe);
    probe.block("b");
    let running = thread.clone().with_options(RunOptions::new().control(control.clone()));
    let run = tokio::spawn(async move { running.run(Trail::default()).await });
    probe.started("b").await;
    control.cancel();
    run.await.unwrap().unwrap_err();
    probe.unblock("b");
    probe.trace();
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "after"]));
    assert_eq!(probe.trace(), "2: after b");
}

#[tokio::test]
async fn a_static_stop_in_a_subgraph_stops_the_run() {
    let probe = Probe::default();
    let thread = followed(sub("sub", chain(["a", "b"]).stop_before(Stops::at(["b"]))), &probe);
    let outcome = thread.run(Trail::default()).await.unwrap();
    assert!(
        matches!(outcome, RunOutcome::Stopped { reason: StopReason::Before, .. }),
        "{outcome:?}"
    );
    assert_eq!(probe.trace(), "1: a");
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "after"]));
    assert_eq!(probe.trace(), "2: after b");
}

#[tokio::test]
async fn every_durability_stores_an_interrupt_in_a_subgraph() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let probe = Probe::default();
        let inner = with_nodes(["a"]).node_as("b", ask).sequence(["a", "b"]);
        let options = RunOptions::new().durability(durability);
        let thread = followed(sub("sub", inner), &probe).with_options(options);
        assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
        probe.trace();
        let outcome = thread.resume("B").await.unwrap();
        assert_eq!(outcome.state(), &trail(["a", "B", "after"]), "{durability:?}");
        assert_eq!(probe.trace(), "2: after b", "{durability:?}");
    }
}

#[tokio::test]
async fn an_interrupted_subgraph_without_persistence_starts_over() {
    for by_id in [false, true] {
        let probe = Probe::default();
        let inner = with_nodes(["a"]).node_as("b", ask).sequence(["a", "b"]);
        let thread = followed(sub("sub", inner).persistence(Persistence::None), &probe);
        let outcome = thread.run(Trail::default()).await.unwrap();
        let id = outcome.interrupts()[0].id.clone();
        probe.trace();
        let outcome = match by_id {
            true => thread.resume_by_id([(id, "B".into())]).await.unwrap(),
            false => thread.resume("B").await.unwrap(),
        };
        assert_eq!(outcome.state(), &trail(["a", "B", "after"]));
        assert_eq!(probe.trace(), "1: a | 2: after b");
    }
}

#[tokio::test]
async fn a_subgraph_with_thread_persistence_travels_in_time_with_its_thread() {
    let probe = Probe::default();
    let thread = followed(sub("sub", chain(["a"])).persistence(Persistence::Thread), &probe);
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    let first = thread.history(None).await.unwrap();
    let entry = first.iter().find(|it| it.next == ["sub"]).unwrap().id;
    let second = thread.run(Trail::update()).await.unwrap().into_state();
    assert_eq!(
        second,
        trail(["a", "after", "a", "a", "after"]),
        "the second invocation continues the first"
    );
    let again = thread.at(entry).proceed().await.unwrap().into_state();
    assert_eq!(again, trail(["a", "after"]), "before the first invocation there was no state");
}

async fn run_interrupting_graph(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    let inner = with_nodes(["x"]).node_as("y", ask).sequence(["x", "y"]).compile()?;
    cx.deps().enter(cx.step(), "outer").await?;
    let state = cx.run_graph(&inner, Persistence::Invocation, Trail::default()).await?;
    Ok(visited(&state.unwrap_or_default().path.join("+")))
}

#[tokio::test]
async fn an_interrupt_in_a_graph_called_by_a_node_reaches_the_caller() {
    let probe = Probe::default();
    let graph = graph().node(run_interrupting_graph).edge(START, run_interrupting_graph);
    let thread = thread_of(graph, &probe);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts()[0].value, "y?");
    probe.trace();
    assert_eq!(thread.resume("Y").await.unwrap().state(), &trail(["x+Y"]));
    assert_eq!(probe.trace(), "1: outer | 2: y");
}

#[tokio::test]
async fn the_step_limit_applies_to_each_graph_separately() {
    let thread = followed(sub("sub", chain(["a", "b", "c"])), &Probe::default());
    let limited = |limit| thread.clone().with_options(RunOptions::new().step_limit(limit));
    assert!(limited(3).run(Trail::default()).await.is_err(), "the inner graph takes three steps");
    assert!(limited(4).run(Trail::update()).await.unwrap().is_done());
}
