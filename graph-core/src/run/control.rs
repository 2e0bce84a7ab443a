//! Stopping a run from outside.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Stops a run from outside: at once, or at the end of its step. Clones control the same run.
#[derive(Clone, Debug, Default)]
pub struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    cancelled: AtomicBool,
    draining: AtomicBool,
    wake: Notify,
}

impl Control {
    /// A control for one run: hand it over with [`RunOptions::control`](crate::RunOptions::control).
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run where it stands; the thread can go on from the last step that was stored, which with
    /// [`Durability::Exit`](crate::Durability::Exit) is the last run's.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Release);
        self.shared.wake.notify_waiters();
    }

    /// Lets the run stop at the end of the step it is in; the thread can go on from there.
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
