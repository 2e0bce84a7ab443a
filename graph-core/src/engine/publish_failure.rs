//! Publish: reports failed attempts and failed tasks. Needs only the task, so a task can report its own failure.

use std::{sync::atomic::Ordering, time::Duration};

use crate::{context::task::TaskContext, error::NodeError, stream::EventKind};

/// An empty update event. As in LangGraph, it is sent for a task that was resumed and then failed.
const EMPTY_UPDATE: EventKind =
    EventKind::Update { writes: Vec::new(), gotos: Vec::new(), cached: false, handler: false };

/// Reports that an attempt failed and will be retried after `wait`.
pub(super) async fn publish_retry(task: &TaskContext, error: &NodeError, wait: Duration) {
    if task.scope.events.is_some() {
        let attempt = task.attempt.load(Ordering::Relaxed);
        task.send_event(EventKind::Retried { attempt, error: error.to_string(), wait }).await;
    }
}

/// Reports the failure of a task. `handler` is true if the task is an error handler.
pub(super) async fn publish_failure(task: &TaskContext, error: &str, handler: bool) {
    if task.scope.events.is_none() {
        return;
    }
    if task.was_resumed() {
        task.send_event(EMPTY_UPDATE).await;
    }
    let kind = EventKind::TaskFinished {
        writes: Vec::new(),
        error: Some(error.to_owned()),
        interrupts: Vec::new(),
        gotos: Vec::new(),
        handler,
    };
    task.send_event(kind).await;
}
