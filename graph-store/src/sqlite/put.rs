//! Writes checkpoints and task records.

use std::sync::Arc;

use graph_core::checkpoint::{CheckpointError, CheckpointId, CheckpointKey};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    chains::{LinkTable, add_link, decode_tips, encode_tips},
    failure::Failure,
    records,
    thread_cache::{NamespaceState, NewestCheckpoint},
    writer::Session,
};
use crate::{
    body::damaged,
    chain::ChainTips,
    codec::Codec,
    encoded::{EncodedCheckpoint, EncodedRecords},
};

impl EncodedCheckpoint {
    /// Stores the checkpoint, unless the head of its namespace has moved since the run read it.
    pub(super) fn store(
        self,
        session: &mut Session,
        codec: &Codec,
    ) -> Result<(), Failure<CheckpointError>> {
        let NamespaceState { id: namespace, newest } =
            find_or_insert_namespace(session, &self.key)?;
        let connection = &session.connection;
        let (thread, id) = (&self.key.thread, self.key.id);
        let head = newest.as_ref().map(|it| it.id);
        if head != self.expected_head || head.is_some_and(|it| id <= it) {
            let select = "SELECT run FROM checkpoint WHERE namespace = ?1 AND id = ?2";
            return Err(match records::find::<String>(connection, select, namespace, id)? {
                // The checkpoint is already stored.
                Some(run) if run == self.run => return Ok(()),
                None if head == self.expected_head => {
                    CheckpointError::NotNewer { thread: thread.clone(), id }
                }
                _ => CheckpointError::HeadMoved { thread: thread.clone() },
            }
            .into());
        }
        let mut tips = match self.base {
            None => ChainTips::new(),
            Some(base) => match newest.filter(|it| it.id == base).and_then(|it| it.tips) {
                Some(tips) => ChainTips::clone(&tips),
                None => self.base_tips(connection, namespace, base)?,
            },
        };
        let mut links = LinkTable::new(connection, codec);
        for new in self.changes {
            let field = new.field.clone();
            let tip = links.add(new, tips.get(&field).copied());
            match tip.map_err(|it| it.of_checkpoint(&self.key))? {
                Some(tip) => drop(tips.insert(field, tip)),
                None => drop(tips.remove(&field)),
            }
        }
        let body = add_link(connection, None, 0, &self.body)?;
        let records = records::take_early(session, namespace, id)?;
        session
            .connection
            .prepare_cached(
                "INSERT INTO checkpoint (namespace, id, made_at, run, tips, body, records)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                namespace,
                id.to_bytes(),
                self.made_at,
                self.run,
                encode_tips(&tips)?,
                body,
                records
            ])?;
        let newest = Some(NewestCheckpoint { id, tips: Some(Arc::new(tips)), records });
        session.cache.set_namespace(&self.key, NamespaceState { id: namespace, newest });
        Ok(())
    }

    /// Returns the chain tips of the checkpoint that the changes are relative to.
    fn base_tips(
        &self,
        connection: &Connection,
        namespace: i64,
        base: CheckpointId,
    ) -> Result<ChainTips, Failure<CheckpointError>> {
        match tips(connection, namespace, base)? {
            Some(bytes) => Ok(decode_tips(&bytes).map_err(|it| damaged(&self.key, &it))?),
            None => Err(CheckpointError::UnknownCheckpoint {
                thread: self.key.thread.clone(),
                namespace: self.key.namespace.clone(),
                id: base,
            }
            .into()),
        }
    }
}

impl EncodedRecords {
    /// Stores the task records.
    pub(super) fn store(&self, session: &mut Session) -> rusqlite::Result<()> {
        let mut namespace = find_or_insert_namespace(session, &self.key)?;
        let (id, bodies) = (self.key.id, self.rows.iter().map(|it| &it.body[..]));
        match namespace.newest.as_mut().filter(|it| it.id == id) {
            Some(newest) => {
                let connection = &session.connection;
                newest.records =
                    records::append(connection, namespace.id, id, newest.records, bodies)?;
                session.cache.set_namespace(&self.key, namespace);
            }
            None if !records::add(&session.connection, namespace.id, id, bodies)? => {
                session.cache.mark_early();
            }
            None => {}
        }
        Ok(())
    }
}

/// Returns the state of a namespace. Inserts the row of the namespace if it is missing.
fn find_or_insert_namespace(
    session: &mut Session,
    key: &CheckpointKey,
) -> rusqlite::Result<NamespaceState> {
    if let Some(cached) = session.cache.namespace(key) {
        return Ok(cached);
    }
    let CheckpointKey { thread, namespace, .. } = key;
    let connection = &session.connection;
    let namespace = match find_namespace(connection, thread, namespace)? {
        Some(id) => NamespaceState { id, newest: newest(connection, id)? },
        None => {
            let id = connection
                .prepare_cached("INSERT INTO namespace (thread, name) VALUES (?1, ?2)")?
                .insert([thread, namespace])?;
            NamespaceState { id, newest: None }
        }
    };
    session.cache.set_namespace(key, namespace.clone());
    Ok(namespace)
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

pub(super) fn tips(
    connection: &Connection,
    namespace: i64,
    id: CheckpointId,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let select = "SELECT tips FROM checkpoint WHERE namespace = ?1 AND id = ?2";
    records::find(connection, select, namespace, id)
}

/// Returns the newest checkpoint in a namespace.
fn newest(connection: &Connection, namespace: i64) -> rusqlite::Result<Option<NewestCheckpoint>> {
    connection
        .prepare_cached(
            "SELECT id, tips, records FROM checkpoint
             WHERE namespace = ?1 ORDER BY id DESC LIMIT 1",
        )?
        .query_row([namespace], |row| {
            let tips = decode_tips(row.get_ref(1)?.as_blob()?).ok().map(Arc::new);
            Ok(NewestCheckpoint { id: id_at(row, 0)?, tips, records: row.get(2)? })
        })
        .optional()
}

pub(super) fn head(
    connection: &Connection,
    namespace: i64,
) -> rusqlite::Result<Option<CheckpointId>> {
    Ok(newest(connection, namespace)?.map(|it| it.id))
}

/// Reads a checkpoint id from a column.
pub(super) fn id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<CheckpointId> {
    row.get(column).map(CheckpointId::from_bytes)
}
