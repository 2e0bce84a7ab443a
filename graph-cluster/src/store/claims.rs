//! Operations of workers on runs: claiming them, extending their leases, and storing how they ended.

use std::{collections::BTreeMap, time::Duration};

use graph_core::checkpoint::CheckpointId;
use serde_json::Value;
use tokio_postgres::{Row, error::SqlState, types::ToSql};

use super::{
    database::RunStore,
    requests::{from_json, to_json, to_millis},
    tenants::BUSY_TENANTS,
};
use crate::{
    error::ClusterError,
    graph_version::{ServedVersions, graph_key},
    run::{RunResult, StartRun},
    run_status::RunStatus,
    timer::Sleep,
};

/// A leg that this worker may execute until another worker claims it.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) request: StartRun,
    /// Version of the graph that executes the run.
    pub(crate) version: String,
    pub(crate) leg: i32,
    pub(crate) answers: BTreeMap<String, Value>,
    /// The newest checkpoint of the thread when the last leg ended, if it was stored.
    pub(crate) head: Option<CheckpointId>,
    /// Number of claims of the run so far, including this one.
    pub(crate) fence: i64,
    /// Number of claims since the run was last queued, including this one.
    pub(crate) attempts: i32,
    /// Whether the run should be cancelled.
    pub(crate) cancel: bool,
}

impl Claim {
    /// Returns the key of the graph and its version.
    pub(crate) fn graph_key(&self) -> String {
        graph_key(&self.request.graph, &self.version)
    }
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

/// Columns of a claimed run. The outcome may be large, so only its head is read. If the outcome has a head, it is the
/// last field of the JSON text.
const CLAIMED: &str = r#"r.id, r.request, r.version, r.trace_parent, r.leg, r.answers, r.fence, r.attempts, r.cancel,
    substring(right(r.outcome, 42) FROM '^"head":"([0-9a-f]{32})"}$') AS head"#;

/// The versions of graphs that a worker serves, as a table. A run without a version has not started.
const SERVED: &str = "unnest($2::text[], $3::text[], $4::text[]) AS s (graph, version, target)
     ON s.graph = r.graph AND s.version IS NOT DISTINCT FROM r.version";

/// Code that the trigger of the table raises if the tenant of a run has reached its limit.
const TENANT_BUSY: &str = "GC001";

impl RunStore {
    /// Claims the oldest run that may execute now. A running run may execute once the lease of its worker has expired.
    /// A queued run may execute if it is due, no run of its thread is executing, no earlier run of its thread is due,
    /// and its tenant has not reached its limit.
    pub(crate) async fn claim_next(
        &self,
        worker: &str,
        served: &ServedVersions,
        lease: Duration,
        scheduler: &str,
    ) -> Result<Option<Claim>, ClusterError> {
        let claim = format!(
            "WITH busy AS MATERIALIZED ({BUSY_TENANTS}), next AS (
                SELECT r.id, s.target FROM graph_cluster.run r JOIN {SERVED}
                WHERE r.scheduler = $6 AND (
                    r.status = 'running' AND r.lease_until < now()
                    OR r.status = 'queued' AND r.due_at <= now()
                    AND (r.tenant IS NULL OR r.tenant NOT IN (SELECT name FROM busy))
                    AND NOT EXISTS (
                        SELECT FROM graph_cluster.run o WHERE o.thread = r.thread AND (
                            o.status = 'running'
                            OR o.status = 'queued' AND o.number < r.number AND o.due_at <= now())))
                ORDER BY r.number LIMIT 1 FOR UPDATE OF r SKIP LOCKED
            )
            UPDATE graph_cluster.run r SET status = 'running', worker = $1, version = next.target, fence = r.fence + 1,
                attempts = r.attempts + 1, lease_until = now() + $5 * interval '1 millisecond', updated_at = now()
            FROM next WHERE r.id = next.id RETURNING {CLAIMED}"
        );
        let ServedVersions { graphs, versions, targets } = served;
        let lease = to_millis(lease);
        let params: [&(dyn ToSql + Sync); 6] =
            [&worker, graphs, versions, targets, &lease, &scheduler];
        loop {
            match self.claim(&claim, &params).await? {
                Ok(claim) => return Ok(claim),
                // Another worker has claimed another run of the thread at the same time.
                Err(Busy::Thread) => return Ok(None),
                // The tenant has reached its limit, because another worker claimed one of its runs at the same time.
                // The next statement skips the tenant.
                Err(Busy::Tenant) => {}
            }
        }
    }

    /// Claims the leg that a scheduler has assigned to this worker. Returns `None` if the leg has ended, and an error
    /// if the run must wait or this worker does not serve its version.
    #[cfg(feature = "restate")]
    pub(crate) async fn claim_ticket(
        &self,
        worker: &str,
        ticket: &crate::run::Ticket,
        served: &ServedVersions,
        lease: Duration,
    ) -> Result<Option<Claim>, ClusterError> {
        let claim = format!(
            "WITH next AS (
                SELECT r.id, s.target FROM graph_cluster.run r JOIN {SERVED}
                WHERE r.id = $6 AND r.leg = $7 AND r.status IN ('queued', 'running') FOR UPDATE OF r
            )
            UPDATE graph_cluster.run r SET status = 'running', worker = $1, version = next.target, fence = r.fence + 1,
                attempts = r.attempts + 1, lease_until = now() + $5 * interval '1 millisecond', updated_at = now()
            FROM next WHERE r.id = next.id RETURNING {CLAIMED}"
        );
        let ServedVersions { graphs, versions, targets } = served;
        let (run, lease) = (&ticket.run, to_millis(lease));
        let params: [&(dyn ToSql + Sync); 7] =
            [&worker, graphs, versions, targets, &lease, run, &ticket.leg];
        match self.claim(&claim, &params).await? {
            Ok(Some(claim)) => Ok(Some(claim)),
            Ok(None) => self.check_served(worker, ticket).await.map(|()| None),
            Err(Busy::Thread) => {
                let thread = ticket.thread.clone();
                Err(ClusterError::ThreadBusy { run: run.clone(), thread })
            }
            Err(Busy::Tenant) => Err(ClusterError::TenantBusy(run.clone())),
        }
    }

    /// Fails if the leg of a ticket is active. In that case, the worker could not claim the leg because it does not
    /// serve the run's version.
    #[cfg(feature = "restate")]
    async fn check_served(
        &self,
        worker: &str,
        ticket: &crate::run::Ticket,
    ) -> Result<(), ClusterError> {
        let select = "
            SELECT graph, version FROM graph_cluster.run
            WHERE id = $1 AND leg = $2 AND status IN ('queued', 'running')";
        let Some(row) = self.query_opt(select, &[&ticket.run, &ticket.leg]).await? else {
            return Ok(());
        };
        let version: Option<String> = row.try_get("version")?;
        Err(ClusterError::VersionNotServed {
            run: ticket.run.clone(),
            graph: graph_key(row.try_get("graph")?, &version.unwrap_or_default()),
            worker: worker.to_owned(),
        })
    }

    /// Claims the run of a thread whose worker has died, if there is one that this worker serves.
    #[cfg(feature = "restate")]
    pub(crate) async fn claim_expired(
        &self,
        worker: &str,
        thread: &str,
        served: &ServedVersions,
        lease: Duration,
    ) -> Result<Option<Claim>, ClusterError> {
        let claim = format!(
            "WITH next AS (
                SELECT r.id, s.target FROM graph_cluster.run r JOIN {SERVED}
                WHERE r.thread = $6 AND r.status = 'running' AND r.lease_until < now() FOR UPDATE OF r
            )
            UPDATE graph_cluster.run r SET worker = $1, version = next.target, fence = r.fence + 1,
                attempts = r.attempts + 1, lease_until = now() + $5 * interval '1 millisecond', updated_at = now()
            FROM next WHERE r.id = next.id RETURNING {CLAIMED}"
        );
        let ServedVersions { graphs, versions, targets } = served;
        let params: [&(dyn ToSql + Sync); 6] =
            [&worker, graphs, versions, targets, &to_millis(lease), &thread];
        Ok(self.claim(&claim, &params).await?.unwrap_or_default())
    }

    async fn claim(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Result<Option<Claim>, Busy>, ClusterError> {
        let connection = self.connection().await?;
        let statement = connection.prepare_cached(statement).await?;
        match connection.query_opt(&statement, params).await {
            Ok(row) => Ok(Ok(row.as_ref().map(claimed).transpose()?)),
            Err(error) => match error.code() {
                Some(&SqlState::UNIQUE_VIOLATION) => Ok(Err(Busy::Thread)),
                Some(code) if code.code() == TENANT_BUSY => Ok(Err(Busy::Tenant)),
                _ => Err(error.into()),
            },
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

    /// Stores the result of a claimed leg. If the run sleeps, also queues the next leg for the end of its timer.
    /// Returns `false` if another worker has claimed the run.
    ///
    /// A cancellation that was accepted while the leg ended takes effect, unless the run is done.
    pub(crate) async fn end_leg(
        &self,
        claim: &Claim,
        status: RunStatus,
        outcome: &RunResult,
        sleep: Option<&Sleep>,
    ) -> Result<bool, ClusterError> {
        let id = &claim.request.id;
        let outcome = to_json(id, outcome)?;
        let answers = sleep.map(|it| to_json(id, &it.answers)).transpose()?;
        let until = sleep.map(|it| it.until as f64);
        let (status, added_legs) = match sleep {
            Some(_) => (RunStatus::Queued, 1),
            None => (status, 0),
        };
        // The tasks are locked in the same order as in `write_tasks`.
        let update = "
            WITH ended AS (
                UPDATE graph_cluster.run
                SET status = CASE WHEN cancel AND $3::text IN ('queued', 'interrupted', 'stopped', 'failed')
                        THEN 'cancelled' ELSE $3::text END,
                    outcome = $4, leg = leg + $5, attempts = 0, answers = coalesce($6, answers),
                    due_at = coalesce(to_timestamp($7::double precision / 1000), due_at),
                    worker = NULL, lease_until = NULL, updated_at = now()
                WHERE id = $1 AND fence = $2 AND status = 'running' RETURNING id
            ), tasks AS (
                SELECT t.run, t.id FROM graph_cluster.task t JOIN ended ON t.run = ended.id
                ORDER BY t.run, t.id FOR UPDATE OF t
            ), deleted AS (
                DELETE FROM graph_cluster.task t USING tasks WHERE t.run = tasks.run AND t.id = tasks.id
            )
            SELECT pg_notify('graph_cluster', 'changed ' || id), pg_notify('graph_cluster', 'queued') FROM ended";
        let params: [&(dyn ToSql + Sync); 7] =
            [id, &claim.fence, &status.name(), &outcome, &added_legs, &answers, &until];
        Ok(self.query_opt(update, &params).await?.is_some())
    }

    /// Returns a claimed run to the queue, where it stays before later runs of its thread.
    pub(crate) async fn requeue(&self, claim: &Claim) -> Result<(), ClusterError> {
        let update = "
            WITH queued AS (
                UPDATE graph_cluster.run
                SET status = 'queued', attempts = 0, worker = NULL, lease_until = NULL, updated_at = now()
                WHERE id = $1 AND fence = $2 AND status = 'running' RETURNING id
            )
            SELECT pg_notify('graph_cluster', 'queued') FROM queued";
        self.query_opt(update, &[&claim.request.id, &claim.fence]).await.map(drop)
    }

    /// Decrements the number of attempts of a claimed run whose execution failed because of the database, and not
    /// because of the worker.
    pub(crate) async fn reset_attempt(&self, claim: &Claim) -> Result<(), ClusterError> {
        // Sets a value instead of decrementing it, so that the statement is idempotent.
        let update = "
            UPDATE graph_cluster.run SET attempts = $3 WHERE id = $1 AND fence = $2 AND status = 'running'";
        let attempts = claim.attempts - 1;
        self.query(update, &[&claim.request.id, &claim.fence, &attempts]).await.map(drop)
    }

    /// Ends the database session that holds the checkpointer's lease on the thread of a claimed run, so that the lease
    /// is released. The previous holder's writes are rejected once this worker has leased the thread.
    ///
    /// Does nothing if this is the first claim of the thread: the holder is then not a worker of the cluster. Returns
    /// whether a session was ended.
    pub(crate) async fn evict_lease_holder(
        &self,
        checkpoint_schema: &str,
        claim: &Claim,
    ) -> Result<bool, ClusterError> {
        let thread = &claim.request.thread;
        let select = "SELECT 1 FROM graph_cluster.run WHERE thread = $1 HAVING sum(fence) > 1";
        match self.query_opt(select, &[thread]).await? {
            Some(_) => Ok(self.connections().evict_lease_holder(checkpoint_schema, thread).await?),
            None => Ok(false),
        }
    }

    /// Checks that the tables of the checkpointer are in this database, which eviction requires.
    pub(crate) async fn check_checkpoint_schema(&self, schema: &str) -> Result<(), ClusterError> {
        match self.connections().has_saver(schema).await? {
            true => Ok(()),
            false => Err(ClusterError::NoCheckpointer(schema.to_owned())),
        }
    }
}

/// The reason why a run cannot be claimed at present.
enum Busy {
    /// Another run of the thread is executing.
    Thread,
    /// The tenant has reached its limit.
    Tenant,
}

fn claimed(row: &Row) -> Result<Claim, ClusterError> {
    let id: String = row.try_get("id")?;
    let request: StartRun = from_json(&id, row, "request")?;
    Ok(Claim {
        answers: from_json(&id, row, "answers")?,
        // The statement returns only valid ids.
        head: row.try_get::<_, Option<&str>>("head")?.and_then(|it| it.parse().ok()),
        request: StartRun { id, trace_parent: row.try_get("trace_parent")?, ..request },
        version: row.try_get("version")?,
        leg: row.try_get("leg")?,
        fence: row.try_get("fence")?,
        attempts: row.try_get("attempts")?,
        cancel: row.try_get("cancel")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_the_last_field_of_an_outcome() {
        let head = "0123456789abcdef0123456789abcdef".parse().ok();
        let outcome = RunResult { head, error: Some("{}".to_owned()), ..RunResult::default() };
        let text = to_json("r", &outcome).expect("an outcome serialises to JSON");
        let expected = "\"head\":\"0123456789abcdef0123456789abcdef\"}";
        assert!(text.ends_with(expected) && expected.len() == 42, "{text}");
    }
}
