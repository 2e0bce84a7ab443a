//! Events and leases of runs in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    connection::PostgresStorage,
    notices::to_payload,
    queue::{LEASE, cancellation_at, uuid_at},
};
use crate::langgraph::{
    cancellation::Cancellation,
    error::{ApiError, ApiResult},
    storage::{Claim, EventLog, Notice, SharedEvents, StoredEvent},
};

/// Maximum number of events that are read at once.
const PAGE: i64 = 500;
/// Time for which the events of an ended run are kept, in seconds.
const RETENTION_SECONDS: f64 = 3600.0;
/// Maximum number of recent runs of a thread whose events are read.
const MAX_RUNS: i64 = 16;

#[async_trait]
impl EventLog for PostgresStorage {
    async fn append(&self, claim: &Claim, events: &[(u64, String)]) -> ApiResult<bool> {
        // The row lock makes a concurrent claim wait until the events are stored.
        let insert = "
            WITH held AS (
                SELECT run, thread FROM graph_server.queue WHERE run = $1 AND fence = $2 FOR SHARE
            ), added AS (
                INSERT INTO graph_server.event (run, seq, thread, body)
                SELECT held.run, e.seq, held.thread, e.body
                FROM held, unnest($3::bigint[], $4::text[]) AS e (seq, body)
                ON CONFLICT DO NOTHING
            )
            SELECT pg_notify('graph_server', 'events ' || run) FROM held";
        let seqs: Vec<_> = events.iter().map(|it| it.0.cast_signed()).collect();
        let bodies: Vec<_> = events.iter().map(|it| it.1.as_str()).collect();
        let params: [&(dyn ToSql + Sync); 4] =
            [&claim.run.to_string(), &claim.fence, &seqs, &bodies];
        Ok(self.query_opt(insert, &params).await?.is_some())
    }

    async fn read(&self, run: Uuid, after: u64) -> ApiResult<Vec<StoredEvent>> {
        let select = "
            SELECT seq, body, output FROM graph_server.event WHERE run = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let rows = self.query(select, &[&run.to_string(), &after.cast_signed(), &PAGE]).await?;
        rows.iter().map(event).collect()
    }

    async fn runs_of_thread(&self, thread: Uuid) -> ApiResult<Vec<Uuid>> {
        let select = "
            SELECT run FROM (
                SELECT run, min(seq) AS seq FROM graph_server.event WHERE thread = $1 GROUP BY run
                UNION ALL
                SELECT run, NULL FROM graph_server.queue q
                WHERE thread = $1 AND holder IS NOT NULL AND NOT ending
                    AND NOT EXISTS (SELECT FROM graph_server.event e WHERE e.run = q.run)
                ORDER BY seq DESC NULLS FIRST LIMIT $2
            ) recent ORDER BY seq NULLS LAST";
        let rows = self.query(select, &[&thread.to_string(), &MAX_RUNS]).await?;
        rows.iter().map(|row| uuid_at(row, 0)).collect()
    }

    async fn delete_thread(&self, thread: Uuid) -> ApiResult<()> {
        let delete = "DELETE FROM graph_server.event WHERE thread = $1";
        self.query(delete, &[&thread.to_string()]).await.map(drop)
    }

    async fn delete_old(&self) -> ApiResult<()> {
        let delete = "
            DELETE FROM graph_server.event e USING graph_server.event ended
            WHERE ended.output IS NOT NULL AND ended.created_at < now() - $1 * interval '1 second'
                AND e.run = ended.run";
        self.query(delete, &[&RETENTION_SECONDS]).await.map(drop)
    }
}

#[async_trait]
impl SharedEvents for PostgresStorage {
    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    fn lease(&self) -> Duration {
        LEASE
    }

    async fn renew(&self, held: &[(Uuid, i64)]) -> ApiResult<Vec<(Uuid, Option<Cancellation>)>> {
        let update = "
            UPDATE graph_server.queue q SET lease_until = now() + $3 * interval '1 second'
            FROM unnest($1::text[], $2::bigint[]) AS held (run, fence)
            WHERE q.run = held.run AND q.fence = held.fence
            RETURNING q.run, q.cancel_action, q.cancel_reason";
        let (runs, fences): (Vec<_>, Vec<_>) =
            held.iter().map(|(run, fence)| (run.to_string(), *fence)).unzip();
        let rows = self.query(update, &[&runs, &fences, &LEASE.as_secs_f64()]).await?;
        let renewed = |row: &Row| Ok((uuid_at(row, 0)?, cancellation_at(row, 1)?));
        rows.iter().map(renewed).collect()
    }

    async fn announce(&self, notice: Notice) -> ApiResult<()> {
        let notify = "SELECT pg_notify('graph_server', $1)";
        self.query(notify, &[&to_payload(&notice)]).await.map(drop)
    }
}

fn event(row: &Row) -> ApiResult<StoredEvent> {
    let output: Option<&str> = row.try_get(2)?;
    match output {
        None => {
            let seq: i64 = row.try_get(0)?;
            Ok(StoredEvent::Item { seq: seq.cast_unsigned(), body: row.try_get(1)? })
        }
        Some(output) => {
            let output: Value =
                serde_json::from_str(output).map_err(|error| ApiError::internal(&error))?;
            Ok(StoredEvent::End { output })
        }
    }
}
