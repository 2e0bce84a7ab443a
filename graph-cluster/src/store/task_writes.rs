//! Messages and outcomes of claimed tasks.
//!
//! One statement stores those of several tasks. Each task is checked on its own: if another worker has claimed it, only
//! its messages and its outcome are rejected.

use tokio_postgres::{Row, types::ToSql};

use super::{database::RunStore, tasks::TaskClaim};
use crate::error::ClusterError;

/// Messages and the outcome that a worker stores for a task which it has claimed.
#[derive(Debug)]
pub(crate) struct TaskWrite {
    run: String,
    task: String,
    fence: i64,
    /// Position of the first message.
    first_seq: i64,
    messages: Vec<String>,
    /// The outcome as JSON, if the task has ended.
    outcome: Option<String>,
}

impl TaskWrite {
    pub(crate) fn messages(claim: &TaskClaim, first_seq: i64, messages: Vec<String>) -> Self {
        Self { first_seq, messages, ..Self::empty(claim) }
    }

    pub(crate) fn outcome(claim: &TaskClaim, outcome: String) -> Self {
        Self { outcome: Some(outcome), ..Self::empty(claim) }
    }

    fn empty(claim: &TaskClaim) -> Self {
        let (run, task) = (claim.run.clone(), claim.id.clone());
        Self { run, task, fence: claim.fence, first_seq: 0, messages: Vec::new(), outcome: None }
    }

    /// Returns the size of the messages and the outcome in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.iter().chain(&self.outcome).map(String::len).sum()
    }
}

impl RunStore {
    /// Stores messages and outcomes of claimed tasks. Returns, for each of them in order, `false` if another worker has
    /// claimed the task or the task has ended.
    pub(crate) async fn write_tasks(
        &self,
        writes: &[&TaskWrite],
    ) -> Result<Vec<bool>, ClusterError> {
        // The row locks make a concurrent claim wait until the messages are stored. Statements that lock several tasks
        // lock them in the same order, so that they do not deadlock.
        let write = "
            WITH held AS (
                SELECT w.nth, w.outcome, t.run, t.id
                FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
                    WITH ORDINALITY AS w (run, id, fence, outcome, nth)
                JOIN graph_cluster.task t ON t.run = w.run AND t.id = w.id AND t.fence = w.fence
                WHERE t.outcome IS NULL ORDER BY t.run, t.id FOR NO KEY UPDATE OF t
            ), added AS (
                INSERT INTO graph_cluster.task_message (run, task, seq, body)
                SELECT held.run, held.id, m.seq, m.body
                FROM unnest($5::bigint[], $6::bigint[], $7::text[]) AS m (nth, seq, body)
                JOIN held ON held.nth = m.nth
                ON CONFLICT DO NOTHING
            ), ended AS (
                UPDATE graph_cluster.task t SET outcome = held.outcome, worker = NULL, lease_until = NULL
                FROM held WHERE t.run = held.run AND t.id = held.id AND held.outcome IS NOT NULL
            )
            SELECT nth, pg_notify('graph_cluster', 'task_updated ' || run) FROM held";
        let runs: Vec<&str> = writes.iter().map(|it| it.run.as_str()).collect();
        let tasks: Vec<&str> = writes.iter().map(|it| it.task.as_str()).collect();
        let fences: Vec<i64> = writes.iter().map(|it| it.fence).collect();
        let outcomes: Vec<Option<&str>> = writes.iter().map(|it| it.outcome.as_deref()).collect();
        let (mut numbers, mut positions, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for (number, write) in (1_i64..).zip(writes) {
            for (seq, body) in (write.first_seq..).zip(&write.messages) {
                numbers.push(number);
                positions.push(seq);
                bodies.push(body.as_str());
            }
        }
        let params: [&(dyn ToSql + Sync); 7] =
            [&runs, &tasks, &fences, &outcomes, &numbers, &positions, &bodies];
        let rows = self.query(write, &params).await?;
        let held: Vec<i64> =
            rows.iter().map(|row: &Row| row.try_get(0)).collect::<Result<_, _>>()?;
        Ok((1_i64..).take(writes.len()).map(|it| held.contains(&it)).collect())
    }
}
