//! Executes runs.

use std::sync::{Arc, atomic::Ordering};

use graph_core::RunError;
use serde_json::{Value, json};

use super::{
    LiveRun, Manager, RunResult,
    cancellation::{CancelAction, Cancellation},
};
use crate::langgraph::{
    any_graph::{GraphEnd, GraphRun},
    error::{ApiResult, NamedError},
    id::parse_checkpoint,
    records::{Run, RunStatus},
    stream::{collect::Collector, item::Body, json::interrupts_json},
    time::now,
};

impl Manager {
    /// Executes the runs of a thread until its queue is empty. `first` is the first run of the queue.
    pub(super) async fn work(self: Arc<Self>, first: Arc<LiveRun>) {
        let mut next = Some(first);
        while let Some(live) = next {
            let thread = live.facts.thread;
            if let Err(error) = self.execute(&live).await {
                tracing::error!(run = %live.facts.run, ?error, "cannot execute a run");
                let failure = NamedError::new(
                    "StorageError",
                    "the server cannot store the run; see the server log",
                );
                let output = json!({ "__error__": failure });
                live.end(RunResult { output });
            }
            if self.shutting_down.load(Ordering::Acquire) {
                return;
            }
            let mut schedule = self.lock();
            schedule.keep_ended(live);
            next = schedule.advance(thread);
        }
    }

    async fn execute(&self, live: &Arc<LiveRun>) -> ApiResult<()> {
        // The semaphore is never closed.
        let Ok(_slot) = self.slots.acquire().await else { return Ok(()) };
        let id = live.facts.run.to_string();
        let Some(mut run) = self.database.get::<Run>(&id)? else {
            live.buffer.close();
            return Ok(());
        };
        if let Some(cancellation) = live.cancellation() {
            self.end_cancelled(live, cancellation).await;
            return Ok(());
        }
        if self.shutting_down.load(Ordering::Acquire) {
            live.buffer.close();
            return Ok(());
        }
        live.started.store(true, Ordering::Release);
        run.status = RunStatus::Running;
        run.attempt = live.facts.attempt;
        run.updated_at = now();
        self.database.put(&run)?;
        self.lock().feed(live.facts.thread).add(live.clone());
        live.buffer.push(Body::Started(run.kwargs.input.clone()));
        let outcome = self.run_graph(live, &run).await;
        if self.shutting_down.load(Ordering::Acquire) && live.cancellation().is_none() {
            // The stored status stays `running`, so the run continues when the server starts again.
            live.buffer.close();
            return Ok(());
        }
        match (outcome, live.cancellation()) {
            (Err(RunError::Cancelled), Some(cancellation)) => {
                self.end_cancelled(live, cancellation).await;
            }
            (outcome, _) => self.end(live, run, outcome).await?,
        }
        Ok(())
    }

    async fn run_graph(&self, live: &Arc<LiveRun>, run: &Run) -> Result<GraphEnd, RunError> {
        let missing = || {
            RunError::InvalidUpdate(format!(
                "graph `{}` does not exist on this server",
                live.facts.graph
            ))
        };
        let graph = self.graphs.get(&live.facts.graph).ok_or_else(missing)?;
        let checkpoint = run.kwargs.checkpoint_id.as_deref();
        let request = GraphRun {
            run: &live.facts.run.to_string(),
            thread: &live.facts.thread.to_string(),
            checkpoint: checkpoint.and_then(|it| parse_checkpoint(it).ok()),
            kwargs: &run.kwargs,
            metadata: live.facts.to_metadata(),
            control: live.control.clone(),
        };
        let mut collector = Collector::default();
        let mut publish = |event| {
            collector.collect(event).into_iter().for_each(|body| live.buffer.push(body));
        };
        graph.run(request, &mut publish).await
    }

    /// Stores the outcome of a run and ends its streams.
    async fn end(
        &self,
        live: &Arc<LiveRun>,
        mut run: Run,
        outcome: Result<GraphEnd, RunError>,
    ) -> ApiResult<()> {
        let (status, output, error) = match outcome {
            Ok(GraphEnd { mut output, interrupts }) => {
                live.buffer.push(Body::Finished(output.clone()));
                if !interrupts.is_empty() {
                    output["__interrupt__"] = interrupts_json(&interrupts);
                }
                (RunStatus::Success, output, None)
            }
            Err(error) => {
                let status = match error {
                    RunError::StepTimeout { .. } => RunStatus::Timeout,
                    _ => RunStatus::Error,
                };
                let error = NamedError::of_run(&error);
                live.buffer.push(Body::Failed(error.clone()));
                (status, json!({ "__error__": error }), Some(error))
            }
        };
        run.status = status;
        run.updated_at = now();
        self.finish_run(live, run, RunResult { output }, error).await
    }

    /// Ends a run that was cancelled.
    pub(super) async fn end_cancelled(&self, live: &Arc<LiveRun>, cancellation: Cancellation) {
        if let Err(error) = self.try_end_cancelled(live, cancellation).await {
            tracing::error!(run = %live.facts.run, ?error, "cannot store the cancellation of a run");
        }
        // The streams end even if the storage failed.
        live.end(RunResult { output: json!({}) });
    }

    async fn try_end_cancelled(
        &self,
        live: &Arc<LiveRun>,
        cancellation: Cancellation,
    ) -> ApiResult<()> {
        let id = live.facts.run.to_string();
        let Some(mut run) = self.database.get::<Run>(&id)? else { return Ok(()) };
        run.status = RunStatus::Interrupted;
        run.cancel_reason = Some(cancellation.reason);
        run.updated_at = now();
        if cancellation.action == CancelAction::Rollback {
            self.graphs.checkpointer().delete_runs(std::slice::from_ref(&id)).await?;
            self.database.delete::<Run>(&id)?;
            self.refresh_thread(live.facts.thread, Some(live.facts.run), None).await?;
            return Ok(());
        }
        let result = RunResult { output: Value::Null };
        self.finish_run(live, run, result, None).await
    }

    /// Stores a run that has ended, updates its thread, and ends the streams. The status is stored first, because
    /// clients read it when a stream ends.
    async fn finish_run(
        &self,
        live: &Arc<LiveRun>,
        run: Run,
        mut result: RunResult,
        error: Option<NamedError>,
    ) -> ApiResult<()> {
        self.database.put(&run)?;
        let (thread, ended) = (live.facts.thread, Some(live.facts.run));
        let failure = error.clone();
        let values = self.refresh_thread(thread, ended, error).await?;
        let webhook = run.kwargs.webhook.clone().map(|url| {
            let mut body = json!(run);
            body["values"] = json!(values);
            body["error"] = json!(failure);
            body["run_started_at"] = json!(run.created_at);
            body["run_ended_at"] = json!(run.updated_at);
            body["webhook_sent_at"] = json!(now());
            (url, body)
        });
        if result.output.is_null() {
            result.output = values.unwrap_or_else(|| json!({}));
        }
        if run.kwargs.temporary {
            self.remove_thread(live.facts.thread).await?;
        }
        live.end(result);
        if let Some((url, body)) = webhook {
            let webhooks = self.webhooks;
            tokio::spawn(async move { webhooks.post(&url, &body).await });
        }
        Ok(())
    }
}
