//! Measures and shrinks the database.

use graph_core::checkpoint::CheckpointError;

use super::{database::Postgres, failure::Failure, read::count, remove};
use crate::sizes::Sizes;

/// Number of namespaces that are swept at once.
const BATCH_NAMESPACES: i64 = 500;

/// The result of [`Postgres::vacuum`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VacuumReport {
    /// Number of links removed because no checkpoint needed them.
    pub links: usize,
    /// Number of bytes that were returned to the operating system. Space that the server keeps for new rows is not
    /// included.
    pub bytes: u64,
}

impl Postgres {
    /// Removes unneeded links and runs `VACUUM`, so that the server can reuse the space for new rows. Runs may be
    /// active at the same time. `VACUUM` requires that the user owns the tables. If the user does not, the server's
    /// autovacuum eventually frees the space.
    pub async fn vacuum(&self) -> Result<VacuumReport, CheckpointError> {
        self.try_vacuum().await.map_err(|it| self.checkpoint_error(it))
    }

    async fn try_vacuum(&self) -> Result<VacuumReport, Failure<CheckpointError>> {
        let mut links = 0;
        let mut last = 0_i64;
        loop {
            let select = "SELECT n.id FROM @.namespace n WHERE n.id > $1 ORDER BY n.id LIMIT $2";
            let rows = self.query(select, &[&last, &BATCH_NAMESPACES]).await?;
            let namespaces: Vec<i64> =
                rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
            let Some(newest) = namespaces.last() else { break };
            last = *newest;
            links += remove::sweep(self, &namespaces).await?;
        }
        // Removes records that were stored while their thread was being deleted.
        self.query(
            "DELETE FROM @.record r
             WHERE NOT EXISTS (SELECT FROM @.namespace n WHERE n.id = r.namespace)",
            &[],
        )
        .await?;
        let before = self.disk_bytes().await?;
        let connection = self.connection().await?;
        for table in ["namespace", "checkpoint", "link", "record", "lease", "item", "cached"] {
            connection.batch_execute(&self.sql(&format!("VACUUM (ANALYZE) @.{table}"))).await?;
        }
        drop(connection);
        Ok(VacuumReport { links, bytes: before.saturating_sub(self.disk_bytes().await?) })
    }

    async fn disk_bytes(&self) -> Result<u64, Failure<CheckpointError>> {
        let rows = self
            .query(
                "SELECT sum(pg_total_relation_size(t.name))::bigint FROM (VALUES
                     ('@.namespace'::regclass), ('@.checkpoint'), ('@.link'), ('@.record'), ('@.lease'), ('@.item'), ('@.cached')
                 ) AS t (name)",
                &[],
            )
            .await?;
        Ok(count(&rows)? as u64)
    }
}

/// The statement that measures all threads, or only the threads that the condition selects.
macro_rules! sizes {
    ($which:literal) => {
        concat!(
            "WITH here AS MATERIALIZED (SELECT n.id, n.thread FROM @.namespace n ", $which, ")
             SELECT
                 (SELECT count(DISTINCT here.thread) FROM here WHERE EXISTS (
                     SELECT FROM @.checkpoint c WHERE c.namespace = here.id)),
                 c.rows, c.bytes, l.rows, l.bytes, r.rows, r.bytes
             FROM (
                 SELECT count(*) AS rows, coalesce(sum(octet_length(c.body)
                     + pg_column_size(c.fields) + pg_column_size(c.links)), 0)::bigint AS bytes
                 FROM @.checkpoint c WHERE c.namespace IN (SELECT here.id FROM here)
             ) AS c, (
                 SELECT count(*) AS rows, coalesce(sum(octet_length(l.body)), 0)::bigint AS bytes
                 FROM @.link l WHERE l.namespace IN (SELECT here.id FROM here)
             ) AS l, (
                 SELECT count(*) AS rows, coalesce(sum(octet_length(r.body)), 0)::bigint AS bytes
                 FROM @.record r WHERE r.namespace IN (SELECT here.id FROM here)
             ) AS r"
        )
    };
}

/// Measures the stored data of the whole database.
pub(super) async fn all(database: &Postgres) -> Result<Sizes, Failure<CheckpointError>> {
    let of_threads = read(&database.query(sizes!(""), &[]).await?)?;
    let beside = "SELECT i.rows, i.bytes, c.rows, c.bytes FROM (
             SELECT count(*) AS rows, coalesce(sum(octet_length(i.value)
                 + coalesce(octet_length(i.vectors), 0)), 0)::bigint AS bytes FROM @.item i
         ) AS i, (
             SELECT count(*) AS rows, coalesce(sum(octet_length(c.body)), 0)::bigint AS bytes FROM @.cached c
         ) AS c";
    let rows = database.query(beside, &[]).await?;
    let Some(row) = rows.first() else { return Ok(of_threads) };
    Ok(Sizes {
        items: number(row, 0)?,
        item_bytes: number(row, 1)?,
        cached: number(row, 2)?,
        cached_bytes: number(row, 3)?,
        ..of_threads
    })
}

/// Measures the stored data of one thread.
pub(super) async fn of_thread(
    database: &Postgres,
    thread: &str,
) -> Result<Sizes, Failure<CheckpointError>> {
    read(&database.query(sizes!("WHERE n.thread = $1"), &[&thread.as_bytes()]).await?)
}

fn read(rows: &[tokio_postgres::Row]) -> Result<Sizes, Failure<CheckpointError>> {
    let Some(row) = rows.first() else { return Ok(Sizes::default()) };
    Ok(Sizes {
        threads: number(row, 0)?,
        checkpoints: number(row, 1)?,
        checkpoint_bytes: number(row, 2)?,
        links: number(row, 3)?,
        link_bytes: number(row, 4)?,
        records: number(row, 5)?,
        record_bytes: number(row, 6)?,
        ..Sizes::default()
    })
}

fn number(row: &tokio_postgres::Row, column: usize) -> Result<u64, tokio_postgres::Error> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
}
