//! Subgraphs: mapping, persistence, commands to the parent, and resuming.

use std::time::Duration;

use graph_core::{
    Command, CompiledGraph, Context, Goto, NoRoute, NodeError, NodeExt, Persistence, RetryPolicy,
    RunError, START, State, StateGraph, goto, runs_graph, send, subgraph, subgraph_on_payload,
};

use crate::support::{
    Item, Probe, Trail, TrailUpdate, chain, failed_node, graph, pass, thread_of, trail, visited,
    with_nodes,
};

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Draft {
    title: String,
    #[reduce(append)]
    lines: Vec<String>,
}

async fn line(draft: &Draft, cx: &Context<Probe>) -> Result<DraftUpdate, NodeError> {
    cx.deps().enter(cx.step(), cx.node()).await?;
    Ok(Draft::update().lines([format!("{} {}", draft.title, draft.lines.len())]))
}

/// Returns a graph with the nodes `first` and `second`, each of which adds a line.
fn drafting() -> CompiledGraph<Draft, Probe> {
    StateGraph::<Draft, Probe>::new()
        .node_as("first", line)
        .node_as("second", line)
        .sequence(["first", "second"])
        .compile()
        .expect("the graph is valid")
}

fn titled(trail: &Trail) -> Draft {
    Draft { title: trail.note.clone(), ..Draft::default() }
}

fn lines(draft: Draft) -> TrailUpdate {
    Trail::update().path(draft.lines)
}

fn with_note(note: &str) -> Trail {
    Trail { note: note.into(), ..Trail::default() }
}

#[tokio::test]
async fn a_subgraph_maps_its_input_and_output() {
    let graph = graph()
        .node(subgraph("write", &drafting(), titled, lines))
        .node_as("end", pass)
        .sequence(["write", "end"])
        .compile()
        .unwrap();
    let probe = Probe::default();
    let state = graph.invoke(with_note("x"), probe.clone()).await.unwrap();
    assert_eq!(state.path, ["x 0", "x 1", "end"]);
    assert_eq!(probe.trace(), "1: first | 2: end second");
}

#[tokio::test]
async fn a_subgraph_takes_payloads() {
    let from_item = |item: Item| Draft { title: item.0.to_string(), ..Draft::default() };
    let graph = graph()
        .node(subgraph_on_payload("write", &drafting(), from_item, lines))
        .branch(START, |_: &Trail| {
            vec![
                Goto::send("write", serde_json::json!(1)),
                Goto::send("write", serde_json::json!(2)),
            ]
        })
        .compile()
        .unwrap();
    let state = graph.invoke(Trail::default(), Probe::default()).await.unwrap();
    assert_eq!(state.path, ["1 0", "1 1", "2 0", "2 1"]);
}

#[tokio::test]
async fn persistence_determines_the_initial_state_of_a_second_run() {
    for (persistence, second) in [
        (Persistence::Invocation, vec!["x 0", "x 1"]),
        (Persistence::Thread, vec!["x 0", "x 1", "x 2", "x 3"]),
        (Persistence::None, vec!["x 0", "x 1"]),
    ] {
        let write = subgraph("write", &drafting(), titled, lines).persistence(persistence);
        let thread = thread_of(graph().node(write).edge(START, "write"), &Probe::default());
        let first = thread.run(with_note("x")).await.unwrap().into_state();
        assert_eq!(first.path, ["x 0", "x 1"], "{persistence:?}");
        let both = thread.run(Trail::update().note("x")).await.unwrap().into_state();
        assert_eq!(both.path[2..], second, "{persistence:?}");
    }
}

#[tokio::test]
async fn a_failed_subgraph_without_persistence_starts_over() {
    for (persistence, again) in
        [(Persistence::None, "1: first | 2: second"), (Persistence::Invocation, "2: second")]
    {
        let probe = Probe::default();
        let write = subgraph("write", &drafting(), titled, lines).persistence(persistence);
        let thread = thread_of(graph().node(write).edge(START, "write"), &probe);
        probe.fail_next("second", 1);
        thread.run(with_note("x")).await.unwrap_err();
        probe.trace();
        assert_eq!(thread.proceed().await.unwrap().state().path, ["x 0", "x 1"]);
        assert_eq!(probe.trace(), again, "{persistence:?}");
    }
}

#[tokio::test]
async fn a_failed_subgraph_resumes_from_its_own_checkpoint() {
    let probe = Probe::default();
    let middle = with_nodes(["before"])
        .node(subgraph("write", &drafting(), titled, lines))
        .sequence(["before", "write"])
        .compile()
        .unwrap();
    let outer =
        subgraph("middle", &middle, Trail::clone, |it: Trail| Trail::update().path(it.path));
    let thread = thread_of(graph().node(outer).edge(START, "middle"), &probe);
    probe.fail_next("second", 1);
    let error = thread.run(with_note("x")).await.unwrap_err();
    assert_eq!(failed_node(&error), "middle");
    assert!(error.node_error::<crate::support::InjectedError>().is_some(), "{error}");
    assert_eq!(probe.trace(), "1: before first | 2: second");
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(probe.trace(), "2: second");
    assert_eq!(outcome.state().path, ["before", "x 0", "x 1"]);
}

#[tokio::test]
async fn a_retried_subgraph_resumes_from_its_own_checkpoint() {
    let probe = Probe::default();
    let retry_immediately =
        RetryPolicy::max_attempts(3).backoff(Duration::ZERO, 1.0).without_jitter();
    let write = subgraph("write", &drafting(), titled, lines).retry(retry_immediately);
    let thread = thread_of(graph().node(write).edge(START, "write"), &probe);
    probe.fail_next("second", 2);
    let outcome = thread.run(with_note("x")).await.unwrap();
    assert_eq!(outcome.state().path, ["x 0", "x 1"]);
    assert_eq!((probe.count("first"), probe.count("second")), (1, 3));
}

#[tokio::test]
async fn thread_state_can_include_subgraphs() {
    let probe = Probe::default();
    let write = subgraph("write", &drafting(), titled, lines);
    let thread = thread_of(graph().node(write).edge(START, "write"), &probe);
    probe.fail_next("second", 1);
    thread.run(with_note("x")).await.unwrap_err();
    let plain = thread.state().await.unwrap().unwrap();
    assert!(plain.tasks[0].subgraph.is_none());
    let state = thread.state_with_subgraphs().await.unwrap().unwrap();
    let inner = state.tasks[0].subgraph.as_ref().unwrap();
    assert_eq!(inner.next, ["second"]);
    assert_eq!(inner.values["lines"], serde_json::json!(["x 0"]));
    assert_eq!(inner.tasks[0].error.as_deref(), Some("injected failure of `second`"));
}

async fn leave(_: &Draft) -> Command<Draft, NoRoute, Goto> {
    Command::parent::<Trail>(visited("from the subgraph"), goto(landing))
}

async fn landing(_: &Trail, cx: &Context<Probe>) -> TrailUpdate {
    visited(cx.node())
}

#[tokio::test]
async fn a_command_to_the_parent_updates_and_routes_it() {
    let inner = StateGraph::<Draft, Probe>::new()
        .node(leave)
        .node_as("never", line)
        .edge(START, leave)
        .edge(leave, "never")
        .compile()
        .unwrap();
    let probe = Probe::default();
    let graph = graph()
        .node(subgraph("inner", &inner, titled, lines))
        .node(landing)
        .node_as("also", pass)
        .edge(START, "inner")
        .edge("inner", "also")
        .compile()
        .unwrap();
    let state = graph.invoke(Trail::default(), probe.clone()).await.unwrap();
    assert_eq!(state, trail(["from the subgraph", "also", "landing"]));
    assert_eq!(probe.trace(), "2: also", "the remaining tasks of the inner graph are dropped");
}

#[tokio::test]
async fn a_command_without_parent_graph_is_an_error() {
    let inner = StateGraph::<Draft, Probe>::new().node(leave).edge(START, leave).compile().unwrap();
    let error = inner.invoke(Draft::default(), Probe::default()).await.unwrap_err();
    assert!(matches!(&error, RunError::NoParent { node } if node == "leave"), "{error}");
}

/// Runs a subgraph twice, and fails between the two runs if the probe requests a failure.
async fn twice(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    let inner = chain(["inner"]).compile()?;
    let first = cx.run_graph(&inner, Persistence::Invocation, trail(["1"])).await?;
    cx.deps().enter(cx.step(), "between").await?;
    let second = cx.run_graph(&inner, Persistence::Invocation, trail(["2"])).await?;
    let both = [first, second].map(|it| it.unwrap_or_default().path.join("+"));
    Ok(Trail::update().path(both))
}

#[tokio::test]
async fn a_node_can_run_a_graph_twice() {
    let probe = Probe::default();
    let graph = graph().node(twice).edge(START, twice).compile().unwrap();
    let state = graph.invoke(Trail::default(), probe.clone()).await.unwrap();
    assert_eq!(state, trail(["1+inner", "2+inner"]));
    assert_eq!(probe.count("inner"), 2);
}

#[tokio::test]
async fn a_finished_graph_called_by_a_node_is_not_run_again() {
    let probe = Probe::default();
    let thread = thread_of(graph().node(twice).edge(START, twice), &probe);
    probe.fail_next("between", 1);
    thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(probe.trace(), "1: between inner");
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["1+inner", "2+inner"]));
    assert_eq!(probe.trace(), "1: between inner", "the first call is not repeated");
}

#[tokio::test]
async fn a_failed_graph_called_by_a_node_resumes() {
    let probe = Probe::default();
    let thread = thread_of(graph().node(twice).edge(START, twice), &probe);
    probe.fail_next("inner", 1);
    thread.run(Trail::default()).await.unwrap_err();
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["1+inner", "2+inner"]));
    assert_eq!((probe.count("inner"), probe.count("between")), (3, 1));
}

async fn write(essay: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    let draft = cx.run_graph(&drafting(), Persistence::Invocation, titled(essay)).await?;
    Ok(lines(draft.unwrap_or_default()))
}

#[tokio::test]
async fn a_graph_declared_by_a_node_is_drawn_and_inspected_like_a_subgraph() {
    let probe = Probe::default();
    let declared = runs_graph(write, &drafting()).runs_in("test");
    let declared = thread_of(graph().node(declared.retry(1)).edge(START, write), &probe);
    let ordinary = subgraph("write", &drafting(), titled, lines);
    let ordinary = graph().node(&ordinary).edge(START, &ordinary).compile().unwrap();
    assert_eq!(declared.graph().fingerprint(), ordinary.fingerprint());
    let drawn = declared.graph().mermaid_expanded(1);
    assert!(drawn.contains(", runs in a test"), "{drawn}");
    assert_eq!(drawn.replace(", runs in a test", ""), ordinary.mermaid_expanded(1));

    probe.fail_next("second", 1);
    declared.run(with_note("x")).await.unwrap_err();
    let state = declared.state_with_subgraphs().await.unwrap().unwrap();
    let inner = state.tasks[0].subgraph.as_ref().unwrap();
    assert_eq!(
        (&inner.next[..], inner.values["lines"][0].as_str()),
        (&["second".to_owned()][..], Some("x 0"))
    );
    assert_eq!(declared.proceed().await.unwrap().into_state().path, ["x 0", "x 1"]);
}

#[tokio::test]
async fn subgraphs_see_config_and_thread_of_the_run() {
    async fn deep(_: &Draft, cx: &Context<Probe>) -> DraftUpdate {
        let outer = cx.namespace().split(':').next().unwrap_or_default().to_owned();
        let config = cx.config("who").and_then(|it| it.as_str()).unwrap_or_default().to_owned();
        let thread = cx.thread().unwrap_or_default().to_owned();
        Draft::update().lines([outer, config, thread])
    }
    let inner = StateGraph::<Draft, Probe>::new().node(deep).edge(START, deep).compile().unwrap();
    let built = graph().node(subgraph("sub", &inner, titled, lines)).edge(START, "sub");
    let options = graph_core::RunOptions::new().config("who", "ada");
    let thread = thread_of(built, &Probe::default()).with_options(options);
    let outcome = thread.run(Trail::default()).await.unwrap();
    assert_eq!(outcome.state(), &trail(["sub", "ada", "t"]));
}

#[tokio::test]
async fn subgraphs_and_sends_keep_task_order() {
    async fn quick(item: Item) -> TrailUpdate {
        visited(&item.0.to_string())
    }
    let graph = graph()
        .node(subgraph("write", &drafting(), titled, lines))
        .node(quick)
        .edge(START, "write")
        .branch(START, |_: &Trail| vec![send(quick, Item(8)), send(quick, Item(9))])
        .compile()
        .unwrap();
    let state = graph.invoke(with_note("x"), Probe::default()).await.unwrap();
    assert_eq!(state.path, ["x 0", "x 1", "8", "9"]);
}
