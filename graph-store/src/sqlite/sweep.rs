//! Sweeping, which is the removal of links that no checkpoint needs.
//!
//! Links are removed after the checkpoints that needed them, in small transactions, while runs may be active. By
//! then, no new checkpoint can need such a link, because new checkpoints only build on the links of existing
//! checkpoints. A crash between the two removals leaves unneeded links behind;
//! [`Sqlite::vacuum`](super::Sqlite::vacuum) removes them.

use std::collections::{BTreeMap, BTreeSet};

use graph_core::checkpoint::CheckpointError;
use rusqlite::{Connection, OptionalExtension, Row};

use super::{chains::decode_tips, database::Sqlite, failure::Failure};

/// Maximum number of rows that one transaction removes. The limit keeps other writers from waiting long.
pub(super) const BATCH_ROWS: usize = 500;

/// Returns the ids of all links that the checkpoints in a namespace need, each with the id of its predecessor.
pub(super) fn reachable(
    connection: &Connection,
    namespace: i64,
) -> Result<BTreeMap<i64, Option<i64>>, Failure<CheckpointError>> {
    let mut found = BTreeMap::new();
    for link in newest_links(
        connection,
        "SELECT tips, body, records FROM checkpoint WHERE namespace = ?1",
        "SELECT records FROM early WHERE namespace = ?1",
        [namespace],
    )? {
        follow_chain(connection, link, &mut found, |_| false)?;
    }
    Ok(found)
}

/// Returns the tips of all chains that the two statements select: `checkpoints` selects checkpoints, and `early`
/// selects records that were stored before their checkpoint.
fn newest_links(
    connection: &Connection,
    checkpoints: &str,
    early: &str,
    params: impl rusqlite::Params + Copy,
) -> Result<BTreeSet<i64>, Failure<CheckpointError>> {
    let mut links = BTreeSet::new();
    let mut select = connection.prepare_cached(checkpoints)?;
    let mut rows = select.query(params)?;
    while let Some(row) = rows.next()? {
        links.extend(chain_tips_in_row(row)?);
    }
    for records in connection.prepare_cached(early)?.query_map(params, |row| row.get(0))? {
        links.insert(records?);
    }
    Ok(links)
}

/// Returns the tips of a checkpoint's chains: those of its fields, its body and its records.
pub(super) fn chain_tips_in_row(row: &Row<'_>) -> Result<Vec<i64>, Failure<CheckpointError>> {
    let tips = decode_tips(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?;
    let mut links: Vec<i64> = tips.values().map(|it| it.link).collect();
    links.push(row.get(1)?);
    links.extend(row.get::<_, Option<i64>>(2)?);
    Ok(links)
}

/// Follows a chain backwards from `tip`, up to the first link that is already known.
fn follow_chain(
    connection: &Connection,
    tip: i64,
    found: &mut BTreeMap<i64, Option<i64>>,
    stop: impl Fn(i64) -> bool,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached("SELECT prev FROM link WHERE id = ?1")?;
    let mut next = Some(tip);
    while let Some(id) = next.filter(|it| !stop(*it) && !found.contains_key(it)) {
        let prev: Option<Option<i64>> = select.query_row([id], |row| row.get(0)).optional()?;
        let Some(prev) = prev else { break };
        found.insert(id, prev);
        next = prev;
    }
    Ok(())
}

impl Sqlite {
    /// Removes the links that were needed only by removed checkpoints. `removed_tips` are the tips of the chains of
    /// those checkpoints.
    pub(super) async fn sweep(
        &self,
        namespaces: Vec<i64>,
        removed_tips: Vec<i64>,
    ) -> Result<usize, Failure<CheckpointError>> {
        let unneeded = self.read(move |connection| {
            let mut needed = BTreeMap::new();
            for namespace in namespaces {
                needed.extend(reachable(connection, namespace)?);
            }
            let mut unneeded = BTreeMap::new();
            for tip in removed_tips {
                follow_chain(connection, tip, &mut unneeded, |it| needed.contains_key(&it))?;
            }
            Ok::<_, Failure<CheckpointError>>(unneeded.into_keys().collect::<Vec<_>>())
        });
        self.remove_links(unneeded.await?).await
    }

    /// Removes every link in the file that no checkpoint needs.
    pub(super) async fn sweep_all(&self) -> Result<usize, Failure<CheckpointError>> {
        let unneeded = self.read(|connection| {
            let mut needed = BTreeMap::new();
            for link in newest_links(
                connection,
                "SELECT tips, body, records FROM checkpoint",
                "SELECT records FROM early",
                [],
            )? {
                follow_chain(connection, link, &mut needed, |_| false)?;
            }
            let mut all = connection.prepare("SELECT id FROM link")?;
            let all = all.query_map([], |row| row.get(0))?;
            let unneeded = all.filter(|it| !matches!(it, Ok(id) if needed.contains_key(id)));
            Ok::<_, Failure<CheckpointError>>(unneeded.collect::<Result<Vec<i64>, _>>()?)
        });
        self.remove_links(unneeded.await?).await
    }

    async fn remove_links(&self, links: Vec<i64>) -> Result<usize, Failure<CheckpointError>> {
        let mut removed = 0;
        for slice in links.chunks(BATCH_ROWS) {
            let slice = slice.to_vec();
            removed += self
                .write(move |connection| {
                    // Keep the newest link even if it is unneeded. Otherwise its id would be reused, and a
                    // concurrent sweep could remove the new link with that id.
                    let mut delete = connection.prepare_cached(
                        "DELETE FROM link WHERE id = ?1 AND id < (SELECT max(id) FROM link)",
                    )?;
                    let mut removed = 0;
                    for id in slice {
                        removed += delete.execute([id])?;
                    }
                    Ok::<_, Failure<CheckpointError>>(removed)
                })
                .await?;
        }
        Ok(removed)
    }
}
