//! The workers of a cluster and the runs that they execute.

use std::collections::BTreeMap;

use serde::Serialize;

use super::database::RunStore;
use crate::error::ClusterError;

/// The workers of a cluster and its runs.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterStatus {
    /// Workers that have reported within the last hour, sorted by id.
    pub workers: Vec<WorkerStatus>,
    /// Number of runs by status.
    pub runs: BTreeMap<String, i64>,
    /// Graphs and versions of active runs that no live worker serves, with the number of these runs. They wait.
    pub unserved: BTreeMap<String, i64>,
}

/// A worker and the runs that it executes.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerStatus {
    /// Id of the worker.
    pub id: String,
    /// Graphs that the worker executes, as `name` or `name@version`.
    pub graphs: Vec<String>,
    /// Pools that the worker serves.
    pub pools: Vec<String>,
    /// Number of spread tasks that the worker executes, for runs of any worker.
    pub tasks: i64,
    /// Whether the worker is shutting down and claims no new runs.
    pub draining: bool,
    /// Milliseconds since the last report of the worker.
    pub seen_ms_ago: i64,
    /// Runs that the worker executes.
    pub runs: Vec<WorkerRun>,
}

/// A run that a worker executes.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerRun {
    /// Id of the run.
    pub run: String,
    /// Name of the graph.
    pub graph: String,
    /// Name of the thread.
    pub thread: String,
    /// Number of times that the run was claimed.
    pub claims: i64,
    /// Milliseconds since the worker claimed the run.
    pub running_ms: i64,
}

/// The properties that a worker reports.
pub(crate) struct WorkerReport<'a> {
    pub(crate) id: &'a str,
    /// Keys of the graphs that the worker executes.
    pub(crate) graphs: &'a [String],
    /// Versions of runs that the worker claims.
    pub(crate) served: &'a [String],
    pub(crate) pools: &'a [String],
}

impl RunStore {
    /// Returns the workers and the runs that they execute.
    pub(crate) async fn status(&self) -> Result<ClusterStatus, ClusterError> {
        let workers = "
            SELECT id, graphs, pools, draining, (extract(epoch FROM now() - seen_at) * 1000)::bigint AS seen,
                (SELECT count(*) FROM graph_cluster.task t WHERE t.worker = w.id AND t.outcome IS NULL) AS tasks
            FROM graph_cluster.worker w WHERE seen_at > now() - interval '1 hour' ORDER BY id";
        let running = "
            SELECT worker, id, graph, thread, fence, (extract(epoch FROM now() - updated_at) * 1000)::bigint AS age
            FROM graph_cluster.run WHERE status = 'running' ORDER BY number";
        let unserved = "
            WITH active AS (
                SELECT graph || coalesce('@' || version, '') AS name, count(*) AS runs FROM graph_cluster.run
                WHERE status IN ('queued', 'running') GROUP BY 1
            )
            SELECT name, runs FROM active WHERE NOT EXISTS (
                SELECT FROM graph_cluster.worker w
                WHERE active.name = ANY(w.served) AND NOT w.draining AND w.seen_at > now() - interval '1 minute')";
        let counts = "SELECT status, count(*) FROM graph_cluster.run GROUP BY status";
        let mut by_worker: BTreeMap<String, Vec<WorkerRun>> = BTreeMap::new();
        for row in self.query(running, &[]).await? {
            by_worker.entry(row.try_get("worker")?).or_default().push(WorkerRun {
                run: row.try_get("id")?,
                graph: row.try_get("graph")?,
                thread: row.try_get("thread")?,
                claims: row.try_get("fence")?,
                running_ms: row.try_get("age")?,
            });
        }
        let mut found = Vec::new();
        for row in self.query(workers, &[]).await? {
            let id: String = row.try_get("id")?;
            found.push(WorkerStatus {
                graphs: row.try_get("graphs")?,
                pools: row.try_get("pools")?,
                tasks: row.try_get("tasks")?,
                draining: row.try_get("draining")?,
                seen_ms_ago: row.try_get("seen")?,
                runs: by_worker.remove(&id).unwrap_or_default(),
                id,
            });
        }
        let (runs, unserved) = (self.counts(counts).await?, self.counts(unserved).await?);
        Ok(ClusterStatus { workers: found, runs, unserved })
    }

    /// Executes a query that returns pairs of a name and a number.
    pub(super) async fn counts(&self, query: &str) -> Result<BTreeMap<String, i64>, ClusterError> {
        let rows = self.query(query, &[]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Reports that a worker is alive.
    pub(crate) async fn report_worker(
        &self,
        worker: &WorkerReport<'_>,
        draining: bool,
    ) -> Result<(), ClusterError> {
        let upsert = "
            INSERT INTO graph_cluster.worker (id, graphs, served, pools, draining) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (id) DO UPDATE SET graphs = $2, served = $3, pools = $4, draining = $5, seen_at = now()";
        let WorkerReport { id, graphs, served, pools } = worker;
        self.query(upsert, &[id, graphs, served, pools, &draining]).await.map(drop)
    }

    /// Removes a worker that has shut down, and workers that have not reported for an hour.
    pub(crate) async fn remove_worker(&self, worker: &str) -> Result<(), ClusterError> {
        let delete = "
            DELETE FROM graph_cluster.worker WHERE id = $1 OR seen_at < now() - interval '1 hour'";
        self.query(delete, &[&worker]).await.map(drop)
    }
}
