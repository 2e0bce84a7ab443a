//! Cancelling and draining a run.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Stops a run from outside, either immediately or at the end of its current step. Clones control the same run.
///
/// ```
/// use graph_core::{MemorySaver, RunControl, RunOptions, START, State, StateGraph};
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Counter { #[reduce(add)] value: u32 }
/// # async fn count(_: &Counter) -> CounterUpdate { Counter::update().value(1) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = StateGraph::<Counter>::new()
/// #     .node(count)
/// #     .edge(START, count)
/// #     .checkpointer(MemorySaver::new())
/// #     .compile()?;
/// let control = RunControl::new();
/// let options = RunOptions::new().control(control.clone());
/// // Usually called by another task, for example when the program shuts down.
/// control.drain();
/// let outcome = graph.thread("t", ()).with_options(options).run(Counter::default()).await?;
/// assert!(!outcome.is_done());
/// assert!(graph.thread("t", ()).proceed().await?.is_done());
/// # Ok(()) }
/// ```
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
        self.shared.wake.notify_waiters();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::Acquire)
    }

    /// Returns once the run is cancelled.
    pub async fn cancelled(&self) {
        self.wait_for(&self.shared.cancelled).await;
    }

    /// Returns once the run is drained.
    pub(crate) async fn drained(&self) {
        self.wait_for(&self.shared.draining).await;
    }

    async fn wait_for(&self, flag: &AtomicBool) {
        loop {
            let woken = self.shared.wake.notified();
            if flag.load(Ordering::Acquire) {
                return;
            }
            woken.await;
        }
    }
}
