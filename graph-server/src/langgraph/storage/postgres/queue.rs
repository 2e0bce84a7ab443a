//! The queue in PostgreSQL, from which all replicas claim runs.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_postgres::{Row as PgRow, error::SqlState};
use uuid::Uuid;

use super::{connection::PostgresStorage, documents};
use crate::langgraph::{
    cancellation::Cancellation,
    error::{ApiError, ApiResult},
    storage::{
        ActiveRun, CancelOutcome, Claim, Decide, Filter, Next, Row, RunQueue, ThreadChange,
        ThreadEntry,
    },
};

/// Duration of a lease on a run. The runs of a killed replica continue after this time.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// Time after which a thread whose deletion was not completed can be used again, and after which a lock on the metadata
/// of a thread expires, in seconds.
const RESERVATION_SECONDS: f64 = 60.0;
/// Shortest wait for a lease to expire.
const MIN_WAIT: Duration = Duration::from_millis(50);

/// Columns of an active run. `now()` is not used, because it returns the time at which the transaction started, before
/// the thread was locked.
const ACTIVE: &str = "
    run, thread, owner, holder IS NOT NULL AND NOT ending, start_at <= statement_timestamp(),
    EXISTS (
        SELECT FROM graph_server.document
        WHERE kind = 'run' AND id = queue.run AND status NOT IN ('pending', 'running'))";

#[async_trait]
impl RunQueue for PostgresStorage {
    async fn change_thread(&self, thread: Uuid, decide: &mut Decide<'_>) -> ApiResult<()> {
        let mut connection = self.connection().await?;
        let transaction = connection.transaction().await?;
        let entry = lock_thread(&transaction, thread).await?;
        let change = decide(entry)?;
        apply(&transaction, thread, &change).await?;
        transaction.commit().await?;
        if change.run.is_some() {
            self.queue_changed.notify_one();
        }
        Ok(())
    }

    async fn release_thread(&self, thread: Uuid) -> ApiResult<()> {
        let delete = "DELETE FROM graph_server.reservation WHERE thread = $1";
        self.query(delete, &[&thread.to_string()]).await.map(drop)
    }

    async fn unlock_metadata(&self, lock: Uuid) -> ApiResult<()> {
        // Replicas that were killed leave expired locks.
        let delete = "DELETE FROM graph_server.metadata_lock WHERE id = $1 OR lease_until < now()";
        self.query(delete, &[&lock.to_string()]).await.map(drop)
    }

    async fn active_runs(&self, thread: Option<Uuid>) -> ApiResult<Vec<ActiveRun>> {
        let select = format!(
            "SELECT {ACTIVE} FROM graph_server.queue WHERE $1::text IS NULL OR thread = $1
            ORDER BY start_at, number"
        );
        let thread = thread.map(|it| it.to_string());
        self.query(&select, &[&thread]).await?.iter().map(active_run).collect()
    }

    async fn claim_next(&self) -> ApiResult<Next> {
        let claim = "
            WITH next AS (
                SELECT run FROM graph_server.queue q
                WHERE (ending OR start_at <= now()) AND (holder IS NULL OR lease_until < now())
                    AND (ending OR NOT EXISTS (
                        SELECT FROM graph_server.queue o
                        WHERE o.thread = q.thread AND o.run <> q.run AND NOT o.ending
                            AND (o.holder IS NOT NULL OR (o.start_at, o.number) < (q.start_at, q.number))))
                ORDER BY start_at, number LIMIT 1 FOR UPDATE SKIP LOCKED
            ), claimed AS (
                UPDATE graph_server.queue q
                SET holder = $1, fence = fence + 1, lease_until = now() + $2 * interval '1 second'
                FROM next WHERE q.run = next.run
                RETURNING q.run, q.thread, q.fence, q.cancel_action, q.cancel_reason, q.ending
            )
            SELECT run, thread, fence, cancel_action, cancel_reason,
                greatest((SELECT max(seq) FROM graph_server.event e WHERE e.thread = claimed.thread),
                    (extract(epoch FROM now()) * 1000000)::bigint),
                fence > 1 AND NOT ending,
                pg_notify('graph_server', 'started ' || thread || ' ' || run)
            FROM claimed";
        // The statement is executed once: after a lost connection, it may have claimed a run, which is claimed again
        // when the lease expires.
        let connection = self.connection().await?;
        let statement = connection.prepare_cached(claim).await?;
        let claimed =
            connection.query_opt(&statement, &[&self.replica, &LEASE.as_secs_f64()]).await;
        match claimed {
            Ok(Some(row)) => return Ok(Next::Run(claim_of(&row)?)),
            Ok(None) => {}
            // Another replica has claimed another run of the thread at the same time.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                return Ok(Next::Wait(Some(MIN_WAIT)));
            }
            Err(error) => return Err(error.into()),
        }
        drop(connection);
        // Time until the first run starts or the first lease expires.
        let select = "
            SELECT extract(epoch FROM min(CASE
                WHEN holder IS NULL THEN CASE WHEN start_at > now() THEN start_at END
                ELSE lease_until
            END) - now())::float8 FROM graph_server.queue";
        let row = self.query_opt(select, &[]).await?;
        let seconds: Option<f64> = row.map(|it| it.try_get(0)).transpose()?.flatten();
        let wait = seconds.map(|it| Duration::try_from_secs_f64(it).unwrap_or_default());
        Ok(Next::Wait(wait.map(|it| it.max(MIN_WAIT))))
    }

    async fn request_cancel(
        &self,
        run: Uuid,
        cancellation: &Cancellation,
    ) -> ApiResult<CancelOutcome> {
        let update = "
            WITH old AS (
                SELECT run, holder IS NULL AS pending,
                    coalesce(cancel_action = 'rollback' OR cancel_action = $2, false) AS keep
                FROM graph_server.queue WHERE run = $1 FOR UPDATE
            ), changed AS (
                UPDATE graph_server.queue q SET
                    cancel_action = CASE WHEN old.keep THEN q.cancel_action ELSE $2 END,
                    cancel_reason = CASE WHEN old.keep THEN q.cancel_reason ELSE $3 END,
                    ending = q.ending OR old.pending,
                    holder = coalesce(q.holder, $4),
                    fence = q.fence + old.pending::int,
                    lease_until = CASE WHEN old.pending THEN now() + $5 * interval '1 second'
                        ELSE q.lease_until END
                FROM old WHERE q.run = old.run
                RETURNING q.run, q.thread, q.fence, q.cancel_action, q.cancel_reason, old.pending
            )
            SELECT run, thread, fence, cancel_action, cancel_reason,
                greatest((SELECT max(seq) FROM graph_server.event e WHERE e.thread = changed.thread),
                    (extract(epoch FROM now()) * 1000000)::bigint),
                false, pending, pg_notify('graph_server', 'cancelled')
            FROM changed";
        let (run, action) = (run.to_string(), cancellation.action.name());
        let connection = self.connection().await?;
        let statement = connection.prepare_cached(update).await?;
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&run, &action, &cancellation.reason, &self.replica, &LEASE.as_secs_f64()];
        let Some(row) = connection.query_opt(&statement, &params).await? else {
            return Ok(CancelOutcome::NotActive);
        };
        match row.try_get("pending")? {
            true => Ok(CancelOutcome::Claimed(claim_of(&row)?)),
            false => Ok(CancelOutcome::Requested),
        }
    }

    async fn put_run(&self, claim: &Claim, run: Row, webhook: Option<Row>) -> ApiResult<bool> {
        // The row lock makes a concurrent claim wait until the document is stored.
        let update = "
            WITH held AS (
                SELECT run FROM graph_server.queue WHERE run = $1 AND fence = $2 FOR SHARE
            ), added AS (
                INSERT INTO graph_server.document (kind, id, data)
                SELECT 'webhook', run, $5::text FROM held WHERE $5::text IS NOT NULL
                ON CONFLICT (kind, id) DO UPDATE SET data = excluded.data
            )
            UPDATE graph_server.document d SET status = $3, data = $4
            FROM held WHERE d.kind = 'run' AND d.id = held.run RETURNING 1";
        let (id, webhook) = (claim.run.to_string(), webhook.map(|it| it.data));
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&id, &claim.fence, &run.status, &run.data, &webhook];
        let updated = self.query_opt(update, &params).await?;
        Ok(updated.is_some())
    }

    async fn end_run(&self, claim: &Claim, output: &Value) -> ApiResult<bool> {
        let end = "
            WITH ended AS (
                DELETE FROM graph_server.queue WHERE run = $1 AND fence = $2 RETURNING run, thread
            ), added AS (
                INSERT INTO graph_server.event (run, seq, thread, output)
                SELECT run, 1 + coalesce((SELECT max(seq) FROM graph_server.event e WHERE e.run = ended.run), 0),
                    thread, $3
                FROM ended
            )
            SELECT pg_notify('graph_server', 'events ' || run), pg_notify('graph_server', 'queued') FROM ended";
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&claim.run.to_string(), &claim.fence, &output.to_string()];
        let ended = self.query_opt(end, &params).await?.is_some();
        self.queue_changed.notify_one();
        Ok(ended)
    }

    async fn release_claims(&self) -> ApiResult<()> {
        let release = "
            WITH released AS (
                UPDATE graph_server.queue SET holder = NULL, lease_until = NULL
                WHERE holder = $1 RETURNING run
            )
            SELECT pg_notify('graph_server', 'queued') FROM released LIMIT 1";
        self.query(release, &[&self.replica]).await.map(drop)
    }

    fn changed(&self) -> Arc<Notify> {
        self.queue_changed.clone()
    }
}

/// Locks a thread until the end of the transaction and reads it.
async fn lock_thread(transaction: &Transaction<'_>, thread: Uuid) -> ApiResult<ThreadEntry> {
    let id = thread.to_string();
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('graph_server ' || $1::text, 0))";
    transaction.query(&transaction.prepare_cached(lock).await?, &[&id]).await?;
    let select = "SELECT data, owner FROM graph_server.document WHERE kind = 'thread' AND id = $1";
    let select = transaction.prepare_cached(select).await?;
    let active = format!(
        "SELECT {ACTIVE} FROM graph_server.queue WHERE thread = $1 ORDER BY start_at, number"
    );
    let active = transaction.prepare_cached(&active).await?;
    let reserved = "
        SELECT FROM graph_server.reservation WHERE thread = $1 AND lease_until > statement_timestamp()";
    let reserved = transaction.prepare_cached(reserved).await?;
    let locked = "
        SELECT FROM graph_server.metadata_lock
        WHERE thread = $1 AND lease_until > statement_timestamp() LIMIT 1";
    let locked = transaction.prepare_cached(locked).await?;
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&id];
    // The statements are pipelined: sent without waiting for each other's results.
    let (document, active, reserved, locked) = tokio::try_join!(
        transaction.query_opt(&select, &params),
        transaction.query(&active, &params),
        transaction.query_opt(&reserved, &params),
        transaction.query_opt(&locked, &params),
    )?;
    let (document, owner) = match document {
        Some(row) => (Some(row.try_get(0)?), row.try_get(1)?),
        None => (None, None),
    };
    let active = active.iter().map(active_run).collect::<ApiResult<_>>()?;
    let (reserved, metadata_locked) = (reserved.is_some(), locked.is_some());
    Ok(ThreadEntry { document, owner, active, reserved, metadata_locked })
}

async fn apply(
    transaction: &Transaction<'_>,
    thread: Uuid,
    change: &ThreadChange,
) -> ApiResult<()> {
    let id = thread.to_string();
    for row in &change.put {
        documents::put(transaction, row, Filter::default()).await?;
    }
    if let Some(cancellation) = &change.cancel {
        let cancel = "
            WITH changed AS (
                UPDATE graph_server.queue SET cancel_action = $2, cancel_reason = $3
                WHERE thread = $1 AND start_at <= statement_timestamp()
                    AND (cancel_action IS NULL OR cancel_action = 'interrupt' AND $2 = 'rollback')
                RETURNING run
            )
            SELECT pg_notify('graph_server', 'cancelled') FROM changed LIMIT 1";
        let cancel = transaction.prepare_cached(cancel).await?;
        let action = cancellation.action.name();
        transaction.query(&cancel, &[&id, &action, &cancellation.reason]).await?;
    }
    if let Some(new) = &change.run {
        let insert = "
            WITH added AS (
                INSERT INTO graph_server.queue (run, thread, owner, start_at)
                VALUES ($1, $2, $3, statement_timestamp() + $4 * interval '1 second') RETURNING run
            )
            SELECT pg_notify('graph_server', 'queued') FROM added";
        let insert = transaction.prepare_cached(insert).await?;
        let (run, delay) = (new.run.to_string(), new.delay.as_secs_f64());
        transaction.query(&insert, &[&run, &id, &new.owner, &delay]).await?;
    }
    if change.reserve {
        let insert = "
            INSERT INTO graph_server.reservation (thread, lease_until)
            VALUES ($1, statement_timestamp() + $2 * interval '1 second')
            ON CONFLICT (thread) DO UPDATE SET lease_until = excluded.lease_until";
        let insert = transaction.prepare_cached(insert).await?;
        transaction.query(&insert, &[&id, &RESERVATION_SECONDS]).await?;
    }
    if let Some(lock) = change.lock_metadata {
        let insert = "
            INSERT INTO graph_server.metadata_lock (id, thread, lease_until)
            VALUES ($1, $2, statement_timestamp() + $3 * interval '1 second')";
        let insert = transaction.prepare_cached(insert).await?;
        transaction.query(&insert, &[&lock.to_string(), &id, &RESERVATION_SECONDS]).await?;
    }
    Ok(())
}

fn active_run(row: &PgRow) -> ApiResult<ActiveRun> {
    Ok(ActiveRun {
        run: uuid_at(row, 0)?,
        thread: uuid_at(row, 1)?,
        owner: row.try_get(2)?,
        started: row.try_get(3)?,
        due: row.try_get(4)?,
        has_ended: row.try_get(5)?,
    })
}

fn claim_of(row: &PgRow) -> ApiResult<Claim> {
    let last_seq: i64 = row.try_get(5)?;
    Ok(Claim {
        run: uuid_at(row, 0)?,
        thread: uuid_at(row, 1)?,
        fence: row.try_get(2)?,
        last_seq: u64::try_from(last_seq).unwrap_or_default(),
        cancellation: cancellation_at(row, 3)?,
        takes_over: row.try_get(6)?,
    })
}

/// Returns the cancellation in two columns of a run: its action and its reason.
pub(super) fn cancellation_at(row: &PgRow, column: usize) -> ApiResult<Option<Cancellation>> {
    let action: Option<&str> = row.try_get(column)?;
    Ok(Cancellation::from_stored(action, row.try_get(column + 1)?))
}

pub(super) fn uuid_at(row: &PgRow, column: usize) -> ApiResult<Uuid> {
    let text: &str = row.try_get(column)?;
    Uuid::try_parse(text).map_err(|error| ApiError::internal(&error))
}
