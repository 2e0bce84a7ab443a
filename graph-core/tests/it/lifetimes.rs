//! Objects that outlive their run, and threads that were stored by a newer program version.

use std::sync::{Arc, Mutex};

use graph_core::{
    Context, Durability, MemorySaver, RunError, RunOptions, START, State, StateGraph,
    checkpoint::{CheckpointError, Checkpointer},
};

use crate::support::thread_of;

#[derive(State, Clone, Debug, Default)]
struct Note {
    #[reduce(append)]
    lines: Vec<String>,
}

/// Holds the context that a node leaks.
#[derive(Clone, Default)]
struct ContextSlot(Arc<Mutex<Option<Context<Self>>>>);

async fn leak_context(_: &Note, cx: &Context<ContextSlot>) -> NoteUpdate {
    *cx.deps().0.lock().expect("the lock is not poisoned") = Some(cx.clone());
    Note::update().lines(["leaked".to_owned()])
}

#[tokio::test]
async fn a_leaked_context_does_not_block_the_thread() {
    let graph = StateGraph::<Note, ContextSlot>::new().node(leak_context).edge(START, leak_context);
    let slot = ContextSlot::default();
    let thread = thread_of(graph, &slot);
    let outcome = thread.stream(Note::default()).finish().await.unwrap();
    assert_eq!(outcome.state().lines, ["leaked"]);
    assert!(slot.0.lock().unwrap().is_some());
    // The thread is released although the leaked context can still reach the thread's checkpointer.
    assert!(thread.run(Note::default()).await.unwrap().is_done());
}

async fn one(_: &Note, cx: &Context) -> NoteUpdate {
    Note::update().lines([cx.node().to_owned()])
}

async fn other(_: &Note, cx: &Context) -> NoteUpdate {
    Note::update().lines([cx.node().to_owned()])
}

/// When a run has completed, no task may still hold the checkpointer, because the caller may then close the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_run_releases_its_checkpointer() {
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
            let outcome =
                graph.thread("t", ()).with_options(options).run(Note::default()).await.unwrap();
            assert!(outcome.is_done());
            drop(graph);
            assert_eq!(Arc::strong_count(&saver), 1, "{durability:?}");
        }
    }
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
async fn a_thread_with_a_newer_state_version_is_rejected_unchanged() {
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
    assert!(matches!(&error, RunError::Checkpoint(CheckpointError::Corrupt { .. })), "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
    let thread = new.thread("t", ()).with_options(RunOptions::new());
    assert_eq!(thread.state().await.unwrap().unwrap().values.lines, ["kept"]);
}
