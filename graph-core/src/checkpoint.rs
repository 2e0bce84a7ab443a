//! Checkpoints, and the trait [`Checkpointer`], which stores them. A checkpoint is a snapshot of a thread after a step.
//!
//! A checkpoint is written as a [`NewCheckpoint`], which contains only the changes since its base, and read back as a
//! complete [`Checkpoint`]. How the changes are stored is up to the checkpointer.

pub(crate) mod error;
pub(crate) mod id;
pub(crate) mod memory;
pub(crate) mod query;
pub(crate) mod record;
pub(crate) mod saver;
pub(crate) mod stored;
pub(crate) mod writer;

pub use self::{
    error::CheckpointError,
    id::{CheckpointId, TaskId},
    memory::MemorySaver,
    query::{HistoryQuery, Keep, Lookup, PruneStats},
    record::{FrontierRecord, GotoRecord, TaskEvent, TaskRecord},
    saver::{Checkpointer, Lease},
    stored::{Checkpoint, CheckpointKey, CheckpointWrite, Header, NewCheckpoint, Source},
};
pub use crate::state::change::Change;
