//! Executes operations on items, on a connection or within a transaction.

use deadpool_postgres::{GenericClient, PoolError};
use graph_core::store::{
    Filter, Get, Item, ListNamespaces, Namespace, OpOutput, Search, StoreError, backend::TtlContext,
};
use tokio_postgres::{Row, types::ToSql};
use xxhash_rust::xxh3::xxh3_64;

use super::super::{database::Postgres, failure::Failure};
use crate::items::{
    ItemKey, NewItem, PreparedOp, SearchCollector, StoredItem, TtlRefresh, choose_namespaces,
    expiry_cutoff, prefix_range,
};
use crate::time::nanos;

/// Maximum number of rows that one statement reads during a search.
const CHUNK: usize = 200;

/// Extends lifetimes, except those of items whose lifetime has changed since they were read. Items that are locked
/// by a concurrent writer are skipped, because that writer sets a new lifetime or deletes them, and because waiting
/// for them could deadlock.
const REFRESH_TTL: &str = "WITH free AS (
         SELECT i.namespace, i.key, t.expires_at
         FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[])
             AS t (namespace, key, lifetime, expires_at)
         JOIN @.item i
             ON i.namespace = t.namespace AND i.key = t.key AND i.lifetime = t.lifetime
         FOR UPDATE OF i SKIP LOCKED
     )
     UPDATE @.item i SET expires_at = free.expires_at FROM free
     WHERE i.namespace = free.namespace AND i.key = free.key";

/// Applies operations in order. Also returns the lifetime extensions caused by the reads, which the caller must apply.
pub(super) async fn apply_ops(
    client: &impl GenericClient,
    database: &Postgres,
    prepared_ops: &[PreparedOp],
    moment: TtlContext,
) -> Result<(Vec<OpOutput>, Vec<TtlRefresh>), Failure<StoreError>> {
    let client = Client { client, database, moment };
    let (mut outcomes, mut refreshes) = (Vec::with_capacity(prepared_ops.len()), Vec::new());
    for op in prepared_ops {
        outcomes.push(match op {
            PreparedOp::Put(item) => {
                client.put(item).await?;
                OpOutput::Done
            }
            PreparedOp::Delete(at) => {
                let delete = "DELETE FROM @.item WHERE namespace = $1 AND key = $2";
                client.query(delete, &[&at.namespace, &at.key]).await?;
                OpOutput::Done
            }
            PreparedOp::Get(asked) => {
                let (item, refresh) = client.get(asked).await?;
                refreshes.extend(refresh);
                OpOutput::Item(item)
            }
            PreparedOp::Search(asked, query) => {
                let (items, found) = client.search(asked, query.as_deref()).await?;
                refreshes.extend(found);
                OpOutput::Items(items)
            }
            PreparedOp::List(asked) => OpOutput::Namespaces(client.list(asked).await?),
        });
    }
    Ok((outcomes, refreshes))
}

/// Applies operations, and then the lifetime extensions that their reads cause.
///
/// To prevent deadlocks between concurrent batches, first locks all items that the operations write, in a fixed order.
pub(super) async fn apply_ops_locked(
    client: &impl GenericClient,
    database: &Postgres,
    prepared_ops: &[PreparedOp],
    moment: TtlContext,
) -> Result<Vec<OpOutput>, Failure<StoreError>> {
    let mut locks: Vec<i64> = prepared_ops.iter().filter_map(|it| lock_id(database, it)).collect();
    locks.sort_unstable();
    locks.dedup();
    let writer = Client { client, database, moment };
    writer
        .query("SELECT pg_advisory_xact_lock(id) FROM unnest($1::bigint[]) AS id", &[&locks])
        .await?;
    let (outcomes, refreshes) = apply_ops(client, database, prepared_ops, moment).await?;
    if !refreshes.is_empty() {
        let (namespaces, keys, lifetimes, ends) = columns(&refreshes);
        writer.query(REFRESH_TTL, &[&namespaces, &keys, &lifetimes, &ends]).await?;
    }
    Ok(outcomes)
}

fn lock_id(database: &Postgres, op: &PreparedOp) -> Option<i64> {
    let (PreparedOp::Put(NewItem { at, .. }) | PreparedOp::Delete(at)) = op else { return None };
    // Ids of advisory locks apply to the whole database, so the id depends on the names of the schema and the table.
    let name = database.sql("@.item");
    Some(xxh3_64(&[name.as_bytes(), &at.namespace, &at.key].concat()).cast_signed())
}

/// Extends lifetimes in a separate statement.
pub(super) async fn refresh_ttls(
    database: &Postgres,
    refreshes: &[TtlRefresh],
) -> Result<(), PoolError> {
    let (namespaces, keys, lifetimes, ends) = columns(refreshes);
    database.query(REFRESH_TTL, &[&namespaces, &keys, &lifetimes, &ends]).await.map(|_| ())
}

/// Converts lifetime extensions to the parameters of [`REFRESH_TTL`].
fn columns(refreshes: &[TtlRefresh]) -> (Vec<&[u8]>, Vec<&[u8]>, Vec<i64>, Vec<i64>) {
    let namespaces = refreshes.iter().map(|it| &it.at.namespace[..]).collect();
    let keys = refreshes.iter().map(|it| &it.at.key[..]).collect();
    let lifetimes = refreshes.iter().map(|it| it.lifetime).collect();
    (namespaces, keys, lifetimes, refreshes.iter().map(|it| it.expires_at).collect())
}

/// Returns whether a search needs only one statement.
pub(super) fn is_one_chunk(search: &Search) -> bool {
    first_chunk(search) < CHUNK
}

/// Returns the number of rows that the first statement reads. It is the number that fills the page if every row
/// matches.
fn first_chunk(search: &Search) -> usize {
    match search.page() {
        Ok(page) if search.query.is_none() && search.filter == Filter::default() => {
            page.end.min(CHUNK)
        }
        _ => CHUNK,
    }
}

struct Client<'a, C> {
    client: &'a C,
    database: &'a Postgres,
    moment: TtlContext,
}

impl<C: GenericClient> Client<'_, C> {
    async fn query(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.client.prepare_cached(&self.database.sql(statement)).await?;
        self.client.query(&statement, params).await
    }

    /// Writes an item. A hidden expired item with the same key is treated as missing.
    async fn put(&self, item: &NewItem) -> Result<(), Failure<StoreError>> {
        let upsert = "INSERT INTO @.item AS i
                 (namespace, key, created_at, updated_at, lifetime, expires_at, vectors, value)
             VALUES ($1, $2, $3, $3, $4, $5, $6, $7)
             ON CONFLICT (namespace, key) DO UPDATE SET
                 created_at = CASE WHEN i.expires_at <= $8 THEN $3 ELSE i.created_at END,
                 updated_at = CASE WHEN i.expires_at <= $8 THEN $3 ELSE greatest($3, i.created_at) END,
                 lifetime = $4, expires_at = $5, vectors = $6, value = $7";
        let NewItem { at, lifetime, expires_at, vectors, value } = item;
        let (now, hidden) = (nanos(self.moment.now), expiry_cutoff(self.moment));
        let params: [&(dyn ToSql + Sync); 8] =
            [&at.namespace, &at.key, &now, lifetime, expires_at, vectors, value, &hidden];
        self.query(upsert, &params).await?;
        Ok(())
    }

    async fn get(
        &self,
        get: &Get,
    ) -> Result<(Option<Item>, Option<TtlRefresh>), Failure<StoreError>> {
        let at = ItemKey::of(&get.at);
        let select = "SELECT namespace, key, created_at, updated_at, lifetime, value FROM @.item
             WHERE namespace = $1 AND key = $2 AND (expires_at IS NULL OR expires_at > $3)";
        let params: [&(dyn ToSql + Sync); 3] =
            [&at.namespace, &at.key, &expiry_cutoff(self.moment)];
        let rows = self.query(select, &params).await?;
        let Some(row) = rows.first() else { return Ok((None, None)) };
        let row = read_item(row)?;
        let refresh = row.ttl_refresh(get.refresh_ttl, self.moment);
        Ok((Some(row.into_item(self.database.codec())?), refresh))
    }

    /// Reads the rows under the prefix in chunks, until the page is full.
    async fn search(
        &self,
        search: &Search,
        query: Option<&[f32]>,
    ) -> Result<(Vec<Item>, Vec<TtlRefresh>), Failure<StoreError>> {
        let mut collector = SearchCollector::new(self.database.codec(), search, query)?;
        let (from, to) = prefix_range(&search.prefix);
        let hidden = expiry_cutoff(self.moment);
        // This key sorts before all items, because no namespace is empty.
        let mut last = ItemKey { namespace: Vec::new(), key: Vec::new() };
        let mut chunk = first_chunk(search);
        loop {
            let select = "SELECT namespace, key, created_at, updated_at, lifetime, value,
                     CASE WHEN $7 THEN vectors END
                 FROM @.item
                 WHERE namespace >= $1 AND namespace < $2 AND (namespace, key) > ($3, $4)
                     AND (expires_at IS NULL OR expires_at > $5)
                 ORDER BY namespace, key LIMIT $6";
            let limit = i64::try_from(chunk).unwrap_or(i64::MAX);
            let params: [&(dyn ToSql + Sync); 7] =
                [&from, &to, &last.namespace, &last.key, &hidden, &limit, &query.is_some()];
            let rows = self.query(select, &params).await?;
            for row in &rows {
                let vectors: Option<&[u8]> = row.try_get(6)?;
                let row = read_item(row)?;
                last.clone_from(&row.at);
                collector.offer(row, vectors)?;
            }
            if collector.is_full() || rows.len() < chunk {
                return Ok(collector.finish(self.moment)?);
            }
            chunk = CHUNK;
        }
    }

    /// Lists namespaces by skipping from one to the next. The cost does not depend on the number of items in each
    /// namespace.
    async fn list(&self, list: &ListNamespaces) -> Result<Vec<Namespace>, Failure<StoreError>> {
        let (from, to) = prefix_range(list.fixed_prefix());
        let select = "WITH RECURSIVE place AS (
                 (SELECT namespace FROM @.item
                  WHERE namespace >= $1 AND namespace < $2
                      AND (expires_at IS NULL OR expires_at > $3)
                  ORDER BY namespace LIMIT 1)
             UNION ALL
                 SELECT next.namespace FROM place, LATERAL (
                     SELECT i.namespace FROM @.item i
                     WHERE i.namespace > place.namespace AND i.namespace < $2
                         AND (i.expires_at IS NULL OR i.expires_at > $3)
                     ORDER BY i.namespace LIMIT 1
                 ) AS next
             )
             SELECT namespace FROM place";
        let rows = self.query(select, &[&from, &to, &expiry_cutoff(self.moment)]).await?;
        let found = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<_>, _>>()?;
        Ok(choose_namespaces(list, found)?)
    }
}

fn read_item(row: &Row) -> Result<StoredItem, tokio_postgres::Error> {
    Ok(StoredItem {
        at: ItemKey { namespace: row.try_get(0)?, key: row.try_get(1)? },
        created_at: row.try_get(2)?,
        updated_at: row.try_get(3)?,
        lifetime: row.try_get(4)?,
        value: row.try_get(5)?,
    })
}
