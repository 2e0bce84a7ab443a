//! Stores the events of a run while it executes.

use std::time::Duration;

use graph_core::Event;
use tokio::time::sleep;

use crate::{
    error::ClusterError,
    store::{Claim, RunEvent, RunStore},
};

/// Delay between attempts to reach the database.
const RETRY_DELAY: Duration = Duration::from_millis(50);

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

    /// Stores events. Returns `false` if another worker has claimed the run. While the database fails, waits: the lease
    /// then runs out and ends the leg.
    pub(crate) async fn store(&mut self, events: Vec<Event>) -> bool {
        let fence = self.claim.fence;
        let events: Vec<_> = events.into_iter().map(|it| RunEvent::new(fence, it)).collect();
        loop {
            match self.store.append_events(self.claim, self.next_seq, &events).await {
                Ok(held) => {
                    self.next_seq += events.len() as i64;
                    return held;
                }
                Err(error) => {
                    tracing::warn!(run = self.claim.request.id, %error, "cannot store events");
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }
}
