//! Deletion of runs. Their events and tasks are deleted with them.

use std::time::Duration;

use super::{database::RunStore, requests::to_millis};
use crate::error::ClusterError;

/// Maximum number of runs that are deleted in one statement, so that locks are held for a short time.
const BATCH: i64 = 500;

impl RunStore {
    /// Deletes a run that is not active.
    pub(crate) async fn delete_run(&self, run: &str) -> Result<(), ClusterError> {
        let delete = "
            DELETE FROM graph_cluster.run WHERE id = $1 AND status NOT IN ('queued', 'running') RETURNING id";
        if self.query_opt(delete, &[&run]).await?.is_some() {
            return Ok(());
        }
        // Fails if the run does not exist.
        self.read_run(run).await?;
        Err(ClusterError::ActiveRun(run.to_owned()))
    }

    /// Deletes all runs of a thread, unless one of them is active. Returns their number.
    pub(crate) async fn delete_runs_of_thread(&self, thread: &str) -> Result<u64, ClusterError> {
        // The condition on the status is checked again for a row that has changed since the statement began.
        let delete = "
            WITH active AS (
                SELECT id FROM graph_cluster.run WHERE thread = $1 AND status IN ('queued', 'running') LIMIT 1
            ), deleted AS (
                DELETE FROM graph_cluster.run WHERE thread = $1 AND status NOT IN ('queued', 'running')
                    AND NOT EXISTS (SELECT FROM active) RETURNING id
            )
            SELECT (SELECT id FROM active) AS active, count(*) AS deleted FROM deleted";
        let Some(row) = self.query_opt(delete, &[&thread]).await? else { return Ok(0) };
        match row.try_get::<_, Option<String>>("active")? {
            Some(run) => Err(ClusterError::ActiveRun(run)),
            None => Ok(row.try_get::<_, i64>("deleted")?.unsigned_abs()),
        }
    }

    /// Deletes runs that ended and have not changed for this time. Returns their number.
    pub(crate) async fn delete_ended(&self, unchanged_for: Duration) -> Result<u64, ClusterError> {
        let delete = "
            WITH old AS (
                SELECT id FROM graph_cluster.run WHERE status IN ('done', 'failed', 'cancelled')
                    AND updated_at <= now() - $1 * interval '1 millisecond' LIMIT $2
            )
            DELETE FROM graph_cluster.run r USING old
            WHERE r.id = old.id AND r.status IN ('done', 'failed', 'cancelled') RETURNING r.id";
        let age = to_millis(unchanged_for);
        let mut total = 0;
        loop {
            match self.query(delete, &[&age, &BATCH]).await?.len() {
                0 => return Ok(total),
                deleted => total += deleted as u64,
            }
        }
    }
}
