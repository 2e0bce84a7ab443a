//! Compile: all that is wrong at once, and what only looks wrong.

use graph_core::{
    BuildError, Configure, Context, Goto, Problem, Route, START, State, StateGraph, Stops,
};

use crate::support::{Trail, World, graph, pass, with_nodes, work};

fn problems(graph: StateGraph<Trail, World>) -> Vec<String> {
    let error: BuildError = graph.compile().expect_err("something is wrong");
    error.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn all_problems_are_listed_at_once() {
    let broken = with_nodes(["a", "b"])
        .name("broken")
        .node_as("a", pass)
        .node_as("x|y", pass)
        .node_as("", pass)
        .node_as("__end__", pass)
        .node(async |_: &Trail| ())
        .edge("a", "nowhere")
        .edge("missing", "b")
        .edge("a", "__start__")
        .edge("__end__", "a")
        .join(["a", "ghost"], "b")
        .stop_before(Stops::at(["phantom"]));
    let error = broken.compile().unwrap_err();
    assert_eq!(error.graph, "broken");
    let text = error.to_string();
    for part in [
        "two nodes are called `a`",
        "`x|y` cannot name a node",
        "`` cannot name a node: it is empty",
        "`__end__` cannot name a node",
        "a closure has no name of its own",
        "`a` leads to `nowhere`, but `nowhere` is not a node; nodes are: a, b",
        "`missing` leads to `b`",
        "into START",
        "out of END",
        "`ghost`",
        "a stop is set at `phantom`",
        "nothing leads out of START",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn a_payload_node_is_not_led_to_without_a_payload() {
    let found = problems(graph().node(work).node(pass).edge(START, pass).edge("pass", "work"));
    assert_eq!(
        found,
        ["`pass` leads to `work` without a payload, and `work` takes one; send it one"]
    );
}

#[derive(Route)]
enum Typed {
    #[to(pass)]
    Pass,
    #[to("gone")]
    Gone,
}

#[test]
fn the_targets_of_a_route_are_checked() {
    let branch = |_: &Trail| if true { Typed::Pass } else { Typed::Gone };
    let found = problems(graph().node(pass).branch(START, branch));
    assert!(found[0].contains("`gone` is not a node; nodes are: pass"), "{found:?}");
}

#[test]
fn a_branch_stands_at_a_node_once() {
    fn way(_: &Trail) -> Goto {
        Goto::end()
    }
    let found = problems(graph().node(pass).edge(START, pass).branch(pass, way).branch(pass, way));
    assert_eq!(found, ["`pass` has two branches called `way`"]);
}

#[test]
fn nodes_side_by_side_may_not_declare_one_write() {
    let beside = |field: &'static str| {
        graph()
            .node_as("a", pass.writes([field]))
            .node_as("b", pass.writes([field]))
            .edge(START, "a")
            .edge(START, "b")
    };
    let error = beside("note").compile().unwrap_err();
    let [Problem::ParallelWrite { field, first, second }] = &error.problems[..] else {
        panic!("{error}");
    };
    assert_eq!((field.as_str(), first.as_str(), second.as_str()), ("note", "a", "b"));
    assert!(beside("path").compile().is_ok(), "a reduced field takes many");
    let error = beside("nose").compile().unwrap_err();
    assert!(matches!(&error.problems[0], Problem::UnknownField { field, .. } if field == "nose"));
}

#[test]
fn a_node_that_nothing_leads_to_is_warned_of() {
    let compiled = with_nodes(["a", "island"]).edge(START, "a").compile().unwrap();
    assert_eq!(compiled.warnings(), [Problem::Unreachable("island".into())]);
    let anywhere = with_nodes(["a", "b"]).edge(START, "a").branch("a", |_: &Trail| Goto::end());
    assert!(anywhere.compile().unwrap().warnings().is_empty(), "a goto may lead anywhere");
}

#[test]
fn a_join_that_never_fires_is_warned_of() {
    let compiled = with_nodes(["a", "never", "z"])
        .edge(START, "a")
        .join(["a", "never"], "z")
        .compile()
        .unwrap();
    let dead = Problem::DeadJoin { to: "z".into(), source_node: "never".into() };
    assert!(compiled.warnings().contains(&dead), "{:?}", compiled.warnings());
}

#[derive(State, Clone, Debug, Default)]
struct Small {
    note: String,
}

async fn left(_: &Small) {}
async fn right(_: &Small) {}
async fn end(_: &Small, _: &Context) {}

#[derive(Route)]
enum Either {
    #[to(left)]
    Left,
    #[to(right)]
    Right,
}

#[test]
fn a_join_of_two_ways_of_one_branch_is_warned_of() {
    let compiled = StateGraph::<Small>::new()
        .node(left)
        .node(right)
        .node(end)
        .branch(START, |it: &Small| if it.note.is_empty() { Either::Left } else { Either::Right })
        .join((left, right), end)
        .compile()
        .unwrap();
    let [Problem::ExclusiveJoin { to, first, second, branch }] = compiled.warnings() else {
        panic!("{:?}", compiled.warnings());
    };
    let names = [to, first, second, branch].map(graph_core::Label::as_str);
    assert_eq!(names, ["end", "left", "right", "__start__"]);
}

#[test]
fn a_sound_graph_has_no_warnings() {
    let compiled = crate::support::diamond().compile().unwrap();
    assert!(compiled.warnings().is_empty());
    assert_eq!(compiled.nodes(), ["a", "b", "c", "d"]);
}
