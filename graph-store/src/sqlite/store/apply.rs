//! Executes operations on items, within a transaction.

use graph_core::store::{
    Get, Item, ListNamespaces, Namespace, OpOutput, Search, StoreError, backend::TtlContext,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::failure::Failure;
use crate::{
    codec::Codec,
    items::{
        ItemKey, NewItem, PreparedOp, SearchCollector, StoredItem, TtlRefresh, choose_namespaces,
        expiry_cutoff, prefix_range,
    },
    time::nanos,
};

/// Applies operations in order. Also returns the lifetime extensions caused by the reads, which the caller must apply.
pub(super) fn apply_ops(
    connection: &Connection,
    codec: &Codec,
    prepared_ops: &[PreparedOp],
    moment: TtlContext,
) -> Result<(Vec<OpOutput>, Vec<TtlRefresh>), Failure<StoreError>> {
    let (mut outcomes, mut refreshes) = (Vec::with_capacity(prepared_ops.len()), Vec::new());
    for op in prepared_ops {
        outcomes.push(match op {
            PreparedOp::Put(item) => {
                put(connection, item, moment)?;
                OpOutput::Done
            }
            PreparedOp::Delete(at) => {
                delete(connection, at)?;
                OpOutput::Done
            }
            PreparedOp::Get(asked) => {
                let (item, refresh) = get(connection, codec, asked, moment)?;
                refreshes.extend(refresh);
                OpOutput::Item(item)
            }
            PreparedOp::Search(asked, query) => {
                let (items, found) = search(connection, codec, asked, query.as_deref(), moment)?;
                refreshes.extend(found);
                OpOutput::Items(items)
            }
            PreparedOp::List(asked) => OpOutput::Namespaces(list(connection, asked, moment)?),
        });
    }
    Ok((outcomes, refreshes))
}

/// Extends lifetimes, except those of items whose lifetime has changed since they were read.
pub(super) fn refresh_ttls(
    connection: &Connection,
    refreshes: &[TtlRefresh],
) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached(
        "UPDATE item SET expires_at = ?1 WHERE namespace = ?2 AND key = ?3 AND lifetime = ?4",
    )?;
    for TtlRefresh { at, lifetime, expires_at } in refreshes {
        update.execute(params![expires_at, at.namespace, at.key, lifetime])?;
    }
    Ok(())
}

/// Writes an item. A hidden expired item with the same key is treated as missing.
fn put(connection: &Connection, item: &NewItem, moment: TtlContext) -> rusqlite::Result<()> {
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
    let (now, hidden) = (nanos(moment.now), expiry_cutoff(moment));
    upsert.execute(params![
        at.namespace, at.key, now, lifetime, expires_at, vectors, value, hidden
    ])?;
    Ok(())
}

fn delete(connection: &Connection, at: &ItemKey) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM item WHERE namespace = ?1 AND key = ?2")?
        .execute(params![at.namespace, at.key])
}

fn get(
    connection: &Connection,
    codec: &Codec,
    get: &Get,
    moment: TtlContext,
) -> Result<(Option<Item>, Option<TtlRefresh>), Failure<StoreError>> {
    let at = ItemKey::of(&get.at);
    let mut select = connection.prepare_cached(
        "SELECT namespace, key, created_at, updated_at, lifetime, value FROM item
         WHERE namespace = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3)",
    )?;
    let row = select
        .query_row(params![at.namespace, at.key, expiry_cutoff(moment)], read_item)
        .optional()?;
    let Some(row) = row else { return Ok((None, None)) };
    let refresh = row.ttl_refresh(get.refresh_ttl, moment);
    Ok((Some(row.into_item(codec)?), refresh))
}

fn search(
    connection: &Connection,
    codec: &Codec,
    search: &Search,
    query: Option<&[f32]>,
    moment: TtlContext,
) -> Result<(Vec<Item>, Vec<TtlRefresh>), Failure<StoreError>> {
    let mut collector = SearchCollector::new(codec, search, query)?;
    let (from, to) = prefix_range(&search.prefix);
    let mut select = connection.prepare_cached(
        "SELECT namespace, key, created_at, updated_at, lifetime, value, vectors FROM item
         WHERE namespace >= ?1 AND namespace < ?2 AND (expires_at IS NULL OR expires_at > ?3)
         ORDER BY namespace, key",
    )?;
    let mut rows = select.query(params![from, to, expiry_cutoff(moment)])?;
    while !collector.is_full() {
        let Some(row) = rows.next()? else { break };
        let vectors = match query {
            Some(_) => row.get_ref(6)?.as_blob_or_null().map_err(rusqlite::Error::from)?,
            None => None,
        };
        collector.offer(read_item(row)?, vectors)?;
    }
    Ok(collector.finish(moment)?)
}

fn read_item(row: &Row<'_>) -> rusqlite::Result<StoredItem> {
    Ok(StoredItem {
        at: ItemKey { namespace: row.get(0)?, key: row.get(1)? },
        created_at: row.get(2)?,
        updated_at: row.get(3)?,
        lifetime: row.get(4)?,
        value: row.get(5)?,
    })
}

/// Lists namespaces by skipping from one to the next. The cost does not depend on the number of items in each
/// namespace.
fn list(
    connection: &Connection,
    list: &ListNamespaces,
    moment: TtlContext,
) -> Result<Vec<Namespace>, Failure<StoreError>> {
    let (mut from, to) = prefix_range(list.fixed_prefix());
    let mut next = connection.prepare_cached(
        "SELECT namespace FROM item
         WHERE namespace >= ?1 AND namespace < ?2 AND (expires_at IS NULL OR expires_at > ?3)
         ORDER BY namespace LIMIT 1",
    )?;
    let mut found: Vec<Vec<u8>> = Vec::new();
    loop {
        let namespace = next
            .query_row(params![from, to, expiry_cutoff(moment)], |row| row.get::<_, Vec<u8>>(0))
            .optional()?;
        let Some(namespace) = namespace else { break };
        from.clone_from(&namespace);
        // Continues right after this namespace: no string sorts between a string and the same string followed by a zero
        // byte.
        from.push(0);
        found.push(namespace);
    }
    Ok(choose_namespaces(list, found)?)
}
