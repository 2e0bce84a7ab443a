//! Sweeping: links that no checkpoint needs any more.
//!
//! It is done beside live traffic, in small pieces, after the checkpoints themselves were removed. From then on
//! nobody can come to need such a link again: new checkpoints hook on to what other checkpoints have. A crash in
//! between leaves some links behind; [`Sqlite::vacuum`](super::Sqlite::vacuum) finds them.

use std::collections::{BTreeMap, BTreeSet};

use graph_core::checkpoint::CheckpointError;
use rusqlite::{Connection, OptionalExtension, Row};

use super::{chains::decode_tips, database::Sqlite, failure::Failure, remove::SLICE};

/// All links that the checkpoints of a namespace need, with what each hooks on to.
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
        follow(connection, link, &mut found, |_| false)?;
    }
    Ok(found)
}

/// The newest links of all chains: those of these checkpoints, and of these records without one.
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
        links.extend(links_at(row)?);
    }
    for records in connection.prepare_cached(early)?.query_map(params, |row| row.get(0))? {
        links.insert(records?);
    }
    Ok(links)
}

/// The newest links of a checkpoint's chains, from its tips, body and records.
pub(super) fn links_at(row: &Row<'_>) -> Result<Vec<i64>, Failure<CheckpointError>> {
    let tips = decode_tips(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?;
    let mut links: Vec<i64> = tips.values().map(|it| it.link).collect();
    links.push(row.get(1)?);
    links.extend(row.get::<_, Option<i64>>(2)?);
    Ok(links)
}

/// Follows a chain from a link on back, up to what is known already.
fn follow(
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
    /// Removes what only these chains needed, of checkpoints that are gone.
    pub(super) async fn sweep(
        &self,
        namespaces: Vec<i64>,
        gone: Vec<i64>,
    ) -> Result<usize, Failure<CheckpointError>> {
        let unneeded = self.read(move |connection| {
            let mut needed = BTreeMap::new();
            for namespace in namespaces {
                needed.extend(reachable(connection, namespace)?);
            }
            let mut unneeded = BTreeMap::new();
            for tip in gone {
                follow(connection, tip, &mut unneeded, |it| needed.contains_key(&it))?;
            }
            Ok::<_, Failure<CheckpointError>>(unneeded.into_keys().collect::<Vec<_>>())
        });
        self.remove_links(unneeded.await?).await
    }

    /// Removes every link of the file that no checkpoint needs.
    pub(super) async fn sweep_all(&self) -> Result<usize, Failure<CheckpointError>> {
        let unneeded = self.read(|connection| {
            let mut needed = BTreeMap::new();
            for link in newest_links(
                connection,
                "SELECT tips, body, records FROM checkpoint",
                "SELECT records FROM early",
                [],
            )? {
                follow(connection, link, &mut needed, |_| false)?;
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
        for slice in links.chunks(SLICE) {
            let slice = slice.to_vec();
            removed += self
                .write(move |connection| {
                    // The newest link stays, though unneeded: otherwise its number would be given again, and somebody who sweeps
                    // at the same time would remove a link that is needed.
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
