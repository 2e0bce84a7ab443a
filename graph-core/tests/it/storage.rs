//! Stored threads that no longer fit: older versions of the state, and damage.

use graph_core::{
    AsNode, FieldWrite, MemorySaver, Migrations, RunError, START, State, StateGraph, Thread,
    checkpoint::{
        Change, CheckpointError, CheckpointId, Checkpointer, Event, Lookup, NewCheckpoint,
        TaskRecord,
    },
};
use serde_json::{Value, json};

use crate::support::{Trail, World, chain, diamond, path_of, trail};

#[derive(State, Clone, Debug, Default)]
struct Old {
    text: String,
    count: String,
    #[reduce(append)]
    ran: Vec<String>,
}

#[derive(State, Clone, Debug, Default, PartialEq)]
#[state(version = 3)]
struct New {
    lines: Vec<String>,
    count: u32,
    language: String,
    #[reduce(append)]
    steps: Vec<String>,
}

async fn old_first(_: &Old) -> OldUpdate {
    Old::update().ran(["first".to_owned()])
}

async fn old_second(_: &Old) -> Result<OldUpdate, graph_core::NodeError> {
    Err("not yet".into())
}

async fn new_node(_: &New) -> NewUpdate {
    New::update().steps(["new".to_owned()])
}

/// A thread of the old program: `first` has run, `second` has failed, and a sibling of it has finished.
async fn old_thread(saver: &MemorySaver) {
    let graph = StateGraph::<Old>::new()
        .node_as("first", old_first)
        .node_as("second", old_second)
        .node_as("third", old_first)
        .edge(START, "first")
        .edge("first", "second")
        .edge("first", "third")
        .checkpointer(saver.clone())
        .compile()
        .expect("the graph is sound");
    let input = Old { text: "hello".into(), count: "5".into(), ran: vec![] };
    graph.thread("t", ()).run(input).await.expect_err("`second` fails");
}

fn new_thread(saver: &MemorySaver) -> Thread<New> {
    let number = |it: Value| json!(it.as_str().and_then(|it| it.parse::<u32>().ok()));
    let migrations = Migrations::new()
        .rename(1, "text", "lines")
        .retype(1, "lines", |text| json!([text]))
        .rename(1, "ran", "steps")
        .retype(2, "count", number)
        .fill(2, "language", json!("en"));
    let graph = StateGraph::<New>::new()
        .node_as("first", new_node)
        .node_as("second", new_node)
        .node_as("third", new_node)
        .edge(START, "first")
        .edge("first", "second")
        .edge("first", "third")
        .checkpointer(saver.clone())
        .migrations(migrations)
        .compile()
        .expect("the graph is sound");
    graph.thread("t", ())
}

fn migrated() -> New {
    New {
        lines: vec!["hello".into()],
        count: 5,
        language: "en".into(),
        steps: vec!["first".into()],
    }
}

#[tokio::test]
async fn an_old_thread_goes_on_in_its_new_form() {
    let saver = MemorySaver::new();
    old_thread(&saver).await;
    let thread = new_thread(&saver);
    let exit = thread.proceed().await.unwrap();
    let steps = ["first", "new", "first"].map(str::to_owned).into();
    assert_eq!(exit.state(), &New { steps, ..migrated() }, "what had finished is not run again");
    let stored = thread.state().await.unwrap().unwrap().values;
    assert_eq!(&stored, exit.state(), "the new form is what is stored from here on");
}

#[tokio::test]
async fn an_old_thread_takes_new_input_in_its_new_form() {
    let saver = MemorySaver::new();
    old_thread(&saver).await;
    let thread = new_thread(&saver);
    let input = graph_core::Input::update(New::update().language("de"));
    let exit = thread.run(input).await.unwrap();
    assert_eq!((exit.state().count, exit.state().language.as_str()), (5, "de"));
    let stored = thread.state().await.unwrap().unwrap().values;
    assert_eq!(&stored, exit.state());
}

#[tokio::test]
async fn an_old_thread_is_edited_in_its_new_form() {
    let saver = MemorySaver::new();
    old_thread(&saver).await;
    let thread = new_thread(&saver);
    let update = New::update().language("de");
    thread.update_state(update, AsNode::node("first")).await.unwrap();
    let stored = thread.state().await.unwrap().unwrap().values;
    assert_eq!(stored, New { language: "de".into(), ..migrated() });
}

#[tokio::test]
async fn an_old_thread_is_readable_in_its_new_form() {
    let saver = MemorySaver::new();
    old_thread(&saver).await;
    let thread = new_thread(&saver);
    assert_eq!(thread.history(None).await.unwrap()[0].values, migrated());
    let state = thread.state().await.unwrap().unwrap();
    let steps = ["first", "first"].map(str::to_owned).into();
    assert_eq!(state.values, New { steps, ..migrated() }, "with what had finished");
    assert_eq!(state.next, ["second"]);
}

#[tokio::test]
async fn input_on_its_way_is_brought_to_the_new_form_too() {
    let saver = MemorySaver::new();
    let graph = StateGraph::<Old>::new()
        .node_as("first", old_first)
        .edge(START, "first")
        .checkpointer(saver.clone())
        .compile()
        .unwrap();
    let input = Old::update().text("hello").count("5");
    graph.thread("t", ()).update_state(input, AsNode::Input).await.unwrap();
    let exit = new_thread(&saver).proceed().await.unwrap();
    assert_eq!((&exit.state().lines[..], exit.state().count), (&["hello".to_owned()][..], 5));
}

#[tokio::test]
async fn a_thread_of_the_present_version_is_not_migrated_again() {
    let saver = MemorySaver::new();
    let thread = new_thread(&saver);
    let input = New { count: 9, language: "de".into(), ..New::default() };
    assert!(thread.run(input).await.unwrap().is_done());
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.values.count, state.values.language.as_str()), (9, "de"));
}

#[tokio::test]
async fn without_a_migration_the_old_thread_says_what_to_do() {
    let saver = MemorySaver::new();
    old_thread(&saver).await;
    let graph = StateGraph::<New>::new()
        .node_as("first", new_node)
        .edge(START, "first")
        .checkpointer(saver)
        .compile()
        .unwrap();
    let error = graph.thread("t", ()).proceed().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`count`") && text.contains("migration"), "{text}");
}

/// Stores a checkpoint after the thread's head whose field `path` is no list.
async fn damage(saver: &MemorySaver) -> CheckpointId {
    let head = saver.get(&Lookup::head("t", "")).await.expect("readable").expect("it has run");
    let mut place = head.place.clone();
    place.id = CheckpointId::after(Some(head.place.id));
    let mut header = head.header;
    header.parent = Some(head.place.id);
    header.step += 1;
    let damaged = NewCheckpoint {
        place: place.clone(),
        expected_head: Some(head.place.id),
        base: Some(head.place.id),
        header,
        cursor: head.cursor,
        changes: vec![("path".to_owned(), Change::Set(json!(5)))],
    };
    saver.put(damaged).await.expect("the head is the expected one");
    place.id
}

#[track_caller]
fn assert_damaged(error: &RunError, id: CheckpointId) {
    let text = error.to_string();
    assert!(matches!(error, RunError::Checkpoint(CheckpointError::Damaged { .. })), "{text}");
    assert!(text.contains("`path`") && text.contains(&id.to_string()), "{text}");
}

#[tokio::test]
async fn a_damaged_checkpoint_is_named_and_the_thread_is_intact() {
    let saver = MemorySaver::new();
    let world = World::default();
    let graph = chain(["a"]).checkpointer(saver.clone()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    let good = thread.state().await.unwrap().unwrap().id;
    let bad = damage(&saver).await;
    world.trace();

    assert_damaged(&thread.proceed().await.unwrap_err(), bad);
    assert_damaged(&thread.run(Trail::default()).await.unwrap_err(), bad);
    let edited = thread.update_state(Trail::update().note("x"), AsNode::Last).await;
    assert_damaged(&edited.unwrap_err(), bad);
    assert_eq!(world.trace(), "");

    let exit = thread.at(good).run(trail(["on"])).await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "on", "a"]));
    assert_eq!(path_of(&thread).await, ["a", "on", "a"]);
}

#[tokio::test]
async fn a_damaged_checkpoint_is_named_by_its_view() {
    let saver = MemorySaver::new();
    let graph = chain(["a"]).checkpointer(saver.clone()).compile().unwrap();
    let thread = graph.thread("t", World::default());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    let bad = damage(&saver).await;
    assert_damaged(&thread.state().await.unwrap_err(), bad);
}

#[tokio::test]
async fn a_damaged_result_of_a_task_is_named() {
    let saver = MemorySaver::new();
    let world = World::default();
    let graph = diamond().checkpointer(saver.clone()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("b", 1);
    thread.run(Trail::default()).await.unwrap_err();
    let state = thread.state().await.unwrap().unwrap();
    let task = state.tasks.iter().find(|it| it.node == "b").unwrap().id;
    let write = FieldWrite { field: "path".into(), value: json!(5), overwrite: false };
    let event = Event::Done { writes: vec![write], gotos: vec![] };
    let head = saver.get(&Lookup::head("t", "")).await.unwrap().unwrap();
    let record = TaskRecord { task, node: "b".into(), event };
    saver.record(&head.place, vec![record]).await.unwrap();

    assert_damaged(&thread.proceed().await.unwrap_err(), state.id);
    assert_damaged(&thread.state().await.unwrap_err(), state.id);
    assert!(thread.run(Trail::default()).await.unwrap().is_done(), "fresh input drops the step");
}
