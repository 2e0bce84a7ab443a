//! Starts the tasks that execute runs.

use std::sync::Arc;

use super::{Manager, dispatch, leases, replica};
use crate::langgraph::error::ApiResult;

impl Manager {
    /// Completes the work of an earlier process that was killed, and spawns the tasks that execute runs. They end when
    /// the manager is dropped.
    pub(in crate::langgraph) async fn start(self: &Arc<Self>) -> ApiResult<()> {
        if self.shared_events.is_none() {
            self.repair_threads().await?;
            self.take_over_webhooks();
        }
        let (changed, slots) = (self.queue.changed(), self.slots.clone());
        tokio::spawn(dispatch::run(Arc::downgrade(self), changed, slots));
        if let Some(shared) = &self.shared_events {
            tokio::spawn(replica::follow(Arc::downgrade(self), shared.notices()));
            tokio::spawn(leases::renew(Arc::downgrade(self), shared.clone()));
        }
        Ok(())
    }
}
