//! Reads the events of a run in order, from any starting point, until the run becomes inactive.

use std::{sync::Arc, time::Duration};

use super::{error::ServiceError, inner::Inner};
use crate::run::{RunEvent, Status};

/// Maximum number of events in one batch.
const MAX_EVENTS: usize = 64;
/// Maximum total size of the events in one batch, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// Reads the events of one run.
#[derive(Debug)]
pub struct EventReader {
    pub(super) inner: Arc<Inner>,
    pub(super) id: String,
    /// Sequence number of the last event that was read.
    pub(super) after: u64,
}

/// Result of [`EventReader::next`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The next events, in order.
    Events(Vec<RunEvent>),
    /// The run is inactive and all its events have been read.
    End(Status),
    /// The server is shutting down. The next server may resume the run.
    ShuttingDown,
}

impl EventReader {
    /// Waits for the next events or for the end of the run.
    pub async fn next(&mut self) -> Result<ReadOutcome, ServiceError> {
        loop {
            let active = self.inner.active(&self.id);
            // The status is read before the events. If it is inactive, the run has already stored all its events, so
            // the events that are read below are complete.
            let status = match &active {
                Some(_) => None,
                None => Some(self.inner.get(&self.id).await?.status),
            };
            let head = active.as_ref().map(|it| it.recent.watch());
            let mut events =
                match active.as_ref().and_then(|it| it.recent.after(self.after, MAX_EVENTS)) {
                    Some(events) => events,
                    None => self.inner.stored_events(&self.id, self.after, MAX_EVENTS).await?,
                };
            truncate_to_budget(&mut events);
            if let Some(last) = events.last() {
                self.after = last.seq;
                return Ok(ReadOutcome::Events(events));
            }
            let Some(mut head) = head else {
                let Some(status) = status else { continue };
                // If the status is active, the run was queued again after the lookup above, or it was preempted
                // because the server is shutting down.
                if !status.is_active() {
                    return Ok(ReadOutcome::End(status));
                }
                if self.inner.is_shutting_down() {
                    return Ok(ReadOutcome::ShuttingDown);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let after = self.after;
            tokio::select! {
                _ = head.wait_for(|it| it.last_seq > after || it.is_closed) => {}
                () = self.inner.wait_for_shutdown() => return Ok(ReadOutcome::ShuttingDown),
            }
        }
    }
}

/// Truncates the batch to `MAX_BYTES`, but always keeps at least one event.
fn truncate_to_budget(events: &mut Vec<RunEvent>) {
    let mut bytes = 0;
    let fit = events.iter().take_while(|it| {
        bytes += it.data.len();
        bytes <= MAX_BYTES
    });
    let fit = fit.count().max(1);
    events.truncate(fit);
}
