//! Tests that draw graphs of all kinds.

use serde_json::json;

use super::*;
use crate::{
    END, JsonFieldKind, JsonState, JsonStateSchema, NodeError, NodeExt, Persistence, START,
    StateGraph, Stops,
    command::{Command, Goto, Gotos, NoRoute, Route, RouteTarget},
    json::{JsonBranch, json_subgraph},
};

/// Asserts that a drawing equals `expected` after the common indentation of `expected` is removed.
#[track_caller]
fn check(actual: &str, expected: &str) {
    let lines: Vec<_> = expected.lines().filter(|it| !it.trim().is_empty()).collect();
    let indent = lines.first().map_or(0, |it| it.len() - it.trim_start().len());
    let unindented = lines.iter().map(|it| &it[indent..]);
    assert_eq!(actual, unindented.collect::<Vec<_>>().join("\n") + "\n");
}

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
    check(
        &graph.mermaid(),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["plan"]
            n2["write"]
            n3(["__end__"])
            n0 --> n1
            n1 --> n2
            n2 --> n3
        "#,
    );
    check(
        &graph.dot(0),
        r#"
        digraph {
            compound=true;
            ranksep=0.8;
            node [shape=box, style=rounded];
            "__start__" [label="__start__", shape=oval];
            "plan" [label="plan"];
            "write" [label="write"];
            "__end__" [label="__end__", shape=oval];
            "__start__" -> "plan";
            "plan" -> "write";
            "write" -> "__end__";
        }
        "#,
    );
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
    check(
        &graph.mermaid(),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["review"]
            n2["shorten"]
            n3["write"]
            n4(["__end__"])
            n0 --> n3
            n1 -.-> n2
            n1 -.->|"again"| n3
            n1 -.-> n4
            n2 -.-> n2
            n2 -.-> n3
            n3 --> n1
        "#,
    );
    check(
        &graph.dot(0),
        r#"
        digraph {
            compound=true;
            ranksep=0.8;
            node [shape=box, style=rounded];
            "__start__" [label="__start__", shape=oval];
            "review" [label="review"];
            "shorten" [label="shorten"];
            "write" [label="write"];
            "__end__" [label="__end__", shape=oval];
            "__start__" -> "write";
            "review" -> "shorten" [style=dashed];
            "review" -> "write" [style=dashed, label="again"];
            "review" -> "__end__" [style=dashed];
            "shorten" -> "shorten" [style=dashed];
            "shorten" -> "write" [style=dashed];
            "write" -> "review";
        }
        "#,
    );
}

/// A branch without declared targets is drawn with an edge to every node and to END. A graph in which no edge leads to
/// END is drawn without END.
#[test]
fn branches_without_declared_targets_lead_to_all_nodes() {
    let anywhere = graph(["a", "b"]).edge(START, "a").json_branch("a", branch("any"));
    check(
        &anywhere.compile().unwrap().mermaid(),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["a"]
            n2["b"]
            n3(["__end__"])
            n0 --> n1
            n1 -.-> n1
            n1 -.-> n2
            n1 -.-> n3
        "#,
    );
    let endless = graph(["a"]).edge(START, "a").compile().unwrap();
    check(
        &endless.mermaid(),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["a"]
            n0 --> n1
        "#,
    );
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
    check(
        &graph.mermaid(),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["a"]
            n2["b"]
            n3["c"]
            n4["d"]
            n5(["__end__"])
            n0 --> n1
            n0 --> n2
            n1 ==> n3
            n1 ==>|"join 2"| n4
            n2 ==> n3
            n2 ==>|"join 3"| n4
            n3 ==>|"join 2"| n4
            n3 ==>|"join 3"| n4
            n3 ==> n5
            n4 ==> n5
        "#,
    );
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
    check(
        &graph.mermaid(),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["hidden"]
            n2["merge"]
            n3["plan"]
            n4["split"]
            n5["write"]
            n6(["__end__"])
            n0 --> n4
            n2 -.-> n1
            n2 -.-> n2
            n2 -.-> n3
            n2 -.-> n4
            n2 -.->|"sends"| n5
            n2 -.-> n6
            n3 -.->|"Sections"| n2
            n3 -.->|"sends"| n5
            n3 -.->|"Sections, sends"| n5
            n3 -.-> n6
            n4 -.->|"Sections"| n2
            n4 -.->|"sends"| n5
            n4 -.->|"Sections, sends"| n5
            n4 -.-> n6
        "#,
    );
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
    check(
        &graph.mermaid(),
        r#"
        flowchart TD
            n0(["__start__"])
            n1[["child"]]
            n2["help"]
            n3(["__end__"])
            n0 --> n1
            n1 -.->|"GiveUp"| n2
            n1 -.-> n3
        "#,
    );
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

/// A graph that contains the subgraph `child`, which contains the subgraph `inner`. The outermost and the innermost
/// graph each have a join.
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
    check(
        &nested().mermaid(),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["a"]
            n2["b"]
            n3[["child"]]
            n4(["__end__"])
            n0 --> n1
            n0 --> n2
            n1 ==> n3
            n2 ==> n3
            n3 -.-> n1
            n3 -.-> n4
        "#,
    );
}

#[test]
fn subgraphs_are_expanded_one_level() {
    check(
        &nested().mermaid_expanded(1),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["a"]
            n2["b"]
            subgraph n3["child"]
                direction TB
                n4(["__start__"])
                n5[["inner"]]
            end
            n6(["__end__"])
            n0 --> n1
            n0 --> n2
            n1 ==> n3
            n2 ==> n3
            n3 -.-> n1
            n3 -.-> n6
            n4 --> n5
            n5 -.-> n5
        "#,
    );
}

#[test]
fn subgraphs_are_expanded_two_levels() {
    let graph = nested();
    assert_eq!(graph.drawing(2), graph.drawing(usize::MAX));
    check(
        &graph.mermaid_expanded(2),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["a"]
            n2["b"]
            subgraph n3["child"]
                direction TB
                n4(["__start__"])
                subgraph n5["inner"]
                    direction TB
                    n6(["__start__"])
                    n7["b<br/>stop after"]
                    n8["deep<br/>stop after"]
                    n9(["__end__"])
                end
            end
            n10(["__end__"])
            n0 --> n1
            n0 --> n2
            n1 ==> n3
            n2 ==> n3
            n3 -.-> n1
            n3 -.-> n10
            n4 --> n5
            n9 -.-> n6
            n6 --> n7
            n6 --> n8
            n7 ==> n9
            n8 ==> n9
        "#,
    );
    check(
        &graph.dot(2),
        r#"
        digraph {
            compound=true;
            ranksep=0.8;
            node [shape=box, style=rounded];
            "__start__" [label="__start__", shape=oval];
            "a" [label="a"];
            "b" [label="b"];
            subgraph "cluster_child" {
                label="child";
                "child:__start__" [label="__start__", shape=oval];
                subgraph "cluster_child:inner" {
                    label="inner";
                    "child:inner:__start__" [label="__start__", shape=oval];
                    "child:inner:b" [label="b\nstop after"];
                    "child:inner:deep" [label="deep\nstop after"];
                    "child:inner:__end__" [label="__end__", shape=oval];
                }
            }
            "__end__" [label="__end__", shape=oval];
            "__start__" -> "a";
            "__start__" -> "b";
            "a" -> "child:__start__" [style=bold, lhead="cluster_child"];
            "b" -> "child:__start__" [style=bold, lhead="cluster_child"];
            "child:inner:__end__" -> "a" [style=dashed, ltail="cluster_child"];
            "child:inner:__end__" -> "__end__" [style=dashed, ltail="cluster_child"];
            "child:__start__" -> "child:inner:__start__" [lhead="cluster_child:inner"];
            "child:inner:__end__" -> "child:inner:__start__" [style=dashed];
            "child:inner:__start__" -> "child:inner:b";
            "child:inner:__start__" -> "child:inner:deep";
            "child:inner:b" -> "child:inner:__end__" [style=bold];
            "child:inner:deep" -> "child:inner:__end__" [style=bold];
        }
        "#,
    );
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
        "end",
        "subgraph x",
        "1. plan",
        "my_node-2",
        "__init__",
        "a \"b\" <i>c</i>&lt;",
        "[x](y){z}",
        "%%{init}%%",
        "`md`",
        "\\n",
        "tab\there\nbreak",
        "日本 é",
        "#35;",
        " ",
        "n0",
        "$$x$$; style",
        "\u{0}--> n1",
        "cluster_x\\",
        "graph\\\"",
    ];
    let labels = [("fa:fa-car | \"x\"", "n0"), ("style:#1;", "n0"), (" ", "n0")];
    let graph = graph(names).sequence(names).json_branch("end", branch("choice").path_map(labels));
    let graph = graph.compile().unwrap();
    check(
        &graph.mermaid(),
        r##"
        flowchart TD
            n0(["__start__"])
            n1["␀#45;#45;#gt; n1"]
            n2["#32;"]
            n3["#35;35#59;"]
            n4["#36;#36;x#36;#36;#59; style"]
            n5["#37;#37;#123;init#125;#37;#37;"]
            n6["1#46; plan"]
            n7["#91;x#93;#40;y#41;#123;z#125;"]
            n8["#92;n"]
            n9["#95;#95;init_#95;"]
            n10["#96;md#96;"]
            n11["a #quot;b#quot; #lt;i#gt;c#lt;/i#gt;#amp;lt#59;"]
            n12["cluster_x#92;"]
            n13["end"]
            n14["graph#92;#quot;"]
            n15["my_node-2"]
            n16["n0"]
            n17["subgraph x"]
            n18["tab␉here<br/>break"]
            n19["日本 é"]
            n20(["__end__"])
            n0 --> n13
            n1 --> n12
            n2 --> n16
            n3 --> n2
            n4 --> n1
            n5 --> n10
            n6 --> n15
            n7 --> n5
            n8 --> n18
            n9 --> n11
            n10 --> n8
            n11 --> n7
            n12 --> n14
            n13 -.-> n16
            n13 -.->|"fa#58;fa-car #124; #quot;x#quot;"| n16
            n13 -.->|"style#58;#35;1#59;"| n16
            n13 --> n17
            n14 --> n20
            n15 --> n9
            n16 --> n4
            n17 --> n6
            n18 --> n19
            n19 --> n3
        "##,
    );
    check(
        &graph.dot(0),
        r##"
        digraph {
            compound=true;
            ranksep=0.8;
            node [shape=box, style=rounded];
            "__start__" [label="__start__", shape=oval];
            "␀--> n1" [label="␀--> n1"];
            " " [label=" "];
            "#35;" [label="#35;"];
            "$$x$$; style" [label="$$x$$; style"];
            "%%{init}%%" [label="%%{init}%%"];
            "1. plan" [label="1. plan"];
            "[x](y){z}" [label="[x](y){z}"];
            "\\n" [label="\\n"];
            "__init__" [label="__init__"];
            "`md`" [label="`md`"];
            "a \"b\" <i>c</i>&amp;lt;" [label="a \"b\" <i>c</i>&amp;lt;"];
            "cluster_x\\" [label="cluster_x\\"];
            "end" [label="end"];
            "graph\\\"" [label="graph\\\""];
            "my_node-2" [label="my_node-2"];
            "n0" [label="n0"];
            "subgraph x" [label="subgraph x"];
            "tab␉here\nbreak" [label="tab␉here\nbreak"];
            "日本 é" [label="日本 é"];
            "__end__" [label="__end__", shape=oval];
            "__start__" -> "end";
            "␀--> n1" -> "cluster_x\\";
            " " -> "n0";
            "#35;" -> " ";
            "$$x$$; style" -> "␀--> n1";
            "%%{init}%%" -> "`md`";
            "1. plan" -> "my_node-2";
            "[x](y){z}" -> "%%{init}%%";
            "\\n" -> "tab␉here\nbreak";
            "__init__" -> "a \"b\" <i>c</i>&amp;lt;";
            "`md`" -> "\\n";
            "a \"b\" <i>c</i>&amp;lt;" -> "[x](y){z}";
            "cluster_x\\" -> "graph\\\"";
            "end" -> "n0" [style=dashed];
            "end" -> "n0" [style=dashed, label="fa:fa-car | \"x\""];
            "end" -> "n0" [style=dashed, label="style:#1;"];
            "end" -> "subgraph x";
            "graph\\\"" -> "__end__";
            "my_node-2" -> "__init__";
            "n0" -> "$$x$$; style";
            "subgraph x" -> "1. plan";
            "tab␉here\nbreak" -> "日本 é";
            "日本 é" -> "#35;";
        }
        "##,
    );
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
    check(
        &graph.mermaid_expanded(1),
        r#"
        flowchart TD
            n0(["__start__"])
            n1["ask<br/>stop before<br/>stop after"]
            subgraph n2["child, stop before"]
                direction TB
                n3(["__start__"])
                n4["a"]
            end
            n5["collect<br/>deferred<br/>stop before<br/>cost#58; #91;1,#quot;#36;#quot;#93;<br/>owner#58; ann"]
            n6["fetch<br/>error handler"]
            n7["tell"]
            n8(["__end__"])
            n0 --> n6
            n1 --> n2
            n2 --> n7
            n3 --> n4
            n5 --> n8
            n6 --> n1
            n7 --> n5
        "#,
    );
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
