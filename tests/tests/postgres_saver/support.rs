//! Helpers for the tests of the saver.

use std::time::{Duration, Instant};

use checkpoint_testkit::sample::next_checkpoint;
use graph_core::checkpoint::{
    Change, Checkpoint, CheckpointError, CheckpointId, Checkpointer, Lease, Lookup, NewCheckpoint,
    TaskEvent, TaskId, TaskRecord,
};
use graph_store::PostgresSaver;
use graph_tests::postgres::Server;
use serde_json::{Value, json};
use test_support::DEADLINE;

pub(crate) async fn saver(url: &str) -> PostgresSaver {
    PostgresSaver::connect(url).await.unwrap()
}

pub(crate) async fn put(
    saver: &PostgresSaver,
    step: NewCheckpoint,
) -> Result<CheckpointId, CheckpointError> {
    let id = step.key.id;
    saver.put(step).await.map(|()| id)
}

pub(crate) async fn head(saver: &PostgresSaver, thread: &str) -> Checkpoint {
    saver.get(&Lookup::head(thread, "")).await.unwrap().unwrap()
}

/// Builds a checkpoint that appends one item to the field `log`.
pub(crate) fn step(thread: &str, head: Option<CheckpointId>) -> NewCheckpoint {
    next_checkpoint(thread, head, vec![extend(json!("x"))])
}

pub(crate) fn extend(item: Value) -> (String, Change) {
    ("log".to_owned(), Change::Extend(vec![item]))
}

pub(crate) fn done(value: impl Into<Value>) -> TaskRecord {
    let event = TaskEvent::Effect { key: "call".to_owned(), result: value.into() };
    TaskRecord { task: TaskId::from_parts(&[b"task"]), node: "node".to_owned(), event }
}

/// Leases a thread. Retries, because the server detects the end of a session with a delay.
pub(crate) async fn lease_when_free(saver: &PostgresSaver, thread: &str) -> Lease {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match saver.lease(thread).await {
            Err(CheckpointError::Busy { .. }) => {
                assert!(Instant::now() < deadline, "the lease of `{thread}` is not released");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            answer => return answer.unwrap(),
        }
    }
}

/// Makes the server execute a statement before it inserts each link.
pub(crate) fn on_every_link(server: &Server, url: &str, statement: &str) {
    let function = format!(
        "CREATE FUNCTION hook() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN {statement}; RETURN NEW; END $$;
         CREATE TRIGGER hook BEFORE INSERT ON graph_store.link
         FOR EACH ROW EXECUTE FUNCTION hook()"
    );
    server.sql(url, &function);
}

pub(crate) async fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "the condition did not become true");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
