//! A run of a service that a node follows.

use graph_core::{Context, NodeError};
use serde_json::Value;

use crate::{
    run::Status,
    service::{ReadOutcome, Service, ServiceError},
};

/// A run of a service that a node follows. If the node is cancelled or fails while the run executes, the run is
/// cancelled.
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

    /// Sends the events of the run to the graph, until the run has ended or waits for an answer. `after` is the number
    /// of the last event that was sent before. Returns the status of the run and the number of its last event.
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
        match status.is_active() || status == Status::Complete {
            true => Ok(false),
            false => self.try_resume(args).await,
        }
    }

    /// Resumes the run, unless another client has resumed it since its status was read. Returns whether it was resumed.
    async fn try_resume(&mut self, args: Value) -> Result<bool, NodeError> {
        match self.service.resume(&self.id, args).await {
            Ok(_) => {
                self.cancel_on_drop = true;
                Ok(true)
            }
            Err(ServiceError::AlreadyActive(_) | ServiceError::Complete(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
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

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::{
        registry::Registry,
        run::{NewRun, RunEvent, RunInfo},
        runner::{EventSender, Runner, RunnerError, RunnerOutcome},
        service::Capacity,
    };

    /// A runner whose runs wait for an answer, and then execute until they are cancelled.
    struct Asking;

    #[async_trait]
    impl Runner for Asking {
        async fn execute(
            &self,
            run: &RunInfo,
            _: &EventSender,
        ) -> Result<RunnerOutcome, RunnerError> {
            match run.resume_args.is_null() {
                true => Ok(RunnerOutcome::Waiting),
                false => std::future::pending().await,
            }
        }

        fn events(&self, _: &str, _: u64, _: usize) -> io::Result<Vec<RunEvent>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn a_run_that_another_client_resumes_first_is_not_resumed_again() {
        let (registry, runner) = (Registry::in_memory().unwrap(), Arc::new(Asking));
        let service = Service::open(registry, runner, Capacity::default()).await.unwrap();
        let run = NewRun { id: "a".into(), subject: "asking".into(), input: Value::Null };
        service.start(run).await.unwrap();
        let mut reader = service.read_events("a", 0).await.unwrap();
        assert_eq!(reader.next().await.unwrap(), ReadOutcome::End(Status::Waiting));
        service.resume("a", json!("first")).await.unwrap();

        let mut run = FollowedRun::new(&service, "a".to_owned());
        assert!(!run.try_resume(json!("second")).await.unwrap());
        assert_eq!(service.get("a").await.unwrap().resume_args, json!("first"));
    }
}
