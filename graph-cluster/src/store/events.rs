//! Stored events of runs.
//!
//! A worker stores events while a run executes, so a reader can start at any position, and a slow reader does not delay
//! the run. The fence keeps a worker that has lost the run from adding events.

use std::{sync::Arc, time::Instant};

use graph_core::{Event, EventKind, checkpoint::TaskId};
use serde::{Deserialize, Serialize};

use super::{
    claims::Claim,
    database::RunStore,
    requests::{from_json, to_json},
};
use crate::error::ClusterError;

/// Maximum number of events that are read at once.
const PAGE: i64 = 500;

/// A stored event of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunEvent {
    /// Position in the run's events, starting at 0. Positions have no gaps.
    #[serde(skip)]
    pub seq: i64,
    /// Number of the claim under which the event was stored. A task that was in flight when its worker died runs again
    /// under a higher number and sends its events again.
    pub claim: i64,
    /// Namespace of the graph: empty for the top-level graph, `node:task` for a subgraph.
    pub namespace: String,
    /// Number of the step.
    pub step: i64,
    /// Task that the event belongs to, if any.
    pub task: Option<TaskId>,
    /// Name of the node that this task runs.
    pub node: Option<String>,
    /// For events of an error handler, the failed task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_task: Option<TaskId>,
    /// For events of a subgraph, the task that runs the subgraph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task: Option<TaskId>,
    /// Kind and data of the event.
    pub kind: EventKind,
}

impl RunEvent {
    pub(crate) fn new(claim: i64, event: Event) -> Self {
        Self {
            seq: 0,
            claim,
            namespace: event.namespace.to_string(),
            step: event.step,
            task: event.task,
            node: event.node.as_deref().map(str::to_owned),
            handled_task: event.handled_task,
            parent_task: event.parent_task,
            kind: event.kind,
        }
    }

    /// Converts the event to an [`Event`] of the run with this id, for functions that process the events of local runs.
    /// The new event has the current time.
    pub fn into_event(self, run: Arc<str>) -> Event {
        Event {
            seq: self.seq.unsigned_abs(),
            at: Instant::now(),
            run,
            namespace: self.namespace.into(),
            step: self.step,
            task: self.task,
            node: self.node.map(Into::into),
            handled_task: self.handled_task,
            parent_task: self.parent_task,
            kind: self.kind,
        }
    }

    /// Serialises the event to the JSON text that the database stores.
    pub(crate) fn body(&self, run: &str) -> Result<String, ClusterError> {
        to_json(run, self)
    }
}

impl RunStore {
    /// Returns the position of the next event of a run.
    pub(crate) async fn next_seq(&self, run: &str) -> Result<i64, ClusterError> {
        let select = "SELECT coalesce(max(seq) + 1, 0) FROM graph_cluster.event WHERE run = $1";
        let row = self.query_opt(select, &[&run]).await?;
        Ok(row.map(|it| it.try_get(0)).transpose()?.unwrap_or(0))
    }

    /// Stores serialised events of a claimed run. Returns `false` if another worker has claimed the run.
    pub(crate) async fn append_events(
        &self,
        claim: &Claim,
        first_seq: i64,
        bodies: &[String],
    ) -> Result<bool, ClusterError> {
        let run = &claim.request.id;
        // The row lock makes a concurrent claim wait until these events are stored.
        let insert = "
            WITH held AS (
                SELECT id FROM graph_cluster.run WHERE id = $1 AND fence = $2 AND status = 'running' FOR SHARE
            ), added AS (
                INSERT INTO graph_cluster.event (run, seq, body)
                SELECT held.id, $3 + e.nth - 1, e.body
                FROM held, unnest($4::text[]) WITH ORDINALITY AS e (body, nth)
                ON CONFLICT DO NOTHING
            )
            SELECT pg_notify('graph_cluster', 'changed ' || id) FROM held";
        Ok(self.query_opt(insert, &[run, &claim.fence, &first_seq, &bodies]).await?.is_some())
    }

    /// Reads events of a run, starting at position `from`.
    pub(crate) async fn read_events(
        &self,
        run: &str,
        from: i64,
    ) -> Result<Vec<RunEvent>, ClusterError> {
        let select = "
            SELECT seq, body FROM graph_cluster.event WHERE run = $1 AND seq >= $2 ORDER BY seq LIMIT $3";
        let rows = self.query(select, &[&run, &from, &PAGE]).await?;
        let event = |row: &tokio_postgres::Row| {
            let event: RunEvent = from_json(run, row, "body")?;
            Ok(RunEvent { seq: row.try_get("seq")?, ..event })
        };
        rows.iter().map(event).collect()
    }
}
