//! Executes runs.

use std::sync::{Arc, atomic::Ordering};

use graph_core::{Event, RunError};
use serde_json::{Value, json};

use super::{LiveRun, Manager, finish::lost_error, record::Recorder};
use crate::langgraph::{
    any_graph::{GraphEnd, GraphFailure, GraphRun},
    document::to_row,
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
    pub(super) fn abandon_claimed(&self, claim: &Claim) {
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
            // The run was deleted. The process that deleted it may have been killed before it updated the thread.
            self.refresh_thread(claim.thread, Some(claim.run), None).await?;
            self.queue.end_run(claim, &json!({})).await?;
            let live = self.lock().live.remove(&claim.run);
            live.iter().for_each(|it| it.end(json!({})));
            return Ok(());
        };
        let live = self.live_claimed(claim, &run).await?;
        // A cancellation has no effect once the final status of the run is stored.
        if run.status.is_active()
            && let Some(cancellation) = live.cancellation()
        {
            self.end_cancelled(claim, &live, cancellation).await;
            return Ok(());
        }
        if self.is_shutting_down() {
            live.buffer.close();
            return Ok(());
        }
        if !run.status.is_active() {
            // The execution was stopped after it had stored the status and the webhook.
            let has_failed = run.status.is_failure();
            let failure = has_failed.then(|| live.buffer.failure().unwrap_or_else(lost_error));
            let output = failure.as_ref().map_or(Value::Null, |it| json!({ "__error__": it }));
            return self.leave_thread(claim, &live, &run, output, failure).await;
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
        let is_recorded = self.shared_events.is_some() || run.kwargs.resumable;
        let start = || Recorder::start(self.event_log.clone(), claim.clone(), live.clone());
        let recorder = is_recorded.then(start);
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
                self.finish_run(claim, &live, run, output, error).await?;
            }
        }
        Ok(())
    }

    /// Takes the checkpointer's lease on the thread from the process that claimed the run before. A process that was
    /// killed holds no lease, but one that is suspended or disconnected does.
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
        let mut found = self.find_or_abandon(claim.run);
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
