//! Edits of a thread's state: edits as a node, as input, as the end and as a copy, and several edits in one step.

use graph_core::{
    AsNode, Context, Goto, RunError, RunOptions, START, StateEdit, Stops, Thread,
    checkpoint::Source,
};

use crate::support::{
    Probe, Trail, chain, diamond, graph, pass, path_of, thread_of, trail, visited, with_nodes,
};

/// Returns a thread of `a → b → c` that stopped before `b`.
async fn stopped_before_b(probe: &Probe) -> Thread<Trail, Probe> {
    let graph = chain(["a", "b", "c"]).stop_before(Stops::at(["b"]));
    let thread = thread_of(graph, probe);
    assert!(!thread.run(Trail::default()).await.expect("no node fails").is_done());
    probe.trace();
    thread
}

#[tokio::test]
async fn an_edit_as_a_node_follows_its_edges() {
    let probe = Probe::default();
    let thread = stopped_before_b(&probe).await;
    thread.update_state(visited("edit"), AsNode::node("b")).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values, trail(["a", "edit"]));
    assert_eq!((state.next.join(" "), state.source, state.step), ("c".into(), Source::Update, 2));
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(probe.trace(), "3: c");
}

#[tokio::test]
async fn an_edit_as_the_last_node_keeps_the_next_node() {
    let probe = Probe::default();
    let thread = stopped_before_b(&probe).await;
    thread.update_state(visited("edit"), AsNode::Last).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.values, state.next.join(" ")), (trail(["a", "edit"]), "b".into()));
}

#[tokio::test]
async fn an_edit_after_parallel_nodes_must_name_one() {
    let probe = Probe::default();
    let thread = thread_of(diamond().stop_before(Stops::at(["d"])), &probe);
    assert!(!thread.run(Trail::default()).await.unwrap().is_done());
    let error = thread.update_state(visited("x"), AsNode::Last).await.unwrap_err();
    assert!(matches!(error, RunError::AmbiguousUpdate), "{error}");
    thread.update_state(visited("x"), AsNode::node("c")).await.unwrap();
}

#[tokio::test]
async fn an_edit_as_an_unknown_node_lists_the_existing_nodes() {
    let thread = stopped_before_b(&Probe::default()).await;
    let error = thread.update_state(visited("x"), AsNode::node("z")).await.unwrap_err();
    let RunError::UnknownNode { node, nodes } = &error else { panic!("{error}") };
    assert_eq!((node.as_str(), &nodes[..]), ("z", &["a", "b", "c"].map(str::to_owned)[..]));
}

#[tokio::test]
async fn an_edit_as_the_end_drops_pending_tasks() {
    let probe = Probe::default();
    let thread = thread_of(diamond(), &probe);
    probe.fail_next("b", 1);
    thread.run(Trail::default()).await.unwrap_err();
    probe.trace();
    thread.bulk_update_state([[StateEdit { update: None, as_node: AsNode::End }]]).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values, trail(["a", "c"]), "writes of finished tasks are kept");
    assert!(state.next.is_empty());
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(probe.trace(), "");
}

#[tokio::test]
async fn an_edit_as_input_runs_from_the_start() {
    let probe = Probe::default();
    let thread = stopped_before_b(&probe).await;
    thread.update_state(visited("in"), AsNode::Input).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.source, state.values), (Source::Input, trail(["a"])));
    let outcome =
        thread.clone().with_options(RunOptions::new().stop_before(Stops::None)).proceed().await;
    let path = outcome.unwrap().into_state().path;
    assert_eq!(path[..2], ["a", "in"]);
    assert!(probe.trace().contains("a"), "START leads to `a` again");
}

#[tokio::test]
async fn an_edit_as_input_starts_a_new_thread() {
    let probe = Probe::default();
    let thread = thread_of(chain(["a"]), &probe);
    thread.update_state(visited("in"), AsNode::Input).await.unwrap();
    assert_eq!(thread.state().await.unwrap().unwrap().step, -1);
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["in", "a"]));
}

#[tokio::test]
async fn the_first_edit_of_a_thread_is_attributed_to_start() {
    let probe = Probe::default();
    let thread = thread_of(chain(["a", "b"]), &probe);
    thread.update_state(visited("edit"), AsNode::Last).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.values, state.next.join(" "), state.step), (trail(["edit"]), "a".into(), 0));
}

#[tokio::test]
async fn a_copy_is_a_sibling_of_its_checkpoint() {
    let probe = Probe::default();
    let thread = stopped_before_b(&probe).await;
    let before = thread.state().await.unwrap().unwrap();
    let id = thread
        .bulk_update_state([[StateEdit { update: None, as_node: AsNode::Copy }]])
        .await
        .unwrap();
    let copy = thread.state().await.unwrap().unwrap();
    assert_eq!((copy.id, copy.source, copy.parent), (id, Source::Fork, before.parent));
    assert_eq!((copy.values, copy.next), (before.values, before.next));
}

#[tokio::test]
async fn a_copy_needs_a_checkpoint() {
    let thread = thread_of(chain(["a"]), &Probe::default());
    let copied =
        thread.bulk_update_state([[StateEdit { update: None, as_node: AsNode::Copy }]]).await;
    assert!(matches!(copied, Err(RunError::InvalidUpdate(_))));
}

#[tokio::test]
async fn edits_of_one_step_complete_a_join() {
    let probe = Probe::default();
    let thread = thread_of(diamond(), &probe);
    let edit = |node: &str| StateEdit { update: Some(visited(node)), as_node: AsNode::node(node) };
    thread.bulk_update_state([vec![edit("a")], vec![edit("c"), edit("b")]]).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.next, ["d"]);
    assert_eq!(thread.history(None).await.unwrap().len(), 2);
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(probe.trace(), "2: d");
}

#[tokio::test]
async fn special_edits_cannot_be_combined_with_others() {
    let thread = stopped_before_b(&Probe::default()).await;
    let head = thread.state().await.unwrap().unwrap().id;
    let edit = |as_node| StateEdit { update: Some(visited("x")), as_node };
    let both = thread.bulk_update_state([[edit(AsNode::node("a")), edit(AsNode::Input)]]).await;
    assert!(matches!(both, Err(RunError::InvalidUpdate(_))));
    let unnamed = thread.bulk_update_state([[edit(AsNode::Last), edit(AsNode::Last)]]).await;
    assert!(matches!(unnamed, Err(RunError::InvalidUpdate(_))));
    let none: [[StateEdit<Trail>; 0]; 1] = [[]];
    assert!(matches!(thread.bulk_update_state(none).await, Err(RunError::InvalidUpdate(_))));
    assert_eq!(thread.state().await.unwrap().unwrap().id, head, "nothing was written");
}

#[tokio::test]
async fn an_edit_calls_the_branch_of_its_node() {
    let built =
        with_nodes(["a", "b", "c"]).edge(START, "a").branch("a", |it: &Trail, probe: &Probe| {
            assert_eq!(probe.count("a"), 0);
            Goto::node(if it.note == "b" { "b" } else { "c" })
        });
    let thread = thread_of(built, &Probe::default());
    thread.update_state(Trail::update().note("b"), AsNode::node("a")).await.unwrap();
    assert_eq!(thread.state().await.unwrap().unwrap().next, ["b"]);
    thread.update_state(Trail::update().note("x"), AsNode::node("a")).await.unwrap();
    assert_eq!(thread.state().await.unwrap().unwrap().next, ["c"]);
}

#[tokio::test]
async fn an_edit_stores_the_metadata_of_its_options() {
    let thread = thread_of(chain(["a"]), &Probe::default())
        .with_options(RunOptions::new().metadata("user", "ada").run_id("manual"));
    thread.update_state(visited("x"), AsNode::Last).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.run, "manual");
    assert_eq!(state.metadata.get("user"), Some(&"ada".into()));
}

#[tokio::test]
async fn an_edit_replaces_an_interrupted_node() {
    async fn interrupting(_: &Trail, cx: &Context<Probe>) -> Result<(), graph_core::NodeError> {
        cx.interrupt::<String>("which?")?;
        Ok(())
    }
    let probe = Probe::default();
    let built =
        graph().node(interrupting).node(pass).edge(START, interrupting).edge(interrupting, pass);
    let thread = thread_of(built, &probe);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    thread.update_state(visited("manual"), AsNode::node("interrupting")).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.next.join(" "), state.interrupts().len()), ("pass".into(), 0));
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(path_of(&thread).await, ["manual", "pass"]);
}
