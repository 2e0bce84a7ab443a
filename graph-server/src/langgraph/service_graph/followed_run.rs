//! A run of a service that a node follows.

use graph_core::{Context, NodeError};
use serde_json::Value;

use crate::{
    run::Status,
    service::{ReadOutcome, Service},
};

/// A run of a service that a node follows. If the node is cancelled or fails while the run executes, the run is cancelled.
pub(super) struct FollowedRun {
    service: Service,
    id: String,
    /// Whether dropping this value cancels the run.
    cancel_on_drop: bool,
}

impl FollowedRun {
    pub(super) fn new(service: &Service, id: String) -> Self {
        Self { service: service.clone(), id, cancel_on_drop: false }
    }

    /// Sends the events of the run to the graph, until the run has ended or waits for an answer. `after` is the number of
    /// the last event that was sent before. Returns the status of the run and the number of its last event.
    ///
    /// If the run has stopped, and was not `resumed` by this execution of the node, it is resumed first.
    pub(super) async fn follow(
        &mut self,
        after: u64,
        resumed: bool,
        cx: &Context,
    ) -> Result<(Status, u64), NodeError> {
        self.cancel_on_drop = true;
        let run = self.service.get(&self.id).await?;
        if !resumed && matches!(run.status, Status::Cancelled | Status::Error) {
            self.service.resume(&self.id, run.resume_args).await?;
        }
        let mut last = after;
        let mut reader = self.service.read_events(&self.id, after).await?;
        let status = loop {
            match reader.next().await? {
                ReadOutcome::Events(events) => {
                    for event in events {
                        cx.emit(serde_json::from_str::<Value>(&event.data)?).await;
                        last = event.seq;
                    }
                }
                ReadOutcome::End(status) => break status,
                ReadOutcome::ShuttingDown => {
                    // The next server continues the run, and executes the node again.
                    self.cancel_on_drop = false;
                    std::future::pending::<()>().await;
                }
            }
        };
        self.cancel_on_drop = false;
        match status {
            Status::Error => {
                let error = self.service.get(&self.id).await?.error;
                let error = error.unwrap_or_else(|| format!("run `{}` failed", self.id));
                Err(NodeError::terminal(error))
            }
            Status::Cancelled => {
                Err(NodeError::terminal(format!("run `{}` was cancelled", self.id)))
            }
            _ => Ok((status, last)),
        }
    }

    /// Resumes the run with an answer, unless another client has answered it. Returns whether it was resumed.
    pub(super) async fn answer(&mut self, args: Value) -> Result<bool, NodeError> {
        let status = self.service.get(&self.id).await?.status;
        let is_answered = status.is_active() || status == Status::Complete;
        if !is_answered {
            self.service.resume(&self.id, args).await?;
            self.cancel_on_drop = true;
        }
        Ok(!is_answered)
    }
}

impl Drop for FollowedRun {
    fn drop(&mut self) {
        if !self.cancel_on_drop {
            return;
        }
        let (service, run) = (self.service.clone(), std::mem::take(&mut self.id));
        tokio::spawn(async move {
            if let Err(error) = service.cancel(&run).await {
                tracing::warn!(run, %error, "cannot cancel a run");
            }
        });
    }
}
