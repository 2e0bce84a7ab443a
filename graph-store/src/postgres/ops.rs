//! Encoded writes of checkpoints and task records.

use std::sync::Arc;

use graph_core::checkpoint::CheckpointWrite;

use crate::{
    codec::{Codec, CodecError},
    encoded::{EncodedCheckpoint, EncodedRecords},
};

/// One write. Its data is shared, because a statement sent by another caller may store it together with other
/// writes.
#[derive(Clone, Debug)]
pub(super) enum WriteOp {
    Put(Arc<EncodedCheckpoint>),
    Record(Arc<EncodedRecords>),
}

impl WriteOp {
    pub(super) fn new(codec: &Codec, write: CheckpointWrite) -> Result<Self, CodecError> {
        match write {
            CheckpointWrite::Put(checkpoint) => {
                EncodedCheckpoint::new(codec, *checkpoint).map(|it| Self::Put(Arc::new(it)))
            }
            CheckpointWrite::Record(key, records) => {
                EncodedRecords::new(codec, key, &records).map(|it| Self::Record(Arc::new(it)))
            }
        }
    }
}
