//! Stores the events of a run, so that other replicas, and the next process, can read them.

use std::{future::pending, sync::Arc};

use tokio::{sync::oneshot, task::JoinHandle};

use super::live_run::LiveRun;
use crate::langgraph::{
    error::ApiError,
    retry::retry,
    storage::{Claim, EventLog},
    stream::{buffer::BufferReader, item::Item},
};

/// Maximum number of events that are stored at once.
const BATCH: usize = 256;

/// Stores the events of a run while it executes.
pub(super) struct Recorder {
    task: JoinHandle<()>,
    done: oneshot::Sender<()>,
}

impl Recorder {
    /// Starts to store the events that are added from now on.
    pub(super) fn start(log: Arc<dyn EventLog>, claim: Claim, live: Arc<LiveRun>) -> Self {
        let reader = BufferReader::new(live.buffer.clone(), live.buffer.last_seq());
        let (done, is_done) = oneshot::channel();
        let task = tokio::spawn(record(log, claim, live, reader, is_done));
        Self { task, done }
    }

    /// Stores the remaining events.
    pub(super) async fn finish(self) {
        // The task has ended early if the run was lost.
        let _ = self.done.send(());
        let _ = self.task.await;
    }
}

async fn record(
    log: Arc<dyn EventLog>,
    claim: Claim,
    live: Arc<LiveRun>,
    mut reader: BufferReader,
    mut done: oneshot::Receiver<()>,
) {
    loop {
        let (items, is_last) = tokio::select! {
            biased;
            _ = &mut done => (reader.available(), true),
            items = reader.next() => {
                let is_last = items.is_none();
                (items.unwrap_or_default(), is_last)
            }
        };
        for batch in items.chunks(BATCH) {
            if !store(&*log, &claim, &live, batch).await {
                return;
            }
        }
        if is_last {
            return;
        }
    }
}

/// Stores events. Tries again after a failure, until this replica loses the run. Returns whether they were stored.
async fn store(log: &dyn EventLog, claim: &Claim, live: &LiveRun, items: &[Arc<Item>]) -> bool {
    let encode = |item: &Arc<Item>| match serde_json::to_string(&**item) {
        Ok(text) => Some((item.seq, text)),
        Err(error) => {
            tracing::error!(run = %claim.run, %error, "cannot encode an event of a run");
            None
        }
    };
    let events: Vec<_> = items.iter().filter_map(encode).collect();
    if !live.is_executing() {
        return false;
    }
    let should_retry = |error: &ApiError| {
        tracing::warn!(run = %claim.run, %error, "cannot store events; retrying");
        live.is_executing()
    };
    match retry(|| log.append(claim, &events), should_retry, pending()).await {
        Ok(true) => true,
        Ok(false) => {
            live.set_lost();
            false
        }
        // This replica has lost the run in the meantime.
        Err(_) => false,
    }
}
