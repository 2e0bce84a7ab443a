//! Operations of workers on runs: claiming them, extending their leases, and storing how they ended.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tokio_postgres::{Row, error::SqlState};

use super::{
    database::RunStore,
    requests::{from_json, to_json},
};
use crate::{
    error::ClusterError,
    run::{RunResult, StartRun},
    run_status::RunStatus,
};

/// A leg that this worker may execute until another worker claims it.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) request: StartRun,
    pub(crate) leg: i32,
    pub(crate) answers: BTreeMap<String, Value>,
    /// Number of claims of the run so far, including this one.
    pub(crate) fence: i64,
    /// Number of claims since the run was last queued, including this one.
    pub(crate) attempts: i32,
    /// Whether the run should be cancelled.
    pub(crate) cancel: bool,
}

/// Answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heartbeat {
    /// The worker still holds the run.
    Held,
    /// The worker holds the run, and should cancel it.
    Cancel,
    /// Another worker has claimed the run.
    Lost,
}

/// Columns of a claimed run.
const CLAIMED: &str = "r.id, r.request, r.leg, r.answers, r.fence, r.attempts, r.cancel";

impl RunStore {
    /// Claims the oldest run that may execute now: it is queued and no earlier run of its thread is active, or the lease
    /// of its worker has expired.
    pub(crate) async fn claim_next(
        &self,
        worker: &str,
        graphs: &[String],
        lease: Duration,
        scheduler: &str,
    ) -> Result<Option<Claim>, ClusterError> {
        let claim = format!(
            "WITH next AS (
                SELECT id FROM graph_cluster.run q
                WHERE graph = ANY($2) AND scheduler = $4 AND (
                    status = 'running' AND lease_until < now()
                    OR status = 'queued' AND NOT EXISTS (
                        SELECT FROM graph_cluster.run o WHERE o.thread = q.thread AND (
                            o.status = 'running' OR o.status = 'queued' AND o.number < q.number)))
                ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED
            )
            UPDATE graph_cluster.run r SET status = 'running', worker = $1, fence = r.fence + 1,
                attempts = r.attempts + 1, lease_until = now() + $3 * interval '1 millisecond', updated_at = now()
            FROM next WHERE r.id = next.id RETURNING {CLAIMED}"
        );
        let lease = to_millis(lease);
        // If another worker has claimed another run of the thread at the same time, this one stays queued.
        let claimed = self.claim(&claim, &[&worker, &graphs, &lease, &scheduler]).await?;
        Ok(claimed.unwrap_or_default())
    }

    /// Claims the leg that a scheduler has assigned to this worker. Returns `None` if the leg has ended, and an error if
    /// another run of the thread is executing.
    #[cfg(feature = "restate")]
    pub(crate) async fn claim_ticket(
        &self,
        worker: &str,
        ticket: &crate::run::Ticket,
        lease: Duration,
    ) -> Result<Option<Claim>, ClusterError> {
        let claim = format!(
            "UPDATE graph_cluster.run r SET status = 'running', worker = $1, fence = r.fence + 1,
                attempts = r.attempts + 1, lease_until = now() + $4 * interval '1 millisecond', updated_at = now()
            WHERE r.id = $2 AND r.leg = $3 AND r.status IN ('queued', 'running') RETURNING {CLAIMED}"
        );
        let lease = to_millis(lease);
        let claimed = self.claim(&claim, &[&worker, &ticket.run, &ticket.leg, &lease]).await?;
        claimed.map_err(|ThreadBusy| ClusterError::ThreadBusy {
            run: ticket.run.clone(),
            thread: ticket.thread.clone(),
        })
    }

    /// Claims the run of a thread whose worker has died, if there is one.
    #[cfg(feature = "restate")]
    pub(crate) async fn claim_expired(
        &self,
        worker: &str,
        thread: &str,
        lease: Duration,
    ) -> Result<Option<Claim>, ClusterError> {
        let claim = format!(
            "UPDATE graph_cluster.run r SET worker = $1, fence = r.fence + 1, attempts = r.attempts + 1,
                lease_until = now() + $3 * interval '1 millisecond', updated_at = now()
            WHERE r.thread = $2 AND r.status = 'running' AND r.lease_until < now() RETURNING {CLAIMED}"
        );
        let claimed = self.claim(&claim, &[&worker, &thread, &to_millis(lease)]).await?;
        Ok(claimed.unwrap_or_default())
    }

    async fn claim(
        &self,
        statement: &str,
        params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Result<Option<Claim>, ThreadBusy>, ClusterError> {
        let connection = self.connection().await?;
        let statement = connection.prepare_cached(statement).await?;
        match connection.query_opt(&statement, params).await {
            Ok(row) => Ok(Ok(row.as_ref().map(claimed).transpose()?)),
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(Err(ThreadBusy)),
            Err(error) => Err(error.into()),
        }
    }

    /// Extends the lease of a claimed run.
    pub(crate) async fn heartbeat(
        &self,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Heartbeat, ClusterError> {
        let update = "
            UPDATE graph_cluster.run SET lease_until = now() + $3 * interval '1 millisecond'
            WHERE id = $1 AND fence = $2 AND status = 'running' RETURNING cancel";
        let lease = to_millis(lease);
        let row = self.query_opt(update, &[&claim.request.id, &claim.fence, &lease]).await?;
        Ok(match row.map(|it| it.try_get(0)).transpose()? {
            None => Heartbeat::Lost,
            Some(true) => Heartbeat::Cancel,
            Some(false) => Heartbeat::Held,
        })
    }

    /// Stores how a claimed leg ended. Returns `false` if another worker has claimed the run.
    ///
    /// A cancellation that was accepted while the leg ended takes effect, unless the run is done.
    pub(crate) async fn end_leg(
        &self,
        claim: &Claim,
        status: RunStatus,
        outcome: &RunResult,
    ) -> Result<bool, ClusterError> {
        let outcome = to_json(&claim.request.id, outcome)?;
        let update = "
            WITH ended AS (
                UPDATE graph_cluster.run
                SET status = CASE WHEN cancel AND $3::text IN ('interrupted', 'stopped', 'failed')
                        THEN 'cancelled' ELSE $3::text END,
                    outcome = $4, worker = NULL, lease_until = NULL, updated_at = now()
                WHERE id = $1 AND fence = $2 AND status = 'running' RETURNING id
            ), deleted AS (
                DELETE FROM graph_cluster.task t USING ended WHERE t.run = ended.id
            )
            SELECT pg_notify('graph_cluster', 'changed ' || id), pg_notify('graph_cluster', 'queued') FROM ended";
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&claim.request.id, &claim.fence, &status.name(), &outcome];
        Ok(self.query_opt(update, &params).await?.is_some())
    }

    /// Returns a claimed run to the queue, where it stays before later runs of its thread.
    pub(crate) async fn hand_back(&self, claim: &Claim) -> Result<(), ClusterError> {
        let update = "
            WITH queued AS (
                UPDATE graph_cluster.run
                SET status = 'queued', attempts = 0, worker = NULL, lease_until = NULL, updated_at = now()
                WHERE id = $1 AND fence = $2 AND status = 'running' RETURNING id
            )
            SELECT pg_notify('graph_cluster', 'queued') FROM queued";
        self.query_opt(update, &[&claim.request.id, &claim.fence]).await.map(drop)
    }

    /// Does not count a claim as an attempt, because the worker is alive and the database failed.
    pub(crate) async fn uncount_attempt(&self, claim: &Claim) -> Result<(), ClusterError> {
        // Sets a value instead of decrementing it, so that the statement is idempotent.
        let update = "
            UPDATE graph_cluster.run SET attempts = $3 WHERE id = $1 AND fence = $2 AND status = 'running'";
        let attempts = claim.attempts - 1;
        self.query(update, &[&claim.request.id, &claim.fence, &attempts]).await.map(drop)
    }

    /// Ends the database session that holds the checkpointer's lease on the thread of a claimed run, so that the lease
    /// is released. The previous holder's writes are refused once this worker has leased the thread.
    ///
    /// Does nothing if this is the first claim of the thread: the holder is then not a worker of the cluster. Returns
    /// whether a session was ended.
    pub(crate) async fn evict_lease_holder(
        &self,
        checkpoint_schema: &str,
        claim: &Claim,
    ) -> Result<bool, ClusterError> {
        let quoted = quote(checkpoint_schema);
        let terminate = format!(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
            WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
                AND (l.classid::bigint << 32 | l.objid::bigint) = {quoted}.lock_of('lease', $1)
                AND (SELECT sum(fence) FROM graph_cluster.run WHERE thread = $2) > 1"
        );
        let thread = &claim.request.thread;
        let ended = self.query(&terminate, &[&thread.as_bytes(), thread]).await?;
        Ok(!ended.is_empty())
    }

    /// Checks that the tables of the checkpointer are in this database, which eviction requires.
    pub(crate) async fn check_checkpoint_schema(&self, schema: &str) -> Result<(), ClusterError> {
        let function = format!("{}.lock_of(text,bytea)", quote(schema));
        let select = "SELECT FROM pg_proc WHERE oid = to_regprocedure($1)";
        match self.query_opt(select, &[&function]).await? {
            Some(_) => Ok(()),
            None => Err(ClusterError::NoCheckpointer(schema.to_owned())),
        }
    }
}

/// Another run of the thread is executing.
struct ThreadBusy;

fn quote(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

fn claimed(row: &Row) -> Result<Claim, ClusterError> {
    let id: String = row.try_get("id")?;
    let request: StartRun = from_json(&id, row, "request")?;
    Ok(Claim {
        answers: from_json(&id, row, "answers")?,
        request: StartRun { id, ..request },
        leg: row.try_get("leg")?,
        fence: row.try_get("fence")?,
        attempts: row.try_get("attempts")?,
        cancel: row.try_get("cancel")?,
    })
}

pub(super) fn to_millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
