//! Removing and copying checkpoints. The links they leave behind are [swept](super::sweep) afterwards.

use std::collections::BTreeMap;

use graph_core::checkpoint::{CheckpointError, CheckpointId, Keep, Place};
use rusqlite::{Connection, params};

use super::{
    chains::{bound, decode_tips, encode_tips},
    failure::Failure,
    put::{find_namespace, head, id_at, tips},
    sweep::reachable,
};
use crate::{body::Body, codec::Codec, stored::unknown_rule, time::nanos};

/// How many rows one piece of work removes, so that others do not wait long.
pub(super) const SLICE: usize = 500;

/// Checkpoints that were removed, and where their fields' chains began.
#[derive(Debug, Default)]
pub(super) struct Removed {
    pub(super) checkpoints: usize,
    pub(super) tips: Vec<i64>,
}

impl Removed {
    pub(super) fn add(&mut self, more: Self) {
        self.checkpoints += more.checkpoints;
        self.tips.extend(more.tips);
    }
}

/// The namespaces of a thread.
pub(super) fn namespaces(connection: &Connection, thread: &str) -> rusqlite::Result<Vec<i64>> {
    let mut select = connection.prepare_cached("SELECT id FROM namespace WHERE thread = ?1")?;
    select.query_map([thread], |row| row.get(0))?.collect()
}

/// Whether a thread has a checkpoint: without one there is no thread.
fn exists(connection: &Connection, thread: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM namespace n JOIN checkpoint c ON c.namespace = n.id
             WHERE n.thread = ?1 LIMIT 1",
        )?
        .exists([thread])
}

/// Removes a slice of the checkpoints that are not to be kept.
pub(super) fn prune(
    connection: &Connection,
    namespace: i64,
    keep: Keep,
) -> Result<Removed, Failure<CheckpointError>> {
    let old = match keep {
        Keep::Newest(count) => {
            let newer = i64::try_from(count.max(1) - 1).unwrap_or(i64::MAX);
            ids(
                connection,
                "SELECT id FROM checkpoint WHERE namespace = ?1 AND id < (
                     SELECT id FROM checkpoint WHERE namespace = ?1
                     ORDER BY id DESC LIMIT 1 OFFSET ?2
                 ) ORDER BY id LIMIT ?3",
                params![namespace, newer, SLICE as i64],
            )
        }
        Keep::Since(since) => ids(
            connection,
            "SELECT id FROM checkpoint WHERE namespace = ?1 AND made_at < ?2 AND id < (
                 SELECT max(id) FROM checkpoint WHERE namespace = ?1
             ) ORDER BY id LIMIT ?3",
            params![namespace, nanos(since), SLICE as i64],
        ),
        other => return Err(unknown_rule(other).into()),
    }?;
    remove(connection, old.into_iter().map(|id| (namespace, id)))
}

fn ids(
    connection: &Connection,
    select: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<CheckpointId>> {
    connection.prepare_cached(select)?.query_map(params, |row| id_at(row, 0))?.collect()
}

/// Removes these checkpoints and what was recorded after them.
pub(super) fn remove(
    connection: &Connection,
    checkpoints: impl Iterator<Item = (i64, CheckpointId)>,
) -> Result<Removed, Failure<CheckpointError>> {
    let mut removed = Removed::default();
    let mut delete = connection
        .prepare_cached("DELETE FROM checkpoint WHERE namespace = ?1 AND id = ?2 RETURNING tips")?;
    let mut forget =
        connection.prepare_cached("DELETE FROM record WHERE namespace = ?1 AND checkpoint = ?2")?;
    for (namespace, id) in checkpoints {
        let at = params![namespace, id.to_bytes()];
        let tips: Vec<Vec<u8>> =
            delete.query_map(at, |row| row.get(0))?.collect::<Result<_, _>>()?;
        forget.execute(at)?;
        removed.checkpoints += tips.len();
        for tips in tips {
            removed.tips.extend(decode_tips(&tips)?.values().map(|it| it.link));
        }
    }
    Ok(removed)
}

/// Removes a thread.
pub(super) fn delete_thread(
    connection: &Connection,
    thread: &str,
) -> Result<Removed, Failure<CheckpointError>> {
    let mut removed = Removed::default();
    for namespace in namespaces(connection, thread)? {
        removed.add(delete_namespace(connection, namespace)?);
    }
    Ok(removed)
}

fn delete_namespace(
    connection: &Connection,
    namespace: i64,
) -> Result<Removed, Failure<CheckpointError>> {
    let all = ids(connection, "SELECT id FROM checkpoint WHERE namespace = ?1", [namespace])?;
    let removed = remove(connection, all.into_iter().map(|id| (namespace, id)))?;
    // What was recorded for checkpoints that never came.
    connection.prepare_cached("DELETE FROM record WHERE namespace = ?1")?.execute([namespace])?;
    connection.prepare_cached("DELETE FROM namespace WHERE id = ?1")?.execute([namespace])?;
    Ok(removed)
}

/// Removes a slice of the graphs whose visit's step is gone.
pub(super) fn remove_outlived(
    connection: &Connection,
    codec: &Codec,
    thread: &str,
) -> Result<Removed, Failure<CheckpointError>> {
    let mut select = connection.prepare_cached(
        "SELECT n.id, n.name, c.id, c.body FROM namespace n JOIN checkpoint c ON c.namespace = n.id
         WHERE n.thread = ?1 AND instr(n.name, ':')
         AND c.id = (SELECT max(id) FROM checkpoint WHERE namespace = n.id)",
    )?;
    let mut rows = select.query([thread])?;
    let mut gone = Vec::new();
    while let (true, Some(row)) = (gone.len() < SLICE, rows.next()?) {
        let (name, id): (String, _) = (row.get(1)?, id_at(row, 2)?);
        let place = Place { thread: thread.to_owned(), namespace: name.clone(), id };
        let body = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let header = Body::decode(codec, &place, body)?.header;
        let around = |outer: &str, id: CheckpointId| {
            let Some(outer) = find_namespace(connection, thread, outer)? else {
                return Ok((false, None));
            };
            let stored = tips(connection, outer, id)?.is_some();
            Ok::<_, rusqlite::Error>((stored, head(connection, outer)?))
        };
        if header.outlived(&name, around)? {
            gone.push(row.get(0)?);
        }
    }
    let mut removed = Removed::default();
    for namespace in gone {
        removed.add(delete_namespace(connection, namespace)?);
    }
    Ok(removed)
}

/// The checkpoints that these runs wrote. There is no index for it: it would cost every step, and this is rare.
pub(super) fn of_runs(
    connection: &Connection,
    runs: &[String],
) -> rusqlite::Result<Vec<(i64, CheckpointId)>> {
    let mut select =
        connection.prepare_cached("SELECT namespace, id FROM checkpoint WHERE run = ?1")?;
    let mut found = Vec::new();
    for run in runs {
        for row in select.query_map([run], |row| Ok((row.get(0)?, id_at(row, 1)?)))? {
            found.push(row?);
        }
    }
    Ok(found)
}

/// Copies a thread to a name that is free.
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
    // Records may lie there for checkpoints that never came.
    delete_thread(connection, to)?;
    for namespace in namespaces(connection, from)? {
        copy_namespace(connection, namespace, to)?;
    }
    Ok(())
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
    let mut copies = BTreeMap::new();
    let mut select = connection.prepare_cached("SELECT depth, body FROM link WHERE id = ?1")?;
    let mut insert = connection
        .prepare_cached("INSERT INTO link (prev, depth, bound, body) VALUES (?1, ?2, ?3, ?4)")?;
    // A link is newer than the one it hooks on to, so that one was copied before it.
    for (id, prev) in reachable(connection, from)? {
        let prev: Option<i64> = prev.and_then(|it| copies.get(&it).copied());
        let (depth, body): (u32, Vec<u8>) =
            select.query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let bound = bound(prev, depth, &body);
        copies.insert(id, insert.insert(params![prev, depth, bound, body])?);
    }
    let mut select =
        connection.prepare_cached("SELECT id, tips FROM checkpoint WHERE namespace = ?1")?;
    let mut copy_checkpoint = connection.prepare_cached(
        "INSERT INTO checkpoint (namespace, id, made_at, run, tips, body)
         SELECT ?3, id, made_at, run, ?4, body FROM checkpoint WHERE namespace = ?1 AND id = ?2",
    )?;
    let rows = select.query_map([from], |row| Ok((id_at(row, 0)?, row.get::<_, Vec<u8>>(1)?)))?;
    for row in rows.collect::<Result<Vec<_>, _>>()? {
        let (id, tips) = row;
        let mut tips = decode_tips(&tips)?;
        for tip in tips.values_mut() {
            tip.link = copies.get(&tip.link).copied().unwrap_or(tip.link);
        }
        copy_checkpoint.execute(params![from, id.to_bytes(), to, encode_tips(&tips)?])?;
    }
    connection
        .prepare_cached(
            "INSERT INTO record (namespace, checkpoint, task, slot, body)
             SELECT ?2, checkpoint, task, slot, body FROM record WHERE namespace = ?1 ORDER BY seq",
        )?
        .execute([from, to])?;
    Ok(())
}
