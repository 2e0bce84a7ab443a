//! Guests that do not read: what they ask for does not pile up at the host.

use std::{
    collections::BTreeMap,
    sync::atomic::AtomicUsize,
    time::{Duration, SystemTime},
};

use graph_core::{
    Checkpointer, MemorySaver,
    checkpoint::{
        Checkpoint, CheckpointError, Cursor, Header, History, Keep, Lease, Lookup, NewCheckpoint,
        Place, Pruned, Source, TaskRecord,
    },
};
use serde_json::Map;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_read_holds_nobody_up() {
    let (sandboxes, _folder, _) = open(Script { hears: Hears::Greeting, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    // More orders than the channel and the host's queue can hold.
    let mut orders = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let sandbox = sandbox.clone();
        orders.spawn(async move { sandbox.fs().write("x", vec![0; 100 << 10]).await });
    }
    orders.spawn(async move { sandbox.run_graph(GraphRun::new("g")).await.map(drop) });
    let all = tokio::time::timeout(Duration::from_secs(90), orders.join_all());
    let outcomes = all.await.expect("somebody waits though the time for an answer is over");
    assert!(outcomes.iter().all(|it| matches!(it, Err(Error::NoAnswer { .. }))), "{outcomes:?}");
}

/// A graph whose guest asks this and reads nothing is taken down.
async fn taken_down_for_not_reading(answer: fn(u64) -> Vec<u8>, run: GraphRun) {
    let script = Script { answer, hears: Hears::FirstOrder, ..Script::SILENT };
    let (sandboxes, _folder, killed) = open(script).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let error = sandbox.run_graph(run).await.unwrap().finish().await.unwrap_err();
    let deaf = Gone::Protocol(ProtocolError::OutOfTurn("it does not read its answers"));
    assert!(matches!(&error, Error::Gone { why, .. } if *why == deaf), "{error}");
    assert!(killed.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn states_that_are_asked_for_and_not_read_do_not_pile_up() {
    let saver = Arc::new(Counted::default());
    saver.inner.put(state_of(30 << 20)).await.unwrap();
    let asks = |id| {
        let get = |nth| ask(id, nth, Wish::Get(Lookup::head("t", "")));
        (0..500).flat_map(get).collect()
    };
    taken_down_for_not_reading(asks, GraphRun::new("g").thread("t", saver.clone())).await;
    // Four wait to be written, one is half written, and two wait for room.
    let reads = saver.reads.load(Ordering::SeqCst);
    assert!((2..=8).contains(&reads), "{reads} states of 30 MiB");
}

#[tokio::test(start_paused = true)]
async fn calls_whose_answers_nobody_reads_are_not_made() {
    let asks = |id| (0..1000).flat_map(|nth| question(id, nth, Value::Null)).collect();
    let long = async |_: String, _: Value| Ok(json!("x".repeat(32 << 10)));
    // There is room for 32 answers that may be so large.
    let gate = Gate::new(long).allow("slow").max_answer(8 << 20);
    taken_down_for_not_reading(asks, GraphRun::new("g").gate(gate.clone())).await;
    // As many are in the channel, and 64 wait to be written.
    let made = gate.made();
    assert!((96..=160).contains(&made), "{made} calls");
}

/// While it is paused nobody expects it to read.
#[tokio::test(start_paused = true)]
async fn a_paused_guest_is_not_taken_for_a_deaf_one() {
    let asks = |id| {
        let get = |nth| ask(id, nth, Wish::Get(Lookup::head("t", "")));
        (0..20).flat_map(get).collect()
    };
    let saver = Arc::new(Counted::default());
    saver.inner.put(state_of(30 << 20)).await.unwrap();
    let script = Script { answer: asks, hears: Hears::FirstOrder, ..Script::SILENT };
    let (sandboxes, _folder, _) = open(script).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let running = sandbox.run_graph(GraphRun::new("g").thread("t", saver)).await.unwrap();
    sandbox.pause().await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(sandbox.gone().is_none());
    assert!(matches!(sandbox.ping().await, Err(Error::Paused { .. })));
    assert!(sandbox.gone().is_none());
    sandbox.resume().await.unwrap();
    let error = running.finish().await.unwrap_err();
    assert!(matches!(error, Error::Gone { .. }), "{error}");
}

/// Checkpoints in memory whose reading is counted. A guest that only reads needs nothing else.
#[derive(Debug, Default)]
struct Counted {
    inner: MemorySaver,
    reads: AtomicUsize,
}

#[async_trait]
impl Checkpointer for Counted {
    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.get(at).await
    }

    async fn lease(&self, _: &str) -> Result<Lease, CheckpointError> {
        unreachable!()
    }

    async fn put(&self, _: NewCheckpoint) -> Result<(), CheckpointError> {
        unreachable!()
    }

    async fn record(&self, _: &Place, _: Vec<TaskRecord>) -> Result<(), CheckpointError> {
        unreachable!()
    }

    async fn list(&self, _: &History) -> Result<Vec<Checkpoint>, CheckpointError> {
        unreachable!()
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        unreachable!()
    }

    async fn namespaces(&self, _: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        unreachable!()
    }

    async fn delete_thread(&self, _: &str) -> Result<(), CheckpointError> {
        unreachable!()
    }

    async fn delete_runs(&self, _: &[String]) -> Result<(), CheckpointError> {
        unreachable!()
    }

    async fn copy_thread(&self, _: &str, _: &str) -> Result<(), CheckpointError> {
        unreachable!()
    }

    async fn prune(&self, _: &[String], _: Keep) -> Result<Pruned, CheckpointError> {
        unreachable!()
    }
}

fn ask(run: u64, nth: u64, what: Wish) -> Vec<u8> {
    write(Kind::Request, nth, &rmp_serde::to_vec_named(&Ask { run, what }).unwrap())
}

/// A checkpoint with so many bytes.
fn state_of(bytes: usize) -> NewCheckpoint {
    let id = CheckpointId::next();
    let text = Value::from("x".repeat(bytes));
    NewCheckpoint {
        place: Place { thread: "t".to_owned(), namespace: String::new(), id },
        expected_head: None,
        base: None,
        header: Header {
            parent: None,
            origin: id,
            step: 0,
            source: Source::Loop,
            created_at: SystemTime::now(),
            run: "r".to_owned(),
            version: 1,
            parents: BTreeMap::new(),
            metadata: Map::from_iter([("text".to_owned(), text)]),
        },
        cursor: Cursor::default(),
        changes: Vec::new(),
    }
}
