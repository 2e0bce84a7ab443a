//! Checkpointers that fail, and others that write to the thread meanwhile.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use graph_core::{
    AsNode, Checkpointer, Context, Durability, MemorySaver, NodeError, RunError, RunOptions, START,
    StateGraph,
    checkpoint::{
        Change, CheckpointError, CheckpointId, Lookup, NewCheckpoint, Write,
        testkit::{Around, Way},
    },
    send, subgraph,
};

use crate::support::{
    Broken, Item, Trail, TrailUpdate, World, been, chain, diamond, path_of, trail,
};

/// Writes that fail once so many are made.
#[derive(Clone, Debug)]
struct Failing {
    /// How many writes still work; a very great number for all of them.
    left: Arc<AtomicUsize>,
}

impl Failing {
    /// A memory saver that keeps so many writes.
    fn after(writes: usize) -> Around<Self> {
        let left = Arc::new(AtomicUsize::new(writes));
        Around::new(Arc::new(MemorySaver::new()), Self { left })
    }

    fn set(&self, writes: usize) {
        self.left.store(writes, Ordering::SeqCst);
    }

    fn mend(&self) {
        self.set(usize::MAX);
    }
}

#[async_trait]
impl Way for Failing {
    async fn write(
        &self,
        to: &dyn Checkpointer,
        writes: Vec<Write>,
    ) -> Result<(), CheckpointError> {
        for write in writes {
            let left =
                self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1));
            left.map_err(|_| CheckpointError::Storage(Arc::new(Broken("disk".into()))))?;
            to.write(vec![write]).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_storage_that_fails_fails_the_run_and_leaves_what_was_stored() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for writes in 0..9 {
            let saver = Failing::after(writes);
            let graph = diamond().checkpointer(saver.clone()).compile().unwrap();
            let options = RunOptions::new().durability(durability);
            let thread = graph.thread("t", World::default()).with(options);
            let result = thread.run(Trail::default()).await;
            saver.way().mend();
            let case = format!("{durability:?} after {writes} writes");
            match result {
                Err(RunError::Checkpoint(CheckpointError::Storage(_))) => {}
                Ok(exit) if durability == Durability::Exit && writes > 0 => {
                    assert!(exit.is_done(), "{case}");
                }
                other => panic!("{case}: {other:?}"),
            }
            // Whatever was stored is a thread that can go on, or none at all.
            let exit = match thread.state().await.unwrap() {
                Some(_) => thread.proceed().await.unwrap(),
                None => thread.run(Trail::default()).await.unwrap(),
            };
            assert_eq!(exit.state(), &trail(["a", "b", "c", "d"]), "{case}");
        }
    }
}

#[tokio::test]
async fn a_visit_finds_nothing_of_a_run_that_was_lost() {
    async fn ask(_: &Trail, cx: &Context) -> Result<TrailUpdate, NodeError> {
        cx.interrupt::<bool>("go on?")?;
        Ok(been("asked"))
    }
    async fn note(_: &Trail) -> TrailUpdate {
        been("noted")
    }
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for writes in 0..9 {
            let saver = Failing::after(usize::MAX);
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
            let thread = graph.thread("t", ()).with(RunOptions::new().durability(durability));
            assert!(!thread.run(Trail::default()).await.unwrap().is_done());

            saver.way().set(writes);
            let lost = thread.resume(true).await;
            saver.way().mend();
            let mut exit = match lost {
                Ok(exit) => exit,
                Err(_) => thread.resume(true).await.unwrap(),
            };
            while !exit.is_done() {
                exit = thread.resume(true).await.unwrap();
            }
            let expect = trail(["asked", "noted", "asked"]);
            assert_eq!(exit.state(), &expect, "{durability:?} after {writes} writes");
        }
    }
}

#[tokio::test]
async fn a_thread_that_was_written_to_meanwhile_is_not_forked() {
    for durability in [Durability::Sync, Durability::Async] {
        let (world, saver) = (World::default(), MemorySaver::new());
        let graph = chain(["a", "b"]).checkpointer(saver.clone()).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", world.clone()).with(options);
        world.hold("a");
        let running = thread.clone();
        let run = tokio::spawn(async move { running.run(Trail::default()).await });
        world.started("a").await;
        let theirs = intrude(&saver).await;
        world.release("a");
        let error = run.await.unwrap().unwrap_err();
        let moved = matches!(&error, RunError::Checkpoint(CheckpointError::HeadMoved { .. }));
        assert!(moved, "{durability:?}: {error}");
        assert_eq!(thread.state().await.unwrap().unwrap().id, theirs);
        assert_eq!(path_of(&thread).await, ["theirs"]);
    }
}

/// Writes a checkpoint beside the run, as a process whose lease has expired might.
async fn intrude(saver: &MemorySaver) -> CheckpointId {
    let head = loop {
        // Asynchronous checkpoints are stored a moment later.
        match saver.get(&Lookup::head("t", "")).await.expect("readable") {
            Some(head) if head.header.step == 0 => break head,
            _ => tokio::task::yield_now().await,
        }
    };
    let mut place = head.place.clone();
    place.id = CheckpointId::after(Some(head.place.id));
    let theirs = NewCheckpoint {
        place: place.clone(),
        expected_head: Some(head.place.id),
        base: Some(head.place.id),
        header: head.header,
        cursor: head.cursor,
        changes: vec![("path".to_owned(), Change::Set(serde_json::json!(["theirs"])))],
    };
    saver.put(theirs).await.expect("the head is the expected one");
    place.id
}

#[tokio::test]
async fn graphs_share_a_checkpointer() {
    let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
    let build = || chain(["a"]).shared_checkpointer(saver.clone()).compile().unwrap();
    let first = build().thread("t", World::default());
    assert!(first.run(Trail::default()).await.unwrap().is_done());
    let second = build().thread("t", World::default());
    assert_eq!(second.run(Trail::default()).await.unwrap().state(), &trail(["a", "a"]));
    saver.copy_thread("t", "copy").await.unwrap();
    saver.delete_thread("t").await.unwrap();
    assert!(second.state().await.unwrap().is_none());
    let copy = build().thread("copy", World::default());
    copy.update_state(been("x"), AsNode::Last).await.unwrap();
    assert_eq!(path_of(&copy).await, ["a", "a", "x"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_on_several_threads_keep_their_order() {
    async fn slow(item: Item) -> TrailUpdate {
        for _ in 0..(item.0 * 7) % 11 {
            tokio::task::yield_now().await;
        }
        been(&item.0.to_string())
    }
    let graph = StateGraph::<Trail>::new()
        .node(slow)
        .branch(START, |_: &Trail| (0..200).map(|it| send(slow, Item(it))).collect::<Vec<_>>())
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let expect: Vec<_> = (0..200).map(|it| it.to_string()).collect();
    let exit = graph.thread("t", ()).run(Trail::default()).await.unwrap();
    assert_eq!(exit.state().path, expect);
}
