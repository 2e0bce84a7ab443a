//! What outlives its run, its graph's version or its visit.

use std::sync::{Arc, Mutex};

use graph_core::{
    Context, Durability, Exit, MemorySaver, NodeError, Persistence, RunError, RunOptions, START,
    State, StateGraph,
    checkpoint::{CheckpointError, Checkpointer},
    subgraph,
};

#[derive(State, Clone, Debug, Default)]
struct Note {
    #[reduce(append)]
    lines: Vec<String>,
}

/// Where a node leaves its context behind.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Option<Context<Self>>>>);

async fn leave_context(_: &Note, cx: &Context<Shelf>) -> NoteUpdate {
    *cx.deps().0.lock().expect("nobody panics with it") = Some(cx.clone());
    Note::update().lines(["left".to_owned()])
}

#[tokio::test]
async fn a_context_that_outlives_its_run_holds_nothing_up() {
    let graph = StateGraph::<Note, Shelf>::new()
        .node(leave_context)
        .edge(START, leave_context)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let shelf = Shelf::default();
    let thread = graph.thread("t", shelf.clone());
    let exit = thread.stream(Note::default()).finish().await.unwrap();
    assert_eq!(exit.state().lines, ["left"]);
    assert!(shelf.0.lock().unwrap().is_some());
    // The thread is free, though the context still has a way to its checkpointer.
    assert!(thread.run(Note::default()).await.unwrap().is_done());
}

async fn one(_: &Note, cx: &Context) -> NoteUpdate {
    Note::update().lines([cx.node().to_owned()])
}

async fn other(_: &Note, cx: &Context) -> NoteUpdate {
    Note::update().lines([cx.node().to_owned()])
}

/// Who closes a database after a run wants it closed, and not a moment later by a task that is on its way out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_run_holds_its_checkpointer_once_it_has_ended_by_itself() {
    for durability in [Durability::Async, Durability::Sync] {
        for _ in 0..300 {
            let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
            let graph = StateGraph::<Note>::new()
                .node(one)
                .node(other)
                .edge(START, one)
                .edge(START, other)
                .shared_checkpointer(saver.clone())
                .compile()
                .unwrap();
            let options = RunOptions::new().durability(durability);
            let exit = graph.thread("t", ()).with(options).run(Note::default()).await.unwrap();
            assert!(exit.is_done());
            drop(graph);
            assert_eq!(Arc::strong_count(&saver), 1, "{durability:?}");
        }
    }
}

async fn ask(_: &Note, cx: &Context) -> Result<NoteUpdate, NodeError> {
    Ok(Note::update().lines([cx.interrupt::<String>("well?")?]))
}

#[tokio::test]
async fn a_question_of_a_graph_that_keeps_nothing_is_answered_by_its_id() {
    let inner = StateGraph::<Note>::new().node(ask).edge(START, ask).compile().unwrap();
    let node = subgraph(
        "inner",
        &inner,
        |_: &Note| Note::default(),
        |it: Note| Note::update().lines(it.lines),
    );
    let graph = StateGraph::<Note>::new()
        .node(node.persistence(Persistence::Nothing))
        .edge(START, "inner")
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", ());
    let exit = thread.run(Note::default()).await.unwrap();
    let id = exit.interrupts()[0].id.clone();
    let exit = thread.resume_each([(id, "yes".into())]).await.unwrap();
    assert!(matches!(&exit, Exit::Done(note) if note.lines == ["yes"]), "{exit:?}");
}

#[derive(State, Clone, Debug, Default)]
#[state(version = 2)]
struct Newer {
    #[reduce(append)]
    lines: Vec<String>,
}

async fn newer(_: &Newer) {}
async fn older(_: &Note) {}

#[tokio::test]
async fn a_thread_of_a_newer_program_is_refused_and_stays_as_it_is() {
    let saver = MemorySaver::new();
    let new = StateGraph::<Newer>::new()
        .node(newer)
        .edge(START, newer)
        .checkpointer(saver.clone())
        .compile()
        .unwrap();
    let kept = Newer { lines: vec!["kept".to_owned()] };
    assert!(new.thread("t", ()).run(kept).await.unwrap().is_done());
    let old = StateGraph::<Note>::new()
        .node(older)
        .edge(START, older)
        .checkpointer(saver)
        .compile()
        .unwrap();
    let error = old.thread("t", ()).run(Note::default()).await.unwrap_err();
    assert!(matches!(&error, RunError::Checkpoint(CheckpointError::Damaged { .. })), "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
    let thread = new.thread("t", ()).with(RunOptions::new());
    assert_eq!(thread.state().await.unwrap().unwrap().values.lines, ["kept"]);
}
