//! Time travel: a thread's history, and branches from the middle of it.

use graph_core::{
    MemorySaver, RunOptions, START, Thread, ThreadState,
    checkpoint::{Checkpointer, History, Source},
};
use serde_json::json;

use crate::support::{Trail, World, ask, chain, diamond, graph, path_of, trail};

async fn finished<const N: usize>(names: [&'static str; N], world: &World) -> Thread<Trail, World> {
    let graph = chain(names).checkpointer(MemorySaver::new()).compile().expect("a sound graph");
    let thread = graph.thread("t", world.clone());
    let exit = thread.run(Trail::default()).await.expect("nothing fails");
    assert!(exit.is_done());
    world.trace();
    thread
}

fn at_step(history: &[ThreadState<Trail>], step: i64) -> &ThreadState<Trail> {
    history.iter().find(|it| it.step == step).expect("the step is in the history")
}

#[tokio::test]
async fn the_history_is_the_record_of_each_step() {
    let thread = finished(["a", "b"], &World::default()).await;
    let history = thread.history(None).await.unwrap();
    let shown: Vec<_> =
        history.iter().map(|it| (it.step, it.values.path.len(), it.next.join(" "))).collect();
    let expect = [(2, 2, ""), (1, 1, "b"), (0, 0, "a"), (-1, 0, "__start__")];
    assert_eq!(shown, expect.map(|(step, path, next)| (step, path, next.to_owned())));
    let ran = &at_step(&history, 1).tasks[0];
    assert_eq!(ran.node, "b");
    assert_eq!(ran.result.as_ref().unwrap()[0].value, json!(["b"]));
    assert!(history.windows(2).all(|it| it[0].id > it[1].id));
    assert!(history.windows(2).all(|it| it[0].created_at >= it[1].created_at));
}

#[tokio::test]
async fn the_history_can_be_cut_short() {
    let thread = finished(["a", "b"], &World::default()).await;
    let newest = thread.history(Some(2)).await.unwrap();
    assert_eq!(newest.iter().map(|it| it.step).collect::<Vec<_>>(), [2, 1]);
    assert!(thread.history(Some(0)).await.unwrap().is_empty());
    assert_eq!(thread.history(Some(99)).await.unwrap().len(), 4);
}

#[tokio::test]
async fn going_on_from_an_old_checkpoint_makes_a_branch() {
    let world = World::default();
    let thread = finished(["a", "b", "c"], &world).await;
    let history = thread.history(None).await.unwrap();
    let old = at_step(&history, 1).id;
    let exit = thread.at(old).proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "b", "c"]));
    assert_eq!(world.trace(), "3: b | 4: c");

    let after = thread.history(None).await.unwrap();
    let fork = after.iter().find(|it| it.source == Source::Fork).unwrap();
    assert_eq!(fork.parent, Some(old));
    assert_eq!(after.len(), history.len() + 3);
    for state in &history {
        assert!(after.iter().any(|it| it.id == state.id), "the first branch stays");
    }
}

#[tokio::test]
async fn going_on_from_an_old_checkpoint_runs_finished_nodes_again() {
    let world = World::default();
    let graph = diamond().checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("b", 1);
    thread.run(Trail::default()).await.unwrap_err();
    let failed = thread.state().await.unwrap().unwrap().id;
    assert!(thread.proceed().await.unwrap().is_done());
    world.trace();
    let exit = thread.at(failed).proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "b", "c", "d"]));
    assert_eq!(world.trace(), "3: b c | 4: d");
}

#[tokio::test]
async fn fresh_input_at_an_old_checkpoint_starts_from_its_state() {
    let world = World::default();
    let thread = finished(["a", "b"], &world).await;
    let old = at_step(&thread.history(None).await.unwrap(), 1).id;
    let exit = thread.at(old).run(trail(["new"])).await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "new", "a", "b"]));
    assert_eq!(path_of(&thread).await, ["a", "new", "a", "b"], "the branch is the thread's head");
}

#[tokio::test]
async fn a_checkpoint_shows_what_followed_it() {
    let thread = finished(["a", "b"], &World::default()).await;
    let old = at_step(&thread.history(None).await.unwrap(), 1).id;
    let state = thread.at(old).state().await.unwrap().unwrap();
    assert_eq!(state.values, trail(["a"]));
    assert_eq!(state.next, ["b"]);
    assert!(state.tasks[0].result.is_some());
}

#[tokio::test]
async fn an_old_checkpoint_can_be_edited() {
    let world = World::default();
    let thread = finished(["a", "b"], &world).await;
    let old = at_step(&thread.history(None).await.unwrap(), 1).id;
    let update = Trail::update().note("edited");
    let edited = thread.at(old).update_state(update, graph_core::AsNode::node("a")).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.id, state.parent), (edited, Some(old)));
    assert_eq!(state.values, Trail { note: "edited".into(), ..trail(["a"]) });
    assert_eq!(state.next, ["b"]);
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(world.trace(), "3: b");
}

#[tokio::test]
async fn the_head_by_its_id_is_gone_on_from_as_usual() {
    let world = World::default();
    let built = graph().node(ask).edge(START, ask).checkpointer(MemorySaver::new());
    let thread = built.compile().unwrap().thread("t", world);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    let head = thread.state().await.unwrap().unwrap().id;
    let exit = thread.at(head).resume("x").await.unwrap();
    assert_eq!(exit.state(), &trail(["x"]));
}

#[tokio::test]
async fn runs_are_found_by_name_and_metadata() {
    let saver = MemorySaver::new();
    let graph = chain(["a"]).checkpointer(saver.clone()).compile().unwrap();
    for (run, user) in [("first", "ada"), ("second", "bob")] {
        let options = RunOptions::new().run_named(run).metadata("user", user);
        let thread = graph.thread("t", World::default()).with(options);
        assert!(thread.run(Trail::default()).await.unwrap().is_done());
    }
    let thread = graph.thread("t", World::default());
    let history = thread.history(None).await.unwrap();
    let named: Vec<_> = history.iter().map(|it| it.run.as_str()).collect();
    assert_eq!(named, ["second", "second", "second", "first", "first", "first"]);
    assert!(history[..3].iter().all(|it| it.metadata["user"] == "bob"));

    let mut query = History::of("t", "");
    query.metadata.insert("user".into(), json!("ada"));
    assert_eq!(saver.list(&query).await.unwrap().len(), 3);
    query.source = Some(Source::Input);
    assert_eq!(saver.list(&query).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_same_run_name_does_not_swallow_new_input() {
    let world = World::default();
    let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world).with(RunOptions::new().run_named("same"));
    assert!(thread.run(trail(["1"])).await.unwrap().is_done());
    let exit = thread.run(trail(["2"])).await.unwrap();
    assert_eq!(exit.state(), &trail(["1", "a", "2", "a"]));
}
