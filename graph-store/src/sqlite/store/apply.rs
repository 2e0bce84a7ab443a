//! Operations on items, inside a transaction.

use graph_core::store::{
    Get, Item, ListNamespaces, Namespace, Outcome, Search, StoreError, backend::Moment,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::failure::Failure;
use crate::{
    codec::Codec,
    items::{Finder, NewItem, Spot, Stored, Touch, Work, hidden_until, listed, range},
    time::nanos,
};

/// Does operations in order. Prolonging the lives that they touch is left to the caller.
pub(super) fn all(
    connection: &Connection,
    codec: &Codec,
    works: &[Work],
    moment: Moment,
) -> Result<(Vec<Outcome>, Vec<Touch>), Failure<StoreError>> {
    let (mut outcomes, mut touches) = (Vec::with_capacity(works.len()), Vec::new());
    for work in works {
        outcomes.push(match work {
            Work::Put(item) => {
                put(connection, item, moment)?;
                Outcome::Done
            }
            Work::Delete(at) => {
                delete(connection, at)?;
                Outcome::Done
            }
            Work::Get(asked) => {
                let (item, touch) = get(connection, codec, asked, moment)?;
                touches.extend(touch);
                Outcome::Item(item)
            }
            Work::Search(asked, query) => {
                let (items, found) = search(connection, codec, asked, query.as_deref(), moment)?;
                touches.extend(found);
                Outcome::Items(items)
            }
            Work::List(asked) => Outcome::Namespaces(list(connection, asked, moment)?),
        });
    }
    Ok((outcomes, touches))
}

/// Prolongs lives, unless an item was given another lifetime since it was read.
pub(super) fn touch(connection: &Connection, touches: &[Touch]) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached(
        "UPDATE item SET expires_at = ?1 WHERE namespace = ?2 AND key = ?3 AND lifetime = ?4",
    )?;
    for Touch { at, lifetime, expires_at } in touches {
        update.execute(params![expires_at, at.namespace, at.key, lifetime])?;
    }
    Ok(())
}

/// Writes an item; one that is hidden because it expired counts as none.
fn put(connection: &Connection, item: &NewItem, moment: Moment) -> rusqlite::Result<()> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO item
             (namespace, key, created_at, updated_at, lifetime, expires_at, vectors, value)
         VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (namespace, key) DO UPDATE SET
             created_at = CASE WHEN expires_at <= ?8 THEN ?3 ELSE created_at END,
             updated_at = CASE WHEN expires_at <= ?8 THEN ?3 ELSE max(?3, created_at) END,
             lifetime = ?4, expires_at = ?5, vectors = ?6, value = ?7",
    )?;
    let NewItem { at, lifetime, expires_at, vectors, value } = item;
    let (now, hidden) = (nanos(moment.now), hidden_until(moment));
    upsert.execute(params![
        at.namespace,
        at.key,
        now,
        lifetime,
        expires_at,
        vectors,
        value,
        hidden
    ])?;
    Ok(())
}

fn delete(connection: &Connection, at: &Spot) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM item WHERE namespace = ?1 AND key = ?2")?
        .execute(params![at.namespace, at.key])
}

fn get(
    connection: &Connection,
    codec: &Codec,
    get: &Get,
    moment: Moment,
) -> Result<(Option<Item>, Option<Touch>), Failure<StoreError>> {
    let at = Spot::of(&get.at);
    let mut select = connection.prepare_cached(
        "SELECT namespace, key, created_at, updated_at, lifetime, value FROM item
         WHERE namespace = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3)",
    )?;
    let row =
        select.query_row(params![at.namespace, at.key, hidden_until(moment)], stored).optional()?;
    let Some(row) = row else { return Ok((None, None)) };
    let touch = row.touch(get.refresh_ttl, moment);
    Ok((Some(row.into_item(codec)?), touch))
}

fn search(
    connection: &Connection,
    codec: &Codec,
    search: &Search,
    query: Option<&[f32]>,
    moment: Moment,
) -> Result<(Vec<Item>, Vec<Touch>), Failure<StoreError>> {
    let mut finder = Finder::new(codec, search, query)?;
    let (from, to) = range(&search.prefix);
    let mut select = connection.prepare_cached(
        "SELECT namespace, key, created_at, updated_at, lifetime, value, vectors FROM item
         WHERE namespace >= ?1 AND namespace < ?2 AND (expires_at IS NULL OR expires_at > ?3)
         ORDER BY namespace, key",
    )?;
    let mut rows = select.query(params![from, to, hidden_until(moment)])?;
    while !finder.is_full() {
        let Some(row) = rows.next()? else { break };
        let vectors = match query {
            Some(_) => row.get_ref(6)?.as_blob_or_null().map_err(rusqlite::Error::from)?,
            None => None,
        };
        finder.take(stored(row)?, vectors)?;
    }
    Ok(finder.finish(moment)?)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        at: Spot { namespace: row.get(0)?, key: row.get(1)? },
        created_at: row.get(2)?,
        updated_at: row.get(3)?,
        lifetime: row.get(4)?,
        value: row.get(5)?,
    })
}

/// Lists namespaces by leaping from one to the next, however many items lie in each.
fn list(
    connection: &Connection,
    list: &ListNamespaces,
    moment: Moment,
) -> Result<Vec<Namespace>, Failure<StoreError>> {
    let (mut from, to) = range(list.fixed_prefix());
    let mut next = connection.prepare_cached(
        "SELECT namespace FROM item
         WHERE namespace >= ?1 AND namespace < ?2 AND (expires_at IS NULL OR expires_at > ?3)
         ORDER BY namespace LIMIT 1",
    )?;
    let mut found: Vec<Vec<u8>> = Vec::new();
    loop {
        let namespace = next
            .query_row(params![from, to, hidden_until(moment)], |row| row.get::<_, Vec<u8>>(0))
            .optional()?;
        let Some(namespace) = namespace else { break };
        from.clone_from(&namespace);
        // Nothing lies between a text and the same with a zero at its end.
        from.push(0);
        found.push(namespace);
    }
    Ok(listed(list, found)?)
}
