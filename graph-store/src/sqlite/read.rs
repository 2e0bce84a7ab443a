//! Reading checkpoints.

use graph_core::checkpoint::{Checkpoint, CheckpointError, CheckpointId, History, Lookup, Place};
use rusqlite::{Connection, Row, params};

use super::{
    chains::{Links, decode_tips, read_link},
    failure::Failure,
    put::{find_namespace, id_at},
    records,
};
use crate::{
    body::{Body, damaged},
    codec::Codec,
};

/// One checkpoint: the addressed one, or the namespace's newest.
pub(super) fn get(
    connection: &Connection,
    codec: &Codec,
    at: &Lookup,
) -> Result<Option<Checkpoint>, Failure<CheckpointError>> {
    let Some(namespace) = find_namespace(connection, &at.thread, &at.namespace)? else {
        return Ok(None);
    };
    let mut rows = match at.id {
        Some(id) => stored(
            connection,
            "SELECT id, tips, body, records FROM checkpoint WHERE namespace = ?1 AND id = ?2",
            params![namespace, id.to_bytes()],
        ),
        None => stored(
            connection,
            "SELECT id, tips, body, records FROM checkpoint
             WHERE namespace = ?1 ORDER BY id DESC LIMIT 1",
            params![namespace],
        ),
    }?;
    let Some(stored) = rows.pop() else { return Ok(None) };
    let place = Place { thread: at.thread.clone(), namespace: at.namespace.clone(), id: stored.id };
    let body = body(connection, codec, &place, stored.body)?;
    whole(connection, codec, place, body, &stored, &mut Links::new(connection, codec)).map(Some)
}

/// The checkpoints of a namespace that are asked for, newest first.
pub(super) fn list(
    connection: &Connection,
    codec: &Codec,
    query: &History,
) -> Result<Vec<Checkpoint>, Failure<CheckpointError>> {
    let Some(namespace) = find_namespace(connection, &query.thread, &query.namespace)? else {
        return Ok(Vec::new());
    };
    let mut select = connection.prepare_cached(
        "SELECT id, tips, body, records FROM checkpoint
         WHERE namespace = ?1 AND id < ?2 ORDER BY id DESC",
    )?;
    // No id is as great as this one.
    let before = query.before.map_or([0xff; 16], CheckpointId::to_bytes);
    let mut rows = select.query(params![namespace, before])?;
    let mut links = Links::new(connection, codec);
    let mut found = Vec::new();
    while let (true, Some(row)) = (query.limit.is_none_or(|it| found.len() < it), rows.next()?) {
        let stored = Stored::read(row)?;
        let (thread, namespace) = (query.thread.clone(), query.namespace.clone());
        let place = Place { thread, namespace, id: stored.id };
        let body = body(connection, codec, &place, stored.body)?;
        if query.matches(stored.id, &body.header) {
            found.push(whole(connection, codec, place, body, &stored, &mut links)?);
        }
    }
    Ok(found)
}

/// A checkpoint's row.
struct Stored {
    id: CheckpointId,
    tips: Vec<u8>,
    body: i64,
    records: Option<i64>,
}

impl Stored {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { id: id_at(row, 0)?, tips: row.get(1)?, body: row.get(2)?, records: row.get(3)? })
    }
}

fn stored(
    connection: &Connection,
    select: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Stored>> {
    connection.prepare_cached(select)?.query_map(params, Stored::read)?.collect()
}

/// Reads a checkpoint's header and cursor.
pub(super) fn body(
    connection: &Connection,
    codec: &Codec,
    place: &Place,
    link: i64,
) -> Result<Body, Failure<CheckpointError>> {
    let row = read_link(connection, link, || "its head".to_owned()).map_err(|it| it.at(place))?;
    Ok(Body::decode(codec, place, &row.body)?)
}

/// Puts a checkpoint together from its parts.
fn whole(
    connection: &Connection,
    codec: &Codec,
    place: Place,
    body: Body,
    stored: &Stored,
    links: &mut Links<'_>,
) -> Result<Checkpoint, Failure<CheckpointError>> {
    let tips = decode_tips(&stored.tips).map_err(|error| damaged(&place, &error))?;
    let values = links.values(&tips).map_err(|it| it.at(&place))?;
    let records = records::read(connection, codec, &place, stored.records)?;
    Ok(Checkpoint { place, header: body.header, cursor: body.cursor, values, records })
}
