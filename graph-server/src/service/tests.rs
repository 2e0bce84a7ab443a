//! Tests changes to a run that is ending: its last state is stored, but it is still in the map of active runs.

use std::{io, sync::atomic::Ordering};

use async_trait::async_trait;
use serde_json::json;

use super::{inner::ActiveRun, *};
use crate::runner::{EventSender, RunnerError, RunnerOutcome};

/// A runner whose runs all wait for an answer.
struct Asking;

#[async_trait]
impl Runner for Asking {
    async fn execute(&self, _: &RunInfo, _: &EventSender) -> Result<RunnerOutcome, RunnerError> {
        Ok(RunnerOutcome::Waiting)
    }

    fn events(&self, _: &str, _: u64, _: usize) -> io::Result<Vec<RunEvent>> {
        Ok(Vec::new())
    }
}

/// Opens a service with a run that waits for an answer and has not yet left the map of active runs.
async fn open_with_ending_run() -> Service {
    let registry = Registry::in_memory().unwrap();
    let service = Service::open(registry, Arc::new(Asking), Capacity::default()).await.unwrap();
    let run = NewRun { id: "a".into(), subject: "asking".into(), input: json!(null) };
    service.start(run).await.unwrap();
    wait_until_inactive(&service).await;
    let ending = Inner::insert(&mut service.inner.active_runs(), "a").unwrap();
    ending.is_ending.store(true, Ordering::SeqCst);
    service
}

async fn wait_until_inactive(service: &Service) {
    let active: Option<Arc<ActiveRun>> = service.inner.active("a");
    if let Some(active) = active {
        active.wait_until_inactive().await;
    }
}

/// Executes `change` while the run leaves the map of active runs, and returns its result.
async fn while_the_run_ends<T: Send + 'static>(
    service: &Service,
    change: impl Future<Output = T> + Send + 'static,
) -> T {
    let change = tokio::spawn(change);
    for _ in 0..100 {
        service.get("a").await.unwrap();
    }
    assert!(!change.is_finished(), "the run was changed while its last state was being stored");
    service.inner.remove("a");
    change.await.unwrap()
}

#[tokio::test]
async fn a_run_that_is_ending_can_be_resumed() {
    let service = open_with_ending_run().await;
    let resumed = {
        let service = service.clone();
        async move { service.resume("a", json!(1)).await }
    };
    assert_eq!(while_the_run_ends(&service, resumed).await.unwrap().status, Status::Queued);
}

#[tokio::test]
async fn a_run_that_is_ending_can_be_deleted() {
    let service = open_with_ending_run().await;
    let deleted = {
        let service = service.clone();
        async move { service.delete("a", || Ok::<_, ()>(())).await }
    };
    while_the_run_ends(&service, deleted).await.unwrap().unwrap();
    assert!(matches!(service.get("a").await, Err(ServiceError::UnknownRun(_))));
}

#[tokio::test]
async fn a_waiting_run_that_is_ending_can_be_cancelled() {
    let service = open_with_ending_run().await;
    let cancelled = {
        let service = service.clone();
        async move { service.cancel("a").await }
    };
    assert_eq!(while_the_run_ends(&service, cancelled).await.unwrap().status, Status::Cancelled);
}
