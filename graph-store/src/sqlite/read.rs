//! Reading checkpoints.

use graph_core::checkpoint::{Checkpoint, CheckpointError, CheckpointId, History, Lookup, Place};
use rusqlite::{Connection, Row, params};

use super::{
    chains::{Links, decode_tips},
    failure::Failure,
    put::{find_namespace, id_at},
};
use crate::{
    body::{Body, damaged},
    codec::{Codec, CodecError},
    stored::record,
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
            "SELECT id, tips, body FROM checkpoint WHERE namespace = ?1 AND id = ?2",
            params![namespace, id.to_bytes()],
        ),
        None => stored(
            connection,
            "SELECT id, tips, body FROM checkpoint WHERE namespace = ?1 ORDER BY id DESC LIMIT 1",
            params![namespace],
        ),
    }?;
    let Some(stored) = rows.pop() else { return Ok(None) };
    let place = Place { thread: at.thread.clone(), namespace: at.namespace.clone(), id: stored.id };
    let body = Body::decode(codec, &place, &stored.body)?;
    let mut links = Links::new(connection, codec);
    whole(connection, codec, namespace, place, body, &stored.tips, &mut links).map(Some)
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
        "SELECT id, tips, body FROM checkpoint WHERE namespace = ?1 AND id < ?2 ORDER BY id DESC",
    )?;
    // No id is as great as this one.
    let before = query.before.map_or([0xff; 16], CheckpointId::to_bytes);
    let mut rows = select.query(params![namespace, before])?;
    let mut links = Links::new(connection, codec);
    let mut found = Vec::new();
    while let (true, Some(row)) = (query.limit.is_none_or(|it| found.len() < it), rows.next()?) {
        let Stored { id, tips, body } = Stored::read(row)?;
        let place = Place { thread: query.thread.clone(), namespace: query.namespace.clone(), id };
        let body = Body::decode(codec, &place, &body)?;
        if query.matches(id, &body.header) {
            found.push(whole(connection, codec, namespace, place, body, &tips, &mut links)?);
        }
    }
    Ok(found)
}

/// A checkpoint's row.
struct Stored {
    id: CheckpointId,
    tips: Vec<u8>,
    body: Vec<u8>,
}

impl Stored {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { id: id_at(row, 0)?, tips: row.get(1)?, body: row.get(2)? })
    }
}

fn stored(
    connection: &Connection,
    select: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Stored>> {
    connection.prepare_cached(select)?.query_map(params, Stored::read)?.collect()
}

/// Puts a checkpoint together from its rows.
fn whole(
    connection: &Connection,
    codec: &Codec,
    namespace: i64,
    place: Place,
    body: Body,
    tips: &[u8],
    links: &mut Links<'_>,
) -> Result<Checkpoint, Failure<CheckpointError>> {
    let damaged = |error: CodecError| damaged(&place, &error);
    let tips = decode_tips(tips).map_err(damaged)?;
    let values = links.values(&tips).map_err(|it| it.at(&place))?;
    let mut select = connection.prepare_cached(
        "SELECT body FROM record WHERE namespace = ?1 AND checkpoint = ?2 ORDER BY seq",
    )?;
    let mut rows = select.query(params![namespace, place.id.to_bytes()])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        records.push(record(codec, &place, bytes)?);
    }
    Ok(Checkpoint { place, header: body.header, cursor: body.cursor, values, records })
}
