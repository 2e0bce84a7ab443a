//! Checkpoints and task records in their stored form. They are encoded before they are passed to a database.

use graph_core::checkpoint::{
    Change, CheckpointError, CheckpointId, CheckpointKey, Keep, NewCheckpoint, TaskId, TaskRecord,
};

use crate::{
    body::{Body, damaged},
    codec::{Codec, CodecError},
    time::nanos,
};

/// A checkpoint whose body and changes are encoded.
#[derive(Debug)]
pub(crate) struct EncodedCheckpoint {
    pub(crate) key: CheckpointKey,
    pub(crate) expected_head: Option<CheckpointId>,
    pub(crate) base: Option<CheckpointId>,
    pub(crate) made_at: i64,
    pub(crate) run: String,
    pub(crate) body: Vec<u8>,
    pub(crate) changes: Vec<EncodedChange>,
}

/// A change to a field, in decoded and in encoded form.
#[derive(Debug)]
pub(crate) struct EncodedChange {
    pub(crate) field: String,
    pub(crate) change: Change,
    pub(crate) encoded: Vec<u8>,
}

impl EncodedCheckpoint {
    pub(crate) fn new(codec: &Codec, checkpoint: NewCheckpoint) -> Result<Self, CodecError> {
        let NewCheckpoint { key, expected_head, base, header, frontier, changes } = checkpoint;
        let body = Body::encode(codec, key.id, &header, &frontier)?;
        let encode = |(field, change): (String, Change)| {
            let encoded = codec.encode(|| format!("field `{field}`"), &[&change])?;
            Ok(EncodedChange { field, change, encoded })
        };
        let changes = changes.into_iter().map(encode).collect::<Result<_, _>>()?;
        let made_at = nanos(header.created_at);
        Ok(Self { key, expected_head, base, made_at, run: header.run, body, changes })
    }
}

/// The encoded task records of a checkpoint.
#[derive(Debug)]
pub(crate) struct EncodedRecords {
    pub(crate) key: CheckpointKey,
    pub(crate) rows: Vec<EncodedRecord>,
}

/// An encoded task record and the key of its row, for databases with one row per record.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(
        dead_code,
        reason = "SQLite stores records as a chain and decodes their keys when reading"
    )
)]
pub(crate) struct EncodedRecord {
    pub(crate) task: TaskId,
    pub(crate) slot: String,
    pub(crate) keeps_first: bool,
    pub(crate) body: Vec<u8>,
}

impl EncodedRecords {
    pub(crate) fn new(
        codec: &Codec,
        key: CheckpointKey,
        records: &[TaskRecord],
    ) -> Result<Self, CodecError> {
        let row = |record: &TaskRecord| {
            let slot = record.event.slot();
            let what = || format!("the record of node `{}` ({slot})", record.node);
            // The body includes the checkpoint's id, so that `decode_record` can verify that the row belongs to that
            // checkpoint.
            let body = codec.encode(what, &(key.id, record))?;
            let keeps_first = record.event.keeps_first();
            Ok(EncodedRecord { task: record.task, slot, keeps_first, body })
        };
        let rows = records.iter().map(row).collect::<Result<_, _>>()?;
        Ok(Self { key, rows })
    }
}

/// Decodes a record that is stored for the checkpoint `key` and verifies the checkpoint id in the record.
pub(crate) fn decode_record(
    codec: &Codec,
    key: &CheckpointKey,
    bytes: &[u8],
) -> Result<TaskRecord, CheckpointError> {
    let what = || "a task record".to_owned();
    let damaged = |error: CodecError| damaged(key, &error);
    let (at, record): (CheckpointId, _) = codec.decode(what, bytes).map_err(damaged)?;
    if at != key.id {
        let problem = format!("it belongs to checkpoint {at}");
        return Err(damaged(CodecError::Decode { what: what(), problem }));
    }
    Ok(record)
}

/// Returns the error for a [`Keep`] rule that a newer version of `graph-core` introduced.
pub(crate) fn unsupported_keep(keep: Keep) -> CheckpointError {
    let problem = format!("this version of graph-store does not support pruning by {keep:?}");
    let problem: Box<dyn std::error::Error + Send + Sync> = problem.into();
    CheckpointError::Storage(problem.into())
}
