//! Operations of clients on runs: starting, reading, resuming and cancelling them.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tokio_postgres::{Row, types::ToSql};

use super::database::RunStore;
#[cfg(feature = "restate")]
use super::tenants::BUSY_TENANTS;
use crate::{
    error::ClusterError,
    run::{RunInfo, RunResult, StartRun, Ticket},
    timer::is_timer,
};

/// Longest delay of a run. Longer ones are shortened.
const MAX_DELAY: Duration = Duration::from_secs(1000 * 366 * 24 * 3600);

impl RunStore {
    /// Inserts a run, or returns the existing run with the same id and the same request.
    pub(crate) async fn insert_run(
        &self,
        request: &StartRun,
        scheduler: &str,
    ) -> Result<RunInfo, ClusterError> {
        request.check()?;
        let body = to_json(&request.id, request)?;
        // The update changes nothing, but makes the statement return the existing row.
        let insert = "
            WITH stored AS (
                INSERT INTO graph_cluster.run AS r (id, scheduler, graph, thread, request, tenant, trace_parent, due_at)
                VALUES ($1, $2, $3, $4, $5, $6, $7,
                    CASE WHEN $8::double precision > 0 THEN now() + $8 * interval '1 millisecond' ELSE '-infinity' END)
                ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING r.*
            )
            SELECT stored.*, pg_notify('graph_cluster', 'queued') FROM stored";
        let StartRun { id, graph, thread, tenant, trace_parent, .. } = request;
        let delay = to_millis(request.delay.min(MAX_DELAY));
        let params: [&(dyn ToSql + Sync); 8] =
            [id, &scheduler, graph, thread, &body, tenant, trace_parent, &delay];
        let row = self
            .query_opt(insert, &params)
            .await?
            .ok_or_else(|| ClusterError::UnknownRun(request.id.clone()))?;
        let stored: StartRun = from_json(&request.id, &row, "request")?;
        let stored_scheduler: String = row.try_get("scheduler")?;
        let (id, trace_parent) = (id.clone(), trace_parent.clone());
        if stored_scheduler != scheduler {
            return Err(ClusterError::OtherScheduler { run: id, scheduler: stored_scheduler });
        }
        if (StartRun { id, trace_parent, ..stored }) != *request {
            return Err(ClusterError::IdReused(request.id.clone()));
        }
        run_info(&row)
    }

    /// Reads a run.
    pub(crate) async fn read_run(&self, run: &str) -> Result<RunInfo, ClusterError> {
        let row = self.query_opt("SELECT * FROM graph_cluster.run WHERE id = $1", &[&run]).await?;
        run_info(&row.ok_or_else(|| ClusterError::UnknownRun(run.to_owned()))?)
    }

    /// Queues the next leg of a run. Returns `false` if it cannot be resumed, or was resumed with other answers.
    /// Repeating the call has no further effect.
    pub(crate) async fn queue_leg(
        &self,
        run: &RunInfo,
        answers: &BTreeMap<String, Value>,
    ) -> Result<bool, ClusterError> {
        let answers = to_json(&run.id, answers)?;
        let update = "
            WITH queued AS (
                UPDATE graph_cluster.run
                SET status = 'queued', leg = leg + 1, attempts = 0, answers = $3, cancel = false, updated_at = now()
                WHERE id = $1 AND leg = $2 AND status IN ('interrupted', 'stopped', 'failed') RETURNING id
            )
            SELECT pg_notify('graph_cluster', 'queued') FROM graph_cluster.run
            WHERE id = $1 AND (id IN (SELECT id FROM queued) OR leg = $2 + 1 AND answers = $3)";
        Ok(self.query_opt(update, &[&run.id, &run.leg, &answers]).await?.is_some())
    }

    /// Cancels a run that no worker executes, and asks the worker of a running one to cancel it. Returns `false` if the
    /// run has ended.
    pub(crate) async fn request_cancel(&self, run: &str) -> Result<bool, ClusterError> {
        let update = "
            WITH cancelled AS (
                UPDATE graph_cluster.run SET cancel = true, updated_at = now(),
                    status = CASE WHEN status = 'running' THEN status ELSE 'cancelled' END
                WHERE id = $1 AND status IN ('queued', 'running', 'interrupted', 'stopped')
                RETURNING id, status
            ), deleted AS (
                DELETE FROM graph_cluster.task t USING cancelled c WHERE t.run = c.id AND c.status = 'cancelled'
            )
            SELECT pg_notify('graph_cluster', 'cancel ' || id), pg_notify('graph_cluster', 'changed ' || id),
                pg_notify('graph_cluster', 'queued') FROM cancelled";
        Ok(self.query_opt(update, &[&run]).await?.is_some())
    }

    /// Returns legs that the scheduler may have lost, so that they can be submitted again. These are legs that have
    /// been due for at least ten seconds without a worker, except those of tenants that have reached their limit, and
    /// legs whose worker has not reported for at least ten seconds.
    #[cfg(feature = "restate")]
    pub(crate) async fn stale_tickets(&self, scheduler: &str) -> Result<Vec<Ticket>, ClusterError> {
        let select = format!(
            "WITH busy AS MATERIALIZED ({BUSY_TENANTS})
            SELECT id, thread, number, leg, fence FROM graph_cluster.run
            WHERE scheduler = $1 AND (
                status = 'queued' AND greatest(updated_at, due_at) < now() - interval '10 seconds'
                    AND (tenant IS NULL OR tenant NOT IN (SELECT name FROM busy))
                OR status = 'running' AND lease_until < now() - interval '10 seconds')
            ORDER BY number LIMIT 1000"
        );
        let rows = self.query(&select, &[&scheduler]).await?;
        let ticket = |row: &Row| {
            Ok(Ticket {
                run: row.try_get("id")?,
                thread: row.try_get("thread")?,
                number: row.try_get("number")?,
                leg: row.try_get("leg")?,
                claims: row.try_get("fence")?,
                delay: Duration::ZERO,
            })
        };
        rows.iter().map(ticket).collect()
    }
}

impl RunInfo {
    /// Returns the ticket of the run's current leg.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket {
            run: self.id.clone(),
            thread: self.thread.clone(),
            number: self.number,
            leg: self.leg,
            claims: self.claims,
            delay: Duration::ZERO,
        }
    }
}

fn run_info(row: &Row) -> Result<RunInfo, ClusterError> {
    let id: String = row.try_get("id")?;
    let status = row.try_get::<_, &str>("status")?.parse();
    let mut outcome: RunResult = match row.try_get::<_, Option<&str>>("outcome")? {
        Some(_) => from_json(&id, row, "outcome")?,
        None => RunResult::default(),
    };
    // Clients see only the interrupts that they have to answer.
    outcome.interrupts.retain(|it| !is_timer(it));
    Ok(RunInfo {
        graph: row.try_get("graph")?,
        version: row.try_get("version")?,
        thread: row.try_get("thread")?,
        status: status.map_err(|problem| ClusterError::Corrupt { run: id.clone(), problem })?,
        number: row.try_get("number")?,
        leg: row.try_get("leg")?,
        claims: row.try_get("fence")?,
        worker: row.try_get("worker")?,
        outcome,
        id,
    })
}

/// Serialises a value of a run.
pub(super) fn to_json(run: &str, value: &impl serde::Serialize) -> Result<String, ClusterError> {
    serde_json::to_string(value)
        .map_err(|it| ClusterError::Corrupt { run: run.to_owned(), problem: it.to_string() })
}

/// Reads a column that contains JSON.
pub(super) fn from_json<T: serde::de::DeserializeOwned>(
    run: &str,
    row: &Row,
    column: &str,
) -> Result<T, ClusterError> {
    serde_json::from_str(row.try_get(column)?).map_err(|error| ClusterError::Corrupt {
        run: run.to_owned(),
        problem: format!("column `{column}`: {error}"),
    })
}

pub(super) fn to_millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
