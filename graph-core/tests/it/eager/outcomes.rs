//! Interrupts, crashes, failures, limits and events while tasks run ahead.

use std::time::Duration;

use graph_core::{
    Context, Durability, EventKind, Goto, Input, NodeError, NodeExt, Persistence, RunControl,
    RunError, RunOptions, RunOutcome, START, StateGraph, Stops, StreamMode,
};

use super::branches::{Branches, BranchesUpdate, interrupted_branches, join, thread, two_branches};
use crate::support::{Probe, Trail, TrailUpdate, failed_node, visited, yield_to_tasks};

#[tokio::test]
async fn interrupt_lets_other_branches_run_to_their_join() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let probe = Probe::default();
        let thread = thread(interrupted_branches(), &probe);
        let thread = thread.with_options(RunOptions::new().durability(durability));
        let outcome = thread.run(Branches::default()).await.unwrap();
        let RunOutcome::Interrupted { state, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(state.right, "b1 ", "the state contains only the current step");
        assert_eq!(probe.trace(), "1: a1 b1 | 2: b2 | 3: b3");
        let stored = thread.state().await.unwrap().unwrap();
        assert_eq!((stored.next, stored.values.right), (vec!["a1".to_owned()], "b1 ".to_owned()));
        let state = thread.resume("yes").await.unwrap().into_state();
        assert_eq!(state.both, "yes | b1 b2 b3 ");
        assert_eq!(probe.trace(), "1: a1 | 4: join", "{durability:?}");
    }
}

#[tokio::test]
async fn crash_does_not_repeat_recorded_results() {
    for durability in [Durability::Sync, Durability::Async] {
        let probe = Probe::default();
        probe.block("a1");
        let thread = thread(two_branches(), &probe);
        let thread = thread.with_options(RunOptions::new().durability(durability));
        let run = tokio::spawn({
            let thread = thread.clone();
            async move { thread.invoke(Branches::default()).await }
        });
        probe.started("b3").await;
        yield_to_tasks().await;
        run.abort();
        let _ = run.await;
        assert_eq!(probe.trace(), "1: a1 b1 | 2: b2 | 3: b3");
        probe.unblock("a1");
        let state = thread.proceed().await.unwrap().into_state();
        assert_eq!(state.both, "a1 | b1 b2 b3 ");
        assert_eq!(probe.trace(), "1: a1 | 4: join", "{durability:?}");
    }
}

#[tokio::test]
async fn command_that_updates_the_state_drops_results_that_ran_ahead() {
    let probe = Probe::default();
    let thread = thread(interrupted_branches(), &probe);
    let _ = thread.run(Branches::default()).await.unwrap();
    probe.trace();
    let input = Input::command().with_update(Branches::update().log(["edited".to_owned()]));
    let input = input.with_resume("yes").unwrap();
    let state = thread.run(input).await.unwrap().into_state();
    assert_eq!(state.right, "b1 b2 b3 ");
    assert_eq!(
        probe.trace(),
        "1: a1 | 2: b2 | 3: b3 | 4: join",
        "`b1` is part of the current step"
    );
}

#[tokio::test]
async fn failure_keeps_results_that_ran_ahead() {
    let probe = Probe::default();
    probe.block("a1");
    probe.fail_next("a1", 1);
    let thread = thread(two_branches(), &probe);
    let run = tokio::spawn({
        let thread = thread.clone();
        async move { thread.invoke(Branches::default()).await }
    });
    probe.started("b3").await;
    yield_to_tasks().await;
    probe.unblock("a1");
    assert!(matches!(run.await.unwrap(), Err(RunError::Node { node, .. }) if node == "a1"));
    probe.trace();
    let state = thread.proceed().await.unwrap().into_state();
    assert_eq!(state.both, "a1 | b1 b2 b3 ");
    assert_eq!(probe.trace(), "1: a1 | 4: join");
}

#[tokio::test]
async fn failure_ahead_of_its_step_is_reported_in_its_step() {
    let probe = Probe::default();
    probe.block("a1");
    probe.fail_next("b2", 1);
    let thread = thread(two_branches(), &probe);
    let run = tokio::spawn({
        let thread = thread.clone();
        async move { thread.invoke(Branches::default()).await }
    });
    probe.started("b2").await;
    yield_to_tasks().await;
    assert!(!run.is_finished());
    probe.unblock("a1");
    assert!(
        matches!(run.await.unwrap(), Err(RunError::Node { node, step: 2, .. }) if node == "b2")
    );
    assert_eq!(thread.state().await.unwrap().unwrap().step, 1);
}

#[tokio::test]
async fn step_limit_and_static_stops_hold_tasks_back() {
    for options in [RunOptions::new().step_limit(2), RunOptions::new().stop_before(Stops::All)] {
        let probe = Probe::default();
        probe.block("a1");
        let thread = thread(two_branches(), &probe).with_options(options);
        let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
        yield_to_tasks().await;
        yield_to_tasks().await;
        assert_eq!(probe.count("b3"), 0);
        run.abort();
    }
}

#[tokio::test]
async fn draining_waits_for_tasks_that_run_ahead() {
    let probe = Probe::default();
    probe.block("a1");
    probe.block("b2");
    let control = RunControl::new();
    let options = RunOptions::new().control(control.clone());
    let thread = thread(two_branches(), &probe).with_options(options);
    let run = tokio::spawn({
        let thread = thread.clone();
        async move { thread.run(Branches::default()).await }
    });
    probe.started("b2").await;
    control.drain();
    probe.unblock("a1");
    yield_to_tasks().await;
    assert!(!run.is_finished(), "`b2` is still running");
    probe.unblock("b2");
    assert!(matches!(run.await.unwrap(), Ok(RunOutcome::Stopped { .. })));
    probe.trace();
    let thread = thread.with_options(RunOptions::new());
    let _ = thread.proceed().await.unwrap();
    assert_eq!(probe.trace(), "3: b3 | 4: join");
}

#[tokio::test]
async fn events_of_a_task_appear_after_its_step_has_started() {
    async fn talk(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.emit(cx.node().to_owned()).await;
        cx.deps().enter(cx.step(), cx.node()).await?;
        Ok(visited(cx.node()))
    }
    let probe = Probe::default();
    probe.block("a");
    let node = || talk.reads(["note"]).writes(["path"]);
    let graph = StateGraph::<Trail, Probe>::new()
        .node_as("a", node())
        .node_as("b", node())
        .node_as("c", node())
        .edge(START, "a")
        .edge(START, "b")
        .edge("b", "c")
        .eager()
        .compile()
        .unwrap();
    let options = RunOptions::new().stream_modes([StreamMode::Custom, StreamMode::Tasks]);
    let mut run = graph.with(options).stream(Trail::default(), probe.clone());
    let mut seen = Vec::new();
    let release = async {
        probe.started("c").await;
        probe.unblock("a");
    };
    let read = async {
        while let Some(event) = run.next().await {
            let node = event.node.as_deref().unwrap_or_default().to_owned();
            match event.kind {
                EventKind::TaskStarted { .. } => seen.push(format!("start {node}")),
                EventKind::Custom(_) => seen.push(format!("emit {node}")),
                EventKind::TaskFinished { .. } => seen.push(format!("end {node}")),
                _ => {}
            }
        }
    };
    let both = async { tokio::join!(release, read) };
    tokio::time::timeout(Duration::from_secs(180), both).await.expect("the run ends");
    let expected = ["start c", "emit c", "end c"];
    assert_eq!(seen[seen.len() - 3..], expected, "{seen:?}");
}

#[tokio::test]
async fn command_that_starts_a_thread_can_lead_to_any_node() {
    let probe = Probe::default();
    let graph =
        two_branches().node_as("other", join.reads(["log"]).writes(["both"]).command_only());
    let input = Input::command().with_update(Branches::update().left("")).goto(Goto::node("other"));
    assert!(thread(graph, &probe).run(input).await.unwrap().is_done());
    assert_eq!(probe.count("other"), 1);
}

#[tokio::test(start_paused = true)]
async fn step_timeout_does_not_apply_to_tasks_of_later_steps() {
    async fn sleep(_: &Branches, cx: &Context<Probe>) -> Result<BranchesUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(Branches::update().log([cx.node().to_owned()]))
    }
    let probe = Probe::default();
    let graph = interrupted_branches()
        .node_as("long", sleep.reads(["log"]).writes(["log"]))
        .edge("b1", "long")
        .step_timeout(Duration::from_secs(1));
    let thread = thread(graph, &probe);
    assert!(matches!(thread.run(Branches::default()).await, Ok(RunOutcome::Interrupted { .. })));
    assert_eq!(thread.resume("yes").await.unwrap().into_state().log, ["long"]);
    assert_eq!(probe.count("long"), 1);
}

#[tokio::test]
async fn failure_that_ran_ahead_does_not_replace_the_first_failure_of_its_step() {
    async fn note(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        Ok(visited(cx.node()))
    }
    let probe = Probe::default();
    probe.block("slow");
    probe.fail_next("late", 1);
    probe.fail_next("z", 1);
    let declared = || note.reads(["note"]).writes(["path"]);
    let mut graph = StateGraph::<Trail, Probe>::new()
        .node_as("slow", declared())
        .node_as("fast", declared())
        .edge(START, "slow")
        .edge(START, "fast");
    for name in ["one", "two", "late"] {
        graph = graph.node_as(name, note).edge("fast", name);
    }
    let graph = graph.node_as("z", declared()).edge("fast", "z").eager().compile().unwrap();
    let run = tokio::spawn({
        let probe = probe.clone();
        let graph = graph.with(RunOptions::new().max_concurrency(2));
        async move { graph.invoke(Trail::default(), probe).await }
    });
    probe.started("z").await;
    yield_to_tasks().await;
    probe.unblock("slow");
    assert_eq!(failed_node(&run.await.unwrap().unwrap_err()), "late");
}

#[tokio::test(start_paused = true)]
async fn node_timeouts_do_not_run_while_a_task_waits_for_its_step() {
    async fn slow(_: &Trail) -> TrailUpdate {
        tokio::time::sleep(Duration::from_secs(100)).await;
        visited("slow")
    }
    async fn first(_: &Trail) -> TrailUpdate {
        visited("first")
    }
    async fn inner(_: &Trail) -> TrailUpdate {
        tokio::time::sleep(Duration::from_secs(3)).await;
        visited("inner")
    }
    async fn outer(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        let graph = StateGraph::<Trail, Probe>::new().node(inner).edge(START, inner).compile()?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let state = cx.run_graph(&graph, Persistence::Invocation, Trail::default()).await?;
        Ok(Trail::update().path(state.unwrap_or_default().path))
    }
    for (limit, idle, passes) in [(7, 4, true), (5, 4, false), (7, 2, false)] {
        let limited = outer.timeout(Duration::from_secs(limit));
        let limited = limited.idle_timeout(Duration::from_secs(idle));
        let graph = StateGraph::<Trail, Probe>::new()
            .node(slow.reads(["note"]).writes(["path"]))
            .node(first.reads(["note"]).writes(["path"]))
            .node_as("outer", limited.reads(["note"]).writes(["path"]))
            .edge(START, slow)
            .edge(START, first)
            .edge(first, "outer")
            .eager()
            .compile()
            .unwrap();
        let result = graph.invoke(Trail::default(), Probe::default()).await;
        assert_eq!(result.is_ok(), passes, "timeout {limit} s, idle timeout {idle} s: {result:?}");
    }
}
