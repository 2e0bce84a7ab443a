//! Conditions under which tasks run ahead.

use graph_core::{
    Command, Context, Goto, MemorySaver, NodeError, NodeExt, Persistence, RunError, RunOutcome,
    START, StateGraph,
};
use serde_json::json;

use super::branches::{Branches, BranchesUpdate, history, join, left, right, thread, two_branches};
use crate::support::{
    Item, Probe, Trail, TrailUpdate, thread_of, trail, visited, work, yield_to_tasks,
};

#[tokio::test]
async fn fast_branch_does_not_wait_for_a_slow_task() {
    let probe = Probe::default();
    probe.block("a1");
    let eager = thread(two_branches(), &probe);
    let run = tokio::spawn({
        let eager = eager.clone();
        async move { eager.invoke(Branches::default()).await }
    });
    probe.started("b3").await;
    yield_to_tasks().await;
    let state = eager.state().await.unwrap().expect("the input is stored");
    assert_eq!(state.step, 0, "no step after START is committed while `a1` runs");
    assert_eq!(state.next, ["a1"], "`b1` is done, and tasks of later steps are not shown");
    probe.unblock("a1");
    let result = run.await.unwrap().unwrap();
    assert_eq!(result.both, "a1 | b1 b2 b3 ");
    assert_eq!(probe.trace(), "1: a1 b1 | 2: b2 | 3: b3 | 4: join");

    let ordinary = thread_of(two_branches(), &probe);
    assert_eq!(ordinary.invoke(Branches::default()).await.unwrap(), result);
    assert_eq!(history(&eager).await, history(&ordinary).await);
}

#[tokio::test]
async fn node_waits_for_a_running_task_that_writes_a_field_it_reads() {
    let probe = Probe::default();
    probe.block("a1");
    let graph =
        two_branches().node_as("spy", join.reads(["left"]).writes(["both"])).edge("b1", "spy");
    let thread = thread(graph, &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("b3").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("spy"), 0);
    probe.unblock("a1");
    run.await.unwrap().unwrap();
    assert_eq!(probe.count("spy"), 1);
}

#[tokio::test]
async fn node_waits_for_a_task_that_leads_to_a_writer() {
    let probe = Probe::default();
    probe.block("a1");
    // `late` is in step 3, after `a2`, which writes the field that `late` reads.
    let graph = two_branches()
        .node_as("a2", left.reads(["left"]).writes(["left"]))
        .edge("a1", "a2")
        .node_as("soon", join.reads(["log"]).writes(["both"]))
        .node_as("late", join.reads(["left"]).writes(["log"]))
        .edge("b1", "soon")
        .edge("b2", "late");
    let thread = thread(graph, &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("soon").await;
    probe.started("b3").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("late"), 0);
    probe.unblock("a1");
    assert!(matches!(run.await.unwrap(), Err(RunError::Node { node, .. }) if node == "late"));
}

#[tokio::test]
async fn payload_of_a_finished_task_is_processed_immediately() {
    async fn send(_: &Trail, cx: &Context<Probe>) -> Result<Command<Trail, Vec<Goto>>, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        let number = u32::from(cx.node() == "z");
        let payload = serde_json::json!(number);
        Ok(Command::new(TrailUpdate::default(), vec![Goto::send("work", payload)]))
    }
    let probe = Probe::default();
    probe.block("z");
    let graph = StateGraph::<Trail, Probe>::new()
        .node_as("a", send.reads(["note"]).writes(["path"]))
        .node_as("z", send.reads(["note"]).writes(["path"]))
        .node_as("work", work.writes(["path"]))
        .edge(START, "a")
        .edge(START, "z")
        .eager()
        .compile()
        .unwrap();
    let run = tokio::spawn({
        let probe = probe.clone();
        async move { graph.invoke(Trail::default(), probe).await }
    });
    probe.started("work(0)").await;
    probe.unblock("z");
    assert_eq!(run.await.unwrap().unwrap(), trail(["work(0)", "work(1)"]));
}

#[tokio::test]
async fn subgraph_in_a_node_waits_for_the_step_of_the_node() {
    async fn inner(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), "inner").await?;
        Ok(visited("inner"))
    }
    async fn outer(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), "outer").await?;
        let graph = StateGraph::<Trail, Probe>::new().node(inner).edge(START, inner).compile()?;
        let state = cx.run_graph(&graph, Persistence::Invocation, Trail::default()).await?;
        Ok(Trail::update().path(state.unwrap_or_default().path))
    }
    async fn ask(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        let answer: String = cx.interrupt("?")?;
        Ok(visited(&answer))
    }
    async fn first(_: &Trail) -> TrailUpdate {
        visited("first")
    }
    let probe = Probe::default();
    let graph = StateGraph::<Trail, Probe>::new()
        .node(ask.reads(["note"]).writes(["path"]))
        .node(first.reads(["note"]).writes(["path"]))
        .node(outer.reads(["note"]).writes(["path"]))
        .edge(START, ask)
        .edge(START, first)
        .edge(first, outer)
        .checkpointer(MemorySaver::new())
        .eager()
        .compile()
        .unwrap();
    let thread = graph.thread("t", probe.clone());
    // The run ends although `outer` is still waiting to start its subgraph, so `outer` runs again in the next run.
    assert!(matches!(thread.run(Trail::default()).await, Ok(RunOutcome::Interrupted { .. })));
    assert_eq!((probe.count("outer"), probe.count("inner")), (1, 0));
    let state = thread.resume("yes").await.unwrap().into_state();
    assert_eq!(state, trail(["yes", "first", "inner"]));
    assert_eq!((probe.count("outer"), probe.count("inner")), (2, 1));
}

#[tokio::test]
async fn node_waits_for_a_payload_whose_number_is_not_known() {
    async fn send(_: &Branches) -> Command<Branches, Vec<Goto>> {
        Command::new(Branches::update(), vec![Goto::send("work", json!(7))])
    }
    async fn work(item: Item) -> BranchesUpdate {
        Branches::update().log([item.0.to_string()])
    }
    async fn count(state: &Branches, cx: &Context<Probe>) -> Result<BranchesUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        Ok(Branches::update().both(state.log.len().to_string()))
    }
    let probe = Probe::default();
    probe.block("a");
    let graph = StateGraph::new()
        .node_as("a", left.reads(["left"]).writes(["left"]))
        .node_as("z", send.reads(["right"]).writes(["both"]))
        .node_as("b", right.reads(["right"]).writes(["right"]))
        .node_as("work", work.writes(["log"]))
        .node_as("count", count.reads(["log"]).writes(["both"]))
        .edge(START, "a")
        .edge(START, "z")
        .edge("z", "b")
        .edge("b", "count");
    let thread = thread(graph, &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("b").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("count"), 0, "`work` writes the field that `count` reads");
    probe.unblock("a");
    assert_eq!(run.await.unwrap().unwrap().both, "1");
}

#[tokio::test]
async fn node_with_an_error_handler_waits_for_its_step() {
    let probe = Probe::default();
    probe.block("a1");
    let guarded = join.reads(["log"]).writes(["both"]).on_error(join);
    let thread = thread(two_branches().node_as("guarded", guarded).edge("b1", "guarded"), &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("b3").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("guarded"), 0);
    run.abort();
}
