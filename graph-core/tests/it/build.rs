//! Errors and warnings when a graph is compiled.

use graph_core::{
    BuildError, BuildProblem, Context, Goto, NodeExt, Route, START, State, StateGraph, Stops,
};

use crate::support::{Probe, Trail, graph, pass, with_nodes, work};

fn problems(graph: StateGraph<Trail, Probe>) -> Vec<String> {
    let error: BuildError = graph.compile().expect_err("the graph is invalid");
    error.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn all_problems_are_reported_together() {
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
        "two nodes are named `a`",
        "`x|y` is not a valid node name",
        "`` is not a valid node name: it is empty",
        "`__end__` is not a valid node name",
        "a closure has no name",
        "`a` leads to `nowhere`, but `nowhere` is not a node; add it with `.node(nowhere)`; nodes are: a, b",
        "`missing` leads to `b`",
        "into START",
        "out of END",
        "`ghost`",
        "a static stop is set at `phantom`",
        "START has no outgoing edge",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn an_edge_to_a_payload_node_is_an_error() {
    let found = problems(graph().node(work).node(pass).edge(START, pass).edge("pass", "work"));
    assert_eq!(
        found,
        [
            "`pass` leads to `work` without a payload, but `work` takes one; use `send` instead of an edge"
        ]
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
fn route_targets_are_checked() {
    let branch = |_: &Trail| if true { Typed::Pass } else { Typed::Gone };
    let found = problems(graph().node(pass).branch(START, branch));
    assert!(
        found[0].contains("`gone` is not a node; add it with `.node(gone)`; nodes are: pass"),
        "{found:?}"
    );
}

#[test]
fn a_branch_can_be_added_to_a_node_only_once() {
    fn route(_: &Trail) -> Goto {
        Goto::end()
    }
    let found =
        problems(graph().node(pass).edge(START, pass).branch(pass, route).branch(pass, route));
    assert_eq!(found, ["`pass` has two branches named `route`; remove or rename one of them"]);
}

#[test]
fn parallel_nodes_cannot_declare_writes_to_the_same_field() {
    let beside = |field: &'static str| {
        graph()
            .node_as("a", pass.writes([field]))
            .node_as("b", pass.writes([field]))
            .edge(START, "a")
            .edge(START, "b")
    };
    let error = beside("note").compile().unwrap_err();
    let [BuildProblem::ParallelWrite { field, first, second }] = &error.problems[..] else {
        panic!("{error}");
    };
    assert_eq!((field.as_str(), first.as_str(), second.as_str()), ("note", "a", "b"));
    assert!(beside("path").compile().is_ok(), "a field with a reducer accepts many writes");
    let error = beside("nose").compile().unwrap_err();
    assert!(
        matches!(&error.problems[0], BuildProblem::UnknownField { field, .. } if field == "nose")
    );
}

#[test]
fn unreachable_nodes_are_rejected() {
    let unreachable = |graph: StateGraph<Trail, Probe>| -> Vec<String> {
        let error = graph.compile().unwrap_err();
        let label = |problem: &BuildProblem| match problem {
            BuildProblem::Unreachable(label) => label.to_string(),
            other => panic!("{other}"),
        };
        error.problems.iter().map(label).collect()
    };
    let names = ["a", "b", "c", "d", "e", "f"];
    assert_eq!(unreachable(with_nodes(["a", "island"]).edge(START, "a")), ["island"]);
    let chain_and_cycle = with_nodes(names)
        .edge(START, "a")
        .edge("c", "b")
        .edge("d", "c")
        .edge("e", "f")
        .edge("f", "e");
    assert_eq!(unreachable(chain_and_cycle), ["d", "e"], "one problem for each missing edge");
    let join = with_nodes(["a", "never", "z"]).edge(START, "a").join(["a", "never"], "z");
    assert_eq!(unreachable(join), ["never"], "the join never fires");
    let found = problems(with_nodes(["a", "b"]).edge(START, "a").edge("a", "bb"));
    assert_eq!(found.len(), 1, "the misspelled edge explains the unreachable node: {found:?}");
    let error = with_nodes(["a", "b"]).edge(START, "a").compile().unwrap_err().to_string();
    let command = "of a caller or of a subgraph lead to it, add the node with `.command_only()`";
    for fix in ["no path leads to `b`", "add an edge or a route", command] {
        assert!(error.contains(fix), "{error}");
    }
}

#[test]
fn nodes_that_a_command_may_reach_are_accepted() {
    let anywhere = with_nodes(["a", "b"]).edge(START, "a").branch("a", |_: &Trail| Goto::end());
    assert!(anywhere.compile().is_ok(), "a goto may lead anywhere");
    let commanded = graph().node(pass).edge(START, pass);
    let commanded = commanded.node_as("b", pass.command_only()).node_as("c", pass).edge("b", "c");
    assert!(commanded.compile().is_ok(), "only a caller's command leads to `b`");
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
fn a_join_of_alternatives_of_one_branch_is_a_warning() {
    let compiled = StateGraph::<Small>::new()
        .node(left)
        .node(right)
        .node(end)
        .branch(START, |it: &Small| if it.note.is_empty() { Either::Left } else { Either::Right })
        .join((left, right), end)
        .compile()
        .unwrap();
    let [BuildProblem::ExclusiveJoin { to, first, second, branch }] = compiled.warnings() else {
        panic!("{:?}", compiled.warnings());
    };
    let names = [to, first, second, branch].map(graph_core::Label::as_str);
    assert_eq!(names, ["end", "left", "right", "__start__"]);
}

#[test]
fn a_valid_graph_has_no_warnings() {
    let compiled = crate::support::diamond().compile().unwrap();
    assert!(compiled.warnings().is_empty());
    assert_eq!(compiled.nodes(), ["a", "b", "c", "d"]);
}
