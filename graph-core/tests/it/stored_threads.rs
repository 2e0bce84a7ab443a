//! Stored threads that have an older state version or are corrupt.

use graph_core::{
    AsNode, FieldWrite, MemorySaver, Migrations, RunError, START, State, StateGraph, Thread,
    checkpoint::{
        Change, CheckpointError, CheckpointId, Checkpointer, Lookup, NewCheckpoint, TaskEvent,
        TaskRecord,
    },
};
use serde_json::{Value, json};

use crate::support::{Probe, Trail, chain, diamond, path_of, trail};

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

/// Stores a thread of the old version: `first` has run; of the two nodes in the next step, `second` failed and `third`
/// finished.
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
        .expect("the graph is valid");
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
        .expect("the graph is valid");
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
async fn an_old_thread_continues_in_the_new_version() {
    let saver = MemorySaver::new();
    old_thread(&saver).await;
    let thread = new_thread(&saver);
    let outcome = thread.proceed().await.unwrap();
    let steps = ["first", "new", "first"].map(str::to_owned).into();
    assert_eq!(outcome.state(), &New { steps, ..migrated() }, "finished tasks do not run again");
    let stored = thread.state().await.unwrap().unwrap().values;
    assert_eq!(&stored, outcome.state(), "the state is stored in the new version");
}

#[tokio::test]
async fn an_old_thread_accepts_input_of_the_new_version() {
    let saver = MemorySaver::new();
    old_thread(&saver).await;
    let thread = new_thread(&saver);
    let input = graph_core::Input::update(New::update().language("de"));
    let outcome = thread.run(input).await.unwrap();
    assert_eq!((outcome.state().count, outcome.state().language.as_str()), (5, "de"));
    let stored = thread.state().await.unwrap().unwrap().values;
    assert_eq!(&stored, outcome.state());
}

#[tokio::test]
async fn an_old_thread_can_be_edited_in_the_new_version() {
    let saver = MemorySaver::new();
    old_thread(&saver).await;
    let thread = new_thread(&saver);
    let update = New::update().language("de");
    thread.update_state(update, AsNode::node("first")).await.unwrap();
    let stored = thread.state().await.unwrap().unwrap().values;
    assert_eq!(stored, New { language: "de".into(), ..migrated() });
}

#[tokio::test]
async fn an_old_thread_is_readable_in_the_new_version() {
    let saver = MemorySaver::new();
    old_thread(&saver).await;
    let thread = new_thread(&saver);
    assert_eq!(thread.history(None).await.unwrap()[0].values, migrated());
    let state = thread.state().await.unwrap().unwrap();
    let steps = ["first", "first"].map(str::to_owned).into();
    assert_eq!(state.values, New { steps, ..migrated() }, "writes of finished tasks are included");
    assert_eq!(state.next, ["second"]);
}

#[tokio::test]
async fn pending_input_is_migrated() {
    let saver = MemorySaver::new();
    let graph = StateGraph::<Old>::new()
        .node_as("first", old_first)
        .edge(START, "first")
        .checkpointer(saver.clone())
        .compile()
        .unwrap();
    let input = Old::update().text("hello").count("5");
    graph.thread("t", ()).update_state(input, AsNode::Input).await.unwrap();
    let outcome = new_thread(&saver).proceed().await.unwrap();
    assert_eq!((&outcome.state().lines[..], outcome.state().count), (&["hello".to_owned()][..], 5));
}

#[tokio::test]
async fn a_thread_of_the_current_version_is_not_migrated() {
    let saver = MemorySaver::new();
    let thread = new_thread(&saver);
    let input = New { count: 9, language: "de".into(), ..New::default() };
    assert!(thread.run(input).await.unwrap().is_done());
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.values.count, state.values.language.as_str()), (9, "de"));
}

#[tokio::test]
async fn a_missing_migration_is_reported() {
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
    assert!(text.contains("`count`") && text.contains("Migrations::retype"), "{text}");
}

/// Adds a checkpoint in which the field `path` is not a list.
async fn store_corrupt_checkpoint(saver: &MemorySaver) -> CheckpointId {
    let head = saver
        .get(&Lookup::head("t", ""))
        .await
        .expect("the thread is readable")
        .expect("the thread has run");
    let mut key = head.key.clone();
    key.id = CheckpointId::after(Some(head.key.id));
    let mut header = head.header;
    header.parent = Some(head.key.id);
    header.step += 1;
    let corrupt = NewCheckpoint {
        key: key.clone(),
        expected_head: Some(head.key.id),
        base: Some(head.key.id),
        header,
        frontier: head.frontier,
        changes: vec![("path".to_owned(), Change::Set(json!(5)))],
    };
    saver.put(corrupt).await.expect("the expected head is correct");
    key.id
}

#[track_caller]
fn assert_corrupt(error: &RunError, id: CheckpointId) {
    let text = error.to_string();
    assert!(matches!(error, RunError::Checkpoint(CheckpointError::Corrupt { .. })), "{text}");
    assert!(text.contains("`path`") && text.contains(&id.to_string()), "{text}");
}

#[tokio::test]
async fn a_corrupt_checkpoint_is_reported_and_older_ones_stay_usable() {
    let saver = MemorySaver::new();
    let probe = Probe::default();
    let graph = chain(["a"]).checkpointer(saver.clone()).compile().unwrap();
    let thread = graph.thread("t", probe.clone());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    let good = thread.state().await.unwrap().unwrap().id;
    let bad = store_corrupt_checkpoint(&saver).await;
    probe.trace();

    assert_corrupt(&thread.state().await.unwrap_err(), bad);
    assert_corrupt(&thread.proceed().await.unwrap_err(), bad);
    assert_corrupt(&thread.run(Trail::update()).await.unwrap_err(), bad);
    let edited = thread.update_state(Trail::update().note("x"), AsNode::Last).await;
    assert_corrupt(&edited.unwrap_err(), bad);
    assert_eq!(probe.trace(), "");

    let outcome = thread.at(good).run(Trail::update().path(["on".to_owned()])).await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "on", "a"]));
    assert_eq!(path_of(&thread).await, ["a", "on", "a"]);
}

#[tokio::test]
async fn a_corrupt_task_record_is_reported() {
    let saver = MemorySaver::new();
    let probe = Probe::default();
    let graph = diamond().checkpointer(saver.clone()).compile().unwrap();
    let thread = graph.thread("t", probe.clone());
    probe.fail_next("b", 1);
    thread.run(Trail::default()).await.unwrap_err();
    let state = thread.state().await.unwrap().unwrap();
    let task = state.tasks.iter().find(|it| it.node == "b").unwrap().id;
    let write = FieldWrite { field: "path".into(), value: json!(5), overwrite: false };
    let event = TaskEvent::Done { writes: vec![write], gotos: vec![] };
    let head = saver.get(&Lookup::head("t", "")).await.unwrap().unwrap();
    let record = TaskRecord { task, node: "b".into(), event };
    saver.record(&head.key, vec![record]).await.unwrap();

    assert_corrupt(&thread.proceed().await.unwrap_err(), state.id);
    assert_corrupt(&thread.state().await.unwrap_err(), state.id);
    assert!(
        thread.run(Trail::update()).await.unwrap().is_done(),
        "fresh input drops the corrupt record"
    );
}
