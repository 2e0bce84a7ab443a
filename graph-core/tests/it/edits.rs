//! Edits of a thread's state: as a node, as input, as the end, as a copy, and several at once.

use graph_core::{
    AsNode, Context, Edit, Goto, MemorySaver, RunError, RunOptions, START, StateGraph, Stops,
    Thread, checkpoint::Source,
};

use crate::support::{Trail, World, been, chain, diamond, graph, pass, path_of, trail, with_nodes};

fn thread_of(graph: StateGraph<Trail, World>, world: &World) -> Thread<Trail, World> {
    let graph = graph.checkpointer(MemorySaver::new()).compile().expect("the graph is sound");
    graph.thread("t", world.clone())
}

/// A thread of `a → b → c` that stopped before `b`.
async fn stopped(world: &World) -> Thread<Trail, World> {
    let graph = chain(["a", "b", "c"]).stop_before(Stops::at(["b"]));
    let thread = thread_of(graph, world);
    assert!(!thread.run(Trail::default()).await.expect("nothing fails").is_done());
    world.trace();
    thread
}

#[tokio::test]
async fn an_edit_as_a_node_goes_where_the_node_leads() {
    let world = World::default();
    let thread = stopped(&world).await;
    thread.update_state(been("edit"), AsNode::node("b")).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values, trail(["a", "edit"]));
    assert_eq!((state.next.join(" "), state.source, state.step), ("c".into(), Source::Update, 2));
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(world.trace(), "3: c");
}

#[tokio::test]
async fn an_edit_as_the_last_node_leaves_the_next_one_next() {
    let world = World::default();
    let thread = stopped(&world).await;
    thread.update_state(been("edit"), AsNode::Last).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.values, state.next.join(" ")), (trail(["a", "edit"]), "b".into()));
}

#[tokio::test]
async fn an_edit_must_say_which_of_several_last_nodes_it_stands_for() {
    let world = World::default();
    let thread = thread_of(diamond().stop_before(Stops::at(["d"])), &world);
    assert!(!thread.run(Trail::default()).await.unwrap().is_done());
    let error = thread.update_state(been("x"), AsNode::Last).await.unwrap_err();
    assert!(matches!(error, RunError::AmbiguousUpdate), "{error}");
    thread.update_state(been("x"), AsNode::node("c")).await.unwrap();
}

#[tokio::test]
async fn an_edit_as_an_unknown_node_lists_the_nodes() {
    let thread = stopped(&World::default()).await;
    let error = thread.update_state(been("x"), AsNode::node("z")).await.unwrap_err();
    let RunError::UnknownNode { node, nodes } = &error else { panic!("{error}") };
    assert_eq!((node.as_str(), &nodes[..]), ("z", &["a", "b", "c"].map(str::to_owned)[..]));
}

#[tokio::test]
async fn an_edit_as_the_end_drops_what_is_pending() {
    let world = World::default();
    let thread = thread_of(diamond(), &world);
    world.breaks("b", 1);
    thread.run(Trail::default()).await.unwrap_err();
    world.trace();
    thread.edit_steps([[Edit { update: None, as_node: AsNode::End }]]).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values, trail(["a", "c"]), "what had finished counts");
    assert!(state.next.is_empty());
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(world.trace(), "");
}

#[tokio::test]
async fn an_edit_as_input_runs_from_the_start() {
    let world = World::default();
    let thread = stopped(&world).await;
    thread.update_state(been("in"), AsNode::Input).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.source, state.values), (Source::Input, trail(["a"])));
    let exit = thread.clone().with(RunOptions::new().stop_before(Stops::Nowhere)).proceed().await;
    let path = exit.unwrap().into_state().path;
    assert_eq!(path[..2], ["a", "in"]);
    assert!(world.trace().contains("a"), "START leads to `a` again");
}

#[tokio::test]
async fn an_edit_as_input_starts_a_new_thread() {
    let world = World::default();
    let thread = thread_of(chain(["a"]), &world);
    thread.update_state(been("in"), AsNode::Input).await.unwrap();
    assert_eq!(thread.state().await.unwrap().unwrap().step, -1);
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["in", "a"]));
}

#[tokio::test]
async fn the_first_edit_of_a_thread_stands_for_its_start() {
    let world = World::default();
    let thread = thread_of(chain(["a", "b"]), &world);
    thread.update_state(been("edit"), AsNode::Last).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.values, state.next.join(" "), state.step), (trail(["edit"]), "a".into(), 0));
}

#[tokio::test]
async fn a_copy_lies_beside_its_checkpoint() {
    let world = World::default();
    let thread = stopped(&world).await;
    let before = thread.state().await.unwrap().unwrap();
    let id = thread.edit_steps([[Edit { update: None, as_node: AsNode::Copy }]]).await.unwrap();
    let copy = thread.state().await.unwrap().unwrap();
    assert_eq!((copy.id, copy.source, copy.parent), (id, Source::Fork, before.parent));
    assert_eq!((copy.values, copy.next), (before.values, before.next));
}

#[tokio::test]
async fn a_copy_needs_something_to_copy() {
    let thread = thread_of(chain(["a"]), &World::default());
    let copied = thread.edit_steps([[Edit { update: None, as_node: AsNode::Copy }]]).await;
    assert!(matches!(copied, Err(RunError::InvalidUpdate(_))));
}

#[tokio::test]
async fn edits_of_one_step_count_as_one_and_fill_a_join() {
    let world = World::default();
    let thread = thread_of(diamond(), &world);
    let edit = |node: &str| Edit { update: Some(been(node)), as_node: AsNode::node(node) };
    thread.edit_steps([vec![edit("a")], vec![edit("c"), edit("b")]]).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.next, ["d"]);
    assert_eq!(thread.history(None).await.unwrap().len(), 2);
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(world.trace(), "2: d");
}

#[tokio::test]
async fn an_edit_that_stands_alone_is_refused_beside_others() {
    let thread = stopped(&World::default()).await;
    let head = thread.state().await.unwrap().unwrap().id;
    let edit = |as_node| Edit { update: Some(been("x")), as_node };
    let both = thread.edit_steps([[edit(AsNode::node("a")), edit(AsNode::Input)]]).await;
    assert!(matches!(both, Err(RunError::InvalidUpdate(_))));
    let unsaid = thread.edit_steps([[edit(AsNode::Last), edit(AsNode::Last)]]).await;
    assert!(matches!(unsaid, Err(RunError::InvalidUpdate(_))));
    let none: [[Edit<Trail>; 0]; 1] = [[]];
    assert!(matches!(thread.edit_steps(none).await, Err(RunError::InvalidUpdate(_))));
    assert_eq!(thread.state().await.unwrap().unwrap().id, head, "nothing was written");
}

#[tokio::test]
async fn an_edit_asks_the_branch_of_its_node() {
    let built = with_nodes(["a", "b", "c"])
        .edge(START, "a")
        .branch("a", |it: &Trail| Goto::node(if it.note == "b" { "b" } else { "c" }));
    let thread = thread_of(built, &World::default());
    thread.update_state(Trail::update().note("b"), AsNode::node("a")).await.unwrap();
    assert_eq!(thread.state().await.unwrap().unwrap().next, ["b"]);
    thread.update_state(Trail::update().note("x"), AsNode::node("a")).await.unwrap();
    assert_eq!(thread.state().await.unwrap().unwrap().next, ["c"]);
}

#[tokio::test]
async fn an_edit_asks_a_branch_that_uses_dependencies() {
    let built = with_nodes(["a", "b"]).edge(START, "a").branch("a", |_: &Trail, world: &World| {
        assert_eq!(world.count("a"), 0);
        Goto::node("b")
    });
    let thread = thread_of(built, &World::default());
    thread.update_state(been("x"), AsNode::node("a")).await.unwrap();
    assert_eq!(thread.state().await.unwrap().unwrap().next, ["b"]);
}

#[tokio::test]
async fn an_edit_keeps_the_metadata_of_its_options() {
    let thread = thread_of(chain(["a"]), &World::default())
        .with(RunOptions::new().metadata("user", "ada").run_named("by hand"));
    thread.update_state(been("x"), AsNode::Last).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.run, "by hand");
    assert_eq!(state.metadata.get("user"), Some(&"ada".into()));
}

#[tokio::test]
async fn an_edit_takes_the_place_of_a_node_that_asks() {
    async fn ask_first(_: &Trail, cx: &Context<World>) -> Result<(), graph_core::NodeError> {
        cx.interrupt::<String>("which?")?;
        Ok(())
    }
    let world = World::default();
    let built = graph().node(ask_first).node(pass).edge(START, ask_first).edge(ask_first, pass);
    let thread = thread_of(built, &world);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    thread.update_state(been("by hand"), AsNode::node("ask_first")).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.next.join(" "), state.interrupts().count()), ("pass".into(), 0));
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(path_of(&thread).await, ["by hand", "pass"]);
}
