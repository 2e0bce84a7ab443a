//! Writing checkpoints and records.

use graph_core::checkpoint::{CheckpointError, CheckpointId, Place};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    chains::{Links, add_link, decode_tips, encode_tips},
    failure::Failure,
    records,
};
use crate::{
    body::damaged,
    chain::Tips,
    codec::Codec,
    stored::{Put, Records},
};

impl Put {
    /// Stores it, unless the thread has moved on.
    pub(super) fn run(
        self,
        connection: &Connection,
        codec: &Codec,
    ) -> Result<(), Failure<CheckpointError>> {
        let Place { thread, namespace, id } = &self.place;
        let namespace_id = namespace_id(connection, thread, namespace)?;
        let moved = || CheckpointError::HeadMoved { thread: thread.clone() };
        let (head, newest_tips) = newest(connection, namespace_id)?.unzip();
        if head != self.expected_head || head.is_some_and(|it| *id <= it) {
            return Err(match run_of(connection, namespace_id, *id)? {
                // It was stored before.
                Some(run) if run == self.run => return Ok(()),
                None if head == self.expected_head => {
                    CheckpointError::NotNewer { thread: thread.clone(), id: *id }
                }
                _ => moved(),
            }
            .into());
        }
        let stored_tips = match self.base {
            base if base == head => newest_tips,
            Some(base) => tips(connection, namespace_id, base)?,
            None => None,
        };
        let mut tips = match self.base {
            None => Tips::new(),
            Some(base) => match stored_tips {
                Some(bytes) => decode_tips(&bytes).map_err(|it| damaged(&self.place, &it))?,
                None => {
                    return Err(CheckpointError::UnknownCheckpoint {
                        thread: thread.clone(),
                        namespace: namespace.clone(),
                        id: base,
                    }
                    .into());
                }
            },
        };
        let mut links = Links::new(connection, codec);
        for new in self.changes {
            let field = new.field.clone();
            let tip = links.add(new, tips.get(&field).copied());
            match tip.map_err(|it| it.at(&self.place))? {
                Some(tip) => drop(tips.insert(field, tip)),
                None => drop(tips.remove(&field)),
            }
        }
        let body = add_link(connection, None, 0, &self.body)?;
        let records = records::take_early(connection, namespace_id, *id)?;
        connection
            .prepare_cached(
                "INSERT INTO checkpoint (namespace, id, made_at, run, tips, body, records)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                namespace_id,
                id.to_bytes(),
                self.made_at,
                self.run,
                encode_tips(&tips)?,
                body,
                records
            ])?;
        Ok(())
    }
}

impl Records {
    /// Stores them.
    pub(super) fn run(&self, connection: &Connection) -> rusqlite::Result<()> {
        let namespace = namespace_id(connection, &self.place.thread, &self.place.namespace)?;
        records::add(connection, namespace, self.place.id, self.rows.iter().map(|it| &it.body[..]))
    }
}

/// The row of a namespace, made if it is missing.
fn namespace_id(connection: &Connection, thread: &str, name: &str) -> rusqlite::Result<i64> {
    match find_namespace(connection, thread, name)? {
        Some(id) => Ok(id),
        None => connection
            .prepare_cached("INSERT INTO namespace (thread, name) VALUES (?1, ?2)")?
            .insert([thread, name]),
    }
}

pub(super) fn find_namespace(
    connection: &Connection,
    thread: &str,
    name: &str,
) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM namespace WHERE thread = ?1 AND name = ?2")?
        .query_row([thread, name], |row| row.get(0))
        .optional()
}

/// The run that made a checkpoint, if it is there.
fn run_of(
    connection: &Connection,
    namespace: i64,
    id: CheckpointId,
) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT run FROM checkpoint WHERE namespace = ?1 AND id = ?2")?
        .query_row(params![namespace, id.to_bytes()], |row| row.get(0))
        .optional()
}

pub(super) fn tips(
    connection: &Connection,
    namespace: i64,
    id: CheckpointId,
) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .prepare_cached("SELECT tips FROM checkpoint WHERE namespace = ?1 AND id = ?2")?
        .query_row(params![namespace, id.to_bytes()], |row| row.get(0))
        .optional()
}

/// The newest checkpoint of a namespace, and where its fields' values stand.
fn newest(
    connection: &Connection,
    namespace: i64,
) -> rusqlite::Result<Option<(CheckpointId, Vec<u8>)>> {
    connection
        .prepare_cached(
            "SELECT id, tips FROM checkpoint WHERE namespace = ?1 ORDER BY id DESC LIMIT 1",
        )?
        .query_row([namespace], |row| Ok((id_at(row, 0)?, row.get(1)?)))
        .optional()
}

pub(super) fn head(
    connection: &Connection,
    namespace: i64,
) -> rusqlite::Result<Option<CheckpointId>> {
    Ok(newest(connection, namespace)?.map(|it| it.0))
}

/// A checkpoint's id in a column.
pub(super) fn id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<CheckpointId> {
    row.get(column).map(CheckpointId::from_bytes)
}
