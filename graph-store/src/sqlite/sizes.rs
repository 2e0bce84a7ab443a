//! Measures and shrinks the file.

use std::fs;

use graph_core::checkpoint::CheckpointError;
use rusqlite::Connection;

use super::{database::Sqlite, failure::Failure, remove::namespaces, sweep::reachable};
use crate::sizes::Sizes;

/// Maximum number of pages that one transaction frees.
const VACUUM_PAGES: i64 = 500;

/// Disk usage of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct FileSizes {
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Size of the write-ahead log in bytes. The log is copied into the file from time to time.
    pub log_bytes: u64,
    /// Unused space in the file, in bytes. [`Sqlite::vacuum`] returns it to the operating system.
    pub free_bytes: u64,
}

/// The result of [`Sqlite::vacuum`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VacuumReport {
    /// Number of links removed because no checkpoint needed them.
    pub links: usize,
    /// Number of bytes that were returned to the operating system.
    pub bytes: u64,
}

impl Sqlite {
    /// Measures the sizes of the file and of its write-ahead log.
    pub async fn file_sizes(&self) -> Result<FileSizes, CheckpointError> {
        let (page, free) = self.read(pages).await.map_err(|it| self.checkpoint_error(it))?;
        let bytes = |name: &std::ffi::OsStr| fs::metadata(name).map_or(0, |it| it.len());
        let mut log = self.path().as_os_str().to_owned();
        log.push("-wal");
        Ok(FileSizes {
            file_bytes: bytes(self.path().as_os_str()),
            log_bytes: bytes(&log),
            free_bytes: page * free,
        })
    }

    /// Removes unneeded links and shrinks the file. Uses small transactions, so runs may be active at the same
    /// time.
    pub async fn vacuum(&self) -> Result<VacuumReport, CheckpointError> {
        let links = self.sweep_all().await.map_err(|it| self.checkpoint_error(it))?;
        let before = self.file_sizes().await?;
        while self.write(free_pages).await.map_err(|it| self.checkpoint_error(it))? {}
        // Up to this point, the truncation is recorded only in the WAL. Copying the WAL into the file shrinks the
        // file, unless an active reader prevents it.
        self.read_without_transaction(checkpoint_wal)
            .await
            .map_err(|it| self.checkpoint_error(it))?;
        let after = self.file_sizes().await?;
        let total = |it: FileSizes| it.file_bytes + it.log_bytes;
        Ok(VacuumReport { links, bytes: total(before).saturating_sub(total(after)) })
    }

    /// Checks the whole file and returns a description of each problem. The list is empty if there are none.
    ///
    /// Stored values have checksums, which are verified whenever the values are read. A damaged index, which hides
    /// rows, is found only by this check.
    pub async fn verify(&self) -> Result<Vec<String>, CheckpointError> {
        let problems = self.read(|connection| {
            let mut check = connection.prepare("PRAGMA integrity_check")?;
            let found = check.query_map([], |row| row.get(0))?;
            let found = found.filter(|it| !matches!(it, Ok(text) if text == "ok"));
            Ok::<_, Failure<CheckpointError>>(found.collect::<Result<Vec<String>, _>>()?)
        });
        problems.await.map_err(|it| self.checkpoint_error(it))
    }
}

fn pages(connection: &Connection) -> Result<(u64, u64), Failure<CheckpointError>> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get(0));
    Ok((number("page_size")?, number("freelist_count")?))
}

/// Frees a limited number of pages and returns whether there are more to free.
fn free_pages(connection: &Connection) -> Result<bool, Failure<CheckpointError>> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    Ok(pages(connection)?.1 > 0)
}

/// Copies the WAL into the file, except the parts that an active reader still needs.
fn checkpoint_wal(connection: &Connection) -> Result<(), Failure<CheckpointError>> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
}

/// Measures the stored data of the whole database.
pub(super) fn all(connection: &Connection) -> Result<Sizes, Failure<CheckpointError>> {
    let links = count(connection, "SELECT count(*), coalesce(sum(length(body)), 0) FROM link", [])?;
    let (threads, _) = count(
        connection,
        "SELECT count(DISTINCT thread), 0 FROM namespace n
         WHERE EXISTS (SELECT 1 FROM checkpoint c WHERE c.namespace = n.id)",
        [],
    )?;
    let (items, item_bytes) = count(
        connection,
        "SELECT count(*), coalesce(sum(length(value) + coalesce(length(vectors), 0)), 0) FROM item",
        [],
    )?;
    let (cached, cached_bytes) =
        count(connection, "SELECT count(*), coalesce(sum(length(body)), 0) FROM cached", [])?;
    let of_threads = sizes(connection, "", [], links)?;
    Ok(Sizes { threads, items, item_bytes, cached, cached_bytes, ..of_threads })
}

/// Measures the stored data of one thread.
pub(super) fn of_thread(
    connection: &Connection,
    thread: &str,
) -> Result<Sizes, Failure<CheckpointError>> {
    let mut sum = Sizes::default();
    let mut link_size = connection.prepare_cached("SELECT length(body) FROM link WHERE id = ?1")?;
    for namespace in namespaces(connection, thread)? {
        let mut links = (0, 0);
        for link in reachable(connection, namespace)?.into_keys() {
            links.0 += 1;
            links.1 += link_size.query_row([link], |row| row.get::<_, u64>(0))?;
        }
        let sizes = sizes(connection, "WHERE namespace = ?1", [namespace], links)?;
        sum.checkpoints += sizes.checkpoints;
        sum.checkpoint_bytes += sizes.checkpoint_bytes;
        sum.links += sizes.links;
        sum.link_bytes += sizes.link_bytes;
        sum.records += sizes.records;
        sum.record_bytes += sizes.record_bytes;
    }
    sum.threads = u64::from(sum.checkpoints > 0);
    Ok(sum)
}

/// Measures the stored data of the selected checkpoints. `links` is the number and the total size of all links that the
/// checkpoints need. The result counts bodies and records separately from the remaining links, which hold changes to
/// fields.
fn sizes(
    connection: &Connection,
    which: &str,
    params: impl rusqlite::Params + Copy,
    links: (u64, u64),
) -> Result<Sizes, Failure<CheckpointError>> {
    let heads = format!(
        "SELECT count(*), coalesce(sum(length(l.body)), 0)
         FROM (SELECT body FROM checkpoint {which}) AS c CROSS JOIN link l ON l.id = c.body"
    );
    let (checkpoints, head_bytes) = count(connection, &heads, params)?;
    let tips = format!("SELECT 0, coalesce(sum(length(tips)), 0) FROM checkpoint {which}");
    let (_, tip_bytes) = count(connection, &tips, params)?;
    // `UNION` instead of `UNION ALL`, because a damaged chain may contain a cycle.
    let records = format!(
        "WITH RECURSIVE chain (id, prev, bytes) AS (
             SELECT l.id, l.prev, length(l.body) FROM (
                 SELECT records FROM checkpoint {which} UNION ALL SELECT records FROM early {which}
             ) AS newest CROSS JOIN link l ON l.id = newest.records
         UNION
             SELECT l.id, l.prev, length(l.body) FROM chain CROSS JOIN link l ON l.id = chain.prev
         )
         SELECT count(*), coalesce(sum(bytes), 0) FROM chain"
    );
    let (records, record_bytes) = count(connection, &records, params)?;
    Ok(Sizes {
        checkpoints,
        checkpoint_bytes: head_bytes + tip_bytes,
        links: links.0.saturating_sub(checkpoints + records),
        link_bytes: links.1.saturating_sub(head_bytes + record_bytes),
        records,
        record_bytes,
        ..Sizes::default()
    })
}

/// Runs a query that returns a count and a number of bytes.
fn count(
    connection: &Connection,
    select: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<(u64, u64)> {
    connection.query_row(select, params, |row| Ok((row.get(0)?, row.get(1)?)))
}
