//! A run that is active or ended recently.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::langgraph::{
    cancellation::Cancellation,
    records::{Run, RunStatus},
    stream::{
        buffer::{BufferReader, EventBuffer},
        encode::Selection,
        item::{Body, RunFacts},
        protocol::AgentTree,
        sse::{EventId, RunEvents},
    },
    view::View,
};
use graph_core::RunControl;
use serde_json::Value;

/// A run that is active or ended recently.
#[derive(Debug)]
pub(in crate::langgraph) struct LiveRun {
    pub(in crate::langgraph) facts: Arc<RunFacts>,
    /// Owner of the run.
    pub(super) owner: Option<String>,
    pub(in crate::langgraph) buffer: Arc<EventBuffer>,
    /// Events selected by the request that created the run.
    pub(in crate::langgraph) selection: Selection,
    pub(super) control: RunControl,
    /// Number of this process's claim on the run plus one, or 0 if this process has not claimed the run.
    claim: AtomicI64,
    /// Whether this process has lost its claim, so that another replica may execute the run.
    is_lost: AtomicBool,
    /// Whether this process is removing the run, which has ended, from the queue.
    is_finishing: AtomicBool,
    /// Time at which the lease on the run was last extended.
    renewed_at: Mutex<Instant>,
    /// Locked while events of another replica are read.
    pub(super) following: tokio::sync::Mutex<()>,
    /// Whether another replica has announced events that were not read yet.
    pub(super) is_stale: AtomicBool,
    cancelled: Mutex<Option<Cancellation>>,
    /// Response to clients that wait for the run: the final values, or an error.
    output: OnceLock<Value>,
}

impl LiveRun {
    pub(super) fn new(run: &Run, owner: Option<String>, counter: Arc<AtomicU64>) -> Self {
        let facts = RunFacts {
            run: run.run_id,
            thread: run.thread_id,
            assistant: run.assistant_id,
            graph: run.kwargs.graph_id.clone(),
            name: run.kwargs.config.run_name.as_ref().unwrap_or(&run.kwargs.graph_id).clone(),
            tags: run.kwargs.config.tags.clone(),
            attempt: AtomicU32::new(run.attempt + u32::from(run.status == RunStatus::Pending)),
            metadata: run.metadata.clone(),
        };
        Self {
            facts: Arc::new(facts),
            owner,
            buffer: Arc::new(EventBuffer::new(counter)),
            selection: Selection {
                modes: run.kwargs.stream_mode.clone(),
                subgraphs: run.kwargs.subgraphs,
            },
            control: RunControl::new(),
            claim: AtomicI64::new(0),
            is_lost: AtomicBool::new(false),
            is_finishing: AtomicBool::new(false),
            renewed_at: Mutex::new(Instant::now()),
            following: tokio::sync::Mutex::default(),
            is_stale: AtomicBool::new(false),
            cancelled: Mutex::default(),
            output: OnceLock::new(),
        }
    }

    /// Requests the cancellation of the run. The first request wins, except that a rollback overrides an interrupt.
    pub(super) fn request_cancel(&self, cancellation: Cancellation) {
        let mut cancelled = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        if cancellation.overrides(cancelled.as_ref()) {
            *cancelled = Some(cancellation);
        }
        drop(cancelled);
        self.control.cancel();
    }

    /// Returns the requested cancellation, if there is one.
    pub(super) fn cancellation(&self) -> Option<Cancellation> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Marks the run as executed by this process, under the claim with this number.
    pub(super) fn set_executing(&self, fence: i64) {
        self.set_renewed(Instant::now());
        self.claim.store(fence + 1, Ordering::Release);
    }

    /// Sets the time at which the lease on the run was last extended.
    pub(super) fn set_renewed(&self, at: Instant) {
        *self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Returns the time at which the lease on the run was last extended.
    pub(super) fn renewed_at(&self) -> Instant {
        *self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the run as being removed from the queue.
    pub(super) fn set_finishing(&self) {
        self.is_finishing.store(true, Ordering::Release);
    }

    /// Returns whether the run is being removed from the queue.
    pub(super) fn is_finishing(&self) -> bool {
        self.is_finishing.load(Ordering::Acquire)
    }

    /// Marks the claim on the run as lost, and stops the execution.
    pub(super) fn set_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.control.cancel();
    }

    /// Returns whether this process has lost its claim on the run.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Returns the number of this process's claim, even if the claim was lost.
    pub(super) fn latest_claim(&self) -> Option<i64> {
        let claim = self.claim.load(Ordering::Acquire);
        (claim > 0).then(|| claim - 1)
    }

    /// Returns the number of this process's claim, if it executes the run.
    pub(super) fn claim(&self) -> Option<i64> {
        self.latest_claim().filter(|_| !self.is_lost())
    }

    /// Returns whether this process executes the run.
    pub(super) fn is_executing(&self) -> bool {
        self.claim().is_some()
    }

    /// Sets the output and ends the event streams. Does nothing if the run has already ended.
    pub(super) fn end(&self, output: Value) {
        let _ = self.output.set(output);
        self.buffer.close();
    }

    /// Waits for the output of the run. Returns `None` if the server is shutting down and the run will continue later.
    pub(in crate::langgraph) async fn output(&self) -> Option<Value> {
        self.buffer.closed().await;
        self.output.get().cloned()
    }

    /// Returns whether the run has ended.
    pub(in crate::langgraph) fn has_ended(&self) -> bool {
        self.output.get().is_some()
    }

    /// Returns whether the run is visible to a client.
    pub(super) fn is_visible(&self, view: &View) -> bool {
        view.sees::<Run>(self.owner.as_deref(), &self.facts.metadata)
    }

    /// Returns whether the buffer contains all events of the run after the event with this number. The events before a
    /// restart of the server are lost, unless they were stored.
    pub(super) fn has_events_after(&self, number: u64) -> bool {
        self.buffer.first().is_none_or(|first| {
            let is_complete = matches!(first.body, Body::Started(_)) && self.facts.attempt() == 1;
            is_complete || first.seq <= number
        })
    }

    /// Returns the graphs of the run and their statuses.
    pub(in crate::langgraph) fn agent_tree(&self) -> AgentTree {
        // The buffer is complete before the run ends.
        let has_ended = self.has_ended();
        AgentTree::new(&self.facts, &self.buffer, has_ended)
    }

    /// Returns the events of the run after the event `seen`.
    pub(in crate::langgraph) fn events(
        &self,
        selection: Selection,
        seen: Option<EventId>,
    ) -> RunEvents {
        let reader = BufferReader::new(self.buffer.clone(), 0);
        RunEvents::new(reader, selection, self.facts.clone(), seen)
    }
}
