//! Writes in their stored form.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use graph_core::checkpoint::{
    Change, CheckpointId, NewCheckpoint, Place, TaskId, TaskRecord, Write,
};

use crate::{
    body::Body,
    codec::{Codec, CodecError},
};

/// One write. Shared: it may be stored by somebody else's statement, along with others.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Put(Arc<Put>),
    Record(Arc<Records>),
}

/// A checkpoint.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) place: Place,
    pub(super) expected_head: Option<CheckpointId>,
    pub(super) base: Option<CheckpointId>,
    pub(super) made_at: i64,
    pub(super) run: String,
    pub(super) body: Vec<u8>,
    pub(super) changes: Vec<NewChange>,
}

#[derive(Debug)]
pub(super) struct NewChange {
    pub(super) field: String,
    pub(super) change: Change,
    pub(super) encoded: Vec<u8>,
}

/// Records of tasks.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) place: Place,
    pub(super) rows: Vec<RecordRow>,
}

#[derive(Debug)]
pub(super) struct RecordRow {
    pub(super) task: TaskId,
    pub(super) slot: String,
    pub(super) keeps_first: bool,
    pub(super) body: Vec<u8>,
}

impl Op {
    pub(super) fn new(codec: &Codec, write: Write) -> Result<Self, CodecError> {
        match write {
            Write::Put(checkpoint) => {
                Put::new(codec, *checkpoint).map(|it| Self::Put(Arc::new(it)))
            }
            Write::Record(place, records) => {
                Records::new(codec, place, &records).map(|it| Self::Record(Arc::new(it)))
            }
        }
    }
}

impl Put {
    fn new(codec: &Codec, checkpoint: NewCheckpoint) -> Result<Self, CodecError> {
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

impl Records {
    fn new(codec: &Codec, place: Place, records: &[TaskRecord]) -> Result<Self, CodecError> {
        let row = |record: &TaskRecord| {
            let slot = record.event.slot();
            let what = || format!("what node `{}` came to ({slot})", record.node);
            let body = codec.encode(what, record)?;
            let keeps_first = record.event.keeps_first();
            Ok(RecordRow { task: record.task, slot, keeps_first, body })
        };
        let rows = records.iter().map(row).collect::<Result<_, _>>()?;
        Ok(Self { place, rows })
    }
}

/// A time as it is stored: nanoseconds since 1970, as far as they can be told.
pub(super) fn nanos(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |it| -it),
    }
}
