//! Copies threads.

use std::collections::BTreeMap;

use graph_core::checkpoint::CheckpointError;
use rusqlite::{Connection, params};

use super::{
    chains::{add_link, decode_tips, encode_tips},
    failure::Failure,
    remove::{delete_thread, namespaces},
    sweep::reachable,
};

/// Copies a thread to a new name, which must not be in use.
pub(super) fn copy_thread(
    connection: &Connection,
    from: &str,
    to: &str,
) -> Result<(), Failure<CheckpointError>> {
    if exists(connection, to)? {
        return Err(CheckpointError::ThreadExists { thread: to.to_owned() }.into());
    }
    if !exists(connection, from)? {
        return Err(CheckpointError::UnknownThread { thread: from.to_owned() }.into());
    }
    // The target has no checkpoints, but may have records for checkpoints that were never stored.
    delete_thread(connection, to)?;
    for namespace in namespaces(connection, from)? {
        copy_namespace(connection, namespace, to)?;
    }
    Ok(())
}

/// Returns whether a thread has a checkpoint. A thread without checkpoints does not exist.
fn exists(connection: &Connection, thread: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM namespace n JOIN checkpoint c ON c.namespace = n.id
             WHERE n.thread = ?1 LIMIT 1",
        )?
        .exists([thread])
}

fn copy_namespace(
    connection: &Connection,
    from: i64,
    thread: &str,
) -> Result<(), Failure<CheckpointError>> {
    let to = connection
        .prepare_cached(
            "INSERT INTO namespace (thread, name) SELECT ?2, name FROM namespace WHERE id = ?1",
        )?
        .insert(params![from, thread])?;
    let copies = copy_links(connection, from)?;
    let copy = |link: i64| copies.get(&link).copied().unwrap_or(link);
    let mut select = connection
        .prepare_cached("SELECT id, tips, body, records FROM checkpoint WHERE namespace = ?1")?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO checkpoint (namespace, id, made_at, run, tips, body, records)
         SELECT ?3, id, made_at, run, ?4, ?5, ?6 FROM checkpoint WHERE namespace = ?1 AND id = ?2",
    )?;
    let mut rows = select.query([from])?;
    while let Some(row) = rows.next()? {
        let (id, tips): ([u8; 16], Vec<u8>) = (row.get(0)?, row.get(1)?);
        let mut tips = decode_tips(&tips)?;
        for tip in tips.values_mut() {
            tip.link = copy(tip.link);
        }
        let (body, records): (i64, Option<i64>) = (row.get(2)?, row.get(3)?);
        let (body, records) = (copy(body), records.map(copy));
        insert.execute(params![from, id, to, encode_tips(&tips)?, body, records])?;
    }
    let mut select =
        connection.prepare_cached("SELECT checkpoint, records FROM early WHERE namespace = ?1")?;
    let mut insert = connection
        .prepare_cached("INSERT INTO early (namespace, checkpoint, records) VALUES (?1, ?2, ?3)")?;
    let mut rows = select.query([from])?;
    while let Some(row) = rows.next()? {
        insert.execute(params![to, row.get::<_, [u8; 16]>(0)?, copy(row.get(1)?)])?;
    }
    Ok(())
}

/// Copies all links in a namespace and returns a map from each link's id to the id of its copy.
fn copy_links(
    connection: &Connection,
    namespace: i64,
) -> Result<BTreeMap<i64, i64>, Failure<CheckpointError>> {
    let mut copies = BTreeMap::new();
    let mut select = connection.prepare_cached("SELECT depth, body FROM link WHERE id = ?1")?;
    // A link is newer than its predecessor, so the predecessor has already been copied.
    for (id, prev) in reachable(connection, namespace)? {
        let prev: Option<i64> = prev.and_then(|it| copies.get(&it).copied());
        let (depth, body): (u32, Vec<u8>) =
            select.query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        copies.insert(id, add_link(connection, prev, depth, &body)?);
    }
    Ok(copies)
}
