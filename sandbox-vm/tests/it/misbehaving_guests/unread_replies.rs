//! Tests that replies to guests which do not read them do not accumulate on the host.

use std::{sync::atomic::AtomicUsize, time::Duration};

use checkpoint_testkit::sample::next_checkpoint;
use graph_core::{
    Checkpointer, MemorySaver,
    checkpoint::{
        Checkpoint, CheckpointError, CheckpointWrite, HistoryQuery, Keep, Lease, Lookup,
        NewCheckpoint, PruneStats,
    },
};

use super::*;

#[tokio::test(start_paused = true)]
async fn guest_that_does_not_read_blocks_no_caller() {
    let (sandboxes, _dir, _) = open(Script { reads: Reads::Hello, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    // Send more commands than fit into the channel and the host's outbox.
    let mut commands = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let sandbox = sandbox.clone();
        commands.spawn(async move { sandbox.fs().write("x", vec![0; 100 << 10]).await });
    }
    commands.spawn(async move { sandbox.run_graph(GraphRun::new("g")).await.map(drop) });
    let all = tokio::time::timeout(Duration::from_secs(90), commands.join_all());
    let outcomes = all.await.expect("a caller still waits after the reply timeout");
    assert!(outcomes.iter().all(|it| matches!(it, Err(Error::Timeout { .. }))), "{outcomes:?}");
}

/// Asserts that a guest is terminated if it makes these calls for a graph run and does not read the replies.
async fn assert_terminated_for_not_reading(answer: fn(u64) -> Vec<u8>, run: GraphRun) {
    let script = Script { answer, reads: Reads::FirstCommand, ..Script::SILENT };
    let (sandboxes, _dir, killed) = open(script).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let error = sandbox.run_graph(run).await.unwrap().finish().await.unwrap_err();
    let expected = TerminationReason::ProtocolViolation(ProtocolError::UnexpectedMessage(
        "it does not read its replies",
    ));
    assert!(matches!(&error, Error::Terminated { reason, .. } if *reason == expected), "{error}");
    assert!(killed.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn unread_checkpoints_do_not_accumulate() {
    let saver = Arc::new(CountingSaver::default());
    saver.inner.put(checkpoint_of(30 << 20)).await.unwrap();
    let calls = |id| {
        let get = |nth| host_request(id, nth, HostCall::Get(Lookup::head("t", "")));
        (0..500).flat_map(get).collect()
    };
    assert_terminated_for_not_reading(calls, GraphRun::new("g").thread("t", saver.clone())).await;
    // The outbox has space for four of these checkpoints. Another one may be partially written to the channel, and two
    // more may wait for space in the outbox.
    let reads = saver.reads.load(Ordering::SeqCst);
    assert!((2..=8).contains(&reads), "{reads} checkpoints of 30 MiB were read");
}

#[tokio::test(start_paused = true)]
async fn calls_are_not_made_while_answers_are_unread() {
    let calls = |id| (0..1000).flat_map(|nth| host_call(id, nth, Value::Null)).collect();
    let long = async |_: String, _: Value| Ok(json!("x".repeat(32 << 10)));
    // The host reserves 8 MiB for each answer and at most 256 MiB in total, so at most 32 calls can be in progress.
    let policy = CallPolicy::new(long).allow("slow").max_answer(8 << 20);
    assert_terminated_for_not_reading(calls, GraphRun::new("g").call_policy(policy.clone())).await;
    // The host makes about 128 calls. About 32 answers fit into the channel, 64 wait in the outbox, and 32 wait for
    // space in the outbox.
    let made = policy.calls_made();
    assert!((96..=160).contains(&made), "{made} calls were made");
}

/// A paused guest must not be terminated for not reading, because it cannot read.
#[tokio::test(start_paused = true)]
async fn paused_guest_is_not_terminated_for_not_reading() {
    let calls = |id| {
        let get = |nth| host_request(id, nth, HostCall::Get(Lookup::head("t", "")));
        (0..20).flat_map(get).collect()
    };
    let saver = Arc::new(CountingSaver::default());
    saver.inner.put(checkpoint_of(30 << 20)).await.unwrap();
    let script = Script { answer: calls, reads: Reads::FirstCommand, ..Script::SILENT };
    let (sandboxes, _dir, _) = open(script).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let running = sandbox.run_graph(GraphRun::new("g").thread("t", saver)).await.unwrap();
    sandbox.pause().await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(sandbox.termination_reason().is_none());
    assert!(matches!(sandbox.ping().await, Err(Error::Paused { .. })));
    assert!(sandbox.termination_reason().is_none());
    sandbox.resume().await.unwrap();
    let error = running.finish().await.unwrap_err();
    assert!(matches!(error, Error::Terminated { .. }), "{error}");
}

/// An in-memory checkpointer that counts reads. The guests in these tests only read, so nothing else is implemented.
#[derive(Debug, Default)]
struct CountingSaver {
    inner: MemorySaver,
    reads: AtomicUsize,
}

#[async_trait]
impl Checkpointer for CountingSaver {
    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.get(at).await
    }

    async fn lease(&self, _: &str) -> Result<Lease, CheckpointError> {
        unreachable!()
    }

    async fn write(&self, _: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        unreachable!()
    }

    async fn list(&self, _: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
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

    async fn prune(&self, _: &[String], _: Keep) -> Result<PruneStats, CheckpointError> {
        unreachable!()
    }
}

fn host_request(run: u64, nth: u64, call: HostCall) -> Vec<u8> {
    encode(Kind::Request, nth, &rmp_serde::to_vec_named(&HostCallRequest { run, call }).unwrap())
}

/// Returns a checkpoint with a size of about `bytes` bytes.
fn checkpoint_of(bytes: usize) -> NewCheckpoint {
    let mut checkpoint = next_checkpoint("t", None, Vec::new());
    checkpoint.header.metadata.insert("text".to_owned(), "x".repeat(bytes).into());
    checkpoint
}
