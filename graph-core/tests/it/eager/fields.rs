//! Declared reads and writes of nodes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use graph_core::{
    Context, Goto, JsonFieldKind, JsonState, JsonStateSchema, MemorySaver, NodeError, NodeExt,
    RunError, RunOutcome, START, State, StateGraph, UndeclaredError, json_node,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::branches::{Branches, join, left, right, thread, two_branches};
use crate::support::{Probe, yield_to_tasks};

#[tokio::test]
async fn node_without_declared_reads_waits_for_its_step() {
    let probe = Probe::default();
    probe.block("a1");
    let graph = two_branches().node_as("plain", right.writes(["log"])).edge("b1", "plain");
    let thread = thread(graph, &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("b3").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("plain"), 0);
    run.abort();
}

#[tokio::test]
async fn undeclared_field_is_hidden_and_undeclared_write_fails() {
    let probe = Probe::default();
    let input = Branches { left: "secret".into(), ..Branches::default() };
    for eager in [false, true] {
        let graph = StateGraph::new().node_as("blind", join.reads(["right"])).edge(START, "blind");
        let graph = if eager { graph.eager() } else { graph };
        let state = graph.compile().unwrap().invoke(input.clone(), probe.clone()).await.unwrap();
        assert_eq!(state.both, "| ", "`left` is not visible");
    }
    for saver in [false, true] {
        let graph = StateGraph::<Branches, Probe>::new()
            .node_as("liar", left.writes(["right"]))
            .edge(START, "liar")
            .eager();
        let result = match saver {
            true => {
                let graph = graph.checkpointer(MemorySaver::new()).compile().unwrap();
                graph.thread("t", probe.clone()).invoke(input.clone()).await
            }
            false => graph.compile().unwrap().invoke(input.clone(), probe.clone()).await,
        };
        let error = result.unwrap_err();
        let RunError::Node { node, error, .. } = &error else { panic!("{error}") };
        assert_eq!(node, "liar");
        let expected = UndeclaredError::Write { field: "left".into() };
        assert_eq!(error.downcast_ref::<UndeclaredError>(), Some(&expected));
    }
}

#[tokio::test]
async fn compile_rejects_an_unknown_field() {
    let graph = StateGraph::<Branches, Probe>::new().node_as("a", left.reads(["lift"]));
    let error = graph.edge(START, "a").compile().unwrap_err();
    assert!(error.to_string().contains("`a` declares the field `lift`"), "{error}");
}

#[tokio::test]
async fn node_does_not_run_ahead_if_its_branch_sees_every_field() {
    let schema = JsonStateSchema::new([
        ("left", JsonFieldKind::Last),
        ("right", JsonFieldKind::Last),
        ("out", JsonFieldKind::Last),
    ])
    .unwrap();
    let probe = Probe::default();
    probe.block("slow");
    let node = |name: &'static str, field: &'static str| {
        let node = json_node(name, move |_, cx: Context<Probe>| async move {
            cx.deps().enter(cx.step(), cx.node()).await?;
            Ok(json!({ field: name }))
        });
        node.reads([field]).writes([field])
    };
    let graph = schema
        .graph_with::<Probe>()
        .node(node("slow", "left"))
        .node(node("b1", "right"))
        .node(node("b2", "right"))
        .node(node("set", "out"))
        .node(node("unset", "out"))
        .edge(START, "slow")
        .edge(START, "b1")
        .edge("b1", "b2")
        .branch("b2", |state: &JsonState| match state.get("left") {
            Some(_) => vec![Goto::node("set")],
            None => vec![Goto::node("unset")],
        })
        .eager()
        .compile()
        .unwrap();
    let run = tokio::spawn({
        let (input, probe) = (schema.input(json!({ "right": "" })).unwrap(), probe.clone());
        async move { graph.invoke(input, probe).await }
    });
    probe.started("b1").await;
    yield_to_tasks().await;
    probe.unblock("slow");
    assert_eq!(run.await.unwrap().unwrap().get("out"), Some(&json!("set")));
}

/// A state with a field that is not stored.
#[derive(State, Clone, Debug, Default, PartialEq)]
struct Visit {
    answer: String,
    #[reduce(untracked)]
    token: String,
    #[reduce(append)]
    seen: Vec<String>,
}

#[tokio::test]
async fn nodes_that_use_untracked_fields_wait_for_their_step() {
    async fn ask(_: &Visit, cx: &Context<Probe>) -> Result<VisitUpdate, NodeError> {
        Ok(Visit::update().answer(cx.interrupt::<String>("?")?))
    }
    async fn set(_: &Visit, cx: &Context<Probe>) -> Result<VisitUpdate, NodeError> {
        Ok(Visit::update().token(cx.node().to_owned()))
    }
    async fn look(state: &Visit) -> VisitUpdate {
        Visit::update().seen([state.token.clone()])
    }
    for eager in [false, true] {
        let graph = StateGraph::<Visit, Probe>::new()
            .node(ask.reads(["answer"]).writes(["answer"]))
            .node_as("first", set.reads(["seen"]).writes(["token"]))
            .node_as("look", look.reads(["token"]).writes(["seen"]))
            .node_as("second", set.reads(["seen"]).writes(["token"]))
            .node_as("last", look.reads(["token", "answer"]).writes(["seen"]))
            .edge(START, ask)
            .edge(START, "first")
            .sequence(["first", "look", "second", "last"])
            .checkpointer(MemorySaver::new());
        let graph = if eager { graph.eager() } else { graph };
        let thread = graph.compile().unwrap().thread("t", Probe::default());
        assert!(matches!(thread.run(Visit::default()).await, Ok(RunOutcome::Interrupted { .. })));
        let state = thread.resume("yes").await.unwrap().into_state();
        assert_eq!(state.seen, ["", "second"], "eager: {eager}");
    }
}

/// A value that counts its copies.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Counted {
    #[serde(skip)]
    copies: Arc<AtomicUsize>,
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.copies.fetch_add(1, Ordering::Relaxed);
        Self { copies: self.copies.clone() }
    }
}

#[derive(State, Clone, Debug, Default)]
struct Archive {
    large: Counted,
    count: u32,
}

#[tokio::test]
async fn hidden_field_is_not_copied() {
    async fn increment(state: &Archive) -> ArchiveUpdate {
        Archive::update().count(state.count + 1)
    }
    let graph = StateGraph::<Archive>::new()
        .node(increment.reads(["count"]).writes(["count"]))
        .node_as("again", increment.reads(["count"]).writes(["count"]))
        .edge(START, increment)
        .edge(increment, "again");
    let large = Counted::default();
    let copies = large.copies.clone();
    let state = graph.compile().unwrap().invoke(Archive { large, count: 0 }, ()).await.unwrap();
    assert_eq!((state.count, copies.load(Ordering::Relaxed)), (2, 0));
}
