//! A run that is active or ended recently.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use graph_core::RunControl;
use serde_json::Value;
use tokio::sync::Notify;

use super::cancellation::Cancellation;
use crate::langgraph::{
    records::Run,
    stream::{
        buffer::{BufferReader, EventBuffer},
        encode::Selection,
        item::RunFacts,
        sse::{EventId, RunEvents},
    },
};

/// A run that is active or ended recently.
#[derive(Debug)]
pub(in crate::langgraph) struct LiveRun {
    pub(in crate::langgraph) facts: Arc<RunFacts>,
    /// Owner of the run.
    pub(super) owner: Option<String>,
    pub(in crate::langgraph) buffer: Arc<EventBuffer>,
    /// Events that the request to create the run selected.
    pub(in crate::langgraph) selection: Selection,
    pub(super) control: RunControl,
    pub(super) started: AtomicBool,
    /// Notified on cancellation, to wake a run that waits for its start time.
    pub(super) wake: Notify,
    cancelled: Mutex<Option<Cancellation>>,
    result: OnceLock<RunResult>,
}

/// Result of a run.
#[derive(Debug, Clone)]
pub(in crate::langgraph) struct RunResult {
    /// Response to a client that waits for the run: the final values, or an error.
    pub(in crate::langgraph) output: Value,
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
            attempt: run.attempt + 1,
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
            started: AtomicBool::new(false),
            wake: Notify::new(),
            cancelled: Mutex::default(),
            result: OnceLock::new(),
        }
    }

    /// Requests the cancellation of the run. The first request wins, except that a rollback overrides an interrupt.
    pub(super) fn request_cancel(&self, cancellation: Cancellation) {
        let mut cancelled = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let overrides = match &*cancelled {
            None => true,
            Some(earlier) => earlier.action < cancellation.action,
        };
        if overrides {
            *cancelled = Some(cancellation);
        }
        drop(cancelled);
        self.control.cancel();
        self.wake.notify_one();
    }

    /// Returns the requested cancellation, if there is one.
    pub(super) fn cancellation(&self) -> Option<Cancellation> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::langgraph) fn has_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Sets the result and ends the event streams. Does nothing if the run has already ended.
    pub(super) fn end(&self, result: RunResult) {
        let _ = self.result.set(result);
        self.buffer.close();
    }

    /// Waits for the end of the run. Returns `None` if the server is shutting down and the run will continue later.
    pub(in crate::langgraph) async fn result(&self) -> Option<RunResult> {
        self.buffer.closed().await;
        self.result.get().cloned()
    }

    /// Returns whether the run has ended.
    pub(in crate::langgraph) fn has_ended(&self) -> bool {
        self.result.get().is_some()
    }

    /// Returns the events of the run after the event `seen`.
    pub(in crate::langgraph) fn events(
        &self,
        selection: Selection,
        seen: Option<EventId>,
    ) -> RunEvents {
        // The event `seen` itself is read again, because one buffered event can produce several wire events.
        let after = seen.map_or(0, |(seq, _)| seq.saturating_sub(1));
        let reader = BufferReader::new(self.buffer.clone(), after);
        RunEvents::new(reader, selection, self.facts.clone(), seen)
    }
}
