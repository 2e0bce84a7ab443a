//! Events of a task. A task that started before its step holds them back until the step starts.

use std::{sync::Arc, time::Duration};

use super::TaskContext;
use crate::stream::{EventKind, EventOrigin};

impl TaskContext {
    /// Sends an event of this task, if the stream's reader requested this kind of event. If the task started before its
    /// step, the event is held back.
    pub(crate) async fn send_event(&self, kind: EventKind) {
        let Some(sender) = self.scope.events.as_ref().filter(|it| it.accepts(kind.mode())) else {
            return;
        };
        let event = (self.event_origin(), kind);
        let event = match &self.ahead {
            None => Some(event),
            Some(ahead) => ahead.hold(event.0, event.1),
        };
        if let Some((origin, kind)) = event {
            sender.send(origin, kind).await;
        }
    }

    /// Like [`send_event`](Self::send_event), for the event with which the step starts the task.
    pub(crate) async fn send_start(&self, kind: EventKind) {
        if let Some(sender) = &self.scope.events {
            sender.send(self.event_origin(), kind).await;
        }
    }

    fn event_origin(&self) -> EventOrigin {
        EventOrigin {
            step: self.step.number,
            task: Some(self.id()),
            node: Some(Arc::from(self.node())),
            handled_task: self.handled_task(),
        }
    }

    /// Sends the events that were held back because the task started before its step.
    pub(crate) async fn release_events(&self) {
        if let Some(ahead) = &self.ahead {
            ahead.release_events(self.scope.events.as_ref()).await;
        }
    }

    /// Sends the events that were held back, and lets the task start subgraphs.
    pub(crate) async fn reach_step(&self) {
        self.release_events().await;
        if let Some(ahead) = &self.ahead {
            ahead.reach_step();
        }
    }

    /// Waits until the step of the task is the current step. The end of the wait is a heartbeat.
    pub(crate) async fn wait_for_step(&self) {
        if let Some(ahead) = &self.ahead {
            if let Some(_waiting) = ahead.wait_for_step().await {
                self.heartbeat();
            }
        }
    }

    /// Returns how long the task has waited for its step, once it no longer waits.
    pub(crate) async fn time_waited(&self) -> Duration {
        match &self.ahead {
            Some(ahead) => ahead.time_waited().await,
            None => Duration::ZERO,
        }
    }
}
