//! Removes and copies checkpoints, and sweeps links that no checkpoint needs.
//!
//! All of this may happen while runs are active. Checkpoints are removed in batches, each under the lock of its
//! namespace, and their links are removed afterwards. By then, no new checkpoint can need such a link, because a
//! new checkpoint only builds on the links of an existing checkpoint, and the lock keeps that existing checkpoint
//! in place until the new one is committed. Link ids are never reused, so concurrent sweeps are harmless. A crash
//! between the two removals leaves unneeded links behind. The next pruning of the namespace or [`Postgres::vacuum`]
//! removes them.

use graph_core::checkpoint::{CheckpointError, Keep};

use super::{
    database::Postgres,
    failure::{Failure, sql_state},
    read::count,
    subgraphs,
};
use crate::{encoded::unsupported_keep, time::nanos};

/// Maximum number of rows that one statement removes. The limit keeps other writers from waiting long.
const BATCH_ROWS: usize = 500;
/// Maximum number of attempts to copy a thread while other callers copy threads to the same name.
const MAX_COPY_ATTEMPTS: usize = 3;

/// Removes the checkpoints of a thread that `keep` does not retain, and returns their number.
pub(super) async fn prune(
    database: &Postgres,
    thread: &str,
    keep: Keep,
) -> Result<usize, Failure<CheckpointError>> {
    let select = "SELECT n.id FROM @.namespace n WHERE n.thread = $1 ORDER BY n.id";
    let mut removed = 0;
    for row in database.query(select, &[&thread.as_bytes()]).await? {
        let namespace: i64 = row.try_get(0)?;
        let prunable = prunable_checkpoints(database, namespace, keep).await?;
        for slice in prunable.chunks(BATCH_ROWS) {
            removed += remove(database, "SELECT @.prune($1, $2)", namespace, slice).await?;
        }
        if !prunable.is_empty() {
            sweep(database, &[namespace]).await?;
        }
    }
    Ok(removed + subgraphs::remove_orphaned_subgraphs(database, thread).await?)
}

async fn prunable_checkpoints(
    database: &Postgres,
    namespace: i64,
    keep: Keep,
) -> Result<Vec<Vec<u8>>, Failure<CheckpointError>> {
    let rows = match keep {
        Keep::Newest(count) => {
            let newer = i64::try_from(count.max(1) - 1).unwrap_or(i64::MAX);
            database
                .query(
                    "SELECT c.id FROM @.checkpoint c WHERE c.namespace = $1 AND c.id < (
                         SELECT c.id FROM @.checkpoint c WHERE c.namespace = $1
                         ORDER BY c.id DESC LIMIT 1 OFFSET $2
                     ) ORDER BY c.id",
                    &[&namespace, &newer],
                )
                .await
        }
        Keep::Since(since) => {
            database
                .query(
                    "SELECT c.id FROM @.checkpoint c
                     WHERE c.namespace = $1 AND c.made_at < $2 AND c.id < (
                         SELECT c.id FROM @.checkpoint c WHERE c.namespace = $1
                         ORDER BY c.id DESC LIMIT 1
                     ) ORDER BY c.id",
                    &[&namespace, &nanos(since)],
                )
                .await
        }
        other => return Err(unsupported_keep(other).into()),
    }?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

async fn remove(
    database: &Postgres,
    statement: &str,
    namespace: i64,
    ids: &[Vec<u8>],
) -> Result<usize, Failure<CheckpointError>> {
    let rows = database.query(statement, &[&namespace, &ids]).await?;
    Ok(count(&rows)?)
}

/// Removes the checkpoints that were written by the given runs. There is no index on the run, because it would slow
/// down every step for the sake of a rare operation.
pub(super) async fn delete_runs(
    database: &Postgres,
    runs: &[String],
) -> Result<(), Failure<CheckpointError>> {
    let runs: Vec<&[u8]> = runs.iter().map(String::as_bytes).collect();
    let select = "SELECT c.namespace, array_agg(c.id) FROM @.checkpoint c
                  WHERE c.run = ANY ($1) GROUP BY c.namespace ORDER BY c.namespace";
    let mut namespaces: Vec<i64> = Vec::new();
    for row in database.query(select, &[&runs]).await? {
        let (namespace, ids): (i64, Vec<Vec<u8>>) = (row.try_get(0)?, row.try_get(1)?);
        for slice in ids.chunks(BATCH_ROWS) {
            remove(database, "SELECT @.remove($1, $2)", namespace, slice).await?;
        }
        namespaces.push(namespace);
    }
    for slice in namespaces.chunks(BATCH_ROWS) {
        sweep(database, slice).await?;
    }
    Ok(())
}

/// Copies a thread to a new name, which must not be in use.
pub(super) async fn copy_thread(
    database: &Postgres,
    from: &str,
    to: &str,
) -> Result<(), Failure<CheckpointError>> {
    let exists = || CheckpointError::ThreadExists { thread: to.to_owned() };
    for _ in 0..MAX_COPY_ATTEMPTS {
        // The statement is not retried if the connection is lost, because a copy that was already made would cause
        // a conflict.
        let copied = database
            .query_once("SELECT @.copy_thread($1, $2)", &[&from.as_bytes(), &to.as_bytes()])
            .await;
        let rows = match copied {
            // The target thread was created concurrently. A new attempt sees its state.
            Err(error)
                if sql_state(&error).is_some_and(|it| matches!(it.code(), "23505" | "40P01")) =>
            {
                continue;
            }
            answer => answer?,
        };
        return match rows.first().map(|row| row.try_get::<_, &str>(0)).transpose()? {
            Some("exists") => Err(exists().into()),
            Some("unknown") => {
                Err(CheckpointError::UnknownThread { thread: from.to_owned() }.into())
            }
            _ => Ok(()),
        };
    }
    Err(exists().into())
}

/// Removes the links in the given namespaces that no checkpoint needs, and returns their number.
pub(super) async fn sweep(
    database: &Postgres,
    namespaces: &[i64],
) -> Result<usize, Failure<CheckpointError>> {
    let rows = database
        .query(
            "WITH RECURSIVE needed (namespace, id) AS (
                 SELECT c.namespace, unnest(c.links) FROM @.checkpoint c WHERE c.namespace = ANY ($1)
             UNION
                 SELECT needed.namespace, l.prev FROM needed, LATERAL (
                     SELECT l.prev FROM @.link l
                     WHERE l.namespace = needed.namespace AND l.id = needed.id OFFSET 0
                 ) AS l WHERE l.prev IS NOT NULL
             )
             SELECT l.namespace, l.id FROM @.link l WHERE l.namespace = ANY ($1)
             EXCEPT
             SELECT needed.namespace, needed.id FROM needed",
            &[&namespaces],
        )
        .await?;
    let mut removed = 0;
    for slice in rows.chunks(BATCH_ROWS) {
        let column = |index: usize| slice.iter().map(|row| row.try_get(index)).collect();
        let namespaces: Result<Vec<i64>, _> = column(0);
        let ids: Result<Vec<i64>, _> = column(1);
        let rows = database
            .query(
                "WITH gone AS (
                     DELETE FROM @.link l USING unnest($1::bigint[], $2::bigint[]) AS u (namespace, id)
                     WHERE l.namespace = u.namespace AND l.id = u.id RETURNING 1
                 ) SELECT count(*) FROM gone",
                &[&namespaces?, &ids?],
            )
            .await?;
        removed += count(&rows)?;
    }
    Ok(removed)
}
