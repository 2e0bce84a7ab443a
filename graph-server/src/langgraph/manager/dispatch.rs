//! Claims runs from the queue and executes them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore},
    time::timeout,
};

use super::Manager;
use crate::langgraph::{retry::RETRY_DELAY, storage::Next};

/// Longest wait for a change of the queue. The task ends after this time if the manager was dropped.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Executes runs until the manager is dropped or shut down. `changed` is notified when a run may be available.
pub(super) async fn run(manager: Weak<Manager>, changed: Arc<Notify>, slots: Arc<Semaphore>) {
    // The semaphore is never closed.
    while let Ok(slot) = slots.clone().acquire_owned().await {
        let Some(manager) = manager.upgrade() else { return };
        if manager.is_shutting_down() {
            return;
        }
        let wait = match manager.queue.claim_next().await {
            Ok(Next::Run(claim)) => {
                tokio::spawn(async move {
                    manager.execute(claim).await;
                    drop(slot);
                });
                continue;
            }
            Ok(Next::Wait(wait)) => wait.unwrap_or(MAX_WAIT).min(MAX_WAIT),
            Err(error) => {
                tracing::error!(%error, "cannot claim a run; retrying");
                RETRY_DELAY
            }
        };
        drop((slot, manager));
        let _ = timeout(wait, changed.notified()).await;
    }
}
