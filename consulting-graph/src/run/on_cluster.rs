//! Executes a run on the workers of a cluster. Its directory contains only the configuration, the event log and the
//! results; the threads are in the database of the cluster.

use app_support::{files, lock::DirLock};
use graph_cluster::{Client, ClusterError, RunInfo, RunStatus, RunStore, StartRun};
use graph_core::{EventKind, StreamMode};
use sandbox_vm::Isolation;

use super::{
    error::RunError,
    manifest::RunConfig,
    result_files,
    resume::{EventRecorder, RunOutcome},
    run_dir::{CLUSTER_FILE, Run, THREADS_FILE},
    threads::read_state,
};
use crate::{
    cluster_servers::ClusterServers,
    event::{EventLog, NumberedEvent},
    models::{Limit, SharedBudget},
    pipeline::{self, PipelineState, ReviewDecision, ReviewRequest},
};

impl Run {
    /// Executes the run on the cluster with these servers, until it completes or waits for a review, and calls
    /// `on_event` for every new event. Starts the run if the cluster does not have it. Resumes it if it failed, or if
    /// it waits for a review and `review` is the decision. A `limit` replaces the spending limit of the run, which all
    /// workers share.
    pub async fn resume_on_cluster(
        &self,
        servers: &ClusterServers,
        limit: Limit,
        review: Option<ReviewDecision>,
        mut on_event: impl FnMut(&NumberedEvent) + Send,
    ) -> Result<RunOutcome, RunError> {
        let _lock = DirLock::exclusive(&self.dir)?;
        self.check_cluster_can_execute()?;
        let store = RunStore::connect(&servers.database).await?;
        let limit = limit.or(self.manifest.limit);
        if !limit.is_unlimited() {
            // The workers read the limit when they claim the run, so it is stored before the run.
            SharedBudget::set_limit(&store, &self.manifest.run_config.run_id, limit).await?;
        }
        let client = servers.client(store);
        self.mark_as_on_cluster()?;
        let started = client.start(&self.cluster_request()).await.map_err(to_run_error)?;
        self.continue_ended_leg(&client, &started, review).await?;
        let log = EventLog::open(self.dir.join("events.jsonl"))?;
        let mut recorder = EventRecorder { log, on_event: &mut on_event };
        let mut events = client.events(&started.id, 0);
        while let Some(event) = events.next().await? {
            if let EventKind::Custom(value) = event.kind
                && let Ok(event) = serde_json::from_value(value)
            {
                recorder.record(event)?;
            }
        }
        self.finish_leg(client.wait(&started.id).await?, started.status).await
    }

    /// Fails if the threads of the run are on this machine, or the run has requirements that workers do not apply.
    fn check_cluster_can_execute(&self) -> Result<(), RunError> {
        let is_on_cluster = self.dir.join(CLUSTER_FILE).exists();
        if !is_on_cluster && self.dir.join(THREADS_FILE).exists() {
            return Err(RunError::NotOnCluster(self.dir.clone()));
        }
        if self.manifest.required_isolation.is_some_and(|it| it != Isolation::Preferred) {
            return Err(RunError::UnsupportedOnCluster("required isolation"));
        }
        Ok(())
    }

    /// Queues the next leg if the run waits for this review, or failed.
    async fn continue_ended_leg(
        &self,
        client: &Client,
        run: &RunInfo,
        review: Option<ReviewDecision>,
    ) -> Result<(), RunError> {
        let is_waiting = run.status == RunStatus::Interrupted;
        match review {
            Some(_) if !is_waiting => return Err(RunError::NotAwaitingReview),
            Some(review) => self.store_review(review)?,
            None => {}
        }
        if is_waiting && let Some(review) = self.stored_review()? {
            let review = serde_json::to_value(review);
            let review = review.map_err(|error| RunError::Internal(error.to_string()))?;
            client.answer(&run.id, review).await?;
        } else if matches!(run.status, RunStatus::Failed | RunStatus::Stopped) {
            client.resume(&run.id, []).await?;
        }
        Ok(())
    }

    /// Writes the results of a leg that ended.
    async fn finish_leg(&self, run: RunInfo, before: RunStatus) -> Result<RunOutcome, RunError> {
        match run.status {
            RunStatus::Done => {
                let report = self.write_results(read_state(run.outcome.values)?).await?;
                let was_complete = before == RunStatus::Done;
                Ok(RunOutcome::Complete { report, was_complete, trace: None })
            }
            RunStatus::Interrupted => {
                let state: PipelineState = read_state(run.outcome.values)?;
                result_files::write_documents(&self.dir, &state)?;
                let request = run.outcome.interrupts.into_iter().next().map(|it| it.value);
                let request = request.and_then(|it| serde_json::from_value(it).ok());
                let request = request.unwrap_or(ReviewRequest { moves: Vec::new() });
                Ok(RunOutcome::AwaitingReview(request))
            }
            status => {
                let problem = run.outcome.error.unwrap_or_else(|| format!("the run is {status}"));
                Err(RunError::ClusterRunFailed(problem))
            }
        }
    }

    /// Returns the request that starts the run on a cluster. It is the same at each call.
    fn cluster_request(&self) -> StartRun {
        let run_config: &RunConfig = &self.manifest.run_config;
        let context = serde_json::to_value(run_config);
        StartRun::new(&*run_config.run_id, pipeline::GRAPH, &*run_config.run_id)
            .input("company_ticker", &*run_config.ticker)
            .context(context.expect("a run configuration serializes to JSON"))
            .stream_modes([StreamMode::Custom])
    }

    fn mark_as_on_cluster(&self) -> Result<(), RunError> {
        let text = "The threads of this run are in the database of a cluster.\n";
        Ok(files::write_synced(&self.dir.join(CLUSTER_FILE), text)?)
    }
}

/// Converts the error of a start. If the run was started with another scheduler, the error names the option to change.
fn to_run_error(error: ClusterError) -> RunError {
    match error {
        ClusterError::OtherScheduler { scheduler, .. } if scheduler == "restate" => {
            RunError::OnRestate
        }
        ClusterError::OtherScheduler { .. } => RunError::NotOnRestate,
        error => error.into(),
    }
}
