//! Reads checkpoints.

use graph_core::checkpoint::{
    Checkpoint, CheckpointError, CheckpointId, CheckpointKey, HistoryQuery, Lookup,
};
use rusqlite::{Connection, Row, params};

use super::{
    chains::{LinkTable, decode_tips, read_link},
    failure::Failure,
    put::{find_namespace, id_at},
    records,
};
use crate::{
    body::{Body, damaged},
    codec::Codec,
};

/// Reads one checkpoint: the one with the given id, or the newest one in its namespace.
pub(super) fn get(
    connection: &Connection,
    codec: &Codec,
    at: &Lookup,
) -> Result<Option<Checkpoint>, Failure<CheckpointError>> {
    let Some(namespace) = find_namespace(connection, &at.thread, &at.namespace)? else {
        return Ok(None);
    };
    let mut rows = match at.id {
        Some(id) => select_rows(
            connection,
            "SELECT id, tips, body, records FROM checkpoint WHERE namespace = ?1 AND id = ?2",
            params![namespace, id.to_bytes()],
        ),
        None => select_rows(
            connection,
            "SELECT id, tips, body, records FROM checkpoint
             WHERE namespace = ?1 ORDER BY id DESC LIMIT 1",
            params![namespace],
        ),
    }?;
    let Some(row_data) = rows.pop() else { return Ok(None) };
    let key = CheckpointKey {
        thread: at.thread.clone(),
        namespace: at.namespace.clone(),
        id: row_data.id,
    };
    let body = body(connection, codec, &key, row_data.body)?;
    assemble(connection, codec, key, body, &row_data, &mut LinkTable::new(connection, codec))
        .map(Some)
}

/// Returns the checkpoints in a namespace that match the query, newest first.
pub(super) fn list(
    connection: &Connection,
    codec: &Codec,
    query: &HistoryQuery,
) -> Result<Vec<Checkpoint>, Failure<CheckpointError>> {
    let Some(namespace) = find_namespace(connection, &query.thread, &query.namespace)? else {
        return Ok(Vec::new());
    };
    let mut select = connection.prepare_cached(
        "SELECT id, tips, body, records FROM checkpoint
         WHERE namespace = ?1 AND id < ?2 ORDER BY id DESC",
    )?;
    // Without `before`, the query starts at the newest checkpoint, because this value is greater than any id.
    let before = query.before.map_or([0xff; 16], CheckpointId::to_bytes);
    let mut rows = select.query(params![namespace, before])?;
    let mut links = LinkTable::new(connection, codec);
    let mut found = Vec::new();
    while let (true, Some(row)) = (query.limit.is_none_or(|it| found.len() < it), rows.next()?) {
        let row_data = CheckpointRow::read(row)?;
        let (thread, namespace) = (query.thread.clone(), query.namespace.clone());
        let key = CheckpointKey { thread, namespace, id: row_data.id };
        let body = body(connection, codec, &key, row_data.body)?;
        if query.matches(row_data.id, &body.header) {
            found.push(assemble(connection, codec, key, body, &row_data, &mut links)?);
        }
    }
    Ok(found)
}

/// The row of a checkpoint.
struct CheckpointRow {
    id: CheckpointId,
    tips: Vec<u8>,
    body: i64,
    records: Option<i64>,
}

impl CheckpointRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { id: id_at(row, 0)?, tips: row.get(1)?, body: row.get(2)?, records: row.get(3)? })
    }
}

fn select_rows(
    connection: &Connection,
    select: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<CheckpointRow>> {
    connection.prepare_cached(select)?.query_map(params, CheckpointRow::read)?.collect()
}

/// Reads the body of a checkpoint.
pub(super) fn body(
    connection: &Connection,
    codec: &Codec,
    key: &CheckpointKey,
    link: i64,
) -> Result<Body, Failure<CheckpointError>> {
    let row = read_link(connection, link, || "its header".to_owned())
        .map_err(|it| it.of_checkpoint(key))?;
    Ok(Body::decode(codec, key, &row.body)?)
}

/// Assembles a checkpoint from its parts.
fn assemble(
    connection: &Connection,
    codec: &Codec,
    key: CheckpointKey,
    body: Body,
    row_data: &CheckpointRow,
    links: &mut LinkTable<'_>,
) -> Result<Checkpoint, Failure<CheckpointError>> {
    let tips = decode_tips(&row_data.tips).map_err(|error| damaged(&key, &error))?;
    let values = links.values(&tips).map_err(|it| it.of_checkpoint(&key))?;
    let records = records::read(connection, codec, &key, row_data.records)?;
    Ok(Checkpoint { key, header: body.header, frontier: body.frontier, values, records })
}
