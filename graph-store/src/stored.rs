//! Writes in their stored form, which is made before a database gets them.

use std::collections::{HashMap, hash_map::Entry};

use graph_core::checkpoint::{
    Change, CheckpointError, CheckpointId, Keep, NewCheckpoint, Place, TaskId, TaskRecord,
};

use crate::{
    body::{Body, damaged},
    codec::{Codec, CodecError},
    time::nanos,
};

/// A checkpoint.
#[derive(Debug)]
pub(crate) struct Put {
    pub(crate) place: Place,
    pub(crate) expected_head: Option<CheckpointId>,
    pub(crate) base: Option<CheckpointId>,
    pub(crate) made_at: i64,
    pub(crate) run: String,
    pub(crate) body: Vec<u8>,
    pub(crate) changes: Vec<NewChange>,
}

/// A change of a field, as it is and as it is stored.
#[derive(Debug)]
pub(crate) struct NewChange {
    pub(crate) field: String,
    pub(crate) change: Change,
    pub(crate) encoded: Vec<u8>,
}

impl Put {
    pub(crate) fn new(codec: &Codec, checkpoint: NewCheckpoint) -> Result<Self, CodecError> {
        let NewCheckpoint { place, expected_head, base, header, cursor, changes } = checkpoint;
        let body = Body::encode(codec, place.id, &header, &cursor)?;
        let encode = |(field, change): (String, Change)| {
            let encoded = codec.encode(|| format!("field `{field}`"), &[&change])?;
            Ok(NewChange { field, change, encoded })
        };
        let changes = changes.into_iter().map(encode).collect::<Result<_, _>>()?;
        let made_at = nanos(header.created_at);
        Ok(Self { place, expected_head, base, made_at, run: header.run, body, changes })
    }
}

/// Records of tasks.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) place: Place,
    pub(crate) rows: Vec<RecordRow>,
}

/// A record, with what it is found by where each has a row of its own.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(
        dead_code,
        reason = "in SQLite records hang on each other and are told apart when read"
    )
)]
pub(crate) struct RecordRow {
    pub(crate) task: TaskId,
    pub(crate) slot: String,
    pub(crate) keeps_first: bool,
    pub(crate) body: Vec<u8>,
}

impl Records {
    pub(crate) fn new(
        codec: &Codec,
        place: Place,
        records: &[TaskRecord],
    ) -> Result<Self, CodecError> {
        let row = |record: &TaskRecord| {
            let slot = record.event.slot();
            let what = || format!("what node `{}` came to ({slot})", record.node);
            // With the checkpoint's id, since that stands in the row's key only.
            let body = codec.encode(what, &(place.id, record))?;
            let keeps_first = record.event.keeps_first();
            Ok(RecordRow { task: record.task, slot, keeps_first, body })
        };
        let rows = records.iter().map(row).collect::<Result<_, _>>()?;
        Ok(Self { place, rows })
    }
}

/// Reads a record that is stored for a checkpoint.
pub(crate) fn record(
    codec: &Codec,
    place: &Place,
    bytes: &[u8],
) -> Result<TaskRecord, CheckpointError> {
    let what = || "a task's record".to_owned();
    let damaged = |error: CodecError| damaged(place, &error);
    let (at, record): (CheckpointId, _) = codec.decode(what, bytes).map_err(damaged)?;
    if at != place.id {
        let problem = format!("it was stored for checkpoint {at}");
        return Err(damaged(CodecError::Decode { what: what(), problem }));
    }
    Ok(record)
}

/// What counts of these records, in the order in which they came: in each slot of a task the first, or the last.
pub(crate) fn one_a_slot(records: impl IntoIterator<Item = TaskRecord>) -> Vec<TaskRecord> {
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

/// A rule that a later version of `graph-core` knows.
pub(crate) fn unknown_rule(keep: Keep) -> CheckpointError {
    let problem = format!("this version of graph-store cannot prune by {keep:?}");
    let problem: Box<dyn std::error::Error + Send + Sync> = problem.into();
    CheckpointError::Storage(problem.into())
}
