//! Executes runs.

use std::sync::{Arc, atomic::Ordering};

use graph_core::{Event, RunError};
use serde_json::{Value, json};

use super::{LiveRun, Manager, RunResult, record::Recorder, webhook_delivery::PendingWebhook};
use crate::langgraph::{
    any_graph::{GraphEnd, GraphFailure, GraphRun},
    cancellation::{CancelAction, Cancellation},
    database::to_row,
    error::{ApiResult, NamedError},
    id::parse_checkpoint,
    position::Position,
    records::{Run, RunStatus},
    storage::Claim,
    stream::{collect::Collector, item::Body, json::interrupts_json, published::Published},
    time::now,
};

/// Number of claims after which a run that fails because of the storage is not executed again.
const MAX_CLAIMS: i64 = 10;

impl Manager {
    /// Executes a claimed run. If the storage fails and is shared, the run continues when its lease expires.
    pub(super) async fn execute(&self, claim: Claim) {
        let Err(error) = self.try_execute(&claim).await else { return };
        if self.shared_events.is_some() && claim.fence < MAX_CLAIMS {
            tracing::warn!(run = %claim.run, %error, "cannot execute a run; it continues later");
            return self.abandon_claimed(&claim);
        }
        tracing::error!(run = %claim.run, %error, "cannot execute a run");
        if let Err(error) = self.fail(&claim).await {
            tracing::error!(run = %claim.run, %error, "cannot store the failure of a run");
            self.abandon_claimed(&claim);
        }
    }

    /// Stops the execution of a run under a claim, unless this process executes it under a later claim.
    fn abandon_claimed(&self, claim: &Claim) {
        let live = self.lock().live.get(&claim.run).cloned();
        let live = live.filter(|it| it.latest_claim() == Some(claim.fence));
        live.iter().for_each(|it| self.abandon(it));
    }

    async fn try_execute(&self, claim: &Claim) -> ApiResult<()> {
        let id = claim.run.to_string();
        let stored = self.database.get::<Run>(&id).await?;
        let graph = stored.as_ref().and_then(|it| self.graphs.get(&it.kwargs.graph_id));
        // Processes of an executor continue to execute the run, so they keep the lease.
        if claim.takes_over && graph.is_none_or(|it| it.executes_locally()) {
            self.evict_previous(claim).await;
        }
        let Some(mut run) = stored else {
            // The run was deleted.
            self.queue.end_run(claim, &json!({})).await?;
            let live = self.lock().live.remove(&claim.run);
            live.iter().for_each(|it| it.end(RunResult { output: json!({}) }));
            return Ok(());
        };
        let live = self.live_claimed(claim, &run).await?;
        if let Some(cancellation) = live.cancellation() {
            self.end_cancelled(claim, &live, cancellation).await;
            return Ok(());
        }
        if self.is_shutting_down() {
            live.buffer.close();
            return Ok(());
        }
        if !matches!(run.status, RunStatus::Pending | RunStatus::Running) {
            // The execution was stopped after it had stored the status.
            let has_failed = matches!(run.status, RunStatus::Error | RunStatus::Timeout);
            let failure = has_failed.then(|| live.buffer.failure().unwrap_or_else(storage_error));
            let output = failure.as_ref().map_or(Value::Null, |it| json!({ "__error__": it }));
            return self.finish_run(claim, &live, run, RunResult { output }, failure).await;
        }
        run.status = RunStatus::Running;
        run.attempt += 1;
        run.updated_at = now();
        live.facts.attempt.store(run.attempt, Ordering::Relaxed);
        if !self.queue.put_run(claim, to_row(&run, None)?, None).await? {
            self.abandon(&live);
            return Ok(());
        }
        self.lock().feed(claim.thread).add(live.clone());
        let shared = self.shared_events.clone();
        let recorder = shared.map(|it| Recorder::start(it, claim.clone(), live.clone()));
        live.buffer.push(Body::Started(run.kwargs.input.clone()));
        let outcome = self.run_graph(&live, &run).await;
        let is_stopping = self.is_shutting_down();
        let ended = match (outcome, live.cancellation()) {
            _ if !live.is_executing() => None,
            (_, None) if is_stopping => None,
            (Err(GraphFailure::Cancelled), Some(cancellation)) => Some(Err(cancellation)),
            (outcome, _) => Some(Ok(outcome_of(&live, outcome))),
        };
        if let Some(recorder) = recorder {
            recorder.finish().await;
        }
        match ended {
            _ if !live.is_executing() => self.abandon(&live),
            // The stored status stays `running`, so the run continues on another replica or when the server starts
            // again.
            None => live.buffer.close(),
            Some(Err(cancellation)) => self.end_cancelled(claim, &live, cancellation).await,
            Some(Ok((status, output, error))) => {
                run.status = status;
                run.updated_at = now();
                self.finish_run(claim, &live, run, RunResult { output }, error).await?;
            }
        }
        Ok(())
    }

    /// Takes the checkpointer's lease on the thread from the process that claimed the run before. A process that was killed
    /// holds no lease, but one that is suspended or disconnected does.
    async fn evict_previous(&self, claim: &Claim) {
        let thread = claim.thread.to_string();
        match self.graphs.checkpointer().evict_lease_holder(&thread).await {
            Ok(true) => {
                tracing::warn!(run = %claim.run, "evicted the replica that executed the run")
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(run = %claim.run, %error, "cannot evict the replica that executed the run");
            }
        }
    }

    /// Returns a claimed run, ready to be executed by this process.
    async fn live_claimed(&self, claim: &Claim, run: &Run) -> ApiResult<Arc<LiveRun>> {
        let mut found = self.known(claim.run);
        // The lease on an execution in this process has expired, and this process has claimed the run again.
        if let Some(earlier) = found.take_if(|it| it.is_executing() && !it.has_ended()) {
            self.abandon(&earlier);
        }
        let live = match found {
            Some(live) => live,
            None => {
                let owner = self.database.owner_of::<Run>(&claim.run.to_string()).await?;
                self.lock().add(run, owner.flatten())
            }
        };
        self.execute_here(claim, &live).await?;
        claim.cancellation.iter().for_each(|it| live.request_cancel(it.clone()));
        Ok(live)
    }

    /// Ends a run that failed because of the storage.
    async fn fail(&self, claim: &Claim) -> ApiResult<()> {
        let stored = self.database.get::<Run>(&claim.run.to_string()).await?;
        let is_active = |it: &Run| matches!(it.status, RunStatus::Pending | RunStatus::Running);
        let (mut webhook, error) = (None, storage_error());
        if let Some(mut run) = stored.filter(is_active) {
            run.status = RunStatus::Error;
            run.updated_at = now();
            webhook = PendingWebhook::new(&run, None, Some(&error));
            self.put_ended(claim, &run, webhook.as_ref()).await?;
        }
        let output = json!({ "__error__": error });
        if !self.queue.end_run(claim, &output).await? {
            self.abandon_claimed(claim);
            return Ok(());
        }
        let live = self.lock().live.get(&claim.run).cloned();
        live.into_iter().for_each(|it| self.end_here(it, RunResult { output: output.clone() }));
        webhook.into_iter().for_each(|it| self.deliver_soon(it));
        Ok(())
    }

    async fn run_graph(&self, live: &Arc<LiveRun>, run: &Run) -> Result<GraphEnd, GraphFailure> {
        let missing = || {
            RunError::InvalidUpdate(format!(
                "graph `{}` does not exist on this server",
                live.facts.graph
            ))
        };
        let graph = self.graphs.get(&live.facts.graph).ok_or_else(missing)?;
        let checkpoint = run.kwargs.checkpoint_id.as_deref();
        let at = Position {
            namespace: run.kwargs.checkpoint_ns.clone(),
            checkpoint: checkpoint.and_then(|it| parse_checkpoint(it).ok()),
        };
        let request = GraphRun {
            run: &live.facts.run.to_string(),
            thread: &live.facts.thread.to_string(),
            owner: live.owner.as_deref(),
            at,
            kwargs: &run.kwargs,
            metadata: live.facts.to_metadata(),
            control: live.control.clone(),
        };
        let mut published = match graph.executes_locally() {
            true => Published::default(),
            false => live.buffer.published(),
        };
        let mut collector = Collector::default();
        let mut publish = |event: Event| {
            let seq = event.seq;
            let bodies = collector.collect(event).into_iter();
            bodies.filter(|it| !published.skip(seq, it)).for_each(|body| live.buffer.push(body));
        };
        graph.run(request, &mut publish).await
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
            // The streams end even if the storage failed.
            self.end_here(live.clone(), RunResult { output: json!({}) });
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
                // If the storage is shared, the request to cancel the run is stored, and the next process that claims
                // the run repeats it.
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
            return self.end_claimed(claim, live, RunResult { output: json!({}) }).await;
        };
        run.status = RunStatus::Interrupted;
        run.cancel_reason = Some(cancellation.reason);
        run.updated_at = now();
        self.finish_run(claim, live, run, RunResult { output: Value::Null }, None).await
    }

    /// Stores a run that has ended with its webhook, updates its thread, and ends the streams. The status is stored
    /// first, because clients read it when a stream ends.
    async fn finish_run(
        &self,
        claim: &Claim,
        live: &Arc<LiveRun>,
        run: Run,
        mut result: RunResult,
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
        let values = self.refresh_thread(claim.thread, Some(claim.run), error).await?;
        if result.output.is_null() {
            result.output = values.unwrap_or_else(|| json!({}));
        }
        if run.kwargs.temporary {
            self.remove_thread(claim.thread).await?;
        }
        self.end_claimed(claim, live, result).await?;
        webhook.into_iter().for_each(|it| self.deliver_soon(it));
        Ok(())
    }

    /// Returns the values of a run's thread.
    async fn values(&self, run: &Run) -> ApiResult<Option<Value>> {
        let Some(graph) = self.graphs.get(&run.kwargs.graph_id) else { return Ok(None) };
        let state = graph.state(&run.thread_id.to_string(), &Position::HEAD, false).await?;
        Ok(state.map(|it| it.values))
    }

    /// Removes a run that has ended from the queue, and ends its streams.
    async fn end_claimed(
        &self,
        claim: &Claim,
        live: &Arc<LiveRun>,
        result: RunResult,
    ) -> ApiResult<()> {
        // A lease that cannot be renewed because the run was removed is not lost.
        live.set_finishing();
        self.queue.end_run(claim, &result.output).await?;
        self.end_here(live.clone(), result);
        Ok(())
    }

    /// Ends the streams of a run that this process has executed, and keeps its events for a while.
    fn end_here(&self, live: Arc<LiveRun>, result: RunResult) {
        live.end(result);
        self.lock().keep_ended(live);
    }
}

/// Returns the error of a run that failed because of the storage.
fn storage_error() -> NamedError {
    NamedError::new("StorageError", "the server cannot store the run; see the server log")
}

/// Returns the status, the output and the error of a run, and adds its last event.
fn outcome_of(
    live: &LiveRun,
    outcome: Result<GraphEnd, GraphFailure>,
) -> (RunStatus, Value, Option<NamedError>) {
    match outcome {
        Ok(GraphEnd { mut output, interrupts }) => {
            live.buffer.push(Body::Finished(output.clone()));
            if !interrupts.is_empty() {
                output["__interrupt__"] = interrupts_json(&interrupts);
            }
            (RunStatus::Success, output, None)
        }
        Err(failure) => {
            let (status, error) = match failure {
                GraphFailure::TimedOut(error) => (RunStatus::Timeout, error),
                GraphFailure::Failed(error) => (RunStatus::Error, error),
                GraphFailure::Cancelled => {
                    (RunStatus::Error, NamedError::of_run(&RunError::Cancelled))
                }
            };
            live.buffer.push(Body::Failed(error.clone()));
            (status, json!({ "__error__": error }), Some(error))
        }
    }
}
