//! What a node learns from its context: the run, its configuration, the store.

use graph_core::{
    Context, Input, MemorySaver, NodeError, RunOptions, START, StateGraph, store::InMemoryStore,
};
use serde_json::json;

use crate::support::{Trail, TrailUpdate, been, trail};

async fn tell(_: &Trail, cx: &Context) -> TrailUpdate {
    Trail::update().path([
        cx.node().to_owned(),
        cx.step().to_string(),
        cx.run_id().to_owned(),
        cx.thread().unwrap_or("no thread").to_owned(),
        cx.namespace().to_owned(),
        cx.attempt().to_string(),
        cx.config("colour").map(ToString::to_string).unwrap_or_default(),
    ])
}

#[tokio::test]
async fn a_node_knows_its_run() {
    let build = || StateGraph::<Trail>::new().node(tell).edge(START, tell);
    let options = || RunOptions::new().run_named("r").config("colour", "red");
    let exit = build().compile().unwrap().invoke(Trail::default(), (), options()).await.unwrap();
    assert_eq!(exit.state(), &trail(["tell", "1", "r", "no thread", "", "1", "\"red\""]));

    let graph = build().checkpointer(MemorySaver::new()).compile().unwrap();
    let exit = graph.thread("t", ()).with(options()).run(Trail::default()).await.unwrap();
    assert_eq!(exit.state().path[3], "t");
}

#[tokio::test]
async fn runs_have_names_of_their_own() {
    let graph = StateGraph::<Trail>::new().node(tell).edge(START, tell).compile().unwrap();
    let first = graph.run(Trail::default(), ()).await.unwrap();
    let second = graph.run(Trail::default(), ()).await.unwrap();
    assert_ne!(first.path[2], second.path[2]);
}

async fn remember(state: &Trail, cx: &Context) -> Result<TrailUpdate, NodeError> {
    let store = cx.store().ok_or("no store")?;
    let known = store.get(&["users"], "ada").await?;
    store.put(&["users"], "ada", json!({"note": state.note})).await?;
    Ok(been(&known.map_or("nobody".to_owned(), |it| it.value["note"].to_string())))
}

#[tokio::test]
async fn a_store_outlives_the_thread() {
    let store = InMemoryStore::new();
    let graph = StateGraph::<Trail>::new()
        .node(remember)
        .edge(START, remember)
        .checkpointer(MemorySaver::new())
        .store(store)
        .compile()
        .unwrap();
    let input = |note: &str| Trail { note: note.into(), ..Trail::default() };
    let exit = graph.thread("one", ()).run(input("tea")).await.unwrap();
    assert_eq!(exit.state().path, ["nobody"]);
    let exit = graph.thread("two", ()).run(input("cake")).await.unwrap();
    assert_eq!(exit.state().path, ["\"tea\""]);
}

#[tokio::test]
async fn there_is_no_store_unless_the_graph_has_one() {
    let graph = StateGraph::<Trail>::new().node(remember).edge(START, remember).compile().unwrap();
    let error = graph.run(Trail::default(), ()).await.unwrap_err();
    assert!(error.to_string().contains("no store"));
}

#[tokio::test]
async fn a_first_command_is_applied_once() {
    let graph = StateGraph::<Trail>::new()
        .node_as("a", async |_: &Trail| been("a"))
        .node_as("b", async |_: &Trail| been("b"))
        .edge(START, "a")
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let input = Input::command().with_update(been("told")).goto(graph_core::Goto::node("b"));
    let exit = graph.thread("t", ()).run(input).await.unwrap();
    assert_eq!(exit.state(), &trail(["told", "a", "b"]));
}
