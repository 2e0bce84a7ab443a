//! Starts the runs of crons, deletes expired threads, and resumes the webhooks of replicas that were killed.

use std::{
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    super::run_response::create_run,
    schedule::{next_date, parse_time},
};
use crate::langgraph::{
    error::{ApiError, ApiResult},
    manager::Manager,
    records::{Cron, Thread},
    request::run::RunCreate,
    view::View,
};

/// Longest sleep. A change of the system clock is noticed after this time.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// Spawns the task that starts the runs of crons, deletes expired threads and resumes webhooks. The task ends when the
/// manager is dropped.
pub(in crate::langgraph) fn start_timer(manager: &Arc<Manager>) {
    tokio::spawn(run_timer(Arc::downgrade(manager), manager.timer_changed.clone()));
}

async fn run_timer(manager: Weak<Manager>, changed: Arc<tokio::sync::Notify>) {
    loop {
        let Some(manager) = manager.upgrade() else { return };
        let now = SystemTime::now().into();
        let next_cron = start_due(&manager, now).await.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot process the crons; retrying");
            MAX_SLEEP
        });
        let next_expiry = manager.remove_expired(now).await.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot delete the expired threads; retrying");
            None
        });
        let next_webhook = manager.resume_webhooks(now).await.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot resume the pending webhooks; retrying");
            None
        });
        if let Err(error) = manager.delete_old_events().await {
            tracing::error!(%error, "cannot delete old events; retrying");
        }
        drop(manager);
        let sleep =
            [next_expiry, next_webhook].into_iter().flatten().fold(next_cron, Duration::min);
        // Returns early if a cron or a time to live was changed.
        let _ = timeout(sleep, changed.notified()).await;
    }
}

/// Starts the runs that are due. Returns the time until the next one.
async fn start_due(manager: &Arc<Manager>, now: DateTime<Utc>) -> ApiResult<Duration> {
    let mut sleep = MAX_SLEEP;
    for mut cron in manager.database.list::<Cron>(None).await? {
        let Some(next) = cron.next_run_date.as_deref().filter(|_| cron.enabled) else { continue };
        if parse_time(next)? <= now {
            let read = cron.clone();
            cron.next_run_date = next_date(&cron, now)?;
            // Only the replica that stores the next date starts the run.
            let is_ours = manager.database.replace(&cron, &read).await?;
            if is_ours && let Err(error) = start_run_or_delete(manager, &cron).await {
                tracing::error!(cron = %cron.cron_id, %error, "cannot start the run of a cron");
            }
        }
        if let Some(next) = &cron.next_run_date {
            sleep = sleep.min((parse_time(next)? - now).to_std().unwrap_or_default());
        }
    }
    Ok(sleep)
}

/// Starts a run of a cron. Deletes the cron instead if its thread no longer exists.
async fn start_run_or_delete(manager: &Arc<Manager>, cron: &Cron) -> ApiResult<()> {
    if let Some(thread) = cron.thread_id
        && manager.database.get::<Thread>(&thread.to_string()).await?.is_none()
    {
        manager.database.delete::<Cron>(&cron.cron_id.to_string()).await?;
        return Ok(());
    }
    // The run belongs to the owner of the cron.
    let owner = manager.database.owner_of::<Cron>(&cron.cron_id.to_string()).await?.flatten();
    let manager = match owner {
        Some(owner) => manager.with_view(View::of_owner(&owner)),
        None => manager.clone(),
    };
    create_run(&manager, cron.thread_id, &run_request(cron)?).await?;
    Ok(())
}

/// Returns the request for a run of a cron.
pub(super) fn run_request(cron: &Cron) -> ApiResult<RunCreate> {
    let mut body = cron.payload.clone();
    if let Some(on_completion) = &cron.on_run_completed {
        body.insert("on_completion".to_owned(), json!(on_completion));
    }
    let mut metadata = cron.metadata.clone();
    metadata.insert("cron_id".to_owned(), json!(cron.cron_id));
    body.insert("metadata".to_owned(), Value::Object(metadata));
    serde_json::from_value(Value::Object(body))
        .map_err(|error| ApiError::invalid(format!("invalid run parameters: {error}")))
}
