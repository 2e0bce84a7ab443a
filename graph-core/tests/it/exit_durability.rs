//! Runs with exit durability, which convert values to JSON only when they store them.

use std::{collections::BTreeMap, time::Duration};

use graph_core::{
    Context, Durability, Goto, MemorySaver, RunError, RunOptions, START, State, StateGraph, Stops,
    Thread,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::{
    Probe, Trail, ask, chain, diamond, failed_node, graph, path_of, thread_of, trail, with_nodes,
    work,
};

/// Compiles the graph with a checkpointer and returns a thread with exit durability.
fn exit_thread(graph: StateGraph<Trail, Probe>, probe: &Probe) -> Thread<Trail, Probe> {
    thread_of(graph, probe).with_options(at_exit())
}

fn at_exit() -> RunOptions {
    RunOptions::new().durability(Durability::Exit)
}

/// Adds edges that start the nodes `a` and `b` in the same step.
fn start_both(graph: StateGraph<Trail, Probe>) -> StateGraph<Trail, Probe> {
    graph.edge(START, "a").edge(START, "b")
}

/// Returns the nodes that run next in the thread.
async fn next_of(thread: &Thread<Trail, Probe>) -> Vec<String> {
    let state = thread.state().await.expect("the thread is readable");
    state.expect("the thread has run").next
}

#[tokio::test]
async fn an_interrupt_keeps_the_writes_of_finished_siblings() {
    let probe = Probe::default();
    let graph = start_both(with_nodes(["a", "c"]).node_as("b", ask)).join(["a", "b"], "c");
    let thread = exit_thread(graph, &probe);
    let outcome = thread.run(Trail::default()).await.unwrap();
    assert_eq!(outcome.interrupts().len(), 1);
    assert_eq!(outcome.state(), &trail(["a"]));
    assert_eq!(path_of(&thread).await, ["a"]);
    assert_eq!(next_of(&thread).await, ["b"]);
    probe.trace();
    let outcome = thread.resume("yes").await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "yes", "c"]));
    assert_eq!(probe.trace(), "1: b | 2: c", "the finished sibling does not run again");
}

#[tokio::test]
async fn a_failure_keeps_the_writes_and_payloads_of_finished_siblings() {
    let probe = Probe::default();
    let graph = start_both(with_nodes(["a", "b"]).node_as("work", work))
        .branch("a", |_: &Trail| Goto::send("work", json!(7)));
    let thread = exit_thread(graph, &probe);
    probe.fail_next("b", 1);
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(failed_node(&error), "b");
    assert_eq!(path_of(&thread).await, ["a"]);
    assert_eq!(next_of(&thread).await, ["b"]);
    probe.trace();
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "work(7)"]));
    assert_eq!(probe.trace(), "1: b | 2: work(7)", "the finished sibling does not run again");
}

#[tokio::test(start_paused = true)]
async fn a_step_timeout_keeps_the_writes_of_finished_siblings() {
    let probe = Probe::default();
    let thread = exit_thread(diamond().step_timeout(Duration::from_secs(5)), &probe);
    probe.block("c");
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert!(matches!(error, RunError::StepTimeout { step: 2, .. }), "{error}");
    assert_eq!(path_of(&thread).await, ["a", "b"]);
    probe.unblock("c");
    probe.trace();
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "c", "d"]));
    assert_eq!(probe.trace(), "2: c | 3: d", "the finished sibling does not run again");
}

#[tokio::test]
async fn a_conflict_stores_the_fields_written_before_it() {
    let both = |name: &'static str| {
        async move |_: &Trail| Trail::update().path([name.to_owned()]).note(name)
    };
    let graph =
        graph().node_as("a", both("a")).node_as("b", both("b")).edge(START, "a").edge(START, "b");
    let thread = exit_thread(graph, &Probe::default());
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert!(matches!(&error, RunError::Conflict(it) if it.field == "note"), "{error}");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values, trail(["a", "b"]));
    assert!(state.is_done(), "the tasks of the step count as finished");
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Nested(Vec<Self>);

#[derive(State, Clone, Debug, Default)]
struct Document {
    #[reduce(append)]
    log: Vec<String>,
    text: String,
    nested: Nested,
    table: BTreeMap<(u8, u8), u8>,
}

fn too_large() -> DocumentUpdate {
    Document::update().text("x".repeat(2_000))
}

/// Returns updates that cannot be stored, each with the error that names the field.
fn unstorable() -> [(DocumentUpdate, &'static str); 2] {
    let nested = (0..200).fold(Nested::default(), |inner, _| Nested(vec![inner]));
    let table = BTreeMap::from([((1_u8, 2_u8), 3_u8)]);
    [
        (
            Document::update().nested(nested),
            "field `nested`: the value is nested deeper than 120 levels",
        ),
        (
            Document::update().table(table),
            "field `table`: the value cannot be serialised to JSON: key must be a string",
        ),
    ]
}

/// Returns a graph in which `good` and `bad` run in the same step. `bad` returns the update.
fn good_and_bad(update: DocumentUpdate) -> StateGraph<Document> {
    StateGraph::<Document>::new()
        .node_as("good", async |_: &Document| Document::update().log(["good".to_owned()]))
        .node_as("bad", async move |_: &Document| update.clone())
        .edge(START, "good")
        .edge(START, "bad")
        .checkpointer(MemorySaver::new())
        .max_stored_bytes(1_000)
}

fn document_thread(graph: StateGraph<Document>) -> Thread<Document> {
    let graph = graph.compile().expect("the graph is valid");
    graph.thread("t", ()).with_options(at_exit())
}

#[tokio::test]
async fn a_value_that_cannot_be_stored_is_reported_when_the_run_ends() {
    for (update, problem) in unstorable() {
        let thread = document_thread(good_and_bad(update));
        let error = thread.run(Document::default()).await.unwrap_err();
        assert!(matches!(error, RunError::Field(_)), "{error}");
        assert!(error.to_string().contains(problem), "{error}");
        assert!(thread.state().await.unwrap().is_none(), "nothing of the run is stored");
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_stored_fails_its_task_if_the_step_does_not_complete() {
    let too_large = (too_large(), "field `text`: the value takes about 2002 bytes");
    for (update, problem) in unstorable().into_iter().chain([too_large]) {
        let graph = good_and_bad(update)
            .node_as("ask", async |_: &Document, cx: &Context| {
                cx.interrupt::<String>("continue?").map(|_| ())
            })
            .edge(START, "ask");
        let thread = document_thread(graph);
        let error = thread.run(Document::default()).await.unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!(state.values.log, ["good"], "{problem}");
        assert_eq!(state.next, ["ask", "bad"], "{problem}");
        let failed = state.tasks.iter().find(|it| it.node == "bad").unwrap();
        assert!(failed.error.as_ref().is_some_and(|it| it.contains(problem)), "{failed:?}");
    }
}

#[tokio::test]
async fn a_value_that_is_replaced_before_the_run_ends_need_not_be_storable() {
    for (update, _) in unstorable() {
        let graph = good_and_bad(update)
            .node_as("repair", async |_: &Document| {
                Document::update().nested(Nested::default()).table(BTreeMap::<(u8, u8), u8>::new())
            })
            .join(["good", "bad"], "repair");
        let thread = document_thread(graph);
        assert!(thread.run(Document::default()).await.unwrap().is_done());
        assert_eq!(thread.state().await.unwrap().unwrap().values.log, ["good"]);
    }
}

#[tokio::test]
async fn a_list_may_grow_beyond_the_limit_of_one_write() {
    // Each write takes 6 bytes, and the list in the final checkpoint takes 14.
    let graph = chain(["a", "b", "c"]).max_stored_bytes(10);
    let thread = exit_thread(graph, &Probe::default());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    assert_eq!(path_of(&thread).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_payload_is_limited_if_it_is_stored() {
    let graph = with_nodes(["a"])
        .node_as("read", async |_: String| ())
        .edge(START, "a")
        .branch("a", |_: &Trail| Goto::send("read", json!("x".repeat(2_000))))
        .max_stored_bytes(1_000);
    let thread = exit_thread(graph, &Probe::default());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    assert_eq!(path_of(&thread).await, ["a"]);
    let stopping = at_exit().stop_before(Stops::at(["read"]));
    let error = thread.clone().with_options(stopping).run(Trail::update()).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("payload of `read`"), "{message}");
    assert!(message.contains("more than the limit of 1000"), "{message}");
}
