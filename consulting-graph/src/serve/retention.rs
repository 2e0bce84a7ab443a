//! Deletes runs that ended long ago.

use std::time::{Duration, SystemTime};

use graph_server::{RunInfo, ServiceError, Status};

use super::app_state::AppState;

/// Interval between two deletions of old runs.
const RETENTION_INTERVAL: Duration = Duration::from_secs(3600);

/// Maximum number of runs that one pass deletes.
const MAX_RUNS_PER_PASS: usize = 10_000;

/// Deletes the runs that ended more than `max_age` ago, once at the start and then every hour.
pub(super) async fn retain(app: AppState, max_age: Duration) -> Result<(), ServiceError> {
    delete_old_runs(&app, max_age).await?;
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(RETENTION_INTERVAL).await;
            if let Err(error) = delete_old_runs(&app, max_age).await {
                tracing::error!(?error, "cannot delete old runs; retrying in an hour");
            }
        }
    });
    Ok(())
}

async fn delete_old_runs(app: &AppState, max_age: Duration) -> Result<(), ServiceError> {
    let now = SystemTime::now();
    let is_old = |it: &RunInfo| {
        let age = it.ended_at.and_then(|ended| now.duration_since(ended).ok());
        // A run that waits for a review has not ended.
        it.status != Status::Waiting && age.is_some_and(|it| it >= max_age)
    };
    for run in app.service.list(None, MAX_RUNS_PER_PASS).await?.iter().filter(|it| is_old(it)) {
        match app.delete_run(&run.id).await {
            Ok(()) => tracing::info!(run = run.id, "deleted the run, because it ended long ago"),
            Err(error) => tracing::warn!(run = run.id, ?error, "cannot delete the run"),
        }
    }
    Ok(())
}
