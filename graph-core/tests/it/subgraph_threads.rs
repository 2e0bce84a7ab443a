//! States, histories and edits of subgraphs, and runs from checkpoints of subgraphs.

use std::collections::BTreeMap;

use graph_core::{
    AsNode, CompiledGraph, Context, Durability, Goto, HistoryFilter, Input, MemorySaver, NodeError,
    NodeExt, Persistence, RunError, RunOptions, START, Stops, SubgraphThread, Thread,
    checkpoint::Source, runs_graph,
};
use serde_json::{Value, json};

use crate::support::{
    Probe, Trail, TrailUpdate, ask, chain, graph, pass, sub, thread_of, trail, with_nodes,
};

type Sub = SubgraphThread<Trail, Probe>;

/// Returns a thread whose graph runs `outer`, then `after`. `outer` is a subgraph that runs `before`, then `inner`.
/// `inner` is a subgraph that runs `a`, `b` and `c`, and `b` raises an interrupt.
fn thread(persistence: Persistence, probe: &Probe) -> Thread<Trail, Probe> {
    let inner = with_nodes(["a", "c"]).node_as("b", ask).sequence(["a", "b", "c"]);
    let outer = with_nodes(["before"])
        .node(sub("inner", inner).persistence(persistence))
        .sequence(["before", "inner"]);
    let graph = graph()
        .node(sub("outer", outer).persistence(persistence))
        .node_as("after", pass)
        .sequence(["outer", "after"])
        .checkpointer(MemorySaver::new());
    graph.compile().expect("the graph is valid").thread("t", probe.clone())
}

/// Runs the thread to the interrupt in `inner`, and returns both subgraphs.
async fn interrupted(thread: &Thread<Trail, Probe>, probe: &Probe) -> (Sub, Sub) {
    let outcome = thread.run(Trail::default()).await.expect("the run is interrupted");
    assert_eq!(outcome.interrupts()[0].value, "b?");
    probe.trace();
    let subgraph = |namespace: Option<&str>| {
        thread.subgraph(namespace.unwrap_or_default()).expect("the task runs a subgraph")
    };
    let state = thread.state().await.expect("the thread can be read").expect("the thread has run");
    let outer = subgraph(state.tasks[0].subgraph_namespace.as_deref());
    let state = outer.state().await.expect("`outer` can be read").expect("`outer` has run");
    let inner = subgraph(state.tasks[0].subgraph_namespace.as_deref());
    (outer, inner)
}

fn paths(values: &Value) -> &Value {
    &values["path"]
}

#[tokio::test]
async fn states_of_subgraphs_are_read_by_namespace() {
    let probe = Probe::default();
    let thread = thread(Persistence::Invocation, &probe);
    let (outer, inner) = interrupted(&thread, &probe).await;
    let root = thread.state().await.unwrap().unwrap();
    assert!(root.tasks[0].subgraph.is_none(), "states of subgraphs were not requested");

    let state = outer.state().await.unwrap().unwrap();
    assert_eq!(
        (paths(&state.values), &state.next[..]),
        (&json!(["before"]), &["inner".into()][..])
    );
    assert_eq!(state.namespace, format!("outer:{}", root.tasks[0].id));
    assert_eq!(state.enclosing, BTreeMap::from([(String::new(), root.id)]));

    let deepest = inner.state().await.unwrap().unwrap();
    assert_eq!((paths(&deepest.values), &deepest.next[..]), (&json!(["a"]), &["b".into()][..]));
    assert_eq!(deepest.interrupts()[0].value, "b?");
    assert_eq!(deepest.namespace, inner.namespace());
    let enclosing = [(String::new(), root.id), (outer.namespace().to_owned(), state.id)];
    assert_eq!(deepest.enclosing, BTreeMap::from(enclosing));

    let nested = outer.state_with_subgraphs().await.unwrap().unwrap();
    assert_eq!(nested.tasks[0].subgraph.as_ref().unwrap().id, deepest.id);
    let all = thread.state_with_subgraphs().await.unwrap().unwrap();
    let all = all.tasks[0].subgraph.as_ref().unwrap();
    assert_eq!(all.tasks[0].subgraph.as_ref().unwrap().values, deepest.values);
}

#[tokio::test]
async fn the_history_of_a_subgraph_contains_its_steps() {
    let probe = Probe::default();
    let thread = thread(Persistence::Invocation, &probe);
    let (outer, inner) = interrupted(&thread, &probe).await;
    let history = inner.history(None).await.unwrap();
    let shown: Vec<_> = history.iter().map(|it| (it.step, it.next.join(" "))).collect();
    assert_eq!(shown, [(1, "b".into()), (0, "a".into()), (-1, "__start__".to_owned())]);
    let before_a = inner.history(HistoryFilter::new().next("a")).await.unwrap();
    assert_eq!((before_a.len(), before_a[0].id), (1, history[1].id));
    let at = inner.at(history[1].id).state().await.unwrap().unwrap();
    assert_eq!((at.id, paths(&at.values)), (history[1].id, &json!([])));
    assert!(outer.at(history[1].id).state().await.unwrap().is_none(), "it belongs to `inner`");
    assert!(thread.resume("B").await.unwrap().is_done());
    assert_eq!(inner.history(None).await.unwrap().len(), 5, "a finished subgraph stays readable");
}

#[tokio::test]
async fn a_run_continues_from_the_edited_state_of_a_subgraph() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for persistence in [Persistence::Invocation, Persistence::Thread] {
            let probe = Probe::default();
            let options = RunOptions::new().durability(durability);
            let thread = thread(persistence, &probe).with_options(options);
            let (_, inner) = interrupted(&thread, &probe).await;
            let before = inner.state().await.unwrap().unwrap();
            let edited = inner.update_state(json!({ "path": ["edited"] }), AsNode::Last).await;
            let after = inner.state().await.unwrap().unwrap();
            assert_eq!((after.id, after.parent), (edited.unwrap(), Some(before.id)));
            assert_eq!((after.source, &after.enclosing), (Source::Update, &before.enclosing));
            let outcome = thread.resume("B").await.unwrap();
            let expect = trail(["before", "a", "edited", "B", "c", "after"]);
            assert_eq!(outcome.state(), &expect, "{durability:?} {persistence:?}");
            assert_eq!((probe.count("a"), probe.count("before")), (0, 0), "no node runs again");
        }
    }
}

#[tokio::test]
async fn an_edit_can_replace_the_interrupted_node_of_a_subgraph() {
    let probe = Probe::default();
    let thread = thread(Persistence::Invocation, &probe);
    let (_, inner) = interrupted(&thread, &probe).await;
    inner.update_state(json!({ "path": ["edited"] }), AsNode::node("b")).await.unwrap();
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["before", "a", "edited", "c", "after"]));
    assert_eq!(probe.count("b"), 0);
}

#[tokio::test]
async fn an_edit_of_a_subgraph_restarts_the_subgraphs_inside_it() {
    let probe = Probe::default();
    let thread = thread(Persistence::Invocation, &probe);
    let (outer, _) = interrupted(&thread, &probe).await;
    outer.update_state(json!({ "path": ["edited"] }), AsNode::node("before")).await.unwrap();
    assert_eq!(thread.proceed().await.unwrap().interrupts()[0].value, "b?");
    assert_eq!((probe.count("a"), probe.count("before")), (1, 0));
    let outcome = thread.resume("B").await.unwrap();
    assert_eq!(outcome.state(), &trail(["before", "edited", "a", "B", "c", "after"]));
}

#[tokio::test]
async fn a_run_starts_from_an_old_checkpoint_of_a_subgraph() {
    for persistence in [Persistence::Invocation, Persistence::Thread] {
        let probe = Probe::default();
        let thread = thread(persistence, &probe);
        let (_, inner) = interrupted(&thread, &probe).await;
        let old = inner.state().await.unwrap().unwrap();
        assert!(thread.resume("B").await.unwrap().is_done());
        probe.trace();

        let outcome = inner.at(old.id).run(Input::proceed()).await.unwrap();
        assert_eq!(outcome.interrupts()[0].value, "b?", "{persistence:?}");
        let fork = thread.state().await.unwrap().unwrap();
        assert_eq!((fork.source, fork.parent), (Source::Fork, Some(old.enclosing[""])));
        let outcome = thread.resume("again").await.unwrap();
        assert_eq!(outcome.state(), &trail(["before", "a", "again", "c", "after"]));
        let ran = ["before", "a", "c", "after"].map(|it| probe.count(it));
        assert_eq!(ran, [0, 0, 1, 1], "{persistence:?}: only later nodes run again");
    }
}

#[tokio::test]
async fn a_run_starts_from_an_edit_of_a_finished_subgraph() {
    for persistence in [Persistence::Invocation, Persistence::Thread] {
        let probe = Probe::default();
        let thread = thread(persistence, &probe);
        let (_, inner) = interrupted(&thread, &probe).await;
        let old = inner.at(inner.state().await.unwrap().unwrap().id);
        assert!(thread.resume("B").await.unwrap().is_done());
        let edited = old.update_state(json!({ "path": ["late"] }), AsNode::Last).await.unwrap();
        for stops in [true, false] {
            let outcome = match stops {
                false => inner.at(edited).run(Input::resume("new").unwrap()).await.unwrap(),
                true => {
                    let outcome = inner.at(edited).run(Input::proceed()).await.unwrap();
                    assert_eq!(outcome.interrupts()[0].value, "b?", "{persistence:?}");
                    thread.resume("new").await.unwrap()
                }
            };
            let expect = trail(["before", "a", "late", "new", "c", "after"]);
            assert_eq!(outcome.state(), &expect, "{persistence:?} {stops}");
        }
    }
}

#[tokio::test]
async fn the_head_of_a_subgraph_addressed_by_id_is_resumed_normally() {
    let probe = Probe::default();
    let thread = thread(Persistence::Invocation, &probe);
    let (_, inner) = interrupted(&thread, &probe).await;
    let head = inner.state().await.unwrap().unwrap();
    let answer = [(head.interrupts()[0].id.clone(), json!("B"))];
    let outcome = inner.at(head.id).run(Input::resume_by_id(answer)).await.unwrap();
    assert_eq!(outcome.state(), &trail(["before", "a", "B", "c", "after"]));
    let forks = HistoryFilter::new().source(Source::Fork);
    assert!(thread.history(forks).await.unwrap().is_empty());
}

#[tokio::test]
async fn graphs_inside_an_addressed_subgraph_are_rewound_to_its_checkpoint() {
    let memory = sub("memory", chain(["x"])).persistence(Persistence::Thread);
    // `memory` keeps its path, so its second invocation returns two entries.
    let again = |state: &Trail| (state.path.len() < 2).then(|| Goto::node("memory"));
    let outer = graph().node(memory).edge(START, "memory").branch("memory", again);
    let graph = graph().node(sub("outer", outer)).edge(START, "outer");
    let thread = thread_of(graph, &Probe::default());
    let outcome = thread.run(Trail::default()).await.unwrap();
    assert_eq!(outcome.state(), &trail(["x", "x", "x"]));
    let before = thread.history(HistoryFilter::new().next("outer")).await.unwrap();
    let namespace = before[0].tasks[0].subgraph_namespace.as_deref().unwrap();
    let outer = thread.subgraph(namespace).unwrap();
    let before = outer.history(HistoryFilter::new().next("memory")).await.unwrap();
    assert_eq!(before.len(), 2);
    for checkpoint in before {
        let outcome = outer.at(checkpoint.id).run(Input::proceed()).await.unwrap();
        assert_eq!(outcome.state(), &trail(["x", "x", "x"]), "step {}", checkpoint.step);
    }
}

#[tokio::test]
async fn a_run_starts_from_a_subgraph_that_a_command_started() {
    let draft = sub("draft", graph().node_as("b", ask).edge(START, "b"));
    let graph = with_nodes(["a"]).node(draft.command_only()).edge(START, "a");
    let thread = thread_of(graph, &Probe::default());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    let outcome = thread.run(Input::command().goto(Goto::node("draft"))).await.unwrap();
    let (namespace, _) = outcome.interrupts()[0].namespace.rsplit_once('|').unwrap();
    let draft = thread.subgraph(namespace).unwrap();
    let draft = draft.at(draft.state().await.unwrap().unwrap().id);

    let outcome = draft.run(Input::proceed()).await.unwrap();
    assert_eq!(outcome.interrupts()[0].value, "b?");
    assert_eq!(thread.resume("B").await.unwrap().state(), &trail(["a", "B"]));
    let outcome = draft.run(Input::resume("again").unwrap()).await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "again"]));
}

#[tokio::test]
async fn a_run_needs_the_checkpoints_of_the_enclosing_graphs() {
    let inner = sub("inner", chain(["x"])).persistence(Persistence::Thread);
    let graph = graph().node(inner).edge(START, "inner");
    let options = RunOptions::new().durability(Durability::Exit);
    let thread = thread_of(graph, &Probe::default()).with_options(options);
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    let inner = thread.subgraph("inner").unwrap();
    let last = inner.state().await.unwrap().unwrap().id;
    let error = inner.at(last).run(Input::proceed()).await.unwrap_err();
    let RunError::SubgraphStart { namespace, checkpoint, .. } = &error else { panic!("{error}") };
    assert_eq!((namespace.as_str(), *checkpoint), ("inner", last));
    assert!(error.to_string().contains("`Durability::Exit`"), "{error}");
}

#[tokio::test]
async fn a_subgraph_that_has_not_started_has_no_state_to_edit() {
    let probe = Probe::default();
    let stop = RunOptions::new().stop_before(Stops::at(["outer"]));
    let thread = thread(Persistence::Invocation, &probe).with_options(stop);
    let _ = thread.run(Trail::default()).await.unwrap();
    let state = thread.state_with_subgraphs().await.unwrap().unwrap();
    assert!(state.tasks[0].subgraph.is_none());
    let outer = thread.subgraph(state.tasks[0].subgraph_namespace.as_deref().unwrap()).unwrap();
    assert!(outer.state().await.unwrap().is_none());
    assert!(outer.history(None).await.unwrap().is_empty());
    let error = outer.update_state(json!({}), AsNode::Input).await.unwrap_err();
    assert!(matches!(error, RunError::InvalidUpdate(_)), "{error}");
    assert!(error.to_string().contains("has no checkpoint to edit"), "{error}");
}

/// Raises an interrupt if the input of the graph was not empty.
async fn ask_second(trail: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    if trail.path.len() < 2 { pass(trail, cx).await } else { ask(trail, cx).await }
}

fn asking() -> CompiledGraph<Trail, Probe> {
    let graph = with_nodes(["a"]).node_as("b", ask_second).sequence(["a", "b"]);
    graph.compile().expect("the graph is valid")
}

/// Runs the same graph twice.
async fn twice(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    let mut path = Vec::new();
    for input in [trail([]), trail(["second"])] {
        let inner = cx.run_graph(&asking(), Persistence::Invocation, input).await?;
        path.extend(inner.unwrap_or_default().path);
    }
    Ok(Trail::update().path(path))
}

#[tokio::test]
async fn the_second_subgraph_of_a_task_is_addressed_by_its_number() {
    let probe = Probe::default();
    let graph = graph().node(runs_graph(twice, &asking())).edge(START, twice);
    let graph = graph.checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", probe.clone());
    let outcome = thread.run(Trail::default()).await.unwrap();
    assert_eq!(outcome.interrupts()[0].value, "b?");

    let state = thread.state().await.unwrap().unwrap();
    let first = state.tasks[0].subgraph_namespace.clone().unwrap();
    let second = thread.subgraph(&format!("{first}|1")).unwrap();
    let first = thread.subgraph(&first).unwrap().state().await.unwrap().unwrap();
    assert_eq!((paths(&first.values), first.next.len()), (&json!(["a", "b"]), 0));
    let old = second.state().await.unwrap().unwrap();
    assert_eq!((paths(&old.values), &old.next[..]), (&json!(["second", "a"]), &["b".into()][..]));
    assert_eq!((&*old.namespace, old.interrupts().len()), (second.namespace(), 1));
    assert_eq!(second.history(None).await.unwrap().len(), 3);

    second.update_state(json!({ "path": ["edited"] }), AsNode::Last).await.unwrap();
    let outcome = thread.resume("B").await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "second", "a", "edited", "B"]));
    assert_eq!(probe.count("a"), 2, "no node runs again");

    let outcome = second.at(old.id).run(Input::proceed()).await.unwrap();
    assert_eq!(outcome.interrupts()[0].value, "b?");
    assert_eq!(probe.count("a"), 3, "the first graph runs again, the second one continues");
    let outcome = thread.resume("again").await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "second", "a", "again"]));
}

#[tokio::test]
async fn unknown_subgraphs_and_invalid_edits_are_rejected() {
    let probe = Probe::default();
    let thread = thread(Persistence::Invocation, &probe);
    let (_, inner) = interrupted(&thread, &probe).await;
    for unknown in ["", "after:1", "outer:1|b:2", "1", "outer:1|1", "outer:1|1|b", "inner:1"] {
        let error = thread.subgraph(unknown).unwrap_err();
        let RunError::UnknownSubgraph { subgraphs, .. } = &error else { panic!("{error}") };
        assert_eq!(subgraphs, &["outer", "outer|inner"], "{unknown}");
    }
    let error = inner.update_state(json!({ "surprise": 1 }), AsNode::Last).await.unwrap_err();
    assert!(error.to_string().contains("surprise"), "{error}");
    let error = inner.update_state(json!("text"), AsNode::Last).await.unwrap_err();
    assert!(error.to_string().contains("must be a JSON object"), "{error}");
    let root = thread.state().await.unwrap().unwrap().id;
    let error = inner.at(root).run(Input::proceed()).await.unwrap_err();
    assert!(error.to_string().contains("has no checkpoint"), "{error}");
}
