//! Going on after a failure: what had finished is not run again.

use graph_core::{
    Durability, Input, MemorySaver, RunError, RunOptions, START, State, StateGraph,
    checkpoint::{CheckpointError, CheckpointId, Source},
};

use crate::support::{
    Broken, Trail, World, chain, diamond, failed_node, path_of, trail, with_nodes,
};

#[tokio::test]
async fn a_failed_run_goes_on_with_what_had_not_finished() {
    let world = World::default();
    let graph = diamond().checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("b", 1);

    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(failed_node(&error), "b");
    assert_eq!(error.node_error::<Broken>(), Some(&Broken("b".into())));
    assert_eq!(world.trace(), "1: a | 2: b c");

    let exit = thread.proceed().await.unwrap();
    assert_eq!(world.trace(), "2: b | 3: d");
    assert_eq!(exit.state(), &trail(["a", "b", "c", "d"]));
}

#[tokio::test]
async fn the_state_after_a_failure_shows_what_finished_and_what_failed() {
    let world = World::default();
    let graph = diamond().checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("b", 1);
    thread.run(Trail::default()).await.unwrap_err();

    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values, trail(["a", "c"]));
    assert_eq!(state.next, ["b"]);
    let failed = state.tasks.iter().find(|it| it.node == "b").unwrap();
    assert_eq!(failed.error.as_deref(), Some("`b` is broken"));
    let done = state.tasks.iter().find(|it| it.node == "c").unwrap();
    assert!(done.result.is_some() && done.error.is_none());
}

#[tokio::test]
async fn fresh_input_drops_what_was_pending() {
    let world = World::default();
    let graph = diamond().checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("b", 1);
    thread.run(Trail::default()).await.unwrap_err();
    world.trace();

    let exit = thread.run(trail(["again"])).await.unwrap();
    assert_eq!(world.trace(), "4: a | 5: b c | 6: d");
    assert_eq!(exit.state(), &trail(["a", "again", "a", "b", "c", "d"]));
}

#[tokio::test]
async fn a_finished_thread_has_nothing_to_go_on_with() {
    let world = World::default();
    let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    thread.run(Trail::default()).await.unwrap().into_state();
    world.trace();
    let exit = thread.proceed().await.unwrap();
    assert!(exit.is_done());
    assert_eq!(exit.state(), &trail(["a"]));
    assert_eq!(world.trace(), "");
}

#[tokio::test]
async fn a_new_thread_needs_input() {
    let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", World::default());
    assert!(matches!(thread.proceed().await, Err(RunError::EmptyInput)));
    assert!(matches!(thread.run(Input::command()).await, Err(RunError::EmptyInput)));
    assert!(thread.state().await.unwrap().is_none());
    assert!(thread.history(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn threads_keep_their_states_apart() {
    let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    for (name, note) in [("one", "1"), ("two", "2")] {
        let thread = graph.thread(name, World::default());
        let exit = thread.run(Trail { note: note.into(), ..Trail::default() }).await.unwrap();
        assert!(exit.is_done());
    }
    let one = graph.thread("one", World::default());
    assert_eq!(one.state().await.unwrap().unwrap().values.note, "1");
    assert_eq!(path_of(&one).await, ["a"]);
}

#[tokio::test]
async fn an_unknown_checkpoint_is_refused_by_name() {
    let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", World::default());
    thread.run(Trail::default()).await.unwrap().into_state();
    let nowhere = CheckpointId::next();
    let error = thread.at(nowhere).proceed().await.unwrap_err();
    let RunError::Checkpoint(CheckpointError::UnknownCheckpoint { thread: name, id, .. }) = error
    else {
        panic!("{error}");
    };
    assert_eq!((name.as_str(), id), ("t", nowhere));
    assert!(thread.at(nowhere).state().await.unwrap().is_none());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
}

#[tokio::test]
async fn a_checkpointer_and_a_thread_belong_together() {
    let stored = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let error = stored.run(Trail::default(), World::default()).await.unwrap_err();
    assert!(matches!(error, RunError::MissingThread));

    let unstored = chain(["a"]).compile().unwrap();
    let thread = unstored.thread("t", World::default());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    assert!(matches!(thread.state().await, Err(RunError::NoCheckpointer)));
    assert!(matches!(thread.history(None).await, Err(RunError::NoCheckpointer)));
    assert!(matches!(thread.resume("x").await, Err(RunError::NoCheckpointer)));
}

#[derive(State, Clone, Debug, Default)]
struct Single {
    value: u32,
    #[reduce(append)]
    path: Vec<String>,
}

async fn one(_: &Single) -> SingleUpdate {
    Single::update().value(1).path(["one".to_owned()])
}

async fn two(_: &Single) -> SingleUpdate {
    Single::update().value(2).path(["two".to_owned()])
}

#[tokio::test]
async fn a_thread_is_readable_after_a_conflict() {
    let graph = StateGraph::<Single>::new()
        .node(one)
        .node(two)
        .edge(START, one)
        .edge(START, two)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", ());
    let input = Single { value: 7, ..Single::default() };
    let RunError::Conflict(conflict) = thread.run(input).await.unwrap_err() else {
        panic!("both nodes write `value`");
    };
    assert_eq!(conflict.field, "value");
    assert_eq!((conflict.first.as_str(), conflict.second.as_str()), ("one", "two"));
    assert_eq!(conflict.step, 1);
    let text = conflict.to_string();
    assert!(text.contains("`value`") && text.contains("`one`") && text.contains("`two`"), "{text}");

    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values.value, 7);
    assert_eq!(thread.history(None).await.unwrap()[0].values.value, 7);
}

#[tokio::test]
async fn each_step_leaves_a_checkpoint_unless_only_the_end_is_stored() {
    for (durability, expect) in [
        (
            Durability::Sync,
            vec![(2, Source::Loop), (1, Source::Loop), (0, Source::Loop), (-1, Source::Input)],
        ),
        (
            Durability::Async,
            vec![(2, Source::Loop), (1, Source::Loop), (0, Source::Loop), (-1, Source::Input)],
        ),
        (Durability::Exit, vec![(2, Source::Loop)]),
    ] {
        let graph = chain(["a", "b"]).checkpointer(MemorySaver::new()).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", World::default()).with(options);
        assert!(thread.run(Trail::default()).await.unwrap().is_done());
        let history = thread.history(None).await.unwrap();
        let found: Vec<_> = history.iter().map(|it| (it.step, it.source)).collect();
        assert_eq!(found, expect, "{durability:?}");
        for pair in history.windows(2) {
            assert_eq!(pair[0].parent, Some(pair[1].id), "{durability:?}");
        }
        assert_eq!(history.last().unwrap().parent, None);
        assert_eq!(path_of(&thread).await, ["a", "b"]);
    }
}

#[tokio::test]
async fn every_durability_keeps_what_finished_before_a_failure() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let world = World::default();
        let graph = diamond().checkpointer(MemorySaver::new()).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", world.clone()).with(options);
        world.breaks("c", 1);
        thread.run(Trail::default()).await.unwrap_err();
        assert_eq!(path_of(&thread).await, ["a", "b"], "{durability:?}");
        world.trace();
        let exit = thread.proceed().await.unwrap();
        assert_eq!(world.trace(), "2: c | 3: d", "{durability:?}");
        assert_eq!(exit.state(), &trail(["a", "b", "c", "d"]), "{durability:?}");
    }
}

#[tokio::test]
async fn a_synchronous_step_is_stored_before_the_next_one_starts() {
    for (durability, stored) in [(Durability::Sync, 2), (Durability::Exit, 0)] {
        let world = World::default();
        let graph = chain(["a", "b"]).checkpointer(MemorySaver::new()).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", world.clone()).with(options);
        world.hold("a");
        let watcher = thread.clone();
        let run = tokio::spawn(async move { thread.run(Trail::default()).await });
        world.started("a").await;
        assert_eq!(watcher.history(None).await.unwrap().len(), stored, "{durability:?}");
        world.release("a");
        assert!(run.await.unwrap().unwrap().is_done());
    }
}

#[tokio::test]
async fn a_half_filled_join_waits_over_runs() {
    let world = World::default();
    let graph = with_nodes(["a", "b", "c"])
        .branch(START, |it: &Trail| match it.note.as_str() {
            "a" => graph_core::Goto::node("a"),
            _ => graph_core::Goto::node("b"),
        })
        .join(["a", "b"], "c")
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    let input = |note: &str| Trail { note: note.into(), ..Trail::default() };
    assert!(thread.run(input("a")).await.unwrap().is_done());
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.waiting, [("c".to_owned(), vec!["b".to_owned()])]);
    assert!(thread.run(input("b")).await.unwrap().is_done());
    assert_eq!(world.trace(), "1: a | 4: b | 5: c");
}
