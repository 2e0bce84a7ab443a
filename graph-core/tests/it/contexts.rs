//! The context of a node: the run, its configuration and the store.

use graph_core::{
    Context, Input, MemorySaver, NodeError, NodeExt, RunOptions, START, StateGraph,
    store::InMemoryStore,
};
use serde_json::json;

use crate::support::{Trail, TrailUpdate, thread_of, trail, visited};

async fn report(_: &Trail, cx: &Context) -> TrailUpdate {
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
async fn a_context_describes_its_run() {
    let build = || StateGraph::<Trail>::new().node(report).edge(START, report);
    let options = || RunOptions::new().run_id("r").config("colour", "red");
    let outcome =
        build().compile().unwrap().with(options()).run(Trail::default(), ()).await.unwrap();
    assert_eq!(outcome.state(), &trail(["report", "1", "r", "no thread", "", "1", "\"red\""]));

    let graph = build().checkpointer(MemorySaver::new()).compile().unwrap();
    let outcome =
        graph.thread("t", ()).with_options(options()).run(Trail::default()).await.unwrap();
    assert_eq!(outcome.state().path[3], "t");
}

#[tokio::test]
async fn default_run_ids_are_unique() {
    let graph = StateGraph::<Trail>::new().node(report).edge(START, report).compile().unwrap();
    let first = graph.invoke(Trail::default(), ()).await.unwrap();
    let second = graph.invoke(Trail::default(), ()).await.unwrap();
    assert_ne!(first.path[2], second.path[2]);
}

async fn remember(state: &Trail, cx: &Context) -> Result<TrailUpdate, NodeError> {
    let store = cx.store().ok_or("no store")?;
    let known = store.get(&["users"], "ada").await?;
    store.put(&["users"], "ada", json!({"note": state.note})).await?;
    Ok(visited(&known.map_or("unknown".to_owned(), |it| it.value["note"].to_string())))
}

#[tokio::test]
async fn a_store_is_shared_by_threads() {
    let store = InMemoryStore::new();
    let graph = StateGraph::<Trail>::new()
        .node(remember)
        .edge(START, remember)
        .checkpointer(MemorySaver::new())
        .store(store)
        .compile()
        .unwrap();
    let input = |note: &str| Trail { note: note.into(), ..Trail::default() };
    let outcome = graph.thread("one", ()).run(input("tea")).await.unwrap();
    assert_eq!(outcome.state().path, ["unknown"]);
    let outcome = graph.thread("two", ()).run(input("cake")).await.unwrap();
    assert_eq!(outcome.state().path, ["\"tea\""]);
}

#[tokio::test]
async fn a_graph_without_store_has_none() {
    let graph = StateGraph::<Trail>::new().node(remember).edge(START, remember).compile().unwrap();
    let error = graph.invoke(Trail::default(), ()).await.unwrap_err();
    assert!(error.to_string().contains("no store"));
}

#[tokio::test]
async fn a_command_on_a_new_thread_is_applied_once() {
    let graph = StateGraph::<Trail>::new()
        .node_as("a", async |_: &Trail| visited("a"))
        .node_as("b", (async |_: &Trail| visited("b")).command_only())
        .edge(START, "a");
    let input = Input::command().with_update(visited("command")).goto(graph_core::Goto::node("b"));
    let outcome = thread_of(graph, &()).run(input).await.unwrap();
    assert_eq!(outcome.state(), &trail(["command", "a", "b"]));
}
