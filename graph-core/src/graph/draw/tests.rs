//! Tests that draw graphs of all kinds.

use serde_json::json;

use super::*;
use crate::{
    END, JsonFieldKind, JsonState, JsonStateSchema, NodeError, NodeExt, Persistence, START,
    StateGraph, Stops,
    command::{Command, Goto, Gotos, NoRoute, Route, RouteTarget},
    json::{JsonBranch, json_subgraph},
};

fn graph<const N: usize>(nodes: [&'static str; N]) -> StateGraph<JsonState> {
    let graph = JsonStateSchema::new([("x", JsonFieldKind::Last)]).unwrap().graph();
    nodes.into_iter().fold(graph, |graph, name| graph.node_as(name, run))
}

async fn run(_: &JsonState) {}

fn branch(name: &'static str) -> JsonBranch {
    JsonBranch::new(name, |_| Ok(Vec::new()))
}

#[test]
fn sequences_are_drawn_as_chains() {
    let graph = graph(["write", "plan"]).sequence(["plan", "write"]).compile().unwrap();
    assert_eq!(graph.mermaid(), include_str!("tests/sequence.mmd"));
    assert_eq!(graph.dot(0), include_str!("tests/sequence.dot"));
}

#[test]
fn branches_are_drawn_as_dotted_edges() {
    let verdict = [("again", "write"), ("End", "__end__"), ("Shorten", "shorten")];
    let graph = graph(["write", "review", "shorten"])
        .edge(START, "write")
        .edge("write", "review")
        .json_branch("review", branch("verdict").path_map(verdict))
        .json_branch("shorten", branch("next").destinations(["write", "shorten"]))
        .compile()
        .unwrap();
    assert_eq!(graph.mermaid(), include_str!("tests/branches.mmd"));
    assert_eq!(graph.dot(0), include_str!("tests/branches.dot"));
}

/// A branch without declared targets is drawn with an edge to every node and to END. A graph in which no edge leads to
/// END is drawn without END.
#[test]
fn branches_without_declared_targets_lead_to_all_nodes() {
    let anywhere = graph(["a", "b"]).edge(START, "a").json_branch("a", branch("any"));
    assert_eq!(anywhere.compile().unwrap().mermaid(), include_str!("tests/undeclared_targets.mmd"));
    let endless = graph(["a"]).edge(START, "a").compile().unwrap();
    assert_eq!(endless.mermaid(), include_str!("tests/endless.mmd"));
}

#[test]
fn joins_are_drawn_as_thick_edges() {
    let graph = graph(["a", "b", "c", "d"])
        .edge(START, "a")
        .edge(START, "b")
        .join(["a", "b"], "c")
        .join(["a", "c"], "d")
        .join(["b", "c"], "d")
        .join(["c", "d"], END)
        .compile()
        .unwrap();
    assert_eq!(graph.mermaid(), include_str!("tests/joins.mmd"));
}

/// A route with all kinds of targets, as `#[derive(Route)]` would generate it.
struct Fan;

impl Route for Fan {
    fn targets() -> Option<Vec<RouteTarget>> {
        let target = |to: &'static str, variant: &'static str, sends| RouteTarget {
            to: to.into(),
            variant: variant.into(),
            sends,
        };
        Some(vec![
            target("write", "Sections", true),
            target("write", "Write", true),
            target("merge", "Sections", false),
            target("__end__", "End", false),
        ])
    }

    fn gotos(self) -> Gotos {
        Gotos::new()
    }
}

async fn write(_: String) {}

async fn plan(_: &JsonState) -> Command<JsonState, Fan> {
    Command::goto(Fan)
}

async fn hidden(_: &JsonState) -> Goto {
    Goto::end()
}

#[test]
fn edges_that_send_payloads_are_labelled() {
    let graph = graph(["merge", "split"])
        .node(write)
        .node(plan)
        .node(hidden)
        .edge(START, "split")
        .branch("split", |_: &JsonState| Fan)
        .branch("merge", |_: &JsonState| -> Result<Goto, NodeError> { Ok(Goto::end()) })
        .compile()
        .unwrap();
    assert_eq!(graph.mermaid(), include_str!("tests/payloads.mmd"));
}

enum Leave {}

impl Route for Leave {
    fn targets() -> Option<Vec<RouteTarget>> {
        let target = |to: &'static str, variant: &'static str| RouteTarget {
            to: to.into(),
            variant: variant.into(),
            sends: false,
        };
        Some(vec![target("help", "GiveUp"), target("__end__", "End")])
    }

    fn gotos(self) -> Gotos {
        match self {}
    }
}

async fn leave(_: &JsonState) -> Result<Command<JsonState, NoRoute, Leave>, NodeError> {
    Err("not called".into())
}

#[test]
fn commands_to_the_parent_are_drawn_in_the_parent() {
    let child = graph([]).node(leave).edge(START, leave).compile().unwrap();
    let parent = |nodes: [&'static str; 1]| {
        let node = json_subgraph("child", &child, Persistence::Invocation);
        graph(nodes).node(node).edge(START, "child").compile()
    };
    let graph = parent(["help"]).unwrap();
    assert!(graph.warnings().is_empty(), "{:?}", graph.warnings());
    assert_eq!(graph.mermaid(), include_str!("tests/parent_commands.mmd"));
    let sent = graph.drawing(1).edges.into_iter().filter(|it| it.conditional);
    let sent: Vec<_> = sent.map(|it| (it.from, it.to)).collect();
    assert_eq!(
        sent,
        [("child:leave", "help"), ("child:leave", "__end__")]
            .map(|(from, to)| (from.to_owned(), to.to_owned()))
    );
    let error = parent(["helper"]).unwrap_err().to_string();
    assert!(error.contains("`help`") && error.contains("`helper`"), "{error}");
}

/// Returns a graph that contains the subgraph `child`, which contains the subgraph `inner`. The outermost and the
/// innermost graph each have a join.
fn nested() -> CompiledGraph<JsonState> {
    let inner = graph(["deep", "b"])
        .edge(START, "deep")
        .edge(START, "b")
        .join(["b", "deep"], END)
        .stop_after(Stops::All)
        .compile()
        .unwrap();
    let child = graph([])
        .node(json_subgraph("inner", &inner, Persistence::Invocation))
        .edge(START, "inner")
        .json_branch("inner", branch("again").destinations(["inner"]))
        .compile()
        .unwrap();
    graph(["a", "b"])
        .node(json_subgraph("child", &child, Persistence::Invocation))
        .edge(START, "a")
        .edge(START, "b")
        .join(["a", "b"], "child")
        .json_branch("child", branch("next").destinations(["a", "__end__"]))
        .compile()
        .unwrap()
}

#[test]
fn collapsed_subgraphs_are_single_nodes() {
    assert_eq!(nested().mermaid(), include_str!("tests/collapsed.mmd"));
}

#[test]
fn subgraphs_are_expanded_one_level() {
    assert_eq!(nested().mermaid_expanded(1), include_str!("tests/one_level.mmd"));
}

#[test]
fn subgraphs_are_expanded_two_levels() {
    let graph = nested();
    assert_eq!(graph.drawing(2), graph.drawing(usize::MAX));
    assert_eq!(graph.mermaid_expanded(2), include_str!("tests/two_levels.mmd"));
    assert_eq!(graph.dot(2), include_str!("tests/two_levels.dot"));
}

#[test]
fn join_numbers_are_unique_across_subgraphs() {
    let drawing = nested().drawing(2);
    let joins = drawing.edges.iter().filter_map(|it| Some((it.from.as_str(), it.join?)));
    let expected = [("a", 0), ("b", 0), ("child:inner:b", 1), ("child:inner:deep", 1)];
    assert_eq!(joins.collect::<Vec<_>>(), expected);
}

#[test]
fn names_are_escaped() {
    let names = [
        "end", "subgraph x", "1. plan", "my_node-2", "__init__", "a \"b\" <i>c</i>&lt;",
        "[x](y){z}", "%%{init}%%", "`md`", "\\n", "tab\there\nbreak", "日本 é", "#35;", " ", "n0",
        "$$x$$; style", "\u{0}--> n1", "cluster_x\\", "graph\\\"",
    ];
    let labels = [("fa:fa-car | \"x\"", "n0"), ("style:#1;", "n0"), (" ", "n0")];
    let graph = graph(names).sequence(names).json_branch("end", branch("choice").path_map(labels));
    let graph = graph.compile().unwrap();
    assert_eq!(graph.mermaid(), include_str!("tests/escaped.mmd"));
    assert_eq!(graph.dot(0), include_str!("tests/escaped.dot"));
}

async fn handle_error(_: &JsonState) {}

#[test]
fn labels_show_flags_and_metadata() {
    let child = graph(["a"]).edge(START, "a").compile().unwrap();
    let graph = graph(["ask", "tell"])
        .node_as(
            "collect",
            run.defer().with_metadata("owner", "ann").with_metadata("cost", json!([1, "$"])),
        )
        .node_as("fetch", run.on_error(handle_error))
        .node(json_subgraph("child", &child, Persistence::Invocation))
        .stop_before(Stops::at(["ask", "child", "collect"]))
        .stop_after(Stops::at(["ask"]))
        .sequence(["fetch", "ask", "child", "tell", "collect"])
        .compile()
        .unwrap();
    assert_eq!(graph.mermaid_expanded(1), include_str!("tests/labels.mmd"));
}

#[test]
fn json_has_the_format_of_langgraph() {
    let child = graph(["a"]).edge(START, "a").compile().unwrap();
    let graph = graph([])
        .node_as("wait", run.defer().with_metadata("owner", "ann"))
        .node(json_subgraph("child", &child, Persistence::Invocation))
        .edge(START, "child")
        .json_branch("child", branch("next").path_map([("more", "wait")]))
        .join(["wait", "child"], END)
        .compile()
        .unwrap();
    let node = |id: &str, kind: &str, name: &str, parent: Value| {
        json!({
            "id": id,
            "type": kind,
            "data": {
                "name": name,
                "parent": parent,
                "deferred": name == "wait",
                "stop_before": false,
                "stop_after": false,
                "has_error_handler": false,
            },
            "metadata": if name == "wait" { json!({"owner": "ann"}) } else { json!({}) },
        })
    };
    let edge = |from: &str, to: &str| json!({"source": from, "target": to, "conditional": false, "sends": false});
    let with = |mut edge: Value, key: &str, value: Value| {
        edge[key] = value;
        edge
    };
    let more = with(edge("child", "wait"), "conditional", json!(true));
    let expected = json!({
        "nodes": [
            node("__start__", "start", "__start__", Value::Null),
            node("child", "subgraph", "child", Value::Null),
            node("child:__start__", "start", "__start__", json!("child")),
            node("child:a", "node", "a", json!("child")),
            node("wait", "node", "wait", Value::Null),
            node("__end__", "end", "__end__", Value::Null),
        ],
        "edges": [
            edge("__start__", "child"),
            with(more, "data", json!("more")),
            with(edge("child", "__end__"), "join", json!(0)),
            edge("child:__start__", "child:a"),
            with(edge("wait", "__end__"), "join", json!(0)),
        ],
    });
    assert_eq!(graph.to_json(1), expected);
}
