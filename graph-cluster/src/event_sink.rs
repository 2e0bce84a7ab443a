//! Stores the events of a run while it executes.

use graph_core::Event;
use tokio::time::sleep;

use crate::{
    error::ClusterError,
    leg_end::LegEnd,
    limits::{MAX_BATCH_BYTES, RETRY_DELAY},
    store::{Claim, RunEvent, RunStore},
};

/// Stores the events of one claim in order.
pub(crate) struct EventSink<'a> {
    store: &'a RunStore,
    claim: &'a Claim,
    next_seq: i64,
}

impl<'a> EventSink<'a> {
    /// Creates a sink that continues after the stored events of the run.
    pub(crate) async fn open(store: &'a RunStore, claim: &'a Claim) -> Result<Self, ClusterError> {
        Ok(Self { store, claim, next_seq: store.next_seq(&claim.request.id).await? })
    }

    /// Stores events. If they cannot be stored, the error states how the leg ends.
    ///
    /// Waits while the database is unreachable. The worker's heartbeats then fail too, and end the leg when its lease
    /// expires.
    pub(crate) async fn store(&mut self, events: Vec<Event>) -> Result<(), LegEnd> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for event in events {
            let event = RunEvent::new(self.claim.fence, event);
            let body = event.body(&self.claim.request.id).map_err(|it| cannot_store(&it))?;
            if bytes + body.len() > MAX_BATCH_BYTES && !batch.is_empty() {
                self.append(&std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
            bytes += body.len();
            batch.push(body);
        }
        self.append(&batch).await
    }

    async fn append(&mut self, bodies: &[String]) -> Result<(), LegEnd> {
        loop {
            match self.store.append_events(self.claim, self.next_seq, bodies).await {
                Ok(true) => {
                    self.next_seq += bodies.len() as i64;
                    return Ok(());
                }
                Ok(false) => return Err(LegEnd::Lost),
                Err(error @ ClusterError::Database(_)) => {
                    tracing::warn!(run = self.claim.request.id, %error, "cannot store events");
                    sleep(RETRY_DELAY).await;
                }
                Err(error) => return Err(cannot_store(&error)),
            }
        }
    }
}

fn cannot_store(error: &ClusterError) -> LegEnd {
    LegEnd::failed(format!("cannot store the events of the run: {error}"))
}
