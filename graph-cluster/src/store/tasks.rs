//! Tasks of runs that other workers execute.
//!
//! The worker of a run posts tasks; any worker claims them under a lease, [stores](super::task_writes) their messages,
//! and then their outcome. After another worker has claimed a task, the fence of the task rejects messages of the
//! previous worker.

use std::time::Duration;

use tokio_postgres::{Row, types::ToSql};

use super::{claims::Claim, database::RunStore, requests::to_millis};
use crate::error::ClusterError;

/// Maximum number of messages that are read at once.
const PAGE: i64 = 500;
/// Number of bits of a task's fence that count its claims.
const COUNT_BITS: i32 = 32;

/// A task that the worker of a run posts for other workers.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(crate) id: String,
    pub(crate) pool: Option<String>,
    pub(crate) step: i64,
    /// What the other worker needs to start the task, as JSON.
    pub(crate) start: String,
}

/// A task that this worker may execute until another worker claims it.
#[derive(Clone, Debug)]
pub(crate) struct TaskClaim {
    pub(crate) run: String,
    pub(crate) id: String,
    /// Key of the graph and its version.
    pub(crate) graph: String,
    pub(crate) start: String,
    /// Request that started the run, as JSON.
    pub(crate) request: String,
    /// Trace context of the caller that started the run.
    pub(crate) trace_parent: Option<String>,
    /// Fence of the claim: the fence of the run that posted the task, and in the lower [`COUNT_BITS`] the number of
    /// claims of the task.
    pub(crate) fence: i64,
    /// Number of claims since the task was last queued, including this one.
    pub(crate) attempts: i32,
}

impl TaskClaim {
    /// Returns the number of claims of the task so far, including this one.
    pub(crate) fn claim_count(&self) -> i64 {
        self.fence & ((1_i64 << COUNT_BITS) - 1)
    }
}

/// The worker that claims tasks, and the tasks that it accepts.
#[derive(Debug)]
pub(crate) struct TaskFilter<'a> {
    pub(crate) worker: &'a str,
    pub(crate) graphs: &'a [String],
    pub(crate) pools: &'a [String],
    /// Whether only tasks of runs that this worker executes are claimed.
    pub(crate) only_own_runs: bool,
    /// Number of tasks that are subtracted from the worker's share, because the worker has already claimed them.
    pub(crate) held: usize,
    /// Tasks that the worker executes. They are not claimed even if their leases have expired.
    pub(crate) active: &'a [&'a TaskClaim],
}

/// A message of a task: the id of the task, the position and the body.
pub(crate) type StoredMessage = (String, i64, String);

impl RunStore {
    /// Posts tasks of the current step of a claimed run, and deletes the tasks of earlier steps. Returns `false` if
    /// another worker has claimed the run.
    ///
    /// Tasks that have already been posted do not change, with one exception: a task that another version of the graph
    /// has posted, and that has not ended, starts again with the new input. Its recorded effects are kept.
    pub(crate) async fn post_tasks(
        &self,
        claim: &Claim,
        tasks: &[NewTask],
    ) -> Result<bool, ClusterError> {
        let step = tasks.iter().map(|it| it.step).min().unwrap_or_default();
        let ids: Vec<&str> = tasks.iter().map(|it| it.id.as_str()).collect();
        let pools: Vec<Option<&str>> = tasks.iter().map(|it| it.pool.as_deref()).collect();
        let steps: Vec<i64> = tasks.iter().map(|it| it.step).collect();
        let starts: Vec<&str> = tasks.iter().map(|it| it.start.as_str()).collect();
        // A resumed run posts tasks with the same ids again. Their fences start above those of the deleted tasks.
        let insert = "
            WITH held AS (
                SELECT id FROM graph_cluster.run WHERE id = $1 AND fence = $2 AND status = 'running' FOR SHARE
            ), deleted AS (
                DELETE FROM graph_cluster.task t USING held WHERE t.run = held.id AND t.step < $3
            ), added AS (
                INSERT INTO graph_cluster.task AS t (run, id, graph, pool, step, start, fence)
                SELECT held.id, n.id, $8, n.pool, n.step, n.start, $2::bigint << $9::integer
                FROM held, unnest($4::text[], $5::text[], $6::bigint[], $7::text[]) AS n (id, pool, step, start)
                ON CONFLICT (run, id) DO UPDATE SET graph = excluded.graph, pool = excluded.pool,
                    start = excluded.start, fence = t.fence + 1, attempts = 0, worker = NULL, lease_until = NULL
                WHERE t.graph <> excluded.graph AND t.outcome IS NULL
            )
            SELECT pg_notify('graph_cluster', 'task') FROM held";
        let graph = claim.graph_key();
        let params: [&(dyn ToSql + Sync); 9] = [
            &claim.request.id, &claim.fence, &step, &ids, &pools, &steps, &starts, &graph,
            &COUNT_BITS,
        ];
        Ok(self.query_opt(insert, &params).await?.is_some())
    }

    /// Returns the outcomes of the given tasks that have ended.
    pub(crate) async fn read_outcomes(
        &self,
        run: &str,
        tasks: &[String],
    ) -> Result<Vec<(String, String)>, ClusterError> {
        let select = "
            SELECT id, outcome FROM graph_cluster.task WHERE run = $1 AND id = ANY($2) AND outcome IS NOT NULL";
        let rows = self.query(select, &[&run, &tasks]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Returns messages of tasks, ordered by task and position. `positions` contains the first position for each task.
    /// Also returns whether there may be more messages.
    pub(crate) async fn read_messages(
        &self,
        run: &str,
        tasks: &[String],
        positions: &[i64],
    ) -> Result<(Vec<StoredMessage>, bool), ClusterError> {
        let select = "
            SELECT m.task, m.seq, m.body FROM unnest($2::text[], $3::bigint[]) AS o (task, seq)
            JOIN graph_cluster.task_message m ON m.run = $1 AND m.task = o.task AND m.seq >= o.seq
            ORDER BY m.task, m.seq LIMIT $4";
        let rows = self.query(select, &[&run, &tasks, &positions, &PAGE]).await?;
        let is_full = rows.len() as i64 == PAGE;
        let message = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
        Ok((rows.iter().map(message).collect::<Result<_, ClusterError>>()?, is_full))
    }

    /// Claims up to `limit` tasks that no worker executes, but not more than the worker's fair share. To compute the
    /// share, the unfinished tasks are divided equally among the workers that can execute them and have reported within
    /// ten seconds. Tasks of the worker's pools come first, because fewer workers can execute them.
    pub(crate) async fn claim_tasks(
        &self,
        filter: &TaskFilter<'_>,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<TaskClaim>, ClusterError> {
        let update = "
            WITH work AS (
                SELECT t.graph, t.pool, count(*) AS tasks
                FROM graph_cluster.task t JOIN graph_cluster.run r ON r.id = t.run
                WHERE t.outcome IS NULL AND t.graph = ANY($2) AND (t.pool IS NULL OR t.pool = ANY($3))
                    AND r.status IN ('queued', 'running') AND NOT r.cancel AND (NOT $4 OR r.worker = $1)
                GROUP BY t.graph, t.pool
            ), share AS (
                SELECT ceil(sum(work.tasks / greatest(1, (
                    SELECT count(*) FROM graph_cluster.worker w
                    WHERE NOT w.draining AND w.seen_at > now() - interval '10 seconds'
                        AND work.graph = ANY(w.graphs) AND (work.pool IS NULL OR work.pool = ANY(w.pools))
                ))::numeric))::bigint AS tasks FROM work
            ), next AS (
                SELECT t.run, t.id
                FROM graph_cluster.task t JOIN graph_cluster.run r ON r.id = t.run
                WHERE t.outcome IS NULL AND (t.lease_until IS NULL OR t.lease_until < now())
                    AND t.graph = ANY($2) AND (t.pool IS NULL OR t.pool = ANY($3))
                    AND r.status IN ('queued', 'running') AND NOT r.cancel AND (NOT $4 OR r.worker = $1)
                    AND (t.run, t.id) NOT IN (SELECT run, id FROM unnest($8::text[], $9::text[]) AS a (run, id))
                ORDER BY t.pool IS NULL, t.number
                LIMIT (SELECT greatest(0, least($5, tasks - $7)) FROM share) FOR UPDATE OF t SKIP LOCKED
            )
            UPDATE graph_cluster.task t SET worker = $1, fence = t.fence + 1, attempts = t.attempts + 1,
                lease_until = now() + $6 * interval '1 millisecond'
            FROM next JOIN graph_cluster.run r ON r.id = next.run WHERE t.run = next.run AND t.id = next.id
            RETURNING t.run, t.id, t.graph, t.start, t.fence, t.attempts, r.request, r.trace_parent";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let TaskFilter { worker, graphs, pools, only_own_runs, held, active } = filter;
        let held = i64::try_from(*held).unwrap_or(i64::MAX);
        let (runs, ids, _) = columns(active);
        let params: [&(dyn ToSql + Sync); 9] =
            [worker, graphs, pools, only_own_runs, &limit, &to_millis(lease), &held, &runs, &ids];
        let rows = self.query(update, &params).await?;
        rows.iter().map(task_claim).collect()
    }

    /// Returns the messages that earlier claims of a task have stored, as pairs of position and body.
    pub(crate) async fn task_history(
        &self,
        task: &TaskClaim,
    ) -> Result<Vec<(i64, String)>, ClusterError> {
        let select = "
            SELECT seq, body FROM graph_cluster.task_message WHERE run = $1 AND task = $2 ORDER BY seq";
        let rows = self.query(select, &[&task.run, &task.id]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Extends the leases of claimed tasks. Returns the tasks that this worker still holds, as pairs of run and id.
    pub(crate) async fn extend_task_leases(
        &self,
        tasks: &[&TaskClaim],
        lease: Duration,
    ) -> Result<Vec<(String, String)>, ClusterError> {
        // The tasks are locked in the same order as in `write_tasks`.
        let update = "
            WITH held AS (
                SELECT t.run, t.id FROM unnest($1::text[], $2::text[], $3::bigint[]) AS h (run, id, fence)
                JOIN graph_cluster.task t ON t.run = h.run AND t.id = h.id AND t.fence = h.fence
                JOIN graph_cluster.run r ON r.id = t.run
                WHERE t.outcome IS NULL AND r.status IN ('queued', 'running') AND NOT r.cancel
                ORDER BY t.run, t.id FOR NO KEY UPDATE OF t
            )
            UPDATE graph_cluster.task t SET lease_until = now() + $4 * interval '1 millisecond'
            FROM held WHERE t.run = held.run AND t.id = held.id
            RETURNING t.run, t.id";
        let (runs, ids, fences) = columns(tasks);
        let rows = self.query(update, &[&runs, &ids, &fences, &to_millis(lease)]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Returns claimed tasks to the queue.
    pub(crate) async fn requeue_tasks(&self, tasks: &[&TaskClaim]) -> Result<(), ClusterError> {
        // The tasks are locked in the same order as in `write_tasks`.
        let update = "
            WITH held AS (
                SELECT t.run, t.id FROM unnest($1::text[], $2::text[], $3::bigint[]) AS h (run, id, fence)
                JOIN graph_cluster.task t ON t.run = h.run AND t.id = h.id AND t.fence = h.fence
                ORDER BY t.run, t.id FOR NO KEY UPDATE OF t
            ), queued AS (
                UPDATE graph_cluster.task t SET worker = NULL, lease_until = NULL, attempts = 0
                FROM held WHERE t.run = held.run AND t.id = held.id RETURNING t.id
            )
            SELECT pg_notify('graph_cluster', 'task') FROM queued LIMIT 1";
        let (runs, ids, fences) = columns(tasks);
        self.query(update, &[&runs, &ids, &fences]).await.map(drop)
    }
}

fn columns<'a>(tasks: &[&'a TaskClaim]) -> (Vec<&'a str>, Vec<&'a str>, Vec<i64>) {
    let runs = tasks.iter().map(|it| it.run.as_str()).collect();
    let ids = tasks.iter().map(|it| it.id.as_str()).collect();
    (runs, ids, tasks.iter().map(|it| it.fence).collect())
}

fn task_claim(row: &Row) -> Result<TaskClaim, ClusterError> {
    Ok(TaskClaim {
        run: row.try_get("run")?,
        id: row.try_get("id")?,
        graph: row.try_get("graph")?,
        start: row.try_get("start")?,
        request: row.try_get("request")?,
        trace_parent: row.try_get("trace_parent")?,
        fence: row.try_get("fence")?,
        attempts: row.try_get("attempts")?,
    })
}
