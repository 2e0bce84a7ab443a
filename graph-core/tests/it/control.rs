//! Run control: limits, time, cancelling, draining, and one run a thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use graph_core::{
    Context, Control, Durability, Exit, Goto, MemorySaver, RunError, RunOptions, START, Stop,
    Stops, checkpoint::CheckpointError, send,
};

use crate::support::{
    Item, Trail, TrailUpdate, World, been, chain, diamond, failed_node, graph, path_of, settle,
    trail, with_nodes,
};

#[tokio::test]
async fn a_run_of_n_steps_needs_a_limit_of_n_plus_one() {
    let graph = chain(["a", "b", "c"]).compile().unwrap();
    let run =
        |limit| graph.invoke(Trail::default(), World::default(), RunOptions::new().limit(limit));
    assert!(run(4).await.unwrap().is_done());
    let error = run(3).await.unwrap_err();
    assert!(matches!(error, RunError::StepLimit { limit: 3 }), "{error}");
    assert!(matches!(run(0).await, Err(RunError::BadLimit)));
}

#[tokio::test]
async fn a_thread_goes_on_after_its_limit() {
    let world = World::default();
    let graph = chain(["a", "b", "c", "d"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    let error = thread.clone().with(RunOptions::new().limit(2)).run(Trail::default()).await;
    assert!(matches!(error, Err(RunError::StepLimit { .. })));
    let seen = world.trace();
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(format!("{seen} | {}", world.trace()), "1: a | 2: b | 3: c | 4: d");
}

#[tokio::test]
async fn a_node_sees_how_many_steps_are_left() {
    async fn count(_: &Trail, cx: &Context<World>) -> TrailUpdate {
        let last = if cx.is_last_step() { "!" } else { "" };
        been(&format!("{}{last}", cx.remaining_steps()))
    }
    let graph =
        graph().node_as("a", count).node_as("b", count).sequence(["a", "b"]).compile().unwrap();
    let options = RunOptions::new().limit(3);
    let exit = graph.invoke(Trail::default(), World::default(), options).await.unwrap();
    assert_eq!(exit.state(), &trail(["2", "1!"]));
}

/// How many tasks are at work, and how many were at most.
#[derive(Clone, Debug, Default)]
struct Gauge {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

async fn measured(_: Item, cx: &Context<Gauge>) {
    let gauge = cx.deps();
    let now = gauge.now.fetch_add(1, Ordering::SeqCst) + 1;
    gauge.most.fetch_max(now, Ordering::SeqCst);
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    gauge.now.fetch_sub(1, Ordering::SeqCst);
}

#[tokio::test]
async fn no_more_tasks_run_at_once_than_allowed() {
    let graph = graph_core::StateGraph::<Trail, Gauge>::new()
        .node(measured)
        .branch(START, |_: &Trail| (0..9).map(|it| send(measured, Item(it))).collect::<Vec<_>>())
        .compile()
        .unwrap();
    for (limit, most) in [(Some(1), 1), (Some(2), 2), (Some(4), 4), (None, 9)] {
        let gauge = Gauge::default();
        let mut options = RunOptions::new();
        if let Some(limit) = limit {
            options = options.concurrency(limit);
        }
        let exit = graph.invoke(Trail::default(), gauge.clone(), options).await.unwrap();
        assert!(exit.is_done());
        assert_eq!(gauge.most.load(Ordering::SeqCst), most, "{limit:?}");
    }
}

#[tokio::test]
async fn the_result_does_not_depend_on_who_finishes_first() {
    let graph = with_nodes(["a", "b", "c"])
        .edge(START, "a")
        .edge(START, "b")
        .edge(START, "c")
        .compile()
        .unwrap();
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let world = World::default();
        order.iter().for_each(|it| world.hold(it));
        let (graph, inside) = (graph.clone(), world.clone());
        let run = tokio::spawn(async move { graph.run(Trail::default(), inside).await });
        for node in order {
            world.started(node).await;
            world.release(node);
            settle().await;
        }
        assert_eq!(run.await.unwrap().unwrap(), trail(["a", "b", "c"]), "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_takes_too_long_fails_the_run() {
    let world = World::default();
    let graph = diamond()
        .step_timeout(Duration::from_secs(5))
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    world.hold("c");
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert!(
        matches!(error, RunError::StepTimeout { step: 2, limit } if limit.as_secs() == 5),
        "{error}"
    );
    assert_eq!(path_of(&thread).await, ["a", "b"], "what finished in time counts");
    world.release("c");
    world.trace();
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(world.trace(), "2: c | 3: d");
}

#[tokio::test]
async fn a_cancelled_run_leaves_the_thread_to_go_on() {
    for durability in [Durability::Sync, Durability::Async] {
        let world = World::default();
        let graph = diamond().checkpointer(MemorySaver::new()).compile().unwrap();
        let control = Control::new();
        let options = RunOptions::new().durability(durability).control(control.clone());
        let thread = graph.thread("t", world.clone());
        world.hold("c");
        let running = thread.clone().with(options);
        let run = tokio::spawn(async move { running.run(Trail::default()).await });
        world.started("b").await;
        world.started("c").await;
        settle().await;
        control.cancel();
        assert!(matches!(run.await.unwrap(), Err(RunError::Cancelled)));
        assert_eq!(path_of(&thread).await, ["a", "b"], "{durability:?}");
        world.release("c");
        world.trace();
        let exit = thread.proceed().await.unwrap();
        assert_eq!(world.trace(), "2: c | 3: d", "{durability:?}");
        assert_eq!(exit.state(), &trail(["a", "b", "c", "d"]));
    }
}

#[tokio::test]
async fn a_run_cancelled_beforehand_runs_nothing() {
    let world = World::default();
    let graph = chain(["a"]).compile().unwrap();
    let control = Control::new();
    control.cancel();
    let options = RunOptions::new().control(control);
    world.hold("a");
    let result = graph.invoke(Trail::default(), world, options).await;
    assert!(matches!(result, Err(RunError::Cancelled)));
}

#[tokio::test]
async fn a_dropped_run_leaves_the_thread_to_go_on() {
    for durability in [Durability::Sync, Durability::Async] {
        let world = World::default();
        let graph = diamond().checkpointer(MemorySaver::new()).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", world.clone()).with(options);
        world.hold("c");
        let (running, watcher) = (thread.clone(), world.clone());
        tokio::select! {
            exit = running.run(Trail::default()) => panic!("`c` is held: {exit:?}"),
            () = async {
                watcher.started("b").await;
                watcher.started("c").await;
                settle().await;
            } => {}
        }
        world.release("c");
        world.trace();
        // The lease ends with what was queued, a moment after the run.
        settle().await;
        assert_eq!(path_of(&thread).await, ["a", "b"], "{durability:?}");
        let exit = thread.proceed().await.unwrap();
        assert_eq!(world.trace(), "2: c | 3: d", "{durability:?}");
        assert_eq!(exit.state(), &trail(["a", "b", "c", "d"]));
    }
}

#[tokio::test]
async fn a_drained_run_stops_at_the_end_of_its_step() {
    let world = World::default();
    let graph = chain(["a", "b"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let control = Control::new();
    let thread = graph.thread("t", world.clone());
    world.hold("a");
    let running = thread.clone().with(RunOptions::new().control(control.clone()));
    let run = tokio::spawn(async move { running.run(Trail::default()).await });
    world.started("a").await;
    control.drain();
    world.release("a");
    let exit = run.await.unwrap().unwrap();
    assert!(matches!(exit, Exit::Stopped { stop: Stop::Drained, .. }), "{exit:?}");
    assert_eq!(exit.state(), &trail(["a"]));
    assert_eq!(thread.state().await.unwrap().unwrap().next, ["b"]);
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "b"]));
    assert_eq!(world.trace(), "1: a | 2: b");
}

#[tokio::test]
async fn a_node_sees_that_the_run_is_to_stop() {
    async fn look(_: &Trail, cx: &Context<Control>) -> TrailUpdate {
        let before = cx.drain_requested();
        cx.deps().drain();
        been(&format!("{before} {}", cx.drain_requested()))
    }
    let graph = graph_core::StateGraph::<Trail, Control>::new()
        .node(look)
        .edge(START, look)
        .compile()
        .unwrap();
    let control = Control::new();
    let options = RunOptions::new().control(control.clone());
    let exit = graph.invoke(Trail::default(), control, options).await.unwrap();
    assert_eq!(exit.state(), &trail(["false true"]));
}

#[tokio::test]
async fn a_busy_thread_refuses_a_second_run_and_is_free_afterwards() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let world = World::default();
        let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", world.clone()).with(options);
        world.hold("a");
        let running = thread.clone();
        let run = tokio::spawn(async move { running.run(Trail::default()).await });
        world.started("a").await;

        let error = thread.run(Trail::default()).await.unwrap_err();
        let RunError::Checkpoint(CheckpointError::Busy { thread: name }) = &error else {
            panic!("{error}");
        };
        assert_eq!(name, "t");
        let edited = thread.update_state(been("x"), graph_core::AsNode::Last).await;
        assert!(matches!(edited, Err(RunError::Checkpoint(CheckpointError::Busy { .. }))));
        let other = graph.thread("other", World::default());
        assert!(other.run(Trail::default()).await.unwrap().is_done());

        world.release("a");
        assert!(run.await.unwrap().unwrap().is_done());
        assert!(thread.run(Trail::default()).await.unwrap().is_done(), "{durability:?}");
        assert_eq!(path_of(&thread).await, ["a", "a"]);
    }
}

#[tokio::test]
async fn a_failed_run_gives_its_thread_free() {
    let world = World::default();
    let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("a", 1);
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(failed_node(&error), "a");
    assert!(thread.proceed().await.unwrap().is_done());
}

#[tokio::test]
async fn static_stops_are_passed_by_going_on() {
    let world = World::default();
    let graph = chain(["a", "b", "c"])
        .stop_before(Stops::at(["b"]))
        .stop_after(Stops::at(["b"]))
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    let exit = thread.run(Trail::default()).await.unwrap();
    assert!(matches!(exit, Exit::Stopped { stop: Stop::Before, .. }), "{exit:?}");
    assert_eq!(world.trace(), "1: a");
    let exit = thread.proceed().await.unwrap();
    assert!(matches!(exit, Exit::Stopped { stop: Stop::After, .. }), "{exit:?}");
    assert_eq!(world.trace(), "2: b");
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(world.trace(), "3: c");
}

#[tokio::test]
async fn stops_of_a_run_take_the_place_of_the_graphs() {
    let world = World::default();
    let graph = chain(["a", "b"])
        .stop_before(Stops::at(["b"]))
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let free = RunOptions::new().stop_before(Stops::Nowhere);
    let thread = graph.thread("t", world.clone());
    assert!(thread.clone().with(free).run(Trail::default()).await.unwrap().is_done());
    world.trace();
    let each = RunOptions::new().stop_before(Stops::Everywhere);
    let exit = thread.with(each).run(Trail::default()).await.unwrap();
    assert!(matches!(exit, Exit::Stopped { stop: Stop::Before, .. }));
    assert_eq!(world.trace(), "", "even the first node is stopped at");
}

#[tokio::test]
async fn a_command_goes_somewhere_beside_what_is_pending() {
    let world = World::default();
    let graph = with_nodes(["a", "b", "x"])
        .sequence(["a", "b"])
        .stop_before(Stops::at(["b"]))
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    assert!(!thread.run(Trail::default()).await.unwrap().is_done());
    world.trace();
    let input = graph_core::Input::command().goto(Goto::node("x")).with_update(been("told"));
    let exit = thread.run(input).await.unwrap();
    assert_eq!(world.trace(), "2: b x");
    assert_eq!(exit.state(), &trail(["a", "told", "b", "x"]));
}
