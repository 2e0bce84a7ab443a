//! Executes runs of the pipeline for the service.

use std::{
    fs::{self, File},
    io,
    path::Path,
    sync::Arc,
    time::Duration,
};

use app_support::{lines::read_lines, terminal::escape_invisible_json};
use async_trait::async_trait;
use graph_server::{EventSender, RunEvent, RunInfo, Runner, RunnerError, RunnerOutcome};
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    options::ServeOptions,
    problem::client_message,
    wire::{RecommendedMove, ResumeOrder, StoredInput, StoredOutcome},
};
use crate::{
    event::NumberedEvent,
    moves::Move,
    pipeline::ReviewDecision,
    report::{Report, SpendingEntry},
    run::{self, ResumeOptions, Run, RunError},
};

/// Interval between attempts to execute a run that another process is executing.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Executes runs in the subdirectories of one directory.
#[derive(Debug)]
pub(super) struct PipelineRunner(pub(super) Arc<ServeOptions>);

impl PipelineRunner {
    /// Returns the options for resuming a run. The spending limit is taken from the last resume request or, if that
    /// request sets no limit, from the stored run. The limit is capped at the server's limit.
    fn resume_options(&self, run: &Run, info: &RunInfo) -> Result<ResumeOptions, RunnerError> {
        let input: StoredInput = serde_json::from_value(info.input.clone()).unwrap_or_default();
        let order: ResumeOrder =
            serde_json::from_value(info.resume_args.clone()).unwrap_or_default();
        // After a restart of the server, the last resume request is executed again. The moves in it may then already be
        // stored with the run.
        let review = match order.moves.filter(|_| !run.is_reviewed()) {
            Some(moves) => Some(read_moves(moves).map_err(RunnerError)?),
            None => None,
        };
        Ok(ResumeOptions {
            concurrency: input.concurrency.max(1),
            // A run that requires stronger isolation than the server keeps its own requirement.
            isolation: Some(match run.manifest().required_isolation {
                Some(stored) if stored.minimum() > self.0.isolation.minimum() => stored,
                _ => self.0.isolation,
            }),
            backend: self.0.backend.clone(),
            sandbox_reuse: self.0.sandbox_reuse,
            limit: order
                .limit
                .limit()
                .or(run.manifest().limit)
                .or(input.limit.limit())
                .capped_at(self.0.max_limit),
            review,
            call_limits: self.0.call_limits.clone(),
            ..ResumeOptions::default()
        })
    }
}

/// Parses and checks moves sent by a client.
pub(super) fn read_moves(
    moves: Vec<serde_json::Map<String, Value>>,
) -> Result<ReviewDecision, String> {
    let read = |(idx, it): (usize, serde_json::Map<String, Value>)| {
        serde_json::from_value::<Move>(Value::Object(it))
            .map_err(|error| format!("move {} in the list: {error}", idx + 1))
    };
    let moves = moves.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    let review = ReviewDecision { moves };
    review.check()?;
    Ok(review)
}

/// Returns the summary of a report for the registry.
pub(super) fn stored_outcome(report: &Report) -> Value {
    let title = |id| {
        let found = report.outcome.find_move(id);
        found.map_or_else(String::new, |it| it.draft.title.clone())
    };
    let moves = report.ranking.recommended.iter().map(|it| RecommendedMove {
        move_id: it.move_id.to_string(),
        title: title(it.move_id),
        score: it.total_score,
    });
    let outcome = &report.outcome;
    let spent =
        outcome.own_spending.clone().unwrap_or_else(|| SpendingEntry::total(&outcome.spending));
    json!(StoredOutcome {
        recommended: moves.collect(),
        tokens: Some(spent.input_tokens + spent.output_tokens),
        dollars: spent.dollars,
    })
}

#[async_trait]
impl Runner for PipelineRunner {
    async fn execute(
        &self,
        info: &RunInfo,
        teller: &EventSender,
    ) -> Result<RunnerOutcome, RunnerError> {
        let dir = self.0.run_dir(&info.id);
        let run = blocking(move || Run::open(dir)).await?;
        let run = run.map_err(|problem| RunnerError(client_message(&info.id, None, &problem)))?;
        let failed =
            |problem: RunError| RunnerError(client_message(&info.id, Some(&run), &problem));
        let result = loop {
            let on_event = |event: &NumberedEvent| {
                let data = serde_json::to_string(event).unwrap_or_default();
                teller.send(RunEvent { seq: event.seq, data: escape_invisible_json(&data).into() });
            };
            match run.resume(self.resume_options(&run, info)?, on_event).await {
                // Another process, such as `consulting resume`, is executing the run.
                Err(RunError::Locked(_)) => sleep(LOCK_RETRY_INTERVAL).await,
                result => break result,
            }
        };
        let dir = self.0.run_dir(&info.id);
        if let Err(error) = blocking(move || sync_dir(&dir)).await? {
            tracing::error!(run = info.id, %error, "cannot sync the run directory; a power failure may lose the latest results");
        }
        match result.map_err(failed)? {
            run::RunOutcome::Complete { report, .. } => {
                Ok(RunnerOutcome::Complete(stored_outcome(&report)))
            }
            run::RunOutcome::AwaitingReview(review) => {
                run.write_review_request(&review).map_err(failed)?;
                Ok(RunnerOutcome::Waiting)
            }
        }
    }

    fn can_continue(&self, run: &RunInfo) -> bool {
        let text =
            fs::read_to_string(self.0.run_dir(&run.id).join("report.json")).unwrap_or_default();
        serde_json::from_str(&text).is_ok_and(|it: Report| it.is_incomplete())
    }

    fn events(&self, run: &str, after: u64, limit: usize) -> io::Result<Vec<RunEvent>> {
        let lines = read_lines(&self.0.run_dir(run).join("events.jsonl"), after, limit)?;
        Ok(lines.into_iter().map(|(seq, data)| RunEvent { seq, data: data.into() }).collect())
    }
}

/// Runs a closure that may block on I/O.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunnerError> {
    let failed =
        |_| RunnerError("an internal error occurred; see the server log for details".to_owned());
    spawn_blocking(work).await.map_err(failed)
}

/// Syncs the files in a run directory to disk. Called before the registry marks the run as complete.
fn sync_dir(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(dir)?.sync_all()
}
