//! Stores the messages and outcomes of all tasks that a worker executes. Those of several tasks are stored in one
//! statement, because a transaction with a notification costs more than the rows that it stores.

use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

use crate::{
    error::ClusterError,
    limits::{MAX_BATCH, MAX_BATCH_BYTES, RETRY_DELAY},
    store::{RunStore, TaskWrite},
};

/// A write, and the channel on which the execution of its task waits for the result.
struct PendingWrite {
    write: TaskWrite,
    reply: oneshot::Sender<Result<bool, ClusterError>>,
}

/// Passes writes to the task that stores them. The channel needs no limit, because each execution waits for the reply
/// to its write.
#[derive(Clone, Debug)]
pub(crate) struct TaskWriter(mpsc::UnboundedSender<PendingWrite>);

impl TaskWriter {
    /// Starts a task that stores writes until all clones of the writer are dropped.
    pub(crate) fn start(store: RunStore) -> Self {
        let (sender, mut pending) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(first) = pending.recv().await {
                store_batch(&store, next_batch(first, &mut pending)).await;
            }
        });
        Self(sender)
    }

    /// Stores a write. Waits while the database is unreachable. Returns `false` if another worker has claimed the task.
    pub(crate) async fn store(&self, write: TaskWrite) -> Result<bool, ClusterError> {
        let (reply, stored) = oneshot::channel();
        // If the receiver has ended, no reply arrives.
        let _ = self.0.send(PendingWrite { write, reply });
        stored.await.unwrap_or(Ok(false))
    }
}

/// Returns a write and the writes that are already waiting, up to the limits of a batch.
fn next_batch(
    first: PendingWrite,
    pending: &mut mpsc::UnboundedReceiver<PendingWrite>,
) -> Vec<PendingWrite> {
    let mut bytes = first.write.bytes();
    let mut batch = vec![first];
    while batch.len() < MAX_BATCH
        && bytes < MAX_BATCH_BYTES
        && let Ok(next) = pending.try_recv()
    {
        bytes += next.write.bytes();
        batch.push(next);
    }
    batch
}

/// Stores writes. If the database rejects the statement, stores each write separately, so that only the task with the
/// invalid write fails.
async fn store_batch(store: &RunStore, batch: Vec<PendingWrite>) {
    let Err((batch, _)) = store_together(store, batch).await else { return };
    for pending in batch {
        let Err((rejected, error)) = store_together(store, vec![pending]).await else { continue };
        if let Some(pending) = rejected.into_iter().next() {
            // The execution may have been aborted.
            let _ = pending.reply.send(Err(error));
        }
    }
}

/// Stores writes in one statement, and replies to their executions. Waits while the database is unreachable. Returns
/// the writes if the database rejects the statement.
async fn store_together(
    store: &RunStore,
    mut batch: Vec<PendingWrite>,
) -> Result<(), (Vec<PendingWrite>, ClusterError)> {
    loop {
        // Drop the writes of executions that were aborted.
        batch.retain(|it| !it.reply.is_closed());
        if batch.is_empty() {
            return Ok(());
        }
        let writes: Vec<&TaskWrite> = batch.iter().map(|it| &it.write).collect();
        match store.write_tasks(&writes).await {
            Ok(held) => {
                for (pending, is_held) in batch.into_iter().zip(held) {
                    // The execution may have been aborted.
                    let _ = pending.reply.send(Ok(is_held));
                }
                return Ok(());
            }
            Err(error @ ClusterError::Database(_)) => {
                tracing::warn!(%error, "cannot store messages of tasks; retrying");
                sleep(RETRY_DELAY).await;
            }
            Err(error) => return Err((batch, error)),
        }
    }
}
