//! Removes checkpoints. Links that are no longer needed are [swept](super::sweep) afterwards.

use graph_core::checkpoint::{CheckpointError, CheckpointId, CheckpointKey, Keep};
use rusqlite::{Connection, params};

use super::{
    failure::Failure,
    put::{find_namespace, head, id_at, tips},
    read,
    sweep::{BATCH_ROWS, chain_tips_in_row},
};
use crate::{codec::Codec, encoded::unsupported_keep, time::nanos};

/// The number of removed checkpoints, and the tips of their chains.
#[derive(Debug, Default)]
pub(super) struct RemovedCheckpoints {
    pub(super) checkpoints: usize,
    pub(super) links: Vec<i64>,
}

impl RemovedCheckpoints {
    pub(super) fn add(&mut self, more: Self) {
        self.checkpoints += more.checkpoints;
        self.links.extend(more.links);
    }
}

/// Returns the ids of the namespaces of a thread.
pub(super) fn namespaces(connection: &Connection, thread: &str) -> rusqlite::Result<Vec<i64>> {
    let mut select = connection.prepare_cached("SELECT id FROM namespace WHERE thread = ?1")?;
    select.query_map([thread], |row| row.get(0))?.collect()
}

/// Removes one batch of the checkpoints that `keep` does not retain.
pub(super) fn prune(
    connection: &Connection,
    namespace: i64,
    keep: Keep,
) -> Result<RemovedCheckpoints, Failure<CheckpointError>> {
    let old = match keep {
        Keep::Newest(count) => {
            let newer = i64::try_from(count.max(1) - 1).unwrap_or(i64::MAX);
            ids(
                connection,
                "SELECT id FROM checkpoint WHERE namespace = ?1 AND id < (
                     SELECT id FROM checkpoint WHERE namespace = ?1
                     ORDER BY id DESC LIMIT 1 OFFSET ?2
                 ) ORDER BY id LIMIT ?3",
                params![namespace, newer, BATCH_ROWS as i64],
            )
        }
        Keep::Since(since) => ids(
            connection,
            "SELECT id FROM checkpoint WHERE namespace = ?1 AND made_at < ?2 AND id < (
                 SELECT max(id) FROM checkpoint WHERE namespace = ?1
             ) ORDER BY id LIMIT ?3",
            params![namespace, nanos(since), BATCH_ROWS as i64],
        ),
        other => return Err(unsupported_keep(other).into()),
    }?;
    remove(connection, old.into_iter().map(|id| (namespace, id)))
}

fn ids(
    connection: &Connection,
    select: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<CheckpointId>> {
    connection.prepare_cached(select)?.query_map(params, |row| id_at(row, 0))?.collect()
}

/// Removes checkpoints and their task records.
pub(super) fn remove(
    connection: &Connection,
    checkpoints: impl Iterator<Item = (i64, CheckpointId)>,
) -> Result<RemovedCheckpoints, Failure<CheckpointError>> {
    let mut removed = RemovedCheckpoints::default();
    let mut delete = connection.prepare_cached(
        "DELETE FROM checkpoint WHERE namespace = ?1 AND id = ?2 RETURNING tips, body, records",
    )?;
    for (namespace, id) in checkpoints {
        let mut rows = delete.query(params![namespace, id.to_bytes()])?;
        while let Some(row) = rows.next()? {
            removed.checkpoints += 1;
            removed.links.extend(chain_tips_in_row(row)?);
        }
    }
    Ok(removed)
}

/// Deletes a thread with all its namespaces.
pub(super) fn delete_thread(
    connection: &Connection,
    thread: &str,
) -> Result<RemovedCheckpoints, Failure<CheckpointError>> {
    let mut removed = RemovedCheckpoints::default();
    for namespace in namespaces(connection, thread)? {
        removed.add(delete_namespace(connection, namespace)?);
    }
    Ok(removed)
}

fn delete_namespace(
    connection: &Connection,
    namespace: i64,
) -> Result<RemovedCheckpoints, Failure<CheckpointError>> {
    let all = ids(connection, "SELECT id FROM checkpoint WHERE namespace = ?1", [namespace])?;
    let mut removed = remove(connection, all.into_iter().map(|id| (namespace, id)))?;
    // Deletes the records of checkpoints that were never stored.
    let mut delete_early =
        connection.prepare_cached("DELETE FROM early WHERE namespace = ?1 RETURNING records")?;
    for records in delete_early.query_map([namespace], |row| row.get(0))? {
        removed.links.push(records?);
    }
    connection.prepare_cached("DELETE FROM namespace WHERE id = ?1")?.execute([namespace])?;
    Ok(removed)
}

/// Removes one batch of the subgraph namespaces whose parent step no longer exists.
pub(super) fn remove_orphaned_subgraphs(
    connection: &Connection,
    codec: &Codec,
    thread: &str,
) -> Result<RemovedCheckpoints, Failure<CheckpointError>> {
    let mut select = connection.prepare_cached(
        "SELECT n.id, n.name, c.id, c.body FROM namespace n JOIN checkpoint c ON c.namespace = n.id
         WHERE n.thread = ?1 AND instr(n.name, ':')
         AND c.id = (SELECT max(id) FROM checkpoint WHERE namespace = n.id)",
    )?;
    let mut rows = select.query([thread])?;
    let mut orphaned = Vec::new();
    while let (true, Some(row)) = (orphaned.len() < BATCH_ROWS, rows.next()?) {
        let (name, id): (String, _) = (row.get(1)?, id_at(row, 2)?);
        let key = CheckpointKey { thread: thread.to_owned(), namespace: name.clone(), id };
        let header = read::body(connection, codec, &key, row.get(3)?)?.header;
        let parent_state = |outer: &str, id: CheckpointId| {
            let Some(outer) = find_namespace(connection, thread, outer)? else {
                return Ok((false, None));
            };
            let stored = tips(connection, outer, id)?.is_some();
            Ok::<_, rusqlite::Error>((stored, head(connection, outer)?))
        };
        if header.is_orphaned(&name, parent_state)? {
            orphaned.push(row.get(0)?);
        }
    }
    let mut removed = RemovedCheckpoints::default();
    for namespace in orphaned {
        removed.add(delete_namespace(connection, namespace)?);
    }
    Ok(removed)
}

/// Returns the checkpoints that were written by the given runs. There is no index on the run, because it would slow
/// down every step for the sake of a rare operation.
pub(super) fn checkpoints_of_runs(
    connection: &Connection,
    runs: &[String],
) -> rusqlite::Result<Vec<(i64, CheckpointId)>> {
    let mut select =
        connection.prepare_cached("SELECT namespace, id FROM checkpoint WHERE run = ?1")?;
    let mut found = Vec::new();
    for run in runs {
        for row in select.query_map([run], |row| Ok((row.get(0)?, id_at(row, 1)?)))? {
            found.push(row?);
        }
    }
    Ok(found)
}
