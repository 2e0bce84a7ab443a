//! Run control: limits, timeouts, cancelling, draining, and one run per thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use graph_core::{
    Context, Durability, Goto, MemorySaver, NodeExt, RunControl, RunError, RunOptions, RunOutcome,
    START, StopReason, Stops, checkpoint::CheckpointError, send,
};

use crate::support::{
    Item, Probe, Trail, TrailUpdate, chain, diamond, graph, pass, path_of, thread_of, trail,
    visited, with_nodes, yield_to_tasks,
};

#[tokio::test]
async fn options_of_a_graph_apply_to_runs_streams_and_threads() {
    let graph = chain(["a", "b"]).compile().unwrap();
    let limited = graph.with(RunOptions::new().step_limit(1));
    let is_limit = |error: RunError| matches!(error, RunError::StepLimit { limit: 1 });
    let (input, deps) = (Trail::default, Probe::default);
    assert!(is_limit(limited.run(input(), deps()).await.unwrap_err()));
    assert!(is_limit(limited.invoke(input(), deps()).await.unwrap_err()));
    assert!(is_limit(limited.stream(input(), deps()).finish().await.unwrap_err()));
    // The original graph keeps its options.
    assert!(graph.invoke(input(), deps()).await.is_ok());

    let stored = chain(["a", "b"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let limited = stored.with(RunOptions::new().step_limit(1));
    assert!(is_limit(limited.thread("t", deps()).invoke(input()).await.unwrap_err()));
    let thread = limited.thread("u", deps()).with_options(RunOptions::new());
    assert_eq!(thread.invoke(input()).await.unwrap(), trail(["a", "b"]));
}

#[tokio::test]
async fn a_run_of_n_steps_needs_a_limit_of_n_plus_one() {
    let graph = chain(["a", "b", "c"]).compile().unwrap();
    let run = async |limit| {
        let graph = graph.with(RunOptions::new().step_limit(limit));
        graph.run(Trail::default(), Probe::default()).await
    };
    assert!(run(4).await.unwrap().is_done());
    let error = run(3).await.unwrap_err();
    assert!(matches!(error, RunError::StepLimit { limit: 3 }), "{error}");
    assert!(matches!(run(0).await, Err(RunError::ZeroStepLimit)));
}

#[tokio::test]
async fn a_thread_continues_after_its_step_limit() {
    let probe = Probe::default();
    let thread = thread_of(chain(["a", "b", "c", "d"]), &probe);
    let error =
        thread.clone().with_options(RunOptions::new().step_limit(2)).run(Trail::default()).await;
    assert!(matches!(error, Err(RunError::StepLimit { .. })));
    let before = probe.trace();
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(format!("{before} | {}", probe.trace()), "1: a | 2: b | 3: c | 4: d");
}

#[tokio::test]
async fn a_node_can_read_the_remaining_steps() {
    async fn count(_: &Trail, cx: &Context<Probe>) -> TrailUpdate {
        let last = if cx.is_last_step() { "!" } else { "" };
        visited(&format!("{}{last}", cx.remaining_steps()))
    }
    let graph =
        graph().node_as("a", count).node_as("b", count).sequence(["a", "b"]).compile().unwrap();
    let options = RunOptions::new().step_limit(3);
    let outcome = graph.with(options).run(Trail::default(), Probe::default()).await.unwrap();
    assert_eq!(outcome.state(), &trail(["2", "1!"]));
}

/// Counts the tasks that are running, and records the highest count.
#[derive(Clone, Debug, Default)]
struct Gauge {
    running: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
}

async fn measured(_: Item, cx: &Context<Gauge>) {
    let gauge = cx.deps();
    let running = gauge.running.fetch_add(1, Ordering::SeqCst) + 1;
    gauge.peak.fetch_max(running, Ordering::SeqCst);
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    gauge.running.fetch_sub(1, Ordering::SeqCst);
}

#[tokio::test]
async fn max_concurrency_limits_running_tasks() {
    let graph = graph_core::StateGraph::<Trail, Gauge>::new()
        .node(measured)
        .branch(START, |_: &Trail| (0..9).map(|it| send(measured, Item(it))).collect::<Vec<_>>())
        .compile()
        .unwrap();
    for (limit, peak) in [(Some(1), 1), (Some(2), 2), (Some(4), 4), (None, 9)] {
        let gauge = Gauge::default();
        let mut options = RunOptions::new();
        if let Some(limit) = limit {
            options = options.max_concurrency(limit);
        }
        let outcome = graph.with(options).run(Trail::default(), gauge.clone()).await.unwrap();
        assert!(outcome.is_done());
        assert_eq!(gauge.peak.load(Ordering::SeqCst), peak, "{limit:?}");
    }
}

#[tokio::test]
async fn the_result_does_not_depend_on_completion_order() {
    let graph = with_nodes(["a", "b", "c"])
        .edge(START, "a")
        .edge(START, "b")
        .edge(START, "c")
        .compile()
        .unwrap();
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let probe = Probe::default();
        order.iter().for_each(|it| probe.block(it));
        let (graph, inside) = (graph.clone(), probe.clone());
        let run = tokio::spawn(async move { graph.invoke(Trail::default(), inside).await });
        for node in order {
            probe.started(node).await;
            probe.unblock(node);
            yield_to_tasks().await;
        }
        assert_eq!(run.await.unwrap().unwrap(), trail(["a", "b", "c"]), "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_timeout_fails_the_run() {
    let probe = Probe::default();
    let graph = diamond().step_timeout(Duration::from_secs(5));
    let thread = thread_of(graph, &probe);
    probe.block("c");
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert!(
        matches!(error, RunError::StepTimeout { step: 2, limit } if limit.as_secs() == 5),
        "{error}"
    );
    assert_eq!(path_of(&thread).await, ["a", "b"], "writes of finished tasks are kept");
    probe.unblock("c");
    probe.trace();
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(probe.trace(), "2: c | 3: d");
}

#[tokio::test]
async fn a_thread_continues_after_a_cancelled_run() {
    for durability in [Durability::Sync, Durability::Async] {
        let probe = Probe::default();
        let control = RunControl::new();
        let options = RunOptions::new().durability(durability).control(control.clone());
        let thread = thread_of(diamond(), &probe);
        probe.block("c");
        let running = thread.clone().with_options(options);
        let run = tokio::spawn(async move { running.run(Trail::default()).await });
        probe.started("b").await;
        probe.started("c").await;
        yield_to_tasks().await;
        control.cancel();
        assert!(matches!(run.await.unwrap(), Err(RunError::Cancelled)));
        assert_eq!(path_of(&thread).await, ["a", "b"], "{durability:?}");
        probe.unblock("c");
        probe.trace();
        let outcome = thread.proceed().await.unwrap();
        assert_eq!(probe.trace(), "2: c | 3: d", "{durability:?}");
        assert_eq!(outcome.state(), &trail(["a", "b", "c", "d"]));
    }
}

#[tokio::test]
async fn a_run_cancelled_before_it_starts_runs_no_node() {
    let probe = Probe::default();
    let graph = chain(["a"]).compile().unwrap();
    let control = RunControl::new();
    control.cancel();
    let options = RunOptions::new().control(control);
    probe.block("a");
    let result = graph.with(options).run(Trail::default(), probe).await;
    assert!(matches!(result, Err(RunError::Cancelled)));
}

#[tokio::test]
async fn a_thread_continues_after_a_dropped_run() {
    for durability in [Durability::Sync, Durability::Async] {
        let probe = Probe::default();
        let options = RunOptions::new().durability(durability);
        let thread = thread_of(diamond(), &probe).with_options(options);
        probe.block("c");
        let (running, watcher) = (thread.clone(), probe.clone());
        tokio::select! {
            outcome = running.run(Trail::default()) => panic!("`c` is blocked, but the run ended: {outcome:?}"),
            () = async {
                watcher.started("b").await;
                watcher.started("c").await;
                yield_to_tasks().await;
            } => {}
        }
        probe.unblock("c");
        probe.trace();
        // The run was dropped. Reading the thread waits until its queued checkpoints are stored.
        assert_eq!(path_of(&thread).await, ["a", "b"], "{durability:?}");
        let outcome = thread.proceed().await.unwrap();
        assert_eq!(probe.trace(), "2: c | 3: d", "{durability:?}");
        assert_eq!(outcome.state(), &trail(["a", "b", "c", "d"]));
    }
}

#[tokio::test]
async fn a_drained_run_stops_at_the_end_of_its_step() {
    let probe = Probe::default();
    let control = RunControl::new();
    let thread = thread_of(chain(["a", "b"]), &probe);
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
    assert_eq!(outcome.state(), &trail(["a"]));
    assert_eq!(thread.state().await.unwrap().unwrap().next, ["b"]);
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b"]));
    assert_eq!(probe.trace(), "1: a | 2: b");
}

#[tokio::test]
async fn a_node_can_see_a_drain_request() {
    async fn observe(_: &Trail, cx: &Context<RunControl>) -> TrailUpdate {
        let before = cx.drain_requested();
        cx.deps().drain();
        visited(&format!("{before} {}", cx.drain_requested()))
    }
    let graph = graph_core::StateGraph::<Trail, RunControl>::new()
        .node(observe)
        .edge(START, observe)
        .compile()
        .unwrap();
    let control = RunControl::new();
    let options = RunOptions::new().control(control.clone());
    let outcome = graph.with(options).run(Trail::default(), control).await.unwrap();
    assert_eq!(outcome.state(), &trail(["false true"]));
}

#[tokio::test]
async fn a_busy_thread_rejects_a_second_run_until_the_first_ends() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let probe = Probe::default();
        let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", probe.clone()).with_options(options);
        probe.block("a");
        let running = thread.clone();
        let run = tokio::spawn(async move { running.run(Trail::default()).await });
        probe.started("a").await;

        let error = thread.run(Trail::default()).await.unwrap_err();
        let RunError::Checkpoint(CheckpointError::Busy { thread: name }) = &error else {
            panic!("{error}");
        };
        assert_eq!(name, "t");
        let edited = thread.update_state(visited("x"), graph_core::AsNode::Last).await;
        assert!(matches!(edited, Err(RunError::Checkpoint(CheckpointError::Busy { .. }))));
        let other = graph.thread("other", Probe::default());
        assert!(other.run(Trail::default()).await.unwrap().is_done());

        probe.unblock("a");
        assert!(run.await.unwrap().unwrap().is_done());
        assert!(thread.run(Trail::update()).await.unwrap().is_done(), "{durability:?}");
        assert_eq!(path_of(&thread).await, ["a", "a"]);
    }
}

#[tokio::test]
async fn a_thread_continues_past_static_stops() {
    let probe = Probe::default();
    let graph = chain(["a", "b", "c"]).stop_before(Stops::at(["b"])).stop_after(Stops::at(["b"]));
    let thread = thread_of(graph, &probe);
    let outcome = thread.run(Trail::default()).await.unwrap();
    assert!(
        matches!(outcome, RunOutcome::Stopped { reason: StopReason::Before, .. }),
        "{outcome:?}"
    );
    assert_eq!(probe.trace(), "1: a");
    let outcome = thread.proceed().await.unwrap();
    assert!(
        matches!(outcome, RunOutcome::Stopped { reason: StopReason::After, .. }),
        "{outcome:?}"
    );
    assert_eq!(probe.trace(), "2: b");
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(probe.trace(), "3: c");
}

#[tokio::test]
async fn stops_of_a_run_override_those_of_the_graph() {
    let probe = Probe::default();
    let graph = chain(["a", "b"]).stop_before(Stops::at(["b"]));
    let unstopped = RunOptions::new().stop_before(Stops::None);
    let thread = thread_of(graph, &probe);
    assert!(thread.clone().with_options(unstopped).run(Trail::default()).await.unwrap().is_done());
    probe.trace();
    let each = RunOptions::new().stop_before(Stops::All);
    let outcome = thread.with_options(each).run(Trail::update()).await.unwrap();
    assert!(matches!(outcome, RunOutcome::Stopped { reason: StopReason::Before, .. }));
    assert_eq!(probe.trace(), "", "the run stops even before the first node");
}

#[tokio::test]
async fn a_command_adds_targets_to_pending_tasks() {
    let probe = Probe::default();
    let graph = with_nodes(["a", "b"])
        .node_as("x", pass.command_only())
        .sequence(["a", "b"])
        .stop_before(Stops::at(["b"]));
    let thread = thread_of(graph, &probe);
    assert!(!thread.run(Trail::default()).await.unwrap().is_done());
    probe.trace();
    let input = graph_core::Input::command().goto(Goto::node("x")).with_update(visited("command"));
    let outcome = thread.run(input).await.unwrap();
    assert_eq!(probe.trace(), "2: b x");
    assert_eq!(outcome.state(), &trail(["a", "command", "b", "x"]));
}
