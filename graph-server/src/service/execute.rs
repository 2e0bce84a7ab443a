//! Executes one active run: waits for a permit, calls the runner and stores the resulting state.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::watch;

use super::inner::{ActiveRun, Inner, Stop};
use crate::{
    run::{RunInfo, Status},
    runner::{EventSender, RunnerOutcome},
};

/// Delay between attempts to store a run's state.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The status of a run, with its error or result.
struct RunState {
    status: Status,
    error: Option<String>,
    outcome: Value,
}

impl RunState {
    fn new(status: Status) -> Self {
        Self { status, error: None, outcome: Value::Null }
    }

    fn failed(why: impl Into<String>) -> Self {
        Self { error: Some(why.into()), ..Self::new(Status::Error) }
    }
}

impl Inner {
    /// Executes the run in the background and removes it from the map of active runs when it becomes inactive.
    pub(super) fn spawn(self: &Arc<Self>, run: RunInfo, active: Arc<ActiveRun>) {
        let inner = self.clone();
        tokio::spawn(async move {
            let id = run.id.clone();
            if let Some(state) = inner.run(run, &active).await {
                tracing::info!(run = id, status = state.status.name(), "run became inactive");
                active.is_ending.store(true, Ordering::SeqCst);
                let _ = inner.store_state(&id, state).await;
            }
            inner.remove(&id);
        });
    }

    /// Stores the state of a run, and retries until this succeeds. Returns false if the server shuts down first; the
    /// run is then resumed when the server starts again. Readers and callers see the new state only after it is on
    /// disk.
    async fn store_state(&self, id: &str, state: RunState) -> bool {
        let state = Arc::new(state);
        loop {
            let (name, it) = (id.to_owned(), state.clone());
            let set = self.with_registry(move |registry| {
                registry.set_status(&name, it.status, it.error.as_deref(), &it.outcome)
            });
            let Err(problem) = set.await else { return true };
            tracing::error!(run = id, %problem, "cannot store the state of the run; retrying");
            tokio::select! {
                () = tokio::time::sleep(RETRY_INTERVAL) => {}
                () = self.wait_for_shutdown() => return false,
            }
        }
    }

    async fn run(&self, run: RunInfo, active: &ActiveRun) -> Option<RunState> {
        let mut stop = active.stop.subscribe();
        let permit = tokio::select! {
            biased;
            // A server that is shutting down does not start queued runs.
            () = self.wait_for_shutdown() => return None,
            permit = self.permits.clone().acquire_owned() => permit,
            reason = stop_requested(&mut stop) => return state_after(reason),
        };
        // The semaphore is never closed, so this never returns early.
        let _permit = permit.ok()?;
        if !self.store_state(&run.id, RunState::new(Status::Running)).await {
            return None;
        }
        let (runner, sender) = (self.runner.clone(), EventSender { recent: active.recent.clone() });
        // The runner gets a separate task, so that a panic fails only this run.
        let mut work = tokio::spawn(async move { runner.execute(&run, &sender).await });
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            reason = stop_requested(&mut stop) => {
                work.abort();
                // Wait until the runner's future has been dropped. After that, nothing executes the run.
                let _ = work.await;
                return state_after(reason);
            }
        };
        Some(match outcome {
            Ok(Ok(RunnerOutcome::Complete(outcome))) => {
                RunState { outcome, ..RunState::new(Status::Complete) }
            }
            Ok(Ok(RunnerOutcome::Waiting)) => RunState::new(Status::Waiting),
            Ok(Err(failure)) => RunState::failed(failure.to_string()),
            Err(_) => RunState::failed("internal error; see the server log"),
        })
    }
}

fn state_after(reason: Stop) -> Option<RunState> {
    match reason {
        Stop::Cancelled => Some(RunState::new(Status::Cancelled)),
        Stop::Preempted => None,
    }
}

async fn stop_requested(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|it| *it) {
        Ok(Some(reason)) => reason,
        // The sender was dropped, so no stop request can arrive.
        _ => std::future::pending().await,
    }
}
