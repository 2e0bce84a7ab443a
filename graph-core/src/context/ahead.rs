//! The parts of a task context that only tasks of eager graphs need.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::{
    checkpoint::id::CheckpointId,
    stream::{EventKind, EventOrigin, EventSender},
    sync::lock,
};

/// The checkpoint that tasks of an eager graph store their records under.
///
/// A task that runs ahead outlives the commits of earlier steps, so its context cannot contain the checkpoint. While a
/// checkpoint is being stored, records are stored both under it and under the previous checkpoint, because either of
/// them may be the newest one after a crash.
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
pub(crate) struct AheadContext {
    /// Events that are held back until the step starts. `None` once it has started.
    events: Mutex<Option<Vec<(EventOrigin, EventKind)>>>,
    reached: watch::Sender<bool>,
    calls: watch::Sender<WaitingCalls>,
    /// Number of tasks of the graph that wait for their step.
    waiting: Arc<watch::Sender<usize>>,
}

/// Counts and times the calls of one task that wait for the task's step.
#[derive(Default)]
struct WaitingCalls {
    count: usize,
    /// The time at which `count` became positive.
    since: Option<Instant>,
    /// Total time during which at least one call waited, up to the last time that `count` became zero.
    waited: Duration,
}

impl AheadContext {
    pub(crate) fn new(waiting: Arc<watch::Sender<usize>>) -> Self {
        Self {
            events: Mutex::new(Some(Vec::new())),
            reached: watch::Sender::new(false),
            calls: watch::Sender::default(),
            waiting,
        }
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

    /// Sends the events that were held back. Later events are sent immediately.
    pub(super) async fn release_events(&self, sender: Option<&EventSender>) {
        while let Some(held) = self.take_held() {
            for (origin, kind) in held {
                if let Some(sender) = sender {
                    sender.send(origin, kind).await;
                }
            }
        }
    }

    /// Lets the task start subgraphs.
    pub(super) fn reach_step(&self) {
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

    /// Waits until the step of the task is the current step. Returns `None` if it already is. Otherwise, the task
    /// counts as waiting until the returned value is dropped.
    pub(super) async fn wait_for_step(&self) -> Option<WaitingCall<'_>> {
        let mut reached = self.reached.subscribe();
        if *reached.borrow_and_update() {
            return None;
        }
        let waiting = WaitingCall::new(self);
        // The sender is a field of `self`, so it cannot be dropped while this method borrows `self`.
        let _ = reached.wait_for(|it| *it).await;
        Some(waiting)
    }

    /// Waits until no call of the task is waiting for the task's step. Returns the total time that the task has waited.
    pub(super) async fn time_waited(&self) -> Duration {
        let mut calls = self.calls.subscribe();
        let ended = calls.wait_for(|it| it.count == 0).await;
        ended.map_or(Duration::ZERO, |it| it.waited)
    }
}

/// Counts a call, and the task that makes it, as waiting until this guard is dropped.
pub(super) struct WaitingCall<'a>(&'a AheadContext);

impl<'a> WaitingCall<'a> {
    fn new(task: &'a AheadContext) -> Self {
        task.calls.send_modify(|it| {
            it.count += 1;
            if it.count == 1 {
                it.since = Some(Instant::now());
                task.waiting.send_modify(|it| *it += 1);
            }
        });
        Self(task)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.calls.send_modify(|it| {
            it.count -= 1;
            if it.count == 0 {
                it.waited += it.since.take().map_or(Duration::ZERO, |it| it.elapsed());
                self.0.waiting.send_modify(|it| *it -= 1);
            }
        });
    }
}
