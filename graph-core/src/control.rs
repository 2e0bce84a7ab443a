//! Cancelling and draining a run.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Stops a run from outside, either immediately or at the end of its current step. Clones control the same run.
#[derive(Clone, Debug, Default)]
pub struct RunControl {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    cancelled: AtomicBool,
    draining: AtomicBool,
    wake: Notify,
}

impl RunControl {
    /// Creates a control for one run. Pass it to [`RunOptions::control`](crate::RunOptions::control).
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the run immediately. The thread can continue from its last stored checkpoint. With
    /// [`Durability::Exit`](crate::Durability::Exit), that checkpoint was stored by the previous run.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Release);
        self.shared.wake.notify_waiters();
    }

    /// Stops the run at the end of its current step. The thread can continue from there.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::Acquire)
    }

    /// Returns once the run is cancelled.
    pub(crate) async fn cancelled(&self) {
        loop {
            let woken = self.shared.wake.notified();
            if self.shared.cancelled.load(Ordering::Acquire) {
                return;
            }
            woken.await;
        }
    }
}
