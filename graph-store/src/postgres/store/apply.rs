//! Operations on items, on a connection or inside a transaction.

use deadpool_postgres::{GenericClient, PoolError};
use graph_core::store::{
    Filter, Get, Item, ListNamespaces, Namespace, Outcome, Search, StoreError, backend::Moment,
};
use tokio_postgres::{Row, types::ToSql};
use xxhash_rust::xxh3::xxh3_64;

use super::super::{database::Postgres, failure::Failure};
use crate::items::{Finder, NewItem, Spot, Stored, Touch, Work, hidden_until, listed, range};
use crate::time::nanos;

/// How many rows one statement of a search reads.
const CHUNK: usize = 200;

/// Prolongs lives, unless an item was given another lifetime since it was read. An item that somebody else
/// writes this moment gets a new life anyway, or goes; it is not waited for, so that nobody waits in a ring.
const TOUCH: &str = "WITH free AS (
         SELECT i.namespace, i.key, t.expires_at
         FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[])
             AS t (namespace, key, lifetime, expires_at)
         JOIN @.item i
             ON i.namespace = t.namespace AND i.key = t.key AND i.lifetime = t.lifetime
         FOR UPDATE OF i SKIP LOCKED
     )
     UPDATE @.item i SET expires_at = free.expires_at FROM free
     WHERE i.namespace = free.namespace AND i.key = free.key";

/// Does operations in order. Prolonging the lives that they touch is left to the caller.
pub(super) async fn all(
    client: &impl GenericClient,
    database: &Postgres,
    works: &[Work],
    moment: Moment,
) -> Result<(Vec<Outcome>, Vec<Touch>), Failure<StoreError>> {
    let client = Client { client, database, moment };
    let (mut outcomes, mut touches) = (Vec::with_capacity(works.len()), Vec::new());
    for work in works {
        outcomes.push(match work {
            Work::Put(item) => {
                client.put(item).await?;
                Outcome::Done
            }
            Work::Delete(at) => {
                let delete = "DELETE FROM @.item WHERE namespace = $1 AND key = $2";
                client.query(delete, &[&at.namespace, &at.key]).await?;
                Outcome::Done
            }
            Work::Get(asked) => {
                let (item, touch) = client.get(asked).await?;
                touches.extend(touch);
                Outcome::Item(item)
            }
            Work::Search(asked, query) => {
                let (items, found) = client.search(asked, query.as_deref()).await?;
                touches.extend(found);
                Outcome::Items(items)
            }
            Work::List(asked) => Outcome::Namespaces(client.list(asked).await?),
        });
    }
    Ok((outcomes, touches))
}

/// Does operations in order, lives included, so that two batches never wait for each other.
///
/// A batch takes a lock on each item that it writes, all in the same order, before it touches the first row.
pub(super) async fn locked(
    client: &impl GenericClient,
    database: &Postgres,
    works: &[Work],
    moment: Moment,
) -> Result<Vec<Outcome>, Failure<StoreError>> {
    let mut locks: Vec<i64> = works.iter().filter_map(|it| lock(database, it)).collect();
    locks.sort_unstable();
    locks.dedup();
    let writer = Client { client, database, moment };
    writer
        .query("SELECT pg_advisory_xact_lock(id) FROM unnest($1::bigint[]) AS id", &[&locks])
        .await?;
    let (outcomes, touches) = all(client, database, works, moment).await?;
    if !touches.is_empty() {
        let (namespaces, keys, lifetimes, ends) = columns(&touches);
        writer.query(TOUCH, &[&namespaces, &keys, &lifetimes, &ends]).await?;
    }
    Ok(outcomes)
}

fn lock(database: &Postgres, work: &Work) -> Option<i64> {
    let (Work::Put(NewItem { at, .. }) | Work::Delete(at)) = work else { return None };
    // Other tables have locks, too; the table's name, with its schema, keeps them apart.
    let name = database.sql("@.item");
    Some(xxh3_64(&[name.as_bytes(), &at.namespace, &at.key].concat()).cast_signed())
}

/// Prolongs lives by a statement of its own.
pub(super) async fn touch(database: &Postgres, touches: &[Touch]) -> Result<(), PoolError> {
    let (namespaces, keys, lifetimes, ends) = columns(touches);
    database.query(TOUCH, &[&namespaces, &keys, &lifetimes, &ends]).await.map(|_| ())
}

/// Lives to be prolonged, as the parameters of [`TOUCH`].
fn columns(touches: &[Touch]) -> (Vec<&[u8]>, Vec<&[u8]>, Vec<i64>, Vec<i64>) {
    let namespaces = touches.iter().map(|it| &it.at.namespace[..]).collect();
    let keys = touches.iter().map(|it| &it.at.key[..]).collect();
    let lifetimes = touches.iter().map(|it| it.lifetime).collect();
    (namespaces, keys, lifetimes, touches.iter().map(|it| it.expires_at).collect())
}

/// Whether one statement is all that a search takes.
pub(super) fn is_one_chunk(search: &Search) -> bool {
    first_chunk(search) < CHUNK
}

/// How many rows the first statement reads: no more than the page needs, if every row is a hit.
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
    moment: Moment,
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

    /// Writes an item; one that is hidden because it expired counts as none.
    async fn put(&self, item: &NewItem) -> Result<(), Failure<StoreError>> {
        let upsert = "INSERT INTO @.item AS i
                 (namespace, key, created_at, updated_at, lifetime, expires_at, vectors, value)
             VALUES ($1, $2, $3, $3, $4, $5, $6, $7)
             ON CONFLICT (namespace, key) DO UPDATE SET
                 created_at = CASE WHEN i.expires_at <= $8 THEN $3 ELSE i.created_at END,
                 updated_at = CASE WHEN i.expires_at <= $8 THEN $3 ELSE greatest($3, i.created_at) END,
                 lifetime = $4, expires_at = $5, vectors = $6, value = $7";
        let NewItem { at, lifetime, expires_at, vectors, value } = item;
        let (now, hidden) = (nanos(self.moment.now), hidden_until(self.moment));
        let params: [&(dyn ToSql + Sync); 8] =
            [&at.namespace, &at.key, &now, lifetime, expires_at, vectors, value, &hidden];
        self.query(upsert, &params).await?;
        Ok(())
    }

    async fn get(&self, get: &Get) -> Result<(Option<Item>, Option<Touch>), Failure<StoreError>> {
        let at = Spot::of(&get.at);
        let select = "SELECT namespace, key, created_at, updated_at, lifetime, value FROM @.item
             WHERE namespace = $1 AND key = $2 AND (expires_at IS NULL OR expires_at > $3)";
        let params: [&(dyn ToSql + Sync); 3] = [&at.namespace, &at.key, &hidden_until(self.moment)];
        let rows = self.query(select, &params).await?;
        let Some(row) = rows.first() else { return Ok((None, None)) };
        let row = stored(row)?;
        let touch = row.touch(get.refresh_ttl, self.moment);
        Ok((Some(row.into_item(self.database.codec())?), touch))
    }

    /// Reads the rows under the prefix chunk by chunk, until the page is full.
    async fn search(
        &self,
        search: &Search,
        query: Option<&[f32]>,
    ) -> Result<(Vec<Item>, Vec<Touch>), Failure<StoreError>> {
        let mut finder = Finder::new(self.database.codec(), search, query)?;
        let (from, to) = range(&search.prefix);
        let hidden = hidden_until(self.moment);
        // Before all others: no namespace is empty.
        let mut last = Spot { namespace: Vec::new(), key: Vec::new() };
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
                let row = stored(row)?;
                last.clone_from(&row.at);
                finder.take(row, vectors)?;
            }
            if finder.is_full() || rows.len() < chunk {
                return Ok(finder.finish(self.moment)?);
            }
            chunk = CHUNK;
        }
    }

    /// Lists namespaces by leaping from one to the next, however many items lie in each.
    async fn list(&self, list: &ListNamespaces) -> Result<Vec<Namespace>, Failure<StoreError>> {
        let (from, to) = range(list.fixed_prefix());
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
        let rows = self.query(select, &[&from, &to, &hidden_until(self.moment)]).await?;
        let found = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<_>, _>>()?;
        Ok(listed(list, found)?)
    }
}

fn stored(row: &Row) -> Result<Stored, tokio_postgres::Error> {
    Ok(Stored {
        at: Spot { namespace: row.try_get(0)?, key: row.try_get(1)? },
        created_at: row.try_get(2)?,
        updated_at: row.try_get(3)?,
        lifetime: row.try_get(4)?,
        value: row.try_get(5)?,
    })
}
