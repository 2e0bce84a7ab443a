//! The parts of a task context that only tasks of eager graphs need.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::{
    checkpoint::id::CheckpointId,
    stream::{EventKind, EventOrigin, EventSender},
    sync::lock,
};

/// The checkpoint that tasks of an eager graph store their records under.
///
/// A task that runs ahead outlives the commits of earlier steps, so its context cannot contain the checkpoint. While a
/// checkpoint is being stored, records are stored under both checkpoints, because a crash may leave either of them as
/// the newest one.
#[derive(Debug)]
pub(crate) struct RecordTarget(Mutex<(CheckpointId, Option<CheckpointId>)>);

impl RecordTarget {
    pub(crate) fn new(committed: CheckpointId) -> Self {
        Self(Mutex::new((committed, None)))
    }

    /// Returns the last committed checkpoint and, if there is one, the checkpoint that is being stored.
    pub(crate) fn get(&self) -> (CheckpointId, Option<CheckpointId>) {
        *lock(&self.0)
    }

    /// Adds the checkpoint that is being stored.
    pub(crate) fn begin(&self, next: CheckpointId) {
        lock(&self.0).1 = Some(next);
    }

    pub(crate) fn set(&self, committed: CheckpointId) {
        *lock(&self.0) = (committed, None);
    }
}

/// The state of a task that started before its step.
pub(crate) struct EarlyTask {
    /// Events that are held back until the step starts. `None` from then on.
    events: Mutex<Option<Vec<(EventOrigin, EventKind)>>>,
    reached: watch::Sender<bool>,
    /// Number of tasks of the graph that wait for their step.
    waiting: Arc<watch::Sender<usize>>,
}

impl EarlyTask {
    pub(crate) fn new(waiting: Arc<watch::Sender<usize>>) -> Self {
        Self { events: Mutex::new(Some(Vec::new())), reached: watch::Sender::new(false), waiting }
    }

    /// Holds an event back. Returns the event if the step has started.
    pub(super) fn hold(
        &self,
        origin: EventOrigin,
        kind: EventKind,
    ) -> Option<(EventOrigin, EventKind)> {
        match &mut *lock(&self.events) {
            Some(held) => {
                held.push((origin, kind));
                None
            }
            None => Some((origin, kind)),
        }
    }

    /// Sends the events that were held back, and lets the task start subgraphs. Later events are sent at once.
    pub(crate) async fn reach_step(&self, sender: Option<&EventSender>) {
        while let Some(held) = self.take_held() {
            for (origin, kind) in held {
                if let Some(sender) = sender {
                    sender.send(origin, kind).await;
                }
            }
        }
        self.reached.send_replace(true);
    }

    /// Returns held events. Stops holding events back if there are none.
    fn take_held(&self) -> Option<Vec<(EventOrigin, EventKind)>> {
        let mut events = lock(&self.events);
        match events.as_mut().map(std::mem::take) {
            Some(held) if !held.is_empty() => Some(held),
            _ => {
                *events = None;
                None
            }
        }
    }

    /// Waits until the step of the task is the current step.
    pub(super) async fn wait_for_step(&self) {
        let mut reached = self.reached.subscribe();
        if *reached.borrow_and_update() {
            return;
        }
        self.waiting.send_modify(|it| *it += 1);
        let _guard = Waiting(&self.waiting);
        // The sender is a field of `self`, so it cannot be dropped while this method borrows `self`.
        let _ = reached.wait_for(|it| *it).await;
    }
}

/// Counts a waiting task until it is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|it| *it -= 1);
    }
}
