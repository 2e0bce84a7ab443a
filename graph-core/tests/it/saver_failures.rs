//! Failing checkpointers and concurrent writers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use checkpoint_testkit::{HookedSaver, WriteHook};
use graph_core::{
    AsNode, Checkpointer, Context, Durability, MemorySaver, NodeError, RunError, RunOptions, START,
    StateGraph,
    checkpoint::{Change, CheckpointError, CheckpointId, CheckpointWrite, Lookup, NewCheckpoint},
    subgraph,
};

use crate::support::{
    InjectedError, Probe, Trail, TrailUpdate, chain, diamond, path_of, trail, visited,
};

/// Lets a limited number of writes succeed and fails all later ones.
#[derive(Clone, Debug)]
struct FailAfter {
    /// Number of writes that succeed before all others fail.
    remaining: Arc<AtomicUsize>,
}

impl FailAfter {
    /// Returns a memory saver that fails after `writes` writes.
    fn new(writes: usize) -> HookedSaver<Self> {
        let remaining = Arc::new(AtomicUsize::new(writes));
        HookedSaver::new(Arc::new(MemorySaver::new()), Self { remaining })
    }

    fn set_remaining(&self, writes: usize) {
        self.remaining.store(writes, Ordering::SeqCst);
    }

    fn recover(&self) {
        self.set_remaining(usize::MAX);
    }
}

#[async_trait]
impl WriteHook for FailAfter {
    async fn write(
        &self,
        to: &dyn Checkpointer,
        writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        for write in writes {
            let remaining = self
                .remaining
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1));
            remaining
                .map_err(|_| CheckpointError::Storage(Arc::new(InjectedError("disk".into()))))?;
            to.write(vec![write]).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_failing_storage_fails_the_run_and_keeps_what_was_stored() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for writes in 0..9 {
            let saver = FailAfter::new(writes);
            let graph = diamond().checkpointer(saver.clone()).compile().unwrap();
            let options = RunOptions::new().durability(durability);
            let thread = graph.thread("t", Probe::default()).with_options(options);
            let result = thread.run(Trail::default()).await;
            saver.hook().recover();
            let case = format!("{durability:?} after {writes} writes");
            match result {
                Err(RunError::Checkpoint(CheckpointError::Storage(_))) => {}
                Ok(outcome) if durability == Durability::Exit && writes > 0 => {
                    assert!(outcome.is_done(), "{case}");
                }
                other => panic!("{case}: {other:?}"),
            }
            // The saver contains either a thread that can continue or no thread at all.
            let outcome = match thread.state().await.unwrap() {
                Some(_) => thread.proceed().await.unwrap(),
                None => thread.run(Trail::default()).await.unwrap(),
            };
            assert_eq!(outcome.state(), &trail(["a", "b", "c", "d"]), "{case}");
        }
    }
}

#[tokio::test]
async fn a_new_subgraph_invocation_ignores_checkpoints_of_a_lost_run() {
    async fn ask(_: &Trail, cx: &Context) -> Result<TrailUpdate, NodeError> {
        cx.interrupt::<bool>("continue?")?;
        Ok(visited("asked"))
    }
    async fn note(_: &Trail) -> TrailUpdate {
        visited("noted")
    }
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for writes in 0..9 {
            let saver = FailAfter::new(usize::MAX);
            let inner =
                StateGraph::<Trail>::new().node(note).node(ask).edge(START, note).edge(note, ask);
            let inner = inner.compile().unwrap();
            let inside = subgraph(
                "inside",
                &inner,
                |_: &Trail| Trail::default(),
                |it: Trail| Trail::update().path(it.path),
            );
            let graph = StateGraph::<Trail>::new().node(ask).node(inside);
            let graph = graph.edge(START, ask).edge(ask, "inside").checkpointer(saver.clone());
            let graph = graph.compile().unwrap();
            let thread =
                graph.thread("t", ()).with_options(RunOptions::new().durability(durability));
            assert!(!thread.run(Trail::default()).await.unwrap().is_done());

            saver.hook().set_remaining(writes);
            let resumed = thread.resume(true).await;
            saver.hook().recover();
            let mut outcome = match resumed {
                Ok(outcome) => outcome,
                Err(_) => thread.resume(true).await.unwrap(),
            };
            while !outcome.is_done() {
                outcome = thread.resume(true).await.unwrap();
            }
            let expect = trail(["asked", "noted", "asked"]);
            assert_eq!(outcome.state(), &expect, "{durability:?} after {writes} writes");
        }
    }
}

#[tokio::test]
async fn a_concurrent_write_does_not_fork_the_thread() {
    for durability in [Durability::Sync, Durability::Async] {
        let (probe, saver) = (Probe::default(), MemorySaver::new());
        let graph = chain(["a", "b"]).checkpointer(saver.clone()).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", probe.clone()).with_options(options);
        probe.block("a");
        let running = thread.clone();
        let run = tokio::spawn(async move { running.run(Trail::default()).await });
        probe.started("a").await;
        let theirs = write_concurrently(&saver).await;
        probe.unblock("a");
        let error = run.await.unwrap().unwrap_err();
        let moved = matches!(&error, RunError::Checkpoint(CheckpointError::HeadMoved { .. }));
        assert!(moved, "{durability:?}: {error}");
        assert_eq!(thread.state().await.unwrap().unwrap().id, theirs);
        assert_eq!(path_of(&thread).await, ["theirs"]);
    }
}

/// Adds a checkpoint while a run is active, like a process whose lease has expired.
async fn write_concurrently(saver: &MemorySaver) -> CheckpointId {
    let head = loop {
        // With async durability, checkpoints are stored with a delay.
        match saver.get(&Lookup::head("t", "")).await.expect("the thread is readable") {
            Some(head) if head.header.step == 0 => break head,
            _ => tokio::task::yield_now().await,
        }
    };
    let mut key = head.key.clone();
    key.id = CheckpointId::after(Some(head.key.id));
    let theirs = NewCheckpoint {
        key: key.clone(),
        expected_head: Some(head.key.id),
        base: Some(head.key.id),
        header: head.header,
        frontier: head.frontier,
        changes: vec![("path".to_owned(), Change::Set(serde_json::json!(["theirs"])))],
    };
    saver.put(theirs).await.expect("the expected head is correct");
    key.id
}

#[tokio::test]
async fn graphs_can_share_a_checkpointer() {
    let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
    let build = || chain(["a"]).shared_checkpointer(saver.clone()).compile().unwrap();
    let first = build().thread("t", Probe::default());
    assert!(first.run(Trail::default()).await.unwrap().is_done());
    let second = build().thread("t", Probe::default());
    assert_eq!(second.run(Trail::update()).await.unwrap().state(), &trail(["a", "a"]));
    saver.copy_thread("t", "copy").await.unwrap();
    saver.delete_thread("t").await.unwrap();
    assert!(second.state().await.unwrap().is_none());
    let copy = build().thread("copy", Probe::default());
    copy.update_state(visited("x"), AsNode::Last).await.unwrap();
    assert_eq!(path_of(&copy).await, ["a", "a", "x"]);
}
