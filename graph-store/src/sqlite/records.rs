//! Task records: the events of the tasks in the step that follows a checkpoint.
//!
//! Records form a chain, like the changes to a field, and the checkpoint's row points to the newest record.
//! Appending a record requires no search: if several records have the same slot, the reader decides which of them is
//! valid.

use std::collections::{HashMap, hash_map::Entry};

use graph_core::checkpoint::{CheckpointError, CheckpointId, CheckpointKey, TaskId, TaskRecord};
use rusqlite::{Connection, OptionalExtension, params, types::FromSql};

use super::{
    chains::{add_link, read_link},
    failure::Failure,
    writer::Session,
};
use crate::{codec::Codec, encoded::decode_record};

/// Appends records to a checkpoint, which need not be stored yet. Returns whether the checkpoint is already stored.
pub(super) fn add<'a>(
    connection: &Connection,
    namespace: i64,
    checkpoint: CheckpointId,
    bodies: impl IntoIterator<Item = &'a [u8]>,
) -> rusqlite::Result<bool> {
    let id = checkpoint.to_bytes();
    let select = "SELECT records FROM checkpoint WHERE namespace = ?1 AND id = ?2";
    let of_stored = find(connection, select, namespace, checkpoint)?;
    if let Some(before) = of_stored {
        append(connection, namespace, checkpoint, before, bodies)?;
        return Ok(true);
    }
    let before = early(connection, namespace, checkpoint)?;
    if let Some(newest) = add_links(connection, before, bodies)? {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO early (namespace, checkpoint, records) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![namespace, id, newest])?;
    }
    Ok(false)
}

/// Appends records to a stored checkpoint. `before` is the id of its newest record so far; the returned id is that of
/// its newest record afterwards.
pub(super) fn append<'a>(
    connection: &Connection,
    namespace: i64,
    checkpoint: CheckpointId,
    before: Option<i64>,
    bodies: impl IntoIterator<Item = &'a [u8]>,
) -> rusqlite::Result<Option<i64>> {
    let newest = add_links(connection, before, bodies)?;
    if newest != before {
        connection
            .prepare_cached("UPDATE checkpoint SET records = ?3 WHERE namespace = ?1 AND id = ?2")?
            .execute(params![namespace, checkpoint.to_bytes(), newest])?;
    }
    Ok(newest)
}

fn add_links<'a>(
    connection: &Connection,
    before: Option<i64>,
    bodies: impl IntoIterator<Item = &'a [u8]>,
) -> rusqlite::Result<Option<i64>> {
    let mut newest = before;
    for body in bodies {
        newest = Some(add_link(connection, newest, 0, body)?);
    }
    Ok(newest)
}

/// Returns the id of the newest record that was stored for `checkpoint` before the checkpoint itself, and removes the
/// checkpoint's entry from the table `early`. Called when the checkpoint is stored.
pub(super) fn take_early(
    session: &mut Session,
    namespace: i64,
    checkpoint: CheckpointId,
) -> rusqlite::Result<Option<i64>> {
    let connection = &session.connection;
    if !session.cache.has_early(connection)? {
        return Ok(None);
    }
    let records = early(connection, namespace, checkpoint)?;
    if records.is_some() {
        connection
            .prepare_cached("DELETE FROM early WHERE namespace = ?1 AND checkpoint = ?2")?
            .execute(params![namespace, checkpoint.to_bytes()])?;
    }
    Ok(records)
}

fn early(
    connection: &Connection,
    namespace: i64,
    checkpoint: CheckpointId,
) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT records FROM early WHERE namespace = ?1 AND checkpoint = ?2";
    find(connection, select, namespace, checkpoint)
}

/// Returns the first column of the row that `select` finds for a checkpoint.
pub(super) fn find<T: FromSql>(
    connection: &Connection,
    select: &str,
    namespace: i64,
    checkpoint: CheckpointId,
) -> rusqlite::Result<Option<T>> {
    connection
        .prepare_cached(select)?
        .query_row(params![namespace, checkpoint.to_bytes()], |row| row.get(0))
        .optional()
}

/// Reads the records of a checkpoint by following their chain back from the record `newest`.
pub(super) fn read(
    connection: &Connection,
    codec: &Codec,
    key: &CheckpointKey,
    newest: Option<i64>,
) -> Result<Vec<TaskRecord>, Failure<CheckpointError>> {
    let mut records = Vec::new();
    let mut next = newest;
    while let Some(id) = next {
        let what = || "a task record".to_owned();
        let link = read_link(connection, id, what).map_err(|it| it.of_checkpoint(key))?;
        records.push(decode_record(codec, key, &link.body)?);
        next = link.prev;
    }
    Ok(resolve_slots(records.into_iter().rev()))
}

/// Returns one record per slot of each task, in order of arrival. If a slot has several records, the kind of event
/// determines whether the first or the last one is kept.
fn resolve_slots(records: impl IntoIterator<Item = TaskRecord>) -> Vec<TaskRecord> {
    let mut slots: HashMap<(TaskId, String), usize> = HashMap::new();
    let mut kept: Vec<TaskRecord> = Vec::new();
    for record in records {
        match slots.entry((record.task, record.event.slot())) {
            Entry::Vacant(slot) => {
                slot.insert(kept.len());
                kept.push(record);
            }
            Entry::Occupied(slot) if !record.event.keeps_first() => kept[*slot.get()] = record,
            Entry::Occupied(_) => {}
        }
    }
    kept
}
