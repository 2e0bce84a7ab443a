//! Edges, joins, branches, sends, commands and deferred nodes.

use graph_core::{
    Command, Context, END, Goto, Input, MemorySaver, NodeError, NodeExt, Route, RunError,
    RunOptions, START, StateGraph, goto, node::TaskInputError, send,
};
use serde_json::json;

use crate::support::{
    Item, Probe, Trail, TrailUpdate, diamond, failed_node, graph, pass, thread_of, trail, visited,
    with_nodes, work,
};

async fn run(graph: StateGraph<Trail, Probe>) -> (String, Result<Trail, RunError>) {
    run_with_note(graph, "").await
}

/// Runs the graph with this note as input and returns the trace and the result.
async fn run_with_note(
    graph: StateGraph<Trail, Probe>,
    note: &str,
) -> (String, Result<Trail, RunError>) {
    let probe = Probe::default();
    let graph = graph.compile().expect("the graph is valid");
    let input = Trail { note: note.into(), ..Trail::default() };
    let result = graph.invoke(input, probe.clone()).await;
    (probe.trace(), result)
}

#[tokio::test]
async fn targets_of_edges_run_in_the_next_step() {
    assert_eq!(run(diamond()).await.0, "1: a | 2: b c | 3: d");
    let uneven = with_nodes(["a", "b", "c"])
        .edge(START, "a")
        .edge(START, "c")
        .edge("a", "b")
        .edge("b", "c")
        .edge("c", END);
    assert_eq!(run(uneven).await.0, "1: a c | 2: b | 3: c");
}

#[tokio::test]
async fn a_join_waits_for_all_of_its_sources() {
    let graph = with_nodes(["a", "b", "c", "z"])
        .edge(START, "a")
        .edge(START, "b")
        .edge("b", "c")
        .join(["a", "c"], "z");
    assert_eq!(run(graph).await.0, "1: a b | 2: c | 3: z");
}

async fn one(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    cx.deps().enter(cx.step(), "one").await?;
    Ok(visited("one"))
}

async fn two(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    cx.deps().enter(cx.step(), "two").await?;
    Ok(visited("two"))
}

#[tokio::test]
async fn functions_identify_their_nodes_in_edges() {
    let graph = graph().node(one).node(two).node(pass).edge(START, one).edge(START, two);
    assert_eq!(run(graph.join((one, two), pass)).await.0, "1: one two | 2: pass");
    let graph = crate::support::graph().node(one).node(two).sequence((one, two));
    assert_eq!(run(graph).await.0, "1: one | 2: two");
}

#[derive(Route)]
enum Choice {
    #[to(one)]
    One,
    #[to(one, two)]
    Both,
    #[to("by name")]
    Named,
    #[to(END)]
    End,
    #[to(work)]
    Item(Item),
    #[to(work)]
    Items(Vec<Item>),
}

fn choose(state: &Trail) -> Choice {
    match state.note.as_str() {
        "one" => Choice::One,
        "both" => Choice::Both,
        "named" => Choice::Named,
        "item" => Choice::Item(Item(1)),
        "items" => Choice::Items(vec![Item(1), Item(2)]),
        _ => Choice::End,
    }
}

fn choice_graph() -> StateGraph<Trail, Probe> {
    graph().node(one).node(two).node(work).node_as("by name", pass)
}

#[tokio::test]
async fn a_route_leads_to_the_targets_of_its_variant() {
    for (note, expect) in [
        ("one", "1: one"),
        ("both", "1: one two"),
        ("named", "1: by name"),
        ("end", ""),
        ("item", "1: work(1)"),
        ("items", "1: work(1) work(2)"),
    ] {
        let (trace, result) = run_with_note(choice_graph().branch(START, choose), note).await;
        assert_eq!(trace, expect, "{note}");
        result.unwrap();
    }
}

#[tokio::test]
async fn a_branch_returns_gotos_options_lists_or_results() {
    let from = || choice_graph().edge(START, "by name");
    let goto_one = |_: &Trail| goto(one);
    assert_eq!(run(from().branch("by name", goto_one)).await.0, "1: by name | 2: one");
    let list = |_: &Trail| vec![goto(one), send(work, Item(7)), Goto::end()];
    assert_eq!(run(from().branch("by name", list)).await.0, "1: by name | 2: one work(7)");
    let none = |_: &Trail| None::<Choice>;
    assert_eq!(run(from().branch("by name", none)).await.0, "1: by name");
    let ok = |_: &Trail| Ok::<_, NodeError>(Choice::One);
    assert_eq!(run(from().branch("by name", ok)).await.0, "1: by name | 2: one");
    let routes = |_: &Trail| vec![Choice::One, Choice::Item(Item(2))];
    assert_eq!(run(from().branch("by name", routes)).await.0, "1: by name | 2: one work(2)");
}

#[tokio::test]
async fn a_branch_does_not_see_its_siblings_writes() {
    let graph = choice_graph().edge(START, one).edge(START, two).branch(one, |state: &Trail| {
        assert_eq!(state.path, ["one"]);
        Goto::end()
    });
    let (_, result) = run(graph).await;
    assert_eq!(result.unwrap(), trail(["one", "two"]));
}

#[tokio::test]
async fn a_failed_branch_is_called_again() {
    let probe = Probe::default();
    let graph = choice_graph()
        .edge(START, one)
        .branch(one, |state: &Trail, probe: &Probe| {
            assert_eq!(state.path, ["one"], "the failed attempt left no writes");
            match probe.count("one") {
                1 => Err(NodeError::from("not yet")),
                _ => Ok(goto(two)),
            }
        })
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", probe.clone());
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(failed_node(&error), "one");
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["one", "two"]));
    assert_eq!(probe.trace(), "1: one one | 2: two");
}

async fn decide(_: &Trail) -> Command<Trail, Choice> {
    visited("decided").goto(Choice::Items(vec![Item(3), Item(4)]))
}

#[tokio::test]
async fn a_command_adds_targets_to_the_nodes_edges() {
    let graph = choice_graph().node(decide).edge(START, decide).edge(decide, two);
    let (trace, state) = run(graph).await;
    assert_eq!(trace, "2: two work(3) work(4)");
    assert_eq!(state.unwrap(), trail(["decided", "two", "work(3)", "work(4)"]));
}

#[tokio::test]
async fn two_routes_to_a_node_in_one_step_run_it_once() {
    let graph = choice_graph().edge(START, one).edge(one, two).branch(one, |_: &Trail| goto(two));
    assert_eq!(run(graph).await.0, "1: one | 2: two");
}

#[tokio::test]
async fn equal_sends_run_separately() {
    let same = |_: &Trail| vec![send(work, Item(1)), send(work, Item(1))];
    assert_eq!(run(choice_graph().branch(START, same)).await.0, "1: work(1) work(1)");
}

#[tokio::test]
async fn a_deferred_node_runs_when_no_other_node_is_scheduled() {
    let graph = with_nodes(["a", "b", "c"])
        .node_as("last", pass.defer())
        .edge(START, "a")
        .edge(START, "last")
        .edge("a", "b")
        .edge("b", "c")
        .edge("a", "last");
    assert_eq!(run(graph).await.0, "1: a | 2: b | 3: c | 4: last");
}

#[tokio::test]
async fn a_deferred_target_of_an_input_command_waits_for_another_step() {
    let probe = Probe::default();
    let graph = with_nodes(["a"]).node_as("last", pass.defer().command_only()).edge(START, "a");
    let thread = thread_of(graph, &probe);
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    assert_eq!(probe.trace(), "1: a");
    assert!(thread.run(Input::command().goto(Goto::node("last"))).await.unwrap().is_done());
    assert_eq!(probe.trace(), "");
    assert!(thread.run(Input::command().goto(Goto::node("a"))).await.unwrap().is_done());
    assert_eq!(probe.trace(), "2: a | 3: last");
}

#[tokio::test]
async fn an_unknown_target_is_reported_and_results_of_other_tasks_are_kept() {
    async fn lost(_: &Trail, cx: &Context<Probe>) -> Result<Goto, NodeError> {
        cx.deps().enter(cx.step(), "lost").await?;
        Ok(Goto::node(if cx.config("found").is_some() { "two" } else { "nowhere" }))
    }
    let probe = Probe::default();
    let graph = choice_graph().name("maze").node(lost).edge(START, lost).edge(START, one);
    let thread = thread_of(graph, &probe);
    let error = thread.run(Trail::default()).await.unwrap_err();
    let RunError::UnknownTarget(target) = &error else { panic!("{error}") };
    assert_eq!(
        (target.from.as_str(), target.to.as_str(), target.graph.as_str()),
        ("lost", "nowhere", "maze")
    );
    assert_eq!(target.nodes, ["by name", "lost", "one", "two", "work"]);
    probe.trace();
    let found = thread.with_options(RunOptions::new().config("found", true));
    assert_eq!(found.proceed().await.unwrap().state(), &trail(["one", "two"]));
    assert_eq!(probe.trace(), "1: lost | 2: two");
}

#[tokio::test]
async fn a_payload_must_have_the_type_its_node_takes() {
    let bad = |goto: fn() -> Goto| choice_graph().branch(START, move |_: &Trail| goto());
    let (_, result) = run(bad(|| Goto::send("work", json!("text")))).await;
    let error = result.unwrap_err();
    assert_eq!(failed_node(&error), "work");
    assert!(matches!(error.node_error(), Some(TaskInputError::InvalidPayload { .. })), "{error}");
    let (_, result) = run(bad(|| Goto::send("one", json!(1)))).await;
    assert!(matches!(
        result.unwrap_err().node_error(),
        Some(TaskInputError::UnexpectedPayload { .. })
    ));
    let (_, result) = run(bad(|| Goto::node("work"))).await;
    assert!(matches!(
        result.unwrap_err().node_error(),
        Some(TaskInputError::MissingPayload { .. })
    ));
    let (_, result) = run(bad(|| Goto::send("__end__", json!(1)))).await;
    assert!(matches!(result, Err(RunError::InvalidUpdate(_))));
}
