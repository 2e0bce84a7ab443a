//! Edges: plain ones, joins, branches, sends, commands, and deferred nodes.

use graph_core::{
    Command, Configure, Context, END, Goto, MemorySaver, NodeError, Route, RunError, RunOptions,
    START, StateGraph, goto, node::InputError, send,
};
use serde_json::json;

use crate::support::{
    Item, Trail, TrailUpdate, World, been, diamond, failed_node, graph, pass, trail, with_nodes,
    work,
};

async fn run(graph: StateGraph<Trail, World>) -> (String, Result<Trail, RunError>) {
    run_noted(graph, "").await
}

/// What ran, and the state or the error it came to.
async fn run_noted(
    graph: StateGraph<Trail, World>,
    note: &str,
) -> (String, Result<Trail, RunError>) {
    let world = World::default();
    let graph = graph.compile().expect("the graph is sound");
    let input = Trail { note: note.into(), ..Trail::default() };
    let result = graph.run(input, world.clone()).await;
    (world.trace(), result)
}

#[tokio::test]
async fn edges_lead_from_step_to_step() {
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

async fn one(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    cx.deps().visit(cx.step(), "one").await?;
    Ok(been("one"))
}

async fn two(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    cx.deps().visit(cx.step(), "two").await?;
    Ok(been("two"))
}

#[tokio::test]
async fn functions_name_their_nodes_in_edges() {
    let graph = graph().node(one).node(two).node(pass).edge(START, one).edge(START, two);
    assert_eq!(run(graph.join((one, two), pass)).await.0, "1: one two | 2: pass");
    let graph = crate::support::graph().node(one).node(two).sequence((one, two));
    assert_eq!(run(graph).await.0, "1: one | 2: two");
}

#[derive(Route)]
enum Way {
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

fn choose(state: &Trail) -> Way {
    match state.note.as_str() {
        "one" => Way::One,
        "both" => Way::Both,
        "named" => Way::Named,
        "item" => Way::Item(Item(1)),
        "items" => Way::Items(vec![Item(1), Item(2)]),
        _ => Way::End,
    }
}

fn choosing() -> StateGraph<Trail, World> {
    graph().node(one).node(two).node(work).node_as("by name", pass)
}

#[tokio::test]
async fn a_route_leads_wherever_its_variants_say() {
    for (note, expect) in [
        ("one", "1: one"),
        ("both", "1: one two"),
        ("named", "1: by name"),
        ("end", ""),
        ("item", "1: work(1)"),
        ("items", "1: work(1) work(2)"),
    ] {
        let (trace, result) = run_noted(choosing().branch(START, choose), note).await;
        assert_eq!(trace, expect, "{note}");
        result.unwrap();
    }
}

#[tokio::test]
async fn a_branch_returns_gotos_options_lists_or_results() {
    let from = || choosing().edge(START, "by name");
    let goto_one = |_: &Trail| goto(one);
    assert_eq!(run(from().branch("by name", goto_one)).await.0, "1: by name | 2: one");
    let list = |_: &Trail| vec![goto(one), send(work, Item(7)), Goto::end()];
    assert_eq!(run(from().branch("by name", list)).await.0, "1: by name | 2: one work(7)");
    let none = |_: &Trail| None::<Way>;
    assert_eq!(run(from().branch("by name", none)).await.0, "1: by name");
    let ok = |_: &Trail| Ok::<_, NodeError>(Way::One);
    assert_eq!(run(from().branch("by name", ok)).await.0, "1: by name | 2: one");
    let routes = |_: &Trail| vec![Way::One, Way::Item(Item(2))];
    assert_eq!(run(from().branch("by name", routes)).await.0, "1: by name | 2: one work(2)");
}

#[tokio::test]
async fn a_branch_sees_its_nodes_writes_and_the_dependencies() {
    let graph = choosing().edge(START, one).branch(one, |state: &Trail, world: &World| {
        assert_eq!(state.path, ["one"]);
        assert_eq!(world.count("one"), 1);
        goto(two)
    });
    assert_eq!(run(graph).await.0, "1: one | 2: two");
}

#[tokio::test]
async fn a_branch_does_not_see_its_siblings_writes() {
    let graph = choosing().edge(START, one).edge(START, two).branch(one, |state: &Trail| {
        assert_eq!(state.path, ["one"]);
        Goto::end()
    });
    let (_, result) = run(graph).await;
    assert_eq!(result.unwrap(), trail(["one", "two"]));
}

#[tokio::test]
async fn a_failed_branch_is_asked_again() {
    let world = World::default();
    let graph = choosing()
        .edge(START, one)
        .branch(one, |state: &Trail, world: &World| {
            assert_eq!(state.path, ["one"], "what failed before left nothing behind");
            match world.count("one") {
                1 => Err(NodeError::from("not yet")),
                _ => Ok(goto(two)),
            }
        })
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(failed_node(&error), "one");
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["one", "two"]));
    assert_eq!(world.trace(), "1: one one | 2: two");
}

async fn decide(_: &Trail) -> Command<Trail, Way> {
    been("decided").goto(Way::Items(vec![Item(3), Item(4)]))
}

#[tokio::test]
async fn a_command_goes_beside_the_nodes_own_edges() {
    let graph = choosing().node(decide).edge(START, decide).edge(decide, two);
    let (trace, state) = run(graph).await;
    assert_eq!(trace, "2: two work(3) work(4)");
    assert_eq!(state.unwrap(), trail(["decided", "two", "work(3)", "work(4)"]));
}

#[tokio::test]
async fn two_ways_to_a_node_in_one_step_run_it_once() {
    let graph = choosing().edge(START, one).edge(one, two).branch(one, |_: &Trail| goto(two));
    assert_eq!(run(graph).await.0, "1: one | 2: two");
}

#[tokio::test]
async fn sends_run_once_each_even_if_they_are_equal() {
    let same = |_: &Trail| vec![send(work, Item(1)), send(work, Item(1))];
    assert_eq!(run(choosing().branch(START, same)).await.0, "1: work(1) work(1)");
}

#[tokio::test]
async fn a_deferred_node_runs_when_nothing_else_would() {
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
async fn an_unknown_target_is_named_and_siblings_survive() {
    async fn lost(_: &Trail, cx: &Context<World>) -> Result<Goto, NodeError> {
        cx.deps().visit(cx.step(), "lost").await?;
        Ok(Goto::node(if cx.config("found").is_some() { "two" } else { "nowhere" }))
    }
    let world = World::default();
    let graph = choosing()
        .name("maze")
        .node(lost)
        .edge(START, lost)
        .edge(START, one)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    let error = thread.run(Trail::default()).await.unwrap_err();
    let RunError::UnknownTarget(target) = &error else { panic!("{error}") };
    assert_eq!(
        (target.from.as_str(), target.to.as_str(), target.graph.as_str()),
        ("lost", "nowhere", "maze")
    );
    assert_eq!(target.nodes, ["by name", "lost", "one", "two", "work"]);
    world.trace();
    let found = thread.with(RunOptions::new().config("found", true));
    assert_eq!(found.proceed().await.unwrap().state(), &trail(["one", "two"]));
    assert_eq!(world.trace(), "1: lost | 2: two");
}

#[tokio::test]
async fn a_payload_must_fit_the_node_it_is_sent_to() {
    let bad = |goto: fn() -> Goto| choosing().branch(START, move |_: &Trail| goto());
    let (_, result) = run(bad(|| Goto::send("work", json!("text")))).await;
    let error = result.unwrap_err();
    assert_eq!(failed_node(&error), "work");
    assert!(matches!(error.node_error(), Some(InputError::BadPayload { .. })), "{error}");
    let (_, result) = run(bad(|| Goto::send("one", json!(1)))).await;
    assert!(matches!(result.unwrap_err().node_error(), Some(InputError::WantsState { .. })));
    let (_, result) = run(bad(|| Goto::node("work"))).await;
    assert!(matches!(result.unwrap_err().node_error(), Some(InputError::WantsPayload { .. })));
    let (_, result) = run(bad(|| Goto::send("__end__", json!(1)))).await;
    assert!(matches!(result, Err(RunError::InvalidUpdate(_))));
}
