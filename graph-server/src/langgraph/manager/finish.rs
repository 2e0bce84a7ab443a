//! Ends runs: stores their final status, updates their threads, and ends their streams.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{LiveRun, Manager, webhook_delivery::PendingWebhook};
use crate::langgraph::{
    cancellation::{CancelAction, Cancellation},
    error::{ApiResult, NamedError},
    position::Position,
    records::{Run, RunStatus, Thread, ThreadStatus},
    storage::Claim,
    time::now,
};

impl Manager {
    /// Ends a run that failed because of the storage.
    pub(super) async fn fail(&self, claim: &Claim) -> ApiResult<()> {
        let stored = self.database.get::<Run>(&claim.run.to_string()).await?;
        let (mut webhook, error) = (None, storage_error());
        if let Some(mut run) = stored.filter(|it| it.status.is_active()) {
            run.status = RunStatus::Error;
            run.updated_at = now();
            webhook = PendingWebhook::new(&run, None, Some(&error));
            if !self.put_ended(claim, &run, webhook.as_ref()).await? {
                self.abandon_claimed(claim);
                return Ok(());
            }
        }
        let refreshed = self.refresh_thread(claim.thread, Some(claim.run), Some(error.clone()));
        if refreshed.await.is_err() {
            // The run may have failed because the state of its thread cannot be read.
            let set_error = |thread: &mut Thread| {
                thread.status = ThreadStatus::Error;
                thread.error = Some(error.clone());
            };
            self.change_thread(claim.thread, set_error).await?;
        }
        let output = json!({ "__error__": error });
        if !self.queue.end_run(claim, &output).await? {
            self.abandon_claimed(claim);
            return Ok(());
        }
        let live = self.lock().live.get(&claim.run).cloned();
        live.into_iter().for_each(|it| self.end_here(it, output.clone()));
        webhook.into_iter().for_each(|it| self.deliver_soon(it));
        Ok(())
    }

    /// Ends a run that was cancelled.
    pub(super) async fn end_cancelled(
        &self,
        claim: &Claim,
        live: &Arc<LiveRun>,
        cancellation: Cancellation,
    ) {
        if let Err(error) = self.try_end_cancelled(claim, live, cancellation).await {
            tracing::error!(run = %claim.run, ?error, "cannot store the cancellation of a run");
            // With shared storage, another replica cancels the run when the lease expires.
            if self.shared_events.is_none() && self.fail(claim).await.is_ok() {
                return;
            }
            // End the streams of clients even if the storage failed.
            self.end_here(live.clone(), json!({}));
        }
    }

    async fn try_end_cancelled(
        &self,
        claim: &Claim,
        live: &Arc<LiveRun>,
        cancellation: Cancellation,
    ) -> ApiResult<()> {
        let id = claim.run.to_string();
        if let Some(graph) = self.graphs.get(&live.facts.graph) {
            tokio::select! {
                biased;
                cancelled = graph.cancel(&id) => cancelled?,
                // The request to cancel the run is stored, so the next process that claims the run repeats it.
                () = self.shutting_down() => {
                    live.buffer.close();
                    return Ok(());
                }
            }
        }
        let stored = self.database.get::<Run>(&id).await?;
        let (Some(mut run), CancelAction::Interrupt) = (stored, cancellation.action) else {
            self.graphs.checkpointer().delete_runs(std::slice::from_ref(&id)).await?;
            self.database.delete::<Run>(&id).await?;
            self.refresh_thread(claim.thread, Some(claim.run), None).await?;
            return self.end_claimed(claim, live, json!({})).await;
        };
        run.status = RunStatus::Interrupted;
        run.cancel_reason = Some(cancellation.reason);
        run.updated_at = now();
        self.finish_run(claim, live, run, Value::Null, None).await
    }

    /// Stores an ended run and its webhook, updates the thread, and ends the streams. The status is stored first,
    /// because clients read it when a stream ends.
    pub(super) async fn finish_run(
        &self,
        claim: &Claim,
        live: &Arc<LiveRun>,
        run: Run,
        output: Value,
        error: Option<NamedError>,
    ) -> ApiResult<()> {
        let values = match run.kwargs.webhook {
            Some(_) => self.values(&run).await?,
            None => None,
        };
        let webhook = PendingWebhook::new(&run, values.as_ref(), error.as_ref());
        if !self.put_ended(claim, &run, webhook.as_ref()).await? {
            self.abandon(live);
            return Ok(());
        }
        self.leave_thread(claim, live, &run, output, error).await?;
        webhook.into_iter().for_each(|it| self.deliver_soon(it));
        Ok(())
    }

    /// Updates the thread of a run whose final status is stored, or deletes a temporary thread, and ends the streams.
    pub(super) async fn leave_thread(
        &self,
        claim: &Claim,
        live: &Arc<LiveRun>,
        run: &Run,
        mut output: Value,
        error: Option<NamedError>,
    ) -> ApiResult<()> {
        let values = match run.kwargs.temporary {
            // The thread stays busy until it is deleted: see `repair_threads`.
            true => self.values(run).await?,
            false => self.refresh_thread(claim.thread, Some(claim.run), error).await?,
        };
        if output.is_null() {
            output = values.unwrap_or_else(|| json!({}));
        }
        if run.kwargs.temporary {
            self.remove_thread(claim.thread).await?;
        }
        self.end_claimed(claim, live, output).await
    }

    /// Returns the values of a run's thread.
    async fn values(&self, run: &Run) -> ApiResult<Option<Value>> {
        let Some(graph) = self.graphs.get(&run.kwargs.graph_id) else { return Ok(None) };
        let state = graph.state(&run.thread_id.to_string(), &Position::HEAD, false).await?;
        Ok(state.map(|it| it.values))
    }

    /// Removes an ended run from the queue, and ends its streams.
    async fn end_claimed(
        &self,
        claim: &Claim,
        live: &Arc<LiveRun>,
        output: Value,
    ) -> ApiResult<()> {
        // The lease cannot be renewed once the run is removed from the queue. `is_finishing` prevents this failure from
        // being treated as a lost lease.
        live.set_finishing();
        self.queue.end_run(claim, &output).await?;
        self.end_here(live.clone(), output);
        Ok(())
    }

    /// Ends the streams of a run that this process has executed, and keeps its events for a while.
    fn end_here(&self, live: Arc<LiveRun>, output: Value) {
        live.end(output);
        self.lock().keep_ended(live);
    }
}

/// Returns the error of a run that failed because of the storage.
fn storage_error() -> NamedError {
    NamedError::new("StorageError", "the server cannot store the run; see the server log")
}

/// Returns the error of a failed run whose own error was lost because the process was killed.
pub(super) fn lost_error() -> NamedError {
    NamedError::new(
        "LostError",
        "the run failed, but the server was killed before it stored the error",
    )
}
